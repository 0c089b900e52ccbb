"""What the second step sees: ranks within tasks, thresholds that say nothing, tasks left out."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac import PS, Guarantee, InfeasibleGuarantee, MetaPS, allowed_errors, evidence, load
from metapac.evidence import ranks_within
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level

LOOSE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


def paper(**changes: Any) -> Guarantee:
    return Guarantee(**{"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5} | changes)


# Ranks within tasks, and the cap that lets them hold for balanced tasks.


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 45), min_size=1, max_size=6),
    epsilon=st.sampled_from([0.05, 0.1, 0.3, 0.7]),
)
def test_ranks_within_tasks(sizes: list[int], epsilon: float) -> None:
    g = Guarantee(epsilon=epsilon, alpha=0.1, delta=0.1)
    expected = [
        [oracles.task_rank(n, epsilon, level) if n else -1 for level in JOINT_LEVELS] for n in sizes
    ]
    assert ranks_within(np.array(sizes), g).tolist() == expected


def misses(sizes: list[int], chances: list[float]) -> np.ndarray:
    """Return P(so many misses) of a task with so many examples of each class, missed so often."""
    found = np.ones(1)
    for n, p in zip(sizes, chances, strict=True):
        found = np.convolve(found, stats.binom.pmf(np.arange(n + 1), n, p))
    return found


def chance_of_one(
    mass: np.ndarray, within: list[int], g: Guarantee, tasks: int, bad: float
) -> float:
    """The chance that a guarantee breaks on tasks that are good, or bad with these misses.

    ``within`` is how many of them a task may have, at each level.
    """
    may_be_low: dict[int, int] = {}
    for misses_allowed, rank in zip(within, g.ranks(tasks), strict=True):
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
    share=st.integers(0, 100).map(lambda percent: percent / 100),
    tasks=st.integers(20, 300),
    split=st.sampled_from(["joint", "tight", 0.5]),
)
def test_balanced_tasks_break_no_guarantee(
    first: int, second: int, epsilon: float, share: float, tasks: int, split: str | float
) -> None:
    # A task as bad as may be has misses in all of n * epsilon, divided between its two classes
    # in any way. Their number is then not binomial.
    total = (first + second) * (epsilon + 1e-9)
    one = min(1.0, share * total / first)
    other = (total - one * first) / second
    if other > 1:
        one, other = (total - second) / first, 1.0
    mass = misses([first, second], [one, other])
    g = Guarantee(epsilon=epsilon, alpha=0.2, delta=0.05, split=split)
    within = ranks_within(np.array([first + second]), g)[0].tolist()
    for k, level in zip(within, g.levels, strict=True):
        assert mass[: k + 1].sum() <= level.alpha_within * (1 + 1e-9)
    assert chance_of_one(mass, within, g, tasks, bad=0.2 + 1e-9) <= 0.05 * (1 + 1e-9)


def test_without_the_cap_balanced_tasks_break_it() -> None:
    # The case of the review: 15 + 15 examples, one class missed with .2, the other never.
    mass = misses([15, 15], [0.2, 0.0])
    tasks, level = 3000, Level(0.825, 0.1 * (1 - 0.825))
    with mock.patch.object(Guarantee, "levels", (level,)):
        g = paper(split="tight")  # no split goes beyond 1/2: the level is put in by hand
        capped = ranks_within(np.array([30]), g)[0].tolist()
        assert mass[: capped[0] + 1].sum() <= 0.825
        assert chance_of_one(mass, capped, g, tasks, bad=0.1) < 1e-5
        uncapped = [allowed_errors(30, 0.1, 0.825)]
        assert (capped, uncapped) == ([2], [4])
        assert mass[: uncapped[0] + 1].sum() > 0.825
        assert chance_of_one(mass, uncapped, g, tasks, bad=0.1) > 4e-5


def test_the_cap_is_at_work_in_calibration() -> None:
    # 39 examples at .1: at level 1/2 three misses would be allowed, and 4 <= 3.9 is false.
    assert allowed_errors(39, 0.1, 0.5) == 3
    scores = np.arange(40.0 * 39).reshape(40, 39)
    found = MetaPS(epsilon=0.1, alpha=0.3, delta=0.1, split=0.5)
    found.calibrate(scores.ravel(), np.repeat(np.arange(40), 39))
    assert found.task_thresholds_.tolist() == scores[:, 2].tolist()


# Thresholds that say nothing.


def tied_at(bottom: float, bad: int, tasks: int = 40, n: int = 60) -> tuple[Any, Any]:
    """Return scores above 1, but for some tasks that have a third of theirs at the bottom."""
    scores = 1 + np.random.default_rng(0).random((tasks, n))
    scores[:bad, : n // 3] = bottom
    return scores.ravel(), np.repeat(np.arange(tasks), n)


@pytest.mark.parametrize("bottom", [0.0, 0.25, -3.0])
@pytest.mark.parametrize("split", ["joint", "tight"])
def test_a_bottom_that_tasks_share_is_told(tmp_path: Path, bottom: float, split: str) -> None:
    scores, tasks = tied_at(bottom, bad=12)
    method = MetaPS(**LOOSE, split=split)
    with pytest.warns(UserWarning, match="every label .* kept whatever its score") as told:
        method.calibrate(scores, tasks)
    start = f"The threshold {bottom!r} is the lowest calibration score, so every label may be kept "
    if bottom == 0:
        start = "The threshold is 0.0, so, if scores are probabilities, every label is kept "
    remark = (
        f"{start}whatever its score, and the guarantee says little: in 12 of 40 tasks (30%) more "
        "true labels score that low than may be missed."
    )
    assert [str(each.message) for each in told] == [remark]
    assert told[0].filename == __file__
    assert method.threshold_ == bottom
    assert method.promise_.endswith(remark)
    assert method.remarks_ == [remark]
    method.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").promise_ == method.promise_  # and no second warning


def test_few_bad_tasks_are_left_behind() -> None:
    scores, tasks = tied_at(0.0, bad=3)
    found = MetaPS(**LOOSE).calibrate(scores, tasks)
    assert found.threshold_ > 1
    assert found.remarks_ == []


def test_a_single_task_at_the_zero_of_probabilities_is_told() -> None:
    # The lowest of 8 thresholds is the answer, and it is 0.
    scores, tasks = tied_at(0.0, bad=1, tasks=8)
    with pytest.warns(UserWarning, match=r"in 1 of 8 tasks \(12%\) more true labels"):
        MetaPS(**LOOSE).calibrate(scores, tasks)


@pytest.mark.parametrize("split", ["joint", "tight", 0.5])
def test_the_lowest_of_continuous_scores_is_nothing_odd(split: str | float) -> None:
    # The least tasks with the least examples: rank 1 of rank 1, the lowest score of all. At
    # delta = .172 the joint split can use its lowest level only: .703 ** 5 = .1717.
    g = Guarantee(**LOOSE | {"delta": 0.172}, split=split)
    tasks, n = {"joint": (5, 21), "tight": (6, 9), 0.5: (11, 4)}[split]
    scores = np.random.default_rng(0).normal(size=(tasks, n))
    assert max(g.ranks(tasks)) == 0
    found = MetaPS(**LOOSE | {"delta": 0.172}, split=split)
    found.calibrate(scores.ravel(), np.repeat(np.arange(tasks), n))
    assert found.threshold_ == scores.min()
    assert found.remarks_ == []


def test_a_clipped_score_that_all_tasks_share_is_a_bottom() -> None:
    scores = np.random.default_rng(0).normal(size=(60, 100))
    scores[:, :30] = -23.0  # log-probabilities, clipped
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05)
    with pytest.warns(UserWarning, match=r"-23.0 is the lowest calibration score.* 60 of 60 tasks"):
        method.calibrate(scores.ravel(), np.repeat(np.arange(60), 100))
    assert method.threshold_ == -23.0


@pytest.mark.parametrize("top", [1.0, 1 - 2**-24, math.inf, -0.5])
def test_a_model_that_is_never_wrong_is_not_blamed(top: float) -> None:
    # Every true label has the same score, as saturated probabilities have: others score lower.
    found = MetaPS(**LOOSE).calibrate(np.full(40 * 60, top), np.repeat(np.arange(40), 60))
    assert found.threshold_ == top
    assert found.remarks_ == []


def test_minus_infinity_keeps_every_label() -> None:
    scores, tasks = tied_at(-math.inf, bad=12)
    with pytest.warns(UserWarning, match="Every label is kept, so the guarantee holds trivially"):
        found = MetaPS(**LOOSE).calibrate(scores, tasks)
    assert found.threshold_ == -math.inf


def test_what_was_asked_for_is_not_warned_about() -> None:
    found = MetaPS(**LOOSE, on_infeasible="trivial").calibrate([0.5], ["a"])
    assert found.remarks_ == ["Every label is kept, so the guarantee holds trivially."]


def test_sites_are_told_too() -> None:
    scores, tasks = tied_at(0.0, bad=12)
    method = MetaPS(**LOOSE)
    sent = [method.task_threshold(scores[tasks == i]) for i in range(40)]
    with pytest.warns(UserWarning, match="in 12 of 40 tasks"):
        method.combine(sent, sizes=[60] * 40)


def test_the_bottom_is_that_of_all_tasks_ever_seen() -> None:
    scores, tasks = tied_at(0.5, bad=12)
    found = MetaPS(**LOOSE)
    with pytest.warns(UserWarning, match="The threshold 0.5 is the lowest"):
        found.calibrate(scores, tasks)
    found.add(np.r_[0.25, np.full(59, 2.0)], [-1] * 60)  # one score below, in a new task
    assert found.threshold_ == 0.5
    assert found.remarks_ == []


def test_tasks_left_out_are_not_blamed() -> None:
    scores, tasks = tied_at(0.0, bad=12)
    few = np.r_[scores, np.zeros(30)]
    names = np.r_[tasks, np.arange(100, 130)]
    with pytest.warns(UserWarning, match=r"in 12 of 40 tasks \(30%\)"):
        MetaPS(**LOOSE, min_examples=2).calibrate(few, names)


# min_examples: what calibrating on the large tasks alone gives.


def uneven(rng: int = 0) -> tuple[Any, Any, Any]:
    """Return scores and tasks, and the size of each of 60 tasks between 1 and 80."""
    generator = np.random.default_rng(rng)
    sizes = generator.integers(1, 81, 60)
    names = generator.permutation(np.repeat(np.arange(60), sizes))
    return generator.normal(size=sizes.sum()), names, sizes


@pytest.mark.parametrize("split", ["joint", "tight", 0.4])
@pytest.mark.parametrize("least", [1, 20, 40])
def test_small_tasks_are_left_out_by_size_alone(
    tmp_path: Path, split: str | float, least: int
) -> None:
    scores, tasks, sizes = uneven()
    keep = sizes[tasks] >= least
    asked = LOOSE | {"split": split, "on_infeasible": "trivial"}
    found = MetaPS(**asked, min_examples=least).calibrate(scores, tasks)
    alone = MetaPS(**asked).calibrate(scores[keep], tasks[keep])
    assert found.threshold_ == alone.threshold_
    assert found.level_ == alone.level_
    assert sorted(found.tasks_.tolist()) == sorted(alone.tasks_.tolist())
    assert found.task_sizes_.min() >= least
    assert len(found.task_sizes_) == len(found.task_thresholds_) == len(found.tasks_)
    assert found.left_out_ == (sizes < least).sum()
    if least > 1:
        kept = len(alone.tasks_)
        assert f"over the draw of the {kept} calibration tasks with at least {least} examples" in (
            found.promise_
        )
        assert f"new tasks with at least {least} examples, provided" in found.promise_
    found.save(tmp_path / "promise.json")
    again = load(tmp_path / "promise.json")
    assert (again.promise_, again.left_out_) == (found.promise_, found.left_out_)
    assert again.min_examples == least
    more = np.random.default_rng(1).normal(size=100)
    new = ["x"] * least + ["y"] * (100 - least)
    names = [str(task) for task in tasks]
    grown = MetaPS(**asked, min_examples=least).calibrate(scores, names).add(more, new)
    whole = MetaPS(**asked, min_examples=least).calibrate(np.r_[scores, more], names + new)
    assert (grown.threshold_, grown.left_out_) == (whole.threshold_, whole.left_out_)
    assert len(grown.tasks_) == len(found.tasks_) + 1 + (100 - least >= least)


def test_a_task_of_exactly_so_many_is_kept() -> None:
    scores, tasks = np.random.default_rng(0).normal(size=400), np.repeat(np.arange(20), 20)
    assert MetaPS(**LOOSE, min_examples=20).calibrate(scores, tasks).left_out_ == 0
    nothing = MetaPS(**LOOSE, min_examples=21, on_infeasible="trivial").calibrate(scores, tasks)
    assert (nothing.left_out_, nothing.threshold_) == (20, -math.inf)
    with pytest.raises(InfeasibleGuarantee, match="there are 0 tasks"):
        MetaPS(**LOOSE, min_examples=21).calibrate(scores, tasks)


def test_min_examples_needs_the_sizes_of_sites() -> None:
    method = MetaPS(**LOOSE, split="tight", min_examples=10)
    with pytest.raises(ValueError, match="min_examples=10 needs the number of examples of every t"):
        method.combine([0.5] * 30)
    found = method.combine(np.linspace(0, 1, 30), sizes=[9] * 5 + [20] * 25)
    assert found.left_out_ == 5


def test_leaving_small_tasks_out_is_what_makes_it_feasible() -> None:
    # 49 tiny sites of 466 turned every set into all labels.
    rng = np.random.default_rng(0)
    sizes = np.r_[np.full(49, 3), np.full(417, 80)]
    scores, tasks = rng.normal(size=sizes.sum()), np.repeat(np.arange(466), sizes)
    with pytest.raises(InfeasibleGuarantee, match="use min_examples=4, which keeps 417 of the 466"):
        MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(scores, tasks)
    found = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5, min_examples=4).calibrate(scores, tasks)
    assert found.threshold_ > -math.inf
    assert found.left_out_ == 49


# bfloat16, which NumPy has not.


def nearest(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float32).to(torch.bfloat16)


@settings(max_examples=300)
@given(st.floats(-(2.0**127), 2.0**127, width=32), st.floats(-1, 1))
def test_no_score_that_rounds_to_the_same_bfloat16_is_lost(value: float, away: float) -> None:
    stored = nearest(value)
    found = PS(epsilon=0.5, delta=0.5).calibrate(stored.expand(9))
    # Any float32 within a step of it that rounds to it is kept, as is the bfloat16 itself.
    step = max(abs(float(stored)) * 2.0**-8, 2.0**-134)
    other = np.float32(float(stored) + away * step)
    if nearest(float(other)) == stored:
        assert found.predict_set(np.array([other])).all()
    assert found.predict_set(stored).all()
    assert found.predict_set(np.array([value], dtype=np.float32)).all()
    # Some steps below it is not kept: not every score is.
    below = float(stored) - 4 * step
    if below > -3e38:
        assert not found.predict_set(np.array([below], dtype=np.float32)).any()


def test_the_bfloat16_of_the_review() -> None:
    found = PS(epsilon=0.1, delta=0.05)
    found.calibrate(torch.full((100,), 0.1, dtype=torch.bfloat16))
    assert found.predict_set(np.array([0.1], np.float32)).all()
    tasks = np.repeat(np.arange(40), 60)
    whole = MetaPS(**LOOSE).calibrate(torch.full((2400,), 0.1, dtype=torch.bfloat16), tasks)
    assert whole.predict_set(np.array([0.1], np.float32)).all()
    for edge in (-math.inf, math.inf):  # which is no number that others round to
        same = PS(epsilon=0.5, delta=0.5).calibrate(torch.full((9,), edge, dtype=torch.bfloat16))
        assert same.threshold_ == edge


@given(score=st.floats(-1e30, 1e30), wide=st.booleans())
def test_a_score_deployed_in_bfloat16_is_kept(score: float, wide: bool) -> None:
    kind = np.float64 if wide else np.float32
    found = PS(epsilon=0.1, delta=0.05).calibrate(np.full(100, score, kind))
    deployed = torch.tensor([score], dtype=torch.float64).to(torch.bfloat16)
    assert found.predict_set(deployed).all()
    lower = torch.tensor([float(deployed) - 0.02 * abs(float(deployed)) - 1e-30])
    assert not found.predict_set(lower.to(torch.bfloat16)).any() or score == 0


@pytest.mark.parametrize("split", ["joint", "tight"])
def test_sites_at_zero_are_told_and_others_not(split: str) -> None:
    method = MetaPS(**LOOSE, split=split)
    zeros = np.r_[np.zeros(20), np.random.default_rng(0).random(40)]
    with pytest.warns(UserWarning, match="threshold is 0.0, so, if scores are probabilities"):
        method.combine([method.task_threshold(zeros)] * 40)
    sent = [np.r_[0.0, np.full(20, 0.1), np.ones(39)]] * 30 + [np.ones(60)] * 10
    method.combine([method.task_threshold(scores) for scores in sent])
    assert method.remarks_ == []


def test_levels_ascend_so_that_thresholds_do() -> None:
    scores, tasks = np.random.default_rng(0).normal(size=40 * 200), np.repeat(np.arange(40), 200)
    sent = [MetaPS(**LOOSE).task_threshold(scores[tasks == i]) for i in range(40)]
    assert all(a <= b for each in sent for a, b in pairwise(each.tolist()))


# Files and joining.


def test_evidence_of_another_number_of_levels_is_refused() -> None:
    scores, tasks = tied_at(5.0, bad=0)
    found = evidence.of_scores(Guarantee(**LOOSE), scores, tasks, None)
    body = found.to_json()
    again = evidence.Evidence.from_json(body, 13, found.precision)
    np.testing.assert_array_equal(again.thresholds, found.thresholds)
    assert again.lowest == found.lowest
    with pytest.raises(ValueError, match="reshape"):
        evidence.Evidence.from_json(body, 1, found.precision)
