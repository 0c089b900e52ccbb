"""``report``: checks its inputs, fills the templates and writes the page."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from metapac import _common, artefact
from metapac._common import PathLike, Progress, brief, require
from metapac._text import visible
from metapac._version import __version__
from metapac.artefact import check_folder, check_not_input, replacing
from metapac.errors import InvalidInput
from metapac.evaluation import Evaluation, evaluate
from metapac.grouping import Data
from metapac.guarantee import format_share, percent
from metapac.monitoring import Monitor, state_terms
from metapac.predictors import FORMAT, Calibrated, ThresholdSets, load
from metapac.report import facts
from metapac.words import Words, round_down

_MARK = b'<meta name="generator" content="metapac '
_START = 4096  # bytes at the start of a file in which a report has its mark
_LONGEST, _END = 60, 20  # characters of a name, and how many of them are its last ones
DECISIONS = ("approve", "conditions", "reject")


@dataclass(frozen=True, kw_only=True)
class SignOff:
    """What people add to a report before they sign it. What is left out is a line to write on.

    Parameters
    ----------
    purpose : str, optional
        What the model is for, and who uses it.
    owner : str, optional
        Who is responsible for the model, and how to reach them.
    population : str, optional
        Whom the data are about, such as "adults in 43 US states".
    dates : str, optional
        When the data were collected.
    decision : {"approve", "conditions", "reject"}, optional
        The decision: use the model, use it with conditions, or do not use it.
    conditions : str, optional
        The conditions; not with another decision.
    valid_until : str, optional
        Last day of the approval.
    next_review : str, optional
        Day of the next review.

    Examples
    --------
    >>> from metapac.report import SignOff
    >>> SignOff(purpose="Triage by nurses", decision="approve").decision
    'approve'
    """

    purpose: str | None = None
    owner: str | None = None
    population: str | None = None
    dates: str | None = None
    decision: str | None = None
    conditions: str | None = None
    valid_until: str | None = None
    next_review: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if (value := getattr(self, field.name)) is not None:
                _common.check_text(field.name, value)
        if self.decision is not None:
            _common.check_one_of("decision", self.decision, DECISIONS)
        if self.conditions is not None and self.decision not in (None, "conditions"):
            raise InvalidInput(f"conditions must not be given with the decision {self.decision!r}.")


def report(
    promise: Any,
    labelled: Any = None,
    *,
    monitor: Any = None,
    output: PathLike | None = None,
    title: str | None = None,
    sign_off: SignOff | None = None,
    examples: int = 0,
    false_alarm: float = 0.05,
    model: str | None = None,
    allow: Iterable[str] = (),
    progress: Progress | None = None,
) -> str:
    """Return a report to sign, for people who are not statisticians: one HTML file.

    Two pages say what is guaranteed, what it costs, what is not guaranteed and what is assumed,
    with room for a decision and a signature. An appendix shows the data. Labelled new tasks add
    the verdict, the miss rates and the cost.

    Parameters
    ----------
    promise : path, MetaPS, PS or MetaCP
        Promise file, or calibrated predictor.
    labelled : Table, Scored or Evaluation, optional
        Labelled new tasks: a table from ``open_table``, arrays, or already evaluated.
    monitor : path or Monitor, optional
        Monitor of the same promise, or its file.
    output : path, optional
        HTML file to write. An earlier report there is replaced atomically; another file is not.
    title : str, optional
        Title of the report; by default it names the model.
    sign_off : SignOff, optional
        Purpose, owner, data, decision and dates; fields left out are lines to write on.
    examples : int, default 0
        Number of labelled examples to show with their sets.
    false_alarm : float, default 0.05
        Probability that the verdict is wrong.
    model, allow : optional
        As in ``evaluate``.
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
    MissingExtra
        If the extra ``report`` is not installed; for tables, the extra ``tables``.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import Context, MetaPS
    >>> from metapac.report import SignOff, report
    >>> scores, hospitals = np.linspace(0, 1, 6000), np.tile(np.arange(120), 50)
    >>> method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05)
    >>> promise = method.calibrate(scores, hospitals, context=Context(unit="hospital"))
    >>> html = report(promise, sign_off=SignOff(owner="Clinical safety board"))
    >>> "at least 90% of new hospitals of the same kind" in html
    True
    """
    for module in ("jinja2", "matplotlib"):  # fail fast: before the work
        require(module, extra="report", purpose="a report")
    if not isinstance(sign_off, SignOff | None):
        raise InvalidInput(f"sign_off must be a SignOff, got {brief(sign_off)}.")
    _check_output(output, promise, labelled, monitor)
    tell = progress or _common.ignore_progress
    predictor, origin, files = _open_promise(promise)
    number = _common.as_whole_number("examples", examples, minimum=0)
    predictor.context_.check_model(model)
    watched, more_files = _open_monitor(monitor, predictor)
    data = _check_data(labelled, predictor)
    files += facts.describe_files("labelled", _files_of(data)) + more_files
    tell("evaluating the sets of each task", 0, None)
    evaluation, shown = (labelled if data is None else None), []
    if data is not None:
        evaluation = evaluate(predictor, data, false_alarm=false_alarm, allow=allow)
        shown = facts.find_examples(predictor, data, evaluation, number)
    tell("drawing", 0, None)
    guarantee = facts.describe_guarantee(predictor)
    results = None if evaluation is None else facts.describe_results(evaluation, shown)
    course = None if watched is None else facts.describe_monitor(watched)
    signals = facts.find_signals(results, course, is_weak=bool(guarantee["remarks"]))
    page: Any = {"guarantee": guarantee, "results": results, "monitor": course, "signals": signals}
    page |= {"title": title, "date": facts.find_date(), "origin": origin, "files": files}
    page |= {"words": Words.from_context(predictor.context_), "sign_off": sign_off or SignOff()}
    html = _render(**page)
    if output is not None:
        with replacing(output) as file:
            file.write(html)
    return html


def _open_promise(promise: Any) -> tuple[Any, dict[str, Any], list[dict[str, Any]]]:
    """Return the calibrated predictor, what it says of itself, and its file."""
    if isinstance(promise, Calibrated):
        promise.check_calibrated()
        return promise, facts.describe_origin(promise, None), []
    if not isinstance(promise, str | os.PathLike):
        raise InvalidInput(f"promise must be a promise file or a predictor, got {brief(promise)}.")
    predictor = load(promise)
    written_by = str(artefact.read(promise, FORMAT)["metapac"])
    files = facts.describe_files("promise", [promise])
    return predictor, facts.describe_origin(predictor, written_by), files


def _check_data(labelled: Any, predictor: Any) -> Data | None:
    """Return labelled scores that are still to be evaluated."""
    if isinstance(labelled, Evaluation):
        allowed = labelled.epsilon if labelled.verdict is None else labelled.verdict.epsilon
        if allowed != predictor.epsilon:
            text = "labelled must be an evaluation of this promise, which allows"
            raise InvalidInput(f"{text} {predictor.epsilon} to be missed, got one of {allowed}.")
        return None
    if labelled is None:
        return None
    if not isinstance(predictor, ThresholdSets):
        text = f"labelled cannot be used with {type(predictor).__name__}, which has no threshold"
        raise InvalidInput(f"{text} shared by all tasks. Leave it out.", parameter="labelled")
    if not isinstance(labelled, Data):
        raise InvalidInput(
            f"labelled must be what open_table returned, or Scored arrays, got {brief(labelled)}."
        )
    return labelled


def _files_of(data: Any) -> tuple[Path, ...]:
    return getattr(getattr(data, "source", None), "files", ())


def _open_monitor(monitor: Any, predictor: Any) -> tuple[Monitor | None, list[dict[str, Any]]]:
    """Return the monitor of this promise, and its file."""
    if monitor is None:
        return None, []
    if isinstance(monitor, str | os.PathLike):
        return Monitor.load(monitor, predictor), facts.describe_files("monitor", [monitor])
    if not isinstance(monitor, Monitor):
        raise InvalidInput(f"monitor must be a Monitor or its file, got {brief(monitor)}.")
    terms = monitor.terms
    given = state_terms(predictor, terms.false_alarm, 0, terms.run_length)
    if given.checksum != terms.checksum:
        raise InvalidInput(
            f"monitor must watch this promise, and watches another one: {terms.promise}"
        )
    return monitor, []


def _check_output(output: PathLike | None, *inputs: Any) -> None:
    """Raise if the report cannot be written there, or would overwrite one of its inputs."""
    if output is None:
        return
    if Path(output).suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"output must end in .html, got {os.fspath(output)!r}.")
    check_folder(Path(output).absolute().parent)
    paths = [path for path in inputs if isinstance(path, str | os.PathLike)]
    check_not_input(output, [*paths, *(file for data in inputs for file in _files_of(data))])
    if not _may_replace(Path(output)):
        text = "output must not replace a file that is not a report of metapac, and"
        text += f" {os.fspath(output)} exists. Write to another file, or remove"
        raise InvalidInput(f"{text} it.")


def _may_replace(path: Path) -> bool:
    """Return whether there is no file yet, an empty one, or an earlier report."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        start = file.read(_START)
    return not start or _MARK in start


