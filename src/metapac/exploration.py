"""What given tasks buy: sets to expect, estimated on pilot tasks; what is refused; what to do."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from metapac import _common, artefact, planning
from metapac._common import Array, Counts, Floats, PathLike, Progress
from metapac._text import format_table
from metapac.columns import hold_numbers
from metapac.data_checks import check_allowed, check_facts, check_levels
from metapac.errors import InvalidInput
from metapac.evidence import Evidence, check_sampling, ranks_within
from metapac.grouping import Data, Scored, SetCounts, Statistics, Tally, as_data
from metapac.guarantee import Guarantee, Split
from metapac.inputs import as_json_names, as_task_names, check_distinct

_COVERAGE = 0.95
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2)
ALPHAS = (0.05, 0.1, 0.2)
_ESTIMATES = ("size", "empty", "full")
_MOST_MISSED = 0.5  # of a class; levels at which more of it is missed are not recommended


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


def format_estimate(estimate: Estimate, style: str) -> str:
    """Return an estimate as text, with half the width of its interval; a dash without examples."""
    value, low, high = estimate
    if math.isnan(low):
        return "-" if math.isnan(value) else f"{value:{style}}"
    return f"{value:{style}} ±{max(high - value, value - low):{style}}"


def estimate_ratio(numerators: Array, denominators: Array, most: float = 1.0) -> Estimate:
    """Return the ratio of two sums over tasks, with Student's interval, cut at 0 and ``most``."""
    total, tasks = float(denominators.sum()), len(numerators)
    value = float(numerators.sum()) / total if total else math.nan
    if tasks < 2 or not total or math.isinf(value):  # as of infinite intervals
        return Estimate(value, math.nan, math.nan)
    squares = float(((numerators - value * denominators) ** 2).sum())
    error = math.sqrt(squares * tasks / (tasks - 1)) / total
    half = float(special.stdtrit(tasks - 1, (1 + _COVERAGE) / 2)) * error
    return Estimate(value, max(value - half, 0.0), min(value + half, most))


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
        Mean set size over tasks; of predicted numbers, the mean width of the intervals.
    empty, full : Estimate
        Share of sets without a label, and with every label; NaN for predicted numbers.
    missed : mapping from class to Estimate
        Fraction of the examples of each class whose set misses it; empty for predicted numbers.
    tasks_needed : int or None
        Least number of calibration tasks if ``tasks`` are too few, and all estimates then are NaN;
        None if they suffice.
    refused : bool or None
        Whether the calibration tasks are too few or too small; None if their sizes are not known.
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
    refused: bool | None = None

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
        body = vars(self) | estimates | {"thresholds": thresholds, "missed": missed}
        if self.refused is None:
            del body["refused"]
        return body

    @property
    def is_infeasible(self) -> bool:
        """Whether calibration would be refused, if need be on tasks like the pilot tasks."""
        if self.refused is not None:
            return self.refused
        return self.tasks_needed is not None or -math.inf in self.thresholds


def _read_cell(body: Mapping[str, Any]) -> Cell:
    """Return the cell that `Cell.to_dict` prepared."""
    known = {field.name: body[field.name] for field in fields(Cell) if field.name in body}
    known |= {name: _decode(body[name]) for name in _ESTIMATES}
    missed = {label: _decode(values) for label, values in body["missed"]}
    thresholds = tuple(map(float, body["thresholds"]))
    return Cell(**known | {"thresholds": thresholds, "missed": missed})


def _encode(estimate: Estimate) -> list[Any]:
    return [None if math.isnan(value) else artefact.encode_floats(value) for value in estimate]


def _decode(values: Sequence[float | None]) -> Estimate:
    value, low, high = (math.nan if number is None else float(number) for number in values)
    return Estimate(value, low, high)


def least_tasks(guarantee: Guarantee, classes: int = 1) -> int:
    """Return the smallest number of calibration tasks, if each is large enough."""
    part = replace(guarantee, epsilon=0.5).for_class(None, range(classes))
    return planning.min_tasks_over_levels(part, [0] * len(part.levels))[0]


