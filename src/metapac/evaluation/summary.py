"""What the rows say: a line for each method, the paper's claims, and two methods in pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from metapac.evaluation.draws import Array
from metapac.evaluation.rows import Rows
from metapac.guarantee import Guarantee

FAR = 2.0  # PS-Test is far more conservative where its error is at most 1 / FAR of Meta-PS's
PAPERS = "Meta-PS even"
KEEPING = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint")
BREAKING = ("PS", "Meta-CP")


class Summary(NamedTuple):
    """What a method did over all draws and their new tasks."""

    method: str
    delta: float
    size: float  # mean
    size_median: float
    error_mean: float
    error_90: float  # 90th percentile over tasks
    tasks_within: float  # share of tasks whose error is at most epsilon
    draws_within: float  # share of draws in which at least 1 - alpha of the tasks are
    kept: bool  # whether at least 1 - alpha of all tasks are
    feasible: bool  # False where it kept every label on some task for want of data


def summarise(rows: Rows, guarantee: Guarantee) -> list[Summary]:
    """Return what each method did, at each of its deltas."""
    return [_summary(rows.of(*method), guarantee) for method in rows.methods()]


def _summary(mine: Rows, g: Guarantee) -> Summary:
    broken = mine.error > g.miss_rate
    return Summary(
        method=str(mine.method[0]),
        delta=float(mine.delta[0]),
        size=float(np.mean(mine.size)),
        size_median=float(np.median(mine.size)),
        error_mean=float(np.mean(mine.error)),
        error_90=float(np.quantile(mine.error, 0.9)),
        tasks_within=float(np.mean(~broken)),
        draws_within=float(np.mean(_by_draw(mine, broken) <= g.alpha)),
        kept=bool(np.mean(broken) <= g.alpha),
        feasible=bool(mine.feasible.all()),
    )


def _by_draw(rows: Rows, values: Array) -> Array:
    """Return the mean of ``values`` over the tasks of each draw."""
    _, number = np.unique(rows.draw, return_inverse=True)
    return np.bincount(number, weights=values) / np.bincount(number)


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper, whether these rows bear it out, and the numbers that say so."""

    claim: str
    holds: bool
    numbers: dict[str, float]


def verdicts(rows: Rows, guarantee: Guarantee) -> list[Verdict]:
    """Return the paper's claims on the methods that are there, at the promise's delta.

    A Meta-PS that kept every label for want of data stays within epsilon and proves nothing: the
    claim on it does not hold.
    """
    lines = {s.method: s for s in summarise(rows, guarantee) if s.delta == guarantee.delta}
    found = [_stays_within(lines[name], guarantee) for name in KEEPING if name in lines]
    found += [_goes_beyond(lines[name], guarantee) for name in BREAKING if name in lines]
    if "PS-Test" in lines and PAPERS in lines:
        found.append(_conservative(lines["PS-Test"], lines[PAPERS]))
    return found


def _stays_within(line: Summary, g: Guarantee) -> Verdict:
    claim = f"{line.method}: the 90th percentile of error is at most epsilon = {g.miss_rate:g}"
    return Verdict(claim, line.error_90 <= g.miss_rate and line.feasible, _numbers(line))


def _goes_beyond(line: Summary, g: Guarantee) -> Verdict:
    claim = f"{line.method}: the 90th percentile of error is above epsilon = {g.miss_rate:g}"
    return Verdict(claim, line.error_90 > g.miss_rate, _numbers(line))


def _conservative(alone: Summary, meta: Summary) -> Verdict:
    far = alone.error_90 < meta.error_90 and FAR * alone.error_90 <= meta.error_90
    return Verdict(
        f"PS-Test: its sets are larger on average than those of {meta.method}, or its 90th "
        f"percentile of error is at most 1/{FAR:g} of that one's",
        alone.size > meta.size or far,
        {**_numbers(alone), **{f"{name} of {PAPERS}": x for name, x in _numbers(meta).items()}},
    )


def _numbers(line: Summary) -> dict[str, float]:
    names = ("size", "error_90", "tasks_within", "draws_within", "feasible")
    return {name: float(getattr(line, name)) for name in names}


class Paired(NamedTuple):
    """Two methods on the same draws: what the first one's sets are larger by (below 0: smaller).

    The 95 % interval is Student's t over the differences of the draws' mean sizes, which are
    independent given the study; with one draw it is the whole line.
    """

    first: str
    second: str
    first_size: float
    second_size: float
    difference: float
    low: float
    high: float
    draws: int


def paired(rows: Rows, first: str, second: str, *, delta: float | None = None) -> Paired:
    """Return the mean difference in size, first less second, over calibration draws."""
    one = rows.of(first, delta)
    other = rows.of(second, float(one.delta[0]))
    if set(one.draw.tolist()) != set(other.draw.tolist()):
        raise ValueError(
            f"{first!r} and {second!r} must have been run on the same draws to be paired. "
            "Evaluate them together."
        )
    ones, others = _by_draw(one, one.size), _by_draw(other, other.size)
    apart = ones - others
    mean, draws = float(np.mean(apart)), len(apart)
    half = math.inf
    if draws > 1:
        half = float(stats.t.ppf(0.975, draws - 1) * np.std(apart, ddof=1) / math.sqrt(draws))
    return Paired(
        first=first,
        second=second,
        first_size=float(np.mean(ones)),
        second_size=float(np.mean(others)),
        difference=mean,
        low=mean - half,
        high=mean + half,
        draws=draws,
    )
