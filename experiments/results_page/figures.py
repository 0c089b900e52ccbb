"""The figures of the page: all experiments at a glance, small tasks, and box plots of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.results_page import opening, splits
from experiments.results_page.sections import pictures_of
from experiments.results_page.splits import SPLITS, has_small_tasks, sizes_of_tasks
from experiments.results_page.stored import Result
from metapac.fewshot.study import figures
from metapac.fewshot.study.figures import COLOURS
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import MethodSummary
from metapac.plots import INK, LIMIT, create_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("PS", "Meta-CP", *SPLITS)
MARKERS = dict(zip((*SHOWN, "oracle"), "so^vD|", strict=True))
FAINT = "#555555"
COLOUR_NAMES = {"#ffffff": "paper", "#000000": "ink", INK: "ink", FAINT: "ink", LIMIT: "bad"}
COLOUR_NAMES |= {"#dddddd": "line"}
STYLE = (
    ".figure{--paper:#fff;--ink:#222;--bad:#c0392b;--line:#ddd;fill:var(--ink)}"
    ".figure *{stroke-linejoin:round;stroke-linecap:butt}@media(prefers-color-scheme:dark)"
    "{.figure{--paper:#0d1117;--ink:#e8e8e8;--bad:#ff9e6d;--line:#444}}"
)


def draw_all(results: Sequence[Result], folder: Path) -> None:
    """Write all figures of the page to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    draw_overview(results, folder / opening.FIGURE)
    draw_small_tasks(results, folder / splits.FIGURE)
    for result in results:
        draw_experiment(result, folder / result.name)
    for path in folder.rglob("*.svg"):
        follow_palette(path)


def follow_palette(path: Path) -> None:
    """Let the reader's system, or the palette of the site, choose the colours of ink and paper."""
    text = path.read_text(encoding="utf-8")
    if 'class="figure"' in text:
        return
    text = text[text.index("<svg ") :].replace("<svg ", '<svg class="figure" ', 1)
    text = re.sub(r"<(metadata|style).*?</\1>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # they would not be unique in a page
    for colour, name in COLOUR_NAMES.items():
        text = text.replace(colour, f"var(--{name})")
    text = " ".join(re.sub(r' (width|height)="[\d.]+pt"', "", text).split())
    path.write_text(text.replace("<defs>", f"<style>{STYLE}</style><defs>", 1) + "\n", "utf-8")


def draw_overview(results: Sequence[Result], path: Path) -> None:
    """Draw tasks within and mean set size of the main methods, for each experiment."""
    height = 1.2 + 0.85 * len(results)
    figure, (left, right) = create_figure(2, width=10, height=height)
    for i, result in enumerate(results):
        for j, method in enumerate(SHOWN):
            y, line = i + 0.15 * (j - 2), result.line(method)
            within = 100 * np.array([line.tasks_within, *line.tasks_within_interval])
            _point(left, y, within, line)
            _point(right, y, np.array([line.size, *line.size_interval]), line)
        _point(right, i, np.array([result.line("oracle").size] * 3), result.line("oracle"))
    alpha = results[0].guarantee.alpha
    left.axvline(100 * (1 - alpha), color=LIMIT, linestyle="--", linewidth=1.2)
    left.set_xlabel("new tasks within epsilon, in %")
    right.set_xlabel("mean set size")
    for axes in (left, right):
        _rows(axes, len(results))
    left.set_yticks(range(len(results)), [_two_lines(result.title) for result in results])
    right.set_yticks(range(len(results)), [""] * len(results))
    top = left.get_xaxis_transform()
    text = f"1 - alpha = {100 * (1 - alpha):g}% "
    left.text(100 * (1 - alpha), 1.01, text, color=LIMIT, ha="center", transform=top, fontsize=9)
    handles = [_handle(name) for name in (*SHOWN, "oracle")]
    figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False)
    save(figure, path)


