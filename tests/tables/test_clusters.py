"""Clusters in tables: the tasks drawn and the threshold are those of the array route."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import Context, InvalidInput, MetaPS, evaluate, load
from tests.helpers import engines
from tests.helpers.tables import calibrate_table, evaluate_table, predict_table

PROMISE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.2, "delta": 0.1}
COLUMNS: dict[str, Any] = {"task": "task", "score": "score", "cluster": "alphabet"}


def made(clusters: int = 40, tasks: int = 5, examples: int = 20, rng: int = 0) -> pd.DataFrame:
    """Return examples of tasks in clusters whose scores have a level of their own."""
    generator = np.random.default_rng(rng)
    level = generator.random(clusters).repeat(tasks * examples)
    task = np.arange(clusters * tasks).repeat(examples)
    return pd.DataFrame(
        {
            "alphabet": [f"a{i}" for i in range(clusters) for _ in range(tasks * examples)],
            "task": [f"t{i}" for i in task],
            "score": level + generator.random(len(task)),
        }
    )


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_a_table_gives_what_arrays_give(engine: str, tmp_path: Path) -> None:
    frame = made()
    promise = calibrate_table(engines.put(engine, frame), **COLUMNS, **PROMISE, rng=4)
    arrays = MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=frame.alphabet, rng=4)
    order = np.argsort(arrays.tasks_)
    assert arrays.clusters_ is not None
    assert promise.clusters_ is not None
    assert promise.threshold_ == arrays.threshold_
    assert promise.tasks_.tolist() == arrays.tasks_[order].tolist()
    assert promise.clusters_.tolist() == arrays.clusters_[order].tolist()
    assert promise.columns_ == COLUMNS
    assert "of new tasks of new alphabets" in promise.promise_  # the column lends its name
    promise.save(tmp_path / "promise.json")

    new = made(rng=1).replace({"alphabet": r"^a", "task": r"^t"}, "n", regex=True)
    judged = evaluate_table(load(tmp_path / "promise.json"), engines.put(engine, new))
    expected = evaluate(arrays, new.score, new.task, clusters=new.alphabet)
    assert judged.tasks.tolist() == expected.tasks.tolist()
    assert judged.missed.tolist() == expected.missed.tolist()


def test_clusters_that_are_numbers_are_those_of_arrays() -> None:
    frame = made()
    number = frame.alphabet.str[1:].astype(int)
    arrays = MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=number)
    for kind in (int, float):
        promise = calibrate_table(frame.assign(alphabet=number.astype(kind)), **COLUMNS, **PROMISE)
        assert promise.threshold_ == arrays.threshold_
        assert {*promise.tasks_} == {*arrays.tasks_}


def test_the_cluster_is_no_class() -> None:
    frame = made()
    p = frame.score / 2
    answers = np.where(np.random.default_rng(0).random(len(p)) < p, "yes", "no")
    table = frame.assign(p_yes=p, p_no=1 - p, p_home=frame.alphabet, y=answers)
    promise = calibrate_table(table, task="task", label="y", cluster="p_home", **PROMISE)
    assert promise.columns_ is not None
    assert promise.columns_["classes"] == ["yes", "no"]
    assert predict_table(promise, table).to_pandas()["set_size"].max() == 2


def test_no_task_of_a_cluster_may_be_trained_on() -> None:
    frame = made()
    drawn = calibrate_table(frame, **COLUMNS, **PROMISE).tasks_.tolist()
    other = next(task for task in frame.task if task not in drawn)
    with pytest.raises(InvalidInput, match="trained_on and the calibration tasks share 1 task"):
        calibrate_table(frame, **COLUMNS, **PROMISE, context=Context(trained_on=[other]))


def test_evaluation_needs_the_clusters() -> None:
    frame = made()
    arrays = MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=frame.alphabet)
    new = made(rng=1).replace({"alphabet": r"^a", "task": r"^t"}, "n", regex=True)
    names: dict[str, Any] = {"task": "task", "score": "score"}
    with pytest.raises(InvalidInput, match="cluster must name the column .* pass the task column"):
        evaluate_table(arrays, new, **names)
    assert len(evaluate_table(arrays, new, **names, cluster="alphabet").tasks) == 40
    assert len(evaluate_table(arrays, new, **names, cluster="task").tasks) == 200
    promise = calibrate_table(frame, **COLUMNS, **PROMISE)
    with pytest.raises(InvalidInput, match="has no column 'alphabet'"):
        evaluate_table(promise, new.drop(columns="alphabet"))
    plain = calibrate_table(frame, **names, **PROMISE)
    assert len(evaluate_table(plain, new, cluster="alphabet").tasks) == 40
