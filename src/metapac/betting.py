"""The bet against a guarantee: an alarm and an amber light, both seldom false."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from metapac._common import Counts
from metapac.binomial import allowed_errors_in_task, min_integer, min_value, round_up
from metapac.verdict import complement

Levels = tuple[float, ...]


class Step(NamedTuple):
    """A task that was counted, and what is known after it.

    Attributes
    ----------
    task, batch : str, int or None
        The task, and the batch that it came with.
    examples, missed : int
        Number of its labelled examples, and of those whose set misses the true label.
    violated : bool
        Whether its miss rate is above epsilon, with 95% confidence for this task alone.
    wealth : float
        Wealth of the bets against the guarantee; it starts at 1.
    lower, upper : float
        Bounds of the share of tasks whose miss rate exceeds epsilon. With a guarantee per class,
        of the class with the largest share.
    recent : float
        Evidence of a recent change (Shiryaev-Roberts statistic), from 0; amber at ``run_length``.
    """

    task: str | int
    batch: str | None
    examples: int
    missed: int
    violated: bool
    wealth: float
    lower: float
    upper: float
    recent: float


class Added(NamedTuple):
    """The tasks that were passed to a monitor: counted or not.

    Attributes
    ----------
    steps : list of Step
        The tasks that were counted, in order.
    known : list
        Tasks that were counted before, and not again.
    overlap : tuple
        Tasks left out because they were used for calibration or training, are pilot tasks, or
        belong to a cluster that was used for calibration or counted before.
    left_out : int
        Number of tasks left out because they have too few examples.
    """

    steps: list[Step]
    known: list[Any]
    overlap: tuple[Any, ...]
    left_out: int


class Power(NamedTuple):
    """What an alarm takes, if all new tasks had one miss rate and were as large as those counted.

    Attributes
    ----------
    miss_rate : float
        Twice epsilon.
    reach : float or None
        Lowest miss rate at which an alarm is likely within 1,000 tasks; None if none is.
    examples : int or None
        If twice epsilon is not enough, the number of examples in each task with which it would be;
        None if it is enough, or if a million examples are not.
    tasks, amber_tasks : int or None
        If from now on every task missed twice epsilon, after about how many more there would be an
        alarm, and an amber light; None if 1,000 are not enough.
    """

    miss_rate: float
    reach: float | None
    examples: int | None
    tasks: int | None
    amber_tasks: int | None

    @property
    def can_tell(self) -> bool:
        """Whether tasks like these raise an alarm if all of them miss twice epsilon."""
        return self.reach is not None and self.reach <= self.miss_rate


# Levels at which a task is shown to be bad, as fractions of the share of tasks that may be bad.
FRACTIONS = (0.01, 0.1, 0.35, 0.75)
# Fractions of its capital that a bettor stakes on each task.
STAKES = (0.1, 0.3, 0.9)
# Average run length to a false amber light, in tasks.
RUN_LENGTH = 200
# An alarm that takes more tasks than this comes too late.
HORIZON = 1000
_GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples, modulo 1, are evenly spread from the start
_MOST_EXAMPLES = 10**6  # nobody labels more in a task
# Relative error reserved for rounding.
_SLACK = 1e-9
# Largest capital of a bettor: more would overflow.
_RICH = 1e250


class Bets:
    """Bets that more than a share of tasks is bad, against many shares at once.

    There is a bettor for each level (also those in ``more``), stake and starting time. Together
    they start with a capital of 1. As long as each new task is bad with probability at most the
    share, no bet is favourable to them.
    """

    def __init__(self, share: float, against: ArrayLike, *more: float) -> None:
        self.levels = (*(share * fraction for fraction in FRACTIONS), *more)
        shares = np.asarray(against, dtype=np.float64)[:, None, None]
        chance = shares + (1 - shares) * np.array(self.levels)[:, None]  # (shares, levels, 1)
        stakes = np.array(STAKES)
        self._won = 1 + stakes * (1 - chance) / chance  # (shares, levels, stakes)
        self._lost = np.broadcast_to(1 - stakes, self._won.shape)
        self._capital = np.zeros(self._won.shape)
        self._recent = np.zeros(self._won.shape)
        self._tasks = 0

    @property
    def wealth(self) -> NDArray[np.float64]:
        """What all bettors have now, including the capital that is not bet yet."""
        waiting = 1 / (self._tasks + 1)
        return np.asarray(self._capital.sum(axis=(1, 2)) + waiting)

    @property
    def recent(self) -> NDArray[np.float64]:
        """Shiryaev-Roberts statistic: R_n = (R_(n-1) + 1) B_n, mean over bettors."""
        return np.asarray(self._recent.mean(axis=(1, 2)))

    def restart(self, where: ArrayLike = True) -> None:
        """Start the statistic again, as after an amber light; the wealth goes on."""
        self._recent = np.where(np.reshape(where, (-1, 1, 1)), 0.0, self._recent)

    def settle(self, shown: ArrayLike) -> None:
        """Settle the bets on the next task."""
        self._tasks += 1
        factor = np.where(np.asarray(shown)[..., None], self._won, self._lost)
        # A share 1 / (t (t + 1)) of the initial capital starts with task t.
        starting = 1 / (self._tasks * (self._tasks + 1) * self._won[0].size)
        self._capital = np.minimum((self._capital + starting) * factor, _RICH)
        self._recent = np.minimum((self._recent + 1) * factor, _RICH)


class Watch:
    """One guarantee, task by task: wealth of the bets against it, and confidence bounds."""

    def __init__(
        self, epsilon: float, alpha: float, false_alarm: float, run_length: float = RUN_LENGTH
    ) -> None:
        self._epsilon = epsilon
        self._limit, self._run_length = 1 / false_alarm, run_length
        self._shares = np.union1d(np.arange(1, 100) / 100, [alpha])
        self._place = int(np.searchsorted(self._shares, alpha))
        # "More tasks are above epsilon than a share", and "fewer are": the rest are within.
        self._above = Bets(alpha, self._shares)
        self._within = Bets(1 - alpha, 1 - self._shares)
        # For the amber light also at a coarse level: tasks that are slightly bad are seen sooner.
        self._amber = Bets(alpha, [alpha], min(2 * alpha, 0.5))
        self.wealth, self.lower, self.upper = 1.0, 0.0, 1.0

    @property
    def recent(self) -> float:
        """Evidence of a recent change, since the last amber light."""
        return float(self._amber.recent[0])

    def restart(self) -> None:
        """Start again after an amber light."""
        self._amber.restart()

    def add(self, *, examples: int, missed: int) -> None:
        """Take the next task into account."""
        self._above.settle(exceeds(examples, missed, self._epsilon, self._above.levels))
        self._amber.settle(exceeds(examples, missed, self._epsilon, self._amber.levels))
        self._within.settle(is_within(examples, missed, self._epsilon, self._within.levels))
        wealth = self._above.wealth
        self.wealth = float(wealth[self._place])
        # Wealth falls with the share bet against, so that the shares rejected are the first ones.
        too_low = self._shares[reaches(wealth, self._limit)]
        too_high = self._shares[reaches(self._within.wealth, self._limit)]
        self.lower = max([self.lower, *too_low[-1:].tolist()])
        self.upper = min([self.upper, *too_high[:1].tolist()])

    def find_power(self, examples: ArrayLike) -> Power:
        """Return what an alarm takes if all tasks have one miss rate, and sizes like these."""
        rate = min(2 * self._epsilon, 1.0)
        sizes, counts = np.unique(np.asarray(examples, dtype=np.int64), return_counts=True)
        allowed = self._allowed_hits(sizes)

        def shown(rate: float) -> NDArray[np.float64]:
            return np.average(_chances(sizes, allowed, rate), axis=1, weights=counts)[:, None]

        def alarms(rate: float) -> bool:  # more misses only make an alarm likelier
            return bool(self._alarms(shown(rate))[0])

        new = shown(rate)
        alarm = _count_tasks(self._above, self._place, new, "wealth", self._limit)
        tasks = alarm, _count_tasks(self._amber, 0, new, "recent", self._run_length)
        found = min_value(alarms, tolerance=1e-3)
        reach = None if found is None else round_up(found, 2)
        if reach is not None and alarms(rate):
            return Power(rate, min(reach, rate), None, *tasks)
        least = self._min_examples(rate, 1)
        if least is not None and least <= sizes[0]:  # each size is enough, but not this mix
            least = self._min_examples(rate, int(sizes[-1]) + 1)
        return Power(rate, reach, least, *tasks)

    def _min_examples(self, rate: float, least: int) -> int | None:
        """Return the size from which all sizes up to 4 times raise an alarm, at least ``least``."""

        def suffices(sizes: Counts) -> NDArray[np.bool_]:
            return self._alarms(_chances(sizes, self._allowed_hits(sizes), rate))

        if not suffices(np.array([_MOST_EXAMPLES]))[0]:
            return None
        size = min_integer(lambda n: bool(suffices(np.array([n]))[0]), least - 1, _MOST_EXAMPLES)
        # More examples may show less: the number of hits allowed is an integer, and jumps.
        while True:
            sizes = np.unique(np.linspace(size, 4 * size, 4000).astype(np.int64))
            if (works := suffices(sizes)).all():
                return size
            size = int(sizes[min(np.flatnonzero(~works)[-1] + 1, len(sizes) - 1)])

    def _allowed_hits(self, sizes: Counts) -> Counts:
        """Return how many hits still show a task to be above epsilon, (levels, sizes)."""
        rate = complement(self._epsilon)
        return np.stack([allowed_errors_in_task(sizes, rate, t) for t in self._amber.levels])

    def _alarms(self, shown: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether the best bettor that starts at once reaches the limit by the horizon.

        Tasks are shown to be bad with probabilities (levels, cases); the answers are (cases,).
        """
        won, lost = np.log([self._above._won[self._place], self._above._lost[self._place]])
        chances = shown[: len(won), None]  # (levels, 1, cases); the amber light has more levels
        growth = chances * won[..., None] + (1 - chances) * lost[..., None]  # per task, of the log
        return np.asarray(HORIZON * growth.max(axis=(0, 1)) >= math.log(2 * won.size * self._limit))


