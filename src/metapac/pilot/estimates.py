"""Estimates over pilot tasks, each with its interval, and those of one pair of levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scipy import special

from metapac import _document
from metapac._types import Array

_COVERAGE = 0.95


class Estimate(NamedTuple):
    """A mean over pilot tasks, with a 95% interval for the mean over all tasks.

    Attributes
    ----------
    value : float
        The estimate; NaN if no example counts.
    low, high : float
        The interval; NaN with a single task.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of_ratio(cls, numerators: Array, denominators: Array, most: float = 1.0) -> Estimate:
        """Return the ratio of two sums over tasks, with its interval.

        Parameters
        ----------
        numerators, denominators : ndarray, shape (tasks,)
            What each task adds to the two sums.
        most : float, default 1.0
            Largest possible ratio.

        Returns
        -------
        Estimate
            The interval is Student's, for the linearized ratio, cut at 0 and ``most``.

        Examples
        --------
        >>> import numpy as np
        >>> from metapac.pilot import Estimate
        >>> Estimate.of_ratio(np.array([1, 3]), np.array([4, 4])).value
        0.5
        """
        total, tasks = float(denominators.sum()), len(numerators)
        if total == 0:
            return cls(math.nan, math.nan, math.nan)
        value = float(numerators.sum()) / total
        if tasks < 2:
            return cls(value, math.nan, math.nan)
        squares = float(((numerators - value * denominators) ** 2).sum())
        error = math.sqrt(squares * tasks / (tasks - 1)) / total
        half = float(special.stdtrit(tasks - 1, (1 + _COVERAGE) / 2)) * error
        return cls(value, max(value - half, 0.0), min(value + half, most))


@dataclass(frozen=True)
class Cell:
    """What one pair of levels would give.

    Attributes
    ----------
    epsilon : float
        Miss rate allowed on a task.
    alpha : float
        Fraction of new tasks that may exceed it.
    per_class : bool
        Whether each class has its own guarantee and threshold.
    tasks : int
        Number of calibration tasks that the estimate is for.
    thresholds : tuple of float
        Threshold from all pilot tasks; with ``per_class``, one for each class.
    size : Estimate
        Mean set size over tasks.
    empty : Estimate
        Share of sets without a label.
    full : Estimate
        Share of sets with every label.
    missed : mapping from class to Estimate
        Fraction of the examples of each class whose set misses it.
    tasks_needed : int or None
        Least number of calibration tasks if ``tasks`` are too few, and all estimates then are NaN;
        None if they suffice.
    """

    epsilon: float
    alpha: float
    per_class: bool
    tasks: int
    thresholds: tuple[float, ...]
    size: Estimate
    empty: Estimate
    full: Estimate
    missed: Mapping[Any, Estimate]
    tasks_needed: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the cell as JSON can hold it, estimates as lists, and classes as pairs.

        Returns
        -------
        dict
            The cell.
        """
        estimates = {name: _encode(getattr(self, name)) for name in ("size", "empty", "full")}
        return {
            "epsilon": self.epsilon,
            "alpha": self.alpha,
            "per_class": self.per_class,
            "tasks": self.tasks,
            "tasks_needed": self.tasks_needed,
            "thresholds": _document.encode_floats(list(self.thresholds)),
            **estimates,
            "missed": [[label, _encode(estimate)] for label, estimate in self.missed.items()],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Cell:
        """Return the cell that `to_json` prepared.

        Parameters
        ----------
        body : mapping
            What `to_json` returned.

        Returns
        -------
        Cell
            The cell.
        """
        return cls(
            float(body["epsilon"]),
            float(body["alpha"]),
            bool(body["per_class"]),
            int(body["tasks"]),
            tuple(float(value) for value in body["thresholds"]),
            _decode(body["size"]),
            _decode(body["empty"]),
            _decode(body["full"]),
            {label: _decode(values) for label, values in body["missed"]},
            body.get("tasks_needed"),
        )


def _encode(estimate: Estimate) -> list[float | None]:
    return [None if math.isnan(value) else value for value in estimate]


def _decode(values: Sequence[float | None]) -> Estimate:
    value, low, high = (math.nan if number is None else float(number) for number in values)
    return Estimate(value, low, high)
