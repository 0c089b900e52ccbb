"""Calibration on a table equals calibration on arrays, on every engine and for any scores."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from metapac import MetaPS
from metapac.binomial import allowed_errors_in_task
from metapac.fewshot.synthetic import NormalFamily
from tests.helpers.engines import as_if_large, connection, put
from tests.helpers.tables import calibrate_table, predict_table
from tests.tables.test_engines_agree import CLASSES, EACH, KNOWN

LOOSE: dict[str, Any] = {"epsilon": 0.5, "alpha": 0.5, "delta": 0.5}


def assert_same(result: MetaPS, expected: MetaPS) -> None:
    """Check for identical numbers, with tasks sorted by name.

    Classes may be in the order of the columns.
    """
    order = np.argsort(expected.tasks_, kind="stable")
    assert result.tasks_.tolist() == expected.tasks_[order].tolist()
    assert result.tasks_.dtype == expected.tasks_.dtype
    place: Any = slice(None)
    if expected.classes_ is None:
        assert result.threshold_ == expected.threshold_
        assert result.level_ == expected.level_
        assert result.promise_ == expected.promise_
    else:
        place = [expected.classes_.index(label) for label in result.classes_ or ()]
        assert sorted(place) == list(range(len(expected.classes_)))
        assert result.thresholds_.tolist() == expected.thresholds_[place].tolist()
        assert result.remarks_ == [
            expected._outcomes[i].remark() for i in place if expected._outcomes[i].remark()
        ]
    ours, theirs = result._evidence, expected._evidence
    order = np.argsort(theirs.names, kind="stable")  # including those left out
    assert ours.sizes.tolist() == theirs.sizes[order][:, place].tolist()
    assert ours.thresholds.tolist() == theirs.thresholds[order][:, place].tolist()
    assert ours.lowest.tolist() == theirs.lowest[place].tolist()
    if theirs.highest is not None:  # where it matters
        assert ours.highest is not None
        assert ours.highest.tolist() == theirs.highest[place].tolist()
    assert result.precision_ == expected.precision_


def both(frame: Any, scores: NDArray[Any], tasks: Any, **promise: Any) -> None:
    promise = LOOSE | {"on_infeasible": "trivial"} | promise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of scores that tie at the bottom
        expected = MetaPS(**promise).calibrate(scores, tasks)
        result = calibrate_table(
            frame, task="task", score="score", connection=connection("duckdb"), **promise
        )
    assert_same(result, expected)


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
    st.sampled_from(["joint", "tight", 0.3]),
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
    """Return scores of similar tasks in random order, which guesses should find."""
    normal = NormalFamily()
    scores = normal.draw_scores(normal.draw_tasks(count, rng=0), examples, rng=1)
    order = np.random.default_rng(2).permutation(scores.size)
    return scores.ravel()[order], np.repeat([f"site {i}" for i in range(count)], examples)[order]


@pytest.mark.parametrize("split", ["joint", "tight", "even", 0.2])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_split_and_precision(split: Any, kind: Any) -> None:
    scores, tasks = family()
    scores = scores.astype(kind)
    with as_if_large():
        both(
            pd.DataFrame({"task": tasks, "score": scores}), scores, tasks, split=split, epsilon=0.1
        )


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
    result = calibrate_table(
        there.table("ten_million"), task="task", score="score", epsilon=0.1, alpha=0.1,
        delta=0.1, on_infeasible="trivial",
    )  # fmt: skip
    assert result.task_sizes_.tolist() == [10_000_000]
    levels = [level.alpha_within for level in result.guarantee_.levels]
    ranks = [allowed_errors_in_task(10_000_000, 0.1, level) for level in levels]
    assert result._evidence.thresholds.tolist() == [[ranks]]
    assert result._evidence.lowest.tolist() == [0]


def test_a_table_that_changes_between_passes_is_noticed() -> None:
    there = connection("duckdb")
    there.raw_sql("CREATE OR REPLACE TEMP SEQUENCE ticks")
    there.raw_sql(
        "CREATE OR REPLACE TEMP VIEW moving AS "
        "SELECT 'a' AS task, nextval('ticks')::DOUBLE AS score FROM range(100)"
    )
    message = "changed while it was being read: two passes over it"
    with as_if_large(), pytest.raises(ValueError, match=message):
        calibrate_table(
            there.table("moving"), task="task", score="score", **LOOSE, on_infeasible="trivial"
        )


@pytest.mark.parametrize("engine", ["postgres", "sqlite", "duckdb"])
@pytest.mark.parametrize("kind", ["softmax", "tiny", "large", "denormal"])
def test_scores_whose_squares_overflow_or_underflow(engine: str, kind: str) -> None:
    """PostgreSQL fails if a square overflows or underflows; the search must not need it."""
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
        result = calibrate_table(table, task="task", score="score", **LOOSE)
    order = np.argsort(direct.tasks_)
    assert result.task_thresholds_.tolist() == direct.task_thresholds_[order].tolist()


def test_the_classes_of_the_table_are_stored() -> None:
    columns = {"g": [0, 1], "y": ["a", "b"], "p_a": [1.0, 0], "p_b": [0, 1.0]}
    result = calibrate_table(
        pa.table(columns), task="g", label="y", **LOOSE, on_infeasible="trivial"
    )
    more = predict_table(result, pa.table({**columns, "p_c": [1.0, 1.0]})).to_pyarrow()
    assert more["set"].to_pylist() == [["a", "b"]] * 2  # nothing was certified: both, and no c
    del columns["p_b"]
    with pytest.raises(ValueError, match="has no column 'p_b'; it has: g, y, p_a"):
        predict_table(result, pa.table(columns))


def by_arrays(frame: pd.DataFrame, **promise: Any) -> MetaPS:
    return MetaPS(**promise).calibrate(frame.true.to_numpy(), frame.task.to_numpy(), frame.y)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the data are odd on purpose
@pytest.mark.parametrize(
    "changes",
    [
        {"delta": None},
        {"split": "tight"},
        {"epsilon": 0.2},
        {"min_examples": 20},
        {"min_examples": 20, "delta": None, "split": 0.2},
    ],
    ids=str,
)
def test_each_class_with_every_parameter(changes: dict[str, Any]) -> None:
    frame = KNOWN.assign(task=pd.factorize(KNOWN.task)[0] * 10 - 50)
    expected = by_arrays(frame, **EACH | changes)
    result = calibrate_table(frame, task="task", label="y", score="true", **EACH | changes)
    assert_same(result, expected)
    assert result.tasks_.dtype == np.int64
    assert np.array_equal(result.left_out_, expected.left_out_)
    assert result.promise_ == expected.promise_


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_labels_that_are_numbers_and_columns_of_lists() -> None:
    frame = KNOWN.assign(y=[CLASSES.index(label) for label in KNOWN.y])
    frame["probs"] = list(frame[[f"p_{name}" for name in CLASSES]].to_numpy())
    numbered = {i: EACH["epsilon"][name] for i, name in enumerate(CLASSES)}
    expected = by_arrays(frame, **EACH | {"epsilon": numbered})
    for epsilon in (numbered, {str(label): value for label, value in numbered.items()}):
        promise = EACH | {"epsilon": epsilon}
        for how in ({"score": "true"}, {"columns": "probs"}):
            result = calibrate_table(frame, task="task", label="y", **promise | how)
            assert_same(result, expected)
            assert result.classes_ == (0, 1, 2)
            assert result.epsilon == numbered
    named: dict[str, Any] = {"columns": "probs", "classes": CLASSES}
    result = calibrate_table(frame.assign(y=KNOWN.y), task="task", label="y", **named, **EACH)
    assert result.classes_ == tuple(CLASSES)
    assert result.thresholds_.tolist() == expected.thresholds_.tolist()


@settings(max_examples=40)
@given(st.data())
def test_any_scores_of_classes_give_what_arrays_give(data: st.DataObject) -> None:
    scores = np.array(data.draw(columns(data.draw(st.sampled_from([np.float32, np.float64])))))
    count = len(scores)
    tasks = data.draw(
        st.lists(st.sampled_from(["a", "b:c", "0:a"]), min_size=count, max_size=count)
    )
    labels = data.draw(st.lists(st.sampled_from(["x", "y"]), min_size=count, max_size=count))
    frame = pa.table({"task": tasks, "y": labels, "score": scores})
    promise = LOOSE | {"per_class": True, "on_infeasible": "trivial"}
    promise["min_examples"] = data.draw(st.integers(0, 3))
    with warnings.catch_warnings(), as_if_large(data.draw(st.integers(1, 3))):
        warnings.simplefilter("ignore", UserWarning)
        expected = MetaPS(**promise).calibrate(scores, tasks, labels)
        result = calibrate_table(
            frame, task="task", label="y", score="score", connection=connection("duckdb"), **promise
        )
    assert_same(result, expected)
