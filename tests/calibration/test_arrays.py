"""Labelled examples in arrays: the evidence in them, and the checks on every route."""

from __future__ import annotations

import numpy as np
import pytest
from metapac.calibration import collect_from_arrays, draw_from_clusters

from metapac import PS, Context, Guarantee, InvalidInput, MetaPS
from metapac.data_checks import CheckWarning

GUARANTEE = Guarantee(epsilon=0.3, alpha=0.4, delta=0.2, split="tight")


def test_confidences_are_refused_on_every_route() -> None:
    scores = np.random.default_rng(0).random(200)
    high = MetaPS(epsilon=0.95, alpha=0.3, delta=0.1, split="tight")
    message = r"Did you mean epsilon=0.05\? To go on, pass allow=\('levels',\)"
    with pytest.raises(InvalidInput, match=message):
        PS(epsilon=0.95, delta=0.1).calibrate(scores)
    with pytest.raises(InvalidInput, match=message):
        high.task_threshold(scores)
    with pytest.raises(InvalidInput, match=message):
        high.combine([0.5] * 20)
    assert PS(epsilon=0.95, delta=0.1).calibrate(scores, allow=["levels"]).threshold_ > 0
    sent = [high.task_threshold(scores, allow=["levels"])] * 20
    assert high.combine(sent, allow=["levels"]).threshold_ > 0


def test_arrays_without_tasks_are_checked_too() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=400)
    score = rng.beta(1 + 2 * labels, 3 - 2 * labels)
    matrix = np.stack([1 - score, score], axis=1)
    method = PS(epsilon=0.1, delta=0.1)
    with pytest.warns(CheckWarning, match="the true label scores lower than other labels"):
        method.calibrate(matrix[:, ::-1], labels)
    method.calibrate(matrix[:, ::-1], labels, allow=["direction"])
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        method.calibrate(np.tile(score, 2))
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        MetaPS(epsilon=0.1, alpha=0.1, delta=0.1).task_threshold(np.tile(score, 2))


@pytest.mark.parametrize("per_class", [False, True])
def test_a_matrix_is_the_scores_of_its_true_labels(per_class: bool) -> None:
    rng = np.random.default_rng(0)
    matrix, codes = rng.random((240, 3)), rng.integers(3, size=240)
    names, tasks = np.array(["owl", "cat", "dog"]), np.repeat(np.arange(6), 40)
    true, labels = matrix[np.arange(240), codes], names[codes]
    g = Guarantee(epsilon=0.3, alpha=0.4, delta=0.2, per_class=per_class)
    ours = collect_from_arrays(g, matrix, tasks, labels, names.tolist(), ["direction"])
    expected = collect_from_arrays(g, true, tasks, labels if per_class else None, None, ())
    assert ours.columns == {"classes": ["owl", "cat", "dog"]}
    assert expected.columns is None
    order = [0, 1, 2]
    if per_class:
        assert ours.classes == ("owl", "cat", "dog")  # as the columns; else sorted
        order = [(expected.classes or ()).index(name) for name in ours.classes]
    for i, j in enumerate(order if per_class else [0]):
        np.testing.assert_array_equal(ours.thresholds[:, i], expected.thresholds[:, j])
        np.testing.assert_array_equal(ours.sizes[:, i], expected.sizes[:, j])


def test_one_task_of_each_cluster_is_kept() -> None:
    scores, tasks = np.random.default_rng(0).random(240), np.repeat(np.arange(6), 40)
    whole = collect_from_arrays(GUARANTEE, scores, tasks, None, None, ())
    clusters = dict(zip(range(6), "aabbcc", strict=True))
    drawn = draw_from_clusters(whole, tasks, clusters, 3, None, ())
    assert drawn.clusters is not None
    assert sorted(drawn.clusters.names.tolist()) == ["a", "b", "c"]
    kept = drawn.names.tolist()
    np.testing.assert_array_equal(drawn.thresholds, whole.thresholds[kept])
    (left_out,) = {0, 1} - {*kept}
    with pytest.raises(InvalidInput, match="trained_on and the calibration tasks share 1 task"):
        draw_from_clusters(whole, tasks, clusters, 3, Context(trained_on=[left_out]), ())


def test_what_the_examples_mean_is_checked() -> None:
    score, tasks = np.random.default_rng(0).random(200), np.repeat(np.arange(4), 50)
    data = np.tile(score, 2), np.tile(tasks, 2)
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        collect_from_arrays(GUARANTEE, *data, None, None, ())
    assert collect_from_arrays(GUARANTEE, *data, None, None, ["duplicates"]).sizes.min() == 100
