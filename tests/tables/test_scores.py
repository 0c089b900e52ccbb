"""Which columns hold tasks, labels and scores, and what they are called."""

from __future__ import annotations

import datetime
import pickle
import sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from metapac import Columns, Guarantee, InvalidInput, MetaPS, inputs, load, open_table
from metapac.columns import encode_columns, resolve_columns
from metapac.tables.scores import find_class_scores, get_id_column
from tests.helpers import engines
from tests.helpers.engines import ENGINES, connection
from tests.helpers.tables import calibrate_table, evaluate_table, open_source, predict_table
from tests.tables.test_engines_agree import BY_LABEL, BY_PLACE, CLASSES, KNOWN, LISTS

LEVELS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}
INSTANTS = pd.to_datetime(
    ["2024-01-31", "2024-01-31 10:20:30", "2024-02-01 23:59:59.12", "0987-05-06",
     "2024-12-31 00:01"], format="ISO8601",
)  # fmt: skip
NAMES = ["2024-01-31", "2024-01-31T10:20:30", "2024-02-01T23:59:59.12", "0987-05-06",
         "2024-12-31T00:01:00"]  # fmt: skip


def read_names(engine: str, values: Any) -> list[Any]:
    """Return the names that a column of an engine gives."""
    with open_source(engines.put(engine, pd.DataFrame({"id": values}))) as source:
        column = get_id_column(source, "id", "tasks")
        return list(source.run(source.table.select(id=column))["id"].to_pylist())


@pytest.mark.parametrize("engine", ENGINES)
def test_names_are_those_of_arrays(engine: str) -> None:
    days = [datetime.date(2024, 1, 31), datetime.date(987, 5, 6)]
    assert inputs.as_task_ids(INSTANTS).tolist() == NAMES
    for values in (INSTANTS, days, [True, False, True]):
        assert sorted(read_names(engine, values)) == sorted(inputs.as_task_ids(values).tolist())
    whole = read_names(engine, [3.0, -2.0, None, 0.0])
    assert sorted(whole, key=lambda x: (x is None, x)) == [-2, 0, 3, None]
    assert {type(x) for x in whole} == {int, type(None)}
    for bad in (1.5, 1e300, -(2.0**54)):
        with pytest.raises(InvalidInput, match="'id' .* in 2 rows"):
            read_names(engine, [1.0, bad, bad])


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_a_time_zone_is_named_in_utc_whatever_the_session_is_in(engine: str) -> None:
    there = pd.Series(INSTANTS[[0, 1, 2]].tz_localize("Europe/Berlin"))
    names = ["2024-01-30T23:00:00", "2024-01-31T09:20:30", "2024-02-01T22:59:59.12"]
    assert inputs.as_task_ids(there).tolist() == names
    try:
        for zone in ("UTC", "Asia/Tokyo"):
            engines.run(engine, f"SET TimeZone = '{zone}'")
            assert sorted(read_names(engine, there)) == names
    finally:
        engines.run(engine, "SET TimeZone = 'UTC'")


def test_names_are_case_sensitive_even_if_a_column_of_sqlite_is_not(tmp_path: Path) -> None:
    path = tmp_path / "data.sqlite"
    there = sqlite3.connect(path)
    there.execute("CREATE TABLE t (g TEXT COLLATE NOCASE, y TEXT COLLATE NOCASE, p_a, p_A2)")
    there.executemany("INSERT INTO t VALUES (?, ?, 0.25, 0.5)", [("Ohio", "a"), ("ohio", "a2")])
    there.execute("CREATE TABLE u AS SELECT g AS task, 1 AS score FROM t")
    there.execute("INSERT INTO u VALUES ('a', 'high'), ('b', 2.5)")
    there.commit()
    there.close()
    used: dict[str, Any] = {"task": "g", "table": "t", **LEVELS, "on_infeasible": "trivial"}
    used["allow"] = ("score-column", "task-names", "overlap")
    result = calibrate_table(path, score="p_a", **used)
    assert result.tasks_.tolist() == ["Ohio", "ohio"]
    again = evaluate_table(result, path, allow=used["allow"], table="t")
    assert again.tasks.tolist() == ["Ohio", "ohio"]
    with pytest.raises(InvalidInput, match="classes 'a', 'A2', got 'a2' in 1 row"):
        calibrate_table(path, label="y", **used)
    with pytest.raises(InvalidInput, match=r"1 .* out of 4 values \(by task, 'a': 1\)"):
        calibrate_table(path, task="task", score="score", **LEVELS, table="u")


def find(table: Any, **columns: Any) -> Any:
    source = open_source(table, connection=connection("duckdb"))
    return find_class_scores(source, Columns(**columns))


