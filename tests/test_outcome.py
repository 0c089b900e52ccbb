"""The second step: thresholds that make a guarantee uninformative are reported."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import Guarantee, MetaPS, load
from metapac.evidence import UNKNOWN, collect_evidence

LOOSE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


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
    outcome = part.outcome()
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
