"""What is the score: tasks, labels and scores of the rows, as expressions of one engine."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import ibis
import ibis.expr.datatypes as dt
import numpy as np
from ibis import _

from metapac._common import Array, Counts, Table, listed
from metapac.columns import NUMBERS, Columns
from metapac.errors import InvalidInput
from metapac.inputs import advise_on_labels, as_task_names
from metapac.sets import check_order
from metapac.tables.engines import DUCKDB, add_up, as_int, constant_list, exact, pick, pluralize
from metapac.tables.sources import Source

Precision = np.dtype[np.floating[Any]]
# More columns than this are gathered into a list, so that expressions do not grow with them.
FEW_CLASSES = 50
# A column with more distinct values is probably not a column of labels.
_MAX_CLASSES = 20_000
# The texts that Python parses as numbers, apart from NaN.
_NUMBER = r"(?i)^\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)\s*$"
LARGEST = float(np.finfo(np.float64).max)
_WHOLE = 2**53  # beyond it, a float may stand for several integers


def get_id_column(source: Source, name: str, meaning: str) -> Any:
    """Return a column of tasks or labels as strings or integers, named as in the array route.

    Booleans become "True" and "False". Dates and timestamps become ISO text, at midnight without
    the time; those with a time zone are in UTC. Floats become integers if all are whole numbers,
    as in a pandas column of integers that had missing values.
    """
    column = source.column(name)
    kind = column.type()
    if kind.is_string() and source.traits.has_collations:
        return column + ""  # which compares with regard to case
    if kind.is_string() or kind.is_integer():
        return column
    if kind.is_boolean():
        return ibis.cases((column, "True"), (~column, "False"))
    if kind.is_date():
        return column.cast("string")
    if kind.is_timestamp() and (kind.timezone is None or source.traits.has_timezone_function):
        return _as_iso_text(source, column)
    if kind.is_floating() or kind.is_decimal():
        return _as_whole_numbers(source, name, column, meaning)
    text = f"{source.name}: column {name!r} must hold strings or integers to name {meaning}, got"
    raise InvalidInput(f"{text} {kind}. Convert it to strings, or pass another column.")


def _local_time(zone: str, moment: Any) -> Any:
    """Stand for the engine's function ``timezone``."""


def _as_iso_text(source: Source, column: Any) -> Any:
    """Return timestamps as ``inputs`` writes them."""
    if column.type().timezone is not None:
        signature = ((dt.string, column.type()), dt.Timestamp())
        timezone = ibis.udf.scalar.builtin(_local_time, name="timezone", signature=signature)
        column = timezone("UTC", column)
    text = column.cast("string").replace(" ", "T")
    if source.traits.mixes_types:  # the text is stored as it was written, perhaps with zeros
        text = text.re_replace(r"(\.[0-9]*[1-9])0+$", r"\1").re_replace(r"\.0+$", "")
    midnight = "T00:00:00"
    return text.endswith(midnight).ifelse(text.left(text.length() - len(midnight)), text)


def _as_whole_numbers(source: Source, name: str, column: Any, meaning: str) -> Any:
    is_number = column.notnull()
    if column.type().is_floating() and source.traits.has_nan:
        is_number &= ~column.isnan()
    if source.traits.mixes_types:
        is_number &= column.typeof().isin(["real", "integer"])
    value = is_number.ifelse(column.cast("float64"), ibis.null("float64"))
    bounded = value.between(-_WHOLE, _WHOLE).ifelse(value, ibis.null("float64"))
    whole = (bounded.floor() == bounded).ifelse(bounded, ibis.null("float64"))
    with source.reading((), name):
        _rows, bad = source.count(bad=value.notnull() & whole.isnull())
    if bad:
        text = f"{source.name}: column {name!r} must hold strings or integers to name {meaning},"
        text += f" got {column.type()} with fractions or very large numbers in"
        raise InvalidInput(f"{text} {pluralize(bad, 'row')}. Round it, or pass another column.")
    return whole.cast("int64")


