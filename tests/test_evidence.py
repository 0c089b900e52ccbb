"""The method: scores grouped by task, two steps, one inequality, and the evidence between them."""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee, InvalidInput, MetaPS, Scored, grouping, load
from metapac._common import ignore_progress
from metapac.binomial import allowed_errors_in_task, chance_of_next
from metapac.evidence import UNKNOWN, randomise_thresholds, ranks_within
from metapac.grouping import group, task_thresholds
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import joint_ranks
from tests.helpers import oracles
from tests.helpers.calibrations import collect_evidence
from tests.helpers.enumeration import chance_of_few, make_ups, misses_of

rows = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["a", "b", "c"]),
        st.floats(allow_nan=False, width=32) | st.sampled_from([0.0, 1.0]),
    ),
    min_size=1,
    max_size=60,
)


@given(data=rows, levels=st.integers(1, 4), seed=st.integers(0, 9))
def test_any_ranks_of_any_groups(data: list[Any], levels: int, seed: int) -> None:
    tasks = [task for task, _, _ in data]
    grouped = group([score for _, _, score in data], tasks)
    rng = np.random.default_rng(seed)
    ranks = rng.integers(-1, grouped.sizes[:, None], (len(grouped.sizes), levels))
    result, lowest, highest, _ = task_thresholds(grouped, ranks)
    for i, name in enumerate(grouped.names.tolist()):
        scores_of_task = sorted(score for task, _, score in data if task == name)
        assert (lowest[i], highest[i]) == (scores_of_task[0], scores_of_task[-1])
        assert result[i].tolist() == [
            scores_of_task[rank] if rank >= 0 else -np.inf for rank in ranks[i]
        ]