def expected_thresholds(
    thresholds: Floats, guarantee: Guarantee, tasks: int, small: Sequence[int] | None = None
) -> tuple[float, Floats]:
    """Return the threshold to expect from calibration, and that without each task in turn.

    Calibration on N tasks returns the (k + 1)-th lowest of N task thresholds. A share of
    (k + 1) / (N + 1) of all tasks lie at or below it, on average; the threshold expected is the
    one with that share of the pilot tasks, and never below the lowest of them. Where it is known
    how many of the N tasks are too small for a level, these are the lowest, and the others are
    compared with the pilot tasks that are large enough.
    """
    best, without, levels = -math.inf, np.full(len(thresholds), -math.inf), []
    for level, allowed in enumerate(guarantee.allowed_low_thresholds(tasks)):
        own, few = thresholds[:, level], 0 if small is None else small[level]
        is_large = (own > -math.inf) | (small is None)
        if allowed >= few and is_large.sum() >= min(2, len(own)):
            share = (allowed - few + 1) / (tasks - few + 1)
            levels.append((share * (1 + int(is_large.sum())), share, own, is_large))
    # A place far below the lowest pilot task cannot be estimated: other levels count, if there are.
    best_place = max((place for place, *_ in levels), default=0.0)
    lowest = 0.0 if small is None else min(0.5, best_place)
    for place, share, own, is_large in levels:
        if place < lowest:
            continue
        ordered, count = np.sort(own[is_large]), int(is_large.sum())
        cut, i = float(ordered[_place(share, count)]), _place(share, count - 1)
        removed = np.where(own <= ordered[i], ordered[i + 1], ordered[i])
        best, without = max(best, cut), np.maximum(without, np.where(is_large, removed, cut))
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
    split, min_examples, spread, options : object
        As in ``explore``, but for ``spread``: of predicted numbers, the distance between the 5% and
        the 95% quantile of the true ones; None for classes.
    quantiles : mapping from float to tuple of float
        The epsilon-quantile of the true labels' scores of each class, by epsilon, for ``offsets``.

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
    spread: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    quantiles: Mapping[float, tuple[float, ...]] = field(default_factory=dict)

    @property
    def classes(self) -> list[Any]:
        """The classes."""
        return list(self.prevalence)

    @property
    def tasks_needed(self) -> dict[float, dict[float | None, int]]:
        """Least number of calibration tasks for each alpha and some deltas, one guarantee."""
        deltas = dict.fromkeys([*ADVISED_DELTAS, self.delta, None])
        asked = {cell.alpha: self.guarantee(replace(cell, per_class=False)) for cell in self.cells}
        pairs = sorted(asked.items(), key=lambda pair: pair[0])
        return {a: {d: least_tasks(replace(g, delta=d)) for d in deltas} for a, g in pairs}

    def guarantee(self, cell: Cell) -> Guarantee:
        """Return the guarantee that a cell is about.

        Parameters
        ----------
        cell : Cell
            One of the cells.

        Returns
        -------
        Guarantee
            The guarantee.
        """
        levels: Any = {"epsilon": cell.epsilon, "alpha": cell.alpha, "per_class": cell.per_class}
        return Guarantee(**levels, **self._shared)

    @property
    def _shared(self) -> dict[str, Any]:
        """What the guarantees of all cells have in common."""
        levels = {"delta": self.delta, "split": self.split, "min_examples": self.min_examples}
        return {**levels, **self.options}

    def offsets(self, epsilon: float) -> dict[Any, float]:
        """Return the offset of each class for ``per_class="together"``.

        Parameters
        ----------
        epsilon : float
            One of the miss rates explored.

        Returns
        -------
        dict from class to float
            The score below which a fraction ``epsilon`` of the examples of the class lie.
        """
        if not self.quantiles:
            text = "offsets of the classes are not known: a pilot task of each class is needed, and"
            raise InvalidInput(f"{text} a file of this version. Explore again.", parameter="pilot")
        if not isinstance(epsilon, float | int) or epsilon not in self.quantiles:
            known = _common.listed([*map(repr, self.quantiles)]) or "none"
            rule = f"epsilon must be one of those explored, {known}, for offsets of the classes"
            raise InvalidInput(f"{rule}, got {epsilon!r}. Explore it.")
        return dict(zip(self.classes, self.quantiles[epsilon], strict=True))

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
            Levels, number of calibration tasks, size, empty, full, and missed_CLASS of each class.
        """
        import pandas as pd

        rows = []
        for cell in self.cells:
            row = {x: getattr(cell, x) for x in ("epsilon", "alpha", "per_class", "tasks")}
            row |= {name: getattr(cell, name).value for name in _ESTIMATES}
            rows.append(row | {f"missed_{x}": cell.missed[x].value for x in self.classes})
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return all results as JSON can hold them.

        Returns
        -------
        dict
            What the pilot file holds.
        """
        body = vars(self) | {
            "tasks": as_json_names(as_task_names(list(self.tasks))),
            "prevalence": [[label, share] for label, share in self.prevalence.items()],
            "columns": dict(self.columns),
            "cells": [cell.to_dict() for cell in self.cells],
        }
        pairs = [[e, artefact.encode_floats([*cuts])] for e, cuts in self.quantiles.items()]
        absent: dict[str, Any] = {"spread": None, "options": {}}
        present = {k: v for k, v in body.items() if k not in absent or v != absent[k]}
        return present | {"quantiles": pairs}

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
        Guarantee(epsilon=0.5, alpha=0.5, **self._shared)
        for cell in self.cells:
            self.guarantee(cell)
            _common.as_whole_number("tasks", cell.tasks, minimum=0)
            _common.as_whole_number("tasks_needed", cell.tasks_needed or 0, minimum=0)
        _common.as_whole_number("examples", self.examples, minimum=0)
        labels = [*self.prevalence, *(label for cell in self.cells for label in cell.missed)]
        if not all(isinstance(label, str | int) for label in labels):
            raise InvalidInput(f"classes must be labels, got {_common.brief(labels)}.")
        if any(len(cuts) != len(self.prevalence) for cuts in self.quantiles.values()):
            raise InvalidInput("quantiles must have one number for each class.")
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
        """What to expect at each pair of levels, and which of them to choose."""
        return str(Outlook({"": self}))

    def __repr__(self) -> str:
        basis = f"{len(self.tasks)} pilot tasks with {self.examples} examples"
        return f"<Exploration of {basis} of {len(self.classes)} classes: {len(self.cells)} cells>"


