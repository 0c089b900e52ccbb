"""The content of a report, as the template takes it: text, tables and charts, no HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metapac._version import __version__
from metapac.assessment.evaluation import Evaluation
from metapac.calibration import MetaPS
from metapac.explanation.words import Words, round_down
from metapac.report import charts, wording
from metapac.report.findings import Findings, Panel
from metapac.report.key_figures import find_figures
from metapac.report.levels import Trial
from metapac.report.plan import PlanFacts, describe_rank, describe_slack, find_plan
from metapac.report.slider import build_slider
from metapac.report.standing import find_standing

_PANELS = 4  # classes with a chart of thresholds
_SHOWN = 50  # classes in a table


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
        "figures": find_figures(promise, words, evaluation, None if standing.is_split else course),
        "assumptions": wording.list_assumptions(promise, words),
        "plan": [_describe_plan(facts, words) for facts in plan],
        "threshold_panels": _threshold_panels(plan, words),
        "threshold_rows": _threshold_rows(plan) if len(plan) > 1 else [],
        "classes": len(plan),
        "findings": findings,
        "control": build_slider(trials, words, columns) if trials else None,
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
    """Draw the thresholds of all tasks; with a guarantee per class, of some classes."""
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