class Keys(NamedTuple):
    """Keys such as "1:ohio": the index of the class, and the task."""

    classes: tuple[Any, ...]
    integer_tasks: bool

    def build(self, tasks: Any, labels: Any) -> Any:
        """Return the key of each row; null if the label is not a class."""
        prefixes = ((labels == str(name), f"{i}:") for i, name in enumerate(self.classes))
        return ibis.cases(*prefixes) + tasks.cast("string")

    def split(self, key: str) -> tuple[int | str, int]:
        """Return the task of a key, and the index of its class."""
        index, _, task = key.partition(":")
        return int(task) if self.integer_tasks else task, int(index)

    def describe(self, key: str) -> str:
        """Return the name of a group for messages."""
        task, index = self.split(key)
        return f"{task!r}, class {self.classes[index]!r}"

    def groups(self, keys: Array) -> tuple[Array, Counts, Counts]:
        """Return the tasks in ascending order, and the task and the class of each key."""
        tasks, labels = zip(*map(self.split, keys.tolist()), strict=True)
        names, place = np.unique(as_task_names([*tasks]), return_inverse=True)
        return names, place.astype(np.int64), np.array(labels, dtype=np.int64)


def any_of(conditions: Sequence[Any]) -> Any:
    """Return whether one of some conditions holds, however many there are."""
    return add_up([as_int(condition) for condition in conditions]) > 0


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

    def lacks_scores(self, source: Source) -> Any:
        """Return whether a score of the row is null or NaN."""
        if self.lists is not None:
            return self.lists.filter(lambda score: ~source.is_usable(score)).length() > 0
        return any_of([~source.is_usable(score) for score in self.scores])

    def score_of(self, labels: Any) -> Any:
        """Return the score of a label in each row; null if the label is not a class."""
        if self.row_names is not None:
            return pick(self.lists, _as_texts(self.row_names).index(labels))
        names = [str(name) for name in self.names]
        if self.lists is not None:
            return pick(self.lists, constant_list(names).index(labels))
        pairs = zip(names, self.scores, strict=True)
        return ibis.cases(*((labels == name, score) for name, score in pairs))


def find_class_scores(source: Source, columns: Columns, by_class: bool = False) -> ClassScores:
    """Return the scores of all classes: from the columns that match, or a column of lists."""
    pattern = columns.pattern
    # A threshold for each class needs their positions, which Ibis lets PostgreSQL use only once.
    use_lists = source.traits.has_lists and (source.traits.has_positions or not by_class)
    if by_class and columns.classes_column is not None:
        raise InvalidInput("classes_column gives no fixed classes, as per_class=True needs.")
    if isinstance(pattern, str) and "*" not in pattern:
        found = _read_lists(source, columns, pattern, by_class)
        return found if use_lists else replace(found, each=found.scores, lists=None)
    names, wanted = _choose_columns(source, columns)
    scores, precision = as_floats(source, wanted)
    _check_several(source, str(pattern), names)
    if len(names) > FEW_CLASSES and use_lists:
        return ClassScores(names, tuple(wanted), precision, lists=ibis.array(scores))
    return ClassScores(names, tuple(wanted), precision, scores)


def _choose_columns(source: Source, columns: Columns) -> tuple[list[Any], list[str]]:
    """Return the classes, and the column with the scores of each: those listed, or that match."""
    pattern, classes = columns.pattern, columns.classes
    named = None if classes is None else as_class_names(classes)
    if isinstance(pattern, str):
        matches = _match_classes(source, columns, pattern)
        names = [*matches] if named is None else named
        return names, [matches.get(str(x), pattern.replace("*", str(x))) for x in names]
    for name in pattern:
        source.column(name)
        if name in columns.not_classes:
            text = f"columns must name scores, got {name!r}, which names tasks or true labels."
            raise InvalidInput(text)
    if named is not None and len(named) != len(pattern):
        shown = f"the {len(pattern)} columns {listed([*map(repr, pattern)])}"
        text = f"classes must name the class of each of {shown}, got {len(named)} names."
        raise InvalidInput(text)
    return [*pattern] if named is None else named, [*pattern]


