"""``metapac monitor``: a guarantee watched while new tasks come in."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from metapac import artefact
from metapac._common import listed, require
from metapac.cli import exits, options
from metapac.cli.commands import VIOLATED
from metapac.cli.console import (
    make_cell,
    make_table,
    print_error,
    print_json,
    print_line,
    print_text,
    stdout,
)
from metapac.cli.options import NewColumnOptions, TableOptions, parse_allowed
from metapac.cli.sources import fill_new, open_table
from metapac.errors import InvalidInput
from metapac.guarantee import percent
from metapac.predictors import load
from metapac.words import Words

if TYPE_CHECKING:
    from metapac.betting import Added, Step
    from metapac.drift import Drift
    from metapac.evaluation import Evaluation
    from metapac.monitoring import Monitor
    from metapac.tables.table import Table

_SHOWN = 10  # classes or batches in a table, tasks in a line


def summarise_monitor(watched: Monitor, added: Added | None = None) -> dict[str, Any]:
    """Return the standing of a monitor as JSON can hold it."""
    steps = [] if added is None else added.steps
    known, overlap, left_out = ([], (), 0) if added is None else added[1:]
    terms, (lower, upper) = watched.terms, watched.interval
    by_class = watched.by_class and [
        {"class": label} | _figures(steps) for label, steps in watched.by_class.items()
    ]
    power = watched.power()
    return {
        "status": watched.status,
        "sentence": watched.sentence(),
        "alarm": None if watched.alarm is None else watched.alarm._asdict(),
        "wealth": watched.wealth,
        "limit": terms.limit,
        "lower": lower,
        "upper": upper,
        "tasks": len(watched.course),
        "violated": sum(step.violated for step in watched.course),
        "epsilon": terms.epsilon,
        "alpha": terms.alpha,
        "delta": terms.delta,
        "false_alarm": terms.false_alarm,
        "min_examples": terms.min_examples,
        "added": [step._asdict() for step in steps],
        "known": known,
        "overlap": [str(name) for name in overlap],
        "left_out": left_out,
        "batches": [
            {"batch": batch} | _figures([s for s in watched.course if s.batch == batch])
            for batch in watched.batches
        ],
        "by_class": by_class,
        "power": None if power is None else power._asdict() | {"can_tell": power.can_tell},
    }


def _figures(steps: list[Step]) -> dict[str, Any]:
    """Return the number of tasks, how many are violated, and what is known after the last."""
    last = {
        name: getattr(steps[-1], name) if steps else None for name in ("wealth", "lower", "upper")
    }
    return {"tasks": len(steps), "violated": sum(step.violated for step in steps)} | last


def print_monitor(watched: Monitor, added: Added | None = None) -> None:
    """Print the standing of a monitor."""
    words = Words.from_context(watched.terms.context)
    print_text(watched.sentence())
    print_line("")
    if added is not None:
        _print_added(added, words)
    if watched.terms.min_examples > 1:
        least = words.count_examples(watched.terms.min_examples)
        of_class = "" if watched.by_class is None else " of a class"
        print_line(f"Watched: {words.units} with at least {least}{of_class}.")
    _print_violated(watched, words)
    if watched.by_class is not None:
        _print_table("class", watched.by_class, words)
    if len(watched.batches) > 1:
        groups = {b: [s for s in watched.course if s.batch == b] for b in watched.batches}
        _print_table("batch", groups, words)


def _print_violated(watched: Monitor, words: Words) -> None:
    """Name the tasks above epsilon, the worst first: of the latest batch, or all after an alarm."""
    from metapac.monitoring import SHOWN

    steps = watched.course
    if watched.alarm is None:
        steps = [step for step in steps if step.batch == steps[-1].batch]
    violated = [step for step in steps if step.violated]
    if violated:
        violated.sort(key=lambda step: -step.missed / step.examples)
        names = [f"{s.task} ({s.missed} of {s.examples} missed)" for s in violated]
        limit = "the limit of a class" if watched.terms.classes else percent(watched.terms.rates[0])
        print_line(f"Above {limit} {SHOWN.format(words.unit)}: {listed(names, shown=_SHOWN)}.")


def _print_added(added: Added, words: Words) -> None:
    counted = words.count_units(len(added.steps))
    before = f"; {words.count_units(len(added.known))} counted before" if added.known else ""
    small = f"; {words.count_units(added.left_out)} left out, too few {words.examples}"
    print_line(f"{counted} counted{before}{small if added.left_out else ''}.")
    if added.overlap:
        names = listed([*map(str, added.overlap)])
        count = words.count_units(len(added.overlap))
        print_line(
            f"{count} not new (calibrated or trained on, a pilot, or of a known cluster): {names}."
        )


def _print_table(what: str, groups: Any, words: Words) -> None:
    from metapac.monitoring import format_wealth

    right = [words.units, "above epsilon", "wealth", "share above epsilon, if constant"]
    table = make_table([what], right)
    for name, steps in [*groups.items()][-_SHOWN:]:
        figures = _figures(steps)
        if steps:
            known = [format_wealth(figures["wealth"]), _format_share(**figures)]
        else:
            known = ["-", "-"]
        shown = "-" if name is None else name
        table.add_row(make_cell(shown), str(figures["tasks"]), str(figures["violated"]), *known)
    stdout.print(Text(), table, sep="\n")


def _format_share(*, lower: float, upper: float, **_more: object) -> str:
    """Return the bounds of a share; they cross only if it was not constant."""
    return "has changed" if lower > upper else f"{percent(lower)} to {percent(upper)}"


def report_drift(
    predictor: Any,
    scores: list[str],
    reference: Path,
    given: dict[str, Any],
    reading: TableOptions,
    *,
    model: str | None = None,
    as_json: bool,
) -> None:
    """Compare the scores of new tasks with those of calibration, and print what is unusual."""
    with open_table(scores, reading) as (table, progress):
        from metapac.columns import Reading
        from metapac.columns import open_table as open_reference
        from metapac.tables import compare_tables
        from metapac.tables.sources import read_origin

        progress("comparing the scores of each task", 0, None)
        table = fill_new(table, read_origin(table.source), given, predictor, labelled=False)
        how = Reading(connection=table.source.connection)
        with open_reference(reference, reading=how) as known:
            drift = compare_tables(predictor, table, known, model=model)
    words = Words.from_context(predictor.context_)
    if as_json:
        print_json(_summarise(drift, words))
        return
    print_text(_describe(drift, words))
    if drift.unusual:
        stdout.print(Text(), _table(drift, words), sep="\n")


def _describe(drift: Drift, words: Words) -> str:
    number, total = len(drift.unusual), words.count_units(len(drift.shifts))
    have = "has" if number == 1 else "have"
    verdict = "Chance explains that."
    if len(drift.shifts) == 1:
        verdict = f"One {words.unit} is too few to tell chance from change."
    if drift.is_suspicious:
        verdict = "That is more than chance explains: the scores have changed."
    return (
        f"Without labels: {number} of {total} {have} unusual scores, where {drift.expected:.2g} "
        f"would be expected; a new {words.example} has a higher score than one of calibration in "
        f"{drift.higher:.0%} of pairs. {verdict} This is a heuristic: scores may change while the "
        f"sets stay good, and the reverse. To know, label {words.examples} and pass --state."
    )


def _table(drift: Drift, words: Words) -> Any:
    title = f"Unusual {words.units}"
    if len(drift.unusual) > _SHOWN:
        title += f" (the first {_SHOWN} of {len(drift.unusual)})"
    right = [words.examples, "higher than calibration", "p"]
    table = make_table([words.unit], right, title)
    for shift in drift.unusual[:_SHOWN]:
        share = f"{shift.higher:.0%} of pairs"
        table.add_row(make_cell(shift.task), str(shift.examples), share, f"{shift.p_value:.2g}")
    return table


def _summarise(drift: Drift, words: Words) -> dict[str, Any]:
    return {
        "suspicious": drift.is_suspicious,
        "sentence": _describe(drift, words),
        "tasks": len(drift.shifts),
        "reference": drift.reference,
        "higher": drift.higher,
        "unusual": [shift._asdict() for shift in drift.unusual],
        "expected": drift.expected,
        "p_common": drift.p_common if len(drift.shifts) > 1 else None,
    }


_IMAGES = (".png", ".svg", ".pdf")
_UNLABELLED = ("task", "columns", "classes", "classes_column", "prediction")


def monitor(
    promise: options.Promise,
    scores: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCORES",
            help="Table of scores of new tasks, in any of the formats of 'metapac calibrate'. "
            "Without it, --state is shown and not changed.",
        ),
    ] = None,
    *,
    state: Annotated[
        Path | None,
        typer.Option(
            help="State file with the tasks counted so far. The first call creates it, later calls "
            "update it."
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of this batch of tasks, such as 2026-01. By default the name of the file.",
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Count tasks of earlier batches again, whatever their examples. Each batch must "
            "then be a new draw of tasks.",
        ),
    ] = False,
    false_alarm: Annotated[
        float | None,
        typer.Option(
            help="Probability of ever raising an alarm if the guarantee is true. By default 0.01; "
            "fixed by the first call."
        ),
    ] = None,
    min_examples: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Leave out tasks with fewer examples (with a guarantee per class, of the class). "
            "Fixed by the first call.",
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Calibration table, to compare the scores of new tasks with. Needs no labels and "
            "no --state; a heuristic without a guarantee."
        ),
    ] = None,
    columns: NewColumnOptions,
    cluster: options.CalibrationCluster = None,
    id: options.Id = None,
    model: options.Model = None,
    allow: options.Allow = None,
    plot: Annotated[
        Path | None, typer.Option(help="Figure to write: a .png, .svg or .pdf file.")
    ] = None,
    reading: TableOptions,
    as_json: options.AsJson = False,
) -> None:
    """Watch the guarantee while new tasks come in, and raise an alarm if it is violated.

    Run it whenever there are labelled new tasks, as often as you like: if the guarantee is true,
    the probability of ever raising an alarm is at most --false-alarm. After an alarm the exit code
    is 3. A task counts once, so running it twice on the same table changes nothing.
    Columns not given default to those used in calibration. Without a table, it says where the
    monitor stands.

    Example:

        metapac monitor promise.json january.parquet --state monitor.json
    """
    _check_mode(state, reference)
    predictor = load(promise)
    _check_plot(plot)
    if state is not None and not scores:
        _report(_look(state, predictor), None, state, plot, as_json=as_json)
        return
    if not scores:
        raise InvalidInput("name the table to compare: 'metapac monitor PROMISE SCORES ...'.")
    given = columns.parse() | {"cluster": cluster, "id": id}
    if state is None:
        assert reference is not None
        unlabelled = {name: given[name] for name in _UNLABELLED}
        report_drift(
            predictor, scores, reference, unlabelled, reading, model=model, as_json=as_json
        )
        return
    artefact.check_not_input(state, [promise])
    allowed = parse_allowed(allow)
    least = _find_min_examples(predictor, state, min_examples)
    with open_table(scores, reading, state, inputs=[promise]) as (table, progress):
        progress("counting the misses of each task", 0, None)
        judged = _judge(predictor, table, given, least, model, allowed)
        files = table.source.files
        name = batch or (files[0].stem if len(files) == 1 else None)
    from metapac.monitoring import open_monitor

    with open_monitor(
        state, predictor, false_alarm=false_alarm, min_examples=min_examples
    ) as watched:
        added = watched.add_evaluation(judged, batch=name, again=again, allow=allowed)
    _report(watched, added, state, plot, as_json=as_json)


def _check_mode(state: Path | None, reference: Path | None) -> None:
    """Raise InvalidInput unless there is a state file or a reference, and not both."""
    if (state is None) != (reference is None):
        return
    end = "" if state is None else "; not both"
    raise InvalidInput(
        "pass state='monitor.json' to count labelled tasks, or reference='calibration.parquet' to "
        f"compare scores without labels{end}."
    )


def _look(state: Path, predictor: Any) -> Monitor:
    """Return the monitor in a state file, unchanged."""
    from metapac.monitoring import Monitor

    if not state.exists():
        raise InvalidInput(
            f"{state} does not exist: nothing has been counted yet. Name a table of labelled tasks."
        )
    return Monitor.load(state, predictor)


def _check_plot(plot: Path | None) -> None:
    """Fail fast: check the name of the figure before running the query."""
    if plot is None:
        return
    if plot.suffix.lower() not in _IMAGES:
        raise InvalidInput(f"--plot must end in {', '.join(_IMAGES)}, got {str(plot)!r}.")
    artefact.check_folder(plot.resolve().parent)
    if plot.is_dir():
        raise InvalidInput(f"--plot must be a file, got the folder {str(plot)!r}.")
    require("matplotlib.figure", extra="plot", purpose="--plot")


def _find_min_examples(predictor: Any, state: Path, min_examples: int | None) -> int:
    """Return the size below which tasks are left out; fail fast if the state file is not ours."""
    from metapac.monitoring import Monitor

    if state.exists():
        return Monitor.load(state, predictor).terms.min_examples
    return Monitor(predictor, min_examples=min_examples or 0).terms.min_examples


def _judge(
    predictor: Any,
    table: Table,
    given: dict[str, Any],
    min_examples: int,
    model: str | None,
    allow: Collection[str],
) -> Evaluation:
    """Return the misses of the tasks of a table."""
    from metapac.evaluation import evaluate
    from metapac.tables.sources import read_origin

    table = fill_new(table, read_origin(table.source), given, predictor)
    return evaluate(predictor, table, min_examples=min_examples, model=model, allow=allow)


def _report(
    watched: Monitor, added: Added | None, state: Path, plot: Path | None, *, as_json: bool
) -> None:
    """Print what was counted and what it means; exit with code 3 after an alarm.

    The figure comes last: an alarm is not lost if it cannot be written.
    """
    if watched.alarm is not None:
        exits.expect(VIOLATED)
    if as_json:
        print_json(summarise_monitor(watched, added) | {"state": str(state)})
    else:
        print_monitor(watched, added)
        if added is not None:
            print_line(f"state written to {state}")
    if plot is not None:
        _draw(watched, plot, as_json=as_json)
    if watched.alarm is not None:
        raise typer.Exit(VIOLATED)


def _draw(watched: Monitor, plot: Path, *, as_json: bool) -> None:
    """Write the figure; after an alarm, a failure does not change the exit code."""
    try:
        watched.plot(plot)
    except OSError as error:
        if watched.alarm is None:
            raise
        print_error(f"{plot}: {error.strerror}")
        return
    if not as_json:
        print_line(f"figure written to {plot}")
