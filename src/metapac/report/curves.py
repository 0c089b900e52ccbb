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

    def panel(name: str, values: Floats, width: int, *, last: bool) -> dict[str, Any]:
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

    def build(width: int) -> dict[str, Any]:
        names = [*curves]
        panels = [panel(n, curves[n], width - 60, last=n == names[-1]) for n in names]
        return {"vconcat": panels, "spacing": 14}

    return draw(build, label)


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
    last = [0.0, len(wealth) + 1.0]

    def build(width: int) -> dict[str, Any]:
        top = make_axis("wealth", "evidence against", form="~g")
        top["scale"] = {"type": "log", "domain": [1e-3, max(2 * alarm, float(wealth.max()))]}
        top["scale"] |= {"clamp": True}
        ends = {"y": make_axis("low", "share above", form=".0%", domain=[0, 1])}
        x = make_axis("step", None, domain=last)
        below = make_axis("step", f"{unit}, in the order of the monitor", domain=last)
        area = {"type": "area", "color": GOOD, "opacity": 0.35}
        return {
            "data": {"values": data},
            "spacing": 14,
            "vconcat": [
                {
                    "width": width - 60,
                    "height": 150,
                    "layer": [
                        {
                            "mark": {"type": "line", "color": GOOD, "strokeWidth": 2.5},
                            "encoding": {"x": x, "y": top},
                        },
                        make_rule("y", alarm),
                    ],
                },
                {
                    "width": width - 60,
                    "height": 120,
                    "layer": [
                        {"mark": area, "encoding": {"x": below, **ends, "y2": {"field": "high"}}},
                        make_rule("y", alpha),
                    ],
                },
            ],
        }

    return draw(build, label)
