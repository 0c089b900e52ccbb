"""A data set prepared once: memory-mapped arrays in a folder that appears all at once."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from metapac._version import __version__
from metapac.persistence import BadArtefact, checksum

SCHEMA = 1
FORMAT = "metapac data"

Array = NDArray[Any]
Home = str | os.PathLike[str] | None
Progress = Callable[[int, int | None], None]  # done, and of how many where that is known

_HEAD = 256  # bytes kept for the head of an .npy file: its length is known at the end only
_UNUSED = 24 * 3600  # seconds after which no process can be at work in a folder


def data_home(home: Home = None) -> Path:
    """Return where data are kept: ``home``, else $METAPAC_DATA, else the user's cache folder."""
    chosen = home or os.environ.get("METAPAC_DATA")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "metapac"


@dataclass(frozen=True, eq=False)
class Prepared(Mapping[str, Array]):
    """The arrays of a data set by name, memory-mapped, and the facts known of them."""

    folder: Path
    facts: dict[str, Any]
    arrays: dict[str, Array] = field(repr=False)
    checksum: str  # of everything: the arrays' own checksums are part of it

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def verify(self) -> None:
        """Read every array and refuse what is not as it was written."""
        recorded = _read(self.folder)["arrays"]
        for name in self:
            with (self.folder / f"{name}.npy").open("rb") as file:
                file.seek(_HEAD)
                if hashlib.file_digest(file, "sha256").hexdigest() != recorded[name]["sha256"]:
                    raise _damaged(self.folder, f"{name}.npy does not match its checksum")


class Writer:
    """Arrays that grow by rows, each in a file of its own; none is held in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arrays: dict[str, _Growing] = {}

    def append(self, name: str, rows: Array) -> None:
        """Add rows to the array ``name``; the first ones decide on its type and shape."""
        if name not in self._arrays:
            self._arrays[name] = _Growing(self._folder / f"{name}.npy", rows)
        self._arrays[name].append(rows)

    def finish(self) -> dict[str, Any]:
        """Write the heads, which tell how long the arrays are; return what is recorded of each."""
        return {name: array.finish() for name, array in self._arrays.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for array in self._arrays.values():
            array.file.close()


class _Growing:
    def __init__(self, path: Path, like: Array) -> None:
        self.kind, self.tail = like.dtype, like.shape[1:]
        self.rows, self.digest = 0, hashlib.sha256()
        self.file: IO[bytes] = path.open("xb")
        self.file.write(b"\0" * _HEAD)

    def append(self, rows: Array) -> None:
        if (rows.dtype, rows.shape[1:]) != (self.kind, self.tail):
            raise ValueError(
                f"rows must be like the first, {self.kind} of shape {self.tail}, got {rows.dtype} "
                f"of shape {rows.shape[1:]}."
            )
        raw = np.ascontiguousarray(rows).data
        self.digest.update(raw)
        self.file.write(raw)
        self.rows += len(rows)

    def finish(self) -> dict[str, Any]:
        shape = (self.rows, *self.tail)
        self.file.seek(0)
        self.file.write(_head(self.kind, shape))
        self.file.flush()
        os.fsync(self.file.fileno())
        return {"dtype": self.kind.str, "shape": shape, "sha256": self.digest.hexdigest()}


def _head(kind: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the head of an .npy file, version 1.0, in exactly ``_HEAD`` bytes."""
    words = str({"descr": kind.str, "fortran_order": False, "shape": shape}).encode("latin1")
    magic = np.lib.format.magic(1, 0)
    size = _HEAD - len(magic) - 2
    return magic + size.to_bytes(2, "little") + words.ljust(size - 1) + b"\n"


