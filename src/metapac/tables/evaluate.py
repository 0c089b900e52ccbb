"""Does a promise hold on labelled tasks: error and size of the sets of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ibis import _
from numpy.typing import NDArray

from metapac import _checks as core
from metapac._estimator import ThresholdSets
from metapac.tables import _checks
from metapac.tables.census import take_census
from metapac.tables.cuts import kept, least_kept, one_if, total
from metapac.tables.layout import as_calibrated
from metapac.tables.predict import check_scores
from metapac.tables.scores import true_scores
from metapac.tables.sources import open_source


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Error and mean set size of each task, tasks in ascending order."""

    tasks: NDArray[Any]  # (tasks,)
    examples: NDArray[np.int64]  # (tasks,)
    errors: NDArray[np.float64]  # (tasks,), share of examples whose set misses the true label
    sizes: NDArray[np.float64] | None  # (tasks,), None where only true labels have scores
    epsilon: float

    @property
    def within(self) -> float:
        """The share of tasks whose sets miss at most ``epsilon`` of the time."""
        return float(np.mean(self.errors <= self.epsilon))

    def to_pandas(self) -> Any:
        """Return a frame with a row for each task: task, examples, error, set_size."""
        import pandas as pd

        columns = {"task": self.tasks, "examples": self.examples, "error": self.errors}
        return pd.DataFrame(columns | ({} if self.sizes is None else {"set_size": self.sizes}))

    def __repr__(self) -> str:
        size = "" if self.sizes is None else f", mean set size {np.mean(self.sizes):.4g}"
        return (
            f"<Evaluation of {len(self.tasks)} tasks: error at most {self.epsilon:g} on "
            f"{self.within:.2%} of them, mean error {np.mean(self.errors):.2%}{size}>"
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

    Columns as in ``calibrate_table``, by default those that the promise was calibrated on. Sizes
    need a score for each class, that is ``label``.
    """
    layout = as_calibrated(
        promise, task=task, score=score, label=label, columns=columns, classes=classes
    )
    task = _checks.said("task", layout.task)
    with open_source(source, table=table, connection=connection) as opened:
        rows = true_scores(opened, layout)
        cut = least_kept(promise, rows.precision)
        judged_by = {"missed": one_if(~kept(rows.score, cut))}
        if rows.classes is not None:
            check_scores(opened, rows.classes)
            inside = [one_if(kept(each, cut)) for each in rows.classes.scores]
            judged_by["size"] = total(inside)
        judged = opened.table.select(task=rows.task_of, **judged_by)
        sums = {name: _[name].sum() for name in judged_by}
        with opened.reading(rows.columns, task):
            census = take_census(rows)
            found = opened.run(judged.group_by("task").agg(**sums))
    order = np.argsort(core.task_names(found["task"].to_pylist()), kind="stable")
    errors, *sizes = (found[name].to_numpy()[order] / census.sizes for name in judged_by)
    mean_sizes = sizes[0] if sizes else None
    return Evaluation(census.names, census.sizes, errors, mean_sizes, float(promise.epsilon))
