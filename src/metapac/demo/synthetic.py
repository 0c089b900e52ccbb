"""The study on synthetic tasks: the error of every threshold on every task is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from metapac.demo.setting import OWN_EXAMPLES
from metapac.evaluation.draws import Array, Draw
from metapac.tasks.synthetic import NormalFamily


@dataclass(frozen=True, eq=False)
class KnownTask:
    """A new task of the family: its error is a number, not an estimate."""

    family: NormalFamily
    signal: float
    own: Array
    quantile: float | None = None

    def error(self, thresholds: ArrayLike) -> Array:
        return _each(partial(self.family.error, np.array(self.signal)), thresholds)

    def size(self, thresholds: ArrayLike) -> Array:
        return _each(partial(self.family.size, np.array(self.signal)), thresholds)

    def largest_threshold(self, epsilon: float) -> float:
        cut = self.signal + float(special.ndtri(epsilon))
        while self.error([cut])[0] > epsilon:  # by the rounding of one digit
            cut = math.nextafter(cut, -math.inf)
        return cut


def _each(function: Callable[[float], Array], thresholds: ArrayLike) -> Array:
    return np.array([function(cut) for cut in np.asarray(thresholds).tolist()])


@dataclass(frozen=True)
class Study:
    """Calibration tasks and new tasks of one family."""

    family: NormalFamily = field(default_factory=NormalFamily)
    tasks: int = 500
    examples: int = 1000
    tests: int = 50

    @property
    def title(self) -> str:
        return f"Synthetic tasks: {self.tasks} to calibrate on, {self.examples} examples each"

    def draw(self, rng: np.random.Generator) -> Draw:
        """Draw calibration tasks and new tasks."""
        scores = self.family.draw_scores(
            self.family.draw_tasks(self.tasks, rng), self.examples, rng
        )
        signals = self.family.draw_tasks(self.tests, rng)
        own = self.family.draw_scores(signals, OWN_EXAMPLES, rng)
        return Draw(
            scores.ravel(),
            np.repeat(np.arange(self.tasks), self.examples),
            [KnownTask(self.family, *each) for each in zip(signals.tolist(), own, strict=True)],
        )

    def describe(self) -> dict[str, Any]:
        return {"study": "synthetic", "own_examples": OWN_EXAMPLES, **asdict(self)}
