"""What an evaluation shows: neglected classes, the worst tasks, a frame and a figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from metapac import PS, evaluate
from tests.helpers.labelled_sites import calibrate, run


def test_a_neglected_class_is_reported() -> None:
    promise = PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 101))
    labels = np.array(["no"] * 950 + ["yes"] * 50)
    scores = np.where((labels == "no")[:, None], [0.9, 0.0], [0.9, 0.0])
    result = evaluate(promise, scores, np.repeat(["a", "b"], 500), labels, classes=["no", "yes"])
    assert [part.label for part in result.neglected] == ["yes"]
    few = np.r_[0:950, 950]  # one miss of one shows nothing
    alone = evaluate(
        promise, scores[few], np.array(["a"] * 951), labels[few], classes=["no", "yes"]
    )
    assert alone.neglected == []
    assert "class yes missed in 50 of 50" in repr(result)
    assert result.verdict is not None
    assert result.verdict.status == "holds"
    assert "<td>yes</td><td>50 of 50</td><td>100%</td>" in result._repr_html_()


def test_the_worst_tasks_have_the_strongest_evidence() -> None:
    promise = PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 101))
    counts = {"tiny": (2, 2), "large": (300, 1000), "good": (0, 1000), "small": (1, 2)}
    tasks = np.concatenate([[name] * n for name, (_k, n) in counts.items()])
    scores = np.concatenate([np.arange(n) >= k for k, n in counts.values()]).astype(float)
    result = evaluate(promise, scores, tasks)
    assert [row["task"] for row in result.worst()] == ["large", "tiny", "small", "good"]
    assert [row["task"] for row in result.worst(1)] == ["large"]
    assert result.worst(2)[1] | {"low": 0} == {
        "task": "tiny",
        "examples": 2,
        "missed": 2,
        "error": 1.0,
        "low": 0,
        "high": 1.0,
    }


def test_the_rows_of_many_tasks_convert_each_name_once() -> None:
    converted = []

    class Names(np.ndarray[Any, Any]):
        def tolist(self) -> Any:
            converted.append(self.size)
            return super().tolist()

    promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    tasks, scores = np.repeat(np.arange(500), 4), np.arange(2000) % 7 / 6
    evaluation = evaluate(promise, scores, tasks)
    named = replace(evaluation, tasks=evaluation.tasks.view(Names))
    assert named.worst(500) == evaluation.worst(500)
    assert sorted(row["task"] for row in named.worst(500)) == list(range(500))
    assert sum(converted) == 1000  # not 500 * 500 for each of the two calls


def test_the_frame_and_the_figure(frame: pd.DataFrame, tmp_path: Path) -> None:
    result = run(calibrate(), frame)
    table = result.to_pandas()
    assert table.task.tolist() == ["a", "b", "d"]
    assert (table.missed / table.examples).tolist() == table.error.tolist()
    figure = result.plot(tmp_path / "tasks.png")
    assert (tmp_path / "tasks.png").read_bytes().startswith(b"\x89PNG")
    assert len(figure.axes) == 3
