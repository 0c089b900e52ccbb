"""Unpack a published archive: all of it or nothing, and nowhere but into its folder."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from metapac.datasets.download import Progress

_KINDS = (".zip", ".tar", ".tar.gz", ".tgz", ".gz")
_CHUNK = 1 << 16
_HEADER = 1 << 20  # bytes; no honest header of a tar has more
_DEEPEST = 64  # folders in folders; deeper ones cannot be relied on to be deleted again
_DAMAGE = (  # what the readers of the standard library raise on bytes that make no sense
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RecursionError,
    ValueError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)

T = TypeVar("T")
Parts = tuple[str, ...]


class BadArchive(ValueError):
    """An archive that is damaged, or that holds what no published data set should."""


def unpack(
    archive: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
) -> list[Path]:
    """Unpack a .zip, .tar, .tar.gz, .tgz or .gz into ``folder`` and return its files in order.

    Each file appears complete or not at all, in the place of one that was there before; an archive
    that is refused leaves nothing behind. Only plain files are taken, with the permissions of any
    new file; spaces at the end of a name are dropped, and so are empty folders. ``progress`` is
    told the bytes written, and for a .zip those in all.
    """
    archive, folder = Path(archive), Path(folder)
    with ExitStack() as stack:
        total, members = _open(archive, stack)
        scratch = stack.enter_context(_scratch(folder))
        places = _Places(archive, folder)
        _extract(members, places, scratch, total, progress or (lambda done, total: None))
        for parts in places.files:
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch.joinpath(*parts).replace(target)
    return [folder.joinpath(*parts) for parts in places.files]


@dataclass(frozen=True)
class _Member:
    """What an archive says of one of its members; ``flaw`` is why it must not be unpacked."""

    name: str
    is_folder: bool
    size: int | None
    open: Callable[[], IO[bytes]]
    flaw: str | None = None

    def chunks(self) -> Iterator[bytes]:
        with self.open() as file:
            yield from iter(partial(file.read, _CHUNK), b"")


def _open(archive: Path, stack: ExitStack) -> tuple[int | None, Iterable[_Member]]:
    """Return the bytes in all, where the archive states them at once, and its members."""
    name = archive.name.lower()
    if not name.endswith(_KINDS):
        raise ValueError(f"archive must end in one of {', '.join(_KINDS)}, got {archive}.")
    file = stack.enter_context(archive.open("rb"))
    if not os.fstat(file.fileno()).st_size:
        raise BadArchive(f"{archive} is empty, 0 bytes. Delete it and fetch it again.")
    if name.endswith(".zip"):
        with _reading(archive):
            zipped = stack.enter_context(zipfile.ZipFile(file))
            _check_count(zipped, file)
        return sum(info.file_size for info in zipped.infolist()), _zip_members(zipped)
    if name.endswith(".tar"):
        return None, _tar_members(file)
    plain: Any = stack.enter_context(gzip.GzipFile(fileobj=file))
    if name.endswith((".tar.gz", ".tgz")):
        return None, _tar_members(plain)
    return None, [_Member(archive.name[: -len(".gz")], False, None, lambda: plain)]


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise BadArchive(
            f"{archive} is damaged, cut short, or not what its name says "
            f"({str(error) or type(error).__name__}). Delete it and fetch it again."
        ) from error


def _sound(archive: Path, items: Iterable[T]) -> Iterator[T]:
    """Yield what is read from an archive; what goes wrong elsewhere is not called damage."""
    iterator = iter(items)
    while True:
        with _reading(archive):
            item = next(iterator, None)
        if item is None:
            return
        yield item


def _check_count(zipped: zipfile.ZipFile, file: IO[bytes]) -> None:
    """Refuse a zip that lists another number of members than it states, as zipfile does not."""
    file.seek(-22 - len(zipped.comment), os.SEEK_END)
    record, listed = file.read(22), len(zipped.infolist())
    stated = int.from_bytes(record[10:12], "little")
    if record.startswith(b"PK\5\6") and stated not in (listed, 0xFFFF):  # all ones: left open
        raise zipfile.BadZipFile(f"{listed} members listed, {stated} stated")


def _zip_members(zipped: zipfile.ZipFile) -> Iterator[_Member]:
    for info in zipped.infolist():
        name, size = info.orig_filename, info.file_size
        info.file_size = 1 << 62  # zipfile would cut off what is beyond: here it is to be noticed
        is_folder = name.endswith("/")
        yield _Member(name, is_folder, size, partial(zipped.open, info), _zip_flaw(info, is_folder))


def _zip_flaw(info: zipfile.ZipInfo, is_folder: bool) -> str | None:
    mode = stat.S_IFMT(info.external_attr >> 16)
    if mode not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG):
        return "a symbolic link" if mode == stat.S_IFLNK else "a special file"
    if info.flag_bits & 1:
        return "an encrypted file"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"a file packed by method {info.compress_type}, not by deflation"
    return None


class _Blocks:
    """A tar as tarfile reads it: no header is believed to be huge, the last block is kept."""

    def __init__(self, file: IO[bytes]) -> None:
        self.seek, self.tell, self._file, self.last = file.seek, file.tell, file, b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self.last = self._file.read(size)
        return self.last


def _tar_members(file: IO[bytes]) -> Iterator[_Member]:
    blocks: Any = _Blocks(file)
    with tarfile.open(fileobj=blocks, mode="r:") as tar:
        for info in tar:
            opened: Any = partial(tar.extractfile, info)
            yield _Member(info.name, info.isdir(), info.size, opened, _tar_flaw(info))
    # tarfile takes a header that it cannot read for the end; the true end is a block of zeros.
    if blocks.last != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("no mark at its end")
    while file.read(_CHUNK):  # gzip compares its checksum only when all was read
        pass


def _tar_flaw(info: tarfile.TarInfo) -> str | None:
    if info.issym():
        return "a symbolic link"
    if info.islnk():
        return "a hard link"
    if not (info.isreg() or info.isdir()) or info.issparse():
        return "a special file"
    return "a file of negative size" if info.size < 0 else None


class _Places:
    """Where members go: inside the folder, each to a place of its own."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self.archive, self.folder = archive, folder
        self.files: dict[Parts, None] = {}  # in order
        self._folders: set[Parts] = set()

    def refusal(self, member: _Member, why: str) -> BadArchive:
        return BadArchive(
            f"{self.archive} holds {member.name!r}, {why}; nothing of it was unpacked. "
            "Delete it and fetch it again from its publisher."
        )

    def claim(self, member: _Member) -> Parts:
        """Return the folders and the name that a member gets, or refuse it."""
        parts = self._parts(member)
        folders = {parts[:i] for i in range(1, len(parts) + member.is_folder)}
        if parts in self.files and not member.is_folder:
            raise self.refusal(member, "the same name as another member")
        if folders & self.files.keys() or (parts in self._folders and not member.is_folder):
            raise self.refusal(member, "a name that is both a file and a folder")
        for own in folders - self._folders:
            here = self.folder.joinpath(*own)
            if here.is_symlink() or (here.exists() and not here.is_dir()):
                raise self._in_the_way(member, here)
        self._folders |= folders
        if not member.is_folder:
            self._claim_file(member, parts)
        return parts

    def _claim_file(self, member: _Member, parts: Parts) -> None:
        here = self.folder.joinpath(*parts)
        if here.is_dir() or (here.exists() and here.samefile(self.archive)):
            raise self._in_the_way(member, here)
        self.files[parts] = None

    def _parts(self, member: _Member) -> Parts:
        name = member.name
        parts = tuple(part.rstrip(" ") for part in name.split("/") if part not in ("", "."))
        if name.startswith("/") or {*name} & {*"\\:\0"} or not all(p.strip(". ") for p in parts):
            raise self.refusal(member, "a name that may lead out of the folder")
        if len(parts) > _DEEPEST:
            raise self.refusal(member, f"a name of more than {_DEEPEST} folders")
        if not parts and not member.is_folder:
            raise self.refusal(member, "a file without a name")
        return parts

    def _in_the_way(self, member: _Member, here: Path) -> FileExistsError:
        what = f"is in the way of {member.name!r} from {self.archive}; move it away"
        return FileExistsError(errno.EEXIST, what, str(here))


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Make a folder for a while, inside ``folder`` so that files move from it at once."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as name:
            yield Path(name)
    finally:
        if made:
            with suppress(OSError):  # it is not empty: all went well
                folder.rmdir()