def as_class_names(classes: Sequence[Any]) -> list[Any]:
    """Return distinct class names: integers as they are, everything else as strings."""
    names = [str(name) for name in classes]
    if isinstance(classes, str) or not names or len({*names}) < len(names):
        raise InvalidInput(f"classes must be a list that names each class once, got {classes!r}.")
    whole = [isinstance(c, int | np.integer) and not isinstance(c, bool) for c in classes]
    return [int(c) if is_whole else str(c) for c, is_whole in zip(classes, whole, strict=True)]


def match_columns(source: Source, pattern: str) -> dict[str, str]:
    """Return the columns that a pattern with a star matches, by what the star stands for."""
    if pattern.count("*") != 1:
        raise InvalidInput(f"columns must contain one star, such as 'p_*', got {pattern!r}.")
    head, tail = pattern.split("*")
    long = [name for name in source.table.columns if len(name) > len(head + tail)]
    found = [name for name in long if name.startswith(head) and name.endswith(tail)]
    return {name[len(head) : len(name) - len(tail)]: name for name in found}


def _match_classes(source: Source, columns: Columns, pattern: str) -> dict[str, str]:
    """Return the column of each class that the pattern matches, without that of true scores."""
    found, ignored = match_columns(source, pattern), columns.not_classes
    matches = {name: column for name, column in found.items() if column not in ignored}
    if columns.classes is None:
        suspects = [name for name, column in matches.items() if column in columns.score_columns]
        others = [column for name, column in matches.items() if name not in suspects]
        for name in suspects:
            _check_true_score(source, name, matches.pop(name), others)
    if not matches:
        known = listed(source.table.columns, shown=30)
        text = f"{source.name} has no column like {pattern!r}; it has: {known}."
        raise InvalidInput(f"{text} Pass columns, with a star for the class.", parameter="columns")
    return matches


def _check_true_score(source: Source, name: str, column: str, others: list[str]) -> None:
    """Raise InvalidInput if a column of true scores does not repeat one of the others."""
    if not source.is_text:
        others = [other for other in others if not source.table[other].type().is_string()]
    if others:
        with source.reading([column, *others]):
            rows, equal = count_equal(source, column, others)
    if not others or rows != equal:
        text = f"{source.name}: column {column!r} was named as the score of the true label, but"
        text += f" holds those of class {name!r}. Calibrate with label, not score; or pass all"
        raise InvalidInput(f"{text} classes.", parameter=("label", "score", "classes"))


def count_equal(source: Source, column: str, others: list[str]) -> tuple[int, ...]:
    """Return the number of rows, and of those in which a column equals one of the others."""
    (score, *rest), _precision = as_floats(source, [column, *others])
    return source.count(equal=any_of([score == other for other in rest]))


def _check_several(source: Source, pattern: str, names: Sequence[Any]) -> None:
    """Raise InvalidInput if there is a single class, which leaves nothing to choose."""
    if len(names) == 1:
        text = f"{source.name}: {pattern!r} gives scores of one class only, {names[0]!r}, and a set"
        text += " needs a choice of two. Add the scores of the other classes, such as 1 -"
        raise InvalidInput(f"{text} p.")


