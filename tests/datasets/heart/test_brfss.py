"""SAS transport files: every number is read exactly, and incomplete files are rejected."""

from __future__ import annotations

import os
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metapac.fewshot.datasets import heart_files
from metapac.fewshot.datasets.heart_files import ibm_numbers, open_transport
from tests.helpers.sas_files import head, header, ibm, padded, write_transport

MISSING = [".", "._", *(f".{chr(code)}" for code in range(ord("A"), ord("Z") + 1))]
AGAIN = r"Delete it and run 'metapac data fetch heart' again\."

# Every number that IBM can hold exactly: 53 bits of fraction, exponents far beyond a survey's.
whole_or_not = st.builds(
    lambda n, e: float(np.ldexp(n, e)),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.integers(-200, 140),
)
answers = st.sampled_from([*MISSING, 0.0, 1.0, 2.0, 7.0, 9.0, -1.0, 88.0, 9999.0]) | whole_or_not


def words(raw: list[int]) -> NDArray[np.uint64]:
    return np.array(raw, np.uint64)


def column(path: Path, *names: str) -> NDArray[np.float64]:
    return np.concatenate(list(open_transport(path).blocks(names)))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (0x4110000000000000, 1.0),
        (0xC276A00000000000, -118.625),
        (0x0000000000000000, 0.0),
        (0x401999999999999A, 0.1),
        (0x0010000000000000, 16.0**-65),
        (0x7FFFFFFFFFFFFFFF, 16.0**63),
        (0xFFFFFFFFFFFFFFFF, -(16.0**63)),
        (0x8010000000000000, -(16.0**-65)),
        (0x3310000000000000, 16.0**-14),
    ],
)
def test_known_numbers(word: int, value: float) -> None:
    assert ibm_numbers(words([word])).tolist() == [value]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_a_number_is_its_fraction_times_a_power_of_16(raw: list[int]) -> None:
    for word, transport in zip(raw, ibm_numbers(words(raw)).tolist(), strict=True):
        sign = -1 if word >> 63 else 1
        exponent, fraction = (word >> 56) % 128 - 64, word % 2**56
        if fraction:
            assert transport == float(sign * Fraction(16) ** exponent * Fraction(fraction, 2**56))


def test_missing_is_a_code_without_a_fraction() -> None:
    marks = {ord(mark[-1]) for mark in MISSING}
    for lead in range(256):
        bare, with_fraction = ibm_numbers(words([lead << 56, (lead << 56) + 1])).tolist()
        assert np.isnan(bare) == (lead in marks)
        assert bare == 0 or lead in marks
        assert with_fraction != 0


