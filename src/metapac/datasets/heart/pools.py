"""Prepared respondents as pools of state-years, with standardised features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from metapac import _checks
from metapac._types import Array, Counts, Floats
from metapac.datasets.heart.fips import state_name
from metapac.datasets.store.cache import Prepared
from metapac.exceptions import InvalidInput, Parameter
from metapac.tasks.pools import GroupPool, Pools

_CLASSES = 2  # even in a pool without any heart attack
_BLOCK = 2**16  # rows at a time


class StateYears:
    """The state-years of prepared surveys.

    Parameters
    ----------
    data : Prepared
        Prepared surveys.
    min_size : int or None
        Smallest number of rows of a state-year; smaller ones are left out of all pools. None keeps
        all.
    """

    def __init__(self, data: Prepared, min_size: int | None) -> None:
        self._data = data
        self._min_size = 1 if min_size is None else _checks.as_whole_number("min_size", min_size)
        self.codes = data["year"].astype(np.int32) * 100 + data["state"]  # (n,)
        _, inverse, sizes = np.unique(self.codes, return_inverse=True, return_counts=True)
        self._is_large = sizes[inverse] >= self._min_size  # (n,)
        self._largest = int(sizes.max())

    def rows(self, pool: str, chosen: NDArray[np.bool_]) -> Counts:
        """Return the chosen rows that belong to large state-years.

        Parameters
        ----------
        pool : str
            Name of the pool, for the error message.
        chosen : ndarray of bool, shape (n,)
            Rows to choose from.

        Returns
        -------
        ndarray of int
            Positions of the rows.
        """
        rows = np.flatnonzero(chosen & self._is_large)
        if chosen.any() and not len(rows):
            raise InvalidInput(
                "{} must leave some state-years in {}, got {}; the largest of all has {} rows.",
                Parameter("min_size"),
                pool,
                self._min_size,
                self._largest,
            )
        return rows

    def name(self, pool: str, chosen: NDArray[np.bool_]) -> str:
        """Return the name of a pool, with the number of state-years left out.

        Parameters
        ----------
        pool : str
            Name of the pool.
        chosen : ndarray of bool, shape (n,)
            Rows to choose from.

        Returns
        -------
        str
            The name.
        """
        count = len(np.unique(self.codes[chosen & ~self._is_large]))
        if not count:
            return pool
        state_years = f"{count} state-year{'s' * (count != 1)}"
        return f"{pool}, without {state_years} of fewer than {self._min_size} rows"

    def pools(self, rows: Mapping[str, Counts], names: Mapping[str, str]) -> Pools[GroupPool]:
        """Return pools, standardised with the mean and deviation of the training pool.

        Parameters
        ----------
        rows : mapping of str to ndarray of int
            Rows of each pool.
        names : mapping of str to str
            Name of each pool.

        Returns
        -------
        Pools
            The pools that have rows.
        """
        x = self._data["x"]
        mean, deviation = mean_and_deviation(x, rows["train"])
        pools = {
            pool: GroupPool(
                standardise(x, members, mean, deviation),
                self._data["y"][members],
                self._group_names(members),
                name=names[pool],
                classes=_CLASSES,
            )
            for pool, members in rows.items()
            if len(members)
        }
        return Pools(**pools)

    def _group_names(self, rows: Counts) -> NDArray[np.str_]:
        codes, inverse = np.unique(self.codes[rows], return_inverse=True)
        names = [f"{code // 100} {state_name(code % 100)}" for code in codes.tolist()]
        return np.array(names)[inverse]


def mean_and_deviation(x: Array, rows: Counts) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation of each column over some rows.

    Parameters
    ----------
    x : ndarray of float32, shape (n, columns)
        All rows.
    rows : ndarray of int
        Positions of the rows to use.

    Returns
    -------
    mean, deviation : ndarray, shape (columns,)
        Mean, and deviation; 1 for a constant column.
    """
    total, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for block in _blocks(x, rows):
        total += block.sum(0)
    mean = total / len(rows)
    for block in _blocks(x, rows):
        squares += np.square(block - mean).sum(0)
    # Equal float32 numbers add up exactly in float64: the squares of a constant column are 0.
    return mean, np.where(squares == 0, 1.0, np.sqrt(squares / len(rows)))


def standardise(x: Array, rows: Counts, mean: Floats, deviation: Floats) -> Array:
    """Return some rows, standardised.

    Parameters
    ----------
    x : ndarray of float32, shape (n, columns)
        All rows.
    rows : ndarray of int
        Positions of the rows to return.
    mean, deviation : ndarray, shape (columns,)
        Values to subtract, and to divide by.

    Returns
    -------
    ndarray of float32, shape (rows, columns)
        The rows.
    """
    result = np.empty((len(rows), x.shape[1]), np.float32)
    done = 0
    for block in _blocks(x, rows):
        result[done : done + len(block)] = (block - mean) / deviation
        done += len(block)
    return result


def _blocks(x: Array, rows: Counts) -> Iterator[Floats]:
    for start in range(0, len(rows), _BLOCK):
        yield x[rows[start : start + _BLOCK]].astype(np.float64)
