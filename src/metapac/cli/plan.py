"""``metapac plan``: what a guarantee needs, and what tasks of your own can carry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from metapac import plots, shortage
from metapac._checks import whole_number
from metapac.cli.common import AsJson, console, flagged, parse_delta, told
from metapac.cli.tables import (
    Engine,
    EngineOption,
    Master,
    MemoryLimit,
    Reading,
    TableOption,
    Threads,
    opened,
)
from metapac.demands import Affordable, Demand, rounded_up
from metapac.guarantee import SPLITS
from metapac.planning import Option, Plan, options
from metapac.planning import plan as make_plan

Sizes = NDArray[np.int64]

_OWN = "Your own tasks"


@told
def plan(
    scores: Annotated[
        list[str] | None,
        typer.Argument(
            help="Table with a row for each labelled example that you have, to count with --task: "
            "files or a database, as for calibrate."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Miss rate allowed on a task, such as 0.1.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Fraction of new tasks that may miss more often.")
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|none",
            help="Failure probability of the guarantee; 'none' for a guarantee in expectation.",
        ),
    ] = None,
    classes: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of classes, for a guarantee for each (calibrate --per-class); examples "
            "are then those of one class.",
        ),
    ] = 1,
    plot: Annotated[
        Path | None, typer.Option(help="Draw what is needed against alpha, to a PNG or SVG.")
    ] = None,
    as_json: AsJson = False,
    task: Annotated[
        str | None, typer.Option(help="Column of the table with the task.", rich_help_panel=_OWN)
    ] = None,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            help="Number of labelled examples of each task, separated by commas; added to those of "
            "the table.",
            rich_help_panel=_OWN,
        ),
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(help="Number of tasks, if all are alike.", rich_help_panel=_OWN)
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(help="Number of labelled examples in each of --tasks.", rich_help_panel=_OWN),
    ] = None,
    table: TableOption = None,
    engine: EngineOption = Engine.duckdb,
    master: Master = None,
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
) -> None:
    """Show how many tasks and labelled examples a guarantee needs, and what yours can carry.

    With --epsilon, --alpha and --delta: what that guarantee needs and, where the sizes of your
    tasks are known, the rank that each split would use. With the sizes alone: which guarantees
    they can carry.
    """
    if scores is not None and classes > 1:
        raise ValueError(
            "--classes needs --sizes: a table tells how many examples a task has, not how many of "
            "one class. Pass as --sizes the examples of the rarest class in each task, zeros too."
        )
    how = Reading(table, engine, master, memory_limit, threads)
    own = _own_sizes(scores, task, sizes, tasks, examples, how)
    asked = {"epsilon": epsilon, "alpha": alpha, "delta": delta}
    missing = [f"--{name}" for name, value in asked.items() if value is None]
    if len(missing) == len(asked) and own is not None and plot is None:
        _offer(own, classes, as_json=as_json)
        return
    if missing:
        more = "" if len(missing) == len(asked) else " too"
        raise ValueError(
            f"pass {' and '.join(missing)}{more}, to see what a guarantee needs. To see what tasks "
            "of your own can carry, pass none of --epsilon, --alpha, --delta and --plot, but a "
            "table with --task, or --sizes."
        )
    asked["delta"] = parse_delta(str(delta))
    alike = None if tasks is None or examples is None else (tasks, examples)
    answer = _answer(asked, classes, own, alike)
    if plot is not None:
        _draw(answer.plans, asked, plot)
    if as_json:
        typer.echo(json.dumps(_summary(answer)))
        return
    _print(answer, classes)
    if plot is not None:
        console.print(f"What is needed against alpha is drawn in {plot}", markup=False)


def _own_sizes(
    scores: list[str] | None,
    task: str | None,
    sizes: list[str] | None,
    tasks: int | None,
    examples: int | None,
    how: Reading,
) -> Sizes | None:
    """Return the number of examples of each task, wherever it is told; None where it is not."""
    if (tasks is None) != (examples is None):
        raise ValueError("--tasks and --examples go together: pass both, or neither.")
    if (scores is None) != (task is None):
        raise ValueError("a table and --task go together: pass both, or neither.")
    own = [_parsed(sizes)] if sizes else []
    if scores is not None and task is not None:
        with opened(scores, how) as (source, tell):
            from metapac.tables.sizes import task_sizes

            tell("counting the examples of each task")
            own.append(task_sizes(source, task=task))
    if tasks is not None and examples is not None:
        if own:
            raise ValueError(
                "--tasks and --examples are for tasks that are all alike. Leave them out where "
                "there is a table or --sizes."
            )
        own.append(np.full(whole_number("--tasks", tasks), whole_number("--examples", examples)))
    return np.concatenate(own) if own else None


def _parsed(texts: list[str]) -> Sizes:
    words = [word.strip() for text in texts for word in text.split(",")]
    for word in words:
        if not word.isdecimal():
            raise ValueError(
                "--sizes must be whole numbers separated by commas, such as 743,38756, got "
                f"{word!r}."
            )
    return np.array([int(word) for word in words], dtype=np.int64)


class _Answer(NamedTuple):
    """What a guarantee needs with each split, and what becomes of one's own tasks."""

    plans: dict[str, Plan]
    best: dict[str, Affordable]  # of tasks that are alike
    sizes: Sizes | None
    options: dict[str, Option]
    recommended: Option | None
    ways_out: str | None  # where no split works


