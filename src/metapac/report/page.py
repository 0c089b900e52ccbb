"""The content of a report, as the template takes it: text, tables and charts, no HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from metapac import _document
from metapac._types import Floats
from metapac._version import __version__
from metapac.assessment.evaluation import Evaluation
from metapac.calibration import PS, MetaPS
from metapac.explanation.paragraphs import describe_interval
from metapac.explanation.words import Words, round_down
from metapac.report import charts, wording
from metapac.report.curves import draw_curves
from metapac.report.findings import Findings, Panel, format_size, format_width
from metapac.report.levels import Trial
from metapac.report.plan import PlanFacts, describe_rank, describe_slack, find_plan
from metapac.report.standing import find_standing
from metapac.sentences import format_share, percent

_PANELS = 4  # classes with a chart of thresholds
_SHOWN = 50  # classes in a table
_ALL_LABELS = ("all labels", "are in every list")
_SIZE, _WIDTH = "labels in a list", "width of the intervals"


class Figure(NamedTuple):
    """A number to see first, and what it is.

    Attributes
    ----------
    value : str
        The number.
    caption : str
        What it is.
    """

    value: str
    caption: str


def build_page(
    promise: Any,
    *,
    title: str | None,
    date: str,
    findings: Findings | None,
    evaluation: Evaluation | None,
    trials: Sequence[Trial],
    why_not: str | None,
    course: Any,
    provenance: Sequence[Any],
) -> dict[str, Any]:
    """Return everything that the template shows.

    Parameters
    ----------
    promise : MetaPS, PS or MetaCP
        The guarantee.
    title : str or None
        Title of the report.
    date : str
        Date of the report.
    findings : Findings or None
        What labelled new tasks show.
    evaluation : Evaluation or None
        The same in numbers.
    trials : sequence of Trial
        The guarantee at other miss rates.
    why_not : str or None
        Why there are none.
    course : Course or None
        The course of a monitor.
    provenance : sequence of Fact
        Where all of it comes from.

    Returns
    -------
    dict
        Variables of the template.
    """
    words, columns = Words.from_context(promise.context_), _get_columns(promise)
    plan = find_plan(promise) if isinstance(promise, MetaPS) else []
    model = promise.context_.model
    standing = find_standing(None if findings is None else findings.status, course, words)
    return {
        "title": title or (f"The guarantee of {model}" if model else "A guarantee"),
        "date": date,
        "version": __version__,
        "words": words,
        "explained": wording.split_explanation(promise.explain()),
        "sentence": promise.promise_,
        "remarks": getattr(promise, "remarks_", []),
        "figures": _key_figures(promise, words, evaluation, None if standing.is_split else course),
        "assumptions": wording.list_assumptions(promise, words),
        "plan": [_describe_plan(facts, words) for facts in plan],
        "threshold_panels": _threshold_panels(plan, words),
        "threshold_rows": _threshold_rows(plan) if len(plan) > 1 else [],
        "classes": len(plan),
        "findings": findings,
        "control": _control(trials, words, columns) if trials else None,
        "why_not": why_not,
        "course": course,
        "standing": standing,
        "provenance": provenance,
        "is_interval": "prediction" in columns,
        "is_scaled": "scale" in columns,
        "is_for_tasks": isinstance(promise, MetaPS),
    }


def _get_columns(promise: Any) -> Mapping[str, Any]:
    """Return the columns that were calibrated on; they tell intervals from lists of labels."""
    return getattr(promise, "columns_", None) or {}


def _key_figures(
    promise: Any, words: Words, evaluation: Evaluation | None, course: Any
) -> list[Figure]:
    figures = [_basis(promise, words)]
    if isinstance(promise, MetaPS | PS) and promise.classes_ is None:
        figures.append(_cut(promise.threshold_, _get_columns(promise)))
    elif isinstance(promise, MetaPS):
        figures.append(Figure(f"{len(promise.classes_ or ()):,}", "classes, each with a threshold"))
    if evaluation is not None:
        figures += _measured(evaluation, words)
    if course is not None and course.alert is None:
        count = words.count_units(course.tasks)
        figures.append(Figure("no alarm", f"from the monitor, after {count}"))
    return figures


def _cut(threshold: float, columns: Mapping[str, Any]) -> Figure:
    is_interval = "prediction" in columns
    if threshold == -math.inf:
        return Figure(*(("all numbers", "are in every interval") if is_interval else _ALL_LABELS))
    if not is_interval:
        return Figure(round_down(threshold), "score that a label needs (rounded down)")
    times = "times its scale, " if "scale" in columns else ""
    radius = round_down(threshold).removeprefix("-")
    return Figure(f"± {radius}", f"{times}around the predicted number (rounded up)")


def _basis(promise: Any, words: Words) -> Figure:
    if isinstance(promise, PS):
        return Figure(f"{promise.n_examples_:,}", f"{words.examples} calibrated on")
    number = len(promise.tasks_)
    return Figure(f"{number:,}", f"{words.unit if number == 1 else words.units} calibrated on")


def _measured(evaluation: Evaluation, words: Words) -> list[Figure]:
    if evaluation.by_class is None:
        allowed = percent(evaluation.epsilon)
        share = Figure(
            f"{_count_within(evaluation):,} of {len(evaluation.tasks):,}",
            f"new {words.units} with at most {allowed} missed",
        )
    else:
        share = Figure(
            format_share(evaluation.within),
            f"of the new {words.units} within the limit, in the worst class",
        )
    figures = [share]
    if evaluation.sizes is not None:
        size = format_size(float(np.mean(evaluation.sizes)))
        figures.append(Figure(size, "labels in a list, on average"))
    if evaluation.set_shares is not None:
        empty, full = (format_share(evaluation.set_shares[kind]) for kind in ("empty", "full"))
        figures.append(Figure(empty, "lists without a label"))
        figures.append(Figure(full, "lists with every label: a person decides"))
    if evaluation.widths is not None:
        width = format_width(float(np.mean(evaluation.widths)))
        figures.append(Figure(width, "mean width of the intervals"))
    return figures


def _describe_plan(facts: PlanFacts, words: Words) -> dict[str, Any]:
    """Return the row of a table, and the sentences, on what the guarantee needs."""
    return {
        "label": facts.label,
        "tasks": f"{facts.tasks:,}",
        "tasks_needed": f"{facts.tasks_needed:,}",
        "examples_needed": f"{facts.examples_needed:,}",
        "sizes": facts.sizes and "{:,} / {:,} / {:,}".format(*facts.sizes),
        "slack": describe_slack(facts, words),
        "rank": describe_rank(facts, words),
    }


def _threshold_panels(plan: Sequence[PlanFacts], words: Words) -> list[Panel]:
    panels = []
    for facts in [facts for facts in plan if facts.rank is not None][:_PANELS]:
        assert facts.rank is not None
        label = (
            f"Thresholds of {facts.tasks:,} {words.units} in ascending order. Number "
            f"{facts.rank:,} is the one in use: {round_down(facts.threshold)}."
        )
        chart = charts.draw_thresholds(
            facts.thresholds, facts.threshold, facts.rank, words.units, label
        )
        caption = (
            f"The threshold of each {words.unit}, in ascending order. The ring marks the one in "
            "use; the dashed line is its value."
        )
        panels.append(Panel(facts.label, chart, caption))
    return panels


def _threshold_rows(plan: Sequence[PlanFacts]) -> list[list[str]]:
    return [
        [
            str(facts.label),
            round_down(facts.threshold),
            f"{facts.tasks:,}",
            "-" if facts.rank is None else f"{facts.rank:,}",
        ]
        for facts in plan[:_SHOWN]
    ]


def _control(trials: Sequence[Trial], words: Words, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the slider for epsilon needs: rows of a table, a chart, and the data."""
    curves = _find_curves(trials)
    drawn = np.all(np.isfinite([*curves.values()]), axis=0)  # a point that is not has no mark
    points = [int(drawn[:i].sum()) if is_drawn else None for i, is_drawn in enumerate(drawn)]
    names = " and ".join(f"the {name.removesuffix(' %')}" for name in curves)
    low, high = percent(trials[0].epsilon), percent(trials[-1].epsilon)
    label = f"How {names} would change between {low} and {high}. The table below has the numbers."
    return {
        "rows": [_trial_row(trial) for trial in trials],
        "start": next(i for i, trial in enumerate(trials) if trial.is_promised),
        "chart": draw_curves([trial.epsilon for trial in trials], curves, label),
        "measured": any(trial.evaluation is not None for trial in trials),
        "extent": next((name for name in curves if name in (_SIZE, _WIDTH)), None),
        "data": [
            _embed(trial, words, columns) | {"point": point}
            for trial, point in zip(trials, points, strict=True)
        ],
    }


