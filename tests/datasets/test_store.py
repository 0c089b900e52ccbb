"""The store: archives unpacked inside their folder; arrays complete and verified, or absent."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import stat
import tarfile
import threading
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import BadArtefact
from metapac.artefact import checksum, new_folder, temporary_name
from metapac.errors import BadArchive
from metapac.fewshot.datasets import cache, catalogue
from metapac.fewshot.datasets.catalogue import Download, get_data_set, unpack

FILES = {"a.txt": b"first", "sub/b.bin": bytes(range(256)) * 70, "sub/deep/c": b"", "d": b"last"}
SMALL = {"a": b"text, text, text", "b/c": random.Random(0).randbytes(40)}
Files = dict[str, bytes]


def entry(name: str, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def tar_of(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def zip_of(*entries: tuple[str, bytes], **fields: Any) -> bytes:
    """Return a zip of these members; ``fields`` replace those of the last one in the directory."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # zipfile knows that a duplicate is bad
        for name, content in entries:
            info = zipfile.ZipInfo("x" * len(name))
            info.filename = info.orig_filename = name  # as it is: ZipInfo would normalise it
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
        for field, value in fields.items():
            setattr(archive.filelist[-1], field, value)
    return buffer.getvalue()


PACKERS: dict[str, Callable[[Files], bytes]] = {
    "x.zip": lambda files: zip_of(*files.items()),
    "x.tar.gz": lambda files: tar_of(
        *[(entry(name, size=len(data)), data) for name, data in files.items()]
    ),
}