def _extract(
    members: Iterable[_Member],
    places: _Places,
    scratch: Path,
    total: int | None,
    progress: Progress,
) -> None:
    """Write each member to its place in ``scratch``, and no more than the disk can take."""
    room, done = shutil.disk_usage(scratch).free, 0
    _check_room(places, total or 0, room)
    for member in _sound(places.archive, members):
        if member.flaw:
            raise places.refusal(member, member.flaw)
        parts = places.claim(member)
        if member.is_folder:
            continue
        _check_room(places, done + (member.size or 0), room)
        path = scratch.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        start = done
        with path.open("xb") as file:
            for chunk in _sound(places.archive, member.chunks()):
                done += len(chunk)
                _check_size(places, member, done - start, last=False)
                _check_room(places, done, room)
                file.write(chunk)
                progress(done, total)
        _check_size(places, member, done - start, last=True)


def _check_size(places: _Places, member: _Member, found: int, *, last: bool) -> None:
    stated = found if member.size is None else member.size
    if found > stated or (last and found < stated):
        why = f"which has {'more' if found > stated else 'fewer'} bytes than the {stated} it states"
        raise places.refusal(member, why)


def _check_room(places: _Places, need: int, room: int) -> None:
    if need > room:
        raise OSError(
            errno.ENOSPC,
            f"{places.archive} unpacks to {need} bytes or more, but there is room for {room}. Free "
            "some space; if it should be smaller, delete it and fetch it again",
            str(places.folder),
        )
