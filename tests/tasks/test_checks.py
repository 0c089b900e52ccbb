"""Checks of tasks and pools: conversions, rejections and remedies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from metapac import InvalidInput
from metapac.fewshot import tasks

X = np.arange(10.0)


def test_examples_stay_as_they_are_if_they_can_be_indexed() -> None:
    for x in (X, torch.from_numpy(X), sparse.csr_matrix(np.eye(3))):
        assert tasks.as_examples("x", x) is x
    pandas = pytest.importorskip("pandas")
    assert isinstance(tasks.as_examples("x", pandas.DataFrame({"a": X})), np.ndarray)
    with pytest.raises(InvalidInput, match=r"x must hold one row for each example, got 3\."):
        tasks.as_examples("x", 3)


def test_positions_are_int64_and_may_be_none() -> None:
    assert tasks.as_positions("query", np.array([3, 1], np.uint8), X).dtype == np.int64
    assert len(tasks.as_positions("query", [], X)) == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 0], r"query must hold each position once: .* Drop the repeats with np\.unique"),
        ([0.5], r"query must hold positions in x, got float64"),
        ([10], r"query must hold positions from 0 to 9, the rows of x, got 10 to 10"),
    ],
)
def test_bad_positions_are_rejected(values: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        tasks.as_positions("query", values, X)


def test_labels_may_be_integers_in_a_column_of_objects() -> None:
    assert tasks.as_labels("y", np.array([2, 0], dtype=object)).tolist() == [2, 0]
    assert tasks.as_labels("y", [True, False]).tolist() == [1, 0]


def test_classes_are_counted_up_to_the_largest_label() -> None:
    labels = np.array([0, 4])
    assert tasks.as_class_count("y", labels, None) == 5
    assert tasks.as_class_count("y", labels[:0], None) == 0
    assert tasks.as_class_count("y", labels, 7) == 7
    with pytest.raises(InvalidInput, match=r"labels below classes=3, got 4\. Pass classes=5"):
        tasks.as_class_count("y", labels, 3)


def test_ids_are_strings_or_integers_of_one_type() -> None:
    assert tasks.as_ids("y", (name for name in "ab")).tolist() == ["a", "b"]
    assert tasks.as_ids("y", np.array([1, 2], dtype=object)).dtype == np.int64
    with pytest.raises(InvalidInput, match=r"y must be all strings or all integers, got int \(1\)"):
        tasks.as_ids("y", [1, "a"])


def test_the_message_on_sizes_says_what_is_needed() -> None:
    needed = "shots + queries"
    positions = [np.arange(3), np.arange(9)]
    with pytest.raises(InvalidInput) as error:
        tasks.check_sizes("class", ["a", "b"], positions, needed, 4)
    python = "each class must have at least shots + queries = 4 examples, got 'a' with 3."
    assert str(error.value).startswith(python)
    tasks.check_sizes("class", ["a", "b"], positions, needed, 3)


def test_pools_cannot_need_more_classes_than_there_are() -> None:
    tasks.check_pool_sizes("classes", {"train": 2, "test": 1}, 3)
    for parts in ({"train": 3, "test": 1}, {"train": 0}):
        with pytest.raises(InvalidInput, match="must together hold from 1 to 3 classes"):
            tasks.check_pool_sizes("classes", parts, 3)


@pytest.mark.parametrize("x", [{"a": 1}, {1, 2}, 3, "text", b"bytes"])
def test_what_has_no_rows_is_no_array_of_examples(x: Any) -> None:
    with pytest.raises(ValueError, match="x must hold one row for each example, got"):
        tasks.as_examples("x", x)


def test_a_task_names_each_of_its_classes_or_none() -> None:
    tasks.check_class_names(None, 3)
    tasks.check_class_names(["a", "b"], 2)
    with pytest.raises(ValueError, match="one name for each of 3 labels, got 2"):
        tasks.check_class_names(["a", "b"], 3)
