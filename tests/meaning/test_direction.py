"""Reversed scores are noticed, and a biased or uninformative model is not taken for one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import CheckWarning, InvalidInput, MetaPS
from metapac.data_checks import (
    FALSE_ALARM,
    count_swaps,
    judge_best,
    judge_chance,
    judge_direction,
)
from tests.helpers.honest_scores import check_examples, CHILDREN, SITES, draw_communes, draw_honest
from tests.helpers.tables import calibrate_table


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
    check_examples(SITES, transform(scores), labels)
    with pytest.raises(InvalidInput, match="true label scores lower.* allow=\\('direction',\\)"):
        check_examples(SITES, -transform(scores), labels)


def test_a_biased_or_uninformative_model_passes() -> None:
    # Nearly every row is given to the rare class: the true label mostly scores lower, and yet
    # higher scores mean more plausible.
    labels, scores = draw_honest(np.random.default_rng(2))
    biased = scores + np.array([0, 3])
    assert np.mean(biased[np.arange(len(labels)), labels] < biased[:, 1]) > 0.9
    check_examples(SITES, biased, labels)
    check_examples(SITES, biased[::-1], labels, allow=["labels"])


LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}


def spoil(kind: str, labels: Any, scores: Any) -> tuple[Any, Any]:
    """Return labels and scores after a common mistake."""
    order = {"none and two": [2, 1, 0, 3], "one and two": [0, 2, 1, 3], "reversed": [3, 2, 1, 0]}
    if kind in order:
        return labels, scores[:, order[kind]]
    if kind == "predicted":
        return np.array(CHILDREN)[np.argmax(scores, axis=1)], scores
    return labels, np.roll(scores, 7, axis=0)


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        ("none and two", "true label scores lower"),
        ("one and two", "'one' and 'two' look swapped"),
        ("reversed", "true label scores lower"),
        ("predicted", "highest in all 11154 rows"),
        ("joined to other rows", "no better than chance"),
    ],
)
@pytest.mark.parametrize("transform", [np.array, np.log, lambda p: 100 * p])
def test_scores_that_do_not_fit_the_labels_are_noticed(
    kind: str, match: str, transform: Any
) -> None:
    sites, labels, scores = draw_communes(np.random.default_rng(0))
    labels, scores = spoil(kind, labels, transform(scores))
    frame = pd.DataFrame(scores, columns=[f"p_{name}" for name in CHILDREN])
    frame = frame.assign(site=sites, y=labels)
    with (
        pytest.warns(CheckWarning, match=match)
        if "lower" not in match
        else pytest.raises(InvalidInput, match=match)
    ):
        MetaPS(**LEVELS).calibrate(scores, sites, labels, classes=CHILDREN)
    with (
        pytest.warns(CheckWarning, match=match)
        if "lower" not in match
        else pytest.raises(InvalidInput, match=match)
    ):
        calibrate_table(frame, task="site", label="y", **LEVELS)


@pytest.mark.parametrize("seed", range(40))
def test_honest_models_pass_however_weak_biased_or_unbalanced(seed: int) -> None:
    rng = np.random.default_rng(seed)
    separation = [0.4, 0.7, 1.3, 2.5][seed % 4]
    sites, labels, scores = draw_communes(rng, separation=separation)
    logits = np.log(scores) / rng.choice([0.5, 1, 2]) + rng.normal(size=4)  # biased
    logits += 0.5 * rng.normal(size=(78, 4))[sites] + 0.5 * rng.normal(size=scores.shape)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for honest in (scores, logits, probabilities, np.round(probabilities, 2)):
        check_examples(sites, honest, labels, classes=CHILDREN)


def test_exchanged_columns_lose_each_pair_that_was_won() -> None:
    rng = np.random.default_rng(3)
    tasks, labels = np.repeat(np.arange(20), 50), rng.integers(0, 2, 1000)
    scores = rng.dirichlet([1, 1], 1000)
    for either in (scores, np.log(scores)):
        wins, losses = count_swaps(tasks, labels, either)
        assert [*map(list, count_swaps(tasks, labels, either[:, ::-1]))] == [[*losses], [*wins]]


@given(st.integers(1, 3000))
def test_chance_is_told_from_a_weak_model_by_their_exact_probabilities(pairs: int) -> None:
    won = np.arange(pairs + 1)
    objects = np.array([judge_chance(w, pairs - w) is not None for w in won.tolist()])
    assert stats.binom.pmf(won[objects], pairs, 0.55).sum() <= 1e-3
    assert pairs < 3000 or stats.binom.pmf(won[objects], pairs, 0.5).sum() > 0.95


def test_a_model_slightly_but_surely_better_than_chance_passes() -> None:
    assert judge_chance(51_500, 48_500) is None
    assert judge_chance(50_100, 49_900) is not None


def test_a_perfect_model_passes_with_few_rows_ties_or_one_label() -> None:
    labels = np.tile([0, 1], 600)
    scores = np.eye(2)[labels]
    assert judge_best(labels, scores) is not None
    assert judge_best(labels[:999], scores[:999]) is None
    assert judge_best(labels, np.ones((1200, 2))) is None
    assert judge_best(0 * labels, np.tile([1.0, 0.0], (1200, 1))) is None
