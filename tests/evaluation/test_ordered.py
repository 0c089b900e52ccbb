"""Scores sorted once give the evidence that selecting anew gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import Guarantee, Scored
from metapac.data_checks import CHECKS
from metapac.evidence import first_step
from metapac.fewshot.study.draws import order_scores, ordered_evidence, select_ranks

score = st.sampled_from([-np.inf, 0.0, 0.25, 0.5, 1.0])
examples = st.lists(st.tuples(st.integers(0, 4), score), min_size=1, max_size=60)
GUARANTEES = [
    Guarantee(epsilon=0.3, alpha=0.4, delta=0.2, split=split) for split in ("joint", "tight")
]


@given(examples, st.sampled_from(GUARANTEES), st.sampled_from([np.float32, np.float64]))
def test_the_evidence_is_that_of_a_calibration(
    rows: list[tuple[int, float]], guarantee: Guarantee, kind: Any
) -> None:
    tasks = np.array([task for task, _ in rows])
    scores = np.array([value for _, value in rows], kind)
    actual = ordered_evidence(order_scores(scores, tasks), guarantee)
    expected = first_step(Scored(scores, tasks), guarantee, frozenset(CHECKS))
    for name in ("names", "sizes", "thresholds", "lowest", "highest"):
        one, other = getattr(actual, name), getattr(expected, name)
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype, name
    assert actual.precision == expected.precision == kind


@given(examples)
def test_scores_are_sorted_within_tasks_alone(rows: list[tuple[int, float]]) -> None:
    tasks, scores = (np.array(column) for column in zip(*rows, strict=True))
    ordered = order_scores(scores, tasks)
    assert ordered.names.tolist() == list(dict.fromkeys(tasks.tolist()))
    expected = [sorted(scores[tasks == name].tolist()) for name in ordered.names]
    assert ordered.sizes.tolist() == [len(part) for part in expected]
    assert ordered.scores.tolist() == [value for part in expected for value in part]
    ranks = np.stack([ordered.sizes - 1, np.zeros_like(ordered.sizes), 0 * ordered.sizes - 1], 1)
    assert select_ranks(ordered, ranks).tolist() == [
        [part[-1], part[0], -np.inf] for part in expected
    ]


def test_the_draw_keeps_its_order() -> None:
    scores = np.random.default_rng(0).random(40)
    before = scores.copy()
    order_scores(scores, np.repeat([0, 1], 20))
    np.testing.assert_array_equal(scores, before)


def test_a_score_that_is_not_a_number_is_named() -> None:
    with pytest.raises(ValueError, match="scores holds 1 NaN out of 3 values .*in task 'b'"):
        order_scores(np.array([0.1, np.nan, 0.2]), np.array(["a", "b", "b"]))


def test_a_guarantee_for_each_class_is_refused() -> None:
    guarantee = Guarantee(epsilon=0.3, alpha=0.4, delta=0.2, per_class=True)
    with pytest.raises(ValueError, match="no labels for a guarantee with per_class"):
        ordered_evidence(order_scores(np.ones(3), np.zeros(3, int)), guarantee)
