"""Training, scoring and studies by commands give what the library gives, or a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import artefact
from metapac.fewshot import load_learner, load_pools
from metapac.fewshot.datasets.pools import RUN
from metapac.fewshot.scoring import accuracy
from tests.helpers.commands import metapac

SHORT = ["--epochs", 2, "--episodes", 4, "--batch", 4, "--tasks", 20, "--device", "cpu"]
SIZE = ["--ways", 3, "--shots", 2, "--queries", 4]
RNG = np.random.default_rng(0)
CODES = np.repeat(np.arange(24), 12)
X = (1.5 * RNG.normal(size=(24, 4))[CODES] + RNG.normal(size=(288, 4))).astype(np.float32)
NAMES = [f"class {i:02d}" for i in range(24)]
Y = np.array(NAMES)[CODES]
SPLIT = {"train": NAMES[:9], "validation": NAMES[9:14], "test": NAMES[:13:-1]}

# With a free port that torchrun chooses, and an address that needs no name lookup.
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
TORCHRUN += ["--nproc-per-node", "2"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with vectors of classes."""
    monkeypatch.chdir(tmp_path)
    np.savez("rows.npz", x=X, y=Y)
    return tmp_path


def run(*words: object, code: int = 0) -> str:
    result = metapac(*words)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def read_run(folder: str) -> Any:
    return artefact.read(Path(folder) / "run.json", RUN)


@pytest.mark.usefixtures("folder", "one_thread")
def test_a_run_keeps_its_pools_and_its_accuracy() -> None:
    Path("split.json").write_text(json.dumps(SPLIT))
    for given, sizes in (("8,5,5,6", [8, 5, 5, 6]), ("split.json", [9, 5, 10])):
        output = f"run {given}"
        run("train", "rows.npz", *SHORT, "--pools", given, "-o", output)
        record, pools, learner = read_run(output), load_pools(output).pools, load_learner(output)
        named = {name: pool.names for name, pool in vars(pools).items() if pool is not None}
        assert named == record["pools"]
        assert [len(names) for names in named.values()] == sizes
        assert len(set().union(*named.values())) == 24
        reached = accuracy(learner, pools.test, tasks=20)
        assert record["accuracy"] == reached.value
        assert record["accuracy_interval"] == [reached.low, reached.high]
    assert named == {name: sorted(names) for name, names in SPLIT.items()}
    assert record["options"]["pools"] == SPLIT | {"calibration": []}


@pytest.mark.usefixtures("folder")
def test_a_split_that_does_not_fit_the_data_is_refused() -> None:
    for split, words in (
        ({**SPLIT, "train": [*NAMES[:9], "zebra"]}, "'zebra'"),
        ({**SPLIT, "calibration": NAMES[:1]}, "'class 00'"),
        ({**SPLIT, "train": NAMES[:9] * 2}, "'class 00'"),
        ({**SPLIT, "tests": []}, "--pools"),
        ({**SPLIT, "validation": []}, "--pools"),
        ({**SPLIT, "validation": "class 10"}, "--pools"),
        ({**SPLIT, "train": 8}, "--pools"),
        ({**SPLIT, "validation": NAMES[9:12]}, "validation"),
        ([NAMES], "--pools"),
    ):
        Path("s.json").write_text(json.dumps(split))
        refused = run("train", "rows.npz", *SHORT, "--pools", "s.json", "-o", "never", code=2)
        assert "--pools" in refused
        assert words in refused
    Path("s.json").write_text("{")
    for given in ("s.json", "1,b,2,3"):
        assert "--pools" in run("train", "rows.npz", "--pools", given, "-o", "never", code=2)
    Path("s.json").write_text(json.dumps(SPLIT))
    for data in ("heart", "fewrel"):
        refused = run("train", data, "--pools", "s.json", "-o", "never", code=2)
        assert f"--pools does not apply to {data}" in refused
    assert not Path("never").exists()


def test_torchrun_shares_a_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["rows.npz", *map(str, SHORT), "--pools", "10,5,0,5", "--rng", "3", "-o"]
    run("train", *words, "one")
    source = str(Path(__file__).parents[2] / "src")
    launched = subprocess.run(
        [sys.executable, *TORCHRUN, "-m", "metapac", "train", *words, "two"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
    )
    assert launched.returncode == 0, launched.stderr
    assert launched.stdout.count("Accuracy") == 1  # only the first process prints
    one, two = read_run("one"), read_run("two")  # dropout depends on the process
    assert len(one["history"]) == len(two["history"])
    assert one["options"] == two["options"]
    assert one["pools"] == two["pools"]
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "--recipe" in run("train", *words, "three", "--recipe", "strong", code=2)


def test_vectors_are_scored_without_torch(folder: Path) -> None:
    run("train", "rows.npz", *SHORT, "-o", "run")
    code = "import sys; sys.modules['torch'] = None; from metapac.cli import main; main()"
    for words, status in ((["rows.npz", *SIZE, "--tasks", 6], 0), (["run"], 2)):
        command = [sys.executable, "-c", code, "score", *map(str, words), "-o", "s.parquet"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        assert (done.returncode, "metapac[torch]" in done.stderr) == (status, status == 2)
