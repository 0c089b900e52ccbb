"""``metapac score``, then calibrate, predict and evaluate on what it wrote, by commands alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from metapac import MetaPS, load
from metapac.provenance import read_provenance
from tests.helpers.commands import LEVELS, metapac

SHORT = ["--epochs", "1", "--episodes", "4", "--batch", "4", "--tasks", "4", "--device", "cpu"]
SMALL = ["--tasks", "80", "--ways", "3", "--shots", "3", "--queries", "8"]


def run(*words: object, code: int = 0) -> str:
    result = metapac(*words)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 classes of 16 rows, in a file for training and as embeddings with labels."""
    folder = tmp_path_factory.mktemp("data")
    rng, y = np.random.default_rng(0), np.repeat(np.arange(30), 16)
    x = (1.2 * rng.normal(size=(30, 6))[y] + rng.normal(size=(480, 6))).astype(np.float32)
    np.savez(folder / "table.npz", x=x, y=np.array([f"class {i}" for i in range(30)])[y])
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    np.savez(folder / "sites.npz", x=x, y=y % 3, groups=np.arange(480) % 12)
    return folder


@pytest.fixture(scope="module")
def trained(data: Path) -> Path:
    run("train", data / "table.npz", "-o", data / "run", *SHORT)
    return data / "run"


def test_the_road_from_a_run_to_sets(trained: Path, tmp_path: Path) -> None:
    calibration, test = tmp_path / "calibration.parquet", tmp_path / "test.parquet"
    printed = run("score", trained, *SMALL, "-o", calibration)
    assert "1920 examples of 80 tasks drawn from 5 classes (calibration) written to" in printed
    assert f"next: metapac calibrate {calibration} --epsilon 0.1" in printed
    run("score", trained, "--pool", "test", *SMALL, "-o", test)
    promise, sets = tmp_path / "promise.json", tmp_path / "sets.parquet"
    run("calibrate", calibration, *LEVELS, "-o", promise)
    frame = pd.read_parquet(calibration)
    expected = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1).calibrate(
        frame["score"].to_numpy(), frame["task"].to_numpy()
    )
    found = load(promise)
    assert isinstance(found, MetaPS)
    assert found.threshold_ == expected.threshold_
    assert found.context_.model == read_provenance(calibration).model  # type: ignore[union-attr]
    run("predict", promise, test, "-o", sets)
    rows, missed = pd.read_parquet(sets), 0
    for row in rows.itertuples():
        kept = [c for c, s in zip(row.classes, row.scores, strict=True) if s >= found.threshold_]
        assert list(row.set) == kept
        missed += row.label not in kept
    assert len(rows) == 1920
    judged = json.loads(metapac("evaluate", promise, test, "--json").stdout)
    assert (judged["tasks"], judged["examples"], judged["missed"]) == (80, 1920, missed)
    assert judged["set_size"] == pytest.approx(rows["set_size"].mean())
    drawn = load(promise).context_.drawn_from
    assert f"The 80 tasks of the calibration were drawn from {drawn}:" in judged["notes"][0]
    assert judged["notes"][1].startswith("The tasks judged here were drawn from")
    assert judged["notes"][0] in run("evaluate", promise, test)