def prepare(
    name: str,
    sources: Iterable[Path],
    fill: Callable[[Writer], dict[str, Any]],
    *,
    options: Mapping[str, Any] | None = None,
    home: Home = None,
) -> Prepared:
    """Return the arrays that ``fill`` writes, from the cache unless sources or options changed.

    ``fill`` returns the facts to keep with them, as JSON can hold them. The cache appears whole
    or not at all, and of two processes that prepare at once the slower one takes the other's. One
    that is damaged is made anew; what was made from other sources goes after a day.
    """
    key = fingerprint(sources, options or {})
    shelf = data_home(home) / name
    target = shelf / f"prepared-{key}"
    if target.is_dir():
        try:
            made = _open(target)
            made.verify()
        except BadArtefact:
            _discard(target)
        else:
            os.utime(target)  # the one that ``opened`` returns
            _tidy(shelf, target)
            return made
    shelf.mkdir(parents=True, exist_ok=True)
    temporary = shelf / f".preparing-{secrets.token_hex(8)}"
    temporary.mkdir()
    try:
        with Writer(temporary) as writer:
            facts = fill(writer)
            _record(temporary, {"name": name, "facts": facts, "arrays": writer.finish()})
        _settle(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    made = _open(target)
    _tidy(shelf, target)
    return made


def opened(name: str, home: Home = None) -> Prepared:
    """Return the prepared data set ``name``, or say how to prepare it."""
    shelf = data_home(home) / name
    found = sorted(shelf.glob("prepared-*"), key=_time)
    if not found:
        raise FileNotFoundError(
            f"{name} is not prepared under {shelf}. Run 'metapac data fetch {name}', then "
            f"'metapac data prepare {name}' (with --from DIR for files that you have elsewhere); "
            "if it was prepared with --home, set METAPAC_DATA to that folder."
        )
    return _open(found[-1])


def fingerprint(sources: Iterable[Path], options: Mapping[str, Any]) -> str:
    """Return a name for files as they are now (paths, sizes, times) and how they are read."""
    states = sorted((str(path.absolute()), *_state(path)) for path in sources)
    text = json.dumps([SCHEMA, states, sorted(options.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _time(folder: Path) -> float:
    """Return when a folder was last prepared; never, if another process just removed it."""
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _record(folder: Path, body: dict[str, Any]) -> None:
    document = {"format": FORMAT, "schema": SCHEMA, "metapac": __version__, **body}
    document = json.loads(json.dumps(document))  # as it will be read: tuples are lists
    document["checksum"] = checksum(document)
    (folder / "data.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _read(folder: Path) -> dict[str, Any]:
    try:
        document = json.loads((folder / "data.json").read_bytes())
        found = document.pop("checksum")
        known = document["format"] == FORMAT and document["schema"] == SCHEMA
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, f"data.json cannot be read ({error})") from error
    if not known or found != checksum(document):
        raise _damaged(folder, "data.json was edited, or written by another version")
    return {**document, "checksum": found}


def _open(folder: Path) -> Prepared:
    document = _read(folder)
    arrays = {}
    for name, recorded in document["arrays"].items():
        try:
            arrays[name] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise _damaged(folder, f"{name}.npy cannot be read ({error})") from error
        if [arrays[name].dtype.str, [*arrays[name].shape]] != [
            recorded["dtype"],
            recorded["shape"],
        ]:
            raise _damaged(folder, f"{name}.npy is not the array that was written")
    return Prepared(folder, document["facts"], arrays, document["checksum"])


def _damaged(folder: Path, what: str) -> BadArtefact:
    return BadArtefact(
        f"{folder}: {what}. Run 'metapac data prepare {folder.parent.name}' as before, which makes "
        "it anew, or delete that folder."
    )


def _settle(temporary: Path, target: Path) -> None:
    """Give a finished folder its name, unless another process was faster."""
    try:
        temporary.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _tidy(shelf: Path, keep: Path) -> None:
    """Remove what has been out of use for a day: other sources, leavings of killed processes."""
    for old in (*shelf.glob("prepared-*"), *shelf.glob(".preparing-*")):
        if old != keep and time.time() - _time(old) > _UNUSED:
            _discard(old)


def _discard(folder: Path) -> None:
    """Remove a folder at once, so that nobody opens half of it."""
    doomed = folder.with_name(f".preparing-{secrets.token_hex(8)}")
    try:
        folder.rename(doomed)
    except FileNotFoundError:  # another process did
        return
    shutil.rmtree(doomed, ignore_errors=True)
