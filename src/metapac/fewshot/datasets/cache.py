"""The cache of prepared data sets."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, Self, TypedDict

import numpy as np
from numpy.lib import format as npy

from metapac import artefact
from metapac._common import Array, PathLike, data_home
from metapac._text import format_table
from metapac.artefact import clear_leftovers, file_version, new_folder, temporary_name
from metapac.errors import BadArtefact, InvalidInput

Home = PathLike | None

_DAY = 24 * 3600 * 10**9  # nanoseconds; a folder unused for a day is not in use by any process
_CACHE = re.compile(r"prepared-[0-9a-f]{16}")
_LEFTOVER = rf"\.{_CACHE.pattern}\.[0-9a-f]{{16}}\.partial"  # see temporary_name


@dataclass(frozen=True, eq=False)
class Prepared(Mapping[str, Array]):
    """The memory-mapped arrays of a prepared data set, by name.

    Attributes
    ----------
    folder : Path
        Where they are stored.
    facts : dict
        Facts about them, such as classes and counts.
    arrays : dict of str to ndarray
        The arrays.
    checksum : str
        Checksum of the facts and of all arrays.
    """

    folder: Path
    facts: dict[str, Any]
    arrays: dict[str, np.memmap[Any, Any]] = field(repr=False)
    checksum: str

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def to_dict(self) -> dict[str, Any]:
        """Return where the data are, and the facts about them, as JSON can hold them."""
        return {"folder": str(self.folder), "checksum": self.checksum, **self.facts}

    def __str__(self) -> str:
        splits = self.facts["splits"]
        columns = dict.fromkeys(key for row in splits.values() for key in row)
        rows = [
            {"split": split} | {name: _format_number(row.get(name)) for name in columns}
            for split, row in splits.items()
        ]
        size = sum(array.nbytes for array in self.arrays.values()) / 2**20
        place = f"{size:,.0f} MiB in {self.folder}"
        return "\n".join([format_table(rows), *self.facts["notes"], place])

    def verify(self) -> None:
        """Compare every array with its checksum, once per process if nothing changes."""
        recorded = _read(self.folder)["arrays"]
        for name, array in self.arrays.items():
            path = self.folder / f"{name}.npy"
            if _digest(path, array.offset, file_version(path)) != recorded[name]["sha256"]:
                raise _damaged(self.folder, f"{name}.npy does not match its checksum")


def _format_number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.1%}"


class Writer:
    """Writes arrays row by row, one file per array, without holding them in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arrays: dict[str, _GrowingArray] = {}

    def append(self, name: str, rows: Array) -> None:
        """Add rows to an array."""
        if name not in self._arrays:
            self._arrays[name] = _GrowingArray(self._folder / f"{name}.npy", rows)
        self._arrays[name].append(rows)

    def finish(self) -> dict[str, Any]:
        """Complete the files."""
        return {name: array.finish() for name, array in self._arrays.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for array in self._arrays.values():
            array.file.close()


class _GrowingArray:
    """An .npy file whose header is rewritten in place once the number of rows is known."""

    def __init__(self, path: Path, like: Array) -> None:
        self.dtype, self.row_shape = like.dtype, like.shape[1:]
        self.rows, self.digest = 0, hashlib.sha256()
        self.file: IO[bytes] = path.open("xb")
        self._write_header()

    def _write_header(self) -> None:
        shape = (self.rows, *self.row_shape)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self.file, header)  # leaves room for more digits

    def append(self, rows: Array) -> None:
        if (rows.dtype, rows.shape[1:]) != (self.dtype, self.row_shape):
            raise InvalidInput(
                f"rows must be like the first, {self.dtype} of shape {self.row_shape}, got "
                f"{rows.dtype} of shape {rows.shape[1:]}."
            )
        raw = np.ascontiguousarray(rows).data
        self.digest.update(raw)
        self.file.write(raw)
        self.rows += len(rows)

    def finish(self) -> dict[str, Any]:
        self.file.seek(0)
        self._write_header()
        self.file.flush()
        os.fsync(self.file.fileno())
        shape = (self.rows, *self.row_shape)
        return {"dtype": self.dtype.str, "shape": shape, "sha256": self.digest.hexdigest()}


