"""How a CSV file is written: its separator, its decimal character and its encoding."""

from __future__ import annotations

import codecs
import csv
import gzip
import shutil
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from metapac._checks import check_one_of
from metapac._files import private_folder
from metapac.exceptions import InvalidInput, Parameter

_UTF8 = "utf-8"


class OpenOption(Parameter):
    """An option of ``open_table`` that a message recommends.

    Parameters
    ----------
    name : str
        Name of the option.
    value : object, optional
        Value to pass.

    Examples
    --------
    >>> from metapac.tables.io.csv_format import OpenOption
    >>> print(OpenOption("separator", ";"))
    open_table(..., separator=';')
    """

    def __str__(self) -> str:
        return f"open_table(..., {super().__str__()})"


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written.

    Parameters
    ----------
    separator : str, optional
        Character between columns; by default a tab in .tsv files and a comma in all others.
    decimal : {".", ","}, default "."
        Decimal character of numbers.
    encoding : str, default "utf-8"
        Encoding of the text, such as "latin-1", "windows-1252" or "utf-16".

    Raises
    ------
    InvalidInput
        If a value is not valid.
    """

    separator: str | None = None
    decimal: str = "."
    encoding: str = _UTF8

    def __post_init__(self) -> None:
        if self.separator is not None:
            _check_separator(self.separator)
        check_one_of("decimal", self.decimal, (".", ","))
        object.__setattr__(self, "encoding", _codec_name(self.encoding))

    @property
    def is_utf8(self) -> bool:
        """Whether an engine can read the file as it is."""
        return self.encoding in (_UTF8, "ascii", "utf-8-sig")

    def separator_of(self, path: Path) -> str:
        """Return the separator of a file.

        Parameters
        ----------
        path : Path
            The file.

        Returns
        -------
        str
            The separator.
        """
        if self.separator is not None:
            return self.separator
        suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
        return "\t" if suffixes[-1:] == [".tsv"] else ","

    @contextmanager
    def open(self, path: Path) -> Iterator[IO[str]]:
        """Open a file as text.

        Parameters
        ----------
        path : Path
            The file, which may be compressed with gzip.

        Yields
        ------
        text file
            The open file, without the byte order mark.

        Raises
        ------
        InvalidInput
            If it is not text in this encoding; the message names the likely one.
        """
        opener = gzip.open if path.suffix.lower() == ".gz" else open
        encoding = "utf-8-sig" if self.is_utf8 else self.encoding
        try:
            with opener(path, "rt", encoding=encoding, newline="") as file:
                yield file
        except UnicodeError as error:
            raise self._wrong_encoding(path) from error
        except (csv.Error, EOFError, gzip.BadGzipFile) as error:
            raise InvalidInput(f"{path} is not readable as CSV ({error}).") from error

    def _wrong_encoding(self, path: Path) -> InvalidInput:
        likely = guess_encoding(path)
        name = "UTF-8" if self.is_utf8 else self.encoding
        if codecs.lookup(likely).name == self.encoding:
            return InvalidInput(f"{path} is not text in the encoding {name}. Convert it to UTF-8.")
        return InvalidInput(
            "{} is not {} text; it looks like {}. Read it with {}.",
            path,
            name,
            likely,
            OpenOption("encoding", likely),
        )


def guess_encoding(path: Path) -> str:
    """Return the likely encoding of a file of text.

    Parameters
    ----------
    path : Path
        The file, which may be compressed with gzip.

    Returns
    -------
    str
        The encoding.
    """
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        content: bytes = file.read(1 << 20)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in content:
        return "utf-16-le" if content[1:2] == b"\0" else "utf-16-be"
    if not any(0x80 <= byte < 0xA0 for byte in content):
        return "latin-1"
    try:
        content.decode("windows-1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "windows-1252"


def recode(paths: Sequence[Path], csv_format: CsvFormat, owner: Any) -> list[Path]:
    """Copy files as UTF-8 to a private folder, which is removed with its owner.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    csv_format : CsvFormat
        Their format.
    owner : object
        The connection that reads the copies.

    Returns
    -------
    list of Path
        The copies, under folders such as site=ohio if the files are.
    """
    scratch, copies = ExitStack(), []
    folder = scratch.enter_context(private_folder("metapac-csv"))
    weakref.finalize(owner, scratch.close)
    for i, path in enumerate(paths):
        partitions = _partitions(path.absolute().parent)
        copy = folder.joinpath(*partitions, f"{i}-{path.name.removesuffix(path.suffix)}.csv")
        copy.parent.mkdir(parents=True, exist_ok=True)
        with csv_format.open(path) as text, copy.open("w", encoding=_UTF8, newline="") as file:
            shutil.copyfileobj(text, file, 1 << 20)
        copies.append(copy)
    return copies


def _partitions(folder: Path) -> list[str]:
    """Return the folders like site=ohio at the end of a path."""
    names: list[str] = []
    while "=" in folder.name:
        names.insert(0, folder.name)
        folder = folder.parent
    return names


def _check_separator(separator: Any) -> None:
    is_character = isinstance(separator, str) and len(separator) == 1
    is_half = is_character and "\ud800" <= separator <= "\udfff"  # a byte that is not UTF-8
    if not is_character or is_half or separator in '"\r\n\0' or separator.isalnum():
        raise InvalidInput(
            "{} must be one character such as ';', '|' or a tab, got {!r}.",
            Parameter("separator"),
            separator,
        )


def _codec_name(encoding: Any) -> str:
    """Return Python's name of an encoding, so that one encoding has one name."""
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError):
        raise InvalidInput(
            "{} must be the name of a text encoding, such as 'latin-1', 'windows-1252' or 'utf-16',"
            " got {!r}.",
            Parameter("encoding"),
            encoding,
        ) from None


PLAIN = CsvFormat()
