"""The guarantee: levels and splits, by exact probabilities, and simulations with negative controls.

A simulation has a false-alarm rate of one in a million seeds; the controls show that it catches a
method whose guarantee does not hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac import PS, Guarantee, InvalidInput, MetaPS, allowed_errors, plan
from metapac._common import Array
from metapac.evidence import ranks_within
from metapac.fewshot.synthetic import Family, NormalFamily
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level, cap_ranks, equal_share, expectation_rank, joint_ranks
from tests.helpers import oracles
from tests.helpers.oracles import FALSE_ALARM, TiedFamily, TwoPointFamily, too_many
from tests.helpers.refusals import assert_refused

small = st.floats(1e-3, 0.9)
levels_within = st.floats(1e-3, 0.5)
WORST_TASKS = TwoPointFamily(bad=0.1 + 1e-9, miss=0.1 + 1e-9)


def rank_of(g: Guarantee, tasks: int) -> int:
    (rank,) = g.allowed_low_thresholds(tasks)
    return rank


def test_splits_of_alpha() -> None:
    def levels(split: str | float, delta: float | None = 0.01) -> tuple[Level, ...]:
        return Guarantee(epsilon=0.1, alpha=0.2, delta=delta, split=split).levels

    for split, within in (("even", 0.1), ("tight", 0.1), (0.25, 0.25), (0.5, 0.5)):
        (level,) = levels(split)
        across = 0.1 if split == "even" else pytest.approx(0.2 * (1 - within), rel=1e-15)
        assert level == (within, across)
        assert levels(split, delta=None) == (level,)
    joint = [level.alpha_within for level in levels("joint")]
    assert {*JOINT_LEVELS} < {*joint}
    assert all(0 < a <= b < 1 for a, b in itertools.pairwise(joint))  # a chain needs their order
    # Rank 0 is allowed in a task of i examples at a level of its own, whatever epsilon.
    assert all(any(abs(t - 0.9**i) < 1e-15 for t in joint) for i in range(1, 7))
    assert levels("joint", delta=None) == levels("joint")
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.01)
    assert g.split == "joint"
    for name in ("alpha_within", "alpha_across"):
        with pytest.raises(InvalidInput, match="split='joint' has 29 levels"):
            getattr(g, name)
    # The rule of version 0.2.0, which its files keep.
    old = Guarantee(epsilon=0.1, alpha=0.2, delta=0.01, sampling="capped")
    assert [level.alpha_within for level in old.levels] == list(JOINT_LEVELS)
    assert all(level.alpha_within <= 0.5 for level in old.levels)
    in_expectation = Guarantee(epsilon=0.1, alpha=0.2, delta=None, sampling="capped")
    assert in_expectation.levels == levels("tight")


@given(epsilon=small, alpha=small, delta=small, split=st.one_of(st.just("tight"), levels_within))
def test_bad_tasks_show(epsilon: float, alpha: float, delta: float, split: Any) -> None:
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
    assert rank_of(Guarantee(epsilon=0.1, alpha=alpha, delta=delta, split="tight"), 150) == 0


@given(delta=st.floats(5e-324, 0.99), parts=st.integers(1, 1000))
def test_shares_of_delta_never_add_up_to_more(delta: float, parts: int) -> None:
    share = equal_share(delta, parts)
    assert parts * Fraction(share) <= Fraction(delta)
    assert parts * Fraction(math.nextafter(share, 1)) > Fraction(delta)


@pytest.mark.parametrize("split", ["even", "tight", 0.3, "joint"])
def test_no_split_fails_more_often_than_delta(split: str | float) -> None:
    # Worst tasks of docs/theory/guarantee.md; the probability of a wrong threshold is a number.
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, split=split)
    for tasks, examples in itertools.product((57, 150, 400), (30, 61, 200)):
        assert WORST_TASKS.probability_of_one(g, tasks=tasks, examples=examples) <= 0.05


def test_the_tight_split_cannot_be_loosened() -> None:
    # n and N at which both binomial steps are just below their level: the guarantee then fails
    # with probability close to delta, and with alpha_across = alpha far more often.
    g, size = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, split="tight"), (3910, 30_038)
    probability = WORST_TASKS.probability_of_one(g, tasks=size[0], examples=size[1])
    assert 0.95 * 0.05 < probability <= 0.05
    with mock.patch.object(Guarantee, "levels", (Level(0.05, 0.1),)):
        forgetful = replace(g)  # its levels are not cached yet
        assert WORST_TASKS.probability_of_one(forgetful, tasks=size[0], examples=size[1]) > 2 * 0.05


def test_probability_of_one_is_the_binomial_sum_it_claims() -> None:
    # 3 examples at epsilon 0.3: P(0 errors) = 0.343 <= 0.4 so one miss shows; 2 tasks at 0.3:
    # P(0) = 0.49 <= 0.5, so no task threshold may be 0.
    g = Guarantee(epsilon=0.3, alpha=0.5, delta=0.5, split=0.4)
    shows = 0.3 * stats.binom.sf(0, 3, 0.2)
    probability = TwoPointFamily(bad=0.3, miss=0.2).probability_of_one(g, tasks=2, examples=3)
    assert probability == pytest.approx((1 - shows) ** 2)


def test_the_part_of_one_class() -> None:
    g = Guarantee(
        epsilon={"yes": 0.02, "no": 0.1}, alpha=0.2, delta=0.01, per_class=True, min_examples=4
    )
    part = g.for_class("no", ["yes", "no"])
    assert part == Guarantee(epsilon=0.1, alpha=0.2, delta=0.005, min_examples=4)
    assert g.for_class("yes", ["yes", "no"]).miss_rate == 0.02
    assert replace(g, delta=None).for_class("no", range(9)).delta is None
    g.check_classes(["no", "maybe", "yes"])
    tiny = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-323, split="tight", per_class=True)
    assert tiny.for_class(0, range(2)).delta == 5e-324
    bad: list[tuple[str, str, Any]] = [
        ("epsilon", "'maybe'", lambda: g.for_class("maybe", ["yes", "no", "maybe"])),
        ("epsilon", "'yes'", lambda: g.check_classes(["no", "maybe"])),
        ("delta", "3 classes", lambda: tiny.for_class(0, range(3))),  # a share underflows
    ]
    with pytest.raises(InvalidInput, match="epsilon is a mapping"):
        _ = g.miss_rate
    for parameter, words, call in bad:
        with pytest.raises(InvalidInput, match=words) as caught:
            call()
        assert caught.value.parameters == (parameter,)


def test_an_alpha_that_underflows_is_rejected() -> None:
    for split in ("joint", "tight", "even"):
        levels: dict[str, Any] = {"epsilon": 0.1, "delta": 0.1, "split": split}
        assert_refused("alpha", Guarantee, alpha=5e-324, **levels)
        assert min(Guarantee(alpha=1e-320, **levels).levels[0]) > 0


BAD_INPUT_IS_NAMED: list[Any] = [
    *(("epsilon", {"epsilon": x}) for x in (0, 1, -0.5, math.nan, math.inf, True, "0.1", None)),
    *(("alpha", {"alpha": x}) for x in (1.5, 5e-324)),  # a share of the second underflows
    *(("delta", {"delta": x}) for x in (0.0, "none", 5e-324, 6e-323)),  # 12 units, 29 levels
    *(("split", {"split": x}) for x in (0.51, 0.0, True, math.nan, "adaptive")),
    ("epsilon", {"epsilon": {"a": 0.1}}),
    ("epsilon", {"epsilon": {}, "per_class": True}),
    ("epsilon", {"epsilon": {"a": 0.1, "b": 2}, "per_class": True}),
    *(("per_class", {"per_class": x}) for x in (1, None, "True")),
    *(("min_examples", {"min_examples": x}) for x in (-1, 2.5, "3", None, True, [1], 10**9 + 1)),
]


def test_bad_input_is_named() -> None:
    for parameter, changes in BAD_INPUT_IS_NAMED:
        with pytest.raises(InvalidInput) as caught:
            Guarantee(**{"epsilon": 0.1, "alpha": 0.1, "delta": 0.1} | changes)
        assert caught.value.parameters == (parameter,)


# The chain is asked for at most delta (1 - 1e-9), and its rounding error is below 1e-10.
ROUNDING = 1e-8
level_sets = st.lists(st.sampled_from(JOINT_LEVELS), min_size=2, max_size=4, unique=True).map(
    sorted
)


def levels_of(within: list[float] | tuple[float, ...], alpha: float) -> tuple[Level, ...]:
    """Levels computed without ``Guarantee``: alpha (1 - t), in floating point."""
    return tuple(Level(each, alpha * (1 - each)) for each in within)


def shares_of(levels: tuple[Level, ...]) -> list[float]:
    return [level.alpha_across for level in levels]


def raised(ranks: tuple[int, ...], at: int) -> list[int]:
    return [rank + (j == at) for j, rank in enumerate(ranks)]


def full(tasks: int, levels: tuple[Level, ...], delta: float) -> tuple[int, ...]:
    """The negative control: all of delta at every level."""
    return tuple(allowed_errors(tasks, level.alpha_across, delta) for level in levels)


@settings(max_examples=60)
@given(
    tasks=st.integers(1, 7),
    within=level_sets,
    alpha=st.floats(0.05, 0.95),
    delta=st.floats(1e-4, 0.95),
)
def test_ranks_by_enumeration(tasks: int, within: list[float], alpha: float, delta: float) -> None:
    levels = levels_of(within, alpha)
    shares = [Fraction(each) for each in shares_of(levels)]
    ranks = joint_ranks(tasks, levels, delta)
    assert oracles.union_probability(tasks, shares, ranks) <= Fraction(delta)
    for j, rank in enumerate(ranks):
        if rank < tasks - 1:  # with all tasks the probability is 1
            up = oracles.union_probability(tasks, shares, raised(ranks, j))
            assert up > Fraction(delta) * (1 - Fraction(ROUNDING))


def test_all_levels_at_once_by_enumeration() -> None:
    # Counts of 4 tasks in 14 cells: 2380 vectors, added up as fractions.
    levels = Guarantee(epsilon=0.1, alpha=0.7, delta=0.3).levels
    shares = [Fraction(each) for each in shares_of(levels)]
    ranks = joint_ranks(4, levels, 0.3)
    assert max(ranks) >= 0
    exact = oracles.union_probability(4, shares, ranks)
    assert exact <= Fraction(3, 10)
    assert oracles.grown_union_probability(4, shares_of(levels), ranks) == pytest.approx(
        float(exact), rel=1e-12
    )


@given(
    tasks=st.integers(1, 6),
    cuts=st.lists(st.floats(0.05, 0.95), min_size=2, max_size=3, unique=True),
    data=st.data(),
)
def test_the_two_oracles_agree(tasks: int, cuts: list[float], data: st.DataObject) -> None:
    shares = sorted(cuts, reverse=True)
    ranks = [data.draw(st.integers(-1, tasks)) for _ in shares]
    exact = oracles.union_probability(tasks, [Fraction(each) for each in shares], ranks)
    result = oracles.grown_union_probability(tasks, shares, ranks)
    assert result == pytest.approx(float(exact), rel=1e-11, abs=1e-300)


@settings(max_examples=60)
@given(
    tasks=st.integers(1, 3000),
    within=st.one_of(level_sets, st.just(list(JOINT_LEVELS))),
    alpha=st.floats(0.005, 0.3),
    delta=st.one_of(st.floats(1e-12, 0.95), st.sampled_from([1e-100, 1e-5, 0.05, 0.999])),
)
def test_no_rank_can_be_raised(tasks: int, within: list[float], alpha: float, delta: float) -> None:
    levels = levels_of(within, alpha)
    ranks = joint_ranks(tasks, levels, delta)
    shares = shares_of(levels)
    assert oracles.grown_union_probability(tasks, shares, ranks) <= delta
    assert all(a >= b for a, b in itertools.pairwise(ranks))
    for j in (0, len(ranks) // 2, len(ranks) - 1):
        if ranks[j] < tasks - 1:
            up = oracles.grown_union_probability(tasks, shares, raised(ranks, j))
            assert up > delta * (1 - ROUNDING)


@pytest.mark.parametrize("tasks", [57, 500])
@pytest.mark.parametrize(("alpha", "delta"), [(0.1, 1e-5), (0.2, 0.05), (0.9, 0.3)])
def test_all_of_delta_at_every_level_is_caught(tasks: int, alpha: float, delta: float) -> None:
    levels = Guarantee(epsilon=0.1, alpha=alpha, delta=delta).levels
    greedy = full(tasks, levels, delta)
    if max(greedy) >= 0:
        assert oracles.grown_union_probability(tasks, shares_of(levels), greedy) > 1.2 * delta


@given(tasks=st.integers(1, 2000), alpha=st.floats(0.01, 0.9), delta=st.floats(1e-9, 0.9))
def test_one_level_is_the_tight_split(tasks: int, alpha: float, delta: float) -> None:
    tight = Guarantee(epsilon=0.1, alpha=alpha, delta=delta, split="tight")
    (level,) = tight.levels
    expected = (allowed_errors(tasks, level.alpha_across, delta),)
    assert joint_ranks(tasks, (level,), delta) == tight.allowed_low_thresholds(tasks) == expected


@pytest.mark.parametrize(
    ("alpha", "delta"),
    [(0.1, 1e-5), (0.1, 0.05), (0.05, 1e-3), (0.2, 1e-9), (0.3, 0.5), (0.4, 0.01)],
)
def test_no_rank_is_below_that_of_four_levels_that_share_delta(alpha: float, delta: float) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=delta)
    counts = np.unique(np.r_[np.arange(1, 200), np.geomspace(200, 3000, 30).astype(int)])
    ranks = np.array([g.allowed_low_thresholds(int(tasks)) for tasks in counts])
    for level in (0.02, 0.1, 0.25, 0.5):
        j = JOINT_LEVELS.index(level)
        old = allowed_errors(counts, g.levels[j].alpha_across, delta / 4)
        assert (ranks[:, j] >= old).all()
    # The joint split is feasible as soon as a single level is.
    first = allowed_errors(counts, g.levels[0].alpha_across, delta)
    np.testing.assert_array_equal(ranks.max(axis=1) >= 0, first >= 0)
    # What is feasible stays feasible with more tasks.
    assert (np.diff(ranks.max(axis=1) >= 0) >= 0).all()


@settings(max_examples=60)
@given(
    tasks=st.integers(5, 300),
    alpha=st.floats(0.05, 0.5),
    delta=st.floats(1e-6, 0.5),
    more=st.floats(1.0, 1.8),
)
def test_what_is_feasible_stays_so(tasks: int, alpha: float, delta: float, more: float) -> None:
    # What is feasible stays feasible, which sites and saved predictors rely on.
    levels = levels_of(JOINT_LEVELS, alpha)
    larger = levels_of(JOINT_LEVELS, min(0.99, alpha * more))
    feasible = max(joint_ranks(tasks, levels, delta)) >= 0
    for other in (
        joint_ranks(tasks + 1, levels, delta),
        joint_ranks(tasks, larger, delta),
        joint_ranks(tasks, levels, min(0.99, delta * more)),
    ):
        assert max(other) >= 0 or not feasible


def test_the_minimum_number_of_tasks_of_the_joint_split() -> None:
    # The lowest level alone decides: (1 - alpha (1 - .01)) ** N <= delta. No valid rule has fewer
    # than log(delta) / log(1 - alpha) tasks, which is 22, 29, 44 and 110.
    for delta, tasks in ((0.1, 23), (0.05, 29), (0.01, 45), (1e-5, 111)):
        g = Guarantee(epsilon=0.1, alpha=0.1, delta=delta)
        assert tasks == math.ceil(math.log(delta) / math.log(1 - 0.1 * 0.99))
        assert g.allowed_low_thresholds(tasks)[0] == 0
        assert max(g.allowed_low_thresholds(tasks - 1)) == -1
    # Of one task: rank 0 is wrong with probability 1 - alpha (1 - .01) = .505.
    g = Guarantee(epsilon=0.1, alpha=0.5, delta=0.51)
    assert g.allowed_low_thresholds(1) == (0, *[-1] * 28)
    assert Guarantee(epsilon=0.1, alpha=0.5, delta=0.5).allowed_low_thresholds(1) == (-1,) * 29


def test_a_million_tasks() -> None:
    # At the 29 levels of today's rule each level gets an equal share of delta for so many tasks.
    g, tasks = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5, sampling="capped"), 10**6
    ranks = g.allowed_low_thresholds(tasks)
    shares = np.array(shares_of(g.levels))
    upper = [allowed_errors(tasks, share, g.delta or 0) for share in shares]
    lower = [allowed_errors(tasks, share, 1e-5 / 13) for share in shares]
    assert all(a <= b <= c for a, b, c in zip(lower, ranks, upper, strict=True))
    by_level = stats.binom.cdf(ranks, tasks, shares)
    # One level alone is below the union, and Bonferroni is above it.
    assert by_level.max() < 1e-5 < by_level.sum()
    # Two neighbouring levels form a chain whose probability is a single sum. It must be within
    # delta for every pair.
    for j in (0, 6, 11):
        assert _two_levels(tasks, shares[j : j + 2], ranks[j : j + 2]) < 1e-5


def _two_levels(tasks: int, shares: np.ndarray, ranks: tuple[int, ...]) -> float:
    first = np.arange(ranks[0] + 1, int(tasks * shares[0] + 8 * math.sqrt(tasks * shares[0])))
    mass = stats.binom.pmf(first, tasks, shares[0])
    second = stats.binom.cdf(ranks[1], first, shares[1] / shares[0])
    return float(stats.binom.cdf(ranks[0], tasks, shares[0]) + mass @ second)


def test_a_chain_too_large_falls_back_on_equal_shares() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.5, delta=0.01)
    assert g.allowed_low_thresholds(10**8) == full(10**8, g.levels, 0.01 / 29)


@pytest.mark.parametrize("units", [None, 29, 40, 86])
def test_the_smallest_deltas(units: int | None) -> None:
    # In units of the smallest float a share of delta is rounded by up to a half, and never up.
    delta = 1e-300 if units is None else units * 5e-324
    share = delta / 29 if units is None else units // 29 * 5e-324
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=delta)
    for tasks in (10, 7500, 12_000):
        ranks = g.allowed_low_thresholds(tasks)
        assert ranks == full(tasks, g.levels, share)
    assert max(ranks) >= 0


def test_deltas_near_one() -> None:
    for delta, tasks in itertools.product((0.99, 0.999999, 1 - 1e-12), (1, 2, 40, 300)):
        g = Guarantee(epsilon=0.1, alpha=0.1, delta=delta)
        ranks = g.allowed_low_thresholds(tasks)
        assert oracles.grown_union_probability(tasks, shares_of(g.levels), ranks) <= delta
        assert ranks[0] >= 0


# The converse: on the worst possible tasks the joint split violates its guarantee with exactly the
# probability that the ranks were chosen for, once tasks are large enough to attain the levels.
def test_the_joint_split_cannot_be_loosened() -> None:
    # Above level 1/2 the cap of large tasks does not attain the levels.
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, sampling="iid")
    worst = TwoPointFamily(bad=g.alpha + 1e-12, miss=0.1 + 1e-12)
    ranks, shares = g.allowed_low_thresholds(400), shares_of(g.levels)
    claimed = oracles.grown_union_probability(400, shares, ranks)
    probability = worst.probability_of_one(g, tasks=400, examples=10**9)
    assert probability == pytest.approx(claimed, rel=1e-3)
    assert 0.95 * 0.05 < probability <= 0.05


# In expectation (delta=None), all levels: H, the calibration tasks that break before the new one,
# is uniform on 0, ..., N. The failure probability is that of the chain that starts there.
def failure_in_expectation(tasks: int, levels: tuple[Level, ...], ranks: Sequence[int]) -> float:
    counts, before = np.arange(tasks + 1), 0.0
    mass, total = np.full(tasks + 1, 1 / (tasks + 1)), 0.0
    for level, rank in zip(levels, ranks, strict=True):
        kept = (1 - level.alpha_within) / (1 - before)
        mass = stats.binom.pmf(counts[:, None], counts, kept) @ mass
        total += float(mass[: rank + 1].sum())
        mass[: rank + 1], before = 0.0, level.alpha_within
    return total


@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_all_levels_in_expectation(alpha: float) -> None:
    g, caught = Guarantee(epsilon=0.1, alpha=alpha, delta=None), 0
    for tasks in (3, 4, 9, 10, 20, 23, 60, 199):
        ranks = g.allowed_low_thresholds(tasks)
        assert failure_in_expectation(tasks, g.levels, ranks) <= alpha
        for j, rank in enumerate(ranks):  # no single rank could be larger
            higher = [*ranks[:j], rank + 1, *ranks[j + 1 :]]
            assert failure_in_expectation(tasks, g.levels, higher) > alpha * (1 - 1e-4)
        # Control: each level at the rank that it could have alone.
        alone = [expectation_rank(tasks, Fraction(level.alpha_across)) for level in g.levels]
        caught += failure_in_expectation(tasks, g.levels, alone) > alpha * 1.01
    assert caught >= 4
    assert max(g.allowed_low_thresholds(math.ceil(1 / alpha))) == 0
    assert max(g.allowed_low_thresholds(math.ceil(1 / alpha) - 1)) == -1


# Dishonest sites: of a count at most rank + m, m too low thresholds may have been replaced.
def fails_with_liars(
    tasks: int, levels: tuple[Level, ...], ranks: Sequence[int], liars: int
) -> float:
    """P(at some level at most rank thresholds are too low), if the worst sites send others."""
    hidden = [rank + liars if rank >= 0 else -1 for rank in ranks]
    return oracles.grown_union_probability(tasks, shares_of(levels), hidden)


@pytest.mark.parametrize("liars", [1, 2, 5])
def test_dishonest_sites_change_no_guarantee(liars: int) -> None:
    for alpha, delta, tasks in ((0.1, 0.05, 110), (0.3, 0.1, 60), (0.5, 0.2, 20)):
        g = Guarantee(epsilon=0.1, alpha=alpha, delta=delta, dishonest=liars)
        ranks = g.allowed_low_thresholds(tasks)
        assert max(ranks) >= 0
        assert fails_with_liars(tasks, g.levels, ranks, liars) <= delta
        for j in range(len(ranks)):
            up = fails_with_liars(tasks, g.levels, raised(ranks, j), liars)
            assert up > delta * (1 - ROUNDING)
        # Control: the ranks of honest sites, with the m worst thresholds replaced by infinity.
        honest = replace(g, dishonest=0).allowed_low_thresholds(tasks)
        assert fails_with_liars(tasks, g.levels, honest, liars) > 1.5 * delta
    # In expectation, and at one level.
    g = Guarantee(epsilon=0.1, alpha=0.3, delta=None, dishonest=liars)
    hidden = [rank + liars if rank >= 0 else -1 for rank in g.allowed_low_thresholds(40)]
    assert max(hidden) >= liars
    assert failure_in_expectation(40, g.levels, hidden) <= 0.3
    for confidence in (None, 0.05):
        tight = replace(g, delta=confidence, split="tight")
        assert rank_of(tight, 100) == rank_of(replace(tight, dishonest=0), 100) - liars >= 0
        few = next(n for n in itertools.count(1) if rank_of(tight, n) >= 0)
        assert rank_of(replace(tight, dishonest=0), few) == liars  # no fewer could be hidden


# New tasks from elsewhere.
def test_the_minimum_number_of_tasks_if_some_come_from_elsewhere() -> None:
    for shift, tasks in ((0.0, 29), (0.01, 33), (0.02, 37), (0.05, 60)):
        g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, shift=shift)
        assert max(g.allowed_low_thresholds(tasks)) == 0
        assert max(g.allowed_low_thresholds(tasks - 1)) == -1
        assert all(Fraction(x.alpha_across) < Fraction(0.1 - shift) for x in g.levels)


@pytest.mark.parametrize("dishonest", [0, 1])
@pytest.mark.parametrize("delta", [0.05, None])
def test_the_shift_that_comes_for_free(delta: float | None, dishonest: int) -> None:
    found = []
    for tasks in (40, 61):
        g = Guarantee(epsilon=0.1, alpha=0.2, delta=delta, dishonest=dishonest)
        hidden = [r + dishonest if r >= 0 else -1 for r in g.allowed_low_thresholds(tasks)]

        def fails(shift: float, ranks: list[int] = hidden, tasks: int = tasks) -> bool:
            levels = Guarantee(epsilon=0.1, alpha=0.2 - shift, delta=0.05).levels
            if delta is None:
                return failure_in_expectation(tasks, levels, ranks) > 0.2 - shift
            return oracles.grown_union_probability(tasks, shares_of(levels), ranks) > delta

        free = g.free_shift(tasks)
        assert not fails(free)
        assert fails(free + 1e-4)
        # Control: the level with the most to spare, alone. Which level wins depends on the data.
        alone = [[r if i == j else -1 for i, r in enumerate(hidden)] for j in range(len(hidden))]
        assert not all(fails(free + 1e-3, ranks) for ranks in alone if max(ranks) >= 0)
        found.append(free)
        more = replace(g, shift=0.05)
        assert more.free_shift(tasks) >= 0.05 or max(more.allowed_low_thresholds(tasks)) < 0
    assert max(found) > 0
    assert Guarantee(epsilon=0.1, alpha=0.1, delta=0.05).free_shift(5) == 0  # nothing holds
    capped = Guarantee(epsilon=0.3, alpha=0.95, delta=0.4, sampling="iid", randomise=1)
    ranks, levels = capped.allowed_low_thresholds(4), replace(capped, shift=0.0133).levels
    assert cap_ranks(4, levels, ranks) != ranks  # which the counts alone allow
    assert capped.free_shift(4) < 0.0133
    assert Guarantee(epsilon=0.1, alpha=0.2, delta=0.05, new_tasks=20).free_shift(99) == 0


# In expectation with one level: over the calibration tasks too. Sums of binomial probabilities.


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
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=None, split="tight")
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
    assert rank_of(Guarantee(epsilon=0.1, alpha=0.3, delta=None, split="tight"), 199) == 50
    assert expectation_rank(199, Fraction(51, 200)) == 50
    assert rank_of(Guarantee(epsilon=0.1, alpha=0.2, delta=None, split="even"), 9) == 0


def test_the_minimum_number_of_tasks() -> None:
    # floor(alpha (1 - alpha / 2) (N + 1)) >= 1; at alpha = .1 from N + 1 = 10.53 on.
    for alpha, tasks in ((0.1, 10), (0.05, 20), (0.2, 5), (0.3, 3)):
        g = Guarantee(epsilon=0.1, alpha=alpha, delta=None, split="tight")
        assert (rank_of(g, tasks), rank_of(g, tasks - 1)) == (0, -1)
        need = plan(epsilon=0.1, alpha=alpha, delta=None, split="tight")
        examples = math.ceil(math.log(alpha / 2) / math.log(0.9))
        assert (need.tasks, need.examples_per_task) == (tasks, examples)


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


WORST = TwoPointFamily(bad=ALPHA + 1e-9, miss=EPSILON + 1e-9)


@ties_allowed
@pytest.mark.parametrize("split", ["tight", "joint"])
def test_a_split_fails_as_often_as_computed_on_its_worst_family(split: str) -> None:
    probability = WORST.probability_of_one(with_split(split), tasks=TASKS, examples=EXAMPLES)
    assert 0.5 * DELTA < probability <= DELTA
    count = count_violations(WORST, find_thresholds(with_split(split), draw_scores(WORST, SIZE)))
    assert stats.binomtest(count, DRAWS, probability).pvalue >= FALSE_ALARM
