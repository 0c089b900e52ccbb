"""``metapac plan``: what a guarantee needs, what given tasks support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.table import Table

from metapac import plots
from metapac._common import Counts, as_whole_number
from metapac.binomial import round_up
from metapac.cli.commands import Translator, make_translator
from metapac.cli.console import format_count, make_table, print_json, print_line, stdout
from metapac.cli.options import AsJson, TableOptions, parse_allowed, parse_delta
from metapac.cli.sources import open_table
from metapac.errors import InvalidInput
from metapac.guarantee import SPLITS, Guarantee
from metapac.planning import (
    OFFERED_ALPHAS,
    OFFERED_DELTAS,
    Affordable,
    Demand,
    Offer,
    Option,
    Plan,
    compare_splits,
    explain_too_few_tasks,
    find_offers,
    min_tasks_over_levels,
)
from metapac.planning import plan as make_plan

_EPSILONS = (0.05, 0.1, 0.2)


class Half(NamedTuple):
    """The number of tasks without their size, or the size without the number."""

    tasks: int | None
    examples: int | None

    def complete(self, plan: Plan) -> dict[str, int | None]:
        """Return the half that is known, and what a guarantee needs of the other one."""
        if self.tasks is not None:
            return {"tasks": self.tasks, "examples_per_task": plan.examples_for(self.tasks)}
        size = as_whole_number("examples", self.examples)
        return {"tasks": plan.tasks_for(size), "examples_per_task": size}

    def describe(self, plan: Plan) -> str:
        """Return in a sentence what a guarantee needs of the other half."""
        tasks, size = self.complete(plan).values()
        of = "" if plan.classes == 1 else " of each class"
        number = format_count(tasks or 0, "task")
        if size is None:
            return f"With {number}, no number of examples suffices."
        if tasks is None:
            return f"With {size} labelled examples{of} in each task, no number of tasks suffices."
        if self.tasks is not None:
            return f"With {number}, each needs at least {size} labelled examples{of}."
        return f"With {size} labelled examples{of} in each task, you need at least {number}."


def print_half(half: Half, classes: int, *, as_json: bool) -> None:
    """Print what common guarantees need of the half that is not known."""
    delta = OFFERED_DELTAS[0]
    plans = {
        (epsilon, alpha): make_plan(epsilon=epsilon, alpha=alpha, delta=delta, classes=classes)
        for alpha in OFFERED_ALPHAS
        for epsilon in _EPSILONS
    }
    if as_json:
        names = ("epsilon", "alpha", "delta")
        print_json(
            [
                dict(zip(names, (*levels, delta), strict=True)) | half.complete(plan)
                for levels, plan in plans.items()
            ]
        )
        return
    table = make_table(["alpha"], [f"epsilon {epsilon:g}" for epsilon in _EPSILONS])
    for alpha in OFFERED_ALPHAS:
        cells = (_format_cell(half, plans[epsilon, alpha]) for epsilon in _EPSILONS)
        table.add_row(f"{alpha:g}", *cells)
    stdout.print(_title(half, classes), style="italic")
    stdout.print(table)
    caption = (
        "These are minima: more examples give smaller sets. To plan for one of these guarantees, "
        "pass --epsilon, --alpha and --delta too."
    )
    stdout.print(caption, style="dim")


def _format_cell(half: Half, plan: Plan) -> str:
    """Return the number needed; if there is none, what is needed of the half that is known."""
    tasks, size = half.complete(plan).values()
    if size is None:
        return f"needs {plan.tasks} tasks"
    if tasks is None:
        return f"needs {plan.needs[-1].examples_per_task} examples"
    return str(tasks if half.tasks is None else size)


def _title(half: Half, classes: int) -> str:
    of = "" if classes == 1 else " of each class"
    delta = f"at delta {OFFERED_DELTAS[0]:g}"
    if half.tasks is not None:
        number = format_count(half.tasks, "task")
        return f"Labelled examples{of} that each task needs, with {number}, {delta}"
    return f"Tasks needed, with {half.examples} labelled examples{of} in each, {delta}"


_SHOWN = 3  # classes, the rarest ones


@dataclass(frozen=True)
class PlanResult:
    """What a guarantee needs with each split, and how the tasks at hand compare."""

    plans: dict[str, Plan]
    affordable: dict[str, Affordable]
    sizes: dict[Any, Counts] | None
    options: dict[str, Option]
    recommended: Option | None
    remedies: str | None

    @classmethod
    def compute(
        cls,
        levels: dict[str, Any],
        classes: int,
        sizes: dict[Any, Counts] | None,
        equal_tasks: tuple[int, int] | None,
        *,
        as_options: Translator,
    ) -> PlanResult:
        """Return the results for all splits."""
        plans = {split: make_plan(**levels, split=split, classes=classes) for split in SPLITS}
        affordable = {}
        if equal_tasks is not None:
            affordable = {split: plan.affordable(*equal_tasks) for split, plan in plans.items()}
        if sizes is None:
            return cls(plans, affordable, None, {}, None, None)
        guarantee = plans["joint"].guarantee
        named = {split: _scarcest(guarantee, sizes, split) for split in SPLITS}
        recommended = next((option for option in named.values() if option.feasible), None)
        remedies = None
        if recommended is None:
            # Without a table, all classes are taken to have as many examples.
            labels = [*sizes] if classes in (1, len(sizes)) else [*range(1, classes + 1)]
            demands = [
                Demand.from_sizes(
                    guarantee, sizes.get(label, next(iter(sizes.values()))), label=label
                )
                for label in labels
            ]
            remedies = as_options(explain_too_few_tasks(demands, trivial=False))
        return cls(plans, affordable, sizes, named, recommended, remedies)

    @property
    def tasks(self) -> int:
        """Number of tasks; 0 if none are given."""
        return 0 if self.sizes is None else len(next(iter(self.sizes.values())))

    def too_small(self, option: Option) -> int:
        """Return how many tasks have fewer examples than a split needs."""
        every = () if self.sizes is None else self.sizes.values()
        counts = [np.count_nonzero(sizes < option.examples_per_task) for sizes in every]
        return int(max(counts, default=0))


def _scarcest(guarantee: Guarantee, sizes: dict[Any, Counts], split: str) -> Option:
    """Return what a split makes of the tasks, for the class that supports the least."""
    options = []
    for counts in sizes.values():
        compared = compare_splits(replace(guarantee, split=split), counts)
        options.append(next(x for x in compared if (x.split, x.delta) == (split, guarantee.delta)))
    return min(options, key=lambda option: max(option.nth_lowest, default=0))


def find_class_offers(sizes: dict[Any, Counts], classes: int) -> list[Offer]:
    """Return the smallest epsilon that tasks support for every class, by alpha and delta."""
    offers = []
    for same in zip(*(find_offers(x, classes=classes) for x in sizes.values()), strict=True):
        rates = [offer.epsilon for offer in same if offer.epsilon is not None]
        offers.append(same[0]._replace(epsilon=max(rates) if len(rates) == len(same) else None))
    return offers


def summarise(result: PlanResult) -> dict[str, Any]:
    """Return the results as JSON can hold them."""
    summary: dict[str, Any] = {split: _split_summary(result, split) for split in SPLITS}
    if result.sizes is not None:
        summary["recommended"] = None if result.recommended is None else result.recommended.split
        summary["ways_out"] = result.remedies
    return summary | {"dishonest": _count_dishonest(result.plans["joint"])}


def _count_dishonest(plan: Plan) -> dict[str, Any]:
    """Return how many dishonest sites decide the sets: with the fewest tasks, and safer ones."""
    from metapac.federated import count_liars

    g = plan.guarantee
    safer = min_tasks_over_levels(g, [1] * len(g.levels))[0]
    return {
        name: {"tasks": tasks, **count_liars(g, tasks)._asdict()}
        for name, tasks in (("fewest", plan.tasks), ("safer", safer))
    }


def _split_summary(result: PlanResult, split: str) -> dict[str, Any]:
    plan = result.plans[split]
    row: dict[str, Any] = {
        "tasks": plan.tasks,
        "examples_per_task": plan.examples_per_task,
        "labels": plan.labels,
        "needs": [need[:2] for need in plan.needs],
    }
    if split in result.affordable:
        levels = result.affordable[split]._asdict()
        row |= {f"best_{name}": value for name, value in levels.items()}
    if split in result.options:
        option = result.options[split]
        row |= {"ranks": option.nth_lowest, "too_small": result.too_small(option)}
    return row


def print_result(result: PlanResult, classes: int) -> None:
    """Print what is needed in a sentence, then tables, and the recommended split."""
    stdout.print(_headline(result), markup=False)
    caption = (
        "split: how alpha is shared between the two steps of the method. Every split gives the "
        "same guarantee; joint is the default, and right for most data."
    )
    if classes > 1:
        caption += (
            f" For each of {classes} classes: examples are those of one class, and delta is "
            "divided among the classes."
        )
    _print_table("Minimum data for the guarantee, by split", _needs_table(result), caption)
    if result.sizes is None:
        stdout.print(_warn_of_liars(result.plans["joint"]), markup=False)
        return
    if result.affordable:
        _print_table(
            "How small each parameter can be with your tasks, if the other two stay as they are",
            _affordable_table(result),
        )
    caption = (
        "rank: the threshold is the task threshold of this rank, counted from the lowest; a higher "
        "rank gives smaller sets. joint takes the highest of several thresholds. A task that is "
        "too small counts as the lowest."
    )
    _print_table("How each split would use your tasks", _ranks_table(result), caption)
    advice = result.remedies
    if result.recommended is not None:
        split = result.recommended.split
        advice = f"Recommended: --split {split}{', the default' if split == 'joint' else ''}."
    stdout.print(advice, markup=False)


def _headline(result: PlanResult) -> str:
    """Return what the default split needs, and whether the tasks at hand suffice."""
    plan = result.plans["joint"]
    ends = dict.fromkeys(need.describe(plan.classes) for need in (plan.needs[0], plan.needs[-1]))
    between = ", or something in between" if len(plan.needs) > 2 else ""
    needed = f"You need {', or '.join(ends)}{between}."
    if result.sizes is None:
        return needed
    verdict = "do not suffice" if result.recommended is None else "suffice"
    return f"{needed} Your {_describe(result.sizes)} {verdict}."


def _warn_of_liars(plan: Plan) -> str:
    """Return what one dishonest site can do with the fewest tasks, and when it takes two."""
    fewest, safer = _count_dishonest(plan).values()
    takes = fewest["to_keep_all"]
    sites = "1 dishonest site" if takes == 1 else f"{takes} dishonest sites"
    return (
        f"If tasks are sites that compute their own numbers: with {fewest['tasks']} tasks, {sites} "
        f"can force every label into every set; with {safer['tasks']}, it takes "
        f"{safer['to_keep_all']}."
    )


def print_offers(offers: Sequence[Offer], sizes: dict[Any, Counts], *, as_json: bool) -> None:
    """Print the smallest epsilon that the tasks support, by alpha and delta."""
    if as_json:
        print_json([offer._asdict() for offer in offers])
        return
    deltas = list(dict.fromkeys(offer.delta for offer in offers))
    names = [f"delta {'none' if delta is None else f'{delta:g}'}" for delta in deltas]
    table = make_table(["alpha"], names)
    for alpha in dict.fromkeys(offer.alpha for offer in offers):
        row = {offer.delta: offer.epsilon for offer in offers if offer.alpha == alpha}
        table.add_row(f"{alpha:g}", *(_number(row[delta]) for delta in deltas))
    caption = (
        "delta none: a weaker guarantee, in expectation. It needs fewer tasks, but if tasks are "
        "small its epsilon can be larger. 'no value' if the tasks are too few for any epsilon."
    )
    _print_table(f"Smallest epsilon with {_describe(sizes)}", table, caption)


def _print_table(title: str, table: Table, caption: str = "") -> None:
    """Print a table with its title and caption, which may be wider than it."""
    stdout.print(title, style="italic")
    stdout.print(table)
    if caption:
        stdout.print(caption, style="dim")


def _needs_table(result: PlanResult) -> Table:
    table = make_table(["split"], ["tasks", "examples per task", "labels in total"])
    for split, plan in result.plans.items():
        first, last = plan.needs[0], plan.needs[-1]
        needs = {split: first}
        if first != last:
            needs = {f"{split}, fewest tasks": first, f"{split}, smallest tasks": last}
        for name, need in needs.items():
            table.add_row(
                name, str(need.tasks), str(need.examples_per_task), str(need.labels * plan.classes)
            )
    return table


def _affordable_table(result: PlanResult) -> Table:
    table = make_table(["split"], ["epsilon", "alpha", "delta"])
    for split, levels in result.affordable.items():
        table.add_row(split, *(_number(value) for value in levels))
    return table


def _ranks_table(result: PlanResult) -> Table:
    headers = ["rank", "examples needed in a task", "tasks with fewer"]
    table = make_table(["split"], headers)
    for split, option in result.options.items():
        rank = _rank_text(result, option)
        table.add_row(split, rank, str(option.examples_per_task), str(result.too_small(option)))
    return table


def _rank_text(result: PlanResult, option: Option) -> str:
    if not option.feasible:
        return "infeasible"
    low, high = min(option.nth_lowest), max(option.nth_lowest)
    return f"{low if low == high else f'{low} to {high}'} of {result.tasks}"


def _describe(sizes: dict[Any, Counts]) -> str:
    """Return the number of tasks and their sizes, in words."""
    if len(sizes) == 1:
        ((label, counts),) = sizes.items()
        of_class = "" if label is None else f" of class {label!r}"
        return f"{format_count(len(counts), 'task')} of {_span(counts)} examples{of_class}"
    rarest = sorted(sizes, key=lambda label: int(sizes[label].sum()))[:_SHOWN]
    parts = [f"{_span(sizes[label])} of class {label!r}" for label in sizes if label in rarest]
    more = f", the {_SHOWN} rarest of {len(sizes)} classes" if len(sizes) > _SHOWN else ""
    tasks = format_count(len(next(iter(sizes.values()))), "task")
    return f"{tasks} ({', '.join(parts)}{more})"


def _span(counts: Counts) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _number(value: float | None) -> str:
    return "no value" if value is None else f"{round_up(value):g}"


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
        as_options=make_translator(context),
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
        with open_table(scores, reading) as (table, progress):
            progress("counting the examples of each task", 0, None)
            table = table.with_columns(task=your_tasks.task, label=your_tasks.label)
            if per_class and your_tasks.label is not None:
                return table.sizes(by_class=True)
            sizes.append(table.sizes()[None])
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
