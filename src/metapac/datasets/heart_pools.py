"""Prepared respondents as pools of state-years, their features standardised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from metapac import _checks
from metapac.datasets.cache import Prepared
from metapac.datasets.fips import state_name
from metapac.tasks.pools import GroupPool, Pools

CLASSES = 2  # also in a pool without any heart attack

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Positions = NDArray[np.int64]

_BLOCK = 2**16  # rows at a time


class StateYears:
    """The state-years of prepared data; those with fewer than ``least`` rows are not large."""

    def __init__(self, data: Prepared, least: int | None) -> None:
        self.data = data
        self.least = 1 if least is None else _checks.whole_number("least", least)
        self.codes = data["year"].astype(np.int32) * 100 + data["state"]  # (n,)
        _, inverse, sizes = np.unique(self.codes, return_inverse=True, return_counts=True)
        self.large = sizes[inverse] >= self.least  # (n,)
        self.largest = int(sizes.max())

    def rows(self, pool: str, asked: NDArray[np.bool_]) -> Positions:
        """Return the rows asked for that are in large state-years."""
        rows = np.flatnonzero(asked & self.large)
        if asked.any() and not len(rows):
            raise ValueError(
                f"least must leave {pool} some state-years, got {self.least}; the largest of all "
                f"has {self.largest} rows."
            )
        return rows

    def name(self, pool: str, asked: NDArray[np.bool_]) -> str:
        """Return the name of a pool, with what is left out of it."""
        count = len(np.unique(self.codes[asked & ~self.large]))
        if not count:
            return pool
        return f"{pool}, less {count} state-years of fewer than {self.least} rows"

    def pools(self, rows: Mapping[str, Positions], names: Mapping[str, str]) -> Pools[GroupPool]:
        """Return pools of these rows, with the training pool's mean and deviation taken out."""
        x = self.data["x"]
        centre, scale = mean_and_deviation(x, rows["train"])
        pools = {
            pool: GroupPool(
                standardised(x, own, centre, scale),
                self.data["y"][own],
                self._groups(own),
                name=names[pool],
                classes=CLASSES,
            )
            for pool, own in rows.items()
            if len(own)
        }
        return Pools(**pools)

    def _groups(self, rows: Positions) -> NDArray[np.str_]:
        codes, inverse = np.unique(self.codes[rows], return_inverse=True)
        names = [f"{code // 100} {state_name(code % 100)}" for code in codes.tolist()]
        return np.array(names)[inverse]


def mean_and_deviation(x: Singles, rows: Positions) -> tuple[Floats, Floats]:
    """Return the mean and deviation of each column over some rows; 1 for a constant column."""
    total, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for block in _blocks(x, rows):
        total += block.sum(0)
    mean = total / len(rows)
    for block in _blocks(x, rows):
        squares += np.square(block - mean).sum(0)
    # Equal float32 numbers add up exactly in float64: the squares of a constant column are 0.
    return mean, np.where(squares == 0, 1.0, np.sqrt(squares / len(rows)))


def standardised(x: Singles, rows: Positions, centre: Floats, scale: Floats) -> Singles:
    """Return some rows less the centre, over the scale."""
    found = np.empty((len(rows), x.shape[1]), np.float32)
    done = 0
    for block in _blocks(x, rows):
        found[done : done + len(block)] = (block - centre) / scale
        done += len(block)
    return found


def _blocks(x: Singles, rows: Positions) -> Iterator[Floats]:
    for start in range(0, len(rows), _BLOCK):
        yield x[rows[start : start + _BLOCK]].astype(np.float64)
