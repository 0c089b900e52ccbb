"""Related methods on the same draws; each has another guarantee, listed in `PROMISES`.

The task of a draw is an agent, a group or an environment in the words of their papers. Scores are
conformity scores here, so that their upper quantiles become lower ones.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from metapac._selection import kth_smallest
from metapac._types import Array, Floats
from metapac.evaluation.draws import Draw
from metapac.evaluation.methods import Chosen, Method, Rule, same_for_all
from metapac.evaluation.ordered import order_scores, select_ranks
from metapac.grouping import Grouped, group
from metapac.guarantee import Guarantee

_RANKS = 64  # ranks within a task that FedCP-QQ tries, spread evenly if a task has more examples
_NODES = 128  # of the quadrature
_TAIL = 1e-18  # probability that the threshold lies outside the range of the quadrature

PROMISES = {
    "FedCP-QQ": "one new example is covered with probability 1 - epsilon, if all tasks have one "
    "distribution (Humbert, Le Bars, Bellet and Arlot 2023)",
    "averaged thresholds": "nothing",
    "HCP": "one new example of a new task is covered with probability 1 - epsilon (Lee, Barber and "
    "Willett 2023)",
    "multi-environment": "the sample of a new task is covered to 1 - epsilon with probability "
    "1 - alpha (Duchi, Gupta, Jiang and Sur 2024)",
}


def neighbour_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return related methods at the same epsilon and alpha.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of Meta-PS; the guarantees of these methods are weaker, see `PROMISES`.

    Returns
    -------
    tuple of Method
        The methods.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, evaluate, neighbour_methods
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> [method.name for method in neighbour_methods(guarantee)]
    ['FedCP-QQ', 'averaged thresholds', 'HCP', 'multi-environment']
    """
    rules = (FEDCP_QQ, AVERAGED, HCP, MULTI_ENVIRONMENT)
    return tuple(Method(name, rule, guarantee) for name, rule in zip(PROMISES, rules, strict=True))


def quantile_of_quantiles_coverage(examples: int, tasks: int, within: int, across: int) -> float:
    """Return the coverage of a quantile of quantiles, if all scores have one distribution.

    Each task reports the ``within``-th smallest of its nonconformity scores; the threshold is the
    ``across``-th smallest of these.

    Parameters
    ----------
    examples : int
        Number of examples of each task.
    tasks : int
        Number of tasks.
    within : int
        Rank within a task, from 1 to ``examples``.
    across : int
        Rank across tasks, from 1 to ``tasks``.

    Returns
    -------
    float
        Probability that a new score is at most the threshold.

    Notes
    -----
    On uniform scores, what a task reports is Beta(within, examples - within + 1); let G be its
    distribution function. The threshold exceeds t if fewer than ``across`` tasks report at most t,
    with probability P[Bin(tasks, G(t)) < across]. The coverage is the mean of the threshold, the
    integral of that probability.

    Examples
    --------
    >>> from metapac.evaluation.neighbours import quantile_of_quantiles_coverage
    >>> round(quantile_of_quantiles_coverage(examples=10, tasks=5, within=10, across=3), 12)
    0.925625954552
    """
    reported = within, examples - within + 1
    smallest = special.betaincinv(across, tasks - across + 1, _TAIL)
    largest = 1 - special.betaincinv(tasks - across + 1, across, _TAIL)
    low, high = special.betaincinv(*reported, [smallest, largest])
    nodes, weights = special.roots_legendre(_NODES)
    t = low + (high - low) * (nodes + 1) / 2
    exceeds = special.betainc(tasks - across + 1, across, 1 - special.betainc(*reported, t))
    return float(low + (high - low) / 2 * (weights @ exceeds))


@lru_cache(maxsize=64)
def choose_ranks(examples: int, tasks: int, epsilon: float) -> tuple[int, int] | None:
    """Return the ranks of FedCP-QQ: those whose coverage exceeds 1 - epsilon by least.

    Parameters
    ----------
    examples : int
        Number of examples of each task.
    tasks : int
        Number of tasks.
    epsilon : float
        Miss rate.

    Returns
    -------
    tuple of int, or None
        Ranks within a task and across tasks; None if no pair reaches 1 - epsilon.

    Examples
    --------
    >>> from metapac.evaluation.neighbours import choose_ranks
    >>> choose_ranks(examples=10, tasks=5, epsilon=0.1)
    (10, 3)
    """
    best: tuple[float, int, int] | None = None
    for within in np.unique(np.linspace(1, examples, _RANKS).round().astype(int)).tolist():
        across = _least_rank(examples, tasks, within, epsilon)
        if across is None:
            continue
        found = quantile_of_quantiles_coverage(examples, tasks, within, across), within, across
        best = found if best is None else min(best, found)
    return None if best is None else best[1:]