@given(data=rows)
def test_groups_by_class(data: list[Any]) -> None:
    tasks, labels, scores = (list(column) for column in zip(*data, strict=True))
    found = Scored(scores, tasks, labels).order_statistics(
        lambda sizes, label: sizes[:, None] // 2, by_class=True, progress=ignore_progress
    )
    assert found.names.tolist() == list(dict.fromkeys(tasks))
    assert found.label is not None
    classes = np.array(sorted(set(labels)))[found.label].tolist()
    groups = list(zip(found.names[found.task], classes, strict=True))
    assert sorted(groups) == sorted(set(zip(tasks, labels, strict=True)))
    for i, group_of in enumerate(groups):
        of_group = sorted(s for t, c, s in data if (t, c) == group_of)
        assert found.sizes[i] == len(of_group)
        assert found.thresholds[i] == of_group[len(of_group) // 2]
        assert (found.low[i], found.high[i]) == (of_group[0], of_group[-1])


def test_each_task_is_counted_at_its_own_threshold() -> None:
    data = Scored([0.1, 0.4, 0.6, 0.9], ["b", "b", "a", "a"])
    cuts, names = np.array([[[0.2], [0.95]]]), np.array(["b", "a"], dtype=object)
    (tally,) = data.counts(cuts, np.dtype("f8"), names)
    assert dict(zip(tally.names[tally.task], tally.missed, strict=True)) == {"b": 1, "a": 2}


def test_groups_of_one_size_are_selected_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 12, 300)
    scores = rng.normal(size=sizes.sum())
    grouped = group(scores, np.repeat(np.arange(300), sizes))
    ranks = np.stack([np.minimum(1, sizes - 1), np.where(sizes > 4, 3, -1)], axis=1)
    whole = task_thresholds(grouped, ranks)
    monkeypatch.setattr(grouping, "_BLOCK", 20)
    for one, other in zip(whole, task_thresholds(grouped, ranks), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", ["calibrated", "wide"])
def test_ranks_of_large_groups(dtype: Any, spread: str) -> None:
    """NumPy's selection sorts small rows wholly, so only large ones show what it leaves unsorted.

    How large depends on the processor: about 20,000 scores if ranks lie close together, as those
    of a calibration do, and fewer if they are wide apart.
    """
    rng, sizes = np.random.default_rng(0), np.array([20_000, 20_000, 20_001, 50_000])
    scores = rng.normal(size=sizes.sum()).astype(dtype)
    grouped = group(scores, np.repeat(np.arange(4), sizes))
    ranks = np.sort(rng.integers(0, sizes[:, None], (4, 13)), axis=1)
    if spread == "calibrated":
        ranks = np.stack([allowed_errors_in_task(sizes, 0.1, t) for t in JOINT_LEVELS], axis=1)
    result, lowest, highest, _ = task_thresholds(grouped, ranks)
    for i, part in enumerate(np.split(scores, np.cumsum(sizes)[:-1])):
        ordered = np.sort(part)
        assert (lowest[i], highest[i]) == (ordered[0], ordered[-1])
        np.testing.assert_array_equal(result[i], ordered[ranks[i]])


def test_scores_that_repeat_within_a_group_are_noticed() -> None:
    scores = np.random.default_rng(0).random((40, 2000))
    ranks = np.tile([100, 400], (40, 1))

    def may_repeat(rows: Any, which: Any = ranks) -> bool:
        return task_thresholds(group(rows.ravel(), np.repeat(np.arange(40), 2000)), which)[3]

    assert not may_repeat(scores)
    assert may_repeat(np.concatenate([scores[:, :1000]] * 2, axis=1))
    assert may_repeat(scores.round(3))
    assert may_repeat(scores, ranks[:, :1])  # a single rank shows nothing


def test_a_task_may_come_in_several_runs() -> None:
    tasks = np.repeat(["b", "a", "b", "c"], [40, 30, 20, 50])
    grouped = group(np.arange(140.0), tasks)
    assert grouped.names.tolist() == ["b", "a", "c"]
    assert grouped.sizes.tolist() == [60, 30, 50]
    assert grouped.scores.tolist() == [*range(40), *range(70, 90), *range(40, 70), *range(90, 140)]


def test_a_missing_score_is_found_in_its_task() -> None:
    scores = np.arange(12.0)
    for place, name in ((0, "a"), (2, "a"), (3, "b"), (7, "b"), (8, "c"), (11, "c")):
        bad = np.where(np.arange(12) == place, np.nan, scores)
        with pytest.raises(InvalidInput, match=f"in task '{name}'"):
            group(bad, np.repeat(["a", "b", "c"], [3, 5, 4])).check_no_nan()


def misses(sizes: list[int], chances: list[float]) -> np.ndarray:
    """Return the distribution of the misses of a task, given examples and miss rate per class."""
    result = np.ones(1)
    for n, p in zip(sizes, chances, strict=True):
        result = np.convolve(result, stats.binom.pmf(np.arange(n + 1), n, p))
    return result


def chance_of_one(
    mass: np.ndarray, within: list[int], g: Guarantee, tasks: int, bad: float
) -> float:
    """Return the failure probability on tasks that are good, or bad with these misses.

    ``within`` is how many of them a task may have, at each level.
    """
    may_be_low: dict[int, int] = {}
    for misses_allowed, rank in zip(within, g.allowed_low_thresholds(tasks), strict=True):
        if misses_allowed >= 0:
            may_be_low[misses_allowed] = max(rank, may_be_low.get(misses_allowed, -1))
    shares = [bad * float(mass[k + 1 :].sum()) for k in sorted(may_be_low)]
    kept = [may_be_low[k] for k in sorted(may_be_low)]
    return oracles.grown_union_probability(tasks, shares, kept)


# Small tasks: every level together, at every make-up.
def of_make_ups(n: int, epsilon: float) -> list[np.ndarray]:
    """Return the chances of 0, ..., n misses at each extreme make-up."""
    kinds = make_ups(n, n * Fraction(str(epsilon)))
    return [np.array(misses_of(n, one, same, float(share))) for one, same, share in kinds]


SMALL = [(0.1, 0.1, 0.05, 120), (0.2, 0.2, 0.05, 60), (0.3, 0.1, 0.1, 300)]


@pytest.mark.parametrize(("epsilon", "alpha", "delta", "tasks"), SMALL)
def test_small_tasks_of_any_make_up(epsilon: float, alpha: float, delta: float, tasks: int) -> None:
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta)
    worst = {}
    for n in (1, 2, 3, 5, 8, 11, 17, 25):
        within = ranks_within(np.array([n]), g)[0].tolist()
        chances = [
            chance_of_one(mass, within, g, tasks, bad=alpha) for mass in of_make_ups(n, epsilon)
        ]
        worst[n] = max(chances)
        assert worst[n] <= delta
    assert max(worst.values()) > delta / 5  # little is given away
    # Some cases of few, without replacement: a sum of independent misses too.
    for cases, drawn in ((19, 19), (19, 7), (50, 25), (40, 3)):
        low = math.ceil(cases * Fraction(str(epsilon)))
        mass = stats.hypergeom.pmf(np.arange(drawn + 1), cases, low, drawn)
        within = ranks_within(np.array([drawn]), g)[0].tolist()
        assert chance_of_one(mass, within, g, tasks, bad=alpha) <= delta