def prepare(
    name: str,
    sources: Iterable[Path],
    fill: Callable[[Writer], dict[str, Any]],
    *,
    options: Mapping[str, Any] | None = None,
    home: Home = None,
) -> Prepared:
    """Return the arrays that ``fill`` writes, from the cache if nothing has changed.

    The cache appears complete or not at all. If two processes prepare at once, the slower one
    returns the result of the other. A damaged cache is prepared again. Caches of other sources
    or options are deleted if they were not used for a day.
    """
    parent = data_home(home) / name
    target = parent / f"prepared-{_cache_key(sources, options or {})}"
    if not _is_intact(target):
        parent.mkdir(parents=True, exist_ok=True)
        with new_folder(target, exist_ok=True) as folder, Writer(folder) as writer:
            facts = fill(writer)
            body = {"name": name, "facts": facts, "arrays": writer.finish()}
            artefact.write(folder / "data.json", body, _format(name))
    # open_prepared returns the newest; the file system's own clock is too coarse to tell which.
    now = time.time_ns()
    os.utime(target, ns=(now, now))
    prepared = _open(target)
    _delete_unused(parent, target)
    return prepared


def open_prepared(name: str, home: Home = None) -> Prepared:
    """Return a data set that has been prepared."""
    parent = data_home(home) / name
    caches = [path for path in parent.glob("prepared-*") if _CACHE.fullmatch(path.name)]
    folders = sorted(caches, key=_modified)
    if not folders:
        raise FileNotFoundError(
            f"{name} is not prepared under {parent}. Run 'metapac data fetch {name}', then "
            f"'metapac data prepare {name}' (with --from DIR for files that you have elsewhere); "
            "if it was prepared with --home, set METAPAC_DATA to that folder."
        )
    prepared = _open(folders[-1])
    prepared.verify()
    return prepared


@functools.lru_cache(maxsize=1024)
def _digest(path: Path, offset: int, _version: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        file.seek(offset)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cache_key(sources: Iterable[Path], options: Mapping[str, Any]) -> str:
    """Return a hash of the source files (paths, sizes, times) and the options."""
    states = sorted((str(path.absolute()), *file_state(path)) for path in sources)
    text = json.dumps([_format("").schema, states, sorted(options.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_state(path: Path) -> list[int]:
    """Return the size and modification time of a file, to notice changes."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def describe_counts(counts: Sequence[int]) -> dict[str, int]:
    """Summarise the number of examples per class of a split."""
    return {
        "classes": sum(count > 0 for count in counts),
        "examples": sum(counts),
        "smallest": min(counts),
        "largest": max(counts),
    }


def _modified(folder: Path) -> int:
    """Return when a folder was last prepared, in nanoseconds; 0 if it was just deleted."""
    try:
        return folder.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


class _Array(TypedDict):
    dtype: str
    shape: list[artefact.Size]
    sha256: str


class _Document(TypedDict):
    name: str
    facts: dict[str, Any]
    arrays: dict[Annotated[str, re.compile(r"\w+", re.ASCII).fullmatch], _Array]


def _format(name: str) -> artefact.Format:
    remedy = f"Run 'metapac data prepare {name}' again, or delete that folder."
    return artefact.Format("metapac data", "'metapac data prepare'", remedy, shape=_Document)


def _read(folder: Path) -> dict[str, Any]:
    try:
        return artefact.read(folder / "data.json", _format(folder.parent.name))
    except OSError as error:
        raise _damaged(folder, f"data.json cannot be read ({error})") from error


def _open(folder: Path) -> Prepared:
    document = _read(folder)
    arrays = {}
    for name, recorded in document["arrays"].items():
        try:
            array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        except Exception as error:  # NumPy parses the header as Python: errors of many types
            raise _damaged(folder, f"{name}.npy cannot be read ({error})") from error
        if [array.dtype.str, [*array.shape]] != [recorded["dtype"], recorded["shape"]]:
            raise _damaged(folder, f"{name}.npy is not the array that was written")
        arrays[name] = array
    return Prepared(folder, document["facts"], arrays, artefact.checksum(document))


def _damaged(folder: Path, why: str) -> BadArtefact:
    return BadArtefact(f"{folder}: {why}. {_format(folder.parent.name).remedy}")


def _is_intact(folder: Path) -> bool:
    """Whether a folder is prepared and undamaged; a damaged one is deleted."""
    if not folder.is_dir():
        return False
    try:
        _open(folder).verify()
    except BadArtefact:
        _delete(folder)
        return False
    return True


def _delete_unused(parent: Path, keep: Path) -> None:
    """Delete caches that were not used for a day, and leftovers of killed processes.

    Files, links, and folders with any other name belong to someone else and stay.
    """
    for old in parent.iterdir():
        if old == keep or old.is_symlink() or not old.is_dir():
            continue
        if _CACHE.fullmatch(old.name) and time.time_ns() - _modified(old) > _DAY:
            _delete(old)
    clear_leftovers(parent, _LEFTOVER)


def _delete(folder: Path) -> None:
    """Delete a folder atomically, so that no process opens half of it."""
    trash = temporary_name(folder)
    try:
        folder.rename(trash)
    except FileNotFoundError:  # another process deleted it
        return
    shutil.rmtree(trash, ignore_errors=True)
