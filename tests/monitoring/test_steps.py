"""Steps: what is known after each task, compared with counting by hand."""

from __future__ import annotations

import numpy as np

from metapac import MetaPS, Monitor
from metapac.verdict import judge
from tests.monitoring.conftest import draw


def test_a_step_counts_the_misses_of_its_task(promise: MetaPS) -> None:
    rng = np.random.default_rng(5)
    scores, tasks = draw(rng, ["a", "b", "c", "d"], power=1.6)
    monitor = Monitor(promise)
    for step in monitor.add(scores, tasks, batch="2026-01").steps:
        own = scores[tasks == step.task]
        assert step.missed == np.count_nonzero(own < promise.threshold_)
        assert (step.examples, step.batch) == (100, "2026-01")
        # The same as "flagged" of a verdict.
        verdict = judge([100], [step.missed], epsilon=0.1, alpha=0.2, delta=0.1)
        assert step.violated == (verdict.flagged == 1)


def test_bounds_never_widen(promise: MetaPS) -> None:
    monitor = Monitor(promise)
    rng = np.random.default_rng(6)
    for power in (0.5, 3.0, 1.0):
        monitor.add(*draw(rng, [f"{power} {i}" for i in range(20)], power=power))
    lower, upper = (np.array([getattr(s, n) for s in monitor.course]) for n in ("lower", "upper"))
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) <= 0).all()
    assert lower[-1] > upper[-1]  # the share has changed
