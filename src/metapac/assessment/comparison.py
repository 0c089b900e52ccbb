"""A guarantee compared with counts of misses: the verdict, and what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import _checks, _ids
from metapac._types import Array, Counts
from metapac._visible import visible
from metapac.assessment.counts import ClassMisses, Tally, sum_by
from metapac.assessment.evaluation import Evaluation
from metapac.assessment.trivial import mark_trivial
from metapac.base import ThresholdSets
from metapac.clusters import draw_tasks
from metapac.exceptions import InvalidInput, Parameter
from metapac.meaning.duplicates import Contents, judge_copies
from metapac.meaning.findings import check_allowed, report
from metapac.meaning.judges import judge_near_names
from metapac.verdict.intervals import clopper_pearson_interval
from metapac.verdict.verdict import Verdict, judge, judge_classes


def assess(
    promise: ThresholdSets,
    tally: Tally,
    *,
    min_examples: int = 0,
    false_alarm: float = 0.05,
    allow: Iterable[str] = (),
) -> Evaluation:
    """Compare a guarantee with counts of misses.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    tally : Tally
        The counts; with a guarantee per class, for each class.
    min_examples : int, default 0
        As in ``evaluate``.
    false_alarm : float, default 0.05
        As in ``evaluate``.
    allow : iterable of str, default ()
        As in ``evaluate``.

    Returns
    -------
    Evaluation
        The comparison.

    Raises
    ------
    InvalidInput
        If no new task is left.
    """
    chosen = _checks.as_whole_number("min_examples", min_examples, minimum=0)
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
    same, near = _ids.match_names(names, known)
    same_clusters, near_clusters = _ids.match_names(clusters, _calibrated_clusters(promise))
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
    if tally.ranges is None:
        return
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
                "{} must be passed, since the guarantee is for new tasks of new clusters. If no "
                "two tasks share a cluster, pass the tasks.",
                Parameter("clusters"),
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
    if tally.ranges is not None:
        rest = rest._replace(ranges=tally.ranges[kept])
    return rest._replace(names=tally.names[kept], task=place[rest.task])


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
        ranges=None if tally.ranges is None else tally.ranges[covered],
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
        text = (
            "every task has the name of a {} task ({}), and a guarantee is for new tasks. "
            "Evaluate other tasks; if these only share the names, pass {}."
        )
        raise InvalidInput(
            text, kind, _checks.listed([*map(repr, overlap)]), Parameter("allow", ("overlap",))
        )
    count = f"{evaluation.left_out} task{'s' * (evaluation.left_out != 1)}"
    raise InvalidInput(
        f"there is no task to evaluate: tasks need at least {minimum} "
        f"example{'s' * (minimum != 1)}, and the {count} here "
        f"{'have' if evaluation.left_out != 1 else 'has'} fewer."
    )
