"""Pilot tasks: what levels would give, estimated on tasks that are then not calibrated on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from metapac import _common, artefact
from metapac._common import Array, Counts, Floats, PathLike, Progress
from metapac._text import format_table
from metapac.data_checks import check_allowed, check_facts, check_levels
from metapac.errors import InvalidInput
from metapac.evidence import Evidence, ranks_within
from metapac.grouping import Data, SetCounts, Statistics, Tally, as_data
from metapac.guarantee import Guarantee, Split
from metapac.inputs import as_json_names, as_task_names, check_distinct
from metapac.planning import min_tasks_over_levels

_COVERAGE = 0.95
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2)
ALPHAS = (0.05, 0.1, 0.2)
_ESTIMATES = ("size", "empty", "full")
_SHOWN = 2  # classes in the text, the rarest ones


class Estimate(NamedTuple):
    """A mean over pilot tasks, with a 95% interval for the mean over all tasks.

    Attributes
    ----------
    value : float
        The estimate; NaN if no example counts.
    low, high : float
        The interval; NaN with a single task.
    """

    value: float
    low: float
    high: float

    def format(self, style: str) -> str:
        """Return the estimate as text, with half the width of its interval.

        Parameters
        ----------
        style : str
            How numbers are formatted, such as ".1%".

        Returns
        -------
        str
            The text; a dash if no example counts.
        """
        if math.isnan(self.low):
            return "-" if math.isnan(self.value) else f"{self.value:{style}}"
        half = max(self.high - self.value, self.value - self.low)
        return f"{self.value:{style}} ±{half:{style}}"

    @classmethod
    def of_ratio(cls, numerators: Array, denominators: Array, most: float = 1.0) -> Estimate:
        """Return the ratio of two sums over tasks, with its interval.

        Parameters
        ----------
        numerators, denominators : ndarray, shape (tasks,)
            What each task adds to the two sums.
        most : float, default 1.0
            Largest possible ratio.

        Returns
        -------
        Estimate
            The interval is Student's, for the linearized ratio, cut at 0 and ``most``.
        """
        total, tasks = float(denominators.sum()), len(numerators)
        value = float(numerators.sum()) / total if total else math.nan
        if tasks < 2 or not total:
            return cls(value, math.nan, math.nan)
        squares = float(((numerators - value * denominators) ** 2).sum())
        error = math.sqrt(squares * tasks / (tasks - 1)) / total
        half = float(special.stdtrit(tasks - 1, (1 + _COVERAGE) / 2)) * error
        return cls(value, max(value - half, 0.0), min(value + half, most))


@dataclass(frozen=True)
class Cell:
    """What one pair of levels would give.

    Attributes
    ----------
    epsilon, alpha : float
        Miss rate allowed on a task, and fraction of new tasks that may exceed it.
    per_class : bool
        Whether each class has its own guarantee and threshold.
    tasks : int
        Number of calibration tasks that the estimate is for.
    thresholds : tuple of float
        Threshold from all pilot tasks; with ``per_class``, one for each class.
    size : Estimate
        Mean set size over tasks.
    empty, full : Estimate
        Share of sets without a label, and with every label.
    missed : mapping from class to Estimate
        Fraction of the examples of each class whose set misses it.
    tasks_needed : int or None
        Least number of calibration tasks if ``tasks`` are too few, and all estimates then are NaN;
        None if they suffice.
    """

    epsilon: float
    alpha: float
    per_class: bool
    tasks: int
    thresholds: tuple[float, ...]
    size: Estimate
    empty: Estimate
    full: Estimate
    missed: Mapping[Any, Estimate]
    tasks_needed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as JSON can hold it, estimates as lists, and classes as pairs.

        Returns
        -------
        dict
            The cell.
        """
        estimates = {name: _encode(getattr(self, name)) for name in _ESTIMATES}
        missed = [[label, _encode(estimate)] for label, estimate in self.missed.items()]
        thresholds = artefact.encode_floats([*self.thresholds])
        return vars(self) | estimates | {"thresholds": thresholds, "missed": missed}

    def is_infeasible(self) -> bool:
        """Return whether calibration on tasks like the pilot tasks would be refused.

        Returns
        -------
        bool
            Whether there are too few tasks, or too many of them are too small.
        """
        return self.tasks_needed is not None or -math.inf in self.thresholds

    def _format(self, classes: Sequence[Any]) -> dict[str, str]:
        """Return the row of a table."""
        row = {"alpha": f"{self.alpha:g}", "epsilon": f"{self.epsilon:g}", "tasks": str(self.tasks)}
        sets = {"set size": self.size.format(".2f")}
        sets |= {"empty": f"{self.empty.value:.1%}", "full": f"{self.full.value:.1%}"}
        sets |= {f"missed {label}": self.missed[label].format(".1%") for label in classes}
        if self.is_infeasible():
            needed = self.tasks_needed
            sets = dict.fromkeys(sets, "")
            sets["set size"] = "infeasible" if needed is None else f"needs {needed} tasks"
        return row | sets

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Cell:
        """Return the cell that `to_dict` prepared.

        Parameters
        ----------
        body : mapping
            What `to_dict` returned.

        Returns
        -------
        Cell
            The cell.
        """
        known = {field.name: body[field.name] for field in fields(cls) if field.name in body}
        known |= {name: _decode(body[name]) for name in _ESTIMATES}
        missed = {label: _decode(values) for label, values in body["missed"]}
        thresholds = tuple(map(float, body["thresholds"]))
        return cls(**known | {"thresholds": thresholds, "missed": missed})


