"""Predicted numbers in a table: the residual of each row as its score."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metapac.exceptions import InvalidInput, Parameter
from metapac.tables import _checks
from metapac.tables.class_scores import as_floats
from metapac.tables.columns import Columns
from metapac.tables.io.sources import Source
from metapac.tables.search.expressions import exact

_LARGEST = float(np.finfo(np.float64).max)


class Residuals(NamedTuple):
    """Prediction, scale and true value of each row, as expressions of float64.

    Attributes
    ----------
    prediction : Ibis expression
        Predicted values.
    y : Ibis expression or None
        True values; None if they are not known.
    scale : Ibis expression or None
        Scale of each residual; None for 1.
    columns : tuple of str
        Columns that hold them.
    """

    prediction: Any
    y: Any
    scale: Any
    columns: tuple[str, ...]

    def score(self) -> Any:
        """Return ``-|y - prediction| / scale``, as ``residual_scores`` computes it.

        Returns
        -------
        Ibis expression
            The scores.
        """
        score = -(self.y - self.prediction).abs()
        return score if self.scale is None else score / self.scale


def find_residuals(source: Source, columns: Columns, *, needs_y: bool) -> Residuals:
    """Return predictions, scales and true values, once all of them are known to be usable.

    Parameters
    ----------
    source : Source
        The open table.
    columns : Columns
        Its columns.
    needs_y : bool
        Whether true values are needed.

    Returns
    -------
    Residuals
        The expressions.

    Raises
    ------
    InvalidInput
        If a value is missing or infinite, or a scale is not positive.
    """
    if needs_y and columns.y is None:
        raise InvalidInput(
            "{} must name the column with the true value, beside {}.",
            Parameter("y"),
            Parameter("prediction"),
        )
    roles = {"prediction": columns.prediction, "y": columns.y, "scale": columns.scale}
    used = {
        role: name for role, name in roles.items() if name is not None and (needs_y or role != "y")
    }
    floats, _precision = as_floats(source, list(used.values()))
    parts = {role: part.cast("float64") for role, part in zip(used, floats, strict=True)}
    _check_values(source, columns, used, parts)
    get = parts.get
    return Residuals(get("prediction"), get("y"), get("scale"), tuple(used.values()))


def _check_values(
    source: Source, columns: Columns, used: dict[str, str], parts: dict[str, Any]
) -> None:
    """Raise InvalidInput for values that are missing or infinite, and scales of 0 or less."""
    flags = {}
    for role, part in parts.items():
        is_usable = part.between(exact(-_LARGEST), exact(_LARGEST))
        if role == "scale":
            is_usable &= part > 0
        flags[role] = is_usable.fill_null(False)
    table = source.table.select(**flags)
    counts = {role: table.count(where=~table[role]) for role in flags}
    names = tuple(used.values())
    with source.reading(names, columns.task):
        result = source.run(table.agg(rows=table.count(), **counts))
        rows, *bad = (column[0].as_py() for column in result.columns)
        if any(bad):
            source.check_text(names, columns.task)
    for role, count in zip(flags, bad, strict=True):
        if count:
            kind = "positive numbers" if role == "scale" else "finite numbers"
            others = "zero, negative, " if role == "scale" else ""
            raise InvalidInput(
                f"{source.name}: column {used[role]!r} must hold {kind}, got {others}missing or "
                f"infinite values in {count} of {_checks.pluralize(rows, 'row')}. Drop or mend "
                "those rows."
            )
