"""Tables in words: which column holds what, and how to read it. No engine is imported here."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from metapac._common import brief, check_bool, check_one_of, require
from metapac.errors import InvalidInput

if TYPE_CHECKING:
    from metapac.tables.table import Table

_SEPARATOR = r'(?![^\W_])[^"\r\n\0\ud800-\udfff]'  # neither a letter nor a digit
_LIKE_UTF8 = ("ascii", "utf-8-sig")  # read as UTF-8, with or without a byte order mark
NUMBERS = ("prediction", "y", "scale", "lower", "upper")
_SCORES = ("score", "label", "columns", "classes", "classes_column")
_LISTS = ("columns", "classes", "losses", "thresholds")
_OF_LOSSES = ("losses", "thresholds", "id")
_OTHERS = ("score", "label", "columns", "classes", "prediction", "lower")


def hold_numbers(columns: Mapping[str, Any] | None) -> bool:
    """Return whether stored columns are those of regression, whose sets are intervals."""
    return not {"prediction", "lower"}.isdisjoint(columns or {})


def hold_losses(columns: Mapping[str, Any] | None) -> bool:
    """Return whether stored columns are those of losses, whose mean on a task is its risk."""
    return "losses" in (columns or {})


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns of a table; for new tables, what is left out is as in calibration.

    A table has a row for each example: its task, and either the score of its true label (``score``)
    or its true label and a score for each class (``label``, ``columns``). For regression it has the
    predicted and the true number (``prediction``, ``y``), or two predicted quantiles and the true
    number (``lower``, ``upper``, ``y``). For a risk it has a loss at each of some thresholds
    (``losses``, ``thresholds``) and a key (``id``).

    Parameters
    ----------
    task : str, optional
        Column with the task of each row.
    score : str, optional
        Column with the score of the true label; higher means more plausible.
    label : str, optional
        Column with the true label. Without ``score``, the score of a row is that of its label
        among the class scores in ``columns``. With ``score``, which needs ``per_class``, it only
        names the class.
    columns : str or sequence of str, optional
        Columns with a score for each class: a pattern such as ``p_*``, where the star is the name
        of the class; a list of columns; or one column that holds lists. By default ``p_*``.
    classes : sequence, optional
        Names of the classes: they select some of the columns that match, or name the columns that
        are listed, in the same order, or the positions in the lists, which are 0, 1, ... by
        default. With ``score`` and ``label``, all labels by default.
    classes_column : str, optional
        Column with the list of classes of each row, in the order of the lists of scores in
        ``columns``; for tasks with different numbers of classes.
    prediction : str, optional
        For regression: column with the predicted number. The score is then
        ``-|y - prediction| / scale``, as in ``residual_scores``, and sets are intervals.
    y : str, optional
        Column with the true number, beside ``prediction``, or ``lower`` and ``upper``.
    scale : str, optional
        Column with the scale of each residual, a positive number; 1 by default.
    lower, upper : str, optional
        For regression from quantiles, instead of ``prediction``: columns with a low and a high
        predicted quantile. The score is ``min(y - lower, upper - y)``, as in ``quantile_scores``.
    losses : str or sequence of str, optional
        For `MetaRisk`: columns with the loss of each row, one for each of ``thresholds``: a pattern
        such as ``loss_*``, which takes them in the order of the table, or a list of columns.
    thresholds : sequence of float, optional
        Thresholds of these columns, ascending and in the same order.
    cluster : str, optional
        Column with the cluster of each task, such as its hospital group. Tasks of one cluster may
        depend on each other. One random task of each cluster is calibrated on or judged, and the
        guarantee is for new tasks of new clusters.
    within : str, optional
        Column with the unit of each row within its task, such as its household or patient. Rows of
        one unit may depend on each other. One random row of each unit is calibrated on or judged,
        and the guarantee is for a random row of a random unit.
    id : str, optional
        Column that identifies the examples of a task, in which duplicates are searched. Without
        it, rows that are equal are. With ``losses`` it is needed: the key of each example.

    Examples
    --------
    >>> from metapac import Columns
    >>> Columns(task="site", label="outcome").pattern
    'p_*'
    """

    task: str | None = None
    score: str | None = None
    label: str | None = None
    columns: str | Sequence[str] | None = None
    classes: Sequence[Any] | None = None
    classes_column: str | None = None
    prediction: str | None = None
    y: str | None = None
    scale: str | None = None
    lower: str | None = None
    upper: str | None = None
    losses: str | Sequence[str] | None = None
    thresholds: Sequence[Any] | None = None
    cluster: str | None = None
    within: str | None = None
    id: str | None = None
    reserved: ClassVar[tuple[str, ...]] = ()  # other columns without class scores
    calibrated_score: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        for field in ("columns", "losses"):
            names = getattr(self, field)
            if not isinstance(names, str | None):
                names = names if isinstance(names, Iterable) else (names,)
                names = tuple(str(name) if isinstance(name, str) else name for name in names)
                object.__setattr__(self, field, names)  # plain strings, such as JSON holds
        for text, parameter in self._problems():
            raise InvalidInput(text, parameter=parameter)

    def _problems(self) -> Iterator[tuple[str, str | tuple[str, str]]]:
        """Yield what is wrong, and the arguments that it is about."""
        for field in fields(Columns):
            name, value = field.name, getattr(self, field.name)
            if name not in _LISTS and not isinstance(value, str | None):
                kind = type(value).__name__
                yield f"{name} must be the name of a column as a string, got {kind}.", name
        for listed_names in (x for x in (self.columns, self.losses) if isinstance(x, tuple)):
            yield from _check_listed(listed_names)
        if self.losses is not None and any(getattr(self, name) is not None for name in _OTHERS):
            yield f"losses is for a risk: leave out {', '.join(_OTHERS)}.", "losses"
        if self.classes_column is not None:
            if self.classes is not None:
                yield "classes_column gives the classes of each row: leave out classes.", "classes"
            if not isinstance(self.pattern, str) or "*" in self.pattern:
                text = "classes_column needs a column of lists of scores as columns"
                yield f"{text}, got {self.pattern!r}.", "columns"
        for name in ("task", "score", "label", *NUMBERS, "cluster"):
            if self.within is not None and getattr(self, name) == self.within:
                text = f"within and {name} must name different columns, got {self.within!r} for"
                yield f"{text} both: within holds units such as households.", ("within", name)
        yield from self._problems_of_numbers()

    def _problems_of_numbers(self) -> Iterator[tuple[str, str | tuple[str, str]]]:
        yield from self._problems_of_quantiles()
        if not self.is_regression:
            for name in ("y", "scale"):
                if getattr(self, name) is not None:
                    text = f"{name} needs prediction, the column with the predicted number,"
                    text += " or lower and upper." if name == "y" else " and no quantiles."
                    yield f"{text} For classes, pass label.", (name, "label")
            return
        kind = "prediction" if self.lower is None else "lower"
        for name in ("score", "label", "classes", "classes_column"):
            if getattr(self, name) is not None:
                true = " The true number is y." if name == "label" else ""
                yield f"{kind} is for regression, and {name} for other scores.{true}", name
        for name, other in (*((name, "y") for name in NUMBERS if name != "y"), ("lower", "upper")):
            both = getattr(self, name)
            if both is not None and both == getattr(self, other):
                text = f"{name} and {other} must name different columns, got {both!r} for both"
                why = ": the true value of a new row is not known" if other == "y" else ""
                yield f"{text}{why}.", (name, other)

    def _problems_of_quantiles(self) -> Iterator[tuple[str, tuple[str, str]]]:
        if (self.lower is None) != (self.upper is None):
            given, other = ("upper", "lower") if self.lower is None else ("lower", "upper")
            text = f"{given} needs {other}: regression from quantiles takes a low and a high one."
            yield text, ("lower", "upper")
        for name in ("prediction", "scale"):
            if self.lower is not None and getattr(self, name) is not None:
                text = "pass either prediction and perhaps scale, or lower and upper, which give"
                yield f"{text} another score: got {name} and lower.", (name, "lower")

    @property
    def is_regression(self) -> bool:
        """Whether numbers are predicted, so that sets are intervals."""
        return self.prediction is not None or self.lower is not None

    @property
    def pattern(self) -> str | Sequence[str]:
        """The columns with a score for each class."""
        return "p_*" if self.columns is None else self.columns

    @property
    def not_classes(self) -> set[str | None]:
        """Columns that are not scores of a class."""
        return {self.task, self.label, self.cluster, self.within, *self.reserved}

    @property
    def score_columns(self) -> set[str]:
        """Columns with scores of true labels, here or in calibration."""
        return {name for name in (self.score, self.calibrated_score) if name is not None}


