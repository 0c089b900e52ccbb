"""Commands that use a promise file: ``predict``, ``evaluate``, ``monitor``, ``report``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

import metapac
from metapac import artefact
from metapac._common import warn
from metapac._text import mask
from metapac.cli import AMBER, OK, VIOLATED, console
from metapac.cli.options import ReadingOptions
from metapac.cli.tables import check_outputs, name_new, open_table, read_origin
from metapac.columns import Columns, Reading, without_labels
from metapac.errors import InvalidInput
from metapac.evaluation import describe_neglected
from metapac.guarantee import percent
from metapac.monitoring import Monitor, describe, open_monitor
from metapac.predictors import check_predictor, load
from metapac.report import SignOff
from metapac.report import report as write_report
from metapac.sets import SetSummary
from metapac.words import Words, describe_pool

if TYPE_CHECKING:
    from metapac.drift import Drift
    from metapac.provenance import Provenance


def predict(
    promise: Path,
    scores: list[str],
    *,
    output: str | None = None,
    booleans: bool = False,
    answer: bool = False,
    check: bool = False,
    model: str | None = None,
    allow: Sequence[str] = (),
    columns: Annotated[Columns, "columns classes classes_column prediction scale lower upper"],
    reading: ReadingOptions,
    json: bool = False,
) -> None:
    """Add a prediction set to each row of a table.

    Example:

        metapac predict promise.json new.parquet -o sets.parquet

    Two columns are added: set, the labels that the row may have, and set_size. In Parquet, set is a
    list; in CSV it is a JSON list. A summary says how many sets are empty, hold one label or all,
    and how often each class occurs. For regression, the columns lower and upper are added: the ends
    of an interval.

    Parameters
    ----------
    output
        Parquet or CSV file to write. By default CSV is printed.
    booleans
        Add a column in_CLASS for each class, instead of set and set_size.
    answer
        Add a column answer: the label of a set of one. Any other set abstains, and its answer is
        empty.
    check
        Exit with code 3 if sets are unlike those of calibration, or too many are empty.
    """
    if json and output is None:
        raise InvalidInput(
            "json describes the file written, so it needs output.", parameter=("json", "output")
        )
    predictor = load(promise)
    with open_table(scores, reading) as (table, progress):
        check_predictor(predictor)
        origin = read_origin(table)
        form: Any = {"booleans": booleans, "answer": answer, "model": model, "allow": allow}
        place = console.open_data_output() if output is None else output
        new = name_new(table, columns, predictor, labelled=False)
        sets = new.add_sets(predictor, place, **form, inputs=[promise], progress=progress)
    if output is not None:
        is_choices = origin is not None and origin.details.get("kind") == "prompts"
        summary = sets.summary
        if is_choices and isinstance(summary, SetSummary):
            summary = replace(summary, by_class={})
        text = str(summary)
        if answer and isinstance(summary, SetSummary) and sets.rows:
            share = f"{summary.single:,} of {sets.rows:,} rows ({summary.single / sets.rows:.1%})"
            text += f"\nAnswered {share}; the others abstain. Wrong answers are at most "
            text += f"{percent(sets.epsilon)} of all rows of a task where the guarantee holds, not "
            text += "of the rows answered."
        if model is None and origin is None and predictor.context_.model is not None:
            text += f"\nCalibrated for model {predictor.context_.model!r}."
        console.show(sets, as_json=json, text=text, wrote=[output], output=mask(output))
    for warning in sets.warnings:
        warn(warning)
    if check and not sets.is_compared:
        text = "--check has nothing to compare with: the promise keeps no sets of these classes. It"
        warn(f"{text} may be from scores of true labels, for intervals, or of version 0.2.0.")
    if check and sets.is_suspect:
        raise click.exceptions.Exit(VIOLATED)


def evaluate(
    promise: Path,
    scores: list[str],
    *,
    min_examples: int = 0,
    false_alarm: float = 0.05,
    check: bool = False,
    model: str | None = None,
    output: Path | None = None,
    plot: Path | None = None,
    allow: Sequence[str] = (),
    columns: Columns,
    reading: ReadingOptions,
    json: bool = False,
) -> None:
    """Judge the guarantee on labelled new tasks.

    Example:

        metapac evaluate promise.json labelled.parquet --label y --plot tasks.png

    The verdict is 'holds', 'violated' or 'cannot tell yet'. Columns not given default to those
    used in calibration. Set sizes and misses per class need a score for each class: pass --label,
    not --score. A guarantee per class is judged class by class. For regression, widths of intervals
    are measured.

    Parameters
    ----------
    min_examples
        Leave out tasks with fewer examples (with a guarantee per class, of the class). The verdict
        is then about tasks with at least this many.
    check
        Exit with code 3 if the guarantee is violated.
    output
        CSV file to write, with a row for each task (and class).
    """
    predictor = load(promise)
    check_outputs(output, plot)
    with open_table(scores, reading, output or plot, inputs=[promise]) as (table, progress):
        progress("evaluating the sets of each task", 0, None)
        given: Any = {"min_examples": min_examples, "false_alarm": false_alarm}
        new = name_new(table, columns, predictor)
        evaluation = metapac.evaluate(predictor, new, model=model, allow=allow, **given)
        notes = _describe_pools(predictor, read_origin(table))
    if output is not None:
        evaluation.to_csv(output)
    if plot is not None:
        evaluation.plot(plot)
    if json and (harm := describe_neglected(evaluation, Words.from_context(predictor.context_))):
        warn(harm)
    text = "\n\n".join([str(evaluation), *notes])
    console.show(evaluation, as_json=json, text=text, wrote=[output, plot], notes=notes)
    if check and evaluation.verdict is not None and evaluation.verdict.status == "violated":
        raise click.exceptions.Exit(VIOLATED)


def _describe_pools(predictor: Any, origin: Provenance | None) -> list[str]:
    """Return from how few classes the tasks were drawn, those of calibration and these."""
    notes = []
    if getattr(predictor, "clusters_", None) is None and predictor.context_.drawn_from:
        notes.append(describe_pool(predictor.context_, len(predictor.tasks_)))
    if origin is not None and (here := origin.details.get("drawn_from")):
        notes.append(f"The tasks judged here were drawn from {here}: the verdict is about these.")
    return notes


def report(
    promise: Path,
    labelled: list[str] | None = None,
    *,
    output: Path = Path("report.html"),
    monitor: Path | None = None,
    title: str | None = None,
    sign_off: SignOff,
    examples: int = 0,
    false_alarm: float = 0.05,
    model: str | None = None,
    allow: Sequence[str] = (),
    columns: Columns,
    reading: ReadingOptions,
    json: bool = False,
) -> None:
    """Write a report to sign, as one HTML file.

    Example:

        metapac report promise.json labelled.parquet -o report.html

    It is for people who are not statisticians: two A4 pages with the guarantee, its cost, its
    limits, its assumptions and a decision to sign, and an appendix with the data. Fields that no
    option fills are lines to write on. It works offline and on a phone. Columns not given default
    to those used in calibration.

    Parameters
    ----------
    labelled : LABELLED
        Table of labelled new tasks, as for 'metapac evaluate'. It adds the verdict, miss rates and
        the cost.
    output
        HTML file to write. An earlier report there is replaced; another file is not.
    monitor : FILE
        State file of 'metapac monitor', to show its course.
    title
        Title. By default it names the model.
    examples : NUMBER
        Number of labelled examples to show with their sets.
    """
    predictor = load(promise)
    inputs = [promise, *([] if monitor is None else [monitor])]
    artefact.check_not_input(output, inputs)
    given: Any = {"monitor": monitor, "output": output, "title": title, "examples": examples}
    given |= {"false_alarm": false_alarm, "model": model, "allow": allow, "sign_off": sign_off}
    if labelled:
        with open_table(labelled, reading, output, inputs=inputs) as (table, progress):
            new = name_new(table, columns, predictor)
            html = write_report(promise, new, **given, progress=progress)
    else:
        with console.progress_bar(lines=False) as progress:
            html = write_report(promise, **given, progress=progress)
    facts = {"output": str(output), "bytes": len(html.encode())}
    console.show(facts, as_json=json, text="Open it in a browser.", wrote=[output])


def monitor(
    promise: Path,
    scores: list[str] | None = None,
    *,
    state: Path | None = None,
    batch: str | None = None,
    again: bool = False,
    false_alarm: float | None = None,
    run_length: int | None = None,
    min_examples: int | None = None,
    reference: Path | None = None,
    check: bool = False,
    model: str | None = None,
    plot: Path | None = None,
    allow: Sequence[str] = (),
    columns: Columns,
    reading: ReadingOptions,
    json: bool = False,
) -> None:
    """Watch the guarantee while new tasks arrive.

    Example:

        metapac monitor promise.json january.parquet --state monitor.json

    Run it whenever there are labelled new tasks, as often as you like: if the guarantee is true,
    the probability of ever raising an alarm is at most --false-alarm. After an alarm the exit code
    is 3. An amber light comes on soon after a change, but if the guarantee is true at most once in
    --run-length tasks on average; with --check, the exit code is then 4. A task counts once, so
    running it twice on the same table changes nothing. Columns not given default to those used in
    calibration.

    Parameters
    ----------
    scores : SCORES
        Table of scores of new tasks, in any of the formats of 'metapac calibrate'. Without it,
        --state is shown and not changed.
    state : FILE
        State file with the tasks counted so far. The first call creates it, later calls update it.
    batch : NAME
        Name of this batch of tasks, such as 2026-01. By default the name of the file.
    again
        Count tasks of earlier batches again, whatever their examples. Each batch must then be a new
        draw of tasks.
    false_alarm
        Probability of ever raising an alarm if the guarantee is true. By default 0.01; fixed by the
        first call.
    run_length : TASKS
        Average run length to a false amber light: expected number of tasks until one, at least. By
        default 200; fixed by the first call.
    min_examples
        Leave out tasks with fewer examples (with a guarantee per class, of the class). Fixed by the
        first call.
    reference : FILE
        Calibration table, to compare the scores of new tasks with. Needs no labels and no --state;
        a heuristic without a guarantee. With --state it is shown beside alarm and amber light.
    check
        Exit with code 4 if the amber light came on in the latest batch.
    """
    if state is None and (reference is None or check):
        also = "and for check=True; without both, pass" if check else "or"
        text = f"pass state='monitor.json' to count labelled tasks, {also} "
        text += "reference='calibration.parquet' to compare scores without labels."
        raise InvalidInput(text, parameter=("state", "check" if check else "reference"))
    predictor = load(promise)
    check_outputs(None, plot)
    drift = None
    if reference is not None:
        drift = _compare(predictor, scores, str(reference), without_labels(columns), reading, model)
    if state is None:
        console.show(drift, as_json=json)
        return
    added = None
    artefact.check_not_input(state, [promise])
    watched = _load_monitor(state, predictor, (min_examples or 0) if scores else None)
    if scores:
        with open_table(scores, reading, state, inputs=[promise]) as (table, progress):
            progress("counting the misses of each task", 0, None)
            table = name_new(table, columns, predictor)
            least, files = watched.terms.min_examples, table.source.files
            how: Any = {"min_examples": least, "model": model, "allow": allow}
            judged = metapac.evaluate(predictor, table, **how)
        name = batch or (files[0].stem if len(files) == 1 else None)
        fixed: Any = {"false_alarm": false_alarm, "run_length": run_length}
        with open_monitor(state, predictor, min_examples=min_examples, **fixed) as watched:
            added = watched.add_evaluation(judged, batch=name, again=again, allow=allow)
    failure: OSError | None = None
    if plot is not None:
        try:
            watched.plot(plot)
        except OSError as error:  # what was counted is printed all the same
            failure, plot = error, None
    text, wrote = describe(watched, added, drift), [added and state, plot]
    facts = watched.to_dict(added) | {"drift": drift and drift.to_dict()}
    console.show(facts, as_json=json, text=text, wrote=wrote, state=str(state))
    code = AMBER if check and watched.amber is not None else OK
    code = code if watched.alarm is None else VIOLATED
    if failure is not None:
        if code == OK:
            raise failure
        warn(f"{failure.filename}: {failure.strerror}.")
    if code != OK:
        raise click.exceptions.Exit(code)


def _load_monitor(state: Path, predictor: Any, min_examples: int | None) -> Monitor:
    """Return the monitor of a state file; a new one if there are tasks to count."""
    if state.exists():
        return Monitor.load(state, predictor)
    if min_examples is None:
        text = f"{state} does not exist: nothing has been counted yet"
        raise InvalidInput(f"{text}. Name a table of labelled tasks.", parameter="state")
    return Monitor(predictor, min_examples=min_examples)


def _compare(
    predictor: Any,
    scores: list[str] | None,
    reference: str,
    columns: Columns,
    reading: ReadingOptions,
    model: str | None,
) -> Drift:
    """Compare the scores of new tasks with those of calibration."""
    from metapac.tables import compare_tables

    if not scores:
        raise InvalidInput("scores must name the table to compare.")
    with open_table(scores, reading) as (table, progress):
        progress("comparing the scores of each task", 0, None)
        table = name_new(table, columns, predictor, labelled=False)
        how = Reading(connection=table.source.connection)
        with metapac.open_table(reference, reading=how) as known:
            drift = compare_tables(predictor, table, known, model=model)
    about = predictor.context_
    return replace(drift, unit=about.unit, example=about.example)
