"""What dishonest sites can do to a threshold. Proofs are in docs/federated.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from metapac import _checks
from metapac._types import Counts, Floats
from metapac.exceptions import InvalidInput
from metapac.guarantee import Guarantee
from metapac.outcome import Part


class Liars(NamedTuple):
    """How many dishonest sites it takes.

    Attributes
    ----------
    to_keep_all : int
        To force every label into every set.
    to_empty : int
        To make every set empty.
    """

    to_keep_all: int
    to_empty: int


class ThresholdRange(NamedTuple):
    """Between which numbers a threshold lies.

    Attributes
    ----------
    low, high : float
        The two numbers; ``-inf`` and ``inf`` if nothing bounds it.
    """

    low: float
    high: float


def count_liars(guarantee: Guarantee, tasks: int, small: Sequence[int] | None = None) -> Liars:
    """Return how many dishonest sites can force every label into the sets, or none.

    Parameters
    ----------
    guarantee : Guarantee
        What the sites have agreed on; for one class with ``per_class``.
    tasks : int
        Number of sites, dishonest ones included.
    small : sequence of int, optional
        Number of honest sites at each level that send ``-inf`` anyway, having too few examples; by
        default none.

    Returns
    -------
    Liars
        The two numbers; ``to_keep_all`` is 0 if so few sites support nothing.

    Notes
    -----
    At each level, the threshold is the (k + 1)-th lowest that the sites sent, and the largest over
    all levels counts. Every label is kept if k + 1 sites send ``-inf`` at *every* usable level.
    Every set is empty if at *some* level all but k send ``inf``.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.robustness import count_liars
    >>> agreed = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    >>> count_liars(agreed, 29), count_liars(agreed, 100)
    (Liars(to_keep_all=1, to_empty=29), Liars(to_keep_all=5, to_empty=96))
    """
    allowed = guarantee.allowed_low_thresholds(_checks.as_whole_number("tasks", tasks))
    fewer = [0] * len(allowed) if small is None else small
    spare = max(k - few for k, few in zip(allowed, fewer, strict=True))
    return Liars(max(spare + 1, 0), tasks - max(allowed))


def count_liars_among(parts: Sequence[Part]) -> Liars:
    """Return how many of the sites of a calibration, if dishonest, can decide the sets.

    Parameters
    ----------
    parts : sequence of Part
        The evidence; with ``per_class``, of each class.

    Returns
    -------
    Liars
        The two numbers; with several classes, for the class that takes the fewest.
    """
    liars = []
    for part in parts:
        sent = part.thresholds[part.used]
        if not len(sent):
            return Liars(0, 0)
        liars.append(count_liars(part.guarantee, len(sent), (sent == -np.inf).sum(axis=0).tolist()))
    return Liars(*(min(numbers) for numbers in zip(*liars, strict=True)))


def summarise_liars(predictor: Any) -> dict[str, int]:
    """Return how many sites count, and how many of them, if dishonest, can decide the sets.

    Parameters
    ----------
    predictor : MetaPS
        The calibrated predictor, whose tasks are sites.

    Returns
    -------
    dict
        ``sites`` without those that ``min_examples`` leaves out, ``to_keep_all`` and ``to_empty``;
        with ``per_class``, each for the class with the fewest.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaPS
    >>> from metapac.robustness import summarise_liars
    >>> scores, sites = np.linspace(0, 1, 2900), np.tile(range(29), 100)
    >>> predictor = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(scores, sites)
    >>> summarise_liars(predictor)
    {'sites': 29, 'to_keep_all': 1, 'to_empty': 29}
    """
    predictor.check_calibrated()
    parts = predictor._evidence.parts(predictor.guarantee_)
    sites = min(int(np.count_nonzero(part.used)) for part in parts)
    return {"sites": sites, **count_liars_among(parts)._asdict()}


def describe_liars(liars: Liars, tasks: int, *, is_interval: bool = False) -> str:
    """Return in one sentence what dishonest sites can do.

    Parameters
    ----------
    liars : Liars
        How many it takes.
    tasks : int
        Number of sites.
    is_interval : bool, default False
        Whether sets are intervals.

    Returns
    -------
    str
        The sentence.

    Examples
    --------
    >>> from metapac.robustness import Liars, describe_liars
    >>> describe_liars(Liars(1, 29), 29)
    'Of 29 sites, 1 dishonest one can force every label into every set; 29 can empty every set.'
    """
    ones = "1 dishonest one" if liars.to_keep_all == 1 else f"{liars.to_keep_all} dishonest ones"
    widen, narrow = "force every label into every set", "empty every set"
    if is_interval:
        widen, narrow = "make every interval infinite", "shrink every interval to its prediction"
    return f"Of {tasks} sites, {ones} can {widen}; {liars.to_empty} can {narrow}."


def failure_probability(
    guarantee: Guarantee, tasks: int, liars: int = 0, *, at_random: bool = False
) -> float:
    """Return the largest probability that the guarantee fails if some sites are dishonest.

    The worst case, by default, is that the sites with the lowest thresholds send ``inf``.

    Parameters
    ----------
    guarantee : Guarantee
        What the sites have agreed on; for one class with ``per_class``.
    tasks : int
        Number of sites, dishonest ones included.
    liars : int, default 0
        Number of dishonest sites, whoever they are, whatever they know and send.
    at_random : bool, default False
        Whether the dishonest sites are chosen at random, independently of their data, so that the
        others are still i.i.d. A site that lies because its data are bad is not chosen so.

    Returns
    -------
    float
        The probability; at most ``delta`` without dishonest sites.

    Raises
    ------
    InvalidInput
        If there are more dishonest sites than sites, or the guarantee is in expectation.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.robustness import failure_probability
    >>> agreed = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    >>> print(f"{failure_probability(agreed, 100):.3f}, {failure_probability(agreed, 100, 5):.3f}")
    0.049, 0.736
    >>> print(f"{failure_probability(agreed, 100, 5, at_random=True):.3f}")
    0.065
    """
    _ = guarantee.failure_probability  # raises if there is none
    tasks = _checks.as_whole_number("tasks", tasks)
    liars = _checks.as_whole_number("liars", liars, minimum=0)
    if liars > tasks:
        raise InvalidInput(f"liars must be at most tasks, {tasks}, got {liars}.")
    ranks = guarantee.allowed_low_thresholds(tasks)
    shares = [level.alpha_across for level in guarantee.levels]
    if at_random:
        return _union(tasks - liars, shares, ranks)
    # Each liar can hide one low threshold, the same one at every level.
    return _union(tasks, shares, tuple(k + liars if k >= 0 else k for k in ranks))


def bound_threshold(predictor: Any, liars: int = 1, *, label: Any = None) -> ThresholdRange:
    """Return between which numbers the threshold would lie if every site had been honest.

    Parameters
    ----------
    predictor : MetaPS
        The calibrated predictor, whose tasks are sites.
    liars : int, default 1
        Largest number of sites that sent other numbers than their data give.
    label : object, optional
        The class, if the guarantee is per class.

    Returns
    -------
    ThresholdRange
        The two numbers; without ``min_examples``, not further apart than ``2 * liars`` ranks.

    Raises
    ------
    InvalidInput
        If there are more dishonest sites than sites, or no such class.

    Notes
    -----
    At each level, a threshold is the (k + 1)-th lowest number. Changing ``liars`` of the numbers
    moves it by at most as many ranks: it stays between the (k + 1 - liars)-th and the
    (k + 1 + liars)-th lowest of those that were sent. The largest over all levels counts.

    With ``min_examples``, a dishonest site may also have hidden examples to be left out, or
    invented some to be counted. How many sites should have counted, and k with it, is then not
    known: the range holds for every number within ``liars`` of those that counted.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaPS
    >>> from metapac.robustness import bound_threshold
    >>> scores, sites = np.linspace(0, 1, 6000), np.repeat(range(60), 100)
    >>> predictor = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(scores, sites)
    >>> low, high = bound_threshold(predictor, 1)
    >>> print(f"{low:.3f} <= {predictor.threshold_:.3f} <= {high:.3f}")
    0.001 <= 0.018 <= 0.034
    """
    predictor.check_calibrated()
    parts = {part.label: part for part in predictor._evidence.parts(predictor.guarantee_)}
    if label not in parts:
        raise InvalidInput(
            f"label must be one of {_checks.listed([repr(name) for name in parts])}, got {label!r}."
        )
    part = parts[label]
    liars = _checks.as_whole_number("liars", liars, minimum=0)
    sites = len(part.used)
    if liars > sites:
        raise InvalidInput(f"liars must be at most the number of sites, {sites}, got {liars}.")
    counted = int(np.count_nonzero(part.used))
    unsure = liars if part.guarantee.min_examples else 0
    ranges = [
        _bound(part, honest, liars)
        for honest in range(max(counted - unsure, 0), min(counted + unsure, sites) + 1)
    ]
    return ThresholdRange(min(low for low, _ in ranges), max(high for _, high in ranges))


def _bound(part: Part, honest: int, liars: int) -> ThresholdRange:
    """Return the range if ``honest`` sites should have counted.

    If they are fewer than those that did, so many liars sent a number that should not be there; if
    they are more, so many sent none. The others may have sent any number.
    """
    sent = np.sort(part.thresholds[part.used], axis=0)
    ranks = part.guarantee.allowed_low_thresholds(honest) if honest else ()
    invented, hidden = max(len(sent) - honest, 0), max(honest - len(sent), 0)
    ends = [
        [_number(sent[:, level], rank + shift) for level, rank in enumerate(ranks) if rank >= 0]
        for shift in (invented - liars, liars - hidden)
    ]
    return ThresholdRange(*(max(numbers, default=-np.inf) for numbers in ends))


def _number(ascending: Floats, rank: int) -> float:
    """Return a number by its rank; beyond the ends, what dishonest sites could make it."""
    if rank < 0:
        return -np.inf
    return float(ascending[rank]) if rank < len(ascending) else np.inf


def _union(tasks: int, shares: list[float], ranks: tuple[int, ...]) -> float:
    """Return P(M_j <= ranks_j for some j) for the chain of ``joint_ranks``, over so many tasks."""
    from scipy import stats  # rarely needed, and slow to import

    counts: Counts = np.arange(tasks + 1)
    alive, before, failed = np.zeros(tasks + 1), 1.0, 0.0
    alive[tasks] = 1.0
    for share, rank in zip(shares, ranks, strict=True):
        steps = stats.binom.pmf(counts, counts[:, None], share / before)  # (before, after)
        alive = alive @ steps
        failed += float(alive[: rank + 1].sum())
        alive[: rank + 1] = 0.0
        before = share
    return min(failed, 1.0)