@dataclass(frozen=True)
class Outlook:
    """Sets to expect from calibration on given tasks, estimated on pilot tasks.

    Each variant, of the guarantee or of the score, is an exploration of the same pilot tasks at the
    same levels. The one without a name is what is recommended.
    """

    variants: Mapping[str, Exploration]
    sizes: Counts | None = None  # of the tasks to calibrate on; None: like the pilot tasks

    @property
    def main(self) -> Exploration:
        """The exploration of what is recommended."""
        return self.variants[""]

    @property
    def shared(self) -> list[Cell]:
        """The cells with one threshold for all classes."""
        return [cell for cell in self.main.cells if not cell.per_class]

    @property
    def most(self) -> float:
        """The mean size up to which sets are informative; of intervals, the mean width."""
        spread = self.main.spread
        return (1 + len(self.main.classes)) / 2 if spread is None else spread

    @cached_property
    def recommended(self) -> Cell | None:
        """The strictest levels at which sets are informative, and miss no class."""

        def strictness(cell: Cell) -> tuple[bool, float, float]:
            return cell.per_class, cell.epsilon + cell.alpha, cell.alpha

        def is_useful(cell: Cell) -> bool:
            misses = [one.value for one in cell.missed.values()]
            is_missed = any(value > _MOST_MISSED for value in misses)
            return cell.size.value <= self.most and not is_missed and not cell.is_infeasible

        return next(filter(is_useful, sorted(self.main.cells, key=strictness)), None)

    @cached_property
    def next_labels(self) -> list[tuple[Guarantee, planning.Step]]:
        """The levels that are refused, with the labels that would do; the fewest first."""
        if self.sizes is None:
            return []
        return planning.find_next_labels(map(self.main.guarantee, self.shared), self.sizes)

    def to_dict(self) -> dict[str, Any]:
        """Return the outlook as JSON can hold it."""
        names, best = ("epsilon", "alpha", "per_class"), self.recommended
        levels = [
            {name: getattr(cell, name) for name in names}
            | {"tasks": cell.tasks, "sizes": self._sizes_of_variants(cell)}
            | {"missed": None if cell.is_infeasible else cell.to_dict()["missed"]}
            for cell in self.main.cells
        ]
        steps = [
            {"epsilon": asked.miss_rate, "alpha": asked.alpha, **step._asdict()}
            for asked, step in self.next_labels
        ]
        return {
            "pilot": self.main.to_dict()["tasks"],
            "delta": self.main.delta,
            "levels": levels,
            "spread": self.main.spread,
            "next_labels": steps,
            "recommended": best and {name: getattr(best, name) for name in names},
        }

    def _sizes_of_variants(self, cell: Cell) -> dict[str, Any]:
        """Return the set size of each variant; None where it is refused."""
        cells = {name: self._find(name, cell) for name in self.variants}
        return {
            name or "default": None if own.is_infeasible else own.to_dict()["size"]
            for name, own in cells.items()
        }

    def _find(self, name: str, cell: Cell) -> Cell:
        return self.variants[name].find(cell.epsilon, cell.alpha, per_class=cell.per_class)

    def __str__(self) -> str:
        """What to expect at each pair of levels, and what to do."""
        parts = [self._describe_basis(), format_table([*map(self._row, self.shared)])]
        parts += ["\n".join(f"- {line}" for line in self._describe_columns())]
        parts += self._decide() + planning.describe_next_labels(self.next_labels)
        parts.append(self._recommend())
        return "\n\n".join(parts)

    def _describe_basis(self) -> str:
        found, numbers = self.main, {cell.tasks for cell in self.main.cells}
        on = f"{planning.span(numbers)} task{'s' * (numbers != {1})}"
        if self.sizes is not None:
            on = f"your {planning.describe_sizes({None: self.sizes})}"
        delta, pilot = planning.name_delta(found.delta), planning.count_tasks(len(found.tasks))
        return (
            f"What to expect from calibration on {on}, at delta {delta}. It is estimated on {pilot}"
            f" with {found.examples:,} examples: the pilot tasks, on which you must not calibrate."
        )

    def _row(self, cell: Cell) -> dict[str, str]:
        found = self.main
        row = {"alpha": f"{cell.alpha:g}", "epsilon": f"{cell.epsilon:g}"}
        row[self._title] = self._show(cell)
        row |= {x: self._show(self._find(x, cell)) for x in [*self.variants][1:]}
        is_known = not (cell.is_infeasible or math.isnan(cell.size.value))
        if found.spread is not None:
            has_share = is_known and found.spread > 0 and cell.size.value < math.inf
            return row | {"of spread": f"{cell.size.value / found.spread:.0%}" if has_share else ""}
        row[self._missed] = f"{cell.missed[self._rarest].value:.0%}" if is_known else ""
        each = found.find(cell.epsilon, cell.alpha, per_class=True)
        return row | {"per class": self._show(each)}

    @property
    def _title(self) -> str:
        return "set size" if self.main.spread is None else "width"

    @property
    def _missed(self) -> str:
        return f"{textwrap.shorten(str(self._rarest), 20, placeholder='...')} missed"

    @property
    def _rarest(self) -> Any:
        return min(self.main.prevalence, key=self.main.prevalence.__getitem__)

    def _show(self, cell: Cell) -> str:
        """Return a set size as text, or why there is none."""
        if cell.tasks_needed is not None:
            return f"needs {cell.tasks_needed} tasks"
        if cell.is_infeasible:
            return "refused"
        if cell.size.value == math.inf:
            return "infinite"
        return format_estimate(cell.size, ".2f" if self.main.classes else ".3g")

    def _describe_columns(self) -> list[str]:
        """Return what the columns mean."""
        found, lines = self.main, []
        about = "± its 95% interval at the threshold expected; yours may differ more"
        if found.spread is not None:
            middle = f"the middle 90% of the true numbers span {found.spread:.3g}"
            lines.append(f"width: mean width of the intervals, {about}; {middle}")
        else:
            share = f"{found.prevalence[self._rarest]:.1%} of the examples"
            lines.append(f"set size: mean number of labels, of {len(found.classes)}, {about}")
            lines.append(f"{self._missed}: how many of this class, {share}, have a set without it")
            lines.append("per class: set size with a guarantee for each class, --per-class")
        if "if i.i.d." in self.variants:
            what = "set size" if found.spread is None else "width"
            lines.append(f"if i.i.d.: {what} with --sampling iid, which must be true of your tasks")
        if any(self._show(cell) == "refused" for cell in found.cells):
            lines.append("refused: too many tasks have too few examples (of some class)")
        return lines

    def _decide(self) -> list[str]:
        """Return which classes are mostly missed, and whether a guarantee per class is possible."""
        cases = []
        for label in self.main.classes:
            if lost := [x.epsilon for x in self.shared if x.missed[label].value > _MOST_MISSED]:
                cases.append(f"{label!r} from epsilon {min(lost):g}")
        if not cases:
            return []
        remedy = "Use a smaller epsilon: a guarantee per class is refused at all of these levels."
        if any(cell.per_class and not cell.is_infeasible for cell in self.main.cells):
            remedy = "Use per_class=True, or a smaller epsilon."
        names = _common.listed(cases, shown=3)
        return [f"One threshold misses more than half of {names}. {remedy}"]

    def _recommend(self) -> str:
        best, rule = self.recommended, f"intervals of at most {self.most:.3g} on average"
        if self.main.spread is None:
            rule = f"at most {self.most:.3g} labels in a set on average, and no class mostly missed"
        if best is None:
            return f"No levels to recommend: none of these gives {rule}."
        each = " per class" * best.per_class
        levels = f"epsilon {best.epsilon:g} and alpha {best.alpha:g}{each}"
        return f"Recommended: {levels}, the strictest levels with {rule}."


