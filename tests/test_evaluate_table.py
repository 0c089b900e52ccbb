"""Errors and sizes of a table are those of the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from engines import ENGINES, put
from numpy.typing import NDArray

from metapac import PS, MetaPS, NotCalibrated
from metapac.tables import evaluate_table

CLASSES = np.array(["cat", "dog", "owl"])


@pytest.fixture(scope="module")
def promise() -> MetaPS:
    rng = np.random.default_rng(0)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    return method.calibrate(rng.random(400), np.repeat(np.arange(10), 40))


@pytest.fixture(scope="module")
def scores() -> NDArray[np.float64]:
    return np.random.default_rng(1).random((90, 3))


@pytest.fixture(scope="module")
def frame(scores: NDArray[np.float64]) -> pd.DataFrame:
    label = np.random.default_rng(2).integers(3, size=90)
    columns = {f"p_{name}": scores[:, j] for j, name in enumerate(CLASSES)}
    true = scores[np.arange(90), label]
    site = np.random.default_rng(3).integers(4, size=90)
    return pd.DataFrame({"site": site, "y": CLASSES[label], "true": true, **columns})


@pytest.mark.parametrize("engine", ENGINES)
def test_errors_and_sizes_of_each_task(
    engine: str, promise: MetaPS, scores: NDArray[np.float64], frame: pd.DataFrame
) -> None:
    found = evaluate_table(promise, put(engine, frame), task="site", label="y")
    kept = promise.predict_set(scores)
    missed = ~promise.predict_set(frame.true.to_numpy())
    assert found.tasks.tolist() == [0, 1, 2, 3]
    for i in range(4):
        mine = (frame.site == i).to_numpy()
        assert found.examples[i] == mine.sum()
        assert found.errors[i] == pytest.approx(missed[mine].mean(), abs=1e-12)
        assert found.sizes is not None
        assert found.sizes[i] == pytest.approx(kept[mine].sum(axis=1).mean(), abs=1e-12)
    assert found.within == np.mean(found.errors <= 0.3)


def test_scores_of_the_true_labels_have_no_sizes(promise: MetaPS, frame: pd.DataFrame) -> None:
    by_label = evaluate_table(promise, frame, task="site", label="y")
    by_score = evaluate_table(promise, frame, task="site", score="true")
    assert by_score.errors.tolist() == by_label.errors.tolist()
    assert by_score.sizes is None


def test_a_promise_for_one_distribution_is_judged_too(frame: pd.DataFrame) -> None:
    alone = PS(epsilon=0.3, delta=0.1).calibrate(np.linspace(0, 1, 100))
    assert evaluate_table(alone, frame, task="site", score="true").epsilon == 0.3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"y": ["cat", "fox"]},
            "column 'y' must hold one of the classes 'cat', 'dog', got 'fox' in 1",
        ),
        ({"y": ["cat", None]}, "must hold one of the classes 'cat', 'dog', got no label in 1 row"),
        ({"y": [0.5, 1.5]}, "column 'y' must hold strings or integers to name labels, got float64"),
        ({"p_dog": [0.5, None]}, "nulls or NaN"),
        (
            {"site": [0.5, 1.5]},
            "column 'site' must hold strings or integers to name tasks, got flo",
        ),
        (
            {"site": ["a", None]},
            "column 'site' is missing in 1 row; an example must belong to a ta",
        ),
    ],
)
def test_what_cannot_be_judged_is_said(
    promise: MetaPS, changes: dict[str, Any], message: str
) -> None:
    columns = {"site": ["a", "b"], "y": ["cat", "dog"], "p_cat": [0.5, 0.5], "p_dog": [0.5, 0.5]}
    with pytest.raises(ValueError, match=message):
        evaluate_table(promise, pa.table(columns | changes), task="site", label="y")


def test_score_or_label(promise: MetaPS, frame: pd.DataFrame) -> None:
    for options in ({}, {"score": "true", "label": "y"}):
        with pytest.raises(ValueError, match="pass either score, the column with the score of the"):
            evaluate_table(promise, frame, task="site", **options)
    with pytest.raises(ValueError, match="has no column 'nowhere'; it has: site, y, true, p_cat"):
        evaluate_table(promise, frame, task="nowhere", score="true")


def test_a_promise_not_made_cannot_be_judged(frame: pd.DataFrame) -> None:
    with pytest.raises(NotCalibrated, match="this MetaPS has no threshold yet"):
        evaluate_table(MetaPS(epsilon=0.1, alpha=0.1, delta=0.1), frame, task="site", score="true")


@pytest.mark.parametrize("names", [["b", "a"], ["a", "b"]])
def test_errors_stand_beside_their_tasks(promise: MetaPS, names: list[str]) -> None:
    table = pa.table({"site": np.repeat(names, 500), "true": np.repeat([1.0, -1.0], 500)})
    found = evaluate_table(promise, table, task="site", score="true")
    assert dict(zip(found.tasks, found.errors, strict=True)) == {names[0]: 0, names[1]: 1}
    assert found.tasks.tolist() == ["a", "b"]


def test_an_evaluation_says_what_it_found(promise: MetaPS, frame: pd.DataFrame) -> None:
    found = evaluate_table(promise, frame, task="site", label="y")
    assert repr(found).startswith("<Evaluation of 4 tasks: error at most 0.3 on ")
    table = found.to_pandas()
    assert list(table) == ["task", "examples", "error", "set_size"]
    assert table["error"].tolist() == found.errors.tolist()
    plain = evaluate_table(promise, frame, task="site", score="true").to_pandas()
    assert list(plain) == ["task", "examples", "error"]
