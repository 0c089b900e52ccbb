"""Sets in a table are the sets of ``predict_set``, on every engine, in every form."""

from __future__ import annotations

import csv
import json
import multiprocessing
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from engines import ENGINES, connection, put
from numpy.typing import NDArray
from pyarrow import parquet

from metapac import MetaPS, label_lists, load
from metapac.tables import predict_table
from metapac.tables.sources import open_source

CLASSES = ["cat", "great owl", "\N{DOG}", 'say "x"']


def calibrated(kind: Any = np.float64) -> MetaPS:
    rng = np.random.default_rng(0)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    return method.calibrate(rng.random(400).astype(kind), np.repeat(np.arange(10), 40))


@pytest.fixture(scope="module")
def promise() -> MetaPS:
    return calibrated()


@pytest.fixture(scope="module")
def scores(promise: MetaPS) -> NDArray[np.float64]:
    found = np.random.default_rng(1).random((50, 4))
    found[0], found[1], found[2] = 0, 1, promise.threshold_
    found[3] = np.nextafter(promise.threshold_, 0)
    return found


@pytest.fixture(scope="module")
def frame(scores: NDArray[np.float64]) -> pd.DataFrame:
    columns = {f"p_{name}": scores[:, j] for j, name in enumerate(CLASSES)}
    return pd.DataFrame({"id": np.arange(50), "text": "a,b\nc", **columns})


def sets_of(table: Any) -> list[Any]:
    return [row["set"] for row in sorted(table, key=lambda row: int(row["id"]))]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine(
    engine: str, promise: MetaPS, scores: NDArray[np.float64], frame: pd.DataFrame
) -> None:
    expected = label_lists(promise.predict_set(scores), CLASSES)
    found = predict_table(promise, put(engine, frame)).to_pyarrow().to_pylist()
    sets = sets_of(found)
    if engine == "sqlite":  # which has no lists
        sets = [json.loads(each) for each in sets]
    assert sets == expected
    by_id = {row["id"]: row["set_size"] for row in found}
    assert [by_id[i] for i in range(50)] == [len(each) for each in expected]
    marked = predict_table(promise, put(engine, frame), booleans=True).to_pyarrow().to_pylist()
    kept = [
        [bool(row[f"in_{name}"]) for name in CLASSES]
        for row in sorted(marked, key=lambda r: r["id"])
    ]
    assert kept == promise.predict_set(scores).tolist()


@pytest.mark.parametrize("of_promise", [np.float32, np.float64])
@pytest.mark.parametrize("of_table", [np.float32, np.float64])
def test_precisions_are_compared_as_predict_set_does(of_promise: Any, of_table: Any) -> None:
    promise = calibrated(of_promise)
    near = np.float64(promise.threshold_) * (1 + np.linspace(-3e-7, 3e-7, 61))
    values = near.astype(of_table)[:, None]
    found = predict_table(promise, pa.table({"id": range(61), "p_a": values[:, 0]})).to_pyarrow()
    kept = [size == 1 for size in found.sort_by("id")["set_size"].to_pylist()]
    assert kept == promise.predict_set(values)[:, 0].tolist()
    assert 0 < sum(kept) < 61


