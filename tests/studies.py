"""Studies small enough to be computed again by plain loops."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from metapac import Guarantee
from metapac.evaluation import Draw, Judged
from metapac.tasks.synthetic import NormalFamily

PROMISE = Guarantee(epsilon=0.3, alpha=0.4, delta=0.2)
FAMILY = NormalFamily(classes=3)


@dataclass(frozen=True)
class SmallStudy:
    """A dozen synthetic tasks; the quantile of each is guessed from its signal, with noise."""

    tasks: int = 12
    examples: int = 15
    tests: int = 4
    own: int = 10
    quantiles: bool = True

    def draw(self, rng: np.random.Generator) -> Draw:
        signals = FAMILY.draw_tasks(self.tasks, rng)
        scores = FAMILY.draw_scores(signals, self.examples, rng)
        new = FAMILY.draw_tasks(self.tests, rng)
        guesses = 0.5 - np.concatenate([signals, new]) + rng.normal(scale=0.3, size=self._count)
        mine = np.arange(self.own + 20) < self.own
        return Draw(
            scores.ravel(),
            np.repeat(np.arange(self.tasks), self.examples),
            [
                Judged.split(
                    *FAMILY.draw_examples(signal, len(mine), rng),
                    own=mine,
                    quantile=guess if self.quantiles else None,
                )
                for signal, guess in zip(new.tolist(), guesses[self.tasks :].tolist(), strict=True)
            ],
            guesses[: self.tasks] if self.quantiles else None,
        )

    @property
    def _count(self) -> int:
        return self.tasks + self.tests

    def describe(self) -> dict[str, Any]:
        return {"name": "small", **asdict(self)}
