"""``metapac predict``: prediction sets for a table of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from metapac._common import warn
from metapac.cli import exits
from metapac.cli.console import format_count, open_data_output, print_json, print_line
from metapac.cli.options import (
    Allow,
    AsJson,
    CalibrationColumns,
    Classes,
    ClassesColumn,
    Model,
    Prediction,
    Promise,
    Scale,
    Scores,
    TableOptions,
    parse_allowed,
    parse_columns,
    parse_names,
)
from metapac.cli.sources import fill_new, open_table
from metapac.errors import InvalidInput
from metapac.guarantee import percent
from metapac.predictors import check_predictor, load
from metapac.sets import SetSummary

if TYPE_CHECKING:
    from metapac.tables.sets import IntervalSummary, Sets

_SHOWN = 6  # of many classes, the most and the least frequent


def predict(
    promise: Promise,
    scores: Scores,
    *,
    columns: CalibrationColumns = None,
    classes: Classes = None,
    classes_column: ClassesColumn = None,
    prediction: Prediction = None,
    scale: Scale = None,
    booleans: Annotated[
        bool,
        typer.Option(
            "--booleans", help="Add a column in_CLASS for each class, instead of set and set_size."
        ),
    ] = False,
    answer: Annotated[
        bool,
        typer.Option(
            "--answer",
            help="Add a column answer: the label of a set of one. Any other set abstains, and its "
            "answer is empty.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with code 3 if sets are unlike those of calibration, or too many are empty.",
        ),
    ] = False,
    model: Model = None,
    allow: Allow = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Parquet or CSV file to write. By default CSV is printed.",
        ),
    ] = None,
    reading: TableOptions,
    as_json: AsJson = False,
) -> None:
    """Add a prediction set to each row of a table.

    Two columns are added: set, the labels that the row may have, and set_size. In Parquet, set is a
    list; in CSV it is a JSON list. A summary says how many sets are empty, hold one label or all,
    and how often each class occurs. For regression, the columns lower and upper are added: the ends
    of an interval.

    Example:

        metapac predict promise.json new.parquet -o sets.parquet
    """
    if as_json and output is None:
        raise InvalidInput("--json describes the file written, so it needs --output.")
    predictor = load(promise)
    with open_table(scores, reading) as (table, progress):
        from metapac.tables.sources import read_origin

        check_predictor(predictor)
        origin = read_origin(table.source)
        given = {
            "columns": columns and parse_columns(columns),
            "classes": parse_names(classes),
            "classes_column": classes_column,
            "prediction": prediction,
            "scale": scale,
        }
        sets = fill_new(table, origin, given, predictor, labelled=False).add_sets(
            predictor,
            open_data_output() if output is None else output,
            booleans=booleans,
            answer=answer,
            model=model,
            allow=parse_allowed(allow),
            inputs=[promise],
            progress=progress,
        )
    if output is not None:
        from metapac._text import mask

        is_choices = origin is not None and origin.details.get("kind") == "prompts"
        _report(sets, mask(output), as_json=as_json, has_classes=not is_choices)
        if answer and not as_json:
            _print_answers(sets)
        calibrated = predictor.context_.model
        if not as_json and model is None and origin is None and calibrated is not None:
            print_line(f"calibrated for model {calibrated!r}")
    for warning in sets.warnings:
        warn(warning)
    if check and not sets.is_compared:
        warn(
            "--check has nothing to compare with: the promise keeps no sets of these classes. It "
            "may be from scores of true labels, for intervals, or of version 0.2.0."
        )
    if check and sets.is_suspect:
        raise typer.Exit(exits.ExitCode.VIOLATED)


def _report(sets: Sets, output: str, *, as_json: bool, has_classes: bool) -> None:
    if as_json:
        print_json(
            {"sets": sets.rows, "classes": sets.classes, "output": output}
            | {"summary": sets.summary.to_dict(), "warnings": sets.warnings}
        )
        return
    summary = sets.summary
    if not isinstance(summary, SetSummary):
        print_line(f"{format_count(sets.rows, 'interval')} written to {output}")
        _print_widths(summary)
        return
    classes = _describe_classes(sets) if has_classes else ""
    print_line(f"{format_count(sets.rows, 'set')}{classes} written to {output}")
    if sets.rows:
        _print_summary(summary, has_classes=has_classes)


def _describe_classes(sets: Sets) -> str:
    if not sets.classes:  # they differ from row to row
        return ""
    count = format_count(len(sets.classes), "class", "classes")
    names = ", ".join(map(str, sets.classes[:_SHOWN]))
    names += ", ..." if len(sets.classes) > _SHOWN else ""
    return f" of {count} ({names})"


def _print_widths(summary: IntervalSummary) -> None:
    if summary.mean_width is not None:
        middle = f"mean {summary.mean_width:.4g}, median {summary.median_width:.4g}"
        print_line(f"width: {middle} over rows")
    if summary.infinite:
        print_line(f"infinite: {summary.infinite} ({summary.infinite / summary.rows:.1%})")


def _print_answers(sets: Sets) -> None:
    if isinstance(sets.summary, SetSummary) and sets.rows:
        share = sets.summary.single / sets.rows
        print_line(
            f"answered {sets.summary.single} of {sets.rows} ({share:.1%}); the others abstain. "
            f"Wrong answers are at most {percent(sets.epsilon)} of all rows of a task where the "
            "guarantee holds, not of the rows answered."
        )


def _print_summary(summary: SetSummary, *, has_classes: bool) -> None:
    """Print what sets look like; by class, unless a position means another choice in each row."""

    def share(count: int) -> str:
        return f"{count} ({count / summary.rows:.1%})"

    print_line(
        f"one label in {share(summary.single)}, all labels in {share(summary.full)}, empty "
        f"{share(summary.empty)}; mean size {summary.mean_size:.4g} over rows"
    )
    ranked = sorted(summary.by_class.items(), key=lambda item: -item[1])
    shown = [f"{name} in {share(count)}" for name, count in ranked]
    if len(shown) > _SHOWN:
        shown = [*shown[: _SHOWN // 2], "...", *shown[-_SHOWN // 2 :]]
    if shown and has_classes:
        print_line(f"sets that contain each class: {', '.join(shown)}")
    if summary.full:
        print_line("All labels: the model cannot tell. Decide without it.")
    if summary.empty:
        print_line(
            "Empty: no label scored high enough; with probabilities, the model is torn between "
            "labels. Treat these sets as all labels."
        )
