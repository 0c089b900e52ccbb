"""The value that the first step gives: the threshold of each task at each level, and its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac import _ids
from metapac._types import Counts, Floats
from metapac.clusters import Clusters, draw_tasks
from metapac.exceptions import InvalidInput, Parameter
from metapac.guarantee import Guarantee
from metapac.meaning.duplicates import Contents, find_ranges
from metapac.meaning.sets import Sample
from metapac.outcome import UNKNOWN, Part
from metapac.task_ranks import ranks_within


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
    ranges : ndarray, shape (tasks, 2), or None
        Lowest and highest score of each task, which recognise it under another name; NaN or None
        if they are not known.
    sample : Sample or None
        Some rows with the scores of all classes, if they have them, until their sets are counted.
    may_repeat : bool
        False if scores hardly repeat within tasks, so that none are copies.
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
    ranges: Floats | None = None
    sample: Sample | None = None
    may_repeat: bool = True

    @property
    def contents(self) -> Contents:
        """What recognises the examples of each task."""
        ranges = np.full((len(self.names), 2), np.nan) if self.ranges is None else self.ranges
        return Contents(self.names, self.sizes.sum(axis=1), ranges)

    @property
    def highest_or_inf(self) -> Floats:
        """The highest score of each class; infinity if it was not computed."""
        return np.full(len(self.lowest), np.inf) if self.highest is None else self.highest

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
        bottom, top = find_ranges(label, lowest, highest, len(classes)).T
        ranges = find_ranges(task, lowest, highest, len(names))
        rest = {"highest": top, "ranges": ranges}
        return cls(names, all_sizes, all_thresholds, bottom, precision, classes, **rest)

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
        lowest, highest = float(self.lowest[index]), float(self.highest_or_inf[index])
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

    def check_ranges(self) -> None:
        """Raise InvalidInput for a threshold outside the range of the scores of its task."""
        low, high = (end[:, None, None] for end in self.contents.ranges.T)
        sent = self.thresholds
        outside = (sent > -np.inf) & ((sent < low) | (sent > high))
        for task, *_place in np.argwhere(outside)[:1]:
            raise InvalidInput(
                f"thresholds of task {self.names.tolist()[task]!r} must be scores between the "
                f"lowest and the highest, which are {low[task, 0, 0]:g} and {high[task, 0, 0]:g}."
            )

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
            ranges=None if self.ranges is None else self.ranges[drawn],
        )