def test_parquet_and_csv(
    promise: MetaPS, scores: NDArray[np.float64], frame: pd.DataFrame, tmp_path: Path
) -> None:
    expected = label_lists(promise.predict_set(scores), CLASSES)
    folder = tmp_path / "it's"
    folder.mkdir()
    for path in (tmp_path / "sets.parquet", folder / "sets.parquet"):
        predict_table(promise, frame, output=path)
        assert sets_of(parquet.read_table(path).to_pylist()) == expected
    for path in (tmp_path / "sets.csv", folder / "sets.csv"):
        predict_table(promise, frame, output=path)
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert [json.loads(each) for each in sets_of(rows)] == expected
        assert rows[0]["text"] == "a,b\nc"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it's", "sets.csv", "sets.parquet"]


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "spark"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_other_engines_write_too(
    engine: str, suffix: str, promise: MetaPS, frame: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / f"sets.{suffix}"
    table = put(engine, frame)
    predict_table(promise, table, output=path)
    if engine == "spark":  # a folder is not removed: something else may be in it
        with pytest.raises(FileExistsError, match="is there already, and Spark writes a folder"):
            predict_table(promise, table, output=path)
    else:  # the second replaces the first
        predict_table(promise, table, output=path)
    assert path.is_dir() == (engine == "spark")
    read = (
        connection("duckdb").read_parquet if suffix == "parquet" else connection("duckdb").read_csv
    )
    where = f"{path}/*.{suffix}" if engine == "spark" else path
    options = {} if suffix == "parquet" else {"quote": '"', "escape": '"'}
    found = read(where, **options).to_pyarrow().sort_by("id")
    expected = predict_table(promise, frame).to_pyarrow().sort_by("id")
    assert found["set_size"].to_pylist() == expected["set_size"].to_pylist()
    assert found["text"].to_pylist() == ["a,b\nc"] * 50
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_lists_of_scores(promise: MetaPS, scores: NDArray[np.float64]) -> None:
    table = pa.table({"id": range(50), "probs": list(scores)})
    named = predict_table(promise, table, columns="probs", classes=CLASSES).to_pyarrow()
    kept = promise.predict_set(scores)
    assert sets_of(named.to_pylist()) == label_lists(kept, CLASSES)
    numbered = predict_table(promise, table, columns="probs").to_pyarrow()
    assert sets_of(numbered.to_pylist()) == label_lists(kept)


def test_some_of_the_classes_in_another_order(promise: MetaPS, frame: pd.DataFrame) -> None:
    found = predict_table(promise, frame, classes=["\N{DOG}", "cat"]).to_pyarrow().to_pylist()
    assert found[1]["set"] == ["\N{DOG}", "cat"]


def test_a_trivial_promise_keeps_everything(frame: pd.DataFrame) -> None:
    trivial = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    trivial.calibrate([0.5], ["a"])
    found = predict_table(trivial, frame).to_pyarrow()
    assert set(found["set_size"].to_pylist()) == {4}


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"p_a": [1.0], "set": [1]}, {}, "has a column 'set' already. Rename or drop it."),
        ({"p_a": [1.0], "in_a": [1]}, {"booleans": True}, "has a column 'in_a' already. Rename"),
        ({"q": [1.0]}, {}, r"has no column like 'p_\*'; it has: q."),
        ({"p_a": [1.0]}, {"columns": "*_*"}, r"columns must hold one star, such as 'p_\*', got"),
        ({"p_a": [1.0]}, {"columns": "p_a"}, "or name a column of lists of numbers, got 'p_a'"),
        ({"p_a": [1.0]}, {"classes": ["b"]}, "has no column 'p_b'; it has: p_a."),
        ({"p_a": ["x"]}, {}, "column 'p_a' must hold numbers, got string. Pass a column of proba"),
        ({"p_a": [True]}, {}, "column 'p_a' must hold numbers, got boolean"),
        ({"p_a": [1.0, None]}, {}, r"nulls or NaN in 1 of 2 rows \(by class, 'a': 1\); a score"),
        ({"p_a": [float("nan"), 1.0]}, {}, r"nulls or NaN in 1 of 2 rows \(by class, 'a': 1\)"),
        (
            {"l": [[1.0], [1.0, 2.0]]}, {"columns": "l"},
            "the lists of column 'l' must have one score for each of 2 classes, got lengths from 1",
        ),
        (
            {"l": [[1.0, 2.0]]}, {"columns": "l", "classes": "abc"},
            "classes must be a list of names, got the string 'abc'",
        ),
        (
            {"l": [[1.0, 2.0]]}, {"columns": "l", "classes": ["a", "b", "c"]},
            "must have one score for each of 3 classes, got length 2",
        ),
        (
            {"l": pa.array([[], []], pa.list_(pa.float64()))}, {"columns": "l"},
            "one score for each of 0 classes, got length 0",
        ),
        ({"p_a": [1.0]}, {"classes": ["a", "a"]}, "classes must name each class once, got 'a' tw"),
        ({"p_a": [1.0]}, {"classes": []}, "classes must name each class once, got none"),
        ({"p_a": [1.0]}, {"output": "x.txt"}, "output must end in .parquet or .csv, got 'x.txt'"),
    ],
)  # fmt: skip
def test_what_cannot_be_predicted_is_said(
    promise: MetaPS, columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        predict_table(promise, pa.table(columns), **options)


def test_nothing_is_written_where_a_score_is_missing(promise: MetaPS, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nulls or NaN"):
        predict_table(promise, pa.table({"p_a": [1.0, None]}), output=tmp_path / "sets.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_addresses_are_left_to_the_engine(
    engine: str, promise: MetaPS, frame: pd.DataFrame, tmp_path: Path
) -> None:
    address = f"file://{tmp_path}/sets.parquet"
    predict_table(promise, put(engine, frame), output=address)
    found = parquet.read_table(tmp_path / "sets.parquet")
    assert sorted(found["id"].to_pylist()) == sorted(frame["id"])
    assert "set_size" in found.column_names


def test_an_address_that_an_engine_cannot_write_to(promise: MetaPS, frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="is an address, to which sqlite cannot write. Pass a pa"):
        predict_table(promise, put("sqlite", frame), output="s3://bucket/sets.parquet")


def test_a_missing_folder_is_said_first(promise: MetaPS, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="folder does not exist"):
        predict_table(promise, pa.table({"p_a": [None]}), output=tmp_path / "none" / "sets.csv")


def test_two_processes_writing_one_file(promise: MetaPS, tmp_path: Path) -> None:
    path = tmp_path / "sets.parquet"
    spawn = multiprocessing.get_context("spawn")
    both = [spawn.Process(target=write, args=(promise, size, path)) for size in (20_000, 30_000)]
    for process in both:
        process.start()
    for process in both:
        process.join()
        assert process.exitcode == 0
    # One of the two, whole, and nothing beside it.
    assert len(parquet.read_table(path)) in (20_000, 30_000)
    assert list(tmp_path.iterdir()) == [path]


def write(promise: MetaPS, size: int, path: Path) -> None:
    for _ in range(5):
        predict_table(promise, pa.table({"p_a": np.linspace(0, 1, size)}), output=path)


def test_many_classes(promise: MetaPS) -> None:
    scores = np.random.default_rng(0).random((3, 300))
    table = pa.table({f"p_{j}": scores[:, j] for j in range(300)})
    found = predict_table(promise, table).to_pyarrow()
    sizes = promise.predict_set(scores).sum(axis=1).tolist()
    assert sorted(found["set_size"].to_pylist()) == sorted(sizes)


def test_the_table_returned_is_one_of_ibis(promise: MetaPS, frame: pd.DataFrame) -> None:
    assert isinstance(predict_table(promise, frame), ibis.Table)


def test_nothing_that_was_read_is_written_over(promise: MetaPS, tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    path = inside / "a.parquet"
    parquet.write_table(pa.table({"p_a": [1.0]}), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="a.parquet is also the input. Write to another file"):
        predict_table(promise, path, output=path)
    for source in (inside, inside / "*.parquet"):
        with pytest.raises(ValueError, match="would be found among the input .* next time"):
            predict_table(promise, source, output=inside / "sets.parquet")
    assert path.read_bytes() == before
    assert list(inside.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_cannot_be_written_is_said_of_the_output(
    suffix: str, promise: MetaPS, tmp_path: Path
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full on this machine")
    path = tmp_path / f"full.{suffix}"
    path.symlink_to("/dev/full")
    with pytest.raises(ValueError, match=rf"full.{suffix} cannot be written \("):
        predict_table(promise, pa.table({"p_a": np.linspace(0, 1, 100_000)}), output=path)


def test_columns_to_add_may_not_be_there_in_capitals(promise: MetaPS) -> None:
    with pytest.raises(ValueError, match="has a column 'set' already. Rename or drop it."):
        predict_table(promise, pa.table({"p_a": [1.0], "SET": [1]}))
    with pytest.raises(ValueError, match="the result has columns 'in_A' and 'in_a', alike but for"):
        predict_table(
            promise, pa.table({"l": [[1.0, 2.0]]}), columns="l", classes=["A", "a"], booleans=True
        )


def test_booleans_are_written_alike_by_all_engines(
    promise: MetaPS, frame: pd.DataFrame, tmp_path: Path
) -> None:
    for engine in ("duckdb", "sqlite"):
        path = tmp_path / f"{engine}.csv"
        predict_table(promise, put(engine, frame), booleans=True, output=path)
        with path.open(newline="", encoding="utf-8") as file:
            marks = {row[f"in_{name}"] for row in csv.DictReader(file) for name in CLASSES}
        assert marks <= {"true", "false"}


def test_an_address_of_this_machine_is_no_way_around(promise: MetaPS, tmp_path: Path) -> None:
    path = tmp_path / "a b.parquet"
    parquet.write_table(pa.table({"p_a": [1.0]}), path)
    address = f"file://{path}"
    pairs: list[tuple[Any, Any]] = [(path, address), (address, address), (address, path)]
    for source, output in pairs:
        with pytest.raises(ValueError, match="is also the input. Write to another file"):
            predict_table(promise, source, output=output)


def test_blanks_around_text_are_kept(promise: MetaPS, tmp_path: Path) -> None:
    for engine in ("duckdb", "spark"):
        table = put(engine, pd.DataFrame({"site": [" a ", "a"], "p_a": [1.0, 1.0]}))
        predict_table(promise, table, output=tmp_path / f"{engine}.csv")
        found = open_source(tmp_path / f"{engine}.csv")
        assert sorted(found.run(found.table)["site"].to_pylist()) == [" a ", "a"]


def of_classes(labels: NDArray[Any], kind: Any = np.float64) -> MetaPS:
    """A promise for each class, with thresholds far apart."""
    rng = np.random.default_rng(0)
    codes = np.unique(labels, return_inverse=True)[1]
    scores = (codes * 0.2 + 0.1 * rng.random(len(labels))).astype(kind)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3, per_class=True)
    return method.calibrate(scores, np.repeat(np.arange(20), len(labels) // 20), labels)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_each_class_has_its_own_threshold(engine: str, kind: Any) -> None:
    promise = of_classes(np.tile(CLASSES, 500), kind)
    rng = np.random.default_rng(1)
    scores = rng.random((60, 4)) * 0.8
    scores[0] = promise.thresholds_
    scores[1] = np.nextafter(promise.thresholds_, 0)
    ordered = list(promise.classes_ or ())
    assert ordered != CLASSES
    kept = promise.predict_set(scores)
    assert len(set(kept.mean(axis=0))) > 2
    # The columns stand in another order than the classes of the promise.
    place = {name: ordered.index(name) for name in CLASSES}
    frame = pd.DataFrame(
        {"id": np.arange(60), **{f"p_{name}": scores[:, place[name]] for name in CLASSES}}
    )
    found = predict_table(promise, put(engine, frame), booleans=True).to_pyarrow().to_pylist()
    rows = sorted(found, key=lambda row: row["id"])
    assert [[bool(row[f"in_{name}"]) for name in ordered] for row in rows] == kept.tolist()
    some = predict_table(promise, put(engine, frame), classes=[CLASSES[2], CLASSES[0]]).to_pyarrow()
    sizes = dict(zip(some["id"].to_pylist(), some["set_size"].to_pylist(), strict=True))
    both = kept[:, place[CLASSES[2]]].astype(int) + kept[:, place[CLASSES[0]]]
    assert [sizes[i] for i in range(60)] == both.tolist()


@pytest.mark.parametrize("labels", [[0, 1], [False, True], ["no", "yes"]], ids=str)
def test_classes_of_arrays_are_found_in_tables(labels: list[Any], tmp_path: Path) -> None:
    of_classes(np.tile(labels, 1000)).save(tmp_path / "p.json")
    promise = load(tmp_path / "p.json")
    assert list(promise.classes_) == labels
    scores = np.random.default_rng(0).random((40, 2)) * 0.4
    kept = promise.predict_set(scores)
    assert 0 < kept.sum() < kept.size
    columns = pa.table(
        {f"p_{label}": scores[:, i] for i, label in enumerate(labels)} | {"p_x": [0.0] * 40}
    )
    names = [str(label) if isinstance(label, bool) else label for label in labels]
    lists = pa.table({"probs": list(scores)})
    for found in (predict_table(promise, columns), predict_table(promise, lists, columns="probs")):
        assert found.to_pyarrow()["set"].to_pylist() == label_lists(kept, names)


def test_other_classes_than_those_of_the_promise() -> None:
    promise = of_classes(np.tile(["a", "b"], 1000))
    table = pa.table({"p_a": [1.0], "p_c": [1.0]})
    with pytest.raises(ValueError, match="has no column 'p_b'; it has: p_a, p_c"):
        predict_table(promise, table)
    with pytest.raises(
        ValueError, match="classes must be among those of the promise, 'a', 'b', go"
    ):
        predict_table(promise, table, classes=["a", "c"])
    with pytest.raises(ValueError, match="must have one score for each of 2 classes, got length 3"):
        predict_table(promise, pa.table({"l": [[1.0, 2.0, 3.0]]}), columns="l")