def test_scores_of_other_weights_or_shots_are_refused(
    data: Path, trained: Path, tmp_path: Path
) -> None:
    scores, promise = tmp_path / "scores.parquet", tmp_path / "promise.json"
    run("score", trained, *SMALL, "-o", scores)
    run("calibrate", scores, *LEVELS, "-o", promise)
    run("train", data / "table.npz", "-o", tmp_path / "other", *SHORT, "--lr", "0.01")
    by_model = (
        r"scores\.parquet was scored by 'ProtoNet \w{12}, 3 ways, 3 shots'; the guarantee is for "
        r"'ProtoNet \w{12}, 3 ways, 3 shots'\. A guarantee holds for one"
    )
    by_shots = r"3 ways, 1 shot'; the guarantee is for '.*, 3 ways, 3 shots'"
    for source, options, message in (
        (tmp_path / "other", [], by_model),
        (trained, ["--shots", "1"], by_shots),
    ):
        run("score", source, "--pool", "test", *SMALL, *options, "-o", scores)
        for command in ("predict", "evaluate"):
            output = ["-o", tmp_path / "never.csv"]
            refusal = run(command, promise, scores, *output, code=2)
            assert re.search(message, refusal)
            calibrated = str(load(promise).context_.model)
            refusal = run(command, promise, scores, *output, "--model", calibrated, code=2)
            assert re.search(r"--model must be 'ProtoNet .* scored it, got 'ProtoNet", refusal)
            assert not (tmp_path / "never.csv").exists()
    never = tmp_path / "never.json"
    run("score", trained, "--pool", "train", *SMALL, "-o", tmp_path / "train.parquet")
    refusal = run("calibrate", tmp_path / "train.parquet", *LEVELS, "-o", never, code=2)
    assert "which the learner has seen in training: they are too good to calibrate on" in refusal
    assert not never.exists()
    refusal = run("calibrate", scores, *LEVELS, "--model", "mine", "-o", never, code=2)
    assert re.search(r"--model must be 'ProtoNet .* got 'mine'\. Leave it out", refusal)
    assert not never.exists()


def test_the_same_call_writes_the_same_bytes(data: Path, trained: Path, tmp_path: Path) -> None:
    for words in ((trained,), (data / "x.npy", "--labels", data / "y.npy")):
        first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
        run("score", *words, *SMALL, "-o", first)
        run("score", *words, *SMALL, "-o", second)
        assert first.read_bytes() == second.read_bytes()
        run("score", *words, *SMALL, "--rng", "1", "-o", second)
        assert not {*pd.read_parquet(first).task} & {*pd.read_parquet(second).task}


def test_embeddings_take_the_same_road(data: Path, tmp_path: Path) -> None:
    calibration, test = tmp_path / "calibration.parquet", tmp_path / "test.parquet"
    promise, words = tmp_path / "promise.json", [data / "x.npy", "--labels", data / "y.npy"]
    options = [*SMALL, "--ways", "3-4", "--model", "clip", "--score", "margin"]
    run("score", *words, *options, "--pool", "calibration", "-o", calibration)
    run("score", *words, *options, "--pool", "test", "-o", test)
    run("calibrate", calibration, *LEVELS, "-o", promise)
    name = "clip, prototypes (metric euclidean, temperature 1.0) of 6 dimensions, 3-4 ways, 3 shots"
    assert load(promise).context_.model == name
    assert load(promise).context_.score == "margin"
    run("predict", promise, test, "-o", tmp_path / "sets.parquet")
    judged = json.loads(metapac("evaluate", promise, test, "--json").stdout)
    assert judged["tasks"] == 80
    assert judged["set_size"] == pytest.approx(
        pd.read_parquet(tmp_path / "sets.parquet").groupby("task")["set_size"].mean().mean()
    )
    run("score", *words, *options, "--score", "cumulative", "--pool", "test", "-o", test)
    for command in ("predict", "evaluate"):
        refusal = run(command, promise, test, code=2)
        assert "must be 'margin', the score function that was calibrated, got 'cumul" in refusal


def test_groups_may_have_a_guarantee_for_each_class(data: Path, tmp_path: Path) -> None:
    scores, promise = tmp_path / "scores.parquet", tmp_path / "promise.json"
    run("score", data / "sites.npz", "--shots", "10", "-o", scores)
    levels = ["--epsilon", "0.4", "--alpha", "0.5", "--delta", "0.4"]
    run("calibrate", scores, *levels, "--per-class", "-o", promise)
    found = load(promise)
    assert isinstance(found, MetaPS)
    assert found.classes_ is not None
    assert list(found.classes_) == [0, 1, 2]
    run("predict", promise, scores, "-o", tmp_path / "sets.parquet")
    kept = pd.read_parquet(tmp_path / "sets.parquet")
    assert {label for row in kept["set"] for label in row} <= {0, 1, 2}
    run("evaluate", promise, scores, "--allow", "overlap")


