"""metapac data: from a publisher's server to a cache, and what is printed on the way."""

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
from typer.testing import CliRunner

from metapac.cli.app import app
from metapac.fewshot.datasets import downloads as archives
from metapac.fewshot.datasets.catalogue import CATALOGUE
from metapac.fewshot.datasets.downloads import Download
from tests.helpers.cifar_files import fabricated, write_pickles
from tests.helpers.miniimagenet_files import with_csv

runner = CliRunner()


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


def run(*words: str, code: int = 0) -> str:
    result = runner.invoke(app, ["data", *words], terminal_width=200)
    assert result.exit_code == code, result.output
    return result.output


def replace_downloads(monkeypatch: pytest.MonkeyPatch, name: str, *downloads: Download) -> None:
    """Replace the downloads of a data set."""
    monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], downloads=downloads))


def test_fetch_prepare_check(
    tmp_path: Path, home: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pickles(tmp_path, fabricated())
    archive = tmp_path / "server" / "cifar.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "cifar-10-batches-py", "cifar-10-batches-py")
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    replace_downloads(
        monkeypatch, "cifar10c", Download(f"{server}/cifar.tar.gz", "cifar.tar.gz", sha256)
    )
    assert "absent" in run("list")
    assert "source lacks batches.meta, data_batch_1" in run("check", "cifar10c", code=2)
    assert "Then run: metapac data prepare cifar10c" in run("fetch", "cifar10c")
    assert "fetched" in run("list")
    assert "has the files of cifar10c. To prepare them: metapac data prepare cifar10c" in run(
        "check", "cifar10c"
    )
    text = run("prepare", "cifar10c")
    assert "calibration" in text
    assert str(home) in text.replace("\n", "")
    assert "prepared" in run("list")
    assert run("check", "cifar10c") == text
    report = json.loads(run("check", "cifar10c", "--json"))
    assert report["missing"] == []
    assert set(report["splits"]) == {"train", "calibration", "test"}
    assert report["checksum"].startswith("sha256:")


def test_fetching_twice_downloads_and_unpacks_once(
    tmp_path: Path, home: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pickles(tmp_path, fabricated())
    archive = tmp_path / "server" / "cifar.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "cifar-10-batches-py", "cifar-10-batches-py")
    replace_downloads(monkeypatch, "cifar10c", Download(f"{server}/cifar.tar.gz", "cifar.tar.gz"))
    run("fetch", "cifar10c")
    archive.unlink()  # so that a second download would fail
    (lost,) = home.rglob("data_batch_3")
    lost.unlink()
    run("fetch", "cifar10c")  # unpacks again, since a file is missing
    assert lost.is_file()
    monkeypatch.setattr(archives, "unpack", lambda *args, **kwargs: 1 / 0)
    run("fetch", "cifar10c")


def test_a_wrong_checksum_is_rejected(
    tmp_path: Path, home: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server" / "cifar.tar.gz").write_bytes(b"something else")
    replace_downloads(
        monkeypatch, "cifar10c", Download(f"{server}/cifar.tar.gz", "cifar.tar.gz", "0" * 64)
    )
    text = run("fetch", "cifar10c", code=2)
    assert "was published with 000000" in text
    assert not list(home.rglob("cifar.tar.gz"))


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
    assert "register at https://image-net.org" in text
    assert f"{home}/miniimagenet/source/images" in text
    refusal = run("prepare", "miniimagenet", code=2)
    assert "train.csv lists 18 of 18 images" in " ".join(refusal.split())
    (folder / "images").rename(home / "miniimagenet" / "source" / "images")
    assert "train was published as 64 classes" in run("prepare", "miniimagenet")


def test_files_from_elsewhere(tmp_path: Path, home: Path) -> None:
    folder = with_csv(tmp_path / "mini")
    text = run("check", "miniimagenet", "--from", str(folder))
    assert f"To prepare them: metapac data prepare miniimagenet --from {folder}" in text.replace(
        "\n", " "
    )
    report = json.loads(run("prepare", "miniimagenet", "--from", str(folder), "--json"))
    assert report["splits"]["val"] == {
        "classes": 2,
        "examples": 6,
        "smallest": 3,
        "largest": 3,
    }
    assert run("prepare", "miniimagenet", "--from", str(folder), "--home", str(tmp_path / "other"))
    assert (tmp_path / "other" / "miniimagenet").is_dir()


def test_damage_is_detected(tmp_path: Path, home: Path) -> None:
    run("prepare", "miniimagenet", "--from", str(with_csv(tmp_path / "mini")))
    (path,) = home.rglob("y.npy")
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    text = run("check", "miniimagenet", code=2)
    assert "y.npy does not match its checksum. Run 'metapac data prepare miniimagenet'" in text


def test_one_damaged_cache_does_not_hide_the_others(tmp_path: Path, home: Path) -> None:
    run("prepare", "miniimagenet", "--from", str(with_csv(tmp_path / "mini")))
    (path,) = home.rglob("data.json")
    path.write_text("{")
    states = {row["name"]: row["state"] for row in json.loads(run("list", "--json"))}
    assert states == {"miniimagenet": "damaged", **dict.fromkeys(list(CATALOGUE)[1:], "absent")}
    assert "damaged" in run("list")


def test_bad_input_is_one_line(tmp_path: Path, home: Path) -> None:
    assert "NAME must be 'miniimagenet' or 'cifar10c'" in run("prepare", "mnist", code=2)
    text = run("prepare", "cifar10c", "--from", str(tmp_path), "--glove", "vectors.txt", code=2)
    assert text.strip() == "metapac: --glove is not for cifar10c. Leave it out."
    text = run("check", "miniimagenet", "--from", str(tmp_path / "absent"), "--json", code=2)
    assert json.loads(text.splitlines()[0])["missing"]


def test_list_as_json(home: Path) -> None:
    rows = json.loads(run("list", "--json"))
    assert [row["name"] for row in rows] == list(CATALOGUE)
    assert all(row["licence"] and row["state"] == "absent" for row in rows)


def test_published_addresses() -> None:
    for entry in CATALOGUE.values():
        for item in entry.downloads:
            assert item.url.startswith("https://")
            assert item.sha256 or not item.name.startswith(("cifar", "glove"))
