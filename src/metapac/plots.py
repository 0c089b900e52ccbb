"""Figures of plans, evaluations, monitors, explorations and sets. Needs the extra ``plot``."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac._common import Array, Counts, PathLike, require
from metapac._text import inflect, visible
from metapac.artefact import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from metapac.evaluation import Evaluation
    from metapac.exploration import Cell, Estimate, Exploration
    from metapac.monitoring import Monitor
    from metapac.planning import Curve

__all__ = ["draw_evaluation", "draw_needs"]

INK, LIMIT = "#222222", "#c0392b"
GRID: dict[str, Any] = {"color": "#dddddd", "linewidth": 0.6}
LIMIT_LINE: dict[str, Any] = {"color": LIMIT, "linewidth": 1, "linestyle": "--"}
COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#8172b3", "#937860", "#64b5cd")
_LINES = ("-", "--", ":")
_NAMED_TASKS = 40  # tasks whose names fit under an axis
_NAMED_CLASSES = 20
_NAMED_BATCHES = 12  # batches whose names fit above the axes
_POINTS = 1_000  # of a long curve
_PANELS = 4  # classes in the figure of an exploration, the rarest ones


def create_figure(
    columns: int, *, width: float, height: float, rows: int = 1
) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure that needs no GUI backend, and its axes, open on the top and right."""
    module = require("matplotlib.figure", extra="plot", purpose="a figure")
    figure = module.Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=rows > 1, sharey=rows > 1, squeeze=False)
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes.ravel().tolist()


def save(figure: Figure, path: PathLike | None) -> Figure:
    """Return a figure, and write it to a path if given; equal figures give equal SVG files."""
    if path is not None:
        import matplotlib

        extension = Path(path).suffix.removeprefix(".") or "png"
        metadata = {"Date": None} if extension == "svg" else None
        reproducible = matplotlib.rc_context({"svg.hashsalt": "metapac"})
        with replacing(path, binary=True) as file, reproducible:
            figure.savefig(file, dpi=150, format=extension, metadata=metadata)
    return figure


def format_percent(fraction: float, _place: float = 0) -> str:
    """Return the label of a tick in percent, with the digits that it needs."""
    return f"{100 * fraction:.4g}%"


def draw_grid(axes: Axes) -> None:
    """Draw horizontal lines behind the data."""
    axes.grid(axis="y", **GRID)
    axes.set_axisbelow(True)


def draw_evaluation(evaluation: Evaluation, *, path: PathLike | None = None) -> Figure:
    """Draw the miss rate of each task with its interval, the set sizes, and the classes.

    Parameters
    ----------
    evaluation : Evaluation
        What ``evaluate`` returned.
    path : path-like, optional
        File to write.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> from metapac import PS, evaluate
    >>> from metapac.plots import draw_evaluation
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> evaluation = evaluate(promise, [0.9, 0.5, 0.0, 0.7], ["a", "a", "b", "b"])
    >>> [axes.get_ylabel() for axes in draw_evaluation(evaluation).axes]
    ['miss rate']
    """
    panels = [_draw_task_errors]
    panels += [_draw_set_sizes] * (evaluation.sets is not None)
    panels += [_draw_class_errors] * (evaluation.classes is not None)
    figure, axes = create_figure(len(panels), width=3.2 + 3.6 * len(panels), height=4.2)
    if (grid := axes[0].get_gridspec()) is not None:
        grid.set_width_ratios([1.8, *[1.0] * (len(panels) - 1)])
    for draw, ax in zip(panels, axes, strict=True):
        draw(ax, evaluation)
        draw_grid(ax)
    if evaluation.verdict is not None:
        title = f"guarantee: {evaluation.verdict.status}"
        for worst in evaluation.neglected[:1]:  # the class that the verdict hides
            title += f" (class {_plain(worst.label)}: {worst.error:.0%} missed)"
        figure.suptitle(title, fontsize=11)
    return save(figure, path)


