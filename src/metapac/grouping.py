"""Labelled examples, by task: the five questions that arrays and tables answer alike.

*Sizes*: how many examples does each task have? *Order statistics*: the scores of some ranks in each
task. *Counts*: for given thresholds, how many examples are missed, and how large are the sets?
*Facts*: what do the checks need to know? *Rows*: the examples themselves, with their sets.
"""

from __future__ import annotations

import hashlib
import numbers
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _common, inputs
from metapac._common import Array, Counts, Floats, as_whole_number, check_same_length
from metapac.data_checks import Facts, Repeats, find_facts, find_ranges
from metapac.errors import InvalidInput
from metapac.sets import label_lists

ClusterIds = ArrayLike | Iterable[object] | Mapping[Any, Any]
RankRule = Callable[[Counts, Counts | None], Counts]  # sizes and classes of groups to their ranks


class Statistics(NamedTuple):
    """Order statistics of groups: the examples of a task, or those of one class in it.

    ``repeats`` counts equal scores near the thresholds; None if they were not looked at.
    """

    names: Array
    task: Counts
    label: Counts | None
    sizes: Counts
    thresholds: Floats  # (groups, ranks)
    low: Floats
    high: Floats
    repeats: Repeats | None = None

    @property
    def task_sizes(self) -> Counts:
        """Number of examples of each task."""
        return sum_by(self.sizes, self.task, len(self.names))


class SetCounts(NamedTuple):
    """How large the sets are, as counts for each task or group of examples.

    Attributes
    ----------
    labels : ndarray of int
        Number of labels in all sets together.
    empty, single, full : ndarray of int
        Number of sets without a label, with one, and with every label.
    """

    labels: Counts
    empty: Counts
    single: Counts
    full: Counts


class Tally(NamedTuple):
    """Counts for each group of examples of one task and, if labels are known, one class."""

    names: Array
    task: Counts
    examples: Counts
    missed: Counts
    ranges: Floats  # of the scores of the true labels, by task
    classes: Sequence[Any] | None = None
    label: Counts | None = None
    sets: SetCounts | None = None
    widths: NDArray[np.float64] | None = None
    clusters: Sequence[Any] | None = None

    def take(self, which: NDArray[np.bool_]) -> Tally:
        """Return the groups that are chosen, with all tasks."""
        by_group = ("task", "examples", "missed", "label", "widths")
        columns = {name: getattr(self, name) for name in by_group}
        some: Any = {k: v[which] for k, v in columns.items() if v is not None}
        return self._replace(**some, sets=self.sets and take_sets(self.sets, which))


def sum_by(column: Array, index: Counts, length: int) -> Counts:
    """Return the sums of the entries with the same index."""
    return np.bincount(index, weights=column, minlength=length).astype(np.int64)


def sum_sets(sets: SetCounts, index: Counts, length: int) -> SetCounts:
    """Return the sums of set counts over groups with the same index."""
    return SetCounts(*(sum_by(column, index, length) for column in sets))


def take_sets(sets: SetCounts, which: Array) -> SetCounts:
    """Return the set counts of some groups."""
    return SetCounts(*(column[which] for column in sets))


class Row(NamedTuple):
    """One labelled example with its prediction set."""

    task: Any
    truth: Any
    labels: tuple[str, ...] | None
    interval: tuple[float, float] | None = None
    full: bool = False


class DrawnRows(NamedTuple):
    """The draw of one row of each unit: how many rows and units there were, and the seed."""

    rows: int
    units: int
    rng: int

    def check_several(self, tasks: int) -> None:
        """Raise InvalidInput if every task is a single unit, as with the column of tasks."""
        if self.units <= tasks and self.rows > self.units:
            text = f"within must tell units apart within a task, and gives each of {tasks} tasks a"
            text += f" single one, of {self.rows} rows in all. Does it hold the tasks"
            raise InvalidInput(f"{text} themselves?")

    def describe(self, unit: str, row: str, rows: str) -> str:
        """Return what counts, as part of a sentence."""
        if self.rows == self.units:
            return f"every {unit} has one {row}, so none is left out"
        counted = f"{self.units:,} of {self.rows:,} {rows}, drawn with seed {self.rng}"
        return f"one random {row} of each {unit} counts ({counted})"

    def join(self, other: DrawnRows) -> DrawnRows:
        """Return the draw from the rows of both; the seed is that of the first."""
        return DrawnRows(self.rows + other.rows, self.units + other.units, self.rng)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> DrawnRows:
        """Return the draw that ``_asdict`` wrote down."""
        numbers = (as_whole_number(f"within.{k}", body[k], minimum=0) for k in cls._fields)
        drawn = cls(*numbers)
        if not 0 < drawn.units <= drawn.rows:
            rule = "within must count at least as many rows as units"
            raise InvalidInput(f"{rule}, got {drawn.rows} and {drawn.units}.")
        return drawn


