"""Commands killed in the middle of writing leave the old or the new result, whole."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers.miniimagenet_files import with_csv

kills = pytest.importorskip("tests.helpers.kills", reason="needs os.fork")

LEVELS = ["--epsilon", 0.2, "--alpha", 0.3, "--delta", 0.1]
TRAINING = ["--epochs", 2, "--episodes", 4, "--batch", 2, "--tasks", 4, "--ways", 2]
KILLS = 13  # of each command that writes that often
FEWEST = {"calibrate": 8, "predict": 8, "data prepare": 13, "train": 13, "reproduce": 13}
Result = dict[str, bytes]


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    started = kills.Victims(tmp_path_factory.mktemp("kills").resolve())
    yield started
    started.close()


@pytest.fixture(scope="module")
def inputs(victims: Any) -> Path:
    """A table, an .npz file and the files of a data set."""
    folder: Path = victims.root / "inputs"
    folder.mkdir()
    rng = np.random.default_rng(0)
    scores, y = rng.random((3000, 3)), rng.integers(0, 3, 3000)
    frame = pd.DataFrame(scores, columns=["p_a", "p_b", "p_c"])
    frame["site"], frame["y"] = np.arange(3000) % 30, np.array(["a", "b", "c"])[y]
    frame.to_parquet(folder / "scores.parquet")
    x = rng.normal(size=(200, 4)) + np.arange(20).repeat(10)[:, None]
    np.savez(folder / "rows.npz", x=x.astype(np.float32), y=np.arange(20).repeat(10))
    with_csv(folder / "mini")
    options = ["--task", "site", "--label", "y", "--columns", "p_*", *LEVELS, "--threads", 1]
    done = victims.run("calibrate", folder / "scores.parquet", *options, "-o", folder / "p.json")
    assert done["status"] == 0
    return folder


def read_files(*names: str) -> Callable[[Path], Result]:
    """Return a function that reads some files of a folder, as far as they are there."""

    def read(folder: Path) -> Result:
        paths = [path for name in names for path in folder.rglob(name)]
        visible = [path for path in paths if not any(p.startswith(".") for p in path.parts)]
        return {str(path.relative_to(folder)): without_times(path) for path in visible}

    return read


def without_times(path: Path) -> bytes:
    """Return a file without the seconds that an epoch took, and the checksum over them."""
    content = path.read_bytes()
    if path.suffix == ".safetensors":  # the size of its header, the header, spaces, the numbers
        end = 8 + int.from_bytes(content[:8], "little")
        content = content[8:end].rstrip() + content[end:]
    return re.sub(rb'(seconds|checksum)\\*": [^,}]+', rb"\1", content)


def command(name: str, inputs: Path, folder: Path) -> list[Any]:
    folder.mkdir(exist_ok=True)
    for file, content in OLD.get(name, {}).items():
        (folder / file).write_bytes(content)
    table = inputs / "scores.parquet"
    return {
        "calibrate": ["calibrate", table, "--task", "site", "--label", "y", "--columns", "p_*",
                      *LEVELS, "--threads", 1, "-o", folder / "promise.json"],
        "predict": ["predict", inputs / "p.json", table, "--threads", 1,
                    "-o", folder / "sets.parquet"],
        "data prepare": ["data", "prepare", "miniimagenet", "--from", inputs / "mini",
                         "--home", folder],
        "train": ["train", inputs / "rows.npz", *TRAINING, "--device", "cpu", "-o", folder],
        "reproduce": ["reproduce", folder],
    }[name]  # fmt: skip


RESULTS = {
    "calibrate": read_files("promise.json"),
    "predict": read_files("sets.parquet"),
    "data prepare": read_files("*.npy", "data.json"),
    "train": read_files("model.safetensors", "run.json"),
    "reproduce": read_files("model.safetensors", "rows.csv.gz"),
}
# What is the same once the command has run again, but differs before.
FINAL = {"train": read_files("model.safetensors", "run.json", "checkpoint.safetensors")}
# Bytes after which the system kills; 40,000 are in the middle of the Parquet file.
SIZES = {"predict": (1, 200, 40_000)}
# A result of an earlier command, which a killed one may leave as it is.
PROMISE = b'{"format": "metapac promise"}'
OLD = {"calibrate": {"promise.json": PROMISE}, "predict": {"sets.parquet": b"old"}}


@pytest.mark.parametrize("name", RESULTS)
def test_a_killed_command_leaves_old_or_new_results(victims: Any, inputs: Path, name: str) -> None:
    read, final, old = RESULTS[name], FINAL.get(name, RESULTS[name]), OLD.get(name, {})
    for attempt in (f"{name} imported", name):  # at first, what it imports may write too
        whole = victims.run(*command(name, inputs, victims.root / attempt))
        assert whole["status"] == 0
    new = read(victims.root / name)
    assert new
    points = np.unique(np.linspace(0, whole["writes"] - 1, KILLS).astype(int)).tolist()
    assert len(points) >= FEWEST[name]
    for point in points:
        folder = victims.root / f"{name} {point}"
        words = command(name, inputs, folder)
        assert victims.run(*words, write=point)["status"] == -signal.SIGKILL
        left = read(folder)
        assert all(left[file] in (content, old.get(file)) for file, content in new.items()
                   if file in left), point  # fmt: skip
        assert old.keys() <= left.keys()
        assert victims.run(*words)["status"] == 0, point
        assert final(folder) == final(victims.root / name)
        assert victims.leftovers() == []


@pytest.mark.parametrize("name", RESULTS)
def test_a_command_killed_within_a_file(victims: Any, inputs: Path, name: str) -> None:
    """The system kills it at a certain byte, even where a library in C writes."""
    old = OLD.get(name, {})
    folder = victims.root / f"{name} cut"
    words = command(name, inputs, folder)
    for size in SIZES.get(name, (1, 200)):
        assert victims.run(*words, size=size)["status"] == -signal.SIGXFSZ
        assert RESULTS[name](folder) == old
    assert victims.run(*words)["status"] == 0
    assert RESULTS[name](folder).keys() >= old.keys()
    assert RESULTS[name](folder) != old
    assert victims.leftovers() == []
