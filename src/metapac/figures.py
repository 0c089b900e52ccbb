"""The paper's figures, from stored rows alone. Needs the extra ``plot``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from metapac.evaluation.draws import Array
from metapac.evaluation.methods import SECOND_DELTA, paper_methods
from metapac.evaluation.rows import Rows
from metapac.guarantee import Guarantee
from metapac.plots import INK, LIMIT, boxes, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# After Okabe and Ito: these can be told apart with any colour vision.
_COLOURS = {
    "PS": "#e69f00",
    "PS-Test": "#cc79a7",
    "Meta-CP": "#d55e00",
    "Meta-PS even": "#56b4e9",
    "Meta-PS tight": "#3a86c8",
    "Meta-PS joint": "#009e73",
    "oracle": "#bbbbbb",
}
_OTHER, _STRICT, _LOOSE = "#dddddd", "#3a86c8", "#f0e442"
_META = ("Meta-PS even", "Meta-PS tight")
_FAINT = "#555555"
_PER_TASK = "box: quartiles; circle: mean; whiskers: "
_PERCENTILES = "10th and 90th percentile of tasks"


def draw_figures(
    rows: Rows, guarantee: Guarantee, folder: str | os.PathLike[str], *, title: str
) -> list[Path]:
    """Write the figures (a) to (d) as PNG and SVG into a folder; return where."""
    figures: dict[str, Callable[..., None]] = {
        "error": error,
        "size": size,
        "error_per_set": error_per_set,
        "error_per_delta": error_per_delta,
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder) / f"{name}.{kind}" for name in figures for kind in ("png", "svg")]
    for path in paths:
        figures[path.stem](rows, guarantee, title=title, path=path)
    return paths


def error(rows: Rows, guarantee: Guarantee, *, title: str, path: str | os.PathLike[str]) -> None:
    """Draw figure (a): the error of each method over new tasks, beside epsilon."""
    shown = _at(rows, guarantee.failure_probability)
    figure, (axes,) = new_figure(1, width=9, height=5)
    _limit(axes, guarantee.miss_rate)
    _columns(axes, shown, [mine.error for mine in shown], (10, 90))
    axes.set_ylabel("error on a new task")
    _note(axes, _PER_TASK + _PERCENTILES)
    _above(axes, 0.3, "tasks within\nepsilon:", INK)
    for i, mine in enumerate(shown, start=1):
        broken = float(np.mean(mine.error > guarantee.miss_rate))
        _above(axes, i, f"{1 - broken:.1%}", LIMIT if broken > guarantee.alpha else INK)
        if short := _shortfall(mine, guarantee):
            _say(axes, i, float(np.quantile(mine.error, 0.9)), short, up=True)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def size(rows: Rows, guarantee: Guarantee, *, title: str, path: str | os.PathLike[str]) -> None:
    """Draw figure (b): the size of each method's sets over new tasks."""
    shown = _at(rows, guarantee.failure_probability)
    figure, (axes,) = new_figure(1, width=9, height=5)
    _columns(axes, shown, [mine.size for mine in shown], (0, 100))
    axes.set_ylabel("mean set size on a new task")
    _note(axes, _PER_TASK + "smallest and largest task")
    _above(axes, 0.3, "mean:", INK)
    for i, mine in enumerate(shown, start=1):
        _above(axes, i, f"{np.mean(mine.size):.2f}", INK)
        if short := _shortfall(mine, guarantee):
            _say(axes, i, float(np.min(mine.size)), short, up=False)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def error_per_set(
    rows: Rows, guarantee: Guarantee, *, title: str, path: str | os.PathLike[str], sets: int = 20
) -> None:
    """Draw figure (c): error given each of some calibration sets, Meta-PS beside Meta-CP."""
    here = {str(mine.method[0]): mine for mine in _at(rows, guarantee.failure_probability)}
    panels = [
        [_Series(here[name], name, _COLOURS[name]) for name in (meta, "Meta-CP") if name in here]
        for meta in _META
        if meta in here
    ]
    _per_set(panels, guarantee, title, path, sets)


def error_per_delta(
    rows: Rows, guarantee: Guarantee, *, title: str, path: str | os.PathLike[str], sets: int = 20
) -> None:
    """Draw figure (d): error of Meta-PS given each of some calibration sets, for two deltas."""
    known = rows.methods()
    colours = {SECOND_DELTA: _LOOSE, guarantee.failure_probability: _STRICT}
    panels = [
        [
            _Series(rows.of(meta, delta), f"{meta}, delta = {delta:g}", colours[delta])
            for delta in sorted(colours)
            if (meta, delta) in known
        ]
        for meta in _META
        if (meta, guarantee.failure_probability) in known
    ]
    _per_set(panels, guarantee, title, path, sets)


