"""Does a guarantee hold on labelled tasks: error and size of the sets of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import ibis
import numpy as np
from ibis import _
from numpy.typing import NDArray

from metapac import _checks as core
from metapac._estimator import ThresholdSets
from metapac.guarantee import Epsilon
from metapac.tables import _checks
from metapac.tables.brackets import Array, Counts
from metapac.tables.census import take_census
from metapac.tables.cuts import cut_of, cuts_of, kept, one_if, total
from metapac.tables.keys import Groups
from metapac.tables.layout import as_calibrated
from metapac.tables.predict import check_scores
from metapac.tables.scores import Rows, true_scores
from metapac.tables.sources import open_source


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Error and mean set size of each task.

    Attributes
    ----------
    tasks : ndarray, shape (tasks,)
        The tasks judged, in ascending order.
    examples : ndarray of int, shape (tasks,)
        Number of examples of each.
    errors : ndarray, shape (tasks,)
        Fraction of examples whose set misses the true label.
    sizes : ndarray, shape (tasks,), or None
        Mean set size; None where only true labels have scores.
    epsilon : float or mapping from class to float
        Miss rate that is allowed.
    left_out : int
        Number of tasks with too few examples to be judged: fewer than ``min_examples`` of the
        guarantee, or none.
    by_class : mapping from class to Evaluation, or None
        The same for the examples of each class alone, where each has its own guarantee.
    """

    tasks: NDArray[Any]
    examples: NDArray[np.int64]
    errors: NDArray[np.float64]
    sizes: NDArray[np.float64] | None
    epsilon: Any
    left_out: int = 0
    by_class: Mapping[Any, Evaluation] | None = None

    @property
    def within(self) -> float:
        """The fraction of tasks whose sets miss at most ``epsilon`` of the time.

        With a guarantee for each class, the smallest over the classes that can be judged; NaN where
        there is no task.
        """
        if self.by_class is not None:
            shares = [each.within for each in self.by_class.values() if len(each.tasks)]
            return min(shares, default=math.nan)
        return float(np.mean(self.errors <= self.epsilon)) if len(self.tasks) else math.nan

    def to_pandas(self) -> Any:
        """Return a frame with a row for each task: task, examples, error, set_size.

        With a guarantee for each class, a row for each class of each task, and the column class.

        Returns
        -------
        pandas.DataFrame
            The frame.
        """
        import pandas as pd

        if self.by_class is not None:
            frames = {label: each.to_pandas() for label, each in self.by_class.items()}
            for label, frame in frames.items():
                frame.insert(1, "class", label)
            return pd.concat(frames.values(), ignore_index=True)
        columns = {"task": self.tasks, "examples": self.examples, "error": self.errors}
        return pd.DataFrame(columns | ({} if self.sizes is None else {"set_size": self.sizes}))

    def __repr__(self) -> str:
        if not len(self.tasks):
            return f"<Evaluation of 0 tasks ({self.left_out} left out)>"
        size = "" if self.sizes is None else f", mean set size {np.mean(self.sizes):.4g}"
        few = f" ({self.left_out} left out)" if self.left_out else ""
        rate = "its epsilon" if isinstance(self.epsilon, Mapping) else f"{self.epsilon:g}"
        where = f"{self.within:.2%} of them"
        if self.by_class is not None:
            where = f"at least {where} for each of {len(self.by_class)} classes"
        return (
            f"<Evaluation of {len(self.tasks)} tasks{few}: error at most {rate} on {where}, mean "
            f"error {np.mean(self.errors):.2%}{size}>"
        )


