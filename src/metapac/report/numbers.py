"""Numbers of an evaluation, the same wherever a report shows them."""

from __future__ import annotations

import numpy as np

from metapac.assessment.evaluation import Evaluation


def count_within(evaluation: Evaluation) -> int:
    """Return the number of tasks whose share missed is at most what is allowed.

    Parameters
    ----------
    evaluation : Evaluation
        Labelled new tasks, with one limit for all classes.

    Returns
    -------
    int
        The number.
    """
    return int(np.count_nonzero(evaluation.errors <= evaluation.epsilon))


def format_size(size: float) -> str:
    """Return a mean number of labels, with as many digits everywhere.

    Parameters
    ----------
    size : float
        The number.

    Returns
    -------
    str
        The number as text.
    """
    return f"{size:,.2f}"


def format_width(width: float) -> str:
    """Return a width of intervals, with as many digits everywhere.

    Parameters
    ----------
    width : float
        The width.

    Returns
    -------
    str
        The width as text.
    """
    return f"{width:,.4g}"
