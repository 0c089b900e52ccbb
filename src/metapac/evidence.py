"""What the second step sees of the calibration tasks: a few numbers for each, not all scores."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks, demands, persistence, sentences
from metapac.binomial import task_rank
from metapac.grouping import group, group_by_class, task_thresholds
from metapac.guarantee import Guarantee

UNKNOWN = -1  # the size of a task whose site did not send it

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


class Evidence(NamedTuple):
    """The thresholds of the tasks at each level and, with ``per_class``, for each class.

    Without ``per_class``, the axis of classes has length 1.
    """

    names: NDArray[Any]  # (tasks,)
    sizes: Counts  # (tasks, classes), UNKNOWN where a site did not send it
    thresholds: Floats  # (tasks, classes, levels)
    lowest: Floats  # (classes,), the lowest score; -inf where it is not known
    precision: np.dtype[Any]
    classes: tuple[Any, ...] | None = None  # None without per_class
    columns: dict[str, Any] | None = None  # of the table that the scores come from
    highest: Floats | None = None  # (classes,), the highest score, if it was computed

    def parts(self, guarantee: Guarantee) -> list[Part]:
        """Return the evidence for each class, or for all of them together."""
        tops = _tops(self).tolist()
        if self.classes is None:
            return [self._part(guarantee, None, 0, tops[0])]
        guarantee.check_classes(self.classes)
        return [
            self._part(guarantee.of_class(label, self.classes), label, number, tops[number])
            for number, label in enumerate(self.classes)
        ]

    def _part(self, guarantee: Guarantee, label: Any, number: int, highest: float) -> Part:
        sizes = self.sizes[:, number]
        used = sizes >= guarantee.min_examples
        if not guarantee.min_examples:
            used[:] = True
        elif (sizes == UNKNOWN).any():
            raise ValueError(
                f"min_examples={guarantee.min_examples} needs the number of examples of every "
                "task. Pass sizes too."
            )
        thresholds, lowest = self.thresholds[:, number], float(self.lowest[number])
        return Part(guarantee, label, used, sizes, thresholds, lowest, highest)

    def refuse_uncertified(self, guarantee: Guarantee) -> None:
        """Raise ValueError for a threshold that a task of its size cannot have at these levels."""
        for part in self.parts(guarantee):
            ranks = ranks_within(np.maximum(part.sizes, 0), part.guarantee)
            sent = (part.thresholds > -np.inf) & (part.sizes != UNKNOWN)[:, None]
            bad = np.argwhere(sent & (ranks < 0))
            if len(bad):
                task, level = bad[0]
                raise ValueError(
                    f"task_thresholds holds {part.thresholds[task, level]:g} for task "
                    f"{self.names.tolist()[task]!r}, whose {part.sizes[task]} examples are too few "
                    "for any. Was it computed with another epsilon, alpha or split?"
                )

    def to_json(self) -> dict[str, Any]:
        """Return the evidence for JSON; without ``per_class``, the axis of classes is dropped."""
        plain = self.classes is None
        sizes = self.sizes[:, 0] if plain else self.sizes
        thresholds = self.thresholds[:, 0] if plain else self.thresholds
        found = {"tasks": _checks.json_names(self.names)}
        found |= {} if plain else {"classes": list(self.classes or ())}
        if self.highest is not None:
            found["highest"] = persistence.encode_all(self.highest.tolist())
        return found | {
            "sizes": sizes.tolist(),
            "thresholds": persistence.encode_all(thresholds.tolist()),
            "lowest": persistence.encode_all(self.lowest.tolist()),
        }

    @classmethod
    def from_json(cls, body: dict[str, Any], levels: int, precision: np.dtype[Any]) -> Evidence:
        """Return the evidence from ``to_json``; raises ValueError if the shapes do not match."""
        names = _checks.task_names(body["tasks"])
        classes = tuple(body["classes"]) if "classes" in body else None
        shape = (len(names), 1 if classes is None else len(classes))
        return cls(
            names,
            np.array(body["sizes"], dtype=np.int64).reshape(shape),
            np.array(body["thresholds"], dtype=np.float64).reshape(*shape, levels),
            np.array(body["lowest"], dtype=np.float64).reshape(shape[1]),
            precision,
            classes,
            highest=np.array(body["highest"], dtype=np.float64) if "highest" in body else None,
        )

    def joined(self, new: Evidence) -> Evidence:
        """Return the evidence of old and new tasks together; the coarser precision decides."""
        old, new = _same_classes(self, new)
        return Evidence(
            _checks.new_names(old.names, new.names),
            np.concatenate([old.sizes, new.sizes]),
            np.concatenate([old.thresholds, new.thresholds]),
            np.minimum(old.lowest, new.lowest),
            coarsest([old.precision, new.precision]),
            old.classes,
            old.columns,
            np.maximum(_tops(old), _tops(new)),
        )


class Part(NamedTuple):
    """The evidence for one class, or for all of them together, and its guarantee."""

    guarantee: Guarantee
    label: Any  # None without per_class
    used: NDArray[np.bool_]  # (tasks,), False for those left out as too small
    sizes: Counts  # (tasks,)
    thresholds: Floats  # (tasks, levels)
    lowest: float
    highest: float

    def demand(self) -> demands.Demand:
        """Return the demand on these tasks; an unknown size is inferred from the thresholds.

        A threshold above ``-inf`` shows that its task was large enough for that level.
        """
        g, sizes, unknown = self.guarantee, self.sizes, self.sizes == UNKNOWN
        if unknown.any():
            needs = [demands.least_size(g.miss_rate, level.alpha_within) for level in g.levels]
            shown = np.where(self.thresholds > -np.inf, needs, 0).max(axis=1)
            sizes = np.where(unknown, shown, sizes)
        return demands.Demand.of_sizes(g, sizes, label=self.label, known=not unknown.any())

    def outcome(self) -> Outcome:
        """Take the second step: a threshold across tasks at each level, and their maximum."""
        used = self.thresholds[self.used]
        ranks = self.guarantee.ranks(len(used)) if len(used) else ()
        across = np.full(self.thresholds.shape[1], -np.inf)
        for level, rank in enumerate(ranks):
            if rank >= 0:
                across[level] = np.partition(used[:, level], rank)[rank]
        best = int(np.argmax(across))
        cut = float(across[best])
        return Outcome(self.label, self.used, best, cut, self._at_bottom(used[:, best], cut))

    def _at_bottom(self, thresholds: Floats, cut: float) -> int:
        """Return how many tasks push the threshold to the lowest score; 0 if it is not there.

        It is normal that the threshold is the lowest score of a single task. A lowest score that
        several tasks share, or a probability of 0, is taken for the bottom of the scale. If no
        score is higher, it may as well be the top of the scale, and is not reported. A threshold
        of 0 is reported where the lowest score is not known too, as sites do not send it.
        """
        if self.highest <= cut or (self.lowest < cut and not self.lowest == -np.inf < cut == 0):
            return 0
        tied = int(np.count_nonzero(thresholds == cut))
        return int(np.count_nonzero(thresholds <= cut)) if tied > 1 or cut == 0 else 0


class Outcome(NamedTuple):
    """The result of the second step for one class, or for all of them together."""

    label: Any
    used: NDArray[np.bool_]  # (tasks,)
    level: int  # the number of the level whose threshold is the largest
    threshold: float
    at_bottom: int  # number of tasks that make the guarantee vacuous; 0 if it is not

    def remark(self) -> str:
        """Return what makes the guarantee uninformative, in words; empty if nothing does."""
        tasks = int(np.count_nonzero(self.used))
        if self.threshold == -np.inf:
            return sentences.trivial(self.label)
        if self.at_bottom:
            return sentences.vacuous(self.threshold, self.at_bottom, tasks, self.label)
        return ""


def ranks_within(sizes: Counts, guarantee: Guarantee) -> Counts:
    """Return the rank (from 0) of the threshold among a task's scores, by size and level; or -1."""
    distinct, place = np.unique(sizes, return_inverse=True)
    levels = tuple(level.alpha_within for level in guarantee.levels)
    table = _rank_table if len(distinct) > _FEW else _kept_rank_table
    return table(tuple(distinct.tolist()), guarantee.miss_rate, levels)[place]


