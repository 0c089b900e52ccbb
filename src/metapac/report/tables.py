"""Scored examples of a report in a table."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import ibis

from metapac.evaluation import Evaluation
from metapac.findings import CHECKS
from metapac.predictors import MetaPS, ThresholdSets
from metapac.report.data import Data, Example, change_epsilon, find_cluster_seed
from metapac.tables.calibration import calibrate_table
from metapac.tables.columns import resolve_columns
from metapac.tables.evaluation import evaluate_table
from metapac.tables.scores import check_cluster, find_class_scores, find_residuals
from metapac.tables.sets import KeptLabels, find_ends
from metapac.tables.sources import Source

_MOST = 5_000  # rows of a task that are looked at


class Tabled(Data):
    """Labelled scores in an open table."""

    def __init__(self, source: Source, columns: Mapping[str, Any], id: str | None = None) -> None:
        self.source = source
        self.columns = dict(columns)
        self.id = id

    def calibrate(self, promise: MetaPS, epsilon: float) -> MetaPS:
        used, seed = resolve_columns(promise, **self.columns), find_cluster_seed(promise)
        check_cluster(promise, used)
        return calibrate_table(
            self.source,
            task=used.task,  # type: ignore[arg-type]  # None is an error there
            score=used.score,
            label=used.label if used.score is None or promise.per_class else None,
            columns=used.pattern,
            classes=used.classes if used.score is None or promise.per_class else None,
            classes_column=used.classes_column,
            prediction=used.prediction,
            y=used.y,
            scale=used.scale,
            cluster=None if seed is None else used.cluster,
            rng=seed or 0,
            context=promise.context_,
            allow=CHECKS,
            **change_epsilon(promise, epsilon),
        )

    def evaluate(
        self, promise: ThresholdSets, *, false_alarm: float, allow: Iterable[str]
    ) -> Evaluation:
        return evaluate_table(
            promise,
            self.source,
            false_alarm=false_alarm,
            id=self.id,
            allow=allow,
            **self.columns,
        )

    def examples(self, promise: ThresholdSets, tasks: Collection[Any]) -> list[Example]:
        used, table = resolve_columns(promise, **self.columns), self.source.table
        if used.task is None:
            return []
        chosen = table[used.task].cast("string").isin([str(task) for task in tasks])
        if used.prediction is not None:
            lower, upper = find_ends(promise, find_residuals(self.source, used, needs_y=True))
            values = {"truth": table[used.y].cast("float64"), "lower": lower, "upper": upper}
        elif used.score is None and used.label is not None:
            of_classes = find_class_scores(self.source, used)
            kept = KeptLabels(promise, of_classes)
            truth = table[used.label].cast("string")
            full = kept.size == of_classes.width
            values = {"truth": truth, "kept": kept.as_text(), "full": full}
        else:
            return []
        rows = table.select(task=table[used.task], chosen=chosen, **values)
        found = self.source.run(rows.filter(ibis._.chosen).drop("chosen").limit(_MOST))
        return sorted(map(_read, found.to_pylist()), key=lambda row: tuple(map(str, row)))


def _read(row: dict[str, Any]) -> Example:
    if "lower" in row:
        return Example(row["task"], row["truth"], None, (row["lower"], row["upper"]))
    labels = tuple(str(name) for name in json.loads(row["kept"]))
    return Example(row["task"], row["truth"], labels, full=bool(row["full"]))
