"""Sentences of a report: the guarantee, its assumptions, where its numbers come from."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metapac._common import PathLike, listed
from metapac._text import name_score, visible
from metapac._version import __version__
from metapac.context import Context
from metapac.evidence import UNKNOWN
from metapac.guarantee import BALANCED, percent
from metapac.inputs import match_names
from metapac.predictors import PS, MetaPS
from metapac.words import Words

_FILES = 20  # listed one by one


class Fact(NamedTuple):
    """A line of the provenance."""

    name: str
    value: str
    is_code: bool = False


def find_date() -> str:
    """Return the date of the report: today, or what ``SOURCE_DATE_EPOCH`` says."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    date = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdigit() else datetime.now(UTC)
    return f"{date.day} {date:%B %Y}"


def describe_promise(promise: Any) -> list[Fact]:
    """Return what a promise says about its model, its tasks and its columns."""
    facts = [Fact("Kind of guarantee", promise._kind)]
    about, default = asdict(promise.context_), asdict(Context())
    for name, value in about.items():
        if value != default[name] and name not in ("unit", "example"):  # seen in every sentence
            text = f"{len(value):,} named" if isinstance(value, tuple) else str(value)
            facts.append(Fact(name.replace("_", " ").capitalize(), text))
    if promise.context_.model is None:
        facts.append(Fact("Model", "not named"))
    for name, value in (getattr(promise, "columns_", None) or {}).items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        facts.append(Fact(f"Column {name}" if name != "classes" else "Classes", text))
    return [*facts, Fact("Precision of the scores", promise.precision_.name)]


def describe_files(name: str, paths: Iterable[PathLike]) -> list[Fact]:
    """Return size, date and checksum of some files."""
    files = [path for path in map(Path, paths) if path.is_file()]
    facts = []
    for path in files[:_FILES]:
        status = path.stat()
        date = datetime.fromtimestamp(status.st_mtime, UTC)
        text = f"{path.name}, {status.st_size:,} bytes, last changed {date:%Y-%m-%d}"
        facts.append(Fact(name, text))
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        facts.append(Fact(f"{name}: SHA-256", digest, is_code=True))
        facts += _describe_scores(name, path)
    if len(files) > _FILES:
        facts.append(Fact(name, f"and {len(files) - _FILES:,} more files"))
    return facts


def _describe_scores(name: str, path: Path) -> list[Fact]:
    """Return what a Parquet file says about the scores in it, if it says anything."""
    if path.suffix.lower() not in (".parquet", ".pq"):
        return []
    from metapac.provenance import read_provenance

    found = read_provenance(path)
    if found is None:
        return []
    facts = [
        Fact(f"{name}: model", found.model),
        Fact(f"{name}: score function", name_score(found.score)),
    ]
    return facts + [
        Fact(f"{name}: {key.replace('_', ' ')}", str(value)) for key, value in found.details.items()
    ]


def describe_software(written_by: str | None) -> list[Fact]:
    """Return the versions that wrote the promise file and the report."""
    versions = f"Python {platform.python_version()}"
    for package in ("numpy", "scipy"):
        versions += f", {package} {metadata.version(package)}"
    facts = [] if written_by is None else [Fact("Promise file written by", f"metapac {written_by}")]
    return [*facts, Fact("Report written by", f"metapac {__version__} ({versions})")]


NOT_ON_RECORD = "Not on record."


class Explained(NamedTuple):
    """The parts of an explanation."""

    basis: str
    claim: str
    classes: list[str]
    confidence: str
    conditions: str
    limits: list[str]
    use: str


def split_explanation(text: str) -> Explained:
    """Return the parts of what ``explain`` returned."""
    basis, claim, confidence, conditions, limits, use = text.split("\n\n")
    claim, *classes = claim.split("\n- ")
    items = limits.split("\n- ")[1:]
    return Explained(basis, claim, classes, confidence, conditions, items, use)


class Assumption(NamedTuple):
    """An assumption of the guarantee that data cannot verify."""

    statement: str
    record: str = ""


def list_assumptions(promise: Any, words: Words) -> list[Assumption]:
    """Return the assumptions that a person has to confirm."""
    model = promise.context_.model
    columns = getattr(promise, "columns_", None) or {}
    truth = "true numbers" if "prediction" in columns else "labels"
    return [
        *(_assume_examples if isinstance(promise, PS) else _assume_tasks)(promise, words),
        Assumption(f"The {truth} in the data are right."),
        Assumption(
            "What is used is the model that was calibrated, and its scores.",
            NOT_ON_RECORD if model is None else f"On record: {model}.",
        ),
    ]


