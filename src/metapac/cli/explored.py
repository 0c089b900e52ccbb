"""Levels tried on pilot tasks, as ``metapac explore`` prints them."""

from __future__ import annotations

import math
from typing import Any

from metapac._checks import listed
from metapac.cli.console import format_count, make_cell, make_table, stdout
from metapac.pilot import Cell, Estimate, Exploration

_SHOWN = 4  # classes in a table, the rarest ones, if they fit
_LEVELS_WIDTH = 49  # of a table, without the columns of classes
_CLASS_WIDTH = 15
_ADVICE = (
    "delta 0.05 suits most uses. 0.01 needs half as many tasks again: choose it if a failed "
    "guarantee is costly. With fewer tasks, delta none gives a weaker guarantee, in expectation. "
    "'metapac plan' shows how many examples each task needs, and what --per-class needs.\n"
    "Now calibrate on other tasks: a choice among these levels is free only because the pilot "
    "tasks are not calibrated on."
)


def print_exploration(result: Exploration) -> None:
    """Print what to expect at each pair of levels, what it means, and how to go on.

    Parameters
    ----------
    result : Exploration
        The results on pilot tasks.
    """
    tasks = format_count(len(result.tasks), "pilot task")
    delta = "none" if result.delta is None else f"{result.delta:g}"
    examples = format_count(result.examples, "example")
    stdout.print(f"Sets to expect at delta {delta}, estimated on {tasks} with {examples}")
    titles = {False: "One threshold for all classes", True: "One threshold per class, --per-class"}
    for per_class, title in titles.items():
        cells = [cell for cell in result.cells if cell.per_class == per_class]
        _print_title(f"{title} ({_describe_tasks(cells)})")
        stdout.print(_sets_table(result, cells))
    for note in _notes(result):
        stdout.print(note, style="dim", markup=False)
    _print_title("Calibration tasks needed for one threshold, if each has enough examples")
    stdout.print(_needs_table(result))
    stdout.print(_ADVICE, markup=False)


def _print_title(text: str) -> None:
    stdout.print(text, style="italic", markup=False)


def _describe_tasks(cells: list[Cell]) -> str:
    """Return the number of calibration tasks assumed, of each alpha if they differ."""
    counts = {cell.alpha: cell.tasks for cell in cells}
    tasks = [format_count(count, "calibration task") for count in counts.values()]
    if len(set(counts.values())) == 1:
        return tasks[0]
    first, *others = counts.items()
    rest = [f"{count} at {alpha:g}" for alpha, count in others]
    return ", ".join([f"{tasks[0]} at alpha {first[0]:g}", *rest])


def _shown_classes(result: Exploration) -> list[Any]:
    """Return the rarest classes, as many as the terminal has room for."""
    room = (stdout.width - _LEVELS_WIDTH) // _CLASS_WIDTH
    count = min(max(room, 1), _SHOWN)
    rarest = sorted(result.classes, key=result.prevalence.__getitem__)[:count]
    return [label for label in result.classes if label in rarest]


def _sets_table(result: Exploration, cells: list[Cell]) -> Any:
    """Return a row for each pair of levels; alpha is written once."""
    shown = _shown_classes(result)
    table = make_table([], ["alpha", "epsilon", "set size", "empty", "full"])
    width = max(_CLASS_WIDTH, (stdout.width - _LEVELS_WIDTH) // len(shown)) - 3
    for label in shown:
        header = make_cell(f"missed {label} ({result.prevalence[label]:.1%})")
        table.add_column(header, justify="right", overflow="fold", max_width=width)
    alpha = None
    for cell in cells:
        name, alpha = ("" if cell.alpha == alpha else f"{cell.alpha:g}"), cell.alpha
        if cell.tasks_needed is None:
            is_last = cell.epsilon == cells[-1].epsilon
            table.add_row(name, *_sets_row(cell, shown), end_section=is_last)
        elif name:  # one row, whatever epsilon is
            table.add_row(name, "any", f"needs {cell.tasks_needed} tasks", end_section=True)
    return table


def _sets_row(cell: Cell, shown: list[Any]) -> list[str]:
    """Return the row of a cell, without its alpha."""
    return [
        f"{cell.epsilon:g}",
        _with_error(cell.size, ".2f"),
        _without_error(cell.empty),
        _without_error(cell.full),
        *(_with_error(cell.missed[label], ".1%") for label in shown),
    ]


def _with_error(estimate: Estimate, style: str) -> str:
    """Return an estimate and half the width of its interval."""
    if math.isnan(estimate.low):
        return _without_error(estimate, style)
    half = max(estimate.high - estimate.value, estimate.value - estimate.low)
    return f"{estimate.value:{style}} ±{half:{style}}"


def _without_error(estimate: Estimate, style: str = ".1%") -> str:
    return "-" if math.isnan(estimate.value) else f"{estimate.value:{style}}"


def _notes(result: Exploration) -> list[str]:
    """Return what the columns mean, and which classes are missed most of the time."""
    notes = [
        "set size: mean over pilot tasks. empty, full: share of sets without a label, with every "
        "label. missed: share of the examples of a class whose set lacks it; in parentheses, how "
        "common the class is. ±: 95% interval over pilot tasks."
    ]
    shown = len(_shown_classes(result))
    if shown < len(result.classes):
        notes.append(f"The {shown} rarest of {len(result.classes)} classes; --json has all.")
    if any(cell.tasks_needed is not None for cell in result.cells):
        notes.append(
            "needs: too few calibration tasks for the guarantee. Calibration refuses them, or "
            "keeps every label."
        )
    if any(_has_several_counts(result, per_class=each) for each in (False, True)):
        notes.append("The alphas assume different numbers of tasks: to compare them, pass --tasks.")
    if cases := _find_mostly_missed(result):
        notes.append(
            f"One threshold misses more than half of a class: {listed(cases, shown=3)}. Use "
            "--per-class, or a smaller epsilon."
        )
    return notes


def _find_mostly_missed(result: Exploration) -> list[str]:
    """Return the classes that are missed most of the time, and from which epsilon on."""
    missed = {
        label: min((c.epsilon for c in result.cells if _is_mostly_missed(c, label)), default=None)
        for label in result.classes
    }
    return [f"{label!r} from epsilon {least:g}" for label, least in missed.items() if least]


def _has_several_counts(result: Exploration, *, per_class: bool) -> bool:
    return len({cell.tasks for cell in result.cells if cell.per_class == per_class}) > 1


def _is_mostly_missed(cell: Cell, label: Any) -> bool:
    return not cell.per_class and cell.missed[label].value > 0.5


def _needs_table(result: Exploration) -> Any:
    """Return the least number of calibration tasks for each alpha and delta."""
    needed = result.tasks_needed
    deltas = list(next(iter(needed.values())))
    names = ["delta none" if delta is None else f"delta {delta:g}" for delta in deltas]
    table = make_table(["alpha"], names)
    for alpha, by_delta in needed.items():
        table.add_row(f"{alpha:g}", *(str(count) for count in by_delta.values()))
    return table
