"""Downloads: against a server on this machine that breaks off, changes its mind, and lies."""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.client
import importlib
import json
import os
import re
import resource
import socket
import ssl
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac.errors import DownloadFailed
from metapac.fewshot.datasets.downloads import Download, download

fcntl = pytest.importorskip("fcntl")
MODULE = importlib.import_module("metapac.fewshot.datasets.downloads")
BODY = bytes(range(256)) * 1000  # several reads of the client
SHA = hashlib.sha256(BODY).hexdigest()
OTHER = BODY[::-1] + b"longer"

Act = Callable[["Handler"], None]


class Site(ThreadingHTTPServer):
    """A web site with one file, and a list of responses to the next requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, str]] = []
        self.plan: list[Act] = []
        self.publish(BODY, ETag='"one"')

    def publish(self, body: bytes, **headers: str) -> None:
        self.body = body
        self.validators = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/data.bin"

    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for headers in self.asked]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        self.server.asked.append(dict(self.headers))
        act = self.server.plan.pop(0) if self.server.plan else serve
        act(self)

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        """Send exactly these headers, then the body, and close the connection."""
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


def serve(self: Handler, cut: int | None = None, heeds_if_range: bool = True) -> None:
    """Respond as RFC 9110 says, but send only ``cut`` bytes of the body."""
    site = self.server
    wanted = self.headers.get("Range")
    if heeds_if_range and self.headers.get("If-Range", "") not in ("", *site.validators.values()):
        wanted = None
    start, size = int(wanted[6:-1]) if wanted else 0, len(site.body)
    if wanted and start >= size:
        return self.answer(416, Content_Range=f"bytes */{size}", Content_Length="0")
    whole = {"Content_Length": str(size - start), **site.validators}
    if wanted:
        whole["Content_Range"] = f"bytes {start}-{size - 1}/{size}"
    return self.answer(206 if wanted else 200, site.body[start:][:cut], **whole)


def unsafe(self: Any, request: Any) -> Any:
    """Open https addresses as http, since there is no certificate."""
    return self.do_open(http.client.HTTPConnection, request)


def cut(after: int) -> Act:
    return partial(serve, cut=after)


def status(code: int, body: bytes = b"", **headers: str) -> Act:
    given = {"Content_Length": str(len(body))} | headers
    return lambda handler: handler.answer(code, body, **given)


def hang_up(handler: Handler) -> None:
    handler.close_connection = True


def reset(handler: Handler) -> None:
    """Send a part of the body, then reset the connection."""
    cut(1000)(handler)
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.rfile.close()
    handler.wfile.flush()


def chunked(handler: Handler, body: bytes = BODY, complete: bool = True) -> None:
    frame = f"{len(body):x}\r\n".encode() + body + b"\r\n"
    end = b"0\r\n\r\n" if complete else b""
    handler.answer(200, frame + end, Transfer_Encoding="chunked", **handler.server.validators)


@pytest.fixture(scope="module", autouse=True)
def _no_waiting() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "_WAITS", (0.0, 0.0))
        patch.setattr(
            os, "fsync", lambda number: None
        )  # slow, and matters only after a power failure
        patch.setenv("no_proxy", "*")
        yield


@pytest.fixture
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_WAITS", ())


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as site:
        yield site


class running:  # noqa: N801 - a context manager that reads as one
    def __enter__(self) -> Site:
        self.site = Site()
        self.thread = threading.Thread(target=self.site.serve_forever, args=(0.005,))
        self.thread.start()
        return self.site

    def __exit__(self, *error: object) -> None:
        self.site.shutdown()
        self.thread.join()
        self.site.server_close()


def fetch(site: Site, folder: Path, sha256: str | None = None, **options: Any) -> bytes:
    path = download(Download(site.url, "data.bin", sha256), folder, **options)
    assert path == folder / "data.bin"
    return path.read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("sha256", [SHA, None])
def test_a_file_arrives_and_nothing_else_is_left(site: Site, tmp_path: Path, sha256: str) -> None:
    assert fetch(site, tmp_path / "new" / "folder", sha256) == BODY
    assert names(tmp_path / "new" / "folder") == ["data.bin"]
    (headers,) = site.asked
    assert headers["Accept-Encoding"] == "identity"
    assert headers["User-Agent"].startswith("metapac/")
    assert not {"Range", "If-Range"} & set(headers)


def test_an_empty_file_is_a_file(site: Site, tmp_path: Path) -> None:
    site.publish(b"", ETag='"none"')
    assert fetch(site, tmp_path) == b""
    assert names(tmp_path) == ["data.bin"]


def test_progress_counts_bytes_and_continues_after_an_interruption(
    site: Site, tmp_path: Path
) -> None:
    site.plan = [cut(100_000)]
    seen: list[tuple[str, int, int | None]] = []
    fetch(site, tmp_path, progress=lambda *call: seen.append(call))
    stages, done, totals = zip(*seen, strict=True)
    assert set(stages) == {"data.bin"}
    assert list(done) == sorted(set(done))
    assert 100_000 in done
    assert done[-1] == len(BODY)
    assert set(totals) == {len(BODY)}


def test_progress_has_no_total_if_the_size_is_unknown(site: Site, tmp_path: Path) -> None:
    site.plan = [chunked]
    seen: list[int | None] = []
    assert fetch(site, tmp_path, progress=lambda stage, done, total: seen.append(total)) == BODY
    assert set(seen) == {None}


def test_an_existing_file_is_not_downloaded_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"local")
    assert fetch(site, tmp_path) == b"local"
    (tmp_path / "data.bin").write_bytes(BODY)
    assert fetch(site, tmp_path, SHA) == BODY
    assert site.asked == []


def test_an_existing_file_with_a_wrong_checksum_is_named_and_not_deleted(
    site: Site, tmp_path: Path
) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"local")
    actual = hashlib.sha256(b"local").hexdigest()
    message = f"{path} has the SHA-256 {actual}, but {site.url} was published with {SHA}. Delete"
    with pytest.raises(ValueError, match=message):
        fetch(site, tmp_path, SHA)
    assert path.read_bytes() == b"local"
    assert site.asked == []


def test_a_folder_in_the_way_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin").mkdir()
    with pytest.raises(IsADirectoryError, match=r"a folder is in the way of .*; move it away: '/"):
        fetch(site, tmp_path)


@pytest.mark.parametrize("act", [cut(1000), reset, cut(0), hang_up, status(500), status(503)])
def test_a_transient_failure_is_retried(site: Site, tmp_path: Path, act: Act) -> None:
    site.plan = [act, act]
    assert fetch(site, tmp_path, SHA) == BODY
    assert len(site.asked) == 3
    assert names(tmp_path) == ["data.bin"]


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 599])
def test_transient_status_codes_are_retried(site: Site, tmp_path: Path, code: int) -> None:
    site.plan = [status(code)] * 3
    with pytest.raises(DownloadFailed, match=rf"data.bin could not be downloaded: HTTP {code} "):
        fetch(site, tmp_path)
    assert len(site.asked) == 3
    assert names(tmp_path) == []


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 416, 418])
def test_permanent_status_codes_are_not_retried(site: Site, tmp_path: Path, code: int) -> None:
    site.plan = [status(code, b"<html>no</html>")]
    reason = "in response to a plain request" if code == 416 else http.HTTPStatus(code).phrase
    message = (
        rf"^{site.url} could not be downloaded: HTTP {code} {reason}\. Run again later, or "
        rf"download it by hand and save it as {tmp_path / 'data.bin'}\.$"
    )
    with pytest.raises(DownloadFailed, match=message):
        fetch(site, tmp_path)
    assert len(site.asked) == 1
    assert names(tmp_path) == []


@pytest.mark.parametrize("code", [202, 203, 206])
def test_other_success_codes_are_refused(site: Site, tmp_path: Path, code: int) -> None:
    site.plan = [status(code, b"soon", Content_Range="bytes 0-3/4")]
    with pytest.raises(DownloadFailed, match=f"HTTP {code} in response to a plain request"):
        fetch(site, tmp_path)
    assert names(tmp_path) == []


def test_the_next_attempt_requests_the_rest(site: Site, tmp_path: Path) -> None:
    site.plan = [cut(100_000), cut(50_000)]
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == [None, "bytes=100000-", "bytes=150000-"]
    assert [headers.get("If-Range") for headers in site.asked] == [None, '"one"', '"one"']


def test_attempts_that_receive_bytes_do_not_count(site: Site, tmp_path: Path) -> None:
    site.plan = [cut(10_000)] * 20
    assert fetch(site, tmp_path) == BODY
    assert len(site.asked) == 21


def test_restarts_are_limited(site: Site, tmp_path: Path) -> None:
    site.publish(BODY)  # no version: each attempt begins at the first byte
    site.plan = [cut(10_000)] * 99
    with pytest.raises(DownloadFailed, match="the transfer ended after 10000 of 256000 bytes"):
        fetch(site, tmp_path)
    assert len(site.asked) == 3  # the first received bytes, then one for each of _WAITS did not
    assert set(site.ranges()) == {None}


@pytest.mark.usefixtures("one_attempt")
def test_a_later_call_resumes_where_the_last_one_stopped(site: Site, tmp_path: Path) -> None:
    site.plan = [cut(1000)]
    with pytest.raises(DownloadFailed, match=r"after 1000 of 256000 bytes\. Run again later, or"):
        fetch(site, tmp_path)
    assert names(tmp_path) == ["data.bin.part", "data.bin.part.json"]
    assert (tmp_path / "data.bin.part").read_bytes() == BODY[:1000]
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == [None, "bytes=1000-"]
    assert names(tmp_path) == ["data.bin"]


def test_an_interrupted_call_is_resumed(site: Site, tmp_path: Path) -> None:
    def stop(stage: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(site, tmp_path, progress=stop)
    have = (tmp_path / "data.bin.part").stat().st_size
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == [None, f"bytes={have}-"]


def start_download(site: Site, folder: Path, body: bytes, **headers: str) -> None:
    """Leave the first 1000 bytes of a file behind, as an interrupted call does."""
    site.publish(body, **headers)
    site.plan = [cut(1000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "_WAITS", ())
        with pytest.raises(DownloadFailed):
            fetch(site, folder)
    site.asked.clear()


@pytest.mark.parametrize("heeds", [True, False])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"ETag": '"one"'}, {"ETag": '"two"'}),
        ({"Last_Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {"Last_Modified": "later"}),
        ({"ETag": 'W/"a"', "Last_Modified": "once"}, {"ETag": 'W/"a"', "Last_Modified": "later"}),
    ],
)
def test_a_file_that_changed_is_downloaded_again(
    site: Site, tmp_path: Path, before: dict[str, str], after: dict[str, str], heeds: bool
) -> None:
    start_download(site, tmp_path, BODY, **before)
    site.publish(OTHER[: len(BODY)], **after)
    site.plan = [partial(serve, heeds_if_range=heeds)]
    assert fetch(site, tmp_path) == OTHER[: len(BODY)]
    assert site.asked[0]["If-Range"] in before.values()
    assert len(site.asked) == (1 if heeds else 2)


def test_a_file_of_another_length_has_changed_even_if_its_tag_has_not(
    site: Site, tmp_path: Path
) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    site.publish(OTHER, ETag='"one"')
    assert fetch(site, tmp_path) == OTHER


@pytest.mark.parametrize("validators", [{}, {"ETag": 'W/"weak"'}])
def test_without_version_or_checksum_nothing_is_resumed(
    site: Site, tmp_path: Path, validators: dict[str, str]
) -> None:
    start_download(site, tmp_path, BODY, **validators)
    assert names(tmp_path) == ["data.bin.part"]
    site.publish(OTHER, **validators)
    assert fetch(site, tmp_path) == OTHER
    assert site.ranges() == [None]


def test_a_checksum_is_enough_to_resume(site: Site, tmp_path: Path) -> None:
    start_download(site, tmp_path, BODY)
    assert fetch(site, tmp_path, SHA) == BODY
    assert site.ranges() == ["bytes=1000-"]
    assert "If-Range" not in site.asked[0]


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"url": 3}', "null", '{"url": "URL"}', "\xff"])
def test_an_invalid_note_is_ignored(site: Site, tmp_path: Path, note: str) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    text = note.replace("URL", site.url).encode("latin-1")
    (tmp_path / "data.bin.part.json").write_bytes(text)
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == [None]


def test_a_note_of_another_url_is_ignored(site: Site, tmp_path: Path) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    path = tmp_path / "data.bin.part.json"
    note = json.loads(path.read_text())
    assert note == {"url": site.url, "header": "ETag", "value": '"one"', "total": len(BODY)}
    path.write_text(json.dumps(note | {"url": "http://127.0.0.1/other"}))
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == [None]


def test_a_note_never_describes_other_bytes(site: Site, tmp_path: Path) -> None:
    # If the process is killed after the new note is written, the old bytes must be gone.
    start_download(site, tmp_path, BODY, ETag='"one"')
    site.publish(OTHER, ETag='"two"')

    def killed(*args: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE._Transfer, "_receive", killed)
        with pytest.raises(KeyboardInterrupt):
            fetch(site, tmp_path)
    assert names(tmp_path) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "replacing", killed)
        with pytest.raises(KeyboardInterrupt):
            fetch(site, tmp_path)
    assert fetch(site, tmp_path) == OTHER


@pytest.mark.usefixtures("one_attempt")
def test_a_note_is_deleted_with_its_bytes(site: Site, tmp_path: Path) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    site.publish(OTHER)
    site.plan = [cut(500)]
    with pytest.raises(DownloadFailed, match="after 500 of"):
        fetch(site, tmp_path)
    assert names(tmp_path) == ["data.bin.part"]
    site.publish(BODY, ETag='"one"')  # the first version is back
    assert fetch(site, tmp_path) == BODY


@pytest.mark.parametrize("code", [201, 202, 203])
def test_other_codes_for_a_partial_response_are_refused(
    site: Site, tmp_path: Path, code: int
) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    site.plan = [status(code, BODY[1000:], Content_Range="bytes 1000-255999/256000")]
    with pytest.raises(DownloadFailed, match=f"HTTP {code} in response to a plain request"):
        fetch(site, tmp_path)
    assert (tmp_path / "data.bin.part").read_bytes() == BODY[:1000]


def test_a_server_without_ranges_restarts(site: Site, tmp_path: Path) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    site.plan = [status(200, BODY)]
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == ["bytes=1000-"]


@pytest.mark.parametrize(
    "stated",
    [
        "bytes 0-255999/256000",
        "bytes 999-255999/256000",
        "bytes 1001-255999/256000",
        "bytes 1000-255999/*",
        "bytes 1000-255999/256001",
        "items 1000-255999/256000",
        "bytes */256000",
        "",
    ],
)
@pytest.mark.parametrize("sha256", [SHA, None])
def test_a_range_that_was_not_requested_is_refused(
    site: Site, tmp_path: Path, stated: str, sha256: str | None
) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    first = re.search(r"\d+", stated)
    body = BODY[int(first[0]) if first else 1000 :]
    site.plan = [status(206, body, Content_Range=stated, ETag='"one"')]
    assert fetch(site, tmp_path, sha256) == BODY
    assert site.ranges() == ["bytes=1000-", None]


@pytest.mark.usefixtures("one_attempt")
def test_a_refused_range_says_so(site: Site, tmp_path: Path) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    site.plan = [status(206, BODY, Content_Range="bytes 0-255999/256000")]
    message = "HTTP 206 with range 'bytes 0-255999/256000' in response to 1000-"
    with pytest.raises(DownloadFailed, match=message):
        fetch(site, tmp_path)
    assert names(tmp_path) == []


def test_a_shorter_range_than_requested_is_accepted(site: Site, tmp_path: Path) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    site.plan = [status(206, BODY[1000:2000], Content_Range="bytes 1000-1999/256000")]
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == ["bytes=1000-", "bytes=2000-"]


def test_a_range_of_more_bytes_than_the_file_has_restarts(site: Site, tmp_path: Path) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    site.plan = [status(206, BODY[1000:] + b"more", Content_Range="bytes 1000-255999/256000")]
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == ["bytes=1000-", None]


@pytest.mark.parametrize("scheme", ["http:", "https:"])
@pytest.mark.parametrize("page", [b"", b"<html>no such range</html>"])
def test_a_complete_part_is_accepted(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, page: bytes
) -> None:
    monkeypatch.setattr(urllib.request.HTTPSHandler, "https_open", unsafe)
    (tmp_path / "data.bin.part").write_bytes(BODY)
    site.plan = [status(416, page, Content_Range="bytes */256000")]
    item = Download(site.url.replace("http:", scheme), "data.bin", SHA)
    assert download(item, tmp_path).read_bytes() == BODY
    assert site.ranges() == ["bytes=256000-"]
    assert names(tmp_path) == ["data.bin"]


def test_a_complete_part_needs_no_checksum(site: Site, tmp_path: Path) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    (tmp_path / "data.bin.part").write_bytes(BODY)
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == ["bytes=256000-"]


@pytest.mark.parametrize(
    "answer",
    [
        serve,
        status(416),
        status(416, Content_Range="bytes */*"),
        status(416, Content_Range="bytes */255999"),
        status(416, Content_Range="bytes */256001", ETag='"two"'),
    ],
)
def test_a_part_that_is_too_long_restarts(site: Site, tmp_path: Path, answer: Act) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    (tmp_path / "data.bin.part").write_bytes(BODY + b"!")
    site.plan = [answer]
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == ["bytes=256001-", None]


@pytest.mark.parametrize("sha256", [SHA, None])
def test_a_body_that_ends_early_is_noticed(site: Site, tmp_path: Path, sha256: str | None) -> None:
    site.plan = [status(200, BODY[:-1], Content_Length=str(len(BODY)))] * 9
    with pytest.raises(DownloadFailed, match="the transfer ended after 255999 of 256000 bytes"):
        fetch(site, tmp_path, sha256)
    assert not (tmp_path / "data.bin").exists()


def test_chunks_that_end_early_are_noticed(site: Site, tmp_path: Path) -> None:
    site.plan = [partial(chunked, body=BODY[:1000], complete=False)]
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == [None, "bytes=1000-"]


def test_a_body_without_any_length_needs_a_checksum(site: Site, tmp_path: Path) -> None:
    def unmeasured(handler: Handler) -> None:
        handler.answer(200, BODY)

    site.plan = [unmeasured]
    with pytest.raises(DownloadFailed, match="neither its length nor its SHA-256 is known"):
        fetch(site, tmp_path)
    assert names(tmp_path) == []
    site.plan = [unmeasured]
    assert fetch(site, tmp_path, SHA) == BODY


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br"])
def test_a_compressed_body_is_refused(site: Site, tmp_path: Path, encoding: str) -> None:
    site.plan = [status(200, gzip.compress(BODY), Content_Encoding=encoding)]
    with pytest.raises(DownloadFailed, match=rf"server compresses it \({encoding}\) unrequested"):
        fetch(site, tmp_path, SHA)
    assert names(tmp_path) == []


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_an_identity_encoding_is_accepted(site: Site, tmp_path: Path, encoding: str) -> None:
    site.plan = [status(200, BODY, Content_Encoding=encoding)]
    assert fetch(site, tmp_path) == BODY


def test_a_wrong_checksum_leaves_nothing_and_the_next_run_restarts(
    site: Site, tmp_path: Path
) -> None:
    site.publish(OTHER, ETag='"bad"')
    actual = hashlib.sha256(OTHER).hexdigest()
    message = (
        rf"data\.bin from {site.url} has the SHA-256 {actual}, but was published with {SHA}; it "
        r"was deleted\. Run again\. If this happens twice, the file was changed by its publisher"
    )
    with pytest.raises(ValueError, match=message):
        fetch(site, tmp_path, SHA)
    assert names(tmp_path) == []
    site.publish(BODY, ETag='"good"')
    assert fetch(site, tmp_path, SHA) == BODY
    assert site.ranges() == [None, None]


def test_a_part_of_another_file_is_caught_by_its_checksum(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"?" * 1000)
    with pytest.raises(ValueError, match="it was deleted"):
        fetch(site, tmp_path, SHA)
    assert fetch(site, tmp_path, SHA) == BODY


def test_the_final_name_is_given_last(site: Site, tmp_path: Path) -> None:
    # The final name must not exist while bytes are received or verified.
    def look(*args: object) -> None:
        assert names(tmp_path) == ["data.bin.part", "data.bin.part.json"]

    def verify(path: Path) -> str:
        look()
        return SHA

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "_sha256", verify)
        fetch(site, tmp_path, SHA, progress=look)
    assert names(tmp_path) == ["data.bin"]


def redirect(to: str, code: int = 302) -> Act:
    return status(code, b"moved", Location=to)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_followed(site: Site, tmp_path: Path, code: int) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    site.plan = [redirect("/elsewhere", code)]
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == ["bytes=1000-", "bytes=1000-"]


@pytest.mark.parametrize("to", ["ftp://127.0.0.1/x", "file:///etc/passwd", "data:,x"])
def test_redirects_to_other_protocols_are_refused(site: Site, tmp_path: Path, to: str) -> None:
    site.plan = [redirect(to)]
    with pytest.raises(
        DownloadFailed, match=rf"HTTP 302 .*{re.escape(to)}.* is not (follow|allow)ed"
    ):
        fetch(site, tmp_path)
    assert len(site.asked) == 1


def test_redirects_in_a_circle_end(site: Site, tmp_path: Path) -> None:
    site.plan = [redirect("/data.bin")] * 99
    with pytest.raises(DownloadFailed, match="HTTP 302 .* would lead to an infinite loop"):
        fetch(site, tmp_path)
    assert len(site.asked) < 20


def test_an_invalid_redirect_is_not_retried(site: Site, tmp_path: Path) -> None:
    site.plan = [redirect("http://[::1/x")]
    with pytest.raises(DownloadFailed, match="could not be downloaded: Invalid IPv6 URL"):
        fetch(site, tmp_path)
    assert len(site.asked) == 1


def test_redirects_from_https_to_http_are_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(urllib.request.HTTPSHandler, "https_open", unsafe)
    secure = site.url.replace("http:", "https:")
    item = Download(secure, "data.bin")
    site.plan = [redirect(site.url)]
    message = f"HTTP 302 redirects from https to {site.url}, which is not followed"
    with pytest.raises(DownloadFailed, match=message):
        download(item, tmp_path)
    assert len(site.asked) == 1
    site.plan = [redirect(secure)]
    assert download(item, tmp_path).read_bytes() == BODY
    (tmp_path / "data.bin").unlink()
    site.plan = [redirect(secure)]
    assert fetch(site, tmp_path) == BODY


def unreachable(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[int]:
    """Make every connection fail; return a list that grows with each attempt."""
    tries: list[int] = []

    def refuse(*args: object) -> None:
        tries.append(1)
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return tries


def test_an_unknown_host_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = unreachable(monkeypatch, socket.gaierror(-2, "Name or service not known"))
    message = (
        r"^http://nowhere\.invalid/x could not be downloaded: its host name cannot be resolved "
        r"\(\[Errno -2\] Name or service not known\)\. Run again later, .* "
        rf"save it as {tmp_path / 'x'}\.$"
    )
    with pytest.raises(DownloadFailed, match=message):
        download(Download("http://nowhere.invalid/x", "x"), tmp_path)
    assert len(tries) == 3


def test_an_untrusted_certificate_is_not_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    tries = unreachable(monkeypatch, error)
    with pytest.raises(
        DownloadFailed, match="could not be downloaded: .*certificate verify failed"
    ):
        download(Download("https://127.0.0.1/x", "x"), tmp_path)
    assert len(tries) == 1


def test_an_error_without_a_message_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreachable(monkeypatch, ConnectionAbortedError())
    with pytest.raises(
        DownloadFailed, match="could not be downloaded: ConnectionAbortedError. Run"
    ):
        download(Download("http://127.0.0.1/x", "x"), tmp_path)


def test_a_refused_connection_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound but not listening, so that connections are refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
        with pytest.raises(DownloadFailed, match=f"{url} could not be downloaded: .*refused"):
            download(Download(url, "x"), tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("port", ["port", "99999999"])
def test_an_invalid_address_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    url = f"http://127.0.0.1:{port}/x"
    if port == "port":
        monkeypatch.setattr(MODULE, "_WAITS", (float("inf"),))  # it is not retried
    with pytest.raises(DownloadFailed, match=f"{url} could not be downloaded: "):
        download(Download(url, "x"), tmp_path)


@pytest.mark.usefixtures("one_attempt")
@pytest.mark.parametrize("sent", [None, 0, 1000])
def test_a_silent_server_times_out(site: Site, tmp_path: Path, sent: int | None) -> None:
    released = threading.Event()

    def fall_silent(handler: Handler) -> None:
        if sent is not None:
            cut(sent)(handler)
            handler.wfile.flush()
        released.wait()
        handler.close_connection = True

    site.plan = [fall_silent]
    try:
        with pytest.raises(DownloadFailed, match=r"no response within 0\.05 seconds\. Run again"):
            fetch(site, tmp_path, timeout=0.05)
    finally:
        released.set()
    assert fetch(site, tmp_path, SHA) == BODY


def test_a_response_that_is_not_http_is_named(site: Site, tmp_path: Path) -> None:
    def nonsense(handler: Handler) -> None:
        handler.wfile.write(b"SSH-2.0-OpenSSH\r\n")
        handler.close_connection = True

    site.plan = [nonsense] * 9
    with pytest.raises(DownloadFailed, match="could not be downloaded: SSH-2.0-OpenSSH"):
        fetch(site, tmp_path)


@pytest.mark.parametrize(
    ("url", "name", "sha256", "message"),
    [
        ("file:///etc/passwd", "x", None, "url must start with http:// or https:// and a host"),
        ("ftp://host/x", "x", None, r"got 'ftp://host/x'\."),
        ("//host/x", "x", None, "url must start"),
        ("http:///x", "x", None, "and a host, .* got 'http:///x'"),
        ("http://[::1/x", "x", None, r"url must be a valid address, got 'http://\[::1/x': Invalid"),
        ("https://host/a b", "x", None, "outside ASCII percent-encoded, got 'https://host/a b'"),
        ("https://host/a\r\nX: y", "x", None, "url must start"),
        ("https://host/\N{SNOWMAN}", "x", None, "url must start"),
        ("http://host/x", "", None, "name must be a file name without folders, got ''"),
        ("http://host/x", "..", None, r"got '\.\.'"),
        ("http://host/x", ".", None, r"got '\.'"),
        ("http://host/x", "a/b", None, "got 'a/b'"),
        ("http://host/x", "/x", None, "got '/x'"),
        ("http://host/x", "a\\b", None, "name must be"),
        ("http://host/x", "c:x", None, "got 'c:x'"),
        ("http://host/x", "x\0", None, "name must be"),
        (
            "http://host/x",
            "x",
            "12",
            r"sha256 must be 64 hexadecimal digits \(0-9, a-f\) or None, got '12'",
        ),
        ("http://host/x", "x", "G" * 64, "sha256 must be"),
        ("http://host/x", "x", SHA + "\n", "sha256 must be"),
    ],
)
def test_bad_items_are_refused(url: str, name: str, sha256: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Download(url, name, sha256)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_must_be_positive(tmp_path: Path, timeout: float) -> None:
    with pytest.raises(ValueError, match=f"timeout must be a number .* above 0, got {timeout}"):
        download(Download("http://127.0.0.1/x", "x"), tmp_path, timeout=timeout)


def test_a_full_disk_is_reported_with_its_path(site: Site, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"data\.bin\.part") as caught:
            fetch(site, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert len(site.asked) == 1
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == [None, "bytes=100000-"]


def test_a_folder_that_cannot_be_made_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=str(tmp_path / "file")):
        fetch(site, tmp_path / "file" / "folder")
    assert site.asked == []


def test_files_are_readable_by_others(site: Site, tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        fetch(site, tmp_path)
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "data.bin").stat().st_mode) == 0o644


def test_processes_that_download_the_same_file_wait_for_one_another(
    site: Site, tmp_path: Path
) -> None:
    code = (
        "import sys, pathlib; from metapac.fewshot.datasets.downloads import Download, download;"
        "print('ready', flush=True); sys.stdin.readline();"
        "download(Download(sys.argv[1], 'data.bin', sys.argv[2]), pathlib.Path(sys.argv[3]))"
    )
    command = [sys.executable, "-c", code, site.url, SHA, str(tmp_path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    others: list[Any] = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for other in others:
        assert other.stdout.readline() == "ready\n"
    for other in others:
        other.stdin.write("\n")
        other.stdin.flush()
    for other in others:
        other.communicate()
        assert other.returncode == 0
    assert len(site.asked) == 1
    assert (tmp_path / "data.bin").read_bytes() == BODY
    assert names(tmp_path) == ["data.bin"]


def waiting(site: Site, folder: Path) -> tuple[threading.Thread, list[bytes]]:
    """Start a download in another thread; return the thread and a list for its bytes."""
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(fetch(site, folder)))
    thread.start()
    return thread, got


def test_a_locked_part_is_resumed_once_it_is_released(site: Site, tmp_path: Path) -> None:
    start_download(site, tmp_path, BODY, ETag='"one"')
    part = tmp_path / "data.bin.part"
    with part.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread, got = waiting(site, tmp_path)
        thread.join(0.1)
        assert site.asked == []
        file.write(BODY[1000:5000])
    thread.join()
    assert got == [BODY]
    assert site.ranges() == ["bytes=5000-"]


def test_a_part_deleted_by_its_holder_is_not_written_to(site: Site, tmp_path: Path) -> None:
    # The waiting process has locked a deleted file: it must lock the new one before writing.
    part, free = tmp_path / "data.bin.part", []

    def look(handler: Handler) -> None:
        with part.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free.append(True)
            except BlockingIOError:
                free.append(False)
        serve(handler)

    site.plan = [look]
    with part.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread, got = waiting(site, tmp_path)
        thread.join(0.1)
        part.unlink()
    thread.join()
    assert got == [BODY]
    assert free == [False]


def test_a_waiting_process_verifies_the_finished_file(site: Site, tmp_path: Path) -> None:
    part = tmp_path / "data.bin.part"
    with part.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread, got = waiting(site, tmp_path)
        thread.join(0.1)
        file.write(b"by the other")
        file.flush()
        part.replace(tmp_path / "data.bin")
    thread.join()
    assert got == [b"by the other"]
    assert site.asked == []
    assert names(tmp_path) == ["data.bin"]


@pytest.mark.parametrize("missing", ["module", "support"])
def test_locks_are_optional(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def unsupported(*args: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if missing == "module":
        monkeypatch.setattr(MODULE, "fcntl", None)
    else:
        monkeypatch.setattr(fcntl, "flock", unsupported)
    site.plan = [cut(1000), status(404)]
    with pytest.raises(DownloadFailed, match="HTTP 404"):
        fetch(site, tmp_path)
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == [None, "bytes=1000-", "bytes=1000-"]
    assert names(tmp_path) == ["data.bin"]


@pytest.fixture(scope="module")
def shared_site() -> Iterator[Site]:
    with running() as site:
        yield site


KINDS: dict[str, Callable[[int], dict[str, str]]] = {
    "strong": lambda i: {"ETag": f'"{i}"'},
    "weak": lambda i: {"ETag": f'W/"{i}"', "Last_Modified": f"day {i}"},
    "dated": lambda i: {"Last_Modified": f"day {i}"},
    "silent": lambda i: {},
}


@settings(max_examples=80)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    heeds=st.booleans(),
    bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=3),
    calls=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), max_size=4),
)
def test_after_any_interruptions_and_changes_the_file_is_that_of_the_server(
    shared_site: Site, kind: str, heeds: bool, bodies: list[bytes], calls: list[tuple[int, int]]
) -> None:
    site = shared_site
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "_WAITS", (0.0,))
        for version, length in [*calls, (0, 50)]:
            i = version % len(bodies)
            site.publish(bodies[i], **KINDS[kind](i))
            site.plan = [partial(serve, cut=length, heeds_if_range=heeds)] * 2
            try:
                assert fetch(site, Path(folder)) == bodies[i]
            except DownloadFailed:
                assert length < len(bodies[i])
                assert not Path(folder, "data.bin").exists()
            else:
                Path(folder, "data.bin").unlink()
