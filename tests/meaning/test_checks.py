"""Checks of arrays: silent on honest data, and each problem is reported."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from metapac import InvalidInput, data_checks
from metapac.data_checks import CHECKS, CheckWarning, warn_of_scale
from tests.helpers.honest_scores import check_examples, SITES, draw_honest


@pytest.mark.parametrize("seed", range(5))
def test_honest_arrays_pass_without_warning(seed: int) -> None:
    labels, scores = draw_honest(np.random.default_rng(seed))
    names = [f"site {i}" for i in range(60)]
    tasks = np.array(names, dtype=object)[SITES]
    check_examples(tasks, scores, np.array(["no", "yes"])[labels], classes=["no", "yes"])
    check_examples(tasks, scores.astype(np.float32), labels)
    check_examples(tasks, scores[np.arange(len(labels)), labels])


def test_arrays_with_copies_missing_scores_and_mixed_scales() -> None:
    labels, scores = draw_honest(np.random.default_rng(0))
    twice = np.tile(np.arange(len(labels)), 2)
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        check_examples(SITES[twice], scores[twice], labels[twice])
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        check_examples(SITES[twice], scores[twice, 0])
    check_examples(SITES[twice], scores[twice], labels[twice], allow=("duplicates",))
    part = np.arange(len(labels) + 6000) % len(labels)
    with pytest.warns(CheckWarning, match="6000 of 30000 rows are copies"):
        check_examples(SITES[part], scores[part], labels[part])
    missing = scores.copy()
    missing[np.flatnonzero(labels == 0)[:3], 1] = np.nan
    with pytest.raises(InvalidInput, match=r"3 of 24000 rows \(by class, 'yes': 3\).*inf, which"):
        check_examples(SITES, missing, np.array(["no", "yes"])[labels], classes=["no", "yes"])
    check_examples(SITES, missing, labels, allow=("missing",))
    mixed = np.where(SITES[:, None] < 5, 100, 1) * scores
    with pytest.raises(InvalidInput, match="sum to 1 in 22000 rows and to 100 in 2000"):
        check_examples(SITES, mixed, labels)


def test_large_arrays_are_sampled_so_that_copies_stay_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data_checks, "MAX_ROWS", 5000)
    labels, scores = draw_honest(np.random.default_rng(0))
    check_examples(SITES, scores, labels)
    chosen = data_checks._sample_by_value(scores[:, 0], 5000)
    assert 4000 < len(chosen) < 6000
    twice = np.tile(np.arange(len(labels)), 2)
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        check_examples(SITES[twice], scores[twice], labels[twice])
    with pytest.raises(InvalidInput, match="true label scores lower"):
        check_examples(SITES, -scores, labels)


@pytest.mark.parametrize("allowed", [(), CHECKS])
def test_nothing_is_printed_or_warned_of_honest_data(allowed: tuple[str, ...], capsys: Any) -> None:
    labels, scores = draw_honest(np.random.default_rng(7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_examples(SITES, scores, labels, allow=allowed)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shape", [(2,), (5, 3), (400, 40)])
@pytest.mark.parametrize("missing", [False, True])
def test_percentages_are_noticed_in_prediction(shape: tuple[int, ...], missing: bool) -> None:
    scores = np.full(shape, 60.0)
    scores.flat[0] = np.inf if missing else 0.0
    with pytest.warns(CheckWarning, match="Divide these by 100"):
        warn_of_scale(scores, (0.0, 0.9))
    warn_of_scale(scores / 100, (0.0, 0.9))
    warn_of_scale(scores, None)
    warn_of_scale(scores[:0], (0.0, 0.9))


def test_a_few_small_percentages_are_not_taken_for_fractions() -> None:
    warn_of_scale(np.full(19, 0.6), (0.0, 99.0))
    with pytest.warns(CheckWarning, match="Multiply these by 100"):
        warn_of_scale(np.full(20, 0.6), (0.0, 99.0))


def test_only_the_first_rows_are_looked_at() -> None:
    scores = np.full((1001, 1), 0.6)
    scores[1000] = 60.0
    warn_of_scale(scores, (0.0, 0.9))
    scores[999] = 60.0
    with pytest.warns(CheckWarning):
        warn_of_scale(scores, (0.0, 0.9))
