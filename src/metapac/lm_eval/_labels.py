"""Which choice of a logged question is right, checked against the logged accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from metapac._checks import brief
from metapac._types import Floats
from metapac.exceptions import InvalidInput, Parameter
from metapac.lm_eval._log import Question

# The accuracy that the harness computes from log-likelihoods divided in each way.
METRICS = {"none": "acc", "characters": "acc_norm", "bytes": "acc_bytes"}


def find_labels(path: Path, questions: Sequence[Question], target: str) -> list[int]:
    """Return the right choices, read as positions or as texts, whichever the log confirms."""
    readings = _complete_readings(path, questions, target)
    if target != "auto":
        return readings[target]
    wrong = {name: _mismatch(questions, labels) for name, labels in readings.items()}
    confirmed = [labels for name, labels in readings.items() if wrong[name] is None]
    if any(labels != confirmed[0] for labels in confirmed):
        raise InvalidInput(
            "{}: its targets are positions of choices and texts of choices at once, and no logged "
            "acc tells which is meant. Pass {} or {}.",
            path,
            Parameter("target", "index"),
            Parameter("target", "text"),
        )
    for name, question in wrong.items():
        if not confirmed and question is not None:
            raise InvalidInput(
                "{}, line {}: the harness logged acc {:d}, but this does not follow from the "
                "log-likelihoods and the target. If the task computes acc in its own way, pass {}.",
                path,
                question.line,
                question.logged["acc"],
                Parameter("target", name),
            )
    return confirmed[0]


def _complete_readings(
    path: Path, questions: Sequence[Question], target: str
) -> dict[str, list[int]]:
    """Return the right choices by each reading of the targets that gives one for every question."""
    readings = {"index": [q.by_index for q in questions], "text": [q.by_text for q in questions]}
    complete = {
        name: [label for label in labels if label is not None]
        for name, labels in readings.items()
        if None not in labels and target in (name, "auto")
    }
    if not complete and target == "auto":
        raise InvalidInput(
            f"{path}: its targets are neither all positions nor all texts of choices. Log the task "
            "again, with one kind."
        )
    if not complete:
        raise InvalidInput(
            "{}: its targets are not all {} of choices. Leave {} out.",
            path,
            "positions" if target == "index" else "texts",
            Parameter("target"),
        )
    return complete


def _mismatch(questions: Sequence[Question], labels: Sequence[int]) -> Question | None:
    """Return a question whose logged accuracy these labels contradict."""
    for question, label in zip(questions, labels, strict=True):
        is_right = int(np.argmax(question.log_likelihoods)) == label
        if question.logged.get("acc", is_right) != is_right:
            return question
    return None


def normalise_lengths(path: Path, question: Question, normalise: str) -> Floats:
    """Return the log-likelihood of each choice, divided by its length if asked for."""
    values = np.array(question.log_likelihoods)
    if normalise == "none":
        return values
    texts = question.choices or ()
    lengths = [len(t) if normalise == "characters" else len(t.encode()) for t in texts]
    if not lengths or 0 in lengths:
        raise InvalidInput(
            "{}, line {}: {} needs the text of every choice, got {}. Leave it out.",
            path,
            question.line,
            Parameter("normalise", normalise),
            brief(list(texts)),
        )
    return np.asarray(values / np.array(lengths))


def check_lengths(
    path: Path,
    questions: Sequence[Question],
    labels: Sequence[int],
    values: Sequence[Floats],
    normalise: str,
) -> None:
    """Raise if the logged accuracy shows that the harness divided by other lengths."""
    metric = METRICS[normalise]
    for question, label, row in zip(questions, labels, values, strict=True):
        is_right = int(np.argmax(row)) == label
        if question.logged.get(metric, is_right) != is_right:
            raise InvalidInput(
                "{}, line {}: the harness logged {} {:d}, which does not follow from the lengths "
                "of the logged choices. Leave {} out.",
                path,
                question.line,
                metric,
                question.logged[metric],
                Parameter("normalise"),
            )
