"""Archives unpacked completely or not at all, and never outside their folder."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from metapac._files import check_ratio, private_folder
from metapac._types import PathLike, Progress, ignore_progress
from metapac.exceptions import BadArchive, InvalidInput

_KINDS = (".zip", ".tar", ".tar.gz")
_CHUNK = 1 << 16
_MAX_HEADER = 1 << 20  # bytes of a tar header; no honest one is larger
_MAX_DEPTH = 64  # nested folders; deeper ones may be impossible to delete
_DAMAGE = (  # what the standard library raises for damaged archives
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


def unpack(archive: PathLike, folder: PathLike, *, progress: Progress | None = None) -> list[Path]:
    """Unpack a .zip, .tar or .tar.gz file.

    Files replace those of the same name. Only regular files are unpacked, with the permissions of
    new files. Trailing spaces in names are removed; empty folders are not created.

    Parameters
    ----------
    archive : path_like
        The archive.
    folder : path_like
        Folder to unpack into; created if needed.
    progress : callable, optional
        Called as ``progress(stage, bytes_done, bytes_total)``; the total is None except for .zip.

    Returns
    -------
    list of Path
        The files, in the order of the archive.

    Raises
    ------
    BadArchive
        If the archive is damaged, or holds a link, a special file or a name that leads out of the
        folder. Nothing is left behind.
    """
    archive, folder = Path(archive), Path(folder)
    with ExitStack() as stack:
        total, members = _open(archive, stack)
        scratch = stack.enter_context(_scratch_folder(folder))
        files = _extract(archive, members, scratch, total, progress or ignore_progress)
        for path, name in files.items():
            _check_unblocked(archive, folder, path.relative_to(scratch), name)
        targets = [folder / path.relative_to(scratch) for path in files]
        for path, target in zip(files, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
    return targets


@dataclass(frozen=True)
class _Member:
    """A member of an archive as its header describes it; ``flaw`` says why it is rejected."""

    name: str
    is_folder: bool
    size: int
    open: Callable[[], IO[bytes]]
    flaw: str | None = None

    def chunks(self) -> Iterator[bytes]:
        with self.open() as file:
            yield from iter(partial(file.read, _CHUNK), b"")


def _open(archive: Path, stack: ExitStack) -> tuple[int | None, Iterable[_Member]]:
    """Return the total size, if the archive states it in advance, and the members."""
    name = archive.name.lower()
    if not name.endswith(_KINDS):
        raise InvalidInput(f"archive must end in one of {', '.join(_KINDS)}, got {archive}.")
    file = stack.enter_context(archive.open("rb"))
    if not os.fstat(file.fileno()).st_size:
        raise BadArchive(f"{archive} is empty, 0 bytes. Delete it and download it again.")
    if name.endswith(".zip"):
        with _reporting_damage(archive):
            zipped = stack.enter_context(zipfile.ZipFile(file))
            _check_count(zipped, file)
        return sum(info.file_size for info in zipped.infolist()), _zip_members(zipped)
    if name.endswith(".tar"):
        return None, _tar_members(file)
    unzipped: Any = stack.enter_context(gzip.GzipFile(fileobj=file))
    return None, _tar_members(unzipped)


@contextmanager
def _reporting_damage(archive: Path) -> Iterator[None]:
    """Report errors of the standard library's readers as damage to the archive."""
    try:
        yield
    except _DAMAGE as error:
        raise BadArchive(
            f"{archive} is damaged, truncated, or not what its name says "
            f"({str(error) or type(error).__name__}). Delete it and download it again."
        ) from error


def _read_all(archive: Path, items: Iterable[T]) -> Iterator[T]:
    """Yield items of an archive; only errors of reading them are reported as damage."""
    iterator = iter(items)
    while True:
        with _reporting_damage(archive):
            item = next(iterator, None)
        if item is None:
            return
        yield item


def _check_count(zipped: zipfile.ZipFile, file: IO[bytes]) -> None:
    """Raise if a zip does not list as many members as it states, which zipfile accepts."""
    file.seek(-22 - len(zipped.comment), os.SEEK_END)
    record, listed = file.read(22), len(zipped.infolist())
    stated = int.from_bytes(record[10:12], "little")
    is_stated = record.startswith(b"PK\5\6") and stated != 0xFFFF  # all ones: stated elsewhere
    if is_stated and stated != listed:
        raise zipfile.BadZipFile(f"{listed} members listed, {stated} stated")


def _zip_members(zipped: zipfile.ZipFile) -> Iterator[_Member]:
    for info in zipped.infolist():
        name, size = info.orig_filename, info.file_size
        info.file_size = 1 << 62  # otherwise zipfile hides bytes beyond the stated size
        is_folder = name.endswith("/")
        yield _Member(name, is_folder, size, partial(zipped.open, info), _zip_flaw(info, is_folder))


def _zip_flaw(info: zipfile.ZipInfo, is_folder: bool) -> str | None:
    mode = stat.S_IFMT(info.external_attr >> 16)
    if mode not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG):
        return "a symbolic link" if mode == stat.S_IFLNK else "a special file"
    if info.flag_bits & 1:
        return "an encrypted file"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"a file compressed by method {info.compress_type}, not by deflate"
    return None