def _trial_row(trial: Trial) -> dict[str, Any]:
    found = trial.evaluation
    cuts = [round_down(cut) for cut in trial.thresholds]
    extent = _mean(_find_extent(found))
    has_lists = found is not None and found.sizes is not None
    show = format_size if has_lists else format_width
    return {
        "epsilon": percent(trial.epsilon),
        "is_promised": trial.is_promised,
        "thresholds": ", ".join(cuts[:3]) + (", ..." if len(cuts) > 3 else ""),
        "within": None if found is None else format_share(found.within),
        "missed": None if found is None else format_share(float(np.mean(found.errors))),
        "extent": None if math.isnan(extent) else show(extent),
        "status": None if found is None or found.verdict is None else found.verdict.status,
    }


def _embed(trial: Trial, words: Words, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the exact numbers of a trial, and a sentence about it, for the script of the page."""
    found = trial.evaluation
    numbers: dict[str, Any] = {
        "epsilon": trial.epsilon,
        "thresholds": trial.thresholds,
        "tasks": None if found is None else len(found.tasks),
        "within": None if found is None else found.within,
        "missed": None if found is None else float(np.mean(found.errors)),
        "size": None if found is None or found.sizes is None else float(np.mean(found.sizes)),
        "width": None if found is None or found.widths is None else float(np.mean(found.widths)),
    }
    numbers = {name: _document.encode_floats(value) for name, value in numbers.items()}
    text = _describe_trial(trial, words, columns)
    return numbers | {"share": percent(trial.epsilon), "text": text}


def _describe_trial(trial: Trial, words: Words, columns: Mapping[str, Any]) -> str:
    share = percent(trial.epsilon)
    if trial.predictor is None:
        return (
            f"At {share} there would be no guarantee: the data are too few, and nothing could be "
            "ruled out."
        )
    text = f"At {share}, {_describe_sets(trial.predictor, trial.thresholds, columns)}."
    found = trial.evaluation
    if found is None:
        return text
    within = f"Then {_count_within(found):,} of the {len(found.tasks):,} new {words.units}"
    if found.by_class is not None:
        within = f"Then {format_share(found.within)} of the new {words.units}, in the worst class,"
    missed = format_share(float(np.mean(found.errors)))
    text += f" {within} stay within {share}, and {missed} of the {words.examples} are missed on"
    text += " average."
    if found.sizes is not None:
        size = format_size(float(np.mean(found.sizes)))
        text += f" A list holds {size} labels on average."
    if found.widths is not None:
        width = format_width(float(np.mean(found.widths)))
        text += f" An interval is {width} wide on average."
    return text


def _describe_sets(
    predictor: MetaPS, thresholds: Sequence[float], columns: Mapping[str, Any]
) -> str:
    """Return what the sets hold, as part of a sentence."""
    if "prediction" in columns:
        if thresholds[0] == -math.inf:
            return "every interval holds all numbers"
        return f"an interval is {describe_interval(thresholds[0], columns)}"
    cuts = [round_down(cut) for cut in thresholds]
    if predictor.classes_ is not None:
        pairs = zip(predictor.classes_, cuts, strict=True)
        cuts = [f"{cut} for {label}" for label, cut in pairs]
    elif thresholds[0] == -math.inf:
        return "every label is kept"
    more = ", and so on" if len(cuts) > 5 else ""
    return f"a label needs a score of at least {', '.join(cuts[:5])}{more}"


def _count_within(evaluation: Evaluation) -> int:
    return int(np.count_nonzero(evaluation.errors <= evaluation.epsilon))


def _find_curves(trials: Sequence[Trial]) -> dict[str, Floats]:
    """Return what to draw against epsilon: sizes and misses or, without them, thresholds."""
    found = [trial.evaluation for trial in trials]
    curves = {}
    extents = [_find_extent(each) for each in found]
    if any(extent is not None for extent in extents):
        has_lists = any(each is not None and each.sizes is not None for each in found)
        curves[_SIZE if has_lists else _WIDTH] = np.array([*map(_mean, extents)])
    if any(each is not None for each in found):
        curves["share missed %"] = np.array([_mean(each and each.errors) for each in found])
    lowest = [min(trial.thresholds, default=math.nan) for trial in trials]
    return curves or {"threshold": np.array(lowest)}


def _find_extent(evaluation: Evaluation | None) -> Floats | None:
    """Return the mean set size, or width of the intervals, of each task."""
    if evaluation is None:
        return None
    return evaluation.widths if evaluation.sizes is None else evaluation.sizes


def _mean(values: Any) -> float:
    return math.nan if values is None else float(np.mean(values))
