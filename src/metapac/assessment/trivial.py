"""Guarantees that hold trivially: nothing can be missed, so new tasks have nothing to show."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from metapac.base import ThresholdSets
from metapac.calibration import MetaPS
from metapac.explanation.words import Words
from metapac.outcome import Part
from metapac.sample_size import min_sample_size
from metapac.shortage.shortfall import Shortfall
from metapac.verdict.verdict import Verdict


def mark_trivial(verdict: Verdict, promise: ThresholdSets) -> Verdict:
    """Return the verdict, which says so if there is nothing to check.

    Parameters
    ----------
    verdict : Verdict
        The verdict on labelled new tasks.
    promise : MetaPS or PS
        The calibrated predictor.

    Returns
    -------
    Verdict
        The same verdict, with ``trivial`` set where every label is kept, for each class too.

    Examples
    --------
    >>> from metapac import PS, judge
    >>> from metapac.assessment.trivial import mark_trivial
    >>> promise = PS(epsilon=0.1, delta=0.1, on_infeasible="trivial").calibrate([0.5, 0.9])
    >>> verdict = judge([40], [0], epsilon=0.1, alpha=None, delta=0.1)
    >>> print(mark_trivial(verdict, promise))
    Nothing to check: every label is kept, so none is missed. Calibrate on at least 22 examples.
    """
    reasons = _find_reasons(promise)
    if verdict.by_class is None:
        return replace(verdict, trivial=reasons.get(None, ""))
    parts = {
        label: replace(part, trivial=reasons.get(label, ""))
        for label, part in verdict.by_class.items()
    }
    units = Words.from_context(promise.context_).units
    together = f"every label is kept, so none is missed. Calibrate on more {units}."
    is_trivial = all(part.trivial for part in parts.values())
    return replace(verdict, by_class=parts, trivial=together if is_trivial else "")


def _find_reasons(promise: ThresholdSets) -> dict[Any, str]:
    """Return why nothing can be missed, for each class or, as None, for all; not if it can be."""
    words = Words.from_context(promise.context_)
    if isinstance(promise, MetaPS):
        is_interval = "prediction" in (promise.columns_ or {})
        parts = promise._evidence.parts(promise.guarantee_)
        return {
            part.label: f"{_describe(part.label, is_interval)}{_find_remedy(part, words)}"
            for part, outcome in zip(parts, promise._outcomes, strict=True)
            if outcome.threshold == -math.inf
        }
    if promise.threshold_ > -math.inf:
        return {}
    needed = words.count_examples(min_sample_size(float(promise.epsilon), promise.delta))
    return {None: f"{_describe(None, is_interval=False)} Calibrate on at least {needed}."}


def _describe(label: Any, is_interval: bool) -> str:
    if is_interval:
        return "every interval is infinite, so no number is missed."
    if label is not None:
        return "it is always kept, so it is never missed."
    return "every label is kept, so none is missed."


def _find_remedy(part: Part, words: Words) -> str:
    """Return how many calibration tasks are lacking; empty if these are not too few."""
    demand = part.demand()
    if demand.is_feasible():
        return ""
    shortfall = Shortfall(demand)
    tasks = f"{shortfall.to_add:,} more {words.unit if shortfall.to_add == 1 else words.units}"
    return f" Calibrate on {tasks} with at least {words.count_examples(shortfall.examples)} each."
