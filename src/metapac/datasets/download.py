"""Fetch a published file: complete, verified, and going on where a broken connection stopped."""

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from metapac._version import __version__
from metapac.persistence import replacing

try:
    import fcntl
except ImportError:  # Windows: two processes that fetch the same file are not kept apart
    fcntl = None  # type: ignore[assignment]

Progress = Callable[[int, int | None], None]  # bytes done, bytes in all where that is known

_CHUNK = 1 << 16
_WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before another attempt, after one that brought nothing new
_PASSING = (408, 425, 429)  # with all from 500 on: answers that may be another one next time


class DownloadFailed(OSError):
    """A published file that could not be fetched."""


@dataclass(frozen=True)
class Download:
    """One published file; ``sha256`` is None where its publisher may change it."""

    url: str
    name: str
    sha256: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://(?![/?#])[!-~]+", self.url):
            raise ValueError(
                "url must begin with http:// or https:// and a host, and have characters other "
                f"than ASCII percent-encoded, got {self.url!r}."
            )
        if self.name in ("", ".", "..") or set(self.name) & set("/\\:\0"):
            raise ValueError(f"name must be a file name without folders, got {self.name!r}.")
        if self.sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(
                f"sha256 must be 64 digits of 0-9 and a-f, or None, got {self.sha256!r}."
            )


def download(
    item: Download,
    folder: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    timeout: float = 30,
) -> Path:
    """Return ``folder/item.name``, complete and, where its SHA-256 is known, verified.

    A file that is there already is kept. Bytes go to ``NAME.part``, and a later call goes on where
    this one stopped, if the server still has the same file. Another process that fetches the same
    file is waited for. ``timeout`` is how many seconds the server may be silent.
    """
    if not timeout > 0:
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}.")
    target = Path(folder) / item.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = _Part(target.with_name(f"{item.name}.part"))
        with part.held():
            if not target.exists():  # or another process fetched it while this one waited
                _fetch(item, part, target, progress or (lambda done, total: None), timeout)
                return target
    _verify_kept(item, target)
    return target


