"""The guarantee: levels and splits, by exact probabilities, and simulations with negative controls.

A simulation has a false-alarm rate of one in a million seeds; the controls show that it catches a
method whose guarantee does not hold.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import (
    PS,
    Guarantee,
    InfeasibleGuarantee,
    InvalidInput,
    MetaPS,
    allowed_errors,
    load,
    plan,
)
from metapac._common import Array
from metapac.evidence import ranks_within
from metapac.fewshot.synthetic import Family, NormalFamily, TiedFamily, TwoPointFamily
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level, equal_share, expectation_rank
from tests.helpers.oracles import FALSE_ALARM, too_many

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
    ("parameter", "changes"),
    [
        *(("epsilon", {"epsilon": x}) for x in (0, 1, -0.5, math.nan, math.inf, True, "0.1", None)),
        *(("alpha", {"alpha": x}) for x in (1.5, 5e-324)),  # a share of the second underflows
        *(("delta", {"delta": x}) for x in (0.0, "none", 5e-324, 6e-323)),  # 12 units, 13 levels
        *(("split", {"split": x}) for x in (0.51, 0.0, True, math.nan, "adaptive")),
        ("epsilon", {"epsilon": {"a": 0.1}}),
        ("epsilon", {"epsilon": {}, "per_class": True}),
        ("epsilon", {"epsilon": {"a": 0.1, "b": 2}, "per_class": True}),
        *(("per_class", {"per_class": x}) for x in (1, None, "True")),
        *(
            ("min_examples", {"min_examples": x})
            for x in (-1, 2.5, "3", None, True, [1], 10**9 + 1)
        ),
    ],
)
def test_bad_input_is_named(parameter: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Guarantee(**{"epsilon": 0.1, "alpha": 0.1, "delta": 0.1} | changes)
    assert caught.value.parameters == (parameter,)


# In expectation (delta=None): over the calibration tasks too. Sums of binomial probabilities.


percentages = st.integers(0, 100).map(lambda percent: percent / 100)


def rank_of(g: Guarantee, tasks: int) -> int:
    (rank,) = g.allowed_low_thresholds(tasks)
    return rank


def violation(g: Guarantee, tasks: int, n: int, kinds: list[Any], rank: int) -> float:
    """P(the sets miss more than epsilon on a new task), where scores are 0, 1, 2, ...

    ``kinds`` are the kinds of tasks: how often each occurs, and the probabilities that one of its
    scores is below 1, below 2, ... The threshold is at least v if at most ``rank`` of the task
    thresholds are below v. With threshold v, the sets miss too often on a kind whose scores are
    below v with probability above epsilon.
    """
    within = int(ranks_within(np.array([n]), g)[0, 0])
    if within < 0 or rank < 0:
        return 0.0
    values = range(1, len(kinds[0][1]) + 1)
    at_least = []
    for v in values:
        low = sum(share * stats.binom.sf(within, n, below[v - 1]) for share, below in kinds)
        at_least.append(float(stats.binom.cdf(rank, tasks, min(low, 1.0))))
    masses = [a - b for a, b in zip(at_least, [*at_least[1:], 0.0], strict=True)]
    return sum(
        mass * math.fsum(share for share, below in kinds if below[v - 1] > g.miss_rate)
        for v, mass in zip(values, masses, strict=True)
    )


@given(
    tasks=st.integers(1, 120),
    n=st.sampled_from([1, 5, 14, 29, 80]),
    alpha=st.sampled_from([0.05, 0.1, 0.3, 0.6]),
    epsilon=st.sampled_from([0.1, 0.3]),
    bad=percentages,
    miss=percentages,
    split=st.sampled_from(["joint", "even", 0.01, 0.5]),
)
def test_two_kinds_of_tasks(
    tasks: int, n: int, alpha: float, epsilon: float, bad: float, miss: float, split: str | float
) -> None:
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=None, split=split)
    kinds = [(1 - bad, [0.0]), (bad, [miss])]
    assert violation(g, tasks, n, kinds, rank_of(g, tasks)) <= alpha


@given(
    tasks=st.integers(10, 120),
    n=st.sampled_from([14, 29, 80]),
    alpha=st.sampled_from([0.1, 0.3]),
    shares=st.tuples(percentages, percentages),
    steps=st.tuples(*[st.tuples(percentages, percentages).map(sorted)] * 2),
)
def test_three_kinds_of_tasks_and_three_scores(
    tasks: int, n: int, alpha: float, shares: tuple[float, float], steps: Any
) -> None:
    first, second = shares[0], (1 - shares[0]) * shares[1]
    kinds = [(first, steps[0]), (second, steps[1]), (1 - first - second, [0.0, 0.0])]
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=None)
    assert violation(g, tasks, n, kinds, rank_of(g, tasks)) <= alpha + 1e-12


def worst(rank: int, tasks: int, attained: float) -> float:
    """P(the sets miss more than epsilon on a new task) on a family that makes the bound tight.

    Each task has a number z. A share of its scores just above epsilon equals z, and the others are
    higher than the z of every task. The threshold of the task is z, except with probability
    ``attained``, when too few of its scores are z. On a new task the sets miss too often if its z
    is below the (rank + 1)-th lowest threshold. Among tasks + 1 thresholds, that of the new task
    included, all orders are equally likely, so the threshold of the new task is that low with
    probability (rank + 1) / (tasks + 1). Its z is that low more often, because the threshold is z
    only with probability 1 - attained.
    """
    return (rank + 1) / (tasks + 1) / (1 - attained)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.25, 0.5])
def test_the_rank_is_valid_and_the_next_is_not(alpha: float) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=None)
    sizes = np.arange(1, 2000)
    attained = stats.binom.cdf(ranks_within(sizes, g)[:, 0], sizes, 0.1).max()
    assert 0.99 * alpha / 2 < attained <= alpha / 2
    caught = 0
    for tasks in range(1, 400):
        rank = rank_of(g, tasks)
        assert worst(rank, tasks, attained) <= alpha
        caught += worst(rank + 1, tasks, attained) > alpha
    assert caught > 0.97 * 399  # the negative control; attained is slightly below the level


def test_numbers_are_the_decimals_that_they_print_as() -> None:
    # As a double, .3 is a little below three tenths, and 200 times .3 x .85 a little below 51.
    assert Fraction(0.3) * (1 - Fraction(0.15)) * 200 < 51
    assert Guarantee(epsilon=0.1, alpha=0.3, delta=None).allowed_low_thresholds(199) == (50,)
    assert expectation_rank(199, Fraction(51, 200)) == 50
    assert Guarantee(epsilon=0.1, alpha=0.2, delta=None, split="even").allowed_low_thresholds(
        9
    ) == (0,)


@pytest.mark.parametrize(("alpha", "tasks"), [(0.1, 10), (0.05, 20), (0.2, 5), (0.3, 3)])
def test_the_minimum_number_of_tasks(alpha: float, tasks: int) -> None:
    # floor(alpha (1 - alpha / 2) (N + 1)) >= 1; at alpha = .1 from N + 1 = 10.53 on.
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=None)
    assert (rank_of(g, tasks), rank_of(g, tasks - 1)) == (0, -1)
    need = plan(epsilon=0.1, alpha=alpha, delta=None)
    assert (need.tasks, need.examples_per_task) == (
        tasks,
        math.ceil(math.log(alpha / 2) / math.log(0.9)),
    )


def test_ten_tasks_are_enough(tmp_path: Path) -> None:
    scores = np.random.default_rng(0).normal(size=(10, 40))
    names = np.repeat([f"site {i}" for i in range(10)], 40)
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=None).calibrate(scores.ravel(), names)
    assert method.threshold_ == np.sort(scores, axis=1)[:, 0].min()
    assert method.promise_.startswith("On average over the draw of the 10 calibration tasks, the")
    assert "gives no confidence for this one" in method.promise_
    assert "confidence 9" not in method.promise_
    method.save(tmp_path / "promise.json")
    again = load(tmp_path / "promise.json")
    assert again.delta is None
    assert again.promise_ == method.promise_
    more = np.random.default_rng(1).normal(size=(9, 40))
    ids = np.repeat([f"new {i}" for i in range(9)], 40)
    whole = MetaPS(epsilon=0.1, alpha=0.1, delta=None)
    whole.calibrate(np.r_[scores.ravel(), more.ravel()], np.r_[names, ids])
    assert again.add(more.ravel(), ids).threshold_ == whole.threshold_
    sent = {name: method.task_threshold(row) for name, row in zip(names[::40], scores, strict=True)}
    assert MetaPS(epsilon=0.1, alpha=0.1, delta=None).combine(sent).threshold_ == method.threshold_


def test_nine_tasks_are_too_few() -> None:
    scores, names = np.random.default_rng(0).normal(size=9 * 40), np.repeat(np.arange(9), 40)
    with pytest.raises(InfeasibleGuarantee, match="takes 10 tasks .* settle for alpha=0.106"):
        MetaPS(epsilon=0.1, alpha=0.1, delta=None).calibrate(scores, names)


@given(tasks=st.integers(1, 10**6), alpha=st.floats(1e-6, 0.99), split=st.floats(1e-6, 0.5))
def test_ranks_never_exceed_the_share(tasks: int, alpha: float, split: float) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=None, split=split)
    share = Fraction(repr(alpha)) * (1 - Fraction(repr(split)))
    rank = rank_of(g, tasks)
    assert rank + 1 <= share * (tasks + 1) < rank + 2


# Simulations on families of tasks with known error rates.

EPSILON, ALPHA, DELTA = 0.2, 0.2, 0.1
DRAWS, TASKS, EXAMPLES = 1000, 60, 40
SIZE = (DRAWS, TASKS, EXAMPLES)
# Scores of the worst family are 0 and 1. The warning about thresholds of 0 is irrelevant here.
ties_allowed = pytest.mark.filterwarnings("ignore:The threshold is 0.0")


def draw_scores(family: Family, size: tuple[int, int, int]) -> Array:
    """Return scores of many draws of tasks, by draw, task and example."""
    draws, tasks, examples = size
    rng = np.random.default_rng(0)
    drawn = family.draw_tasks(draws * tasks, rng)
    return family.draw_scores(drawn, examples, rng).reshape(size)


def find_thresholds(g: Guarantee, scores: Array) -> Array:
    """Return the threshold of each draw: two partitions of all scores. Some are calibrated."""
    _, tasks, examples = scores.shape
    within, across = ranks_within(np.array([examples]), g)[0], g.allowed_low_thresholds(tasks)
    pairs = [(k, rank) for k, rank in zip(within, across, strict=True) if min(k, rank) >= 0]
    ordered = np.partition(scores, sorted({k for k, _ in pairs}), axis=2)
    cuts = [np.partition(ordered[:, :, k], rank, axis=1)[:, rank] for k, rank in pairs]
    found = np.asarray(np.max(cuts, axis=0))
    method = MetaPS(epsilon=g.epsilon, alpha=g.alpha, delta=g.delta, split=g.split)
    names = np.repeat(np.arange(tasks), examples)
    for i in range(10):
        assert method.calibrate(scores[i].ravel(), names).threshold_ == found[i]
    return found


def count_violations(family: Family, thresholds: Array) -> int:
    """Return in how many draws sets miss too often on more than alpha of tasks."""
    return sum(family.violation_rate(cut, EPSILON) > ALPHA for cut in thresholds.tolist())


def with_split(split: str | float) -> Guarantee:
    return Guarantee(epsilon=EPSILON, alpha=ALPHA, delta=DELTA, split=split)


@pytest.mark.parametrize(
    "family",
    [NormalFamily(spread=0.5), NormalFamily(spread=0.05), TiedFamily()],
    ids=["spread out", "nearly equal", "tied"],
)
def test_meta_ps_satisfies_its_guarantee_and_pooling_is_caught(family: Family) -> None:
    scores = draw_scores(family, SIZE)
    for split in ("even", "tight", 0.3, "joint"):
        violations = count_violations(family, find_thresholds(with_split(split), scores))
        assert not too_many(violations, DRAWS, DELTA)
    if family == NormalFamily(spread=0.5):  # the control: all tasks as one
        k = allowed_errors(TASKS * EXAMPLES, EPSILON, DELTA)
        pooled = np.partition(scores.reshape(DRAWS, -1), k, axis=1)[:, k]
        assert PS(epsilon=EPSILON, delta=DELTA).calibrate(scores[0].ravel()).threshold_ == pooled[0]
        assert too_many(count_violations(family, pooled), DRAWS, DELTA)


def test_ps_satisfies_its_guarantee() -> None:
    family, method = NormalFamily(), PS(epsilon=0.2, delta=0.1)
    tasks = family.draw_tasks(DRAWS, rng=0)
    scores = family.draw_scores(tasks, 100, rng=1)
    k = allowed_errors(100, 0.2, 0.1)
    cuts = np.partition(scores, k, axis=1)[:, k]
    assert [method.calibrate(row).threshold_ for row in scores[:20]] == cuts[:20].tolist()
    errors = [float(family.error(t, cut)) for t, cut in zip(tasks, cuts.tolist(), strict=True)]
    assert not too_many(sum(error > 0.2 for error in errors), DRAWS, 0.1)


WORST = TwoPointFamily(bad=ALPHA + 1e-9, miss=EPSILON + 1e-9)


@ties_allowed
@pytest.mark.parametrize("split", ["tight", "joint"])
def test_a_split_fails_as_often_as_computed_on_its_worst_family(split: str) -> None:
    probability = WORST.probability_of_one(with_split(split), tasks=TASKS, examples=EXAMPLES)
    assert 0.5 * DELTA < probability <= DELTA
    count = count_violations(WORST, find_thresholds(with_split(split), draw_scores(WORST, SIZE)))
    assert stats.binomtest(count, DRAWS, probability).pvalue >= FALSE_ALARM


@ties_allowed
def test_forgetting_the_factor_of_the_tight_split_is_caught() -> None:
    scores = draw_scores(WORST, (500, 500, EXAMPLES))
    with mock.patch.object(Guarantee, "levels", (Level(ALPHA / 2, ALPHA),)):
        probability = WORST.probability_of_one(with_split("tight"), tasks=500, examples=EXAMPLES)
        count = count_violations(WORST, find_thresholds(with_split("tight"), scores))
    assert probability > 3 * DELTA  # so that 500 draws miss it for fewer than one in 1e15 seeds
    assert too_many(count, 500, DELTA)


@ties_allowed
def test_all_of_delta_at_every_level_of_the_joint_split_is_caught() -> None:
    @functools.cache
    def greedy(self: Guarantee, tasks: int) -> tuple[int, ...]:
        return tuple(allowed_errors(tasks, level.alpha_across, DELTA) for level in self.levels)

    size, scores = {"tasks": 100, "examples": 20}, draw_scores(WORST, (5000, 100, 20))
    with mock.patch.object(Guarantee, "allowed_low_thresholds", greedy):
        probability = WORST.probability_of_one(with_split("joint"), **size)
        count = count_violations(WORST, find_thresholds(with_split("joint"), scores))
    assert probability > 1.4 * DELTA
    assert too_many(count, 5000, DELTA)
    assert WORST.probability_of_one(with_split("joint"), **size) <= DELTA