def _answer(
    asked: dict[str, Any], classes: int, own: Sizes | None, alike: tuple[int, int] | None
) -> _Answer:
    plans = {split: make_plan(**asked, split=split, classes=classes) for split in SPLITS}
    best = {} if alike is None else {name: each.affordable(*alike) for name, each in plans.items()}
    if own is None:
        return _Answer(plans, best, None, {}, None, None)
    guarantee = plans["joint"].guarantee
    found = {each.split: each for each in options(guarantee, own) if each.delta == guarantee.delta}
    named = {split: found[split] for split in SPLITS}
    recommended = next((each for each in named.values() if each.feasible), None)
    ways_out = None
    if recommended is None:
        lacking = [Demand.of_sizes(guarantee, own)]
        ways_out = flagged(shortage.of_tasks(lacking, trivial=False))
    return _Answer(plans, best, own, named, recommended, ways_out)


def _draw(plans: dict[str, Plan], asked: dict[str, Any], path: Path) -> None:
    alpha, delta = asked["alpha"], asked["delta"]
    alphas = np.geomspace(min(0.01, alpha / 2), max(0.5, alpha), 60)
    curves = {split: each.curve("alpha", alphas) for split, each in plans.items()}
    shown = "none" if delta is None else f"{delta:g}"
    title = f"What a guarantee needs at epsilon = {asked['epsilon']:g}, delta = {shown}"
    plots.needs(curves, title=title, path=path, mark=alpha)


def _summary(answer: _Answer) -> dict[str, Any]:
    """Return the answer as JSON can hold it."""
    found: dict[str, Any] = {split: _row(answer, split) for split in SPLITS}
    if answer.sizes is not None:
        best = answer.recommended
        found["recommended"] = None if best is None else best.split
        found["ways_out"] = answer.ways_out
    return found


def _row(answer: _Answer, split: str) -> dict[str, Any]:
    each = answer.plans[split]
    row: dict[str, Any] = {
        "tasks": each.tasks,
        "examples_per_task": each.examples_per_task,
        "labels": each.labels,
        "needs": [need[:2] for need in each.needs],
    }
    if split in answer.best:
        row |= {f"best_{name}": value for name, value in answer.best[split]._asdict().items()}
    if split in answer.options:
        option = answer.options[split]
        row |= {"ranks": option.ranks, "too_small": _too_small(answer, option)}
    return row


def _too_small(answer: _Answer, option: Option) -> int:
    sizes = np.empty(0) if answer.sizes is None else answer.sizes
    return int(np.count_nonzero(sizes < option.examples_per_task))