def _draw_task_errors(axes: Axes, evaluation: Evaluation) -> None:
    """Draw the tasks in ascending order of their miss rate, in one colour for each class."""
    parts = evaluation.by_class or {None: evaluation}
    for (label, part), colour in zip(parts.items(), cycle(COLOURS), strict=False):
        order = np.argsort(part.errors, kind="stable")
        ends = [column[order] for column in (part.errors, part.low, part.high)]
        size, width, opacity = (2, 0.5, 0.35) if len(order) > 100 else (4, 1, 1.0)
        look: dict[str, Any] = {"color": colour, "ecolor": (colour, opacity), "markersize": size}
        name, limit = (None, LIMIT) if label is None else (_plain(label), colour)
        draw_intervals(axes, np.arange(len(order)), *ends, label=name, linewidth=width, **look)
        axes.axhline(part.epsilon, **LIMIT_LINE | {"color": limit})
    axes.plot([], [], "--", color=LIMIT if evaluation.by_class is None else INK, label="epsilon")
    axes.set(ylabel=evaluation._words.rate, xlabel="tasks, in ascending order", ylim=(0, None))
    axes.yaxis.set_major_formatter(format_percent)
    if len(parts) <= len(COLOURS):
        axes.legend(loc="upper left", fontsize=8)
    if evaluation.by_class is None:
        _name_positions(axes, evaluation.tasks[order].tolist())
    else:
        axes.set(xlabel="tasks, in ascending order for each class", xticks=[])


def draw_intervals(
    axes: Axes, at: Array, error: Array, low: Array, high: Array, *, marker: str = "o", **look: Any
) -> None:
    """Draw miss rates with their exact intervals."""
    axes.errorbar(at, error, np.maximum([error - low, high - error], 0), fmt=marker, **look)


def _draw_set_sizes(axes: Axes, evaluation: Evaluation) -> None:
    """Draw the shares of empty, single, full and other sets."""
    shares = evaluation.set_shares or {}
    others = max(0.0, 1 - sum(shares.values()))
    bars = {"empty": 0.0, "single": 0.0, "others": others, "full": 0.0} | shares
    drawn = axes.bar([*bars], [*bars.values()], color=COLOURS[0])
    axes.bar_label(drawn, [f"{share:.1%}" for share in bars.values()], fontsize=8)
    axes.set(ylabel="share of sets", ylim=(0, 1.08))
    axes.yaxis.set_major_formatter("{x:.0%}")


def _draw_class_errors(axes: Axes, evaluation: Evaluation) -> None:
    """Draw the miss rate of each class with its interval; of many, those missed most."""
    classes = [part for part in evaluation.classes or () if part.examples]
    if len(classes) > _NAMED_CLASSES:
        classes = sorted(classes, key=lambda part: -part.low)[:_NAMED_CLASSES]
        axes.set_xlabel("the classes missed most")
    at, epsilon = np.arange(len(classes)), evaluation.epsilon
    limits = [epsilon[p.label] if isinstance(epsilon, Mapping) else epsilon for p in classes]
    ends = np.array([(p.error, p.low, p.high) for p in classes]).reshape(-1, 3)
    above = np.array([p.is_above(limit) for p, limit in zip(classes, limits, strict=True)], bool)
    for colour, some in ((COLOURS[0], ~above), (LIMIT, above)):  # red: hardly by chance
        if some.any():
            draw_intervals(axes, at[some], *ends[some].T, color=colour, clip_on=False)
    axes.hlines(limits, at - 0.5, at + 0.5, **LIMIT_LINE)
    axes.set(ylabel="miss rate of the class", xlim=(-0.7, len(classes) - 0.3), ylim=(0, 1.03))
    axes.yaxis.set_major_formatter("{x:.0%}")
    _name_positions(axes, [part.label for part in classes])


def _name_positions(axes: Axes, names: Sequence[Any]) -> None:
    """Write the names under their positions if they fit."""
    if len(names) <= _NAMED_TASKS:
        texts = [_plain(name) for name in names]
        flat = sum(len(text) + 2 for text in texts) <= 30
        angle: dict[str, Any] = {} if flat else {"rotation": 90, "fontsize": 7}
        axes.set_xticks(range(len(texts)), texts, **angle)


