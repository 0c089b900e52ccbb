"""Four ways to choose a threshold, on tasks whose true error is known. See ``metapac demo``."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac import persistence, plots
from metapac._version import __version__
from metapac.calibration import PS, MetaPS
from metapac.guarantee import Guarantee
from metapac.tasks.synthetic import NormalFamily

GUARANTEE = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
FAMILY = NormalFamily()
CALIBRATION_TASKS, EXAMPLES = 500, 1000
TEST_TASKS, TEST_EXAMPLES = 50, 100  # PS-Test has 20 labels for each of 5 classes, as in the paper
METHODS = ("PS", "PS-Test", "Meta-PS even", "Meta-PS tight")

Array = NDArray[Any]


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
    draws_kept: float


def run(draws: int, rng: int, track: Callable[[Iterable[int]], Iterable[int]] = iter) -> list[Row]:
    """Return error and size of each method on fresh test tasks, for each calibration draw."""
    seeds = np.random.SeedSequence(rng).spawn(draws)
    return [row for draw in track(range(draws)) for row in _one_draw(draw, seeds[draw])]


def _one_draw(draw: int, seed: np.random.SeedSequence) -> list[Row]:
    rng = np.random.default_rng(seed)
    scores = FAMILY.draw_scores(FAMILY.draw_tasks(CALIBRATION_TASKS, rng), EXAMPLES, rng)
    names = np.repeat(np.arange(CALIBRATION_TASKS), EXAMPLES)
    tests = FAMILY.draw_tasks(TEST_TASKS, rng)
    g = GUARANTEE
    pooled = PS(epsilon=g.epsilon, delta=g.delta)
    alone = PS(epsilon=g.epsilon, delta=g.delta, on_infeasible="trivial")
    even, tight = (
        MetaPS(epsilon=g.epsilon, alpha=g.alpha, delta=g.delta, split=split).calibrate(
            scores.ravel(), names
        )
        for split in ("even", "tight")
    )
    thresholds = {
        "PS": [pooled.calibrate(scores.ravel()).threshold_] * TEST_TASKS,
        "PS-Test": [
            alone.calibrate(own).threshold_ for own in FAMILY.draw_scores(tests, TEST_EXAMPLES, rng)
        ],
        "Meta-PS even": [even.threshold_] * TEST_TASKS,
        "Meta-PS tight": [tight.threshold_] * TEST_TASKS,
    }
    return [
        Row(draw, method, i, tau, float(FAMILY.error(task, tau)), float(FAMILY.size(task, tau)))
        for method, taus in thresholds.items()
        for i, (task, tau) in enumerate(zip(tests, taus, strict=True))
    ]


def summarise(rows: list[Row]) -> list[Summary]:
    """Return what each method did, over test tasks and over calibration draws."""
    return [_summary(method, [row for row in rows if row.method == method]) for method in METHODS]


def _summary(method: str, rows: list[Row]) -> Summary:
    errors = np.array([row.error for row in rows])
    # The share of all tasks that a threshold breaks is known here, and grows with it: the largest
    # threshold of a draw speaks for the draw, and no test task is needed.
    largest: dict[int, float] = {}
    for row in rows:
        largest[row.draw] = max(row.threshold, largest.get(row.draw, -np.inf))
    broken = [FAMILY.broken(threshold, GUARANTEE.epsilon) for threshold in largest.values()]
    return Summary(
        method,
        size=float(np.mean([row.size for row in rows])),
        error_90=float(np.quantile(errors, 0.9)),
        tasks_within=float(np.mean(errors <= GUARANTEE.epsilon)),
        draws_kept=float(np.mean([share <= GUARANTEE.alpha for share in broken])),
    )


def write(rows: list[Row], folder: Path, rng: int) -> tuple[Path, Path]:
    """Write the rows as CSV, with seed and version, and the picture as PNG; return where."""
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
        title=f"Four ways to choose a threshold: {CALIBRATION_TASKS} calibration tasks of "
        f"{EXAMPLES} examples, {len({row.draw for row in rows})} draws x {TEST_TASKS} test tasks",
        path=picture,
    )
    return table, picture
