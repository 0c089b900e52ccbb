"""Error and size of each method over new tasks as boxes, the paper's figures, images with sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac._common import Array, PathLike
from metapac.errors import InvalidInput
from metapac.fewshot.study.methods import SECOND_DELTA, describe_need
from metapac.fewshot.study.rows import Rows
from metapac.guarantee import Guarantee
from metapac.plots import INK, LIMIT, create_figure, draw_grid, save

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
    """Return a figure of the error, the size or both of each method at the guarantee's delta."""
    # With ``fit``, the scale suits methods whose sets are of use, and larger sizes are marked.
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
    """Return the percentiles alpha and 1 - alpha: the upper one is what a guarantee bounds."""
    # Those of a large alpha would lie inside the box; 10 and 90 are then shown.
    percent = round(100 * guarantee.alpha, 9) if guarantee.alpha < 0.25 else 10.0
    return percent, 100 - percent


def describe_whiskers(guarantee: Guarantee) -> str:
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
    where = axes.get_xaxis_transform()
    axes.text(x, 1.02, text, color=colour, ha="center", va="bottom", fontsize=9, transform=where)


def _write_along(axes: Axes, x: float, y: float, text: str, *, up: bool) -> None:
    """Explain a flat box by a text along its column, in two lines so that it fits."""
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    style: Any = {"rotation": 90, "ha": "center", "fontsize": 9, "color": _FAINT, "bbox": box}
    style |= {"va": "bottom" if up else "top", "textcoords": "offset points"}
    axes.annotate(text.replace(": ", ":\n", 1), (x, y), (0, 9 if up else -9), **style)


_LOOSE = "#f0e442"
_Series = tuple[Rows, str, str]  # the rows of one method, its name and colour in the figure
_META = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint")


def draw_figures(
    rows: Rows | Sequence[Rows], guarantee: Guarantee, folder: PathLike, *, title: str
) -> list[Path]:
    """Write figures (a) to (d) of the paper as PNG and SVG, for its methods and our splits."""
    makers: Any = (draw_error, draw_size, draw_error_per_set, draw_error_per_delta)
    figures = {make.__name__.removeprefix("draw_"): make for make in makers}
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder) / f"{name}.{kind}" for name in figures for kind in ("png", "svg")]
    table = rows if isinstance(rows, Rows) else _join_seeds(rows)
    table = table.take(np.isin(table.method, list(COLOURS)))
    for path in paths:
        figures[path.stem](table, guarantee, title=title, path=path)
    return paths


def _join_seeds(by_seed: Sequence[Rows]) -> Rows:
    """Return one table; the draws of a seed are numbered after those of the seed before."""
    parts: list[Rows] = []
    for rows in by_seed:
        first = int(parts[-1].draw.max()) + 1 if parts else 0
        parts.append(replace(rows, draw=rows.draw + first))
    return Rows.concatenate(parts)


def draw_error(rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike) -> None:
    """Draw figure (a): the error of each method over new tasks, and epsilon."""
    save(draw_methods(rows, guarantee, ("error",), title=title, inches=(9, 5)), path)


def draw_size(rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike) -> None:
    """Draw figure (b): the set size of each method over new tasks."""
    save(draw_methods(rows, guarantee, ("size",), title=title, inches=(9, 5)), path)


def draw_error_and_size(rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike) -> None:
    save(draw_methods(rows, guarantee, title=title, inches=(11, 4.6)), path)


def draw_error_per_set(
    rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike, sets: int = 20
) -> None:
    """Draw figure (c): error given each calibration set, Meta-PS beside Meta-CP."""
    own = guarantee.failure_probability
    panels = [[(meta, own), ("Meta-CP", own)] for meta in _META]
    _draw_per_set(rows, panels, "{}", guarantee, title, path, sets)


def draw_error_per_delta(
    rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike, sets: int = 20
) -> None:
    """Draw figure (d): error of Meta-PS given each calibration set, for two deltas."""
    deltas = sorted({SECOND_DELTA, guarantee.failure_probability})
    panels = [[(meta, delta) for delta in deltas] for meta in _META]
    _draw_per_set(rows, panels, "{}, delta = {:g}", guarantee, title, path, sets)


