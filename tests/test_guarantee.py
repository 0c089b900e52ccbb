"""The guarantee as a value: levels, counts across tasks, and bad input."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee, InvalidInput, allowed_errors
from metapac.fewshot.synthetic import TwoPointFamily
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level, equal_share

small = st.floats(1e-3, 0.9)
levels_within = st.floats(1e-3, 0.5)


def test_splits_of_alpha() -> None:
    def levels(split: str | float) -> tuple[Level, ...]:
        return Guarantee(epsilon=0.1, alpha=0.2, delta=0.01, split=split).levels

    assert levels("even") == (Level(0.1, 0.1),)
    for split, within in (("tight", 0.1), (0.25, 0.25), (0.5, 0.5)):
        (level,) = levels(split)
        assert level.alpha_within == within
        assert level.alpha_across == pytest.approx(0.2 * (1 - within), rel=1e-15)
    assert [level.alpha_within for level in levels("joint")] == list(JOINT_LEVELS)
    assert Guarantee(epsilon=0.1, alpha=0.2, delta=0.01).split == "joint"


def test_in_expectation_there_is_one_level() -> None:
    joint = Guarantee(epsilon=0.1, alpha=0.2, delta=None)
    assert joint.levels == Guarantee(epsilon=0.1, alpha=0.2, delta=None, split="tight").levels
    assert (joint.alpha_within, len(joint.levels)) == (0.1, 1)
    assert Guarantee(epsilon=0.1, alpha=0.2, delta=None, split="even").levels == (Level(0.1, 0.1),)


@given(epsilon=small, alpha=small, delta=small, split=st.one_of(st.just("tight"), levels_within))
def test_a_bad_task_shows_often_enough(
    epsilon: float, alpha: float, delta: float, split: str | float
) -> None:
    # The proof's last line: the share certified across tasks, divided by the probability that a
    # bad task shows, is alpha. If it were larger, the guarantee would fail; if smaller, it would
    # be loose.
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
    exact = Fraction(alpha) * (1 - Fraction(g.alpha_within))
    assert Fraction(g.alpha_across) <= exact
    assert Fraction(math.nextafter(g.alpha_across, 1)) > exact


@given(alpha=small, delta=small)
def test_no_share_of_the_joint_split_is_rounded_up(alpha: float, delta: float) -> None:
    for within, across in Guarantee(epsilon=0.1, alpha=alpha, delta=delta).levels:
        assert Fraction(across) <= Fraction(alpha) * (1 - Fraction(within))


def test_the_share_that_rounding_up_would_have_certified() -> None:
    # A regression: with alpha_across rounded to nearest one low threshold was allowed,
    # although its probability exceeds delta in the sixteenth digit.
    alpha, delta = 0.09, 2.11158304036207e-05
    exact = Fraction(alpha) * (1 - Fraction(alpha / 2))
    assert (1 - exact) ** 150 + 150 * exact * (1 - exact) ** 149 > Fraction(delta)
    assert allowed_errors(150, alpha * (1 - alpha / 2), delta) == 1
    assert Guarantee(epsilon=0.1, alpha=alpha, delta=delta, split="tight").allowed_low_thresholds(
        150
    ) == (0,)


@given(delta=st.floats(5e-324, 0.99), parts=st.integers(1, 1000))
def test_shares_of_delta_never_add_up_to_more(delta: float, parts: int) -> None:
    share = equal_share(delta, parts)
    assert parts * Fraction(share) <= Fraction(delta)
    assert parts * Fraction(math.nextafter(share, 1)) > Fraction(delta)


@pytest.mark.parametrize("split", ["even", "tight", 0.3, "joint"])
@pytest.mark.parametrize("tasks", [57, 150, 400])
@pytest.mark.parametrize("examples", [30, 61, 200])
def test_no_split_fails_more_often_than_delta(
    split: str | float, tasks: int, examples: int
) -> None:
    # Worst tasks of docs/guarantee.md; the probability of a wrong threshold is a number.
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, split=split)
    worst = TwoPointFamily(bad=0.1 + 1e-9, miss=0.1 + 1e-9)
    assert worst.probability_of_one(g, tasks=tasks, examples=examples) <= 0.05


def test_the_tight_split_cannot_be_loosened() -> None:
    # n and N at which both binomial steps are just below their level: the guarantee then fails
    # with probability close to delta, and with alpha_across = alpha far more often.
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, split="tight")
    worst = TwoPointFamily(bad=0.1 + 1e-9, miss=0.1 + 1e-9)
    tasks, examples = 3910, 30_038
    probability = worst.probability_of_one(g, tasks=tasks, examples=examples)
    assert 0.95 * 0.05 < probability <= 0.05
    with mock.patch.object(Guarantee, "levels", (Level(0.05, 0.1),)):
        forgetful = replace(g)  # its levels are not cached yet
        assert worst.probability_of_one(forgetful, tasks=tasks, examples=examples) > 2 * 0.05


def test_probability_of_one_is_the_binomial_sum_it_claims() -> None:
    family = TwoPointFamily(bad=0.3, miss=0.2)
    g = Guarantee(epsilon=0.3, alpha=0.5, delta=0.5, split=0.4)
    # 3 examples at epsilon 0.3: P(0 errors) = 0.343 <= 0.4 so one miss shows; 2 tasks at 0.3:
    # P(0) = 0.49 <= 0.5, so no task threshold may be 0.
    assert g.alpha_across == pytest.approx(0.3)
    shows = 0.3 * stats.binom.sf(0, 3, 0.2)
    assert family.probability_of_one(g, tasks=2, examples=3) == pytest.approx((1 - shows) ** 2)


def test_tasks_too_small_to_certify_never_give_one() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    assert TwoPointFamily(bad=0.1, miss=0.1).probability_of_one(g, tasks=100, examples=5) == 0


def test_a_joint_guarantee_has_no_single_level() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.01)
    for name in ("alpha_within", "alpha_across"):
        with pytest.raises(InvalidInput, match="split='joint' has 13 levels"):
            getattr(g, name)


def test_the_part_of_one_class() -> None:
    g = Guarantee(
        epsilon={"yes": 0.02, "no": 0.1}, alpha=0.2, delta=0.01, per_class=True, min_examples=4
    )
    part = g.for_class("no", ["yes", "no"])
    assert part == Guarantee(epsilon=0.1, alpha=0.2, delta=0.005, min_examples=4)
    assert g.for_class("yes", ["yes", "no"]).miss_rate == 0.02
    in_expectation = Guarantee(epsilon=0.1, alpha=0.2, delta=None, per_class=True)
    assert in_expectation.for_class("no", range(9)).delta is None
    with pytest.raises(InvalidInput, match="epsilon is a mapping"):
        _ = g.miss_rate
    with pytest.raises(InvalidInput, match="'maybe'") as caught:
        g.for_class("maybe", ["yes", "no", "maybe"])
    assert caught.value.parameters == ("epsilon",)
    g.check_classes(["no", "maybe", "yes"])
    with pytest.raises(InvalidInput, match="'yes'") as caught:
        g.check_classes(["no", "maybe"])
    assert caught.value.parameters == ("epsilon",)


def test_a_guarantee_in_expectation_has_no_failure_probability() -> None:
    assert Guarantee(epsilon=0.1, alpha=0.1, delta=0.25).failure_probability == 0.25
    with pytest.raises(InvalidInput) as caught:
        _ = Guarantee(epsilon=0.1, alpha=0.1, delta=None).failure_probability
    assert caught.value.parameters == ("delta",)


def test_a_share_of_delta_that_underflows_is_rejected() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-323, split="tight", per_class=True)
    assert g.for_class(0, range(2)).delta == 5e-324
    with pytest.raises(InvalidInput, match="3 classes") as caught:
        g.for_class(0, range(3))
    assert caught.value.parameters == ("delta",)


@pytest.mark.parametrize("split", ["joint", "tight", "even"])
def test_an_alpha_that_underflows_is_rejected(split: str) -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        Guarantee(epsilon=0.1, alpha=5e-324, delta=0.1, split=split)
    assert min(Guarantee(epsilon=0.1, alpha=1e-322, delta=0.1, split=split).levels[0]) > 0


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"alpha": 1.5}, "alpha"),
        ({"alpha": 5e-324}, "alpha"),  # a share of it underflows
        ({"delta": 0.0}, "delta"),
        ({"delta": "none"}, "delta"),
        ({"delta": 5e-324}, "delta"),
        ({"split": 0.51}, "split"),
        ({"split": 0.0}, "split"),
        ({"split": True}, "split"),
        ({"split": math.nan}, "split"),
        ({"split": "adaptive"}, "split"),
        ({"epsilon": {"a": 0.1}}, "epsilon"),
        ({"epsilon": {}, "per_class": True}, "epsilon"),
        ({"epsilon": {"a": 0.1, "b": 2}, "per_class": True}, "epsilon"),
        ({"per_class": 1}, "per_class"),
        ({"min_examples": -1}, "min_examples"),
        ({"min_examples": 2.5}, "min_examples"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Guarantee(**{"epsilon": 0.1, "alpha": 0.1, "delta": 0.1} | changes)
    assert caught.value.parameters == (parameter,)