def _rows(axes: Axes, count: int) -> None:
    """Give each experiment a row of its own, the first on top."""
    for border in np.arange(count - 1) + 0.5:
        axes.axhline(border, color="#dddddd", linewidth=0.8)
    axes.set_ylim(count - 0.5, -0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _point(axes: Axes, y: float, values: Any, line: MethodSummary) -> None:
    """Draw a value and its interval; hollow if the method kept every label for want of data."""
    value, low, high = values
    colour = COLOURS[line.method] if line.method != "oracle" else INK
    fill = colour if line.feasible else "white"
    axes.plot([low, high], [y, y], color=colour, linewidth=1.4)
    size = 11 if line.method == "oracle" else 5.5
    style: Any = {"markerfacecolor": fill, "markeredgecolor": colour, "markersize": size}
    axes.plot(value, y, MARKERS[line.method], **style)


def _handle(name: str) -> Any:
    from matplotlib.lines import Line2D

    if name == "oracle":
        return Line2D([], [], marker="|", markersize=11, color=INK, label=name, linestyle="")
    return Line2D([], [], marker=MARKERS[name], color=COLOURS[name], label=name, linewidth=1.4)


def _two_lines(title: str) -> str:
    return title.replace(", ", ",\n", 1)


def draw_small_tasks(results: Sequence[Result], path: Path) -> None:
    """Draw the mean set size of each split over the number of calibration examples per task."""
    shown = has_small_tasks(results)
    rows = -(-len(shown) // 2)
    columns = min(2, len(shown))
    figure, panels = create_figure(columns, rows=rows, width=10, height=0.8 + 2.9 * rows)
    for axes, result in zip(panels, shown, strict=False):
        _small_tasks(axes, result)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    for axes in panels[-columns:]:
        axes.set_xlabel("calibration examples per task")
    for axes in panels[::columns]:
        axes.set_ylabel("mean set size")
    handles = [_handle(name) for name in SPLITS]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    save(figure, path)


def _small_tasks(axes: Axes, result: Result) -> None:
    evaluations = sizes_of_tasks(result)
    axes.set_xscale("log")
    for method, aside in zip(SPLITS, (0.96, 1.0, 1.04), strict=True):  # so that bars do not overlap
        lines = {aside * n: each.line(method) for n, each in evaluations.items()}
        sizes = np.array([line.size for line in lines.values()])
        ends = np.array([line.size_interval for line in lines.values()])
        spread = np.abs(ends.T - sizes)
        style: Any = {"color": COLOURS[method], "capsize": 3, "linewidth": 1.6, "markersize": 5.5}
        axes.errorbar(list(lines), sizes, spread, marker=MARKERS[method], **style)
    oracle = result.line("oracle").size
    axes.axhline(oracle, color=FAINT, linestyle=":", linewidth=1.2)
    axes.text(max(evaluations), oracle, "oracle ", color=FAINT, ha="right", va="bottom", fontsize=9)
    axes.set_xticks(list(evaluations), [f"{n:,}" for n in evaluations])
    axes.minorticks_off()
    axes.set_title(result.title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)


def draw_experiment(result: Result, folder: Path) -> None:
    """Draw the box plots of one experiment."""
    folder.mkdir(exist_ok=True)
    draw = {
        "error_and_size": figures.draw_error_and_size,
        "error_per_set": figures.draw_error_per_set,
        "error_per_delta": figures.draw_error_per_delta,
    }
    for name in pictures_of(result):
        rows = _all_seeds(result) if name == "error_and_size" else _first_seed(result)
        path = folder / f"{name}.svg"
        draw[name](rows, result.guarantee, title=result.title, path=path)


def _all_seeds(result: Result) -> Rows:
    keys = [key for key in result.keys if key[0] in COLOURS and key[1] == result.delta]
    return Rows.concatenate([methods[key] for key in keys for methods in result.by_seed])


def _first_seed(result: Result) -> Rows:
    return Rows.concatenate(rows for key, rows in result.by_seed[0].items() if key[0] in COLOURS)
