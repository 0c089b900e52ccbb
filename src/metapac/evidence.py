"""The evidence of the calibration tasks: a few numbers per task, all that the second step needs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _document, _ids
from metapac._types import Counts, Floats
from metapac.binomial import allowed_errors_in_task
from metapac.clusters import Clusters, draw_tasks
from metapac.exceptions import InvalidInput, Parameter
from metapac.grouping import group, group_by_class, task_thresholds
from metapac.guarantee import Guarantee
from metapac.outcome import UNKNOWN, Part

PRECISIONS = ("float16", "float32", "float64")


class Evidence(NamedTuple):
    """The threshold of each task at each level and, with ``per_class``, for each class.

    Attributes
    ----------
    names : ndarray, shape (tasks,)
        The tasks.
    sizes : ndarray, shape (tasks, classes)
        Number of examples; ``UNKNOWN`` if a site did not send it. Without ``per_class``, the axis
        of classes has length 1, here and below.
    thresholds : ndarray, shape (tasks, classes, levels)
        Threshold within each task; ``-inf`` if it has too few examples for the level.
    lowest : ndarray, shape (classes,)
        Lowest score; ``-inf`` if it is not known.
    precision : numpy.dtype
        Precision of the scores.
    classes : tuple or None
        The classes with ``per_class``, otherwise None.
    columns : dict or None
        Columns of the table that the scores come from.
    highest : ndarray, shape (classes,), or None
        Highest score, if it was computed.
    clusters : Clusters or None
        The clusters that the tasks were drawn from, one of each; None if every task counts.
    """

    names: NDArray[Any]
    sizes: Counts
    thresholds: Floats
    lowest: Floats
    precision: np.dtype[Any]
    classes: tuple[Any, ...] | None = None
    columns: dict[str, Any] | None = None
    highest: Floats | None = None
    clusters: Clusters | None = None

    @classmethod
    def from_groups(
        cls,
        names: NDArray[Any],
        classes: tuple[Any, ...],
        task: Counts,
        label: Counts,
        *,
        sizes: Counts,
        thresholds: Floats,
        lowest: Floats,
        highest: Floats,
        precision: np.dtype[Any],
    ) -> Evidence:
        """Return the evidence of groups, each with the examples of one class in one task.

        Parameters
        ----------
        names : ndarray, shape (tasks,)
            The tasks.
        classes : tuple
            The classes.
        task, label : ndarray, shape (groups,)
            Index of the task, and of the class, of each group. Pairs without a group have size 0
            and threshold ``-inf``.
        sizes : ndarray, shape (groups,)
            Number of examples.
        thresholds : ndarray, shape (groups, levels)
            Threshold within each group.
        lowest, highest : ndarray, shape (groups,)
            Lowest and highest score of each group.
        precision : numpy.dtype
            Precision of the scores.

        Returns
        -------
        Evidence
            With ``classes``.
        """
        shape = (len(names), len(classes))
        all_sizes = np.zeros(shape, dtype=np.int64)
        all_thresholds = np.full((*shape, thresholds.shape[1]), -np.inf)
        all_sizes[task, label], all_thresholds[task, label] = sizes, thresholds
        bottom, top = np.full(len(classes), np.inf), np.full(len(classes), -np.inf)
        np.minimum.at(bottom, label, lowest)
        np.maximum.at(top, label, highest)
        return cls(names, all_sizes, all_thresholds, bottom, precision, classes, highest=top)

    def parts(self, guarantee: Guarantee) -> list[Part]:
        """Return the evidence for each class, or for all of them together.

        Parameters
        ----------
        guarantee : Guarantee
            The guarantee at whose levels the evidence was collected.

        Returns
        -------
        list of Part
            One for each class with ``per_class``, otherwise a single one.
        """
        if self.classes is None:
            return [self._part(guarantee, None, 0)]
        guarantee.check_classes(self.classes)
        return [
            self._part(guarantee.for_class(label, self.classes), label, index)
            for index, label in enumerate(self.classes)
        ]

    def _part(self, guarantee: Guarantee, label: Any, index: int) -> Part:
        sizes = self.sizes[:, index]
        used = sizes >= guarantee.min_examples
        if not guarantee.min_examples:
            used[:] = True
        elif (sizes == UNKNOWN).any():
            parameters = Parameter("min_examples", guarantee.min_examples), Parameter("sizes")
            text = "{} needs the number of examples of every task. Pass {} too."
            raise InvalidInput(text, *parameters)
        lowest, highest = float(self.lowest[index]), float(_highest(self)[index])
        return Part(guarantee, label, used, sizes, self.thresholds[:, index], lowest, highest)

    def check_certified(self, guarantee: Guarantee, name: str = "task_thresholds") -> None:
        """Raise InvalidInput for a threshold that a task of its size cannot have.

        A larger level allows more errors, so the thresholds of a task never fall with the level.

        Parameters
        ----------
        guarantee : Guarantee
            The guarantee at whose levels the evidence was collected.
        name : str, default "task_thresholds"
            What messages call the thresholds.
        """
        for part in self.parts(guarantee):
            ranks = ranks_within(np.maximum(part.sizes, 0), part.guarantee)
            sent = (part.thresholds > -np.inf) & (part.sizes != UNKNOWN)[:, None]
            for task, level in np.argwhere(sent & (ranks < 0))[:1]:
                raise InvalidInput(
                    f"{name} holds {part.thresholds[task, level]:g} for task "
                    f"{self.names.tolist()[task]!r}, whose {part.sizes[task]} examples are too few "
                    "to certify any. Was it computed with another epsilon, alpha or split?"
                )
            for task, level in np.argwhere(part.thresholds[:, 1:] < part.thresholds[:, :-1])[:1]:
                before, after = part.thresholds[task, level : level + 2]
                raise InvalidInput(
                    f"{name} falls from {before:g} to {after:g} between two levels of "
                    f"task {self.names.tolist()[task]!r}, and cannot. Pass the levels in order."
                )

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as JSON can hold it; without ``per_class``, with no axis of classes.

        Returns
        -------
        dict
            What `from_json` reads.
        """
        sizes, thresholds = self.sizes, self.thresholds
        body: dict[str, Any] = {"tasks": _ids.as_json_names(self.names)}
        if self.classes is None:
            sizes, thresholds = sizes[:, 0], thresholds[:, 0]
        else:
            body["classes"] = list(self.classes)
        if self.highest is not None:
            body["highest"] = _document.encode_floats(self.highest.tolist())
        if self.clusters is not None:
            body["clusters"] = self.clusters.to_json()
        return body | {
            "sizes": sizes.tolist(),
            "thresholds": _document.encode_floats(thresholds.tolist()),
            "lowest": _document.encode_floats(self.lowest.tolist()),
        }

    @classmethod
    def from_json(cls, body: dict[str, Any], levels: int, precision: np.dtype[Any]) -> Evidence:
        """Return the evidence that `to_json` prepared.

        Parameters
        ----------
        body : dict
            What `to_json` returned.
        levels : int
            Number of levels.
        precision : numpy.dtype
            Precision of the scores.

        Returns
        -------
        Evidence
            Without ``columns``.

        Raises
        ------
        InvalidInput
            If tasks are not distinct or of one kind, if shapes do not match, or if a threshold is
            outside the range of the scores.
        """
        names = _ids.as_task_names(body["tasks"])
        classes = _ids.as_classes(body["classes"]) if "classes" in body else None
        by_task = (len(names),) if classes is None else (len(names), len(classes))
        shape = (len(names), 1 if classes is None else len(classes))
        read = functools.partial(_as_shape, body)
        evidence = cls(
            names,
            read("sizes", by_task, np.int64).reshape(shape),
            read("thresholds", (*by_task, levels), np.float64).reshape(*shape, levels),
            read("lowest", shape[1:], np.float64)
            if "lowest" in body  # early versions did not store it
            else np.full(shape[1], -np.inf),
            precision,
            classes,
            highest=read("highest", shape[1:], np.float64) if "highest" in body else None,
            clusters=Clusters.from_json(body["clusters"], len(names))
            if "clusters" in body
            else None,
        )
        _check_range(evidence)
        return evidence

    def with_classes(self, classes: tuple[Any, ...]) -> Evidence:
        """Return the evidence with its classes in another order, possibly with more of them.

        Parameters
        ----------
        classes : tuple
            All classes. One that the evidence lacks counts as no examples.

        Returns
        -------
        Evidence
            The evidence.
        """
        return _with_classes(self, classes)

    def draw_from(self, clusters: Sequence[Any], rng: int) -> Evidence:
        """Return the evidence of one random task of each cluster.

        Parameters
        ----------
        clusters : sequence
            Cluster of each task.
        rng : int
            Seed of the draw, which does not look at scores.

        Returns
        -------
        Evidence
            That of the tasks drawn; the range of scores is still that of all tasks.
        """
        drawn = draw_tasks(self.names.tolist(), clusters, rng)
        names = _ids.as_task_names([clusters[position] for position in drawn])
        return self._replace(
            names=self.names[drawn],
            sizes=self.sizes[drawn],
            thresholds=self.thresholds[drawn],
            clusters=Clusters(names, len(self.names), rng),
        )

    def join(self, new: Evidence) -> Evidence:
        """Return the evidence of old and new tasks together.

        Parameters
        ----------
        new : Evidence
            Evidence of other tasks. The coarser of both precisions is used.

        Returns
        -------
        Evidence
            With all tasks, and with the classes of both.
        """
        old, new = _align_classes(self, new)
        return old._replace(
            names=_ids.append_new_names(old.names, new.names),
            sizes=np.concatenate([old.sizes, new.sizes]),
            thresholds=np.concatenate([old.thresholds, new.thresholds]),
            lowest=np.minimum(old.lowest, new.lowest),
            highest=np.maximum(_highest(old), _highest(new)),
            precision=coarsest_precision([old.precision, new.precision]),
            clusters=_join_clusters(old.clusters, new.clusters),
        )


