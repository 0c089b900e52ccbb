"""What dishonest sites can do: tried out on thresholds, and enumerated."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metapac import (
    Guarantee,
    InvalidInput,
    MetaPS,
    Site,
    bound_threshold,
    combine_sites,
    count_liars,
)
from metapac import failure_probability as failure
from metapac.evidence import Part
from metapac.federated import (
    Liars,
    describe_liars,
    summarise_liars,
)


def agree(
    split: str | float = "joint", delta: float | None = 0.1, per_class: bool = False
) -> Guarantee:
    return Guarantee(epsilon=0.1, alpha=0.3, delta=delta, split=split, per_class=per_class)


def calibrate(guarantee: Guarantee, tasks: int, liars: int, lie: float) -> float:
    """Return the threshold if the last sites lie; honest ones send 1, 2, ... at every level."""
    sent = np.tile(np.arange(1.0, tasks + 1)[:, None], len(guarantee.levels))
    sent[tasks - liars :] = lie
    used, sizes = np.full(tasks, True), np.full(tasks, 1000)
    return Part(guarantee, None, used, sizes, sent, -np.inf, np.inf).second_step().threshold


@pytest.mark.parametrize("split", ["joint", "tight", "even"])
@pytest.mark.parametrize("tasks", [20, 40, 90])
def test_it_takes_as_many_liars_as_counted_and_no_fewer(split: str, tasks: int) -> None:
    guarantee = agree(split)
    needed = count_liars(guarantee, tasks)
    assert calibrate(guarantee, tasks, needed.to_keep_all, -math.inf) == -math.inf
    assert calibrate(guarantee, tasks, needed.to_keep_all - 1, -math.inf) > -math.inf
    assert calibrate(guarantee, tasks, needed.to_empty, math.inf) == math.inf
    assert calibrate(guarantee, tasks, needed.to_empty - 1, math.inf) < math.inf


def test_fewer_liars_move_the_threshold_by_as_many_ranks() -> None:
    guarantee = agree("tight")
    rank = guarantee.allowed_low_thresholds(90)[0]
    for liars in range(rank + 1):
        assert calibrate(guarantee, 90, liars, -math.inf) == rank + 1 - liars
        assert calibrate(guarantee, 90, liars, math.inf) == rank + 1


def test_sites_that_are_too_small_help_the_liars() -> None:
    guarantee = agree()
    whole = count_liars(guarantee, 90)

    def combine(guarantee: Guarantee, *small: int) -> dict[str, int]:
        """Return what it takes if so many sites, of each class, send -inf anyway."""
        levels = len(guarantee.levels)
        rows = [[(-np.inf if i < few else 1.0,) * levels for few in small] for i in range(90)]
        classes = ("a", "b") if guarantee.per_class else None
        sent = [
            Site(f"s{i}", guarantee, (99,) * len(small), (*row,), np.dtype("f8"), classes)
            for i, row in enumerate(rows)
        ]
        return summarise_liars(combine_sites(sent, on_infeasible="trivial"))

    assert combine(guarantee, 0) == {"sites": 90, **whole._asdict()}
    assert combine(guarantee, 2)["to_keep_all"] == whole.to_keep_all - 2
    # Of several classes, the one that takes the fewest counts.
    each = combine(agree(per_class=True), 0, 0)["to_keep_all"]
    assert combine(agree(per_class=True), 0, 2)["to_keep_all"] == each - 2


def test_too_few_sites_need_no_liar() -> None:
    assert count_liars(agree(), 2).to_keep_all == 0


def test_in_expectation_one_liar_in_ten_is_enough() -> None:
    assert count_liars(Guarantee(epsilon=0.1, alpha=0.1, delta=None), 10) == Liars(1, 10)


@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize("liars", [0, 1, 2])
def test_the_failure_probability_is_that_of_the_worst_case(liars: int, at_random: bool) -> None:
    # Each site shows itself as broken with probability alpha_across: enumerate all sites, and all
    # choices of those that send inf. By default the worst choice counts, otherwise the first ones.
    tasks = 6
    guarantee = Guarantee(epsilon=0.1, alpha=0.5, delta=0.3, split="tight")
    (rank,) = guarantee.allowed_low_thresholds(tasks)
    share = guarantee.alpha_across
    choices = [*itertools.combinations(range(tasks), tasks - liars)][: 1 if at_random else None]
    expected = sum(
        math.prod(share if low else 1 - share for low in outcome)
        for outcome in itertools.product([False, True], repeat=tasks)
        if min(sum(outcome[i] for i in honest) for honest in choices) <= rank
    )
    found = failure(guarantee, tasks, liars, at_random=at_random)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("at_random", [False, True])
def test_several_levels_are_counted_together(at_random: bool) -> None:
    guarantee = agree(delta=0.2)
    tasks, liars, draws = 30, 3, 200_000
    ranks = np.array(guarantee.allowed_low_thresholds(tasks))
    rng = np.random.default_rng(0)
    breaks = rng.random((draws, tasks)) < guarantee.alpha
    u = np.where(breaks, rng.random((draws, tasks)), 0.0)
    # The sites that lie are those with the lowest thresholds, or any.
    honest = (u if at_random else np.sort(u, axis=1))[:, : tasks - liars]
    within = [level.alpha_within for level in guarantee.levels]
    low = np.stack([(honest > t).sum(axis=1) for t in within], axis=1)
    seen = np.mean((low <= ranks).any(axis=1))
    p = failure(guarantee, tasks, liars, at_random=at_random)
    # False-alarm rate 1e-6: 4.9 standard deviations. Control: the other values are refused.
    tolerance = 4.9 * math.sqrt(p * (1 - p) / draws)
    assert abs(seen - p) <= tolerance
    assert abs(seen - failure(guarantee, tasks)) > tolerance
    assert abs(seen - failure(guarantee, tasks, liars, at_random=not at_random)) > tolerance


@pytest.mark.parametrize(
    ("tasks", "liars", "random", "worst"),
    [
        (29, 1, 0.054, 0.204),
        (100, 1, 0.052, 0.125),
        (100, 5, 0.065, 0.736),
        (100, 10, 0.085, 0.994),
        (500, 1, 0.050, 0.074),
        (500, 5, 0.056, 0.262),
        (500, 10, 0.063, 0.637),
    ],
)
def test_sites_that_lie_because_of_their_data_are_worse(
    tasks: int, liars: int, random: float, worst: float
) -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    assert failure(guarantee, tasks, liars) == pytest.approx(worst, abs=5e-4)
    assert failure(guarantee, tasks, liars, at_random=True) == pytest.approx(random, abs=5e-4)


def test_a_guarantee_that_keeps_every_label_cannot_fail() -> None:
    assert failure(agree(), 2, 1) == 0.0


def test_honest_sites_keep_the_guarantee_and_liars_erode_it() -> None:
    guarantee = agree()
    values = [failure(guarantee, 60, liars) for liars in (0, 5, 20, 60)]
    assert values[0] <= 0.1
    assert values == sorted(values)
    assert values[-1] == 1.0


def test_bad_numbers_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="liars must be at most tasks, 5, got 6."):
        failure(agree(), 5, 6)
    with pytest.raises(InvalidInput, match="has no failure probability"):
        failure(agree(delta=None), 50)


def test_sentence() -> None:
    agreed = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1, split="tight")
    messages = [
        Site(f"s{i}", agreed, (100,), ((-i / 40,),), np.dtype("f8"), columns={"prediction": "p"})
        for i in range(40)
    ]
    most, least = count_liars(agreed, 40)
    numbers = f"Of 40 sites, {most} dishonest ones can {{}}; {least} can {{}}."
    wide = numbers.format("make every interval infinite", "shrink every interval to its prediction")
    assert describe_liars(combine_sites(messages)) == wide
    plain = [replace(site, columns=None) for site in messages]
    expected = numbers.format("force every label into every set", "empty every set")
    assert describe_liars(combine_sites(plain)) == expected
    trivial = combine_sites(plain[:2], on_infeasible="trivial")
    assert describe_liars(trivial) == ""


def test_only_sites_that_count_are_counted() -> None:
    scores, sizes = np.random.default_rng(0).random(40 * 60 + 5 * 10), [60] * 40 + [10] * 5
    sites = np.repeat(np.arange(45), sizes)
    levels: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
    predictor = MetaPS(**levels, min_examples=30).calibrate(scores, sites)
    expected = count_liars(predictor.guarantee_, 40)
    assert summarise_liars(predictor) == {"sites": 40, **expected._asdict()}
    assert summarise_liars(MetaPS(**levels).calibrate(scores, sites))["sites"] == 45


def sites(split: str | float, tasks: int = 30, seed: int = 0) -> MetaPS:
    scores = np.random.default_rng(seed).random(tasks * 40)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.2, split=split)
    return method.calibrate(scores, np.repeat(np.arange(tasks), 40), allow=("levels",))


@pytest.mark.parametrize("split", ["joint", "tight"])
@pytest.mark.parametrize("liars", [0, 1, 2])
def test_no_lie_takes_the_threshold_out_of_its_range(split: str, liars: int) -> None:
    predictor = sites(split, tasks=12)
    (part,) = predictor._evidence.parts(predictor.guarantee_)
    low, high = bound_threshold(predictor, liars)
    assert low <= predictor.threshold_ <= high
    truths = [-math.inf, 0.0, 0.1, 0.2, 0.5, math.inf]
    for chosen in itertools.combinations(range(12), liars):
        for values in itertools.product(truths, repeat=liars):
            thresholds = part.thresholds.copy()
            thresholds[list(chosen)] = np.array(values)[:, None]
            assert low <= part._replace(thresholds=thresholds).second_step().threshold <= high


@pytest.mark.parametrize("split", ["joint", "tight"])
@pytest.mark.parametrize("liars", [1, 2])
def test_hidden_and_invented_examples_do_not_take_it_out_either(split: str, liars: int) -> None:
    scores, sizes = np.random.default_rng(0).random(10 * 40 + 2 * 20), [40] * 10 + [20] * 2
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.2, split=split, min_examples=30)
    predictor = method.calibrate(scores, np.repeat(np.arange(12), sizes), allow=("levels",))
    (part,) = predictor._evidence.parts(predictor.guarantee_)
    low, high = bound_threshold(predictor, liars)
    reached = []
    for chosen in itertools.combinations(range(12), liars):
        for values in itertools.product([None, -math.inf, 0.1, 0.5, math.inf], repeat=liars):
            used, thresholds = part.used.copy(), part.thresholds.copy()
            for site, value in zip(chosen, values, strict=True):
                used[site] = value is not None
                thresholds[site] = 0.0 if value is None else value
            honest = part._replace(used=used, thresholds=thresholds).second_step().threshold
            assert low <= honest <= high
            reached.append(honest)
    assert (min(reached), max(reached)) == (low, high)


def test_the_range_is_reached() -> None:
    predictor = sites("tight")
    (part,) = predictor._evidence.parts(predictor.guarantee_)
    order = np.argsort(part.thresholds[:, 0])
    for liars in (0, 1, 2, 30):
        expected = bound_threshold(predictor, liars)
        ends = []
        for chosen, truth in ((order[30 - liars :], -math.inf), (order[:liars], math.inf)):
            thresholds = part.thresholds.copy()
            thresholds[chosen] = truth
            ends.append(part._replace(thresholds=thresholds).second_step().threshold)
        assert tuple(ends) == expected
    assert bound_threshold(predictor, 30) == (-math.inf, math.inf)


def test_a_range_for_each_class_and_for_sites_that_support_nothing() -> None:
    labels = np.tile(["a", "b"], 600)
    scores = np.random.default_rng(0).random(1200)
    predictor = MetaPS(epsilon=0.3, alpha=0.4, delta=0.2, per_class=True)
    predictor.calibrate(scores, np.repeat(np.arange(30), 40), labels, allow=("levels",))
    for label in ("a", "b"):
        low, high = bound_threshold(predictor, 1, label=label)
        assert low < predictor.threshold_of(label) < high
    with pytest.raises(InvalidInput, match="label must be one of 'a', 'b', got None."):
        bound_threshold(predictor, 1)
    with pytest.raises(InvalidInput, match="liars must be at most the number of sites, 30, got 31"):
        bound_threshold(sites("joint"), 31)
    trivial = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    trivial.calibrate(scores, np.repeat(np.arange(2), 600))
    assert bound_threshold(trivial, 1) == (-math.inf, -math.inf)
