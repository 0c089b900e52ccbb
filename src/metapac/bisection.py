"""The smallest number that works, by bisection, and how it is shown."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable


def min_integer(works: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest integer that works, by bisection.

    Parameters
    ----------
    works : callable
        Takes an integer and returns whether it works.
    low : int
        An integer that does not work.
    high : int
        A larger integer that works.

    Returns
    -------
    int
        The smallest integer above ``low`` that works.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def min_value(works: Callable[[float], bool], tolerance: float = 1e-15) -> float | None:
    """Return the smallest value between 0 and 1 that works, by bisection.

    Parameters
    ----------
    works : callable
        Takes a float and returns whether it works; larger values only make it easier.
    tolerance : float, default 1e-15
        Relative tolerance of the result.

    Returns
    -------
    float or None
        A value that works; None if none does.
    """
    low, high = sys.float_info.min, math.nextafter(1.0, 0.0)  # below low, shares underflow
    if not works(high):
        return None
    while high - low > tolerance * high and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def round_up(value: float, digits: int = 3) -> float:
    """Return a positive number rounded up to a few significant digits.

    Parameters
    ----------
    value : float
        The number.
    digits : int, default 3
        Number of significant digits.

    Returns
    -------
    float
        The rounded number, not below ``value``.
    """
    near = float(f"{value:.{digits}g}")
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return near if near >= value else float(f"{near + step:.{digits}g}")
