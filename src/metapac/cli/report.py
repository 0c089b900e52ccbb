"""``metapac report``: one HTML file for whoever is responsible for the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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


sign_off_option = partial(typer.Option, rich_help_panel="Fields to sign", metavar="TEXT")


@dataclass(frozen=True)
class SignOffOptions:
    """The options that fill the fields of the report."""

    purpose: Annotated[
        str | None, sign_off_option(help="What the model is for, and who uses it.")
    ] = None
    owner: Annotated[
        str | None, sign_off_option(help="Who is responsible for the model, with a contact.")
    ] = None
    population: Annotated[str | None, sign_off_option(help="Whom the data are about.")] = None
    dates: Annotated[str | None, sign_off_option(help="When the data were collected.")] = None
    decision: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Fields to sign",
            metavar="approve|conditions|reject",
            help="The decision, if it has been made.",
        ),
    ] = None
    conditions: Annotated[str | None, sign_off_option(help="The conditions of an approval.")] = None
    valid_until: Annotated[str | None, sign_off_option(help="Last day of the approval.")] = None
    next_review: Annotated[str | None, sign_off_option(help="Day of the next review.")] = None


def report(
    promise: Promise,
    labelled: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LABELLED",
            help="Table of labelled new tasks, as for 'metapac evaluate'. It adds the verdict, "
            "miss rates and the cost.",
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
    monitor: Annotated[
        Path | None, typer.Option(help="State file of 'metapac monitor', to show its course.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Title. By default it names the model.")
    ] = None,
    fields: SignOffOptions,
    examples: Annotated[
        int, typer.Option(min=0, help="Number of labelled examples to show with their sets.")
    ] = 0,
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
    """Write a report to sign: what is guaranteed, what it costs, and whether it holds.

    The report is one HTML file for people who are not statisticians: two A4 pages with the
    guarantee, its cost, its limits, its assumptions and a decision to sign, and an appendix with
    the data. Fields that no option fills are lines to write on. It works offline and on a phone.
    Columns not given default to those used in calibration.

    Example:

        metapac report promise.json labelled.parquet -o report.html
    """
    predictor = load(promise)
    inputs = [promise, *([] if monitor is None else [monitor])]
    is_replaced = output.is_file()
    artefact.check_not_input(output, inputs)
    given = columns.parse() | {"cluster": cluster, "id": id}
    with _open_labelled(labelled, reading, output, inputs) as (new, progress):
        from metapac.report.builder import SignOff
        from metapac.report.builder import report as write_report

        sign_off = SignOff(**vars(fields))
        if new is not None:
            from metapac.tables.sources import read_origin

            new = fill_new(new, read_origin(new.source), given, predictor)
        html = write_report(
            promise,
            new,
            monitor=monitor,
            output=output,
            title=title,
            sign_off=sign_off,
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
def _open_labelled(
    labelled: list[str] | None, reading: TableOptions, output: Path, inputs: list[Path]
) -> Iterator[tuple[Table | None, Progress]]:
    """Open the table if one was given, with a progress bar either way."""
    if labelled:
        with open_table(labelled, reading, output, inputs=inputs) as (table, progress):
            yield table, progress
        return
    with progress_bar() as progress:
        yield None, progress
