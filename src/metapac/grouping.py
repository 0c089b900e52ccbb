"""Labelled examples, by task: the five questions that arrays and tables answer alike.

*Sizes*: how many examples does each task have? *Order statistics*: the scores of some ranks in each
task. *Counts*: for given thresholds, how many examples are missed, and how large are the sets?
*Facts*: what do the checks need to know? *Rows*: the examples themselves, with their sets.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import inputs
from metapac._common import (
    Array,
    Counts,
    Floats,
    Progress,
    brief,
    check_same_index,
    check_same_length,
    listed,
    on_host,
)
from metapac.data_checks import Facts, Repeats, find_facts, find_ranges
from metapac.errors import InvalidInput
from metapac.inputs import (
    ClassMatrix,
    as_calibration_scores,
    as_class_codes,
    as_json_labels,
    as_plain_label,
    as_task_ids,
    as_task_names,
    check_one_dimensional,
    check_one_type,
    is_at_least,
    keep_tasks,
    read_class_matrix,
    unhashable_task,
)
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
    empty : ndarray of int
        Number of sets without a label.
    single : ndarray of int
        Number of sets with one label.
    full : ndarray of int
        Number of sets with every label.
    """

    labels: Counts
    empty: Counts
    single: Counts
    full: Counts

    def sum_by(self, index: Counts, length: int) -> SetCounts:
        """Return the sums over groups with the same index.

        Parameters
        ----------
        index : ndarray of int
            Index of each group.
        length : int
            Number of sums.

        Returns
        -------
        SetCounts
            The sums.
        """
        return SetCounts(*(sum_by(column, index, length) for column in self))

    def take(self, which: Array) -> SetCounts:
        """Return the counts of some groups.

        Parameters
        ----------
        which : ndarray
            Indices or booleans.

        Returns
        -------
        SetCounts
            Their counts.
        """
        return SetCounts(*(column[which] for column in self))


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
        by_group = ("task", "examples", "missed", "label", "sets", "widths")
        columns = {name: getattr(self, name) for name in by_group}
        chosen: dict[str, Any] = {
            name: column.take(which) if isinstance(column, SetCounts) else column[which]
            for name, column in columns.items()
            if column is not None
        }
        return self._replace(**chosen)


def sum_by(column: Array, index: Counts, length: int) -> Counts:
    """Return the sums of the entries with the same index."""
    return np.bincount(index, weights=column, minlength=length).astype(np.int64)


class Row(NamedTuple):
    """One labelled example with its prediction set."""

    task: Any
    truth: Any
    labels: tuple[str, ...] | None
    interval: tuple[float, float] | None = None
    full: bool = False


