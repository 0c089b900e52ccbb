"""Pictures of results and plans. Needs the extra ``plot``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metapac.persistence import replacing
from metapac.planning import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, BOX, LIMIT = "#222222", "#9ecae1", "#c0392b"
_EDGE = {"markeredgecolor": INK}
_LINES = ("-", "--", ":")


def new_figure(
    columns: int, *, width: float, height: float, rows: int = 1
) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure that no window system has to know of, and its axes, row after row.

    Axes above one another share their scales.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "pictures need matplotlib. Install it with: pip install 'metapac[plot]'"
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    shared = rows > 1
    axes = figure.subplots(rows, columns, sharex=shared, sharey=shared, squeeze=False)
    return figure, axes.ravel().tolist()


def error_and_size(
    errors: Mapping[str, NDArray[Any]],
    sizes: Mapping[str, NDArray[Any]],
    *,
    epsilon: float,
    title: str,
    path: str | os.PathLike[str],
) -> None:
    """Draw the paper's figures (a) and (b): error and size of each method over test tasks.

    Error whiskers end at the 10th and 90th percentile, size whiskers at minimum and maximum.
    """
    figure, (left, right) = new_figure(2, width=10, height=4.2)
    _named_boxes(left, errors, whiskers=(10, 90))
    left.axhline(epsilon, color=LIMIT, linestyle="--", linewidth=1.2)
    right_end = len(errors) + 0.45
    label = f"epsilon = {epsilon:g}\n"
    left.text(right_end, epsilon, label, color=LIMIT, ha="right", va="center", linespacing=1.6)
    left.set_ylim(bottom=0)
    left.set_ylabel("error on a test task")
    left.set_title("circle: mean; whiskers: 10th to 90th percentile of tasks", fontsize=9)
    _named_boxes(right, sizes, whiskers=(0, 100))
    right.set_ylim(bottom=0)
    right.set_ylabel("mean set size on a test task")
    right.set_title("circle: mean; whiskers: smallest and largest", fontsize=9)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format that its name asks for; the same figure gives the same SVG."""
    import matplotlib

    kind = Path(path).suffix.removeprefix(".") or "png"
    notes = {"Date": None} if kind == "svg" else None
    fixed = matplotlib.rc_context({"svg.hashsalt": "metapac"})
    with replacing(path, binary=True) as file, fixed:
        figure.savefig(file, dpi=150, format=kind, metadata=notes)


def _named_boxes(
    axes: Axes, values: Mapping[str, NDArray[Any]], whiskers: tuple[float, float]
) -> None:
    boxes(axes, list(values.values()), whiskers=whiskers, colours=[BOX] * len(values))
    axes.set_xticklabels([name.replace(" ", "\n", 1) for name in values])


def boxes(
    axes: Axes,
    values: Sequence[NDArray[Any]],
    *,
    whiskers: tuple[float, float],
    colours: Sequence[str],
    positions: Sequence[float] | None = None,
    width: float = 0.55,
) -> None:
    """Draw a box for each of some samples, whiskers at two percentiles, a circle at the mean."""
    drawn = axes.bxp(
        [_box(sample, whiskers) for sample in values],
        positions=positions,
        showfliers=False,
        widths=width,
        patch_artist=True,
        boxprops={"edgecolor": INK},
        medianprops={"color": INK, "linewidth": 1.5},
        showmeans=True,
        meanprops={"marker": "o", "markersize": 4, "markerfacecolor": "white", **_EDGE},
    )
    for box, colour in zip(drawn["boxes"], colours, strict=True):
        box.set_facecolor(colour)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _box(sample: NDArray[Any], whiskers: tuple[float, float]) -> dict[str, Any]:
    # boxplot() would draw a whisker to the last value within the percentile, which is less.
    names = ("whislo", "q1", "med", "q3", "whishi")
    ends = np.percentile(sample, [whiskers[0], 25, 50, 75, whiskers[1]])
    return dict(zip(names, ends.tolist(), strict=True)) | {"mean": float(np.mean(sample))}


def needs(
    curves: Mapping[str, Curve], *, title: str, path: str | os.PathLike[str], mark: float
) -> None:
    """Draw least tasks and examples along a parameter, a line for each split, ``mark`` marked."""
    figure, (left, right) = new_figure(2, width=10, height=4.2)
    for (name, curve), style in zip(curves.items(), cycle(_LINES), strict=False):
        left.plot(curve.values, curve.tasks, style, linewidth=2, label=name)
        right.plot(curve.values, curve.examples_per_task, style, linewidth=2, label=name)
    parameter = next(iter(curves.values())).parameter
    for axes, what in ((left, "least tasks"), (right, "least examples per task")):
        axes.set_xlabel("alpha within tasks" if parameter == "split" else parameter)
        axes.set_ylabel(what)
        axes.axvline(mark, color=LIMIT, linewidth=1)
        axes.set_yscale("log")
        if parameter != "split":
            axes.set_xscale("log")
        for axis in (axes.yaxis, axes.xaxis) if parameter != "delta" else (axes.yaxis,):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:e}"[0] in "25" else "")
        axes.grid(which="both", color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    if len(curves) > 1:
        left.legend(title="split", frameon=False)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def pictures_with_sets(
    pictures: NDArray[Any],
    labels: Sequence[int],
    sets: NDArray[np.bool_],
    names: Sequence[str],
    *,
    title: str,
    path: str | os.PathLike[str],
) -> None:
    """Draw pictures in two rows, above each the truth, below it its set; a miss is red."""
    from matplotlib.figure import Figure

    columns = (len(pictures) + 1) // 2
    figure = Figure(figsize=(1.15 * columns, 3.6), layout="constrained")
    axes = figure.subplots(2, columns).ravel()
    for ax in axes:
        ax.axis("off")
    for ax, picture, label, kept in zip(axes, pictures, labels, sets, strict=False):
        ax.imshow(picture, cmap="gray_r", vmin=0, vmax=255)
        inside = " ".join(names[j] for j in np.flatnonzero(kept).tolist()) or "none"
        colour = INK if kept[label] else LIMIT
        ax.set_title(f"{names[label]}", fontsize=11, color=colour)
        ax.text(0.5, -0.06, "{ " + inside + " }", color=colour, fontsize=11, **_below(ax))
    figure.suptitle(title, fontsize=10)
    save(figure, path)


def _below(axes: Axes) -> dict[str, Any]:
    return {"ha": "center", "va": "top", "transform": axes.transAxes}
