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
from metapac.persistence import replacing
from metapac.sentences import percent

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
        Path | None,
        typer.Option("--output", "-o", help="CSV to write, with a row for each task (and class)."),
    ] = None,
    table: TableOption = None,
    engine: EngineOption = Engine.duckdb,
    master: Master = None,
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Show how often the sets of each task miss the true label, and how large they are.

    Columns left out are those that the promise was calibrated on. Set sizes need a score for each
    class: pass --label, not --score. A promise for each class is judged class by class.
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
        _line(f"{len(found.tasks)} tasks written to {output}")


def _rows(found: Evaluation) -> list[dict[str, Any]]:
    """Return task, class, examples, error and size of all that was judged, the worst first.

    With a guarantee for each class, the worst is what exceeds its epsilon most.
    """
    parts = {None: found} if found.by_class is None else found.by_class
    rows = [row for label, part in parts.items() for row in _rows_of(label, part)]
    return [row for _excess, row in sorted(rows, key=lambda pair: -pair[0])]


def _rows_of(label: Any, part: Evaluation) -> list[tuple[float, dict[str, Any]]]:
    """Return how far each task exceeds epsilon, and what is shown of it."""
    sizes = [None] * len(part.tasks) if part.sizes is None else part.sizes.tolist()
    columns = (part.tasks.tolist(), part.examples.tolist(), part.errors.tolist(), sizes)
    return [
        (
            error - part.epsilon,
            {"task": task}
            | ({} if label is None else {"class": label})
            | {"examples": examples, "error": error, "set_size": size},
        )
        for task, examples, error, size in zip(*columns, strict=True)
    ]


def _write(found: Evaluation, path: Path) -> None:
    rows = _rows(found)
    with replacing(path) as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _seen(calibrated: ThresholdSets, found: Evaluation) -> int:
    """Return how many of these tasks the promise was calibrated on."""
    names = getattr(calibrated, "tasks_", np.empty(0)).tolist()
    return len({*found.tasks.tolist()} & {*names})


def _summary(calibrated: ThresholdSets, found: Evaluation) -> dict[str, Any]:
    summary = _figures(found) | {"calibrated_on": _seen(calibrated, found)}
    if found.by_class is not None:
        summary["by_class"] = [
            {"class": label} | _figures(part) for label, part in found.by_class.items()
        ]
    return summary | {"worst": _rows(found)[:_WORST]}


def _figures(found: Evaluation) -> dict[str, Any]:
    """Return the figures of an evaluation, as JSON can hold them: null where nothing was judged."""
    judged = len(found.tasks) > 0
    return {
        "tasks": len(found.tasks),
        "left_out": found.left_out,
        "examples": int(found.examples.sum()),
        "epsilon": found.epsilon,
        "within": found.within if judged else None,
        "error": float(np.mean(found.errors)) if judged else None,
        "set_size": float(np.mean(found.sizes)) if judged and found.sizes is not None else None,
    }


def _tell(calibrated: ThresholdSets, found: Evaluation) -> None:
    alpha = getattr(calibrated, "alpha", None)
    by_class = found.by_class or {}
    promised = ""
    if alpha is not None:
        each = " for each class" * bool(by_class)
        mean = ", on average over calibrations" * (getattr(calibrated, "delta", 0) is None)
        promised = f"; guaranteed on at least {percent(alpha, but=True)} of new tasks{each}{mean}"
    whole = f"{_tasks(len(found.tasks))} ({found.examples.sum()} examples)"
    _line(f"{whole}{promised}" if by_class else f"{_share(found)} of {whole}{promised}")
    for label, part in by_class.items():
        few = f", {part.left_out} left out" if part.left_out else ""
        tasks = f"{_tasks(len(part.tasks))} ({part.examples.sum()} examples{few})"
        _line(f"class {label}: {_share(part)} of {tasks}")
    if found.left_out:
        least = max(1, getattr(calibrated, "min_examples", 0))
        every = " of every class" * bool(by_class)
        _line(f"{_tasks(found.left_out)} with fewer than {least} examples{every} left out")
    size = "" if found.sizes is None else f", of the set size {np.mean(found.sizes):.4g}"
    _line(f"mean over tasks of the error {np.mean(found.errors):.2%}{size}")
    if seen := _seen(calibrated, found):
        console.print(
            f"{seen} of these tasks carry the name of a task that it was calibrated on: judge the "
            "promise by others.",
            markup=False,
        )
    console.print(_worst(found))
    if found.sizes is None:
        console.print("Set sizes need a score for each class: pass --label.", markup=False)


def _share(found: Evaluation) -> str:
    """Return on what share of tasks the sets miss no more than they may, in words."""
    share = f"{found.within:.2%}" if len(found.tasks) else "none"
    return f"error at most {percent(found.epsilon)} on {share}"


def _worst(found: Evaluation) -> Table:
    table = Table("task", title="Worst tasks", title_justify="left")
    if found.by_class is not None:
        table.add_column("class")
    for name in ("examples", "error", "set size")[: 2 if found.sizes is None else 3]:
        table.add_column(name, justify="right", overflow="fold")
    for row in _rows(found)[:_WORST]:
        names = [Text(str(row[name])) for name in ("task", "class") if name in row]
        size = [] if row["set_size"] is None else [f"{row['set_size']:.4g}"]
        table.add_row(*names, str(row["examples"]), f"{row['error']:.2%}", *size)
    return table


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _line(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)