def tree(folder: Path) -> Files:
    paths = [path for path in folder.rglob("*") if not path.is_dir()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("name", PACKERS)
def test_packed_files_come_out_and_others_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_bytes(b"old")
    (tmp_path / "sub" / "other").write_bytes(b"unchanged")
    packed = PACKERS[name]({**FILES, "./LLCP2011.XPT ": b"as the CDC names it"})
    (tmp_path / name).write_bytes(packed)

    def look(stage: str, done: int, total: int | None) -> None:
        seen.append((stage, done))
        assert (tmp_path / "a.txt").read_bytes() == b"old"  # nothing appears before all is read

    seen: list[tuple[str, int]] = []
    paths = unpack(tmp_path / name, progress=look)
    expected = {**FILES, "LLCP2011.XPT": b"as the CDC names it"}
    assert {path.relative_to(tmp_path).as_posix() for path in paths} == {*expected}
    assert tree(tmp_path) == {**expected, "sub/other": b"unchanged", name: packed}
    assert len(list(tmp_path.iterdir())) == 5
    assert seen[-1] == (f"unpacking {name}", sum(map(len, expected.values())))


def assert_refused(folder: Path, name: str, content: bytes) -> None:
    archive = folder / name
    archive.write_bytes(content)
    with pytest.raises(BadArchive, match=str(archive)):
        unpack(archive)
    assert list(folder.iterdir()) == [archive]
    archive.unlink()


def test_names_that_lead_elsewhere_and_links_are_refused(tmp_path: Path) -> None:
    good = (entry("fine.txt", size=1), b"1")
    for name in ("/etc/x", "../x", "..", "a/.. ", "...", " ", "C:/x", "..\\x"):
        assert_refused(tmp_path, "x.tar.gz", tar_of(good, (entry(name, size=1), b"2")))
        assert_refused(tmp_path, "x.zip", zip_of(("fine.txt", b"1"), (name, b"2")))
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
        link = entry("evil", type=kind, linkname="fine.txt")
        assert_refused(tmp_path, "x.tar.gz", tar_of(good, (link, b"")))
    for mode in (stat.S_IFLNK, stat.S_IFCHR):
        content = zip_of(("fine.txt", b"1"), ("evil", b"/etc"), external_attr=mode << 16)
        assert_refused(tmp_path, "x.zip", content)


def test_what_is_there_is_not_replaced_by_another_kind(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("x.zip", "a ", "taken", "link/b"):  # the archive, a twin of "a", a folder, a link
        folder = tmp_path / name.replace("/", " ")
        folder.mkdir()
        (folder / "taken").mkdir()
        (folder / "link").symlink_to(tmp_path / "elsewhere")
        archive = folder / "x.zip"
        archive.write_bytes(zip_of(("a", b"1"), (name, b"2")))
        before = archive.read_bytes()
        with pytest.raises(BadArchive, match="taken"):
            unpack(archive)
        assert archive.read_bytes() == before
        assert {path.name for path in folder.iterdir()} == {"x.zip", "taken", "link"}
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_other_contents_and_absurd_sizes_are_refused(tmp_path: Path) -> None:
    for name in PACKERS:
        for content in (b"", b"\n", b"<!DOCTYPE html><html>not found</html>" * 50, bytes(100)):
            assert_refused(tmp_path, name, content)
    for fields in ({"CRC": 1}, {"flag_bits": 1}, {"file_size": 1 << 60}):
        assert_refused(tmp_path, "x.zip", zip_of(("a.txt", b"1"), ("b", b"data"), **fields))
    whole = gzip.decompress(tar_of((entry("a", size=1), b"1"), (entry("b", size=1), b"2")))
    for content in (whole[:1024], whole[:1024] + b"\1" * 512 + whole[1536:]):  # cut, bad header
        assert_refused(tmp_path, "x.tar.gz", gzip.compress(content))
    bomb = entry("bomb", size=1 << 60).tobuf(tarfile.GNU_FORMAT)
    assert_refused(tmp_path, "x.tar.gz", gzip.compress(bomb + bytes(10240)))


@pytest.mark.parametrize("name", PACKERS)
def test_every_truncation_and_flipped_bit_is_noticed_or_harmless(tmp_path: Path, name: str) -> None:
    content, noticed = PACKERS[name](SMALL), 0
    for length in range(1, len(content)):
        assert_refused(tmp_path, name, content[:length])
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        (tmp_path / name).write_bytes(damaged)
        try:
            unpack(tmp_path / name)
        except (BadArchive, OSError):
            noticed += 1
            assert list(tmp_path.iterdir()) == [tmp_path / name]
        else:  # a date, a version, a comment, or a list that ends too early
            assert tree(tmp_path).items() <= {**SMALL, name: bytes(damaged)}.items()
            shutil.rmtree(tmp_path)
            tmp_path.mkdir()
    assert noticed > len(content) / 2


def test_an_archive_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "download", lambda item, folder, progress: folder / item.name)
    items = (Download("https://host/a.zip", "a.zip"), Download("https://host/b.csv", "b.csv"))
    data_set = replace(get_data_set("heart"), downloads=items)
    source = data_set.source(tmp_path)
    source.mkdir(parents=True)

    def fetch() -> int:
        stages: list[str] = []
        data_set.fetch(home=tmp_path, progress=lambda stage, done, total: stages.append(stage))
        return len(stages)

    (source / "a.zip").write_bytes(zip_of(("inside/x", b"content")))
    assert [fetch(), fetch()] == [1, 0]
    assert (source / "inside" / "x").read_bytes() == b"content"
    (source / "inside" / "x").unlink()
    assert [fetch(), fetch()] == [1, 0]
    (source / "a.zip").write_bytes(zip_of(("inside/x", b"another content")))
    assert [fetch(), fetch()] == [1, 0]
    assert (source / "inside" / "x").read_bytes() == b"another content"
    (source / ".a.zip.unpacked").write_text("[]")  # a marker without content
    assert [fetch(), fetch()] == [1, 0]


ROWS = np.arange(6600, dtype=np.int16).reshape(1100, 3, 2)


def fill(writer: cache.Writer) -> dict[str, Any]:
    writer.append("x", ROWS[:1])
    writer.append("y", np.array([True, False]))
    writer.append("x", ROWS[1:])
    return {"classes": ("a", "é")}


def refuse(writer: cache.Writer) -> dict[str, Any]:
    raise AssertionError("prepared although nothing has changed")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "published.csv"
    path.write_text("one")
    return path


def test_data_are_prepared_once_unless_sources_change(tmp_path: Path, source: Path) -> None:
    def prepare(how: Any, *more: Path, size: int = 84) -> Path:
        options = {"size": size}
        made = cache.prepare("set", [source, *more], how, options=options, home=tmp_path)
        assert cache.open_prepared("set", tmp_path).folder == made.folder  # the last one
        return made.folder

    first = prepare(fill)
    assert prepare(refuse) == first
    folders = [first, prepare(fill, size=32)]
    assert prepare(refuse) == first
    (tmp_path / "more.csv").touch()
    folders.append(prepare(fill, tmp_path / "more.csv"))
    source.write_text("longer")
    folders.append(prepare(fill))
    os.utime(source, ns=(1, 1))
    folders.append(prepare(fill))
    assert len(set(folders)) == 5
    assert all(folder.exists() for folder in folders)  # another process may use them


def test_only_leftovers_and_caches_of_old_are_deleted(tmp_path: Path, source: Path) -> None:
    first = cache.prepare("set", [source], fill, home=tmp_path)
    parent, elsewhere = first.folder.parent, tmp_path / "elsewhere"
    left = temporary_name(parent / f"prepared-{'0' * 16}")
    kept = [parent / "prepared-backup", parent / ".rsync.partial"]
    for folder in (left, elsewhere, *kept):
        folder.mkdir()
    kept += [parent / f"prepared-{digit * 16}" for digit in "12"]
    kept[2].symlink_to(elsewhere, target_is_directory=True)
    kept[3].write_text("a file")
    for path in (first.folder, *kept):
        os.utime(path, (1, 1))
    source.write_text("longer")
    with new_folder(parent / f"prepared-{'3' * 16}") as living:
        second = cache.prepare("set", [source], fill, home=tmp_path)
        assert {*parent.iterdir()} == {second.folder, *kept, living.parent}
    np.testing.assert_array_equal(first["x"], ROWS)  # still usable where it is open
    living.parent.with_name(living.name).rmdir()
    assert cache.open_prepared("set", tmp_path).folder == second.folder


def test_damage_is_reported_and_repaired(tmp_path: Path, source: Path) -> None:
    def forge(path: Path) -> None:
        document = json.loads(path.read_text()) | {"schema": 99}
        del document["checksum"]
        path.write_text(json.dumps({**document, "checksum": checksum(document)}))

    faults: list[tuple[str, Any]] = [
        ("x.npy", lambda path: path.write_bytes(path.read_bytes()[:-1])),
        ("x.npy", Path.unlink),
        ("x.npy", lambda path: np.save(path, np.zeros(3))),
        ("x.npy", lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x7f")),
        ("data.json", Path.unlink),
        ("data.json", lambda path: path.write_text(path.read_text().replace('"a"', '"b"'))),
        ("data.json", lambda path: path.write_text(path.read_text()[:-20])),
        ("data.json", forge),
    ]
    for name, damage in faults:
        damage(cache.prepare("set", [source], fill, home=tmp_path).folder / name)
        with pytest.raises(BadArtefact, match=name):
            cache.open_prepared("set", tmp_path)
        np.testing.assert_array_equal(
            cache.prepare("set", [source], fill, home=tmp_path)["x"], ROWS
        )
        cache.open_prepared("set", tmp_path)


def test_two_callers_at_once_give_one_valid_cache(tmp_path: Path, source: Path) -> None:
    both, made = threading.Barrier(2), []

    def wait(writer: cache.Writer) -> dict[str, Any]:
        both.wait()  # both run before either finishes
        return fill(writer)

    def call() -> None:
        made.append(cache.prepare("set", [source], wait, home=tmp_path).checksum)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    prepared = cache.open_prepared("set", tmp_path)
    assert made == [prepared.checksum] * 2
    assert list((tmp_path / "set").iterdir()) == [prepared.folder]
