"""The column ``answer``: the label of a set of one, on every engine, in every form."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from metapac import InvalidInput, MetaPS, answers, residual_scores
from metapac.tables.scores import FEW_CLASSES
from tests.helpers.engines import ENGINES, put
from tests.helpers.tables import predict_table

MANY = FEW_CLASSES + 1


def calibrated(**more: Any) -> MetaPS:
    rng = np.random.default_rng(0)
    scores, tasks = rng.random(4000), np.repeat(np.arange(10), 400)
    labels = more.pop("labels", None)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3, **more)
    return method.calibrate(scores, tasks, labels, allow=("levels",))


def draw(classes: int, cut: float) -> np.ndarray[Any, Any]:
    """Return scores of which many rows have one class above the cut, some none or several."""
    rng = np.random.default_rng(1)
    scores = rng.random((60, classes)) * cut * 0.99
    for row in range(50):
        chosen = rng.choice(classes, size=1 + (row % 5 == 0), replace=False)
        scores[row, chosen] = cut
    return scores


def expected(promise: MetaPS, scores: np.ndarray[Any, Any], names: list[Any]) -> list[Any]:
    found = answers(promise.predict_set(scores), names).labels
    assert {None, *names[:2]} <= {*found}
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("classes", [3, MANY])
def test_the_answers_are_those_of_arrays(engine: str, classes: int) -> None:
    promise = calibrated()
    names = [f"c {i}" for i in range(classes)]
    scores = draw(classes, promise.threshold_)
    scores[:2], scores[0, 0], scores[1, 1] = 0, 1, 1
    frame = pd.DataFrame(scores, columns=[f"p_{name}" for name in names]).assign(id=range(60))
    result = predict_table(promise, put(engine, frame), classes=names, answer=True).to_pandas()
    result = result.sort_values("id")
    got = [None if pd.isna(label) else label for label in result["answer"]]
    assert got == expected(promise, scores, names)
    assert (result["answer"].notna() == (result["set_size"] == 1)).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_each_class_has_its_own_threshold(engine: str) -> None:
    names = ["a", "b", "c"]
    labels = np.tile(names, 1334)[:4000]
    promise = calibrated(per_class=True, labels=labels)
    scores = np.random.default_rng(2).random((60, 3)) * 0.5
    frame = pd.DataFrame(scores, columns=[f"p_{name}" for name in names]).assign(id=range(60))
    result = predict_table(promise, put(engine, frame), answer=True).to_pandas().sort_values("id")
    got = [None if pd.isna(label) else label for label in result["answer"]]
    assert got == expected(promise, scores, names)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_rows_of_different_length_answer_by_position(engine: str) -> None:
    promise = calibrated()
    cut = promise.threshold_
    lists = [[cut, 0.0], [0.0, 0.0, cut], [cut, cut], [0.0, 0.0, 0.0, 0.0]]
    frame = pd.DataFrame({"id": range(4), "l": lists})
    result = predict_table(promise, put(engine, frame), columns="l", answer=True).to_pandas()
    got = [None if pd.isna(a) else int(a) for a in result.sort_values("id")["answer"]]
    assert got == [0, 2, None, None]


def test_numbers_stay_numbers_and_names_of_rows_are_theirs() -> None:
    promise = calibrated()
    cut = promise.threshold_
    lists = pa.table({"l": [[cut, 0.0], [cut, cut]], "n": [["x", "y"], ["u", "v"]]})
    by_number = predict_table(promise, lists, columns="l", answer=True).to_pyarrow()
    assert by_number["answer"].to_pylist() == [0, None]
    assert pa.types.is_integer(by_number["answer"].type)
    by_name = predict_table(promise, lists, columns="l", classes_column="n", answer=True)
    assert by_name.to_pyarrow()["answer"].to_pylist() == ["x", None]


def test_in_csv_and_beside_booleans(tmp_path: Path) -> None:
    promise = calibrated()
    frame = pd.DataFrame({"p_no": [0.9, 0.9, 0.0], "p_yes": [0.0, 0.9, 0.0]})
    path = tmp_path / "sets.csv"
    predict_table(promise, frame, answer=True, booleans=True, output=path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["answer"] for row in rows] == ["no", "", ""]
    assert [row["in_no"] for row in rows] == ["true", "true", "false"]


def test_numbers_have_no_answer_and_names_must_be_free() -> None:
    promise = calibrated()
    with pytest.raises(InvalidInput, match="already has a column 'answer'. Rename or drop it"):
        predict_table(
            promise, pd.DataFrame({"p_a": [1.0], "p_b": [0.0], "answer": [1]}), answer=True
        )
    rng = np.random.default_rng(0)
    scores = residual_scores(rng.normal(size=400), np.zeros(400))
    intervals = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    intervals.calibrate(scores, np.repeat(np.arange(10), 40), allow=("levels",))
    with pytest.raises(
        InvalidInput, match="answer=True is for classes, and prediction for numbers"
    ):
        predict_table(intervals, pd.DataFrame({"m": [1.0]}), prediction="m", answer=True)
