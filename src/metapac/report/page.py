"""The page of a report: its parts in order, rendered to one HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from metapac._common import require
from metapac._text import visible
from metapac._version import __version__
from metapac.evaluation import Evaluation
from metapac.predictors import MetaPS
from metapac.report import charts, wording
from metapac.report.findings import Findings, Panel, find_figures, find_standing
from metapac.report.levels import (
    PlanFacts,
    Trial,
    build_slider,
    describe_rank,
    describe_slack,
    find_plan,
)
from metapac.words import Words, round_down

_FOLDER = "metapac.report"
_LONGEST, _END = 60, 20  # characters of a name, and how many of them are its last ones


def render(page: Mapping[str, Any]) -> str:
    """Return the report as HTML.

    The template engine escapes text, and control characters that change its direction are made
    visible. The Content-Security-Policy forbids every request, and every script but its own.
    """
    jinja = require("jinja2", extra="report", purpose="a report")
    environment = jinja.Environment(
        loader=jinja.PackageLoader(_FOLDER),
        autoescape=True,
        finalize=_make_visible,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    markup = require("markupsafe", extra="report", purpose="a report")
    environment.filters["name"] = lambda text: _isolate(markup.Markup, str(text), _LONGEST)
    environment.filters["whole"] = lambda text: _isolate(markup.Markup, str(text), None)
    style, script = (_read(name) for name in ("report.css", "report.js"))
    html: str = environment.get_template("report.html.j2").render(
        page,
        style=markup.Markup(style),
        script=markup.Markup(script),
        policy=_policy(style, script),
        svg=markup.Markup,
    )
    return html


def _isolate(markup: Any, name: str, longest: int | None) -> Any:
    """Return a name as HTML that keeps its own direction; of a long one, both its ends."""
    text = visible(name)
    if longest is None or len(text) <= longest:
        return markup("<bdi>{}</bdi>").format(text)
    short = f"{text[: longest - _END - 1]}…{text[-_END:]}"
    return markup('<bdi title="{}">{}</bdi>').format(text, short)


def _policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy: nothing but this style sheet and this script."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _read(name: str) -> str:
    return resources.files(_FOLDER).joinpath("templates", name).read_text(encoding="utf-8")


def _make_visible(value: Any) -> Any:
    """Make invisible characters of text visible; leave what is HTML already."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return visible(value)
    return value


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
    """Return everything that the template shows."""
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
