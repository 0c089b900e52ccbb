"""``metapac evaluate``: error and size of the sets on labelled tasks."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from metapac._estimator import ThresholdSets, load
from metapac.cli.common import AsJson, console, told
from metapac.cli.tables import (
    Classes,
    ColumnsAgain,
    Engine,
    EngineOption,
    LabelOption,
    Master,
    MemoryLimit,
    Reading,
    ScoreOption,
    Scores,
    TableOption,
    TaskAgain,
    Threads,
    class_names,
    opened,
)
from metapac.guarantee import percent
from metapac.persistence import replacing

if TYPE_CHECKING:
    from metapac.tables import Evaluation

_WORST = 5


@told
def evaluate(
    promise: Annotated[Path, typer.Argument(help="File written by metapac calibrate.")],
    scores: Scores,
    task: TaskAgain = None,
    score: ScoreOption = None,
    label: LabelOption = None,
    columns: ColumnsAgain = None,
    classes: Classes = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV with a row for each task.")
    ] = None,
    table: TableOption = None,
    engine: EngineOption = Engine.duckdb,
    master: Master = None,
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Say how often the sets of each task miss the true label, and how large they are.

    Columns left out are those that the promise was calibrated on. Sizes need a score for each
    class: pass --label, not --score.
    """
    calibrated = load(promise)
    how = Reading(table, engine, master, memory_limit, threads)
    if output is not None and output.suffix.lower() != ".csv":
        raise ValueError(f"--output must end in .csv, got {str(output)!r}.")
    with opened(scores, how, output, inputs=[promise]) as (source, tell):
        from metapac.tables import evaluate_table

        tell("judging the sets of each task")
        found = evaluate_table(
            calibrated,
            source,
            task=task,
            score=score,
            label=label,
            columns=columns,
            classes=class_names(classes),
        )
    if output is not None:
        _write(found, output)
    if as_json:
        typer.echo(json.dumps(_summary(calibrated, found)))
        return
    _tell(calibrated, found)
    if output is not None:
        console.print(f"{len(found.tasks)} tasks written to {output}", markup=False, soft_wrap=True)


def _rows(found: Evaluation) -> list[list[Any]]:
    """Return task, examples, error and size of each task, the worst first."""
    sizes = [None] * len(found.tasks) if found.sizes is None else found.sizes.tolist()
    columns = (found.tasks.tolist(), found.examples.tolist(), found.errors.tolist(), sizes)
    rows = [list(row) for row in zip(*columns, strict=True)]
    return sorted(rows, key=lambda row: -row[2])


def _write(found: Evaluation, path: Path) -> None:
    with replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["task", "examples", "error", "set_size"])
        writer.writerows(_rows(found))


def _seen(calibrated: ThresholdSets, found: Evaluation) -> int:
    """Return how many of these tasks the promise was calibrated on."""
    names = getattr(calibrated, "tasks_", np.empty(0)).tolist()
    return len({*found.tasks.tolist()} & {*names})


def _summary(calibrated: ThresholdSets, found: Evaluation) -> dict[str, Any]:
    return {
        "tasks": len(found.tasks),
        "calibrated_on": _seen(calibrated, found),
        "examples": int(found.examples.sum()),
        "epsilon": found.epsilon,
        "within": found.within,
        "error": float(np.mean(found.errors)),
        "set_size": None if found.sizes is None else float(np.mean(found.sizes)),
        "worst": [
            dict(zip(("task", "examples", "error", "set_size"), row, strict=True))
            for row in _rows(found)[:_WORST]
        ],
    }


def _tell(calibrated: ThresholdSets, found: Evaluation) -> None:
    alpha = getattr(calibrated, "alpha", None)
    promised = (
        "" if alpha is None else f"; promised on at least {percent(alpha, but=True)} of new tasks"
    )
    size = "" if found.sizes is None else f", of the set size {np.mean(found.sizes):.4g}"
    console.print(
        f"error at most {percent(found.epsilon)} on {found.within:.2%} of {len(found.tasks)} tasks "
        f"({found.examples.sum()} examples){promised}",
        f"mean over tasks of the error {np.mean(found.errors):.2%}{size}",
        sep="\n",
        markup=False,
        soft_wrap=True,
    )
    if seen := _seen(calibrated, found):
        console.print(
            f"{seen} of these tasks carry the name of a task that it was calibrated on: judge the "
            "promise by others.",
            markup=False,
        )
    console.print(_worst(found))
    if found.sizes is None:
        console.print("Set sizes need a score for each class: pass --label.", markup=False)


def _worst(found: Evaluation) -> Table:
    table = Table("task", title="Worst tasks", title_justify="left")
    for name in ("examples", "error", "set size")[: 2 if found.sizes is None else 3]:
        table.add_column(name, justify="right", overflow="fold")
    for task, examples, error, size in _rows(found)[:_WORST]:
        numbers = [str(examples), f"{error:.2%}", *([] if size is None else [f"{size:.4g}"])]
        table.add_row(Text(str(task)), *numbers)
    return table
