"""Files and folders that appear complete or not at all, and private scratch folders.

Work in progress lives in a hidden folder ``.NAME.HEX.partial`` beside its target. Only its owner
can read that folder, and the process that writes there holds a lock on it. The lock ends with the
process, so the next one that writes to the same folder can tell what killed ones left behind.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from metapac import _locks
from metapac._types import PathLike
from metapac.exceptions import BadArchive, EngineError, InvalidInput

_DAY = 24 * 3600  # seconds; where there are no locks, nobody works on what is older
LEFTOVER = r"\..+\.[0-9a-f]{16}\.partial"  # any name that temporary_name returns
# How much larger the content of a file may be. Deflate shrinks one row of text, repeated, to 1/400,
# a sheet of constants to 1/13, and a bomb to 1/1032, its limit. Up to 128 MiB, anything goes.
_GZIP_RATIO, _ZIP_RATIO, _DEFLATE_RATIO, _ANY_RATIO = 500, 200, 1032, 1 << 27
_NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@contextmanager
def replacing(path: PathLike, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file that takes the place of ``path`` once it is complete.

    A link is followed. Anything that is not a regular file, such as a pipe, is written directly.
    """
    text: dict[str, Any] = {} if binary else {"encoding": "utf-8", "newline": ""}
    mode = "wb" if binary else "w"
    with replacing_path(path) as temporary, temporary.open(mode, **text) as file:
        yield file


@contextmanager
def replacing_path(path: PathLike) -> Iterator[Path]:
    """Yield the name of a new file; what is written there takes the place of ``path``."""
    if Path(path).exists() and not Path(path).is_file():
        with _naming(path):
            yield Path(path)
        return
    target = Path(path).resolve()
    check_folder(target.parent)
    with _naming(path), _staging(target) as temporary:
        yield temporary
        with temporary.open("rb+") as written:  # Windows syncs only what is open for writing
            os.fsync(written.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
        _sync_folder(target.parent)


@contextmanager
def new_folder(path: PathLike, *, create: bool = True, exist_ok: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to ``path`` at the end.

    With ``create=False`` the caller creates the temporary folder. With ``exist_ok`` a folder that
    another process has put there in the meantime stays, and no error is raised.
    """
    target = Path(path)
    with _naming(path), _staging(target) as temporary:
        if create:
            temporary.mkdir()
        yield temporary
        _sync_folder(temporary)
        try:
            temporary.rename(target)
        except OSError:
            if not (exist_ok and target.is_dir()):
                raise
        _sync_folder(target.parent)


@contextmanager
def private_folder(prefix: str, parent: PathLike | None = None) -> Iterator[Path]:
    """Yield a new folder that only this user can read; it is deleted at the end.

    By default it is in the system's temporary folder. Folders of the same prefix whose processes
    were killed are deleted first.
    """
    place = Path(parent or tempfile.gettempdir())
    clear_leftovers(place, rf"{re.escape(prefix)}-[0-9a-f]{{16}}")
    with _locked_folder(place, f"{prefix}-") as folder:
        yield folder


def clear_leftovers(folder: Path, pattern: str) -> None:
    """Delete folders whose names match a pattern, and whose processes were killed.

    Files, links, and folders of other users or of living processes stay.
    """
    with suppress(OSError):  # a folder that cannot be listed
        for path in folder.iterdir():
            if re.fullmatch(pattern, path.name):
                with suppress(OSError):  # another process was faster
                    _delete_if_abandoned(path)


def check_folder(folder: Path) -> None:
    """Raise FileNotFoundError if a folder to write into does not exist."""
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "folder does not exist; create it first", str(folder))


def check_not_input(path: PathLike, inputs: Iterable[PathLike]) -> None:
    """Raise InvalidInput if writing to ``path`` would overwrite an input."""
    target = Path(path)
    if not target.exists():
        return
    if any(Path(source).exists() and target.samefile(source) for source in inputs):
        raise InvalidInput(f"{path} is also the input. Write to another file.")


def temporary_name(target: Path) -> Path:
    """Return a new name beside ``target``, for what is not yet, or no longer, complete."""
    return target.with_name(f"{_start(target)}{secrets.token_hex(8)}.partial")


def _start(target: Path) -> str:
    return f".{target.name[:50]}."  # 50 characters of 4 bytes, and the rest, fit into 255 bytes


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Yield a name in a private folder beside ``target``, so that moving it there is a rename."""
    clear_leftovers(target.parent, LEFTOVER)
    with _locked_folder(target.parent, _start(target), ".partial") as folder:
        yield folder / target.name


@contextmanager
def _locked_folder(parent: Path, start: str, end: str = "") -> Iterator[Path]:
    """Yield a new private folder ``startHEXend``, which is deleted at the end."""
    folder, lock = _create_locked(parent, start, end)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _close(lock)


def _create_locked(parent: Path, start: str, end: str) -> tuple[Path, int | None]:
    """Create a private folder and lock it; where there are no locks, return None for the lock."""
    while True:
        path = parent / f"{start}{secrets.token_hex(8)}{end}"
        path.mkdir(mode=0o700)
        if not _locks.AVAILABLE:
            return path, None
        # Until it is locked, another process may take it for a leftover: then make a new one.
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            _locks.try_lock(lock, wait=True)
            if _locks.is_same(lock, path):
                return path, lock
            os.close(lock)


def _close(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _delete_if_abandoned(path: Path) -> None:
    """Delete a folder of this user that no process has locked."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return
    if not _locks.AVAILABLE:
        if _is_old(path):
            shutil.rmtree(path, ignore_errors=True)
        return
    if status.st_uid != os.geteuid():
        return
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        locked = _locks.try_lock(lock)
        if locked or (locked is None and _is_old(path)):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


def _is_old(path: Path) -> bool:
    """Whether nothing was written for a day."""
    times = [p.lstat().st_mtime for p in (path, *path.rglob("*"))]
    return time.time() - max(times) > _DAY


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the operating system allows that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """Let errors of writing name ``path``, instead of a hidden temporary or nothing."""
    hidden = str(Path(path).resolve().parent / _start(Path(path).resolve()))
    try:
        yield
    except OSError as error:
        named = str(error.filename or "")
        if named.startswith(hidden) or (not named and error.errno in _NAMELESS):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def file_version(path: PathLike) -> tuple[int, int, int]:
    """Return a key for what was read from a file, never the same for one that was just written."""
    status, now = Path(path).stat(), time.time_ns()
    is_new = now - status.st_mtime_ns < 2 * 10**9  # the next write may have the same time
    return status.st_size, status.st_mtime_ns, now if is_new else 0


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
