"""``metapac calibrate``: from a table of scores to a guarantee in a file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from metapac.calibration import MetaPS
from metapac.cli.common import (
    Alpha,
    AsJson,
    DeltaOption,
    EpsilonOption,
    MinExamples,
    OnInfeasible,
    PerClass,
    SplitOption,
    console,
    parse_delta,
    parse_epsilon,
    parse_split,
    told,
    warn,
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
    epsilon: EpsilonOption,
    alpha: Alpha,
    delta: DeltaOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the promise.")],
    score: ScoreOption = None,
    label: LabelOption = None,
    columns: Columns = "p_*",
    classes: Classes = None,
    per_class: PerClass = False,
    min_examples: MinExamples = 0,
    split: SplitOption = "joint",
    on_infeasible: OnInfeasible = "raise",
    table: TableOption = None,
    engine: EngineOption = Engine.duckdb,
    master: Master = None,
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Find the threshold that carries the guarantee, and write both to a file.

    With confidence 1 - delta, at least a fraction 1 - alpha of new tasks then have sets that miss
    the true label at most a fraction epsilon of the time.
    """
    promise: dict[str, Any] = {"epsilon": parse_epsilon(epsilon), "alpha": alpha}
    promise |= {"delta": parse_delta(delta), "split": parse_split(split), "per_class": per_class}
    promise |= {"min_examples": min_examples, "on_infeasible": on_infeasible}
    MetaPS(**promise)._check_parameters()  # before anything is opened
    how = Reading(table, engine, master, memory_limit, threads)
    with opened(scores, how, output) as (source, tell), remarks_reported():
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


@contextmanager
def remarks_reported() -> Iterator[None]:
    """Keep the library from warning of what ``report`` says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def report(method: MetaPS, output: Path, *, as_json: bool) -> None:
    """Say what is guaranteed, from how much, and what makes it say little."""
    if as_json:
        typer.echo(json.dumps(_summary(method) | {"output": str(output)}))
    else:
        _print(method, output)
    for remark in method.remarks_:
        warn(remark)


def _summary(method: MetaPS) -> dict[str, Any]:
    found: dict[str, Any]
    if method.classes_ is None:
        found = {"threshold": encode(method.threshold_), "left_out": method.left_out_}
    else:
        found = {
            "thresholds": [row | {"threshold": encode(row["threshold"])} for row in _rows(method)]
        }
    return found | {
        "tasks": len(method.tasks_),
        "examples": int(method.task_sizes_.sum()),
        "promise": method.promise_,
        "remarks": method.remarks_,
        "columns": method.columns_,
    }


def _rows(method: MetaPS) -> list[dict[str, Any]]:
    """Return what was found for each class."""
    part = method.guarantee_.of_class
    classes = method.classes_ or ()
    used = ~np.isnan(method.task_thresholds_)
    return [
        {
            "class": label,
            "epsilon": part(label, classes).epsilon,
            "threshold": float(method.thresholds_[i]),
            "tasks": int(used[:, i].sum()),
            "examples": int(method.task_sizes_[used[:, i], i].sum()),
            "left_out": int(np.asarray(method.left_out_)[i]),
        }
        for i, label in enumerate(classes)
    ]


def _print(method: MetaPS, output: Path) -> None:
    source = f"from {len(method.tasks_)} tasks and {method.task_sizes_.sum()} examples"
    written = f"written to {output}"
    if method.classes_ is None:
        _line(f"threshold {method.threshold_!r} {source}, {written}")
        if method.left_out_:
            least = method.guarantee_.min_examples
            _line(f"{method.left_out_} tasks with fewer than {least} examples were left out")
        if classes := (method.columns_ or {}).get("classes"):
            _line(f"classes {', '.join(map(str, classes))}")
    else:
        _line(f"one threshold for each of {len(method.classes_)} classes {source}, {written}")
        console.print(_table(method))
    # Remarks are shown as warnings.
    sentence = method.promise_.removesuffix(" ".join(["", *method.remarks_]))
    console.print(sentence, markup=False)


def _table(method: MetaPS) -> Table:
    table = Table("class")
    names = ["epsilon", "threshold", "tasks", "examples", "left out"]
    shown = names if method.guarantee_.min_examples else names[:-1]
    for name in shown:
        table.add_column(name, justify="right", overflow="fold")
    for row in _rows(method):
        cells = {**row, "left out": row["left_out"]}
        table.add_row(Text(str(row["class"])), *(str(cells[name]) for name in shown))
    return table


def _line(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)
