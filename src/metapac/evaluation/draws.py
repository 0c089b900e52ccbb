"""What a study hands over: calibration scores, and new tasks on which sets are judged."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks

Array = NDArray[Any]


class NewTask(Protocol):
    """A new task on which sets are judged."""

    @property
    def own(self) -> Array:
        """The true labels' scores of some examples of its own, for PS-Test."""

    @property
    def quantile(self) -> float | None:
        """Its predicted quantile, for Meta-CP; None where nobody predicted it."""

    def error(self, thresholds: ArrayLike) -> Array:
        """Return, for each threshold, how often the true label's score is below it."""

    def size(self, thresholds: ArrayLike) -> Array:
        """Return, for each threshold, how many labels a set has on average."""

    def largest_threshold(self, epsilon: float) -> float:
        """Return the largest threshold whose error on this very task is at most ``epsilon``."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A new task known by its scores: error and size are counted on the judged examples.

    A set is decided in the precision of the task's scores.
    """

    own: Array  # (labelled,), of the examples that PS-Test may use
    true: Array  # (judged,), of the true labels
    scores: Array  # (judged, classes), of all labels
    quantile: float | None = None

    def __post_init__(self) -> None:
        for name in ("own", "true", "scores"):
            array = _checks.score_array(name, getattr(self, name))
            _checks.no_nan(name, array)
            object.__setattr__(self, name, array)
        _checks.flat("own", self.own)
        _checks.flat("true", self.true)
        if self.scores.ndim != 2 or len(self.scores) != len(self.true):
            raise ValueError(
                f"scores must have a row for each of the {len(self.true)} judged examples and a "
                f"column for each label, got shape {self.scores.shape}."
            )
        if not (self.scores == self.true[:, None]).any(axis=1).all():
            raise ValueError(
                "true must hold one of the scores of its row in scores, and does not. "
                "Pass scores[np.arange(len(labels)), labels]."
            )
        if self.quantile is not None and not math.isfinite(self.quantile):
            raise ValueError(
                f"quantile must be a finite number or None, got {self.quantile!r}. "
                "Pass what the quantile predictor said of this task."
            )

    @classmethod
    def split(
        cls, scores: ArrayLike, labels: ArrayLike, *, own: Array, quantile: float | None = None
    ) -> Self:
        """Return a task whose examples in the mask ``own`` are PS-Test's; the others are judged."""
        table, known = np.asarray(scores), np.asarray(labels)
        true = table[np.arange(len(known)), known]
        return cls(true[own], true[~own], table[~own], quantile)

    @cached_property
    def _true(self) -> Array:
        return np.sort(self.true)

    @cached_property
    def _all(self) -> Array:
        return np.sort(self.scores, axis=None)

    def error(self, thresholds: ArrayLike) -> Array:
        return self._below(self._true, thresholds) / len(self.true)

    def size(self, thresholds: ArrayLike) -> Array:
        return (self.scores.size - self._below(self._all, thresholds)) / len(self.true)

    def _below(self, ascending: Array, thresholds: ArrayLike) -> Array:
        with np.errstate(over="ignore"):  # beyond a narrow type's range lies infinity, in order
            cuts = np.asarray(thresholds).astype(ascending.dtype)
        return np.asarray(np.searchsorted(ascending, cuts, side="left"))

    def largest_threshold(self, epsilon: float) -> float:
        # As many misses as may be, counted in the very doubles that error() returns.
        rates = np.arange(len(self.true)) / len(self.true)
        return float(self._true[np.searchsorted(rates, epsilon, side="right") - 1])


@dataclass(frozen=True, eq=False)
class Draw:
    """One calibration draw with its new tasks."""

    scores: Array  # (examples,), of the true labels
    tasks: Array  # (examples,), the task of each
    tests: Sequence[NewTask]
    quantiles: Array | None = None  # (calibration tasks,), predicted, in order of appearance

    def __post_init__(self) -> None:
        if not self.tests:
            raise ValueError("tests is empty; a draw needs at least one new task to judge on.")
        missing = [i for i, test in enumerate(self.tests) if test.quantile is None]
        if self.quantiles is not None and missing:
            raise ValueError(
                f"quantiles are given for the calibration tasks, but test task {missing[0]} has "
                "none. Predict them for all tasks, or for none."
            )


class Study(Protocol):
    """Where draws come from: a scored data set, or a family of tasks."""

    def draw(self, rng: np.random.Generator) -> Draw:
        """Return calibration scores and new tasks; all randomness comes from ``rng``."""

    def describe(self) -> dict[str, Any]:
        """Return what the draws depend on, as JSON can hold it, with a checksum of the data."""


def data_checksum(*arrays: ArrayLike) -> str:
    """Return the SHA-256 of some arrays: of their types, shapes and bytes."""
    found = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(array.data)
    return "sha256:" + found.hexdigest()
