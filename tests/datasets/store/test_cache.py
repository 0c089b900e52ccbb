"""A prepared data set: complete or absent, and rebuilt when its sources change."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import BadArtefact
from metapac._common import data_home
from metapac.artefact import checksum, new_folder, temporary_name
from metapac.fewshot.datasets import cache

ROWS = np.arange(24, dtype=np.int16).reshape(4, 3, 2)


def fill(writer: cache.Writer) -> dict[str, Any]:
    writer.append("x", ROWS[:1])
    writer.append("x", ROWS[1:])
    writer.append("y", np.array([True, False]))
    return {"classes": ("a", "é")}


def refuse(writer: cache.Writer) -> dict[str, Any]:
    raise AssertionError("prepared although nothing has changed")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "published.csv"
    path.write_text("one")
    return path


def test_arrays_and_facts_come_back_as_they_were_written(tmp_path: Path, source: Path) -> None:
    made = cache.prepare("set", [source], fill, home=tmp_path)
    again = cache.open_prepared("set", tmp_path)
    for result in (made, again):
        assert isinstance(result["x"], np.memmap)
        np.testing.assert_array_equal(result["x"], ROWS)
        np.testing.assert_array_equal(result["y"], [True, False])
        assert [result[name].dtype.str for name in "xy"] == ["<i2", "|b1"]
        assert result.facts == {"classes": ["a", "é"]}
        assert list(result) == ["x", "y"]
        result.verify()
    assert made.checksum == again.checksum


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.lists(st.integers(1, 3), max_size=2),
    st.sampled_from(["u1", "<i4", "<f4", "<f8", "?"]),
)
def test_any_rows_survive(counts: list[int], tail: list[int], kind: str) -> None:
    shape = (sum(counts), *tail)
    whole = np.random.default_rng(0).integers(0, 2, shape).astype(kind)
    parts = np.split(whole, np.cumsum(counts)[:-1])
    with tempfile.TemporaryDirectory() as folder:
        with cache.Writer(Path(folder)) as writer:
            for part in parts:
                writer.append("x", part)
            recorded = writer.finish()["x"]
        result = np.load(Path(folder) / "x.npy", allow_pickle=False)
    np.testing.assert_array_equal(result, whole)
    assert result.dtype == whole.dtype
    assert recorded["shape"] == shape


def test_rows_unlike_the_first_are_refused(tmp_path: Path) -> None:
    with cache.Writer(tmp_path) as writer:
        writer.append("x", ROWS)
        with pytest.raises(ValueError, match=r"like the first, int16 of shape \(3, 2\), got int64"):
            writer.append("x", ROWS.astype(np.int64))


def test_data_are_prepared_once(tmp_path: Path, source: Path) -> None:
    first = cache.prepare("set", [source], fill, options={"size": 84}, home=tmp_path)
    second = cache.prepare("set", [source], refuse, options={"size": 84}, home=tmp_path)
    assert first.folder == second.folder


@pytest.mark.parametrize("change", ["content", "time", "options", "files"])
def test_a_change_of_the_source_rebuilds_the_cache(
    tmp_path: Path, source: Path, change: str
) -> None:
    first = cache.prepare("set", [source], fill, home=tmp_path)
    other = tmp_path / "more.csv"
    other.touch()
    if change == "content":
        source.write_text("longer")
    if change == "time":
        os.utime(source, ns=(1, 1))
    options = {"size": 32} if change == "options" else None
    sources = [source, other] if change == "files" else [source]
    second = cache.prepare("set", sources, fill, options=options, home=tmp_path)
    assert second.folder != first.folder
    assert cache.open_prepared("set", tmp_path).folder == second.folder
    assert first.folder.exists()  # another process may use it


def test_the_last_one_prepared_is_opened(tmp_path: Path, source: Path) -> None:
    first = cache.prepare("set", [source], fill, home=tmp_path)
    second = cache.prepare("set", [source], fill, options={"size": 32}, home=tmp_path)
    assert cache.open_prepared("set", tmp_path).folder == second.folder
    cache.prepare("set", [source], refuse, home=tmp_path)  # from the cache
    assert cache.open_prepared("set", tmp_path).folder == first.folder


def test_a_cache_unused_for_a_day_is_deleted(tmp_path: Path, source: Path) -> None:
    first = cache.prepare("set", [source], fill, home=tmp_path)
    os.utime(first.folder, (1, 1))
    source.write_text("longer")
    cache.prepare("set", [source], fill, home=tmp_path)
    assert not first.folder.exists()
    np.testing.assert_array_equal(first["x"], ROWS)  # still usable where it is open


def test_a_failure_leaves_nothing_behind_and_the_last_cache_stays(
    tmp_path: Path, source: Path
) -> None:
    made = cache.prepare("set", [source], fill, home=tmp_path)

    def fail(writer: cache.Writer) -> dict[str, Any]:
        writer.append("x", ROWS)
        raise KeyboardInterrupt

    source.write_text("longer")
    with pytest.raises(KeyboardInterrupt):
        cache.prepare("set", [source], fail, home=tmp_path)
    assert [path.name for path in (tmp_path / "set").iterdir()] == [made.folder.name]
    cache.open_prepared("set", tmp_path).verify()


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path, source: Path) -> None:
    parent = tmp_path / "set"
    left = temporary_name(parent / f"prepared-{'0' * 16}")
    left.mkdir(parents=True)
    with new_folder(parent / f"prepared-{'1' * 16}") as living:
        cache.prepare("set", [source], fill, home=tmp_path)
        assert not left.exists()
        assert living.exists()


def test_what_others_put_beside_the_caches_stays(tmp_path: Path, source: Path) -> None:
    parent = tmp_path / "set"
    folders = [parent / name for name in ("prepared-backup", ".rsync.partial", "prepared-12")]
    caches = [parent / f"prepared-{digit * 16}" for digit in "01"]
    files = [caches[0], temporary_name(caches[0]), parent / ".a.partial"]
    links = [caches[1], temporary_name(caches[1])]
    elsewhere = tmp_path / "elsewhere"
    for folder in (*folders, elsewhere):
        folder.mkdir(parents=True)
    for file in files:
        file.write_text("precious")
    for link in links:
        link.symlink_to(elsewhere, target_is_directory=True)
    for path in (*folders, *files, elsewhere):
        os.utime(path, (1, 1))
    made = cache.prepare("set", [source], fill, home=tmp_path)
    assert set(parent.iterdir()) == {made.folder, *folders, *files, *links}


def test_only_caches_are_opened(tmp_path: Path, source: Path) -> None:
    made = cache.prepare("set", [source], fill, home=tmp_path)
    os.utime(made.folder, (1, 1))
    (made.folder.parent / "prepared-backup").mkdir()
    assert cache.open_prepared("set", tmp_path).folder == made.folder


def test_the_error_for_missing_data_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Run 'metapac data fetch set', then 'metapac data"):
        cache.open_prepared("set", tmp_path)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("truncated array", "x.npy cannot be read"),
        ("missing array", "x.npy cannot be read"),
        ("other array", "x.npy is not the array that was written"),
        ("missing facts", "data.json cannot be read"),
        ("edited facts", "data.json was edited or damaged"),
        ("newer", "data.json has schema 99, .* Upgrade metapac"),
        ("truncated facts", "data.json is not .* complete JSON"),
    ],
)
def test_damage_is_reported_and_repaired(
    tmp_path: Path, source: Path, fault: str, message: str
) -> None:
    folder = cache.prepare("set", [source], fill, home=tmp_path).folder
    x, facts = folder / "x.npy", folder / "data.json"
    if fault == "truncated array":
        x.write_bytes(x.read_bytes()[:-1])
    if fault == "missing array":
        x.unlink()
    if fault == "other array":
        np.save(x, np.zeros(3))
    if fault == "missing facts":
        facts.unlink()
    if fault == "edited facts":
        facts.write_text(facts.read_text().replace('"a"', '"b"'))
    if fault == "newer":
        document = json.loads(facts.read_text())
        document["schema"] = 99
        del document["checksum"]
        facts.write_text(json.dumps({**document, "checksum": checksum(document)}))
    if fault == "truncated facts":
        facts.write_text(facts.read_text()[:-20])
    with pytest.raises(BadArtefact, match=message):
        cache.open_prepared("set", tmp_path)
    cache.prepare("set", [source], fill, home=tmp_path).verify()  # prepared again


def test_verify_notices_one_changed_byte(tmp_path: Path, source: Path) -> None:
    made = cache.prepare("set", [source], fill, home=tmp_path)
    path = made.folder / "x.npy"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(BadArtefact, match="x.npy does not match its checksum. Run 'metapac"):
        cache.open_prepared("set", tmp_path)
    with pytest.raises(BadArtefact, match="x.npy does not match its checksum"):
        made.verify()
    cache.prepare("set", [source], fill, home=tmp_path).verify()  # prepared again


def test_arrays_are_verified_once_per_process(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cache.prepare("set", [source], fill, home=tmp_path).folder
    for path in folder.glob("*.npy"):
        os.utime(path, (1, 1))  # what was just written is read again
    read, digest = [], hashlib.file_digest

    def count(*arguments: Any) -> Any:
        read.append(arguments)
        return digest(*arguments)

    monkeypatch.setattr(hashlib, "file_digest", count)
    for _ in range(3):
        cache.open_prepared("set", tmp_path)
    assert len(read) == 2
    (folder / "x.npy").touch()
    cache.open_prepared("set", tmp_path)
    assert len(read) == 3


RACE = """
import sys, time
import numpy as np
from pathlib import Path
from metapac.fewshot.datasets import cache
home, source = map(Path, sys.argv[1:])
def fill(writer):
    (home / f"started-{sys.argv[0]}-{time.monotonic_ns()}").touch()
    while len(list(home.glob("started-*"))) < 2:  # both run before either finishes
        time.sleep(0.01)
    writer.append("x", np.arange(1000))
    return {}
made = cache.prepare("set", [source], fill, home=home)
made.verify()
print(made.folder.name, int(made["x"].sum()))
"""


def test_two_processes_at_once_give_one_valid_cache(tmp_path: Path, source: Path) -> None:
    command = [sys.executable, "-c", RACE, str(tmp_path), str(source)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0] == outputs[1]
    assert len(list((tmp_path / "set").iterdir())) == 1


def test_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.delenv("METAPAC_DATA", raising=False)
    assert data_home() == Path("/somewhere/metapac")
    monkeypatch.setenv("METAPAC_DATA", "/data")
    assert data_home() == Path("/data")
    assert data_home(tmp_path) == tmp_path
    monkeypatch.delenv("METAPAC_DATA")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert data_home() == Path("/home/someone/.cache/metapac")
