"""Charts of tasks and classes: thresholds, errors, sizes, what the lists hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from metapac._types import Counts, Floats
from metapac._visible import visible
from metapac.assessment.counts import ClassMisses
from metapac.report.drawing import (
    BAD,
    GOOD,
    INK,
    WARN,
    Chart,
    draw,
    make_axis,
    make_names,
    make_places,
    make_rule,
    thin_out,
)
from metapac.report.histogram import draw_histogram
from metapac.sentences import percent
from metapac.verdict._evidence import are_above

SINGLE = 60  # tasks that are drawn one by one
_CLASSES = 20
_NAME = 18  # characters of the name of a class


def draw_thresholds(thresholds: Floats, cut: float, rank: int, noun: str, label: str) -> Chart:
    """Draw the thresholds of all tasks in ascending order, and the one that was chosen.

    Parameters
    ----------
    thresholds : ndarray, shape (tasks,)
        Threshold of each task; those of ``-inf`` are not drawn.
    cut : float
        The threshold that was chosen, a finite one.
    rank : int
        Its place among all thresholds in ascending order, from 1.
    noun : str
        What tasks are called.
    label : str
        What the chart shows.

    Returns
    -------
    Chart
        The chart.
    """
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
    """Draw the miss rate of each task with its interval; of many tasks, how often each occurs.

    Parameters
    ----------
    missed, examples : ndarray of int, shape (tasks,)
        Number of misses, and of examples.
    low, high : ndarray of float, shape (tasks,)
        Interval of each miss rate.
    epsilon : float
        Miss rate that is allowed.
    words : Words
        What tasks are called.

    Returns
    -------
    Chart
        The chart.
    """
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
    """Draw one number of each task, such as its mean set size.

    Parameters
    ----------
    values : ndarray of float, shape (tasks,)
        The numbers, finite ones.
    title : str
        What they are.
    words : Words
        What tasks are called.
    label : str
        What the chart shows.

    Returns
    -------
    Chart
        The chart.
    """
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
    """Draw some shares of one whole as bars, each with its percentage.

    Parameters
    ----------
    shares : mapping from str to float
        The shares by name.
    label : str
        What the chart shows.

    Returns
    -------
    Chart
        The chart.
    """
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
    """Draw the miss rate of each class with its interval, beside what is allowed.

    Parameters
    ----------
    classes : sequence of ClassMisses
        The classes, the worst first; of many, the first 20 are drawn.
    limits : mapping from class to float
        What is allowed to each class.
    label : str
        What the chart shows.

    Returns
    -------
    Chart
        The chart.
    """
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