def encode_columns(columns: Columns, classes: Sequence[Any] | None) -> dict[str, Any]:
    """Return the columns and classes that were used, for a promise file.

    Classes are those that have scores; None if only true labels have, empty if they differ from row
    to row.
    """
    more = () if columns.losses is None else _OF_LOSSES
    names = ("task", "score", "label", *NUMBERS, "cluster", "within", *more)
    used = {name: getattr(columns, name) for name in names}
    pattern = columns.pattern
    if columns.classes_column is not None:
        used |= {"columns": pattern, "classes_column": columns.classes_column}
    elif classes is not None:
        listed_columns = pattern if isinstance(pattern, str) else list(pattern)
        used |= {"columns": listed_columns, "classes": list(classes) or None}
    return {name: value for name, value in used.items() if value is not None}


def resolve_columns(
    columns: Columns, stored: Mapping[str, Any], classes: Sequence[Any] | None
) -> Columns:
    """Return the columns of new tasks; those left out are the ones stored in calibration.

    With a guarantee per class, ``classes`` are the classes.
    """
    chosen = {field.name: getattr(columns, field.name) for field in fields(Columns)}
    given = {name for name, value in chosen.items() if value is not None}
    are_numbers = hold_numbers(stored) and not given.intersection(_SCORES)
    are_numbers = are_numbers or bool(given.intersection(NUMBERS))
    if not are_numbers:
        chosen |= _resolve_scores(columns, stored, classes)
    more = NUMBERS if are_numbers else _OF_LOSSES if hold_losses(stored) else ()
    for name in ("task", "cluster", "within", "columns", *more):
        chosen[name] = stored.get(name) if chosen[name] is None else chosen[name]
    kinds = ("task", "label", "cluster", "within")
    reserved = tuple(stored[name] for name in kinds if name in stored)
    return _NewColumns(**chosen, reserved=reserved, calibrated_score=stored.get("score"))