def _encode(estimate: Estimate) -> list[float | None]:
    return [None if math.isnan(value) else value for value in estimate]


def _decode(values: Sequence[float | None]) -> Estimate:
    value, low, high = (math.nan if number is None else float(number) for number in values)
    return Estimate(value, low, high)


def least_tasks(
    alpha: float, delta: float | None, classes: int = 1, *, split: Split = "joint"
) -> int:
    """Return the smallest number of calibration tasks, if each is large enough."""
    whole = Guarantee(epsilon=0.5, alpha=alpha, delta=delta, split=split)
    part = whole.for_class(None, range(classes))
    return min_tasks_over_levels(part, [0] * len(part.levels))[0]


def expected_thresholds(
    thresholds: Floats, guarantee: Guarantee, tasks: int
) -> tuple[float, Floats]:
    """Return the threshold to expect from calibration, and that without each task in turn.

    Calibration on N tasks returns the (k + 1)-th lowest of N task thresholds. A share of
    (k + 1) / (N + 1) of all tasks lie at or below it, on average; the threshold expected is the
    one with that share of the pilot tasks, and never below the lowest of them.
    """
    count = len(thresholds)
    best, without = -math.inf, np.full(count, -math.inf)
    for level, allowed in enumerate(guarantee.allowed_low_thresholds(tasks)):
        if allowed < 0:
            continue
        share = (allowed + 1) / (tasks + 1)
        own, ordered = thresholds[:, level], np.sort(thresholds[:, level])
        best = max(best, float(ordered[_place(share, count)]))
        place = _place(share, count - 1)
        removed = np.where(own <= ordered[place], ordered[place + 1], ordered[place])
        without = np.maximum(without, removed)
    return best, without


def _place(share: float, count: int) -> int:
    """Return which of ``count`` sorted values has a share of them at or below it."""
    return min(max(round(share * (count + 1)) - 1, 0), count - 1)


FORMAT = artefact.Format("metapac pilot", written_by="'metapac explore -o'")
ADVISED_DELTAS = (0.05, 0.01)


