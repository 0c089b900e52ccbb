"""Numbers and their predictions: scores whose sets are intervals, and the columns that say so."""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from metapac import _checks, _ids
from metapac._columns import find_names
from metapac._types import Floats
from metapac.exceptions import InvalidInput, Parameter
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
    scores = residual_scores(y, prediction, 1.0 if scale is None else scale)
    if scores.ndim != 1:
        raise InvalidInput(
            "{} must be one-dimensional, got shape {}. Pass one number for each example.",
            Parameter("y"),
            scores.shape,
        )
    _checks.check_same_index("y", y, "tasks", tasks)
    _checks.check_same_length("y", scores, "tasks", _ids.as_task_ids(tasks))
    return scores


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
