"""Ranks across tasks: which of the tasks' thresholds the guarantee takes.

Ranks are counted from 0: rank k is the (k + 1)-th lowest threshold, so that k thresholds may be too
low. A rank of -1 marks a level that is unusable with so few tasks. The probability behind
``joint_ranks`` and its proof are in docs/theory/guarantee.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
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
_ABOVE, _ABOVE_STEP, _LIST_ABOVE = 5.0, 6.5, 8.0
# Above this many transition probabilities (half a GiB), or below this delta, each level gets an
# equal share of delta instead: also valid, and hardly worse at such sizes.
_MAX_ENTRIES = 1 << 26
_MIN_DELTA = 1e-250
_DENSE = 1 << 18  # smaller transition matrices are faster in full
# With more calibration tasks than this in play, the ranks of a list divide delta in two parts, the
# best of some ways.
_MAX_LIST = 400
_PARTS = (0.25, 0.1, 0.05, 0.02)
# Four levels that divide delta equally are a good choice without the others. Each keeps its quarter
# regardless of the other levels, so that these four alone never give smaller sets. (This fits for
# alpha up to 0.4 at least; where it does not, all levels get the common share.)
_MIN_SHARES = dict.fromkeys((0.02, 0.1, 0.25, 0.5), 1 / 4)
# Of a list, levels above 1/2, which only very small tasks need, start with at most this share of
# delta: H varies so much that with all of it they would lower the ranks of the others.
_LIST_SHARE = 0.4


class Level(NamedTuple):
    """Parameters of the two steps: the level within each task, and the share across tasks."""

    alpha_within: float
    alpha_across: float


class NewTasks(NamedTuple):
    """A finite list of new tasks: how many there are, and how many of them may be violated."""

    number: int
    may_break: int

    @classmethod
    def at_most(cls, alpha: float, number: int) -> NewTasks:
        """Return a list of which a fraction ``alpha``, rounded down, may be violated."""
        return cls(number, math.floor(Fraction(repr(alpha)) * number))

    def describe(self, units: str) -> str:
        """Return on which tasks of the list a guarantee holds."""
        if self.number == 1:
            return f"the one other of the {units}"
        if not self.may_break:
            return f"all {self.number:,} other {units}"
        return f"all but at most {self.may_break:,} of the {self.number:,} other {units}"


ONE_NEW_TASK = NewTasks(1, 0)  # the list of a guarantee in expectation


def expectation_rank(tasks: int, share: Fraction) -> int:
    """Return the rank of a guarantee in expectation: floor(share (tasks + 1)) - 1."""
    return math.floor(share * (tasks + 1)) - 1


def equal_share(delta: float, parts: int) -> float:
    """Return an equal share of ``delta``, rounded down."""
    share = delta / parts
    return share if parts * Fraction(share) <= Fraction(delta) else math.nextafter(share, 0.0)


@functools.lru_cache(maxsize=4096)
def joint_ranks(
    tasks: int,
    levels: tuple[Level, ...],
    delta: float,
    new_tasks: NewTasks | None = None,
    dishonest: int = 0,
) -> tuple[int, ...]:
    """Return for each level how many task thresholds may be too low, with all levels in use.

    With c the result, P(M_1 <= c_1 or ... or M_J <= c_J) <= delta, where M_(j+1), given M_j, is
    Binomial(M_j, (1 - t_(j+1)) / (1 - t_j)) for levels t_1 < ... < t_J within tasks. M_1 is
    Binomial(tasks, p_1), with p_1 the share across tasks; for a list of new tasks it is
    Binomial(H, 1 - t_1), with H from `list_start`. No single c_j could be larger, unless there are
    so many tasks that delta is divided.

    If ``dishonest`` tasks may have any threshold, c_j + dishonest satisfies this, for every level
    in use: each of them hides at most one threshold that is too low.
    """
    chain, lower = _make_chain(tasks, levels, delta, new_tasks, dishonest)
    ranks = np.array(lower)
    if chain is not None:
        within = [level.alpha_within for level in levels]
        min_shares = np.array([_MIN_SHARES.get(level, 0.0) for level in within])
        is_dear = (np.array(within) > 0.5) & (new_tasks is not None)
        common = _common_ranks(chain, delta, min_shares, np.where(is_dear, _LIST_SHARE, 1.0))
        ranks = max(common, ranks, key=lambda found: int(found.sum()))
    ranks[ranks < dishonest] = -1
    if chain is not None:
        ranks = _raise_ranks(chain, ranks, delta, dishonest)
    return tuple(np.where(ranks < 0, -1, ranks - dishonest).tolist())


def cap_ranks(tasks: int, levels: tuple[Level, ...], ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Return ranks that also hold for tasks whose thresholds are low with unequal chances.

    With randomised ranks within tasks, the chance depends on the place of a task. Counts are then
    no more likely to be at most c than with equal chances p if c = 0 or c <= tasks p - 1
    (Hoeffding 1956, Theorem 4). No rank is lowered for alpha up to 0.5 and delta up to 0.3.
    """
    caps = (max(math.floor(tasks * level.alpha_across) - 1, 0) for level in levels)
    return tuple(map(min, ranks, caps))


