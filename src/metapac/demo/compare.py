"""PS, PS-Test and Meta-PS on the same calibration draws and the same test tasks."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from metapac import persistence, plots
from metapac._version import __version__
from metapac.calibration import PS, MetaPS
from metapac.guarantee import Guarantee

GUARANTEE = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
OWN_EXAMPLES = 100  # PS-Test has 20 labels for each of 5 classes, as in the paper
METHODS = ("PS", "PS-Test", "Meta-PS even", "Meta-PS tight")

Array = NDArray[Any]


class TestTask(Protocol):
    """A new task on which sets are judged."""

    @property
    def own(self) -> Array:
        """The true labels' scores of OWN_EXAMPLES examples of its own, for PS-Test."""

    def error(self, threshold: float) -> float:
        """Return how often the true label's score is below ``threshold``."""

    def size(self, threshold: float) -> float:
        """Return how many labels a set has on average."""


class Draw(NamedTuple):
    """One calibration draw with its test tasks."""

    scores: Array  # (examples,)
    tasks: Array  # (examples,)
    tests: Sequence[TestTask]


class Row(NamedTuple):
    """One method on one test task of one calibration draw."""

    draw: int
    method: str
    task: int
    threshold: float
    error: float
    size: float


class Summary(NamedTuple):
    """One line of the table: what a method did over all draws."""

    method: str
    size: float
    error_90: float
    tasks_within: float
    kept: bool


def run(
    draw: Callable[[np.random.Generator], Draw],
    draws: int,
    rng: int,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[Row]:
    """Return error and size of each method on the test tasks of each calibration draw."""
    seeds = np.random.SeedSequence(rng).spawn(draws)
    return [
        row
        for i in track(range(draws))
        for row in _compare(i, draw(np.random.default_rng(seeds[i])))
    ]


def _compare(number: int, draw: Draw) -> list[Row]:
    thresholds = _thresholds(draw)
    return [
        Row(number, method, i, tau, test.error(tau), test.size(tau))
        for method in METHODS
        for i, (test, tau) in enumerate(zip(draw.tests, thresholds[method], strict=True))
    ]


def _thresholds(draw: Draw) -> dict[str, list[float]]:
    """Return the threshold of each method on each test task."""
    g = GUARANTEE
    pooled = PS(epsilon=g.epsilon, delta=g.delta).calibrate(draw.scores)
    alone = PS(epsilon=g.epsilon, delta=g.delta, on_infeasible="trivial")
    even, tight = (
        MetaPS(epsilon=g.epsilon, alpha=g.alpha, delta=g.delta, split=split).calibrate(
            draw.scores, draw.tasks
        )
        for split in ("even", "tight")
    )
    count = len(draw.tests)
    return {
        "PS": [pooled.threshold_] * count,
        "PS-Test": [alone.calibrate(test.own).threshold_ for test in draw.tests],
        "Meta-PS even": [even.threshold_] * count,
        "Meta-PS tight": [tight.threshold_] * count,
    }


def summarise(rows: list[Row]) -> list[Summary]:
    """Return what each method did, over all draws and their test tasks."""
    return [_summary(method, [row for row in rows if row.method == method]) for method in METHODS]


def _summary(method: str, rows: list[Row]) -> Summary:
    errors = np.array([row.error for row in rows])
    within = float(np.mean(errors <= GUARANTEE.epsilon))
    return Summary(
        method,
        size=float(np.mean([row.size for row in rows])),
        error_90=float(np.quantile(errors, 0.9)),
        tasks_within=within,
        kept=within >= 1 - GUARANTEE.alpha,
    )


def write(rows: list[Row], folder: Path, title: str, rng: int) -> tuple[Path, Path]:
    """Write the rows as CSV, with seed and version, and the box plots as PNG; return where."""
    folder.mkdir(parents=True, exist_ok=True)
    table, picture = folder / "demo.csv", folder / "demo.png"
    with persistence.replacing(table) as file:
        writer = csv.writer(file)
        writer.writerow([*Row._fields, "rng", "metapac"])
        writer.writerows([*row, rng, __version__] for row in rows)
    by_method = {method: [row for row in rows if row.method == method] for method in METHODS}
    plots.error_and_size(
        {method: np.array([row.error for row in mine]) for method, mine in by_method.items()},
        {method: np.array([row.size for row in mine]) for method, mine in by_method.items()},
        epsilon=GUARANTEE.epsilon,
        title=title,
        path=picture,
    )
    return table, picture
