"""``metapac report``: one HTML file for whoever is responsible for the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metapac import artefact
from metapac._common import Progress
from metapac.cli.console import print_json, print_line, progress_bar
from metapac.cli.options import (
    Allow,
    AsJson,
    CalibrationCluster,
    Id,
    Model,
    NewColumnOptions,
    Promise,
    TableOptions,
    parse_allowed,
)
from metapac.cli.sources import fill_new, open_table
from metapac.predictors import load

if TYPE_CHECKING:
    from metapac.tables.table import Table


def report(
    promise: Promise,
    labelled: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LABELLED",
            help="Table of labelled new tasks, as for 'metapac evaluate'. It adds the verdict, "
            "errors, set sizes and examples.",
        ),
    ] = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="HTML file to write. An earlier report there is replaced; another file is not.",
        ),
    ] = Path("report.html"),
    calibration: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Calibration table. It adds a slider that shows the results at other values of "
            "epsilon.",
        ),
    ] = None,
    monitor: Annotated[
        Path | None, typer.Option(help="State file of 'metapac monitor', to show its course.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Title. By default it names the model.")
    ] = None,
    examples: Annotated[
        int,
        typer.Option(
            min=0, help="Number of labelled examples to show with their sets; 0 shows none."
        ),
    ] = 9,
    false_alarm: Annotated[
        float, typer.Option(help="Probability that the verdict is wrong, below 0.5.")
    ] = 0.05,
    columns: NewColumnOptions,
    cluster: CalibrationCluster = None,
    id: Id = None,
    model: Model = None,
    allow: Allow = None,
    reading: TableOptions,
    as_json: AsJson = False,
) -> None:
    """Write a report on a guarantee: what it says, what it rests on, how it fares.

    The report is one HTML file for people who are not statisticians: the guarantee in plain words,
    its assumptions (a checklist to sign), its limits, the data behind it and, with labelled new
    tasks, errors and set sizes. It works offline and on a phone, and can be printed. Columns
    not given default to those used in calibration.

    Example:

        metapac report promise.json labelled.parquet -o report.html
    """
    predictor = load(promise)
    inputs = [promise, *([] if monitor is None else [monitor])]
    is_replaced = output.is_file()
    artefact.check_not_input(output, inputs)
    given = columns.parse() | {"cluster": cluster, "id": id}
    with _open_tables(labelled, calibration, reading, output, inputs) as (new, old, progress):
        from metapac.report.builder import report as write_report

        if new is not None:
            from metapac.tables.sources import read_origin

            new = fill_new(new, read_origin(new.source), given, predictor)
        if old is not None and "task" not in (getattr(predictor, "columns_", None) or {}):
            old = old.with_columns(**given if new is None else vars(new.columns))
        html = write_report(
            promise,
            new,
            calibration=old,
            monitor=monitor,
            output=output,
            title=title,
            examples=examples,
            false_alarm=false_alarm,
            model=model,
            allow=parse_allowed(allow),
            progress=progress,
        )
    if as_json:
        print_json({"output": str(output), "bytes": len(html.encode())})
    else:
        earlier = ", in place of the earlier one" if is_replaced else ""
        print_line(f"report written to {output}{earlier}; open it in a browser")


@contextmanager
def _open_tables(
    labelled: list[str] | None,
    calibration: str | None,
    reading: TableOptions,
    output: Path,
    inputs: list[Path],
) -> Iterator[tuple[Table | None, Table | None, Progress]]:
    """Open the tables that were given, both with one engine and one progress bar."""
    first = labelled or ([calibration] if calibration else None)
    if first is None:
        with progress_bar() as progress:
            yield None, None, progress
        return
    with open_table(first, reading, output, inputs=inputs) as (table, progress):
        if not labelled:
            yield None, table, progress
        elif calibration is None:
            yield table, None, progress
        else:
            from metapac.columns import open_table as open_other

            with open_other(calibration, reading=table.source.options) as other:
                artefact.check_not_input(output, other.source.files)
                yield table, other, progress
