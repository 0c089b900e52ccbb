"""An open table of scores: the five questions, answered by an engine, and drift of its scores."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import ibis
import numpy as np
from ibis import _

from metapac import columns, grouping
from metapac._common import (
    Array,
    Counts,
    Floats,
    PathLike,
    Progress,
    as_whole_number,
    ignore_progress,
)
from metapac.columns import Columns, Reading, encode_columns, hold_losses, resolve_columns
from metapac.context import Context
from metapac.data_checks import Facts, Repeats, find_ranges, judge_rare_classes, report
from metapac.drift import Drift, Pool, compare_pools
from metapac.errors import InvalidInput, keyword
from metapac.grouping import Data, Scored, SetCounts
from metapac.guarantee import Guarantee
from metapac.inputs import as_task_names
from metapac.planning import supports_classes
from metapac.predictors import ThresholdSets, check_predictor
from metapac.provenance import Provenance
from metapac.risk import check_order
from metapac.sets import SetSummary
from metapac.tables import data_checks, scores, search, sets, sources
from metapac.tables.engines import exact
from metapac.tables.output import check_output, output_kind, write
from metapac.tables.sources import Source

_UNLABELLED = " Misses need labels. Without them: predict, or compare_tables (monitor --reference)."
_BINS = 1000  # in which scores without labels are counted
_MOST = 5_000  # rows of a task that a report looks at


@dataclass(frozen=True, eq=False, repr=False)
class Table(Data):
    """An open table of scores, from ``open_table``; as a context manager, it closes itself.

    Attributes
    ----------
    source : Source
        The table in its engine.
    columns : Columns
        Which column holds what.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac import Columns, open_table
    >>> frame = pd.DataFrame({"site": ["ohio", "ohio", "utah"], "score": [0.9, 0.7, 0.8]})
    >>> with open_table(frame, Columns(task="site", score="score")) as table:
    ...     table.sizes()
    {None: array([1, 2])}
    """

    source: Source
    columns: Columns

    @classmethod
    def open(cls, source: Any, columns: Columns, reading: Reading) -> Self:
        """Return an open table; see ``open_table``."""
        if isinstance(source, Table) and reading != Reading():
            raise InvalidInput("reading must be left out: the table is open.")
        inner = source.source if isinstance(source, Table) else source
        return cls(sources.open_source(inner, reading), columns)

    def __repr__(self) -> str:
        return f"<Table {self.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.source.__exit__(*raised)

    @property
    def name(self) -> str:
        """Name of the table in messages."""
        return self.source.name

    @cached_property
    def by_task(self) -> scores.Rows:
        """Task and true score of each row."""
        return scores.true_scores(self.source, self.columns)

    @cached_property
    def by_class(self) -> scores.Rows:
        """The same, where each class of a task is a group of its own."""
        return scores.true_scores(self.source, self.columns, by_class=True)

    @property
    def labelled(self) -> scores.Rows:
        """Either of them: the one that is there already."""
        return self.by_class if "by_class" in vars(self) else self.by_task

    def with_columns(self, **names: Any) -> Self:
        """Return the same table with some fields of `Columns` replaced."""
        return replace(self, columns=replace(self.columns, **names))

    def resolve(self, predictor: Any) -> Self:
        new = self._resolve(predictor)
        _check_cluster(new.columns, predictor)
        for name in (new.columns.label, new.columns.score, new.columns.y):
            if name is not None:
                self.source.column(name, _UNLABELLED)
        new.check_tasks()
        if predictor.classes_ is not None:
            new.class_names(by_class=True)
        return new

    def _resolve(self, predictor: Any) -> Self:
        known = predictor.columns_ or {}
        return replace(self, columns=resolve_columns(self.columns, known, predictor.classes_))

    def check_tasks(self) -> None:
        """Raise InvalidInput unless columns name tasks and, if there are any, clusters."""
        if self.columns.task is None:
            raise InvalidInput("task must name the column with the task of each row.")
        for name, meaning in ((self.columns.cluster, "clusters"), (self.columns.within, "units")):
            if name is not None:
                scores.get_id_column(self.source, name, meaning)

    def has_class_scores(self) -> bool:
        of_classes = None if self.columns.label is None else self.labelled.class_scores
        return of_classes is not None and of_classes.row_names is None

    def class_names(self, *, by_class: bool = False) -> tuple[Any, ...] | None:
        names = (self.by_class if by_class else self.labelled).names
        return None if names is None else tuple(names)

    def describe(self) -> tuple[np.dtype[Any], dict[str, Any] | None]:
        rows = self.labelled
        names = None if rows.class_scores is None else rows.class_scores.names
        return rows.precision, encode_columns(self.columns, names)

    def sizes(self, *, by_class: bool = False) -> dict[Any, Counts]:
        """Return the number of rows of each task; scores are not read.

        For all classes together, by None, in ascending order; by class, in the order of the tasks.
        """
        task, label = self.columns.task, self.columns.label
        if task is None or (by_class and label is None):
            raise InvalidInput("task must name a column, and by class label too.")
        source = self._count_once(task, label if by_class else None)
        if not by_class:
            counts = scores.count_values(source, tasks=task)
            return {None: np.sort(np.array([*counts.values()], dtype=np.int64))}
        counts = scores.count_values(source, tasks=task, labels=str(label))
        tasks, labels = (sorted({*names}) for names in zip(*counts, strict=True))
        pairs = {name: [counts.get((one, name), 0) for one in tasks] for name in labels}
        return {name: np.array(column, dtype=np.int64) for name, column in pairs.items()}

    def _count_once(self, task: str, label: str | None) -> Source:
        """Return one row of each unit, whose score is not read: as good as any for counting."""
        source, within = self.source, self.columns.within
        if within is None:
            return source
        unit, name = (scores.get_id_column(source, x, "units") for x in (within, task))
        source.check_no_missing(within, "units", source.count(missing=unit.isnull())[1])
        if label is None:
            pairs = source.table.select(task, within).distinct()
            return replace(source, table=pairs, owns_connection=False)
        order = [scores.get_id_column(source, label, "labels")]
        return scores.draw_rows(source, name, within, order, 0)

    def order_statistics(
        self, rank: grouping.RankRule, *, by_class: bool, progress: Progress
    ) -> grouping.Statistics:
        rows = self.by_class if by_class else self.by_task
        with self.source.reading(rows.score_columns, self.columns.task):
            if self.columns.task is not None:  # a site, which is a single task, may lack a class
                scores.check_guessed_classes(rows)
            progress("counting the scores of each task", 0, None)
            census, found = search.take_survey(rows)
            names, task, label = _find_groups(rows, census.names)
            ranks = rank(census.sizes, label)
            thresholds, repeats = search.order_statistics(rows, census, found, ranks, progress)
        low, high = census.low.astype(np.float64), census.high.astype(np.float64)
        return grouping.Statistics(names, task, label, census.sizes, thresholds, low, high, repeats)

    def counts(
        self, thresholds: Floats, precision: np.dtype[Any], tasks: Array | None = None
    ) -> list[grouping.Tally]:
        rows = self.labelled if tasks is None else self.by_task
        with self.source.reading(rows.score_columns, self.columns.task):
            trials = [*sets.count_trials(rows, thresholds, precision, tasks)]
            # The census raises if a score is missing.
            census = None if tasks is not None else search.take_census(rows)
        names, task, _label = _find_groups(rows, np.array(trials[0]["task"], dtype=object))
        ranges, classes, label = np.full((len(names), 2), np.nan), None, None
        if census is not None:
            _names, place, _label = _find_groups(rows, census.names)
            ranges = find_ranges(place, census.low, census.high, len(names))
        if "label" in trials[0] and rows.names is not None:
            index = {str(name): i for i, name in enumerate(rows.names)}
            classes, label = rows.names, np.array([index[x] for x in trials[0]["label"]], np.int64)
        tallies = []
        for trial in trials:
            widths = np.array(trial["width"], np.float64) if "width" in trial else None
            kinds = ("examples", "missed", *(SetCounts._fields if "labels" in trial else ()))
            examples, missed, *sizes = (np.array(trial[kind], np.int64) for kind in kinds)
            groups = names, task, examples, missed, ranges, classes, label
            tallies.append(grouping.Tally(*groups, SetCounts(*sizes) if sizes else None, widths))
        return tallies

    def facts(
        self, names: Array, sizes: Counts, skipped: frozenset[str], repeats: Repeats | None = None
    ) -> Facts:
        return data_checks.find_facts(self.labelled, names.tolist(), sizes, skipped, repeats)

    def check_rare_classes(
        self, classes: Sequence[Any] | None, guarantee: Guarantee, allow: Iterable[str]
    ) -> None:
        """Warn of classes that one guarantee for all classes need not cover."""
        label = self.columns.label
        if label is None or classes is None or "rare-class" in allow:
            return
        counts = scores.count_values(self.source, labels=label).items()
        found = {str(name): count for (name,), count in sorted(counts)}
        known = found | {name: 0 for name in map(str, classes) if name not in found}

        def works() -> bool:
            return supports_classes(guarantee, self.sizes(by_class=True))

        finding = judge_rare_classes(known, guarantee.miss_rate, supports_classes=works)
        report([finding], where=self.name)

    def find_spread(self) -> float:
        numbers = self.by_task.numbers
        assert numbers is not None
        values = self.source.run(self.source.table.select(y=numbers.parts["y"]))["y"].to_numpy()
        return float(np.diff(np.quantile(values, [0.05, 0.95]))[0])

    def task_names(self) -> list[Any]:
        """Return the names of the tasks, in ascending order; nothing else is read."""
        self.check_tasks()
        counts = scores.count_values(self.source, tasks=str(self.columns.task))
        return sorted(name for (name,) in counts)

    def take_tasks(self, names: Iterable[Any], *, others: bool = False) -> Self:
        """Return the rows of some tasks, or those of all others."""
        task = scores.get_id_column(self.source, str(self.columns.task), "tasks").cast("string")
        chosen = task.isin([str(name) for name in names])
        some = self.source.table.filter(~chosen if others else chosen)
        return replace(self, source=replace(self.source, table=some, owns_connection=False))

    def clusters_of(self, names: Sequence[Any]) -> list[Any] | None:
        task, cluster = self.columns.task, self.columns.cluster
        if task is None or cluster is None:
            return None
        found: dict[Any, str | int] = {}
        for name, value in scores.count_values(self.source, tasks=task, clusters=cluster):
            own = grouping.as_cluster(value)
            grouping.check_one_cluster(name, found.setdefault(name, own), own)
        return [found[name] for name in names]

    def read_losses(self, known: Mapping[str, Any] | None) -> Scored:
        """Return the losses of all rows, in arrays; columns that are not named are as known."""
        used, source = resolve_columns(self.columns, known or {}, None), self.source
        if used.losses is None or used.id is None:
            text = "losses needs id, the column with the key of each row: tables have no order."
            raise InvalidInput(text, parameter=("losses", "id"))
        names = used.losses
        if isinstance(names, str):
            matched = scores.match_columns(source, names).values() if "*" in names else ()
            names = [*matched] or [names]
        floats = {f"_{i}": value for i, value in enumerate(scores.as_floats(source, names)[0])}
        kinds = ("tasks", "keys", "clusters", "within")
        pairs = zip(kinds, (used.task, used.id, used.cluster, used.within), strict=True)
        ids = {kind: name for kind, name in pairs if name is not None}
        columns = {kind: scores.get_id_column(source, name, kind) for kind, name in ids.items()}
        with source.reading(names, used.task):
            found = source.run(source.table.select(**columns, **floats)).sort_by(next(iter(ids)))
        source.check_not_empty(len(found))
        lost = np.stack([found[name].to_numpy() for name in floats], axis=1)
        if np.isnan(lost).any():
            source.check_text(names, used.task)
        values = {kind: found[kind].to_pylist() for kind in ids}
        check_order(names)
        task, more = values.pop("tasks", None), {"columns": encode_columns(used, None), **values}
        return Scored(lost, task, thresholds=used.thresholds, **more)

    def draw_rows(
        self, rng: int, task: str | None = None
    ) -> tuple[Self, grouping.DrawnRows | None]:
        used, source, seed = self.columns, self.source, as_whole_number("rng", rng, minimum=0)
        if used.within is None:
            return self, None
        has_class = used.score is not None and used.label is not None
        rows = self.by_class if has_class else self.by_task
        named = rows.task if task is None else ibis.literal(task)
        with source.reading(rows.score_columns, used.task):
            bad = ~source.is_usable(rows.score)
            every, units, tasks, *missing = scores.count_units(source, rows.task, used.within, bad)
            if missing[0] or missing[2]:
                search.take_census(rows)  # which raises
            source.check_no_missing(used.within, "units", missing[1])
            source.check_not_empty(every)
            drawn = grouping.DrawnRows(every, units, seed)
            drawn.check_several(tasks)
            some = scores.draw_rows(source, named, used.within, rows.order(), seed)
        return replace(self, source=some), drawn

    def rows(self, predictor: Any, tasks: Collection[Any]) -> list[grouping.Row]:
        used, table = self.columns, self.source.table
        if used.task is None:
            return []
        if used.is_regression:
            numbers = scores.find_numbers(self.source, used, needs_y=True)
            lower, upper = sets.find_ends(predictor.threshold_, predictor.precision_, numbers)
            values = {"truth": table[used.y].cast("float64"), "lower": lower, "upper": upper}
        elif used.score is None and used.label is not None:
            kept = self._kept(predictor)
            full = kept.size == kept.of_classes.width
            truth = table[used.label].cast("string")
            values = {"truth": truth, "kept": kept.as_text(), "full": full}
        else:
            return []
        chosen = table[used.task].cast("string").isin([str(task) for task in tasks])
        rows = table.select(task=table[used.task], chosen=chosen, **values)
        found = self.source.run(rows.filter(_.chosen).drop("chosen").limit(_MOST))
        return sorted(map(_read_row, found.to_pylist()), key=lambda row: tuple(map(str, row)))

    def _kept(self, predictor: Any) -> sets.KeptLabels:
        by_class = predictor.classes_ is not None
        of_classes = scores.find_class_scores(self.source, self.columns, by_class)
        thresholds = np.ravel(predictor._thresholds_of(of_classes.names))
        cuts = sets.smallest_kept_scores(thresholds, predictor.precision_, of_classes.precision)
        return sets.KeptLabels(of_classes, cuts.tolist())

    def add_sets(
        self,
        predictor: Any,
        output: Any = None,
        *,
        booleans: bool = False,
        answer: bool = False,
        model: str | None = None,
        allow: Iterable[str] = (),
        inputs: Iterable[PathLike] = (),
        progress: Progress | None = None,
    ) -> sets.Sets:
        """Return the rows with their sets, and write them to ``output``; see `MetaPS.predict`."""
        if hold_losses(predictor.columns_):
            text = f"a risk has no sets: keep what scores at least {predictor.threshold_!r}."
            raise InvalidInput(text, parameter="promise")
        new, tell, as_text = self._resolve(predictor), progress or ignore_progress, True
        new.check_origin(predictor.context_, model)
        if isinstance(output, str | os.PathLike):
            check_output(self.source, output, inputs)
            as_text = output_kind(output) == "csv"
        tell("checking the scores", 0, None)
        form: dict[str, Any] = {"booleans": booleans, "answer": answer}
        if new.columns.is_regression:
            _check_no_classes(new.columns, **form)
            result = sets.add_intervals(predictor, self.source, new.columns)
        else:
            form |= {"allow": allow, "as_text": as_text and output is not None}
            kept = new._kept(predictor)
            result = sets.add_sets(predictor, self.source, new.columns, kept, **form)
        if output is not None:
            tell(f"writing {result.rows} sets", 0, None)
            write(self.source.connection, result.table, output)
        return result

    def summarise_sets(self, predictor: Any) -> SetSummary:
        """Return what the prediction sets of the rows look like, without writing them."""
        new = self._resolve(predictor)
        if new.columns.is_regression:
            raise InvalidInput("a predictor for numbers gives intervals, not sets. Use predict.")
        return sets.count_sets(self.source, new._kept(predictor))

    def add_origin(self, context: Context) -> Context:
        origin = self._read_origin(context.model)
        if origin is None:
            return context
        pool = origin.details.get("pool")
        if pool in ("train", "validation"):
            text = "which the learner has seen in training: they are too good to calibrate on"
            raise InvalidInput(f"the scores are of tasks of the pool {pool!r}, {text}.")
        if context.score is not None:
            context.check_score(origin.score)
        trained_on = [*(context.trained_on or ()), *(origin.details.get("trained_on") or ())]
        kinds = ("training", "drawn_from")
        known: Any = {kind: getattr(context, kind) or origin.details.get(kind) for kind in kinds}
        known |= {"trained_on": trained_on or context.trained_on}
        return replace(context, model=origin.model, score=origin.score, **known)

    def check_origin(self, context: Context, model: str | None) -> None:
        origin = self._read_origin(model)
        if origin is not None and context.model not in (None, origin.model):
            text = f"{self.name} was scored by {origin.model!r}; the guarantee is for"
            raise InvalidInput(f"{text} {context.model!r}. A guarantee holds for one model.")
        context.check_model(model if origin is None else origin.model)
        if origin is not None and context.score is not None:
            context.check_score(origin.score)

    def _read_origin(self, model: str | None) -> Provenance | None:
        """Return where the scores come from; raise if the user names another model."""
        origin = sources.read_origin(self.source)
        if origin is not None and model not in (None, origin.model):
            rule = f"model must be {origin.model!r}, which {self.name} says has scored it"
            raise InvalidInput(f"{rule}, got {model!r}. Leave it out.")
        return origin


def _check_no_classes(columns: Columns, **form: bool) -> None:
    given = "prediction" if columns.lower is None else "lower"
    for name, is_wanted in form.items():
        if is_wanted:
            text = f"{keyword(name, True)} is for classes, and {given} for numbers."
            raise InvalidInput(text, parameter=given)


def _check_cluster(columns: Columns, predictor: Any) -> None:
    """Raise InvalidInput if the guarantee is for new clusters and no column names them."""
    if columns.cluster is None and getattr(predictor, "clusters_", None) is not None:
        rule = "cluster must name the column with the cluster of each task"
        raise InvalidInput(f"{rule}: the guarantee is for new clusters.")


def _find_groups(rows: scores.Rows, keys: Array) -> tuple[Array, Counts, Counts | None]:
    """Return the tasks in ascending order, and the index of the task and the class of each key."""
    if rows.keys is not None:
        return rows.keys.groups(keys)
    distinct = as_task_names([*dict.fromkeys(keys.tolist())])
    names = distinct[np.argsort(distinct, kind="stable")]
    place = {name: i for i, name in enumerate(names.tolist())}
    return names, np.array([place[key] for key in keys.tolist()], dtype=np.int64), None


def _read_row(row: dict[str, Any]) -> grouping.Row:
    if "lower" in row:
        return grouping.Row(row["task"], row["truth"], None, (row["lower"], row["upper"]))
    labels = tuple(str(name) for name in json.loads(row["kept"]))
    return grouping.Row(row["task"], row["truth"], labels, full=bool(row["full"]))


def compare_tables(
    promise: ThresholdSets, table: Table, reference: Table, *, model: str | None = None
) -> Drift:
    """Compare the scores of unlabelled new tasks with those of the calibration table.

    For classes, the highest score of each row is compared; for regression, the predicted number or
    the middle between the predicted quantiles.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor, which knows the columns.
    table : Table
        New tasks, from ``open_table``; labels are not read.
    reference : Table
        The table that was calibrated on, of at least 19 tasks. Its columns are those of ``table``.
    model : str, optional
        Model that gave the new scores, as in ``evaluate``.

    Returns
    -------
    Drift
        The comparison. It is a heuristic without a guarantee.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from metapac import Columns, MetaPS, open_table
    >>> from metapac.tables import compare_tables
    >>> rng = np.random.default_rng(0)
    >>> sites = np.repeat([f"site {i}" for i in range(40)], 100)
    >>> known = pd.DataFrame({"site": sites, "p_no": rng.random(4000)})
    >>> known["p_yes"] = 1 - known.p_no
    >>> promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1).calibrate(known.p_no, known.site)
    >>> new = pd.DataFrame({"site": "ohio", "p_no": [0.6] * 30, "p_yes": [0.4] * 30})
    >>> tables = open_table(new, Columns(task="site")), open_table(known)
    >>> compare_tables(promise, *tables).shifts[0].is_unusual
    True
    """
    check_predictor(promise)
    for name, one in (("table", table), ("reference", reference)):
        if not isinstance(one, Table):
            got = type(one).__name__
            raise InvalidInput(f"{name} must be open_table(...), got {got}.")
    given = columns.without_labels(table.columns)
    used = resolve_columns(given, promise.columns_ or {}, promise.classes_)
    if used.task is None:
        raise InvalidInput("task must name the column with the task of each row.")
    reference.check_origin(promise.context_, None)
    table.check_origin(promise.context_, model)
    new = _value(table.source, used)
    old = _value(reference.source, used)
    ends = _find_range(reference.source, old)
    pools = [_count(table.source, used, new, *ends), _count(reference.source, used, old, *ends)]
    return compare_pools(*pools)


def _value(source: Source, columns: Columns) -> Any:
    """Return what is compared: the highest score of each row, or its predicted number."""
    if columns.is_regression:
        return scores.find_numbers(source, columns, needs_y=False).centre
    of_classes = scores.find_class_scores(source, columns)
    sets.check_class_scores(source, of_classes)
    if of_classes.lists is not None:
        return of_classes.lists.maxs().cast("float64")
    return ibis.greatest(*of_classes.scores).cast("float64")


def _find_range(source: Source, value: Any) -> tuple[float, float]:
    """Return the range to divide into bins."""
    table = source.table.select(value=value)
    found = source.run(table.agg(low=table.value.min(), high=table.value.max()))
    low, high = (column[0].as_py() for column in found.columns)
    source.check_not_empty(low is not None)
    if not np.isfinite([low, high]).all():
        raise InvalidInput(f"{source.name} must hold finite scores to be compared with, got inf.")
    return low, high if high > low else low + 1.0


def _count(source: Source, columns: Columns, value: Any, low: float, high: float) -> Pool:
    """Count the rows of each task in each bin; what lies outside has a bin of its own."""
    place = ((value - exact(low)) / exact(high - low) * _BINS).floor()
    bins = ibis.cases(
        (value < exact(low), -1), (value >= exact(high), _BINS), else_=place.cast("int64")
    )
    task = scores.get_id_column(source, columns.task or "", "tasks")
    table = source.table.select(task=task, bin=bins)
    counts = source.run(table.group_by(["task", "bin"]).agg(rows=_.count()))
    source.check_not_empty(len(counts))
    tasks, rows = counts["task"].to_pylist(), counts["rows"].to_numpy().astype(np.int64)
    missing = int(rows[[name is None for name in tasks]].sum())
    source.check_no_missing(columns.task, "tasks", missing)
    return Pool.collect(tasks, counts["bin"].to_numpy(), rows)


def read_task_column(
    path: str, task: str | None, *, parameter: str = "trained_on", distinct: bool = True
) -> list[Any]:
    """Return the tasks of a table; of a table with one column, its values."""
    with sources.open_source(path) as source:
        columns = source.table.columns
        if task not in columns and len(columns) > 1:
            named = "" if task is None else f" {task!r}"
            text = f"{parameter}: {source.name} must have the task column{named}, or a single"
            text += " column of names, got"
            raise InvalidInput(f"{text} {', '.join(columns[:10])}.", parameter=parameter)
        name = task if task is not None and task in columns else columns[0]
        column = scores.get_id_column(source, name, "tasks")
        with source.reading():
            selected = source.table.select(task=column)
            found = source.run(selected.distinct() if distinct else selected)
    return [name for name in found["task"].to_pylist() if name is not None or not distinct]
