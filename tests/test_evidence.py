"""Evidence: ranks within tasks, tasks left out, precisions, and JSON."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac import (
    PS,
    Guarantee,
    InfeasibleGuarantee,
    InvalidInput,
    MetaPS,
    allowed_errors,
    evidence,
    load,
)
from metapac.evidence import ranks_within
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level
from tests.helpers import oracles

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
        g = paper(split="tight")  # no split allows levels above 1/2, so the level is replaced
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


# min_examples: equivalent to calibrating on the large tasks alone.


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


def test_min_examples_needs_the_sizes_of_sites() -> None:
    method = MetaPS(**LOOSE, split="tight", min_examples=10)
    with pytest.raises(ValueError, match="min_examples=10 needs the number of examples of every t"):
        method.combine([0.5] * 30)
    result = method.combine(np.linspace(0, 1, 30), sizes=[9] * 5 + [20] * 25)
    assert result.left_out_ == 5


def test_leaving_out_small_tasks_makes_a_guarantee_feasible() -> None:
    # A regression: 49 tiny sites of 466 made every set contain all labels.
    rng = np.random.default_rng(0)
    sizes = np.r_[np.full(49, 3), np.full(417, 80)]
    scores, tasks = rng.normal(size=sizes.sum()), np.repeat(np.arange(466), sizes)
    with pytest.raises(InfeasibleGuarantee, match="use min_examples=4, which keeps 417 of the 466"):
        MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(scores, tasks)
    result = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5, min_examples=4).calibrate(scores, tasks)
    assert result.threshold_ > -math.inf
    assert result.left_out_ == 49


# bfloat16, which NumPy does not have.


def nearest(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float32).to(torch.bfloat16)


@settings(max_examples=300)
@given(st.floats(-(2.0**127), 2.0**127, width=32), st.floats(-1, 1))
def test_no_score_that_rounds_to_the_same_bfloat16_is_lost(value: float, away: float) -> None:
    stored = nearest(value)
    result = PS(epsilon=0.5, delta=0.5).calibrate(stored.expand(9))
    # Any float32 that rounds to it is kept, and so is the bfloat16 itself.
    step = max(abs(float(stored)) * 2.0**-8, 2.0**-134)
    other = np.float32(float(stored) + away * step)
    if nearest(float(other)) == stored:
        assert result.predict_set(np.array([other])).all()
    assert result.predict_set(stored).all()
    assert result.predict_set(np.array([value], dtype=np.float32)).all()
    # A score a few steps below is not kept.
    below = float(stored) - 4 * step
    if below > -3e38:
        assert not result.predict_set(np.array([below], dtype=np.float32)).any()


def test_a_bfloat16_score_at_the_threshold_is_kept() -> None:
    result = PS(epsilon=0.1, delta=0.05)
    result.calibrate(torch.full((100,), 0.1, dtype=torch.bfloat16))
    assert result.predict_set(np.array([0.1], np.float32)).all()
    tasks = np.repeat(np.arange(40), 60)
    whole = MetaPS(**LOOSE).calibrate(torch.full((2400,), 0.1, dtype=torch.bfloat16), tasks)
    assert whole.predict_set(np.array([0.1], np.float32)).all()
    for edge in (-math.inf, math.inf):  # no finite score rounds to it
        same = PS(epsilon=0.5, delta=0.5).calibrate(torch.full((9,), edge, dtype=torch.bfloat16))
        assert same.threshold_ == edge


@given(score=st.floats(-1e30, 1e30), wide=st.booleans())
def test_a_score_deployed_in_bfloat16_is_kept(score: float, wide: bool) -> None:
    kind = np.float64 if wide else np.float32
    result = PS(epsilon=0.1, delta=0.05).calibrate(np.full(100, score, kind))
    deployed = torch.tensor([score], dtype=torch.float64).to(torch.bfloat16)
    assert result.predict_set(deployed).all()
    lower = torch.tensor([float(deployed) - 0.02 * abs(float(deployed)) - 1e-30])
    assert not result.predict_set(lower.to(torch.bfloat16)).any() or score == 0


def test_levels_and_thresholds_ascend() -> None:
    scores, tasks = np.random.default_rng(0).normal(size=40 * 200), np.repeat(np.arange(40), 200)
    sent = [MetaPS(**LOOSE).task_threshold(scores[tasks == i]) for i in range(40)]
    assert all(a <= b for each in sent for a, b in pairwise(each.tolist()))


# JSON.


def test_evidence_of_another_number_of_levels_is_refused() -> None:
    scores, tasks = np.random.default_rng(0).random(2400), np.repeat(np.arange(40), 60)
    result = evidence.collect_evidence(Guarantee(**LOOSE), scores, tasks)
    body = result.to_json()
    again = evidence.Evidence.from_json(body, 13, result.precision)
    np.testing.assert_array_equal(again.thresholds, result.thresholds)
    assert again.lowest == result.lowest
    with pytest.raises(InvalidInput, match=r"evidence.thresholds must have shape \(40, 1\), by"):
        evidence.Evidence.from_json(body, 1, result.precision)


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_precisions_of_scores(name: str) -> None:
    assert evidence.as_precision(name) == evidence.as_precision(np.dtype(name)) == np.dtype(name)


@pytest.mark.parametrize("name", ["int8", "bool", "S1", "O", "longdouble", "", 8, None, np.float64])
def test_other_types_are_no_precision(name: object) -> None:
    with pytest.raises(InvalidInput, match="precision must be float16, float32 or float64, got"):
        evidence.as_precision(name)


def test_thresholds_cannot_fall_with_the_level() -> None:
    method = MetaPS(**LOOSE)
    sent = np.tile(np.linspace(0.1, 0.2, 13), (200, 1))
    assert method.combine(sent).threshold_ > 0
    sent[7, 5] = 0.3
    with pytest.raises(InvalidInput, match="falls from 0.3 to 0.15 between two levels of task 7"):
        MetaPS(**LOOSE).combine(sent)
