"""``metapac calibrate``: from a table of scores to a promise in a file."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from metapac.calibration import MetaPS
from metapac.cli.common import (
    Alpha,
    AsJson,
    Delta,
    Epsilon,
    SplitOption,
    console,
    parse_split,
    refuse_overwriting,
    told,
)
from metapac.cli.csv_file import open_csv
from metapac.persistence import encode


@told
def calibrate(
    scores: Annotated[Path, typer.Argument(help="CSV with a row for each labelled example.")],
    task: Annotated[str, typer.Option(help="Column with the task of each example.")],
    score: Annotated[str, typer.Option(help="Column with the score of its true label.")],
    epsilon: Epsilon,
    alpha: Alpha,
    delta: Delta,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the promise.")],
    split: SplitOption = "tight",
    on_infeasible: Annotated[
        str, typer.Option(help="raise, or trivial: keep every label where data are too few.")
    ] = "raise",
    as_json: AsJson = False,
) -> None:
    """Find the threshold that carries the promise, and write both to a file."""
    refuse_overwriting(scores, output)
    method = MetaPS(
        epsilon=epsilon,
        alpha=alpha,
        delta=delta,
        split=parse_split(split),
        on_infeasible=on_infeasible,
    )
    values, tasks = _read(scores, task, score)
    method.calibrate(values, tasks).save(output)
    if as_json:
        summary = {
            "threshold": encode(method.threshold_),
            "tasks": len(method.tasks_),
            "examples": len(values),
            "promise": method.promise_,
            "output": str(output),
        }
        typer.echo(json.dumps(summary))
        return
    console.print(
        f"threshold {method.threshold_!r} from {len(method.tasks_)} tasks and {len(values)} "
        f"examples, written to {output}",
        markup=False,
        soft_wrap=True,
    )
    console.print(method.promise_, markup=False)


def _read(path: Path, task: str, score: str) -> tuple[NDArray[np.float64], list[str]]:
    values, tasks = array("d"), []
    with open_csv(path) as file:
        at_task, at_score = file.index(task), file.index(score)
        for line, row in file.rows():
            if not row[at_task]:
                raise ValueError(
                    f"{path}, line {line}: column {task!r} is empty; an example must belong to a "
                    "task. Drop that row or name its task."
                )
            values.append(file.number(row[at_score], score, line))
            tasks.append(row[at_task])
    return np.array(values), tasks
