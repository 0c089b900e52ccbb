"""The figure of a plan: tasks and examples needed, by one parameter of the guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING

from metapac._types import PathLike
from metapac.planning import Curve
from metapac.plots.figures import GRID, LIMIT, create_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES = ("-", "--", ":")


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
    axes.grid(which="both", **GRID)
    axes.spines[["top", "right"]].set_visible(False)