def failure_of_ranks(
    tasks: int, levels: tuple[Level, ...], ranks: Sequence[int], new_tasks: NewTasks | None = None
) -> float:
    """Return P(M_j <= ranks_j for some j) of `joint_ranks`."""
    nothing = [-1] * len(levels)
    if new_tasks is None:
        across = [level.alpha_across for level in levels]
        chain = _Chain.of_shares(tasks, across, nothing, [*ranks], _MIN_DELTA)
    else:
        pairs = zip(ranks, levels, strict=True)
        quantile = max(math.ceil((rank + 1) / (1 - level.alpha_within)) for rank, level in pairs)
        chain = _Chain.of_list(tasks, levels, new_tasks, _MIN_DELTA, quantile)
    return chain.probability(np.array(ranks))


def _make_chain(
    tasks: int, levels: tuple[Level, ...], delta: float, new_tasks: NewTasks | None, dishonest: int
) -> tuple[_Chain | None, list[int]]:
    """Return the chain, and ranks that are valid without it; None if it is not needed, or large."""
    if new_tasks is not None:
        return _make_list_chain(tasks, levels, delta, new_tasks)
    across = [level.alpha_across for level in levels]
    upper = [allowed_errors(tasks, share, delta) for share in across]
    if len(levels) == 1 or max(upper) < max(dishonest, 0):
        return None, upper
    equal = equal_share(delta, len(levels))
    lower = [allowed_errors(tasks, share, equal) for share in across]
    if delta < _MIN_DELTA or _entries(tasks, across, delta) > _MAX_ENTRIES:
        return None, lower
    floor = [rank if rank >= dishonest else -1 for rank in lower]
    return _Chain.of_shares(tasks, across, floor, upper, delta), lower


def _common_ranks(
    chain: _Chain, delta: float, min_shares: NDArray[np.float64], max_shares: NDArray[np.float64]
) -> Counts:
    """Return the ranks at the largest common share of delta whose union is within delta."""

    def ranks_at(share: float) -> Counts:
        return chain.ranks_at(delta * np.clip(share, min_shares, max_shares))

    def fits(ranks: Counts) -> bool:
        return chain.probability(ranks) <= delta * (1 - _SLACK)

    low, high = 1 / len(min_shares), 1.0
    lowest, highest = ranks_at(low), ranks_at(high)
    if fits(highest):
        return highest
    if not fits(lowest):  # without minimum shares, equal shares are valid despite rounding
        if min_shares.any():
            return _common_ranks(chain, delta, 0 * min_shares, max_shares)
        return lowest
    while high - low > 1e-6 and (lowest != highest).any():
        middle = (low + high) / 2
        ranks = ranks_at(middle)
        if (ranks == lowest).all():
            low = middle
        elif (ranks == highest).all() or not fits(ranks):
            high, highest = middle, ranks
        else:
            low, lowest = middle, ranks
    return lowest


