"""Reversed scores are noticed, and a biased or uninformative model is not taken for one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import InvalidInput
from metapac.meaning.checks import check_examples
from metapac.meaning.direction import count_swaps, judge_direction
from metapac.meaning.findings import FALSE_ALARM
from tests.helpers.honest_scores import SITES, draw_honest


def test_pairs_do_not_follow_the_order_of_rows() -> None:
    # Sorted by the score of class 0, labels alternating: neighbours would lose all 2000 pairs.
    rising = np.linspace(0, 1, 4000)
    scores = np.column_stack([rising, np.full(4000, 0.5)])
    tasks, labels = np.zeros(4000, int), np.tile([0, 1], 2000)
    assert judge_direction(*count_swaps(tasks, labels, scores)) is None
    reversed_ = judge_direction(*count_swaps(tasks, np.repeat([0, 1], 2000), scores))
    assert reversed_ is not None


def test_pairs_are_disjoint_and_won_if_the_own_labels_score_more() -> None:
    tasks = np.array([0, 0, 0, 1, 1, 1, 1])
    labels = np.array([0, 1, 0, 0, 0, 1, 2])
    scores = np.eye(3)[labels]
    wins, losses = count_swaps(tasks, labels, scores)
    assert wins.tolist() == [1, 2]
    assert losses.tolist() == [0, 0]
    assert [part.tolist() for part in count_swaps(tasks, labels, -scores)] == [[0, 0], [1, 2]]
    assert [part.tolist() for part in count_swaps(tasks, labels, 0 * scores)] == [[0, 0], [0, 0]]


def test_infinite_scores_and_one_label_are_no_pairs() -> None:
    scores = np.full((4, 2), -np.inf)
    wins, losses = count_swaps(np.zeros(4, int), np.array([0, 1, 0, 1]), scores)
    assert (wins.sum(), losses.sum()) == (0, 0)
    wins, losses = count_swaps(np.zeros(4, int), np.zeros(4, int), np.arange(8.0).reshape(4, 2))
    assert (wins.sum(), losses.sum()) == (0, 0)


def test_uninformative_scores_win_and_lose_alike_whatever_the_class_sizes() -> None:
    # All permutations of the rows of a task, with a rare class that the scores favour: exact.
    labels, scores = np.array([0, 0, 0, 0, 1]), np.array([0.1, 0.2, 0.2, 0.9, 0.4])
    both = np.column_stack([1 - scores, scores + 3])
    outcomes = [
        [int(part[0]) for part in count_swaps(np.zeros(5, int), labels, both[list(order)])]
        for order in itertools.permutations(range(5))
    ]
    assert sum(wins for wins, _ in outcomes) == sum(losses for _, losses in outcomes) > 0


@given(st.integers(1, 400))
def test_the_false_alarm_rate_of_the_direction_is_at_most_1e_6(pairs: int) -> None:
    # Of a single task: the number of losses at which the check objects, and its exact probability.
    losses = np.arange(pairs + 1)
    objects = [
        judge_direction(np.array([pairs - lost]), np.array([lost])) is not None for lost in losses
    ]
    assert stats.binom.pmf(losses[objects], pairs, 0.5).sum() <= FALSE_ALARM
    assert objects[-1] == (2.0**-pairs <= FALSE_ALARM)  # and it can object


def test_one_odd_task_is_not_enough() -> None:
    losses = np.array([10_000] + [5] * 30)
    wins = np.array([0] + [6] * 30)
    assert judge_direction(wins, losses) is None


def test_reversed_tasks_are_an_error_if_they_agree_and_a_warning_if_they_are_few() -> None:
    wins, losses = np.full(60, 2), np.full(60, 18)
    finding = judge_direction(wins, losses)
    assert finding is not None
    assert finding.is_error
    assert "in 1080 of 1200 pairs of examples, and in 60 of 60 tasks" in str(finding.text)
    finding = judge_direction(wins[:9], losses[:9])
    assert finding is not None
    assert not finding.is_error


@pytest.mark.parametrize("transform", [np.log, np.exp, lambda p: 100 * p, lambda p: p**9])
def test_any_increasing_score_passes_and_its_negative_does_not(transform: Any) -> None:
    labels, scores = draw_honest(np.random.default_rng(1))
    names = range(60)
    check_examples(names, SITES, transform(scores), labels)
    with pytest.raises(InvalidInput, match="true label scores lower.* allow=\\('direction',\\)"):
        check_examples(names, SITES, -transform(scores), labels)


def test_a_biased_or_uninformative_model_passes() -> None:
    # Nearly every row is given to the rare class: the true label mostly scores lower, and yet
    # higher scores mean more plausible.
    labels, scores = draw_honest(np.random.default_rng(2))
    biased = scores + np.array([0, 3])
    assert np.mean(biased[np.arange(len(labels)), labels] < biased[:, 1]) > 0.9
    check_examples(range(60), SITES, biased, labels)
    check_examples(range(60), SITES, biased[::-1], labels)
