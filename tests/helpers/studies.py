"""Studies small enough to be computed again by plain loops."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac import Guarantee
from metapac.fewshot.study.draws import Draw, ScoredTask
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import find_seeds, read_guarantee, read_rows, seed_folder
from metapac.fewshot.study.summary import Summary, summarise
from metapac.fewshot.synthetic import NormalFamily
from tests.helpers.oracles import draw_examples

GUARANTEE = Guarantee(epsilon=0.3, alpha=0.4, delta=0.2)
FAMILY = NormalFamily(classes=3)


@dataclass(frozen=True)
class SmallStudy:
    """A dozen synthetic tasks; the quantile of each is guessed from its signal, with noise."""

    tasks: int = 12
    examples: int = 15
    tests: int = 4
    labelled: int = 10
    quantiles: bool = True

    def draw(self, rng: np.random.Generator) -> Draw:
        signals = FAMILY.draw_tasks(self.tasks, rng)
        scores = FAMILY.draw_scores(signals, self.examples, rng)
        new = FAMILY.draw_tasks(self.tests, rng)
        guesses = 0.5 - np.concatenate([signals, new]) + rng.normal(scale=0.3, size=self._count)
        labelled = np.arange(self.labelled + 20) < self.labelled
        return Draw(
            scores.ravel(),
            np.repeat(np.arange(self.tasks), self.examples),
            [
                ScoredTask.from_predictions(
                    *draw_examples(FAMILY, signal, len(labelled), rng),
                    labelled=labelled,
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


def scored_task(scores: Any, labels: Any, **options: Any) -> ScoredTask:
    """A task whose labelled examples, unless others are given, are its test examples."""
    table = np.asarray(scores)
    true = table[np.arange(len(table)), labels]
    return ScoredTask(**{"labelled_scores": true, **options}, true_scores=true, scores=table)


def same_rows(one: Rows, other: Rows) -> bool:
    """Whether two tables are equal to the last bit."""
    return all(np.array_equal(vars(one)[name], vars(other)[name]) for name in vars(one))


def read_seeds(folder: Path) -> Summary:
    """The summary of a finished evaluation of several seeds."""
    folders = [seed_folder(folder, seed) for seed in find_seeds(folder)]
    return summarise([read_rows(each) for each in folders], read_guarantee(folders[0]))


def method_rows(
    errors: ArrayLike,
    sizes: ArrayLike | None = None,
    *,
    method: str = "PS",
    delta: float = 0.05,
    feasible: bool = True,
    examples: int = 0,
) -> Rows:
    """Rows of one method, from the errors of the tasks of each draw."""
    shape = np.shape(errors)
    count = int(np.prod(shape))
    return Rows(
        draw=np.repeat(np.arange(shape[0]), shape[1]),
        method=np.full(count, method),
        delta=np.full(count, delta),
        task=np.tile(np.arange(shape[1]), shape[0]),
        threshold=np.zeros(count),
        feasible=np.full(count, feasible),
        error=np.ravel(errors),
        size=np.ones(count) if sizes is None else np.ravel(sizes),
        examples=np.full(count, examples),
    )
