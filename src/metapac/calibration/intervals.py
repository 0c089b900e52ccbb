"""Numbers and their predictions: scores whose sets are intervals, and the columns that say so."""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from metapac import _checks, _ids, _scores
from metapac._columns import find_names
from metapac._types import Floats
from metapac._warnings import warn
from metapac.evidence import Evidence
from metapac.exceptions import InvalidInput, Message, Parameter
from metapac.meaning.findings import MIN_ROWS, CheckWarning
from metapac.sets import residual_scores


def score_numbers(
    y: ArrayLike,
    prediction: ArrayLike,
    tasks: ArrayLike | Iterable[object],
    scale: ArrayLike | None,
) -> Floats:
    """Return the residual scores of numbers that were predicted, one for each example.

    Parameters
    ----------
    y : array_like, shape (n,)
        True values.
    prediction : array_like, shape (n,)
        Predicted values.
    tasks : array_like, shape (n,)
        Task of each example.
    scale : array_like, shape (n,), or None
        Scale of each residual; None for 1.

    Returns
    -------
    ndarray, shape (n,)
        What ``calibrate`` takes.

    Raises
    ------
    InvalidInput
        If the arrays do not match.
    """
    scales = 1.0 if scale is None else scale
    target = _scores.as_number_array("y", y, beside_tasks=True)
    if target.ndim != 1:
        raise InvalidInput(
            "{} must be one-dimensional, got shape {}. Pass one number for each example.",
            Parameter("y"),
            target.shape,
        )
    if not len(target):
        raise InvalidInput("{} is empty; pass at least one labelled example.", Parameter("y"))
    for name, values in (("prediction", prediction), ("scale", scales)):
        array = _scores.as_number_array(name, values, beside_tasks=True)
        if array.ndim or name == "prediction":
            _checks.check_same_shape("y", target, name, array)
        _checks.check_same_index("y", y, name, values)
    _checks.check_same_index("y", y, "tasks", tasks)
    _checks.check_same_length("y", target, "tasks", _ids.as_task_ids(tasks))
    return residual_scores(y, prediction, scales)


def name_columns(
    y: ArrayLike,
    prediction: ArrayLike,
    tasks: ArrayLike | Iterable[object],
    scale: ArrayLike | None,
) -> dict[str, str]:
    """Return the columns that a table of these numbers has; they mark sets as intervals.

    Parameters
    ----------
    y : array_like
        True values.
    prediction : array_like
        Predicted values.
    tasks : array_like
        Task of each example.
    scale : array_like or None
        Scale of each residual.

    Returns
    -------
    dict
        Names by meaning: those of Series if all have one, otherwise "prediction", "y" and "scale".
    """
    numbers = {"prediction": prediction, "y": y} | ({} if scale is None else {"scale": scale})
    return {name: name for name in numbers} | find_names(task=tasks, **numbers)


def warn_if_exact(evidence: Evidence) -> None:
    """Warn if every prediction equals its true value, as a copied column does.

    Parameters
    ----------
    evidence : Evidence
        Evidence of residual scores, none of which is above 0. Few examples show nothing.
    """
    if evidence.lowest.min() == 0 and evidence.sizes.sum() >= MIN_ROWS:
        text = (
            "every prediction equals its true value. Is it a copy of the true value, or has the "
            "model been trained on these examples? Pass predictions for examples that it has not "
            "seen."
        )
        warn(CheckWarning(Message(text)))