def _resolve_scores(
    columns: Columns, stored: Mapping[str, Any], classes: Sequence[Any] | None
) -> dict[str, Any]:
    """Return the columns of class scores, or of true scores; those left out as stored."""
    chosen: dict[str, Any] = {}
    if columns.score is None and columns.label is None:
        chosen |= {name: stored.get(name) for name in ("score", "label")}
    elif columns.label is None and classes is not None:
        chosen["label"] = stored.get("label")
    if columns.classes is not None or columns.classes_column is not None:
        return chosen
    if columns.columns is None or isinstance(columns.columns, str):
        chosen["classes"] = stored.get("classes", classes)
        return chosen | {"classes_column": stored.get("classes_column")}
    known = stored.get("columns")
    if isinstance(known, list) and {*known} == {*columns.columns}:  # in any order
        by_column = dict(zip(known, stored["classes"], strict=True))
        chosen["classes"] = [by_column[name] for name in columns.columns]
    return chosen


def without_labels(columns: Columns) -> Columns:
    """Return what tells the scores of new tasks that have no labels."""
    names = ("task", "columns", "classes", "classes_column", "prediction", "lower", "upper")
    return Columns(**{name: getattr(columns, name) for name in names})


@dataclass(frozen=True, kw_only=True)
class _NewColumns(Columns):
    """Columns of new tasks, which know those of the calibration."""

    reserved: tuple[str, ...] = ()  # type: ignore[misc]
    calibrated_score: str | None = None  # type: ignore[misc]


