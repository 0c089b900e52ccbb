"""Ways, shots and queries: one number takes nothing from the generator, choices are uniform."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from metapac import InvalidInput
from metapac.fewshot.drawing import Settings, as_choices, draw_one

FALSE_ALARM = 1e-6


@pytest.mark.parametrize(
    ("value", "choices"),
    [
        (5, (5,)),
        (5.0, (5,)),
        (np.int16(5), (5,)),
        (np.array(5), (5,)),
        (range(5, 8), (5, 6, 7)),
        ((5, 20), (5, 20)),
        ([3, 3, 9], (3, 3, 9)),
        (np.array([2, 4]), (2, 4)),
    ],
)
def test_a_number_is_one_choice_and_a_sequence_lists_them(value: Any, choices: Any) -> None:
    assert as_choices("ways", value) == choices


@pytest.mark.parametrize(
    "value", [0, -1, 2.5, "5", None, {5}, [], range(5, 5), [0, 5], [1.5], [[5]]]
)
def test_other_values_are_refused_by_name(value: Any) -> None:
    with pytest.raises(ValueError, match=r"ways must (be|hold)"):
        as_choices("ways", value)


def test_an_empty_range_is_refused_with_an_example() -> None:
    with pytest.raises(ValueError, match=r"such as range\(5, 21\) or \[5, 20\], got range\(9, 5\)"):
        as_choices("ways", range(9, 5))


def test_one_choice_takes_nothing_from_the_generator() -> None:
    rng, untouched = np.random.default_rng(0), np.random.default_rng(0)
    assert Settings.read(5, 1, 15).draw(rng) == (5, 1, 15)
    assert rng.random() == untouched.random()


def test_choices_are_uniform_and_independent() -> None:
    rng = np.random.default_rng(0)
    settings = Settings.read(range(2, 5), [1, 5], 3)
    counts = Counter(settings.draw(rng) for _ in range(6000))
    assert counts.keys() == {(w, s, 3) for w in (2, 3, 4) for s in (1, 5)}
    assert stats.chisquare([*counts.values()]).pvalue > FALSE_ALARM
    doubled = Counter(draw_one([7, 7, 9], rng) for _ in range(6000))
    assert stats.binomtest(doubled[7], 6000, 2 / 3).pvalue > FALSE_ALARM
    with pytest.raises(AssertionError):  # the check can see a choice that is twice as likely
        assert stats.chisquare([doubled[7], doubled[9]]).pvalue > FALSE_ALARM


def test_the_largest_task_needs_the_largest_shots_and_queries() -> None:
    assert Settings.read(range(2, 9), [1, 5], [3, 10]).largest == 15


def test_tasks_without_support_are_not_mixed_with_others() -> None:
    assert Settings.read(5, 0, 1).shots == (0,)
    assert Settings.read(5, [0], 1).shots == (0,)
    with pytest.raises(InvalidInput, match=r"shots must not mix 0 with other numbers, got range"):
        Settings.read(5, range(3), 1)
