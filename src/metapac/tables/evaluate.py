"""Errors and set sizes on labelled tasks, to compare with a guarantee."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import ibis
import numpy as np
from ibis import _
from numpy.typing import NDArray

from metapac import _ids
from metapac._types import Array, Counts
from metapac.base import ThresholdSets
from metapac.exceptions import InvalidInput, Parameter
from metapac.guarantee import Epsilon
from metapac.tables._checks import pluralize
from metapac.tables.columns import resolve_columns
from metapac.tables.io.sources import Source, open_source
from metapac.tables.keys import Groups
from metapac.tables.predict import check_class_scores
from metapac.tables.scores import Rows, true_scores
from metapac.tables.search.census import take_census
from metapac.tables.search.comparison import find_cut, find_cuts, is_kept
from metapac.tables.search.expressions import add_up, as_int


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Error and mean set size of each task, from ``evaluate_table``.

    Attributes
    ----------
    tasks : ndarray, shape (tasks,)
        The tasks, in ascending order.
    examples : ndarray of int, shape (tasks,)
        Number of examples of each task.
    errors : ndarray of float, shape (tasks,)
        Fraction of the examples whose set misses the true label.
    sizes : ndarray of float, shape (tasks,), or None
        Mean set size; None if only true labels have scores.
    epsilon : float or mapping from class to float
        Miss rate that the guarantee allows.
    left_out : int
        Number of tasks with too few examples: fewer than ``min_examples`` of the guarantee, or
        none.
    by_class : mapping from class to Evaluation, or None
        The same for the examples of each class, with a guarantee per class.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac import PS
    >>> from metapac.tables import evaluate_table
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> scores = pd.DataFrame({"site": ["a", "a", "b", "b"], "true": [0.9, 0.5, 0.0, 0.7]})
    >>> evaluation = evaluate_table(promise, scores, task="site", score="true")
    >>> evaluation.within
    0.5
    >>> evaluation.to_pandas()
      task  examples  error
    0    a         2    0.0
    1    b         2    0.5
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
        """Fraction of the tasks whose error is at most ``epsilon``; NaN without tasks.

        With a guarantee per class, it is the smallest fraction of all classes that have tasks.
        """
        if self.by_class is not None:
            fractions = [part.within for part in self.by_class.values() if len(part.tasks)]
            return min(fractions, default=math.nan)
        return float(np.mean(self.errors <= self.epsilon)) if len(self.tasks) else math.nan

    def to_pandas(self) -> Any:
        """Return a frame with a row for each task: task, examples, error, set_size.

        With a guarantee per class, there is a row for each class of each task, and the column
        class.

        Returns
        -------
        pandas.DataFrame
            The frame.
        """
        import pandas as pd

        if self.by_class is not None:
            frames = {label: part.to_pandas() for label, part in self.by_class.items()}
            for label, frame in frames.items():
                frame.insert(1, "class", label)
            return pd.concat(frames.values(), ignore_index=True)
        columns = {"task": self.tasks, "examples": self.examples, "error": self.errors}
        return pd.DataFrame(columns | ({} if self.sizes is None else {"set_size": self.sizes}))

    def __repr__(self) -> str:
        if not len(self.tasks):
            return f"<Evaluation of 0 tasks ({self.left_out} left out)>"
        left_out = f" ({self.left_out} left out)" if self.left_out else ""
        size = "" if self.sizes is None else f", mean set size {np.mean(self.sizes):.4g}"
        epsilon = "its epsilon" if isinstance(self.epsilon, Mapping) else f"{self.epsilon:g}"
        share = f"{self.within:.2%} of them"
        if self.by_class is not None:
            share = f"at least {share} for each of {len(self.by_class)} classes"
        return (
            f"<Evaluation of {len(self.tasks)} tasks{left_out}: error at most {epsilon} on "
            f"{share}, mean error {np.mean(self.errors):.2%}{size}>"
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

    With a guarantee per class, each class is evaluated separately. Tasks with too few
    examples for the guarantee to cover them are left out.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    source : path, list of paths, frame, Ibis table or Ibis connection
        A table of labelled tasks; as in ``calibrate_table``.
    task : str, optional
        Column with the task of each row; by default that of the calibration.
    score : str, optional
        Column with the score of the true label. Without ``score`` and ``label``, both are those of
        the calibration.
    label : str, optional
        Column with the true label. Without ``score``, set sizes are computed too, from the scores
        of the classes.
    columns : str, optional
        Columns with a score for each class, the star being the name of the class; or one column of
        lists. By default those of the calibration, or ``p_*``.
    classes : sequence, optional
        Names of the classes; by default those of the calibration.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        The engine that reads files and frames; see ``connect``. By default DuckDB in this process.

    Returns
    -------
    Evaluation
        Error and mean set size of each task.

    Raises
    ------
    InvalidInput
        If a parameter, a column or a value in it is not valid, or if no task is covered.
    EngineError
        If the engine cannot read the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac import PS
    >>> from metapac.tables import evaluate_table
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> scores = pd.DataFrame(
    ...     {"site": ["a", "b"], "y": ["cat", "dog"], "p_cat": [0.9, 0.6], "p_dog": [0.1, 0.0]}
    ... )
    >>> evaluate_table(promise, scores, task="site", label="y").to_pandas()
      task  examples  error  set_size
    0    a         1    0.0       2.0
    1    b         1    1.0       1.0
    """
    used = resolve_columns(
        promise, task=task, score=score, label=label, columns=columns, classes=classes
    )
    if used.task is None:
        raise InvalidInput(
            "{} must name a column. Pass it: a predictor calibrated on arrays stores no columns.",
            Parameter("task"),
        )
    with open_source(source, table=table, connection=connection) as opened:
        rows = true_scores(opened, used)
        tally = _count(promise, rows)
    minimum = max(1, getattr(promise, "min_examples", 0))
    if rows.keys is None:
        evaluation = tally.evaluate(float(promise.epsilon), minimum)
    else:
        by_text = {str(name): name for name in promise.classes_ or ()}
        labels = [by_text[str(name)] for name in rows.keys.classes]
        groups = rows.keys.groups(tally.names)
        evaluation = _evaluate_classes(tally, groups, labels, promise.epsilon, minimum)
    _check_covered(opened, evaluation, minimum)
    return evaluation


