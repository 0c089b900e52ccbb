"""Charts against another axis than the tasks: other limits, and the course of a monitor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metapac._types import Floats
from metapac.monitoring.betting import reaches
from metapac.report.drawing import GOOD, LINE, Chart, draw, make_axis, make_rule, thin_out


def draw_curves(epsilons: Sequence[float], curves: Mapping[str, Floats], label: str) -> Chart:
    """Draw some numbers against epsilon, one panel below the other.

    The n-th point of each panel is the n-th path of a group whose class starts with ``points``.

    Parameters
    ----------
    epsilons : sequence of float
        The miss rates.
    curves : mapping from str to ndarray of float
        The numbers by name; a name that ends in "%" is shown in percent.
    label : str
        What the chart shows.

    Returns
    -------
    Chart
        The chart.
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

    Parameters
    ----------
    wealth : ndarray of float, shape (steps,)
        Wealth after each task.
    low, high : ndarray of float, shape (steps,)
        Bounds on the share of tasks above epsilon.
    alarm : float
        Wealth at which the alarm is raised.
    alpha : float
        Share that is allowed.
    unit : str
        What tasks are called.
    label : str
        What the chart shows.

    Returns
    -------
    Chart
        The chart.
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
