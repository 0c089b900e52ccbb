"""Tables are written completely or not at all, and never over what was read."""

from __future__ import annotations

import csv
import json
import multiprocessing
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyarrow import parquet

from metapac import MetaPS, label_lists
from metapac.tables.output import check_output
from metapac.tables.sources import open_source
from tests.helpers.engines import connection, put
from tests.helpers.tables import predict_table

ODD = """it's a "\\" """  # the name of a folder
CLASSES = ["cat", "great owl", "\N{DOG}", 'say "x"']


@pytest.fixture(scope="module")
def promise() -> MetaPS:
    rng = np.random.default_rng(0)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    return method.calibrate(rng.random(400), np.repeat(np.arange(10), 40))


@pytest.fixture(scope="module")
def scores() -> NDArray[np.float64]:
    return np.random.default_rng(1).random((50, 4))


@pytest.fixture(scope="module")
def frame(scores: NDArray[np.float64]) -> pd.DataFrame:
    columns = {f"p_{name}": scores[:, j] for j, name in enumerate(CLASSES)}
    return pd.DataFrame({"id": np.arange(50), "text": "a,b\nc", **columns})


def sets_of(table: Any) -> list[Any]:
    return [row["set"] for row in sorted(table, key=lambda row: int(row["id"]))]


def test_parquet_and_csv(
    promise: MetaPS, scores: NDArray[np.float64], frame: pd.DataFrame, tmp_path: Path
) -> None:
    expected = label_lists(promise.predict_set(scores), CLASSES)
    folder = tmp_path / ODD
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
    assert sorted(path.name for path in tmp_path.iterdir()) == [ODD, "sets.csv", "sets.parquet"]


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "spark"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_other_engines_write_too(
    engine: str, suffix: str, promise: MetaPS, frame: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / f"sets.{suffix}"
    table = put(engine, frame)
    predict_table(promise, table, output=path)
    if engine == "spark":  # it does not remove a folder, which may hold something else
        with pytest.raises(FileExistsError, match="already exists, and Spark writes a folder"):
            predict_table(promise, table, output=path)
    else:  # the second replaces the first
        predict_table(promise, table, output=path)
    assert path.is_dir() == (engine == "spark")
    read = (
        connection("duckdb").read_parquet if suffix == "parquet" else connection("duckdb").read_csv
    )
    where = f"{path}/*.{suffix}" if engine == "spark" else path
    options = {} if suffix == "parquet" else {"quote": '"', "escape": '"'}
    result = read(where, **options).to_pyarrow().sort_by("id")
    expected = predict_table(promise, frame).to_pyarrow().sort_by("id")
    assert result["set_size"].to_pylist() == expected["set_size"].to_pylist()
    assert result["text"].to_pylist() == ["a,b\nc"] * 50
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_addresses_are_left_to_the_engine(
    engine: str, promise: MetaPS, frame: pd.DataFrame, tmp_path: Path
) -> None:
    address = f"file://{tmp_path}/sets.parquet"
    predict_table(promise, put(engine, frame), output=address)
    result = parquet.read_table(tmp_path / "sets.parquet")
    assert sorted(result["id"].to_pylist()) == sorted(frame["id"])
    assert "set_size" in result.column_names


SECRET = "https://me:pass-word@host/sets"


@pytest.mark.parametrize(
    ("engine", "address", "reason"),
    [
        ("sqlite", f"{SECRET}.parquet", "is an address, to which sqlite cannot write"),
        ("duckdb", f"{SECRET}.parquet", "cannot be written"),
        ("duckdb", f"{SECRET}.parquet?sig=pass-word", "must end in .parquet or .csv"),
    ],
)
def test_addresses_are_shown_without_secrets(
    engine: str, address: str, reason: str, promise: MetaPS, frame: pd.DataFrame
) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        predict_table(promise, put(engine, frame), output=address)
    assert "https://host/..." in str(caught.value)
    assert "pass-word" not in "".join(traceback.format_exception(caught.value))


def test_an_address_is_not_written_over_itself(frame: pd.DataFrame) -> None:
    address = f"{SECRET}.parquet"
    source = replace(open_source(frame), origins=(address,))
    with pytest.raises(ValueError, match=r"https://host/\.\.\. would be part of"):
        check_output(source, address)
    check_output(source, address.replace("sets", "others"))


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
        predict_table(promise, two_classes(size), output=path)


def two_classes(size: int) -> pa.Table:
    scores = np.linspace(0, 1, size)
    return pa.table({"p_a": scores, "p_b": 1 - scores})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_output_is_named_if_it_cannot_be_written(
    suffix: str, promise: MetaPS, tmp_path: Path
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full on this machine")
    path = tmp_path / f"full.{suffix}"
    path.symlink_to("/dev/full")
    with pytest.raises(ValueError, match=rf"full.{suffix} cannot be written \("):
        predict_table(promise, two_classes(100_000), output=path)


def test_all_engines_write_booleans_in_the_same_way(
    promise: MetaPS, frame: pd.DataFrame, tmp_path: Path
) -> None:
    for engine in ("duckdb", "sqlite"):
        path = tmp_path / f"{engine}.csv"
        predict_table(promise, put(engine, frame), booleans=True, output=path)
        with path.open(newline="", encoding="utf-8") as file:
            marks = {row[f"in_{name}"] for row in csv.DictReader(file) for name in CLASSES}
        assert marks <= {"true", "false"}


def test_inputs_are_recognised_by_their_local_address(promise: MetaPS, tmp_path: Path) -> None:
    path = tmp_path / "a b.parquet"
    parquet.write_table(pa.table({"p_a": [1.0]}), path)
    address = f"file://{path}"
    pairs: list[tuple[Any, Any]] = [(path, address), (address, address), (address, path)]
    for source, output in pairs:
        with pytest.raises(ValueError, match="is also the input. Write to another file"):
            predict_table(promise, source, output=output)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_blanks_around_text_are_kept(promise: MetaPS, engine: str, tmp_path: Path) -> None:
    table = put(engine, pd.DataFrame({"site": [" a ", "a"], "p_a": 1.0, "p_b": 0.0}))
    predict_table(promise, table, output=tmp_path / f"{engine}.csv")
    result = open_source(tmp_path / f"{engine}.csv")
    assert sorted(result.run(result.table)["site"].to_pylist()) == [" a ", "a"]


@pytest.mark.parametrize(
    ("origin", "path", "is_input"),
    [
        ("in", "in/sets.parquet", True),
        ("in", "in/deep/sets.parquet", True),
        ("in", "sets.parquet", False),
        ("in/*.parquet", "in/sets.parquet", True),
        ("in/*.parquet", "in/sets.csv", False),
        ("**/*.parquet", "sets.parquet", True),
        ("**/*.parquet", "in/deep/sets.parquet", True),
        ("in/a.parquet", "in/sets.parquet", False),
        ("*/*.parquet", "in/deep/sets.parquet", False),
        ("in/**", "in/deep/sets.parquet", True),
    ],
)
def test_outputs_that_would_be_read_next_time(
    origin: str, path: str, is_input: bool, promise: MetaPS, tmp_path: Path
) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    parquet.write_table(two_classes(3), tmp_path / "in" / "a.parquet")
    output = tmp_path / path
    if is_input:
        with pytest.raises(ValueError, match="would be part of the input"):
            predict_table(promise, tmp_path / origin, output=output)
    else:
        predict_table(promise, tmp_path / origin, output=output)
    assert output.exists() != is_input