def _render(**page: Any) -> str:
    """Return the report as HTML.

    The template engine escapes text, and control characters that change its direction are made
    visible. The Content-Security-Policy forbids every request, every script and every other style.
    """
    jinja = require("jinja2", extra="report", purpose="a report")
    markup = require("markupsafe", extra="report", purpose="a report").Markup
    environment = jinja.Environment(
        loader=jinja.PackageLoader("metapac.report"),
        autoescape=True,
        finalize=_make_visible,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "share": format_share,
        "number": "{:,}".format,
        "round_down": round_down,
        "name": lambda text: _isolate(markup, str(text), _LONGEST),
        "whole": lambda text: _isolate(markup, str(text), None),
    }
    templates = resources.files("metapac.report").joinpath("templates")
    style = templates.joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    html: str = environment.get_template("report.html.j2").render(
        page, style=markup(style), policy=policy, version=__version__
    )
    return html


def _make_visible(value: Any) -> Any:
    """Make invisible characters of text visible; leave what is HTML already."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return visible(value)
    return value


def _isolate(markup: Any, name: str, longest: int | None) -> Any:
    """Return a name as HTML that keeps its own direction; of a long one, both its ends."""
    text = visible(name)
    if longest is None or len(text) <= longest:
        return markup("<bdi>{}</bdi>").format(text)
    short = f"{text[: longest - _END - 1]}…{text[-_END:]}"
    return markup('<bdi title="{}">{}</bdi>').format(text, short)
