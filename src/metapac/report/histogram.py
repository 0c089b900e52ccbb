"""Histograms of one number per task, with a limit that falls between two bars."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metapac._types import Array, Floats
from metapac.report.drawing import GOOD, WARN, Chart, draw, make_axis, make_rule

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
    """Draw how many tasks have which value.

    Parameters
    ----------
    values : ndarray of float, shape (tasks,)
        The values.
    title : str
        What they are.
    noun : str
        What tasks are called.
    label : str
        What the chart shows.
    limit : float, optional
        A limit, from which bars have another colour. A task exactly at the limit is within it.
    step : float, default 0.0
        How far apart values are; narrower bars would leave gaps.

    Returns
    -------
    Chart
        The chart.
    """
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
    """Return the edges of at most about 24 bars.

    Parameters
    ----------
    values : ndarray of float
        The values.
    limit : float or None
        If given, 0 and the limit are edges.
    step : float
        How far apart values are.

    Returns
    -------
    ndarray of float
        The edges, in ascending order.
    """
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
    """Return how many values are in each bar.

    Parameters
    ----------
    values : ndarray of float
        The values.
    edges : ndarray of float
        The edges of the bars. A value at an edge belongs to the bar on its left.

    Returns
    -------
    list of int
        The numbers.
    """
    place = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)
    counts: list[int] = np.bincount(place, minlength=len(edges) - 1).tolist()
    return counts
