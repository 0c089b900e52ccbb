"""Bets: a fair game and both lights by enumeration and simulation, power; drift."""

from __future__ import annotations

import itertools
import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac.betting import FRACTIONS, RUN_LENGTH, STAKES, Bets, Watch, exceeds, is_within, reaches
from metapac.drift import Drift, Pool, Shift, compare_pools, compare_scores
from tests.helpers import oracles
from tests.helpers.refusals import assert_refused

# What a task can show at four levels: a task shown at one level is shown at all larger ones.
PATTERNS = tuple([False] * (4 - shown) + [True] * shown for shown in range(5))


def play(share: float, against: list[float], patterns: Any) -> Any:
    """Return the wealth after each task."""
    bets, wealth = Bets(share, against), []
    for shown in patterns:
        bets.settle(shown)
        wealth.append(bets.wealth)
    return np.array(wealth)


def worst_case(share: float, bad: float) -> Any:
    """Return the probability of each pattern if bad tasks are always shown, and others by chance.

    A good task is shown at level t with probability t, which is the most that it may be.
    """
    levels = [share * fraction for fraction in FRACTIONS]
    by_chance = -np.diff([1, *reversed(levels), 0])
    return bad * np.array([0, 0, 0, 0, 1]) + (1 - bad) * by_chance


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("against", [0.02, 0.3, 0.95])
def test_no_bet_is_to_anyones_advantage(share: float, against: float) -> None:
    """In the worst case the next task leaves the expected wealth as it is, whatever came before."""
    chances = worst_case(share, against)
    for before in product(PATTERNS, repeat=2):
        wealth = play(share, [against], before)[-1, 0]
        after = [play(share, [against], [*before, shown])[-1, 0] for shown in PATTERNS]
        assert chances @ after == pytest.approx(wealth, rel=1e-12)
        fewer, more = (worst_case(share, against * factor) @ after for factor in (0.99, 1.01))
        assert fewer < wealth < more  # the second is the negative control


@pytest.mark.parametrize("limit", [1.5, 2.0, 5.0])
def test_the_wealth_ever_reaches_a_limit_with_probability_at_most_its_inverse(limit: float) -> None:
    share, tasks = 0.2, 5
    alarms = [
        [*course]
        for course in product(range(5), repeat=tasks)
        if play(share, [share], [PATTERNS[i] for i in course]).max() >= limit
    ]
    chances = [float(worst_case(share, bad)[alarms].prod(axis=1).sum()) for bad in (share, 0.8)]
    assert 0 < chances[0] <= 1 / limit < chances[1]  # the second is the negative control


def test_wealth_is_the_mean_over_bettors_and_starting_times() -> None:
    """A slow reference: each bettor from each starting time, one by one."""
    rng = np.random.default_rng(0)
    course = [PATTERNS[i] for i in rng.integers(5, size=12)]
    share, against = 0.1, 0.15
    for tasks in (1, 5, 12):
        total = 1 / (tasks + 1)
        for level, stake in product(range(4), STAKES):
            chance = against + (1 - against) * share * FRACTIONS[level]
            for start in range(1, tasks + 1):
                capital = 1 / (start * (start + 1)) / 12
                for shown in course[start - 1 : tasks]:
                    capital *= 1 + stake / chance * (shown[level] - chance)
                total += capital
        assert play(share, [against], course)[tasks - 1, 0] == pytest.approx(total, rel=1e-12)


COARSE = 0.4  # a further level of the amber light, at a share of 0.2


def shine(course: Any, limit: float, *, stakes: int = 1) -> tuple[list[int], float]:
    """Return the tasks at which the amber light comes on, and the sum of the statistic there.

    The negative control adds 2 instead of 1 in each step; all is linear, so it is twice as large.
    """
    bets, lights, reached = Bets(0.2, [0.2], COARSE), [], 0.0
    for task, shown in enumerate(course, start=1):
        bets.settle([*PATTERNS[shown - 1 if shown else 0], shown > 0])
        if reaches(stakes * bets.recent[0], limit):
            lights.append(task)
            reached += stakes * bets.recent[0]
            bets.restart()
    return lights, reached + stakes * bets.recent[0]


