"""Checks of the input and output of learners."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from metapac import InvalidInput, adaptation

as_probabilities = partial(adaptation.as_outputs, kind="probabilities")


def test_support_labels_are_int64_and_counted() -> None:
    labels, classes = adaptation.as_support_set(np.zeros((3, 2)), torch.tensor([2, 0, 0]), None)
    assert labels.dtype == np.int64
    assert (labels.tolist(), classes) == ([2, 0, 0], 3)
    assert adaptation.as_support_set([[0]], [True], 5)[1] == 5


def test_a_task_needs_a_support_example() -> None:
    with pytest.raises(InvalidInput, match="at least one labelled example to adapt to"):
        adaptation.as_support_set(np.zeros((0, 2)), np.zeros(0, int), 2)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_probabilities_keep_their_precision(precision: Any) -> None:
    values = np.array([[0.2, 0.8]], precision)
    checked = as_probabilities("model", values, rows=1, min_columns=2, max_columns=2)
    assert checked.dtype == precision
    whole = as_probabilities("model", [[0, 1]], rows=1, min_columns=1, max_columns=None)
    assert whole.dtype == np.float64


@pytest.mark.parametrize(
    ("columns", "expected"),
    [((1, None), r"\(2, at least 1\)"), ((1, 4), r"\(2, 1 to 4\)"), ((4, 4), r"\(2, 4\)")],
)
def test_the_expected_shape_is_named(columns: tuple[int, int | None], expected: str) -> None:
    fewest, largest = columns
    with pytest.raises(InvalidInput, match=rf"model must return .* {expected}, got shape \(3, 9\)"):
        as_probabilities("model", np.ones((3, 9)), rows=2, min_columns=fewest, max_columns=largest)


def test_labels_of_a_fitted_model_must_be_those_of_the_task() -> None:
    assert adaptation.count_known_labels(np.array([0, 3]), None) == 4
    assert adaptation.count_known_labels(np.array([0, 3]), 6) == 6
    for labels, classes in ((np.array([0, 3]), 3), (np.array([-1, 0]), None), (np.array("a"), 1)):
        with pytest.raises(InvalidInput, match="the model was fitted on labels"):
            adaptation.count_known_labels(np.atleast_1d(labels), classes)


def test_examples_are_counted_in_any_container() -> None:
    table = np.zeros((3, 2))
    kinds = (table, torch.zeros(3, 2), pd.DataFrame(table), sparse.csr_matrix(table), ["a"] * 3)
    assert [adaptation.count_examples(x) for x in kinds] == [3] * 5


def test_embeddings_must_be_finite() -> None:
    z = torch.zeros(4, 2)
    adaptation.check_finite_embeddings(z)
    z[1, 0] = torch.nan
    with pytest.raises(InvalidInput, match=r"1 of 4 .* \(first at position 1\)\. Check x for NaN"):
        adaptation.check_finite_embeddings(z)


def test_logits_that_look_like_probabilities_are_pointed_out() -> None:
    def read(values: Any) -> Any:
        rows, columns = np.shape(values)
        shape = {"rows": rows, "min_columns": columns, "max_columns": columns}
        return adaptation.as_outputs("f", np.array(values, float), kind="logits", **shape)

    with pytest.warns(UserWarning, match="taken for logits. If they are probabilities, say"):
        read([[0.3, 0.7], [1.0, 0.0]] * 4)
    for fine in ([[0.3, 0.8], [1.0, 0.0]], [[-0.5, 1.5], [1.0, 0.0]], [[1.0], [1.0]]):
        read(fine * 4)
    read([[0.3, 0.7]] * 7)  # too few to tell
    read([[0.0, 1.0], [1.0, 0.0]] * 4)  # counts