def test_the_binomial_rule_fails_on_tasks_that_are_not_iid() -> None:
    def chance(mass: np.ndarray, share: float, tasks: int) -> float:
        g = Guarantee(epsilon=share, alpha=share, delta=0.05, sampling="iid")
        within = ranks_within(np.array([len(mass) - 1]), g)[0].tolist()
        return chance_of_one(mass, within, g, tasks, bad=share)

    for n, epsilon in ((5, 0.2), (11, 0.1), (25, 0.1)):  # what it is for
        iid = stats.binom.pmf(np.arange(n + 1), n, epsilon)
        assert chance(iid, epsilon, 120) <= 0.05
    # All 19 cases of each task, 2 of them low; all 9, 2 of them low.
    assert chance(np.eye(20)[2], 0.1, 300) == pytest.approx(1)
    assert chance(np.eye(10)[2], 0.2, 120) == pytest.approx(1)
    # Balanced: one class is never missed.
    assert chance(misses([5, 5], [0.6, 0.0]), 0.3, 300) > 3 * 0.05
    assert chance(misses([8, 16], [0.9, 0.0]), 0.3, 300) > 0.9


# Randomised ranks. Given its place, a task reaches a level (its threshold there is too low) with a
# chance that is a number; tasks are independent.
def chances_to_reach(
    g: Guarantee, mass: np.ndarray, places: np.ndarray, tasks: int, bad: float
) -> list[np.ndarray]:
    """Return the chance that a task with these misses reaches each level, by place."""
    n, levels = len(mass) - 1, [level.alpha_within for level in g.levels]
    low, high = np.hsplit(ranks_within(np.array([n]), g)[0], 2)
    limits = np.array(
        [
            chance_of_next(n, g.miss_rate, level, rank, is_iid=g.sampling == "iid")
            for level, rank in zip(levels, low.tolist(), strict=True)
        ]
    )
    above = np.r_[1.0, 1 - np.cumsum(mass)]  # P(misses > k), from k = -1 on
    return [bad * above[np.where(v <= limits, high, low) + 1] for v in places / tasks]


def failing(g: Guarantee, mass: np.ndarray, tasks: int, places: np.ndarray | None = None) -> float:
    places = np.arange(1, tasks + 1) if places is None else places
    reach = chances_to_reach(g, mass, places, tasks, g.alpha)
    return chance_of_few(reach, g.allowed_low_thresholds(tasks))


RANDOMISED = [(0.1, 0.1, 0.05, 60, 25), (0.1, 0.1, 0.05, 60, 11), (0.1, 0.2, 0.1, 30, 11)]


