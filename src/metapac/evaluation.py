"""Does a guarantee hold on labelled new tasks? Misses, set sizes, and the verdict."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from metapac import data_checks, grouping
from metapac._common import Array, Counts, Floats, PathLike, as_whole_number, listed
from metapac._text import format_table, visible
from metapac.artefact import encode_floats, replacing
from metapac.columns import hold_losses
from metapac.context import Context
from metapac.errors import InvalidInput
from metapac.evidence import draw_tasks
from metapac.grouping import ClusterIds, Data, DrawnRows, SetCounts, Tally, as_data
from metapac.guarantee import format_share, percent
from metapac.inputs import match_names
from metapac.planning import Shortfall, min_sample_size
from metapac.predictors import MetaPS, ThresholdSets, check_predictor
from metapac.verdict import (
    VIOLATED,
    Verdict,
    are_above,
    clopper_pearson_interval,
    judge_classes,
    judge_each,
    name_units,
)
from metapac.words import Words, render_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ClassMisses(NamedTuple):
    """How often the examples of one class are missed, over all tasks evaluated.

    Attributes
    ----------
    label : object
        The class.
    examples, missed : int
        Number of examples of the class, and of those whose set lacks it.
    low, high : float
        Exact 95% interval of the miss rate.
    """

    label: Any
    examples: int
    missed: int
    low: float
    high: float

    @property
    def error(self) -> float:
        """Fraction of the examples that is missed; NaN without examples."""
        return self.missed / self.examples if self.examples else math.nan

    def is_above(self, epsilon: float) -> bool:
        """Return whether the miss rate is shown to exceed a limit, by the rule for single tasks.

        Parameters
        ----------
        epsilon : float
            The limit.

        Returns
        -------
        bool
            True if it does with 95% confidence, one-sided, for this class alone.
        """
        return bool(are_above(np.array([self.examples]), np.array([self.missed]), epsilon)[0])


# A class is reported as neglected if it is missed this many times as often as epsilon, and its
# exact interval lies above epsilon.
_FAR = 2
_KINDS = ("empty", "single", "full")
_SHOWN_CLASSES = 10
_MEANS = ("within", "error", "set_size", "set_size_over_rows", "width")


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """How a guarantee fares on labelled new tasks, from ``evaluate``.

    Tasks that were calibrated or trained on, and pilot tasks, are left out of everything but
    ``overlap``.

    Attributes
    ----------
    tasks : ndarray, shape (tasks,)
        The tasks, in ascending order.
    examples, missed : ndarray of int, shape (tasks,)
        Number of examples of each task, and of those whose set misses the true label; of a risk,
        of those whose loss exceeds their random number, which are as many on average.
    errors : ndarray of float, shape (tasks,)
        ``missed`` divided by ``examples``.
    low, high : ndarray of float, shape (tasks,)
        Exact 95% interval of each task's miss rate.
    sizes : ndarray of float, shape (tasks,), or None
        Mean set size of each task; None if only true labels have scores.
    sets : SetCounts or None
        Number of labels in sets, and of empty, single and full sets, of each task.
    epsilon : float or mapping from class to float
        Miss rate that the guarantee allows.
    min_examples, left_out : int
        Size below which tasks are left out, and number of those.
    overlap : tuple
        Tasks left out because they have the name of a calibration task.
    classes : tuple of ClassMisses, or None
        How often each class is missed; None if labels are not known.
    verdict : Verdict or None
        Whether the guarantee holds; None for a single class.
    by_class : mapping from class to Evaluation, or None
        The same for the examples of each class, with a guarantee per class.
    widths : ndarray of float, shape (tasks,), or None
        Mean width of the intervals of each task; None if there are no intervals.
    ranges : ndarray of float, shape (tasks, 2), or None
        Lowest and highest score of the true labels of each task, by which it is recognised.
    clusters : tuple, or None
        Cluster of each task, if clusters are known.
    drawn : DrawnRows, or None
        The draw of one row of each unit, if units within tasks are known.
    missing : tuple
        Tasks of a finite list that were not evaluated, if the list was drawn from by `draw_tasks`;
        without them there is no verdict on it.

    Examples
    --------
    >>> from metapac import PS, evaluate
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> evaluation = evaluate(promise, [0.9, 0.5, 0.0, 0.7], ["a", "a", "b", "b"])
    >>> evaluation.verdict.status
    'cannot tell yet'
    >>> evaluation.to_frame()[["task", "examples", "missed", "error"]]
      task  examples  missed  error
    0    a         2       0    0.0
    1    b         2       1    0.5
    """

    tasks: NDArray[Any]
    examples: NDArray[np.int64]
    missed: NDArray[np.int64]
    sets: SetCounts | None
    epsilon: Any
    min_examples: int = 1
    left_out: int = 0
    overlap: tuple[Any, ...] = ()
    classes: tuple[ClassMisses, ...] | None = None
    verdict: Verdict | None = None
    by_class: Mapping[Any, Evaluation] | None = None
    widths: NDArray[np.float64] | None = None
    ranges: Floats | None = None
    clusters: tuple[Any, ...] | None = None
    drawn: DrawnRows | None = None
    missing: tuple[Any, ...] = ()

    @property
    def _parts(self) -> Mapping[Any, Evaluation]:
        """The evaluation of each class or, as None, of all together."""
        return self.by_class or {None: self}

    @property
    def _is_together(self) -> bool:
        return self.verdict is not None and self.verdict.classes > 1

    @cached_property
    def errors(self) -> NDArray[np.float64]:
        """Fraction of the examples of each task whose set misses the true label."""
        return np.asarray(self.missed / self.examples)

    @cached_property
    def sizes(self) -> NDArray[np.float64] | None:
        """Mean set size of each task; None if only true labels have scores."""
        return None if self.sets is None else np.asarray(self.sets.labels / self.examples)

    @cached_property
    def _interval(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return clopper_pearson_interval(self.missed, self.examples)

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower end of the exact 95% interval of each task's miss rate."""
        return self._interval[0]

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper end of the exact 95% interval of each task's miss rate."""
        return self._interval[1]

    @property
    def within(self) -> float:
        """Fraction of the tasks whose error is at most ``epsilon``; NaN without tasks.

        With a guarantee per class, it is the smallest fraction of all classes that have tasks;
        with ``per_class="together"``, the fraction of the tasks where no class exceeds it.
        """
        if self._is_together:
            parts = (self.by_class or {}).values()
            above = {*np.concatenate([p.tasks[p.errors > p.epsilon] for p in parts]).tolist()}
            return 1 - len(above) / len(self.tasks) if len(self.tasks) else math.nan
        if self.by_class is not None:
            fractions = [part.within for part in self.by_class.values() if len(part.tasks)]
            return min(fractions, default=math.nan)
        return float(np.mean(self.errors <= self.epsilon)) if len(self.tasks) else math.nan

    @property
    def set_shares(self) -> dict[str, float] | None:
        """Fractions of empty, single and full sets; None if only true labels have scores."""
        if self.sets is None or not len(self.tasks):
            return None
        total = int(self.examples.sum())
        return {name: int(getattr(self.sets, name).sum()) / total for name in _KINDS}

    @property
    def neglected(self) -> list[ClassMisses]:
        """Classes missed far more often than epsilon, the most often first.

        Their miss rate is at least twice epsilon and its exact interval lies above epsilon. A
        guarantee for all classes together does not rule this out.
        """
        if self.by_class is not None or isinstance(self.epsilon, Mapping):
            return []
        epsilon, above = self.epsilon, [x for x in self.classes or () if x.low > self.epsilon]
        return sorted((x for x in above if x.error >= _FAR * epsilon), key=lambda x: -x.error)

    def worst(self, number: int = 5) -> list[dict[str, Any]]:
        """Return the tasks with the strongest evidence of a miss rate above epsilon.

        They are ordered by the probability that a task with miss rate epsilon shows as many
        misses, the smallest first.

        Parameters
        ----------
        number : int, default 5
            How many to return at most.

        Returns
        -------
        list of dict
            Task, with a guarantee per class the class, then the columns of ``to_frame``.
        """
        rows: list[tuple[float, dict[str, Any]]] = []
        for label, part in self._parts.items():
            tail = special.bdtrc(part.missed - 1.0, part.examples, part.epsilon)
            chance = np.where(part.missed > 0, tail, 1.0)
            first = np.lexsort((-part.errors, chance))[:number]
            columns = {"task": part.tasks} | part._columns()
            values = zip(*(column[first].tolist() for column in columns.values()), strict=True)
            named = {"task": None} if label is None else {"task": None, "class": label}
            for key, row in zip(chance[first].tolist(), values, strict=True):
                rows.append((key, named | dict(zip(columns, row, strict=True))))
        rows.sort(key=lambda entry: (entry[0], -entry[1]["error"]))
        return [row for _chance, row in rows[:number]]

    def _columns(self) -> dict[str, Array]:
        """Return the columns of each task, but for its name."""
        columns = {"examples": self.examples, "missed": self.missed, "error": self.errors}
        columns |= {"low": self.low, "high": self.high}
        if self.sets is not None and self.sizes is not None:
            columns["set_size"] = self.sizes
            columns |= {name: getattr(self.sets, name) for name in _KINDS}
        return columns if self.widths is None else columns | {"width": self.widths}

    def to_frame(self) -> Any:
        """Return a frame with a row for each task.

        Returns
        -------
        pandas.DataFrame
            Columns task, examples, missed, error, low and high (the exact 95% interval of the miss
            rate) and, if every class has scores, set_size, empty, single and full (numbers of
            sets); for intervals, their mean width. With a guarantee per class, there is a row for
            each class of each task, and the column class.
        """
        import pandas as pd

        if self.by_class is None:
            return pd.DataFrame({"task": self.tasks} | self._columns())
        frames = {label: part.to_frame() for label, part in self.by_class.items()}
        for label, frame in frames.items():
            frame.insert(1, "class", label)
        return pd.concat(frames.values(), ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON can hold them, as ``metapac evaluate --json`` prints them.

        Returns
        -------
        dict
            Verdict, figures, misses by class and the five worst tasks; null where there is none.
        """
        result: dict[str, Any] = {} if self.verdict is None else {"verdict": self.verdict.to_dict()}
        result |= self._figures() | {"overlap": [*map(str, self.overlap)], "classes": None}
        result |= {"missing": [*map(str, self.missing)]} if self.missing else {}
        result |= {} if self.drawn is None else {"drawn": self.drawn._asdict()}
        if self.classes is not None:
            result["classes"] = [
                {"class": part.label, "examples": part.examples, "missed": part.missed}
                | {"error": part.error if part.examples else None}
                | {"low": part.low, "high": part.high}
                for part in self.classes
            ]
            result["neglected"] = [part.label for part in self.neglected]
        if self.by_class is not None and self.verdict is not None:
            verdicts = (self.verdict.by_class or {}).items()
            rows = {label: {"verdict": verdict.to_dict()} for label, verdict in verdicts}
            result["by_class"] = [
                {"class": label} | rows.get(label, {}) | part._figures()
                for label, part in self.by_class.items()
            ]
        worst = [{k: encode_floats(v) for k, v in row.items()} for row in self.worst()]
        return result | {"worst": worst}

    def _figures(self) -> dict[str, Any]:
        """Return counts and means over tasks; None where there is no task."""
        means: dict[str, Any] = dict.fromkeys(_MEANS)
        if len(self.tasks):
            means |= {"within": self.within, "error": float(np.mean(self.errors))}
            if self.sizes is not None:
                by_rows = np.average(self.sizes, weights=self.examples)
                means["set_size"] = float(np.mean(self.sizes))
                means["set_size_over_rows"] = float(by_rows)
            if self.widths is not None:
                means["width"] = encode_floats(float(np.mean(self.widths)))
        return {
            "tasks": len(self.tasks),
            "left_out": self.left_out,
            "min_examples": self.min_examples,
            "examples": int(self.examples.sum()),
            "missed": int(self.missed.sum()),
            "epsilon": self.epsilon,
            **means,
            "sets": self.set_shares,
        }

    def to_csv(self, path: PathLike) -> None:
        """Write a row for each task (and class), the worst first, to a CSV file.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        """
        rows = self.worst(sum(len(part.tasks) for part in self._parts.values()))
        with replacing(path) as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def plot(self, path: PathLike | None = None) -> Figure:
        """Draw the miss rate of each task with its interval, the set sizes and the classes.

        Parameters
        ----------
        path : path-like, optional
            File to write, in the format of its extension.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from metapac import plots

        return plots.draw_evaluation(self, path=path)

    def __repr__(self) -> str:
        status = "" if self.verdict is None else f" {self.verdict.status}."
        return f"<Evaluation:{status} {' '.join(self._describe_shares(self._words))}>"

    @property
    def _words(self) -> Words:
        return Words.from_context(Context()) if self.verdict is None else self.verdict.words

    def __str__(self) -> str:
        """Return the verdict on a line of its own, then what was measured, as text."""
        if self.verdict is None:
            return repr(self)
        words, parts = self._words, self._parts
        sentence = self.verdict.sentence()
        claim = sentence.removeprefix(f"{self.verdict.status.capitalize()}: ")
        lines = [self.verdict.status.upper(), claim[:1].upper() + claim[1:]]
        lines += self._describe_sets(words)
        lines += self._describe_shares(words)
        if harm := describe_neglected(self, words):
            lines += ["", f"Beware: {harm}"]
        if self.classes is not None:
            lines += ["", self._class_table()]
        worst = [row for row in self.worst() if row["error"] > parts[row.get("class")].epsilon]
        if worst:
            rows = [_format_row(row, words) for row in worst]
            lines += ["", format_table(rows, f"Worst {words.units}")]
        elif len(self.tasks):
            lines += ["", f"No {words.unit} was measured above its limit."]
        return "\n".join(lines)

    def _describe_sets(self, words: Words) -> list[str]:
        """Return how large sets or intervals are, and what was left out, in lines."""
        lines = []
        if self.drawn is not None:
            counted = self.drawn.describe("unit", words.example, words.examples)
            lines.append(f"Within each {words.unit}, {counted}.")
        if self.min_examples > 1:
            least = words.count_examples(self.min_examples)
            lines.append(f"Judged: {words.units} with at least {least}.")
        if self.overlap:
            count, names = words.count_units(len(self.overlap)), listed([*map(str, self.overlap)])
            lines.append(f"{count} not new, so not counted here: {names}.")
        if self.missing:
            lines.append(f"Missing from the list: {listed([*map(str, self.missing)])}.")
        if self.widths is not None and len(self.widths):
            lines.append(f"Intervals: mean width {np.mean(self.widths):.4g} over {words.units}.")
        if (shares := self.set_shares) is not None:
            figures, kinds = self._figures(), [f"{format_share(shares[k])} {k}" for k in _KINDS]
            means = f"{figures['set_size']:.2f} over {words.units}"
            means += f", {figures['set_size_over_rows']:.2f} over rows"
            lines.append(f"Sets: mean size {means}; {', '.join(kinds)}.")
        return lines

    def _describe_shares(self, words: Words) -> list[str]:
        """Return on how many tasks the measured miss rate is at most epsilon, in lines."""
        if self.by_class is not None:
            parts = [*self.by_class.items()][:_SHOWN_CLASSES]
            return [f"Class {label}: {part._describe_shares(words)[0]}" for label, part in parts]
        if not len(self.tasks):
            return ["Nothing measured."]
        within = np.count_nonzero(self.errors <= self.epsilon)
        examples = words.count_examples(int(self.examples.sum()))
        left_out = f"; {words.count_units(self.left_out)} left out" if self.left_out else ""
        mean = format_share(float(np.mean(self.errors)))
        limit = f"at most {percent(self.epsilon)}"
        limit = f"{limit} missed" if words.rate == "miss rate" else f"a {words.rate} of {limit}"
        count, total = words.count_units(len(self.tasks)), len(self.tasks)
        where = f"{limit} on {within} of {total}, {mean} on average"
        return [f"{count} ({examples}{left_out}): {where}."]

    def _class_table(self) -> str:
        """Return the misses of each class; of many classes, those missed most."""
        classes = sorted(self.classes or (), key=lambda part: (-part.low, str(part.label)))
        shown = [part for part in classes if part.examples][:_SHOWN_CLASSES]
        title = "Missed, by class"
        title += f" (worst {len(shown)} of {len(classes)})" if len(classes) > len(shown) else ""
        rows = [_format_row({"class": part.label} | part._asdict(), self._words) for part in shown]
        return format_table(rows, title) if rows else title

    def _repr_html_(self) -> str:
        return render_text(str(self))


def _format_row(row: Mapping[str, Any], words: Words) -> dict[str, str]:
    """Return the misses of a task or class for a table."""
    names = {name: str(row[name]) for name in ("task", "class") if name in row}
    sizes = {"set_size": "set size", "width": "width"}
    titles = ("missed", "rate") if words.rate == "miss rate" else ("losses", words.rate)
    return names | {
        titles[0]: f"{row['missed']:,} of {row['examples']:,}",
        titles[1]: format_share(row["missed"] / row["examples"]),
        "95% interval": f"{format_share(row['low'])} to {format_share(row['high'])}",
        **{title: f"{row[name]:.2f}" for name, title in sizes.items() if name in row},
    }


_PER_CLASS = "For a guarantee for each class, calibrate for each class."


def describe_neglected(evaluation: Evaluation, words: Words, remedy: str = _PER_CLASS) -> str:
    """Return which classes are missed far more often than epsilon; empty if none is."""
    rates = []
    for part in evaluation.neglected:
        count = f"{part.missed:,} of {words.count_examples(part.examples)}"
        rates.append(f"{part.label} in {count} ({format_share(part.error)})")
    if not rates:
        return ""
    subject = "a class is" if len(rates) == 1 else f"{len(rates):,} classes are"
    limit = percent(evaluation.epsilon)
    text = f"{subject} missed far more often than {limit}: {listed(rates, shown=3)}."
    if evaluation.verdict is not None and evaluation.verdict.status == VIOLATED:
        return text
    return f"{text} The guarantee is for all classes together and does not rule this out. {remedy}"


_ALL_KEPT = "every label is kept, so none is missed."


def _complete(verdict: Any, promise: ThresholdSets) -> Verdict:
    """Return the verdict in the words of the promise; it says so if there is nothing to check."""
    about, words = promise.context_, Words.from_context(promise.context_)
    named = name_units(verdict, visible(about.unit), visible(about.example))
    if hold_losses(promise.columns_):
        named = replace(named, rate="risk")
    reasons = _find_reasons(promise, words)
    if named.by_class is None:
        return replace(named, trivial=reasons.get(None, ""))
    parts = {x: replace(part, trivial=reasons.get(x, "")) for x, part in named.by_class.items()}
    is_trivial = all(part.trivial for part in parts.values())
    together = f"{_ALL_KEPT} Calibrate on more {words.units}." if is_trivial else ""
    return replace(named, by_class=parts, trivial=together)


def _find_reasons(promise: ThresholdSets, words: Words) -> dict[Any, str]:
    """Return why nothing can be missed, for each class or, as None, for all; not if it can be."""
    if not isinstance(promise, MetaPS):
        needed = words.count_examples(min_sample_size(float(promise.epsilon), promise.delta))
        text = f"{_ALL_KEPT} Calibrate on at least {needed}."
        return {None: text} if promise.threshold_ == -math.inf else {}
    reasons, parts = {}, promise._evidence.parts(promise.guarantee_)
    for part, outcome in zip(parts, promise._outcomes, strict=True):
        if outcome.threshold > -math.inf:
            continue
        text = _ALL_KEPT if part.label is None else "it is always kept, so it is never missed."
        if promise._is_interval:
            text = "every interval is infinite, so no number is missed."
        elif hold_losses(promise.columns_):
            text = "no threshold is certified."
        demand = part.demand()
        if not demand.is_feasible():
            lack = Shortfall(demand)
            more = words.count_units(lack.to_add).replace(" ", " more ", 1)
            least = words.count_examples(lack.examples)
            text += f" Calibrate on {more} with at least {least} each."
        reasons[part.label] = text
    return reasons


def _find_old(promise: ThresholdSets, tally: Tally, skipped: frozenset[str]) -> list[bool]:
    """Return which tasks have the name of a task that is not new, or are of a known cluster."""
    context = promise.context_
    calibrated = getattr(promise, "tasks_", np.empty(0)).tolist()
    known = [*calibrated, *(context.trained_on or ()), *(context.pilot or ())]
    names, clusters = tally.names.tolist(), [*(tally.clusters or ())]
    same, near = match_names(names, known)
    same_clusters, near_clusters = match_names(clusters, _calibrated_clusters(promise))
    others = ", training or pilot" if len(known) > len(calibrated) else ""
    of_clusters = data_checks.judge_near_names(near_clusters, "calibrated clusters", what="cluster")
    of_names = data_checks.judge_near_names(near, f"calibration{others} tasks")
    data_checks.report([of_names, of_clusters], skipped)
    old, old_clusters = {*same}, {*same_clusters}
    pairs = zip(names, clusters or [None] * len(names), strict=True)
    return [name in old or cluster in old_clusters for name, cluster in pairs]


def _calibrated_clusters(promise: ThresholdSets) -> list[Any]:
    """Return the clusters calibrated on; none if every task counted."""
    names = getattr(promise, "clusters_", None)
    return [] if names is None else list(names.tolist())


def _draw_from_units(promise: ThresholdSets, data: Data) -> tuple[Data, DrawnRows | None]:
    """Return one random row of each unit, so that the rows of a task are independent."""
    evidence = getattr(promise, "_evidence", None)
    calibrated = None if evidence is None else evidence.within
    data, drawn = data.draw_rows(0 if calibrated is None else calibrated.rng)
    if calibrated is not None and drawn is None:
        rule = "within must be passed, since the guarantee is for a random row of a random unit"
        raise InvalidInput(f"{rule}.")
    return data, drawn


def _draw_from_clusters(promise: ThresholdSets, tally: Tally) -> Tally:
    """Return the counts of one random task of each cluster, on which a verdict may rest."""
    if tally.clusters is not None:
        drawn = draw_tasks(tally.names.tolist(), tally.clusters, 0)
        return _keep(tally, np.isin(np.arange(len(tally.names)), drawn))
    if _calibrated_clusters(promise):
        raise InvalidInput(
            "clusters must be passed, since the guarantee is for new tasks of new clusters."
        )
    return tally


def _keep(tally: Tally, kept: NDArray[np.bool_]) -> Tally:
    """Return the counts of some tasks."""
    rest = tally.take(kept[tally.task])
    clusters = None if tally.clusters is None else [*compress(tally.clusters, kept)]
    place = np.cumsum(kept) - 1
    names, ranges = tally.names[kept], tally.ranges[kept]
    return rest._replace(names=names, ranges=ranges, task=place[rest.task], clusters=clusters)


def _sum_tasks(tally: Tally) -> tuple[Counts, Counts]:
    """Return the number of examples and of misses of each task."""
    columns = tally.examples, tally.missed
    examples, missed = (grouping.sum_by(column, tally.task, len(tally.names)) for column in columns)
    return examples, missed


def _assess_tasks(
    promise: ThresholdSets, tally: Tally, minimum: int, levels: Mapping[str, Any]
) -> Evaluation:
    """Assess one guarantee for the examples of all classes."""
    least, epsilon = max(1, minimum), float(promise.epsilon)
    evaluation = _evaluate(tally, epsilon, least)
    (verdict,) = judge_each([(evaluation.examples, evaluation.missed)], [epsilon], **levels)
    classes = None
    if tally.classes is not None and tally.label is not None:
        some, length = (_sum_tasks(tally)[0] >= least)[tally.task], len(tally.classes)
        columns = tally.examples, tally.missed
        counts = (grouping.sum_by(column[some], tally.label[some], length) for column in columns)
        classes = _class_misses(tally.classes, *counts)
    return replace(evaluation, verdict=verdict, classes=classes)


def _assess_classes(
    promise: ThresholdSets, tally: Tally, minimum: int, levels: Mapping[str, Any]
) -> Evaluation:
    """Assess each class, and together all tasks that are covered for any class."""
    verdict, left_out = None, 0
    if cast("MetaPS", promise).guarantee_.is_together:
        tally, left_out = _keep_complete(promise, tally, minimum)
        pair = _tabulate(promise, tally)
        (verdict,) = judge_each([pair], [float(promise.epsilon)], **levels)
    by_text = {str(name): name for name in promise.classes_ or ()}
    by_class, counts, covered = {}, {}, np.zeros(len(tally.names), dtype=bool)
    for index, name in enumerate(tally.classes or ()):
        label, members = by_text[str(name)], tally.take(np.asarray(tally.label == index))
        rate = promise.epsilon[label] if isinstance(promise.epsilon, Mapping) else promise.epsilon
        by_class[label] = _evaluate(members, float(rate), max(1, minimum))
        examples, missed = _sum_tasks(members)
        counts[label] = examples[examples >= minimum], missed[examples >= minimum]
        covered |= examples >= max(1, minimum)
    totals = np.array([(p.examples.sum(), p.missed.sum()) for p in by_class.values()])
    return replace(
        _evaluate(tally.take(covered[tally.task]), promise.epsilon, 1),
        left_out=left_out + int(np.count_nonzero(~covered)),
        verdict=verdict or judge_classes(counts, epsilon=promise.epsilon, **levels),
        by_class=by_class,
        classes=_class_misses([*by_class], *totals.T),
    )


def _tabulate(promise: ThresholdSets, tally: Tally) -> tuple[Counts, Counts]:
    """Return examples and misses of each task, with a column for each calibrated class."""
    known = [*map(str, promise.classes_ or ())]
    place = np.array([known.index(str(name)) for name in tally.classes or ()])[tally.label]
    counts = np.zeros((2, len(tally.names), len(known)), dtype=np.int64)
    counts[:, tally.task, place] = tally.examples, tally.missed
    return counts[0], counts[1]


def _keep_complete(promise: ThresholdSets, tally: Tally, minimum: int) -> tuple[Tally, int]:
    """Return the tasks with enough examples of every class, and the number of the others."""
    complete = np.all(_tabulate(promise, tally)[0] >= minimum, axis=1)
    return _keep(tally, complete), int(np.count_nonzero(~complete))


def _evaluate(tally: Tally, epsilon: Any, least: int) -> Evaluation:
    """Evaluate the tasks with at least so many examples, without a verdict."""
    examples, missed = _sum_tasks(tally)
    length, covered = len(tally.names), examples >= least
    sets = tally.sets and grouping.sum_sets(tally.sets, tally.task, length)
    widths = None
    if tally.widths is not None:
        sums = np.bincount(tally.task, weights=tally.widths, minlength=length)
        widths = sums[covered] / examples[covered]
    sets = sets and grouping.take_sets(sets, covered)
    counts = tally.names[covered], examples[covered], missed[covered], sets, epsilon
    clusters = None if tally.clusters is None else (*compress(tally.clusters, covered),)
    more: Any = {"widths": widths, "ranges": tally.ranges[covered], "clusters": clusters}
    return Evaluation(*counts, left_out=int(np.count_nonzero(~covered)), **more)


def _class_misses(
    labels: Sequence[Any], examples: Counts, missed: Counts
) -> tuple[ClassMisses, ...]:
    low, high = clopper_pearson_interval(missed, examples)
    columns = (column.tolist() for column in (examples, missed, low, high))
    return tuple(ClassMisses(*row) for row in zip(labels, *columns, strict=True))


def _check_any_left(evaluation: Evaluation) -> None:
    if evaluation.left_out and not len(evaluation.tasks):
        text = f"there is no task to evaluate: tasks need at least {evaluation.min_examples}"
        raise InvalidInput(f"{text} examples, and all {evaluation.left_out} have fewer.")
    if not len(evaluation.tasks):
        text = "every task has the name of a calibration, training or pilot task, or its cluster"
        text += f" ({listed([*map(repr, evaluation.overlap)])}), and a guarantee is for new tasks."
        raise InvalidInput(f"{text} If these only share the names, pass allow=('overlap',).")


def evaluate(
    promise: ThresholdSets,
    scores: ArrayLike | Data,
    tasks: ArrayLike | Iterable[object] | None = None,
    labels: ArrayLike | None = None,
    *,
    classes: Sequence[Any] | None = None,
    clusters: ClusterIds | None = None,
    within: ArrayLike | Iterable[object] | None = None,
    min_examples: int = 0,
    false_alarm: float = 0.05,
    model: str | None = None,
    allow: Iterable[str] = (),
) -> Evaluation:
    """Compare a guarantee with labelled new tasks: misses, set sizes, and the verdict.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    scores : array_like, shape (n,) or (n, classes), or Table
        Scores of the true labels; or scores of every class, which needs ``labels`` and gives set
        sizes too. Or a table from ``open_table``; columns that it does not name are those of the
        calibration. For predicted numbers, widths of intervals are measured instead of set sizes.
    tasks : array_like, shape (n,), optional
        Task of each example. Not with a table.
    labels : array_like, shape (n,), optional
        True label of each example, for misses per class.
    classes : sequence, optional
        Names of the columns of ``scores``; by default those of the calibration, or 0, 1, ...
    clusters, within : array_like, shape (n,), optional
        As in ``MetaPS.calibrate``: one random task of each new cluster is judged, and one random
        example of each unit of a task. Needed if it was calibrated with them; the seed is the same.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with a guarantee per class, of the class). The
        verdict is then about tasks with at least this many. Not for a finite list.
        With ``per_class="together"`` a task that lacks a class counts as not shown to be within.
    false_alarm : float, default 0.05
        Probability that the verdict is wrong.
    model : str, optional
        Model that gave the scores, to be compared with the calibrated one; by default the one that
        ``metapac score`` stored in the table.
    allow : iterable of str, default ()
        Checks of the data to skip, such as "duplicates"; the message of a check names it.
        "overlap" takes tasks with the name of a calibration, training or pilot task for new ones.

    Returns
    -------
    Evaluation
        The comparison.

    Raises
    ------
    InvalidInput
        If arrays or columns do not match, if a check objects, or if no new task is left.

    Examples
    --------
    >>> from metapac import PS, evaluate
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> scores = [[0.9, 0.1], [0.6, 0.0]]
    >>> result = evaluate(promise, scores, ["a", "b"], ["cat", "dog"], classes=["cat", "dog"])
    >>> [(part.label, part.missed, part.examples) for part in result.classes]
    [('cat', 0, 1), ('dog', 1, 1)]
    >>> result.sizes
    array([2., 1.])
    """
    check_predictor(promise)
    skipped = data_checks.check_allowed(allow)
    chosen = as_whole_number("min_examples", min_examples, minimum=0)
    minimum = max(chosen, getattr(promise, "min_examples", 0))
    data = promise._resolve(as_data(scores, tasks, labels, classes, clusters, within))
    data.check_origin(promise.context_, model)
    data, drawn = _draw_from_units(promise, data)
    tally = _count_misses(promise, data, skipped)
    old = np.zeros(len(tally.names), dtype=bool)
    if "overlap" not in skipped:
        old |= _find_old(promise, tally, skipped)
    rest = _keep(tally, ~old)
    new = data_checks.Contents(rest.names, _sum_tasks(rest)[0], rest.ranges)
    known = None if "overlap" in skipped else getattr(promise, "_evidence", None)
    data_checks.report([data_checks.judge_copies(new, known and known.contents)], skipped)
    assess = _assess_tasks if promise.classes_ is None else _assess_classes
    alpha = getattr(promise, "alpha", None)
    levels: Any = {"alpha": alpha, "delta": promise.delta, "false_alarm": false_alarm}
    judged, missing = _draw_from_clusters(promise, rest), ()
    if (new_tasks := getattr(promise, "new_tasks", None)) is not None:
        if minimum > getattr(promise, "min_examples", 0):
            rule = "min_examples must be left out: a list is judged with its small tasks"
            raise InvalidInput(f"{rule}, got {chosen}.")
        missing = _compare_with_list(promise.context_, judged)
        levels |= {"new_tasks": new_tasks, "there": len(judged.names)}
    found = assess(promise, judged, minimum, levels)
    more: Any = {"overlap": tuple(tally.names[old].tolist()), "drawn": drawn, "missing": missing}
    evaluation = replace(found, min_examples=max(1, minimum), **more)
    _check_any_left(evaluation)
    return replace(evaluation, verdict=_complete(found.verdict, promise))


def _compare_with_list(context: Context, tally: Tally) -> tuple[Any, ...]:
    """Return the other tasks of a list that are missing; raise for tasks that are not on it."""
    if context.draw is None:
        return ()
    here = [*tally.names.tolist()] if tally.clusters is None else [*tally.clusters]
    rest, found = {*map(str, context.draw.rest)}, {*map(str, here)}
    if foreign := [name for name in here if str(name) not in rest]:
        text = f"{len(foreign)} tasks are not on the list that was drawn from"
        text += f" ({listed([*map(repr, foreign)])}), and the guarantee is for the others on it."
        raise InvalidInput(f"{text} Leave them out.", parameter="tasks")
    return tuple(name for name in context.draw.rest if str(name) not in found)


def _count_misses(promise: ThresholdSets, data: Data, skipped: frozenset[str]) -> Tally:
    """Count the misses of each task and class, and check that the examples make sense."""
    cuts = promise._thresholds_of(data.class_names())
    (tally,) = data.counts(cuts, promise.precision_)
    names, sizes = tally.names, _sum_tasks(tally)[0]
    complete = skipped | {"missing"}  # counting has raised if a score is missing
    data_checks.check_facts(data.facts(names, sizes, complete), complete, data.name)
    if promise._score_range is not None:
        ends = float(tally.ranges[:, 0].min()), float(tally.ranges[:, 1].max())
        finding = data_checks.judge_scale(ends, promise._score_range)
        data_checks.report([finding], skipped, where=data.name)
    return tally._replace(clusters=data.clusters_of(names.tolist()))
