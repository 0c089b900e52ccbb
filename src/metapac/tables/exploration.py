"""Levels tried on a table of pilot tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import ibis
import numpy as np
from ibis import _

from metapac._common import (
    Array,
    Counts,
    Floats,
    Progress,
    Table,
    as_probability,
    as_whole_number,
    ignore_progress,
)
from metapac.data_checks import check_levels
from metapac.errors import InvalidInput
from metapac.evidence import Evidence, ranks_by_class, ranks_within
from metapac.exploration import Cell, Estimate, Exploration, expected_thresholds, least_tasks
from metapac.findings import check_allowed
from metapac.guarantee import Guarantee, Split
from metapac.tables.columns import Columns
from metapac.tables.data_checks import check_rows
from metapac.tables.errors import pluralize
from metapac.tables.expressions import add_up, as_int, upload
from metapac.tables.scores import ClassScores, Rows, check_guessed_classes, true_scores
from metapac.tables.search import take_survey
from metapac.tables.sets import check_class_scores
from metapac.tables.sources import Source, open_source

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2)
ALPHAS = (0.05, 0.1, 0.2)
# Comparisons of a score with a threshold in one query.
_COMPARISONS = 240
# Labels in sets, and sets that miss the true label, are empty, or hold every label.
_KINDS = ("size", "missed", "empty", "full")


def explore_table(
    source: Any,
    *,
    task: str,
    label: str,
    columns: str | Sequence[str] = "p_*",
    classes: Sequence[Any] | None = None,
    epsilon: Sequence[float] = EPSILONS,
    alpha: Sequence[float] = ALPHAS,
    delta: float | None = 0.05,
    split: Split = "joint",
    min_examples: int = 0,
    tasks: int | None = None,
    id: str | None = None,
    allow: Iterable[str] = (),
    table: str | None = None,
    connection: Any = None,
    progress: Progress | None = None,
) -> Exploration:
    """Return the sets to expect from calibration at some levels, estimated on pilot tasks.

    Use it to choose ``epsilon`` and ``alpha``, and then calibrate on other tasks. Choosing among
    many levels costs nothing only because the pilot tasks are not calibrated on.

    Parameters
    ----------
    source : path, list of paths, frame, Ibis table or Ibis connection
        A table with a row for each labelled example of the pilot tasks; as in ``calibrate_table``.
    task : str
        Column with the task of each row.
    label : str
        Column with the true label.
    columns : str or sequence of str, default "p_*"
        Columns with a score for each class, the star being the name of the class, or a list of
        them; or one column of lists.
    classes : sequence, optional
        Names of the classes, as in ``calibrate_table``.
    epsilon : sequence of float, default (0.01, 0.02, 0.05, 0.1, 0.2)
        Miss rates to try.
    alpha : sequence of float, default (0.05, 0.1, 0.2)
        Fractions of tasks to try.
    delta : float or None, default 0.05
        Failure probability of the guarantee.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with a threshold for each class, of the class). The
        estimates are then for the other tasks.
    tasks : int, optional
        Number of calibration tasks that you will have; by default as many as pilot tasks or, if
        those are too few, the smallest number that supports the guarantee.
    id : str, optional
        Column that identifies the examples of a task, in which duplicates are searched. Without
        it, rows that are equal are.
    allow : iterable of str, default ()
        Checks of the data to skip, such as "duplicates"; the message of a check names it.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        The engine that reads files and frames; see ``connect``. By default DuckDB in this process.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` at each step.

    Returns
    -------
    Exploration
        Set sizes, empty and full sets, and misses of each class, at each pair of levels: with one
        threshold for all classes, and with one for each class.

    Raises
    ------
    InvalidInput
        If a parameter, a column or a value in it is not valid.
    EngineError
        If the engine cannot read the table.

    Notes
    -----
    Sets of each pilot task are made with the threshold of the other pilot tasks, so that no task
    judges a threshold that it helped to choose.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from metapac.tables import explore_table
    >>> rng = np.random.default_rng(0)
    >>> sick = rng.random(2000) < 0.1
    >>> p = np.clip(0.1 + 0.3 * sick + 0.1 * rng.normal(size=2000), 0.01, 0.99)
    >>> pilot = pd.DataFrame({"site": np.arange(2000) % 20, "y": np.where(sick, "yes", "no")})
    >>> found = explore_table(
    ...     pilot.assign(p_no=1 - p, p_yes=p), task="site", label="y", epsilon=[0.1], alpha=[0.2]
    ... )
    >>> shared, each = found.cells
    >>> print(f"missed yes: {shared.missed['yes'].value:.0%}, {each.missed['yes'].value:.0%}")
    missed yes: 35%, 0%
    """
    grid = _grid(epsilon, alpha, delta, split, min_examples)
    allowed = check_allowed(allow)
    check_levels(max(g.miss_rate for g in grid), grid[-1].alpha, grid[-1].delta, allow=allowed)
    if tasks is not None:
        tasks = as_whole_number("tasks", tasks)
    if label is None:
        raise InvalidInput(
            "label must name the column with the true label: misses are counted for each class.",
            parameter="label",
        )
    report = progress or ignore_progress
    used = Columns(task, None, label, columns, classes)
    with open_source(source, table=table, connection=connection) as opened:
        rows = true_scores(opened, used)
        assert rows.class_scores is not None
        names = rows.class_scores.names
        _check_same_classes(opened, rows.class_scores)
        check_rows(rows, id=id, allow=[*allowed, "missing"])  # missing scores: see below
        with opened.reading(rows.score_columns, task):
            check_guessed_classes(rows)
            check_class_scores(opened, rows.class_scores)
            pilot, trials = _make_trials(rows, grid, tasks, report)
            report("counting the labels in each set", 0, None)
            tally = _count(rows, pilot, trials)
    totals = tally.examples.sum(axis=0)
    return Exploration(
        tuple(pilot.tolist()),
        int(totals.sum()),
        grid[0].delta,
        dict(zip(names, (totals / totals.sum()).tolist(), strict=True)),
        tuple(_summarise(tally, i, trial, names) for i, trial in enumerate(trials)),
        used.to_json(names),
        split,
        min_examples,
    )


class _Trial(NamedTuple):
    """One cell of the grid with its thresholds; the last axis has length 1, or one per class."""

    guarantee: Guarantee
    tasks: int
    least: int  # number of tasks needed
    thresholds: Floats  # (classes,)
    without: Floats  # (tasks, classes)
    used: Array  # (tasks, classes)


class _Tally(NamedTuple):
    """Counts of each task and class, for each trial."""

    examples: Counts  # (tasks, classes)
    sums: dict[str, Counts]  # by kind, each (trials, tasks, classes)


def _check_same_classes(source: Source, of_classes: ClassScores) -> None:
    """Raise InvalidInput if classes differ from row to row: misses are counted for each class."""
    if of_classes.row_names is not None:
        raise InvalidInput(
            f"{source.name}: the lists of column {of_classes.columns[0]!r} differ in length, and "
            "exploring needs the same classes in every row: it counts the misses of each. Explore "
            "the tasks of one number of classes."
        )


def _grid(
    epsilons: Sequence[float],
    alphas: Sequence[float],
    delta: float | None,
    split: Split,
    min_examples: int,
) -> list[Guarantee]:
    """Return the guarantees to try, by alpha and epsilon, each pair once."""
    more: dict[str, Any] = {"delta": delta, "split": split, "min_examples": min_examples}
    return [
        Guarantee(epsilon=rate, alpha=fraction, **more)
        for fraction in _as_levels("alpha", alphas)
        for rate in _as_levels("epsilon", epsilons)
    ]


def _as_levels(name: str, values: Any) -> list[float]:
    if isinstance(values, str) or not np.size(values):
        raise InvalidInput(
            f"{name} must be a sequence of numbers between 0 and 1, got {values!r}.", parameter=name
        )
    levels = np.ravel(np.asarray(values, dtype=object)).tolist()
    return sorted({as_probability(name, level) for level in levels})


def _make_trials(
    rows: Rows, grid: list[Guarantee], tasks: int | None, progress: Progress
) -> tuple[Array, list[_Trial]]:
    """Return the tasks, and the thresholds of all cells: shared ones first, then of each class."""
    progress("counting the scores of each task", 0, None)
    survey = take_survey(rows)
    census = survey.census
    _check_several(rows.source.name, census.sizes, grid[0].min_examples)
    ranks = [ranks_within(census.sizes, g) for g in grid]
    found, _ = survey.order_statistics(np.concatenate(ranks, axis=1), progress)
    shared = [
        _trial(g, part[:, None], census.sizes[:, None], tasks, None)
        for g, part in zip(grid, np.split(found, len(grid), axis=1), strict=True)
    ]
    by_class = true_scores(rows.source, replace(rows.columns, per_class=True))
    return census.names, shared + _make_class_trials(by_class, grid, tasks, progress)


def _make_class_trials(
    rows: Rows, grid: list[Guarantee], tasks: int | None, progress: Progress
) -> list[_Trial]:
    assert rows.keys is not None
    classes = rows.keys.classes
    survey = take_survey(rows)
    census = survey.census
    names, task, label = rows.keys.groups(census.names)
    each = [replace(g, per_class=True) for g in grid]
    ranks = [ranks_by_class(census.sizes, label, classes, g) for g in each]
    found, _ = survey.order_statistics(np.concatenate(ranks, axis=1), progress)
    trials = []
    for g, part in zip(each, np.split(found, len(each), axis=1), strict=True):
        evidence = Evidence.from_groups(
            names,
            classes,
            task,
            label,
            sizes=census.sizes,
            thresholds=part,
            lowest=census.low,
            highest=census.high,
            precision=rows.precision,
        )
        trials.append(_trial(g, evidence.thresholds, evidence.sizes, tasks, classes))
    return trials


def _trial(
    guarantee: Guarantee,
    thresholds: Floats,
    sizes: Counts,
    tasks: int | None,
    classes: Sequence[Any] | None,
) -> _Trial:
    """Return the thresholds to expect; ``thresholds`` has shape (tasks, classes, levels)."""
    parts = [guarantee] if classes is None else [guarantee.for_class(x, classes) for x in classes]
    used = sizes >= guarantee.min_examples
    least = least_tasks(guarantee.alpha, guarantee.delta, len(parts), split=guarantee.split)
    if tasks is None:
        tasks = max(int(used.any(axis=1).sum()), least)
    best, without = np.full(len(parts), -np.inf), np.full(used.shape, -np.inf)
    for i, part in enumerate(parts):
        some = used[:, i]
        if some.sum() > 1:  # with fewer, nothing is known, and every label is kept
            best[i], without[some, i] = expected_thresholds(thresholds[some, i], part, tasks)
            without[~some, i] = best[i]
    return _Trial(guarantee, tasks, least, best, without, used)


def _count(rows: Rows, tasks: Array, trials: list[_Trial]) -> _Tally:
    """Count examples, labels in sets, misses, empty and full sets, a few cells in each query."""
    assert rows.class_scores is not None
    step = max(1, _COMPARISONS // len(rows.class_scores.names))
    parts = [_count_some(rows, tasks, trials[i : i + step]) for i in range(0, len(trials), step)]
    sums = {name: np.concatenate([part.sums[name] for part in parts]) for name in _KINDS}
    return parts[0]._replace(sums=sums)


def _count_some(rows: Rows, tasks: Array, trials: list[_Trial]) -> _Tally:
    assert rows.class_scores is not None
    classes = {str(name): i for i, name in enumerate(rows.class_scores.names)}
    outcomes = _outcomes(rows, tasks, trials)
    sums = {name: _[name].sum() for name in outcomes.columns if name not in ("task", "label")}
    result = rows.source.run(outcomes.group_by("task", "label").agg(examples=_.count(), **sums))
    places = {name: i for i, name in enumerate(tasks.tolist())}
    task = [places[name] for name in result["task"].to_pylist()]
    label = [classes[name] for name in result["label"].to_pylist()]

    def spread(column: str) -> Counts:
        counts = np.zeros((len(tasks), len(classes)), dtype=np.int64)
        counts[task, label] = result[column].to_numpy()
        return counts

    cells = range(len(trials))
    return _Tally(
        spread("examples"),
        {kind: np.stack([spread(f"{kind}{i}") for i in cells]) for kind in _KINDS},
    )


def _outcomes(rows: Rows, tasks: Array, trials: list[_Trial]) -> Table:
    """Return task and label of each row, and what its set is like in each trial, as 0 or 1."""
    assert rows.class_scores is not None
    names, scores = rows.class_scores.names, rows.class_scores.scores
    examples = rows.source.table.select(
        task=rows.task,
        label=rows.labels,
        **{f"score{j}": score.cast("float64") for j, score in enumerate(scores)},
    )
    cuts = {
        f"cut{i}_{j}": column
        for i, trial in enumerate(trials)
        for j, column in enumerate(trial.without.T)
    }
    table = upload(examples.schema()["task"], task=tasks, **cuts)
    joined = examples.join(table, "task")
    added: dict[str, Any] = {}
    for i, trial in enumerate(trials):
        shared = trial.without.shape[1] == 1
        kept = [
            joined[f"score{j}"] >= joined[f"cut{i}_{0 if shared else j}"] for j in range(len(names))
        ]
        cases = ((joined.label == str(x), as_int(~k)) for x, k in zip(names, kept, strict=True))
        added[f"missed{i}"] = ibis.cases(*cases)
        added[f"size{i}"] = add_up([as_int(is_in_set) for is_in_set in kept])
    sized = joined.select("task", "label", **added)
    ends = {}
    for i in range(len(trials)):
        ends[f"empty{i}"] = as_int(sized[f"size{i}"] == 0)
        ends[f"full{i}"] = as_int(sized[f"size{i}"] == len(names))
    return sized.mutate(**ends)


def _summarise(tally: _Tally, index: int, trial: _Trial, names: list[Any]) -> Cell:
    """Return the estimates of a cell: sets as means over tasks, misses as shares of a class."""
    feasible = trial.tasks >= trial.least  # otherwise nothing counts, and estimates are NaN
    some = trial.used.any(axis=1) & feasible
    used = np.broadcast_to(trial.used, tally.examples.shape) & feasible
    examples = tally.examples.sum(axis=1)[some]

    def mean(kind: str, most: float = 1.0) -> Estimate:
        sums = tally.sums[kind][index].sum(axis=1)[some]
        return Estimate.of_ratio(sums / examples, np.ones(len(examples)), most)

    missed = tally.sums["missed"][index]
    return Cell(
        trial.guarantee.miss_rate,
        trial.guarantee.alpha,
        trial.guarantee.per_class,
        trial.tasks,
        tuple(trial.thresholds.tolist()),
        mean("size", len(names)),
        mean("empty"),
        mean("full"),
        {
            name: Estimate.of_ratio(missed[used[:, j], j], tally.examples[used[:, j], j])
            for j, name in enumerate(names)
        },
        None if feasible else trial.least,
    )


def _check_several(name: str, sizes: Counts, min_examples: int) -> None:
    count = int(np.sum(sizes >= min_examples))
    if count > 1:
        return
    held = pluralize(count, "task")
    raise InvalidInput(
        f"{name} holds {held}{f' with at least {min_examples} examples' if min_examples else ''}, "
        "and exploring takes at least 2: sets of each task are made with the threshold of the "
        "others. Pass more pilot tasks, or another column as task.",
        parameter="task",
    )