def _assume_examples(promise: PS, words: Words) -> list[Assumption]:
    """Return what a guarantee for examples from one distribution assumes."""
    these = f"the {promise.n_examples_:,} {words.examples} calibrated on"
    return [
        Assumption(f"The new {words.examples}, and {these}, come at random from the same kind."),
        Assumption(f"The model was not trained on {these}."),
        Assumption("The model and its scores were fixed before anyone looked at results."),
    ]


def _assume_tasks(promise: Any, words: Words) -> list[Assumption]:
    """Return what a guarantee for new tasks assumes."""
    about, units, least = promise.context_, words.units, getattr(promise, "min_examples", 0)
    has_classes = "prediction" not in (getattr(promise, "columns_", None) or {})
    is_average = has_classes and not getattr(promise, "per_class", False)
    found = [
        Assumption(_describe_draw(promise, words), _describe_sizes(promise, words)),
        Assumption(
            f"Within each {words.unit}, the {words.examples} come at random, one independently of "
            "the other."
        ),
        Assumption(
            f"The {words.examples} of new {units} are sampled like those calibrated on"
            f"{BALANCED * is_average}."
        ),
        Assumption(
            f"The model was not trained on any of these {units}.",
            _describe_training(promise, words),
        ),
        Assumption(
            f"The model, its scores and the number of {units} were fixed before anyone looked at "
            "results."
        ),
        Assumption(
            f"{_list_levels(promise, words)} were chosen beforehand, or on other {units}.",
            _describe_apart(promise, about.pilot, "chosen on {} pilot {}", words),
        ),
    ]
    like = f"New {units} have at least {words.count_examples(least)}, like these."
    return [*found, Assumption(like)] if least else found


def _describe_draw(promise: Any, words: Words) -> str:
    """Return what was drawn at random: tasks, or clusters with one task of each."""
    clusters = promise._cluster_words() if isinstance(promise, MetaPS) else None
    one, many = (words.unit, words.units) if clusters is None else map(visible, clusters)
    number = len(promise.tasks_)
    text = (
        f"The {number:,} {one if number == 1 else many} calibrated on, and the new {many}, come at "
        "random from the same kind."
    )
    return text if clusters is None else f"{text} One {words.unit} of each was drawn."


def _list_levels(promise: Any, words: Words) -> str:
    """Return what may go wrong how often, as a list of percentages."""
    alpha, delta = getattr(promise, "alpha", None), promise.delta
    rate, shares = promise.epsilon, ["a share of each class"]
    if not isinstance(rate, Mapping):
        shares = [f"{percent(rate)} of the {words.examples}"]
    shares += [] if alpha is None else [f"{percent(alpha)} of the {words.units}"]
    shares += [] if delta is None else [f"a risk of {percent(delta)}"]
    return f"The limits ({', '.join(shares)})"


def _describe_training(promise: Any, words: Words) -> str:
    """Return what is on record about the tasks, or anything else, that the model was trained on."""
    about: Context = promise.context_
    if about.trained_on is None and about.training is not None:
        return f"On record: trained on {visible(about.training)}."
    return _describe_apart(promise, about.trained_on, "trained on {} other {}", words)


def _describe_apart(promise: Any, tasks: Any, text: str, words: Words) -> str:
    """Return what is on record about tasks that must not be among those of calibration."""
    if tasks is None:
        return NOT_ON_RECORD
    number = len(tuple(tasks))
    noun = words.unit if number == 1 else words.units
    _same, near = match_names(tasks, promise.tasks_.tolist())
    alike = listed([f"{name!r} like {other!r}" for name, other in near], shown=3)
    found = f"some are named much like these: {alike}" if near else "none of them is among these"
    return f"On record: {text.format(f'{number:,}', noun)}; {found}, by name."


def _describe_sizes(promise: Any, words: Words) -> str:
    sizes = np.asarray(promise.task_sizes_)
    if not sizes.size or np.min(sizes) == UNKNOWN:
        return "How many examples they have is not on record."
    return f"On record: {int(sizes.sum()):,} {words.examples} in all."