def ranks_within(sizes: Counts, guarantee: Guarantee) -> Counts:
    """Return the rank of the threshold among the scores of a task, at each level.

    Parameters
    ----------
    sizes : ndarray, shape (tasks,)
        Number of examples of each task.
    guarantee : Guarantee
        The guarantee, with one ``epsilon``.

    Returns
    -------
    ndarray of int, shape (tasks, levels)
        Rank from 0 in ascending order; -1 if the task is too small for the level.
    """
    distinct, place = np.unique(sizes, return_inverse=True)
    levels = tuple(level.alpha_within for level in guarantee.levels)
    table = _rank_table if len(distinct) > _FEW else _cached_rank_table
    return table(tuple(distinct.tolist()), guarantee.miss_rate, levels)[place]


def _rank_table(sizes: tuple[int, ...], epsilon: float, levels: tuple[float, ...]) -> Counts:
    counts = np.array(sizes, dtype=np.int64)
    return np.stack([allowed_errors_in_task(counts, epsilon, level) for level in levels], axis=1)


# Studies calibrate many times on tasks of the same few sizes; their ranks are cached.
_FEW = 64
_cached_rank_table = functools.lru_cache(maxsize=256)(_rank_table)


def ranks_by_class(
    sizes: Counts, label: Counts, classes: tuple[Any, ...], guarantee: Guarantee
) -> Counts:
    """Return `ranks_within` for groups, each with the examples of one class in one task.

    Parameters
    ----------
    sizes : ndarray, shape (groups,)
        Number of examples of each group.
    label : ndarray, shape (groups,)
        Index of its class.
    classes : tuple
        The classes.
    guarantee : Guarantee
        The guarantee of all classes.

    Returns
    -------
    ndarray of int, shape (groups, levels)
        The ranks.
    """
    ranks = np.empty((len(sizes), len(guarantee.levels)), dtype=np.int64)
    for index, name in enumerate(classes):
        of_class = label == index
        ranks[of_class] = ranks_within(sizes[of_class], guarantee.for_class(name, classes))
    return ranks