def _raise_ranks(chain: _Chain, ranks: Counts, delta: float, least: int) -> Counts:
    """Raise single ranks, the cheapest first, while the union stays within delta.

    A rank of -1 is raised to ``least`` at once.
    """

    def raised(level: int) -> Counts:
        return np.where(np.arange(len(ranks)) == level, np.maximum(ranks + 1, least), ranks)

    in_reach = chain.ranks_at(np.full(len(ranks), delta)) >= least  # if it had all of delta
    while True:
        total, costs = chain.costs(ranks)
        for level in np.flatnonzero(ranks + 1 < least).tolist():
            costs[level] = np.inf
            if in_reach[level]:
                costs[level] = chain.probability(raised(level)) - total
        cheapest = int(np.argmin(costs))
        if not total + costs[cheapest] <= delta * (1 - _SLACK):
            return ranks
        ranks = raised(cheapest)


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

    inside: Any  # (next window, this window), sparse if it is large
    under: NDArray[np.float64]  # (this window,), P(next count <= low of the next window)
    over: NDArray[np.float64]  # (this window,), P(next count > high of the next window)

    def forward(self, mass: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each count of the next window."""
        following: NDArray[np.float64] = self.inside @ mass
        following[-1] += self.over @ mass
        return following


class _Chain(NamedTuple):
    """The counts M_1 >= ... >= M_J, and the probability that one of them is too low."""

    windows: list[_Window]
    start: NDArray[np.float64]
    below_start: float
    steps: list[_Step]

    @classmethod
    def of_shares(
        cls, tasks: int, across: list[float], lower: list[int], upper: list[int], delta: float
    ) -> _Chain:
        """Return the chain whose first count is binomial."""
        bounds = zip(across, lower, upper, strict=True)
        windows = [_window(tasks, *level) for level in bounds]
        start = _start(tasks, across[0], windows[0])
        kept = [b / a for a, b in pairwise(across)]
        pairs = zip(windows[:-1], windows[1:], kept, strict=True)
        steps = [_step(one, other, share, delta) for one, other, share in pairs]
        return cls(windows, start, _cdf(windows[0].low, tasks, across[0]), steps)

    @classmethod
    def of_list(
        cls,
        tasks: int,
        levels: tuple[Level, ...],
        new: NewTasks,
        delta: float,
        quantile: int | None = None,
    ) -> _Chain:
        """Return the chain that starts from the count H of a list of new tasks."""
        origin, mass = _list_window(tasks, levels, new, delta, quantile)
        windows, steps, masses, nothing = [origin], [], [mass], np.empty(0)
        for before, level in pairwise((Level(0.0, 1.0), *levels)):
            kept = (1 - level.alpha_within) / (1 - before.alpha_within)
            t = level.alpha_within
            reach = origin.high * (1 - t) + _ABOVE_STEP * math.sqrt(origin.high * t * (1 - t))
            high = min(origin.high, math.ceil(reach) + 2)
            windows.append(_Window(-1, high, nothing))
            steps.append(_step(windows[-2], windows[-1], kept, delta))
            masses.append(steps[-1].forward(masses[-1]))
            windows[-1] = windows[-1]._replace(below=np.cumsum(masses[-1]))
        return cls(windows[1:], masses[1], 0.0, steps[1:])

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
                mass = step.forward(rest)
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


def list_start(tasks: int, new: NewTasks) -> NDArray[np.float64]:
    """Return the probability of each H: calibration tasks violated before the list is.

    Order all tasks, N of them drawn at random for calibration, by where they begin to be violated.
    H is the number of calibration tasks before the (r + 1)-th of the others, if r may be violated:
    P(H = h) = C(h + r, r) C(N - h + m - r - 1, m - r - 1) / C(N + m, m).
    """
    h, left = np.arange(tasks), new.number - new.may_break - 1
    ratios = (h + new.may_break + 1) / (h + 1) * ((tasks - h) / (tasks - h + left))
    mode = int(np.searchsorted(-ratios, -1.0))
    mass = _cumulative_products(ratios[:, None], min(mode, tasks))[:, 0]
    return np.asarray(mass / mass.sum())


def _list_window(
    tasks: int, levels: tuple[Level, ...], new: NewTasks, delta: float, quantile: int | None = None
) -> tuple[_Window, NDArray[np.float64]]:
    """Return the counts H that are tracked, and their probabilities."""
    mass = list_start(tasks, new)
    below = np.cumsum(mass)
    # A count so far above the quantile of delta is too low at no level.
    quantile = int(np.searchsorted(below, delta)) if quantile is None else quantile
    level = min(levels[-1].alpha_within, 0.99)
    reach = _LIST_ABOVE * math.sqrt(level / (1 - level))
    high = math.ceil((reach / 2 + math.sqrt(reach * reach / 4 + quantile + 2)) ** 2)
    high = min(tasks, high, int(np.searchsorted(below, 1 - 1e-16)))
    kept = mass[: high + 1].copy()
    kept[high] += mass[high + 1 :].sum()
    return _Window(-1, high, np.cumsum(kept)), kept


def _make_list_chain(
    tasks: int, levels: tuple[Level, ...], delta: float, new: NewTasks
) -> tuple[_Chain | None, list[int]]:
    """Return the chain of a list, and ranks that are valid without it."""
    simple = max((_list_ranks(tasks, levels, new, delta, part) for part in _PARTS), key=sum)
    if delta < _MIN_DELTA or _list_window(tasks, levels, new, delta)[0].high > _MAX_LIST:
        return None, simple
    return _Chain.of_list(tasks, levels, new, delta), simple


def _list_ranks(
    tasks: int, levels: tuple[Level, ...], new: NewTasks, delta: float, part: float
) -> list[int]:
    """Return ranks that divide delta: H is too low, or one of the counts given H.

    With P(H < h) at most the first part of delta, each level gets an equal share of the other for
    M_j <= c_j, given H = h: more tasks only make this less likely.
    """
    below = np.cumsum(list_start(tasks, new))
    h = int(np.searchsorted(below, delta * (1 - part) * (1 - _SLACK), side="right"))
    share = equal_share(delta * part, len(levels))
    most = math.nextafter(1.0, 0.0)
    return [allowed_errors(h, min(1 - level.alpha_within, most), share) for level in levels]


def _window(tasks: int, across: float, lower: int, upper: int) -> _Window:
    deviation = math.sqrt(tasks * across * (1 - across))
    reach = max(tasks * across + _ABOVE * deviation, upper + 2 * deviation)
    high = min(tasks, math.ceil(reach) + 2)
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
    m, lost, size = one.counts, 1 - kept, len(other.counts)
    first, last = _band(m, lost, delta)
    away = np.arange(first, last + 1)[:, None]  # (band, 1)
    ratios = (m - away[:-1]).clip(min=0) / away[1:] * (lost / kept)  # (band - 1, window)
    anchor = min(max(math.floor(lost * m[0]) - first, 0), last - first)
    chances = _cumulative_products(ratios, anchor)
    chances /= chances.sum(axis=0)
    rows = m - away - (other.low + 1)  # of the next window
    under = np.where(rows < 0, chances, 0.0).sum(axis=0)
    over = np.where(rows >= size, chances, 0.0).sum(axis=0)
    if len(m) * size <= _DENSE:
        inside: Any = np.zeros((size, len(m)))
        found = (rows >= 0) & (rows < size)
        inside[rows[found], np.nonzero(found)[1]] = chances[found]
    else:
        from scipy import sparse  # rarely needed, and slow to import

        offsets = away[:, 0] + (other.low - one.low)
        inside = sparse.dia_array((chances, offsets), shape=(size, len(m)))
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