def test_columns_that_match_are_classes_in_their_order() -> None:
    table = pa.table({name: [0.5] for name in ("p_b", "q", "p_a", "p_", "p_y")})
    result = find(table, label="p_y")
    assert (result.names, result.columns) == (["b", "a"], ("p_b", "p_a"))
    assert find(table, classes=["a", "b"]).columns == ("p_a", "p_b")
    assert find(pa.table({"a_score": [1], "b_score": [2]}), columns="*_score").names == ["a", "b"]
    lists = pa.table({"l": [[0.1, 0.2], [0.3, 0.4]]})
    assert find(lists, columns="l").names == [0, 1]
    assert find(lists, columns="l", classes=["no", "yes"]).names == ["no", "yes"]


def test_scores_have_one_precision() -> None:
    for kinds, expected in (
        (["float32"] * 2, "float32"),
        (["float32", "int8"], "float64"),
        (["float32"] * 60, "float32"),
        (["int64"] * 60, "float64"),
    ):
        result = find(pa.table({f"p_{i}": pa.array([1], kind) for i, kind in enumerate(kinds)}))
        assert result.precision == np.dtype(expected)
        assert {str(score.type()) for score in result.scores} == {expected}
        lists = pa.table({"l": pa.array([[1, 2]], pa.list_(pa.type_for_alias(kinds[-1])))})
        wanted = np.dtype("float32" if kinds[-1] == "float32" else "float64")
        assert find(lists, columns="l").precision == wanted


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=12 * 20)
    scores = rng.dirichlet([1, 1], size=len(label))
    columns = {"site": np.repeat([f"K\xf6ln {i:02}" for i in range(12)], 20)}
    columns |= {"p_truth": np.where(label == 0, "cat", "dog")}
    columns |= {"p_cat": scores[:, 0], "p_dog": scores[:, 1]}
    return pd.DataFrame(columns | {"p_true": scores[np.arange(len(label)), label]})


def test_columns_are_stored_and_saved(frame: pd.DataFrame, tmp_path: Path) -> None:
    promise = calibrate_table(frame, task="site", score="p_true", **LEVELS)
    promise.save(tmp_path / "promise.json")
    missed = (frame.p_true < promise.threshold_).groupby(frame.site).mean()
    for again in (promise, load(tmp_path / "promise.json"), pickle.loads(pickle.dumps(promise))):
        assert again.columns_ == {"task": "site", "score": "p_true"}
        errors = evaluate_table(again, frame, allow=("overlap",)).errors
        np.testing.assert_array_equal(errors, missed)
    # The score of the true label is no class, although its name looks like one.
    kept = promise.predict_set(frame[["p_cat", "p_dog"]].to_numpy()).sum(axis=1)
    sizes = evaluate_table(promise, frame, label="p_truth", allow=("overlap",)).sizes
    assert sizes is not None
    np.testing.assert_allclose(sizes, kept.reshape(12, 20).mean(axis=1))
    result = predict_table(promise, frame.drop(columns="p_truth")).to_pandas()
    np.testing.assert_array_equal(result["set_size"], kept)


def test_columns_can_be_listed_and_named(frame: pd.DataFrame, tmp_path: Path) -> None:
    used: dict[str, Any] = {"task": "site", "label": "p_truth", "classes": ["cat", "dog"]}
    by_pattern = calibrate_table(frame, **used, **LEVELS)
    other = frame.rename(columns={"p_cat": "a", "p_dog": "b"}).drop(columns="p_true")
    calibrate_table(other, **used, columns=["a", "b"], **LEVELS).save(tmp_path / "promise.json")
    again = load(tmp_path / "promise.json")
    assert again.threshold_ == by_pattern.threshold_
    assert again.columns_ == used | {"columns": ["a", "b"]}
    sets = predict_table(again, other).to_pandas()["set"].map(set).tolist()
    swapped = predict_table(again, other, columns=["b", "a"]).to_pandas()["set"].map(set).tolist()
    assert sets == swapped  # a class follows its column
    assert sets == predict_table(by_pattern, frame).to_pandas()["set"].map(set).tolist()
    with pytest.raises(InvalidInput, match="b, a"):
        again.predict_set(other[["b", "a"]])


STORED = {"task": "site", "label": "y", "columns": "q_*", "classes": ["a"]}
NUMBERS = {"task": "site", "prediction": "m", "y": "t", "scale": "s"}
LISTED = {"label": "y", "columns": ["u", "v"], "classes": ["a", "b"]}


# Columns passed and stored, the classes of a promise, and the columns that are used.
RESOLVED: list[Any] = [
    ({}, STORED, None, STORED),
    ({"task": "t", "score": "s"}, STORED, None,
     {"task": "t", "score": "s", "columns": "q_*", "classes": ["a"]}),
    ({"classes": ["b"]}, STORED, None, STORED | {"classes": ["b"]}),
    ({"cluster": "c"}, {"task": "g", "cluster": "k"}, None, {"task": "g", "cluster": "c"}),
    ({"score": "t"}, {"score": "s", "label": "y"}, ("a",),
     {"score": "t", "label": "y", "classes": ("a",)}),
    ({"label": "z"}, {"score": "s", "label": "y"}, ("a",), {"label": "z", "classes": ("a",)}),
    ({"columns": ["v", "u"]}, LISTED, None,
     LISTED | {"columns": ("v", "u"), "classes": ["b", "a"]}),
    ({"columns": ["v", "w"]}, LISTED, None, {"label": "y", "columns": ("v", "w")}),
    ({"prediction": "n"}, NUMBERS, None, NUMBERS | {"prediction": "n"}),
    ({"score": "r"}, NUMBERS, None, {"task": "site", "score": "r"}),
    ({"prediction": "n"}, STORED, None, {"task": "site", "prediction": "n", "columns": "q_*"}),
    ({}, {"columns": "l", "classes_column": "k"}, None, {"columns": "l", "classes_column": "k"}),
]  # fmt: skip


