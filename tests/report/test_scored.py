"""Labelled scores in arrays: calibrated again, evaluated, and as examples with their sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from metapac import InvalidInput, MetaPS, Scored, evaluate
from metapac.report import report
from tests.report.conftest import CLASSES, calibrate


@pytest.mark.parametrize("epsilon", [0.1, 0.3])
def test_calibrating_again_is_calibrating_at_that_epsilon(
    calibration: Scored, promise: MetaPS, per_class: MetaPS, epsilon: float
) -> None:
    again = calibration.calibrate(promise, epsilon)
    assert again.threshold_ == calibrate(calibration, epsilon=epsilon).threshold_
    assert again.context_ == promise.context_
    each = calibration.calibrate(per_class, epsilon)
    expected = calibrate(calibration, epsilon=epsilon, per_class=True, alpha=0.3)
    assert each.thresholds_.tolist() == expected.thresholds_.tolist()


def find_clusters(data: Scored) -> dict[str, int]:
    """Return a cluster for each task: two tasks are in each, which one may not both count."""
    return {name: i // 2 for i, name in enumerate(dict.fromkeys(data.tasks.tolist()))}


def test_one_task_of_each_cluster_counts(calibration: Scored, labelled: Scored) -> None:
    old = replace(calibration, clusters=find_clusters(calibration))
    new = replace(labelled, clusters={k: f"new {c}" for k, c in find_clusters(labelled).items()})
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1)
    data = (old.scores, old.tasks, old.labels)
    promise = method.calibrate(*data, classes=CLASSES, clusters=old.clusters, rng=3)
    again = old.calibrate(promise, 0.2)
    assert again.tasks_.tolist() == promise.tasks_.tolist()
    assert len(again.tasks_) == 20
    assert again.threshold_ == promise.threshold_
    html = report(promise, new, calibration=old, examples=0)
    assert "of the 10 new tasks stay within" in html
    with pytest.raises(InvalidInput, match="clusters must be passed with the calibration scores"):
        report(promise, new, calibration=calibration)
    with pytest.raises(InvalidInput, match="clusters must be passed, since the guarantee"):
        report(promise, labelled, calibration=old)


def test_clusters_of_new_tasks_do_not_change_a_calibration_without_them(
    calibration: Scored, promise: MetaPS
) -> None:
    data = replace(calibration, clusters=find_clusters(calibration))
    assert data.calibrate(promise, 0.2).tasks_.tolist() == promise.tasks_.tolist()


def test_labels_beside_the_scores_of_true_labels_are_for_evaluation_only(
    calibration: Scored, promise: MetaPS
) -> None:
    codes = np.array([CLASSES.index(label) for label in calibration.labels])
    true = calibration.scores[np.arange(len(codes)), codes]
    data = Scored(true, calibration.tasks, calibration.labels)
    assert data.calibrate(promise, 0.2).threshold_ == promise.threshold_
    found = data.evaluate(promise, false_alarm=0.05, allow=["overlap"])
    assert found.classes is not None
    assert data.examples(promise, ["old 1"]) == []


def test_evaluation_is_that_of_the_library(labelled: Scored, promise: MetaPS) -> None:
    found = labelled.evaluate(promise, false_alarm=0.01, allow=())
    expected = evaluate(
        promise, labelled.scores, labelled.tasks, labelled.labels, classes=CLASSES, false_alarm=0.01
    )
    assert found.missed.tolist() == expected.missed.tolist()
    assert found.verdict == expected.verdict


def test_examples_have_the_sets_of_the_predictor(labelled: Scored, per_class: MetaPS) -> None:
    chosen = ["new 3", "new 5"]
    examples = labelled.examples(per_class, chosen)
    rows = np.isin(labelled.tasks.astype(str), chosen)
    sets = per_class.predict_set(labelled.scores[rows])
    assert len(examples) == rows.sum()
    for example, row, label in zip(examples, sets, labelled.labels[rows], strict=True):
        assert example.truth == label
        assert example.labels == tuple(np.array(CLASSES, dtype=object)[row])
        assert example.full == row.all()