def _print(answer: _Answer, classes: int) -> None:
    caption = ""
    if classes > 1:
        caption = (
            f"For each of {classes} classes: examples are those of one class, and delta is divided "
            "among the classes."
        )
    _show("Minimum data for the guarantee", _needs(answer), caption)
    if answer.sizes is None:
        return
    tasks = _described(answer.sizes)
    if answer.best:
        title = f"Smallest value of each parameter that {tasks} can carry, the others held fixed"
        _show(title, _affordable(answer))
    caption = (
        "rank: which of the sorted task thresholds becomes the threshold; the higher, the smaller "
        "the sets. joint has a rank at each of its levels and uses the highest of their "
        "thresholds. A dash: infeasible."
    )
    _show(f"Rank of each split on {tasks}", _ranks(answer), caption)
    advice = answer.ways_out
    if answer.recommended is not None:
        split = answer.recommended.split
        advice = f"Recommended: --split {split}{', the default' * (split == 'joint')}."
    console.print(advice, markup=False)


def _show(title: str, table: Table, caption: str = "") -> None:
    """Print a table between two lines, which may be wider than it."""
    console.print(f"[italic]{title}[/italic]")
    console.print(table)
    if caption:
        console.print(caption, style="dim")


def _table(*columns: str) -> Table:
    table = Table(columns[0])
    for name in columns[1:]:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _needs(answer: _Answer) -> Table:
    table = _table("split", "tasks", "examples per task", "labels in total")
    for split, each in answer.plans.items():
        first, last = each.needs[0], each.needs[-1]
        corners = {split: first}
        if first != last:
            corners = {f"{split}, fewest tasks": first, f"{split}, smallest tasks": last}
        for name, need in corners.items():
            table.add_row(name, str(need.tasks), str(need.examples_per_task), str(need.labels))
    return table


def _affordable(answer: _Answer) -> Table:
    table = _table("split", "epsilon", "alpha", "delta")
    for split, best in answer.best.items():
        table.add_row(split, *(_shown(value) for value in best))
    return table


def _ranks(answer: _Answer) -> Table:
    table = _table("split", "rank", "examples needed in a task", "tasks with fewer")
    for split, option in answer.options.items():
        few = _too_small(answer, option)
        table.add_row(split, _places(answer, option), str(option.examples_per_task), str(few))
    return table


def _places(answer: _Answer, option: Option) -> str:
    if not option.feasible or answer.sizes is None:
        return "-"
    low, high = min(option.ranks), max(option.ranks)
    return f"{low if low == high else f'{low} to {high}'} of {len(answer.sizes)}"


def _described(sizes: Any) -> str:
    least, most = int(sizes.min()), int(sizes.max())
    each = f"{least}" if least == most else f"{least} to {most}"
    return f"{len(sizes)} task{'s' * (len(sizes) != 1)} of {each} examples"


def _offer(sizes: Sizes, classes: int, *, as_json: bool) -> None:
    """Show the smallest epsilon that tasks can carry, by alpha and delta."""
    found = make_plan(sizes=sizes, classes=classes)
    if as_json:
        typer.echo(json.dumps([each._asdict() for each in found]))
        return
    deltas = list(dict.fromkeys(each.delta for each in found))
    table = _table("alpha", *(f"delta {'none' if x is None else f'{x:g}'}" for x in deltas))
    for alpha in dict.fromkeys(each.alpha for each in found):
        row = {each.delta: each.epsilon for each in found if each.alpha == alpha}
        table.add_row(f"{alpha:g}", *(_shown(row[delta]) for delta in deltas))
    caption = (
        "delta none: a guarantee in expectation. It is weaker and needs fewer tasks, but uses one "
        "level, so that small tasks can need a larger epsilon. A dash: no epsilon is possible."
    )
    _show(f"What {_described(sizes)} can carry: the smallest epsilon", table, caption)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{rounded_up(value):g}"
