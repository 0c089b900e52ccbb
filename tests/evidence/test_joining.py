"""Evidence that is joined, and its classes. Clusters: tests/test_clusters.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import Guarantee, InvalidInput
from metapac.evidence import Evidence, join_evidence, with_classes
from tests.helpers.calibrations import collect_evidence

LOOSE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


def collect(
    tasks: list[int], classes: str, seed: int = 0, kind: Any = np.float64, per_class: bool = True
) -> Evidence:
    """Return the evidence of 40 examples of each task, which are the same in any company."""
    scores = np.concatenate([np.random.default_rng([seed, t]).random(40) for t in tasks])
    labels = np.tile(np.resize(list(classes), 40), len(tasks)) if per_class else None
    g = Guarantee(**LOOSE, per_class=per_class)
    return collect_evidence(g, scores.astype(kind), np.repeat(tasks, 40), labels)


def assert_equal(one: Evidence, other: Evidence) -> None:
    for name, left, right in zip(one._fields, one, other, strict=True):
        np.testing.assert_array_equal(left, right, name)


@settings(max_examples=40)
@given(tasks=st.integers(2, 9), seed=st.integers(0, 99), data=st.data(), per_class=st.booleans())
def test_joined_evidence_is_that_of_all_tasks(
    tasks: int, seed: int, data: st.DataObject, per_class: bool
) -> None:
    first = data.draw(st.integers(1, tasks - 1))
    old, new, whole = (
        collect(list(chosen), "ab", seed, per_class=per_class)
        for chosen in (range(first), range(first, tasks), range(tasks))
    )
    assert_equal(join_evidence(old, new), whole)


def test_a_class_of_some_tasks_has_no_examples_in_the_others() -> None:
    old, new = collect([0, 1], "bc"), collect([2], "ab")
    joined = join_evidence(old, new)
    assert joined.classes == ("a", "b", "c")
    assert joined.sizes.tolist() == [[0, 20, 20], [0, 20, 20], [20, 20, 0]]
    assert np.isneginf(joined.thresholds[joined.sizes == 0]).all()
    assert joined.lowest.tolist() == [
        new.lowest[0], min(old.lowest[0], new.lowest[1]), old.lowest[1],
    ]  # fmt: skip
    assert joined.highest is not None
    assert joined.highest.tolist() == [
        new.highest_or_inf[0],
        max(old.highest_or_inf[0], new.highest_or_inf[1]),
        old.highest_or_inf[1],
    ]


def test_an_unknown_highest_score_stays_unknown() -> None:
    old, new = collect([0], "ab"), collect([1], "ab")._replace(highest=None)
    assert join_evidence(old, new).highest_or_inf.tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("kinds", [(np.float32, np.float64), (np.float64, np.float32)])
def test_the_coarser_precision_is_kept(kinds: tuple[Any, Any]) -> None:
    old, new = (collect([i], "ab", kind=kind) for i, kind in enumerate(kinds))
    assert join_evidence(old, new).precision == np.float32


def test_a_table_has_no_other_classes() -> None:
    old = collect([0], "ab")._replace(columns={"label": "y"})
    assert join_evidence(old, collect([1], "b")).classes == ("a", "b")
    with pytest.raises(InvalidInput, match="labels holds the class 'c', which the table calibrat"):
        join_evidence(old, collect([1], "bc"))


def test_classes_in_another_order() -> None:
    evidence = collect([0, 1], "ab")
    changed = with_classes(evidence, ("b", "c", "a"))
    assert changed.classes == ("b", "c", "a")
    assert changed.sizes.tolist() == [[20, 0, 20]] * 2
    np.testing.assert_array_equal(changed.thresholds[:, [2, 0]], evidence.thresholds)
    np.testing.assert_array_equal(changed.lowest, [evidence.lowest[1], np.inf, evidence.lowest[0]])
    assert_equal(with_classes(evidence, ("a", "b")), evidence)