@dataclass(frozen=True, eq=False, repr=False)
class Exploration:
    """Set sizes and misses of each class on pilot tasks, over a grid of epsilon and alpha.

    Attributes
    ----------
    tasks : tuple
        The pilot tasks. None of them may be used for calibration.
    examples : int
        Number of examples.
    delta : float or None
        Failure probability that the estimates are for.
    prevalence : mapping from class to float
        Fraction of the examples that are of each class.
    cells : tuple of Cell
        First with one threshold for all classes, then with one for each class; each by alpha and
        epsilon.
    columns : mapping
        Columns of the table.
    split, min_examples : str or float, and int
        As in ``explore``.

    Examples
    --------
    >>> from metapac import Exploration
    >>> Exploration(("ohio", "utah"), 80, 0.05, {"no": 0.9, "yes": 0.1}, (), {})
    <Exploration of 2 pilot tasks with 80 examples of 2 classes: 0 cells>
    """

    tasks: tuple[Any, ...]
    examples: int
    delta: float | None
    prevalence: Mapping[Any, float]
    cells: tuple[Cell, ...]
    columns: Mapping[str, Any]
    split: Split = "joint"
    min_examples: int = 0

    @property
    def classes(self) -> list[Any]:
        """The classes."""
        return list(self.prevalence)

    @property
    def tasks_needed(self) -> dict[float, dict[float | None, int]]:
        """Least number of calibration tasks for each alpha and some deltas, one guarantee."""
        deltas = dict.fromkeys([*ADVISED_DELTAS, self.delta, None])
        return {
            alpha: {delta: least_tasks(alpha, delta, split=self.split) for delta in deltas}
            for alpha in sorted({cell.alpha for cell in self.cells})
        }

    def find(self, epsilon: float, alpha: float, *, per_class: bool = False) -> Cell:
        """Return the cell of two levels.

        Parameters
        ----------
        epsilon, alpha : float
            The levels.
        per_class : bool, default False
            Whether each class has its own guarantee.

        Returns
        -------
        Cell
            The cell.

        Raises
        ------
        KeyError
            If the levels are not in the grid.
        """
        by_levels = {(cell.epsilon, cell.alpha, cell.per_class): cell for cell in self.cells}
        return by_levels[epsilon, alpha, per_class]

    def to_frame(self) -> Any:
        """Return a frame with a row for each cell.

        Returns
        -------
        pandas.DataFrame
            Levels, number of calibration tasks, size, empty, full, and a column missed_CLASS for
            each class.
        """
        import pandas as pd

        levels = ("epsilon", "alpha", "per_class", "tasks")
        rows = [
            {name: getattr(cell, name) for name in levels}
            | {name: getattr(cell, name).value for name in _ESTIMATES}
            | {f"missed_{label}": cell.missed[label].value for label in self.classes}
            for cell in self.cells
        ]
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return all results as JSON can hold them.

        Returns
        -------
        dict
            What the pilot file holds.
        """
        return vars(self) | {
            "tasks": as_json_names(as_task_names(list(self.tasks))),
            "prevalence": [[label, share] for label, share in self.prevalence.items()],
            "columns": dict(self.columns),
            "cells": [cell.to_dict() for cell in self.cells],
        }

    def save(self, path: PathLike) -> None:
        """Write the pilot file, which ``metapac calibrate --pilot`` takes.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        """
        artefact.write(path, self.to_dict(), FORMAT)

    def _check(self) -> None:
        """Raise InvalidInput for levels, tasks or classes that no exploration has."""
        check_distinct([*self.tasks])
        levels: dict[str, Any] = {"delta": self.delta, "split": self.split}
        levels["min_examples"] = self.min_examples
        Guarantee(epsilon=0.5, alpha=0.5, **levels)
        for cell in self.cells:
            Guarantee(epsilon=cell.epsilon, alpha=cell.alpha, per_class=cell.per_class, **levels)
            _common.as_whole_number("tasks", cell.tasks, minimum=0)
            _common.as_whole_number("tasks_needed", cell.tasks_needed or 0, minimum=0)
        _common.as_whole_number("examples", self.examples, minimum=0)
        labels = [*self.prevalence, *(label for cell in self.cells for label in cell.missed)]
        if not all(isinstance(label, str | int) for label in labels):
            raise InvalidInput(f"classes must be labels, got {_common.brief(labels)}.")
        if not self.tasks or not all(cell.thresholds for cell in self.cells):
            raise InvalidInput("there must be tasks, and every cell must have a threshold.")
        if not all(0 <= share <= 1 for share in self.prevalence.values()):
            raise InvalidInput("shares of classes must be between 0 and 1.")

    def plot(self, path: PathLike) -> None:
        """Draw set size and misses of each class against epsilon, a line for each alpha.

        Parameters
        ----------
        path : str or path
            PNG or SVG file to write.
        """
        from metapac.plots import draw_pilot

        draw_pilot(self, path)

    def __str__(self) -> str:
        """What to decide, the sets to expect at each pair of levels, and what else they need."""
        rarest = sorted(self.classes, key=self.prevalence.__getitem__)[:_SHOWN]
        titles = ("One threshold for all classes", "One threshold per class")
        tables = [
            format_table([c._format(rarest) for c in self.cells if c.per_class == per_class], title)
            for per_class, title in enumerate(titles)
        ]
        delta = "none" if self.delta is None else f"{self.delta:g}"
        shares = ", ".join(f"{label} {self.prevalence[label]:.1%}" for label in rarest)
        basis = f"{len(self.tasks):,} pilot tasks with {self.examples:,} examples ({shares})"
        head = f"Sets to expect at delta {delta}, estimated on {basis}."
        return "\n\n".join([*self._decide(), head, *tables, self._describe_columns(delta)])

    def _decide(self) -> list[str]:
        """Return what to decide: classes that are mostly missed, levels that are infeasible."""
        decisions, shared = [], [cell for cell in self.cells if not cell.per_class]
        lost = {
            label: [cell.epsilon for cell in shared if cell.missed[label].value > 0.5]
            for label in self.classes
        }
        if cases := [f"{label!r} from epsilon {min(at):g}" for label, at in lost.items() if at]:
            names = _common.listed(cases, shown=3)
            lost_text = f"One threshold misses more than half of a class: {names}."
            decisions.append(f"{lost_text} Use a guarantee per class, or a smaller epsilon.")
        if any(cell.is_infeasible() for cell in self.cells):
            decisions.append(
                "infeasible, needs: calibration on tasks like these is refused. They are too few, "
                "or too many are too small (of a class), which min_examples can leave out."
            )
        return decisions

    def _describe_columns(self, delta: str) -> str:
        """Return what the columns mean, and how many calibration tasks are needed."""
        more = f" ({_SHOWN} rarest of {len(self.classes)} classes)"
        needed = [f"{x[self.delta]} at alpha {a:g}" for a, x in self.tasks_needed.items()]
        return (
            f"missed: share of the examples of a class{more * (len(self.classes) > _SHOWN)} whose "
            "set lacks it. ±: 95% interval over pilot tasks. tasks: calibration tasks assumed; at "
            f"delta {delta}, one threshold needs {', '.join(needed)}.\n\nCalibrate on other tasks: "
            "you may compare levels freely only because these are not used for calibration."
        )

    def __repr__(self) -> str:
        basis = f"{len(self.tasks)} pilot tasks with {self.examples} examples"
        return f"<Exploration of {basis} of {len(self.classes)} classes: {len(self.cells)} cells>"


def read_pilot(path: PathLike) -> Exploration:
    """Return the exploration that `Exploration.save` or ``metapac explore -o`` wrote.

    Parameters
    ----------
    path : str or path
        File to read.

    Returns
    -------
    Exploration
        The exploration; its ``tasks`` are the pilot tasks.

    Raises
    ------
    BadArtefact
        If the file is not a pilot file, was edited or damaged, or is from an incompatible version.

    Examples
    --------
    >>> from metapac import Exploration, read_pilot
    >>> pilot = Exploration(("ohio", "utah"), 80, 0.05, {"no": 0.9, "yes": 0.1}, (), {})
    >>> pilot.save("pilot.json")
    >>> read_pilot("pilot.json").tasks
    ('ohio', 'utah')
    """
    body = artefact.read(path, FORMAT)
    with artefact.decoding(path, FORMAT):
        pilot = Exploration(
            **{field.name: body[field.name] for field in fields(Exploration)}
            | {
                "tasks": tuple(as_task_names(body["tasks"]).tolist()),
                "prevalence": dict(body["prevalence"]),
                "cells": tuple(map(Cell.from_json, body["cells"])),
            }
        )
        pilot._check()
        artefact.check_written(body, pilot.to_dict())
    return pilot


def explore(
    scores: ArrayLike | Data,
    tasks: ArrayLike | Iterable[object] | None = None,
    labels: ArrayLike | None = None,
    *,
    classes: Sequence[Any] | None = None,
    within: ArrayLike | Iterable[object] | None = None,
    epsilon: Sequence[float] = EPSILONS,
    alpha: Sequence[float] = ALPHAS,
    delta: float | None = 0.05,
    split: Split = "joint",
    min_examples: int = 0,
    n_tasks: int | None = None,
    allow: Iterable[str] = (),
    progress: Progress | None = None,
) -> Exploration:
    """Return the sets to expect from calibration at some levels, estimated on pilot tasks.

    Use it to choose ``epsilon`` and ``alpha``, and then calibrate on other tasks. Choosing among
    many levels costs nothing only because the pilot tasks are not calibrated on.

    Parameters
    ----------
    scores : array_like, shape (n, classes), or Table
        Scores of all classes of the labelled examples of the pilot tasks; or a table from
        ``open_table``.
    tasks, labels : array_like, shape (n,), optional
        Task and true label of each example. Not with a table.
    classes : sequence, optional
        Class of each column of ``scores``, as in ``MetaPS.calibrate``.
    within : array_like, shape (n,), optional
        Units, as in ``MetaPS.calibrate``: one random example of each counts, by seed 0.
    epsilon : sequence of float, default (0.01, 0.02, 0.05, 0.1, 0.2)
        Miss rates to try.
    alpha : sequence of float, default (0.05, 0.1, 0.2)
        Fractions of tasks to try.
    delta : float or None, default 0.05
        Failure probability of the guarantee.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with a threshold for each class, of the class).
    n_tasks : int, optional
        Number of calibration tasks that you will have; by default as many as pilot tasks or, if
        those are too few, the smallest number that supports the guarantee.
    allow, progress : optional
        As in ``MetaPS.calibrate``.

    Returns
    -------
    Exploration
        Set sizes, empty and full sets, and misses of each class, at each pair of levels: with one
        threshold for all classes, and with one for each class.

    Notes
    -----
    Sets of each pilot task are made with the threshold of the other pilot tasks, so that no task
    judges a threshold that it helped to choose.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import explore
    >>> rng = np.random.default_rng(0)
    >>> sick = rng.random(2000) < 0.1
    >>> p = np.clip(0.1 + 0.3 * sick + 0.1 * rng.normal(size=2000), 0.01, 0.99)
    >>> scores, sites = np.stack([1 - p, p], axis=1), np.arange(2000) % 20
    >>> found = explore(scores, sites, sick, classes=[False, True], epsilon=[0.1], alpha=[0.2])
    >>> shared, each = found.cells
    >>> print(f"missed: {shared.missed[True].value:.0%}, {each.missed[True].value:.0%}")
    missed: 35%, 0%
    """
    more: dict[str, Any] = {"delta": delta, "split": split, "min_examples": min_examples}
    levels = [(a, e) for a in _as_levels("alpha", alpha) for e in _as_levels("epsilon", epsilon)]
    grid = [Guarantee(epsilon=e, alpha=a, **more) for a, e in levels]
    skipped, tell = check_allowed(allow), progress or _common.ignore_progress
    check_levels(max(e for _a, e in levels), levels[-1][0], delta, allow=skipped)
    if n_tasks is not None:
        n_tasks = _common.as_whole_number("n_tasks", n_tasks)
    data, _drawn = as_data(scores, tasks, labels, classes, None, within).draw_rows(0)
    names = _check_classes(data)
    if data.clusters_of([]) is not None:
        rule = "clusters cannot be explored: pilot tasks must be independent. Pass one task of each"
        raise InvalidInput(f"{rule}.", parameter=("cluster", "clusters"))
    shared, trials = _make_trials(data, None, grid, n_tasks, tell)
    complete = skipped | {"missing"}  # counting raises if a score is missing
    check_facts(data.facts(shared.names, shared.task_sizes, complete), complete, data.name)
    _each, more_trials = _make_trials(data, names, grid, n_tasks, tell)
    tell("counting the labels in each set", 0, None)
    pilot, precision = shared.names, data.describe()[0]
    tallies = [
        tally
        for some in (trials, more_trials)
        for tally in data.counts(np.stack([t.without for t in some]), precision, pilot)
    ]
    totals = _spread(tallies[0], pilot, names)[0].sum(axis=0)
    return Exploration(
        tuple(pilot.tolist()),
        int(totals.sum()),
        delta,
        dict(zip(names, (totals / totals.sum()).tolist(), strict=True)),
        tuple(
            _summarise(trial, tally, pilot, names)
            for trial, tally in zip([*trials, *more_trials], tallies, strict=True)
        ),
        data.describe()[1] or {},
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


def _check_classes(data: Data) -> tuple[Any, ...]:
    """Return the classes; raise InvalidInput unless every row has a score for each."""
    data.check_tasks()
    names = data.class_names()
    if not data.has_class_scores() or names is None:
        rule = "labels must be passed beside scores of all classes, the same in every row"
        raise InvalidInput(f"{rule}: each class is counted.", parameter=("label", "labels"))
    return names


def _as_levels(name: str, values: Any) -> list[float]:
    if isinstance(values, str) or not np.size(values):
        rule = f"{name} must be a sequence of numbers between 0 and 1"
        raise InvalidInput(f"{rule}, got {values!r}.", parameter=name)
    levels = np.ravel(np.asarray(values, dtype=object)).tolist()
    return sorted({_common.as_probability(name, level) for level in levels})


def _make_trials(
    data: Data,
    classes: tuple[Any, ...] | None,
    grid: list[Guarantee],
    tasks: int | None,
    tell: Progress,
) -> tuple[Statistics, list[_Trial]]:
    """Return a trial for each pair of levels, with a shared threshold or one for each class."""
    guarantees = [replace(guarantee, per_class=classes is not None) for guarantee in grid]
    least = grid[0].min_examples

    def rank(sizes: Counts, label: Counts | None) -> Counts:
        count = np.sum(sizes >= least)
        if label is None and count < 2:
            got = f"{data.name or 'the data'} holds {count} tasks with at least {least} examples"
            rule = "exploring takes at least 2: each is judged by the others"
            raise InvalidInput(f"{got}, and {rule}.", parameter="task")
        ranks = [ranks_within(sizes, g, classes, label) for g in guarantees]
        return np.concatenate(ranks, axis=1)

    found = data.order_statistics(rank, by_class=classes is not None, progress=tell)
    trials = []
    for g, part in zip(guarantees, np.split(found.thresholds, len(grid), axis=1), strict=True):
        own = found._replace(thresholds=part)
        evidence = Evidence.from_statistics(own, classes, data.describe()[0])
        trials.append(_trial(g, evidence, tasks))
    return found, trials


def _trial(guarantee: Guarantee, evidence: Evidence, tasks: int | None) -> _Trial:
    """Return the thresholds to expect."""
    parts, used = evidence.parts(guarantee), evidence.sizes >= guarantee.min_examples
    least = least_tasks(guarantee.alpha, guarantee.delta, len(parts), split=guarantee.split)
    if tasks is None:
        tasks = max(int(used.any(axis=1).sum()), least)
    best, without = np.full(len(parts), -np.inf), np.full(used.shape, -np.inf)
    for i, part in enumerate(parts):
        some = used[:, i]
        if some.sum() > 1:  # with fewer, nothing is known, and every label is kept
            own = part.thresholds[some]
            best[i], without[some, i] = expected_thresholds(own, part.guarantee, tasks)
            without[~some, i] = best[i]
    return _Trial(guarantee, tasks, least, best, without, used)


def _spread(tally: Tally, pilot: Array, classes: Sequence[Any]) -> Counts:
    """Return examples, misses, labels, empty and full sets, each by task and class."""
    place, sets = {name: i for i, name in enumerate(pilot.tolist())}, cast("SetCounts", tally.sets)
    task = np.array([place[name] for name in tally.names.tolist()])[tally.task]
    counts = np.zeros((5, len(pilot), len(classes)), dtype=np.int64)
    counts[:, task, tally.label] = tally.examples, tally.missed, sets.labels, sets.empty, sets.full
    return counts


def _summarise(trial: _Trial, tally: Tally, pilot: Array, names: Sequence[Any]) -> Cell:
    """Return the estimates of a cell: sets as means over tasks, misses as shares of a class."""
    feasible = trial.tasks >= trial.least  # otherwise nothing counts, and estimates are NaN
    examples, missed, *kinds = _spread(tally, pilot, names)
    some = trial.used.any(axis=1) & feasible
    used = np.broadcast_to(trial.used, examples.shape) & feasible
    sizes = examples.sum(axis=1)[some]
    size, empty, full = (
        Estimate.of_ratio(counts.sum(axis=1)[some] / sizes, np.ones(len(sizes)), most)
        for counts, most in zip(kinds, (len(names), 1.0, 1.0), strict=True)
    )
    of_class = {
        name: Estimate.of_ratio(missed[used[:, j], j], examples[used[:, j], j])
        for j, name in enumerate(names)
    }
    g, thresholds = trial.guarantee, tuple(trial.thresholds.tolist())
    levels = g.miss_rate, g.alpha, g.per_class, trial.tasks, thresholds
    return Cell(*levels, size, empty, full, of_class, None if feasible else trial.least)
