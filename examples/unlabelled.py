"""One labelled example of each class and 100 without labels: smaller sets, the same guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac import MetaPS
from metapac.fewshot import (
    PrototypeLearner,
    fit_offset,
    fit_temperature,
    score_examples,
    score_tasks,
    split_classes,
)

# Vectors of an encoder would stand here; some classes are harder than others.
rng, y = np.random.default_rng(0), np.repeat(np.arange(120), 60)
spread = rng.uniform(0.8, 1.4, size=120)[y, None]
x = rng.normal(size=(120, 16))[y] + spread * rng.normal(size=(7200, 16))
pools = split_classes(x, y, train=0, validation=30, calibration=60, test=30, rng=0)
shape: dict[str, Any] = {"ways": 5, "shots": 1, "queries": 20}
learner = PrototypeLearner()

for unlabelled in (0, 100):
    shape["unlabelled"] = unlabelled
    held_out = pools.validation.tasks(100, **shape, rng=1)  # of classes that are used for this only
    score = fit_temperature(learner, held_out, score="log_probability")
    if unlabelled:
        score = fit_offset(learner, held_out, epsilon=0.1)
    scores, tasks = score_tasks(learner, pools.calibration.tasks(150, **shape, rng=2), score=score)
    promise = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(scores, tasks)
    sizes, misses = [], []
    for task in pools.test.tasks(100, **shape, rng=3):
        table = score_examples(
            learner,
            task.support_x,
            task.support_y,
            task.query_x,
            score=score,
            unlabelled=task.unlabelled_x,
        )
        sets = promise.predict_set(table)
        sizes.append(sets.sum(axis=1).mean())
        misses.append(1 - sets[np.arange(len(sets)), task.query_y].mean())
    within = np.mean(np.array(misses) <= 0.1)
    print(f"{unlabelled} unlabelled: {np.mean(sizes):.2f} labels, {within:.0%} of tasks within")
