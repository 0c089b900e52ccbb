"""Scores, labels and classes of a table: what is accepted, and what is not."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.tables import calibrate_table, evaluate_table

LOOSE: dict[str, Any] = {"epsilon": 0.5, "alpha": 0.5, "delta": 0.5}
PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


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