def _verify_kept(item: Download, target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(
            errno.EISDIR, f"a folder is in the way of {item.url}; move it away", str(target)
        )
    if item.sha256 is not None and (found := _sha256(target)) != item.sha256:
        raise ValueError(
            f"{target} has the SHA-256 {found}, but {item.url} was published with {item.sha256}. "
            "Delete the file and run again."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Part:
    """Bytes that came so far in a file, and beside it a note of the version that they are of."""

    def __init__(self, path: Path) -> None:
        self.path, self._note = path, path.with_name(f"{path.name}.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the part to this process for a while; another one that wants it waits."""
        file = self._locked()
        try:
            yield
        finally:
            if self.path.exists() and not self.size:
                self.drop()
            file.close()

    def _locked(self) -> IO[bytes]:
        while True:
            file = self.path.open("ab")
            if fcntl is None:
                file.close()  # Windows renames no open file
                return file
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                    return file
            file.close()  # its last holder gave it its final name, or threw it away

    def begin(self, url: str, headers: Message, total: int | None) -> None:
        """Empty the part, then note the version to come, if there is a way to ask for it again."""
        os.truncate(self.path, 0)  # first: a note must never be of other bytes
        etag, modified = headers.get("ETag", ""), headers.get("Last-Modified")
        if etag and not etag.startswith("W/"):  # a weak one may stay while bytes change
            version = {"header": "ETag", "value": etag}
        elif modified:
            version = {"header": "Last-Modified", "value": modified}
        else:
            self._note.unlink(missing_ok=True)
            return
        with replacing(self._note) as file:
            json.dump({"url": url, **version, "total": total}, file)

    def version(self, url: str) -> dict[str, Any]:
        """Return the version that the bytes are of, or an empty one if that is not known."""
        try:
            note = json.loads(self._note.read_bytes())
            known = {"header": str(note["header"]), "value": str(note["value"])}
            return {**known, "total": note["total"]} if note["url"] == url else {}
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return {}

    def drop(self) -> None:
        self.path.unlink()
        self._note.unlink(missing_ok=True)

    def finish(self, target: Path) -> None:
        self.path.replace(target)
        self._note.unlink(missing_ok=True)


class _Problem(Exception):
    """Why an attempt failed; whether another may succeed, and whether it must begin anew."""

    def __init__(self, what: str, *, again: bool = True, anew: bool = False) -> None:
        super().__init__(what)
        self.again, self.anew = again, anew


def _fetch(item: Download, part: _Part, target: Path, progress: Progress, timeout: float) -> None:
    """Fill the part and give it its final name, or throw it away if its checksum is wrong."""
    _fill(item, part, target, progress, timeout)
    if item.sha256 is not None and (found := _sha256(part.path)) != item.sha256:
        part.drop()
        raise ValueError(
            f"{target.name} from {item.url} has the SHA-256 {found}, but was published with "
            f"{item.sha256}; it was deleted. Run again; if this comes back, its publisher has "
            "changed the file, or something on the way does."
        )
    part.finish(target)


def _fill(item: Download, part: _Part, target: Path, progress: Progress, timeout: float) -> None:
    """Try until the part is complete, or until several tries brought it no further."""
    furthest, failures = 0, 0
    while True:
        try:
            return _attempt(item, part, progress, timeout)
        except _Problem as problem:
            if problem.anew:
                os.truncate(part.path, 0)
            if part.size > furthest:
                furthest, failures = part.size, 0
            if not problem.again or failures == len(_WAITS):
                raise DownloadFailed(
                    f"{item.url} could not be fetched: {problem}. Run again later, or download it "
                    f"by hand and put it to {target}."
                ) from problem
            time.sleep(_WAITS[failures])
            failures += 1


def _attempt(item: Download, part: _Part, progress: Progress, timeout: float) -> None:
    """Ask for what is missing and write it down; raise _Problem if some of it stays missing."""
    version = part.version(item.url)
    have = part.size if version or item.sha256 else 0
    with _ask(item.url, have, version, timeout) as response:
        start, total = _extent(response, have, version)
        if total is None and not response.chunked and item.sha256 is None:
            raise _Problem("neither its length nor its SHA-256 is known", again=False)
        if not start:
            part.begin(item.url, response.headers, total)
        if response.status != 416:
            _receive(response, part.path, start, total, progress, timeout)


def _ask(url: str, have: int, version: dict[str, Any], timeout: float) -> http.client.HTTPResponse:
    """Return the answer to a request for all bytes from ``have`` on, of the given version."""
    headers = {"User-Agent": f"metapac/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    if have and version:
        headers["If-Range"] = version["value"]
    request = urllib.request.Request(url, headers=headers)
    opener = urllib.request.build_opener(_Redirects, _Answers)
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        again = error.code >= 500 or error.code in _PASSING
        reason = " ".join(str(error.reason).split())
        raise _Problem(f"HTTP {error.code} {reason}", again=again) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _unanswered(error, timeout) from error
    return response


def _unanswered(error: Exception, timeout: float) -> _Problem:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return _Problem(f"no answer within {timeout:g} seconds")
    if isinstance(reason, socket.gaierror):
        return _Problem(f"its host is not known ({reason})")
    # A bad address stays bad, and so does a certificate that is not trusted, also a ValueError.
    final = isinstance(reason, (ValueError, http.client.InvalidURL))
    return _Problem(str(reason) or type(reason).__name__, again=not final)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect unless it leaves the web, or leaves https for http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        here, there = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if there != "https" and (there != "http" or here == "https"):
            refusal = f"redirects from {here} to {newurl}, which is not followed"
            raise urllib.error.HTTPError(newurl, code, refusal, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Answers(urllib.request.HTTPErrorProcessor):
    """Takes 416, that the file ends before the range asked for, as an answer like others."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response if response.status == 416 else super().http_response(request, response)

    https_response = http_response


def _extent(
    response: http.client.HTTPResponse, have: int, version: dict[str, Any]
) -> tuple[int, int | None]:
    """Return the position of the first byte of an answer, and the size of the whole file."""
    headers, status = response.headers, response.status
    encoding = headers.get("Content-Encoding") or "identity"
    if encoding.lower() != "identity":
        raise _Problem(f"the server packs it ({encoding}), though asked not to", again=False)
    if status == 200:
        return 0, response.length
    if status not in (206, 416) or not have:
        raise _Problem(f"HTTP {status} in answer to a plain request", again=False)
    stated = headers.get("Content-Range", "")
    found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+)", stated)
    total = int(found[2]) if found else -1
    start = int(found[1]) if found and found[1] else total  # 416 tells the end alone
    # Not every server heeds If-Range: an answer of another version is known by its headers too.
    other = version and headers.get(version["header"], version["value"]) != version["value"]
    if start != have or other or (version and version["total"] not in (None, total)):
        raise _Problem(f"HTTP {status} with range {stated!r} in answer to {have}-", anew=True)
    return start, total


def _receive(
    response: http.client.HTTPResponse,
    path: Path,
    start: int,
    total: int | None,
    progress: Progress,
    timeout: float,
) -> None:
    """Write the body of an answer from ``start`` on."""
    done = start
    try:
        with path.open("r+b") as file:
            file.seek(start)
            for chunk in _chunks(response, timeout):
                file.write(chunk)
                done += len(chunk)
                progress(done, total)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # a full disk says what it is, but not where
        error.filename = error.filename or str(path)
        raise
    if total is not None and done != total:
        raise _Problem(f"it broke off after {done} of {total} bytes", anew=done > total)


def _chunks(response: http.client.HTTPResponse, timeout: float) -> Iterator[bytes]:
    """Yield a body as it arrives, up to its end or to where the connection was closed."""
    while True:
        try:
            chunk = response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise _unanswered(error, timeout) from error
        if not chunk:
            return
        yield chunk
