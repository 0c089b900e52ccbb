"""New tasks in arrays: their misses and their clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac import MetaPS, Monitor
from tests.monitoring.conftest import LEVELS, draw, names


def test_scores_of_all_classes(rng: Any) -> None:
    scores, tasks = draw(rng, names("old", 40))
    labels = (rng.random(len(scores)) < 0.5).astype(int)
    matrix = np.where(labels[:, None] == [0, 1], scores[:, None], 1 - scores[:, None])
    promise = MetaPS(**LEVELS).calibrate(matrix, tasks, labels, allow=["labels"])
    some, new = scores[:500] ** 2, np.repeat(names("new", 5), 100)
    monitors = Monitor(promise), Monitor(promise)
    for monitor, data in zip(monitors, (matrix[:500] ** 2, some), strict=True):
        monitor.add(data, new, labels[:500])
    assert monitors[0].course == monitors[1].course
    assert monitors[0]._counted == monitors[1]._counted  # the same checksums
