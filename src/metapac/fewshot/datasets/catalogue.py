"""The data sets of the paper: published files, resumed downloads, safe archives, preparation."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import math
import os
import re
import stat
import tarfile
import time
import tomllib
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from metapac._common import PathLike, Progress, check_one_of, data_home, ignore_progress
from metapac._version import __version__
from metapac.artefact import check_ratio, first_line, lock_file, private_folder, replacing
from metapac.errors import BadArchive, BadArtefact, DownloadFailed, InvalidInput
from metapac.fewshot.datasets import cache

_WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before each retry, if attempts bring nothing new
_TIMEOUT = 30.0  # seconds without a byte
_TRANSIENT = (408, 425, 429)  # status codes to retry, in addition to all from 500 on


@dataclass(frozen=True)
class Download:
    """One published file."""

    url: str
    name: str
    sha256: str | None = None


def download(item: Download, folder: PathLike, *, progress: Progress = ignore_progress) -> Path:
    """Download a file unless it is already there; resume, retry, or wait for another process."""
    target = Path(folder) / item.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock_file(target, f"downloading {item.url}", wait=math.inf):
            if not target.exists():  # else another process has just finished it
                _Transfer(item, target, progress).run()
                return target
    _check_sha256(item, target)
    return target


def _check_sha256(item: Download, path: Path) -> None:
    if item.sha256 is None:
        return
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != item.sha256:
        text = f"{path} has the SHA-256 {actual}, but {item.url} was published with {item.sha256}"
        raise InvalidInput(f"{text}. Delete the file, if it is still there, and run again.")


class _Failure(Exception):
    """An attempt failed; ``final`` if another one would fail as well."""

    def __init__(self, reason: object, *, final: bool = False) -> None:
        super().__init__(" ".join(str(reason).split()) or type(reason).__name__)
        self.final = final


class _Transfer:
    """One download: attempts that each continue where the last one stopped."""

    def __init__(self, item: Download, target: Path, progress: Progress) -> None:
        self.item, self.target, self.progress = item, target, progress
        self.part = target.with_name(f"{item.name}.part")
        self.note = target.with_name(f"{item.name}.part.version")

    def run(self) -> None:
        """Download the file and rename it, or delete it if its checksum is wrong."""
        self._retry()
        try:
            _check_sha256(self.item, self.part)
            self.part.replace(self.target)
        except InvalidInput:
            self.part.unlink()
            raise
        finally:
            self.note.unlink(missing_ok=True)

    def _retry(self) -> None:
        """Try until the file is complete, or several attempts in a row brought nothing new."""
        furthest, failures = 0, 0
        while True:
            try:
                return self._attempt()
            except _Failure as failure:
                if self._size() > furthest:
                    furthest, failures = self._size(), 0
                if failure.final or failures == len(_WAITS):
                    text = f"{self.item.url} could not be downloaded: {failure}. Run again later"
                    raise DownloadFailed(f"{text}, or save it as {self.target}.") from failure
                time.sleep(_WAITS[failures])
                failures += 1

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _attempt(self) -> None:
        """Request the missing bytes and write them."""
        version = self.note.read_text("utf-8") if self.note.exists() else None
        have = self._size() if version or self.item.sha256 else 0
        with self._request(have, version) as response:
            done, total = self._find_extent(response, have, version)
            if total is None and not response.chunked and not self.item.sha256:
                raise _Failure("neither its length nor its SHA-256 is known", final=True)
            if not done:
                self._restart(_version(response.headers))
            with self.part.open("r+b") as file:
                file.seek(done)
                while response.status != 416 and (chunk := _read(response)):
                    file.write(chunk)
                    done += len(chunk)
                    self.progress(self.item.name, done, total)
                file.flush()
                os.fsync(file.fileno())
        if total not in (None, done):
            raise _Failure(f"the transfer ended after {done} of {total} bytes")

    def _request(self, have: int, version: str | None) -> Any:
        """Request the bytes of a version from ``have`` on."""
        headers = {"User-Agent": f"metapac/{__version__}", "Accept-Encoding": "identity"}
        headers |= {"Range": f"bytes={have}-"} if have else {}
        headers |= {"If-Range": version} if have and version else {}
        request = urllib.request.Request(self.item.url, headers=headers)
        try:
            return urllib.request.build_opener(_Redirects).open(request, timeout=_TIMEOUT)
        except urllib.error.HTTPError as error:
            if error.code == 416 and have:  # nothing is missing, or the bytes are of another file
                return error
            error.close()
            final = error.code < 500 and error.code not in _TRANSIENT
            raise _Failure(f"HTTP {error.code} {error.reason}", final=final) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            # A bad address or certificate, which is a ValueError too, does not get better.
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            final = isinstance(reason, (ValueError, http.client.InvalidURL))
            raise _Failure(reason, final=final) from error

    def _find_extent(self, response: Any, have: int, version: str | None) -> tuple[int, int | None]:
        """Return the position of the first byte of a response, and the size of the whole file."""
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise _Failure("the server compresses it unrequested", final=True)
        if response.status == 200:
            return 0, response.length
        if response.status not in (206, 416) or not have:
            raise _Failure(f"HTTP {response.status} in response to a plain request", final=True)
        stated = response.headers.get("Content-Range", "")
        match = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+)", stated)
        is_same = _version(response.headers) in (None, version)  # not every server heeds If-Range
        if response.status == 416 and not self.item.sha256:
            is_same = False  # another version may have as many bytes as have come of this one
        if not match or int(match[1] or match[2]) != have or not is_same:
            self._restart(None)
            raise _Failure(f"HTTP {response.status}, range {stated!r} in response to {have}-")
        return have, int(match[2])

    def _restart(self, version: str | None) -> None:
        """Empty the file, then note the version of what comes: it never belongs to other bytes."""
        self.part.write_bytes(b"")
        self.note.unlink(missing_ok=True)
        if version:
            with replacing(self.note) as file:
                file.write(version)


def _version(headers: Any) -> str | None:
    """Return what identifies a version; a weak tag may stay the same while bytes change."""
    etag: str | None = headers.get("ETag")
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(1 << 16)
    except (OSError, http.client.HTTPException) as error:
        raise _Failure(error) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https or to the same protocol."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not newurl.startswith(("https:", f"{req.type}:")):
            refusal = f"redirects to {newurl}, which is not followed"
            raise urllib.error.HTTPError(newurl, code, refusal, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_DAMAGE = (gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile, zlib.error)


def unpack(archive: PathLike, *, progress: Progress = ignore_progress) -> list[Path]:
    """Unpack a .zip or .tar.gz file into its folder, all of it or nothing."""
    # Links, names that lead out of the folder and absurd sizes are refused.
    archive, done, targets = Path(archive), 0, list[Path]()
    with private_folder(".unpacking", archive.parent) as scratch:
        try:
            for name, size, is_special, extract in _members(archive):
                done += size
                check_ratio(archive, done)
                _check_member(archive, name, is_special)
                extract(scratch)
                progress(f"unpacking {archive.name}", done, None)
        except BadArchive:
            raise
        except (EOFError, LookupError, RuntimeError, ValueError, *_DAMAGE) as error:
            text = f"{archive} is damaged ({first_line(error)}). Delete it and download it again."
            raise BadArchive(text) from error
        files = [path for path in scratch.rglob("*") if path.is_file()]
        for path in files:
            parts = [part.rstrip(" ") for part in path.relative_to(scratch).parts]
            targets.append(archive.parent.joinpath(*parts))
            _check_target(archive, targets[-1], targets[:-1])
        for path, target in zip(files, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
    return targets


def _check_target(archive: Path, target: Path, others: Sequence[Path]) -> None:
    """Raise unless a file can be put there without harm to another."""
    above = [path for path in target.parents if archive.parent in path.parents]
    blocked = target.is_dir() or any(path.is_symlink() or path.is_file() for path in above)
    if target == archive or target in others or blocked:
        name = target.relative_to(archive.parent)
        raise BadArchive(f"{archive} holds {str(name)!r}, which is taken. Nothing was unpacked.")


def _members(archive: Path) -> Iterator[tuple[str, int, bool, Callable[[Path], object]]]:
    """Yield name and size, whether it is neither file nor folder, and what extracts a member."""
    if archive.suffix.lower() == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                is_special = kind not in (0, stat.S_IFREG, stat.S_IFDIR)
                yield info.filename, info.file_size, is_special, partial(zipped.extract, info)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            is_special = not (member.isreg() or member.isdir())
            yield member.name, member.size, is_special, partial(tar.extract, member, filter="data")
        assert tar.fileobj is not None
        tar.fileobj.seek(tar.offset)
        # tarfile takes an unreadable header for the end, which is a block of zeros.
        if tar.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("it has no end")
        while tar.fileobj.read(1 << 16):
            pass  # gzip verifies its checksum at the end


def _check_member(archive: Path, name: str, is_special: bool) -> None:
    """Raise unless a member is a file or folder in the folder: zipfile would change its name."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    leaves = name.startswith("/") or {*name} & {*"\\:"} or not all(p.strip(". ") for p in parts)
    if leaves or is_special:
        why = "a name that leads out of the folder" if leaves else "a link or a device"
        raise BadArchive(f"{archive} holds {name!r}: {why}. Nothing was unpacked.")


