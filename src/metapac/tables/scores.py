"""Scores in tables: by column, as lists, or as residuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import ibis
import numpy as np
from ibis import _

from metapac._common import Table, listed
from metapac.columns import Columns
from metapac.errors import InvalidInput
from metapac.grouping import as_cluster, check_one_cluster
from metapac.inputs import advise_on_labels
from metapac.tables import errors
from metapac.tables.columns import Keys, get_id_column
from metapac.tables.expressions import add_up, as_int, constant_list, exact, pick
from metapac.tables.sources import Source

Precision = np.dtype[np.floating[Any]]


class ScoreLists(NamedTuple):
    """A column of lists of scores."""

    lists: Any
    precision: Precision
    names: list[Any]
    row_names: Any = None


def read_lists(source: Source, columns: Columns, column: str, by_class: bool) -> ScoreLists:
    """Return the lists of a column, after checking their lengths."""
    lists = errors.get_column(source, column)
    _check_list_type(source, column, lists.type())
    if columns.classes_column is not None:
        return _with_names(source, lists, column, columns.classes_column)
    names = None if columns.classes is None else errors.class_names(columns.classes)
    if names is None:
        lists = _drop_padding(source, columns, lists, column)
    shortest, longest = _find_lengths(source, lists, column)
    if names is None and shortest < longest:
        return _with_positions(source, lists, column, shortest, by_class)
    names = list(range(longest)) if names is None else names
    if not shortest == longest == len(names) > 0:
        lengths = f"s from {shortest} to {longest}" if shortest < longest else f" {longest}"
        raise InvalidInput(
            f"{source.name}: the lists of column {column!r} must have one score for each of "
            f"{len(names)} classes, got length{lengths}."
        )
    check_several(source, column, names)
    return ScoreLists(*_as_float_lists(lists), names)


def check_several(source: Source, pattern: str, names: Sequence[Any]) -> None:
    """Raise InvalidInput if there is a single class, which leaves nothing to choose."""
    if len(names) == 1:
        raise InvalidInput(
            f"{source.name}: {pattern!r} gives scores of one class only, {names[0]!r}, and a set "
            "needs a choice of at least two. Add a column for each other class, such as 1 - p."
        )


def _find_lengths(source: Source, lists: Any, column: str) -> tuple[int, int]:
    """Return the least and the largest length of a list; raise if a row has no list."""
    table = source.table.select(size=lists.length())
    with source.reading():
        found = source.run(
            table.agg(
                shortest=table.size.min(),
                longest=table.size.max(),
                absent=table.count(where=table.size.isnull()),
            )
        )
    if absent := found["absent"][0].as_py():
        raise InvalidInput(
            f"{source.name}: column {column!r} must hold a list of scores in every row, and holds "
            f"none in {errors.pluralize(absent, 'row')}. Drop those rows."
        )
    return found["shortest"][0].as_py() or 0, found["longest"][0].as_py() or 0


def _with_positions(
    source: Source, lists: Any, column: str, shortest: int, by_class: bool
) -> ScoreLists:
    """Return lists of different lengths, in which a class is a position."""
    problem = f"{source.name}: the lists of column {column!r}"
    if by_class:
        raise InvalidInput(
            f"{problem} differ in length, so that a position is not the same class in every row, "
            "and per_class=True needs one fixed list of classes."
        )
    if shortest < 2:
        raise InvalidInput(
            f"{problem} must hold at least two scores, since a set needs a choice, got one with "
            f"{shortest}."
        )
    positions = ibis.range(0, lists.length().cast("int64"))
    return ScoreLists(*_as_float_lists(lists), [], positions)


def _drop_padding(source: Source, columns: Columns, lists: Any, column: str) -> Any:
    """Return lists without the nulls after their last score, if they have any.

    A list with a null before a score stays as it is: a missing score, which is an error later.
    """
    used = lists.filter(lambda score: score.notnull())
    padded = (lists.length() > used.length()) & lists[: used.length()].filter(
        lambda score: score.isnull()
    ).length().isin([0])
    table = source.table.select(is_padded=padded.fill_null(False))
    with source.reading():
        count = source.run(table.agg(rows=table.count(where=table.is_padded)))["rows"][0].as_py()
    if not count:
        return lists
    _check_padding(source, columns, used.length(), column)
    return padded.fill_null(False).ifelse(used, lists)


def _check_padding(source: Source, columns: Columns, size: Any, column: str) -> None:
    """Raise InvalidInput if the rows of a task differ in their number of scores before nulls."""
    if columns.task is None or columns.task not in source.table.columns:
        return
    table = source.table.select(task=source.table[columns.task], size=size)
    sizes = table.group_by("task").agg(low=table.size.min(), high=table.size.max())
    with source.reading():
        found = source.run(sizes.filter(sizes.low < sizes.high).order_by("task").limit(1))
    if len(found):
        task, low, high = (found[name][0].as_py() for name in ("task", "low", "high"))
        raise InvalidInput(
            f"{source.name}: the lists of column {column!r} end in nulls after {low} to {high} "
            f"scores in task {task!r}; a task must have one number of classes, or a null is a "
            "missing score. Give a label without a score inf, so that it is kept."
        )


def _with_names(source: Source, lists: Any, column: str, names_column: str) -> ScoreLists:
    """Return lists of scores beside lists of class names, which may differ from row to row."""
    names = errors.get_column(source, names_column)
    kind = names.type()
    if not (kind.is_array() and (kind.value_type.is_string() or kind.value_type.is_integer())):
        raise InvalidInput(
            "classes_column must name a column of lists of strings or integers, got "
            f"{names_column!r}, which is {kind} in {source.name}.",
            parameter="classes_column",
        )
    _check_two_lists(source, column, names_column)
    return ScoreLists(*_as_float_lists(lists), [], names)


def _check_two_lists(source: Source, column: str, names_column: str) -> None:
    """Raise InvalidInput unless the lists of each row fit, with distinct names."""
    lists, names = source.table[column], source.table[names_column]
    problems = {
        "no list, or no class": (lists.length() > 0) & (names.length() > 0),
        "lists of different lengths": lists.length() == names.length(),
        "a class without a name": names.filter(lambda name: name.isnull()).length() == 0,
        "a class twice": names.unique().length() == names.length(),
    }
    flags = {f"flag{i}": fits.fill_null(False) for i, fits in enumerate(problems.values())}
    table = source.table.select(**flags)
    with source.reading():
        counts = source.run(table.agg(**{name: table.count(where=~table[name]) for name in flags}))
    for problem, count in zip(problems, counts.columns, strict=True):
        if rows := count[0].as_py():
            raise InvalidInput(
                f"{source.name}: columns {column!r} and {names_column!r} must hold a score and a "
                f"name for each class of a row, got {problem} in {errors.pluralize(rows, 'row')}."
            )


def _as_float_lists(lists: Any) -> tuple[Any, Precision]:
    kind = lists.type().value_type
    if not (kind.is_float32() or kind.is_float64()):
        lists = lists.map(lambda score: score.cast("float64"))
    return lists, np.dtype("float32" if kind.is_float32() else "float64")


def _check_list_type(source: Source, column: str, kind: Any) -> None:
    if not (kind.is_array() and (kind.value_type.is_floating() or kind.value_type.is_integer())):
        raise InvalidInput(
            "columns must contain one star, such as 'p_*', or name a column of lists of numbers, "
            f"got {column!r}, which is {kind} in {source.name}.",
            parameter="columns",
        )


# The texts that Python parses as numbers, apart from NaN.
_NUMBER = r"(?i)^\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)\s*$"
# More columns than this are gathered into a list, so that expressions do not grow with them.
FEW_CLASSES = 50


@dataclass(frozen=True)
class ClassScores:
    """A score for each class in each row, as expressions of one precision."""

    names: list[Any]
    columns: tuple[str, ...]
    precision: Precision
    each: list[Any] | None = None
    lists: Any = None
    row_names: Any = None

    @property
    def width(self) -> Any:
        """Number of classes of each row, as an expression."""
        if self.row_names is not None:
            return self.row_names.length()
        return ibis.literal(len(self.names))

    @cached_property
    def scores(self) -> list[Any]:
        """The scores of each class."""
        if self.each is not None:
            return self.each
        return [self.lists[position] for position in range(len(self.names))]


def find_class_scores(source: Source, columns: Columns, by_class: bool = False) -> ClassScores:
    """Return the scores of all classes: from the columns that match, or a column of lists."""
    found = _read_class_scores(source, columns, by_class)
    if found.lists is None or _can_use_lists(source, by_class):
        return found
    return replace(found, each=found.scores, lists=None)


def _can_use_lists(source: Source, by_class: bool) -> bool:
    """Return whether one expression can handle all classes.

    A threshold for each class needs their positions, which Ibis lets PostgreSQL use only once in a
    query.
    """
    return source.traits.has_lists and (source.traits.has_positions or not by_class)


def _read_class_scores(source: Source, columns: Columns, by_class: bool) -> ClassScores:
    pattern, classes = columns.pattern, columns.classes
    if by_class and columns.classes_column is not None:
        raise InvalidInput(
            "classes_column cannot be combined with per_class=True: a guarantee for each class "
            "needs one fixed list of classes, the same in every task."
        )
    if not isinstance(pattern, str):
        return _from_columns(source, columns, tuple(pattern), by_class)
    if "*" not in pattern:
        found = read_lists(source, columns, pattern, by_class)
        return ClassScores(
            found.names,
            (pattern,),
            found.precision,
            lists=found.lists,
            row_names=found.row_names,
        )
    if pattern.count("*") > 1:
        raise InvalidInput(
            f"columns must contain one star, such as 'p_*', got {pattern!r}.", parameter="columns"
        )
    matches = _match_columns(source, columns, pattern)
    names = list(matches) if classes is None else errors.class_names(classes)
    wanted = [matches.get(str(name), pattern.replace("*", str(name))) for name in names]
    return _from_names(source, pattern, names, wanted, by_class)


def as_floats(source: Source, names: Sequence[str]) -> tuple[list[Any], Precision]:
    """Return columns as floats of one precision."""
    columns = _number_columns(source, names)
    if source.is_text:
        return [_parse(source, column) for column in columns], np.dtype(np.float64)
    if source.traits.mixes_types:
        numbers = ["real", "integer"]
        columns = [
            column.typeof().isin(numbers).ifelse(column.cast("float64"), ibis.null())
            for column in columns
        ]
    if all(column.type().is_float32() for column in columns):
        return columns, np.dtype(np.float32)
    return [column.cast("float64") for column in columns], np.dtype(np.float64)


def is_usable(source: Source, score: Any) -> Any:
    """Return whether a score is neither null nor NaN."""
    return score.notnull() & ~score.isnan() if source.traits.has_nan else score.notnull()


def _number_columns(source: Source, names: Sequence[str]) -> list[Any]:
    """Return columns of numbers, or of text in CSV."""
    columns = [errors.get_column(source, name) for name in names]
    if not source.is_text:
        for name, column in zip(names, columns, strict=True):
            _check_number_type(source, name, column.type())
    return columns


def _gather(source: Source, names: list[Any], columns: list[str]) -> ClassScores:
    """Return the columns of many classes as one list, converted entry by entry."""
    raw = _number_columns(source, columns)
    kinds = {column.type() for column in raw}
    is_single = all(kind.is_float32() for kind in kinds)
    if len(kinds) > 1 and not is_single:
        raw = [column.cast("float64") for column in raw]
    lists = ibis.array(raw)
    if source.is_text:
        lists = lists.map(lambda text: _parse(source, text))
    elif not is_single and not lists.type().value_type.is_float64():
        lists = lists.map(lambda score: score.cast("float64"))
    precision: Precision = np.dtype("float32" if is_single else "float64")
    return ClassScores(names, tuple(columns), precision, lists=lists)


def _match_columns(source: Source, columns: Columns, pattern: str) -> dict[str, str]:
    """Return the column of each class that the pattern matches."""
    head, tail = pattern.split("*")
    matches = {
        name[len(head) : len(name) - len(tail)]: name
        for name in source.table.columns
        if len(name) > len(head + tail) and name.startswith(head) and name.endswith(tail)
        if name not in columns.not_classes
    }
    if columns.classes is None:
        matches = _drop_true_scores(source, columns, matches)
    if not matches:
        problem = f"{source.name} has no column like {pattern!r}"
        raise InvalidInput(
            f"{problem}; it has: {errors.list_columns(source)}. Pass the columns with a score for "
            "each class as columns, with a star for the class.",
            parameter="columns",
        )
    return matches


def _drop_true_scores(source: Source, columns: Columns, matches: dict[str, str]) -> dict[str, str]:
    """Return the matches without the column of true scores; raise if that is not what it holds."""
    suspects = {name: column for name, column in matches.items() if column in columns.score_columns}
    rest = {name: column for name, column in matches.items() if name not in suspects}
    numbers = [name for name in rest.values() if not source.table[name].type().is_string()]
    others = list(rest.values()) if source.is_text else numbers
    for name, column in suspects.items():
        if not others or not _repeats_another(source, column, others):
            raise InvalidInput(
                f"{source.name}: column {column!r} was named as the score of the true label, but "
                f"holds the scores of class {name!r}. Calibrate with label instead of score; if "
                f"{name!r} is not a class, pass all classes as classes.",
                parameter=("label", "score", "classes"),
            )
    return rest


def _repeats_another(source: Source, column: str, others: list[str]) -> bool:
    """Return whether a column holds the score of one of the others in every row."""
    (score, *rest), _precision = as_floats(source, [column, *others])
    is_equal = add_up([as_int(score == other) for other in rest]) > 0
    with source.reading([column, *others]):
        table = source.table.select(is_equal=is_equal)
        counts = source.run(table.agg(rows=table.count(), equal=table.count(where=_.is_equal)))
    return bool(counts["rows"][0].as_py() == counts["equal"][0].as_py())


def _from_columns(
    source: Source, columns: Columns, wanted: tuple[str, ...], by_class: bool
) -> ClassScores:
    """Return the scores in columns that were listed, whose names are the classes by default."""
    for name in wanted:
        errors.get_column(source, name)
        if name in columns.not_classes:
            raise InvalidInput(
                f"columns must name columns with scores, got {name!r}, which names tasks or true "
                "labels.",
                parameter="columns",
            )
    names = list(wanted) if columns.classes is None else errors.class_names(columns.classes)
    if len(names) != len(wanted):
        raise InvalidInput(
            f"classes must name the class of each of the {len(wanted)} columns "
            f"{listed([*map(repr, wanted)])}, in this order, got {len(names)} names.",
            parameter="classes",
        )
    return _from_names(source, ", ".join(wanted), names, list(wanted), by_class)


def _from_names(
    source: Source, shown: str, names: list[Any], wanted: list[str], by_class: bool
) -> ClassScores:
    if len(names) > FEW_CLASSES and _can_use_lists(source, by_class):
        return _gather(source, names, wanted)
    scores, precision = as_floats(source, wanted)
    check_several(source, shown, names)
    return ClassScores(names, tuple(wanted), precision, scores)


def _check_number_type(source: Source, column: str, kind: Any) -> None:
    if not (kind.is_floating() or kind.is_integer() or kind.is_decimal()):
        raise InvalidInput(
            f"{source.name}: column {column!r} must hold numbers, got {errors.name_type(kind)}. "
            "Pass a column of probabilities, log-probabilities or negative distances."
        )


def _parse(source: Source, text: Any) -> Any:
    """Return text as a number; null if Python would not parse it."""
    if source.options.decimal == ",":  # a point would then be a thousands separator
        text = text.contains(".").ifelse(ibis.null("string"), text.replace(",", "."))
    if source.traits.parses_java_numbers:
        is_number = text.re_search(_NUMBER)
    else:
        is_number = ~text.contains("_")
    return is_number.ifelse(text.try_cast("float64"), ibis.null())


_LARGEST = float(np.finfo(np.float64).max)


class Residuals(NamedTuple):
    """Prediction, scale and true value of each row, as expressions of float64."""

    prediction: Any
    y: Any
    scale: Any
    columns: tuple[str, ...]

    def score(self) -> Any:
        """Return ``-|y - prediction| / scale``, as ``residual_scores`` computes it."""
        score = -(self.y - self.prediction).abs()
        return score if self.scale is None else score / self.scale


def find_residuals(source: Source, columns: Columns, *, needs_y: bool) -> Residuals:
    """Return predictions, scales and true values, once all of them are known to be usable."""
    if needs_y and columns.y is None:
        raise InvalidInput(
            "y must name the column with the true value, beside prediction.",
            parameter=("y", "prediction"),
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
                f"infinite values in {count} of {errors.pluralize(rows, 'row')}. Drop or mend "
                "those rows."
            )


# A column with more distinct values is probably not a column of labels.
_MAX_CLASSES = 20_000


@dataclass(frozen=True)
class Rows:
    """Task and score of the true label in each row, as expressions."""

    source: Source
    columns: Columns
    task: Any
    score: Any
    precision: Precision
    score_columns: tuple[str, ...]
    class_scores: ClassScores | None
    labels: Any
    names: list[Any] | None
    keys: Keys | None
    residuals: Residuals | None = None

    @cached_property
    def table(self) -> Table:
        """A table with the columns task and score."""
        return self.source.table.select(task=self.task, score=self.score)

    def describe(self, task: Any) -> str:
        """Return the name of a task, or of a class in it, for messages."""
        return repr(task) if self.keys is None else self.keys.describe(task)

    def check_faults(self) -> None:
        """Raise InvalidInput if a line or a label explains why a score is missing."""
        self.source.check_text(self.score_columns, self.columns.task)
        if self.names is not None:
            _check_labels(self)
        elif self.class_scores is not None and self.class_scores.row_names is not None:
            _check_candidates(self.source, self.columns, self.labels, self.class_scores.row_names)


def true_scores(source: Source, columns: Columns, by_class: bool = False) -> Rows:
    """Return the task of each row, or its key by class, and the score of its true label."""
    _check_score_or_label(columns, by_class)
    tasks, labels, of_classes, names = ibis.literal("all"), None, None, None
    if columns.task is not None:
        tasks = as_written(source, get_id_column(source, columns.task, "tasks"))
    if columns.label is not None:
        column = get_id_column(source, columns.label, "labels")
        labels = as_written(source, column.cast("string"))
    if columns.prediction is not None:
        return _residual_rows(source, columns, tasks)
    if columns.score is not None:
        used: tuple[str, ...] = (columns.score,)
        (score,), precision = as_floats(source, used)
        if columns.label is not None:
            names = _find_classes(source, columns.label, columns.classes)
    else:
        of_classes = find_class_scores(source, columns, by_class)
        used, precision = of_classes.columns, of_classes.precision
        names = of_classes.names if of_classes.row_names is None else None
        score = _score_of_label(of_classes, labels)
    keys = None
    if by_class and names is not None:
        keys = Keys(tuple(names), integer_tasks=tasks.type().is_integer())
        tasks = keys.build(tasks, labels)
    return Rows(source, columns, tasks, score, precision, used, of_classes, labels, names, keys)


def _residual_rows(source: Source, columns: Columns, tasks: Any) -> Rows:
    residuals = find_residuals(source, columns, needs_y=True)
    double, score = np.dtype(np.float64), residuals.score()
    no_classes = (None, None, None, None)
    return Rows(source, columns, tasks, score, double, residuals.columns, *no_classes, residuals)


def _score_of_label(of_classes: ClassScores, labels: Any) -> Any:
    """Return the score of the true label; null if the label is not a class."""
    if of_classes.row_names is not None:
        return pick(of_classes.lists, _as_texts(of_classes.row_names).index(labels))
    names = [str(name) for name in of_classes.names]
    if of_classes.lists is None:
        pairs = zip(names, of_classes.scores, strict=True)
        return ibis.cases(*((labels == name, score) for name, score in pairs))
    return pick(of_classes.lists, constant_list(names).index(labels))


def _as_texts(lists: Any) -> Any:
    """Return lists of names as lists of strings."""
    is_text = lists.type().value_type.is_string()
    return lists if is_text else lists.map(lambda name: name.cast("string"))


def as_written(source: Source, names: Any) -> Any:
    """Return names that are compared with regard to case."""
    return names + "" if source.traits.has_collations and names.type().is_string() else names


def check_guessed_classes(rows: Rows) -> None:
    """Raise InvalidInput if a class guessed from a column name is not the label of any row."""
    source, columns, of_classes = rows.source, rows.columns, rows.class_scores
    if of_classes is None or columns.label is None or columns.classes is not None:
        return
    if "*" not in columns.pattern:
        return
    label = get_id_column(source, columns.label, "labels").cast("string")
    labels = source.run(source.table.select(label=label).distinct())["label"].to_pylist()
    if not labels:
        raise errors.no_rows(source.name)
    classes = [str(name) for name in of_classes.names]
    known = {*labels}
    absent = [name for name in classes if name not in known]
    if absent and known <= {*classes}:  # labels that are not classes are reported elsewhere
        present = ", ".join(name for name in classes if name in known)
        never = (
            f"{source.name}: column {columns.label!r} never holds {listed([*map(repr, absent)])}"
        )
        raise InvalidInput(
            f"{never}, though a column looks like the scores of such a class. If it is a class, "
            f"pass all of them as classes: {', '.join(classes)}; if not, pass the others: "
            f"{present}.",
            parameter="classes",
        )


def _check_score_or_label(columns: Columns, by_class: bool) -> None:
    if columns.prediction is not None:
        if by_class:
            raise InvalidInput(
                "prediction is for numbers, which have no classes. Leave out per_class=True."
            )
        return
    if by_class and columns.label is None:
        raise InvalidInput(
            "label must name the column with the true label, since each class has its own "
            "guarantee.",
            parameter="label",
        )
    if (columns.score is None) == (columns.label is None) and not by_class:
        got = "neither" if columns.score is None else "both"
        raise InvalidInput(
            "pass either score, the column with the score of the true label, or label, the column "
            f"with the true label beside a score for each class, got {got}. For regression, pass "
            "prediction and y.",
            parameter=("score", "prediction", "y"),
        )


def _find_classes(source: Source, label: str, classes: Sequence[Any] | None) -> list[Any]:
    """Return the classes that were passed, or the distinct labels in ascending order."""
    if classes is not None:
        return errors.class_names(classes)
    column = as_written(source, get_id_column(source, label, "labels"))
    with source.reading():
        distinct = source.table.select(label=column).distinct().limit(_MAX_CLASSES + 2)
        labels = source.run(distinct)["label"].to_pylist()
    names = [name for name in labels if name is not None]
    if not labels:
        raise errors.no_rows(source.name)
    if not names:
        raise InvalidInput(f"{source.name}: column {label!r} holds no labels. Fill it in.")
    if len(names) > _MAX_CLASSES:
        raise InvalidInput(
            f"{source.name}: column {label!r} holds more than {_MAX_CLASSES} different labels. "
            "Pass the column with the true label."
        )
    return sorted(names)


def _check_labels(rows: Rows) -> None:
    """Raise InvalidInput for labels that are not classes, and for rows without a label."""
    classes = [str(name) for name in rows.names or ()]
    table = rows.source.table.select(label=rows.labels)
    bad = table.filter(table.label.isnull() | table.label.notin(classes))
    counts = rows.source.run(bad.group_by("label").agg(rows=bad.count()))
    pairs = zip(counts["label"].to_pylist(), counts["rows"].to_pylist(), strict=True)
    unknown = dict(sorted(pairs, key=lambda pair: str(pair[0])))
    if unknown:
        found = [
            f"{'no label' if name is None else repr(name)} in {errors.pluralize(count, 'row')}"
            for name, count in unknown.items()
        ]
        named = [name for name in unknown if name is not None]
        raise InvalidInput(
            f"{rows.source.name}: column {rows.columns.label!r} must hold one of the classes "
            f"{listed([*map(repr, classes)])}, got {listed(found)}. "
            f"{_advise(rows, named, sum(unknown.values()))}"
        )


def _advise(rows: Rows, unknown: list[str], bad: int) -> str:
    """Return what to do about labels that are not classes, in so many rows."""
    columns, of_classes = rows.columns, rows.class_scores
    if _has_classes_as_tasks(rows):
        return "Were task and label swapped?"
    used = None
    width = 0 if of_classes is None else len(of_classes.columns)
    if columns.classes is None and of_classes is not None and width == len(of_classes.names):
        total = rows.source.run(rows.source.table.agg(rows=rows.source.table.count()))
        used = of_classes.columns if total["rows"][0].as_py() == bad else None
    advice = advise_on_labels(unknown, [str(name) for name in rows.names or ()], used)
    if advice is not None:
        return advice
    if not unknown:
        return "Fill in the labels, or drop those rows."
    return "Give labels and classes the same names, add scores for their class, or drop those rows."


def _has_classes_as_tasks(rows: Rows) -> bool:
    """Return whether the column with the tasks holds the classes, and no other value."""
    if rows.columns.task is None:
        return False
    classes = {str(name) for name in rows.names or ()}
    task = get_id_column(rows.source, rows.columns.task, "tasks").cast("string")
    distinct = rows.source.table.select(task=task).distinct().limit(len(classes) + 1)
    return {*rows.source.run(distinct)["task"].to_pylist()} == classes


def _check_candidates(source: Source, columns: Columns, labels: Any, candidates: Any) -> None:
    """Raise InvalidInput for labels that are not among the classes of their row."""
    is_known = _as_texts(candidates).contains(labels).fill_null(False)
    table = source.table.select(is_known=is_known)
    rows = source.run(table.agg(rows=table.count(where=~table.is_known)))["rows"][0].as_py()
    if rows and columns.classes_column is None:
        raise InvalidInput(
            f"{source.name}: column {columns.label!r} must hold a position in the list of the same "
            f"row, counted from 0, and does not in {errors.pluralize(rows, 'row')}. Number the "
            "labels of each task in the order of its scores, or name the classes of each row as "
            "classes_column.",
            parameter="classes_column",
        )
    if rows:
        raise InvalidInput(
            f"{source.name}: column {columns.label!r} must hold one of the classes in column "
            f"{columns.classes_column!r} of the same row, and does not in "
            f"{errors.pluralize(rows, 'row')}. Drop those rows, or add the score of their class."
        )


def find_clusters(source: Source, columns: Columns) -> dict[Any, str | int]:
    """Return the cluster of each task."""
    assert columns.task is not None
    assert columns.cluster is not None
    names = {"task": columns.task, "cluster": columns.cluster}
    pairs = source.table.select(
        **{
            name: as_written(source, get_id_column(source, column, f"{name}s"))
            for name, column in names.items()
        }
    )
    with source.reading(task=columns.task):
        _check_present(source, pairs, columns.cluster)
        rows = source.run(pairs.distinct()).to_pydict()
    found: dict[Any, str | int] = {}
    for task, value in zip(rows["task"], rows["cluster"], strict=True):
        cluster = as_cluster(value)
        check_one_cluster(task, found.setdefault(task, cluster), cluster)
    return found


def _check_present(source: Source, pairs: Any, column: str) -> None:
    missing = source.run(pairs.agg(rows=pairs.count(where=pairs.cluster.isnull())))["rows"][0]
    if missing.as_py():
        raise InvalidInput(
            f"{source.name}: column {column!r} must name the cluster of every task, and is empty "
            f"in {errors.pluralize(missing.as_py(), 'row')}. Drop those rows, or give a task "
            "without a cluster one of its own."
        )


def count_values(opened: Source, *columns: str) -> dict[Any, int]:
    """Return how often each task occurs, or with two columns each pair of a task and a label."""
    kinds = dict(zip(columns, ("tasks", "labels"), strict=False))
    values = {
        f"key{i}": as_written(opened, get_id_column(opened, name, kinds[name]))
        for i, name in enumerate(columns)
    }
    rows = opened.table.select(**values)
    with opened.reading((), columns[0]):
        counts = opened.run(rows.group_by(*values).agg(size=_.count()))
        sizes = counts["size"].to_pylist()
        keys = [counts[name].to_pylist() for name in values]
        for column, key in zip(columns, keys, strict=True):
            missing = sum(size for x, size in zip(key, sizes, strict=True) if x is None)
            if missing:
                opened.check_text((), columns[0])
                _check_filled(opened.name, column, kinds[column], missing)
    if not sizes:
        raise errors.no_rows(opened.name)
    named = keys[0] if len(keys) == 1 else zip(*keys, strict=True)
    return dict(zip(named, sizes, strict=True))


def _check_filled(source: str, column: str, kind: str, missing: int) -> None:
    if kind == "tasks":
        errors.check_no_missing_tasks(source, column, missing)
    raise InvalidInput(
        f"{source}: column {column!r} is missing in {errors.pluralize(missing, 'row')}; every "
        "example must have a label. Fill it in, or drop those rows."
    )