@pytest.mark.parametrize(("epsilon", "alpha", "delta", "tasks", "n"), RANDOMISED)
def test_randomised_ranks(epsilon: float, alpha: float, delta: float, tasks: int, n: int) -> None:
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, randomise=0, sampling="iid")
    iid = stats.binom.pmf(np.arange(n + 1), n, epsilon)
    assert 0.85 * delta < failing(g, iid, tasks) <= delta
    whatever = replace(g, sampling="any")
    worst = [failing(whatever, mass, tasks) for mass in of_make_ups(n, epsilon)]
    assert max(worst) <= delta
    # Controls: hashes of the names 0, 1, 2, ... instead of places in their order; the lowest of
    # all places for every task.
    names = [hashlib.sha256(str(i).encode()).digest()[:8] for i in range(tasks)]
    hashes = np.array([int.from_bytes(name) for name in names]) / 2**64
    assert failing(g, iid, tasks, hashes * tasks) > delta
    assert failing(g, iid, tasks, np.ones(tasks)) > 1.5 * delta
    if (delta, n) == (0.05, 25):  # and the middle of a tie, which is no p-value
        assert failing(g, iid, tasks, np.full(tasks, tasks / 2)) > 0.06


def test_randomised_ranks_with_a_large_delta() -> None:
    # Two tasks, nearly all bad, of one example: Hoeffding's inequality does not reach rank 1.
    g = Guarantee(epsilon=0.041, alpha=0.827, delta=0.943, randomise=0, sampling="iid")
    reach = chances_to_reach(g, np.array([0.959, 0.041]), np.array([1, 2]), 2, g.alpha)
    free = joint_ranks(2, g.levels, 0.943)
    assert chance_of_few(reach, free) > 0.95
    assert chance_of_few(reach, g.allowed_low_thresholds(2)) <= 0.943
    assert max(free) == 1
    for alpha, delta in ((0.1, 0.05), (0.5, 0.3)):  # no rank is lost here
        g = Guarantee(epsilon=0.1, alpha=alpha, delta=delta, randomise=0)
        for tasks in (5, 30, 60, 199):
            assert g.allowed_low_thresholds(tasks) == joint_ranks(tasks, g.levels, delta)


@pytest.mark.parametrize(("alpha", "tasks"), [(0.3, 5), (0.5, 6), (0.25, 8)])
def test_randomised_ranks_in_expectation(alpha: float, tasks: int) -> None:
    # Of the calibration tasks, 0, 1, ... or all are bad before the new one is, and any of them.
    for n, epsilon in ((1, 0.2), (3, 0.3), (11, 0.1)):
        g = Guarantee(epsilon=epsilon, alpha=alpha, delta=None, randomise=0)
        ranks = g.allowed_low_thresholds(tasks)
        for mass in of_make_ups(n, epsilon):
            reach = chances_to_reach(g, mass, np.arange(1, tasks + 1), tasks, 1.0)
            failure = sum(
                chance_of_few(drawn, ranks) / math.comb(tasks, bad)
                for bad in range(tasks + 1)
                for drawn in itertools.combinations(reach, bad)
            )
            assert failure / (tasks + 1) <= alpha