def _get_numbers(source: Source, names: Sequence[str]) -> list[Any]:
    """Return columns of numbers, or of text in CSV."""
    columns = [source.column(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        kind = column.type()
        if not (source.is_text or kind.is_floating() or kind.is_integer() or kind.is_decimal()):
            text = f"column {name!r} must hold numbers, got {kind}"
            raise InvalidInput(f"{source.name}: {text}.")
    return columns


def as_floats(source: Source, names: Sequence[str]) -> tuple[list[Any], Precision]:
    """Return columns as floats of one precision."""
    columns = _get_numbers(source, names)
    if source.is_text:
        return [_parse(source, column) for column in columns], np.dtype(np.float64)
    if source.traits.mixes_types:
        is_number = [column.typeof().isin(["real", "integer"]) for column in columns]
        pairs = zip(is_number, columns, strict=True)
        columns = [is_one.ifelse(column.cast("float64"), ibis.null()) for is_one, column in pairs]
    if all(column.type().is_float32() for column in columns):
        return columns, np.dtype(np.float32)
    return [column.cast("float64") for column in columns], np.dtype(np.float64)


def _parse(source: Source, text: Any) -> Any:
    """Return text as a number; null if Python would not parse it."""
    if source.options.decimal == ",":  # a point would then be a thousands separator
        text = text.contains(".").ifelse(ibis.null("string"), text.replace(",", "."))
    is_java = source.traits.parses_java_numbers
    is_number = text.re_search(_NUMBER) if is_java else ~text.contains("_")
    return is_number.ifelse(text.try_cast("float64"), ibis.null())


def _read_lists(source: Source, columns: Columns, column: str, by_class: bool) -> ClassScores:
    """Return a column of lists; their names are those of the row, of all rows, or positions."""
    lists, row_names = source.column(column), None
    kind = lists.type()
    if not (kind.is_array() and (kind.value_type.is_floating() or kind.value_type.is_integer())):
        text = "columns must contain one star, such as 'p_*', or name a column of lists of numbers"
        raise InvalidInput(f"{text}, got {column!r}, which is {kind}.")
    names = None if columns.classes is None else as_class_names(columns.classes)
    with source.reading():
        if columns.classes_column is not None:
            row_names = _read_row_names(source, column, columns.classes_column)
        else:
            if names is None:
                lists = _drop_padding(source, columns.task, lists, column)
            names = _name_positions(source, lists, column, names, by_class)
            if names is None:
                row_names = ibis.range(0, lists.length().cast("int64"))
    precision: Precision = np.dtype("float32" if kind.value_type.is_float32() else "float64")
    if not (kind.value_type.is_float32() or kind.value_type.is_float64()):
        lists = lists.map(lambda score: score.cast("float64"))
    return ClassScores(names or [], (column,), precision, lists=lists, row_names=row_names)


def _name_positions(
    source: Source, lists: Any, column: str, names: list[Any] | None, by_class: bool
) -> list[Any] | None:
    """Return the classes of all lists, by default their positions; None if lengths differ."""
    table = source.table.select(size=lists.length())
    ends = {"low": table.size.min(), "high": table.size.max()}
    absent = table.count(where=table.size.isnull())
    *lengths, missing = source.run(table.agg(**ends, absent=absent)).to_pylist()[0].values()
    shortest, longest = (length or 0 for length in lengths)
    what = f"{source.name}: the lists of column {column!r}"
    if missing:
        raise InvalidInput(f"{what} are missing in {pluralize(missing, 'row')}.")
    if names is None and shortest == longest:
        names = [*range(shortest)]
    if names is not None:
        if not shortest == longest == len(names) > 0:
            got = f"{shortest} to {longest} scores"
            raise InvalidInput(f"{what} must have one score for each class of {names}, got {got}.")
        _check_several(source, column, names)
    elif by_class or shortest < 2:
        rule = "have one length with per_class=True" if by_class else "hold at least two scores"
        raise InvalidInput(f"{what} must {rule}, got {shortest} to {longest} scores.")
    return names


def _drop_padding(source: Source, task: str | None, lists: Any, column: str) -> Any:
    """Return lists without nulls after the last score; a null before a score is an error later."""
    used = lists.filter(lambda score: score.notnull())
    early = lists[: used.length()].filter(lambda score: score.isnull())
    padded = ((lists.length() > used.length()) & early.length().isin([0])).fill_null(False)
    if not source.count(padded=padded)[1]:
        return lists
    if task in source.table.columns:
        table = source.table.select(task=source.table[task], size=used.length())
        sizes = table.group_by("task").agg(low=table.size.min(), high=table.size.max())
        odd = source.run(sizes.filter(sizes.low < sizes.high).order_by("task").limit(1))
        for one in odd.to_pylist():
            text = f"{source.name}: the lists of column {column!r} end in nulls after {one['low']}"
            text += f" to {one['high']} scores in task {one['task']!r}; a task must have one number"
            text += " of classes. Give a label without a score inf, so that it is"
            raise InvalidInput(f"{text} kept.")
    return padded.ifelse(used, lists)


def _read_row_names(source: Source, column: str, names_column: str) -> Any:
    """Return the classes of each row; raise InvalidInput unless they fit its scores."""
    names, lists = source.column(names_column), source.table[column]
    kind = names.type()
    if not (kind.is_array() and (kind.value_type.is_string() or kind.value_type.is_integer())):
        text = "classes_column must name a column of lists of strings or integers"
        text = f"{text}, got {names_column!r}, which is {kind}."
        raise InvalidInput(text, parameter="classes_column")
    fits = (names.length() > 0) & (names.length() == lists.length())
    fits &= names.filter(lambda name: name.isnull()).length() == 0
    fits &= names.unique().length() == names.length()
    _all, bad = source.count(bad=~fits.fill_null(False))
    if bad:
        rule = f"{source.name}: columns {column!r} and {names_column!r} must hold a score and a"
        rule += " name for each class of a row, each name once, and do not in"
        raise InvalidInput(f"{rule} {pluralize(bad, 'row')}.")
    return names


class Numbers(NamedTuple):
    """Predicted and true numbers of each row, as expressions of float64, by their meaning."""

    parts: dict[str, Any]  # prediction and perhaps scale, or lower and upper; perhaps y
    columns: tuple[str, ...]

    @property
    def centre(self) -> Any:
        """The predicted number, or the middle between the quantiles."""
        if "lower" not in self.parts:
            return self.parts["prediction"]
        return self.parts["lower"] / 2 + self.parts["upper"] / 2

    def score(self) -> Any:
        """Return the score of y, as ``residual_scores`` and ``quantile_scores`` compute it."""
        y, parts = self.parts["y"], self.parts
        if "lower" in parts:
            return ibis.least(y - parts["lower"], parts["upper"] - y)
        score = -(y - parts["prediction"]).abs()
        return score / parts["scale"] if "scale" in parts else score


def find_numbers(source: Source, columns: Columns, *, needs_y: bool) -> Numbers:
    """Return predicted and true numbers; raise for values that cannot be used."""
    if needs_y and columns.y is None:
        beside = "prediction" if columns.lower is None else "lower"
        text = f"y must name the column with the true value, beside {beside}."
        raise InvalidInput(text, parameter=("y", beside))
    roles = [role for role in NUMBERS if needs_y or role != "y"]
    used = {role: name for role in roles if (name := getattr(columns, role)) is not None}
    names = tuple(used.values())
    floats = [part.cast("float64") for part in as_floats(source, names)[0]]
    parts = dict(zip(used, floats, strict=True))
    usable = {role: part.between(exact(-LARGEST), exact(LARGEST)) for role, part in parts.items()}
    if "scale" in used:
        usable["scale"] &= parts["scale"] > 0
    bad = {role: ~is_so.fill_null(False) for role, is_so in usable.items()}
    if "lower" in used:
        bad["crossed"] = (parts["lower"] > parts["upper"]).fill_null(False)
    with source.reading(names, columns.task):
        rows, *counts = source.count(**bad)
        if any(counts[: len(used)]):
            source.check_text(names, columns.task)
    for role, count in zip(used, counts, strict=False):
        if count:
            kind = "positive" if role == "scale" else "finite"
            rule = f"{source.name}: column {used[role]!r} must hold {kind} numbers, and does not in"
            rule += f" {count} of {pluralize(rows, 'row')}. Drop or mend those"
            raise InvalidInput(f"{rule} rows.")
    if "lower" in used:
        check_order(counts[-1], rows, f"{source.name}: ")
    return Numbers(parts, names)


@dataclass(frozen=True)
class Rows:
    """Task and score of the true label in each row, as expressions."""

    source: Source
    columns: Columns
    task: Any
    score: Any
    precision: Precision
    score_columns: tuple[str, ...]
    class_scores: ClassScores | None = None
    labels: Any = None
    names: list[Any] | None = None
    keys: Keys | None = None
    numbers: Numbers | None = None

    @cached_property
    def table(self) -> Table:
        """A table with the columns task and score."""
        return self.source.table.select(task=self.group, score=self.score)

    @property
    def group(self) -> Any:
        """The task of each row or, by class, the key of both."""
        return self.task if self.keys is None else self.keys.build(self.task, self.labels)

    def order(self) -> list[Any]:
        """Return what numbers the rows of a unit; rows that are equal in it are interchangeable."""
        if self.numbers is not None:
            parts = self.numbers.parts
            roles = ("scale", "prediction", "lower", "upper")
            return [self.score, *(parts[role] for role in roles if role in parts)]
        keys, of_classes = [self.score], self.class_scores
        if self.names is not None and self.labels is not None:
            texts = sorted(map(str, self.names))
            keys.append(ibis.cases(*((self.labels == x, i) for i, x in enumerate(texts))))
        elif self.labels is not None:
            keys.append(self.labels)
        if of_classes is not None:
            keys += of_classes.scores if of_classes.lists is None else [of_classes.lists]
        return keys

    def describe(self, task: Any) -> str:
        """Return the name of a task, or of a class in it, for messages."""
        return repr(task) if self.keys is None else self.keys.describe(task)

    def check_faults(self) -> None:
        """Raise InvalidInput if a line or a label explains why a score is missing."""
        self.source.check_text(self.score_columns, self.columns.task)
        if self.names is not None:
            _check_labels(self)
        elif self.class_scores is not None and self.class_scores.row_names is not None:
            _check_candidates(self, self.class_scores.row_names)


def true_scores(source: Source, columns: Columns, by_class: bool = False) -> Rows:
    """Return the task of each row, or its key by class, and the score of its true label."""
    _check_score_or_label(columns, by_class)
    tasks, labels, of_classes, names, keys = ibis.literal("all"), None, None, None, None
    if columns.task is not None:
        tasks = get_id_column(source, columns.task, "tasks")
    if columns.is_regression:
        found = find_numbers(source, columns, needs_y=True)
        double: Precision = np.dtype(np.float64)
        return Rows(source, columns, tasks, found.score(), double, found.columns, numbers=found)
    if columns.label is not None:
        labels = get_id_column(source, columns.label, "labels").cast("string")
    if columns.score is not None:
        used: tuple[str, ...] = (columns.score,)
        (score,), precision = as_floats(source, used)
        if columns.label is not None:
            names = _find_classes(source, columns.label, columns.classes)
    else:
        of_classes = find_class_scores(source, columns, by_class)
        used, precision = of_classes.columns, of_classes.precision
        names = of_classes.names if of_classes.row_names is None else None
        score = of_classes.score_of(labels)
    if by_class and names is not None:
        keys = Keys(tuple(names), integer_tasks=tasks.type().is_integer())
    return Rows(source, columns, tasks, score, precision, used, of_classes, labels, names, keys)


def _check_score_or_label(columns: Columns, by_class: bool) -> None:
    if by_class and columns.is_regression:
        name = "prediction" if columns.lower is None else "lower"
        raise InvalidInput(f"{name} is for numbers. Leave out per_class=True.")
    if by_class and columns.label is None:
        text = "label must name the column with the true label: each class has its own guarantee."
        raise InvalidInput(text)
    is_one = (columns.score is None) != (columns.label is None)
    if not (is_one or by_class or columns.is_regression):
        rule = "pass either score, the column with the score of the true label, or label, the"
        rule += " column with the true label beside a score for each class; for regression,"
        raise InvalidInput(f"{rule} prediction and y.", parameter=("score", "prediction", "y"))


def _as_texts(lists: Any) -> Any:
    """Return lists of names as lists of strings."""
    is_text = lists.type().value_type.is_string()
    return lists if is_text else lists.map(lambda name: name.cast("string"))


def _find_classes(source: Source, label: str, classes: Sequence[Any] | None) -> list[Any]:
    """Return the classes that were passed, or the distinct labels in ascending order."""
    if classes is not None:
        return as_class_names(classes)
    column = get_id_column(source, label, "labels")
    with source.reading():
        distinct = source.table.select(label=column).distinct().limit(_MAX_CLASSES + 2)
        labels = source.run(distinct)["label"].to_pylist()
    source.check_not_empty(len(labels))
    names = [name for name in labels if name is not None]
    if not 0 < len(names) <= _MAX_CLASSES:
        problem = f"more than {_MAX_CLASSES} different" if names else "no"
        raise InvalidInput(f"{source.name}: column {label!r} holds {problem} labels.")
    return sorted(names)


def check_guessed_classes(rows: Rows) -> None:
    """Raise InvalidInput if a class guessed from a column name is not the label of any row."""
    source, columns, of_classes = rows.source, rows.columns, rows.class_scores
    is_guessed = columns.classes is None and "*" in columns.pattern
    if of_classes is None or columns.label is None or not is_guessed:
        return
    label = get_id_column(source, columns.label, "labels").cast("string")
    known = {*source.run(source.table.select(label=label).distinct())["label"].to_pylist()}
    source.check_not_empty(len(known))
    classes = [str(name) for name in of_classes.names]
    absent = [repr(name) for name in classes if name not in known]
    if absent and known <= {*classes}:  # labels that are not classes are reported elsewhere
        raise InvalidInput(
            f"{source.name}: column {columns.label!r} never holds {listed(absent)}, though columns "
            f"look like scores of such classes. Pass all classes as classes: {', '.join(classes)}, "
            f"or only {', '.join(name for name in classes if name in known)}.",
            parameter="classes",
        )


def _check_labels(rows: Rows) -> None:
    """Raise InvalidInput for labels that are not classes, and for rows without a label."""
    source, columns, of_classes = rows.source, rows.columns, rows.class_scores
    classes = [str(name) for name in rows.names or ()]
    table = source.table.select(label=rows.labels)
    counts = source.run(table.group_by("label").agg(rows=table.count())).to_pydict()
    unknown = {x: n for x, n in zip(*counts.values(), strict=True) if x not in classes}
    if not unknown:
        return
    named = sorted(name for name in unknown if name is not None)
    found = [f"{name!r} in {pluralize(unknown[name], 'row')}" for name in named]
    found += [f"no label in {pluralize(unknown[None], 'row')}"] if None in unknown else []
    used = None
    if columns.classes is None and of_classes is not None and len(unknown) == len(counts["label"]):
        used = of_classes.columns if len(of_classes.columns) == len(classes) else None
    advice = advise_on_labels(named, classes, used)
    if columns.task is not None:
        tasks = source.table.select(task=get_id_column(source, columns.task, "tasks")).distinct()
        few = source.run(tasks.limit(len(classes) + 1))["task"].to_pylist()
        advice = "Were task and label swapped?" if {*map(str, few)} == {*classes} else advice
    raise InvalidInput(
        f"{source.name}: column {columns.label!r} must hold one of the classes "
        f"{listed([*map(repr, classes)])}, got {listed(found)}. "
        f"{advice or 'Give labels and classes the same names, or drop those rows.'}"
    )


def _check_candidates(rows: Rows, candidates: Any) -> None:
    """Raise InvalidInput for labels that are not among the classes of their row."""
    is_known = _as_texts(candidates).contains(rows.labels).fill_null(False)
    _all, unknown = rows.source.count(unknown=~is_known)
    column, given = rows.columns.label, rows.columns.classes_column
    if unknown:
        wanted = "a position in the list" if given is None else f"a class in column {given!r}"
        text = f"{rows.source.name}: column {column!r} must hold {wanted} of the same row, and does"
        text += f" not in {pluralize(unknown, 'row')}. Mend them, or name the classes of each"
        raise InvalidInput(f"{text} row.", parameter="classes_column" if given is None else ())


def draw_rows(source: Source, task: Any, within: str, order: Sequence[Any], rng: int) -> Source:
    """Return the source with one row of each unit: the one whose place has the least `hash_row`.

    Places number the rows of a unit in ``order``. Rows that are equal in it are interchangeable.
    """
    unit = get_id_column(source, within, "units").cast("string")
    by = {f"_by{i}": value for i, value in enumerate(order)}
    table = source.table.mutate(_task=task.cast("string"), _unit=unit, **by)
    place = ibis.row_number().over(group_by=["_task", "_unit"], order_by=[*by])
    table = table.mutate(_place=place.cast("string"))
    text = ibis.literal(f"{rng}/") + table._place + "/" + table._task + "/" + table._unit
    table = table.mutate(_hash=source.md5(text))
    table = table.mutate(_least=table._hash.min().over(group_by=["_task", "_unit"]))
    drawn = table.filter(table._hash == table._least).select(*source.table.columns)
    if source.connection.name != DUCKDB:
        return replace(source, table=drawn, owns_connection=False)
    name = ibis.util.gen_name("drawn")  # so that later queries need not draw again
    there = source.connection.create_table(name, drawn, temp=True)
    kept = replace(source, table=there, owns_connection=False)
    weakref.finalize(kept, _drop, source.connection, name).atexit = False
    return kept


def _drop(connection: Any, name: str) -> None:
    with suppress(Exception):  # the connection may be closed
        connection.raw_sql(f'DROP TABLE "{name}"')


def count_units(source: Source, task: Any, within: str, bad: Any) -> tuple[int, ...]:
    """Return the numbers of rows, units, tasks, bad rows, and rows without a unit or a task."""
    unit = get_id_column(source, within, "units")
    rows = source.table.select(task=task, unit=unit, bad=as_int(bad))
    units = rows.group_by("task", "unit").agg(rows=_.count(), bad=_.bad.sum())
    missing = {name: units.rows.sum(where=units[name].isnull()) for name in ("unit", "task")}
    sums = {"all": units.rows.sum(), "units": units.count(), "tasks": units.task.nunique()}
    counts = source.run(units.agg(**sums, bad=units.bad.sum(), **missing))
    return tuple(int(count or 0) for count in counts.to_pylist()[0].values())


def count_values(source: Source, **columns: str) -> dict[tuple[Any, ...], int]:
    """Return how often values occur together, in columns given as tasks, labels or clusters."""
    values = {meaning: get_id_column(source, name, meaning) for meaning, name in columns.items()}
    rows, task = source.table.select(**values), columns.get("tasks")
    with source.reading((), task):
        counts = source.run(rows.group_by(*values).agg(size=_.count())).to_pydict()
        sizes = counts.pop("size")
        for meaning, keys in counts.items():
            missing = sum(size for key, size in zip(keys, sizes, strict=True) if key is None)
            if missing:
                source.check_text((), task)
            source.check_no_missing(columns[meaning], meaning, missing)
    source.check_not_empty(len(sizes))
    return dict(zip(zip(*counts.values(), strict=True), sizes, strict=True))
