"""``report``: reads its inputs and writes the page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from metapac import artefact
from metapac._common import PathLike, Progress, as_whole_number, brief, ignore_progress, require
from metapac.artefact import check_folder, check_not_input, replacing
from metapac.errors import InvalidInput
from metapac.evaluation import Evaluation, evaluate
from metapac.grouping import Data, Row
from metapac.monitoring import Monitor, Terms
from metapac.predictors import FORMAT, Calibrated, ThresholdSets, load
from metapac.report import wording
from metapac.report.findings import Course, choose_tasks, find_findings, pick_examples, read_course
from metapac.report.levels import EPSILONS, explain_why_not, try_epsilons
from metapac.report.page import build_page, render
from metapac.words import Words


def open_promise(promise: Any) -> tuple[Any, list[wording.Fact]]:
    """Return the calibrated predictor, and what is known about it."""
    if isinstance(promise, Calibrated):
        promise.check_calibrated()
        facts = wording.describe_promise(promise)
        return promise, [*facts, *wording.describe_software(None)]
    if not isinstance(promise, str | os.PathLike):
        raise InvalidInput(
            f"promise must be a promise file or a calibrated predictor, got {brief(promise)}."
        )
    predictor = load(promise)
    written_by = str(artefact.read(promise, FORMAT)["metapac"])
    facts = wording.describe_files("Promise file", [promise])
    facts += wording.describe_promise(predictor)
    return predictor, [*facts, *wording.describe_software(written_by)]


def check_data(name: str, given: Any, promise: Any) -> tuple[Data | None, list[wording.Fact]]:
    """Return labelled scores, and the files that they come from."""
    if given is None or isinstance(given, Evaluation):
        return None, []
    if not isinstance(promise, ThresholdSets):
        raise InvalidInput(
            f"{name} cannot be used with {type(promise).__name__}, which has no threshold shared "
            "by all tasks. Leave it out.",
            parameter=name,
        )
    if not isinstance(given, Data):
        raise InvalidInput(
            f"{name} must be what open_table returned, or Scored arrays, got {brief(given)}.",
            parameter=name,
        )
    named = {"labelled": "Labelled data", "calibration": "Calibration data"}[name]
    return given, wording.describe_files(named, _files_of(given))


def _files_of(data: Any) -> tuple[Path, ...]:
    return getattr(getattr(data, "source", None), "files", ())


def open_monitor(
    monitor: Any, promise: Any, words: Words
) -> tuple[Course | None, list[wording.Fact]]:
    """Return the course of the monitor of this promise, and what is known about its file."""
    if monitor is None:
        return None, []
    if isinstance(monitor, str | os.PathLike):
        facts = wording.describe_files("Monitor", [monitor])
        return read_course(Monitor.load(monitor, promise), words), facts
    if not isinstance(monitor, Monitor):
        raise InvalidInput(
            f"monitor must be a Monitor or its file, got {brief(monitor)}.", parameter="monitor"
        )
    _check_watched(monitor.terms, promise)
    return read_course(monitor, words), []


def _check_watched(terms: Terms, promise: Any) -> None:
    """Raise InvalidInput if a monitor watches another promise."""
    if Terms.from_promise(promise, terms.false_alarm, 0).checksum != terms.checksum:
        raise InvalidInput(
            f"monitor must watch this promise, and watches another one: {terms.promise}",
            parameter="monitor",
        )


MARK = b'<meta name="generator" content="metapac '
_START = 4096  # bytes at the start of a file in which a report has its mark


def report(
    promise: Any,
    labelled: Any = None,
    *,
    calibration: Any = None,
    monitor: Any = None,
    output: PathLike | None = None,
    title: str | None = None,
    epsilons: Sequence[float] = EPSILONS,
    examples: int = 9,
    false_alarm: float = 0.05,
    model: str | None = None,
    allow: Iterable[str] = (),
    progress: Progress | None = None,
) -> str:
    """Return a report for people who are not statisticians: one HTML file that works offline.

    It says what is guaranteed and what is not, lists the assumptions to sign, and shows the data
    behind it. Labelled new tasks add the verdict, errors and set sizes; calibration scores add a
    slider that shows the results at other miss rates.

    Parameters
    ----------
    promise : path, MetaPS, PS or MetaCP
        Promise file, or calibrated predictor.
    labelled : Table, Scored or Evaluation, optional
        Labelled new tasks: a table from ``open_table``, arrays, or already evaluated.
    calibration : Table or Scored, optional
        The scores that the promise was calibrated on.
    monitor : path or Monitor, optional
        Monitor of the same promise, or its file.
    output : path, optional
        HTML file to write. An earlier report there is replaced atomically; another file is not.
    title : str, optional
        Title of the report; by default it names the model.
    epsilons : sequence of float, default (0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3)
        Miss rates on the slider, in addition to that of the promise.
    examples : int, default 9
        Number of labelled examples to show with their sets; 0 shows none.
    false_alarm : float, default 0.05
        Probability that the verdict is wrong.
    model : str, optional
        Name of the model that gave the labelled scores, to be compared with the calibrated one.
    allow : iterable of str, default ()
        Checks of the data to skip, as in ``evaluate``.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` at each step.

    Returns
    -------
    str
        The HTML.

    Raises
    ------
    InvalidInput
        If an input cannot be used, or the monitor or the scores belong to another promise.
    BadArtefact
        If a file is not a promise file, or was edited or damaged.
    MissingExtra
        If the extra ``report`` is not installed; for tables, the extra ``tables``.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import Context, MetaPS
    >>> from metapac.report import report
    >>> scores, hospitals = np.linspace(0, 1, 6000), np.tile(np.arange(120), 50)
    >>> method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05)
    >>> promise = method.calibrate(scores, hospitals, context=Context(unit="hospital"))
    >>> html = report(promise)
    >>> "at least 90% of new hospitals of the same kind" in html
    True
    """
    _require_extra()
    _check_output(output, promise, labelled, calibration, monitor)
    tell = progress or ignore_progress
    predictor, facts = open_promise(promise)
    words = Words.from_context(predictor.context_)
    number = as_whole_number("examples", examples, minimum=0)
    predictor.context_.check_model(model)
    course, facts_of_monitor = open_monitor(monitor, predictor, words)
    data, files = check_data("labelled", labelled, predictor)
    scores, more = check_data("calibration", calibration, predictor)
    tell("evaluating the sets of each task", 0, None)
    evaluation, shown = _evaluate(predictor, labelled, data, number, false_alarm, allow)
    why_not = explain_why_not(predictor, scores)
    trials = []
    if why_not is None and scores is not None:
        options: Any = {"false_alarm": false_alarm, "allow": allow, "progress": tell}
        trials = try_epsilons(predictor, scores, data, epsilons, **options)
    tell("drawing", 0, None)
    page = build_page(
        predictor,
        title=title,
        date=wording.find_date(),
        findings=None if evaluation is None else find_findings(evaluation, words, shown),
        evaluation=evaluation,
        trials=trials,
        why_not=why_not,
        course=course,
        provenance=[*facts, *files, *more, *facts_of_monitor],
    )
    return _write(render(page), output)


def _require_extra() -> None:
    """Fail fast: check the optional dependencies first."""
    for module in ("jinja2", "vl_convert"):
        require(module, extra="report", purpose="a report")


def _check_output(output: PathLike | None, *inputs: Any) -> None:
    """Raise if the report cannot be written there, or would overwrite one of its inputs."""
    if output is None:
        return
    if Path(output).suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(
            f"output must end in .html, got {os.fspath(output)!r}.", parameter="output"
        )
    check_folder(Path(output).absolute().parent)
    paths = [path for path in inputs if isinstance(path, str | os.PathLike)]
    check_not_input(output, [*paths, *(file for data in inputs for file in _files_of(data))])
    if not _may_replace(Path(output)):
        raise InvalidInput(
            "output must not replace a file that is not a report of metapac, and "
            f"{os.fspath(output)} exists. Write to another file, or remove it.",
            parameter="output",
        )


def _may_replace(path: Path) -> bool:
    """Return whether there is no file yet, an empty one, or an earlier report."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        start = file.read(_START)
    return not start or MARK in start


def _write(html: str, output: PathLike | None) -> str:
    """Return a report, written to a file if there is one."""
    if output is not None:
        with replacing(output) as file:
            file.write(html)
    return html


def _evaluate(
    promise: Any,
    labelled: Any,
    data: Data | None,
    number: int,
    false_alarm: float,
    allow: Iterable[str],
) -> tuple[Evaluation | None, list[Row]]:
    """Return the evaluation on labelled new tasks, and some examples of them."""
    if isinstance(labelled, Evaluation):
        return labelled, []
    if data is None:
        return None, []
    evaluation = evaluate(promise, data, false_alarm=false_alarm, allow=allow)
    if not number:
        return evaluation, []
    tasks = choose_tasks(evaluation)
    rows = data.resolve(promise).rows(promise, tasks)
    return evaluation, pick_examples(rows, tasks, number)
