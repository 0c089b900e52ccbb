"""Rows of whatever scikit-learn takes: arrays, data frames, sparse matrices, tensors, lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from metapac._checks import brief, check_same_index, check_same_length
from metapac._types import Array, Counts, Floats
from metapac._warnings import warn
from metapac.exceptions import InvalidInput, Parameter
from metapac.meaning.findings import MIN_ROWS

Respond = Callable[[Any], Floats]  # from rows to the scores of all labels, or to predictions


class Examples(NamedTuple):
    """Labelled examples: features, target and group of each row."""

    x: Any
    y: Array
    groups: Array

    def take(self, rows: Counts) -> Self:
        """Return some of the rows."""
        return type(self)(take_rows(self.x, rows), self.y[rows], self.groups[rows])


def count_rows(name: str, x: Any) -> int:
    """Return the number of rows."""
    if hasattr(x, "__array__") and not hasattr(x, "shape"):
        x = np.asarray(x)
    if hasattr(x, "shape") and x.shape:
        return int(x.shape[0])
    if hasattr(x, "shape") or not hasattr(x, "__len__") or isinstance(x, str | bytes | dict):
        raise InvalidInput(
            "{} must have an entry for each example, got {}.", Parameter(name), brief(x)
        )
    return len(x)


def take_rows(x: Any, rows: Counts) -> Any:
    """Return some rows by position, in the type of ``x``."""
    if hasattr(x, "iloc"):  # pandas
        return x.iloc[rows]
    if hasattr(x, "tocsr"):  # SciPy; some sparse formats have no rows to take
        return x.tocsr()[rows]
    if hasattr(x, "take") and hasattr(x, "schema"):  # pyarrow
        return x.take(rows)
    if hasattr(x, "shape") and hasattr(x, "__getitem__"):  # NumPy, polars, torch
        return x[rows]
    if hasattr(x, "__array__"):
        return np.asarray(x)[rows]
    return [x[i] for i in rows.tolist()]


def score_rows(respond: Respond, x: Any) -> Floats:
    """Return the output of a model for all rows; check two rows scored alone."""
    output = respond(x)
    for row in {0, len(output) - 1}:
        alone = respond(take_rows(x, np.array([row])))[0]
        if not np.allclose(alone, output[row], rtol=1e-3, atol=1e-6):
            raise InvalidInput(
                f"the model gives row {row} the output {alone} alone and "
                f"{output[row]} among others. The rows of a group are then not independent, and no "
                "guarantee holds. Use a model that looks at one row at a time and is not random."
            )
    return output


def check_rows(x: Any, **columns: Any) -> None:
    """Raise unless every column, whose index is compared too, has an entry for each row of X."""
    rows = np.empty(count_rows("X", x))
    for name, column in columns.items():
        check_same_index("X", x, name, column)
        check_same_length("X", rows, name, np.empty(count_rows(name, column)))


def take_fit_params(params: dict[str, Any], length: int, rows: Counts) -> dict[str, Any]:
    """Return parameters of ``fit``; those with an entry for each example are cut to ``rows``."""
    return {
        name: take_rows(value, rows) if _has_length(value, length) else value
        for name, value in params.items()
    }


def _has_length(value: Any, length: int) -> bool:
    try:
        return count_rows("value", value) == length
    except InvalidInput:
        return False


def warn_if_perfect(scores: Floats, best: float) -> None:
    """Warn if every true label or value has the best possible score."""
    if len(scores) >= MIN_ROWS and (scores == best).all():
        warn(
            "every calibration row has the best possible score: the model has probably been "
            "trained on these rows, or X holds y. Calibrate on other groups, and name those that "
            "it was trained on: Context(trained_on=[...])."
        )


def warn_of_group_column(x: Any, groups: Any, ids: Array) -> None:
    """Warn if a column of X holds the groups, by its name or by its values."""
    name = getattr(groups, "name", None)
    if name is not None and name in list(getattr(x, "columns", ())):
        what = f"X holds the groups as its column {str(name)!r}"
    else:
        found = _find_column_like(x, ids)
        if found is None:
            return
        what = f"column {found!r} of X is the same within each group and differs between groups"
    warn(
        f"{what}. The model has never seen the name or number of a new group: leave such a column "
        "out of X."
    )


def _find_column_like(x: Any, ids: Array) -> Any:
    """Return the first column with one text or whole number for each group, and another for each.

    With less than two rows a group on average, that shows nothing.
    """
    first: dict[Any, int] = {}
    rows = np.array([first.setdefault(name, i) for i, name in enumerate(ids.tolist())])
    if len(first) < 2 or len(rows) < 2 * len(first):
        return None
    for name, column in _columns(x):
        is_constant = _has_codes(column) and np.array_equal(column, column[rows])
        if is_constant and len({*column[[*first.values()]].tolist()}) == len(first):
            return name
    return None


def _columns(x: Any) -> Iterator[tuple[Any, Array]]:
    """Yield the columns of a data frame or a matrix, each with its name or number."""
    names = getattr(x, "column_names", getattr(x, "columns", None))  # of pyarrow; of the others
    if names is not None:
        yield from ((name, np.asarray(x[name])) for name in list(names))
    elif isinstance(x, np.ndarray) and x.ndim == 2:
        yield from enumerate(x.T)


def _has_codes(column: Array) -> bool:
    """Return whether a column holds texts or whole numbers, which may be names of groups."""
    if column.ndim != 1 or column.dtype.kind not in "OUiuf":
        return False
    if column.dtype.kind == "f":
        return bool(np.all(column == np.floor(column)))
    return column.dtype.kind != "O" or all(isinstance(v, str | int) for v in column.tolist())


def as_support(support: Any, shots: int) -> tuple[Any, Any]:
    """Return features and targets of a new group's support, checked against ``shots``."""
    if not shots:
        if support is None:
            return None, None
        raise InvalidInput(
            "{} adapts the model to a group, but it was fitted with {}. Leave it out.",
            Parameter("support"),
            Parameter("shots", 0),
        )
    if not isinstance(support, tuple | list) or len(support) != 2:
        raise InvalidInput(
            "{} must be (X, y): the {} labelled examples of the new group that the model is "
            "adapted to, got {}.",
            Parameter("support"),
            shots,
            brief(support),
        )
    x, y = support
    check_rows(x, y=y)
    if count_rows("support", x) != shots:
        raise InvalidInput(
            "{} must hold {} examples, as many as each group was adapted to in calibration, got "
            "{}.",
            Parameter("support"),
            shots,
            count_rows("support", x),
        )
    return x, y