def coarse_case(bad: float) -> Any:
    """Return the probability that a task is shown at none, one, ..., all of five levels."""
    levels = [0.2 * fraction for fraction in FRACTIONS] + [COARSE]
    by_chance = -np.diff([1, *sorted(levels, reverse=True), 0])
    return bad * np.array([0, 0, 0, 0, 0, 1]) + (1 - bad) * by_chance


@pytest.mark.parametrize("limit", [1.1, 2.0, 4.0, 9.0])
def test_false_amber_lights_by_enumeration(limit: float) -> None:
    """In n tasks there are at most n / limit on average, however often the light starts again."""
    tasks = 5
    for n in range(1, tasks + 1):
        courses = [*product(range(6), repeat=n)]
        chances = coarse_case(0.2)[np.array(courses)].prod(axis=1)
        found = [shine(course, limit) for course in courses]
        number = chances @ [len(lights) for lights, _ in found]
        assert 0 <= number <= n / limit
        # On average it grows by 1 a task: what it had at each light, and has now.
        assert chances @ [total for _, total in found] == pytest.approx(n, rel=1e-12)
        # The first light: limit times its chance is at most the expected waiting time.
        waiting = chances @ [min([*lights, n]) for lights, _ in found]
        assert limit * (chances @ [bool(lights) for lights, _ in found]) <= waiting


def test_an_amber_light_that_adds_two_comes_too_often() -> None:
    """The negative control: R + 2 in the place of R + 1."""
    for n in range(1, 6):
        courses = [*product(range(6), repeat=n)]
        chances = coarse_case(0.2)[np.array(courses)].prod(axis=1)
        found = [shine(course, 1.1, stakes=2) for course in courses]
        assert chances @ [len(lights) for lights, _ in found] > n / 1.1
        assert chances @ [total for _, total in found] == pytest.approx(2 * n)


def test_recent_evidence_is_a_sum_over_starting_times() -> None:
    """A slow reference: each bettor puts 1 on each task from each starting time on."""
    rng = np.random.default_rng(0)
    course = [[*PATTERNS[max(i - 1, 0)], i > 0] for i in rng.integers(6, size=12)]
    levels = [*(0.2 * fraction for fraction in FRACTIONS), COARSE]
    bets = Bets(0.2, [0.3], COARSE)
    assert bets.levels == tuple(levels)
    for tasks in range(1, 13):
        bets.settle(course[tasks - 1])
        total = 0.0
        for (place, level), stake in product(enumerate(levels), STAKES):
            chance = 0.3 + 0.7 * level
            for start in range(tasks):
                factors = [1 + stake / chance * (s[place] - chance) for s in course[start:tasks]]
                total += math.prod(factors)
        assert bets.recent[0] == pytest.approx(total / 15, rel=1e-12)
    wealth = bets.wealth[0]
    bets.restart()
    assert (bets.recent[0], bets.wealth[0]) == (0, wealth)


def test_one_of_many_lights_starts_again() -> None:
    bets = Bets(0.2, [0.2, 0.3])
    bets.settle(PATTERNS[4])
    first, second = bets.recent
    bets.restart([True, False])
    assert bets.recent.tolist() == [0, second]
    assert first > second > 0


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_wealth_falls_with_the_share_bet_against(course: list[int], share: float) -> None:
    shares = (np.arange(1, 100) / 100).tolist()
    wealth = play(share, shares, [PATTERNS[i] for i in course])
    assert (np.diff(wealth, axis=1) <= 1e-12 * wealth[:, 1:]).all()


def test_tasks_are_shown_at_most_as_often_as_the_level_says() -> None:
    """Also if examples are independent without being identically distributed."""
    levels = (0.001, 0.02, 0.3, 0.5)
    for epsilon, examples in product([0.05, 0.1, 0.37], [0, 1, 7, 20, 60]):
        counts = range(examples + 1)
        shown = np.array([exceeds(examples, missed, epsilon, levels) for missed in counts])
        within = np.array([is_within(examples, missed, epsilon, levels) for missed in counts])
        equal = stats.binom.pmf(counts, examples, epsilon)
        assert (equal @ within <= np.array(levels) + 1e-12).all()
        rng = np.random.default_rng(examples)
        for _ in range(20):
            rates = rng.beta(0.3, 0.3, size=examples)
            rates = np.clip(rates * epsilon * examples / max(rates.sum(), 1e-9), 0, 1)
            chance = np.ones(1)
            for rate in rates:
                chance = np.convolve(chance, [1 - rate, rate])
            for chances in (chance, equal):
                assert (chances @ shown <= np.array(levels) + 1e-12).all()