def _check_listed(names: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with columns that are listed one by one."""
    others = [type(name).__name__ for name in names if not isinstance(name, str)]
    if others or not names:
        text = "columns must be a pattern such as 'p_*', a column of lists, or a list of columns"
        yield f"{text}, got {others[0] if others else 'an empty list'}.", "columns"
    if len({*names}) < len(names):
        yield f"columns must name each column once, got {', '.join(names)}.", "columns"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a table that is not written as usual, and with which engine.

    Parameters
    ----------
    table : str, optional
        Table of a database, or sheet of a workbook.
    separator : str, optional
        Character between the columns of a CSV file; by default a tab in .tsv files and a comma in
        all others.
    decimal : {".", ","}, default "."
        Decimal character of numbers in a CSV file.
    encoding : str, default "utf-8"
        Encoding of a CSV file, such as "latin-1", "windows-1252" or "utf-16".
    views : bool, default False
        Whether to read views of a DuckDB or SQLite file, and tables of a DuckDB file that have
        generated columns. A view can read other files: pass True only if you trust the file.
    connection : Ibis connection, optional
        The engine that reads files and frames, from ``metapac.tables.connect``. By default DuckDB
        in this process.

    Examples
    --------
    >>> from metapac import Reading
    >>> Reading(separator=";", decimal=",", encoding="Latin-1").encoding
    'iso8859-1'
    """

    table: str | None = None
    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    views: bool = False
    connection: Any = None

    def __post_init__(self) -> None:
        mark = ";" if self.separator is None else self.separator
        if not (isinstance(mark, str) and re.fullmatch(_SEPARATOR, mark)):
            text = f"separator must be one character such as ';', '|' or a tab, got {mark!r}."
            raise InvalidInput(text)
        check_one_of("decimal", self.decimal, (".", ","))
        check_bool("views", self.views)
        try:
            "".encode(self.encoding)
            name = codecs.lookup(self.encoding).name  # one encoding has one name
        except (LookupError, TypeError, ValueError):
            text = f"encoding must be a text encoding such as 'utf-16', got {self.encoding!r}."
            raise InvalidInput(text) from None
        object.__setattr__(self, "encoding", "utf-8" if name in _LIKE_UTF8 else name)


def open_table(
    source: Any, columns: Columns | None = None, reading: Reading | None = None
) -> Table:
    """Open a table of scores, for ``calibrate``, ``predict``, ``evaluate`` and the other verbs.

    Parameters
    ----------
    source : path, list of paths, frame, Ibis table or Ibis connection
        A path, glob or folder of Parquet, CSV, JSON lines or Arrow files, or a list of them; an
        Excel workbook; a DuckDB or SQLite file, or the address of a database; a pandas, polars or
        pyarrow frame, or a dict of columns; an Ibis table or connection.
    columns : Columns, optional
        Which column holds what. For new tasks, what is left out is as in calibration.
    reading : Reading, optional
        How to read a table that is not written as usual, and with which engine.

    Returns
    -------
    Table
        The open table. Used as a context manager, it closes a connection that it opened.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac import Columns, MetaPS, open_table
    >>> frame = pd.DataFrame({"site": [i % 40 for i in range(2000)], "score": range(2000)})
    >>> table = open_table(frame, Columns(task="site", score="score"))
    >>> MetaPS(epsilon=0.1, alpha=0.1, delta=0.1).calibrate(table).threshold_
    120.0
    """
    for name, value, kind in (("columns", columns, Columns), ("reading", reading, Reading)):
        if not isinstance(value, kind | None):
            rule = f"{name} must be a metapac.{kind.__name__}"
            raise InvalidInput(f"{rule}, got {brief(value)}.")
    tables = require("metapac.tables.table", extra="tables", purpose="reading tables")
    opened: Table = tables.Table.open(source, columns or Columns(), reading or Reading())
    return opened
