"""Charts of a report, drawn as SVG.

Colours are variables of the page's style sheet, so that one drawing serves light, dark and print.
Each chart is drawn twice, for a wide and for a narrow screen: text keeps its size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metapac._common import Array, Counts, Floats, require
from metapac._text import visible
from metapac.betting import reaches
from metapac.evaluation import ClassMisses
from metapac.guarantee import percent
from metapac.verdict import are_above

WIDE, NARROW = 676, 340
_POINTS = 240  # of a curve through many tasks
_FEW = 5  # tasks up to which each has its own place on the axis
INK, SOFT, LINE = "var(--ink)", "var(--soft)", "var(--line)"
GOOD, WARN, BAD = "var(--good)", "var(--warn)", "var(--bad)"
_FONT = "system-ui, sans-serif"
_CONFIG: dict[str, Any] = {
    "aria": False,
    "background": None,
    "padding": 2,
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT,
        "titleColor": SOFT,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "text": {"font": _FONT, "fontSize": 12, "color": INK},
}


class Chart(NamedTuple):
    """A chart, drawn for two widths, and what it shows."""

    wide: str
    narrow: str
    label: str


def draw(build: Callable[[int], dict[str, Any]], label: str) -> Chart:
    """Draw a chart for a wide and for a narrow screen."""
    convert = require("vl_convert", extra="report", purpose="a report")

    def convert_at(width: int) -> str:
        view = build(width)
        fit = {} if "vconcat" in view else {"autosize": {"type": "fit-x", "contains": "padding"}}
        svg: str = convert.vegalite_to_svg({"config": _CONFIG, **fit, **view})
        return svg

    return Chart(convert_at(WIDE), convert_at(NARROW), label)


def make_axis(
    field: str,
    title: str | None,
    *,
    form: str = "",
    domain: list[float] | None = None,
    zero: bool = True,
) -> dict[str, Any]:
    """Return the encoding of a number along an axis."""
    axis = {"title": title, "tickCount": 5} | ({"format": form} if form else {})
    scale: dict[str, Any] = {"nice": False} if domain else {"zero": zero}
    if domain:
        scale["domain"] = domain
    return {"field": field, "type": "quantitative", "axis": axis, "scale": scale}


def make_places(title: str, count: int) -> dict[str, Any]:
    """Return the encoding of tasks in some order, along an axis without lines."""
    x = make_axis("place", title, domain=[0, count + 1])
    few = {"values": [*range(1, count + 1)]} if count <= _FEW else {"tickMinStep": 1}
    return x | {"axis": x["axis"] | {"grid": False, "format": ",d"} | few}


def make_names() -> dict[str, Any]:
    """Return the encoding of names, one below the other in the order of the data."""
    axis = {
        "title": None,
        "labelColor": INK,
        "labelLimit": 110,
        "labelPadding": 8,
        "domain": False,
        "ticks": False,
    }
    return {"field": "name", "type": "nominal", "sort": None, "axis": axis}


def make_rule(channel: str, value: float) -> dict[str, Any]:
    """Return a dashed line at a limit, as a layer."""
    mark = {"type": "rule", "color": BAD, "strokeDash": [5, 4], "strokeWidth": 1.5}
    return {"data": {"values": [{}]}, "mark": mark, "encoding": {channel: {"datum": value}}}


def thin_out(length: int, keep: int) -> list[int]:
    """Return at most about 240 places of a sequence, its ends always among them."""
    if length <= _POINTS:
        return list(range(length))
    return sorted({*np.linspace(0, length - 1, _POINTS).round().astype(int).tolist(), keep})


_BINS = 24


def draw_histogram(
    values: Floats,
    title: str,
    noun: str,
    label: str,
    *,
    limit: float | None = None,
    step: float = 0.0,
) -> Chart:
    """Draw how many tasks have which value."""
    edges = find_edges(values, limit, step)
    counts = count_between(values, edges)
    bars = [
        {"low": a, "high": b, "count": c, "above": limit is not None and a >= limit}
        for a, b, c in zip(edges[:-1].tolist(), edges[1:].tolist(), counts, strict=True)
    ]
    form = "" if limit is None else ".0%"

    def build(width: int) -> dict[str, Any]:
        x = make_axis("low", title, form=form, domain=[float(edges[0]), float(edges[-1])])
        shade = {"condition": {"test": "datum.above", "value": WARN}, "value": GOOD}
        encoding = {
            "x": x | {"bin": {"binned": True}},
            "x2": {"field": "high"},
            "y": make_axis("count", f"number of {noun}"),
            "color": shade,
        }
        layers: list[dict[str, Any]] = [{"mark": {"type": "bar"}, "encoding": encoding}]
        layers += [] if limit is None else [make_rule("x", limit)]
        return {"width": width, "height": 200, "data": {"values": bars}, "layer": layers}

    return draw(build, label)


def find_edges(values: Floats, limit: float | None, step: float) -> Array:
    """Return the edges of at most about 24 bars."""
    top = float(values.max())
    if limit is None:
        bottom = float(values.min())
        return np.linspace(bottom, top if top > bottom else bottom + 1, _BINS + 1)
    top = max(top, 2 * limit)
    if top > _BINS * limit:  # a thin bar for what is within
        return np.concatenate([[0.0], np.linspace(limit, top, _BINS)])
    finest = int(limit / step) if step else _BINS
    parts = max(1, min(int(_BINS * limit / top), finest))
    edges = np.arange(math.ceil(top / limit * parts * (1 - 1e-12)) + 1) * (limit / parts)
    edges[parts] = limit  # exactly, so that a task at the limit is on the right side
    return edges


def count_between(values: Floats, edges: Array) -> list[int]:
    """Return how many values are in each bar."""
    place = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)
    counts: list[int] = np.bincount(place, minlength=len(edges) - 1).tolist()
    return counts


def draw_curves(epsilons: Sequence[float], curves: Mapping[str, Floats], label: str) -> Chart:
    """Draw some numbers against epsilon, one panel below the other.

    The n-th point of each panel is the n-th path of a group whose class starts with ``points``.
    """

    def build(width: int) -> dict[str, Any]:
        *_, last = curves
        panels = [
            _build_curve(name, epsilons, values, width - 60, last=name == last)
            for name, values in curves.items()
        ]
        return {"vconcat": panels, "spacing": 14}

    return draw(build, label)


def _build_curve(
    name: str, epsilons: Sequence[float], values: Floats, width: int, *, last: bool
) -> dict[str, Any]:
    """Return the panel of one number; the last one names the axis that all share."""
    data = [
        {"epsilon": e, "value": v if math.isfinite(v) else None}
        for e, v in zip(epsilons, values.tolist(), strict=True)
    ]
    title = "share that may be missed" if last else None
    x = make_axis("epsilon", title, form="~%", domain=[0, max(epsilons)])
    form = "~%" if name.endswith("%") else ""
    y = make_axis("value", name.removesuffix(" %"), form=form, zero=name != "threshold")
    return {
        "width": width,
        "height": 120,
        "data": {"values": data},
        "encoding": {"x": x, "y": y},
        "layer": [
            {"mark": {"type": "line", "color": LINE, "strokeWidth": 2}},
            {
                "name": f"points{'_last' if last else ''}",
                "mark": {"type": "circle", "size": 70, "color": GOOD, "opacity": 1},
            },
        ],
    }


def draw_course(
    wealth: Floats, low: Floats, high: Floats, *, alarm: float, alpha: float, unit: str, label: str
) -> Chart:
    """Draw the course of a monitor: its wealth, and bounds on the share of bad tasks.

    It starts before the first task, when the wealth is 1 and every share is possible. Of a long
    course, some steps are drawn; the one that raised the alarm is always among them.
    """
    first = int(np.argmax([*reaches(wealth, alarm), True]))  # the step of the alarm, if any
    data = [{"step": 0, "wealth": 1.0, "low": 0.0, "high": 1.0}] + [
        {"step": i + 1, "wealth": max(float(wealth[i]), 1e-4)}
        | {"low": float(low[i]), "high": float(high[i])}
        for i in thin_out(len(wealth), keep=min(first, len(wealth) - 1))
    ]
    steps = [0.0, len(wealth) + 1.0]
    highest = max(2 * alarm, float(wealth.max()))

    def build(width: int) -> dict[str, Any]:
        panels = [
            _build_wealth(steps, highest, alarm),
            _build_shares(steps, f"{unit}, in the order of the monitor", alpha),
        ]
        fit = [{"width": width - 60, **panel} for panel in panels]
        return {"data": {"values": data}, "spacing": 14, "vconcat": fit}

    return draw(build, label)


def _build_wealth(steps: list[float], highest: float, alarm: float) -> dict[str, Any]:
    """Return the panel of the wealth, with the line of the alarm."""
    y = make_axis("wealth", "evidence against", form="~g")
    y["scale"] = {"type": "log", "domain": [1e-3, highest], "clamp": True}
    line = {
        "mark": {"type": "line", "color": GOOD, "strokeWidth": 2.5},
        "encoding": {"x": make_axis("step", None, domain=steps), "y": y},
    }
    return {"height": 150, "layer": [line, make_rule("y", alarm)]}


def _build_shares(steps: list[float], title: str, alpha: float) -> dict[str, Any]:
    """Return the panel of the bounds, with the line of what is allowed."""
    x = make_axis("step", title, domain=steps)
    y = make_axis("low", "share above", form=".0%", domain=[0, 1])
    bounds = {
        "mark": {"type": "area", "color": GOOD, "opacity": 0.35},
        "encoding": {"x": x, "y": y, "y2": {"field": "high"}},
    }
    return {"height": 120, "layer": [bounds, make_rule("y", alpha)]}


SINGLE = 60  # tasks that are drawn one by one
_CLASSES = 20
_NAME = 18  # characters of the name of a class


def draw_thresholds(thresholds: Floats, cut: float, rank: int, noun: str, label: str) -> Chart:
    """Draw the thresholds of all tasks in ascending order, and the one that was chosen."""
    ordered = np.sort(thresholds)
    places = thin_out(len(ordered), keep=rank - 1)
    values = [
        {"place": int(i) + 1, "threshold": float(ordered[i])}
        for i in places
        if math.isfinite(ordered[i])
    ]
    mark = {"type": "circle", "color": GOOD, "opacity": 0.75, "size": 40}
    if len(ordered) > SINGLE:
        mark = {"type": "line", "color": GOOD, "strokeWidth": 2.5}
    x = make_places(f"{noun}, in ascending order", len(ordered))
    finite = [cut, *(value["threshold"] for value in values)]
    y = make_axis("threshold", "threshold", domain=_pad(min(finite), max(finite)))
    chosen = {"values": [{"place": rank, "threshold": cut, "text": "chosen"}]}

    def build(width: int) -> dict[str, Any]:
        ring = {"type": "point", "size": 170, "color": BAD, "strokeWidth": 2.5, "filled": False}
        text = {"type": "text", "align": "left", "dx": 10, "dy": 14, "color": INK}
        return {
            "width": width,
            "height": 200,
            "layer": [
                {"data": {"values": values}, "mark": mark, "encoding": {"x": x, "y": y}},
                make_rule("y", cut),
                {"data": chosen, "mark": ring, "encoding": {"x": x, "y": y}},
                {
                    "data": chosen,
                    "mark": text,
                    "encoding": {"x": x, "y": y, "text": {"field": "text"}},
                },
            ],
        }

    return draw(build, label)


def draw_errors(
    missed: Counts, examples: Counts, low: Floats, high: Floats, epsilon: float, words: Any
) -> Chart:
    """Draw the miss rate of each task with its interval; of many tasks, how often each occurs."""
    errors, kinds = missed / examples, _find_kinds(missed, examples, epsilon)
    names = _name_kinds(epsilon, words)
    counts = [f"{np.count_nonzero(kinds == i):,} {name}" for i, name in enumerate(names)]
    label = f"Share missed at each of {len(errors):,} new {words.units}: {'; '.join(counts)}."
    if len(errors) > SINGLE:
        return draw_histogram(
            errors,
            f"share missed at a {words.unit}",
            words.units,
            label,
            limit=epsilon,
            step=1 / float(np.median(examples)),
        )
    order = np.lexsort((high, errors))
    values = [
        {"place": place, "error": float(errors[i]), "low": float(low[i]), "high": float(high[i])}
        | {"kind": names[kinds[i]]}
        for place, i in enumerate(order.tolist(), start=1)
    ]
    return draw(partial(_build_errors, values, names, epsilon, words.units), label)


def _find_kinds(missed: Counts, examples: Counts, epsilon: float) -> Counts:
    """Return 0 for a task within the limit, 1 for one above it, 2 if that is hardly by chance."""
    above = are_above(examples, missed, epsilon)
    return np.where(missed / examples <= epsilon, 0, np.where(above, 2, 1))


def _name_kinds(epsilon: float, words: Any) -> list[str]:
    """Return what the kinds of `_find_kinds` are called."""
    allowed = percent(epsilon)
    return [
        f"at most {allowed}",
        f"above {allowed}, perhaps by chance",
        f"above {allowed} (95% confidence, each {words.unit} alone)",
    ]


def _build_errors(
    values: list[dict[str, Any]], names: list[str], epsilon: float, noun: str, width: int
) -> dict[str, Any]:
    """Return the specification of a chart of single tasks, each with its interval."""
    kind = {"field": "kind", "type": "nominal", "legend": None}
    shades = kind | {"scale": {"domain": names, "range": [GOOD, WARN, BAD]}}
    shapes = kind | {"scale": {"domain": names, "range": ["circle", "diamond", "triangle-up"]}}
    x = make_places(f"new {noun}, in ascending order", len(values))
    top = min(1.0, 1.12 * max(epsilon, *(row["high"] for row in values)))
    y = make_axis("error", "share missed", form=".0%", domain=[0, top])
    ends = {"y": y | {"field": "low"}, "y2": {"field": "high"}}
    intervals = {
        "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.55},
        "encoding": {"x": x, **ends, "color": shades},
    }
    points = {
        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
        "encoding": {"x": x, "y": y, "color": shades, "shape": shapes},
    }
    layers = [intervals, points, make_rule("y", epsilon)]
    return {"width": width, "height": 230, "data": {"values": values}, "layer": layers}


def draw_values(values: Floats, title: str, words: Any, label: str) -> Chart:
    """Draw one number of each task, such as its mean set size."""
    if len(values) > SINGLE:
        return draw_histogram(values, title, words.units, label)
    data = [{"place": i, "value": v} for i, v in enumerate(np.sort(values).tolist(), start=1)]

    def build(width: int) -> dict[str, Any]:
        x = make_places(f"new {words.units}, in ascending order", len(data))
        return {
            "width": width,
            "height": 130,
            "data": {"values": data},
            "mark": {"type": "circle", "size": 55, "color": GOOD, "opacity": 1},
            "encoding": {"x": x, "y": make_axis("value", title, domain=[0, max(values) * 1.08])},
        }

    return draw(build, label)


def draw_shares(shares: Mapping[str, float], label: str) -> Chart:
    """Draw some shares of one whole as bars, each with its percentage."""
    data = [{"name": name, "share": s, "text": f"{s:.1%}"} for name, s in shares.items()]

    def build(width: int) -> dict[str, Any]:
        y = make_names()
        x = {"field": "share", "type": "quantitative", "axis": None, "scale": {"domain": [0, 1.12]}}
        return {
            "width": width,
            "height": {"step": 30},
            "data": {"values": data},
            "encoding": {"y": y, "x": x},
            "layer": [
                {"mark": {"type": "bar", "color": GOOD, "height": 18}},
                {
                    "mark": {"type": "text", "align": "left", "dx": 6},
                    "encoding": {"text": {"field": "text"}},
                },
            ],
        }

    return draw(build, label)


def draw_classes(classes: Sequence[ClassMisses], limits: Mapping[Any, float], label: str) -> Chart:
    """Draw the miss rate of each class with its interval, beside what is allowed."""
    data: list[dict[str, Any]] = [
        {"name": _shorten(part.label, i), "error": part.error, "low": part.low, "high": part.high}
        | {"limit": limits[part.label], "above": part.is_above(limits[part.label])}
        for i, part in enumerate(classes[:_CLASSES])
    ]
    top = min(1.0, 1.15 * max(max(row["high"], row["limit"]) for row in data)) + 0.01
    shade = {"condition": {"test": "datum.above", "value": BAD}, "value": GOOD}
    ends = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}}

    def build(width: int) -> dict[str, Any]:
        y = make_names()
        x = make_axis("error", "share missed", form=".0%", domain=[-0.01 * top, top])
        tick = {"type": "tick", "thickness": 2.5, "size": 22, "color": BAD}
        return {
            "width": width,
            "height": {"step": 30},
            "data": {"values": data},
            "encoding": {"y": y},
            "layer": [
                {
                    "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.55},
                    "encoding": {**ends, "color": shade},
                },
                {"mark": tick, "encoding": {"x": {"field": "limit", "type": "quantitative"}}},
                {
                    "mark": {"type": "circle", "size": 90, "opacity": 1},
                    "encoding": {"x": x, "color": shade},
                },
            ],
        }

    return draw(build, label)


def _pad(low: float, high: float) -> list[float]:
    """Return the ends of an axis, a little beyond the values."""
    room = (high - low) or max(abs(low), 1)
    return [low - 0.16 * room, high + 0.06 * room]


def _shorten(name: object, index: int) -> str:
    """Return a name that fits beside a chart; marks keep shortened names apart."""
    text = visible(str(name))
    return text if len(text) <= _NAME else f"{text[: _NAME - 4]}… {index + 1}"
