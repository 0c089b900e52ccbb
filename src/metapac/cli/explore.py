"""``metapac explore``: levels tried on pilot tasks, before calibration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from metapac._warnings import warn
from metapac.cli import options
from metapac.cli.bundles import TableOptions
from metapac.cli.console import print_json, print_line
from metapac.cli.explored import print_exploration
from metapac.cli.parsing import parse_allowed, parse_columns, parse_delta, parse_names
from metapac.cli.sources import open_table
from metapac.exceptions import InvalidInput
from metapac.pilot import Exploration


def explore(
    scores: options.Scores,
    *,
    task: options.Task,
    label: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="Column with the true label.",
            rich_help_panel="Columns of the table",
        ),
    ],
    columns: Annotated[
        str,
        typer.Option(
            metavar="PATTERN|NAMES",
            help="Columns with the score of each class: a pattern whose star stands for the class, "
            "or names separated by commas; or one column of lists.",
            rich_help_panel="Columns of the table",
        ),
    ] = "p_*",
    classes: options.Classes = None,
    epsilon: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help="Miss rates to try, separated by commas.",
            rich_help_panel="Levels to try",
        ),
    ] = ".01,.02,.05,.1,.2",
    alpha: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help="Fractions of new tasks that may exceed the miss rate, separated by commas.",
            rich_help_panel="Levels to try",
        ),
    ] = ".05,.1,.2",
    delta: Annotated[
        str,
        typer.Option(
            metavar="NUMBER|none",
            help="Failure probability of the guarantee; 'none' for a guarantee in expectation.",
            rich_help_panel="Levels to try",
        ),
    ] = "0.05",
    tasks: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of calibration tasks that you will have. By default as many as pilot "
            "tasks or, if those are too few, the smallest number that works.",
            rich_help_panel="Levels to try",
        ),
    ] = None,
    min_examples: Annotated[
        int,
        typer.Option(
            min=0,
            help="Leave out tasks with fewer examples (with a threshold per class, of the class), "
            "as 'metapac calibrate --min-examples' does.",
            rich_help_panel="Levels to try",
        ),
    ] = 0,
    per_class: Annotated[bool, typer.Option("--per-class", hidden=True)] = False,
    id: options.Id = None,
    allow: options.Allow = None,
    reading: TableOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Pilot file to write, for 'metapac calibrate --pilot'."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="PNG or SVG file to write: set size and misses against epsilon."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Try levels on pilot tasks, before calibration.

    For each epsilon and alpha: the set size, the share of empty and of full sets, and how many
    examples of each class are missed. First with one threshold for all classes, then with one per
    class, as 'metapac calibrate --per-class' gives.

    Pilot tasks must not be calibrated on afterwards; 'metapac calibrate --pilot' checks that.

    Example:

        metapac explore pilot.parquet --task site --label y -o pilot.json
    """
    if per_class:
        warn("--per-class changes nothing here: explore always shows both.")
    levels: dict[str, Any] = {
        "epsilon": _parse_numbers("--epsilon", epsilon),
        "alpha": _parse_numbers("--alpha", alpha),
        "delta": parse_delta(delta),
    }
    with open_table(scores, reading, output) as (source, progress):
        from metapac.tables import explore_table
        from metapac.tables.io.output import check_path

        if plot is not None:
            check_path(source, plot, [] if output is None else [output])
        result = explore_table(
            source,
            task=task,
            label=label,
            columns=parse_columns(columns),
            classes=parse_names(classes),
            tasks=tasks,
            **levels,
            min_examples=min_examples,
            id=id,
            allow=parse_allowed(allow),
            progress=progress,
        )
    _report(result, output, plot, as_json=as_json)


def _parse_numbers(flag: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        message = f"{flag} must be numbers separated by commas, such as .05,.1, got {text!r}."
        raise InvalidInput(message) from None


def _report(result: Exploration, output: Path | None, plot: Path | None, *, as_json: bool) -> None:
    """Write the files that were asked for, and print the results."""
    if output is not None:
        result.save(output)
    if plot is not None:
        result.plot(plot)
    if as_json:
        print_json(result.to_json())
        return
    print_exploration(result)
    if plot is not None:
        print_line(f"Plot written to {plot}")
    if output is not None:
        print_line(f"Pilot tasks and results written to {output}")
