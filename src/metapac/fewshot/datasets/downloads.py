"""Downloads and archives, resumed and checked."""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import stat
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from metapac._common import PathLike, Progress, ignore_progress
from metapac._version import __version__
from metapac.artefact import check_ratio, private_folder, replacing
from metapac.errors import BadArchive, DownloadFailed, InvalidInput

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


try:
    import fcntl
except ImportError:  # Windows: two processes may download the same file at once
    fcntl = None  # type: ignore[assignment]

_WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before each retry, if attempts bring nothing new
_TRANSIENT = (408, 425, 429)  # status codes to retry, in addition to all from 500 on


@dataclass(frozen=True)
class Download:
    """One published file."""

    url: str
    name: str
    sha256: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://(?![/?#])[!-~]+", self.url):
            raise InvalidInput(
                "url must start with http:// or https:// and a host, with all characters outside "
                f"ASCII percent-encoded, got {self.url!r}."
            )
        try:
            urlsplit(self.url)
        except ValueError as error:  # such as a bracket that is not closed
            raise InvalidInput(f"url must be a valid address, got {self.url!r}: {error}.") from None
        if self.name in ("", ".", "..") or set(self.name) & set("/\\:\0"):
            raise InvalidInput(f"name must be a file name without folders, got {self.name!r}.")
        if self.sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise InvalidInput(
                f"sha256 must be 64 hexadecimal digits (0-9, a-f) or None, got {self.sha256!r}."
            )


def download(
    item: Download, folder: PathLike, *, progress: Progress | None = None, timeout: float = 30
) -> Path:
    """Download a file unless it is already there; resume and retry if needed.

    Bytes go to ``NAME.part`` first. A later call resumes there if the server still has the same
    version. If another process is downloading the file, this one waits for it.
    """
    if not timeout > 0:
        raise InvalidInput(f"timeout must be a number of seconds above 0, got {timeout!r}.")
    target = Path(folder) / item.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        transfer = _Transfer(item, target, progress or ignore_progress, timeout)
        with transfer.part.locked():
            if not target.exists():  # else another process has just finished it
                transfer.run()
                return target
    _verify_existing(item, target)
    return target


