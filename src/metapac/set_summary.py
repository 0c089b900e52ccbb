"""Prediction sets at a glance: how many are empty, single or full, and which classes occur."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from metapac import sets as _sets
from metapac._checks import listed
from metapac.exceptions import InvalidInput, Parameter
from metapac.sentences import percent

# Fewer sets say little about a class; of many classes, each needs its share.
_ENOUGH = 100
_ENOUGH_PER_CLASS = 20
_RARE = 0.005
_CHANCE = 0.001  # that empty sets exceed their limit by chance


@dataclass(frozen=True)
class SetSummary:
    """How many sets are empty, hold one label or all, and how often each class occurs.

    Attributes
    ----------
    rows : int
        Number of sets.
    empty, single, full : int
        Number of sets without a label, with one, and with all of them.
    mean_size : float
        Mean number of labels over all sets; NaN without sets.
    by_class : mapping from class to int
        Number of sets that contain each class; empty if classes differ from row to row.
    low, high : float or None
        Lowest and highest finite score; None if unknown.
    """

    rows: int
    empty: int
    single: int
    full: int
    mean_size: float
    by_class: Mapping[Any, int]
    low: float | None = None
    high: float | None = None

    def warnings(
        self, calibrated: tuple[float, float] | None = None, epsilon: float | None = None
    ) -> list[str]:
        """Return what looks wrong; an empty list if nothing does, or if the sets are few.

        Parameters
        ----------
        calibrated : tuple of float, optional
            Lowest and highest score of the true labels in calibration.
        epsilon : float, optional
            Miss rate that the guarantee allows; the largest one of any class. More empty sets are
            a finding.

        Returns
        -------
        list of str
            A sentence for each finding.
        """
        found = [] if calibrated is None else self._out_of_range(*calibrated)
        too_empty = [] if epsilon is None else self._too_empty(epsilon)
        if self.rows < max(_ENOUGH, _ENOUGH_PER_CLASS * len(self.by_class)):
            return found + too_empty
        return found + (self._alike() or too_empty + self._rare())

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them.

        Returns
        -------
        dict
            The attributes, with a list of classes and counts.
        """
        by_class = [{"class": name, "sets": count} for name, count in self.by_class.items()]
        return vars(self) | {
            "mean_size": self.mean_size if self.rows else None,
            "by_class": by_class,
        }

    def _out_of_range(self, low: float, high: float) -> list[str]:
        if self.high is None or not np.isfinite([low, high]).all():
            return []
        if self.high <= high + max(high - low, abs(high)):
            return []
        return [
            f"Scores reach {self.high:.4g}, but those of the true labels reached only {high:.4g} "
            "in calibration. Are they of the same model and on the same scale (fractions, "
            "percentages)?"
        ]

    def _too_empty(self, epsilon: float) -> list[str]:
        """Say that more sets are empty than may miss, unless a few more are so by chance."""
        if not self.empty or special.bdtrc(self.empty - 1, self.rows, epsilon) > _CHANCE:
            return []
        return [
            f"{self.empty / self.rows:.1%} of the sets are empty, and each of them misses the true "
            f"label, but at most {percent(epsilon)} may: the guarantee does not hold on these "
            "rows. Is it the same model, on the same scale?"
        ]

    def _alike(self) -> list[str]:
        if not self.by_class and self.rows not in (self.empty, self.full):
            return []
        if any(0 < count < self.rows for count in self.by_class.values()):
            return []
        kept = [repr(name) for name, count in self.by_class.items() if count]
        what = listed(kept) if 0 < len(kept) < len(self.by_class) else "every class"
        which = f"each contains {what} and nothing else" if kept else "each is empty"
        if self.full == self.rows:
            which = "each contains every class"
        return [
            f"All {self.rows} sets are alike: {which}. Were the scores made by the model that was "
            "calibrated, on the same scale?"
        ]

    def _rare(self) -> list[str]:
        never = [repr(name) for name, count in self.by_class.items() if not count]
        most = _RARE * self.rows
        rare = [f"{name!r} in {count}" for name, count in self.by_class.items() if 0 < count < most]
        remedy = "Evaluate the misses of each class, or calibrate a guarantee per class."
        found = []
        if never:
            found.append(
                f"None of the {self.rows} sets contains {listed(never)}: an example of such a "
                f"class would be missed. {remedy}"
            )
        if rare:
            found.append(
                f"Hardly any of the {self.rows} sets contains some classes ({listed(rare)}). "
                f"{remedy}"
            )
        return found


def summarise_sets(sets: ArrayLike, classes: Sequence[Any] | None = None) -> SetSummary:
    """Return how many sets are empty, single or full, and how often each class occurs.

    Parameters
    ----------
    sets : array_like of bool, shape (n, classes)
        What ``predict_set`` returned.
    classes : sequence, optional
        Names of the columns; 0, 1, ... by default.

    Returns
    -------
    SetSummary
        The figures. Its method ``warnings`` says what looks wrong.

    Examples
    --------
    >>> from metapac import summarise_sets
    >>> summary = summarise_sets([[True, True], [True, False], [False, False]], ["no", "yes"])
    >>> summary.empty, summary.single, summary.full
    (1, 1, 1)
    >>> summary.by_class
    {'no': 2, 'yes': 1}
    """
    sizes = _sets.set_sizes(sets)
    matrix = np.asarray(sets)
    names = list(range(matrix.shape[1])) if classes is None else list(classes)
    if len(names) != matrix.shape[1]:
        raise InvalidInput(
            "{} must name each of the {} columns of sets, got {} names.",
            Parameter("classes"),
            matrix.shape[1],
            len(names),
        )
    counts = matrix.sum(axis=0).tolist()
    return SetSummary(
        rows=len(matrix),
        empty=int(np.count_nonzero(sizes == 0)),
        single=int(np.count_nonzero(sizes == 1)),
        full=int(np.count_nonzero(sizes == len(names))),
        mean_size=float(np.mean(sizes)) if len(matrix) else float("nan"),
        by_class=dict(zip(names, counts, strict=True)),
    )
