"""Downloads: against a server on this machine that breaks off, changes its mind, and lies."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metapac.errors import DownloadFailed
from metapac.fewshot.datasets import catalogue
from metapac.fewshot.datasets.catalogue import Download, download

BODY = bytes(range(256)) * 1000  # several reads of the client
SHA = hashlib.sha256(BODY).hexdigest()
ONE = '"one"'
Act = Callable[["Handler"], None]


class Site(ThreadingHTTPServer):
    """A web site with one file, and a list of responses to the next requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/data.bin"
        self.asked: list[dict[str, str]] = []
        self.plan: list[Act] = []
        self.publish(BODY, ETag=ONE)

    def publish(self, body: bytes, **headers: str) -> None:
        self.body, self.validators = body, headers
        self.asked.clear()

    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for headers in self.asked]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        self.server.asked.append(dict(self.headers))
        act = self.server.plan.pop(0) if self.server.plan else serve
        act(self)
        self.close_connection = True

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        """Send exactly these headers, then the body."""
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

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


def cut(after: int) -> Act:
    return partial(serve, cut=after)


def status(code: int, body: bytes = b"", **headers: str) -> Act:
    given = {"Content_Length": str(len(body))} | headers
    return lambda handler: handler.answer(code, body, **given)


def chunked(handler: Handler, end: bytes = b"0\r\n\r\n") -> None:
    frame = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n"
    handler.answer(200, frame + end, Transfer_Encoding="chunked", ETag=ONE)


def nonsense(handler: Handler) -> None:
    handler.wfile.write(b"SSH-2.0\r\n")


@pytest.fixture(scope="module")
def shared_site() -> Iterator[Site]:
    with Site() as site, pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "_WAITS", (0.0, 0.0))
        patch.setattr(os, "fsync", lambda number: None)  # matters only after a power failure
        patch.setenv("no_proxy", "*")
        thread = threading.Thread(target=site.serve_forever, args=(0.005,))
        thread.start()
        yield site
        site.shutdown()
        thread.join()


@pytest.fixture
def site(shared_site: Site) -> Site:
    shared_site.publish(BODY, ETag=ONE)
    shared_site.plan = []
    return shared_site


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fetch(site: Site, folder: Path, sha256: str | None = None, **options: Any) -> bytes:
    path = download(Download(site.url, "data.bin", sha256), folder, **options)
    assert names(folder) == ["data.bin"]
    content = path.read_bytes()
    path.unlink()  # so that the next call downloads it again
    return content


