"""``metapac predict``: from a promise file and a table of class scores to prediction sets."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from metapac.cli import options
from metapac.cli.console import format_count, print_json, print_line
from metapac.cli.sources import open_table
from metapac.exceptions import InvalidInput
from metapac.loading import load


def predict(
    promise: options.Promise,
    scores: options.Scores,
    *,
    columns: options.CalibrationColumns = None,
    classes: options.Classes = None,
    booleans: Annotated[
        bool,
        typer.Option(
            "--booleans", help="Add a column in_CLASS for each class, instead of set and set_size."
        ),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Parquet or CSV file to write. By default CSV is printed.",
        ),
    ] = None,
    reading: options.TableOptions,
    as_json: options.AsJson = False,
) -> None:
    """Add a prediction set to each row of a table.

    Two columns are added: set, the labels that the row may have, and set_size. In Parquet, set is a
    list; in CSV it is a JSON list.

    Example:

        metapac predict promise.json new.parquet -o sets.parquet
    """
    if as_json and output is None:
        raise InvalidInput("--json describes the file written, so it needs --output.")
    predictor = load(promise)
    with open_table(scores, reading) as (source, progress):
        from metapac.tables.predict import write_sets

        sets = write_sets(
            predictor,
            source,
            sys.stdout if output is None else output,
            columns=columns,
            classes=options.parse_names(classes),
            booleans=booleans,
            inputs=[promise],
            progress=progress,
        )
    if output is None:
        return
    if as_json:
        print_json({"sets": sets.rows, "classes": sets.classes, "output": output})
        return
    count = format_count(len(sets.classes), "class", "classes")
    names = ", ".join(map(str, sets.classes))
    print_line(f"{format_count(sets.rows, 'set')} of {count} ({names}) written to {output}")
