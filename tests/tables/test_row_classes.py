"""Classes that differ from row to row: a list of scores beside a list of names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, MetaPS, load
from tests.helpers import engines
from tests.helpers.tables import calibrate_table, evaluate_table, predict_table, site_table
from tests.helpers.tables import summarise_table as summarise_sets

PROMISE: dict[str, Any] = {"epsilon": 0.15, "alpha": 0.2, "delta": 0.1}
COLUMNS: dict[str, Any] = {"columns": "probs", "classes_column": "candidates"}
ENGINES = ("duckdb", "postgres", "spark")


def make_tasks(
    first: int = 0, tasks: int = 40, examples: int = 25, kind: Any = str
) -> pd.DataFrame:
    """Return few-shot tasks with 3 to 8 classes each; the order of the classes differs by row."""
    rng = np.random.default_rng([1, first])
    rows = []
    for task in range(first, first + tasks):
        classes = rng.choice(30, rng.integers(3, 9), replace=False)
        for _ in range(examples):
            names = [kind(int(name)) for name in rng.permutation(classes)]
            place = int(rng.integers(len(names)))
            logits = rng.normal(size=len(names))
            logits[place] += 2
            weights = np.exp(logits)
            rows.append((task, names, (weights / weights.sum()).tolist(), names[place]))
    return pd.DataFrame(rows, columns=["task", "candidates", "probs", "y"])


def true_scores(frame: pd.DataFrame) -> list[float]:
    rows = zip(frame.probs, frame.candidates, frame.y, strict=True)
    return [scores[names.index(label)] for scores, names, label in rows]


def expected_sets(frame: pd.DataFrame, threshold: float) -> list[list[Any]]:
    rows = zip(frame.probs, frame.candidates, strict=True)
    return [
        [name for name, score in zip(names, scores, strict=True) if score >= threshold]
        for scores, names in rows
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [str, int])
def test_tasks_of_different_width_are_calibrated_predicted_and_evaluated(
    engine: str, kind: Any, tmp_path: Path
) -> None:
    frame, new = make_tasks(kind=kind), make_tasks(100, tasks=10, kind=kind)
    promise = calibrate_table(
        engines.put(engine, frame), task="task", label="y", **COLUMNS, **PROMISE
    )
    by_array = MetaPS(**PROMISE).calibrate(true_scores(frame), frame.task)
    assert promise.threshold_ == by_array.threshold_
    assert promise.columns_ == {"task": "task", "label": "y", **COLUMNS}
    promise.save(tmp_path / "promise.json")
    promise = load(tmp_path / "promise.json")

    sets = predict_table(promise, engines.put(engine, new.assign(row=range(len(new)))))
    result = sets.to_pandas().sort_values("row")
    kept = expected_sets(new, promise.threshold_)
    assert [list(one) for one in result["set"]] == kept
    assert result.set_size.tolist() == [len(one) for one in kept]

    evaluation = evaluate_table(promise, engines.put(engine, new))
    missed = [label not in one for label, one in zip(new.y, kept, strict=True)]
    assert evaluation.missed.tolist() == pd.Series(missed).groupby(new.task).sum().tolist()
    sizes = pd.Series([len(one) for one in kept])
    widths = new.candidates.map(len)
    assert evaluation.sizes is not None
    assert evaluation.sizes.tolist() == sizes.groupby(new.task).mean().tolist()
    shares = {"empty": sizes == 0, "single": sizes == 1, "full": sizes == widths}
    assert evaluation.set_shares == {name: float(is_so.mean()) for name, is_so in shares.items()}
    summary = summarise_sets(promise, engines.put(engine, new))
    assert (summary.rows, summary.full) == (len(new), int(shares["full"].sum()))
    assert summary.by_class == {}


def test_sets_are_json_text_in_csv(tmp_path: Path) -> None:
    frame = make_tasks()
    names = {"0": 'a "b"', "1": "back\\slash", "2": "new\nline", "3": "tab\t", "4": "ü, 😀"}
    frame["candidates"] = [[names.get(x, x) for x in row] for row in frame.candidates]
    frame["y"] = frame.y.map(lambda x: names.get(x, x))
    promise = calibrate_table(frame, task="task", label="y", **COLUMNS, **PROMISE)
    predict_table(promise, frame, output=tmp_path / "sets.csv")
    written = pd.read_csv(tmp_path / "sets.csv")["set"].map(json.loads).tolist()
    assert written == expected_sets(frame, promise.threshold_)


def test_a_site_may_have_its_own_classes() -> None:
    site = site_table(
        make_tasks(tasks=1, examples=200), name="a", label="y", **COLUMNS, **PROMISE, split="tight"
    )
    frame = make_tasks(tasks=1, examples=200)
    method = MetaPS(**PROMISE, split="tight", on_infeasible="trivial")
    method.calibrate(true_scores(frame), frame.task)
    assert site.thresholds == ((float(method.task_thresholds_[0]),),)


def test_scores_of_the_wrong_direction_are_seen() -> None:
    frame = make_tasks()
    frame["probs"] = [[-x for x in row] for row in frame.probs]
    with pytest.raises(InvalidInput, match="true label"):
        calibrate_table(frame, task="task", label="y", **COLUMNS, **PROMISE)


def test_an_engine_without_lists_is_named() -> None:
    frame = pd.DataFrame({"task": ["a"], "probs": ["[1]"], "candidates": ['["x"]'], "y": ["x"]})
    with pytest.raises(InvalidInput, match="or name a column of lists of numbers, got 'probs'"):
        calibrate_table(engines.put("sqlite", frame), task="task", label="y", **COLUMNS, **PROMISE)
