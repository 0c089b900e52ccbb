"""Calibrations that several test files look at."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from metapac import Guarantee, MetaPS, Scored
from metapac.data_checks import CHECKS
from metapac.evidence import Evidence, first_step

GUARANTEE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.6, "delta": 0.2}
SPLITS: list[str | float] = ["joint", "tight", "even", 0.3]
# Few distinct scores tie at the lowest score, which warns; see tests/test_evidence.py.
tied = pytest.mark.filterwarnings("ignore:(The threshold|Every label is kept)")
Examples = list[tuple[int, float]]
examples_of_tasks = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([-math.inf, 0.0, 0.125, 0.5, 0.75, 1.0])),
    min_size=1,
    max_size=80,
)


def draw_tasks(tasks: int = 130, examples: int = 40, rng: int = 0) -> tuple[Any, Any]:
    """Return scores, and the task of each."""
    scores = np.random.default_rng(rng).normal(size=tasks * examples)
    return scores, np.repeat(np.arange(tasks), examples)


def paper(**changes: Any) -> MetaPS:
    """Return a predictor at the levels of the paper."""
    return MetaPS(**{"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5} | changes)


def assert_same(one: MetaPS, other: MetaPS) -> None:
    """Assert that two calibrations give the same results."""
    assert one.threshold_ == other.threshold_
    assert one.level_ == other.level_
    assert one.tasks_.tolist() == other.tasks_.tolist()
    assert one.task_sizes_.tolist() == other.task_sizes_.tolist()
    assert one.task_thresholds_.tolist() == other.task_thresholds_.tolist()
    assert one.promise_ == other.promise_


def collect_evidence(
    guarantee: Guarantee, scores: Any, tasks: Any, labels: Any = None, classes: Any = None
) -> Evidence:
    """Return the result of the first step on arrays, without checks of their meaning."""
    found = first_step(Scored(scores, tasks, labels, classes), guarantee, frozenset(CHECKS))
    return found._replace(sample=None)
