"""Matrices of class scores: the true label's score is picked, and columns keep their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import PS, InvalidInput, MetaPS, load
from metapac.inputs import check_column_order, read_class_matrix

CLASSES = ["yes", "no", "maybe"]  # not in ascending order
RNG = np.random.default_rng(0)
CODES = RNG.integers(3, size=3600)
MATRIX = RNG.dirichlet([1, 1, 1], size=3600)
MATRIX[np.arange(3600), CODES] += 0.3
TASKS = np.repeat(np.arange(30), 120)
LABELS = np.array(CLASSES)[CODES]
TRUE = MATRIX[np.arange(3600), CODES]


def method(**options: Any) -> MetaPS:
    return MetaPS(epsilon=0.3, alpha=0.3, delta=0.2, **options)


@pytest.mark.parametrize("given", ["classes", "frame"])
def test_a_matrix_gives_the_threshold_of_its_true_labels(given: str, tmp_path: Path) -> None:
    scores: Any = pd.DataFrame(MATRIX, columns=CLASSES) if given == "frame" else MATRIX
    classes = CLASSES if given == "classes" else None
    predictor = method().calibrate(scores, TASKS, LABELS, classes=classes)
    assert predictor.threshold_ == method().calibrate(TRUE, TASKS).threshold_
    assert predictor.columns_ == {"classes": CLASSES}
    predictor.save(tmp_path / "p.json")
    again = load(tmp_path / "p.json")
    with pytest.raises(InvalidInput, match="calibrated in the order yes, no, maybe"):
        again.predict_set(MATRIX, classes=["no", "yes", "maybe"])
    kept = again.predict_set(MATRIX, classes=CLASSES)
    np.testing.assert_array_equal(kept, predictor.predict_set(MATRIX))


def test_integer_labels_are_columns() -> None:
    predictor = method().calibrate(MATRIX, TASKS, CODES)
    assert predictor.columns_ == {"classes": [0, 1, 2]}
    assert predictor.threshold_ == method().calibrate(TRUE, TASKS).threshold_


def test_classes_keep_the_order_of_the_columns_per_class() -> None:
    predictor = method(per_class=True).calibrate(MATRIX, TASKS, LABELS, classes=CLASSES)
    assert predictor.classes_ == tuple(CLASSES)
    same = method(per_class=True).calibrate(TRUE, TASKS, LABELS)
    for name in CLASSES:
        assert predictor.threshold_of(name) == same.threshold_of(name)
    kept = predictor.predict_set(MATRIX)
    cuts = [predictor.threshold_of(name) for name in CLASSES]
    np.testing.assert_array_equal(kept, cuts <= MATRIX)


def test_ps_takes_a_matrix_too(tmp_path: Path) -> None:
    predictor = PS(epsilon=0.1, delta=0.1).calibrate(MATRIX, LABELS, classes=CLASSES)
    assert predictor.threshold_ == PS(epsilon=0.1, delta=0.1).calibrate(TRUE).threshold_
    predictor.save(tmp_path / "p.json")
    assert load(tmp_path / "p.json").columns_ == {"classes": CLASSES}
    with pytest.raises(InvalidInput, match="labels must not be passed"):
        PS(epsilon=0.1, delta=0.1).calibrate(TRUE, LABELS)


def test_frames_are_compared_by_the_names_of_their_columns() -> None:
    predictor = method().calibrate(MATRIX, TASKS, LABELS, classes=CLASSES)
    frame = pd.DataFrame(MATRIX, columns=CLASSES)
    np.testing.assert_array_equal(predictor.predict_set(frame), predictor.predict_set(MATRIX))
    named = frame.rename(columns="p_{}".format)
    np.testing.assert_array_equal(predictor.predict_set(named), predictor.predict_set(MATRIX))
    unnamed = pd.DataFrame(MATRIX)
    np.testing.assert_array_equal(predictor.predict_set(unnamed), predictor.predict_set(MATRIX))
    with pytest.raises(InvalidInput, match="the columns of scores are maybe, no, yes, but the cla"):
        predictor.predict_set(frame[sorted(CLASSES)])


def test_a_threshold_without_classes_compares_nothing() -> None:
    predictor = method().calibrate(TRUE, TASKS)
    assert predictor.predict_set(MATRIX[:, :2]).shape == (3600, 2)
    with pytest.raises(InvalidInput, match="no class names were calibrated"):
        predictor.predict_set(MATRIX, classes=CLASSES)


def test_one_row_of_labels_needs_no_column_names() -> None:
    predictor = method().calibrate(MATRIX, TASKS, LABELS, classes=CLASSES)
    assert predictor.predict_set([0.9, 0.0]).tolist() == [True, False]
    check_column_order(["a"], "p_*", 0.5, by_position=False)


@pytest.mark.parametrize(
    ("scores", "labels", "classes", "message"),
    [
        (MATRIX, LABELS, None, "labels must be among the classes 0, 1, 2, got 'maybe', 'no', 'yes"),
        (MATRIX, LABELS, ["yes", "no"], "classes must name each of the 3 columns of scores once"),
        (MATRIX, LABELS, ["yes", "no", "no"], "must name each of the 3 columns of scores once"),
        (MATRIX, LABELS, ["yes", "no", "x"], "among the classes 'yes', 'no', 'x', got 'maybe'"),
        (MATRIX, LABELS[:9], CLASSES, "scores and labels must have the same length"),
        (TRUE, LABELS, CLASSES, r"pass scores of shape \(n, classes\) and labels, got scores of"),
        (MATRIX, None, CLASSES, "without labels"),
        (
            pd.DataFrame(MATRIX, columns=CLASSES), LABELS, ["no", "yes", "maybe"],
            "but the frame has its columns in the order 'yes', 'no', 'maybe'. Leave classes out.",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_rejected(
    scores: Any, labels: Any, classes: Any, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_class_matrix(scores, labels, classes)


def test_width_is_compared() -> None:
    predictor = method().calibrate(MATRIX, TASKS, LABELS, classes=CLASSES)
    with pytest.raises(InvalidInput, match=r"a column for each of the 3 classes .* \(3600, 2\)"):
        predictor.predict_set(MATRIX[:, :2])


def test_added_matrices_must_keep_the_order() -> None:
    predictor = method().calibrate(MATRIX, TASKS, LABELS, classes=CLASSES)
    order = [1, 0, 2]
    with pytest.raises(InvalidInput, match="calibrated in the order"):
        predictor.add(MATRIX[:, order], TASKS + 100, LABELS, classes=["no", "yes", "maybe"])
    more = MATRIX * 0.9
    predictor.add(more, TASKS + 100, LABELS, classes=CLASSES)
    true = np.concatenate([TRUE, more[np.arange(3600), CODES]])
    same = method().calibrate(true, np.concatenate([TASKS, TASKS + 100]))
    assert predictor.threshold_ == same.threshold_


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([True, False], ["False", "True"]), ([1, 0], ["0", "1"]), (["1", "0"], [0, 1])],
    ids=str,
)
def test_classes_that_a_table_names_by_text_match(labels: Any, classes: list[Any]) -> None:
    matrix = read_class_matrix([[0.1, 0.9], [0.6, 0.4]], labels, classes)
    assert matrix is not None
    assert matrix.codes.tolist() == [1, 0]
    assert matrix.labels == [classes[1], classes[0]]
