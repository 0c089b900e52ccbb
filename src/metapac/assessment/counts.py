"""Counts of examples, misses and set sizes, by task and class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac._types import Array, Counts, Floats
from metapac.verdict._evidence import are_above


class SetCounts(NamedTuple):
    """How large the sets are, as counts for each task or group of examples.

    Attributes
    ----------
    labels : ndarray of int
        Number of labels in all sets together.
    empty : ndarray of int
        Number of sets without a label.
    single : ndarray of int
        Number of sets with one label.
    full : ndarray of int
        Number of sets with every label.
    """

    labels: Counts
    empty: Counts
    single: Counts
    full: Counts

    def sum_by(self, index: Counts, length: int) -> SetCounts:
        """Return the sums over groups with the same index.

        Parameters
        ----------
        index : ndarray of int
            Index of each group.
        length : int
            Number of sums.

        Returns
        -------
        SetCounts
            The sums.
        """
        return SetCounts(*(sum_by(column, index, length) for column in self))

    def take(self, which: Array) -> SetCounts:
        """Return the counts of some groups.

        Parameters
        ----------
        which : ndarray
            Indices or booleans.

        Returns
        -------
        SetCounts
            Their counts.
        """
        return SetCounts(*(column[which] for column in self))


class ClassMisses(NamedTuple):
    """How often the examples of one class are missed, over all tasks evaluated.

    Attributes
    ----------
    label : object
        The class.
    examples : int
        Number of examples of the class.
    missed : int
        Number of them whose set lacks the class.
    low : float
        Lower end of the exact 95% interval of the miss rate.
    high : float
        Upper end.
    """

    label: Any
    examples: int
    missed: int
    low: float
    high: float

    @property
    def error(self) -> float:
        """Fraction of the examples that is missed; NaN without examples."""
        return self.missed / self.examples if self.examples else math.nan

    def is_above(self, epsilon: float) -> bool:
        """Return whether the miss rate is shown to exceed a limit, by the rule for single tasks.

        Parameters
        ----------
        epsilon : float
            The limit.

        Returns
        -------
        bool
            True if it does with 95% confidence, one-sided, for this class alone.
        """
        return bool(are_above(np.array([self.examples]), np.array([self.missed]), epsilon)[0])


class Tally(NamedTuple):
    """Counts for each group of examples of one task and, if labels are known, one class.

    Attributes
    ----------
    names : ndarray, shape (tasks,)
        The tasks.
    task : ndarray of int, shape (groups,)
        Index of the task of each group.
    examples : ndarray of int, shape (groups,)
        Number of examples.
    missed : ndarray of int, shape (groups,)
        Number of them whose set misses the true label.
    sets : SetCounts or None
        Sizes of the sets; None if only true labels have scores.
    classes : sequence or None
        The classes; None if labels are not known.
    label : ndarray of int, shape (groups,), or None
        Index of the class of each group.
    widths : ndarray of float, shape (groups,), or None
        Sum of the widths of intervals; None if there are no intervals.
    clusters : sequence or None
        Cluster of each of ``names``, if tasks of one cluster may depend on each other.
    ranges : ndarray, shape (tasks, 2), or None
        Lowest and highest score of a true label in each of ``names``.
    """

    names: Array
    task: Counts
    examples: Counts
    missed: Counts
    sets: SetCounts | None = None
    classes: Sequence[Any] | None = None
    label: Counts | None = None
    widths: NDArray[np.float64] | None = None
    clusters: Sequence[Any] | None = None
    ranges: Floats | None = None

    def take(self, which: NDArray[np.bool_]) -> Tally:
        """Return the groups that are chosen, with all tasks.

        Parameters
        ----------
        which : ndarray of bool, shape (groups,)
            Which groups.

        Returns
        -------
        Tally
            Their counts.
        """
        return self._replace(
            task=self.task[which],
            examples=self.examples[which],
            missed=self.missed[which],
            sets=None if self.sets is None else self.sets.take(which),
            label=None if self.label is None else self.label[which],
            widths=None if self.widths is None else self.widths[which],
        )


def sum_by(column: Array, index: Counts, length: int) -> Counts:
    """Return the sums of the entries with the same index.

    Parameters
    ----------
    column : ndarray, shape (n,)
        Numbers.
    index : ndarray of int, shape (n,)
        Index of each number.
    length : int
        Number of sums.

    Returns
    -------
    ndarray of int, shape (length,)
        The sums.
    """
    return np.bincount(index, weights=column, minlength=length).astype(np.int64)
