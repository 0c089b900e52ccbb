"""Scores, labels and classes of a table: what is accepted, and what is not."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from metapac import InvalidInput
from metapac.tables import scores
from tests.helpers.tables import calibrate_table, evaluate_table

LOOSE: dict[str, Any] = {"epsilon": 0.5, "alpha": 0.5, "delta": 0.5}
PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


def test_a_column_that_only_looks_like_a_class_is_rejected() -> None:
    table = pa.table(
        {"g": [0, 1], "y": ["a", "b"], "p_a": [1.0, 0], "p_b": [0, 1.0], "p_true": [1.0, 1]}
    )
    with pytest.raises(
        ValueError,
        match=r"column 'y' never holds 'true', though .*classes: a, b, true; if not, .*: a, b\.",
    ):
        calibrate_table(table, task="g", label="y", **LOOSE, on_infeasible="trivial")
    result = calibrate_table(
        table, task="g", label="y", classes=["a", "b"], **LOOSE, on_infeasible="trivial"
    )
    assert result.columns_ == {"task": "g", "label": "y", "columns": "p_*", "classes": ["a", "b"]}


def test_task_and_label_may_be_swapped() -> None:
    table = pa.table(
        {"g": ["u", "u", "v"], "y": ["a", "b", "a"], "p_a": [0.9, 0.2, 0.7], "p_b": [0.1, 0.8, 0.3]}
    )
    with pytest.raises(InvalidInput, match=r"got 'u' in 2 rows.* Were task and label swapped\?$"):
        calibrate_table(table, task="y", label="g", **LOOSE)
    other = table.append_column("h", pa.array(["a", "b", "c"]))  # tasks that are not the classes
    with pytest.raises(InvalidInput, match="Name the class of each column"):
        calibrate_table(other, task="h", label="g", **LOOSE)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"label": None}, "label must name the column with the true label, since each class"),
        ({}, {"label": None, "score": "true"}, "label must name the column"),
        (
            {"y": ["a", "c", "b"]}, {"classes": ["a", "b"]},
            "column 'y' must hold one of the classes 'a', 'b', got 'c' in 1 row",
        ),
        (
            {"y": ["1", "0", "1"]}, {"columns": ["p_a", "p_b"]},
            r"if 'p_a' holds the scores of '0' .*, pass columns=\['p_a', 'p_b'\] and classes=\['0'",
        ),
        (
            {"y": ["a", None, "b"]}, {"score": "true"},
            "column 'y' must hold one of the classes 'a', 'b', got no label in 1 row",
        ),
        (
            {"y": pa.array([None] * 3, pa.string())}, {"score": "true"},
            "column 'y' holds no labels. Fill it in.",
        ),
        (
            {"g": ["u", None, "v"]}, {"score": "true"},
            "column 'g' is missing in 1 row; an example must belong to a task",
        ),
        (
            {"true": [1.0, None, math.nan]}, {"score": "true"},
            r"hold 1 null and 1 NaN out of 3 values \(by task, 'u', class 'b': 1, 'v', class",
        ),
        ({}, {"epsilon": {"a": 0.5}}, "epsilon has no value for class 'b', only for 'a'. Give"),
        (
            {}, {"epsilon": {"a": 0.5, "b": 0.5, "c": 0.5}},
            "epsilon names class 'c', but the classes are 'a', 'b'.",
        ),
        ({}, {"per_class": False, "score": "true"}, "pass either score, the column with the score"),
        (
            {}, {"per_class": False, "epsilon": {"a": 0.5}},
            "epsilon must be one number, got a mapping, .* Pass per_class=True",
        ),
    ],
)  # fmt: skip
def test_invalid_labels_and_classes_are_rejected(
    changes: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    columns = {"g": ["u", "u", "v"], "y": ["a", "b", "a"], "p_a": [1.0, 2, 3], "p_b": [1.0, 2, 3]}
    table = pa.table(columns | {"true": [1.0, 2.0, 3.0]} | changes)
    promise = LOOSE | {"per_class": True, "on_infeasible": "trivial", "label": "y"} | options
    with pytest.raises(ValueError, match=message):
        calibrate_table(table, task="g", **promise)


def test_a_column_with_too_many_values_is_not_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "_MAX_CLASSES", 5)
    table = pa.table({"g": ["a"] * 6, "id": [f"row {i}" for i in range(6)], "s": [1.0] * 6})
    with pytest.raises(
        ValueError, match="column 'id' holds more than 5 different labels. Pass the"
    ):
        calibrate_table(table, task="g", label="id", score="s", **LOOSE, per_class=True)


def test_tasks_are_case_sensitive_even_if_a_column_of_sqlite_is_not(tmp_path: Path) -> None:
    there = sqlite3.connect(tmp_path / "data.sqlite")
    there.execute(
        "CREATE TABLE t (g TEXT COLLATE NOCASE, y TEXT COLLATE NOCASE, p_a REAL, p_A2 REAL)"
    )
    there.executemany("INSERT INTO t VALUES (?, ?, 0.25, 0.5)", [("Ohio", "a"), ("ohio", "a2")])
    there.commit()
    there.close()
    path = tmp_path / "data.sqlite"
    allow = ("score-column", "task-names", "overlap")
    result = calibrate_table(
        path, task="g", score="p_a", **PROMISE, on_infeasible="trivial", allow=allow
    )
    assert result.tasks_.tolist() == ["Ohio", "ohio"]
    evaluation = evaluate_table(result, path, allow=allow)
    assert evaluation.tasks.tolist() == ["Ohio", "ohio"]
    with pytest.raises(ValueError, match="one of the classes 'a', 'A2', got 'a2' in 1 row"):
        calibrate_table(path, task="g", label="y", **PROMISE, allow=allow)