def _plain(name: object) -> str:
    """Return a name of at most 18 characters, without markup."""
    text = str(name)
    return (text if len(text) <= 18 else text[:17] + "…").replace("$", r"\$")


def draw_needs(curves: Mapping[str, Curve], *, title: str, path: PathLike, mark: float) -> None:
    """Draw the minimum tasks and examples per task as functions of one parameter.

    Parameters
    ----------
    curves : mapping from str to Curve
        A curve for each split, all of the same parameter.
    title : str
        Title of the figure.
    path : path-like
        File to write.
    mark : float
        Value of the parameter to mark.

    Examples
    --------
    >>> from metapac import plan
    >>> from metapac.plots import draw_needs
    >>> curve = plan(epsilon=0.1, alpha=0.2, delta=0.1).curve("alpha", [0.1, 0.2, 0.3])
    >>> draw_needs({"joint": curve}, title="Needs", path="needs.svg", mark=0.2)
    """
    figure, panels = create_figure(2, width=10, height=4.2)
    parameter = next(iter(curves.values())).parameter
    is_split = parameter == "split"
    for axes, name in zip(panels, ("tasks", "examples_per_task"), strict=True):
        for (split, curve), style in zip(curves.items(), cycle(_LINES), strict=False):
            axes.plot(curve.values, getattr(curve, name), style, linewidth=2, label=split)
        axes.axvline(mark, color=LIMIT, linewidth=1)
        axes.set(xscale="linear" if is_split else "log", yscale="log")
        axes.set_xlabel("alpha within tasks" if is_split else parameter)
        axes.set_ylabel(f"minimum {name.replace('_', ' ')}")
        for axis in (axes.yaxis, axes.xaxis) if parameter != "delta" else (axes.yaxis,):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:e}"[0] in "25" else "")
        axes.grid(which="both", **GRID)
    if len(curves) > 1:
        panels[0].legend(title="split", frameon=False)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def draw_monitor(monitor: Monitor, *, path: PathLike | None = None) -> Figure:
    """Draw the wealth and the bounds of the share of violated tasks after each task."""
    figure, (wealth, share) = create_figure(2, width=10.5, height=4.0)
    units = inflect(visible(monitor.terms.unit))[1]
    draw_wealth(wealth, monitor)
    draw_share(share, monitor)
    share.set_ylabel(f"share of {units} above epsilon", parse_math=False)
    for axes in (wealth, share):
        axes.set_xlabel(f"{units} counted", parse_math=False)
        axes.margins(x=0.02)
        axes.locator_params(axis="x", integer=True)
        _mark_batches(axes, monitor)
    figure.suptitle(f"guarantee: {monitor.status}", fontsize=11)
    return save(figure, path)


def thin_out(length: int, keep: int) -> Counts:
    """Return at most about 1,000 places of a sequence: its ends, and one that is always kept."""
    some = np.linspace(0, length - 1, min(length, _POINTS)).round().astype(np.int64)
    return np.union1d(some, min(keep, length - 1))


def _read_course(monitor: Monitor, names: Sequence[str]) -> tuple[Counts, list[Array]]:
    """Return some steps, the one of the alarm among them, and what was known after each."""
    course = monitor.course
    alarm = 0 if monitor.alarm is None else course.index(monitor.alarm) + 1
    at = thin_out(len(course) + 1, keep=alarm)
    steps = [course[i - 1] for i in at.tolist() if i]
    start = {"wealth": 1.0, "lower": 0.0, "upper": 1.0}  # before the first task
    return at, [np.array([start[k], *(getattr(step, k) for step in steps)]) for k in names]


def draw_wealth(axes: Axes, monitor: Monitor) -> None:
    """Draw the wealth of the bets against a guarantee, and where there is an alarm."""
    at, (values,) = _read_course(monitor, ["wealth"])
    axes.step(at, values, where="post", color=COLOURS[0])
    _draw_limit(axes, monitor.terms.limit, "alarm")
    if monitor.alarm is not None:
        axes.plot(monitor.course.index(monitor.alarm) + 1, monitor.alarm.wealth, "o", color=LIMIT)
    for step in monitor.ambers:
        axes.plot(monitor.course.index(step) + 1, step.wealth, ".", color=COLOURS[1])
    ends = min(float(values.min()) / 2, 0.05), 3 * max(float(values.max()), monitor.terms.limit)
    axes.set(ylabel="wealth of bets against the guarantee", yscale="log", ylim=ends)


