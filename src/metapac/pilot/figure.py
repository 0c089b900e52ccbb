"""The figure of an exploration: set size and misses against epsilon."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from metapac import plots
from metapac._types import PathLike
from metapac._visible import visible
from metapac.pilot.estimates import Cell, Estimate

if TYPE_CHECKING:
    from metapac.pilot.exploration import Exploration

_PANELS = 4  # classes in a figure, the rarest ones


def draw_pilot(exploration: Exploration, path: PathLike) -> None:
    """Draw the set size, and the misses of some classes, against epsilon.

    Parameters
    ----------
    exploration : Exploration
        The results on pilot tasks.
    path : str or path
        PNG or SVG file to write.
    """
    rarest = sorted(exploration.prevalence, key=exploration.prevalence.__getitem__)[:_PANELS]
    shown = [label for label in exploration.classes if label in rarest]
    width = 3.4 * (1 + len(shown))
    figure, (sizes, *misses) = plots.create_figure(1 + len(shown), width=width, height=3.6)
    _draw_panel(exploration, sizes, lambda cell: cell.size)
    sizes.set_title("mean set size over tasks", fontsize=10)
    sizes.legend(frameon=False, fontsize=8)
    for label, axes in zip(shown, misses, strict=True):
        _draw_misses(exploration, axes, label)
    plots.save(figure, path)


def _draw_misses(exploration: Exploration, axes: Any, label: Any) -> None:
    """Draw the misses of a class, and the line where they are epsilon."""
    _draw_panel(exploration, axes, partial(_get_missed, label))
    look: dict[str, Any] = {"color": plots.LIMIT, "linestyle": ":", "linewidth": 1}
    limit = axes.axline((0, 0), slope=1, label="epsilon", **look)
    axes.legend(handles=[limit], frameon=False, fontsize=8, loc="upper left")
    name = textwrap.shorten(visible(str(label)), 30, placeholder="...")
    title = f"missed among {name}\n({exploration.prevalence[label]:.1%} of examples)"
    axes.set_title(title, fontsize=10, parse_math=False)


def _get_missed(label: Any, cell: Cell) -> Estimate:
    return cell.missed[label]


def _draw_panel(exploration: Exploration, axes: Any, get: Callable[[Cell], Estimate]) -> None:
    """Draw an estimate against epsilon: a colour for each alpha, dashes for ``per_class``."""
    alphas = list(dict.fromkeys(cell.alpha for cell in exploration.cells))
    for per_class, style in ((False, "o-"), (True, "o--")):
        for number, alpha in enumerate(alphas):
            cells = [c for c in exploration.cells if (c.alpha, c.per_class) == (alpha, per_class)]
            epsilons, found = [cell.epsilon for cell in cells], [get(cell) for cell in cells]
            name = f"alpha {alpha:g}" + ", per class" * per_class
            look: dict[str, Any] = {"color": f"C{number}"}
            axes.plot(epsilons, [x.value for x in found], style, ms=3, label=name, **look)
            low, high = [x.low for x in found], [x.high for x in found]
            axes.fill_between(epsilons, low, high, alpha=0.12, linewidth=0, **look)
    axes.set_xlabel("epsilon")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