class Data(ABC):
    """Labelled examples, wherever they are kept."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return ""

    @abstractmethod
    def check_tasks(self) -> None:
        """Raise InvalidInput unless the data name their tasks."""

    @abstractmethod
    def has_class_scores(self) -> bool:
        """Return whether every class has a score in each row."""

    @abstractmethod
    def resolve(self, predictor: Any) -> Self:
        """Return the same data, with what the user left out as in calibration."""

    @abstractmethod
    def as_calibrated(self, predictor: Any) -> Self:
        """Return the same data, as a predictor was calibrated on them."""

    @abstractmethod
    def class_names(self, *, by_class: bool = False) -> tuple[Any, ...] | None:
        """Return the classes, if labels are known and classes do not differ from row to row."""

    @abstractmethod
    def describe(self) -> tuple[np.dtype[Any], dict[str, Any] | None]:
        """Return the precision of the scores, and the columns that a promise file names."""

    @abstractmethod
    def sizes(self, *, by_class: bool = False) -> dict[Any, Counts]:
        """Return the number of examples of each task, by class or, as None, of all together."""

    @abstractmethod
    def order_statistics(self, rank: RankRule, *, by_class: bool, progress: Progress) -> Statistics:
        """Return the scores of some ranks in each task, or in each class of a task."""

    @abstractmethod
    def counts(
        self, thresholds: Floats, precision: np.dtype[Any], tasks: Array | None = None
    ) -> list[Tally]:
        """Return the counts for thresholds of shape (trials, tasks or 1, classes or 1)."""

    @abstractmethod
    def facts(
        self,
        names: Array,
        sizes: Counts,
        skipped: frozenset[str],
        repeats: Repeats | None = None,
    ) -> Facts:
        """Return what the checks look at."""

    @abstractmethod
    def clusters_of(self, names: Sequence[Any]) -> list[Any] | None:
        """Return the cluster of each task; None if they are not known."""

    @abstractmethod
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
        Cluster of each example or task. Needed if the promise was calibrated with clusters.

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
    known: Sequence[Any] | None = field(default=None, repr=False)  # the classes calibrated

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", keep_tasks(self.tasks))

    @cached_property
    def array(self) -> Floats:
        """The scores as an array to calibrate on."""
        return as_calibration_scores("scores", self.scores)

    @cached_property
    def ids(self) -> Array:
        """The task of each example."""
        check_same_index("scores", self.scores, "tasks", self.tasks)
        ids = as_task_ids(self.tasks)
        check_same_length("scores", self.array, "tasks", ids)
        return ids

    @cached_property
    def matrix(self) -> ClassMatrix | None:
        """The scores of all classes; None if scores are those of true labels."""
        return read_class_matrix(self.scores, self.labels, self.classes)

    @property
    def true_scores(self) -> Floats:
        """The scores of the true labels."""
        return self.array if self.matrix is None else self.matrix.true_scores

    @cached_property
    def coded(self) -> tuple[tuple[Any, ...], Counts] | None:
        """The classes, and for each example the index of its class; None without labels."""
        if self.matrix is not None:
            return self.matrix.classes, self.matrix.codes
        if self.labels is None:
            return None
        check_same_index("scores", self.scores, "labels", self.labels)
        present, codes = as_class_codes(self.labels)
        check_same_length("scores", self.array, "labels", codes)
        return (
            (present, codes) if self.known is None else _match_classes(present, codes, self.known)
        )

    def check_tasks(self) -> None:
        if self.tasks is None:
            raise InvalidInput("tasks must hold the task of each example.", parameter="tasks")

    def has_class_scores(self) -> bool:
        return self.matrix is not None

    def check_no_labels(self) -> None:
        """Raise InvalidInput if labels come with the scores of true labels."""
        if self.matrix is None and self.labels is not None:
            raise InvalidInput(
                "labels must not be passed with scores of the true labels, unless per_class=True."
            )

    def resolve(self, predictor: Any) -> Self:
        if self.array.ndim == 1:
            return replace(self, known=predictor.classes_)
        if self.labels is None:
            raise InvalidInput(
                "labels must hold the true label of each example, since scores has shape "
                f"{self.array.shape}.",
                parameter="labels",
            )
        predictor._check_order(self.scores, None)
        known = predictor._known_classes
        return self if self.classes is not None else replace(self, classes=known)

    def as_calibrated(self, predictor: Any) -> Self:
        is_drawn = predictor.clusters_ is not None
        if is_drawn and self.clusters is None:
            raise InvalidInput(
                "clusters must be passed with the calibration scores, since the promise was "
                "calibrated on one task of each cluster.",
                parameter="clusters",
            )
        uses_labels = self.array.ndim == 2 or predictor.classes_ is not None
        labels, clusters = self.labels if uses_labels else None, self.clusters if is_drawn else None
        return replace(self.resolve(predictor), labels=labels, clusters=clusters)

    def class_names(self, *, by_class: bool = False) -> tuple[Any, ...] | None:
        return None if self.coded is None else self.coded[0]

    def describe(self) -> tuple[np.dtype[Any], dict[str, Any] | None]:
        if self.matrix is None:
            return self.array.dtype, self.columns
        return self.array.dtype, {"classes": as_json_labels(self.matrix.classes)}

    def sizes(self, *, by_class: bool = False) -> dict[Any, Counts]:
        names, task = _number_sorted(as_task_ids(self.tasks))
        if not by_class or self.coded is None:
            return {None: np.bincount(task, minlength=len(names))}
        classes, label = self.coded
        return {
            name: np.bincount(task[label == i], minlength=len(names))
            for i, name in enumerate(classes)
        }

    def order_statistics(self, rank: RankRule, *, by_class: bool, progress: Progress) -> Statistics:
        scores = self.scores if self.matrix is None else self.matrix.true_scores
        if not by_class:
            grouped = group(scores, self.tasks)
            ranks = rank(grouped.sizes, None)
            thresholds, low, high, may_repeat = task_thresholds(grouped, ranks)
            start = grouped.names, np.arange(len(grouped.names)), None, grouped.sizes
            return Statistics(*start, thresholds, low, high, None if may_repeat else {})
        if self.coded is None:
            raise InvalidInput("labels must hold the true label of each example if per_class=True.")
        names, task, label, groups = group_by_class(scores, self.tasks, *self.coded)
        thresholds, low, high, _may_repeat = task_thresholds(groups, rank(groups.sizes, label))
        return Statistics(names, task, label, groups.sizes, thresholds, low, high)

    def counts(
        self, thresholds: Floats, precision: np.dtype[Any], tasks: Array | None = None
    ) -> list[Tally]:
        names, task = _number_sorted(self.ids)
        label = None if self.coded is None else self.coded[1]
        if thresholds.shape[2] > 1 and label is None:
            raise InvalidInput(
                "labels must hold the true label of each example, since each class has its "
                "guarantee.",
                parameter="labels",
            )
        place: Any = slice(None)
        if tasks is not None:
            index = {name: i for i, name in enumerate(tasks.tolist())}
            place = np.array([index[name] for name in names.tolist()])[task]
        true = self.true_scores
        start = names, task, find_ranges(task, true, true, len(names))
        return [self._count(*start, trial[place], label, precision) for trial in thresholds]

    def _count(
        self,
        names: Array,
        task: Counts,
        ranges: Floats,
        cuts: Floats,
        label: Counts | None,
        precision: np.dtype[Any],
    ) -> Tally:
        """Sum over the examples of each task and class that occur together."""
        sets, row = None, np.arange(len(task))
        if self.matrix is None:
            cuts = cuts[:, 0] if cuts.shape[1] == 1 else cuts[row if len(cuts) > 1 else 0, label]
            missed = ~is_at_least(self.scores, cuts, precision)
        else:
            kept = is_at_least(self.scores, cuts, precision)
            missed, size = ~kept[row, self.matrix.codes], np.count_nonzero(kept, axis=1)
            sets = SetCounts(size, size == 0, size == 1, size == kept.shape[1])
        classes = self.class_names()
        width = 1 if classes is None else len(classes)
        groups, place = np.unique(
            task * width + (0 if label is None else label), return_inverse=True
        )
        length = len(groups)
        return Tally(
            names,
            groups // width,
            np.bincount(place, minlength=length),
            sum_by(missed, place, length),
            ranges,
            classes,
            None if label is None else groups % width,
            None if sets is None else sets.sum_by(place, length),
        )

    def facts(
        self,
        names: Array,
        sizes: Counts,
        skipped: frozenset[str],
        repeats: Repeats | None = None,
    ) -> Facts:
        skipped |= {"duplicates"} if repeats is not None else set()
        classes = codes = None
        if self.matrix is not None:
            classes, codes = self.matrix.classes, self.matrix.codes
        return find_facts(names.tolist(), self.ids, self.array, classes, codes, skipped)

    def clusters_of(self, names: Sequence[Any]) -> list[Any] | None:
        return None if self.clusters is None else match_clusters(names, self.ids, self.clusters)

    def rows(self, predictor: Any, tasks: Collection[Any]) -> list[Row]:
        if self.matrix is None:
            return []
        ids, matrix = self.ids.tolist(), self.matrix
        rows = [i for i, task in enumerate(ids) if task in tasks]
        kept = predictor.predict_set(matrix.scores[rows])
        return [
            Row(ids[i], matrix.labels[i], tuple(map(str, labels)), full=bool(row.all()))
            for i, row, labels in zip(rows, kept, label_lists(kept, matrix.classes), strict=True)
        ]


def as_data(scores: Any, tasks: Any, labels: Any, classes: Any, clusters: Any) -> Data:
    """Return arrays, or what is data already, such as a table."""
    if not isinstance(scores, Data):
        return Scored(scores, tasks, labels, classes, clusters)
    given = {"tasks": tasks, "labels": labels, "classes": classes, "clusters": clusters}
    for name, value in given.items():
        if value is not None:
            raise InvalidInput(
                f"{name} is for arrays; a table names its columns in Columns.", parameter=name
            )
    return scores


def _match_classes(
    present: tuple[Any, ...], codes: Counts, known: Sequence[Any]
) -> tuple[tuple[Any, ...], Counts]:
    """Return the classes calibrated, and for each example the index of its class in them."""
    place = {str(name): i for i, name in enumerate(known)}
    unknown = [name for name in present if str(name) not in place]
    if unknown:
        expected, others = (listed([*map(repr, some)]) for some in (known, unknown))
        raise InvalidInput(
            f"labels must be among the calibrated classes {expected}, got {others}.",
            parameter="labels",
        )
    return tuple(known), np.array([place[str(name)] for name in present])[codes]


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

    def check_no_nan(self) -> None:
        """Raise InvalidInput if a score is NaN, naming the group of the first one."""
        ends = np.cumsum(self.sizes)

        def where(position: int) -> str:
            name = self.names.tolist()[np.searchsorted(ends, position, side="right")]
            if isinstance(name, tuple):
                return "in task {!r}, class {!r}".format(*name)
            return f"in task {name!r}"

        inputs.check_no_nan("scores", self.scores, where)


def group(scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Grouped:
    """Check scores and task ids, and sort the scores by task."""
    array, ids = _check_pairs(scores, tasks)
    starts = _run_starts(ids)
    if starts is None:
        names, codes = _number(ids)
    else:
        names, runs = _number(ids[starts])
        lengths = np.diff(starts, append=len(ids))
        if len(names) == len(runs):  # every task is one run: nothing to move
            return Grouped(names, lengths, array)
        codes = np.repeat(runs, lengths)
    return _sort_by_group(names, codes, array)


def group_by_class(
    scores: ArrayLike, tasks: ArrayLike | Iterable[object], classes: Sequence[Any], label: Counts
) -> tuple[Array, Counts, Counts, Grouped]:
    """Sort scores by task and class; return the tasks, and task and class of each group."""
    array, ids = _check_pairs(scores, tasks)
    names, task = _number(ids)
    keys, codes = np.unique(task.astype(np.int64) * len(classes) + label, return_inverse=True)
    task, label = np.divmod(keys, len(classes))
    pairs = np.fromiter(
        ((names[t], classes[c]) for t, c in zip(task, label, strict=True)), object, len(keys)
    )
    return names, task, label, _sort_by_group(pairs, codes, array)


def _check_pairs(scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> tuple[Floats, Array]:
    check_same_index("scores", scores, "tasks", tasks)
    array = as_calibration_scores("scores", scores)
    check_one_dimensional("scores", array)
    ids = as_task_ids(tasks)
    check_same_length("scores", array, "tasks", ids)
    return array, ids


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
        raise unhashable_task(error) from error
    if ids.dtype == object and isinstance(ids[0], numbers.Number):
        check_one_type(set(map(type, ids.tolist())))  # 1, 1.0 and True are one key
    return as_task_names(list(number)), codes


def _number_sorted(ids: Array) -> tuple[Array, Counts]:
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
        for block in _blocks(batch, size):
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


def _batches(sizes: NDArray[np.int64], ranks: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Return the indices of all groups, split into those of the same size and ranks."""
    order = np.argsort(sizes, kind="stable")
    sizes_change = _changes([sizes], order)
    changes = sizes_change | _changes(list(ranks.T), order)
    if (changes != sizes_change).any():  # groups of one size with different ranks
        columns = [sizes, *ranks.T]
        order = np.lexsort(columns[::-1])
        changes = _changes(columns, order)
    return np.split(order, np.flatnonzero(changes) + 1)


