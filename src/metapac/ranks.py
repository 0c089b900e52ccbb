"""Ranks across tasks: which of the tasks' thresholds the guarantee takes.

Ranks are counted from 0: rank k is the (k + 1)-th lowest threshold, so that k thresholds may be too
low. A rank of -1 marks a level that is unusable with so few tasks. The probability behind
``joint_ranks`` and its proof are in docs/theory/guarantee.md.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._common import Counts
from metapac.binomial import allowed_errors

# Fraction of delta reserved for rounding: the chain below is accurate to 1e-10.
_SLACK = 1e-9
# Tails left out: lower tails below this share of delta each, upper tails beyond so many standard
# deviations.
_LOWER_TAIL = 1e-13
_ABOVE, _ABOVE_STEP = 5.0, 6.5
# Above this many transition probabilities (half a GiB), or below this delta, each level gets an
# equal share of delta instead: also valid, and hardly worse at such sizes.
_MAX_ENTRIES = 1 << 26
_MIN_DELTA = 1e-250
# Four levels that divide delta equally are a good choice without the others. Each keeps its quarter
# regardless of the other levels, so that these four alone never give smaller sets. (This fits for
# alpha up to 0.4 at least; where it does not, all levels get the common share.)
_MIN_SHARES = dict.fromkeys((0.02, 0.1, 0.25, 0.5), 1 / 4)


class Level(NamedTuple):
    """Parameters of the two steps: the level within each task, and the share across tasks."""

    alpha_within: float
    alpha_across: float


def expectation_rank(tasks: int, share: Fraction) -> int:
    """Return the rank of a guarantee in expectation: floor(share (tasks + 1)) - 1."""
    return math.floor(share * (tasks + 1)) - 1


def equal_share(delta: float, parts: int) -> float:
    """Return an equal share of ``delta``, rounded down."""
    share = delta / parts
    return share if parts * Fraction(share) <= Fraction(delta) else math.nextafter(share, 0.0)


@functools.lru_cache(maxsize=4096)
def joint_ranks(tasks: int, levels: tuple[Level, ...], delta: float) -> tuple[int, ...]:
    """Return for each level how many task thresholds may be too low, with all levels in use.

    With c the result and p_1 > ... > p_J the shares of the levels, P(M_1 <= c_1 or ... or
    M_J <= c_J) <= delta, where M_1 is Binomial(tasks, p_1) and M_(j+1), given M_j, is
    Binomial(M_j, p_(j+1) / p_j). No single c_j could be larger.
    """
    across = [level.alpha_across for level in levels]
    if len(levels) == 1:
        return (allowed_errors(tasks, across[0], delta),)
    upper = [allowed_errors(tasks, share, delta) for share in across]
    if max(upper) < 0:
        return tuple(upper)
    equal = equal_share(delta, len(levels))
    lower = [allowed_errors(tasks, share, equal) for share in across]
    if delta < _MIN_DELTA or _entries(tasks, across, delta) > _MAX_ENTRIES:
        return tuple(lower)
    chain = _Chain(tasks, across, lower, upper, delta)
    min_shares = np.array([_MIN_SHARES.get(level.alpha_within, 0.0) for level in levels])
    return tuple(_raise_ranks(chain, _common_ranks(chain, delta, min_shares), delta))


def _common_ranks(chain: _Chain, delta: float, min_shares: NDArray[np.float64]) -> Counts:
    """Return the ranks at the largest common share of delta whose union is within delta."""

    def ranks_at(share: float) -> Counts:
        return chain.ranks_at(delta * np.maximum(share, min_shares))

    def fits(share: float) -> bool:
        return chain.probability(ranks_at(share)) <= delta * (1 - _SLACK)

    if fits(1.0):
        return ranks_at(1.0)
    low, high = 1 / len(min_shares), 1.0
    if not fits(low):  # without minimum shares, equal shares are valid despite rounding
        if min_shares.any():
            return _common_ranks(chain, delta, 0 * min_shares)
        return ranks_at(low)
    while high - low > 1e-6 and (ranks_at(low) != ranks_at(high)).any():
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return ranks_at(low)


def _raise_ranks(chain: _Chain, ranks: Counts, delta: float) -> list[int]:
    """Raise single ranks, the cheapest first, while the union stays within delta."""
    while True:
        total, costs = chain.costs(ranks)
        cheapest = int(np.argmin(costs))
        if not total + costs[cheapest] <= delta * (1 - _SLACK):
            return [int(rank) for rank in ranks]
        ranks = ranks.copy()
        ranks[cheapest] += 1


class _Window(NamedTuple):
    """The counts m of a level that are tracked separately: ``low`` < m <= ``high``.

    A count at or below ``low`` is too low at any rank. One above ``high`` is treated as
    ``high``, which can only raise the probability.
    """

    low: int
    high: int
    below: NDArray[np.float64]  # (high - low,), P(M <= m)

    @property
    def counts(self) -> Counts:
        return np.arange(self.low + 1, self.high + 1)


class _Step(NamedTuple):
    """Transition probabilities from the counts of one level to those of the next."""

    inside: Any  # (next window, this window), sparse
    under: NDArray[np.float64]  # (this window,), P(next count <= low of the next window)
    over: NDArray[np.float64]  # (this window,), P(next count > high of the next window)


class _Chain:
    """The counts M_1 >= ... >= M_J, and the probability that one of them is too low."""

    def __init__(
        self, tasks: int, across: list[float], lower: list[int], upper: list[int], delta: float
    ) -> None:
        bounds = zip(across, lower, upper, strict=True)
        self.windows = [_window(tasks, *level) for level in bounds]
        self.start = _start(tasks, across[0], self.windows[0])
        self.below_start = _cdf(self.windows[0].low, tasks, across[0])
        kept = [b / a for a, b in pairwise(across)]
        steps = zip(self.windows[:-1], self.windows[1:], kept, strict=True)
        self.steps = [_step(one, other, share, delta) for one, other, share in steps]

    def ranks_at(self, deltas: NDArray[np.float64]) -> Counts:
        """Return for each level the largest rank whose probability is at most its delta."""
        pairs = zip(self.windows, deltas, strict=True)
        return np.array([w.low + np.searchsorted(w.below, x, side="right") for w, x in pairs])

    def probability(self, ranks: Counts) -> float:
        """Return P(M_j <= ranks_j for some j), summed over the first j where that happens."""
        return self._forward(ranks)[0]

    def _forward(self, ranks: Counts) -> tuple[float, list[NDArray[np.float64]]]:
        """Return the probability, and by level that of each count with no earlier one too low."""
        total, mass, alive = self.below_start, self.start, []
        for j, (window, rank) in enumerate(zip(self.windows, ranks, strict=True)):
            alive.append(mass)
            left = rank - window.low
            total += float(mass[:left].sum())
            if j < len(self.steps):
                step, rest = self.steps[j], mass.copy()
                rest[:left] = 0
                total += float(step.under @ rest)
                mass = step.inside @ rest
                mass[-1] += step.over @ rest
        return total, alive

    def costs(self, ranks: Counts) -> tuple[float, NDArray[np.float64]]:
        """Return the probability, and how much raising the rank of each level by 1 would add."""
        total, alive = self._forward(ranks)
        costs = np.empty(len(ranks))
        safe = np.ones(len(alive[-1]))  # P(never too low at later levels), of each count
        for j in range(len(ranks) - 1, -1, -1):
            left = int(ranks[j]) - self.windows[j].low
            costs[j] = alive[j][left] * safe[left] if left < len(safe) else np.inf
            if j > 0:
                safe[:left] = 0
                step = self.steps[j - 1]
                safe = step.inside.T @ safe + step.over * safe[-1]
        return total, costs


def _window(tasks: int, across: float, lower: int, upper: int) -> _Window:
    deviation = math.sqrt(tasks * across * (1 - across))
    high = max(math.ceil(tasks * across + _ABOVE * deviation), math.ceil(upper + 2 * deviation)) + 2
    high = min(tasks, high)
    counts = np.arange(lower + 1, high + 1)
    return _Window(lower, high, special.bdtr(counts, tasks, across))


def _start(tasks: int, across: float, window: _Window) -> NDArray[np.float64]:
    """Return the probability of each count of the first window, by ratios: nothing cancels."""
    m = window.counts
    ratios = (tasks - m[:-1]) / m[1:] * (across / (1 - across))
    anchor = int(np.clip(math.floor(tasks * across) - m[0], 0, len(m) - 1))
    mass = _cumulative_products(ratios[:, None], anchor)[:, 0]
    over = float(special.bdtrc(window.high, tasks, across)) if window.high < tasks else 0.0
    mass *= (1 - _cdf(window.low, tasks, across) - over) / mass.sum()
    mass[-1] += over
    return mass


def _step(one: _Window, other: _Window, kept: float, delta: float) -> _Step:
    """Return the thinning step: of a count m, Binomial(m, 1 - kept) are lost."""
    from scipy import sparse  # rarely needed, and slow to import

    m, lost = one.counts, 1 - kept
    first, last = _band(m, lost, delta)
    away = np.arange(first, last + 1)[:, None]  # (band, 1)
    ratios = (m - away[:-1]).clip(min=0) / away[1:] * (lost / kept)  # (band - 1, window)
    anchor = min(max(math.floor(lost * m[0]) - first, 0), last - first)
    chances = _cumulative_products(ratios, anchor)
    chances /= chances.sum(axis=0)
    under = np.where(m - away <= other.low, chances, 0.0).sum(axis=0)
    over = np.where(m - away > other.high, chances, 0.0).sum(axis=0)
    inside = sparse.dia_array(
        (chances, away[:, 0] + (other.low - one.low)), shape=(len(other.counts), len(m))
    )
    return _Step(inside, under, over)


def _band(m: Counts, lost: float, delta: float) -> tuple[int, int]:
    """Return the smallest and the largest number lost that are tracked.

    By Bernstein's inequality, more than the largest has a probability below a tiny share of delta.
    Mass below the smallest is spread over the others, which can only raise the probability.
    """
    variance = float(m[-1]) * lost * (1 - lost)
    depth = -math.log(_LOWER_TAIL * delta)
    last = lost * float(m[-1]) + depth / 3 + math.sqrt(depth * depth / 9 + 2 * depth * variance)
    first = lost * float(m[0]) - _ABOVE_STEP * math.sqrt(variance) - 2
    return max(0, math.floor(first)), min(int(m[-1]), math.ceil(last))


def _cumulative_products(ratios: NDArray[np.float64], anchor: int) -> NDArray[np.float64]:
    """Return columns whose neighbours have these ratios, 1 at ``anchor``."""
    columns = np.ones((len(ratios) + 1, ratios.shape[1]))
    np.cumprod(ratios[anchor:], axis=0, out=columns[anchor + 1 :])
    if anchor:
        columns[:anchor] = np.cumprod(1 / ratios[:anchor][::-1], axis=0)[::-1]
    return columns


def _cdf(count: int, tasks: int, across: float) -> float:
    return float(special.bdtr(count, tasks, across)) if count >= 0 else 0.0


def _entries(tasks: int, across: list[float], delta: float) -> float:
    """Return roughly how many transition probabilities the chain holds."""
    depth = math.sqrt(-2 * math.log(_LOWER_TAIL * delta))  # of bands, in deviations
    reach = math.sqrt(-2 * math.log(delta / len(across)))  # of windows, below the mean
    window = (_ABOVE + reach) * math.sqrt(tasks * across[0] * (1 - across[-1]))
    lost = [1 - b / a for a, b in pairwise(across)]
    bands = [(_ABOVE_STEP + depth) * math.sqrt(tasks * across[0] * x) + x * window for x in lost]
    return window * sum(bands)