@dataclass(frozen=True)
class DataSet:
    """A published data set; the module of its name in this package prepares it."""

    name: str
    title: str
    licence: str
    downloads: tuple[Download, ...]
    by_hand: str = ""

    def source(self, home: cache.Home = None) -> Path:
        return data_home(home) / self.name / "source"

    def fetch(self, *, home: cache.Home = None, progress: Progress = ignore_progress) -> Path:
        """Download and unpack the files that are not there yet."""
        folder = self.source(home)
        for item in self.downloads:
            path = download(item, folder, progress=progress)
            if path.name.endswith((".zip", ".tar.gz")):
                _unpack_once(path, progress)
        return folder

    def missing(self, folder: PathLike) -> Any:
        """Return what a folder lacks before it can be prepared, as a list of sentences."""
        return import_module(f"{__package__}.{self.name}").missing(folder)

    def prepare(self, folder: PathLike, **options: Any) -> Any:
        """Convert the publisher's files into memory-mapped arrays; see the data set's module."""
        return import_module(f"{__package__}.{self.name}").prepare(folder, **options)

    def find_prepared(self, home: cache.Home = None) -> cache.Prepared | None:
        try:
            return cache.open_prepared(self.name, home)
        except FileNotFoundError:
            return None

    def describe(self, home: cache.Home = None) -> dict[str, str]:
        """Return name, title, licence and state: absent, fetched, prepared or damaged."""
        state = "fetched" if self.source(home).is_dir() else "absent"
        try:
            state = state if self.find_prepared(home) is None else "prepared"
        except BadArtefact:
            state = "damaged"
        return {"name": self.name, "title": self.title, "licence": self.licence, "state": state}