def _draw_per_set(
    rows: Rows, wanted: Any, label: str, guarantee: Guarantee, title: str, path: PathLike, sets: int
) -> None:
    """Draw a panel for each Meta-PS that was run at the guarantee's delta."""
    available, own = rows.methods(), guarantee.failure_probability
    chosen = [p for meta, p in zip(_META, wanted, strict=True) if (meta, own) in available]
    if not chosen:
        lack = f"{', '.join(_META)} at delta={own:g}"
        raise InvalidInput(f"rows hold none of {lack}: evaluate paper_methods(guarantee).")
    figure, stacked = create_figure(1, rows=len(chosen), width=11, height=0.8 + 2.7 * len(chosen))
    for axes, panel in zip(stacked, chosen, strict=True):
        series = [
            (rows.select(name, delta), label.format(name, delta), colour)
            for name, delta in panel
            for colour in [COLOURS[name] if delta == own else _LOOSE]
            if (name, delta) in available
        ]
        _draw_groups(axes, series, guarantee, sets)
        draw_limit(axes, guarantee.miss_rate)
        axes.set_ylabel("error on a new task")
    start_at_zero(stacked[0])
    stacked[-1].set_xlabel("calibration set")
    figure.suptitle(f"{title}\n{PER_TASK}{describe_whiskers(guarantee)}", fontsize=10)
    save(figure, path)


def _draw_groups(axes: Axes, panel: Sequence[_Series], guarantee: Guarantee, sets: int) -> None:
    """Draw a box for each series at each calibration set, side by side."""
    from matplotlib.patches import Patch

    width, handles, whiskers = 0.7 / len(panel), [], choose_whiskers(guarantee)
    numbers: list[int] = np.unique(panel[0][0].draw)[:sets].tolist()
    for j, (rows, name, colour) in enumerate(panel):
        errors = [rows.error[rows.draw == number] for number in numbers]
        places = np.arange(1, len(numbers) + 1) + (j - (len(panel) - 1) / 2) * width
        style: Any = {"colours": [colour] * len(numbers), "width": 0.8 * width}
        draw_boxes(axes, errors, whiskers=whiskers, positions=places.tolist(), **style)
        text = describe_shortage(rows, guarantee) or _count_zero(rows, numbers)
        label = f"{name} ({text})" if text else name
        handles.append(Patch(facecolor=colour, edgecolor=INK, label=label))
    axes.set_xticks(range(1, len(numbers) + 1), [str(number + 1) for number in numbers])
    axes.set_xlim(0.4, len(numbers) + 0.6)
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)


def _count_zero(rows: Rows, shown: Sequence[int]) -> str:
    """Return in how many sets a threshold of zero keeps every label although data suffice."""
    zero = sum(bool(np.all(rows.threshold[rows.draw == number] <= 0)) for number in shown)
    return f"keeps every label in {zero} of {len(shown)} sets: threshold zero" if zero else ""


def draw_images_with_sets(
    images: Array,
    labels: Sequence[int],
    sets: Array,
    names: Sequence[str],
    *,
    title: str,
    path: PathLike,
) -> None:
    """Draw images in two rows, each with its true label above and its prediction set below.

    An image whose set misses the true label is marked in red.

    Parameters
    ----------
    images : ndarray of uint8, shape (n, height, width)
    labels : sequence of int
        True label of each image.
    sets : ndarray of bool, shape (n, classes)
        Prediction set of each image.
    names : sequence of str
        Name of each class.
    title : str
        Title of the figure.
    path : path-like
        File to write.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from metapac.fewshot import draw_images_with_sets
    >>> images, sets = np.zeros((2, 4, 4), np.uint8), np.array([[True, False], [True, True]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/sets.svg"
    ...     draw_images_with_sets(images, [0, 1], sets, ["cat", "dog"], title="Sets", path=path)
    """
    columns = (len(images) + 1) // 2
    figure, axes = create_figure(columns, rows=2, width=1.15 * columns, height=3.6)
    for ax in axes:
        ax.axis("off")
    for ax, image, label, members in zip(axes, images, labels, sets, strict=False):
        ax.imshow(image, cmap="gray_r", vmin=0, vmax=255)
        inside = " ".join(names[j] for j in np.flatnonzero(members).tolist()) or "none"
        colour = INK if members[label] else LIMIT
        ax.set_title(names[label], fontsize=11, color=colour)
        below: dict[str, Any] = {"ha": "center", "va": "top", "transform": ax.transAxes}
        ax.text(0.5, -0.06, "{ " + inside + " }", color=colour, fontsize=11, **below)
    figure.suptitle(title, fontsize=10)
    save(figure, path)
