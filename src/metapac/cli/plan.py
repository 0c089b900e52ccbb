"""``metapac plan``: how much data a guarantee needs, and which guarantees your tasks support."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from metapac import plots
from metapac._checks import as_whole_number
from metapac._types import Counts
from metapac.cli.bundles import TableOptions
from metapac.cli.console import print_json, print_line
from metapac.cli.errors import make_renderer
from metapac.cli.options import AsJson
from metapac.cli.parsing import parse_allowed, parse_delta
from metapac.cli.plan_halves import Half, print_half
from metapac.cli.plan_results import (
    PlanResult,
    find_class_offers,
    print_offers,
    print_result,
    summarise,
)
from metapac.cli.sources import open_table
from metapac.exceptions import InvalidInput
from metapac.planning import Plan

_guarantee_option = partial(typer.Option, rich_help_panel="Guarantee")
_task_option = partial(typer.Option, rich_help_panel="Your tasks")


@dataclass(frozen=True)
class _Levels:
    """The guarantee to plan for; epsilon, alpha and delta are given together, or not at all."""

    epsilon: Annotated[
        float | None, _guarantee_option(help="Miss rate allowed on a task, such as 0.1.")
    ] = None
    alpha: Annotated[
        float | None,
        _guarantee_option(help="Fraction of new tasks that may exceed the miss rate, such as 0.1."),
    ] = None
    delta: Annotated[
        str | None,
        _guarantee_option(
            metavar="NUMBER|none",
            help="Failure probability of the guarantee, over calibration draws, such as 0.05; "
            "'none' for a guarantee in expectation.",
        ),
    ] = None
    per_class: Annotated[
        bool,
        _guarantee_option(
            "--per-class",
            help="Plan for a guarantee per class. With a table, its classes are counted, and "
            "--label is needed; without one, pass --number-of-classes.",
        ),
    ] = False
    number_of_classes: Annotated[
        int,
        _guarantee_option(
            min=1,
            help="Number of classes, for a guarantee per class; numbers of examples, given and "
            "printed, are then those of one class.",
        ),
    ] = 1
    allow: Annotated[
        list[str] | None,
        _guarantee_option(
            metavar="NAME",
            help="Check to skip: 'levels', if you do mean an epsilon or delta above 0.5, or an "
            "alpha above 0.75.",
        ),
    ] = None


@dataclass(frozen=True)
class _YourTasks:
    """How many labelled examples the tasks at hand have."""

    task: Annotated[
        str | None, _task_option(metavar="COLUMN", help="Column of the table with the task.")
    ] = None
    label: Annotated[
        str | None,
        _task_option(
            metavar="COLUMN", help="Column of the table with the true label, for --per-class."
        ),
    ] = None
    sizes: Annotated[
        list[str] | None,
        _task_option(
            metavar="NUMBERS",
            help="Number of labelled examples of each task, separated by commas; added to those "
            "of the table.",
        ),
    ] = None
    tasks: Annotated[
        int | None,
        _task_option(
            help="Number of tasks, if all have the same size. Without --examples, the size that "
            "they need is printed.",
        ),
    ] = None
    examples: Annotated[
        int | None,
        _task_option(
            help="Number of labelled examples in each of --tasks. Without --tasks, the number of "
            "tasks needed is printed.",
        ),
    ] = None

    @property
    def equal_tasks(self) -> tuple[int, int] | None:
        """The number of tasks and the size of each, if all have the same size."""
        if self.tasks is None or self.examples is None:
            return None
        return self.tasks, self.examples

    @property
    def half(self) -> Half | None:
        """The number of tasks or their size, if only one of them is given."""
        if (self.tasks is None) == (self.examples is None):
            return None
        return Half(self.tasks, self.examples)


def plan(
    context: typer.Context,
    scores: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCORES",
            help="Table with a row for each labelled example, whose tasks are counted: files or a "
            "database, as for 'metapac calibrate'. Needs --task.",
        ),
    ] = None,
    *,
    levels: _Levels,
    your_tasks: _YourTasks,
    reading: TableOptions,
    plot: Annotated[
        Path | None,
        typer.Option(help="PNG or SVG file to write: a plot of the data needed against alpha."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how many tasks and labelled examples a guarantee needs.

    With --epsilon, --alpha and --delta: the data that this guarantee needs and, if you describe
    your tasks, whether they support it. With your tasks alone: the guarantees that they support.

    Examples:

        metapac plan --epsilon 0.1 --alpha 0.1 --delta 0.05
        metapac plan --tasks 60
        metapac plan scores.parquet --task site
        metapac plan scores.parquet --task site --label y --per-class
    """
    _check_classes(scores, levels, your_tasks)
    sizes = _task_sizes(scores, your_tasks, reading, per_class=levels.per_class)
    has_levels = any(x is not None for x in (levels.epsilon, levels.alpha, levels.delta))
    classes = max(levels.number_of_classes, len(sizes or ()))
    if sizes is not None and plot is None and not has_levels:
        print_offers(find_class_offers(sizes, classes), sizes, as_json=as_json)
        return
    half = your_tasks.half
    if half is not None and plot is None and not has_levels:
        print_half(half, classes, as_json=as_json)
        return
    numbers = _parse_levels(levels)
    result = PlanResult.compute(
        numbers | {"allow": parse_allowed(levels.allow)},
        classes,
        sizes,
        your_tasks.equal_tasks,
        show=make_renderer(context),
    )
    if plot is not None:
        _draw(result.plans, numbers, plot)
    if as_json:
        yours = {} if half is None else {"your_tasks": half.complete(result.plans["joint"])}
        print_json(summarise(result) | yours)
        return
    print_result(result, classes)
    if half is not None:
        print_line(half.describe(result.plans["joint"]))
    if plot is not None:
        print_line(f"Plot of the data needed against alpha written to {plot}")


