"""The method: two steps, one inequality, and the evidence between them."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee, InfeasibleGuarantee, InvalidInput, MetaPS, allowed_errors, load
from metapac.evidence import (
    UNKNOWN,
    Evidence,
    decode_evidence,
    encode_evidence,
    join_evidence,
    ranks_within,
    with_classes,
)
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level
from tests.helpers import oracles
from tests.helpers.calibrations import collect_evidence

# Ranks within tasks, and the cap that lets them hold for balanced tasks.


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 45), min_size=1, max_size=6),
    epsilon=st.sampled_from([0.05, 0.1, 0.3, 0.7]),
)
def test_ranks_within_tasks(sizes: list[int], epsilon: float) -> None:
    g = Guarantee(epsilon=epsilon, alpha=0.1, delta=0.1)
    expected = [
        [oracles.allowed_errors_in_task(n, epsilon, level) if n else -1 for level in JOINT_LEVELS]
        for n in sizes
    ]
    assert ranks_within(np.array(sizes), g).tolist() == expected


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
    return oracles.grown_union_probability(
        tasks, shares, [may_be_low[k] for k in sorted(may_be_low)]
    )


@settings(max_examples=100)
@given(
    first=st.integers(1, 60),
    second=st.integers(1, 60),
    epsilon=st.sampled_from([0.05, 0.1, 0.2, 0.35]),
    share=st.integers(0, 100).map(lambda percent: Fraction(percent, 100)),
    tasks=st.integers(20, 300),
    split=st.sampled_from(["joint", "tight", 0.5]),
)
def test_balanced_tasks_violate_no_guarantee(
    first: int, second: int, epsilon: float, share: Fraction, tasks: int, split: str | float
) -> None:
    # The worst task has n * epsilon expected misses in all, divided between its two classes in any
    # way. Their number is then not binomial.
    total = (first + second) * (Fraction(epsilon) + Fraction(1, 10**9))
    of_first = min(Fraction(first), max(total - second, share * total))
    chances = [float(of_first / first), float((total - of_first) / second)]
    mass = misses([first, second], chances)
    g = Guarantee(epsilon=epsilon, alpha=0.2, delta=0.05, split=split)
    within = ranks_within(np.array([first + second]), g)[0].tolist()
    for k, level in zip(within, g.levels, strict=True):
        assert mass[: k + 1].sum() <= level.alpha_within * (1 + 1e-9)
    assert chance_of_one(mass, within, g, tasks, bad=0.2 + 1e-9) <= 0.05 * (1 + 1e-9)


def test_without_the_cap_balanced_tasks_violate_it() -> None:
    # 15 + 15 examples; one class is missed with probability 0.2, the other never.
    mass = misses([15, 15], [0.2, 0.0])
    tasks, level = 3000, Level(0.825, 0.1 * (1 - 0.825))
    with mock.patch.object(Guarantee, "levels", (level,)):
        g = Guarantee(
            epsilon=0.1, alpha=0.1, delta=1e-5, split="tight"
        )  # no split allows levels above 1/2, so the level is replaced
        capped = ranks_within(np.array([30]), g)[0].tolist()
        assert mass[: capped[0] + 1].sum() <= 0.825
        assert chance_of_one(mass, capped, g, tasks, bad=0.1) < 1e-5
        uncapped = [allowed_errors(30, 0.1, 0.825)]
        assert (capped, uncapped) == ([2], [4])
        assert mass[: uncapped[0] + 1].sum() > 0.825
        assert chance_of_one(mass, uncapped, g, tasks, bad=0.1) > 4e-5


def test_calibration_uses_the_cap() -> None:
    # 39 examples at .1: at level 1/2 three misses would be allowed, and 4 <= 3.9 is false.
    assert allowed_errors(39, 0.1, 0.5) == 3
    scores = np.arange(40.0 * 39).reshape(40, 39)
    result = MetaPS(epsilon=0.1, alpha=0.3, delta=0.1, split=0.5)
    result.calibrate(scores.ravel(), np.repeat(np.arange(40), 39))
    assert result.task_thresholds_.tolist() == scores[:, 2].tolist()


def test_each_class_has_its_own_miss_rate() -> None:
    rates = {"a": 0.1, "b": 0.3}
    g = Guarantee(epsilon=rates, alpha=0.1, delta=0.1, per_class=True)
    sizes, label = np.array([30, 90, 30, 0]), np.array([0, 1, 1, 0])
    expected = [
        [
            oracles.allowed_errors_in_task(n, rates["ab"[i]], level) if n else -1
            for level in JOINT_LEVELS
        ]
        for n, i in zip(sizes.tolist(), label.tolist(), strict=True)
    ]
    assert ranks_within(sizes, g, ("a", "b"), label).tolist() == expected


# The first step, against a loop over tasks and classes.


LOOSE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


def collect_slowly(
    g: Guarantee, scores: Any, tasks: Any, labels: Any, classes: tuple[str, ...]
) -> Evidence:
    """Return the evidence of each class, one task after the other."""
    names = np.array(list(dict.fromkeys(tasks.tolist())))
    groups = [[scores[(tasks == t) & (labels == c)] for c in classes] for t in names]
    sizes = np.array([[len(group) for group in row] for row in groups])
    thresholds = np.full((*sizes.shape, len(g.levels)), -np.inf)
    for (task, index), size in np.ndenumerate(sizes):
        one = g.for_class(classes[index], classes) if g.per_class else g
        for level, rank in enumerate(ranks_within(np.array([size]), one)[0]):
            if rank >= 0:
                thresholds[task, index, level] = sorted(groups[task][index])[rank]
    of_class = [scores[labels == c] for c in classes]
    lowest = np.array([group.min() for group in of_class])
    highest = np.array([group.max() for group in of_class])
    return Evidence(names, sizes, thresholds, lowest, scores.dtype, classes, highest=highest)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    split=st.sampled_from(["joint", "tight", 0.4]),
    per_class=st.booleans(),
)
def test_evidence_is_that_of_a_loop(seed: int, split: str | float, per_class: bool) -> None:
    rng = np.random.default_rng(seed)
    scores, tasks = rng.normal(size=300), rng.integers(0, 8, 300)
    labels = rng.choice(["a", "b", "c"], 300, p=[0.05, 0.25, 0.7])
    labels[:3] = ["a", "b", "c"]
    g = Guarantee(**LOOSE, split=split, per_class=per_class)
    if per_class:
        found = collect_evidence(g, scores, tasks, labels)
        expected = collect_slowly(g, scores, tasks, labels, ("a", "b", "c"))
    else:
        found = collect_evidence(g, scores, tasks)
        expected = collect_slowly(g, scores, tasks, np.full(300, "all"), ("all",))
    assert found.classes == (expected.classes if per_class else None)
    assert found.precision == np.float64
    for name in ("names", "sizes", "thresholds", "lowest", "highest"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


def test_levels_and_thresholds_ascend() -> None:
    scores, tasks = np.random.default_rng(0).normal(size=40 * 200), np.repeat(np.arange(40), 200)
    sent = [MetaPS(**LOOSE).task_threshold(scores[tasks == i]) for i in range(40)]
    assert all(a <= b for each in sent for a, b in pairwise(each.tolist()))


# The second step: thresholds that make a guarantee uninformative are reported.


def tied_at(bottom: float, bad: int, tasks: int = 40, n: int = 60) -> tuple[Any, Any]:
    """Return scores above 1, except that some tasks have a third of theirs at ``bottom``."""
    scores = 1 + np.random.default_rng(0).random((tasks, n))
    scores[:bad, : n // 3] = bottom
    return scores.ravel(), np.repeat(np.arange(tasks), n)


@pytest.mark.parametrize("bottom", [0.0, 0.25, -3.0])
@pytest.mark.parametrize("split", ["joint", "tight"])
def test_a_lowest_score_shared_by_tasks_is_reported(
    tmp_path: Path, bottom: float, split: str
) -> None:
    scores, tasks = tied_at(bottom, bad=12)
    method = MetaPS(**LOOSE, split=split)
    with pytest.warns(UserWarning, match="every label .* kept whatever its score") as warned:
        method.calibrate(scores, tasks)
    start = f"The threshold {bottom!r} is the lowest calibration score, so every label may be kept "
    if bottom == 0:
        start = "The threshold is 0.0, so, if scores are probabilities, every label is kept "
    remark = (
        f"{start}whatever its score, and the guarantee says little: in 12 of 40 tasks (30%) more "
        "true labels score that low than may be missed."
    )
    assert [str(warning.message) for warning in warned] == [remark]
    assert warned[0].filename == __file__
    assert method.threshold_ == bottom
    assert method.promise_.endswith(remark)
    assert method.remarks_ == [remark]
    method.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").promise_ == method.promise_  # and no second warning


def test_a_few_bad_tasks_do_not_matter() -> None:
    scores, tasks = tied_at(0.0, bad=3)
    result = MetaPS(**LOOSE).calibrate(scores, tasks)
    assert result.threshold_ > 1
    assert result.remarks_ == []


def test_a_single_task_at_probability_zero_is_reported() -> None:
    # The lowest of 8 thresholds is the answer, and it is 0.
    scores, tasks = tied_at(0.0, bad=1, tasks=8)
    with pytest.warns(UserWarning, match=r"in 1 of 8 tasks \(12%\) more true labels"):
        MetaPS(**LOOSE).calibrate(scores, tasks)


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


def test_a_clipped_score_shared_by_all_tasks_is_reported() -> None:
    scores = np.random.default_rng(0).normal(size=(60, 100))
    scores[:, :30] = -23.0  # log-probabilities, clipped
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05)
    with pytest.warns(UserWarning, match=r"-23.0 is the lowest calibration score.* 60 of 60 tasks"):
        method.calibrate(scores.ravel(), np.repeat(np.arange(60), 100), allow=("duplicates",))
    assert method.threshold_ == -23.0


@pytest.mark.parametrize("top", [1.0, 1 - 2**-24, math.inf, -0.5])
def test_a_model_that_is_never_wrong_is_not_reported(top: float) -> None:
    # Every true label has the same score, as saturated probabilities have: others score lower.
    result = MetaPS(**LOOSE).calibrate(np.full(40 * 60, top), np.repeat(np.arange(40), 60))
    assert result.threshold_ == top
    assert result.remarks_ == []


def test_minus_infinity_keeps_every_label() -> None:
    scores, tasks = tied_at(-math.inf, bad=12)
    with pytest.warns(UserWarning, match="Every label is kept, so the guarantee holds trivially"):
        result = MetaPS(**LOOSE).calibrate(scores, tasks)
    assert result.threshold_ == -math.inf


def test_a_trivial_result_that_was_requested_does_not_warn() -> None:
    result = MetaPS(**LOOSE, on_infeasible="trivial").calibrate([0.5], ["a"])
    assert result.remarks_ == ["Every label is kept, so the guarantee holds trivially."]


def test_sites_are_reported_too() -> None:
    scores, tasks = tied_at(0.0, bad=12)
    method = MetaPS(**LOOSE)
    sent = [method.task_threshold(scores[tasks == i]) for i in range(40)]
    with pytest.warns(UserWarning, match="in 12 of 40 tasks"):
        method.combine(sent, sizes=[60] * 40)


def test_the_lowest_score_is_that_of_all_tasks_added() -> None:
    scores, tasks = tied_at(0.5, bad=12)
    result = MetaPS(**LOOSE)
    with pytest.warns(UserWarning, match="The threshold 0.5 is the lowest"):
        result.calibrate(scores, tasks)
    result.add(np.r_[0.25, np.full(59, 2.0)], [-1] * 60)  # one lower score, in a new task
    assert result.threshold_ == 0.5
    assert result.remarks_ == []


def test_tasks_left_out_are_not_counted() -> None:
    scores, tasks = tied_at(0.0, bad=12)
    few = np.r_[scores, np.zeros(30)]
    names = np.r_[tasks, np.arange(100, 130)]
    with pytest.warns(UserWarning, match=r"in 12 of 40 tasks \(30%\)"):
        MetaPS(**LOOSE, min_examples=2).calibrate(few, names)


@pytest.mark.parametrize("split", ["joint", "tight"])
def test_only_sites_at_zero_are_reported(split: str) -> None:
    method = MetaPS(**LOOSE, split=split)
    zeros = np.r_[np.zeros(20), np.random.default_rng(0).random(40)]
    with pytest.warns(UserWarning, match="threshold is 0.0, so, if scores are probabilities"):
        method.combine([method.task_threshold(zeros)] * 40)
    sent = [np.r_[0.0, np.full(20, 0.1), np.ones(39)]] * 30 + [np.ones(60)] * 10
    method.combine([method.task_threshold(scores) for scores in sent])
    assert method.remarks_ == []


def test_the_outcome_takes_the_largest_threshold_over_levels() -> None:
    g = Guarantee(**LOOSE)
    scores, tasks = np.random.default_rng(0).random(40 * 60), np.repeat(np.arange(40), 60)
    (part,) = collect_evidence(g, scores, tasks).parts(g)
    outcome = part.second_step()
    ranks = g.allowed_low_thresholds(40)
    across = [
        np.sort(part.thresholds[:, level])[rank] if rank >= 0 else -math.inf
        for level, rank in enumerate(ranks)
    ]
    assert outcome.threshold == max(across)
    assert outcome.level == int(np.argmax(across))
    assert outcome.used.all()
    assert outcome.remark() == ""


def test_unknown_sizes_are_inferred_from_thresholds() -> None:
    g = Guarantee(**LOOSE, split="tight")
    (part,) = collect_evidence(g, np.ones(240), np.repeat(np.arange(4), 60)).parts(g)
    part = part._replace(sizes=np.array([UNKNOWN, 60, UNKNOWN, 60]))
    part.thresholds[2] = -math.inf  # too small for the only level, as far as can be seen
    demand = part.demand()
    sizes = dict(zip(demand.sizes.tolist(), demand.counts.tolist(), strict=True))
    assert sizes == {0: 1, 9: 1, 60: 2}  # 0.8 ** 9 is below 0.15, the level within tasks


# Tasks left out by their size.


def uneven(rng: int = 0) -> tuple[Any, Any, Any]:
    """Return scores and tasks, and the size of each of 60 tasks between 1 and 80."""
    generator = np.random.default_rng(rng)
    sizes = generator.integers(1, 81, 60)
    names = generator.permutation(np.repeat(np.arange(60), sizes))
    return generator.normal(size=sizes.sum()), names, sizes


@pytest.mark.parametrize("split", ["joint", "tight", 0.4])
@pytest.mark.parametrize("minimum", [1, 20, 40])
def test_small_tasks_are_left_out_by_size_alone(
    tmp_path: Path, split: str | float, minimum: int
) -> None:
    scores, tasks, sizes = uneven()
    keep = sizes[tasks] >= minimum
    asked = LOOSE | {"split": split, "on_infeasible": "trivial"}
    result = MetaPS(**asked, min_examples=minimum).calibrate(scores, tasks)
    alone = MetaPS(**asked).calibrate(scores[keep], tasks[keep])
    assert result.threshold_ == alone.threshold_
    assert result.level_ == alone.level_
    assert sorted(result.tasks_.tolist()) == sorted(alone.tasks_.tolist())
    assert result.task_sizes_.min() >= minimum
    assert len(result.task_sizes_) == len(result.task_thresholds_) == len(result.tasks_)
    assert result.left_out_ == (sizes < minimum).sum()
    if minimum > 1:
        used = len(alone.tasks_)
        assert (
            f"over the draw of the {used} calibration tasks with at least {minimum} examples"
            in (result.promise_)
        )
        assert f"new tasks with at least {minimum} examples, provided" in result.promise_
    result.save(tmp_path / "promise.json")
    again = load(tmp_path / "promise.json")
    assert (again.promise_, again.left_out_) == (result.promise_, result.left_out_)
    assert again.min_examples == minimum
    more = np.random.default_rng(1).normal(size=100)
    new = ["x"] * minimum + ["y"] * (100 - minimum)
    names = [str(task) for task in tasks]
    grown = MetaPS(**asked, min_examples=minimum).calibrate(scores, names).add(more, new)
    whole = MetaPS(**asked, min_examples=minimum).calibrate(np.r_[scores, more], names + new)
    assert (grown.threshold_, grown.left_out_) == (whole.threshold_, whole.left_out_)
    assert len(grown.tasks_) == len(result.tasks_) + 1 + (100 - minimum >= minimum)


def test_a_task_with_exactly_min_examples_is_used() -> None:
    scores, tasks = np.random.default_rng(0).normal(size=400), np.repeat(np.arange(20), 20)
    assert MetaPS(**LOOSE, min_examples=20).calibrate(scores, tasks).left_out_ == 0
    nothing = MetaPS(**LOOSE, min_examples=21, on_infeasible="trivial").calibrate(scores, tasks)
    assert (nothing.left_out_, nothing.threshold_) == (20, -math.inf)
    with pytest.raises(InfeasibleGuarantee, match="there are 0 tasks"):
        MetaPS(**LOOSE, min_examples=21).calibrate(scores, tasks)


def test_leaving_out_small_tasks_makes_a_guarantee_feasible() -> None:
    # A regression: 49 tiny sites of 466 made every set contain all labels.
    rng = np.random.default_rng(0)
    sizes = np.r_[np.full(49, 3), np.full(417, 80)]
    scores, tasks = rng.normal(size=sizes.sum()), np.repeat(np.arange(466), sizes)
    with pytest.raises(InfeasibleGuarantee, match="use min_examples=4, which keeps 417 tasks"):
        MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(scores, tasks)
    result = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5, min_examples=4).calibrate(scores, tasks)
    assert result.threshold_ > -math.inf
    assert result.left_out_ == 49


# Joined evidence, and evidence in files.


def collect_tasks(
    tasks: list[int], classes: str, seed: int = 0, kind: Any = np.float64, per_class: bool = True
) -> Evidence:
    """Return the evidence of 40 examples of each task, which are the same in any company."""
    scores = np.concatenate([np.random.default_rng([seed, t]).random(40) for t in tasks])
    labels = np.tile(np.resize(list(classes), 40), len(tasks)) if per_class else None
    g = Guarantee(**LOOSE, per_class=per_class)
    return collect_evidence(g, scores.astype(kind), np.repeat(tasks, 40), labels)


def assert_equal(one: Evidence, other: Evidence) -> None:
    for name, left, right in zip(one._fields, one, other, strict=True):
        np.testing.assert_array_equal(left, right, name)


@settings(max_examples=40)
@given(tasks=st.integers(2, 9), seed=st.integers(0, 99), data=st.data(), per_class=st.booleans())
def test_joined_evidence_is_that_of_all_tasks(
    tasks: int, seed: int, data: st.DataObject, per_class: bool
) -> None:
    first = data.draw(st.integers(1, tasks - 1))
    old, new, whole = (
        collect_tasks(list(chosen), "ab", seed, per_class=per_class)
        for chosen in (range(first), range(first, tasks), range(tasks))
    )
    assert_equal(join_evidence(old, new), whole)


def test_a_class_of_some_tasks_has_no_examples_in_the_others() -> None:
    old, new = collect_tasks([0, 1], "bc"), collect_tasks([2], "ab")
    joined = join_evidence(old, new)
    assert joined.classes == ("a", "b", "c")
    assert joined.sizes.tolist() == [[0, 20, 20], [0, 20, 20], [20, 20, 0]]
    assert np.isneginf(joined.thresholds[joined.sizes == 0]).all()
    assert joined.lowest.tolist() == [
        new.lowest[0], min(old.lowest[0], new.lowest[1]), old.lowest[1],
    ]  # fmt: skip
    assert joined.highest is not None
    assert joined.highest.tolist() == [
        new.highest_or_inf[0],
        max(old.highest_or_inf[0], new.highest_or_inf[1]),
        old.highest_or_inf[1],
    ]


def test_an_unknown_highest_score_stays_unknown() -> None:
    old, new = collect_tasks([0], "ab"), collect_tasks([1], "ab")._replace(highest=None)
    assert join_evidence(old, new).highest_or_inf.tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("kinds", [(np.float32, np.float64), (np.float64, np.float32)])
def test_the_coarser_precision_is_kept(kinds: tuple[Any, Any]) -> None:
    old, new = (collect_tasks([i], "ab", kind=kind) for i, kind in enumerate(kinds))
    assert join_evidence(old, new).precision == np.float32


def test_a_table_has_no_other_classes() -> None:
    old = collect_tasks([0], "ab")._replace(columns={"label": "y"})
    assert join_evidence(old, collect_tasks([1], "b")).classes == ("a", "b")
    with pytest.raises(InvalidInput, match="labels holds the class 'c', which the table calibrat"):
        join_evidence(old, collect_tasks([1], "bc"))


def test_classes_in_another_order() -> None:
    evidence = collect_tasks([0, 1], "ab")
    changed = with_classes(evidence, ("b", "c", "a"))
    assert changed.classes == ("b", "c", "a")
    assert changed.sizes.tolist() == [[20, 0, 20]] * 2
    np.testing.assert_array_equal(changed.thresholds[:, [2, 0]], evidence.thresholds)
    np.testing.assert_array_equal(changed.lowest, [evidence.lowest[1], np.inf, evidence.lowest[0]])
    assert_equal(with_classes(evidence, ("a", "b")), evidence)


def test_evidence_of_another_number_of_levels_is_refused() -> None:
    scores, tasks = np.random.default_rng(0).random(2400), np.repeat(np.arange(40), 60)
    result = collect_evidence(Guarantee(epsilon=0.2, alpha=0.3, delta=0.1), scores, tasks)
    body = encode_evidence(result)
    again = decode_evidence(body, 13, result.precision)
    np.testing.assert_array_equal(again.thresholds, result.thresholds)
    assert again.lowest == result.lowest
    with pytest.raises(InvalidInput, match=r"evidence.thresholds must have shape \(40, 1\), by"):
        decode_evidence(body, 1, result.precision)
