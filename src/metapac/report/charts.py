"""Charts of a report: Matplotlib's SVG without names from the data, which the page writes."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from metapac import plots
from metapac._common import Array, Counts, Floats, require
from metapac.evaluation import Evaluation
from metapac.monitoring import Monitor
from metapac.verdict import are_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SINGLE = 60  # tasks that are drawn one by one
_WIDTH, _HEIGHT = 340, 220  # one column on a phone, two on a desk and on paper
_BINS = 24
_GOOD, _WARN = plots.COLOURS[:2]
_CLASSES = {plots.INK: "ink", plots.LIMIT: "bad", plots.GRID["color"]: "line"}
_CLASSES |= {_GOOD: "good", _WARN: "warn"}
_STYLE: dict[str, Any] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "metapac",
    "font.size": 11,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "lines.linewidth": 2,
} | dict.fromkeys(
    ["text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"], plots.INK
)
_REFERENCE = re.compile(r"#([\w-]+)")


class Chart(NamedTuple):
    """The inside of an SVG, and its size; the page adds what it shows in words."""

    name: str
    body: str
    width: int = _WIDTH
    height: int = _HEIGHT


def draw(name: str, paint: Callable[[Axes], None]) -> Chart:
    """Draw a chart whose ids start with its name; the same data give the same text."""
    style = require("matplotlib.style", extra="report", purpose="a report")
    file = io.BytesIO()
    with style.context(["default", _STYLE]):
        figure, (axes,) = plots.create_figure(1, width=_WIDTH / 72, height=_HEIGHT / 72)
        paint(axes)
        plots.draw_grid(axes)
        figure.savefig(file, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    for parent in root.iter():
        for child in [*parent]:
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        _adapt(element, name)
    return Chart(name, "".join(ElementTree.tostring(child, "unicode") for child in root))


def _adapt(element: ElementTree.Element, name: str) -> None:
    """Make ids unique in the page, and colours classes; the page allows no inline styles."""
    element.tag = element.tag.rpartition("}")[2]
    given = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    element.attrib.clear()
    classes = []
    given |= _declarations(given.pop("style", ""))
    for key, value in given.items():
        if key in ("fill", "stroke") and value != "none":
            classes.append(f"{key}-{_CLASSES[value]}")
        elif key == "id":
            if element.tag != "g":  # groups are not referred to
                element.set(key, f"{name}-{value}")
        else:
            element.set(key, _REFERENCE.sub(rf"#{name}-\1", value))
    if classes:
        element.set("class", " ".join(classes))


def _declarations(style: str) -> dict[str, str]:
    pairs = (part.split(":") for part in style.split(";") if part.strip())
    return {key.strip(): value.strip() for key, value in pairs}


def draw_errors(part: Evaluation, name: str) -> Chart:
    """Draw the miss rate of each task with its interval; of many tasks, how often each occurs."""
    errors, epsilon = part.errors, float(part.epsilon)
    if len(errors) > SINGLE:
        step = 1 / float(np.median(part.examples))
        return draw(name, lambda axes: _paint_histogram(axes, errors, epsilon, step))
    order = np.lexsort((part.high, errors))
    kinds = find_kinds(part)[order]
    rows = np.stack([errors, part.low, part.high], axis=1)[order]  # (tasks, 3)
    colours = (_GOOD, _WARN, plots.LIMIT)

    def paint(axes: Axes) -> None:
        for kind, (marker, colour) in enumerate(zip("oD^", colours, strict=True)):
            at = np.flatnonzero(kinds == kind)
            look: dict[str, Any] = {"color": colour, "markersize": 5, "elinewidth": 1.5}
            plots.draw_intervals(axes, at + 1, *rows[at].T, marker=marker, **look)
        axes.axhline(epsilon, **plots.LIMIT_LINE)
        top = 1.08 * max(epsilon, float(part.high.max()))
        axes.set(ylim=(0, min(1.02, top)), xlim=(0, len(rows) + 1))
        axes.yaxis.set_major_formatter(plots.format_percent)
        axes.locator_params(axis="x", integer=True)

    return draw(name, paint)


def find_kinds(part: Evaluation) -> Counts:
    """Return 0 for a task within the limit, 1 for one above it, 2 if that is hardly by chance."""
    above = are_above(part.examples, part.missed, float(part.epsilon))
    return np.where(part.errors <= part.epsilon, 0, np.where(above, 2, 1))


def draw_values(values: Floats, name: str) -> Chart:
    """Draw one number of each task, such as its mean set size."""

    def paint(axes: Axes) -> None:
        axes.plot(np.arange(1, len(values) + 1), np.sort(values), "o", color=_GOOD, markersize=5)
        axes.set(ylim=(0, 1.08 * float(values.max()) or 1), xlim=(0, len(values) + 1))
        axes.locator_params(axis="x", integer=True)

    return draw(name, paint if len(values) <= SINGLE else lambda a: _paint_histogram(a, values))


def _paint_histogram(
    axes: Axes, values: Floats, limit: float | None = None, step: float = 0.0
) -> None:
    """Draw how many tasks have which value; those above the limit in another colour."""
    edges = find_edges(values, limit, step)
    counts = count_between(values, edges)
    colours = [_GOOD if limit is None or low < limit else _WARN for low in edges[:-1].tolist()]
    axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=colours)
    if limit is not None:
        axes.axvline(limit, **plots.LIMIT_LINE)
        axes.xaxis.set_major_formatter(plots.format_percent)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="y", integer=True)


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
    """Return how many values are in each bar; a value at an edge belongs to the lower one."""
    place = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)
    counts: list[int] = np.bincount(place, minlength=len(edges) - 1).tolist()
    return counts


def draw_thresholds(thresholds: Floats, cut: float, rank: int, name: str) -> Chart:
    """Draw the thresholds of all tasks in ascending order, and the one that was chosen."""
    ordered = np.sort(thresholds)
    shown = plots.thin_out(len(ordered), keep=rank - 1)
    shown = shown[np.isfinite(ordered[shown])]

    def paint(axes: Axes) -> None:
        mark = "o" if len(ordered) <= SINGLE else "-"
        axes.plot(shown + 1, ordered[shown], mark, color=_GOOD, markersize=4)
        axes.axhline(cut, **plots.LIMIT_LINE)
        ring: dict[str, Any] = {"markersize": 11, "markeredgewidth": 2, "markerfacecolor": "none"}
        axes.plot(rank, cut, "o", color=plots.LIMIT, clip_on=False, **ring)
        axes.set_xlim(0, len(ordered) + 1)
        axes.locator_params(axis="x", integer=True)

    return draw(name, paint)


def draw_course(monitor: Monitor) -> list[Chart]:
    """Draw the course of a monitor: its evidence, and bounds of the share above epsilon."""

    def paint(axes: Axes, draw_panel: Callable[[Axes, Monitor], None]) -> None:
        draw_panel(axes, monitor)
        axes.set_ylabel("")
        axes.locator_params(axis="x", integer=True)

    return [
        draw("wealth", lambda axes: paint(axes, plots.draw_wealth)),
        draw("share", lambda axes: paint(axes, plots.draw_share)),
    ]
