"""The paper's figures, and images with their sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from metapac._common import Array, PathLike
from metapac.errors import InvalidInput
from metapac.fewshot.study.methods import SECOND_DELTA, describe_need
from metapac.fewshot.study.rows import Rows
from metapac.guarantee import Guarantee
from metapac.plots import INK, LIMIT, create_figure, draw_grid, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MEAN = {"marker": "o", "markersize": 4, "markerfacecolor": "white", "markeredgecolor": INK}
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
_OTHER, _LOOSE = "#dddddd", "#f0e442"
_META = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint")
_FAINT = "#555555"
_PER_TASK = "box: quartiles; circle: mean; whiskers: "
_SUFFIX = {1.0: "st", 2.0: "nd", 3.0: "rd"}


def draw_figures(
    rows: Rows | Sequence[Rows], guarantee: Guarantee, folder: PathLike, *, title: str
) -> list[Path]:
    """Write figures (a) to (d) of the paper as PNG and SVG, for its methods and our splits."""
    figures: dict[str, Callable[..., None]] = {
        "error": draw_error,
        "size": draw_size,
        "error_per_set": draw_error_per_set,
        "error_per_delta": draw_error_per_delta,
    }
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
    _draw_boxes(rows, guarantee, title, path, (_error_boxes,), (9, 5))


def draw_size(rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike) -> None:
    """Draw figure (b): the set size of each method over new tasks."""
    _draw_boxes(rows, guarantee, title, path, (_size_boxes,), (9, 5))


def draw_error_and_size(rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike) -> None:
    """Draw figures (a) and (b) side by side."""
    _draw_boxes(rows, guarantee, title, path, (_error_boxes, _size_boxes), (11, 4.6))


def _draw_boxes(
    rows: Rows, g: Guarantee, title: str, path: PathLike, panels: tuple[Any, ...], inches: Any
) -> None:
    methods = _at_delta(rows, g.failure_probability)
    figure, axes = create_figure(len(panels), width=inches[0], height=inches[1])
    for ax, draw in zip(axes, panels, strict=True):
        draw(ax, methods, g)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def _error_boxes(axes: Axes, methods: Sequence[Rows], guarantee: Guarantee) -> None:
    _limit(axes, guarantee.miss_rate)
    _columns(axes, methods, [rows.error for rows in methods], _whiskers(guarantee))
    axes.set_ylabel("error on a new task")
    above = [float(np.mean(rows.error > guarantee.miss_rate)) for rows in methods]
    red = f"\nred: below 1 - alpha = {1 - guarantee.alpha:.4g}"
    note = _PER_TASK + _describe_whiskers(guarantee)
    _note(axes, note + (red if max(above) > guarantee.alpha else ""))
    _write_before(axes, "tasks within\nepsilon:")
    for i, (rows, share) in enumerate(zip(methods, above, strict=True), start=1):
        _write_above(axes, i, f"{1 - share:.1%}", LIMIT if share > guarantee.alpha else INK)
        if text := _describe_shortage(rows, guarantee):
            top = float(np.quantile(rows.error, 1 - guarantee.alpha))
            _write_along(axes, i, top, text, up=True)


def _size_boxes(axes: Axes, methods: Sequence[Rows], guarantee: Guarantee) -> None:
    _columns(axes, methods, [rows.size for rows in methods], (0, 100))
    axes.set_ylabel("mean set size on a new task")
    _note(axes, _PER_TASK + "smallest and largest task")
    _write_before(axes, "mean:")
    for i, rows in enumerate(methods, start=1):
        _write_above(axes, i, f"{np.mean(rows.size):.2f}", INK)
        if text := _describe_shortage(rows, guarantee):
            _write_along(axes, i, float(np.min(rows.size)), text, up=False)


def draw_error_per_set(
    rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike, sets: int = 20
) -> None:
    """Draw figure (c): error given each calibration set, Meta-PS beside Meta-CP."""
    methods = _at_delta(rows, guarantee.failure_probability)
    by_name = {str(method.method[0]): method for method in methods}
    panels = [
        [_Series(by_name[k], k, COLOURS[k]) for k in (meta, "Meta-CP") if k in by_name]
        for meta in _META
        if meta in by_name
    ]
    _per_set(panels, guarantee, title, path, sets)


def draw_error_per_delta(
    rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike, sets: int = 20
) -> None:
    """Draw figure (d): error of Meta-PS given each calibration set, for two deltas."""
    available = rows.methods()
    own = guarantee.failure_probability
    panels = [
        [
            _Series(
                rows.select(meta, delta),
                f"{meta}, delta = {delta:g}",
                COLOURS[meta] if delta == own else _LOOSE,
            )
            for delta in sorted({SECOND_DELTA, own})
            if (meta, delta) in available
        ]
        for meta in _META
        if (meta, own) in available
    ]
    _per_set(panels, guarantee, title, path, sets)


class _Series(NamedTuple):
    """The rows of one method, with its name and colour in the figure."""

    rows: Rows
    name: str
    colour: str


def _per_set(
    panels: Sequence[Sequence[_Series]], guarantee: Guarantee, title: str, path: PathLike, sets: int
) -> None:
    if not panels:
        raise InvalidInput(
            f"rows hold none of {', '.join(_META)} at delta="
            f"{guarantee.failure_probability:g}, which this figure shows. Evaluate with "
            "paper_methods(guarantee)."
        )
    figure, stacked = create_figure(1, rows=len(panels), width=11, height=0.8 + 2.7 * len(panels))
    for axes, panel in zip(stacked, panels, strict=True):
        _grouped(axes, panel, guarantee, sets)
        _limit(axes, guarantee.miss_rate)
        axes.set_ylabel("error on a new task")
    _from_zero(stacked[0])
    stacked[-1].set_xlabel("calibration set")
    figure.suptitle(f"{title}\n{_PER_TASK}{_describe_whiskers(guarantee)}", fontsize=10)
    save(figure, path)


def _grouped(axes: Axes, panel: Sequence[_Series], guarantee: Guarantee, sets: int) -> None:
    """Draw a box for each series at each calibration set, side by side."""
    from matplotlib.patches import Patch

    width = 0.7 / len(panel)
    numbers: list[int] = np.unique(panel[0].rows.draw)[:sets].tolist()
    for j, series in enumerate(panel):
        shift = (j - (len(panel) - 1) / 2) * width
        draw_boxes(
            axes,
            [series.rows.error[series.rows.draw == number] for number in numbers],
            whiskers=_whiskers(guarantee),
            colours=[series.colour] * len(numbers),
            positions=[i + shift for i in range(1, len(numbers) + 1)],
            width=0.8 * width,
        )
    axes.set_xticks(range(1, len(numbers) + 1), [str(number + 1) for number in numbers])
    axes.set_xlim(0.4, len(numbers) + 0.6)
    handles = [
        Patch(facecolor=s.colour, edgecolor=INK, label=_label(s, numbers, guarantee)) for s in panel
    ]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)


def _label(series: _Series, shown: Sequence[int], guarantee: Guarantee) -> str:
    text = _describe_shortage(series.rows, guarantee) or _count_zero(series.rows, shown)
    return f"{series.name} ({text})" if text else series.name


def _count_zero(rows: Rows, shown: Sequence[int]) -> str:
    """Return in how many sets a threshold of zero keeps every label although data suffice."""
    zero = sum(bool(np.all(rows.threshold[rows.draw == number] <= 0)) for number in shown)
    return f"keeps every label in {zero} of {len(shown)} sets: threshold zero" if zero else ""


def _at_delta(rows: Rows, delta: float) -> list[Rows]:
    """Return the rows of each method at one delta."""
    methods = [rows.select(name, d) for name, d in rows.methods() if d == delta]
    if not methods:
        raise InvalidInput(
            f"rows hold no method at delta={delta:g}. Pass the guarantee that they were evaluated "
            "at, such as read_guarantee(folder)."
        )
    return methods


def _whiskers(guarantee: Guarantee) -> tuple[float, float]:
    """Return the percentiles alpha and 1 - alpha: the upper one is what a guarantee bounds.

    Those of a large alpha would lie inside the box; 10 and 90 are then shown.
    """
    percent = round(100 * guarantee.alpha, 9) if guarantee.alpha < 0.25 else 10.0
    return percent, 100 - percent


def _describe_whiskers(guarantee: Guarantee) -> str:
    low, high = (f"{end:g}{_SUFFIX.get(end, 'th')}" for end in _whiskers(guarantee))
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
    """Draw a box for each sample, with a circle at its mean."""
    # boxplot() would end a whisker at the last value within the percentile, which is shorter.
    names, places = ("whislo", "q1", "med", "q3", "whishi"), [whiskers[0], 25, 50, 75, whiskers[1]]
    drawn = axes.bxp(
        [
            dict(zip(names, np.percentile(sample, places), strict=True), mean=np.mean(sample))
            for sample in values
        ],
        positions=positions,
        showfliers=False,
        widths=width,
        patch_artist=True,
        boxprops={"edgecolor": INK},
        medianprops={"color": INK, "linewidth": 1.5},
        showmeans=True,
        meanprops=_MEAN,
    )
    for box, colour in zip(drawn["boxes"], colours, strict=True):
        box.set_facecolor(colour)
    draw_grid(axes)


def _columns(
    axes: Axes, methods: Sequence[Rows], values: Sequence[Array], whiskers: tuple[float, float]
) -> None:
    names = [str(rows.method[0]) for rows in methods]
    draw_boxes(axes, values, whiskers=whiskers, colours=[COLOURS.get(n, _OTHER) for n in names])
    axes.set_xticklabels([name.replace(" ", "\n", 1) for name in names])
    axes.set_xlim(0.4, len(names) + 0.6)
    _from_zero(axes)


def _describe_shortage(rows: Rows, guarantee: Guarantee) -> str:
    """Return what a method lacks if it kept every label because there were too few data."""
    if rows.feasible.all():
        return ""
    name, delta = str(rows.method[0]), float(rows.delta[0])
    where = f" on {np.mean(~rows.feasible):.0%} of tasks" if rows.feasible.any() else ""
    need = describe_need(guarantee, name, delta)
    return f"keeps every label{where}" + ("" if need is None else f": needs {need}")


def _limit(axes: Axes, epsilon: float) -> None:
    axes.axhline(epsilon, color=LIMIT, linestyle="--", linewidth=1.2)
    where = axes.get_yaxis_transform()
    axes.text(1.005, epsilon, f"epsilon\n= {epsilon:g}", color=LIMIT, va="center", transform=where)


def _from_zero(axes: Axes) -> None:
    """Start the scale just below 0, so that a flat box at 0 is visible."""
    top = axes.get_ylim()[1]
    axes.set_ylim(-0.015 * top, top)


def _note(axes: Axes, text: str) -> None:
    axes.set_xlabel(text, fontsize=8.5, color=_FAINT)


def _write_above(axes: Axes, x: float, text: str, colour: str) -> None:
    """Write a number above a column, outside the axes."""
    where = axes.get_xaxis_transform()
    axes.text(x, 1.02, text, color=colour, ha="center", va="bottom", fontsize=9, transform=where)


def _write_before(axes: Axes, text: str) -> None:
    """Say, left of the axes, what the numbers above the columns are."""
    axes.text(-0.01, 1.02, text, color=INK, ha="right", fontsize=9, transform=axes.transAxes)


def _write_along(axes: Axes, x: float, y: float, text: str, *, up: bool) -> None:
    """Explain a flat box by a text along its column, in two lines so that it fits."""
    axes.annotate(
        text.replace(": ", ":\n", 1),
        (x, y),
        (0, 9 if up else -9),
        textcoords="offset points",
        rotation=90,
        ha="center",
        va="bottom" if up else "top",
        fontsize=9,
        color=_FAINT,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )


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
        The images.
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
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from metapac.fewshot import draw_images_with_sets
    >>> images, sets = np.zeros((2, 4, 4), np.uint8), np.array([[True, False], [True, True]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/sets.svg"
    ...     draw_images_with_sets(images, [0, 1], sets, ["cat", "dog"], title="Sets", path=path)
    ...     print(*(path.name for path in pathlib.Path(folder).iterdir()))
    sets.svg
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
