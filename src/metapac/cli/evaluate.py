"""``metapac evaluate``: miss rates and set sizes on labelled tasks."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from metapac._files import replacing
from metapac.base import ThresholdSets
from metapac.cli import options
from metapac.cli.console import format_count, make_table, print_json, print_line, stdout
from metapac.cli.sources import open_table
from metapac.exceptions import InvalidInput
from metapac.loading import load
from metapac.sentences import percent

if TYPE_CHECKING:
    from metapac.tables import Evaluation

_WORST = 5


def evaluate(
    promise: options.Promise,
    scores: options.Scores,
    *,
    task: options.CalibrationTask = None,
    score: options.Score = None,
    label: options.Label = None,
    columns: options.CalibrationColumns = None,
    classes: options.Classes = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="CSV file to write, with a row for each task (and class)."
        ),
    ] = None,
    reading: options.TableOptions,
    as_json: options.AsJson = False,
) -> None:
    """Measure miss rates and set sizes on labelled tasks.

    Columns not given default to those used in calibration. Set sizes need a score for each class:
    pass --label, not --score. A guarantee per class is evaluated class by class.

    Example:

        metapac evaluate promise.json labelled.parquet --label y -o tasks.csv
    """
    predictor = load(promise)
    if output is not None and output.suffix.lower() != ".csv":
        raise InvalidInput(f"--output must end in .csv, got {str(output)!r}.")
    with open_table(scores, reading, output, inputs=[promise]) as (source, progress):
        from metapac.tables import evaluate_table

        progress("evaluating the sets of each task", 0, None)
        evaluation = evaluate_table(
            predictor,
            source,
            task=task,
            score=score,
            label=label,
            columns=columns,
            classes=options.parse_names(classes),
        )
    if output is not None:
        _write(evaluation, output)
    if as_json:
        print_json(_summarise(predictor, evaluation))
        return
    _print_text(predictor, evaluation)
    if output is not None:
        print_line(f"{format_count(len(evaluation.tasks), 'task')} written to {output}")


def _rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return a row for each task (and class), the worst first: the one furthest above epsilon."""
    parts = {None: evaluation} if evaluation.by_class is None else evaluation.by_class
    rows = [
        {"task": task}
        | ({} if label is None else {"class": label})
        | {"examples": examples, "error": error, "set_size": size}
        for label, part in parts.items()
        for task, examples, error, size in zip(*_columns(part), strict=True)
    ]
    return sorted(rows, key=lambda row: parts[row.get("class")].epsilon - row["error"])


def _columns(part: Evaluation) -> tuple[list[Any], ...]:
    sizes = [None] * len(part.tasks) if part.sizes is None else part.sizes.tolist()
    return part.tasks.tolist(), part.examples.tolist(), part.errors.tolist(), sizes


def _write(evaluation: Evaluation, path: Path) -> None:
    rows = _rows(evaluation)
    with replacing(path) as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _count_calibration_tasks(predictor: ThresholdSets, evaluation: Evaluation) -> int:
    """Return how many of the tasks have the same name as a calibration task."""
    names = getattr(predictor, "tasks_", np.empty(0)).tolist()
    return len({*evaluation.tasks.tolist()} & {*names})


def _summarise(predictor: ThresholdSets, evaluation: Evaluation) -> dict[str, Any]:
    summary = _figures(evaluation)
    summary["calibrated_on"] = _count_calibration_tasks(predictor, evaluation)
    if evaluation.by_class is not None:
        summary["by_class"] = [
            {"class": label} | _figures(part) for label, part in evaluation.by_class.items()
        ]
    return summary | {"worst": _rows(evaluation)[:_WORST]}


def _figures(evaluation: Evaluation) -> dict[str, Any]:
    """Return the figures of an evaluation for JSON: null where there is no task."""
    has_tasks = len(evaluation.tasks) > 0
    sizes = evaluation.sizes if has_tasks else None
    return {
        "tasks": len(evaluation.tasks),
        "left_out": evaluation.left_out,
        "examples": int(evaluation.examples.sum()),
        "epsilon": evaluation.epsilon,
        "within": evaluation.within if has_tasks else None,
        "error": float(np.mean(evaluation.errors)) if has_tasks else None,
        "set_size": None if sizes is None else float(np.mean(sizes)),
    }


def _print_text(predictor: ThresholdSets, evaluation: Evaluation) -> None:
    _print_shares(predictor, evaluation)
    if evaluation.left_out:
        minimum = max(1, getattr(predictor, "min_examples", 0))
        every = " of every class" if evaluation.by_class else ""
        count = format_count(evaluation.left_out, "task")
        print_line(f"{count} with fewer than {minimum} examples{every} left out")
    size = "" if evaluation.sizes is None else f", mean set size {np.mean(evaluation.sizes):.4g}"
    print_line(f"mean error {np.mean(evaluation.errors):.2%}{size}, averaged over tasks")
    if seen := _count_calibration_tasks(predictor, evaluation):
        stdout.print(
            f"{seen} of these tasks have the same name as a calibration task. Evaluate the "
            "guarantee on other tasks.",
            markup=False,
        )
    stdout.print(_worst_table(evaluation))
    if evaluation.sizes is None:
        print_line("Set sizes need a score for each class: pass --label.")


def _print_shares(predictor: ThresholdSets, evaluation: Evaluation) -> None:
    """Print on how many tasks the miss rate is at most epsilon, in total or for each class."""
    by_class = evaluation.by_class or {}
    tasks = f"{format_count(len(evaluation.tasks), 'task')} ({evaluation.examples.sum()} examples)"
    guaranteed = _guaranteed_share(predictor, evaluation)
    print_line(
        f"{tasks}{guaranteed}" if by_class else f"{_share(evaluation)} of {tasks}{guaranteed}"
    )
    for label, part in by_class.items():
        left_out = f", {part.left_out} left out" if part.left_out else ""
        tasks = (
            f"{format_count(len(part.tasks), 'task')} ({part.examples.sum()} examples{left_out})"
        )
        print_line(f"class {label}: {_share(part)} of {tasks}")


def _guaranteed_share(predictor: ThresholdSets, evaluation: Evaluation) -> str:
    alpha = getattr(predictor, "alpha", None)
    if alpha is None:
        return ""
    per_class = " for each class" if evaluation.by_class else ""
    in_expectation = getattr(predictor, "delta", 0) is None
    mean = ", on average over calibrations" if in_expectation else ""
    return (
        f"; guaranteed on at least {percent(alpha, complement=True)} of new tasks{per_class}{mean}"
    )


def _share(evaluation: Evaluation) -> str:
    """Return the share of tasks whose miss rate is at most epsilon, in words."""
    share = f"{evaluation.within:.2%}" if len(evaluation.tasks) else "none"
    return f"error at most {percent(evaluation.epsilon)} on {share}"


def _worst_table(evaluation: Evaluation) -> Table:
    left = ["task"] if evaluation.by_class is None else ["task", "class"]
    right = ["examples", "error"] + ([] if evaluation.sizes is None else ["set size"])
    table = make_table(left, right, "Worst tasks")
    for row in _rows(evaluation)[:_WORST]:
        names = [Text(str(row[name])) for name in ("task", "class") if name in row]
        size = [] if row["set_size"] is None else [f"{row['set_size']:.4g}"]
        table.add_row(*names, str(row["examples"]), f"{row['error']:.2%}", *size)
    return table
