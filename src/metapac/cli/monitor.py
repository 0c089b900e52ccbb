"""``metapac monitor``: an alarm from labelled new tasks, a warning from unlabelled ones."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metapac import _files, _optional
from metapac.cli import exits, options
from metapac.cli.bundles import NewColumnOptions, TableOptions
from metapac.cli.console import print_error, print_json, print_line
from metapac.cli.drift import report_drift
from metapac.cli.errors import VIOLATED
from metapac.cli.monitored import print_monitor, summarise_monitor
from metapac.cli.parsing import parse_allowed
from metapac.cli.scored_tables import fill_new
from metapac.cli.sources import open_table
from metapac.exceptions import InvalidInput, Parameter
from metapac.loading import load

if TYPE_CHECKING:
    from metapac.monitoring import Added, Monitor
    from metapac.tables.io.sources import Source

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
    _files.check_not_input(state, [promise])
    allowed = parse_allowed(allow)
    least = _find_min_examples(predictor, state, min_examples)
    with open_table(scores, reading, state, inputs=[promise]) as (source, progress):
        progress("counting the misses of each task", 0, None)
        judged = _judge(predictor, source, given, least, model, allowed)
        name = batch or (source.files[0].stem if len(source.files) == 1 else None)
    from metapac.monitoring import open_monitor

    with open_monitor(
        state, predictor, false_alarm=false_alarm, min_examples=min_examples
    ) as watched:
        added = watched.add_evaluation(*judged, batch=name, again=again, allow=allowed)
    _report(watched, added, state, plot, as_json=as_json)


def _check_mode(state: Path | None, reference: Path | None) -> None:
    """Raise InvalidInput unless there is a state file or a reference, and not both."""
    if (state is None) != (reference is None):
        return
    text = "pass {} to count labelled tasks, or {} to compare scores without labels{}."
    shown = Parameter("state", "monitor.json"), Parameter("reference", "calibration.parquet")
    raise InvalidInput(text, *shown, "" if state is None else "; not both")


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
    _files.check_folder(plot.resolve().parent)
    if plot.is_dir():
        raise InvalidInput(f"--plot must be a file, got the folder {str(plot)!r}.")
    _optional.require("matplotlib.figure", extra="plot", purpose="--plot")


def _find_min_examples(predictor: Any, state: Path, min_examples: int | None) -> int:
    """Return the size below which tasks are left out; fail fast if the state file is not ours."""
    from metapac.monitoring import Monitor

    if state.exists():
        return Monitor.load(state, predictor).terms.min_examples
    return Monitor(predictor, min_examples=min_examples or 0).terms.min_examples


def _judge(
    predictor: Any,
    source: Source,
    given: dict[str, Any],
    min_examples: int,
    model: str | None,
    allow: Collection[str],
) -> tuple[Any, ...]:
    """Return what ``Monitor.add_evaluation`` takes: the misses of the tasks of a table."""
    from metapac.tables.monitor import judge_tasks
    from metapac.tables.origins import read_origin

    per_class = predictor.classes_ is not None
    columns = fill_new(read_origin(source), given, labelled=True, per_class=per_class)
    options: Any = {"min_examples": min_examples, "model": model, "allow": allow}
    return judge_tasks(predictor, source, **options, **columns)


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
