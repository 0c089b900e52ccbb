"""Sets and intervals in a table are those of the arrays, and are written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyarrow import parquet

from metapac import PS, InvalidInput, MetaPS, label_lists, load, summarise_sets
from metapac.tables.engines import constant_floats, constant_list, exact, pick, upload
from metapac.tables.output import check_output
from metapac.tables.scores import FEW_CLASSES
from metapac.tables.sets import IntervalSummary, is_kept, smallest_kept_scores, summarise_intervals
from tests.helpers import tables
from tests.helpers.engines import ENGINES, connection, one_row, put

MANY = FEW_CLASSES + 5
WITH_LISTS = [engine for engine in ENGINES if engine != "sqlite"]
EXTREME = [0.1, -0.1, 1 / 3, 0.0, 1.0, 5e-324, -5e-324, 1.7976931348623157e308, 2.0**-1022, 1e23]
ODD = ["it's", 'say "x"', "back\\slash", "\N{DOG}", "a|b", "\x1fmark", ", ", "%_", "$1"]


def compute(engine: str, **columns: Any) -> dict[str, Any]:
    """Return the values of expressions on one row."""
    result = connection(engine).to_pyarrow(one_row(engine).select(**columns))
    return {name: result[name][0].as_py() for name in columns}


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_reach_every_engine_unrounded(engine: str) -> None:
    values = [*EXTREME, *np.random.default_rng(0).normal(size=20).tolist()]
    found = compute(engine, **{f"x{i}": exact(value) for i, value in enumerate(values)})
    assert [*found.values()] == values
    most = float(np.finfo(np.float64).max)
    assert compute(engine, kept=is_kept(exact(most), math.inf).ifelse(1, 0)) == {"kept": 0}
    for kind in (np.float64, np.float32):
        table = upload(ibis.literal(1).type(), range(6), value=np.array(EXTREME[:6], kind))
        result = connection(engine).to_pyarrow(table.order_by("value"))
        assert result["value"].to_pylist() == np.sort(np.array(EXTREME[:6], kind)).tolist()


@pytest.mark.parametrize("engine", WITH_LISTS)
def test_constants_in_lists(engine: str) -> None:
    many, numbers = [f"class {i}" for i in range(3000)], [*EXTREME, math.inf, -math.inf]
    letters = constant_list(["a", "b", "c"])
    places = [letters.index("a"), letters.index("c"), letters.index("z"), ibis.null("int64")]
    picked = {f"x{i}": pick(letters, place) for i, place in enumerate(places)}
    lists = {"odd": constant_list(ODD), "many": constant_list(many), "n": constant_floats(numbers)}
    odd, long, found, *letter = compute(engine, **lists, **picked).values()
    assert (odd, long, found) == (ODD, many, numbers)
    assert letter == ["a", "c", None, None]


@given(
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.sampled_from([np.float32, np.float64]),
    st.floats(allow_nan=False, width=16),
    st.integers(-3, 3),
)
def test_the_smallest_kept_score(calibrated: Any, table: Any, value: float, off: int) -> None:
    with np.errstate(over="ignore", under="ignore"):
        threshold = calibrated(value)
        for _ in range(abs(off)):
            threshold = np.nextafter(threshold, calibrated(np.inf * np.sign(off)))
        promise = PS(epsilon=0.1, delta=0.1).calibrate(np.full(50, threshold, dtype=calibrated))
        thresholds = np.array([promise.threshold_])
        cut = smallest_kept_scores(thresholds, promise.precision_, np.dtype(table))[0]
        below = np.nextafter(table(cut), table(-np.inf))
    assert float(table(cut)) == cut
    assert promise.predict_set([table(cut)]).all()
    if cut > -np.inf:
        assert not promise.predict_set(np.array([below])).any()


def names_of(count: int) -> list[str]:
    return [*ODD[:7], *(f"c{i}" for i in range(count))][:count]


def predictor(count: int, *, per_class: bool, kind: Any = np.float64) -> MetaPS:
    names = names_of(count)
    labels = np.tile(names, 20 * 12)
    scores = np.random.default_rng(0).random(len(labels)).astype(kind)
    method = MetaPS(epsilon=0.4, alpha=0.5, delta=0.9 if per_class else 0.5, per_class=per_class)
    tasks = np.repeat(np.arange(20), len(labels) // 20)
    return method.calibrate(scores, tasks, labels if per_class else None, allow=("levels",))


def examples(promise: MetaPS, count: int, kind: Any) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return a frame of class scores, some at the threshold and one step below it."""
    rng, names = np.random.default_rng(1), names_of(count)
    scores = rng.random((12, count)).astype(kind)
    cuts = np.array([promise.threshold_of(name) for name in names])
    scores[0], scores[1] = cuts, np.nextafter(cuts.astype(kind), kind(-1))
    scores[2], scores[3] = np.inf, -np.inf
    labels = [names[i] for i in rng.integers(count, size=12)]
    columns = {f"p_{name}": scores[:, j] for j, name in enumerate(names)}
    return pd.DataFrame({"id": np.arange(12), "site": "a", "y": labels} | columns), scores


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("count", "per_class", "calibrated_in", "kind"),
    [(4, False, np.float32, np.float32), (4, True, np.float64, np.float64),
     (4, False, np.float32, np.float64), (4, True, np.float64, np.float32),
     (MANY, False, np.float64, np.float32), (MANY, True, np.float32, np.float64)],
)  # fmt: skip
def test_sets_sizes_and_misses(
    engine: str, count: int, per_class: bool, calibrated_in: Any, kind: Any
) -> None:
    promise = predictor(count, per_class=per_class, kind=calibrated_in)
    frame, scores = examples(promise, count, kind)
    if engine == "sqlite":  # which has no other numbers than doubles
        scores = scores.astype(np.float64)
    names = names_of(count)
    place = [names.index(name) for name in promise.classes_ or names]
    kept = np.empty((12, count), bool)
    kept[:, place] = promise.predict_set(scores[:, place])
    true = np.array([names.index(label) for label in frame.y])
    table = put(engine, frame)
    got = tables.predict_table(promise, table, classes=names).to_pandas().sort_values("id")
    sets = got["set"].map(json.loads) if engine == "sqlite" else got["set"]
    assert [list(one) for one in sets] == label_lists(kept, names)
    assert got["set_size"].tolist() == kept.sum(axis=1).tolist()
    file = io.StringIO()
    tables.open_scores(table, {"classes": names}).add_sets(promise, file)
    rows = sorted(csv.DictReader(io.StringIO(file.getvalue())), key=lambda row: int(row["id"]))
    assert [json.loads(row["set"]) for row in rows] == [list(one) for one in sets]
    judged = tables.evaluate_table(promise, table, task="site", label="y", classes=names)
    assert judged.missed.sum() == np.sum(~kept[np.arange(12), true])
    assert judged.sets is not None
    assert judged.sets.labels.sum() == kept.sum()


