"""The paper's figures, and images with their sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac._common import Array, PathLike
from metapac.errors import InvalidInput
from metapac.fewshot.study import boxes
from metapac.fewshot.study.boxes import COLOURS as COLOURS
from metapac.fewshot.study.boxes import draw_methods
from metapac.fewshot.study.methods import SECOND_DELTA
from metapac.fewshot.study.rows import Rows
from metapac.guarantee import Guarantee
from metapac.plots import INK, LIMIT, create_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    """Draw figures (a) and (b) side by side."""
    save(draw_methods(rows, guarantee, title=title, inches=(11, 4.6)), path)


def draw_error_per_set(
    rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike, sets: int = 20
) -> None:
    """Draw figure (c): error given each calibration set, Meta-PS beside Meta-CP."""
    methods = boxes.select_delta(rows, guarantee.failure_probability)
    shown = {
        name: (each, name, COLOURS[name])
        for each in methods
        if (name := str(each.method[0])) in (*_META, "Meta-CP")
    }
    beside = [shown["Meta-CP"]] if "Meta-CP" in shown else []
    panels = [[shown[meta], *beside] for meta in _META if meta in shown]
    _per_set(panels, guarantee, title, path, sets)


def draw_error_per_delta(
    rows: Rows, guarantee: Guarantee, *, title: str, path: PathLike, sets: int = 20
) -> None:
    """Draw figure (d): error of Meta-PS given each calibration set, for two deltas."""
    available, own = rows.methods(), guarantee.failure_probability

    def make_series(meta: str, delta: float) -> _Series:
        colour = COLOURS[meta] if delta == own else _LOOSE
        return rows.select(meta, delta), f"{meta}, delta = {delta:g}", colour

    metas, deltas = [meta for meta in _META if (meta, own) in available], {SECOND_DELTA, own}
    panels = [
        [make_series(meta, delta) for delta in sorted(deltas) if (meta, delta) in available]
        for meta in metas
    ]
    _per_set(panels, guarantee, title, path, sets)


def _per_set(
    panels: Sequence[Sequence[_Series]], guarantee: Guarantee, title: str, path: PathLike, sets: int
) -> None:
    if not panels:
        lack = f"{', '.join(_META)} at delta={guarantee.failure_probability:g}"
        raise InvalidInput(f"rows hold none of {lack}: evaluate paper_methods(guarantee).")
    figure, stacked = create_figure(1, rows=len(panels), width=11, height=0.8 + 2.7 * len(panels))
    for axes, panel in zip(stacked, panels, strict=True):
        _grouped(axes, panel, guarantee, sets)
        boxes.draw_limit(axes, guarantee.miss_rate)
        axes.set_ylabel("error on a new task")
    boxes.start_at_zero(stacked[0])
    stacked[-1].set_xlabel("calibration set")
    note = f"{boxes.PER_TASK}{boxes.describe_whiskers(guarantee)}"
    figure.suptitle(f"{title}\n{note}", fontsize=10)
    save(figure, path)


def _grouped(axes: Axes, panel: Sequence[_Series], guarantee: Guarantee, sets: int) -> None:
    """Draw a box for each series at each calibration set, side by side."""
    from matplotlib.patches import Patch

    width, handles = 0.7 / len(panel), []
    numbers: list[int] = np.unique(panel[0][0].draw)[:sets].tolist()
    for j, (rows, name, colour) in enumerate(panel):
        errors = [rows.error[rows.draw == number] for number in numbers]
        places = np.arange(1, len(numbers) + 1) + (j - (len(panel) - 1) / 2) * width
        style: Any = {"colours": [colour] * len(numbers), "width": 0.8 * width}
        whiskers = boxes.choose_whiskers(guarantee)
        boxes.draw_boxes(axes, errors, whiskers=whiskers, positions=places.tolist(), **style)
        text = boxes.describe_shortage(rows, guarantee) or _count_zero(rows, numbers)
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