def test_a_level_is_used_up_to_the_next_miss() -> None:
    for missed in range(51):
        tail = 1 - oracles.binomial_cdf(missed - 1, 50, 0.1)
        assert exceeds(50, missed, 0.1, (0.01, 0.05)).tolist() == [tail <= 0.01, tail <= 0.05]
        tail = oracles.binomial_cdf(missed, 50, 0.1)
        assert is_within(50, missed, 0.1, (0.01, 0.05)).tolist() == [tail <= 0.01, tail <= 0.05]


def bet_once(good: int, bad: int, *, skip_small: bool) -> float:
    """Return the expected wealth after one bet if good and bad tasks have different sizes.

    A bad task misses everything, a good one misses at the rate epsilon.
    """
    epsilon = alpha = 0.1
    level, stake, gain = alpha / 2, 0.9, 0.0
    fair = alpha + (1 - alpha) * level
    for chance, size, rate in ((alpha, bad, 1.0), (1 - alpha, good, epsilon)):
        missed = np.arange(size + 1)
        shown = np.array([exceeds(size, r, epsilon, (level,))[0] for r in range(size + 1)])
        staked = 0.0 if skip_small and not shown.any() else stake
        factor = 1 + staked / fair * (shown - fair)
        gain += chance * float(stats.binom.pmf(missed, size, rate) @ factor)
    return gain


def test_sizes_may_depend_on_the_task() -> None:
    """Bad tasks are large and good ones small: who skips small ones bets on bad ones alone."""
    for good in (1, 10, 40, 100):
        assert bet_once(good, 100, skip_small=False) <= 1
    assert bet_once(1, 100, skip_small=True) > 1.5  # the negative control


def simulate(rng: Any, runs: int, tasks: int, bad: float, *, good: float = 0.1) -> Any:
    """Return the misses of tasks with 60 examples: bad ones miss half, good ones fewer."""
    is_bad = rng.random((runs, tasks)) < bad
    return rng.binomial(60, np.where(is_bad, 0.5, good))


@pytest.mark.parametrize("bad", [0.05, 0.3, 0.8])
def test_bounds_cover_the_share_at_all_times_at_once(bad: float) -> None:
    runs, tasks, wrong = 60, 60, 0
    missed = simulate(np.random.default_rng(2), runs, tasks, bad, good=0.02)
    for run in missed:
        watch = Watch(0.1, 0.1, 0.05)
        for r in run.tolist():
            watch.add(examples=60, missed=r)
        wrong += not watch.lower <= bad <= watch.upper  # they never widen again
        assert watch.upper - watch.lower < 1
    assert wrong <= stats.binom.ppf(1 - oracles.FALSE_ALARM, runs, 2 * 0.05)


def test_an_alarm_is_a_lower_bound_of_at_least_alpha() -> None:
    for alpha in (0.1, 0.125):
        watch, peak = Watch(0.1, alpha, 0.01), 1.0
        for r in simulate(np.random.default_rng(3), 1, 60, bad=0.35)[0].tolist():
            watch.add(examples=60, missed=r)
            peak = max(peak, watch.wealth)
            assert (watch.lower >= alpha) == (peak * (1 - 1e-9) >= 100)
        assert watch.lower >= alpha


def test_good_tasks_confirm_the_guarantee() -> None:
    watch, tasks = Watch(0.1, 0.1, 0.01), 0
    while watch.upper > 0.1:
        watch.add(examples=200, missed=4)
        tasks += 1
    assert tasks == 72
    assert tasks >= math.log(0.01) / math.log(0.9)  # no test can be faster


def test_a_change_after_a_long_quiet_time_is_found() -> None:
    watch, tasks = Watch(0.1, 0.1, 0.01), 0
    for _ in range(300):
        watch.add(examples=200, missed=10)
    assert watch.wealth < 0.01
    while watch.lower < 0.1:
        watch.add(examples=200, missed=40)
        tasks += 1
    assert tasks == 9


