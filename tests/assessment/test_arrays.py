"""A guarantee compared with labelled new tasks, on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import PS, InvalidInput, NotCalibrated, evaluate
from tests.helpers.labelled_sites import CLASSES, calibrate, get_true_scores, run
from tests.helpers.tables import evaluate_table


def test_scores_of_true_labels_alone_have_neither_sizes_nor_classes(frame: pd.DataFrame) -> None:
    promise = calibrate()
    result = evaluate(promise, get_true_scores(frame), frame.site)
    assert result.missed.tolist() == run(promise, frame).missed.tolist()
    assert (result.sizes, result.sets, result.classes, result.set_shares) == (None,) * 4
    with_labels = evaluate(promise, get_true_scores(frame), frame.site, frame.y)
    assert with_labels.classes == run(promise, frame).classes
    assert with_labels.sizes is None


@pytest.mark.parametrize("per_class", [False, True])
def test_rounding_is_that_of_the_sets(per_class: bool) -> None:
    promise = calibrate(per_class=per_class)
    cut = np.float32(promise.threshold_of("cat"))
    scores = np.array([cut, np.nextafter(cut, np.float32(-1))])
    result = evaluate(promise, scores, ["a", "b"], ["cat", "cat"])
    assert result.missed.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "labels must hold the true label of each example, since scores has s"),
        ({"labels": ["cat"]}, "(labels and scores|scores and labels) must have the same length"),
        (
            {"labels": ["fox", "cat"]},
            "labels must be among the classes 'cat', 'dog', 'owl', got 'fox'",
        ),
        ({"tasks": ["a"]}, "scores and tasks must have the same length"),
        ({"scores": [[0.1, np.nan, 0], [0, 0, 0]]}, "scores holds 1 NaN"),
        ({"min_examples": -1}, "min_examples must be a whole number from 0"),
        ({"false_alarm": 0.6}, "false_alarm must be below 0.5"),
    ],
)
def test_invalid_input_is_explained(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"scores": np.ones((2, 3)), "tasks": ["a", "b"]}
    arguments |= {"labels": ["cat", "dog"], "classes": CLASSES} | changes
    with pytest.raises(InvalidInput, match=message):
        evaluate(calibrate(), **arguments)


def percentages(part: dict[str, Any]) -> dict[str, Any]:
    return part | {"scores": 100 * part["scores"]}


def twice(part: dict[str, Any]) -> dict[str, Any]:
    return {name: np.concatenate([values, values]) for name, values in part.items()}


def reversed_(part: dict[str, Any]) -> dict[str, Any]:
    return part | {"scores": part["scores"][:, ::-1]}


def spaces(part: dict[str, Any]) -> dict[str, Any]:
    odd = np.arange(len(part["tasks"])) % 2 == 1
    return part | {"tasks": np.where(odd, np.char.add(part["tasks"], " "), part["tasks"])}


@pytest.mark.parametrize(
    ("change", "check", "message"),
    [
        (percentages, "percentages", "these are percentages and those fractions"),
        (twice, "duplicates", "every row occurs 2 times"),
        (reversed_, "direction", "the true label scores lower than other labels"),
        (spaces, "task-names", "names of tasks differ only in spaces"),
    ],
)
def test_arrays_are_checked_as_tables_are(change: Any, check: str, message: str) -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=2000)
    score = rng.beta(1 + 2 * labels, 3 - 2 * labels)
    tasks = np.repeat([f"new {i}" for i in range(20)], 100)
    good: dict[str, Any] = {
        "scores": np.stack([1 - score, score], axis=1),
        "tasks": tasks,
        "labels": labels,
    }
    promise = calibrate()
    assert evaluate(promise, **good).verdict is not None
    with pytest.raises(InvalidInput, match=f"{message}.*allow=\\('{check}',\\)"):
        evaluate(promise, **change(good))
    table = as_table(change(good))
    with pytest.raises(InvalidInput, match=message):
        evaluate_table(promise, table, task="task", label="y", columns="p_*")
    assert evaluate(promise, **change(good), allow=[check]).verdict is not None
    with pytest.raises(InvalidInput, match="allow must name checks to skip, .* got 'typo'"):
        evaluate(promise, **good, allow=["typo"])


def as_table(part: dict[str, Any]) -> pd.DataFrame:
    """Return the same examples as a table."""
    columns = {"task": part["tasks"], "y": part["labels"]}
    return pd.DataFrame(columns | {f"p_{i}": part["scores"][:, i] for i in range(2)})


def test_a_predictor_must_be_calibrated() -> None:
    with pytest.raises(NotCalibrated):
        evaluate(PS(epsilon=0.1, delta=0.1), [1.0], ["a"])


def test_a_class_guarantee_needs_labels() -> None:
    with pytest.raises(InvalidInput, match="since each class has its guarantee"):
        evaluate(calibrate(per_class=True), [1.0], ["a"])