def start(site: Site, folder: Path, **headers: str) -> None:
    """Leave the first 1000 bytes of the file behind, as an interrupted call does."""
    site.publish(BODY, **headers)
    site.plan = [cut(1000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "_WAITS", ())
        with pytest.raises(DownloadFailed, match=r"after 1000 of 256000 bytes\. Run again later"):
            fetch(site, folder)
    site.asked.clear()


def test_attempts_continue_where_the_last_one_stopped(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    site.plan = [cut(10_000)] * 20
    assert fetch(site, tmp_path, SHA, progress=lambda *call: seen.append(call)) == BODY
    assert site.ranges() == [None, *(f"bytes={i}0000-" for i in range(1, 21))]
    assert [headers.get("If-Range") for headers in site.asked] == [None, *[ONE] * 20]
    stages, done, totals = zip(*seen, strict=True)
    assert (set(stages), set(totals)) == ({"data.bin"}, {len(BODY)})
    assert list(done) == sorted(set(done))
    assert done[-1] == len(BODY)
    site.publish(BODY)  # no version: each attempt begins at the first byte
    site.plan = [cut(10_000)] * 99
    with pytest.raises(DownloadFailed, match="after 10000 of 256000 bytes"):
        fetch(site, tmp_path)
    assert site.ranges() == [None] * 3


def test_an_existing_file_is_verified_and_never_replaced(site: Site, tmp_path: Path) -> None:
    path, item = tmp_path / "data.bin", Download(site.url, "data.bin", SHA)
    path.write_bytes(BODY)
    assert download(item, tmp_path) == path
    path.write_bytes(b"local")
    assert download(Download(site.url, "data.bin"), tmp_path) == path
    with pytest.raises(ValueError, match=f"{path} has the SHA-256 .* published with {SHA}. Delete"):
        download(item, tmp_path)
    assert path.read_bytes() == b"local"
    assert site.asked == []


FAILURES: list[tuple[Act, int, str]] = [  # response, requests until it is given up, reason
    (lambda handler: None, 3, "closed connection without response"),
    (nonsense, 3, "SSH-2.0. Run"),
    (cut(0), 3, "ended after 0 of 256000"),
    (status(500), 3, "HTTP 500"),
    (status(429), 3, "HTTP 429"),
    (status(404, b"<html>no</html>"), 1, "HTTP 404 Not Found"),
    (status(202, b"soon"), 1, "HTTP 202"),
    (status(206, b"soon", Content_Range="bytes 0-3/4"), 1, "HTTP 206"),
    (status(416), 1, "HTTP 416"),
    (lambda handler: handler.answer(200, BODY), 1, "neither its length nor its SHA-256"),
    (status(200, gzip.compress(BODY), Content_Encoding="gzip"), 1, "compresses it"),
    (status(302, Location="ftp://127.0.0.1/x"), 1, "not followed"),
    (status(302, Location="/data.bin"), 5, "infinite loop"),
]


def test_transient_failures_are_retried_and_final_ones_are_not(site: Site, tmp_path: Path) -> None:
    for act, tries, reason in FAILURES:
        site.asked.clear()
        site.plan = [act] * 99
        message = f"{site.url} could not be .*{reason}.* save it as {tmp_path / 'data.bin'}"
        with pytest.raises(DownloadFailed, match=message):
            fetch(site, tmp_path)
        assert len(site.asked) == tries
        site.plan = [act] * 2 if tries == 3 else []
        assert fetch(site, tmp_path, SHA) == BODY


def test_a_bad_address_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_WAITS", (float("inf"),))
    with pytest.raises(DownloadFailed, match="http://host:port/x could not be .*'port'"):
        download(Download("http://host:port/x", "x"), tmp_path)


def test_a_checksum_lets_resume_and_catches_foreign_bytes(site: Site, tmp_path: Path) -> None:
    start(site, tmp_path)
    assert fetch(site, tmp_path, SHA) == BODY
    assert site.ranges() == ["bytes=1000-"]
    (tmp_path / "data.bin.part").write_bytes(b"?" * 1000)
    with pytest.raises(ValueError, match=f"published with {SHA}"):
        fetch(site, tmp_path, SHA)
    assert names(tmp_path) == []


def test_other_ranges_restart_and_complete_parts_are_accepted(site: Site, tmp_path: Path) -> None:
    for stated in ("bytes 0-9/256000", "bytes 1000-9/*", "items 1000-9/256000", "bytes */256000"):
        start(site, tmp_path, ETag=ONE)
        site.plan = [status(206, BODY, Content_Range=stated, ETag=ONE)]
        assert fetch(site, tmp_path) == BODY
        assert site.ranges() == ["bytes=1000-", None]
    start(site, tmp_path, ETag=ONE)
    site.plan = [status(206, BODY[1000:2000], Content_Range="bytes 1000-1999/256000")]
    assert fetch(site, tmp_path) == BODY  # a shorter range is no reason to restart
    assert site.ranges() == ["bytes=1000-", "bytes=2000-"]
    start(site, tmp_path, ETag=ONE)
    (tmp_path / "data.bin.part").write_bytes(BODY)
    site.plan = [status(416, b"<html>no such range</html>", Content_Range="bytes */256000")]
    assert fetch(site, tmp_path, SHA) == BODY
    assert site.ranges() == ["bytes=256000-"]
    for answer in (serve, status(416), status(416, Content_Range="bytes */*")):
        start(site, tmp_path, ETag=ONE)
        (tmp_path / "data.bin.part").write_bytes(BODY + b"!")
        site.plan = [answer]
        assert fetch(site, tmp_path) == BODY
        assert site.ranges() == ["bytes=256001-", None]


def test_chunks_need_no_length_and_must_be_complete(site: Site, tmp_path: Path) -> None:
    site.plan = [chunked, partial(chunked, end=b"")]
    assert fetch(site, tmp_path) == BODY
    assert fetch(site, tmp_path) == BODY
    assert site.ranges() == [None, None, "bytes=256000-", None]


def test_no_redirect_leaves_https(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsafe(self: Any, request: Any) -> Any:
        return self.do_open(http.client.HTTPConnection, request)  # there is no certificate

    monkeypatch.setattr(urllib.request.HTTPSHandler, "https_open", unsafe)
    secure = site.url.replace("http:", "https:")
    site.plan = [status(302, Location=site.url)]
    with pytest.raises(DownloadFailed, match=f"HTTP 302 redirects to {site.url}"):
        download(Download(secure, "data.bin"), tmp_path)
    assert len(site.asked) == 1
    site.plan = [status(302, Location=secure), status(302, Location=secure)]
    assert fetch(site, tmp_path) == BODY


VERSIONS: dict[str, Callable[[int], dict[str, str]]] = {
    "strong": lambda i: {"ETag": f'"{i}"'},
    "weak and dated": lambda i: {"ETag": 'W/"same"', "Last-Modified": f"day {i}"},
    "weak": lambda i: {"ETag": 'W/"same"'},
    "silent": lambda i: {},
}


@settings(max_examples=80)
@example(kind="strong", heeds=False, bodies=[b"1", b"00"], calls=[(1, 1)])
@example(kind="strong", heeds=False, bodies=[b"111", b"00"], calls=[(1, 1)])
@example(kind="weak", heeds=True, bodies=[b"111", b"00"], calls=[(1, 1)])
@given(
    kind=st.sampled_from(sorted(VERSIONS)),
    heeds=st.booleans(),
    bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=3),
    calls=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), max_size=4),
)
def test_after_any_interruptions_and_changes_the_file_is_that_of_the_server(
    shared_site: Site, kind: str, heeds: bool, bodies: list[bytes], calls: list[tuple[int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for version, length in [*calls, (0, None)]:
            i = version % len(bodies)
            shared_site.publish(bodies[i], **VERSIONS[kind](i))
            shared_site.plan = [partial(serve, cut=length, heeds_if_range=heeds)]
            with pytest.MonkeyPatch.context() as patch:
                if length is not None:  # the last call may try again
                    patch.setattr(catalogue, "_WAITS", ())
                try:
                    assert fetch(shared_site, Path(folder)) == bodies[i]
                except DownloadFailed:
                    assert length is not None
                    assert not Path(folder, "data.bin").exists()
