"""Error and size of each method, drawn as boxes over new tasks."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac._common import Array
from metapac.errors import InvalidInput
from metapac.fewshot.study.methods import describe_need
from metapac.fewshot.study.rows import Rows
from metapac.guarantee import Guarantee
from metapac.plots import INK, LIMIT, create_figure, draw_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# After Okabe and Ito: distinguishable with any colour vision.
COLOURS = {
    "PS": "#e69f00",
    "PS-Test": "#cc79a7",
    "Meta-CP": "#d55e00",
    "Meta-PS even": "#56b4e9",
    "Meta-PS tight": "#3a86c8",
    "Meta-PS joint": "#009e73",
    "oracle": "#bbbbbb",
}
PER_TASK = "box: quartiles; circle: mean; whiskers: "
_OTHER, _FAINT = "#dddddd", "#555555"
_MEAN = {"marker": "o", "markersize": 4, "markerfacecolor": "white", "markeredgecolor": INK}
_MEDIAN = {"color": INK, "linewidth": 1.5}
_BOXES: Any = {"boxprops": {"edgecolor": INK}, "medianprops": _MEDIAN, "meanprops": _MEAN}
_BOXES |= {"showmeans": True, "showfliers": False, "patch_artist": True, "manage_ticks": False}
_SUFFIX = {1.0: "st", 2.0: "nd", 3.0: "rd"}
_LINE, _FEW = 11, 7  # letters in a line below a column; columns that leave room for large ones
_BEYOND = 1.5  # the scale of sizes ends at this multiple of the largest box of a useful method


def draw_methods(
    rows: Rows,
    guarantee: Guarantee,
    panels: Sequence[str] = ("error", "size"),
    *,
    title: str | None = None,
    inches: tuple[float, float] | None = None,
    fit: bool = False,
) -> Figure:
    """Return a figure of the error, the size or both of each method at the guarantee's delta.

    With ``fit``, the scale suits methods whose sets are of use, and larger sizes are marked.
    """
    methods = select_delta(rows, guarantee.failure_probability)
    width, height = inches or (max(11.0, 1.57 * len(methods)), 4.6)
    figure, axes = create_figure(len(panels), width=width, height=height)
    draw = {"error": _draw_errors, "size": _draw_sizes}
    for ax, panel in zip(axes, panels, strict=True):
        draw[panel](ax, methods, guarantee, fit)
    if title is not None:
        figure.suptitle(title, fontsize=11)
    return figure


def select_delta(rows: Rows, delta: float) -> list[Rows]:
    """Return the rows of each method at one delta."""
    methods = [rows.select(name, d) for name, d in rows.methods() if d == delta]
    if not methods:
        raise InvalidInput(f"rows hold no method at delta={delta:g}. Pass the guarantee of rows.")
    return methods


def _draw_errors(axes: Axes, methods: Sequence[Rows], guarantee: Guarantee, fit: bool) -> None:
    draw_limit(axes, guarantee.miss_rate)
    _draw_columns(axes, methods, [rows.error for rows in methods], choose_whiskers(guarantee))
    if fit:
        _clear_top(axes)
    axes.set_ylabel("error on a new task")
    above = [float(np.mean(rows.error > guarantee.miss_rate)) for rows in methods]
    red = f"\nred: below 1 - alpha = {1 - guarantee.alpha:.4g}"
    note = PER_TASK + describe_whiskers(guarantee) + (red if max(above) > guarantee.alpha else "")
    _label(axes, note, "tasks within\nepsilon:")
    for i, (rows, share) in enumerate(zip(methods, above, strict=True), start=1):
        _write_above(axes, i, f"{1 - share:.1%}", LIMIT if share > guarantee.alpha else INK)
        if text := describe_shortage(rows, guarantee):
            top = float(np.quantile(rows.error, 1 - guarantee.alpha))
            _write_along(axes, i, top, text, up=True)


def _draw_sizes(axes: Axes, methods: Sequence[Rows], guarantee: Guarantee, fit: bool) -> None:
    _draw_columns(axes, methods, [rows.size for rows in methods], (0, 100))
    beyond = _fit_sizes(axes, methods) if fit else ""
    axes.set_ylabel("mean set size on a new task")
    _label(axes, PER_TASK + "smallest and largest task" + beyond, "mean:")
    for i, rows in enumerate(methods, start=1):
        _write_above(axes, i, f"{np.mean(rows.size):.2f}", INK)
        text = describe_shortage(rows, guarantee)
        if text or (fit and is_full(rows).all()):
            place = min(float(np.min(rows.size)), axes.get_ylim()[1])
            _write_along(axes, i, place, text or "keeps every label", up=False)


def is_full(rows: Rows) -> Array:
    """Return on which tasks every set is known to have every label."""
    return (rows.labels > 0) & (rows.size >= rows.labels)


def _fit_sizes(axes: Axes, methods: Sequence[Rows]) -> str:
    """End the scale above the boxes of tasks with useful sets; mark what is beyond, and say so."""
    useful = [rows.size[rows.feasible & ~is_full(rows)] for rows in methods]
    boxes = [np.percentile(sizes, 75) for sizes in useful if len(sizes)]
    most = [float(np.max(rows.size)) for rows in methods]
    top = _BEYOND * float(max(boxes, default=max(most)))
    if max(most) > 1.2 * top:
        axes.set_ylim(-0.015 * top, top)
    _clear_top(axes)
    far = [i for i, size in enumerate(most, start=1) if size > axes.get_ylim()[1]]
    if not far:
        return ""
    style: dict[str, Any] = {"marker": "^", "color": INK, "linestyle": "none", "clip_on": False}
    axes.plot(far, [1.0] * len(far), transform=axes.get_xaxis_transform(), **style)
    return f"\ntriangle: beyond the scale, up to {max(most):.4g}"


def _clear_top(axes: Axes) -> None:
    """Raise the scale if its last tick would touch the text above the axes."""
    bottom, top = axes.get_ylim()
    last = max(tick for tick in axes.get_yticks() if tick <= top)
    if last > 0.94 * top:
        axes.set_ylim(bottom, last / 0.92)


def choose_whiskers(guarantee: Guarantee) -> tuple[float, float]:
    """Return the percentiles alpha and 1 - alpha: the upper one is what a guarantee bounds.

    Those of a large alpha would lie inside the box; 10 and 90 are then shown.
    """
    percent = round(100 * guarantee.alpha, 9) if guarantee.alpha < 0.25 else 10.0
    return percent, 100 - percent


def describe_whiskers(guarantee: Guarantee) -> str:
    """Return in words where the whiskers of errors end."""
    low, high = (f"{end:g}{_SUFFIX.get(end, 'th')}" for end in choose_whiskers(guarantee))
    return f"{low} and {high} percentile of tasks"


def draw_boxes(
    axes: Axes,
    values: Sequence[Array],
    *,
    whiskers: tuple[float, float],
    colours: Sequence[str],
    positions: Sequence[float] | None = None,
    width: float = 0.55,
) -> None:
    """Draw a box for each sample, with a circle at its mean; ticks are left to the caller."""
    # boxplot() would end a whisker at the last value within the percentile, which is shorter.
    names, places = ("whislo", "q1", "med", "q3", "whishi"), [whiskers[0], 25, 50, 75, whiskers[1]]
    samples = [
        dict(zip(names, np.percentile(sample, places), strict=True), mean=np.mean(sample))
        for sample in values
    ]
    drawn = axes.bxp(samples, positions=positions, widths=width, **_BOXES)
    for box, colour in zip(drawn["boxes"], colours, strict=True):
        box.set_facecolor(colour)
    draw_grid(axes)


def _draw_columns(
    axes: Axes, methods: Sequence[Rows], values: Sequence[Array], whiskers: tuple[float, float]
) -> None:
    names = [str(rows.method[0]) for rows in methods]
    draw_boxes(axes, values, whiskers=whiskers, colours=[COLOURS.get(n, _OTHER) for n in names])
    lines = [fill(name, _LINE, break_long_words=False) for name in names]
    axes.set_xticks(range(1, len(names) + 1), lines, fontsize=10 if len(names) <= _FEW else 8)
    axes.set_xlim(0.4, len(names) + 0.6)
    start_at_zero(axes)


def describe_shortage(rows: Rows, guarantee: Guarantee) -> str:
    """Return what a method lacks if it kept every label because there were too few data."""
    if rows.feasible.all():
        return ""
    where = f" on {np.mean(~rows.feasible):.0%} of tasks" if rows.feasible.any() else ""
    need = describe_need(guarantee, str(rows.method[0]), float(rows.delta[0]))
    return f"keeps every label{where}" + ("" if need is None else f": needs {need}")


def draw_limit(axes: Axes, epsilon: float) -> None:
    """Draw epsilon as a line, with its name outside the axes."""
    axes.axhline(epsilon, color=LIMIT, linestyle="--", linewidth=1.2)
    where = axes.get_yaxis_transform()
    axes.text(1.005, epsilon, f"epsilon\n= {epsilon:g}", color=LIMIT, va="center", transform=where)


def start_at_zero(axes: Axes) -> None:
    """Start the scale just below 0, so that a flat box at 0 is visible."""
    top = axes.get_ylim()[1]
    axes.set_ylim(-0.015 * top, top)


def _label(axes: Axes, below: str, before: str) -> None:
    """Say below the axes what is drawn, and left of them what the numbers above them are."""
    axes.set_xlabel(below, fontsize=8.5, color=_FAINT)
    axes.text(-0.01, 1.02, before, color=INK, ha="right", fontsize=9, transform=axes.transAxes)


def _write_above(axes: Axes, x: float, text: str, colour: str) -> None:
    """Write a number above a column, outside the axes."""
    where = axes.get_xaxis_transform()
    axes.text(x, 1.02, text, color=colour, ha="center", va="bottom", fontsize=9, transform=where)


def _write_along(axes: Axes, x: float, y: float, text: str, *, up: bool) -> None:
    """Explain a flat box by a text along its column, in two lines so that it fits."""
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    style: Any = {"rotation": 90, "ha": "center", "fontsize": 9, "color": _FAINT, "bbox": box}
    style |= {"va": "bottom" if up else "top", "textcoords": "offset points"}
    axes.annotate(text.replace(": ", ":\n", 1), (x, y), (0, 9 if up else -9), **style)
