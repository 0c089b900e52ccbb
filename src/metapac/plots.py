"""Figures of plans, results and prediction sets. Needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac import _optional
from metapac._files import replacing
from metapac._types import Array, PathLike
from metapac.planning import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, LIMIT = "#222222", "#c0392b"
_GRID: dict[str, Any] = {"color": "#dddddd", "linewidth": 0.6}
_MEAN = {"marker": "o", "markersize": 4, "markerfacecolor": "white", "markeredgecolor": INK}
_LINES = ("-", "--", ":")


def create_figure(
    columns: int, *, width: float, height: float, rows: int = 1
) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure that needs no GUI backend, and its axes.

    Parameters
    ----------
    columns : int
        Number of axes in a row.
    width : float
        Width in inches.
    height : float
        Height in inches.
    rows : int, default 1
        Number of rows. Axes of several rows share their scales.

    Returns
    -------
    figure : matplotlib.figure.Figure
        The figure.
    axes : sequence of matplotlib.axes.Axes
        Its axes, row by row.

    Raises
    ------
    MissingExtra
        If Matplotlib is not installed.

    Examples
    --------
    >>> from metapac.plots import create_figure
    >>> figure, axes = create_figure(3, width=6, height=4, rows=2)
    >>> len(axes)
    6
    """
    module = _optional.require("matplotlib.figure", extra="plot", purpose="a figure")
    figure = module.Figure(figsize=(width, height), layout="constrained")
    shared = rows > 1
    axes = figure.subplots(rows, columns, sharex=shared, sharey=shared, squeeze=False)
    return figure, axes.ravel().tolist()


def save(figure: Figure, path: PathLike) -> None:
    """Write a figure in the format of the file's extension, PNG if it has none.

    The same figure gives the same SVG file, byte by byte.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : path-like
        File to write, replaced atomically.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from metapac.plots import create_figure, save
    >>> figure, axes = create_figure(1, width=2, height=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(figure, f"{folder}/empty.svg")
    ...     print(*(path.name for path in pathlib.Path(folder).iterdir()))
    empty.svg
    """
    import matplotlib

    extension = Path(path).suffix.removeprefix(".") or "png"
    metadata = {"Date": None} if extension == "svg" else None
    reproducible = matplotlib.rc_context({"svg.hashsalt": "metapac"})
    with replacing(path, binary=True) as file, reproducible:
        figure.savefig(file, dpi=150, format=extension, metadata=metadata)


def draw_boxes(
    axes: Axes,
    values: Sequence[Array],
    *,
    whiskers: tuple[float, float],
    colours: Sequence[str],
    positions: Sequence[float] | None = None,
    width: float = 0.55,
) -> None:
    """Draw a box for each sample, with a circle at its mean.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Axes to draw on.
    values : sequence of ndarray
        The samples.
    whiskers : tuple of float
        Percentiles at which the whiskers end.
    colours : sequence of str
        Colour of each box.
    positions : sequence of float, optional
        Horizontal position of each box; by default 1, 2, ...
    width : float, default 0.55
        Width of the boxes.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.plots import create_figure, draw_boxes
    >>> figure, (axes,) = create_figure(1, width=3, height=2)
    >>> samples = [np.arange(11), np.arange(5)]
    >>> draw_boxes(axes, samples, whiskers=(10, 90), colours=["white", "grey"])
    >>> len(axes.patches)
    2
    """
    drawn = axes.bxp(
        [_box(sample, whiskers) for sample in values],
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
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", **_GRID)
    axes.set_axisbelow(True)


def _box(sample: Array, whiskers: tuple[float, float]) -> dict[str, Any]:
    # boxplot() would end a whisker at the last value within the percentile, which is shorter.
    names = ("whislo", "q1", "med", "q3", "whishi")
    ends = np.percentile(sample, [whiskers[0], 25, 50, 75, whiskers[1]])
    return dict(zip(names, ends.tolist(), strict=True)) | {"mean": float(np.mean(sample))}


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
    >>> import pathlib, tempfile
    >>> from metapac import plan
    >>> from metapac.plots import draw_needs
    >>> curve = plan(epsilon=0.1, alpha=0.2, delta=0.1).curve("alpha", [0.1, 0.2, 0.3])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_needs({"joint": curve}, title="Needs", path=f"{folder}/needs.svg", mark=0.2)
    ...     print(*(path.name for path in pathlib.Path(folder).iterdir()))
    needs.svg
    """
    figure, (left, right) = create_figure(2, width=10, height=4.2)
    for (name, curve), style in zip(curves.items(), cycle(_LINES), strict=False):
        left.plot(curve.values, curve.tasks, style, linewidth=2, label=name)
        right.plot(curve.values, curve.examples_per_task, style, linewidth=2, label=name)
    parameter = next(iter(curves.values())).parameter
    for axes, quantity in ((left, "minimum tasks"), (right, "minimum examples per task")):
        axes.set_ylabel(quantity)
        axes.axvline(mark, color=LIMIT, linewidth=1)
        _format_axes(axes, parameter)
    if len(curves) > 1:
        left.legend(title="split", frameon=False)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def _format_axes(axes: Axes, parameter: str) -> None:
    axes.set_xlabel("alpha within tasks" if parameter == "split" else parameter)
    axes.set_yscale("log")
    if parameter != "split":
        axes.set_xscale("log")
    for axis in (axes.yaxis, axes.xaxis) if parameter != "delta" else (axes.yaxis,):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:e}"[0] in "25" else "")
    axes.grid(which="both", **_GRID)
    axes.spines[["top", "right"]].set_visible(False)


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
    >>> from metapac.plots import draw_images_with_sets
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
