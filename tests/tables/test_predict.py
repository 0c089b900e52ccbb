"""Sets in a table are the sets of ``predict_set``, on every engine, in every form."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from metapac import MetaPS, label_lists, load
from tests.helpers.engines import ENGINES, put
from tests.helpers.tables import open_scores, predict_table

TWO = {"p_a": [1.0], "p_b": [1.0]}
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
    values = np.random.default_rng(1).random((50, 4))
    values[0], values[1], values[2] = 0, 1, promise.threshold_
    values[3] = np.nextafter(promise.threshold_, 0)
    return values


@pytest.fixture(scope="module")
def frame(scores: NDArray[np.float64]) -> pd.DataFrame:
    columns = {f"p_{name}": scores[:, j] for j, name in enumerate(CLASSES)}
    return pd.DataFrame({"id": np.arange(50), "text": "a,b\nc", **columns})


def sets_of(table: Any) -> list[Any]:
    return [row["set"] for row in sorted(table, key=lambda row: int(row["id"]))]


@pytest.mark.parametrize("calibrated_in", [np.float32, np.float64])
@pytest.mark.parametrize("table_in", [np.float32, np.float64])
def test_precisions_are_compared_as_predict_set_does(calibrated_in: Any, table_in: Any) -> None:
    promise = calibrated(calibrated_in)
    near = np.float64(promise.threshold_) * (1 + np.linspace(-3e-7, 3e-7, 61))
    values = near.astype(table_in)[:, None]
    result = predict_table(
        promise,
        pa.table({"id": range(61), "p_a": values[:, 0], "p_b": np.full(61, -np.inf, table_in)}),
    ).to_pyarrow()
    kept = [size == 1 for size in result.sort_by("id")["set_size"].to_pylist()]
    assert kept == promise.predict_set(values)[:, 0].tolist()
    assert 0 < sum(kept) < 61


def test_some_of_the_classes_in_another_order(promise: MetaPS, frame: pd.DataFrame) -> None:
    result = predict_table(promise, frame, classes=["\N{DOG}", "cat"]).to_pyarrow().to_pylist()
    assert result[1]["set"] == ["\N{DOG}", "cat"]


def test_a_trivial_predictor_keeps_everything(frame: pd.DataFrame) -> None:
    trivial = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    trivial.calibrate([0.5], ["a"])
    result = predict_table(trivial, frame).to_pyarrow()
    assert set(result["set_size"].to_pylist()) == {4}


def test_many_classes(promise: MetaPS) -> None:
    scores = np.random.default_rng(0).random((3, 300))
    table = pa.table({f"p_{j}": scores[:, j] for j in range(300)})
    result = predict_table(promise, table).to_pyarrow()
    sizes = promise.predict_set(scores).sum(axis=1).tolist()
    assert sorted(result["set_size"].to_pylist()) == sorted(sizes)


def test_an_ibis_table_is_returned(promise: MetaPS, frame: pd.DataFrame) -> None:
    assert isinstance(predict_table(promise, frame), ibis.Table)


def of_classes(labels: NDArray[Any], kind: Any = np.float64) -> MetaPS:
    """Return a predictor with thresholds per class that are far apart."""
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
    # The columns are in another order than the classes of the predictor.
    place = {name: ordered.index(name) for name in CLASSES}
    frame = pd.DataFrame(
        {"id": np.arange(60), **{f"p_{name}": scores[:, place[name]] for name in CLASSES}}
    )
    result = predict_table(promise, put(engine, frame), booleans=True).to_pyarrow().to_pylist()
    rows = sorted(result, key=lambda row: row["id"])
    assert [[bool(row[f"in_{name}"]) for name in ordered] for row in rows] == kept.tolist()
    some = predict_table(promise, put(engine, frame), classes=[CLASSES[2], CLASSES[0]]).to_pyarrow()
    sizes = dict(zip(some["id"].to_pylist(), some["set_size"].to_pylist(), strict=True))
    both = kept[:, place[CLASSES[2]]].astype(int) + kept[:, place[CLASSES[0]]]
    assert [sizes[i] for i in range(60)] == both.tolist()


@pytest.mark.parametrize("labels", [[0, 1], [False, True], ["no", "yes"]], ids=str)
def test_classes_calibrated_on_arrays_match_those_of_tables(
    labels: list[Any], tmp_path: Path
) -> None:
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
    for result in (predict_table(promise, columns), predict_table(promise, lists, columns="probs")):
        assert result.to_pyarrow()["set"].to_pylist() == label_lists(kept, names)


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "spark"])
def test_sets_are_written_to_an_open_file(
    engine: str, promise: MetaPS, frame: pd.DataFrame, tmp_path: Path
) -> None:
    calls: list[tuple[str, int, int | None]] = []
    file = io.StringIO(newline="")
    table = put(engine, frame)
    tell = lambda *call: calls.append(call)  # noqa: E731
    sets = open_scores(table, {}).add_sets(promise, file, progress=tell)
    assert (sets.rows, sets.classes) == (50, CLASSES)
    assert calls == [("checking the scores", 0, None), ("writing 50 sets", 0, None)]
    rows = list(csv.DictReader(file.getvalue().splitlines(keepends=True)))
    predict_table(promise, frame, output=tmp_path / "sets.csv")
    with (tmp_path / "sets.csv").open(newline="", encoding="utf-8") as written:
        assert sets_of(rows) == sets_of(list(csv.DictReader(written)))


def test_other_inputs_are_not_overwritten(promise: MetaPS, tmp_path: Path) -> None:
    path = tmp_path / "promise.csv"
    path.write_text("keep me")
    with pytest.raises(ValueError, match="promise.csv is also the input. Write to another file."):
        open_scores(pa.table({"p_a": [1.0]}), {}).add_sets(promise, path, inputs=[path])
    assert path.read_text() == "keep me"


def test_lists_of_texts_are_json_in_csv(promise: MetaPS, tmp_path: Path) -> None:
    choices = [["A", 'say "x"'], [], None, ["a, b"]]
    table = pa.table({"scores": [[0.9, 0.1]] * 4, "choices": choices})
    predict_table(promise, table, columns="scores", output=tmp_path / "sets.csv")
    with (tmp_path / "sets.csv").open(newline="", encoding="utf-8") as written:
        rows = list(csv.DictReader(written))
    assert [json.loads(row["choices"] or "null") for row in rows] == choices
    assert [json.loads(row["scores"]) for row in rows] == [[0.9, 0.1]] * 4
