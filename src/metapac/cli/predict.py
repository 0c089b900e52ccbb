"""``metapac predict``: from a promise and a table of class scores to sets."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from metapac._estimator import load
from metapac.cli.common import AsJson, console, told
from metapac.cli.tables import (
    Classes,
    ColumnsAgain,
    Engine,
    EngineOption,
    Master,
    MemoryLimit,
    Reading,
    Scores,
    TableOption,
    Threads,
    class_names,
    opened,
)
from metapac.persistence import refuse_input


@told
def predict(
    promise: Annotated[Path, typer.Argument(help="File written by metapac calibrate.")],
    scores: Scores,
    columns: ColumnsAgain = None,
    classes: Classes = None,
    booleans: Annotated[
        bool, typer.Option("--booleans", help="Add a column in_CLASS for each class instead.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="Parquet or CSV to write; CSV to the screen if absent."
        ),
    ] = None,
    table: TableOption = None,
    engine: EngineOption = Engine.duckdb,
    master: Master = None,
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Add to each row the set of labels it may have: columns set and set_size.

    In Parquet, set is a list of labels; in CSV it is a JSON list.
    """
    if as_json and output is None:
        raise ValueError("--json tells of the file written, and there is none. Pass --output.")
    from metapac.tables.layout import as_calibrated

    calibrated = load(promise)
    layout = as_calibrated(calibrated, columns=columns, classes=class_names(classes))
    how = Reading(table, engine, master, memory_limit, threads)
    with opened(scores, how) as (source, tell):
        from metapac.tables.failures import writing
        from metapac.tables.output import check, kind_of, write, write_csv
        from metapac.tables.predict import sets_of

        if output is not None:
            check(source, output)
            refuse_input(output, [promise])
        text = output is None or kind_of(output) == "csv"
        tell("checking the scores")
        found = sets_of(calibrated, source, layout, booleans=booleans, text=text)
        if output is None:
            with writing("the table"):
                write_csv(source.connection, found.table, sys.stdout)
            return
        tell(f"writing {found.rows} sets")
        write(source.connection, found.table, output)
    if as_json:
        typer.echo(json.dumps({"sets": found.rows, "classes": found.classes, "output": output}))
        return
    names = ", ".join(str(name) for name in found.classes)
    console.print(
        f"{found.rows} sets of the {len(found.classes)} classes {names} written to {output}",
        markup=False,
        soft_wrap=True,
    )