def _count_tasks(
    bets: Bets, place: int, shown: NDArray[np.float64], name: str, limit: float
) -> int | None:
    """Return after how many tasks a limit is reached if chances are spread evenly over tasks."""
    bets, chances = copy.copy(bets), shown[: len(bets.levels), 0]
    for task in range(1, HORIZON + 1):
        bets.settle(task * _GOLDEN % 1 < chances)
        if reaches(getattr(bets, name)[place], limit):
            return task
    return None


def _chances(sizes: Counts, allowed: Counts, rate: float) -> NDArray[np.float64]:
    """Return how likely tasks that miss at a rate are shown to be bad, (levels, sizes)."""
    return np.where(allowed < 0, 0.0, special.bdtr(np.maximum(allowed, 0), sizes, 1 - rate))


def exceeds(examples: int, missed: int, epsilon: float, levels: Levels) -> NDArray[np.bool_]:
    """Return whether a task is shown to have a miss rate above epsilon, at each level."""
    # The number of hits is then so small that a hit rate of 1 - epsilon is ruled out.
    return is_within(examples, examples - missed, complement(epsilon), levels)


def is_within(examples: int, missed: int, epsilon: float, levels: Levels) -> NDArray[np.bool_]:
    """Return whether a task is shown to have a miss rate of at most epsilon, at each level."""
    return missed <= np.array([_allowed_errors(examples, epsilon, level) for level in levels])


# Tasks often have equal sizes.
_allowed_errors = functools.lru_cache(maxsize=1 << 16)(allowed_errors_in_task)


def reaches(wealth: ArrayLike, limit: float) -> NDArray[np.bool_]:
    """Return whether wealth reaches a limit, rounding aside."""
    return np.asarray(np.asarray(wealth) * (1 - _SLACK) >= limit)
