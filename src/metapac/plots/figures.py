"""The ground of all figures: axes without a GUI, colours, boxes, and reproducible files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac import _optional
from metapac._files import replacing
from metapac._types import Array, PathLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, LIMIT = "#222222", "#c0392b"
GRID: dict[str, Any] = {"color": "#dddddd", "linewidth": 0.6}
_MEAN = {"marker": "o", "markersize": 4, "markerfacecolor": "white", "markeredgecolor": INK}


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
    draw_grid(axes)


def _box(sample: Array, whiskers: tuple[float, float]) -> dict[str, Any]:
    # boxplot() would end a whisker at the last value within the percentile, which is shorter.
    names = ("whislo", "q1", "med", "q3", "whishi")
    ends = np.percentile(sample, [whiskers[0], 25, 50, 75, whiskers[1]])
    return dict(zip(names, ends.tolist(), strict=True)) | {"mean": float(np.mean(sample))}


def draw_grid(axes: Axes) -> None:
    """Draw horizontal lines behind the data, and no frame on the top and on the right.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Axes to draw on.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", **GRID)
    axes.set_axisbelow(True)
