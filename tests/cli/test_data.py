"""``metapac data``: from a publisher's server to a cache, and damage on the way."""

from __future__ import annotations

import hashlib
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from metapac.fewshot.datasets import catalogue
from metapac.fewshot.datasets.catalogue import CATALOGUE, Download
from tests.helpers.cifar_files import fabricated, write_records
from tests.helpers.commands import metapac
from tests.helpers.miniimagenet_files import with_csv


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "server"
    folder.mkdir()
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("METAPAC_DATA", str(tmp_path / "home"))
    return tmp_path / "home"


def run(*words: object, code: int = 0) -> str:
    result = metapac("data", *words)
    assert result.exit_code == code, result.output
    return result.output


def list_states() -> set[str]:
    return {row["state"] for row in json.loads(run("list", "--json"))}


def replace_downloads(monkeypatch: pytest.MonkeyPatch, name: str, *downloads: Download) -> None:
    """Replace the downloads of a data set."""
    monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], downloads=downloads))


def test_checksums_of_downloads_are_pinned() -> None:
    unpinned = {d.name for entry in CATALOGUE.values() for d in entry.downloads if not d.sha256}
    assert unpinned == {"train_wiki.json", *(f"LLCP{year}XPT.zip" for year in range(2011, 2021))}


def test_fetch_prepare_check(
    tmp_path: Path, home: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_records(tmp_path, fabricated())
    archive = tmp_path / "server" / "cifar.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
    item = Download(f"{server}/cifar.tar.gz", "cifar.tar.gz", "0" * 64)
    replace_downloads(monkeypatch, "cifar10c", item)
    assert list_states() == {"absent"}
    assert "000000" in run("fetch", "cifar10c", code=2)
    assert not list(home.rglob("cifar.tar.gz"))
    run("check", "cifar10c", code=2)
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    replace_downloads(monkeypatch, "cifar10c", replace(item, sha256=sha256))
    run("fetch", "cifar10c")
    assert list_states() == {"absent", "fetched"}
    archive.unlink()  # so that a second download would fail
    (lost,) = home.rglob("data_batch_3.bin")
    lost.unlink()
    run("fetch", "cifar10c")  # unpacks again, since a file is missing
    assert lost.is_file()
    monkeypatch.setattr(catalogue, "unpack", lambda *args, **kwargs: 1 / 0)
    run("fetch", "cifar10c")
    run("check", "cifar10c")
    prepared = json.loads(metapac("data", "prepare", "cifar10c", "--json").stdout)
    assert list_states() == {"absent", "prepared"}
    assert json.loads(run("check", "cifar10c", "--json")) == prepared
    assert prepared["folder"].startswith(str(home))


def test_manual_downloads_are_explained(
    tmp_path: Path, home: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_csv(tmp_path / "mini")
    downloads = []
    for split in ("train", "val", "test"):
        (tmp_path / "server" / f"{split}.csv").write_bytes((folder / f"{split}.csv").read_bytes())
        downloads.append(Download(f"{server}/{split}.csv", f"{split}.csv"))
    replace_downloads(monkeypatch, "miniimagenet", *downloads)
    text = run("fetch", "miniimagenet").replace("\n", "")
    assert "https://image-net.org" in text
    assert f"{home}/miniimagenet/source/images" in text
    assert "train.csv" in run("prepare", "miniimagenet", code=2)
    (folder / "images").rename(home / "miniimagenet" / "source" / "images")
    run("prepare", "miniimagenet")


def test_damage_is_detected_and_hides_no_other_data(tmp_path: Path, home: Path) -> None:
    run("prepare", "miniimagenet", "--from", str(with_csv(tmp_path / "mini")))
    (path,) = home.rglob("y.npy")
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    text = run("check", "miniimagenet", code=2)
    assert "y.npy" in text
    assert "metapac data prepare miniimagenet" in text
    (path,) = home.rglob("data.json")
    path.write_text("{")
    states = {row["name"]: row["state"] for row in json.loads(run("list", "--json"))}
    assert states == {"miniimagenet": "damaged", **dict.fromkeys(list(CATALOGUE)[1:], "absent")}
