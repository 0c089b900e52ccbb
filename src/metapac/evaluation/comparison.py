"""Two methods compared on the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metapac._types import Floats
from metapac.evaluation.intervals import mean_by_draw, mean_interval
from metapac.evaluation.rows import Rows
from metapac.exceptions import InvalidInput


@dataclass(frozen=True)
class SizeComparison:
    """Mean set sizes of two methods on the same draws, and their difference.

    Attributes
    ----------
    first, second : str
        Names of the methods.
    first_size, second_size : float
        Mean set size of each.
    difference : float
        Mean difference, first minus second.
    low, high : float
        Ends of its 95 % confidence interval: Student's t over the mean sizes of the draws, which
        are independent given the study, or of the training seeds if there are three or more. With
        one draw it is the whole line.
    draws : int
        Number of draws, of all seeds together.

    Examples
    --------
    >>> from metapac.evaluation import SizeComparison
    >>> SizeComparison("tight", "even", 1.9, 2.0, -0.1, -0.15, -0.05, 100).difference
    -0.1
    """

    first: str
    second: str
    first_size: float
    second_size: float
    difference: float
    low: float
    high: float
    draws: int


def compare_sizes(
    rows: Rows | Sequence[Rows], first: str, second: str, *, delta: float | None = None
) -> SizeComparison:
    """Return the difference between the mean set sizes of two methods, paired by draw.

    Parameters
    ----------
    rows : Rows or sequence of Rows
        Results of an evaluation; or of several, one for each training seed.
    first, second : str
        Names of the methods.
    delta : float, optional
        Delta of both; by default the first that ``first`` has.

    Returns
    -------
    SizeComparison
        Mean sizes, and their difference with a 95 % interval.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, compare_sizes, evaluate
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=guarantee, draws=5)
    >>> compare_sizes(rows, "Meta-PS joint", "Meta-PS even").difference < 0
    True
    """
    by_seed = (rows,) if isinstance(rows, Rows) else tuple(rows)
    sizes = [_mean_sizes(each, first, second, delta) for each in by_seed]  # (2, draws) each
    low, high = mean_interval([ones - others for ones, others in sizes])
    ones, others = np.concatenate(sizes, axis=1)
    return SizeComparison(
        first=first,
        second=second,
        first_size=float(np.mean(ones)),
        second_size=float(np.mean(others)),
        difference=float(np.mean(ones - others)),
        low=low,
        high=high,
        draws=len(ones),
    )


def _mean_sizes(rows: Rows, first: str, second: str, delta: float | None) -> Floats:
    """Return the mean sizes of two methods on each draw of one seed."""
    one = rows.select(first, delta)
    other = rows.select(second, float(one.delta[0]))
    if set(one.draw.tolist()) != set(other.draw.tolist()):
        raise InvalidInput(
            f"{first!r} and {second!r} must have been run on the same draws to be compared. "
            "Evaluate them together."
        )
    return np.stack([mean_by_draw(each, each.size) for each in (one, other)])
