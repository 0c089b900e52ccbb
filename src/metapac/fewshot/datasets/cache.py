"""The cache of prepared data sets."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from metapac import artefact
from metapac._common import Array, PathLike, data_home
from metapac._text import format_table
from metapac.artefact import clear_leftovers, file_version, new_folder, temporary_name
from metapac.errors import BadArtefact

Home = PathLike | None

_DAY = 24 * 3600 * 10**9  # nanoseconds; a folder unused for a day is not in use by any process
_CACHE = re.compile(r"prepared-[0-9a-f]{16}")
_LEFTOVER = rf"\.{_CACHE.pattern}\.[0-9a-f]{{16}}\.partial"  # see temporary_name


@dataclass(frozen=True, eq=False)
class Prepared:
    """The memory-mapped arrays of a prepared data set, by name, and facts such as counts."""

    folder: Path
    facts: dict[str, Any]
    arrays: dict[str, np.memmap[Any, Any]] = field(repr=False)
    digests: dict[str, str] = field(repr=False)
    checksum: str

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def to_dict(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "checksum": self.checksum, **self.facts}

    def __str__(self) -> str:
        splits = self.facts["splits"]
        columns = dict.fromkeys(key for row in splits.values() for key in row)
        cells = {s: {n: _format_number(row.get(n)) for n in columns} for s, row in splits.items()}
        size = sum(array.nbytes for array in self.arrays.values()) / 2**20
        table = format_table([{"split": split} | row for split, row in cells.items()])
        return "\n".join([table, *self.facts["notes"], f"{size:,.0f} MiB in {self.folder}"])

    def verify(self) -> None:
        """Compare every array with its checksum, once per process if nothing changes."""
        for name, array in self.arrays.items():
            path = self.folder / f"{name}.npy"
            if _digest(path, array.offset, file_version(path)) != self.digests[name]:
                raise _damaged(self.folder, f"{name}.npy does not match its checksum")


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.1%}"


class Writer(ExitStack):
    """Writes arrays row by row, one .npy file per array, without holding them in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.arrays: dict[str, _GrowingArray] = {}

    def append(self, name: str, rows: Array) -> None:
        """Add rows, of the type and shape of the first, to an array."""
        if name not in self.arrays:
            self.arrays[name] = _GrowingArray(self.folder / f"{name}.npy", rows)
            self.enter_context(self.arrays[name].file)
        self.arrays[name].append(rows)


class _GrowingArray:
    """An .npy file whose header is rewritten in place once the number of rows is known."""

    def __init__(self, path: Path, like: Array) -> None:
        self.dtype, self.shape = like.dtype, (0, *like.shape[1:])
        self.digest, self.file = hashlib.sha256(), path.open("xb")
        self._write_header()

    def _write_header(self) -> None:
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape}
        npy.write_array_header_1_0(self.file, header)  # leaves room for more digits

    def append(self, rows: Array) -> None:
        raw = np.ascontiguousarray(rows).data
        self.digest.update(raw)
        self.file.write(raw)
        self.shape = (self.shape[0] + len(rows), *self.shape[1:])

    def finish(self) -> dict[str, Any]:
        self.file.seek(0)
        self._write_header()
        self.file.flush()
        os.fsync(self.file.fileno())
        return {"dtype": self.dtype.str, "shape": self.shape, "sha256": self.digest.hexdigest()}


def prepare(
    name: str,
    sources: Iterable[Path],
    fill: Callable[[Writer], dict[str, Any]],
    *,
    options: Mapping[str, Any] | None = None,
    home: Home = None,
) -> Prepared:
    """Return the arrays that ``fill`` writes, from the cache if nothing has changed."""
    # It appears complete or not at all. Other caches are deleted if not used for a day.
    parent = data_home(home) / name
    target = parent / f"prepared-{_cache_key(sources, options or {})}"
    if not _is_intact(target):
        parent.mkdir(parents=True, exist_ok=True)
        with new_folder(target, exist_ok=True) as folder, Writer(folder) as writer:
            facts = fill(writer)
            arrays = {key: array.finish() for key, array in writer.arrays.items()}
            body = {"name": name, "facts": facts, "arrays": arrays}
            artefact.write(folder / "data.json", body, _format(name))
    # open_prepared returns the newest; the file system's own clock is too coarse to tell which.
    now = time.time_ns()
    os.utime(target, ns=(now, now))
    prepared = _open(target)
    for old, modified in _list_caches(parent):
        if now - modified > _DAY:
            _delete(old)
    clear_leftovers(parent, _LEFTOVER)
    return prepared


def open_prepared(name: str, home: Home = None) -> Prepared:
    """Return a data set that has been prepared, after comparing it with its checksums."""
    parent = data_home(home) / name
    caches = _list_caches(parent)
    if not caches:
        text = f"{name} is not prepared under {parent}, which METAPAC_DATA sets. Run 'metapac data"
        raise FileNotFoundError(f"{text} fetch {name}', then 'metapac data prepare {name}'.")
    prepared = _open(max(caches, key=lambda found: found[1])[0])
    prepared.verify()
    return prepared


def _list_caches(parent: Path) -> list[tuple[Path, int]]:
    """Return the caches in a folder, which may hold other things, and when each was prepared."""
    found = []
    for path in parent.glob("prepared-*"):
        if _CACHE.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            with suppress(FileNotFoundError):  # another process deleted it
                found.append((path, path.stat().st_mtime_ns))
    return found


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
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def describe_counts(counts: Sequence[int]) -> dict[str, int]:
    extremes = {"smallest": min(counts), "largest": max(counts)}
    return {"classes": sum(count > 0 for count in counts), "examples": sum(counts)} | extremes


def _format(name: str) -> artefact.Format:
    remedy = f"Run 'metapac data prepare {name}' again, or delete that folder."
    return artefact.Format("metapac data", "'metapac data prepare'", remedy)


def _open(folder: Path) -> Prepared:
    try:
        document = artefact.read(folder / "data.json", _format(folder.parent.name))
    except OSError as error:
        raise _damaged(folder, f"data.json cannot be read ({error})") from error
    arrays, digests = {}, {}
    for name, recorded in document["arrays"].items():
        try:
            array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        except Exception as error:  # NumPy parses the header as Python: errors of many types
            raise _damaged(folder, f"{name}.npy cannot be read ({error})") from error
        arrays[name], digests[name] = array, recorded["sha256"]
    return Prepared(folder, document["facts"], arrays, digests, artefact.checksum(document))


def _damaged(folder: Path, why: str) -> BadArtefact:
    return BadArtefact(f"{folder}: {why}. {_format(folder.parent.name).remedy}")


def _is_intact(folder: Path) -> bool:
    """Whether a folder is prepared and undamaged; a damaged one is deleted."""
    try:
        if folder.is_dir():
            _open(folder).verify()
            return True
    except BadArtefact:
        _delete(folder)
    return False


def _delete(folder: Path) -> None:
    """Delete a folder atomically, so that no process opens half of it."""
    trash = temporary_name(folder)
    with suppress(FileNotFoundError):  # another process deleted it
        folder.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)
