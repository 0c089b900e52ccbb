"""``metapac score`` on sample logs, then calibrate, predict and evaluate, by commands alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from metapac import answers, load
from metapac.fewshot import read_samples
from metapac.provenance import read_provenance
from tests.helpers.commands import LEVELS, metapac
from tests.helpers.sample_logs import NAME, sample, write_log

RESULTS = "results_2026-01-31T12-34-56.789012.json"


def run(*words: object, code: int = 0) -> str:
    result = metapac(*words)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders of logs, 40 tasks to calibrate on and 10 new ones; questions differ in length."""
    folder, rng = tmp_path_factory.mktemp("logs"), np.random.default_rng(0)
    for part, tasks in (("old", range(40)), ("new", range(40, 50))):
        for task in tasks:
            records = []
            for i in range(40):
                count, label = int(rng.integers(3, 6)), int(rng.integers(3))
                values = rng.normal(-9, 1, count) + 3 * (np.arange(count) == label)
                records.append(sample(values.tolist(), label, doc_id=i))
            write_log(folder / part, records, NAME.replace("mmlu_law", f"subject{task}"))
        (folder / part / RESULTS).write_text('{"model_name": "pythia-70m"}')
    return folder


def test_the_road_from_logs_to_answers(logs: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    promise, sets = tmp_path / "promise.json", tmp_path / "sets.parquet"
    printed = run("score", logs / "old", "-o", old)
    assert f"1600 examples of 40 tasks written to {old} model: pythia-70m accuracy" in printed
    assert f"next: metapac calibrate {old}" in printed
    assert f"or, of new tasks: metapac predict promise.json {old} -o sets.parquet" in printed
    run("score", *sorted((logs / "new").glob("*.jsonl")), "-o", new)
    run("calibrate", old, *LEVELS, "-o", promise)
    predictor, samples = load(promise), read_samples(logs / "new")
    assert predictor.context_.model == "pythia-70m"

    printed = run("predict", promise, new, "--answer", "-o", sets)
    assert "400 sets written to" in printed  # a position is another choice in each question
    assert "sets that contain each class" not in printed
    rows = pd.read_parquet(sets)
    expected = samples.predict_sets(predictor)
    found = answers(expected)
    assert rows["id"].tolist() == samples.ids
    assert [row.tolist() for row in rows["set"]] == expected
    got = [None if pd.isna(answer) else int(answer) for answer in rows["answer"]]
    assert got == found.labels
    assert (
        f"answered {found.answered.sum()} of 400 ({found.share:.1%}); the others abstain. Wrong "
        "answers are at most 20% of all rows of a task where the guarantee holds, not of the rows "
        "answered."
    ) in printed
    judged = json.loads(metapac("evaluate", promise, new, "--json").stdout)
    missed = [label not in kept for label, kept in zip(samples.labels, expected, strict=True)]
    assert (judged["tasks"], judged["missed"]) == (10, sum(missed))


def test_the_table_says_where_it_comes_from(logs: Path, tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    words = ("score", logs / "old", "--task", "doc.subject", "--normalise", "bytes", "-o", path)
    printed = json.loads(metapac(*words, "--score", "margin", "--json").stdout)
    assert (printed["tasks"], printed["examples"]) == (1, 1600)
    samples = read_samples(logs / "old", task="doc.subject", normalise="bytes", score="margin")
    best = [int(np.argmax(row)) for row in samples.scores]
    assert printed["accuracy"] == np.mean(samples.labels == best)
    origin = read_provenance(path)
    assert origin is not None
    assert (origin.model, origin.score) == ("pythia-70m, log-likelihoods per byte", "margin")
    assert origin.details["task_field"] == "doc.subject"
    frame = pd.read_parquet(path)
    assert frame["score"].tolist() == samples.true_scores.tolist()
    assert [row.tolist() for row in frame["scores"]] == [row.tolist() for row in samples.scores]
    assert [tuple(row) for row in frame["choices"]] == samples.choices
    assert set(frame["task"]) == {"law"}


def test_scores_of_another_kind_are_refused(logs: Path, tmp_path: Path) -> None:
    old, other = tmp_path / "old.parquet", tmp_path / "other.parquet"
    run("score", logs / "old", "-o", old)
    run("calibrate", old, *LEVELS, "-o", tmp_path / "promise.json")
    run("score", logs / "new", "--normalise", "characters", "-o", other)
    printed = run("predict", tmp_path / "promise.json", other, "-o", tmp_path / "s.csv", code=2)
    assert "pythia-70m, log-likelihoods per character" in printed


def test_a_model_without_results_can_be_named(tmp_path: Path) -> None:
    log, out = write_log(tmp_path, [sample()]), tmp_path / "scores.parquet"
    printed = run("score", log, "-o", out)
    assert "model: unnamed model accuracy" in printed
    assert "note: The model is not named, so another one cannot be noticed. Pass" in printed
    named = run("score", log, "--model", "GPT-5", "-o", out)
    assert "model: GPT-5" in named
    assert "is not named" not in named


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ways", "3"], "--ways is for tasks that are drawn, and {log} is a sample log"),
        (["--rng", "1"], "--rng is for tasks that are drawn, and {log} is a sample log"),
        (["--labels", "y.npy"], "--labels is for embeddings, and {log} is a sample log"),
        (["--task", "doc.topic"], "{log}, line 1: has no field 'topic', as --task doc.topic asks"),
        (["--filter", "strict"], "{log} holds no sample of filter 'strict', only of none."),
        (["--normalise", "tokens"], "--normalise must be 'none' or 'characters' or 'bytes', got"),
        (["--score", "entropy"], "--score must be 'probability' or"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, words: list[str], message: str) -> None:
    log = write_log(tmp_path, [sample()])
    printed = run("score", log, *words, "-o", tmp_path / "scores.parquet", code=2)
    assert message.format(log=log) in printed.replace("- ", "-")
    assert not (tmp_path / "scores.parquet").exists()


def test_only_logs_may_be_several(tmp_path: Path) -> None:
    log, vectors = write_log(tmp_path, [sample()]), tmp_path / "x.npy"
    np.save(vectors, np.zeros((4, 2)))
    printed = run("score", log, vectors, "-o", tmp_path / "scores.parquet", code=2)
    assert f"{vectors} must be the only source" in printed


def test_options_of_logs_are_for_logs(tmp_path: Path) -> None:
    vectors = tmp_path / "x.npy"
    np.save(vectors, np.zeros((4, 2)))
    words = ["--normalise", "bytes", "-o", tmp_path / "scores.parquet"]
    printed = run("score", vectors, *words, code=2)
    assert f"--normalise is for a sample log, and {vectors} is embeddings" in printed


def test_one_damaged_line_writes_nothing(tmp_path: Path) -> None:
    log = write_log(tmp_path, [sample()])
    log.write_text(log.read_text() + '{"doc_id": 1, "doc')
    printed = run("score", log, "-o", tmp_path / "scores.parquet", code=2)
    assert "line 2: is not JSON" in printed
    assert not (tmp_path / "scores.parquet").exists()