def look_alike(one: Exploration, other: Exploration) -> bool:
    """Return whether two tables show the same set sizes, with one threshold for all classes."""
    shared = ([x.size for x in y.cells if not x.per_class] for y in (one, other))
    sizes = ([format_estimate(size, ".2f") for size in some] for some in shared)
    return next(sizes) == next(sizes)


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
        names = [field.name for field in fields(Exploration) if field.name in body]
        known = {name: body[name] for name in names} | {"prevalence": dict(body["prevalence"])}
        known |= {"tasks": tuple(as_task_names(body["tasks"]).tolist())}
        pairs = body.get("quantiles", [])
        known |= {"quantiles": {e: (*map(float, cuts),) for e, cuts in pairs}}
        pilot = Exploration(**known | {"cells": tuple(map(_read_cell, body["cells"]))})
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
    sizes: Mapping[Any, ArrayLike] | None = None,
    allow: Iterable[str] = (),
    progress: Progress | None = None,
    **options: Any,
) -> Exploration:
    """Return the sets to expect from calibration at some levels, estimated on pilot tasks.

    Use it to choose ``epsilon`` and ``alpha``, and then calibrate on other tasks. Choosing among
    many levels costs nothing only because the pilot tasks are not calibrated on.

    Parameters
    ----------
    scores : array_like, shape (n, classes), or Table
        Scores of all classes of the labelled examples of the pilot tasks; or a table from
        ``open_table``, also of predicted numbers.
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
    split, min_examples : optional
        As in `Guarantee`, with one threshold for all classes and with one for each.
    n_tasks : int, optional
        Number of calibration tasks that you will have; by default as many as pilot tasks or, if
        those are too few, the smallest number that supports the guarantee.
    sizes : mapping from class to array_like of int, optional
        Instead of ``n_tasks``: number of examples of each calibration task, of all classes together
        as None, and of each class; as ``Table.sizes`` counts them.
    allow, progress : optional
        As in ``MetaPS.calibrate``.
    **options : object
        Other parameters of `Guarantee`, such as ``sampling`` and ``shift``.

    Returns
    -------
    Exploration
        Set sizes, empty and full sets, and misses of each class, at each pair of levels: with one
        threshold for all classes, and with one for each class. Of predicted numbers, the width of
        the intervals.

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
    more: Any = {"delta": delta, "split": split, "min_examples": min_examples, **options}
    alphas, epsilons = _as_levels("alpha", alpha), _as_levels("epsilon", epsilon)
    grid = [Guarantee(epsilon=e, alpha=a, **more) for a in alphas for e in epsilons]
    skipped, tell = check_allowed(allow), progress or _common.ignore_progress
    check_levels(epsilons[-1], alphas[-1], delta, allow=skipped)
    n_tasks = None if n_tasks is None else _common.as_whole_number("n_tasks", n_tasks)
    coming = n_tasks, sizes
    data, _drawn = as_data(scores, tasks, labels, classes, None, within).draw_rows(0)
    names = _check_classes(data)
    if data.clusters_of([]) is not None:
        rule = "clusters cannot be explored: pilot tasks must be independent. Pass one task of each"
        raise InvalidInput(f"{rule}.", parameter=("cluster", "clusters"))
    spread = None if names else data.find_spread()
    shared, trials = _make_trials(data, None, grid, coming, tell)
    complete = skipped | {"missing"}  # counting raises if a score is missing
    check_facts(data.facts(shared.names, shared.task_sizes, complete), complete, data.name)
    check_sampling(data, shared.names.tolist(), grid[0], skipped)
    pilot, (precision, columns) = shared.names, data.describe()
    quantiles: dict[float, tuple[float, ...]] = {}
    if names:
        quantiles = _find_quantiles(data, names, epsilons, tell)
        each = _make_trials(data, names, grid, coming, tell)[1]
        tell("counting the labels in each set", 0, None)
        cuts = [np.stack([trial.without for trial in some]) for some in (trials, each)]
        tallies = [tally for some in cuts for tally in data.counts(some, precision, pilot)]
        trials, counted = trials + each, [_spread(tally, pilot, names) for tally in tallies]
        totals = counted[0][0].sum(axis=0)
    else:
        tell("measuring the intervals", 0, None)
        counted = _count_widths(data, trials, precision)
        totals = shared.task_sizes
    shares = dict(zip(names, (totals / totals.sum()).tolist(), strict=True)) if names else {}
    cells = tuple(_summarise(*pair, names) for pair in zip(trials, counted, strict=True))
    found = tuple(pilot.tolist()), int(totals.sum()), delta, shares, cells, columns or {}
    return Exploration(*found, split, min_examples, spread, options, quantiles)


def _find_quantiles(
    data: Data, names: Sequence[Any], epsilons: Sequence[float], tell: Progress
) -> dict[float, tuple[float, ...]]:
    """Return quantiles of the scores of each class that all tasks have; none if one is absent."""
    pooled: Any = data
    if isinstance(data, Scored):
        pooled = replace(data, tasks=np.zeros(len(data.ids), dtype=int), within=None)
    else:
        pooled = pooled.with_columns(task=None)

    def rank(sizes: Counts, _label: Counts | None) -> Counts:
        return np.stack([np.minimum((sizes * e).astype(int), sizes - 1) for e in epsilons], axis=1)

    found = pooled.order_statistics(rank, by_class=True, progress=tell)
    if found.label is None or len(found.label) < len(names):
        return {}
    cuts = found.thresholds[np.argsort(found.label)]
    return dict(zip(epsilons, map(tuple, cuts.T.tolist()), strict=True))


# What is known of the tasks to calibrate on: their number, or their sizes by class.
Coming = tuple[int | None, Mapping[Any, ArrayLike] | None]


class _Trial(NamedTuple):
    """One cell of the grid with its thresholds; the last axis has length 1, or one per class."""

    guarantee: Guarantee
    tasks: int
    least: int  # number of tasks needed
    thresholds: Floats  # (classes,)
    without: Floats  # (tasks, classes)
    used: Array  # (tasks, classes)
    refused: bool | None


def _check_classes(data: Data) -> tuple[Any, ...]:
    """Return the classes, none for numbers; raise InvalidInput unless each has a score."""
    data.check_tasks()
    if hold_numbers(data.describe()[1]):
        return ()
    names = data.class_names()
    if not data.has_class_scores() or names is None:
        rule = "labels must be passed beside scores of all classes, the same in every row"
        raise InvalidInput(f"{rule}: each class is counted.", parameter=("label", "labels"))
    return names


def _as_levels(name: str, values: Any) -> list[float]:
    if isinstance(values, str) or not np.size(values):
        rule = f"{name} must be a sequence of numbers between 0 and 1"
        raise InvalidInput(f"{rule}, got {values!r}.")
    levels = np.ravel(np.asarray(values, dtype=object)).tolist()
    return sorted({_common.as_probability(name, level) for level in levels})


def _make_trials(
    data: Data,
    classes: tuple[Any, ...] | None,
    grid: list[Guarantee],
    coming: Coming,
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
        trials.append(_trial(g, evidence, *coming))
    return found, trials


def _trial(
    guarantee: Guarantee, evidence: Evidence, number: int | None, sizes: Mapping[Any, Any] | None
) -> _Trial:
    """Return the thresholds to expect."""
    parts, used = evidence.parts(guarantee), evidence.sizes >= guarantee.min_examples
    least, demands = least_tasks(guarantee, len(parts)), []
    tasks = number or max(int(used.any(axis=1).sum()), least)
    if sizes is not None:
        none = 0 * np.asarray(sizes[None])
        each = [(part.guarantee, sizes.get(part.label, none), part.label) for part in parts]
        demands = [planning.Demand.from_sizes(g, own, label=label) for g, own, label in each]
    best, without = np.full(len(parts), -np.inf), np.full(used.shape, -np.inf)
    for i, part in enumerate(parts):
        some = used[:, i]
        known = (demands[i].tasks, demands[i].too_small()) if demands else (tasks,)
        if some.sum() > 1:  # with fewer, nothing is known, and every label is kept
            own = part.thresholds[some]
            best[i], without[some, i] = expected_thresholds(own, part.guarantee, *known)
            without[~some, i] = best[i]
    refused = not planning.all_feasible(demands) if demands else None
    tasks = max((demand.tasks for demand in demands), default=tasks)
    return _Trial(guarantee, tasks, least, best, without, used, refused)


def _spread(tally: Tally, pilot: Array, classes: Sequence[Any]) -> Counts:
    """Return examples, misses, labels, empty and full sets, each by task and class."""
    place, sets = {name: i for i, name in enumerate(pilot.tolist())}, cast("SetCounts", tally.sets)
    task = np.array([place[name] for name in tally.names.tolist()])[tally.task]
    counts = np.zeros((5, len(pilot), len(classes)), dtype=np.int64)
    counts[:, task, tally.label] = tally.examples, tally.missed, sets.labels, sets.empty, sets.full
    return counts


def _count_widths(data: Data, trials: Sequence[_Trial], precision: np.dtype[Any]) -> list[Any]:
    """Return examples, misses and the total width of intervals of each task, for each trial.

    The thresholds of the other tasks are few distinct numbers: each is tried on all tasks.
    """
    distinct = np.unique(np.concatenate([trial.without for trial in trials]))
    tallies = data.counts(distinct[:, None, None], precision)
    counts = np.empty((len(distinct), 3, len(trials[0].without)))
    for place, tally in zip(counts, tallies, strict=True):
        place[:, tally.task] = tally.examples, tally.missed, tally.widths
    own = [np.searchsorted(distinct, trial.without[:, 0]) for trial in trials]
    return [counts[cuts, :, np.arange(len(cuts))].T[..., None] for cuts in own]


def _summarise(trial: _Trial, counted: Counts, names: Sequence[Any]) -> Cell:
    """Return the estimates of a cell: sets as means over tasks, misses as shares of a class."""
    feasible = trial.tasks >= trial.least  # otherwise nothing counts, and estimates are NaN
    examples, missed, *kinds = counted
    some = trial.used.any(axis=1) & feasible
    used = np.broadcast_to(trial.used, examples.shape) & feasible
    sizes = examples.sum(axis=1)[some]
    most = (len(names), 1.0, 1.0) if names else (math.inf,)
    estimates = [
        estimate_ratio(counts.sum(axis=1)[some] / sizes, np.ones(len(sizes)), limit)
        for counts, limit in zip(kinds, most, strict=True)
    ]
    size, empty, full = estimates + [Estimate(math.nan, math.nan, math.nan)] * (3 - len(estimates))
    columns = zip(missed.T, examples.T, used.T, strict=True)
    ratios = [estimate_ratio(few[here], many[here]) for few, many, here in columns]
    of_class = dict(zip(names, ratios, strict=False))
    g, thresholds = trial.guarantee, tuple(trial.thresholds.tolist())
    levels = g.miss_rate, g.alpha, bool(g.per_class), trial.tasks, thresholds
    needed = None if feasible else trial.least
    return Cell(*levels, size, empty, full, of_class, needed, trial.refused)
