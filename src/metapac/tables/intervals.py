"""Prediction intervals for every row of a table, and what they look like."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ibis
import numpy as np

from metapac import sets
from metapac.base import ThresholdSets
from metapac.exceptions import InvalidInput
from metapac.tables.io.sources import Source
from metapac.tables.residuals import Residuals
from metapac.tables.search.expressions import exact


@dataclass(frozen=True)
class IntervalSummary:
    """How wide the intervals of a table are.

    Attributes
    ----------
    rows : int
        Number of intervals.
    infinite : int
        Number of intervals without ends, which hold every number.
    mean_width, median_width : float or None
        Mean and median width of the others; None if there are none.
    """

    rows: int
    infinite: int
    mean_width: float | None
    median_width: float | None

    def warnings(
        self, calibrated: tuple[float, float] | None = None, epsilon: float | None = None
    ) -> list[str]:
        """Return what looks wrong.

        Parameters
        ----------
        calibrated : tuple of float, optional
            Lowest and highest score in calibration; not used.
        epsilon : float, optional
            Miss rate that the guarantee allows; not used.

        Returns
        -------
        list of str
            A sentence for each finding.
        """
        if not self.infinite:
            return []
        which = "All" if self.infinite == self.rows else f"{self.infinite} of {self.rows}"
        return [
            f"{which} intervals are infinite: the calibration tasks were too few or too small for "
            "a finite threshold."
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them.

        Returns
        -------
        dict
            The attributes.
        """
        return dict(vars(self))


def find_ends(promise: ThresholdSets, residuals: Residuals) -> tuple[Any, Any]:
    """Return the ends of each interval, as ``predict_interval`` computes them.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    residuals : Residuals
        Predictions and scales.

    Returns
    -------
    lower, upper : Ibis expressions
        The ends, rounded outwards.
    """
    if promise.classes_ is not None:
        raise InvalidInput("intervals need one threshold, and a guarantee per class has several.")
    widest, relative, absolute = sets.interval_radius(promise.threshold_, promise.precision_)
    if widest == math.inf:
        end = ibis.literal(math.inf, "float64")
        return -end, end
    centre, radius = residuals.prediction, exact(widest)
    if residuals.scale is not None:
        radius = radius * residuals.scale
    radius = radius + exact(relative) * (centre.abs() + radius) + exact(absolute)
    return centre - radius, centre + radius


def summarise_intervals(source: Source, lower: Any, upper: Any) -> IntervalSummary:
    """Return how wide intervals are, counted inside the engine.

    Parameters
    ----------
    source : Source
        The open table.
    lower, upper : Ibis expressions
        Their ends.

    Returns
    -------
    IntervalSummary
        The summary.
    """
    width = upper - lower
    table = source.table.select(width=width)
    is_finite = table.width <= exact(float(np.finfo(np.float64).max))
    finite = table.filter(is_finite)
    with source.reading():
        rows = source.run(table.agg(rows=table.count()))["rows"][0].as_py()
        found = source.run(finite.agg(rows=finite.count(), mean=finite.width.mean()))
        count, mean = (found[name][0].as_py() for name in ("rows", "mean"))
        median = _median(source, finite, count)
    return IntervalSummary(rows, rows - count, mean, median)


def _median(source: Source, table: Any, rows: int) -> float | None:
    """Return the median width, also on an engine that cannot compute one."""
    if not rows:
        return None
    if source.traits.has_median:
        middle = table.agg(width=table.width.median())
    else:
        middle = table.order_by("width").limit(2 - rows % 2, offset=(rows - 1) // 2)
    values = source.run(middle)["width"].to_pylist()
    return float(sum(values) / len(values))
