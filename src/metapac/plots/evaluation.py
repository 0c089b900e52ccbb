"""The figure of an evaluation: miss rates of tasks, sizes of sets, and miss rates of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac._types import Array, PathLike
from metapac.plots.figures import INK, LIMIT, create_figure, draw_grid, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from metapac.assessment.evaluation import Evaluation

_COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#8172b3", "#937860", "#64b5cd")
_NAMED = 40  # tasks whose names fit under an axis
_NAMED_CLASSES = 20


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
        draw_grid(ax)
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