def collect_evidence(
    guarantee: Guarantee,
    scores: ArrayLike,
    tasks: ArrayLike | Iterable[object],
    labels: ArrayLike | None = None,
) -> Evidence:
    """Take the first step on arrays: find a threshold for each task, at each level.

    Parameters
    ----------
    guarantee : Guarantee
        What is to be guaranteed.
    scores : array_like, shape (n,)
        Scores of the true labels; higher means more plausible.
    tasks : array_like, shape (n,)
        Task of each example.
    labels : array_like, shape (n,), optional
        True label of each example. Needed with ``per_class``, and only then.

    Returns
    -------
    Evidence
        What `MetaPS.from_evidence` takes.
    """
    if guarantee.per_class:
        return _by_class(guarantee, scores, tasks, labels)
    if labels is not None:
        raise InvalidInput(
            "labels must not be passed unless per_class=True: the scores must already be those of "
            "the true labels."
        )
    grouped = group(scores, tasks)
    thresholds, lowest = task_thresholds(grouped, ranks_within(grouped.sizes, guarantee))
    return Evidence(
        grouped.names,
        grouped.sizes[:, None],
        thresholds[:, None],
        lowest.min(keepdims=True),
        grouped.scores.dtype,
        highest=grouped.scores.max(keepdims=True).astype(np.float64),
    )


def _by_class(
    guarantee: Guarantee, scores: ArrayLike, tasks: ArrayLike | Iterable[object], labels: Any
) -> Evidence:
    if labels is None:
        raise InvalidInput("labels must hold the true label of each example if per_class=True.")
    names, classes, task, label, groups = group_by_class(scores, tasks, labels)
    ranks = ranks_by_class(groups.sizes, label, classes, guarantee)
    thresholds, lowest = task_thresholds(groups, ranks)
    starts = np.cumsum(groups.sizes) - groups.sizes
    return Evidence.from_groups(
        names,
        classes,
        task,
        label,
        sizes=groups.sizes,
        thresholds=thresholds,
        lowest=lowest,
        highest=np.maximum.reduceat(groups.scores, starts),
        precision=groups.scores.dtype,
    )