def _changes(columns: Iterable[NDArray[Any]], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return where neighbours in this order differ in some column."""
    differ = np.zeros(len(order) - 1, dtype=bool)
    for column in columns:
        ordered = column[order]
        differ |= ordered[1:] != ordered[:-1]
    return differ


def _rows(scores: Floats, starts: NDArray[np.int64], tasks: NDArray[np.intp], size: int) -> Floats:
    """Copy the scores of tasks of one size, given by ascending index, into a matrix."""
    if tasks[-1] - tasks[0] == len(tasks) - 1:  # neighbours: one slice
        first = starts[tasks[0]]
        return scores[first : first + len(tasks) * size].reshape(-1, size).copy()
    return np.asarray(scores[starts[tasks, None] + np.arange(size)])


def _blocks(tasks: NDArray[np.intp], size: int) -> Iterator[NDArray[np.intp]]:
    """Split tasks of one size into blocks of a bounded number of scores."""
    step = max(1, _BLOCK // size)
    return (tasks[start : start + step] for start in range(0, len(tasks), step))


def match_clusters(names: Sequence[Any], ids: Array, clusters: ClusterIds) -> list[Any]:
    """Return the cluster of each task."""
    if isinstance(clusters, Mapping):
        absent = [name for name in names if name not in clusters]
        if absent:
            raise InvalidInput(
                f"clusters must give the cluster of every task, and lacks {absent[0]!r}. Pass one "
                "for each task, or for each example."
            )
        return [as_cluster(clusters[name]) for name in names]
    values = _as_array(clusters, len(ids))
    found: dict[Any, Any] = {}
    for start in range(0, len(ids), _CHUNK):
        part = slice(start, start + _CHUNK)
        for task, value in dict.fromkeys(
            zip(ids[part].tolist(), values[part].tolist(), strict=True)
        ):
            cluster = as_cluster(value)
            check_one_cluster(task, found.setdefault(task, cluster), cluster)
    return [found[name] for name in names]


def as_cluster(value: Any) -> str | int:
    """Return the name of a cluster."""
    plain = as_plain_label(value)
    if plain is None or plain != plain or type(plain).__name__ in ("NAType", "NaTType"):
        raise InvalidInput(
            "clusters holds missing values (None or NaN); every task must be in a cluster. Drop "
            "those examples, or give a task without a cluster one of its own."
        )
    if isinstance(plain, float) and plain.is_integer():  # as in a pandas column with missing values
        return int(plain)
    return plain if type(plain) in (str, int) else str(plain)


def check_one_cluster(task: Any, first: Any, second: Any) -> None:
    """Raise InvalidInput if a task is in two clusters."""
    if first != second:
        one, other = sorted((str(first), str(second)))
        raise InvalidInput(
            f"task {task!r} is in the clusters {one!r} and {other!r}, and must be in one. If these "
            "are two tasks, give them different names, such as f'{cluster}-{task}'."
        )


def _as_array(clusters: Any, length: int) -> Array:
    """Return the cluster of each example as an array."""
    if not hasattr(clusters, "__array__"):
        if isinstance(clusters, str) or not isinstance(clusters, Iterable):
            raise InvalidInput(
                "clusters must hold one cluster for each example, in the same order, or map each "
                f"task to one, got {brief(clusters)}."
            )
        clusters = np.fromiter(clusters, dtype=object)
    array = np.asarray(on_host(clusters))
    if array.shape != (length,):
        raise InvalidInput(
            f"clusters must hold one cluster for each of {length} examples, got shape "
            f"{array.shape}. To pass one for each task, pass a mapping from task to cluster."
        )
    return as_task_ids(array) if array.dtype.kind == "M" else array
