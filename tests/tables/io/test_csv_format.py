"""Separators, decimal commas and encodings are options, and the likely encoding is named."""

from __future__ import annotations

import gc
import gzip
from pathlib import Path
from typing import Any

import pytest

from metapac import InvalidInput
from metapac.tables.csv_text import CsvFormat, guess_encoding, recode


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ";;"}, "separator must be one character such as ';', '|' or a tab, got ';;"),
        ({"separator": '"'}, "separator must be one character"),
        ({"separator": "a"}, "separator must be one character"),
        ({"separator": "\udcff"}, "separator must be one character"),
        ({"decimal": "'"}, "decimal must be '.' or ',', got \"'\""),
        ({"encoding": "klingon"}, "encoding must be the name of a text encoding, .* got 'klingon'"),
        ({"encoding": "hex"}, "encoding must be the name of a text encoding"),
        ({"encoding": 5}, "encoding must be the name of a text encoding"),
    ],
)  # fmt: skip
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        CsvFormat(**options)


def test_one_encoding_has_one_name() -> None:
    assert CsvFormat(encoding="Latin-1") == CsvFormat(encoding="iso-8859-1")
    assert CsvFormat(encoding="UTF8") == CsvFormat()


@pytest.mark.parametrize(
    ("name", "separator"),
    [("a.csv", ","), ("a.tsv", "\t"), ("a.TSV.GZ", "\t"), ("a", ","), ("a.txt", ",")],
)
def test_the_name_gives_the_separator(name: str, separator: str) -> None:
    assert CsvFormat().separator_of(Path(name)) == separator
    assert CsvFormat("|").separator_of(Path(name)) == "|"


TEXT = "site\n\N{LATIN SMALL LETTER E WITH ACUTE}\n"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (TEXT.encode("latin-1"), "latin-1"),
        ((TEXT + "\N{EURO SIGN}").encode("windows-1252"), "windows-1252"),
        (TEXT.encode("latin-1") + b"\x81", "latin-1"),
        (TEXT.encode("utf-16"), "utf-16"),
        (TEXT.encode("utf-16-le"), "utf-16-le"),
        (TEXT.encode("utf-16-be"), "utf-16-be"),
    ],
)
def test_the_likely_encoding_is_named(tmp_path: Path, content: bytes, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(content))
    for name in ("a.csv", "a.csv.gz"):
        path = tmp_path / name
        assert guess_encoding(path) == encoding
        with CsvFormat(encoding=encoding).open(path) as file:
            assert file.read().startswith(TEXT)
    if not encoding.startswith("utf-16-"):  # whose zeros are UTF-8 text too
        message = rf"a.csv is not UTF-8 text; it looks like {encoding}. Read it with encoding="
        with pytest.raises(InvalidInput, match=message), CsvFormat().open(tmp_path / "a.csv") as f:
            f.read()


def test_the_wrong_encoding_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a\n\xff")
    message = "a.csv is not utf-16 text; it looks like latin-1"
    utf16 = CsvFormat(encoding="utf-16")
    with pytest.raises(InvalidInput, match=message), utf16.open(tmp_path / "a.csv") as file:
        file.read()


class Owner:
    """Something that copies belong to."""


def test_copies_are_private_and_go_with_their_owner(tmp_path: Path) -> None:
    (tmp_path / "site=ohio").mkdir()
    path = tmp_path / "site=ohio" / "a.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode("utf-16")))
    owner = Owner()
    (copy,) = recode([path], CsvFormat(encoding="utf-16"), owner)
    assert copy.read_text(encoding="utf-8") == TEXT
    assert copy.parent.name == "site=ohio"
    folder = copy.parent.parent
    assert folder.stat().st_mode & 0o077 == 0
    del owner
    gc.collect()
    assert not folder.exists()