@pytest.mark.parametrize("labels", [[0, 1], [False, True], ["no", "yes"]], ids=str)
def test_classes_of_arrays_match_those_of_tables(labels: list[Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    codes = np.tile([0, 1], 1000)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3, per_class=True)
    own = np.array(labels)[codes]
    method.calibrate(codes * 0.2 + 0.1 * rng.random(2000), np.repeat(np.arange(20), 100), own)
    method.save(tmp_path / "p.json")
    promise = load(tmp_path / "p.json")
    scores = rng.random((40, 2)) * 0.4
    kept = promise.predict_set(scores)
    assert 0 < kept.sum() < kept.size
    columns = {f"p_{label}": scores[:, i] for i, label in enumerate(labels)}
    table = pa.table(columns | {"p_x": [0.0] * 40, "l": list(scores), "g": ["a"] * 40})
    names = [str(label) if isinstance(label, bool) else label for label in labels]
    for more in ({}, {"columns": "l"}):
        sets = tables.predict_table(promise, table, **more).to_pyarrow()["set"]
        assert sets.to_pylist() == label_lists(kept, names)
    named = table.append_column("y", pa.array([str(labels[i % 2]) for i in range(40)]))
    by_class = tables.evaluate_table(promise, named, task="g", label="y").by_class
    assert by_class is not None
    for i, label in enumerate(labels):
        assert by_class[label].missed.tolist() == [(~kept[i::2, i]).sum()]


@pytest.fixture(scope="module")
def promise() -> MetaPS:
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    return method.calibrate(np.random.default_rng(0).random(400), np.repeat(np.arange(10), 40))


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_answers_of_rows_with_classes_of_their_own(engine: str, promise: MetaPS) -> None:
    cut = promise.threshold_
    lists = [[cut, 0.0], [0.0, 0.0, cut], [cut, cut], [0.0, 0.0, 0.0, 0.0]]
    names = [[f"{i}{j}" for j in range(len(row))] for i, row in enumerate(lists)]
    table = put(engine, pd.DataFrame({"id": range(4), "l": lists, "n": names}))
    result = tables.predict_table(promise, table, columns="l", answer=True).to_pandas()
    found = [None if pd.isna(a) else int(a) for a in result.sort_values("id")["answer"]]
    assert found == [0, 2, None, None]
    named = tables.predict_table(
        promise, table, columns="l", classes_column="n", answer=True
    ).to_pandas()
    answers = [None if pd.isna(a) else a for a in named.sort_values("id")["answer"]]
    assert answers == ["00", "12", None, None]

    paddings: list[list[Any]] = [[], [None, None]]  # nulls after the scores of a row
    for padding in paddings:
        lists = [[cut, 0.0, *padding], [1.0, 1.0, *padding], [1.0] * MANY]
        numbers = tables.predict_table(promise, pa.table({"l": lists}), columns="l", answer=True)
        assert numbers.to_pyarrow()["answer"].to_pylist() == [0, None, None]
        assert pa.types.is_integer(numbers.to_pyarrow()["answer"].type)
        assert numbers.to_pyarrow()["set"].to_pylist() == [[0], [0, 1], list(range(MANY))]


def table_of(scores: Any) -> pd.DataFrame:
    return pd.DataFrame({f"p_{j}": scores[:, j] for j in range(scores.shape[1])})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [3, MANY])
