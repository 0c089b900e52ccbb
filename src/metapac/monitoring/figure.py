"""The figure of a monitor: wealth against the alarm line, and the share of violated tasks."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac import plots
from metapac._types import PathLike
from metapac._visible import visible
from metapac.explanation.words import inflect

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from metapac.monitoring.monitor import Monitor

_BLUE = "#4c72b0"
_NAMED = 12  # batches whose names fit above the axes


def draw_monitor(monitor: Monitor, *, path: PathLike | None = None) -> Figure:
    """Draw the wealth and the bounds of the share of violated tasks after each task.

    Parameters
    ----------
    monitor : Monitor
        The monitor.
    path : path-like, optional
        File to write.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    figure, (wealth, share) = plots.create_figure(2, width=10.5, height=4.0)
    _draw_wealth(wealth, monitor)
    _draw_share(share, monitor)
    for axes in (wealth, share):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(f"{_units(monitor)} counted", parse_math=False)
        axes.margins(x=0.02)
        axes.locator_params(axis="x", integer=True)
        _mark_batches(axes, monitor)
    figure.suptitle(f"guarantee: {monitor.status}", fontsize=11)
    if path is not None:
        plots.save(figure, path)
    return figure


def _draw_wealth(axes: Axes, monitor: Monitor) -> None:
    values = np.array([1.0, *(step.wealth for step in monitor.course)])
    axes.step(np.arange(len(values)), values, where="post", color=_BLUE)
    _draw_limit(axes, monitor.terms.limit, "alarm")
    if monitor.alarm is not None:
        at = monitor.course.index(monitor.alarm) + 1
        axes.plot(at, monitor.alarm.wealth, "o", color=plots.LIMIT)
    axes.set_yscale("log")
    highest = max(float(values.max()), monitor.terms.limit)
    axes.set_ylim(min(float(values.min()) / 2, 0.05), 3 * highest)
    axes.set_ylabel("wealth of bets against the guarantee")


def _draw_share(axes: Axes, monitor: Monitor) -> None:
    at = np.arange(len(monitor.course) + 1)
    lower = np.array([0.0, *(step.lower for step in monitor.course)])
    upper = np.array([1.0, *(step.upper for step in monitor.course)])
    axes.fill_between(at, lower, upper, step="post", color=_BLUE, alpha=0.25, linewidth=0)
    for bound in (lower, upper):
        axes.step(at, bound, where="post", color=_BLUE, linewidth=1)
    _draw_limit(axes, monitor.terms.alpha, "alpha")
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_ylabel(f"share of {_units(monitor)} above epsilon", parse_math=False)


def _draw_limit(axes: Axes, height: float, name: str) -> None:
    """Draw a limit with its name at the right end."""
    axes.axhline(height, color=plots.LIMIT, linestyle="--", linewidth=1)
    place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "bottom"}
    axes.text(0.99, height, name, color=plots.LIMIT, fontsize=8, **place)


def _units(monitor: Monitor) -> str:
    return inflect(visible(monitor.terms.unit))[1]


def _mark_batches(axes: Axes, monitor: Monitor) -> None:
    """Mark where a batch begins, with its name if there are few."""
    named = [i for i, step in enumerate(monitor.course) if step.batch is not None]
    starts = [i for i in named if i == 0 or monitor.course[i - 1].batch != monitor.course[i].batch]
    for i in starts:
        axes.axvline(i, color=plots.INK, linewidth=0.5, alpha=0.3)
        if len(starts) <= _NAMED:
            place = axes.get_xaxis_transform()
            name = textwrap.shorten(visible(str(monitor.course[i].batch)), 18, placeholder="...")
            axes.text(i, 1.01, f" {name}", fontsize=7, transform=place, parse_math=False)