def _rank_table(sizes: tuple[int, ...], epsilon: float, levels: tuple[float, ...]) -> Counts:
    counts = np.array(sizes, dtype=np.int64)
    return np.stack([task_rank(counts, epsilon, level) for level in levels], axis=1)


# Studies calibrate many times on tasks of the same few sizes; their ranks are cached.
_FEW = 64
_kept_rank_table = functools.lru_cache(maxsize=256)(_rank_table)


def ranks_by_class(
    sizes: Counts, label: Counts, classes: tuple[Any, ...], guarantee: Guarantee
) -> Counts:
    """Return ``ranks_within`` for groups of one task and one class; ``label`` is its index."""
    ranks = np.empty((len(sizes), len(guarantee.levels)), dtype=np.int64)
    for number, name in enumerate(classes):
        own = label == number
        ranks[own] = ranks_within(sizes[own], guarantee.of_class(name, classes))
    return ranks


def of_scores(
    guarantee: Guarantee, scores: ArrayLike, tasks: ArrayLike | Iterable[object], labels: Any
) -> Evidence:
    """Take the first step on arrays: a threshold for each task, at each level."""
    if guarantee.per_class:
        return _by_class(guarantee, scores, tasks, labels)
    if labels is not None:
        raise ValueError(
            "labels must not be passed unless per_class=True: the scores must already be those of "
            "the true labels."
        )
    grouped = group(scores, tasks)
    found, lowest = task_thresholds(grouped, ranks_within(grouped.sizes, guarantee))
    return Evidence(
        grouped.names,
        grouped.sizes[:, None],
        found[:, None],
        lowest.min(keepdims=True),
        grouped.scores.dtype,
        highest=grouped.scores.max(keepdims=True).astype(np.float64),
    )


