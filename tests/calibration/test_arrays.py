"""Labelled examples in arrays: the evidence in them, and the checks on every route."""

from __future__ import annotations

import numpy as np
import pytest

from metapac import PS, InvalidInput, MetaPS
from metapac.data_checks import CheckWarning

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
