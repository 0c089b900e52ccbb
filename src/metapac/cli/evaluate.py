"""``metapac evaluate``: a guarantee judged on labelled new tasks."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

import metapac
from metapac._common import listed, require, warn
from metapac.artefact import replacing
from metapac.cli import exits
from metapac.cli.commands import VIOLATED
from metapac.cli.console import (
    format_count,
    make_cell,
    make_table,
    print_json,
    print_line,
    print_text,
    stdout,
)
from metapac.cli.options import (
    Allow,
    AsJson,
    CalibrationCluster,
    Id,
    Model,
    NewColumnOptions,
    Promise,
    Scores,
    TableOptions,
    parse_allowed,
)
from metapac.cli.sources import fill_new, open_table
from metapac.context import Context
from metapac.errors import InvalidInput
from metapac.evaluation import describe_neglected
from metapac.guarantee import format_share, percent
from metapac.predictors import load
from metapac.verdict import Verdict
from metapac.words import Words, describe_pool

if TYPE_CHECKING:
    from metapac.evaluation import Evaluation
    from metapac.provenance import Provenance

_WORST = 5
_SHOWN_CLASSES = 10
_REMEDY = "For a guarantee for each class, calibrate with --per-class."
_IMAGES = (".png", ".svg", ".pdf")


def evaluate(
    promise: Promise,
    scores: Scores,
    *,
    columns: NewColumnOptions,
    cluster: CalibrationCluster = None,
    min_examples: Annotated[
        int,
        typer.Option(
            min=0,
            help="Leave out tasks with fewer examples (with a guarantee per class, of the class). "
            "The verdict is then about tasks with at least this many.",
        ),
    ] = 0,
    false_alarm: Annotated[
        float, typer.Option(help="Probability that the verdict is wrong, below 0.5.")
    ] = 0.05,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with code 3 if the guarantee is violated.")
    ] = False,
    model: Model = None,
    id: Id = None,
    allow: Allow = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="CSV file to write, with a row for each task (and class)."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Figure to write: a .png, .svg or .pdf file.")
    ] = None,
    reading: TableOptions,
    as_json: AsJson = False,
) -> None:
    """Judge the guarantee on labelled new tasks, and measure miss rates and set sizes.

    The verdict is 'holds', 'violated' or 'cannot tell yet'. Columns not given default to those
    used in calibration. Set sizes and misses per class need a score for each class: pass --label,
    not --score. A guarantee per class is judged class by class. For regression, widths of intervals
    are measured.

    Example:

        metapac evaluate promise.json labelled.parquet --label y --plot tasks.png
    """
    predictor = load(promise)
    _check_outputs(output, plot)
    context = predictor.context_
    with open_table(scores, reading, output or plot, inputs=[promise]) as (table, progress):
        from metapac.tables.sources import read_origin

        progress("evaluating the sets of each task", 0, None)
        origin = read_origin(table.source)
        given = columns.parse() | {"id": id, "cluster": cluster}
        evaluation = metapac.evaluate(
            predictor,
            fill_new(table, origin, given, predictor),
            min_examples=min_examples,
            false_alarm=false_alarm,
            model=model,
            allow=parse_allowed(allow),
        )
    if output is not None:
        _write(evaluation, output)
    if plot is not None:
        evaluation.plot(plot)
    notes = _describe_pools(predictor, origin)
    violated = check and _verdict(evaluation).status == "violated"
    if violated:
        exits.expect(VIOLATED)
    if as_json:
        print_json(evaluation.to_dict() | {"notes": notes})
        if harm := describe_neglected(evaluation, Words.from_context(context), _REMEDY):
            warn(harm)
    else:
        _print_text(evaluation, context)
        for note in notes:
            print_text(f"\n{note}")
        _print_files(evaluation, output, plot)
    if violated:
        raise typer.Exit(VIOLATED)


def _check_outputs(output: Path | None, plot: Path | None) -> None:
    if output is not None and output.suffix.lower() != ".csv":
        raise InvalidInput(f"--output must end in .csv, got {str(output)!r}.")
    if plot is not None:
        if plot.suffix.lower() not in _IMAGES:
            raise InvalidInput(f"--plot must end in {', '.join(_IMAGES)}, got {str(plot)!r}.")
        require("matplotlib.figure", extra="plot", purpose="--plot")


def _verdict(evaluation: Evaluation) -> Verdict:
    assert evaluation.verdict is not None
    return evaluation.verdict


def _write(evaluation: Evaluation, path: Path) -> None:
    rows = evaluation.worst(len(evaluation.to_frame()))
    with replacing(path) as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _print_text(evaluation: Evaluation, context: Context) -> None:
    words = Words.from_context(context)
    verdict = _verdict(evaluation).sentence(unit=context.unit, example=context.example)
    stdout.print(verdict, markup=False)
    _print_left_out(evaluation, context)
    if (evaluation.set_shares or {}).get("full") == 1 and not _verdict(evaluation).trivial:
        print_line("Every set has every label, so none is missed, and none is ruled out.")
    if harm := describe_neglected(evaluation, words, _REMEDY):
        stdout.print(f"\nBeware: {harm}", markup=False)
    if evaluation.classes is not None:
        stdout.print(Text(), _class_table(evaluation), sep="\n")
    _print_sets(evaluation, words)
    _print_shares(evaluation, words)
    stdout.print(Text(), _worst_table(evaluation, words), sep="\n")
    if evaluation.classes is None and evaluation.sets is None and evaluation.widths is None:
        print_line("Set sizes and misses per class need a score for each class: pass --label.")


def _describe_pools(predictor: Any, origin: Provenance | None) -> list[str]:
    """Return from how few classes the tasks were drawn, those of calibration and these."""
    notes = []
    if getattr(predictor, "clusters_", None) is None and predictor.context_.drawn_from:
        notes.append(describe_pool(predictor.context_, len(predictor.tasks_)))
    if origin is not None and (here := origin.details.get("drawn_from")):
        notes.append(f"The tasks judged here were drawn from {here}: the verdict is about these.")
    return notes


def _print_left_out(evaluation: Evaluation, context: Context) -> None:
    words = Words.from_context(context)
    if evaluation.min_examples > 1:
        least = words.count_examples(evaluation.min_examples)
        print_line(f"Judged: {words.units} with at least {least}.")
    for reason, names in _group_overlap(evaluation, context).items():
        count = words.count_units(len(names))
        stdout.print(f"{count} {reason}, so not counted here: {listed(names)}.", markup=False)


def _group_overlap(evaluation: Evaluation, context: Context) -> dict[str, list[str]]:
    """Return the tasks that are not new, by what they were used for."""
    trained, pilot = ({*map(str, tasks or ())} for tasks in (context.trained_on, context.pilot))
    groups: dict[str, list[str]] = {}
    for name in map(str, evaluation.overlap):
        explored = "explored as a pilot" if name in pilot else "calibrated on"
        groups.setdefault("trained on" if name in trained else explored, []).append(name)
    return groups


def _class_table(evaluation: Evaluation) -> Table:
    """Return the misses of each class; of many classes, those missed most."""
    classes = sorted(evaluation.classes or (), key=lambda part: (-part.low, str(part.label)))
    title = "Missed, by class"
    if len(classes) > _SHOWN_CLASSES:
        title += f" (the worst {_SHOWN_CLASSES} of {len(classes)})"
    table = make_table(["class"], ["missed", "rate", "95% interval"], title)
    for part in classes[:_SHOWN_CLASSES]:
        rate = format_share(part.error) if part.examples else "-"
        interval = f"{format_share(part.low)} to {format_share(part.high)}"
        table.add_row(
            make_cell(part.label),
            f"{part.missed} of {part.examples}",
            rate,
            interval if part.examples else "-",
        )
    return table


def _print_sets(evaluation: Evaluation, words: Words) -> None:
    shares = evaluation.set_shares
    if evaluation.widths is not None:
        print_line(f"Intervals: mean width {np.mean(evaluation.widths):.4g} over {words.units}.")
    if shares is None or evaluation.sizes is None:
        return
    print_line(
        f"Sets: mean size {np.mean(evaluation.sizes):.4g} over {words.units}, "
        f"{np.average(evaluation.sizes, weights=evaluation.examples):.4g} over rows; "
        f"{format_share(shares['empty'])} empty, {format_share(shares['single'])} with one label, "
        f"{format_share(shares['full'])} with every label."
    )


def _print_shares(evaluation: Evaluation, words: Words) -> None:
    """Print on how many tasks the measured miss rate is at most epsilon, for each class or all."""
    if evaluation.by_class is None:
        print_line(f"{_count(evaluation, words)}: {_share(evaluation)}.")
        return
    mean = format_share(float(np.mean(evaluation.errors)))
    print_line(f"{_count(evaluation, words)}: {mean} missed on average.")
    for label, part in [*evaluation.by_class.items()][:_SHOWN_CLASSES]:
        print_line(f"Class {label}, {_count(part, words)}: {_share(part)}.")


def _count(evaluation: Evaluation, words: Words) -> str:
    tasks = words.count_units(len(evaluation.tasks))
    examples = words.count_examples(int(evaluation.examples.sum()))
    left_out = f", {evaluation.left_out} left out" if evaluation.left_out else ""
    return f"{tasks} ({examples}{left_out})"


def _share(evaluation: Evaluation) -> str:
    """Return on how many tasks the measured miss rate is at most epsilon, in words."""
    if not len(evaluation.tasks):
        return "nothing measured"
    within = np.count_nonzero(evaluation.errors <= evaluation.epsilon)
    return (
        f"at most {percent(evaluation.epsilon)} missed on {within} of {len(evaluation.tasks)}, "
        f"{format_share(float(np.mean(evaluation.errors)))} on average"
    )


def _worst_table(evaluation: Evaluation, words: Words) -> Table:
    left = [words.unit] if evaluation.by_class is None else [words.unit, "class"]
    right = ["missed", "rate", "95% interval"]
    right += [] if evaluation.sizes is None else ["set size"]
    right += [] if evaluation.widths is None else ["width"]
    table = make_table(left, right, f"Worst {words.units}")
    for row in evaluation.worst(_WORST):
        names = [make_cell(row[name]) for name in ("task", "class") if name in row]
        size = [f"{row[name]:.3g}" for name in ("set_size", "width") if name in row]
        table.add_row(
            *names,
            f"{row['missed']} of {row['examples']}",
            format_share(row["error"]),
            f"{format_share(row['low'])} to {format_share(row['high'])}",
            *size,
        )
    return table


def _print_files(evaluation: Evaluation, output: Path | None, plot: Path | None) -> None:
    if output is not None:
        print_line(f"{format_count(len(evaluation.tasks), 'task')} written to {output}")
    if plot is not None:
        print_line(f"figure written to {plot}")
