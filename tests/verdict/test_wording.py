"""Sentences of a verdict: what they claim, and with which probability."""

from __future__ import annotations

from typing import Any

from metapac import judge
from metapac.verdict import Verdict

OPTIONS: dict[str, Any] = {"epsilon": 0.05, "alpha": 0.1, "delta": 0.05}


def sentence(verdict: Verdict) -> str:
    return verdict.sentence(unit="city/cities", example="patient")


def test_sentences_state_the_probability_of_being_wrong() -> None:
    assert sentence(judge([500] * 60, [5] * 60, **OPTIONS)) == (
        "Holds: at least 90% of new cities have a miss rate of at most 5%, judged by 60 cities "
        "(p = 0.0019). If this were false, the verdict would be 'holds' with probability at most "
        "5%."
    )
    assert sentence(judge([500] * 9, [250] * 9, **OPTIONS)) == (
        "Violated: more than 10% of new cities have a miss rate above 5%, judged by 9 cities "
        "(p < 0.0001). If this were false, the verdict would be 'violated' with probability at "
        "most 5%. An unlucky calibration (probability at most 5%) explains it too; otherwise these "
        "cities or the scores are not like those of calibration."
    )
    one = sentence(judge([500], [5], **OPTIONS))
    assert one.startswith("Cannot tell yet: 1 city does not settle whether at least 90% of new")
    assert "; the share of new cities above 5% may be anything from 0% to " in one
    assert " (each end with confidence 95%). About" in one
    assert one.endswith("About 28 more cities like this would settle it.")
    assert str(judge([], [], **OPTIONS)).endswith("Collect labelled examples of new tasks.")


def test_a_guarantee_in_expectation_is_not_refuted_by_one_calibration() -> None:
    options = OPTIONS | {"delta": None}
    text = str(judge([500] * 60, [250] * 60, **options))
    # At least 95% of new tasks exceed epsilon; by Markov's inequality, that has a probability of
    # at most 0.1 / 0.95 over calibrations.
    assert text.endswith("at most 10.6% of all calibrations come out this badly.")
    few = judge([500] * 40, [5] * 30 + [250] * 10, **options)
    assert few.status == "violated"
    assert "calibrations come out this badly" in str(few)


def test_large_tasks_near_epsilon_are_not_told_to_have_a_few_more_examples() -> None:
    near = judge([1700] * 20, [85] * 20, epsilon=0.05, alpha=0.2, delta=0.05)
    assert near.more_tasks is None
    assert "too many have a miss rate close to 5%, or too few labelled examples" in str(near)
    small = judge([5] * 20, [0] * 20, epsilon=0.05, alpha=0.2, delta=0.05)
    assert "more labelled examples (14 at the very least, all without a miss)" in str(small)