class _Tally(NamedTuple):
    """Counts for each task, or for each class in it."""

    names: Array
    examples: Counts
    missed: Counts
    size: Counts | None = None  # number of labels in all sets together

    def take(self, which: Array) -> _Tally:
        size = None if self.size is None else self.size[which]
        return _Tally(self.names[which], self.examples[which], self.missed[which], size)

    def evaluate(self, epsilon: Epsilon, minimum: int) -> Evaluation:
        """Evaluate the tasks with at least ``minimum`` examples."""
        covered = self.take(self.examples >= minimum)
        return Evaluation(
            covered.names,
            covered.examples,
            covered.missed / covered.examples,
            None if covered.size is None else covered.size / covered.examples,
            epsilon,
            len(self.names) - len(covered.names),
        )


def _count(promise: ThresholdSets, rows: Rows) -> _Tally:
    """Count the examples, the misses and the labels in sets, inside the engine."""
    source = rows.source
    outcomes = source.table.select(task=rows.task, **_outcomes(promise, rows))
    if rows.class_scores is not None:
        check_class_scores(source, rows.class_scores)
    with source.reading(rows.score_columns, rows.columns.task):
        census = take_census(rows)
        sums = {name: _[name].sum() for name in outcomes.columns if name != "task"}
        totals = source.run(outcomes.group_by("task").agg(**sums)).to_pydict()
    order = np.argsort(_ids.as_task_names(totals.pop("task")), kind="stable")
    ordered = {name: np.array(values)[order] for name, values in totals.items()}
    return _Tally(census.names, census.sizes, **ordered)


def _outcomes(promise: ThresholdSets, rows: Rows) -> dict[str, Any]:
    """Return whether the set of each row misses its label, and its size, as expressions."""
    if rows.class_scores is not None:
        names, scores = rows.class_scores.names, rows.class_scores.scores
    elif rows.keys is not None:
        names = list(rows.keys.classes)
        scores = [rows.score] * len(names)
    else:
        return {"missed": as_int(~is_kept(rows.score, find_cut(promise, rows.precision)))}
    cuts = find_cuts(promise, names, rows.precision)
    kept = [is_kept(score, cut) for score, cut in zip(scores, cuts, strict=True)]
    missed = (
        (rows.labels == str(name), as_int(~is_in_set))
        for name, is_in_set in zip(names, kept, strict=True)
    )
    outcomes = {"missed": ibis.cases(*missed)}
    if rows.class_scores is not None:
        outcomes["size"] = add_up([as_int(is_in_set) for is_in_set in kept])
    return outcomes


def _evaluate_classes(
    tally: _Tally, groups: Groups, labels: Sequence[Any], epsilon: Epsilon, minimum: int
) -> Evaluation:
    """Evaluate each class, and together all tasks that are covered for any class."""
    by_class = {}
    for index, label in enumerate(labels):
        members = groups.label == index
        allowed = float(epsilon[label] if isinstance(epsilon, Mapping) else epsilon)
        of_class = _sum_by_task(tally.take(members), groups.names, groups.task[members])
        by_class[label] = of_class.evaluate(allowed, minimum)
    covered = np.isin(groups.names, np.concatenate([part.tasks for part in by_class.values()]))
    tasks = _sum_by_task(tally, groups.names, groups.task).take(covered)
    left_out = int(np.count_nonzero(~covered))
    return replace(tasks.evaluate(epsilon, 1), left_out=left_out, by_class=by_class)


def _sum_by_task(tally: _Tally, names: Array, task: Counts) -> _Tally:
    """Return the counts of all tasks, summed over groups; 0 for a task without groups."""

    def sum_by_task(column: Counts) -> Counts:
        return np.bincount(task, weights=column, minlength=len(names)).astype(np.int64)

    size = None if tally.size is None else sum_by_task(tally.size)
    return _Tally(names, sum_by_task(tally.examples), sum_by_task(tally.missed), size)


def _check_covered(source: Source, evaluation: Evaluation, minimum: int) -> None:
    if not len(evaluation.tasks):
        raise InvalidInput(
            f"{source.name} has no task to evaluate: the guarantee covers tasks with at least "
            f"{pluralize(minimum, 'example')}, and the {pluralize(evaluation.left_out, 'task')} "
            "here have fewer."
        )