def test_summaries_agree_with_arrays(engine: str, count: int, promise: MetaPS) -> None:
    scores = np.random.default_rng(1).random((30, count))
    scores[0], scores[1], scores[2, 0], scores[3, 1] = 0, 1, math.inf, -math.inf
    scores[:, 2], scores[4, 1], scores[5, 1] = 0, -0.25, 1.5  # the ends are in one class
    summary = tables.summarise_table(promise, put(engine, table_of(scores)))
    expected = summarise_sets(promise.predict_set(scores), [str(j) for j in range(count)])
    for name in ("rows", "empty", "single", "full", "by_class"):
        assert getattr(summary, name) == getattr(expected, name)
    assert summary.mean_size == pytest.approx(expected.mean_size)
    finite = scores[np.isfinite(scores)]
    assert (summary.low, summary.high) == (finite.min(), finite.max())
    table = table_of(np.full((4, count), 0.5)).astype(object)
    for missing in (math.nan, None):
        table.iloc[1, 2] = table.iloc[2, 2] = table.iloc[2, 0] = missing
        frame = table.convert_dtypes() if missing is None else table.astype(float)
        with pytest.raises(InvalidInput, match=r"2 of 4 rows \(by class, '0': 1, '2': 2\)"):
            tables.summarise_table(promise, put(engine, frame))
    nothing = tables.summarise_table(promise, table_of(np.empty((0, 2))))
    assert (nothing.rows, nothing.by_class, nothing.low) == (0, {"0": 0, "1": 0}, None)
    assert not nothing.warnings()


def calibrate_to(threshold: float) -> PS:
    """Return a predictor with a given threshold."""
    return PS(epsilon=0.5, delta=0.5).calibrate(np.full(20, threshold))


@example(rows=[(0.0, 1e-300)], threshold=-0.0)
@settings(max_examples=15)  # of many rows each, since a query takes long
@given(
    rows=st.lists(
        st.tuples(st.floats(-1e100, 1e100), st.floats(1e-100, 1e100)), min_size=60, max_size=200
    ),
    threshold=st.floats(-1e50, -0.0),
)
def test_ends_are_exact_for_any_number(rows: list[tuple[float, float]], threshold: float) -> None:
    frame = pd.DataFrame(rows, columns=["guess", "sd"])
    promise = calibrate_to(threshold)
    for scale in ("sd", None):
        table = tables.predict_table(promise, frame, prediction="guess", scale=scale)
        expected = promise.predict_interval(frame.guess, frame.sd if scale else 1.0)
        np.testing.assert_array_equal(table.to_pandas()[["lower", "upper"]].to_numpy(), expected)


