"""``metapac plan``: how many tasks and labels a promise needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from metapac import plots
from metapac.cli.common import Alpha, AsJson, Delta, Epsilon, console, told
from metapac.planning import Plan, rounded_up
from metapac.planning import plan as make_plan

_SPLITS = ("tight", "even", "adaptive")


@told
def plan(
    epsilon: Epsilon,
    alpha: Alpha,
    delta: Delta,
    tasks: Annotated[int | None, typer.Option(help="Tasks you have: what could they buy?")] = None,
    examples: Annotated[int | None, typer.Option(help="Labelled examples in each.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw needs against alpha to a PNG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say how many tasks, and how many labelled examples in each, a promise needs."""
    if (tasks is None) != (examples is None):
        raise ValueError("--tasks and --examples go together: pass both, or neither.")
    plans = {
        split: make_plan(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
        for split in _SPLITS
    }
    if plot is not None:
        alphas = np.geomspace(min(0.01, alpha / 2), max(0.5, alpha), 60)
        curves = {split: each.curve("alpha", alphas) for split, each in plans.items()}
        title = f"What a promise needs at epsilon = {epsilon:g}, delta = {delta:g}"
        plots.needs(curves, title=title, path=plot, mark=alpha)
    rows = {split: _row(each, tasks, examples) for split, each in plans.items()}
    if as_json:
        typer.echo(json.dumps(rows))
        return
    console.print(_table(rows, tasks, examples))
    if plot is not None:
        console.print(f"Needs against alpha drawn in {plot}", markup=False)


def _row(plan: Plan, tasks: int | None, examples: int | None) -> dict[str, float | None]:
    row: dict[str, float | None] = {
        "tasks": plan.tasks,
        "examples_per_task": plan.examples_per_task,
        "labels": plan.labels,
    }
    if tasks is not None and examples is not None:
        best = plan.affordable(tasks, examples)
        row |= {f"best_{name}": value for name, value in best._asdict().items()}
    return row


def _table(
    rows: dict[str, dict[str, float | None]], tasks: int | None, examples: int | None
) -> Table:
    table = Table(
        title="What the promise needs at the least",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("split")
    for name in ("tasks", "examples in each", "labels in all"):
        table.add_column(name, justify="right", overflow="fold")
    if tasks is not None:
        table.caption = (
            f"best: the smallest value that {tasks} tasks of {examples} examples can buy, "
            "the other two as asked; a dash where none can"
        )
        for name in ("epsilon", "alpha", "delta"):
            table.add_column(f"best {name}", justify="right", overflow="fold")
    for split, row in rows.items():
        counts = [f"{row[name]}" for name in ("tasks", "examples_per_task", "labels")]
        best = [_shown(value) for name, value in row.items() if name.startswith("best_")]
        table.add_row(split, *counts, *best)
    return table


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{rounded_up(value):g}"