def _as_shape(body: dict[str, Any], name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return numbers, infinities among them as strings, that must have a shape."""
    try:
        array = np.array(body[name], dtype=dtype)
    except ValueError:  # rows of unequal length
        raise InvalidInput(f"evidence.{name} holds lists of unequal length.") from None
    if array.shape != shape:
        raise InvalidInput(
            f"evidence.{name} must have shape {shape}, by the number of tasks, classes and levels, "
            f"got {array.shape}."
        )
    return array


def _check_range(evidence: Evidence) -> None:
    """Raise InvalidInput if a threshold, which is a score, is outside the range of the scores."""
    highest = _highest(evidence)
    for index in np.flatnonzero((evidence.sizes != 0).any(axis=0)):
        low, high = evidence.lowest[index], highest[index]
        where = "" if evidence.classes is None else f" of class {evidence.classes[index]!r}"
        if low > high:
            raise InvalidInput(
                f"evidence.lowest{where} is {low:g}, above evidence.highest, {high:g}."
            )
        if low == np.inf and evidence.highest is None:
            raise InvalidInput(f"evidence.lowest{where} is inf, but there are examples.")
        sent = evidence.thresholds[:, index]
        for outside in sent[(sent > -np.inf) & ((sent < low) | (sent > high))][:1]:
            raise InvalidInput(
                f"evidence.thresholds{where} holds {outside:g}, outside the range of the scores "
                f"from {low:g} to {high:g}."
            )


def _highest(evidence: Evidence) -> Floats:
    """Return the highest score of each class; infinity if it was not computed."""
    if evidence.highest is not None:
        return evidence.highest
    return np.full(len(evidence.lowest), np.inf)


def as_precision(precision: Any) -> np.dtype[Any]:
    """Return a precision that scores can have.

    Parameters
    ----------
    precision : numpy.dtype or str
        float16, float32 or float64.

    Returns
    -------
    numpy.dtype
        The precision.

    Raises
    ------
    InvalidInput
        If it is any other type, in which scores could not be compared safely.
    """
    name = precision.name if isinstance(precision, np.dtype) else precision
    if not isinstance(name, str) or name not in PRECISIONS:
        raise InvalidInput(
            f"precision must be {', '.join(PRECISIONS[:2])} or {PRECISIONS[2]}, got {name!r}."
        )
    return np.dtype(name)


def coarsest_precision(precisions: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the coarsest precision, at which no label certified at a finer one is lost.

    Parameters
    ----------
    precisions : iterable of numpy.dtype
        At least one.

    Returns
    -------
    numpy.dtype
        The one with the fewest bytes.
    """
    return min(precisions, key=lambda dtype: dtype.itemsize)


def _join_clusters(old: Clusters | None, new: Clusters | None) -> Clusters | None:
    """Return the clusters of old and new tasks; either both have them, or neither."""
    if (old is None) != (new is None):
        raise InvalidInput(
            "clusters must be passed with new tasks if the old ones were drawn from clusters, and "
            f"only then; here only the {'new' if old is None else 'old'} tasks have them."
        )
    return None if old is None or new is None else old.join(new)


def _align_classes(old: Evidence, new: Evidence) -> tuple[Evidence, Evidence]:
    """Return both with the union of their classes; a missing class counts as no examples."""
    if old.classes is None or new.classes is None:
        return old, new
    if type(old.classes[0]) is not type(new.classes[0]):
        raise InvalidInput(
            f"labels must be of one type, got {new.classes[0]!r}, but the classes so far include "
            f"{old.classes[0]!r}. Convert them."
        )
    unseen = [label for label in new.classes if label not in old.classes]
    if unseen and old.columns is not None:
        raise InvalidInput(
            f"labels holds the class {unseen[0]!r}, which the table calibrated on does not have."
        )
    classes = tuple(sorted({*old.classes, *new.classes})) if unseen else old.classes
    return _with_classes(old, classes), _with_classes(new, classes)


def _with_classes(evidence: Evidence, classes: tuple[Any, ...]) -> Evidence:
    assert evidence.classes is not None
    place = [classes.index(label) for label in evidence.classes]
    tasks, _, levels = evidence.thresholds.shape
    sizes = np.zeros((tasks, len(classes)), dtype=np.int64)
    thresholds = np.full((tasks, len(classes), levels), -np.inf)
    lowest, highest = np.full(len(classes), np.inf), np.full(len(classes), -np.inf)
    sizes[:, place], thresholds[:, place] = evidence.sizes, evidence.thresholds
    lowest[place], highest[place] = evidence.lowest, _highest(evidence)
    new: dict[str, Any] = {"sizes": sizes, "thresholds": thresholds, "classes": classes}
    return evidence._replace(**new, lowest=lowest, highest=highest)