def evaluate_table(
    promise: ThresholdSets,
    source: Any,
    *,
    task: str | None = None,
    score: str | None = None,
    label: str | None = None,
    columns: str | None = None,
    classes: Sequence[Any] | None = None,
    table: str | None = None,
    connection: Any = None,
) -> Evaluation:
    """Return how often the sets of each task miss the true label, and how large they are.

    Where the guarantee is for each class, each is judged by the examples of its own. Tasks that the
    guarantee does not cover, having too few examples, are left out.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated object.
    source : path, list of paths, frame or Ibis table
        As in ``calibrate_table``.
    task, score, label, columns, classes
        As in ``calibrate_table``; by default those that the promise was calibrated on. Set sizes
        need a score for each class, that is ``label`` without ``score``.
    table, connection
        As in ``calibrate_table``.

    Returns
    -------
    Evaluation
        Error and mean set size of each task.
    """
    layout = as_calibrated(
        promise, task=task, score=score, label=label, columns=columns, classes=classes
    )
    task = _checks.said("task", layout.task)
    with open_source(source, table=table, connection=connection) as opened:
        rows = true_scores(opened, layout)
        judged = opened.table.select(task=rows.task_of, **_verdicts(promise, rows))
        if rows.classes is not None:
            check_scores(opened, rows.classes)
        with opened.reading(rows.columns, task):
            census = take_census(rows)
            sums = {name: _[name].sum() for name in judged.columns if name != "task"}
            found = opened.run(judged.group_by("task").agg(**sums)).to_pydict()
    order = np.argsort(core.task_names(found.pop("task")), kind="stable")
    tally = Tally(census.names, census.sizes, **{k: np.array(v)[order] for k, v in found.items()})
    least = max(1, getattr(promise, "min_examples", 0))
    if rows.keys is None:
        evaluation = tally.judged(float(promise.epsilon), least)
    else:
        own = {str(label): label for label in promise.classes_ or ()}
        labels = [own[str(name)] for name in rows.keys.classes]
        groups = rows.keys.groups(census.names)
        evaluation = _by_class(tally, groups, labels, promise.epsilon, least)
    _checks.tasks_to_judge(opened, len(evaluation.tasks), evaluation.left_out, least)
    return evaluation


def _verdicts(promise: ThresholdSets, rows: Rows) -> dict[str, Any]:
    """Return whether the set of each row misses its label, and its size, as expressions."""
    if rows.classes is not None:
        names, scores = rows.classes.names, rows.classes.scores
    elif rows.keys is not None:
        names = list(rows.keys.classes)
        scores = [rows.score] * len(names)
    else:
        return {"missed": one_if(~kept(rows.score, cut_of(promise, rows.precision)))}
    cuts = cuts_of(promise, names, rows.precision)
    inside = [kept(score, cut) for score, cut in zip(scores, cuts, strict=True)]
    missed = (
        (rows.labels == str(name), one_if(~each)) for name, each in zip(names, inside, strict=True)
    )
    verdicts = {"missed": ibis.cases(*missed)}
    if rows.classes is not None:
        verdicts["size"] = total([one_if(each) for each in inside])
    return verdicts


class Tally(NamedTuple):
    """Counts of each task, or of each class in it."""

    names: Array
    examples: Counts
    missed: Counts
    size: Counts | None = None  # labels in all sets together

    def take(self, which: Array) -> Tally:
        size = None if self.size is None else self.size[which]
        return Tally(self.names[which], self.examples[which], self.missed[which], size)

    def judged(self, epsilon: Epsilon, least: int) -> Evaluation:
        """Return the evaluation of those with at least so many examples."""
        some = self.take(self.examples >= least)
        return Evaluation(
            some.names,
            some.examples,
            some.missed / some.examples,
            None if some.size is None else some.size / some.examples,
            epsilon,
            len(self.names) - len(some.names),
        )


def _by_class(
    tally: Tally, groups: Groups, labels: Sequence[Any], epsilon: Epsilon, least: int
) -> Evaluation:
    """Return the evaluation of each class, and that of the tasks judged for any of them."""
    by_class = {}
    for number, label in enumerate(labels):
        own = groups.label == number
        allowed = float(epsilon[label] if isinstance(epsilon, Mapping) else epsilon)
        each = _in_tasks(tally.take(own), groups.names, groups.task[own])
        by_class[label] = each.judged(allowed, least)
    judged = np.isin(groups.names, np.concatenate([each.tasks for each in by_class.values()]))
    all_ = _in_tasks(tally, groups.names, groups.task).take(judged).judged(epsilon, 1)
    return replace(all_, left_out=int(np.count_nonzero(~judged)), by_class=by_class)


def _in_tasks(tally: Tally, names: Array, task: Counts) -> Tally:
    """Return the counts of all tasks, summed over groups; 0 where a task has none."""

    def summed(column: Counts) -> Counts:
        return np.bincount(task, weights=column, minlength=len(names)).astype(np.int64)

    size = None if tally.size is None else summed(tally.size)
    return Tally(names, summed(tally.examples), summed(tally.missed), size)