def _check_classes(scores: list[str] | None, levels: _Levels, your_tasks: _YourTasks) -> None:
    """Raise if the options that describe classes do not go together."""
    if scores is not None and levels.number_of_classes > 1:
        raise InvalidInput(
            "--number-of-classes is for planning without a table. With a table, pass --per-class "
            "and --label: its classes are counted."
        )
    if (your_tasks.label is not None) != (levels.per_class and scores is not None):
        raise InvalidInput(
            "a table, --per-class and --label go together: pass all of them, or only the table. "
            "Without a table, pass --number-of-classes."
        )
    if levels.per_class and scores is None and levels.number_of_classes == 1:
        raise InvalidInput("--per-class needs --number-of-classes, or a table with --label.")
    if levels.per_class and scores is not None and your_tasks.sizes:
        raise InvalidInput(
            "--sizes cannot be added to a table with --per-class: they do not say how many "
            "examples are of each class. Leave one of them out."
        )


def _parse_levels(levels: _Levels) -> dict[str, Any]:
    """Return epsilon, alpha and delta, none of which may be missing."""
    given = {"epsilon": levels.epsilon, "alpha": levels.alpha, "delta": levels.delta}
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if missing:
        too = " too" if len(missing) < len(given) else ""
        raise InvalidInput(
            f"pass {' and '.join(missing)}{too}, to see what a guarantee needs. To see which "
            "guarantees your tasks support, leave out --epsilon, --alpha, --delta and --plot, and "
            "pass a table with --task, or --sizes, --tasks or --examples."
        )
    return given | {"delta": parse_delta(str(levels.delta))}


def _task_sizes(
    scores: list[str] | None, your_tasks: _YourTasks, reading: TableOptions, *, per_class: bool
) -> dict[Any, Counts] | None:
    """Return the sizes of the tasks, by class if there are any; None if no tasks are given."""
    _check_pairs(scores, your_tasks)
    sizes = [_parse_sizes(your_tasks.sizes)] if your_tasks.sizes else []
    if scores is not None and your_tasks.task is not None:
        with open_table(scores, reading) as (source, progress):
            from metapac.tables.sizes import count_by_class, count_examples

            progress("counting the examples of each task", 0, None)
            if per_class and your_tasks.label is not None:
                return count_by_class(source, task=your_tasks.task, label=your_tasks.label)
            sizes.append(count_examples(source, task=your_tasks.task))
    if your_tasks.equal_tasks is not None:
        tasks, examples = your_tasks.equal_tasks
        count = as_whole_number("tasks", tasks)
        sizes.append(np.full(count, as_whole_number("examples", examples)))
    return {None: np.concatenate(sizes)} if sizes else None


def _check_pairs(scores: list[str] | None, your_tasks: _YourTasks) -> None:
    """Raise if the options that describe tasks do not go together."""
    if (scores is None) != (your_tasks.task is None):
        raise InvalidInput("a table and --task go together: pass both, or neither.")
    equal = your_tasks.tasks is not None or your_tasks.examples is not None
    if equal and (your_tasks.sizes or scores is not None):
        raise InvalidInput(
            "--tasks and --examples are for tasks that all have the same size. Leave them out if "
            "there is a table or --sizes."
        )


def _parse_sizes(texts: list[str]) -> Counts:
    words = [word.strip() for text in texts for word in text.split(",")]
    for word in words:
        if not word.isdecimal():
            raise InvalidInput(
                "--sizes must be whole numbers separated by commas, such as 743,38756, got "
                f"{word!r}."
            )
    return np.array([int(word) for word in words], dtype=np.int64)


def _draw(plans: dict[str, Plan], numbers: dict[str, Any], path: Path) -> None:
    alpha, delta = numbers["alpha"], numbers["delta"]
    alphas = np.geomspace(min(0.01, alpha / 2), max(0.5, alpha), 60)
    curves = {split: plan.curve("alpha", alphas) for split, plan in plans.items()}
    delta_text = "none" if delta is None else f"{delta:g}"
    title = f"Data needed at epsilon = {numbers['epsilon']:g}, delta = {delta_text}"
    plots.draw_needs(curves, title=title, path=path, mark=alpha)
