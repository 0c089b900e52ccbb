"""Evidence: tasks left out by their size, and thresholds that no task can have."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import InfeasibleGuarantee, InvalidInput, MetaPS, load

LOOSE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


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
    with pytest.raises(InfeasibleGuarantee, match="use min_examples=4, which keeps 417 tasks"):
        MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(scores, tasks)
    result = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5, min_examples=4).calibrate(scores, tasks)
    assert result.threshold_ > -math.inf
    assert result.left_out_ == 49


def test_thresholds_cannot_fall_with_the_level() -> None:
    method = MetaPS(**LOOSE)
    sent = np.tile(np.linspace(0.1, 0.2, 13), (200, 1))
    assert method.combine(sent).threshold_ > 0
    sent[7, 5] = 0.3
    with pytest.raises(InvalidInput, match="falls from 0.3 to 0.15 between two levels of task 7"):
        MetaPS(**LOOSE).combine(sent)