def _by_class(
    guarantee: Guarantee, scores: ArrayLike, tasks: ArrayLike | Iterable[object], labels: Any
) -> Evidence:
    if labels is None:
        raise ValueError("labels must hold the true label of each example where per_class=True.")
    names, classes, task, label, groups = group_by_class(scores, tasks, labels)
    ranks = ranks_by_class(groups.sizes, label, classes, guarantee)
    found, lowest = task_thresholds(groups, ranks)
    precision = groups.scores.dtype
    spread_out = spread(names, classes, task, label, groups.sizes, found, lowest, precision)
    highest = np.full(len(classes), -np.inf)
    starts = np.cumsum(groups.sizes) - groups.sizes
    np.maximum.at(highest, label, np.maximum.reduceat(groups.scores, starts))
    return spread_out._replace(highest=highest)


def spread(
    names: NDArray[Any],
    classes: tuple[Any, ...],
    task: Counts,
    label: Counts,
    sizes: Counts,
    thresholds: Floats,
    lowest: Floats,
    precision: np.dtype[Any],
) -> Evidence:
    """Return the evidence of groups of one task and one class; empty groups get ``-inf``."""
    shape = (len(names), len(classes))
    all_sizes = np.zeros(shape, dtype=np.int64)
    all_thresholds = np.full((*shape, thresholds.shape[1]), -np.inf)
    all_sizes[task, label], all_thresholds[task, label] = sizes, thresholds
    bottom = np.full(len(classes), np.inf)
    np.minimum.at(bottom, label, lowest)
    return Evidence(names, all_sizes, all_thresholds, bottom, precision, classes)


def _tops(evidence: Evidence) -> Floats:
    """Return for each class the highest score; infinity where nobody looked for it."""
    if evidence.highest is not None:
        return evidence.highest
    return np.full(len(evidence.lowest), np.inf)


def unknown_lowest(classes: int = 1) -> Floats:
    """Return what stands for the lowest score of each class where only thresholds are known."""
    return np.full(classes, -np.inf)


def coarsest(precisions: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the coarsest precision, in which no label certified at a finer one is lost."""
    return min(precisions, key=lambda dtype: dtype.itemsize)


def _same_classes(old: Evidence, new: Evidence) -> tuple[Evidence, Evidence]:
    """Return both with the union of their classes; a missing class counts as no examples."""
    if old.classes is None or new.classes is None:
        return old, new
    if type(old.classes[0]) is not type(new.classes[0]):
        raise ValueError(
            f"labels must be of one type, got {new.classes[0]!r} where the classes were "
            f"{old.classes[0]!r} and others. Convert them."
        )
    more = [label for label in new.classes if label not in old.classes]
    if more and old.columns is not None:
        raise ValueError(
            f"labels holds the class {more[0]!r}, which the table calibrated on does not have."
        )
    classes = tuple(sorted({*old.classes, *new.classes})) if more else old.classes
    return _widened(old, classes), _widened(new, classes)


def _widened(evidence: Evidence, classes: tuple[Any, ...]) -> Evidence:
    assert evidence.classes is not None
    place = [classes.index(label) for label in evidence.classes]
    tasks, _, levels = evidence.thresholds.shape
    sizes = np.zeros((tasks, len(classes)), dtype=np.int64)
    thresholds = np.full((tasks, len(classes), levels), -np.inf)
    lowest, highest = np.full(len(classes), np.inf), np.full(len(classes), -np.inf)
    sizes[:, place], thresholds[:, place] = evidence.sizes, evidence.thresholds
    lowest[place], highest[place] = evidence.lowest, _tops(evidence)
    return Evidence(
        evidence.names,
        sizes,
        thresholds,
        lowest,
        evidence.precision,
        classes,
        evidence.columns,
        highest,
    )
