"""Calibrating on a table is calibrating on arrays: on every engine, whatever the scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from engines import ENGINES, as_if_large, connection, put
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from metapac import InfeasibleGuarantee, MetaPS, allowed_errors, load
from metapac.tables import calibrate_table, predict_table
from metapac.tasks.synthetic import NormalFamily

LOOSE: dict[str, Any] = {"epsilon": 0.5, "alpha": 0.5, "delta": 0.5}
NASTY = [
    "plain",
    "it's",
    'say "x"',
    "a,b;c\td",
    "line\nbreak",
    "\N{DOG}\N{ZERO WIDTH JOINER}",
    "é",
    "%_*?[",
    "\\",
    " ",
    "NULL",
    "007",
    "7",
]


def assert_same(found: MetaPS, expected: MetaPS) -> None:
    """The very same numbers, tasks by name instead of by first appearance."""
    order = np.argsort(expected.tasks_, kind="stable")
    assert found.tasks_.tolist() == expected.tasks_[order].tolist()
    assert found.tasks_.dtype == expected.tasks_.dtype
    assert found.task_sizes_.tolist() == expected.task_sizes_[order].tolist()
    assert found.task_thresholds_.tolist() == expected.task_thresholds_[order].tolist()
    assert found._evidence.thresholds.tolist() == expected._evidence.thresholds[order].tolist()
    assert found.threshold_ == expected.threshold_
    assert found.precision_ == expected.precision_
    assert found.level_ == expected.level_
    assert found.promise_ == expected.promise_


def both(frame: Any, scores: NDArray[Any], tasks: Any, **promise: Any) -> None:
    promise = LOOSE | {"on_infeasible": "trivial"} | promise
    expected = MetaPS(**promise).calibrate(scores, tasks)
    found = calibrate_table(
        frame, task="task", score="score", connection=connection("duckdb"), **promise
    )
    assert_same(found, expected)


def columns(kind: Any) -> st.SearchStrategy[list[Any]]:
    if kind == np.int64:
        return st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2), min_size=1)
    width = 8 * np.dtype(kind).itemsize
    one = st.floats(allow_nan=False, width=width)
    return st.lists(one | st.sampled_from([-np.inf, np.inf, 0.0, -0.0, 0.5]), min_size=1)


@settings(max_examples=60)
@given(
    st.sampled_from([np.float32, np.float64, np.int64]).flatmap(
        lambda kind: columns(kind).map(lambda values: np.array(values, kind))
    ),
    st.sampled_from(["tight", "adaptive", 0.3]),
    st.integers(1, 3) | st.sampled_from([2**62]),
    st.booleans(),
    st.data(),
)
def test_any_scores_give_what_arrays_give(
    scores: NDArray[Any], split: Any, worth: int, named: bool, data: st.DataObject
) -> None:
    count = len(scores)
    numbers = data.draw(st.lists(st.integers(-3, 3), min_size=count, max_size=count))
    tasks = [f"s{i}" for i in numbers] if named else numbers
    frame = pa.table({"task": pa.array(tasks), "score": scores})
    with as_if_large(worth):
        both(frame, scores, tasks, split=split)


def family(count: int = 60, examples: int = 200) -> tuple[NDArray[Any], NDArray[Any]]:
    """Scores of alike tasks in random order, which guesses should find."""
    normal = NormalFamily()
    scores = normal.draw_scores(normal.draw_tasks(count, rng=0), examples, rng=1)
    order = np.random.default_rng(2).permutation(scores.size)
    return scores.ravel()[order], np.repeat([f"site {i}" for i in range(count)], examples)[order]


@pytest.mark.parametrize("split", ["tight", "even", "adaptive", 0.2])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_split_and_precision(split: Any, kind: Any) -> None:
    scores, tasks = family()
    scores = scores.astype(kind)
    with as_if_large():
        both(
            pd.DataFrame({"task": tasks, "score": scores}), scores, tasks, split=split, epsilon=0.1
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine(engine: str) -> None:
    scores, tasks = family(40, 120)
    scores[tasks == "site 3"] = 0.25  # all tied
    scores[(tasks == "site 4") & (scores < 3)] = -np.inf
    scores[tasks == "site 5"] = np.round(scores[tasks == "site 5"])
    tasks = tasks.astype(object)
    for i, name in enumerate(NASTY):
        tasks[tasks == f"site {i}"] = name
    table = put(engine, pd.DataFrame({"task": tasks, "score": scores}))
    promise: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1, "split": "adaptive"}
    expected = MetaPS(**promise).calibrate(scores, tasks)
    with as_if_large():
        assert_same(calibrate_table(table, task="task", score="score", **promise), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_single_precision_on_every_engine(engine: str) -> None:
    scores, tasks = family(10, 50)
    scores = scores.astype(np.float32)
    frame = pd.DataFrame({"task": tasks, "score": scores})
    promise = LOOSE | {"on_infeasible": "trivial"}
    found = calibrate_table(put(engine, frame), task="task", score="score", **promise)
    expected = MetaPS(**promise).calibrate(scores, tasks)
    assert found.threshold_ == expected.threshold_
    # SQLite has one kind of number only.
    assert found.precision_ == (np.float64 if engine == "sqlite" else np.float32)


def test_frames_of_every_library() -> None:
    scores, tasks = family(5, 20)
    frame = pd.DataFrame({"task": tasks, "score": scores})
    for kind in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        both(kind, scores, tasks)


def test_one_task_of_ten_million_rows() -> None:
    there = connection("duckdb")
    # A permutation of 0, 1, 2, ...: the score of rank k is k.
    there.raw_sql(
        "CREATE OR REPLACE TEMP VIEW ten_million AS SELECT 'all' AS task, "
        "((i * 7919) % 10000000)::DOUBLE AS score FROM range(10000000) t(i)"
    )
    found = calibrate_table(
        there.table("ten_million"), task="task", score="score", epsilon=0.1, alpha=0.1,
        delta=0.1, on_infeasible="trivial",
    )  # fmt: skip
    assert found.task_sizes_.tolist() == [10_000_000]
    assert found.task_thresholds_.tolist() == [allowed_errors(10_000_000, 0.1, 0.05)]


def test_fifty_thousand_tasks_of_one_row() -> None:
    frame = pa.table({"task": np.arange(50_000), "score": np.linspace(0, 1, 50_000)})
    with pytest.raises(InfeasibleGuarantee, match="cannot be promised"):
        calibrate_table(frame, task="task", score="score", epsilon=0.1, alpha=0.1, delta=0.1)
    trivial = calibrate_table(
        frame, task="task", score="score", epsilon=0.1, alpha=0.1, delta=0.1,
        on_infeasible="trivial",
    )  # fmt: skip
    assert len(trivial.tasks_) == 50_000
    assert trivial.threshold_ == -math.inf


def test_the_promise_can_be_saved_and_added_to(tmp_path: Any) -> None:
    scores, tasks = family(5, 40)
    promise = LOOSE | {"on_infeasible": "trivial"}
    found = calibrate_table(
        pd.DataFrame({"task": tasks, "score": scores}), task="task", score="score", **promise
    )
    found.save(tmp_path / "promise.json")
    more = np.random.default_rng(3).normal(size=50)
    again = load(tmp_path / "promise.json").add(more, ["new"] * 50)
    direct = MetaPS(**promise).calibrate(np.append(scores, more), [*tasks, *["new"] * 50])
    assert again.threshold_ == direct.threshold_


def test_a_table_that_changes_between_passes_is_noticed() -> None:
    there = connection("duckdb")
    there.raw_sql("CREATE OR REPLACE TEMP SEQUENCE ticks")
    there.raw_sql(
        "CREATE OR REPLACE TEMP VIEW moving AS "
        "SELECT 'a' AS task, nextval('ticks')::DOUBLE AS score FROM range(100)"
    )
    with pytest.raises(ValueError, match="changed while it was being read: two passes over it"):
        calibrate_table(
            there.table("moving"), task="task", score="score", **LOOSE, on_infeasible="trivial"
        )


def test_parameters_are_checked_before_the_table_is_opened() -> None:
    with pytest.raises(ValueError, match="epsilon must be a number strictly between 0 and 1"):
        calibrate_table("nowhere", task="t", score="s", epsilon=2, alpha=0.1, delta=0.1)
    with pytest.raises(ValueError, match="on_infeasible must be 'raise' or 'trivial', got 'x'"):
        calibrate_table("nowhere", task="t", score="s", **LOOSE, on_infeasible="x")
    with pytest.raises(TypeError, match="confidence_level is called otherwise here"):
        calibrate_table("nowhere", task="t", score="s", confidence_level=0.9)  # type: ignore[call-arg]


@pytest.mark.parametrize("engine", ["postgres", "sqlite", "duckdb"])
@pytest.mark.parametrize("kind", ["softmax", "tiny", "large", "denormal"])
def test_scores_whose_squares_are_no_numbers(engine: str, kind: str) -> None:
    """PostgreSQL fails on squares too large or too small; the search must not need them."""
    rng = np.random.default_rng(0)
    scores = {
        "softmax": 1 / (1 + np.exp(-rng.normal(0, 20, 400))).astype(np.float32),
        "tiny": np.exp(-rng.exponential(100, 400)),
        "large": rng.normal(size=400) * 1e25,
        "denormal": rng.integers(0, 1000, 400) * 5e-324,
    }[kind]
    tasks = rng.integers(0, 8, 400)
    table = put(engine, pd.DataFrame({"task": tasks, "score": scores}))
    direct = MetaPS(**LOOSE).calibrate(scores, tasks)
    with as_if_large():
        found = calibrate_table(table, task="task", score="score", **LOOSE)
    order = np.argsort(direct.tasks_)
    assert found.task_thresholds_.tolist() == direct.task_thresholds_[order].tolist()


def test_a_column_that_only_looks_like_a_class_is_noticed() -> None:
    table = pa.table(
        {"g": [0, 1], "y": ["a", "b"], "p_a": [1.0, 0], "p_b": [0, 1.0], "p_true": [1.0, 1]}
    )
    with pytest.raises(
        ValueError,
        match=r"column 'y' never holds 'true', though .*s: a, b, true; if not, .*: a, b\.",
    ):
        calibrate_table(table, task="g", label="y", **LOOSE, on_infeasible="trivial")
    found = calibrate_table(
        table, task="g", label="y", classes=["a", "b"], **LOOSE, on_infeasible="trivial"
    )
    assert found.columns_ == {"task": "g", "label": "y", "columns": "p_*", "classes": ["a", "b"]}


def test_the_classes_found_are_remembered() -> None:
    columns = {"g": [0, 1], "y": ["a", "b"], "p_a": [1.0, 0], "p_b": [0, 1.0]}
    found = calibrate_table(
        pa.table(columns), task="g", label="y", **LOOSE, on_infeasible="trivial"
    )
    more = predict_table(found, pa.table({**columns, "p_c": [1.0, 1.0]})).to_pyarrow()
    assert more["set"].to_pylist() == [["a", "b"]] * 2  # nothing was certified: both, and no c
    del columns["p_b"]
    with pytest.raises(ValueError, match="has no column 'p_b'; it has: g, y, p_a"):
        predict_table(found, pa.table(columns))