def test_columns_left_out_are_those_of_calibration() -> None:
    names = [field.name for field in fields(Columns)]
    for passed, stored, classes, expected in RESOLVED:
        found = resolve_columns(Columns(**passed), stored, classes)
        wanted = Columns(**expected)
        got = {name: getattr(found, name) for name in names if getattr(found, name) is not None}
        assert got == {name: getattr(wanted, name) for name in got}
        assert {*got} == {*expected}
        assert found.not_classes >= {stored[name] for name in ("task", "label") if name in stored}
        assert {stored.get("score")} - {None} <= found.score_columns


def test_a_promise_file_names_what_was_used() -> None:
    for columns, classes, added in (
        ({"task": "t", "score": "s", "cluster": "c"}, None, {}),
        ({"label": "y"}, ["a", 1], {"columns": "p_*", "classes": ["a", 1]}),
        ({"label": "y", "columns": ["u"]}, ("a",), {"classes": ["a"]}),
        ({"label": "y", "columns": "l", "classes_column": "k"}, [], {}),
    ):
        assert encode_columns(Columns(**columns, id="i"), classes) == columns | added


def test_a_position_is_not_a_rare_class() -> None:
    def check(frame: pd.DataFrame, columns: dict[str, Any], classes: Any, *allow: str) -> None:
        g = Guarantee(epsilon=0.15, alpha=0.2, delta=0.1)
        open_table(frame, Columns(**columns)).check_rare_classes(classes, g, allow)

    check(LISTS, BY_PLACE, None)  # positions mean something else in each row
    with pytest.warns(UserWarning, match=r"'ill' is [45]\.\d%"):
        check(KNOWN, BY_LABEL, CLASSES)
    check(KNOWN, BY_LABEL, CLASSES, "rare-class")


def make_sites(sites: int = 40, seed: int = 0) -> pd.DataFrame:
    """Return predictions, scales and true values, of very different magnitudes."""
    rng, n = np.random.default_rng(seed), sites * 30
    guess = rng.normal(size=n) * 10.0 ** rng.integers(-8, 9, n)
    sd = np.exp(rng.normal(size=n)) * 10.0 ** rng.integers(-3, 4, n)
    site = np.repeat(np.arange(sites) + 1000 * seed, 30)
    truth = guess + sd * rng.normal(size=n)
    return pd.DataFrame({"site": site, "guess": guess, "sd": sd, "truth": truth})


REGRESSION: dict[str, Any] = {"prediction": "guess", "y": "truth", "scale": "sd"}


def test_csv_and_the_promise_file_keep_every_bit(tmp_path: Path) -> None:
    frame, new = make_sites(), make_sites(seed=1)
    frame.to_csv(tmp_path / "sites.csv", index=False)
    promise = calibrate_table(tmp_path / "sites.csv", task="site", **REGRESSION, **LEVELS)
    promise.save(tmp_path / "promise.json")
    restored: Any = load(tmp_path / "promise.json")
    assert restored.columns_ == {"task": "site", **REGRESSION}
    scores = -np.abs(frame.truth - frame.guess) / frame.sd
    assert restored.threshold_ == MetaPS(**LEVELS).calibrate(scores, frame.site).threshold_
    scored = new.assign(score=-1.0)[["site", "score"]]  # an explicit score takes precedence
    assert evaluate_table(restored, scored, score="score").widths is None
    unlabelled = frame[["guess", "sd"]].rename(columns={"guess": "mu"})
    result = predict_table(restored, unlabelled, prediction="mu").to_pandas()
    assert list(result) == ["mu", "sd", "lower", "upper"]


def test_small_types_are_computed_as_doubles() -> None:
    frame = make_sites().assign(guess=lambda table: table.guess.clip(-9, 9))
    frame["truth"] = (np.arange(len(frame)) % 5).astype(np.int8)
    frame = frame.astype({"guess": np.float32, "sd": np.float32})
    promise = calibrate_table(frame, task="site", **REGRESSION, **LEVELS)
    double = frame.astype(float)
    scores = -np.abs(double.truth - double.guess) / double.sd
    assert promise.threshold_ == MetaPS(**LEVELS).calibrate(scores, frame.site).threshold_
    assert promise.precision_ == np.float64