@pytest.mark.parametrize("sampling", ["any", "iid"])
def test_the_threshold_of_a_randomised_rank(sampling: str) -> None:
    g = Guarantee(epsilon=0.2, alpha=0.3, delta=0.1, randomise=7, sampling=sampling)
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 12, 37)
    names = [f"school {i}" for i in range(37)]
    scores = [np.sort(rng.random(n)) for n in sizes]
    ranks = ranks_within(sizes, g)
    padded = np.array([np.r_[row, -math.inf] for row in map(list, scores)], dtype=object)
    thresholds = np.array([row[k] for row, k in zip(padded, ranks, strict=True)], dtype=float)
    found = randomise_thresholds(names, sizes, thresholds, g)
    # The largest k < n with P(misses < k) + V P(misses = k) at most the level, as fractions.
    digests = {hashlib.sha256(f"metapac randomise 7\n{x}".encode()).digest(): x for x in names}
    order = [digests[digest] for digest in sorted(digests)]
    for i, name in enumerate(names):
        v, n = Fraction(order.index(name) + 1, 37), int(sizes[i])
        alike = [(0, n, Fraction(0.2))]
        kinds = alike if sampling == "iid" else make_ups(n, n * Fraction(1, 5))
        masses = [misses_of(n, *kind) for kind in kinds]
        worst = [max(sum(m[:k]) + v * m[k] for m in masses) for k in range(n)]
        for j, level in enumerate(g.levels):
            allowed = [k for k, x in enumerate(worst) if x <= Fraction(level.alpha_within)]
            assert found[i, j] == (scores[i][max(allowed)] if allowed else -math.inf)
    # Names decide, not the order of the tasks; another seed is another order.
    back = randomise_thresholds(names[::-1], sizes[::-1], thresholds[::-1], g)
    np.testing.assert_array_equal(back[::-1], found)
    other = randomise_thresholds(names, sizes, thresholds, replace(g, randomise=8))
    assert (other != found).any()
    assert randomise_thresholds([], sizes[:0], thresholds[:0], g).shape == (0, len(g.levels))


# The second step: thresholds that make a guarantee uninformative are reported.
LOOSE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