def reaches_limit(m: int, rate: float, epsilon: float, alpha: float) -> bool:
    """Whether 1,000 tasks raise an alarm whose misses are evenly spread over the quantiles."""
    bets = Bets(alpha, [alpha])
    misses = stats.binom.ppf(np.arange(1, 1001) * (math.sqrt(5) - 1) / 2 % 1, m, min(rate, 1))
    for missed in misses.astype(int).tolist():
        bets.settle(exceeds(m, missed, epsilon, bets.levels))
        if bets.wealth[0] >= 100:
            return True
    return False


def test_the_power_of_tasks_of_one_size() -> None:
    cases = ((0.1, 0.1, 8), (0.1, 0.1, 30), (0.2, 0.2, 25), (0.05, 0.1, 20), (0.01, 0.05, 30))
    for *levels, m in cases:
        power: Any = Watch(levels[0], levels[1], 0.01).find_power([m] * 3)
        assert power.miss_rate == 2 * levels[0]
        assert reaches_limit(m, power.reach, *levels)
        assert not reaches_limit(m, 0.85 * power.reach, *levels)
        assert power.can_tell == reaches_limit(m, power.miss_rate, *levels)
        assert power.can_tell == (power.examples is None)
        if not power.can_tell:
            assert reaches_limit(power.examples, power.miss_rate, *levels)
            fewer = range(max(m, int(0.85 * power.examples)), power.examples)
            assert not all(reaches_limit(k, power.miss_rate, *levels) for k in fewer)


def test_more_examples_than_advised_are_enough_too() -> None:
    """At 82 examples an alarm is likely, at 100 it is not: one more miss is needed there."""
    watch = Watch(epsilon=0.01, alpha=0.1, false_alarm=0.01)
    assert [watch.find_power([m]).can_tell for m in (82, 100)] == [True, False]
    least = watch.find_power([30] * 5).examples
    assert least is not None
    assert watch.find_power([100] * 5).examples == least > 100
    assert not watch.find_power([least - 1]).can_tell
    assert all(watch.find_power([m]).can_tell for m in range(least, 4 * least))
    mix = watch.find_power([least, 127])  # each size is enough, but at another level
    assert (mix.can_tell, mix.examples) == (False, 128)


def test_the_power_of_extreme_tasks() -> None:
    watch = Watch(0.1, 0.1, 0.01)
    assert watch.find_power([1] * 50 + [200] * 50).can_tell  # half of them shown is enough
    nothing = watch.find_power([1])
    assert (nothing.reach, nothing.can_tell) == (None, False)
    assert Watch(1e-9, 0.1, 0.01).find_power([1]).examples is None  # takes more than a million
    assert Watch(0.6, 0.1, 0.01).find_power([30]).miss_rate == 1.0


@pytest.mark.parametrize("examples", [5, 20, 60, 143])
def test_the_light_of_a_watch_is_fair_whatever_the_size(examples: int) -> None:
    """One task, all counts: with the misses that there are, not with one more."""
    missed, found = np.arange(examples + 1), []
    for r in missed.tolist():
        watch, bets = Watch(0.1, 0.1, 0.01), Bets(0.1, [0.1], 0.2)
        watch.add(examples=examples, missed=r)
        bets.settle(exceeds(examples, r, 0.1, bets.levels))
        assert watch.recent == bets.recent[0]
        found.append(watch.recent)
    good, bad = stats.binom.pmf(missed, examples, 0.1) @ found, found[-1]
    assert 0.9 * good + 0.1 * bad <= 1 < 0.8 * good + 0.2 * bad  # the second breaks the guarantee


def test_good_times_are_not_held_against_the_amber_light() -> None:
    """It comes on as soon after 300 good tasks as at the beginning; the alarm does not."""
    for good, expected in ((0, 4), (10, 3), (300, 3)):  # a little sooner: bettors are waiting
        watch, tasks = Watch(0.1, 0.1, 0.01), 0
        for _ in range(good):
            watch.add(examples=143, missed=7)
        while not reaches(watch.recent, RUN_LENGTH):
            watch.add(examples=143, missed=30)
            tasks += 1
        assert tasks == expected
        assert reaches(watch.wealth, 100) == (good == 0)
        wealth = watch.wealth
        watch.restart()
        assert (watch.recent, watch.wealth) == (0, wealth)