HUGE = st.floats(-1e100, 1e100) | st.sampled_from([1.7e308, -1.7e308, 5e-324, 0.0])


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:overflow")
@example(rows=[(1.7e308, 1.7e308)], threshold=1.7e308)
@example(rows=[(0.0, 1.0)], threshold=-float(np.finfo(float).max))
@settings(max_examples=15)
@given(rows=st.lists(st.tuples(HUGE, HUGE).map(sorted), min_size=60, max_size=200), threshold=HUGE)
def test_ends_from_quantiles_are_exact_for_any_number(rows: list[Any], threshold: float) -> None:
    frame = pd.DataFrame([*rows, (1.0, 0.5)], columns=["low", "high"])  # and one that crosses
    promise = calibrate_to(threshold)
    table = tables.predict_table(promise, frame, lower="low", upper="high").to_pandas()
    expected = promise.predict_interval(lower=frame.low, upper=frame.high)
    np.testing.assert_array_equal(table[["lower", "upper"]].to_numpy(), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_summary_counts_empty_intervals_as_no_width(engine: str) -> None:
    frame = pd.DataFrame({"low": [0.0, 1.0, math.inf], "high": [2.0, 2.0, -math.inf]})
    with tables.open_source(put(engine, frame)) as source:
        summary = summarise_intervals(source, source.table.low, source.table.high)
    assert summary == IntervalSummary(3, 0, 1.0, 1.0, empty=1)
    assert str(summary).endswith("; 1 empty.")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", [0, 1, 6, 7])
def test_the_summary_counts_widths(engine: str, rows: int) -> None:
    half = np.append(np.arange(1.0, rows + 1), np.inf)
    with tables.open_source(put(engine, pd.DataFrame({"half": half}))) as source:
        summary = summarise_intervals(source, -source.table.half, source.table.half)
    finite = 2 * half[:-1]
    ends = (float(np.mean(finite)), float(np.median(finite))) if rows else (None, None)
    assert summary == IntervalSummary(rows + 1, 1, *ends)
    assert len(summary.warnings(0.1)) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_trivial_guarantee_gives_infinite_intervals(engine: str) -> None:
    trivial = PS(epsilon=0.1, delta=0.1, on_infeasible="trivial").calibrate([-0.5])
    table = put(engine, pd.DataFrame({"guess": [1.0, 2.0]}))
    with pytest.warns(UserWarning, match="All intervals are infinite"):
        result = tables.predict_table(trivial, table, prediction="guess").to_pandas()
    assert result[["lower", "upper"]].to_numpy().tolist() == [[-math.inf, math.inf]] * 2


FOLDER = """it's a "\\" """
CLASSES = ["cat", "great owl", "\N{DOG}", 'say "x"']
SCORES = np.random.default_rng(1).random((50, 4))
TEXT = ' a,b\nc\t"d" '
FRAME = pd.DataFrame({"id": np.arange(50), "text": TEXT})
FRAME[[f"p_{name}" for name in CLASSES]] = SCORES
TWO = pa.table({"p_a": [0.0, 0.5, 1.0], "p_b": [1.0, 0.5, 0.0]})


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, or of a folder of Spark, in their order."""
    rows: list[dict[str, Any]] = []
    if path.suffix == ".parquet":
        rows = parquet.read_table(path).to_pylist()
    else:
        for part in path.glob("*.csv") if path.is_dir() else [path]:
            with part.open(newline="", encoding="utf-8") as file:
                rows += csv.DictReader(file)
    return sorted(rows, key=lambda row: int(row["id"]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_engines_write_the_sets(engine: str, suffix: str, promise: Any, tmp_path: Path) -> None:
    table, folder = put(engine, FRAME), tmp_path / FOLDER
    path, marks = folder / f"sets.{suffix}", folder / f"marks.{suffix}"
    folder.mkdir()
    tables.predict_table(promise, table, output=path)
    if engine == "spark":  # it does not remove a folder, which may hold something else
        with pytest.raises(FileExistsError, match="already exists, and Spark writes a folder"):
            tables.predict_table(promise, table, output=path)
    else:  # the second replaces the first
        tables.predict_table(promise, table, output=path)
    tables.predict_table(promise, table, output=marks, booleans=True)
    assert sorted(each.name for each in folder.iterdir()) == [marks.name, path.name]
    kept, rows = promise.predict_set(SCORES), read(path)
    sets = [json.loads(row["set"]) if isinstance(row["set"], str) else row["set"] for row in rows]
    assert sets == label_lists(kept, CLASSES)
    assert {row["text"] for row in rows} == {TEXT}
    marked = [row["in_cat"] for row in read(marks)]
    assert (
        marked
        == (kept[:, 0] if suffix == "parquet" else np.where(kept[:, 0], "true", "false")).tolist()
    )


def test_lists_of_texts_are_json_in_csv(promise: MetaPS, tmp_path: Path) -> None:
    choices = [["A", 'say "x"'], ["a, b", "new\nline"], ["tab\t", "ü, 😀"], ["back\\slash", ""]]
    columns = {"scores": [[0.9, 0.1]] * 4, "choices": choices, "other": [[], None, [], [""]]}
    named: dict[str, Any] = {"columns": "scores", "classes_column": "choices"}
    table = pa.table(columns | {"id": range(4)})
    tables.predict_table(promise, table, **named, output=tmp_path / "sets.csv")
    rows = read(tmp_path / "sets.csv")
    assert [json.loads(row["choices"]) for row in rows] == choices
    assert [json.loads(row["set"]) for row in rows] == [row[:1] for row in choices]
    assert [json.loads(row["other"] or "null") for row in rows] == [[], None, [], [""]]


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_addresses_are_left_to_the_engine(engine: str, promise: MetaPS, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/sets.parquet"
    tables.predict_table(promise, put(engine, FRAME), output=address)
    assert [row["id"] for row in read(tmp_path / "sets.parquet")] == FRAME["id"].tolist()


def test_addresses_are_shown_without_secrets(promise: MetaPS) -> None:
    secret = "https://me:pass-word@host/sets.parquet"
    for engine, address, reason in (
        ("sqlite", secret, "is an address, to which sqlite cannot write"),
        ("duckdb", secret, "cannot be written"),
        ("duckdb", f"{secret}?sig=pass-word", "must end in .parquet or .csv"),
    ):
        with pytest.raises(ValueError, match=reason) as caught:
            tables.predict_table(promise, put(engine, FRAME), output=address)
        assert "https://host/..." in str(caught.value)
        assert "pass-word" not in "".join(traceback.format_exception(caught.value))
    source = replace(tables.open_source(FRAME), origins=(secret,))
    with pytest.raises(ValueError, match=r"https://host/\.\.\. would be part of"):
        check_output(source, secret)
    check_output(source, secret.replace("sets", "others"))


def test_outputs_that_are_inputs(promise: MetaPS, tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    read = tmp_path / "in" / "a b.parquet"
    parquet.write_table(TWO, read)
    addresses: list[tuple[Any, Any]] = [(read, f"file://{read}"), (f"file://{read}", read)]
    for source, output in addresses:
        with pytest.raises(ValueError, match="is also the input. Write to another file"):
            tables.predict_table(promise, source, output=output)
    for origin, path in (
        ("in", "in/deep/sets.parquet"),
        ("in/*.parquet", "in/sets.parquet"),
        ("**/*.parquet", "sets.parquet"),
        ("**/*.parquet", "in/deep/sets.parquet"),
    ):
        with pytest.raises(ValueError, match="would be part of the input"):
            tables.predict_table(promise, tmp_path / origin, output=tmp_path / path)
        assert not (tmp_path / path).exists()
    for origin, path in (
        ("in", "sets.parquet"),
        ("in/*.parquet", "in/sets.csv"),
        ("in/a b.parquet", "in/sets.parquet"),
        ("*/a*.parquet", "in/deep/sets.parquet"),
    ):
        tables.predict_table(promise, tmp_path / origin, output=tmp_path / path)
        assert (tmp_path / path).exists()