def tied_at(bottom: float, bad: int, tasks: int = 40, n: int = 60) -> tuple[Any, Any]:
    """Return scores above 1, except that some tasks have a third of theirs at ``bottom``."""
    scores = 1 + np.random.default_rng(0).random((tasks, n))
    scores[:bad, : n // 3] = bottom
    return scores.ravel(), np.repeat(np.arange(tasks), n)


@pytest.mark.parametrize("bottom", [0.0, 0.25, -3.0])
@pytest.mark.parametrize("split", ["joint", "tight"])
def test_a_shared_lowest_score_is_reported(tmp_path: Path, bottom: float, split: str) -> None:
    scores, tasks = tied_at(bottom, bad=12)
    small = np.full(30, bottom), np.arange(100, 130)  # tasks that are left out are not counted
    method = MetaPS(**LOOSE, split=split, min_examples=2)
    with pytest.warns(UserWarning, match=r"in 12 of 40 tasks \(30%\) more") as warned:
        method.calibrate(np.r_[scores, small[0]], np.r_[tasks, small[1]])
    assert method.remarks_ == [str(warning.message) for warning in warned]
    assert warned[0].filename == __file__
    assert repr(bottom) in method.remarks_[0]
    assert method.threshold_ == bottom
    assert method.promise_.endswith(method.remarks_[0])
    method.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").promise_ == method.promise_  # and no second warning
    sent = [method.task_threshold(scores[tasks == i]) for i in range(40)]
    if bottom == 0:
        with pytest.warns(UserWarning, match="in 12 of 40 tasks"):
            method.combine(sent, sizes=[60] * 40)
    else:
        assert method.combine(sent, sizes=[60] * 40).remarks_ == []  # only 0 is known to be lowest
    if bottom == 0.25:  # one lower score, in a new task
        with pytest.warns(UserWarning, match="The threshold 0.25 is the lowest"):
            method.calibrate(scores, tasks)
        assert method.add(np.r_[0.125, np.full(59, 2.0)], [-1] * 60).remarks_ == []
        assert method.threshold_ == bottom


def test_few_bad_tasks_matter_only_if_their_threshold_is_the_result() -> None:
    result = MetaPS(**LOOSE).calibrate(*tied_at(0.0, bad=3))
    assert result.threshold_ > 1
    assert result.remarks_ == []
    # The lowest of 8 thresholds is the answer, and it is 0.
    with pytest.warns(UserWarning, match=r"in 1 of 8 tasks \(12%\) more true labels"):
        MetaPS(**LOOSE).calibrate(*tied_at(0.0, bad=1, tasks=8))
    with pytest.warns(UserWarning, match="Every label is kept, so the guarantee holds trivially"):
        assert MetaPS(**LOOSE).calibrate(*tied_at(-math.inf, bad=12)).threshold_ == -math.inf
    # A model that is never wrong: every true label has the same score, and others score lower.
    for top in (1.0, 1 - 2**-24, math.inf, -0.5):
        right = MetaPS(**LOOSE).calibrate(np.full(40 * 60, top), np.repeat(np.arange(40), 60))
        assert (right.threshold_, right.remarks_) == (top, [])


@pytest.mark.parametrize("split", ["joint", "tight", 0.5])
def test_the_lowest_of_continuous_scores_is_not_reported(split: str | float) -> None:
    # The fewest tasks with the fewest examples: the lowest score of all. At
    # delta = .172 the joint split can use its lowest level only: .703 ** 5 = .1717.
    g = Guarantee(**LOOSE | {"delta": 0.172}, split=split)
    tasks, n = {"joint": (5, 21), "tight": (6, 9), 0.5: (11, 4)}[split]
    scores = np.random.default_rng(0).normal(size=(tasks, n))
    assert max(g.allowed_low_thresholds(tasks)) == 0
    result = MetaPS(**LOOSE | {"delta": 0.172}, split=split)
    result.calibrate(scores.ravel(), np.repeat(np.arange(tasks), n))
    assert result.threshold_ == scores.min()
    assert result.remarks_ == []


def test_unknown_sizes_are_inferred_from_thresholds() -> None:
    g = Guarantee(**LOOSE, split="tight")
    (part,) = collect_evidence(g, np.ones(240), np.repeat(np.arange(4), 60)).parts(g)
    part = part._replace(sizes=np.array([UNKNOWN, 60, UNKNOWN, 60]))
    part.thresholds[2] = -math.inf  # too small for the only level, as far as can be seen
    demand = part.demand()
    sizes = dict(zip(demand.sizes.tolist(), demand.counts.tolist(), strict=True))
    assert sizes == {0: 1, 9: 1, 60: 2}  # 0.8 ** 9 is below 0.15, the level within tasks


# Tasks left out by their size.
@pytest.mark.parametrize("split", ["joint", 0.4])
@pytest.mark.parametrize("minimum", [1, 40])
def test_tasks_are_left_out_by_size_alone(tmp_path: Path, split: Any, minimum: int) -> None:
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 81, 60)
    tasks = generator.permutation(np.repeat(np.arange(60), sizes))
    scores, keep = generator.normal(size=sizes.sum()), sizes[tasks] >= minimum
    asked = LOOSE | {"split": split, "on_infeasible": "trivial"}
    result = MetaPS(**asked, min_examples=minimum).calibrate(scores, tasks)
    alone = MetaPS(**asked).calibrate(scores[keep], tasks[keep])
    assert (result.threshold_, result.level_) == (alone.threshold_, alone.level_)
    assert sorted(result.tasks_.tolist()) == sorted(alone.tasks_.tolist())
    assert result.task_sizes_.min() >= minimum
    assert len(result.task_sizes_) == len(result.task_thresholds_) == len(result.tasks_)
    assert result.left_out_ == (sizes < minimum).sum()
    result.save(tmp_path / "promise.json")
    again = load(tmp_path / "promise.json")
    assert (again.promise_, again.left_out_) == (result.promise_, result.left_out_)
    more, new = generator.normal(size=100), np.repeat([100, 101], [minimum, 100 - minimum])
    again.add(more, new)
    whole = MetaPS(**asked, min_examples=minimum).calibrate(np.r_[scores, more], np.r_[tasks, new])
    assert (again.threshold_, again.left_out_) == (whole.threshold_, whole.left_out_)
    assert again.tasks_.tolist() == whole.tasks_.tolist()