class _Blocks:
    """A tar file for tarfile to read that limits the size of headers and stores the last block."""

    def __init__(self, file: IO[bytes]) -> None:
        self.seek, self.tell, self._file, self.last = file.seek, file.tell, file, b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self.last = self._file.read(size)
        return self.last


def _tar_members(file: IO[bytes]) -> Iterator[_Member]:
    blocks: Any = _Blocks(file)
    with tarfile.open(fileobj=blocks, mode="r:") as tar:
        for info in tar:
            opened: Any = partial(tar.extractfile, info)
            yield _Member(info.name, info.isdir(), info.size, opened, _tar_flaw(info))
    # tarfile mistakes an unreadable header for the end; the real end is a block of zeros.
    if blocks.last != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("no end marker")
    while file.read(_CHUNK):  # gzip verifies its checksum at the end
        pass


def _tar_flaw(info: tarfile.TarInfo) -> str | None:
    if info.issym():
        return "a symbolic link"
    if info.islnk():
        return "a hard link"
    if not (info.isreg() or info.isdir()) or info.issparse():
        return "a special file"
    return "a file of negative size" if info.size < 0 else None


@contextmanager
def _scratch_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder inside ``folder``, so that moving files out of it is a rename."""
    created = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with private_folder(".unpacking", folder) as scratch:
            yield scratch
    finally:
        if created:
            with suppress(OSError):  # not empty: the archive was unpacked
                folder.rmdir()


def _extract(
    archive: Path,
    members: Iterable[_Member],
    scratch: Path,
    total: int | None,
    progress: Progress,
) -> dict[Path, str]:
    """Write all members into ``scratch``; return the member name of each file."""
    free, done = shutil.disk_usage(scratch).free, 0
    _check_space(archive, scratch, total or 0, free)
    files: dict[Path, str] = {}
    for member in _read_all(archive, members):
        path = scratch.joinpath(*_safe_parts(archive, member))
        file = _create(archive, member, path)
        if file is None:
            continue
        files[path], start = member.name, done
        with file:
            _check_space(archive, scratch, done + member.size, free)
            for chunk in _read_all(archive, member.chunks()):
                done += len(chunk)
                if done - start > member.size:
                    raise _bad_member(
                        archive, member, f"more bytes than the {member.size} it states"
                    )
                _check_space(archive, scratch, done, free)
                check_ratio(archive, done)
                file.write(chunk)
                progress(f"unpacking {archive.name}", done, total)
        if done - start < member.size:
            raise _bad_member(archive, member, f"fewer bytes than the {member.size} it states")
    return files


def _safe_parts(archive: Path, member: _Member) -> tuple[str, ...]:
    """Return the parts of a member's path; raise if it is not safe to unpack."""
    name = member.name
    parts = tuple(part.rstrip(" ") for part in name.split("/") if part not in ("", "."))
    if member.flaw:
        raise _bad_member(archive, member, member.flaw)
    if name.startswith("/") or {*name} & {*"\\:\0"} or not all(p.strip(". ") for p in parts):
        raise _bad_member(archive, member, "a name that may lead out of the folder")
    if len(parts) > _MAX_DEPTH:
        raise _bad_member(archive, member, f"a name of more than {_MAX_DEPTH} folders")
    if not parts and not member.is_folder:
        raise _bad_member(archive, member, "a file without a name")
    return parts


def _create(archive: Path, member: _Member, path: Path) -> IO[bytes] | None:
    """Create a folder, or open a new file; raise if the name is already taken."""
    try:
        if member.is_folder:
            path.mkdir(parents=True, exist_ok=True)
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")
    except (FileExistsError, NotADirectoryError) as error:
        twice = path.is_file() and not member.is_folder
        why = "the same name as another member" if twice else "both a file and a folder"
        raise _bad_member(archive, member, why) from error


def _bad_member(archive: Path, member: _Member, why: str) -> BadArchive:
    return BadArchive(
        f"{archive} holds {member.name!r}: {why}. Nothing was unpacked. Delete it and download it "
        "again from its publisher."
    )


def _check_space(archive: Path, scratch: Path, need: int, free: int) -> None:
    if need > free:
        raise OSError(
            errno.ENOSPC,
            f"{archive} unpacks to at least {need} bytes, but only {free} are free. Free some "
            "space; if it should be smaller, delete it and download it again",
            str(scratch.parent),
        )


def _check_unblocked(archive: Path, folder: Path, place: Path, name: str) -> None:
    """Raise if a folder, a link or the archive itself is in the way of a file."""
    target = folder / place
    blocked = [
        path
        for path in (folder / parent for parent in place.parents[:-1])
        if path.is_symlink() or (path.exists() and not path.is_dir())
    ]
    if target.is_dir() or (target.exists() and target.samefile(archive)):
        blocked.append(target)
    if blocked:
        raise FileExistsError(
            errno.EEXIST, f"is in the way of {name!r} from {archive}; move it away", str(blocked[0])
        )
