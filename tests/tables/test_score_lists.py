"""Lists of scores that differ in length: a label is a position in the list of its row."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from metapac import Columns, InvalidInput, MetaPS, load, open_table
from tests.helpers import engines
from tests.helpers.tables import (
    calibrate_table,
    evaluate_table,
    predict_table,
    site_table,
)
from tests.helpers.tables import summarise_table as summarise_sets

PROMISE: dict[str, Any] = {"epsilon": 0.15, "alpha": 0.2, "delta": 0.1}
BY_LABEL: dict[str, Any] = {"task": "task", "label": "label", "columns": "scores"}
ENGINES = ("duckdb", "postgres", "spark")


def make_tasks(first: int = 0, tasks: int = 40, examples: int = 25) -> pd.DataFrame:
    """Return few-shot tasks with 3 to 8 classes each, as ``metapac score`` writes them."""
    rng = np.random.default_rng([2, first])
    rows = []
    for task in range(first, first + tasks):
        ways = int(rng.integers(3, 9))
        for _ in range(examples):
            label = int(rng.integers(ways))
            logits = rng.normal(size=ways)
            logits[label] += 2
            weights = np.exp(logits)
            scores = (weights / weights.sum()).tolist()
            rows.append((f"task {task}", label, scores[label], scores))
    return pd.DataFrame(rows, columns=["task", "label", "score", "scores"])


def expected_sets(frame: pd.DataFrame, threshold: float) -> list[list[int]]:
    return [[i for i, score in enumerate(row) if score >= threshold] for row in frame.scores]


def padded(frame: pd.DataFrame, width: int = 10) -> pa.Table:
    """Return the same table with nulls after the scores of each row."""
    lists = [[*row, *[None] * (width - len(row))] for row in frame.scores]
    table = pa.Table.from_pandas(frame.drop(columns="scores"))
    return table.append_column("scores", pa.array(lists, pa.list_(pa.float64())))


@pytest.mark.parametrize("engine", ENGINES)
def test_tasks_of_different_ways_are_calibrated_predicted_and_evaluated(
    engine: str, tmp_path: Path
) -> None:
    frame, new = make_tasks(), make_tasks(100, tasks=10)
    promise = calibrate_table(engines.put(engine, frame), **BY_LABEL, **PROMISE)
    by_array = MetaPS(**PROMISE).calibrate(frame.score, frame.task)
    assert promise.threshold_ == by_array.threshold_
    assert promise.columns_ == BY_LABEL
    promise.save(tmp_path / "promise.json")
    promise = load(tmp_path / "promise.json")

    sets = predict_table(promise, engines.put(engine, new.assign(row=range(len(new)))))
    result = sets.to_pandas().sort_values("row")
    kept = expected_sets(new, promise.threshold_)
    assert [list(one) for one in result["set"]] == kept
    assert result.set_size.tolist() == [len(one) for one in kept]

    evaluation = evaluate_table(promise, engines.put(engine, new))
    missed = [label not in one for label, one in zip(new.label, kept, strict=True)]
    by_task = pd.Series(missed).groupby(new.task).sum()
    assert dict(zip(evaluation.tasks, evaluation.missed, strict=True)) == by_task.to_dict()
    sizes, widths = pd.Series([len(one) for one in kept]), new.scores.map(len)
    shares = {"empty": sizes == 0, "single": sizes == 1, "full": sizes == widths}
    assert evaluation.set_shares == {name: float(is_so.mean()) for name, is_so in shares.items()}
    summary = summarise_sets(promise, engines.put(engine, new))
    assert (summary.rows, summary.full) == (len(new), int(shares["full"].sum()))
    assert summary.by_class == {}


def test_calibrated_by_score_and_predicted_by_list() -> None:
    frame, new = make_tasks(), make_tasks(100, tasks=4)
    promise = calibrate_table(frame, task="task", score="score", **PROMISE)
    result = predict_table(promise, new, columns="scores").to_pandas()
    assert [list(one) for one in result["set"]] == expected_sets(new, promise.threshold_)
    evaluation = evaluate_table(promise, new, label="label", columns="scores")
    assert int(evaluation.missed.sum()) == int((new.score < promise.threshold_).sum())


def test_a_new_table_may_have_one_number_of_classes() -> None:
    promise = calibrate_table(make_tasks(), **BY_LABEL, **PROMISE)
    new = make_tasks(100, tasks=9)
    five = new[new.scores.map(len) == new.scores.map(len).iloc[0]].reset_index(drop=True)
    result = predict_table(promise, five).to_pandas()
    assert [list(one) for one in result["set"]] == expected_sets(five, promise.threshold_)


@pytest.mark.parametrize("engine", ENGINES)
def test_nulls_after_the_scores_do_not_count(engine: str) -> None:
    frame, new = make_tasks(), make_tasks(100, tasks=6)
    there = engines.connection(engine)

    def put(table: pa.Table) -> Any:
        if engine == "duckdb":
            return table
        name = f"t{uuid.uuid4().hex}"
        if engine == "spark":
            rows = table.to_pylist()
            schema = "task string, label int, score double, scores array<double>"
            there._session.createDataFrame(rows, schema).createOrReplaceTempView(name)
            return there.table(name)
        return there.create_table(name, table, temp=True)

    promise = calibrate_table(put(padded(frame)), **BY_LABEL, **PROMISE)
    assert promise.threshold_ == calibrate_table(frame, **BY_LABEL, **PROMISE).threshold_
    result = predict_table(promise, put(padded(new))).to_pandas()
    found = {tuple(x for x in row if x == x and x is not None): list(one) for row, one in
             zip(result.scores, result["set"], strict=True)}  # fmt: skip
    kept = expected_sets(new, promise.threshold_)
    assert [found[tuple(row)] for row in new.scores] == kept


def test_a_null_before_a_score_is_missing_and_so_is_nan() -> None:
    promise = calibrate_table(make_tasks(), **BY_LABEL, **PROMISE)
    for bad in (None, float("nan")):
        for other in ([0.5, 0.5], [0.5, 0.5, None]):
            table = pa.table({"scores": [[0.2, bad, 0.8], other]})
            with pytest.raises(InvalidInput, match="hold nulls or NaN in 1 of 2 rows; a score"):
                predict_table(promise, table)


def test_sets_are_json_text_in_csv(tmp_path: Path) -> None:
    frame = make_tasks()
    promise = calibrate_table(frame, **BY_LABEL, **PROMISE)
    predict_table(promise, frame, output=tmp_path / "sets.csv")
    written = pd.read_csv(tmp_path / "sets.csv")["set"].map(json.loads).tolist()
    assert written == expected_sets(frame, promise.threshold_)


def test_labels_may_be_text_and_a_site_may_have_its_own_number_of_classes() -> None:
    frame = make_tasks()
    text = calibrate_table(frame.assign(label=frame.label.astype(str)), **BY_LABEL, **PROMISE)
    assert text.threshold_ == calibrate_table(frame, **BY_LABEL, **PROMISE).threshold_
    site = site_table(frame, name="a", label="label", columns="scores", **PROMISE, split="tight")
    method = MetaPS(**PROMISE, split="tight", on_infeasible="trivial")
    method.calibrate(frame.score, np.zeros(len(frame), int))
    assert site.thresholds == ((float(method.task_thresholds_[0]),),)


def test_scores_of_the_wrong_direction_are_seen() -> None:
    frame = make_tasks()
    frame["scores"] = [[-x for x in row] for row in frame.scores]
    with pytest.raises(InvalidInput, match="true label"):
        calibrate_table(frame, **BY_LABEL, **PROMISE)


def test_a_position_is_not_a_rare_class() -> None:
    frame = make_tasks()
    table = open_table(frame, Columns(**BY_LABEL))
    table.check_rare_classes(None, 0.15, ())  # positions 4 to 7 differ from row to row
    short = frame.assign(scores=[row[:3] for row in frame.scores])
    rare = short.assign(label=np.where(np.arange(len(short)) % 40 == 0, 1, 0))
    with pytest.warns(UserWarning, match="'1' is 2.5% of the ex"):
        open_table(rare, Columns(**BY_LABEL)).check_rare_classes([0, 1, 2], 0.15, ())
