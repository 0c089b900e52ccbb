"""Offers: the smallest epsilon that given tasks support, for some alphas and deltas."""

from __future__ import annotations

from typing import NamedTuple

from metapac import _checks
from metapac._types import Counts
from metapac.demands import Demand
from metapac.guarantee import Guarantee, Split

OFFERED_ALPHAS = (0.05, 0.1, 0.2, 0.3)
OFFERED_DELTAS = (0.05, None)


class Offer(NamedTuple):
    """The smallest epsilon that given tasks support at an alpha and a delta.

    Attributes
    ----------
    alpha : float
        Fraction of new tasks on which the miss rate may exceed ``epsilon``.
    delta : float or None
        Failure probability of the guarantee; None for a guarantee in expectation.
    epsilon : float or None
        The miss rate; None if none is feasible.
    """

    alpha: float
    delta: float | None
    epsilon: float | None


def find_offers(sizes: Counts, *, split: Split = "joint", classes: int = 1) -> list[Offer]:
    """Return the smallest epsilon that tasks of given sizes support, by alpha and delta.

    Parameters
    ----------
    sizes : ndarray of int64
        Number of examples of each task.
    split : {"joint", "tight", "even"} or float, default "joint"
        How alpha is shared between the two steps.
    classes : int, default 1
        Number of classes with a guarantee each.

    Returns
    -------
    list of Offer
        One offer for each alpha and delta.
    """
    labels = range(_checks.as_whole_number("classes", classes))
    offers = []
    for alpha in OFFERED_ALPHAS:
        for delta in OFFERED_DELTAS:
            whole = Guarantee(epsilon=0.5, alpha=alpha, delta=delta, split=split)
            demand = Demand.from_sizes(whole.for_class(None, labels), sizes)
            offers.append(Offer(alpha, delta, demand.smallest("epsilon")))
    return offers
