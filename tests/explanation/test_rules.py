"""What the sets keep, in words: of all labels, of one class, and around a prediction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import Context, Guarantee
from metapac.evidence import UNKNOWN, collect_evidence
from metapac.words import (
    Rule,
    Words,
    describe_class,
    describe_interval,
    describe_intervals,
    describe_lists,
)

PATIENTS = Words.from_context(Context(unit="hospital", example="patient"))
START = "For each new patient it gives a list of labels: "


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (
            Rule(None, 0.03, -math.inf, 60, 9, keeps_all=True),
            "all of them, whatever their scores, so the lists rule nothing out.",
        ),
        (Rule(None, 0.03, math.inf, 60, 9), "only those with an infinite score."),
        (Rule(None, 0.03, 0.07239, 60, 9), "those with a score of at least 0.0723 (rounded down)."),
        (
            Rule(None, 0.03, 0.0, 60, 9, keeps_all=True),
            "those with a score of at least 0 (rounded down); hardly any score is lower, so the "
            "lists rule out little.",
        ),
    ],
)
def test_lists_hold_what_the_threshold_keeps(rule: Rule, kept: str) -> None:
    assert describe_lists(PATIENTS, [rule]) == START + kept


def test_with_classes_the_thresholds_follow() -> None:
    classes = "those whose score reaches the threshold of their class, rounded down here."
    for rules in ([Rule("yes", 0.1, 0.5, 60, 9)], [Rule(i, 0.1, 0.5, 60, 9) for i in "ab"]):
        assert describe_lists(PATIENTS, rules) == START + classes


@pytest.mark.parametrize(
    ("threshold", "keeps_all", "kept"),
    [
        (-math.inf, True, "always listed"),
        (math.inf, False, "listed if its score is infinite"),
        (0.25, False, "listed if its score is at least 0.25"),
        (0.0, True, "listed if its score is at least 0, and hardly any is lower"),
    ],
)
def test_a_class_has_a_line(threshold: float, keeps_all: bool, kept: str) -> None:
    rule = Rule("yes", 0.02, threshold, 58, 70, keeps_all=keeps_all)
    assert describe_class(PATIENTS, rule) == (
        "- Of the patients whose right label is 'yes', at most 2% get a list without it. 'yes' is "
        f"{kept} (58 hospitals, 70 patients)."
    )
    assert describe_class(PATIENTS, rule._replace(examples=None)).endswith(" (58 hospitals).")


@given(st.floats(-1e6, 0))
def test_an_interval_is_rounded_up(threshold: float) -> None:
    text = describe_interval(threshold, {})
    radius = text.removeprefix("the predicted number plus and minus ").split(" ")[0]
    assert text.endswith(f"{radius} (rounded up)")
    assert float(radius) >= -threshold


def test_intervals_may_have_a_scale_or_no_end() -> None:
    rule = Rule(None, 0.1, -2.5, 60, 9)
    start = "For each new patient it gives an interval: "
    wide = "the predicted number plus and minus 2.5 times its scale (rounded up)."
    assert describe_intervals(PATIENTS, rule, {"scale": "sd"}) == start + wide
    little = describe_intervals(PATIENTS, rule._replace(keeps_all=True), {})
    assert little.endswith(
        "(rounded up); hardly any true number is farther off, so the intervals rule out little."
    )
    endless = describe_intervals(PATIENTS, rule._replace(threshold=-math.inf), {})
    assert endless == start + "all numbers, because there are too few data."


def test_a_rule_counts_what_was_used() -> None:
    scores, tasks = np.random.default_rng(0).random(600), np.repeat(np.arange(20), 30)
    scores, tasks = np.append(scores, [0.5, 0.6]), np.append(tasks, [20, 20])
    g = Guarantee(epsilon=0.2, alpha=0.3, delta=0.2, split="tight", min_examples=10)
    evidence = collect_evidence(g, scores, tasks)
    (part,) = evidence.parts(g)
    rule = Rule.from_outcome(part, part.outcome())
    assert rule == Rule(None, 0.2, part.outcome().threshold, 20, 600, left_out=1)
    some = part._replace(sizes=np.where(np.arange(21) == 3, UNKNOWN, part.sizes))
    assert Rule.from_outcome(some, some.outcome()).examples is None  # one size is not known
    flat = part._replace(thresholds=np.full_like(part.thresholds, -np.inf))
    assert Rule.from_outcome(flat, flat.outcome()).keeps_all
    exact = part._replace(thresholds=np.zeros_like(part.thresholds), lowest=0.0)
    assert Rule.from_outcome(exact, exact.outcome()).keeps_all
    assert not Rule.from_outcome(exact, exact.outcome(), is_interval=True).keeps_all