def hash_row(rng: int, place: int, task: str, unit: str) -> str:
    """Return what decides the draw: the row of a unit with the smallest hash is drawn.

    Places number the rows of a unit in any fixed order, so the draw is uniform whatever the order:
    rows may be sorted by score. Every engine computes this hash of names and place alike.
    """
    text = f"{rng}/{place}/{task}/{unit}"
    return hashlib.md5(text.encode("utf-8", "backslashreplace"), usedforsecurity=False).hexdigest()


def name_units(within: Any, name: str = "within") -> Array:
    """Return the unit, or key, of each row as text, as tables name it."""
    values = inputs.as_column(name, within)
    if values.dtype.kind in "iuU":
        return values.astype(str)
    values = values if values.dtype.kind == "f" else inputs.as_task_ids(values)
    return np.array([str(as_cluster(value, name)) for value in values.tolist()], dtype=object)


@runtime_checkable
class Data(Protocol):
    """Labelled examples, wherever they are kept."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return ""

    def check_tasks(self) -> None:
        """Raise InvalidInput unless the data name their tasks."""

    def has_class_scores(self) -> bool:
        """Return whether every class has a score in each row."""

    def resolve(self, predictor: Any) -> Self:
        """Return the same data, with what the user left out as in calibration."""

    def class_names(self, *, by_class: bool = False) -> tuple[Any, ...] | None:
        """Return the classes, if labels are known and classes do not differ from row to row."""

    def describe(self) -> tuple[np.dtype[Any], dict[str, Any] | None]:
        """Return the precision of the scores, and the columns that a promise file names."""

    def sizes(self, *, by_class: bool = False) -> dict[Any, Counts]:
        """Return the number of examples of each task, by class or, as None, of all together."""

    def order_statistics(
        self, rank: RankRule, *, by_class: bool, progress: _common.Progress
    ) -> Statistics:
        """Return the scores of some ranks in each task, or in each class of a task."""

    def counts(
        self, thresholds: Floats, precision: np.dtype[Any], tasks: Array | None = None
    ) -> list[Tally]:
        """Return the counts for thresholds of shape (trials, tasks or 1, classes or 1)."""

    def facts(
        self, names: Array, sizes: Counts, skipped: frozenset[str], repeats: Repeats | None = None
    ) -> Facts:
        """Return what the checks look at."""

    def find_spread(self) -> float:
        """Return the distance between the 5% and the 95% quantile of the true numbers."""

    def clusters_of(self, names: Sequence[Any]) -> list[Any] | None:
        """Return the cluster of each task; None if they are not known."""

    def draw_rows(self, rng: int, task: str | None = None) -> tuple[Self, DrawnRows | None]:
        """Return one random row of each unit; all rows, and None, if there are no units.

        A site, which is one task, passes the name of that task.
        """

    def rows(self, predictor: Any, tasks: Collection[Any]) -> list[Row]:
        """Return the examples of some tasks with their sets, if every label has a score."""

    def add_origin(self, context: Any) -> Any:
        """Return a context with the model and the training tasks that the data name."""
        return context

    def check_origin(self, context: Any, model: str | None) -> None:
        """Raise InvalidInput if the scores are of another model than the one calibrated."""
        context.check_model(model)


@dataclass(frozen=True, eq=False)
class Scored(Data):
    """Labelled scores in arrays.

    Parameters
    ----------
    scores : array_like, shape (n,) or (n, classes)
        Scores of the true labels; or of every class, which gives set sizes and examples too.
    tasks : array_like, shape (n,)
        Task of each example.
    labels : array_like, shape (n,), optional
        True label of each example. Needed with scores of every class.
    classes : sequence, optional
        Class of each column of ``scores``; by default those of the calibration, or 0, 1, ...
    clusters : array_like, shape (n,), or mapping from task, optional
        Cluster of each example or task, as in ``MetaPS.calibrate``.
    columns : dict, optional
        Columns that a promise file names, if the scores are those of predicted numbers.
    within : array_like, shape (n,), optional
        Unit of each example, as in ``MetaPS.calibrate``.
    known : sequence, optional
        Classes that were calibrated, in their order, if ``scores`` are those of true labels.
    keys : array_like, shape (n,), optional
        For `MetaRisk`, where ``scores`` are losses: name of each example, distinct within its task;
        by default its place within the task.
    thresholds : array_like, shape (thresholds,), optional
        For `MetaRisk`: thresholds of the losses, ascending; by default those of the calibration.

    Examples
    --------
    >>> from metapac import Scored
    >>> Scored([[0.9, 0.1], [0.4, 0.6]], ["ohio", "utah"], ["no", "yes"], ["no", "yes"]).classes
    ['no', 'yes']
    """

    scores: Any
    tasks: Any
    labels: Any = None
    classes: Sequence[Any] | None = None
    clusters: ClusterIds | None = None
    columns: dict[str, Any] | None = field(default=None, repr=False)  # of predicted numbers
    within: ArrayLike | Iterable[object] | None = None
    known: Sequence[Any] | None = field(default=None, repr=False)  # the classes calibrated
    keys: ArrayLike | Iterable[object] | None = None
    thresholds: ArrayLike | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", inputs.keep_tasks(self.tasks))

    @classmethod
    def of_one_task(cls, scores: Any, labels: Any = None, classes: Any = None) -> Self:
        """Return scores that all belong to one task."""
        if isinstance(scores, Data):
            got = type(scores).__name__
            raise InvalidInput(f"scores must be an array, got {got}.")
        array = inputs.as_score_array("scores", scores)
        return cls(scores, np.zeros(array.shape[:1], int), labels, classes)

    @cached_property
    def array(self) -> Floats:
        """The scores as an array to calibrate on."""
        return inputs.as_calibration_scores("scores", self.scores)

    @cached_property
    def ids(self) -> Array:
        """The task of each example."""
        _common.check_same_index("scores", self.scores, "tasks", self.tasks)
        ids = inputs.as_task_ids(self.tasks)
        check_same_length("scores", self.array, "tasks", ids)
        return ids

    @cached_property
    def matrix(self) -> inputs.ClassMatrix | None:
        """The scores of all classes; None if scores are those of true labels."""
        return inputs.read_class_matrix(self.scores, self.labels, self.classes)

    @cached_property
    def true_scores(self) -> Floats:
        """The scores of the true labels."""
        if self.matrix is not None:
            return self.matrix.true_scores
        inputs.check_one_dimensional("scores", self.array)
        return self.array

    @cached_property
    def coded(self) -> tuple[tuple[Any, ...], Counts] | None:
        """The classes, and for each example the index of its class; None without labels."""
        if self.matrix is not None:
            return self.matrix.classes, self.matrix.codes
        if self.labels is None:
            return None
        _common.check_same_index("scores", self.scores, "labels", self.labels)
        coded = inputs.as_class_codes(self.labels)
        check_same_length("scores", self.array, "labels", coded[1])
        if self.known is None:
            return coded
        return tuple(self.known), inputs.find_classes(coded[0], self.known)[coded[1]]

    def check_tasks(self) -> None:
        if self.tasks is None:
            raise InvalidInput("tasks must hold the task of each example.")

    def has_class_scores(self) -> bool:
        return self.matrix is not None

    def check_no_labels(self) -> None:
        """Raise InvalidInput if labels come with the scores of true labels."""
        if self.matrix is None and self.labels is not None:
            raise InvalidInput("labels must not be passed with true scores, without per_class.")

    def resolve(self, predictor: Any) -> Self:
        if self.array.ndim == 1:
            return replace(self, known=predictor.classes_)
        if self.labels is None:
            raise _need_labels(f"scores has shape {self.array.shape}")
        predictor._check_order(self.scores, None)
        known = predictor._known_classes
        return self if self.classes is not None else replace(self, classes=known)

    def class_names(self, *, by_class: bool = False) -> tuple[Any, ...] | None:
        return None if self.coded is None else self.coded[0]

    def describe(self) -> tuple[np.dtype[Any], dict[str, Any] | None]:
        if self.matrix is None:
            return self.array.dtype, self.columns
        return self.array.dtype, {"classes": inputs.as_json_labels(self.matrix.classes)}

    def sizes(self, *, by_class: bool = False) -> dict[Any, Counts]:
        names, task = number_sorted(inputs.as_task_ids(self.tasks))
        if not by_class or self.coded is None:
            return {None: np.bincount(task, minlength=len(names))}
        classes, label = self.coded
        each = (np.bincount(task[label == i], minlength=len(names)) for i in range(len(classes)))
        return dict(zip(classes, each, strict=True))

    def order_statistics(
        self, rank: RankRule, *, by_class: bool, progress: _common.Progress
    ) -> Statistics:
        scores, ids, label = self.true_scores, self.ids, None
        if not by_class:
            groups = _group(scores, ids)
            names, task = groups.names, np.arange(len(groups.names))
        elif self.coded is None:
            raise _need_labels("per_class=True")
        else:
            names, task, label, groups = _group_by_class(scores, ids, *self.coded)
        thresholds, low, high, may_repeat = task_thresholds(groups, rank(groups.sizes, label))
        repeats: Repeats | None = None if by_class or may_repeat else {}
        return Statistics(names, task, label, groups.sizes, thresholds, low, high, repeats)

    def counts(
        self, thresholds: Floats, precision: np.dtype[Any], tasks: Array | None = None
    ) -> list[Tally]:
        names, task = number_sorted(self.ids)
        if thresholds.shape[2] > 1 and self.coded is None:
            raise _need_labels("each class has its guarantee")
        place: Any = slice(None)
        if tasks is not None:
            index = {name: i for i, name in enumerate(tasks.tolist())}
            place = np.array([index[name] for name in names.tolist()])[task]
        classes, code = self.coded or (None, np.zeros_like(task))
        width, true = 1 if classes is None else len(classes), self.true_scores
        groups, group = np.unique(task * width + code, return_inverse=True)
        label = None if classes is None else groups % width
        ranges, tallies = find_ranges(task, true, true, len(names)), []
        for trial in thresholds:
            cuts = np.broadcast_to(trial[place], (len(task), width))
            missed, sets = self._compare(cuts, code, precision)
            sets = sets and sum_sets(sets, group, len(groups))
            counts = np.bincount(group), sum_by(missed, group, len(groups)), ranges
            tallies.append(Tally(names, groups // width, *counts, classes, label, sets))
        return tallies

    def _compare(
        self, cuts: Floats, code: Counts, precision: np.dtype[Any]
    ) -> tuple[NDArray[np.bool_], SetCounts | None]:
        """Return which examples are missed, and how large their sets are, if that is known."""
        row = np.arange(len(code))
        if self.matrix is None:
            return ~inputs.is_at_least(self.scores, cuts[row, code], precision), None
        kept = inputs.is_at_least(self.scores, cuts, precision)
        size = np.count_nonzero(kept, axis=1)
        return ~kept[row, code], SetCounts(size, size == 0, size == 1, size == kept.shape[1])

    def facts(
        self, names: Array, sizes: Counts, skipped: frozenset[str], repeats: Repeats | None = None
    ) -> Facts:
        skipped |= {"duplicates"} if repeats is not None else set()
        return find_facts(names.tolist(), self.ids, self.array, self.matrix, skipped)

    def find_spread(self) -> float:
        rule = "scores of numbers can be explored in a table from open_table only, not in arrays"
        raise InvalidInput(f"{rule}.", parameter="scores")

    def clusters_of(self, names: Sequence[Any]) -> list[Any] | None:
        return None if self.clusters is None else match_clusters(names, self.ids, self.clusters)

    def draw_rows(self, rng: int, task: str | None = None) -> tuple[Self, DrawnRows | None]:
        if self.within is None:
            return self, None
        inputs.check_no_nan("scores", self.true_scores)
        units = name_units(self.within)
        check_same_length("within", units, "scores", self.true_scores)
        names, codes = _number(self.ids)
        keys = _number(units)[1].astype(np.int64) * len(names) + codes
        groups, group = np.unique(keys, return_inverse=True)
        drawn = DrawnRows(len(units), len(groups), as_whole_number("rng", rng, minimum=0))
        drawn.check_several(len(names))
        order, place = self._sort_units(group)
        first, several = order[place == 0], np.bincount(group) > 1
        chosen, least = first.copy(), dict[int, str]()
        texts = [str(name) for name in names.tolist()] if task is None else [task] * len(names)
        for i in np.flatnonzero(several[group[order]]).tolist():
            row, unit = order[i], group[order[i]]
            key = hash_row(drawn.rng, place[i], texts[codes[row]], units[row])
            if key < least.get(unit, "g"):  # no hexadecimal digit
                least[unit], chosen[unit] = key, row
        return self._take(np.sort(chosen)), drawn

    def _sort_units(self, group: Counts) -> tuple[Counts, Counts]:
        """Return the rows, those of a unit together and in an order of their values, and places."""
        keys: list[Array] = [self.true_scores, group]
        if self.coded is not None:
            rank = np.argsort(np.argsort([*map(str, self.coded[0])], kind="stable"))
            keys.insert(0, rank[self.coded[1]])
        order = np.lexsort(keys)
        same = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in keys])
        if self.matrix is not None and same.any():
            order = np.lexsort([*self.array.T[::-1], *keys])
        starts = np.append(True, np.diff(group[order]) > 0)
        here = np.arange(len(order))
        return order, here - np.maximum.accumulate(np.where(starts, here, 0))

    def _take(self, rows: Counts) -> Self:
        """Return some of the examples."""

        def take(values: Any, name: str) -> Any:
            if values is None or isinstance(values, Mapping):
                return values
            column = values.iloc if hasattr(values, "iloc") else inputs.as_column(name, values)
            return column[rows]

        scores = getattr(self.scores, "iloc", self.scores)  # of a data frame, its rows
        if scores is self.scores and not inputs.is_bfloat16(scores):
            scores = np.asarray(_common.on_host(scores))
        some = {"scores": scores[rows], "tasks": self.ids[rows], "within": None}
        some |= {name: take(getattr(self, name), name) for name in ("labels", "clusters")}
        classes = self.classes if self.matrix is None else self.matrix.classes
        return replace(self, **some, classes=classes)

    def rows(self, predictor: Any, tasks: Collection[Any]) -> list[Row]:
        if self.matrix is None:
            return []
        ids, (_scores, classes, codes) = self.ids.tolist(), self.matrix
        rows = [i for i, task in enumerate(ids) if task in tasks]
        cuts = predictor._thresholds_of(classes)[0]
        kept = inputs.is_at_least(self.scores, cuts, predictor.precision_)[rows]
        return [
            Row(ids[i], classes[codes[i]], tuple(map(str, labels)), full=bool(row.all()))
            for i, row, labels in zip(rows, kept, label_lists(kept, classes), strict=True)
        ]


def as_data(
    scores: Any, tasks: Any, labels: Any, classes: Any, clusters: Any, within: Any = None
) -> Data:
    """Return arrays, or what is data already, such as a table."""
    if not isinstance(scores, Data):
        if isinstance(scores, str | os.PathLike) or (hasattr(scores, "columns") and tasks is None):
            rule = "scores must be an array beside tasks, or a table from open_table"
            raise InvalidInput(f"{rule}, got {type(scores).__name__}.")
        return Scored(scores, tasks, labels, classes, clusters, within=within)
    given = {"tasks": tasks, "labels": labels, "classes": classes}
    given |= {"clusters": clusters, "within": within}
    for name in (name for name, value in given.items() if value is not None):
        rule = f"{name} must be left out: a table names its columns, in Columns"
        raise InvalidInput(f"{rule}.")
    return replace(scores)  # type: ignore[type-var]  # what a table knew of its values is gone


def _need_labels(reason: str) -> InvalidInput:
    rule = "labels must hold the true label of each example"
    return InvalidInput(f"{rule}, since {reason}.", parameter="labels")


# Ids are converted to Python objects this many at a time, so that a dict can number them without
# a second copy of the whole column in memory.
_CHUNK = 1 << 14
# Ids are compared and scores are copied this many at a time, so that they stay in the cache.
_BLOCK = 1 << 17
# If so many scores do not repeat, others hardly do.
_ENOUGH = 5_000


class Grouped(NamedTuple):
    """Scores sorted by group, with groups in the order in which they first appear."""

    names: NDArray[Any]
    sizes: NDArray[np.int64]
    scores: Floats
    by_class: bool = False  # names are then pairs of task and class

    def check_no_nan(self) -> None:
        """Raise InvalidInput if a score is NaN, naming the group of the first one."""

        def where(position: int) -> str:
            index = np.searchsorted(np.cumsum(self.sizes), position, side="right")
            name = self.names.tolist()[index]
            task, label = name if self.by_class else (name, None)
            return f"in task {task!r}{f', class {label!r}' if self.by_class else ''}"

        inputs.check_no_nan("scores", self.scores, where)


def group(scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Grouped:
    """Check scores and task ids, and sort the scores by task."""
    data = Scored(scores, tasks)
    return _group(data.true_scores, data.ids)


def _group(scores: Floats, ids: Array) -> Grouped:
    starts = _run_starts(ids)
    if starts is None:
        names, codes = _number(ids)
    else:
        names, runs = _number(ids[starts])
        lengths = np.diff(starts, append=len(ids))
        if len(names) == len(runs):  # every task is one run: nothing to move
            return Grouped(names, lengths, scores)
        codes = np.repeat(runs, lengths)
    return _sort_by_group(names, codes, scores)


def _group_by_class(
    scores: Floats, ids: Array, classes: Sequence[Any], label: Counts
) -> tuple[Array, Counts, Counts, Grouped]:
    """Sort scores by task and class; return the tasks, and task and class of each group."""
    names, task = _number(ids)
    keys, codes = np.unique(task.astype(np.int64) * len(classes) + label, return_inverse=True)
    task, label = np.divmod(keys, len(classes))
    pairs = np.fromiter(
        ((names[t], classes[c]) for t, c in zip(task, label, strict=True)), object, len(keys)
    )
    groups = _sort_by_group(pairs, codes, scores)._replace(by_class=True)
    return names, task, label, groups


def _sort_by_group(names: NDArray[Any], codes: NDArray[Any], scores: Floats) -> Grouped:
    """Return the scores sorted by the index of their group."""
    # NumPy sorts 16-bit integers by radix, in linear time; wider ones by merging.
    narrow = codes.astype(np.min_scalar_type(len(names) - 1))
    return Grouped(names, np.bincount(narrow), scores[np.argsort(narrow, kind="stable")])


def _run_starts(ids: Array) -> NDArray[np.intp] | None:
    """Return where runs of equal neighbours start; None if they are too short to help."""
    if ids.dtype == object:  # comparing objects costs as much as looking them up
        return None
    starts, count = [np.zeros(1, dtype=np.intp)], 1
    changed = np.empty(_BLOCK, dtype=bool)
    for start in range(0, len(ids) - 1, _BLOCK):
        left, right = ids[:-1][start : start + _BLOCK], ids[1:][start : start + _BLOCK]
        np.not_equal(left, right, out=changed[: len(left)])
        starts.append(np.flatnonzero(changed[: len(left)]) + start + 1)
        count += len(starts[-1])
        if count > len(ids) // 4:
            return None
    return np.concatenate(starts)


def _number(ids: Array) -> tuple[Array, NDArray[np.int32]]:
    """Return the distinct ids in order of first appearance, and the index of each id in them."""
    number: defaultdict[object, int] = defaultdict()
    number.default_factory = number.__len__
    codes = np.empty(len(ids), dtype=np.int32)
    try:
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK].tolist()
            codes[start : start + _CHUNK] = np.fromiter(
                map(number.__getitem__, chunk), np.int32, len(chunk)
            )
    except TypeError as error:
        raise inputs.unhashable_task(error) from error
    if ids.dtype == object and isinstance(ids[0], numbers.Number):  # 1, 1.0 and True are one key
        inputs.check_one_type(sorted(kind.__name__ for kind in {*map(type, ids.tolist())}))
    return inputs.as_task_names(list(number)), codes


def number_sorted(ids: Array) -> tuple[Array, Counts]:
    """Return the distinct ids in ascending order, and the index of each id in them."""
    names, codes = _number(ids)
    order = np.argsort(names, kind="stable")
    return names[order], np.argsort(order)[codes]


def task_thresholds(
    grouped: Grouped, ranks: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], bool]:
    """Return the scores of given ranks in each group, its lowest and its highest score."""
    thresholds, lowest, highest = np.empty(ranks.shape), *np.empty((2, len(ranks)))
    starts = np.cumsum(grouped.sizes) - grouped.sizes
    seen, may_repeat = 0, False
    for batch in _batches(grouped.sizes, ranks):  # one selection for many groups
        size, rank = int(grouped.sizes[batch[0]]), ranks[batch[0]]
        step = max(1, _BLOCK // size)
        for block in (batch[start : start + step] for start in range(0, len(batch), step)):
            rows = _rows(grouped.scores, starts, block, size)
            bottom = rows.min(axis=1)
            if np.isnan(bottom).any():
                grouped.check_no_nan()
            lowest[block], highest[block] = bottom, rows.max(axis=1)
            thresholds[block] = _select(rows, rank)
            near = rows[:, max(rank.min(), 0) : rank.max()]  # sorted
            may_repeat = may_repeat or bool((near[:, 1:] == near[:, :-1]).any())
            seen += near.size
    return thresholds, lowest, highest, may_repeat or seen < _ENOUGH


def _select(rows: Floats, ranks: NDArray[np.int64]) -> Floats:
    """Return the values of given ranks in each row, reordering it; ``-inf`` for a rank of -1."""
    usable = ranks[ranks >= 0]
    if not len(usable):
        return np.full((len(rows), len(ranks)), -np.inf)
    # One pass over the row for the highest rank; the others lie close together to its left. Given
    # all ranks at once, NumPy makes a pass for each of them if it has vector instructions.
    low, high = int(usable.min()), int(usable.max())
    rows.partition(high, axis=1)
    if low < high:
        left = rows[:, :high]
        left.partition(low, axis=1)
        left[:, low:].sort(axis=1)
    values = rows[:, ranks]
    if len(usable) < len(ranks):
        values[:, ranks < 0] = -np.inf
    return values


def _batches(sizes: Counts, ranks: Counts) -> Iterator[NDArray[np.intp]]:
    """Yield the indices of all groups, split into those of the same size and ranks."""
    order = np.argsort(sizes, kind="stable")
    for batch in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
        while (unequal := ranks[batch] != ranks[batch[0]]).any():
            differs = unequal.any(axis=1)
            yield batch[~differs]
            batch = batch[differs]
        yield batch


def _rows(scores: Floats, starts: NDArray[np.int64], tasks: NDArray[np.intp], size: int) -> Floats:
    """Copy the scores of tasks of one size, given by ascending index, into a matrix."""
    if tasks[-1] - tasks[0] == len(tasks) - 1:  # neighbours: one slice
        first = starts[tasks[0]]
        return scores[first : first + len(tasks) * size].reshape(-1, size).copy()
    return np.asarray(scores[starts[tasks, None] + np.arange(size)])


def match_clusters(names: Sequence[Any], ids: Array, clusters: ClusterIds) -> list[Any]:
    """Return the cluster of each task."""
    if isinstance(clusters, Mapping):
        for name in (name for name in names if name not in clusters):
            raise InvalidInput(f"clusters must give the cluster of every task, and lacks {name!r}.")
        return [as_cluster(clusters[name]) for name in names]
    values = inputs.as_column("clusters", clusters)
    values = inputs.as_task_ids(values) if values.dtype.kind == "M" else values
    check_same_length("clusters", values, "tasks", ids)
    found: dict[Any, Any] = {}
    for task, value in dict.fromkeys(zip(ids.tolist(), values.tolist(), strict=True)):
        cluster = as_cluster(value)
        check_one_cluster(task, found.setdefault(task, cluster), cluster)
    return [found[name] for name in names]


def as_cluster(value: Any, name: str = "clusters") -> str | int:
    """Return the name of a cluster, or of a unit."""
    plain = inputs.as_plain_label(value)
    if inputs.is_missing(plain):
        rules = {"clusters": "task must be in a cluster", "within": "example must be in a unit"}
        rule = rules.get(name, "example needs its own")
        raise InvalidInput(f"{name} holds missing values; every {rule}.", parameter=name)
    if isinstance(plain, float) and plain.is_integer():  # as in a pandas column with missing values
        return int(plain)
    return plain if type(plain) in (str, int) else str(plain)


def check_one_cluster(task: Any, first: Any, second: Any) -> None:
    """Raise InvalidInput if a task is in two clusters."""
    if first != second:
        one, other = sorted((str(first), str(second)))
        raise InvalidInput(f"task {task!r} is in the clusters {one!r} and {other!r}, not in one.")