def _unpack_once(archive: Path, progress: Progress) -> None:
    """Unpack an archive, unless its files are there and it has not changed."""
    marker = archive.with_name(f".{archive.name}.unpacked")
    state = cache.file_state(archive)
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):  # not unpacked yet
        unpacked = json.loads(marker.read_bytes())
        is_there = all((archive.parent / name).is_file() for name in unpacked["files"])
        if unpacked["archive"] == state and is_there:
            return
    files = unpack(archive, progress=progress)
    names = [str(file.relative_to(archive.parent)) for file in files]
    with replacing(marker) as file:
        json.dump({"archive": state, "files": names}, file)


def _read_catalogue(file: Path) -> Iterator[DataSet]:
    """Yield the data sets of a file, whose downloads have a SHA-256 if their content is known."""
    for name, facts in tomllib.loads(file.read_text("utf-8")).items():
        downloads = [
            Download(each["base"] + path, path.rpartition("/")[2], sha256 or None)
            for each in facts.pop("downloads")
            for path, sha256 in each["files"].items()
        ]
        yield DataSet(name, downloads=tuple(downloads), **facts)


_FILE = Path(__file__).with_suffix(".toml")
CATALOGUE = {entry.name: entry for entry in _read_catalogue(_FILE)}


def get_data_set(name: str) -> DataSet:
    check_one_of("name", name, tuple(CATALOGUE))
    return CATALOGUE[name]
