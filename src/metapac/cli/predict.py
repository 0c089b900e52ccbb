"""``metapac predict``: from a promise and a table of class scores to sets."""

from __future__ import annotations

import csv
import json
import sys
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, Annotated

import numpy as np
import typer

from metapac._estimator import ThresholdSets, load
from metapac.cli.common import errors, refuse_overwriting, told
from metapac.cli.csv_file import CsvFile, open_csv
from metapac.persistence import replacing
from metapac.sets import label_lists

_BATCH = 10_000
_ADDED = ("set", "set_size")


@told
def predict(
    promise: Annotated[Path, typer.Argument(help="File written by metapac calibrate.")],
    scores: Annotated[Path, typer.Argument(help="CSV with a column of scores for each class.")],
    columns: Annotated[
        str, typer.Option(help="Which columns are class scores; the star is the class name.")
    ] = "p_*",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV to write; standard output if absent.")
    ] = None,
) -> None:
    """Add to each row the set of labels it may have: columns set (JSON) and set_size."""
    refuse_overwriting(scores, output)
    calibrated = _one_threshold(promise)
    target: AbstractContextManager[IO[str]]
    target = nullcontext(sys.stdout) if output is None else replacing(output)
    with open_csv(scores) as table, target as file:
        classes = _class_columns(table, columns)
        count = _write_sets(calibrated, table, classes, file)
    if output is not None:
        named = ", ".join(classes)
        errors.print(
            f"{count} sets of the {len(classes)} classes {named} written to {output}",
            markup=False,
            soft_wrap=True,
        )


def _one_threshold(path: Path) -> ThresholdSets:
    """Return the promise in a file, if a table of scores is all it needs."""
    calibrated = load(path)
    if not isinstance(calibrated, ThresholdSets):
        raise ValueError(
            f"{path} holds a {type(calibrated).__name__}, which needs a predicted quantile for "
            "each task. Use metapac.load(path).predict_set(scores, quantile) in Python."
        )
    return calibrated


def _class_columns(table: CsvFile, pattern: str) -> dict[str, int]:
    """Return the position of each class's column, by class name."""
    if pattern.count("*") != 1:
        raise ValueError(f"--columns must hold one star, such as 'p_*', got {pattern!r}.")
    taken = [name for name in _ADDED if name in table.columns]
    if taken:
        raise ValueError(f"{table.path} has a column {taken[0]!r} already. Rename or drop it.")
    head, tail = pattern.split("*")
    classes = {
        name[len(head) : len(name) - len(tail)]: position
        for position, name in enumerate(table.columns)
        if len(name) > len(head + tail) and name.startswith(head) and name.endswith(tail)
    }
    if not classes:
        there = ", ".join(table.columns)
        raise ValueError(f"{table.path} has no column like {pattern!r}; it has: {there}.")
    return classes


def _write_sets(
    calibrated: ThresholdSets, table: CsvFile, classes: dict[str, int], file: IO[str]
) -> int:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*table.columns, *_ADDED])
    rows, count = table.rows(), 0
    while batch := list(islice(rows, _BATCH)):
        scores = [
            [table.number(row[at], table.columns[at], line) for at in classes.values()]
            for line, row in batch
        ]
        sets = calibrated.predict_set(np.array(scores))
        for (_, row), labels in zip(batch, label_lists(sets, list(classes)), strict=True):
            writer.writerow([*row, json.dumps(labels, ensure_ascii=False), len(labels)])
        count += len(batch)
    return count
