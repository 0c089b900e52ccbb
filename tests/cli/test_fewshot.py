"""Scoring, training and studies by commands give what the library gives, or a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from metapac import artefact, load
from metapac.fewshot import (
    ClassPool,
    PrototypeLearner,
    fit_temperature,
    load_learner,
    load_pools,
    read_samples,
    save_weights,
    score_examples,
)
from metapac.fewshot.datasets.pools import RUN
from metapac.fewshot.learners.accuracy import accuracy
from metapac.fewshot.reproduce import run as experiments
from metapac.fewshot.scoring import tabulate
from metapac.provenance import read_provenance
from tests.helpers.commands import LEVELS, metapac
from tests.helpers.experiments import class_pools
from tests.helpers.sample_logs import sample, write_log

SHORT = ["--epochs", 2, "--episodes", 4, "--batch", 4, "--tasks", 20, "--device", "cpu"]
SIZE = ["--ways", 3, "--shots", 2, "--queries", 4]
RNG = np.random.default_rng(0)
CODES = np.repeat(np.arange(24), 12)
X = (1.5 * RNG.normal(size=(24, 4))[CODES] + RNG.normal(size=(288, 4))).astype(np.float32)
NAMES = np.array([f"class {i:02d}" for i in range(24)])
Y = NAMES[CODES]
# A task of three classes with two shots, in no particular order, and seven new examples.
SUPPORT = np.array([30, 1, 61, 25, 0, 60])
NEW = np.array([2, 3, 26, 27, 62, 63, 64])

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


def score(*words: object) -> pd.DataFrame:
    run("score", *words, "-o", "scores.parquet")
    return pd.read_parquet("scores.parquet")


def assert_same_scores(found: pd.DataFrame, expected: Any) -> None:
    for name in ("task", "example", "label", "score"):
        np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_array_equal(np.array([*found.scores]), np.array(expected["scores"]))
    assert [row.tolist() for row in found.classes] == [[*row] for row in expected["classes"]]


@pytest.mark.usefixtures("folder", "one_thread")
def test_a_run_keeps_its_pools_and_its_accuracy() -> None:
    run("train", "rows.npz", *SHORT, "--pools", "8,5,5,6", "-o", "run")
    record, pools, learner = read_run("run"), load_pools("run").pools, load_learner("run")
    assert {name: pool.names for name, pool in vars(pools).items()} == record["pools"]
    assert [len(names) for names in record["pools"].values()] == [8, 5, 5, 6]
    assert len(set().union(*record["pools"].values())) == 24
    reached = accuracy(learner, pools.test, tasks=20)
    assert record["accuracy"] == reached.value
    assert record["accuracy_interval"] == [reached.low, reached.high]


@pytest.mark.usefixtures("folder", "one_thread")
def test_a_run_that_is_extended_is_that_of_one_call() -> None:
    run("train", "rows.npz", *SHORT, "-o", "run")
    run("train", "rows.npz", *SHORT, "--epochs", 4, "-o", "run")
    run("train", "rows.npz", *SHORT, "--epochs", 4, "-o", "whole")
    weights = [Path(name, "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]
    np.savez("rows.npz", x=X + 1, y=Y)
    assert "rows.npz" in run("train", "rows.npz", *SHORT, "--epochs", 5, "-o", "run", code=2)


@pytest.mark.usefixtures("folder")
def test_a_class_that_is_too_small_is_in_no_pool() -> None:
    keep = np.r_[9:288]  # class 00 has three examples
    np.savez("rows.npz", x=X[keep], y=Y[keep])
    assert "class 00" in run("train", "rows.npz", *SHORT, "-o", "run")
    record = read_run("run")
    assert record["left_out"] == ["class 00"]
    assert "class 00" not in set().union(*record["pools"].values())
    refused = run("score", "rows.npz", "--shots", 6, "--tasks", 3, "-o", "s.parquet", code=2)
    assert "--queries 6" in refused  # the largest number that works
    for queries, left_out in ((6, True), (7, False)):
        words = ["--shots", 6, "--tasks", 3, "--queries", queries]
        result = metapac("score", "rows.npz", *words, "-o", "s.parquet")
        assert (result.exit_code == 0) == left_out, result.output


@pytest.mark.usefixtures("folder", "one_thread")
def test_scores_of_a_run_are_those_of_the_library() -> None:
    run("train", "rows.npz", *SHORT, "--ways", 3, "-o", "run")
    learner, pools = load_learner("run"), load_pools("run").pools
    for words, pool in (([], pools.calibration), (["--pool", "test"], pools.test)):
        found = score("run", "--tasks", 6, *SIZE, *words)
        drawn = pool.tasks(6, ways=3, shots=2, queries=4, rng=0)
        assert_same_scores(found, tabulate(learner, drawn))
    before = Path("scores.parquet").read_bytes()
    score("run", "--tasks", 6, *SIZE, "--pool", "test")
    assert Path("scores.parquet").read_bytes() == before
    Path("rows.npz").rename("moved.npz")
    assert "rows.npz" in run("score", "run", *SIZE, "-o", "s.parquet", code=2)
    score("run", "--tasks", 6, *SIZE, "--data", "moved.npz")
    np.savez("other.npz", x=X, y=Y[::-1])
    assert "other.npz" in run(
        "score", "run", *SIZE, "--data", "other.npz", "-o", "s.parquet", code=2
    )
    next(learner.module.parameters()).data.add_(1e-7)
    save_weights(learner, Path("run/model.safetensors"))
    assert "run.json" in run(
        "score", "run", *SIZE, "--data", "moved.npz", "-o", "s.parquet", code=2
    )


@pytest.mark.usefixtures("folder", "one_thread")
def test_new_examples_are_scored_as_by_the_adapted_learner() -> None:
    np.savez("labelled.npz", x=X[SUPPORT], y=Y[SUPPORT])
    np.save("ward 7.npy", X[NEW])
    run("train", "rows.npz", *SHORT, *SIZE[:4], "-o", "run")
    Path("rows.npz").unlink()  # deployment does not need them
    names, codes = np.unique(Y[SUPPORT], return_inverse=True)
    for source, learner in (
        (["run", "--support", "labelled.npz"], load_learner("run")),
        (["labelled.npz", *SIZE[:4]], PrototypeLearner()),
    ):
        found = score(*source, "--new", "ward 7.npy", "--score", "margin")
        expected = score_examples(learner, X[SUPPORT], codes, X[NEW], score="margin")
        np.testing.assert_array_equal(np.array([*found.scores]), expected)
        assert {tuple(row) for row in found.classes} == {tuple(names)}
        assert {*found.task} == {"ward 7"}


@pytest.mark.usefixtures("folder", "one_thread")
def test_images_in_folders_are_read_as_in_training() -> None:
    for name, count, start in (("birds", 8, 0), ("labelled", 2, 40)):
        for i in range(count):
            for j in range(4 if name == "birds" else 2):
                path = Path(name, f"bird {i}", f"{j}.png")
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("L", (20, 24), start + 30 * i + j).save(path)
    Path("new").mkdir()
    Image.new("L", (20, 24), 70).save("new/a.png")
    size = ["--ways", 2, "--shots", 2]
    run("train", "birds", *SHORT, *size, "--queries", 2, "--image-size", 16, "-o", "run")
    found = score("run", "--support", "labelled", "--new", "new")
    colours = np.array([40, 41, 70, 71, 70])
    pixels = np.broadcast_to(colours[:, None, None, None], (5, 16, 16, 3)).astype(np.uint8)
    expected = score_examples(load_learner("run"), pixels[:4], [0, 0, 1, 1], pixels[4:])
    np.testing.assert_array_equal(np.array([*found.scores]), expected)


@pytest.mark.usefixtures("folder")
def test_vectors_in_every_layout_give_the_same_scores() -> None:
    np.save("x.npy", X)
    np.save("y.npy", Y)
    Path("y.txt").write_text("\n".join(Y) + "\n")
    parquet.write_table(pa.table({"label": Y.tolist(), "vector": X.tolist()}), "lists.parquet")
    wide = {f"f_{i}": X[:, i] for i in range(4)}
    parquet.write_table(pa.table({"kind": Y.tolist(), "id": CODES, **wide}), "wide.parquet")
    drawn = ClassPool(X, Y, name="all").tasks(6, ways=3, shots=2, queries=4, rng=0)
    expected = tabulate(PrototypeLearner(), drawn)
    for words in (
        ["rows.npz"],
        ["x.npy", "--labels", "y.npy"],
        ["x.npy", "--labels", "y.txt"],
        ["lists.parquet"],
        ["wide.parquet", "--labels", "kind", "--columns", "f_*"],
    ):
        assert_same_scores(score(*words, "--tasks", 6, *SIZE), expected)


@pytest.mark.usefixtures("folder")
def test_halves_share_no_class_and_do_not_depend_on_the_seed() -> None:
    def classes(*words: object) -> set[str]:
        return {*score("rows.npz", "--tasks", 80, *SIZE, *words).label}

    for more, sizes in (([], (12, 12, 24)), (["--fit-temperature"], (8, 12, 20))):
        known, new, every = (
            classes("--pool", pool, *more) for pool in ("calibration", "test", "all")
        )
        assert (len(known), len(new), len(every)) == sizes
        assert known | new == every
        assert known == classes("--pool", "calibration", "--rng", 7, *more)
    fitted = ClassPool(X[~np.isin(Y, [*every])], Y[~np.isin(Y, [*every])])
    tasks = fitted.tasks(200, ways=3, shots=2, queries=4, rng=0)
    temperature = fit_temperature(PrototypeLearner(), tasks).temperature
    origin = read_provenance("scores.parquet")
    assert origin is not None
    assert f"temperature {temperature:.3g})" in origin.model


def test_sets_and_answers_of_prompts_are_those_of_the_library(folder: Path) -> None:
    for part, seed in (("old", 0), ("new", 1)):
        rng = np.random.default_rng(seed)
        for task in range(40):
            labels = rng.integers(3, size=40)
            values = rng.normal(-9, 1, (40, 4)) + 3 * (np.arange(4) == labels[:, None])
            rows = zip(values.tolist(), labels.tolist(), range(40), strict=True)
            records = [sample(row, label, doc_id=i) for row, label, i in rows]
            name = f"samples_{part}{task}_2026-01-31T12-34-56.789012.jsonl"
            write_log(folder / part, records, name)
    run("score", "old", "--model", "m", "-o", "old.parquet")
    run("score", "new", "--model", "m", "-o", "new.parquet")
    run("calibrate", "old.parquet", *LEVELS, "-o", "promise.json")
    run("predict", "promise.json", "new.parquet", "--answer", "-o", "sets.parquet")
    rows, samples = pd.read_parquet("sets.parquet"), read_samples("new")
    sets = samples.predict_sets(load("promise.json"))
    assert [row.tolist() for row in rows["set"]] == sets
    answers = [kept[0] if len(kept) == 1 else None for kept in sets]
    assert [None if pd.isna(a) else int(a) for a in rows["answer"]] == answers


# With one thread each, losses differ only by the order of summation over processes.
@pytest.mark.usefixtures("one_thread")
def test_torchrun_shares_a_run_between_two_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = np.random.default_rng(0).integers(256, size=(288, 16, 16), dtype="u1")
    np.savez("rows.npz", x=pictures, y=Y)
    words = ["rows.npz", *map(str, SHORT), "--pools", "10,5,0,5", "--rng", "3", "-o"]
    run("train", *words, "one")
    launched = subprocess.run(
        [sys.executable, *TORCHRUN, "-m", "metapac", "train", *words, "two"],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "OMP_NUM_THREADS": "1",
        },
    )
    assert launched.returncode == 0, launched.stderr
    assert launched.stdout.count("Accuracy") == 1  # only the first process prints
    one, two = read_run("one"), read_run("two")
    losses = [[epoch["loss"] for epoch in record["history"]] for record in (one, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert one["pools"] == two["pools"]
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "--recipe" in run("train", *words, "three", "--recipe", "strong", code=2)


@pytest.mark.usefixtures("folder")
def test_a_study_divides_the_classes_of_each_seed_anew() -> None:
    words = [*SIZE[:4], "--tasks", 30, "--tests", 4, "--draws", 1]
    first = json.loads(metapac("study", "rows.npz", *words, "--seeds", 1, "--json").stdout)
    rows = Path("study/seed-0/rows.csv.gz").read_bytes()
    both = json.loads(metapac("study", "rows.npz", *words, "--seeds", 2, "--json").stdout)
    assert (first["seeds"], both["seeds"]) == (1, 2)
    assert Path("study/seed-0/rows.csv.gz").read_bytes() == rows
    assert Path("study/seed-1/rows.csv.gz").read_bytes() != rows
    assert {line["method"] for line in both["methods"]} >= {"PS", "Meta-CP", "Meta-PS joint"}
    one_shot = json.loads(
        metapac("study", "rows.npz", *words, "--shots", 1, "-o", "one", "--json").stdout
    )
    assert "Meta-CP" not in {line["method"] for line in one_shot["methods"]}


def test_only_the_folder_of_a_run_is_written_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments, "load", lambda experiment, home: class_pools())
    (folder / "old").mkdir()
    (folder / "old" / "evaluation.json").write_text("{}")
    before = sorted(folder.rglob("*"))
    for output in ("rows.npz", ".", "old"):
        assert run("reproduce", "glyphs", "-o", output, code=2).startswith("error: ")
    assert sorted(folder.rglob("*")) == before


def test_vectors_are_scored_without_torch(folder: Path) -> None:
    run("train", "rows.npz", *SHORT, "-o", "run")
    code = "import sys; sys.modules['torch'] = None; from metapac.cli import main; main()"
    for words, status in ((["rows.npz", *SIZE, "--tasks", 6], 0), (["run"], 2)):
        command = [sys.executable, "-c", code, "score", *map(str, words), "-o", "s.parquet"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        assert (done.returncode, "metapac[torch]" in done.stderr) == (status, status == 2)