class _Series(NamedTuple):
    """The rows of one method, with the name and the colour that it has in the picture."""

    rows: Rows
    name: str
    colour: str


def _per_set(
    panels: Sequence[Sequence[_Series]],
    guarantee: Guarantee,
    title: str,
    path: str | os.PathLike[str],
    sets: int,
) -> None:
    if not panels:
        raise ValueError(
            f"rows hold neither {' nor '.join(_META)} at delta="
            f"{guarantee.failure_probability:g}, which this figure shows. Evaluate with "
            "paper_methods(guarantee)."
        )
    figure, stacked = new_figure(1, rows=len(panels), width=11, height=0.8 + 3 * len(panels))
    for axes, panel in zip(stacked, panels, strict=True):
        _grouped(axes, panel, guarantee, sets)
        _limit(axes, guarantee.miss_rate)
        axes.set_ylabel("error on a new task")
    _from_zero(stacked[0])
    stacked[-1].set_xlabel("calibration set")
    figure.suptitle(f"{title}\n{_PER_TASK}{_PERCENTILES}", fontsize=10)
    save(figure, path)


def _grouped(axes: Axes, panel: Sequence[_Series], guarantee: Guarantee, sets: int) -> None:
    """Draw a box for each series at each calibration set, side by side."""
    from matplotlib.patches import Patch

    width = 0.7 / len(panel)
    numbers: list[int] = np.unique(panel[0].rows.draw)[:sets].tolist()
    for j, series in enumerate(panel):
        shift = (j - (len(panel) - 1) / 2) * width
        boxes(
            axes,
            [series.rows.error[series.rows.draw == number] for number in numbers],
            whiskers=(10, 90),
            colours=[series.colour] * len(numbers),
            positions=[i + shift for i in range(1, len(numbers) + 1)],
            width=0.8 * width,
        )
    axes.set_xticks(range(1, len(numbers) + 1), [str(number + 1) for number in numbers])
    axes.set_xlim(0.4, len(numbers) + 0.6)
    shown = [Patch(facecolor=s.colour, edgecolor=INK, label=_called(s, guarantee)) for s in panel]
    axes.legend(handles=shown, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)


def _called(series: _Series, guarantee: Guarantee) -> str:
    short = _shortfall(series.rows, guarantee)
    return f"{series.name} ({short})" if short else series.name


def _at(rows: Rows, delta: float) -> list[Rows]:
    """Return the rows of each method at one delta."""
    found = [rows.of(name, known) for name, known in rows.methods() if known == delta]
    if not found:
        raise ValueError(
            f"rows hold no method at delta={delta:g}. Pass the guarantee that they were evaluated "
            "at, such as read_guarantee(folder)."
        )
    return found


def _columns(
    axes: Axes, shown: Sequence[Rows], values: Sequence[Array], whiskers: tuple[int, int]
) -> None:
    names = [str(mine.method[0]) for mine in shown]
    boxes(axes, values, whiskers=whiskers, colours=[_COLOURS.get(n, _OTHER) for n in names])
    axes.set_xticklabels([name.replace(" ", "\n", 1) for name in names])
    axes.set_xlim(0.4, len(names) + 0.6)
    _from_zero(axes)


def _shortfall(mine: Rows, guarantee: Guarantee) -> str:
    """Return in words where a method could not promise anything and so kept every label."""
    if mine.feasible.all():
        return ""
    name, delta = str(mine.method[0]), float(mine.delta[0])
    some = f" on {np.mean(~mine.feasible):.0%} of tasks" if mine.feasible.any() else ""
    for known in paper_methods(guarantee):
        if (known.name, known.guarantee.delta) == (name, delta):
            return f"keeps every label{some}: {known.rule.need(known.guarantee)} needed"
    return f"keeps every label{some}"


def _limit(axes: Axes, epsilon: float) -> None:
    axes.axhline(epsilon, color=LIMIT, linestyle="--", linewidth=1.2)
    where = axes.get_yaxis_transform()
    axes.text(1.005, epsilon, f"epsilon\n= {epsilon:g}", color=LIMIT, va="center", transform=where)


def _from_zero(axes: Axes) -> None:
    """Let the scale begin just below 0, so that a flat box at 0 is seen whole."""
    top = axes.get_ylim()[1]
    axes.set_ylim(-0.015 * top, top)


def _note(axes: Axes, text: str) -> None:
    axes.set_xlabel(text, fontsize=8.5, color=_FAINT)


def _above(axes: Axes, x: float, text: str, colour: str) -> None:
    """Write a number over a column, outside of the axes."""
    where = axes.get_xaxis_transform()
    axes.text(x, 1.02, text, color=colour, ha="center", va="bottom", fontsize=9, transform=where)


def _say(axes: Axes, x: float, y: float, text: str, *, up: bool) -> None:
    """Write along the column of a flat box what it means."""
    axes.annotate(
        text,
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
