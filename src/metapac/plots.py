"""Figures of plans, evaluations, results and prediction sets. Needs the extra ``plot``."""

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

    from metapac.assessment.evaluation import Evaluation

INK, LIMIT = "#222222", "#c0392b"
_GRID: dict[str, Any] = {"color": "#dddddd", "linewidth": 0.6}
_MEAN = {"marker": "o", "markersize": 4, "markerfacecolor": "white", "markeredgecolor": INK}
_LINES = ("-", "--", ":")
_COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#8172b3", "#937860", "#64b5cd")
_NAMED = 40  # tasks whose names fit under an axis
_NAMED_CLASSES = 20


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


def draw_evaluation(evaluation: Evaluation, *, path: PathLike | None = None) -> Figure:
    """Draw the miss rate of each task with its interval, the set sizes, and the classes.

    Parameters
    ----------
    evaluation : Evaluation
        What ``evaluate`` or ``evaluate_table`` returned.
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
    panels += [_draw_set_sizes] if evaluation.sets is not None else []
    panels += [_draw_class_errors] if evaluation.classes is not None else []
    figure, axes = create_figure(len(panels), width=3.2 + 3.6 * len(panels), height=4.2)
    if (grid := axes[0].get_gridspec()) is not None:
        grid.set_width_ratios([1.8, *[1.0] * (len(panels) - 1)])
    for draw, ax in zip(panels, axes, strict=True):
        draw(ax, evaluation)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", **_GRID)
        ax.set_axisbelow(True)
    if evaluation.verdict is not None:
        figure.suptitle(_title(evaluation, evaluation.verdict.status), fontsize=11)
    if path is not None:
        save(figure, path)
    return figure


def _title(evaluation: Evaluation, status: str) -> str:
    """Return the verdict, and the class that it hides."""
    title = f"guarantee: {status}"
    if not evaluation.neglected:
        return title
    worst = evaluation.neglected[0]
    return f"{title} (class {_plain(worst.label)}: {worst.error:.0%} missed)"


def _draw_task_errors(axes: Axes, evaluation: Evaluation) -> None:
    """Draw the tasks in ascending order of their miss rate, in one colour for each class."""
    parts = evaluation.by_class or {None: evaluation}
    for (label, part), colour in zip(parts.items(), cycle(_COLOURS), strict=False):
        order = np.argsort(part.errors, kind="stable")
        name = None if label is None else _plain(label)
        _draw_intervals(axes, np.arange(len(order)), part, order, colour, name)
        limit = LIMIT if label is None else colour
        axes.axhline(part.epsilon, color=limit, linewidth=1, linestyle="--")
    axes.plot([], [], "--", color=LIMIT if evaluation.by_class is None else INK, label="epsilon")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("miss rate")
    axes.yaxis.set_major_formatter("{x:.0%}" if axes.get_ylim()[1] > 0.1 else "{x:.1%}")
    if evaluation.by_class is not None:
        axes.set_xlabel("tasks, in ascending order for each class")
        axes.set_xticks([])
        if len(parts) <= len(_COLOURS):
            axes.legend(loc="upper left", fontsize=8)
        return
    axes.legend(loc="upper left", fontsize=8)
    axes.set_xlabel("tasks, in ascending order")
    _name_positions(axes, [evaluation.tasks.tolist()[i] for i in order.tolist()])


def _draw_intervals(
    axes: Axes, at: Array, part: Evaluation, order: Array, colour: str, name: str | None
) -> None:
    """Draw the miss rates of tasks with their exact intervals."""
    error, low, high = (column[order] for column in (part.errors, part.low, part.high))
    many = len(order) > 100
    ends = np.maximum([error - low, high - error], 0)
    axes.errorbar(
        at,
        error,
        ends,
        fmt="o",
        color=colour,
        ecolor=(colour, 0.35 if many else 1.0),
        markersize=2 if many else 4,
        linewidth=0.5 if many else 1,
        label=name,
    )


def _draw_set_sizes(axes: Axes, evaluation: Evaluation) -> None:
    """Draw the shares of empty, single, full and other sets."""
    shares = evaluation.set_shares or {}
    other = max(0.0, 1 - sum(shares.values()))
    bars = {"empty": 0.0, "single": 0.0, "others": other} | shares
    bars = {name: bars[name] for name in ("empty", "single", "others", "full")}
    drawn = axes.bar([*bars], [*bars.values()], color=_COLOURS[0])
    axes.bar_label(drawn, [f"{share:.1%}" for share in bars.values()], fontsize=8)
    axes.set_ylabel("share of sets")
    axes.set_ylim(0, 1.08)
    axes.yaxis.set_major_formatter("{x:.0%}")


def _draw_class_errors(axes: Axes, evaluation: Evaluation) -> None:
    """Draw the miss rate of each class with its interval; of many, those missed most."""
    classes = [part for part in evaluation.classes or () if part.examples]
    if len(classes) > _NAMED_CLASSES:
        classes = sorted(classes, key=lambda part: -part.low)[:_NAMED_CLASSES]
        axes.set_xlabel("the classes missed most")
    at, error = np.arange(len(classes)), [part.error for part in classes]
    ends = [[p.error - p.low for p in classes], [p.high - p.error for p in classes]]
    epsilon = evaluation.epsilon
    limits = [epsilon[p.label] if isinstance(epsilon, Mapping) else epsilon for p in classes]
    above = np.array([p.is_above(limit) for p, limit in zip(classes, limits, strict=True)])
    for colour, some in ((_COLOURS[0], ~above), (LIMIT, above)):  # red: hardly by chance
        if some.any():
            bars = np.maximum(ends, 0)[:, some]
            axes.errorbar(
                at[some], np.array(error)[some], bars, fmt="o", color=colour, clip_on=False
            )
    axes.hlines(limits, at - 0.5, at + 0.5, color=LIMIT, linewidth=1, linestyle="--")
    axes.set_ylim(0, 1.03)
    axes.set_xlim(-0.7, len(classes) - 0.3)
    axes.set_ylabel("miss rate of the class")
    axes.yaxis.set_major_formatter("{x:.0%}")
    _name_positions(axes, [part.label for part in classes])


def _name_positions(axes: Axes, names: Sequence[Any]) -> None:
    """Write the names under their positions if they fit."""
    if len(names) > _NAMED:
        return
    texts = [_plain(name) for name in names]
    flat = sum(len(text) + 2 for text in texts) <= 30
    angle: dict[str, Any] = {} if flat else {"rotation": 90, "fontsize": 7}
    axes.set_xticks(range(len(texts)), texts, **angle)


def _plain(name: object) -> str:
    """Return a name of at most 18 characters, without markup."""
    text = str(name)
    return (text if len(text) <= 18 else text[:17] + "…").replace("$", r"\$")