def test_the_tasks_to_a_light_are_foretold() -> None:
    rng = np.random.default_rng(4)
    for good, examples in ((0, 60), (100, 60), (50, 143)):
        seen: Any = {"tasks": [], "amber_tasks": []}
        for run in range(40):
            watch = Watch(0.1, 0.1, 0.01)
            for _ in range(good):
                watch.add(examples=examples, missed=examples // 20)
            if not run:
                power = watch.find_power([examples] * 3)
                assert power == watch.find_power([examples] * 3)  # nothing is spent
            lights: dict[str, int] = {}
            for task in itertools.count(1):
                watch.add(examples=examples, missed=int(rng.binomial(examples, 0.2)))
                if reaches(watch.wealth, 100):
                    lights.setdefault("tasks", task)
                if reaches(watch.recent, RUN_LENGTH):
                    lights.setdefault("amber_tasks", task)
                if len(lights) == 2:
                    break
            for name, task in lights.items():
                seen[name].append(task)
        for name, found in seen.items():
            assert getattr(power, name) == pytest.approx(np.median(found), rel=0.35, abs=2), name
    small = Watch(0.1, 0.1, 0.01).find_power([1])
    assert (small.tasks, small.amber_tasks) == (None, None)


# Scores without labels: the statistic by slow loops, its warnings, natural differences.


def draw(rng: Any, tasks: int, examples: int, *, shift: float = 0.0, spread: float = 0.5) -> Any:
    """Return scores of tasks that differ by nature, and the tasks."""
    means = rng.normal(shift, spread, tasks)
    names = np.repeat([f"{shift} {i:03d}" for i in range(tasks)], examples)
    return np.repeat(means, examples) + rng.normal(size=tasks * examples), names


def compare(rng: Any, *, shift: float = 0.0, examples: int = 50, new: int = 20) -> Drift:
    known, sites = draw(rng, 40, 60)
    scores, tasks = draw(rng, new, examples, shift=shift)
    return compare_scores(scores, tasks, reference=known, reference_tasks=sites)


def share_won(some: Any, others: Any) -> float:
    """Return the share of pairs in which the first has the higher score, pair by pair."""
    pairs = [(x, y) for x in some.tolist() for y in others.tolist()]
    return float(np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x, y in pairs]))


def test_the_statistic_counts_pairs() -> None:
    rng = np.random.default_rng(0)
    known, sites = np.round(draw(rng, 20, 7)[0], 1), np.repeat(np.arange(20), 7)  # with ties
    scores, tasks = np.round(draw(rng, 3, 5)[0], 1), np.repeat(["a", "b", "c"], 5)
    drift = compare_scores(scores, tasks, reference=known, reference_tasks=sites)
    higher = np.array([share_won(scores[tasks == name], known) for name in "abc"])
    assert [shift.higher for shift in drift.shifts] == pytest.approx(higher)
    assert drift.higher == pytest.approx(higher.mean())
    # A calibration task is compared with all others, not with itself.
    among = [share_won(known[sites == site], known[sites != site]) for site in range(20)]
    gaps = np.array(among) - np.mean(among)
    one = np.mean([(share_won(np.array([x]), known) - 0.5) ** 2 for x in known])
    between = max(0.0, (np.mean(gaps**2) - one / 7) / (1 - 1 / 7))
    usual = gaps / math.sqrt(between + (one - between) / 7)
    found = (higher - np.mean(among)) / math.sqrt(between + (one - between) / 5)
    for shift, own in zip(drift.shifts, np.abs(found), strict=True):
        rank = (1 + np.sum(np.abs(usual) >= own)) / 21
        assert shift.p_value == pytest.approx(max(rank, 2 * stats.norm.sf(own)))
        assert shift.examples == 5
    variance = (between + (one - between) / 5) / 3 + (between + (one - between) / 7) / 20
    gap = abs(higher.mean() - np.mean(among)) / math.sqrt(variance)
    by_rank = stats.mannwhitneyu(found, usual).pvalue
    assert drift.p_common == pytest.approx(max(by_rank, 2 * stats.t.sf(gap, 19)))


