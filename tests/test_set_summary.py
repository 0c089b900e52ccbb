"""Summaries of prediction sets, and what they warn of."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from metapac import InvalidInput, summarise_sets


@given(hnp.arrays(bool, st.tuples(st.integers(0, 30), st.integers(2, 4))))
def test_the_figures_are_those_of_a_loop(sets: np.ndarray) -> None:
    summary = summarise_sets(sets)
    sizes = [sum(row) for row in sets.tolist()]
    assert summary.rows == len(sizes)
    assert summary.empty == sizes.count(0)
    assert summary.single == sizes.count(1)
    assert summary.full == sizes.count(sets.shape[1])
    assert list(summary.by_class.values()) == [sum(column) for column in sets.T.tolist()]
    if sizes:
        assert summary.mean_size == pytest.approx(sum(sizes) / len(sizes))
    else:
        assert math.isnan(summary.mean_size)
        assert summary.to_json()["mean_size"] is None


def sets(no: int, yes: int, rows: int = 2000) -> np.ndarray:
    """Return sets of which the first ones contain "no", and the last ones "yes"."""
    index = np.arange(rows)
    return np.stack([index < no, index >= rows - yes], axis=1)


@pytest.mark.parametrize(
    ("no", "yes", "expected"),
    [
        (1900, 300, []),
        (
            1900,
            0,
            ["None of the 2000 sets contains 'yes': an example of such a class would be"],
        ),
        (2000, 9, [r"Hardly any of the 2000 sets contains some classes \('yes' in 9\)."]),
        (2000, 10, []),
        (2000, 0, ["All 2000 sets are alike: each contains 'no' and nothing else."]),
        (2000, 2000, ["All 2000 sets are alike: each contains every class."]),
        (0, 0, ["All 2000 sets are alike: each is empty."]),
    ],
)
def test_warnings(no: int, yes: int, expected: list[str]) -> None:
    found = summarise_sets(sets(no, yes), ["no", "yes"]).warnings()
    assert len(found) == len(expected)
    for text, start in zip(found, expected, strict=True):
        assert re.match(start, text), text


def test_more_empty_sets_than_may_miss() -> None:
    (found,) = summarise_sets(sets(1000, 206)).warnings(epsilon=0.1)
    assert found == (
        "39.7% of the sets are empty, and each of them misses the true label, but at most 10% may: "
        "the guarantee does not hold on these rows. Is it the same model, on the same scale?"
    )
    assert not summarise_sets(sets(1000, 206)).warnings(epsilon=0.4)
    assert not summarise_sets(sets(1000, 206)).warnings()


@pytest.mark.parametrize("rows", [1, 4, 40, 4000])
def test_a_few_more_empty_sets_may_be_chance(rows: int) -> None:
    for empty in range(0, rows + 1, -(-rows // 40)):
        summary = summarise_sets(sets(rows - empty, 0, rows), ["no", "yes"])
        found = [text for text in summary.warnings(epsilon=0.1) if "sets are empty" in text]
        by_chance = stats.binom.sf(empty - 1, rows, 0.1)
        assert bool(found) == (by_chance <= 1e-3 and (rows < 100 or empty < rows))


@pytest.mark.parametrize(("rows", "warns"), [(99, False), (100, True)])
def test_few_sets_say_nothing(rows: int, warns: bool) -> None:
    assert bool(summarise_sets(sets(rows, 0, rows)).warnings()) == warns


def test_many_classes_need_more_sets() -> None:
    kept = np.eye(10, dtype=bool)[np.arange(199) % 9]
    assert not summarise_sets(kept).warnings()
    kept = np.eye(10, dtype=bool)[np.arange(200) % 9]
    assert len(summarise_sets(kept).warnings()) == 1


@pytest.mark.parametrize(
    ("high", "warns"), [(0.99, False), (1.9, False), (2.1, True), (99.0, True), (None, False)]
)
def test_scores_beyond_those_of_calibration(high: float | None, warns: bool) -> None:
    summary = replace(summarise_sets(sets(1900, 300)), low=0.0, high=high)
    found = summary.warnings((0.01, 0.99))
    assert bool(found) == warns
    if warns:
        assert "those of the true labels reached only 0.99 in calibration" in found[0]
    assert not summary.warnings((0.01, math.inf))
    assert not summary.warnings()


def test_names_must_fit() -> None:
    with pytest.raises(InvalidInput, match="classes must name each of the 2 columns of sets, got"):
        summarise_sets(sets(5, 5, 10), ["a", "b", "c"])
    with pytest.raises(InvalidInput, match="sets must be a boolean matrix"):
        summarise_sets([[1, 0]])
