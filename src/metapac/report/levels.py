"""The same guarantee at other miss rates, recalibrated on the same scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from metapac import _checks
from metapac._types import Progress
from metapac.assessment.evaluation import Evaluation
from metapac.calibration import MetaPS
from metapac.exceptions import InfeasibleGuarantee, InvalidInput, Parameter
from metapac.meaning.findings import CHECKS
from metapac.report.data import Data

EPSILONS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3)


class Trial(NamedTuple):
    """A guarantee at one miss rate.

    Attributes
    ----------
    epsilon : float
        The miss rate.
    is_promised : bool
        Whether it is the miss rate that the promise is for.
    predictor : MetaPS or None
        The guarantee at this miss rate; None if the data are too few for it.
    evaluation : Evaluation or None
        Its evaluation on labelled new tasks, if there are any.
    """

    epsilon: float
    is_promised: bool
    predictor: MetaPS | None
    evaluation: Evaluation | None

    @property
    def thresholds(self) -> list[float]:
        """The threshold, or that of each class; none if the data are too few."""
        if self.predictor is None:
            return []
        if self.predictor.classes_ is None:
            return [self.predictor.threshold_]
        values: list[float] = self.predictor.thresholds_.tolist()
        return values


def explain_why_not(promise: Any, calibration: Data | None) -> str | None:
    """Return why other miss rates cannot be tried; None if they can.

    Parameters
    ----------
    promise : MetaPS, PS or MetaCP
        The guarantee.
    calibration : Data or None
        The scores that were calibrated on, if they were given.

    Returns
    -------
    str or None
        The reason.
    """
    if not isinstance(promise, MetaPS):
        return "Other values can be tried only for a guarantee for new tasks, that of MetaPS."
    if isinstance(promise.epsilon, Mapping):
        return "Each class has a value of its own here, so there is no single one to change."
    if calibration is None:
        return (
            "This report was made without the calibration scores. A promise file holds the "
            "thresholds at one value only, and those at other values cannot be computed from them. "
            "Make the report again with --calibration and the table that was calibrated on."
        )
    return None


def try_epsilons(
    promise: MetaPS,
    calibration: Data,
    labelled: Data | None,
    epsilons: Sequence[float],
    *,
    false_alarm: float,
    allow: Iterable[str],
    progress: Progress,
) -> list[Trial]:
    """Return what the guarantee would be at other miss rates, in ascending order.

    Parameters
    ----------
    promise : MetaPS
        The guarantee.
    calibration : Data
        The scores that it was calibrated on.
    labelled : Data or None
        Scores of labelled new tasks.
    epsilons : sequence of float
        Miss rates to try; that of the promise is added.
    false_alarm : float
        Probability that a verdict is wrong.
    allow : iterable of str
        Checks of the data to skip.
    progress : callable
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    list of Trial
        One for each miss rate.

    Raises
    ------
    InvalidInput
        If the scores are not those that were calibrated on.
    """
    own = promise.guarantee_.miss_rate
    rates = sorted({own, *(_checks.as_probability("epsilons", rate) for rate in epsilons)})
    # Only "overlap" changes what is counted; the other checks were made for the promise itself.
    skipped = [name for name in CHECKS if name != "overlap" or name in {*allow}]
    _check_same(promise, _calibrate(promise, calibration, own))
    trials = []
    for done, rate in enumerate(rates):
        progress(f"trying other miss rates, {rate:g}", done, len(rates))
        predictor = _calibrate(promise, calibration, rate)
        evaluation = None
        if predictor is not None and labelled is not None:
            with warnings.catch_warnings(action="ignore"):
                evaluation = labelled.evaluate(predictor, false_alarm=false_alarm, allow=skipped)
        trials.append(Trial(rate, rate == own, predictor, evaluation))
    return trials


def _calibrate(promise: MetaPS, calibration: Data, epsilon: float) -> MetaPS | None:
    with warnings.catch_warnings(action="ignore"):  # the remarks are shown for the promise itself
        try:
            return calibration.calibrate(promise, epsilon)
        except InfeasibleGuarantee:
            return None


def _check_same(promise: MetaPS, again: MetaPS | None) -> None:
    """Raise InvalidInput unless calibrating again gives the same thresholds on the same tasks."""
    if again is None:
        raise InvalidInput(
            "{} must hold the scores that were calibrated on, but holds too few for this "
            "guarantee. Pass the table that the promise file was made from.",
            Parameter("calibration"),
        )
    stated, found = (each._encoded_result()[1] for each in (promise, again))
    tasks = [{*map(str, each.tasks_.tolist())} for each in (promise, again)]
    if stated != found or tasks[0] != tasks[1]:
        differ = f"they give the threshold {found}, and the promise states {stated}"
        if tasks[0] != tasks[1]:
            other = sorted(tasks[0] ^ tasks[1])[0]
            differ = f"the task {other!r} is in only one of them"
        raise InvalidInput(
            "{} must hold the scores that were calibrated on: {}. Pass the table that the promise "
            "file was made from.",
            Parameter("calibration"),
            differ,
        )