def _least_rank(examples: int, tasks: int, within: int, epsilon: float) -> int | None:
    """Return the smallest rank across tasks whose coverage is at least 1 - epsilon."""
    low, high = 0, tasks + 1  # coverage rises with the rank
    while high - low > 1:
        middle = (low + high) // 2
        if quantile_of_quantiles_coverage(examples, tasks, within, middle) >= 1 - epsilon:
            high = middle
        else:
            low = middle
    return high if high <= tasks else None


def _fedcp_qq(draw: Draw, g: Guarantee) -> Chosen:
    """FedCP-QQ: a quantile of one quantile from each task; tasks are cut to the smallest."""
    ordered = draw.ordered
    examples, tasks = int(ordered.sizes.min()), len(ordered.sizes)
    ranks = choose_ranks(examples, tasks, g.miss_rate)
    if ranks is None:
        return same_for_all(draw, -math.inf, feasible=False)
    within, across = ranks
    if examples < ordered.sizes.max():  # the first examples of each task, in their own order
        ordered = _cut_tasks(draw, examples)
    lowest = np.full((tasks, 1), examples - within)  # the same rank, counted from below
    reported = np.sort(select_ranks(ordered, lowest)[:, 0])
    return same_for_all(draw, float(reported[tasks - across]))


def _cut_tasks(draw: Draw, examples: int) -> Grouped:
    """Return the first scores of each task, ascending."""
    grouped = group(draw.scores, draw.tasks)
    parts = np.split(grouped.scores, np.cumsum(grouped.sizes)[:-1])
    names = np.arange(len(parts)).repeat(examples)
    return order_scores(np.concatenate([part[:examples] for part in parts]), names)


def _averaged(draw: Draw, g: Guarantee) -> Chosen:
    """The mean over tasks of their split conformal thresholds."""
    cuts = _conformal_thresholds(draw, g.miss_rate)
    return same_for_all(draw, float(cuts.mean()), feasible=bool(np.isfinite(cuts).all()))


def _hcp(draw: Draw, g: Guarantee) -> Chosen:
    """HCP: a weighted quantile of all scores, with equal weight for each task and the new one."""
    scores, sizes = draw.ordered.scores, draw.ordered.sizes
    allowed = g.miss_rate * (len(sizes) + 1) - 1  # the new task may be missed altogether
    if allowed < 0:
        return same_for_all(draw, -math.inf, feasible=False)
    if (sizes == sizes[0]).all():  # all scores weigh the same
        return same_for_all(draw, kth_smallest(scores, _floor(allowed * sizes[0])))
    return same_for_all(draw, weighted_threshold(scores, (1 / sizes).repeat(sizes), allowed))


def weighted_threshold(scores: Array, weights: Floats, allowed: float) -> float:
    """Return the largest score below which the scores weigh at most ``allowed``.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        The scores.
    weights : ndarray, shape (n,)
        Weight of each.
    allowed : float
        The weight, at least 0.

    Returns
    -------
    float
        The score.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.evaluation.neighbours import weighted_threshold
    >>> weighted_threshold(np.array([3.0, 1.0, 2.0]), np.array([1.0, 0.5, 0.5]), allowed=0.7)
    2.0
    """
    order = scores.argsort(kind="stable")
    ranked, below = scores[order], np.concatenate([[0.0], weights[order].cumsum()[:-1]])
    first = np.searchsorted(ranked, ranked)  # equal scores have the weight below the first of them
    return float(ranked[below[first] <= allowed][-1])


def _multi_environment(draw: Draw, g: Guarantee) -> Chosen:
    """Multi-environment split conformal: a threshold of each task, then a quantile across tasks."""
    cut = conformal_threshold(_conformal_thresholds(draw, g.miss_rate), g.alpha)
    return same_for_all(draw, cut, feasible=cut > -math.inf)


def _conformal_thresholds(draw: Draw, epsilon: float) -> Floats:
    """Return the split conformal threshold of each task."""
    ranks = [[_floor(epsilon * (n + 1)) - 1] for n in draw.ordered.sizes.tolist()]
    return select_ranks(draw.ordered, np.array(ranks))[:, 0]


def conformal_threshold(scores: Array, epsilon: float) -> float:
    """Return the split conformal threshold: a new score is below it with probability <= epsilon.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        Exchangeable scores.
    epsilon : float
        Miss rate.

    Returns
    -------
    float
        The floor(epsilon (n + 1))-th smallest score; ``-inf`` if that is the zeroth.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.evaluation.neighbours import conformal_threshold
    >>> conformal_threshold(np.arange(1, 20), epsilon=0.1)
    2.0
    """
    rank = _floor(epsilon * (len(scores) + 1))
    return float(np.partition(scores, rank - 1)[rank - 1]) if rank else -math.inf


def _floor(product: float) -> int:
    """Return the largest whole number up to a product that may be rounded: 0.1 * 20 is 2."""
    return math.floor(product * (1 + 2.0**-50))


FEDCP_QQ = Rule(_fedcp_qq, version="1")
AVERAGED = Rule(_averaged, version="1")
HCP = Rule(_hcp, version="1")
MULTI_ENVIRONMENT = Rule(_multi_environment, version="1")
