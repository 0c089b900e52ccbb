"""Does a guarantee hold on labelled new tasks? Misses, set sizes, and the verdict."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from metapac import _common
from metapac._common import Array, Counts, Floats, PathLike, as_whole_number, listed
from metapac._text import visible
from metapac.data_checks import (
    Contents,
    check_allowed,
    check_facts,
    judge_copies,
    judge_near_names,
    judge_scale,
    report,
)
from metapac.errors import InvalidInput
from metapac.evidence import Part, draw_tasks
from metapac.grouping import ClusterIds, Data, SetCounts, Tally, as_data, sum_by
from metapac.guarantee import format_share, percent
from metapac.inputs import match_names
from metapac.planning import Shortfall, min_sample_size
from metapac.predictors import MetaPS, ThresholdSets, check_predictor
from metapac.verdict import (
    VIOLATED,
    Verdict,
    are_above,
    clopper_pearson_interval,
    judge,
    judge_classes,
)
from metapac.words import Words, inflect

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ClassMisses(NamedTuple):
    """How often the examples of one class are missed, over all tasks evaluated.

    Attributes
    ----------
    label : object
        The class.
    examples : int
        Number of examples of the class.
    missed : int
        Number of them whose set lacks the class.
    low : float
        Lower end of the exact 95% interval of the miss rate.
    high : float
        Upper end.
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


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """How a guarantee fares on labelled new tasks, from ``evaluate`` and ``evaluate_table``.

    Tasks that were calibrated or trained on, and pilot tasks, are left out of everything but
    ``overlap``.

    Attributes
    ----------
    tasks : ndarray, shape (tasks,)
        The tasks, in ascending order.
    examples : ndarray of int, shape (tasks,)
        Number of examples of each task.
    missed : ndarray of int, shape (tasks,)
        Number of them whose set misses the true label.
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
    min_examples : int
        Tasks with fewer examples are left out.
    left_out : int
        Number of tasks left out for that reason.
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

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import PS, evaluate
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> evaluation = evaluate(promise, [0.9, 0.5, 0.0, 0.7], ["a", "a", "b", "b"])
    >>> evaluation.within
    0.5
    >>> evaluation.verdict.status
    'cannot tell yet'
    >>> evaluation.to_pandas()[["task", "examples", "missed", "error"]]
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

        With a guarantee per class, it is the smallest fraction of all classes that have tasks.
        """
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
        names = ("empty", "single", "full")
        return {name: int(getattr(self.sets, name).sum()) / total for name in names}

    @property
    def neglected(self) -> list[ClassMisses]:
        """Classes missed far more often than epsilon, the most often first.

        Their miss rate is at least twice epsilon and its exact interval lies above epsilon. A
        guarantee for all classes together does not rule this out.
        """
        if self.by_class is not None or isinstance(self.epsilon, Mapping):
            return []
        far = [
            part
            for part in self.classes or ()
            if part.low > self.epsilon and part.error >= _FAR * self.epsilon
        ]
        return sorted(far, key=lambda part: -part.error)

    def worst(self, number: int = 5) -> list[dict[str, Any]]:
        """Return the tasks with the strongest evidence of a miss rate above epsilon.

        They are ordered by the probability that a task with miss rate epsilon shows as many
        misses, the smallest first. A small task with one miss is not worse than a large one with
        many.

        Parameters
        ----------
        number : int, default 5
            How many to return at most.

        Returns
        -------
        list of dict
            Task, with a guarantee per class the class, then the columns of ``to_pandas``.
        """
        parts = {None: self} if self.by_class is None else self.by_class
        chosen = [(key, label, i) for label, part in parts.items() for i, key in part._order()]
        chosen.sort(key=lambda entry: entry[0])
        places: dict[Any, list[int]] = {label: [] for label in parts}
        for _key, label, i in chosen[:number]:
            places[label].append(i)
        rows = {label: parts[label]._rows(places[label], label) for label in parts}
        return [next(rows[label]) for _key, label, _i in chosen[:number]]

    def _order(self) -> list[tuple[int, tuple[float, float]]]:
        """Return for each task its index, and a key that is small for bad tasks."""
        tail = special.bdtrc(self.missed - 1.0, self.examples, self.epsilon)
        chances = np.where(self.missed > 0, tail, 1.0).tolist()
        keys = zip(chances, (-self.errors).tolist(), strict=True)
        return list(enumerate(keys))

    def _rows(self, places: list[int], label: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of some tasks; each column is converted once, not for each task."""
        index = np.array(places, dtype=np.intp)
        named = {} if label is None else {"class": [label] * len(index)}
        columns = {name: column[index].tolist() for name, column in self._columns().items()}
        columns = {"task": self.tasks[index].tolist()} | named | columns
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    def _columns(self) -> dict[str, Array]:
        """Return the columns of each task, but for its name."""
        columns: dict[str, Array] = {
            "examples": self.examples,
            "missed": self.missed,
            "error": self.errors,
            "low": self.low,
            "high": self.high,
        }
        if self.sets is not None and self.sizes is not None:
            columns |= {"set_size": self.sizes}
            columns |= {name: getattr(self.sets, name) for name in ("empty", "single", "full")}
        return columns if self.widths is None else columns | {"width": self.widths}

    def to_pandas(self) -> Any:
        """Return a frame with a row for each task.

        Its columns are task, examples, missed, error, low and high (the exact 95% interval of the
        miss rate) and, if every class has scores, set_size, empty, single and full (numbers of
        sets); for intervals, their mean width. With a guarantee per class, there is a row for each
        class of each task, and the column class.

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
        return pd.DataFrame({"task": self.tasks} | self._columns())

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

        Raises
        ------
        MissingExtra
            If Matplotlib is not installed.
        """
        from metapac import plots

        return plots.draw_evaluation(self, path=path)

    def __repr__(self) -> str:
        unit, units = inflect("task" if self.verdict is None else self.verdict.unit)
        if not len(self.tasks):
            return f"<Evaluation of 0 {units} ({self.left_out} left out)>"
        count = f"{len(self.tasks)} {unit if len(self.tasks) == 1 else units}"
        left_out = f" ({self.left_out} left out)" if self.left_out else ""
        status = "" if self.verdict is None else f" {self.verdict.status};"
        size = "" if self.sizes is None else f", mean set size {np.mean(self.sizes):.4g}"
        size += "" if self.widths is None else f", mean width {np.mean(self.widths):.4g}"
        size += f" over {units}" if size else ""
        epsilon = "its epsilon" if isinstance(self.epsilon, Mapping) else f"{self.epsilon:g}"
        share = f"{format_share(self.within)} of them"
        if self.by_class is not None:
            share = f"at least {share} for each of {len(self.by_class)} classes"
        missed = "".join(
            f", class {part.label} missed in {part.missed} of {part.examples}"
            for part in self.neglected[:1]
        )
        return (
            f"<Evaluation of {count}{left_out}:{status} error at most {epsilon} on {share}, mean "
            f"error {format_share(float(np.mean(self.errors)))}{size}{missed}>"
        )

    def _repr_html_(self) -> str:
        """Return the verdict and the misses of each class for notebooks."""
        if self.verdict is None:
            return f"<p>{html.escape(repr(self))}</p>"
        rows = [
            f"<tr><td>{html.escape(str(part.label))}</td><td>{part.missed} of {part.examples}</td>"
            f"<td>{format_share(part.error)}</td>"
            f"<td>{format_share(part.low)} to {format_share(part.high)}</td></tr>"
            for part in sorted(self.classes or (), key=lambda part: -part.low)[:20]
        ]
        head = "<tr><th>class</th><th>missed</th><th>share</th><th>95% interval</th></tr>"
        table = f"<table>{head}{''.join(rows)}</table>" if rows else ""
        return (
            f"<p><b>{html.escape(self.verdict.sentence())}</b></p>"
            f"<p>{html.escape(repr(self)[1:-1])}</p>{table}"
        )


def describe_neglected(evaluation: Evaluation, words: Words, remedy: str) -> str:
    """Return which classes are missed far more often than epsilon; empty if none is."""
    rates = [
        f"{part.label} in {part.missed:,} of {words.count_examples(part.examples)} "
        f"({format_share(part.error)})"
        for part in evaluation.neglected
    ]
    if not rates:
        return ""
    subject = "a class is" if len(rates) == 1 else f"{len(rates):,} classes are"
    limit = percent(evaluation.epsilon)
    text = f"{subject} missed far more often than {limit}: {listed(rates, shown=3)}."
    if evaluation.verdict is not None and evaluation.verdict.status == VIOLATED:
        return text
    return f"{text} The guarantee is for all classes together and does not rule this out. {remedy}"


def mark_trivial(verdict: Verdict, promise: ThresholdSets) -> Verdict:
    """Return the verdict, which says so if there is nothing to check."""
    reasons = _find_reasons(promise)
    if verdict.by_class is None:
        return replace(verdict, trivial=reasons.get(None, ""))
    parts = {
        label: replace(part, trivial=reasons.get(label, ""))
        for label, part in verdict.by_class.items()
    }
    units = Words.from_context(promise.context_).units
    together = f"every label is kept, so none is missed. Calibrate on more {units}."
    is_trivial = all(part.trivial for part in parts.values())
    return replace(verdict, by_class=parts, trivial=together if is_trivial else "")


def _find_reasons(promise: ThresholdSets) -> dict[Any, str]:
    """Return why nothing can be missed, for each class or, as None, for all; not if it can be."""
    words = Words.from_context(promise.context_)
    if isinstance(promise, MetaPS):
        is_interval = "prediction" in (promise.columns_ or {})
        parts = promise._evidence.parts(promise.guarantee_)
        return {
            part.label: f"{_describe(part.label, is_interval)}{_find_remedy(part, words)}"
            for part, outcome in zip(parts, promise._outcomes, strict=True)
            if outcome.threshold == -math.inf
        }
    if promise.threshold_ > -math.inf:
        return {}
    needed = words.count_examples(min_sample_size(float(promise.epsilon), promise.delta))
    return {None: f"{_describe(None, is_interval=False)} Calibrate on at least {needed}."}


def _describe(label: Any, is_interval: bool) -> str:
    if is_interval:
        return "every interval is infinite, so no number is missed."
    if label is not None:
        return "it is always kept, so it is never missed."
    return "every label is kept, so none is missed."


def _find_remedy(part: Part, words: Words) -> str:
    """Return how many calibration tasks are lacking; empty if these are not too few."""
    demand = part.demand()
    if demand.is_feasible():
        return ""
    shortfall = Shortfall(demand)
    tasks = f"{shortfall.to_add:,} more {words.unit if shortfall.to_add == 1 else words.units}"
    return f" Calibrate on {tasks} with at least {words.count_examples(shortfall.examples)} each."


def assess(
    promise: ThresholdSets,
    tally: Tally,
    *,
    min_examples: int = 0,
    false_alarm: float = 0.05,
    allow: Iterable[str] = (),
) -> Evaluation:
    """Compare a guarantee with counts of misses."""
    chosen = as_whole_number("min_examples", min_examples, minimum=0)
    minimum = max(chosen, getattr(promise, "min_examples", 0))
    skipped = check_allowed(allow)
    overlap = () if "overlap" in skipped else _find_overlap(promise, tally, skipped)
    rest = _without(tally, overlap)
    _check_contents(promise, rest, skipped)
    new = _draw_from_clusters(promise, rest)
    if promise.classes_ is None:
        evaluation = _assess_tasks(promise, new, minimum, false_alarm)
    else:
        evaluation = _assess_classes(promise, new, minimum, false_alarm)
    _check_any_left(promise, evaluation, overlap, max(1, minimum))
    return replace(evaluation, overlap=overlap, min_examples=max(1, minimum))


def _find_overlap(promise: ThresholdSets, tally: Tally, skipped: frozenset[str]) -> tuple[Any, ...]:
    """Return the tasks of a calibrated cluster or with the name of a task that is not new."""
    context = promise.context_
    calibrated = getattr(promise, "tasks_", np.empty(0)).tolist()
    known = [*calibrated, *(context.trained_on or ()), *(context.pilot or ())]
    names, clusters = tally.names.tolist(), list(tally.clusters or ())
    same, near = match_names(names, known)
    same_clusters, near_clusters = match_names(clusters, _calibrated_clusters(promise))
    others = ", training or pilot" if len(known) > len(calibrated) else ""
    findings = [
        judge_near_names(near, f"calibration{others} tasks"),
        judge_near_names([*dict.fromkeys(near_clusters)], "calibrated clusters", what="cluster"),
    ]
    report(findings, skipped)
    old, old_clusters = {*same}, {*same_clusters}
    pairs = zip(names, clusters or [None] * len(names), strict=True)
    return tuple(name for name, cluster in pairs if name in old or cluster in old_clusters)


def _check_contents(promise: ThresholdSets, tally: Tally, skipped: frozenset[str]) -> None:
    """Raise InvalidInput if new tasks have the examples of each other, or of calibration tasks."""
    new = Contents(tally.names, sum_by(tally.examples, tally.task, len(tally.names)), tally.ranges)
    evidence = None if "overlap" in skipped else getattr(promise, "_evidence", None)
    report([judge_copies(new, None if evidence is None else evidence.contents)], skipped)


def _calibrated_clusters(promise: ThresholdSets) -> list[Any]:
    """Return the clusters calibrated on; none if every task counted."""
    names = getattr(promise, "clusters_", None)
    return [] if names is None else list(names.tolist())


def _draw_from_clusters(promise: ThresholdSets, tally: Tally) -> Tally:
    """Return the counts of one random task of each cluster, on which a verdict may rest."""
    if tally.clusters is None:
        if _calibrated_clusters(promise):
            raise InvalidInput(
                "clusters must be passed, since the guarantee is for new tasks of new clusters. "
                "If no two tasks share a cluster, pass the tasks.",
                parameter="clusters",
            )
        return tally
    names = tally.names.tolist()
    drawn = {*draw_tasks(names, tally.clusters, 0)}
    return _without(tally, tuple(name for i, name in enumerate(names) if i not in drawn))


def _without(tally: Tally, tasks: tuple[Any, ...]) -> Tally:
    """Return the counts of all other tasks."""
    kept = ~_are_among(tally.names, tasks)
    place = np.cumsum(kept) - 1
    rest = tally.take(kept[tally.task])
    if tally.clusters is not None:
        rest = rest._replace(clusters=[tally.clusters[i] for i in np.flatnonzero(kept).tolist()])
    names, ranges = tally.names[kept], tally.ranges[kept]
    return rest._replace(names=names, ranges=ranges, task=place[rest.task])


def _are_among(names: Array, some: Iterable[Any]) -> NDArray[np.bool_]:
    """Return which names are among some; ``np.isin`` is slow on texts."""
    chosen = {*some}
    return np.array([name in chosen for name in names.tolist()], dtype=bool)


def _assess_tasks(
    promise: ThresholdSets, tally: Tally, minimum: int, false_alarm: float
) -> Evaluation:
    """Assess one guarantee for the examples of all classes."""
    epsilon = float(promise.epsilon)
    evaluation = _evaluate(tally, epsilon, max(1, minimum))
    verdict = judge(
        evaluation.examples,
        evaluation.missed,
        epsilon=epsilon,
        alpha=getattr(promise, "alpha", None),
        delta=promise.delta,
        false_alarm=false_alarm,
    )
    covered = _are_among(tally.names, evaluation.tasks.tolist())[tally.task]
    return replace(
        evaluation,
        verdict=_in_words(verdict, promise),
        classes=_class_misses(tally.take(covered)),
    )


def _assess_classes(
    promise: ThresholdSets, tally: Tally, minimum: int, false_alarm: float
) -> Evaluation:
    """Assess each class, and together all tasks that are covered for any class."""
    assert tally.classes is not None
    assert tally.label is not None
    by_text = {str(name): name for name in promise.classes_ or ()}
    labels = [by_text[str(name)] for name in tally.classes]
    by_class, counts = {}, {}
    for index, label in enumerate(labels):
        members = tally.take(tally.label == index)
        rate = promise.epsilon[label] if isinstance(promise.epsilon, Mapping) else promise.epsilon
        by_class[label] = _evaluate(members, float(rate), max(1, minimum))
        examples, missed = (
            sum_by(column, members.task, len(tally.names))
            for column in (members.examples, members.missed)
        )
        counts[label] = examples[examples >= minimum], missed[examples >= minimum]
    verdict = judge_classes(
        counts,
        epsilon=promise.epsilon,
        alpha=promise.alpha,
        delta=promise.delta,
        false_alarm=false_alarm,
    )
    covered = _are_among(
        tally.names, (name for part in by_class.values() for name in part.tasks.tolist())
    )
    together = _evaluate(tally.take(covered[tally.task]), promise.epsilon, 1)
    return replace(
        together,
        left_out=int(np.count_nonzero(~covered)),
        verdict=_in_words(verdict, promise),
        by_class=by_class,
        classes=tuple(
            _interval_of(label, part.examples, part.missed) for label, part in by_class.items()
        ),
    )


def _in_words(verdict: Verdict, promise: ThresholdSets) -> Verdict:
    """Return the verdict in the words of the promise."""
    context = promise.context_
    named = verdict.named(unit=visible(context.unit), example=visible(context.example))
    return mark_trivial(named, promise)


def _evaluate(tally: Tally, epsilon: Any, minimum: int) -> Evaluation:
    """Evaluate the tasks with at least ``minimum`` examples, without a verdict."""
    length = len(tally.names)
    examples, missed = (sum_by(c, tally.task, length) for c in (tally.examples, tally.missed))
    sets = None if tally.sets is None else tally.sets.sum_by(tally.task, length)
    covered = examples >= minimum
    widths = None
    if tally.widths is not None:
        sums = np.bincount(tally.task, weights=tally.widths, minlength=length)
        widths = sums[covered] / examples[covered]
    return Evaluation(
        tally.names[covered],
        examples[covered],
        missed[covered],
        None if sets is None else sets.take(covered),
        epsilon,
        left_out=int(np.count_nonzero(~covered)),
        widths=widths,
        ranges=tally.ranges[covered],
    )


def _class_misses(tally: Tally) -> tuple[ClassMisses, ...] | None:
    if tally.classes is None or tally.label is None:
        return None
    length = len(tally.classes)
    examples, missed = (sum_by(c, tally.label, length) for c in (tally.examples, tally.missed))
    low, high = clopper_pearson_interval(missed, examples)
    columns = (tally.classes, examples.tolist(), missed.tolist(), low.tolist(), high.tolist())
    return tuple(ClassMisses(*row) for row in zip(*columns, strict=True))


def _interval_of(label: Any, examples: Counts, missed: Counts) -> ClassMisses:
    total, misses = int(examples.sum()), int(missed.sum())
    low, high = clopper_pearson_interval(misses, total)
    return ClassMisses(label, total, misses, float(low), float(high))


def _check_any_left(
    promise: ThresholdSets, evaluation: Evaluation, overlap: tuple[Any, ...], minimum: int
) -> None:
    if len(evaluation.tasks):
        return
    if overlap and not evaluation.left_out:
        is_apart = promise.context_.trained_on or promise.context_.pilot
        kind = "calibration, training or pilot" if is_apart else "calibration"
        raise InvalidInput(
            f"every task has the name of a {kind} task ({_common.listed([*map(repr, overlap)])}), "
            "and a guarantee is for new tasks. Evaluate other tasks; if these only share the "
            "names, pass allow=('overlap',)."
        )
    count = f"{evaluation.left_out} task{'s' * (evaluation.left_out != 1)}"
    raise InvalidInput(
        f"there is no task to evaluate: tasks need at least {minimum} "
        f"example{'s' * (minimum != 1)}, and the {count} here "
        f"{'have' if evaluation.left_out != 1 else 'has'} fewer."
    )


def evaluate(
    promise: ThresholdSets,
    scores: ArrayLike | Data,
    tasks: ArrayLike | Iterable[object] | None = None,
    labels: ArrayLike | None = None,
    *,
    classes: Sequence[Any] | None = None,
    clusters: ClusterIds | None = None,
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
    tasks : array_like, shape (n,)
        Task of each example. Not with a table.
    labels : array_like, shape (n,), optional
        True label of each example, for misses per class.
    classes : sequence, optional
        Names of the columns of ``scores``; by default those of the calibration, or 0, 1, ...
    clusters : array_like, shape (n,), or mapping from task, optional
        Clusters, as in ``MetaPS.calibrate``: one random task of each new cluster is judged. Needed
        if it was calibrated with clusters.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with a guarantee per class, of the class). The
        verdict is then about tasks with at least this many.
    false_alarm : float, default 0.05
        Probability that the verdict is wrong.
    model : str, optional
        Name of the model that gave the scores, to be compared with the calibrated one. A table that
        ``metapac score`` wrote names it itself.
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
    EngineError
        If the engine cannot read the table.

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

    The same from a table:

    >>> import pandas as pd
    >>> from metapac import Columns, open_table
    >>> rows = {"site": ["a", "b"], "y": ["cat", "dog"], "p_cat": [0.9, 0.6], "p_dog": [0.1, 0.0]}
    >>> table = open_table(pd.DataFrame(rows), Columns(task="site", label="y"))
    >>> evaluate(promise, table).to_pandas()[["task", "examples", "missed", "set_size"]]
      task  examples  missed  set_size
    0    a         1       0       2.0
    1    b         1       1       1.0
    """
    check_predictor(promise)
    data = as_data(scores, tasks, labels, classes, clusters).resolve(promise)
    data.check_origin(promise.context_, model)
    skipped = check_allowed(allow)
    tally = count_misses(promise, data, skipped)
    return assess(promise, tally, min_examples=min_examples, false_alarm=false_alarm, allow=allow)


def count_misses(promise: ThresholdSets, data: Data, skipped: frozenset[str]) -> Tally:
    """Count the misses of each task and class, and check that the examples make sense."""
    cuts = promise._thresholds_of(data.class_names())
    (tally,) = data.counts(cuts, promise.precision_)
    names, sizes = tally.names, sum_by(tally.examples, tally.task, len(tally.names))
    complete = skipped | {"missing"}  # counting has raised if a score is missing
    check_facts(data.facts(names, sizes, complete), complete, data.name)
    if promise._score_range is not None:
        ends = float(tally.ranges[:, 0].min()), float(tally.ranges[:, 1].max())
        report([judge_scale(ends, promise._score_range)], skipped, where=data.name)
    return tally._replace(clusters=data.clusters_of(names.tolist()))
