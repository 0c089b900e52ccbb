"""A task holds positions, shares its data, and keeps support and query apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from metapac.fewshot import Task

X = np.arange(20.0).reshape(10, 2)


def task(**changes: Any) -> Task:
    values: dict[str, Any] = {"name": "ohio", "x": X, "classes": 3}
    values |= {"support": [3, 1], "support_y": [0, 1], "query": [0, 9, 5], "query_y": [1, 1, 2]}
    return Task(**values | changes)


def test_support_and_query_are_rows_of_the_shared_data() -> None:
    ohio = task()
    assert ohio.x is X
    assert ohio.support_x.tolist() == [[6, 7], [2, 3]]
    assert ohio.query_x.tolist() == [[0, 1], [18, 19], [10, 11]]
    for array in (ohio.support, ohio.support_y, ohio.query, ohio.query_y):
        assert array.dtype == np.int64
    assert repr(ohio) == "Task(name='ohio', classes=3)"


def test_data_may_be_a_tensor_or_a_mapped_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    tensor = torch.from_numpy(X)
    assert task(x=mapped).x is mapped
    assert task(x=mapped).query_x.tolist() == task().query_x.tolist()
    assert isinstance(task(x=tensor).query_x, torch.Tensor)
    assert task(x=tensor).query_x.tolist() == task().query_x.tolist()


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, np.ndarray.tolist])
def test_from_arrays_keeps_four_arrays(kind: Any) -> None:
    support_y, query_y = np.array([1, 0]), np.array([2, 0, 0])
    made = Task.from_arrays(kind(X[:2]), kind(support_y), kind(X[5:8]), kind(query_y), name=7)
    assert np.asarray(made.support_x).tolist() == X[:2].tolist()
    assert np.asarray(made.query_x).tolist() == X[5:8].tolist()
    assert (made.name, made.classes) == (7, 3)
    assert (made.support_y.tolist(), made.query_y.tolist()) == ([1, 0], [2, 0, 0])


def test_an_empty_support_set_and_absent_labels_are_valid() -> None:
    unadapted = Task.from_arrays(X[:0], [], X, np.zeros(10, bool), name="new", classes=4)
    assert (len(unadapted.support_x), len(unadapted.query_x), unadapted.classes) == (0, 10, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query": [0, 1, 5]}, r"must not share examples, got position 1 in both\. Score only"),
        ({"query_y": [0, 1, 3]}, r"query_y must hold labels below classes=3, got 3\. Pass classes"),
        ({"support_y": [-1, 0]}, r"support_y must hold labels 0, 1, \.\.\., got -1\. Number them"),
        ({"support_y": [0.5, 1]}, r"support_y must hold labels 0, 1, \.\.\., got float64"),
        ({"support_y": ["a", "b"]}, r"support_y must hold labels 0, 1, \.\.\., got <U1"),
        ({"support_y": [0]}, r"support_y and support must have the same length, got 1 and 2"),
        ({"support": [3, 10]}, r"support must hold positions from 0 to 9, .* got 3 to 10"),
        ({"support": [-1, 3]}, r"support must hold positions from 0 to 9, .* got -1 to 3"),
        ({"support": [True, False]}, r"must hold positions in x, got bool\. Turn a mask"),
        ({"query": [[0, 9, 5]]}, r"query must be one-dimensional, .* got shape \(1, 3\)"),
        ({"classes": 0}, r"classes must be a whole number from 1"),
    ],
)
def test_invalid_fields_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task(**changes)


def test_from_arrays_rejects_arrays_that_do_not_match() -> None:
    with pytest.raises(ValueError, match="query_y and query_x must have the same length, got 1"):
        Task.from_arrays(X[:2], [0, 1], X[2:4], [0], name="new")
    with pytest.raises(ValueError, match=r"labels below classes=2, got 2\. Pass classes=3 or more"):
        Task.from_arrays(X[:2], [0, 1], X[2:4], [0, 2], name="new", classes=2)
    with pytest.raises(ValueError, match="every label from 0 to 2, but 0 does not occur. Number"):
        Task.from_arrays(X[:2], [1, 2], X[2:4], [1, 2], name="new")
    assert Task.from_arrays(X[:2], [1, 2], X[2:4], [1, 2], name="new", classes=3).classes == 3
    with pytest.raises(ValueError, match=r"support_x must hold one row for each example, got 3\."):
        Task.from_arrays(3, [0], X, np.zeros(10, int), name="new")


def test_tasks_import_neither_torch_nor_matplotlib() -> None:
    code = "import sys; from metapac.fewshot import Task, glyphs; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "matplotlib", "pandas"} & set(done.stdout.split())