def _verify_existing(item: Download, target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(
            errno.EISDIR, f"a folder is in the way of {item.url}; move it away", str(target)
        )
    if item.sha256 is not None and (actual := _sha256(target)) != item.sha256:
        raise InvalidInput(
            f"{target} has the SHA-256 {actual}, but {item.url} was published with {item.sha256}. "
            "Delete the file and run again."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Part:
    """The bytes received so far, and a note of the version that they belong to."""

    def __init__(self, path: Path) -> None:
        self.path, self._note = path, path.with_name(f"{path.name}.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold an exclusive lock; other processes that download the same file wait."""
        file = self._acquire()
        try:
            yield
        finally:
            if self.path.exists() and not self.size:
                self.delete()
            file.close()

    def _acquire(self) -> IO[bytes]:
        while True:
            file = self.path.open("ab")
            if fcntl is None:
                file.close()  # Windows cannot rename an open file
                return file
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                    return file
            file.close()  # the previous holder renamed or deleted it: lock the new one

    def restart(self, url: str, headers: Message, total: int | None) -> None:
        """Empty the file, then note the new version if the server identifies it."""
        os.truncate(self.path, 0)  # first: a note must never describe other bytes
        etag, modified = headers.get("ETag", ""), headers.get("Last-Modified")
        if etag and not etag.startswith("W/"):  # a weak tag may stay the same while bytes change
            version = {"header": "ETag", "value": etag}
        elif modified:
            version = {"header": "Last-Modified", "value": modified}
        else:
            self._note.unlink(missing_ok=True)
            return
        with replacing(self._note) as file:
            json.dump({"url": url, **version, "total": total}, file)

    def version(self, url: str) -> dict[str, Any]:
        """Return the version of the bytes received so far; empty if it is unknown."""
        try:
            note = json.loads(self._note.read_bytes())
            version = {"header": str(note["header"]), "value": str(note["value"])}
            return {**version, "total": note["total"]} if note["url"] == url else {}
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return {}

    def delete(self) -> None:
        self.path.unlink()
        self._note.unlink(missing_ok=True)

    def finish(self, target: Path) -> None:
        self.path.replace(target)
        self._note.unlink(missing_ok=True)


class _Failure(Exception):
    """An attempt failed; says whether to retry, and whether from the first byte."""

    def __init__(self, reason: str, *, retryable: bool = True, restart: bool = False) -> None:
        super().__init__(reason)
        self.retryable, self.restart = retryable, restart


class _Transfer:
    """One download: attempts that each continue where the last one stopped."""

    def __init__(self, item: Download, target: Path, progress: Progress, timeout: float) -> None:
        self.item, self.target, self.progress, self.timeout = item, target, progress, timeout
        self.part = _Part(target.with_name(f"{item.name}.part"))

    def run(self) -> None:
        """Download the file and rename it, or delete it if its checksum is wrong."""
        self._complete()
        item = self.item
        if item.sha256 is not None and (actual := _sha256(self.part.path)) != item.sha256:
            self.part.delete()
            raise InvalidInput(
                f"{item.name} from {item.url} has the SHA-256 {actual}, but was published with "
                f"{item.sha256}; it was deleted. Run again. If this happens twice, the file was "
                "changed by its publisher or in transit."
            )
        self.part.finish(self.target)

    def _complete(self) -> None:
        """Retry until the file is complete, or several attempts in a row brought nothing new."""
        furthest, failures = 0, 0
        while True:
            try:
                return self._attempt()
            except _Failure as failure:
                if failure.restart:
                    os.truncate(self.part.path, 0)
                if self.part.size > furthest:
                    furthest, failures = self.part.size, 0
                if not failure.retryable or failures == len(_WAITS):
                    raise DownloadFailed(
                        f"{self.item.url} could not be downloaded: {failure}. Run again later, or "
                        f"download it by hand and save it as {self.target}."
                    ) from failure
                time.sleep(_WAITS[failures])
                failures += 1

    def _attempt(self) -> None:
        """Request and write the missing bytes."""
        item, part = self.item, self.part
        version = part.version(item.url)
        have = part.size if version or item.sha256 else 0
        with _request(item.url, have, version, self.timeout) as response:
            start, total = _extent(response, have, version)
            if total is None and not response.chunked and item.sha256 is None:
                raise _Failure("neither its length nor its SHA-256 is known", retryable=False)
            if not start:
                part.restart(item.url, response.headers, total)
            if response.status != 416:  # otherwise nothing is missing
                self._receive(response, start, total)

    def _receive(self, response: Any, start: int, total: int | None) -> None:
        """Write the body of a response from ``start`` on."""
        done = start
        try:
            with self.part.path.open("r+b") as file:
                file.seek(start)
                for chunk in _chunks(response, self.timeout):
                    file.write(chunk)
                    done += len(chunk)
                    self.progress(self.item.name, done, total)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:  # the message for a full disk does not name the file
            error.filename = error.filename or str(self.part.path)
            raise
        if total is not None and done != total:
            raise _Failure(
                f"the transfer ended after {done} of {total} bytes", restart=done > total
            )


def _request(url: str, have: int, version: dict[str, Any], timeout: float) -> Any:
    """Request the bytes of a version from ``have`` on."""
    headers = {"User-Agent": f"metapac/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    if have and version:
        headers["If-Range"] = version["value"]
    request = urllib.request.Request(url, headers=headers)
    try:
        return urllib.request.build_opener(_Redirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the range is empty: the file may be complete
            return error
        error.close()
        retryable = error.code >= 500 or error.code in _TRANSIENT
        reason = " ".join(str(error.reason).split())
        raise _Failure(f"HTTP {error.code} {reason}", retryable=retryable) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _connection_failure(error, timeout) from error


def _connection_failure(error: Exception, timeout: float) -> _Failure:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return _Failure(f"no response within {timeout:g} seconds")
    if isinstance(reason, socket.gaierror):
        return _Failure(f"its host name cannot be resolved ({reason})")
    # No retry for a bad address or an untrusted certificate, which is a ValueError too.
    final = isinstance(reason, (ValueError, http.client.InvalidURL))
    return _Failure(str(reason) or type(reason).__name__, retryable=not final)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, except to other protocols or from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new != "https" and (new != "http" or old == "https"):
            refusal = f"redirects from {old} to {newurl}, which is not followed"
            raise urllib.error.HTTPError(newurl, code, refusal, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _extent(response: Any, have: int, version: dict[str, Any]) -> tuple[int, int | None]:
    """Return the position of the first byte of a response, and the size of the whole file."""
    encoding = response.headers.get("Content-Encoding") or "identity"
    if encoding.lower() != "identity":
        raise _Failure(f"the server compresses it ({encoding}) unrequested", retryable=False)
    if response.status == 200:
        return 0, response.length
    if response.status not in (206, 416) or not have:
        raise _Failure(f"HTTP {response.status} in response to a plain request", retryable=False)
    content_range = response.headers.get("Content-Range", "")
    start, total = _parse_range(content_range)
    if start != have or _has_changed(response.headers, total, version):
        raise _Failure(
            f"HTTP {response.status} with range {content_range!r} in response to {have}-",
            restart=True,
        )
    return start, total


def _parse_range(content_range: str) -> tuple[int, int]:
    """Return the first byte and the size of the file; with status 416, both are the size."""
    match = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+)", content_range)
    return (int(match[1] or match[2]), int(match[2])) if match else (-1, -1)


def _has_changed(headers: Message, total: int, version: dict[str, Any]) -> bool:
    """Whether a response is of another version, since not every server respects If-Range."""
    if not version:
        return False
    value = headers.get(version["header"], version["value"])
    return value != version["value"] or version["total"] not in (None, total)


def _chunks(response: http.client.HTTPResponse, timeout: float) -> Iterator[bytes]:
    """Yield the body as it arrives, up to its end or the end of the connection."""
    while True:
        try:
            chunk = response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise _connection_failure(error, timeout) from error
        if not chunk:
            return
        yield chunk