def draw_share(axes: Axes, monitor: Monitor) -> None:
    """Draw the bounds of the share of tasks above epsilon, and what is allowed."""
    at, (lower, upper) = _read_course(monitor, ["lower", "upper"])
    axes.fill_between(at, lower, upper, step="post", color=COLOURS[0], alpha=0.25, linewidth=0)
    for bound in (lower, upper):
        axes.step(at, bound, where="post", color=COLOURS[0], linewidth=1)
    _draw_limit(axes, monitor.terms.alpha, "alpha")
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter("{x:.0%}")


def _draw_limit(axes: Axes, height: float, name: str) -> None:
    """Draw a limit with its name at the right end."""
    axes.axhline(height, **LIMIT_LINE)
    place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "bottom"}
    axes.text(0.99, height, name, color=LIMIT, fontsize="small", **place)


def _mark_batches(axes: Axes, monitor: Monitor) -> None:
    """Mark where a batch begins, with its name if there are few."""
    batches = [None, *(step.batch for step in monitor.course)]
    starts = [i for i, name in enumerate(batches[1:]) if name not in (None, batches[i])]
    for i in starts:
        axes.axvline(i, color=INK, linewidth=0.5, alpha=0.3)
        if len(starts) <= _NAMED_BATCHES:
            name = textwrap.shorten(visible(str(batches[i + 1])), 18, placeholder="...")
            place = axes.get_xaxis_transform()
            axes.text(i, 1.01, f" {name}", fontsize=7, transform=place, parse_math=False)


def draw_pilot(exploration: Exploration, path: PathLike) -> None:
    """Draw the set size, and the misses of some classes, against epsilon."""
    cells, shares = exploration.cells, exploration.prevalence
    rarest = sorted(shares, key=shares.__getitem__)[:_PANELS]
    shown = [label for label in shares if label in rarest]
    width = 3.4 * (1 + len(shown))
    figure, (sizes, *misses) = create_figure(1 + len(shown), width=width, height=3.6)
    _draw_estimates(sizes, cells, [cell.size for cell in cells])
    what = "mean set size" if shares else "mean width of intervals"
    sizes.set_title(f"{what} over tasks", fontsize=10)
    sizes.legend(frameon=False, fontsize=8)
    for label, axes in zip(shown, misses, strict=True):
        _draw_estimates(axes, cells, [cell.missed[label] for cell in cells])
        limit = axes.axline((0, 0), slope=1, label="epsilon", **LIMIT_LINE | {"linestyle": ":"})
        axes.legend(handles=[limit], frameon=False, fontsize=8, loc="upper left")
        name = textwrap.shorten(visible(str(label)), 30, placeholder="...")
        title = f"missed among {name}\n({shares[label]:.1%} of examples)"
        axes.set_title(title, fontsize=10, parse_math=False)
    save(figure, path)


def _draw_estimates(axes: Axes, cells: Sequence[Cell], estimates: Sequence[Estimate]) -> None:
    """Draw estimates against epsilon: a colour for each alpha, dashes for ``per_class``."""
    lines: dict[tuple[bool, float], list[tuple[float, ...]]] = {}
    for cell, estimate in zip(cells, estimates, strict=True):
        lines.setdefault((cell.per_class, cell.alpha), []).append((cell.epsilon, *estimate))
    alphas = [*dict.fromkeys(cell.alpha for cell in cells)]
    for (per_class, alpha), points in lines.items():
        epsilons, values, low, high = zip(*points, strict=True)
        colour, name = f"C{alphas.index(alpha)}", f"alpha {alpha:g}" + ", per class" * per_class
        axes.plot(epsilons, values, "o--" if per_class else "o-", ms=3, label=name, color=colour)
        axes.fill_between(epsilons, low, high, alpha=0.12, linewidth=0, color=colour)
    axes.set(xlabel="epsilon", xlim=(0, None), ylim=(0, None))
