"""Limits on compressed files: how much more than its size a file may unpack to."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from metapac._common import PathLike
from metapac.errors import BadArchive, EngineError

# Deflate shrinks one row of text, repeated, to 1/400, a sheet of constants to 1/13, and a bomb to
# 1/1032, its limit. Up to 128 MiB, anything goes.
_GZIP_RATIO, _ZIP_RATIO, _DEFLATE_RATIO, _ANY_RATIO = 500, 200, 1032, 1 << 27


def check_unpacked(path: Path) -> None:
    """Raise BadArchive if a .gz file unpacks to far more than its size; other files are ignored."""
    if path.suffix.lower() == ".gz" and path.stat().st_size * _DEFLATE_RATIO > _ANY_RATIO:
        all(read_unpacked(path))  # every part is true: all are read


def read_unpacked(path: PathLike) -> Iterator[tuple[str, bytes]]:
    """Yield what is in a .gz or zip file, with the names of members; raise as `check_ratio`."""
    done = 0
    try:
        for name, member in _open_members(Path(path)):
            while chunk := member.read(1 << 20):
                done += len(chunk)
                check_ratio(path, done)
                yield name, chunk
    except BadArchive:
        raise
    except Exception as error:  # gzip and zipfile raise errors of many types
        raise EngineError(f"{path} cannot be read ({error}). Copy or save it again.") from error


def _open_members(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as unzipped:
            yield "", unzipped
        return
    with zipfile.ZipFile(path) as zipped:
        for info in zipped.infolist():
            info.file_size = 1 << 62  # otherwise zipfile hides bytes beyond the stated size
            with zipped.open(info) as member:
                yield info.filename, member


def check_stated_size(path: PathLike) -> None:
    """Raise BadArchive if a zip file states far more bytes than its size; zipfile reads no more."""
    size = 0
    with suppress(Exception), zipfile.ZipFile(path) as zipped:  # whoever reads it explains
        size = sum(info.file_size for info in zipped.infolist())
    check_ratio(path, size)


def check_ratio(path: PathLike, unpacked: int) -> None:
    """Raise BadArchive if so many bytes are far more than the size of the file that held them."""
    packed = Path(path).stat().st_size
    ratio = _GZIP_RATIO if Path(path).suffix.lower() == ".gz" else _ZIP_RATIO
    if unpacked > max(_ANY_RATIO, ratio * packed):
        raise BadArchive(
            f"{path} unpacks to more than {unpacked // packed:,} times its {packed:,} bytes; above "
            f"{_ANY_RATIO >> 20} MiB, at most {ratio} times are read. If you trust it, unpack it "
            "yourself, or save a workbook as CSV."
        )