def test_json_states_what_was_scored(data: Path, tmp_path: Path) -> None:
    words = [data / "x.npy", "--labels", data / "y.npy", *SMALL, "-o", tmp_path / "s.parquet"]
    printed = json.loads(metapac("score", *words, "--json").stdout)
    assert printed["tasks"] == 80
    assert printed["examples"] == len(parquet.read_table(tmp_path / "s.parquet"))
    assert printed["model"].startswith("prototypes (")
    assert (printed["score"], printed["pool"], printed["unit"]) == ("probability", "all", "class")


def test_bad_input_is_named_in_one_line(data: Path, trained: Path, tmp_path: Path) -> None:
    output, vectors = tmp_path / "s.parquet", data / "x.npy"
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    with_labels = [vectors, "--labels", data / "y.npy"]
    cases: list[tuple[list[Any], str]] = [
        ([tmp_path / "none"], r"none: No such file or folder"),
        ([tmp_path / "empty"], r"holds no run\.json, so it is not the folder of a run"),
        (
            [tmp_path / "notes.txt"],
            r"notes\.txt must be a folder that 'metapac train' wrote, emb",
        ),
        ([vectors], r"x\.npy has no classes\. Pass them as --labels: a file with one entry"),
        ([*with_labels, "--data", "a"], r"--data is for a training run, and .*npy is embeddings"),
        (
            [trained, "--metric", "cosine"],
            r"--metric is for embeddings, and .*run is a training ru",
        ),
        (
            [trained, "--pool", "all"],
            r"--pool must be a pool of .*run, which has train, validation",
        ),
        ([trained, "--ways", "6"], r"--ways"),
        ([trained, "--ways", "many"], r"--ways must be a whole number, a range such as 5-10"),
        ([trained, "--shots", "9"], r"at least --shots \+ --queries = 24 examples"),
        ([*with_labels, "--score", "softmax"], r"--score must be 'probability' or .*'softmax'"),
        (
            [*with_labels, "--learner", "knn"],
            r"--learner must be 'prototypes' or 'ridge' or 'logistic', got",
        ),
        ([*with_labels, "--penalty", "1"], r"--penalty does not apply to --learner prototypes, wh"),
        ([*with_labels, "--pool", "train"], r"--pool must be 'all' or 'calibration' or 'test'"),
    ]
    for words, message in cases:
        refusal = run("score", *words, "-o", output, code=2)
        assert re.search(message, refusal), refusal
    assert "--output must end in .parquet, got" in run("score", trained, "-o", "s.csv", code=2)
    away = tmp_path / "away" / "s.parquet"
    assert "folder does not exist" in run("score", trained, "-o", away, code=2)
    table = tmp_path / "x.parquet"
    pd.DataFrame({"label": [0, 1], "f": [0.5, 1.5]}).to_parquet(table)
    assert "is also the input" in run("score", table, "-o", table, code=2)
    assert not output.exists()


def test_missing_torch_matters_to_runs_alone(data: Path, trained: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from metapac.cli import main; main()"
    words = ["score", data / "x.npy", "--labels", data / "y.npy", *SMALL]
    output = tmp_path / "s.parquet"

    def without_torch(*words: object) -> Any:
        command = [sys.executable, "-c", code, *map(str, words), "-o", str(output)]
        return subprocess.run(command, capture_output=True, text=True)

    done = without_torch(*words)
    assert done.returncode == 0, done.stderr
    assert output.exists()
    done = without_torch("score", trained)
    assert done.returncode == 2
    assert "scoring tasks of a run needs torch. Install it with: pip install" in done.stderr
