"""Columns of tables that ``metapac score`` wrote, so that users need not type them."""

from __future__ import annotations

from typing import Any

from metapac.exceptions import InvalidInput
from metapac.scoring.provenance import Provenance

_SCORES = ("score", "label", "columns", "classes", "classes_column", "prediction", "y", "scale")


def fill_calibration(
    origin: Provenance | None, given: dict[str, Any], *, per_class: bool
) -> dict[str, Any]:
    """Return the columns to calibrate on: those given, otherwise those that the table names.

    Parameters
    ----------
    origin : Provenance or None
        Where the scores come from.
    given : dict
        Columns by parameter of ``calibrate_table``, and ``id``; None if not given.
    per_class : bool
        Whether the guarantee holds for each class.

    Returns
    -------
    dict
        The columns, with a task.

    Raises
    ------
    InvalidInput
        If there is no task column.
    """
    columns = {} if origin is None else dict(origin.columns)
    filled = _fill(given, columns, ("task", "id"))
    if filled["task"] is None:
        raise InvalidInput(
            "Missing option '--task', the column with the task of each example. Only tables that "
            "'metapac score' wrote name it themselves."
        )
    if any(_is_given(name, given[name]) for name in _SCORES):
        return filled
    wanted = ["score"]
    if per_class:
        wanted += ["label", "classes"]
    elif "classes_column" in columns:  # stored in the promise, for new tables that do not say
        wanted += ["columns", "classes_column"]
    return filled | {name: columns[name] for name in wanted if name in columns}


def fill_new(
    origin: Provenance | None, given: dict[str, Any], *, labelled: bool, per_class: bool
) -> dict[str, Any]:
    """Return the columns of new tasks: those given, otherwise those that the table names.

    Parameters
    ----------
    origin : Provenance or None
        Where the scores come from.
    given : dict
        Columns by parameter of ``predict_table`` or ``evaluate_table``; None if not given.
    labelled : bool
        Whether the true labels are read too.
    per_class : bool
        Whether the guarantee holds for each class.

    Returns
    -------
    dict
        The columns. What is None is taken from the calibration.
    """
    if origin is None:
        return given
    columns = dict(origin.columns)
    filled = _fill(given, columns, ("task", "id"))
    if any(_is_given(name, given[name]) for name in _SCORES if name in given):
        return filled
    wanted = ["columns", *(["label"] if labelled else [])]
    wanted += [] if per_class else ["classes", "classes_column"]
    return filled | {name: columns[name] for name in wanted if name in columns}


def _fill(given: dict[str, Any], columns: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    missing = [name for name in names if name in given and given[name] is None]
    return given | {name: columns.get(name) for name in missing}


def _is_given(name: str, value: Any) -> bool:
    return value is not None and not (name == "columns" and value == "p_*")
