"""The study on synthetic tasks: the error of every threshold on every task is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metapac.demo.compare import OWN_EXAMPLES, Array, Draw
from metapac.tasks.synthetic import NormalFamily

FAMILY = NormalFamily()
CALIBRATION_TASKS, EXAMPLES, TEST_TASKS = 500, 1000, 50
TITLE = f"Synthetic tasks: {CALIBRATION_TASKS} to calibrate on, {EXAMPLES} examples each"


@dataclass(frozen=True)
class KnownTask:
    """A test task of the family: its error is a number, not an estimate."""

    signal: float
    own: Array

    def error(self, threshold: float) -> float:
        return float(FAMILY.error(np.array(self.signal), threshold))

    def size(self, threshold: float) -> float:
        return float(FAMILY.size(np.array(self.signal), threshold))


def draw(rng: np.random.Generator) -> Draw:
    """Draw calibration tasks and test tasks."""
    scores = FAMILY.draw_scores(FAMILY.draw_tasks(CALIBRATION_TASKS, rng), EXAMPLES, rng)
    signals = FAMILY.draw_tasks(TEST_TASKS, rng)
    own = FAMILY.draw_scores(signals, OWN_EXAMPLES, rng)
    return Draw(
        scores.ravel(),
        np.repeat(np.arange(CALIBRATION_TASKS), EXAMPLES),
        [KnownTask(signal, row) for signal, row in zip(signals.tolist(), own, strict=True)],
    )
