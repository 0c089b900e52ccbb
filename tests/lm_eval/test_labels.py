"""The right choice of a logged question, and the accuracies that confirm it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import InvalidInput
from metapac.fewshot.prompts import Question, check_lengths, find_labels, normalise_lengths

LOG = Path("law.jsonl")


def ask(
    by_index: int | None, by_text: int | None, acc: bool | None = None, **more: Any
) -> Question:
    """Return a question whose choice 0 is the most likely one."""
    logged = {} if acc is None else {"acc": acc}
    question = Question(7, 0, "none", None, (-1.0, -2.0, -3.0), None, by_index, by_text, logged)
    return question._replace(**more)


def test_positions_or_texts_are_found_by_themselves() -> None:
    assert find_labels(LOG, [ask(0, None), ask(2, None)], "auto") == [0, 2]
    assert find_labels(LOG, [ask(None, 1), ask(None, 0)], "auto") == [1, 0]
    assert find_labels(LOG, [ask(1, 1), ask(2, None)], "auto") == [1, 2]


def test_the_accuracy_decides_between_positions_and_texts() -> None:
    # The choices are numbers: by position the first target is right, by text it is not.
    assert find_labels(LOG, [ask(0, 1, True), ask(1, 2, False)], "auto") == [0, 1]
    assert find_labels(LOG, [ask(1, 0, True), ask(1, 2, False)], "auto") == [0, 2]


def test_both_readings_may_be_the_same() -> None:
    assert find_labels(LOG, [ask(0, 0), ask(2, 2)], "auto") == [0, 2]


def test_an_undecided_reading_is_refused_and_can_be_chosen() -> None:
    questions = [ask(1, 2, False), ask(0, 0, True)]
    with pytest.raises(InvalidInput) as raised:
        find_labels(LOG, questions, "auto")
    assert str(raised.value) == (
        "law.jsonl: its targets are positions of choices and texts of choices at once, and no "
        "logged acc tells which is meant. Pass target='index' or target='text'."
    )
    assert find_labels(LOG, questions, "index") == [1, 0]
    assert find_labels(LOG, questions, "text") == [2, 0]


def test_an_accuracy_that_does_not_follow_is_refused_and_can_be_ignored() -> None:
    questions = [ask(0, None, True), ask(2, None, True)]
    with pytest.raises(InvalidInput) as raised:
        find_labels(LOG, questions, "auto")
    assert str(raised.value) == (
        "law.jsonl, line 7: the harness logged acc 1, but this does not follow from the "
        "log-likelihoods and the target. If the task computes acc in its own way, pass "
        "target='index'."
    )
    assert find_labels(LOG, questions, "index") == [0, 2]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("auto", "its targets are neither all positions nor all texts of choices. Log the task"),
        ("index", "its targets are not all positions of choices. Leave target out"),
        ("text", "its targets are not all texts of choices. Leave target out"),
    ],
)
def test_targets_of_two_kinds_are_refused(target: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        find_labels(LOG, [ask(0, None), ask(None, 1)], target)


@given(
    st.lists(st.floats(-50, 0), min_size=2, max_size=5),
    st.lists(st.text("aé中", min_size=1, max_size=6), min_size=5, max_size=5),
    st.sampled_from(["characters", "bytes"]),
)
def test_lengths_are_those_of_the_choices(
    values: list[float], texts: list[str], normalise: str
) -> None:
    choices = tuple(texts[: len(values)])
    question = ask(0, None, log_likelihoods=tuple(values), choices=choices)
    normalised = normalise_lengths(LOG, question, normalise)
    lengths = [len(t if normalise == "characters" else t.encode()) for t in choices]
    expected = [value / length for value, length in zip(values, lengths, strict=True)]
    assert normalised.tolist() == expected
    assert normalise_lengths(LOG, question, "none").tolist() == values


@pytest.mark.parametrize("choices", [None, ("a", "", "b")])
def test_lengths_must_be_known(choices: tuple[str, ...] | None) -> None:
    with pytest.raises(InvalidInput, match="line 7: normalise='bytes' needs the text of every"):
        normalise_lengths(LOG, ask(0, None, choices=choices), "bytes")


def test_lengths_that_the_harness_did_not_use_are_refused() -> None:
    values = [np.array([-1.0, -0.5])]
    question = ask(1, None, logged={"acc": False, "acc_norm": True, "acc_bytes": False})
    check_lengths(LOG, [question], [1], values, "characters")
    check_lengths(LOG, [question._replace(logged={})], [1], values, "bytes")
    with pytest.raises(InvalidInput) as raised:
        check_lengths(LOG, [question], [1], values, "bytes")
    assert str(raised.value) == (
        "law.jsonl, line 7: the harness logged acc_bytes 0, which does not follow from the lengths "
        "of the logged choices. Leave normalise out."
    )
