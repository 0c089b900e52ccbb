"""What a report is made from: the promise, labelled scores, a monitor, and where they come from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from metapac import _checks, _document, _optional, base
from metapac.assessment.evaluation import Evaluation
from metapac.base import Calibrated, ThresholdSets
from metapac.exceptions import InvalidInput, Parameter
from metapac.explanation.words import Words
from metapac.loading import load
from metapac.monitoring import Monitor
from metapac.monitoring.terms import Terms
from metapac.report import origin
from metapac.report.course import Course, read_course
from metapac.report.data import Data
from metapac.report.scored import Scored


def open_promise(promise: Any) -> tuple[Any, list[origin.Fact]]:
    """Return the calibrated predictor, and what is known about it.

    Parameters
    ----------
    promise : path, MetaPS, PS or MetaCP
        Promise file, or calibrated predictor.

    Returns
    -------
    predictor : MetaPS, PS or MetaCP
        The predictor.
    facts : list of Fact
        The file, the promise, and the software.
    """
    if isinstance(promise, Calibrated):
        promise.check_calibrated()
        facts = origin.describe_promise(promise)
        return promise, [*facts, *origin.describe_software(None)]
    if not isinstance(promise, str | os.PathLike):
        raise InvalidInput(
            "promise must be a promise file or a calibrated predictor, got {}.",
            _checks.brief(promise),
        )
    predictor = load(promise)
    written_by = str(_document.read(promise, base.FORMAT)["metapac"])
    facts = origin.describe_files("Promise file", [promise])
    facts += origin.describe_promise(predictor)
    return predictor, [*facts, *origin.describe_software(written_by)]


def open_data(
    stack: ExitStack,
    name: str,
    given: Any,
    columns: Mapping[str, Any],
    id: str | None,
    promise: Any,
) -> tuple[Data | None, list[origin.Fact]]:
    """Return labelled scores, and the files that they come from.

    Parameters
    ----------
    stack : ExitStack
        Closes the table in the end.
    name : {"labelled", "calibration"}
        The parameter that was passed.
    given : Scored, Evaluation, table or None
        What was passed.
    columns : mapping
        Names of the columns of a table, as ``evaluate_table`` takes them.
    id : str or None
        Column that identifies the examples of a task.
    promise : MetaPS, PS or MetaCP
        The guarantee.

    Returns
    -------
    data : Data or None
        The scores; None if there are none.
    facts : list of Fact
        The files of a table.
    """
    if given is None or isinstance(given, Evaluation):
        return None, []
    if not isinstance(promise, ThresholdSets):
        raise InvalidInput(
            "{} cannot be used with {}, which has no threshold shared by all tasks. Leave it out.",
            Parameter(name),
            type(promise).__name__,
        )
    if isinstance(given, Scored):
        return given, []
    _optional.require("ibis", extra="tables", purpose="a report on a table")
    from metapac.report.tables import Tabled
    from metapac.tables.io.sources import open_source

    source = stack.enter_context(open_source(given))
    named = {"labelled": "Labelled data", "calibration": "Calibration data"}[name]
    return Tabled(source, columns, id), origin.describe_files(named, source.files)


def open_monitor(
    monitor: Any, promise: Any, words: Words
) -> tuple[Course | None, list[origin.Fact]]:
    """Return the course of the monitor of this promise, and what is known about its file.

    Parameters
    ----------
    monitor : path, Monitor or None
        What was passed.
    promise : MetaPS, PS or MetaCP
        The guarantee.
    words : Words
        What tasks are called.

    Returns
    -------
    course : Course or None
        The course; None without a monitor.
    facts : list of Fact
        The state file.
    """
    if monitor is None:
        return None, []
    if isinstance(monitor, str | os.PathLike):
        facts = origin.describe_files("Monitor", [monitor])
        return read_course(Monitor.load(monitor, promise), words), facts
    if not isinstance(monitor, Monitor):
        raise InvalidInput(
            "{} must be a Monitor or its file, got {}.",
            Parameter("monitor"),
            _checks.brief(monitor),
        )
    _check_watched(monitor.terms, promise)
    return read_course(monitor, words), []


def _check_watched(terms: Terms, promise: Any) -> None:
    """Raise InvalidInput if a monitor watches another promise."""
    if Terms.from_promise(promise, terms.false_alarm, 0).checksum != terms.checksum:
        raise InvalidInput(
            "{} must watch this promise, and watches another one: {}",
            Parameter("monitor"),
            terms.promise,
        )