@given(data=st.data(), rows=st.integers(0, 12), block=st.integers(1, 300))
def test_files_are_read_as_pandas_reads_them(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, rows: int, block: int
) -> None:
    pd = pytest.importorskip("pandas")
    names = [f"_V{i}" for i in range(data.draw(st.integers(1, 5)))]
    text = {name: data.draw(st.integers(1, 30)) for name in names[1:] if data.draw(st.booleans())}
    numeric = [name for name in names if name not in text]
    widths = {name: data.draw(st.integers(2, 8)) for name in numeric}
    columns: dict[str, Any] = {
        name: ["x"] * rows
        if name in text
        else data.draw(st.lists(answers, min_size=rows, max_size=rows))
        for name in names
    }
    text["WIDE"], columns["WIDE"] = 80, ["y"] * rows  # pandas mistakes padding for narrow rows
    path = tmp_path_factory.getbasetemp() / "LLCP2011.XPT "
    write_transport(path, columns, text=text, widths=widths)
    transport = open_transport(path)
    assert [name for name, column in transport.columns.items() if column.text] == [*text]
    assert (transport.rows, [*transport.columns]) == (rows, [*names, "WIDE"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heart_files, "_BLOCK", block)
        blocks = list(transport.blocks(numeric))
    assert max((len(part) for part in blocks), default=0) <= max(1, block // transport.width)
    read = np.concatenate([np.empty((0, len(numeric))), *blocks])
    if rows:  # pandas cannot read a file without rows
        expected = pd.read_sas(path, format="xport", encoding="latin1")[numeric].to_numpy(float)
        expected = np.where(expected == 16.0**-65, 0, expected)  # pandas reads a zero as this
        np.testing.assert_array_equal(read, expected)
    assert read.shape == (rows, len(numeric))


def test_columns_are_read_by_name_in_any_order(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"seqno": ["11", "12"], "A": [1, 2], "b": [3.5, "."], "C": [5, 6]}
    path = write_transport(tmp_path / "x", columns, text={"seqno": 10})
    assert [*open_transport(path).columns] == ["SEQNO", "A", "B", "C"]
    np.testing.assert_array_equal(column(path, "C", "A"), [[5, 1], [6, 2]])
    np.testing.assert_array_equal(column(path, "B"), [[3.5], [np.nan]])


def test_short_descriptions_of_columns_are_read_too(tmp_path: Path) -> None:
    path = write_transport(tmp_path / "x", {"A": [1, 2], "B": [3, 4]}, entry=136)
    np.testing.assert_array_equal(column(path, "B", "A"), [[3, 1], [4, 2]])


@pytest.mark.parametrize("width", [2, 3, 7, 8])
def test_padding_is_not_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(heart_files, "_BLOCK", 5 * width)
    for rows in range(1, 85):
        path = write_transport(tmp_path / "x", {"A": [2.0] * rows}, widths={"A": width})
        assert column(path, "A").tolist() == [[2.0]] * rows
    assert open_transport(write_transport(path, {"A": []}, widths={"A": width})).rows == 0


def test_blanks_at_the_end_of_the_last_row_belong_to_it(tmp_path: Path) -> None:
    for width in (1, 60, 79, 80, 200):
        columns: dict[str, Any] = {"A": [1.0, 2.0], "NOTE": ["x", ""]}
        path = write_transport(tmp_path / "x", columns, text={"NOTE": width})
        np.testing.assert_array_equal(column(path, "A"), [[1], [2]])
    path = write_transport(tmp_path / "x", {"NOTE": ["x", ""]}, text={"NOTE": 80})
    assert open_transport(path).rows == 2  # more blanks than padding has


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    columns = {f"V{i}": [1.0] * 7 for i in range(11)}
    path = write_transport(tmp_path / "LLCP2011.XPT", columns)
    start = open_transport(path).start
    for length in reversed(range(1, path.stat().st_size)):
        os.truncate(path, length)
        if length == start:  # a whole file without any row
            assert open_transport(path).rows == 0
            continue
        with pytest.raises(ValueError, match=r"LLCP2011\.XPT is truncated: "):
            open_transport(path)


@pytest.mark.parametrize(
    ("length", "why"),
    [
        (300, "its header is not complete"),
        (-80, "row 7 of 296 bytes is not complete"),
        (-1, "it has 7999 bytes, which is not a multiple of 80"),
    ],
)
def test_a_truncated_file_is_refused(tmp_path: Path, length: int, why: str) -> None:
    path = write_transport(tmp_path / "x", {f"V{i}": [1.0] * 7 for i in range(37)})
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match=f"x is truncated: {why}. {AGAIN}"):
        open_transport(path)


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = write_transport(tmp_path / "x", {"A": [1.0] * 100})
    file = open_transport(path)
    path.write_bytes(path.read_bytes()[:-80])
    with pytest.raises(ValueError, match=f"x is truncated: it ended while it was read. {AGAIN}"):
        list(file.blocks(["A"]))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "LLCP2011.XPT"
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=f"LLCP2011.XPT has zero bytes. {AGAIN}"):
        open_transport(path)
    message = f"LLCP2011.XPT is not a SAS transport file of version 5: .* no %s header .* {AGAIN}"
    path.write_bytes(b"PK\3\4" + bytes(1000))
    with pytest.raises(ValueError, match=message % "LIBRARY"):
        open_transport(path)
    path.write_bytes(head({"A": (False, 8)}).replace(b"NAMESTR", b"NAMSTV8") + padded(ibm(1.0)))
    with pytest.raises(ValueError, match=message % "NAMESTR"):
        open_transport(path)


@pytest.mark.parametrize(
    "columns",
    [{}, {"A": (False, 9)}, {"A": (False, 1)}, {"A": (True, 0)}, {"A": (True, 4), "B": (False, 0)}],
)
def test_a_header_with_impossible_columns_is_refused(
    tmp_path: Path, columns: dict[str, tuple[bool, int]]
) -> None:
    path = tmp_path / "x"
    path.write_bytes(head(columns) + padded(bytes(80)))
    with pytest.raises(ValueError, match=f"x is damaged: its columns do not make a row. {AGAIN}"):
        open_transport(path)


def test_a_damaged_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    whole = head({"A": (False, 8), "B": (False, 8)})
    start = (8).to_bytes(4, "big") + bytes(52)
    for damage in (start.replace(b"\10", b"\11"), start.replace(b"\10", b"\0")):
        path.write_bytes(whole.replace(start, damage) + padded(ibm(1.0) * 2))
        with pytest.raises(ValueError, match="x is damaged: its columns do not make a row"):
            open_transport(path)
    for part, numbers in (("NAMESTR", "000000 -12"), ("MEMBER", "000000000000000001600000    x")):
        at = whole.index(header(part)[:48])
        path.write_bytes(whole[:at] + header(part, numbers) + whole[at + 80 :])
        with pytest.raises(ValueError, match="x is damaged: its header does not count its columns"):
            open_transport(path)


def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heart_files, "_BLOCK", 2**16)
    columns = {f"V{i}": (False, 8) for i in range(20)}
    (tmp_path / "x").write_bytes(head(columns) + padded(ibm(1.0) * 20 * 10_000))  # 24 blocks
    file = open_transport(tmp_path / "x")
    tracemalloc.start()
    try:
        rows = sum(len(block) for block in file.blocks([*columns]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows == 10_000
    assert peak < 10 * 2**16
