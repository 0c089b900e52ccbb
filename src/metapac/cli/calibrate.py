"""``metapac calibrate``: from a table of scores to a promise in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from metapac.calibration import MetaPS
from metapac.cli.common import (
    Alpha,
    AsJson,
    Delta,
    Epsilon,
    OnInfeasible,
    SplitOption,
    console,
    parse_split,
    told,
)
from metapac.cli.tables import (
    Classes,
    Columns,
    Engine,
    EngineOption,
    LabelOption,
    Master,
    MemoryLimit,
    Reading,
    ScoreOption,
    Scores,
    TableOption,
    TaskOption,
    Threads,
    class_names,
    opened,
)
from metapac.persistence import encode


@told
def calibrate(
    scores: Scores,
    task: TaskOption,
    epsilon: Epsilon,
    alpha: Alpha,
    delta: Delta,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the promise.")],
    score: ScoreOption = None,
    label: LabelOption = None,
    columns: Columns = "p_*",
    classes: Classes = None,
    split: SplitOption = "tight",
    on_infeasible: OnInfeasible = "raise",
    table: TableOption = None,
    engine: EngineOption = Engine.duckdb,
    master: Master = None,
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Find the threshold that carries the promise, and write both to a file."""
    promise: dict[str, Any] = {"epsilon": epsilon, "alpha": alpha, "delta": delta}
    promise |= {"split": parse_split(split), "on_infeasible": on_infeasible}
    MetaPS(**promise)._check_parameters()  # before anything is opened
    how = Reading(table, engine, master, memory_limit, threads)
    with opened(scores, how, output) as (source, tell):
        from metapac.tables import calibrate_table

        method = calibrate_table(
            source,
            task=task,
            score=score,
            label=label,
            columns=columns,
            classes=class_names(classes),
            **promise,
            progress=tell,
        )
    method.save(output)
    report(method, output, as_json=as_json)


def report(method: MetaPS, output: Path, *, as_json: bool) -> None:
    """Say what was promised, and from how much."""
    tasks, examples = len(method.tasks_), int(method.task_sizes_.sum())
    if as_json:
        summary = {
            "threshold": encode(method.threshold_),
            "tasks": tasks,
            "examples": examples,
            "promise": method.promise_,
            "columns": method.columns_,
            "output": str(output),
        }
        typer.echo(json.dumps(summary))
        return
    console.print(
        f"threshold {method.threshold_!r} from {tasks} tasks and {examples} examples, written to "
        f"{output}",
        markup=False,
        soft_wrap=True,
    )
    if classes := (method.columns_ or {}).get("classes"):
        console.print(f"classes {', '.join(map(str, classes))}", markup=False, soft_wrap=True)
    console.print(method.promise_, markup=False)
