"""``metapac explore``: levels tried on pilot tasks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from metapac._common import listed, warn
from metapac.cli.console import format_count, make_cell, make_table, print_json, print_line, stdout
from metapac.cli.options import (
    Allow,
    AsJson,
    Classes,
    Id,
    Scores,
    TableOptions,
    Task,
    parse_allowed,
    parse_columns,
    parse_delta,
    parse_names,
)
from metapac.cli.sources import open_table
from metapac.errors import InvalidInput
from metapac.exploration import Cell, Estimate, Exploration

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
    """Print what to expect at each pair of levels, what it means, and how to go on."""
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


def explore(
    scores: Scores,
    *,
    task: Task,
    label: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="Column with the true label.",
            rich_help_panel="Columns of the table",
        ),
    ],
    columns: Annotated[
        str,
        typer.Option(
            metavar="PATTERN|NAMES",
            help="Columns with the score of each class: a pattern whose star stands for the class, "
            "or names separated by commas; or one column of lists.",
            rich_help_panel="Columns of the table",
        ),
    ] = "p_*",
    classes: Classes = None,
    epsilon: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help="Miss rates to try, separated by commas.",
            rich_help_panel="Levels to try",
        ),
    ] = ".01,.02,.05,.1,.2",
    alpha: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help="Fractions of new tasks that may exceed the miss rate, separated by commas.",
            rich_help_panel="Levels to try",
        ),
    ] = ".05,.1,.2",
    delta: Annotated[
        str,
        typer.Option(
            metavar="NUMBER|none",
            help="Failure probability of the guarantee; 'none' for a guarantee in expectation.",
            rich_help_panel="Levels to try",
        ),
    ] = "0.05",
    tasks: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of calibration tasks that you will have. By default as many as pilot "
            "tasks or, if those are too few, the smallest number that works.",
            rich_help_panel="Levels to try",
        ),
    ] = None,
    min_examples: Annotated[
        int,
        typer.Option(
            min=0,
            help="Leave out tasks with fewer examples (with a threshold per class, of the class), "
            "as 'metapac calibrate --min-examples' does.",
            rich_help_panel="Levels to try",
        ),
    ] = 0,
    per_class: Annotated[bool, typer.Option("--per-class", hidden=True)] = False,
    id: Id = None,
    allow: Allow = None,
    reading: TableOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Pilot file to write, for 'metapac calibrate --pilot'."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="PNG or SVG file to write: set size and misses against epsilon."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try levels on pilot tasks, before calibration.

    For each epsilon and alpha: the set size, the share of empty and of full sets, and how many
    examples of each class are missed. First with one threshold for all classes, then with one per
    class, as 'metapac calibrate --per-class' gives.

    Pilot tasks must not be calibrated on afterwards; 'metapac calibrate --pilot' checks that.

    Example:

        metapac explore pilot.parquet --task site --label y -o pilot.json
    """
    if per_class:
        warn("--per-class changes nothing here: explore always shows both.")
    levels: dict[str, Any] = {
        "epsilon": _parse_numbers("--epsilon", epsilon),
        "alpha": _parse_numbers("--alpha", alpha),
        "delta": parse_delta(delta),
    }
    with open_table(scores, reading, output) as (opened, progress):
        from metapac.exploration import explore as explore_data
        from metapac.tables.output import check_path

        if plot is not None:
            check_path(opened.source, plot, [] if output is None else [output])
        named: dict[str, Any] = {"task": task, "label": label, "id": id}
        named |= {"columns": parse_columns(columns), "classes": parse_names(classes)}
        result = explore_data(
            opened.with_columns(**named),
            n_tasks=tasks,
            **levels,
            min_examples=min_examples,
            allow=parse_allowed(allow),
            progress=progress,
        )
    _report(result, output, plot, as_json=as_json)


def _parse_numbers(flag: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        message = f"{flag} must be numbers separated by commas, such as .05,.1, got {text!r}."
        raise InvalidInput(message) from None


def _report(result: Exploration, output: Path | None, plot: Path | None, *, as_json: bool) -> None:
    """Write the files that were asked for, and print the results."""
    if output is not None:
        result.save(output)
    if plot is not None:
        result.plot(plot)
    if as_json:
        print_json(result.to_dict())
        return
    print_exploration(result)
    if plot is not None:
        print_line(f"Plot written to {plot}")
    if output is not None:
        print_line(f"Pilot tasks and results written to {output}")
