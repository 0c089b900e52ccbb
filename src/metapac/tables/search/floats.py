"""Floating-point numbers in their order: neighbours, and ordinals without gaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac._types import Array, Counts


def previous_float(values: Array) -> Array:
    """Return the largest number of the same precision below each value.

    Parameters
    ----------
    values : ndarray of float
        The values.

    Returns
    -------
    ndarray of float
        Their neighbours.
    """
    return _neighbour(values, -np.inf)


def next_float(values: Array) -> Array:
    """Return the smallest number of the same precision above each value.

    Parameters
    ----------
    values : ndarray of float
        The values.

    Returns
    -------
    ndarray of float
        Their neighbours.
    """
    return _neighbour(values, np.inf)


def float_to_ordinal(values: Array) -> Counts:
    """Return integers in the order of the values: neighbours differ by 1, and both zeros are 0.

    Parameters
    ----------
    values : ndarray of float32 or float64
        The values.

    Returns
    -------
    ndarray of int
        Their ordinals.
    """
    width = np.dtype(f"i{values.dtype.itemsize}")
    bits = np.ascontiguousarray(values).view(width).astype(np.int64)
    magnitude = bits & np.int64(np.iinfo(width).max)
    return np.where(bits < 0, -magnitude, magnitude)


def ordinal_to_float(ordinals: Counts, dtype: np.dtype[Any]) -> Array:
    """Return the numbers that ``float_to_ordinal`` maps to some ordinals.

    Parameters
    ----------
    ordinals : ndarray of int
        The ordinals.
    dtype : numpy.dtype
        Precision of the numbers.

    Returns
    -------
    ndarray of float
        The numbers.
    """
    width = np.dtype(f"i{dtype.itemsize}")
    magnitude = np.abs(ordinals).astype(width).view(dtype)
    return np.where(ordinals < 0, -magnitude, magnitude)


def _neighbour(values: Array, towards: float) -> Array:
    with np.errstate(over="ignore", under="ignore"):  # to infinity, and to subnormal numbers
        return np.asarray(np.nextafter(values, values.dtype.type(towards)))
