"""Separators, decimal commas and encodings are options."""

from __future__ import annotations

import gc
import gzip
from pathlib import Path
from typing import Any

import pytest

from metapac import InvalidInput
from metapac.tables.csv_text import open_text, recode, separator_of
from metapac.tables.engines import Reading


@pytest.mark.parametrize(
    "options",
    [
        {"separator": ";;"},
        {"separator": '"'},
        {"separator": "a"},
        {"separator": "\udcff"},
        {"decimal": "'"},
        {"encoding": "klingon"},
        {"encoding": "hex"},
        {"encoding": 5},
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"^{next(iter(options))} must be"):
        Reading(**options)


def test_one_encoding_has_one_name() -> None:
    assert Reading(encoding="Latin-1") == Reading(encoding="iso-8859-1")
    assert Reading(encoding="UTF8") == Reading(encoding="utf-8-sig") == Reading()


@pytest.mark.parametrize(
    ("name", "separator"),
    [("a.csv", ","), ("a.tsv", "\t"), ("a.TSV.GZ", "\t"), ("a", ","), ("a.txt", ",")],
)
def test_the_name_gives_the_separator(name: str, separator: str) -> None:
    assert separator_of(Path(name), Reading()) == separator
    assert separator_of(Path(name), Reading(separator="|")) == "|"


TEXT = "site\n\N{LATIN SMALL LETTER E WITH ACUTE}\n"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [(TEXT.encode("latin-1"), "utf-8"), (TEXT.encode("utf-16"), "utf-8"), (b"a\n\xff", "utf-16")],
)
def test_the_wrong_encoding_is_rejected(tmp_path: Path, content: bytes, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(content))
    for path in tmp_path.iterdir():
        with (
            pytest.raises(InvalidInput, match=f"{path} is not {encoding} text. .*encoding="),
            open_text(path, Reading(encoding=encoding)) as file,
        ):
            file.read()


class Owner:
    """Something that copies belong to."""


def test_copies_are_private_and_go_with_their_owner(tmp_path: Path) -> None:
    (tmp_path / "site=ohio").mkdir()
    path = tmp_path / "site=ohio" / "a.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode("utf-16")))
    owner = Owner()
    (copy,) = recode([path], Reading(encoding="utf-16"), owner)
    assert copy.read_text(encoding="utf-8") == TEXT
    assert copy.parent.name == "site=ohio"
    folder = copy.parent.parent
    assert folder.stat().st_mode & 0o077 == 0
    del owner
    gc.collect()
    assert not folder.exists()