# Numbers of calibration and of new tasks, and of examples in each.
SIZES = [(60, 3, 100, 5), (19, 100, 20, 20), (60, 20, 10, 100), (60, 100, 100, 5), (19, 5, 50, 20)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", ["equal", "normal", "outliers", "coarse"])
def test_warnings_without_a_change(sizes: tuple[int, int, int, int], kind: str) -> None:
    known, new, examples, fewer = sizes
    rng, runs = np.random.default_rng(6), 40
    task = np.repeat(np.arange(known + new), np.repeat([examples, fewer], [known, new]))
    warnings = 0
    for _ in range(runs):
        means = rng.normal(0, 0.0 if kind == "equal" else 0.3, known + new)
        if kind in ("outliers", "coarse"):
            means += np.where(rng.random(known + new) < 0.08, 2.5, 0.0)
        scores = means[task] + rng.normal(size=len(task))
        scores = (scores > 1.5).astype(float) if kind == "coarse" else scores
        old = task < known
        parts = [
            Pool(names, task[rows] - names[0], scores[rows], np.ones(rows.sum(), np.int64))
            for names, rows in ((np.arange(known, known + new), ~old), (np.arange(known), old))
        ]
        warnings += compare_pools(*parts).is_suspicious
    assert warnings <= stats.binom.ppf(1 - oracles.FALSE_ALARM, runs, 0.01)


def test_the_simulation_notices_a_test_that_ignores_sizes() -> None:
    """Negative control: Student's test of ``higher`` warns too often without a change."""
    rng, runs = np.random.default_rng(7), 60
    wrong = 0
    for _ in range(runs):
        known = rng.random((60, 500))
        new = rng.random((3, 5))
        wrong += stats.ttest_ind(new.mean(axis=1), known.mean(axis=1)).pvalue <= 0.005
    assert wrong > stats.binom.ppf(1 - oracles.FALSE_ALARM, runs, 0.01)


@pytest.mark.parametrize(("known", "new"), [(19, 2), (39, 2), (20, 3)])
def test_the_number_of_unusual_tasks_by_enumeration(known: int, new: int) -> None:
    """All places of the new tasks among all tasks are equally probable."""
    rarest, total = (known + 1) // 20, known + new
    numbers = []
    for places in itertools.combinations(range(total), new):
        old = [place for place in range(total) if place not in places]
        numbers.append(sum(sum(o > place for o in old) < rarest for place in places))
    for number in range(new + 1):
        p_values = [0.01] * number + [0.9] * (new - number)
        shifts = tuple(Shift(str(i), 9, 0.5, p) for i, p in enumerate(p_values))
        drift = Drift(shifts, known, 1.0)
        assert drift.p_number == pytest.approx(np.mean(np.array(numbers) >= number))
    assert drift.expected == pytest.approx(np.mean(numbers))


def test_a_common_shift_is_found() -> None:
    rng = np.random.default_rng(3)
    for shift in (-1.0, 1.0):
        found = [compare(rng, shift=shift) for _ in range(20)]
        assert all(drift.is_suspicious for drift in found)
        assert all((drift.higher > 0.5) == (shift > 0) for drift in found)
    known, sites = draw(rng, 40, 60)
    scores, tasks = draw(rng, 20, 60)
    scores[:360] = np.repeat([9, -9, 9, -9, 9, -9], 60)  # a few strange tasks
    drift = compare_scores(scores, tasks, reference=known, reference_tasks=sites)
    assert {shift.task for shift in drift.unusual} >= {*tasks[:360]}
    assert drift.is_suspicious
    assert drift.p_common > 0.01


def test_a_single_task_is_never_suspicious() -> None:
    rng = np.random.default_rng(8)
    known, sites = draw(rng, 400, 20)
    drift = compare_scores([99.0] * 50, ["a"] * 50, reference=known, reference_tasks=sites)
    assert drift.shifts[0].is_unusual
    assert math.isnan(drift.p_common)
    assert not drift.is_suspicious


def test_bad_input() -> None:
    options: Any = {"reference": np.arange(190.0), "reference_tasks": np.repeat(np.arange(19), 10)}
    assert len(compare_scores([1.0], ["a"], **options).shifts) == 1
    few: Any = {name: values[:180] for name, values in options.items()}
    assert_refused("reference 19 18", compare_scores, [1.0], ["a"], **few)
    assert_refused("scores", compare_scores, [], [], **options)
    assert_refused("scores NaN", compare_scores, [np.nan], ["a"], **options)
    assert_refused("scores tasks length", compare_scores, [1.0, 2.0], ["a"], **options)
    assert_refused("tasks missing", compare_scores, [1.0], [None], **options)
