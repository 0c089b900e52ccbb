"""Downloads of published files: complete, verified, and resumed after an interruption."""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from metapac._files import replacing
from metapac._types import PathLike, Progress, ignore_progress
from metapac._version import __version__
from metapac.exceptions import DownloadFailed, InvalidInput

try:
    import fcntl
except ImportError:  # Windows: two processes may download the same file at once
    fcntl = None  # type: ignore[assignment]

_CHUNK = 1 << 16
_WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before each retry, if attempts bring nothing new
_TRANSIENT = (408, 425, 429)  # status codes to retry, in addition to all from 500 on


@dataclass(frozen=True)
class Download:
    """One published file.

    Parameters
    ----------
    url : str
        Address, starting with http:// or https://.
    name : str
        File name to store it under.
    sha256 : str, optional
        Checksum to verify; None if the publisher may change the file.
    """

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

    Parameters
    ----------
    item : Download
        What to download.
    folder : path_like
        Folder to store it in; created if needed.
    progress : callable, optional
        Called as ``progress(name, bytes_done, bytes_total)``; the total is None if unknown.
    timeout : float, optional
        Seconds without a response after which an attempt fails.

    Returns
    -------
    Path
        The complete file, verified if its SHA-256 is given.

    Raises
    ------
    DownloadFailed
        If all attempts failed.
    InvalidInput
        If the checksum is wrong.
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
