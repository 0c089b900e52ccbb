"""Calibrated predictors: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import copy
import datetime
import html
import inspect
import math
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import metapac as mp
from metapac.evidence import encode_evidence
from metapac.inputs import read_class_matrix
from metapac.provenance import Provenance, write_scores
from metapac.tables import compare_tables
from metapac.words import round_down
from tests.helpers import oracles
from tests.helpers.oracles import TwoPointFamily
from tests.helpers.refusals import assert_refused


# Bad input: one table for each public function.
def method(**options: Any) -> mp.MetaPS:
    return mp.MetaPS(**{"epsilon": 0.3, "alpha": 0.3, "delta": 0.2} | options)


RNG = np.random.default_rng(0)
CLASSES = ["yes", "no", "maybe"]  # not in ascending order
CODES = RNG.integers(3, size=3600)
MATRIX = RNG.dirichlet([1, 1, 1], size=3600)
MATRIX[np.arange(3600), CODES] += 0.3
MATRIX /= 1.3
TASKS, LABELS = np.repeat(np.arange(30), 120), np.array(CLASSES)[CODES]
TRUE = MATRIX[np.arange(3600), CODES]
FRAME = pd.DataFrame(MATRIX, columns=CLASSES)
TABLE = FRAME.rename(columns="p_{}".format).assign(site=TASKS, y=LABELS, score=TRUE)
COLUMNS = mp.Columns(task="site", label="y")
SERIES = pd.Series([1.0, 2.0])
NAT = np.array(["2020-01-01", "NaT"], dtype="M8[D]")
SCORES: dict[str, Any] = {  # the key words of the error, and scores of two tasks
    "scores NaN ohio": [0.1, math.nan],
    "scores empty": [],
    "scores (2, 3)": np.zeros((2, 3)),
    "scores ()": 0.5,
    "scores tasks indices": pd.Series([0.1, 0.2], index=[1, 0]),
    "scores rectangular": [[1.0], [1.0, 2.0]],
    "scores real <U1 swapped": ["x", "y"],
    "scores real bool": [True, False],
    "scores real complex": [1j, 2j],
    "scores real '0.2' str position 1 swapped": np.array([0.1, "0.2"], dtype=object),
    "scores real None position 1": [0.1, None],
    "scores real bool True position": np.array([0.1, True], dtype=object),
    "scores masked 1": np.ma.masked_array([0.1, 0.2], [True, False]),
    "scores tasks length 3": [0.1, 0.2, 0.3],
}
IDS: list[tuple[str, Any]] = [  # of the scores [0.1, 0.2]
    ("scores tasks length 2 1", ["a"]),
    ("scores tasks length 2 0", np.array([])),
    *(("tasks missing", make(["a", None])) for make in (list, pd.Series, pl.Series, pa.array)),
    *(("tasks missing", pd.Series([1, None], dtype=kind)) for kind in (float, "Int64", "string")),
    *(("tasks missing", x) for x in (["a", math.nan], NAT, np.array([*NAT], dtype=object))),
    ("tasks float 0.5 swapped", np.array([0.5, 0.7])),
    ("tasks one type str 'a' int 3", ["a", 3]),
    ("tasks one type bool int", [1, True]),
    ("tasks one type", [datetime.date(2024, 1, 31), "2024-01-31"]),
    ("tasks one type", [True, "a"]),
    ("tasks hashable", [["a"], ["b"]]),
    ("tasks one-dimensional (2, 1)", np.array([["a"], ["b"]])),
    ("tasks 'ab'", "ab"),
    *(("tasks", x) for x in ({"a"}, {"a": 1, "b": 2}, 3, None)),
]
MATRICES: list[tuple[str, Any, Any, Any]] = [  # scores, labels and classes of TASKS
    ("labels 'maybe' 'no' 'yes' classes 0, 1, 2", MATRIX, LABELS, None),
    ("classes 3 columns", MATRIX, LABELS, ["yes", "no"]),
    ("classes 3 columns once", MATRIX, LABELS, ["yes", "no", "no"]),
    ("labels 'x' 'maybe'", MATRIX, LABELS, ["yes", "no", "x"]),
    ("labels 'YES' 'yes' spelling", MATRIX, np.char.upper(LABELS), CLASSES),
    ("scores labels length", MATRIX, LABELS[:9], CLASSES),
    ("classes labels (3600,)", TRUE, LABELS, CLASSES),
    ("classes without labels", MATRIX, None, CLASSES),
    ("scores (3600, 3)", MATRIX, None, None),
    ("labels per_class", TRUE, LABELS, None),
    ("classes frame order", FRAME, LABELS, ["no", "yes", "maybe"]),
    ("labels scores indices", FRAME, pd.Series(LABELS, index=np.arange(1, 3601)), None),
    ("labels 1 missing", MATRIX, [None, *LABELS[1:]], CLASSES),
    ("labels one type float", MATRIX, CODES + 0.5, None),
]
OPTIONS: list[tuple[str, dict[str, Any]]] = [  # each rule is in tests/test_guarantee.py
    ("epsilon 0", {"epsilon": 0}),
    ("delta nan", {"delta": math.nan}),
    ("epsilon=0.95 miss rate epsilon=0.05 allow=('levels',)", {"epsilon": 0.95}),
    ("alpha=0.8 alpha=0.2 allow=('levels',)", {"alpha": 0.8}),
    ("delta=0.99 delta=0.01 allow=('levels',)", {"delta": 0.99}),
    ("split", {"split": "x"}),
    ("min_examples", {"min_examples": -1}),
    ("per_class", {"per_class": "yes"}),
    ("per_class epsilon", {"epsilon": {"a": 0.1}}),
    ("on_infeasible 'raise' 'x'", {"on_infeasible": "x"}),
]
CALLS: list[tuple[str, dict[str, Any]]] = [  # arguments of calibrate beside scores and tasks
    ("allow 'duplicate' duplicates", {"allow": ["duplicate"]}),
    ("rng", {"rng": -1, "clusters": TASKS}),
    ("context", {"context": "cats"}),
    ("clusters 'abc'", {"clusters": "abc"}),
    ("clusters 3", {"clusters": 3}),
    ("clusters tasks length 1 3600", {"clusters": ["a"]}),
    ("clusters missing", {"clusters": [None] * 3600}),
    ("clusters missing", {"clusters": [1.0, math.nan] * 1800}),
    ("task 0 clusters 'a' 'b'", {"clusters": ["a", "b"] * 1800}),
    ("clusters every lacks 1", {"clusters": {0: "a"}}),
    ("clusters missing", {"clusters": dict.fromkeys(range(30))}),
]


def test_scores_that_calibrate_refuses() -> None:
    for words, scores in SCORES.items():
        tasks: Any = pd.Series(["utah", "ohio"]) if "indices" in words else ["utah", "ohio"]
        tasks = [] if "empty" in words else tasks
        assert_refused(words, lambda: method().calibrate(scores, tasks))
        if "tasks" not in words:  # of a single task
            for alone in (method().task_threshold, mp.PS(epsilon=0.3, delta=0.2).calibrate):
                assert_refused(words.replace("ohio", ""), alone, scores)
    by_class = method(per_class=True)
    given: Any = [0.1, math.nan], ["utah", "ohio"], ["x", "y"]
    assert_refused("NaN task 'ohio', class 'y'", by_class.calibrate, *given)


def test_tasks_that_calibrate_refuses() -> None:
    for words, tasks in IDS:
        assert_refused(words, lambda: method().calibrate([0.1, 0.2], tasks))
        each = method(per_class=True)
        assert_refused(words, lambda: each.calibrate([0.1, 0.2], tasks, ["x", "y"]))


def test_class_scores_that_calibrate_refuses() -> None:
    for words, scores, labels, classes in MATRICES:
        assert_refused(words, lambda: method().calibrate(scores, TASKS, labels, classes=classes))
        one = mp.PS(epsilon=0.3, delta=0.2)
        assert_refused(words, lambda: one.calibrate(scores, labels, classes=classes))


def test_levels_that_calibrate_refuses() -> None:
    for words, options in OPTIONS:
        made = method(**options)
        assert_refused(words, made.calibrate, TRUE, TASKS)
        if "per_class" not in options:
            assert_refused(words, made.combine, [[0.5] * 29] * 30)
            assert_refused(words, made.task_threshold, TRUE)
        if options.keys() <= {"epsilon", "delta", "on_infeasible"} and "per_class" not in words:
            assert_refused(words, mp.PS(**{"epsilon": 0.3, "delta": 0.2} | options).calibrate, TRUE)


def test_options_that_calibrate_refuses() -> None:
    for words, options in CALLS:
        assert_refused(words, lambda: method().calibrate(TRUE, TASKS, **options))


BAD_LABELS: list[tuple[str, Any]] = [
    ("labels per_class=True", None),
    ("scores labels length 3600 2", ["x", "y"]),
    ("labels empty", []),
    ("labels 'yes'", "yes"),
    ("labels one type int str", np.array([3, *LABELS[1:]], dtype=object)),
    ("labels one type float", (CODES + 0.5).tolist()),
    ("labels one-dimensional (3600, 1)", LABELS[:, None]),
    ("scores labels indices", pd.Series(LABELS, index=np.arange(1, 3601))),
    ("epsilon 'maybe'", LABELS),
    ("delta=5e-324 3 classes", LABELS),
]


def test_labels_that_calibrate_refuses_per_class() -> None:
    for words, labels in BAD_LABELS:
        epsilon: Any = {"yes": 0.1, "no": 0.2} if "epsilon" in words else 0.3
        delta = 5e-324 if "delta" in words else 0.2
        promise = method(per_class=True, epsilon=epsilon, delta=delta, split="tight")
        assert_refused(words, lambda: promise.calibrate(pd.Series(TRUE), TASKS, labels))


BAD_MESSAGES: list[tuple[str, dict[str, Any]]] = [
    ("task_thresholds NaN task 1", {"task_thresholds": [0.1, math.nan]}),
    ("task_thresholds 1 value (0,)", {"task_thresholds": []}),
    ("task_thresholds 1 value (2, 3)", {"task_thresholds": np.zeros((2, 3))}),
    ("tasks 'ohio' once", {"tasks": ["ohio", "ohio"]}),
    ("task_thresholds tasks length", {"tasks": ["a"]}),
    ("tasks hashable", {"tasks": [["a"], ["b"]]}),
    ("tasks missing", {"tasks": ["a", None]}),
    *(("sizes tasks shape", {"sizes": sizes}) for sizes in ([1], 5)),
    *(("sizes whole", {"sizes": sizes}) for sizes in ([1.5, 2], [0, 2])),
    ("tasks mapping", {"task_thresholds": {"a": 0.1}, "tasks": ["a"]}),
    ("task_thresholds 0.5 'a' 1 few", {"task_thresholds": {"a": 0.5}, "sizes": [1]}),
    ("sizes 'b'", {"task_thresholds": {"a": 0.1, "b": 0.2}, "sizes": {"a": 5, "c": 5}}),
    ("sizes 'c'", {"task_thresholds": {"a": 0.1}, "sizes": {"a": 5, "c": 5}}),
    ("sites 'ohio' 'Ohio' allow=('task-names',)", {"tasks": ["ohio", "Ohio"]}),
    ("min_examples=10 sizes", {"min_examples": 10}),
    ("combine per_class=True", {"per_class": True}),
]


def test_what_combine_refuses() -> None:
    for words, arguments in BAD_MESSAGES:
        changes = {"task_thresholds": [0.1, 0.2]} | arguments
        options = {k: changes.pop(k) for k in ("min_examples", "per_class") if k in changes}
        assert_refused(words, lambda: method(split="tight", **options).combine(**changes))
    assert_refused("task_thresholds 29 values (2,)", method().combine, [0.1, 0.2])
    sent = np.tile(np.linspace(0.1, 0.2, 29), (200, 1))
    assert method().combine(sent).threshold_ > 0
    sent[7, 5] = 0.3
    assert_refused("task_thresholds falls 0.3 0.121429 task 7", method().combine, sent)


PAIR: dict[str, Any] = {"lower": [1.0, 2.0], "upper": [2.0, 3.0]}

BAD_INTERVALS: list[tuple[str, dict[str, Any]]] = [
    ("y prediction shape (1,) (2,)", {"y": [1.0]}),
    ("y finite nan position 1", {"y": [1.0, math.nan]}),
    ("y real <U1 tasks swapped", {"y": ["a", "b"]}),
    ("prediction real 'a' position 0 tasks swapped", {"prediction": pd.Series(["a", 1.0])}),
    ("y (0,)", {"y": [], "prediction": [], "tasks": []}),
    ("y tasks length 2 3", {"tasks": [1, 2, 3]}),
    ("tasks 'ohio'", {"tasks": "ohio"}),
    ("scale positive 0.0", {"scale": 0.0}),
    ("scale finite inf", {"scale": [1.0, math.inf]}),
    ("y scale shape (2,) (1,)", {"scale": [1.0]}),
    ("y scale indices", {"y": SERIES, "scale": SERIES[::-1]}),
    ("y tasks indices", {"y": SERIES, "tasks": SERIES[::-1].astype(int)}),
    ("y (2, 1)", {"y": [[1.0], [2.0]], "prediction": [[1.0], [2.0]]}),
    ("y ()", {"y": 1.0, "prediction": 1.0}),
    ("per_class=True", {"per_class": True}),
    ("tasks", {"tasks": None}),
    ("prediction lower upper", {"prediction": None}),
    ("prediction", {"prediction": None, "scale": [1.0, 1.0]}),
    ("lower upper", {"prediction": None, "lower": [1.0, 2.0]}),
    ("upper lower", {"prediction": None, "upper": [1.0, 2.0]}),
    ("prediction lower", {"lower": [1.0, 2.0], "upper": [1.0, 2.0]}),
    ("scale lower", {"prediction": None, "scale": [1.0, 1.0], **PAIR}),
    ("lower finite nan", {"prediction": None, **PAIR, "lower": [1.0, math.nan]}),
    ("upper finite -inf", {"prediction": None, **PAIR, "upper": [1.0, -math.inf]}),
    ("y finite inf", {"prediction": None, **PAIR, "y": [1.0, math.inf]}),
    ("y upper shape (2,) (1,)", {"prediction": None, **PAIR, "upper": [1.0]}),
]


def test_what_calibrate_intervals_refuses() -> None:
    for words, change in BAD_INTERVALS:
        columns: dict[str, Any] = {"y": [1.0, 2.0], "prediction": [1.0, 2.5], "tasks": [1, 2]}
        columns |= change
        promise = method(per_class=columns.pop("per_class", False))
        assert_refused(words, lambda: promise.calibrate_intervals(**columns))


@pytest.fixture(scope="module")
def promises() -> dict[str, Any]:
    y = RNG.normal(size=3600)
    return {
        "true": method().calibrate(TRUE, TASKS),
        "matrix": method().calibrate(MATRIX, TASKS, LABELS, classes=CLASSES),
        "by_class": method(per_class=True).calibrate(MATRIX, TASKS, LABELS, classes=CLASSES),
        "plain": method().calibrate_intervals(y, 0 * y, TASKS),
        "scaled": method().calibrate_intervals(y, 0 * y, TASKS, np.full(3600, 2.0)),
        "quantiles": method().calibrate_intervals(y, tasks=TASKS, lower=0 * y - 1, upper=0 * y + 1),
        "clusters": method().calibrate(TRUE, TASKS, clusters=[f"c{i}" for i in TASKS]),
    }


NEW = {"scores": TRUE[:120] / 2, "tasks": [1000] * 120}


BAD_CALLS: list[Any] = [
        ("true", "scores NaN 1 2 row 0", lambda p: p.predict_set([[0.1, math.nan]])),
        ("true", "scores NaN 1", lambda p: p.predict_set(math.nan)),
        ("true", "scores real", lambda p: p.predict_set([["a"]])),
        ("true", "classes", lambda p: p.predict_set(MATRIX, classes=CLASSES)),
        ("matrix", "scores 3 classes (3600, 2)", lambda p: p.predict_set(MATRIX[:, :2])),
        ("matrix", "order", lambda p: p.predict_set(MATRIX, classes=sorted(CLASSES))),
        ("matrix", "columns order maybe, no, yes", lambda p: p.predict_set(FRAME[sorted(CLASSES)])),
        ("by_class", "scores 3 classes ()", lambda p: p.predict_set(0.5)),
        ("by_class", "scores 3 classes (2,)", lambda p: p.predict_set([0.5, 0.5])),
        ("by_class", "scores 3 classes (4, 1)", lambda p: p.predict_set(np.zeros((4, 1)))),
        ("by_class", "label 'yes' 'x'", lambda p: p.threshold_of("x")),
        ("by_class", "interval per_class=True", lambda p: p.predict_interval([0.5])),
        ("plain", "predict_interval", lambda p: p.predict_set([[0.1, 0.9]])),
        ("plain", "scale", lambda p: p.predict_interval([0.0], [2.0])),
        ("plain", "prediction nan", lambda p: p.predict_interval([math.nan])),
        ("plain", "prediction calibration", lambda p: p.predict_interval(lower=[0.0], upper=[1.0])),
        ("quantiles", "lower upper calibration", lambda p: p.predict_interval([0.0])),
        ("quantiles", "lower upper", lambda p: p.predict_interval(lower=[0.0])),
        ("quantiles", "prediction lower upper", lambda p: p.predict_interval()),
        ("quantiles", "lower nan", lambda p: p.predict_interval(lower=[math.nan], upper=[0.0])),
        ("quantiles", "predict_interval", lambda p: p.predict_set([[0.1, 0.9]])),
        ("scaled", "scale", lambda p: p.predict_interval([0.0])),
        ("scaled", "scale 0.0", lambda p: p.predict_interval([0.0], [0.0])),
        ("true", "table", lambda p: p.predict(TRUE)),
        ("true", "'beta' epsilon", lambda p: p.set_params(beta=1)),
        ("true", "tasks 3", lambda p: p.add(TRUE[:120], [3] * 120)),
        ("matrix", "order", lambda p: p.add(
            MATRIX, TASKS + 100, LABELS, classes=["no", "yes", "maybe"])),
        ("true", "clusters new", lambda p: p.add(**NEW, clusters=["x"] * 120)),
        ("clusters", "clusters old", lambda p: p.add(**NEW)),
        ("clusters", "clusters 'c3'", lambda p: p.add(**NEW, clusters=["c3"] * 120)),
        ("true", "allow", lambda p: p.add(**NEW, allow=["x"])),
        ("by_class", "labels one type 0 'yes'", lambda p: p.add(
            TRUE[:120], [1000] * 120, [0, 1] * 60)),
        ("by_class", "labels 'x' table", lambda p: p.add(TRUE[:120], [1000] * 120, ["x"] * 120)),
        ("by_class", "task_threshold per_class=True", lambda p: p.task_threshold([0.5])),
        ("true", "these percentages", lambda p: p.add(100 * TRUE, TASKS + 100)),
        ("true", "these percentages", lambda p: mp.evaluate(p, 100 * TRUE, TASKS + 100)),
        ("matrix", "order", lambda p: mp.evaluate(p, FRAME[sorted(CLASSES)], TASKS + 100, LABELS)),
    ]  # fmt: skip


def test_what_a_calibrated_predictor_refuses(promises: dict[str, Any]) -> None:
    for kind, words, call in BAD_CALLS:
        before = promises[kind].promise_
        assert_refused(words, lambda: call(promises[kind]))
        assert promises[kind].promise_ == before  # a failed call changes nothing


WRONG: list[tuple[Any, str]] = [
    (lambda p: mp.evaluate(p, "new.csv"), "scores"),
    (lambda p: mp.evaluate(p, FRAME), "scores"),
    (lambda p: mp.evaluate("promise.json", MATRIX, TASKS), "promise"),  # type: ignore[arg-type]
    (lambda _: method().calibrate("known.csv"), "scores"),
    (lambda _: method().calibrate(mp.open_table(TABLE, COLUMNS), TASKS), "tasks"),
    (lambda _: method().calibrate(mp.open_table(TABLE, mp.Columns(score="score"))), "task"),
    (lambda p: p.predict(TABLE), "table"),
    (lambda _: mp.PS(epsilon=0.1, delta=0.1).calibrate(mp.open_table(TABLE, COLUMNS)), "scores"),  # type: ignore[arg-type]
    (lambda p: mp.make_site(mp.open_table(TABLE), p, name="a"), "method"),  # type: ignore[arg-type]
    (lambda p: mp.make_site(p, mp.open_table(TABLE), name=" a"), "name"),
    (lambda _: mp.combine_sites("site.json"), "sites"),
    (lambda _: mp.Monitor("promise.json"), "promise"),  # type: ignore[arg-type]
    (lambda p: compare_tables(p, TABLE, TABLE), "table"),
    (lambda _: mp.open_table(TABLE, {"task": "site"}), "columns"),  # type: ignore[arg-type]
    (lambda _: mp.open_table(TABLE, COLUMNS, {"decimal": ","}), "reading"),  # type: ignore[arg-type]
    (lambda _: mp.open_table(mp.open_table(TABLE), COLUMNS, mp.Reading(decimal=",")), "reading"),
    (lambda _: mp.Reading(views="yes"), "views"),  # type: ignore[arg-type]
    (lambda _: mp.explore(mp.Scored(MATRIX, TASKS, LABELS, CLASSES, clusters=TASKS)), "clusters"),
]


def test_what_is_passed_in_the_wrong_place_is_named(promises: dict[str, Any]) -> None:
    for call, parameter in WRONG:
        with pytest.raises(mp.InvalidInput) as caught:
            call(promises["matrix"])
        assert parameter in caught.value.parameters
    assert_refused("one task, got 30", mp.make_site, method(), mp.Scored(TRUE, TASKS), name="all")


# Arrays and tables take one road.
def write(folder: Path, model: str, first: int, **details: Any) -> Any:
    """Write scores of a model for thirty sites, as ``metapac score`` does, and open them."""
    path, columns = folder / f"{model}-{first}.parquet", {"task": "site", "score": "score"}
    table = {"site": TASKS + 100 * first, "score": TRUE / (first + 1)}
    write_scores(path, table, Provenance(model=model, columns=columns, details=details))
    return mp.open_table(path, mp.Columns(**columns))


def test_added_tables_are_of_the_same_model_and_of_no_training_pool(tmp_path: Path) -> None:
    promise = method().calibrate(write(tmp_path, "A", 0))
    with pytest.raises(mp.InvalidInput, match="'B'"):
        promise.add(write(tmp_path, "B", 1))
    with pytest.raises(mp.InvalidInput, match="pool 'train'"):
        promise.add(write(tmp_path, "A", 2, pool="train"))
    assert len(promise.add(write(tmp_path, "A", 3)).tasks_) == 60


def test_a_table_that_is_used_again_is_checked_again(tmp_path: Path) -> None:
    path = tmp_path / "numbers.parquet"
    numbers = pd.DataFrame({"site": TASKS, "y": MATRIX[:, 0], "p": MATRIX[:, 1], "sd": 1.0})
    numbers.to_parquet(path)
    table = mp.open_table(path, mp.Columns(task="site", y="y", prediction="p", scale="sd"))
    method().calibrate(table)
    numbers.assign(sd=-1.0).to_parquet(path)
    assert_refused("sd", method().calibrate, table)


def test_rows_have_the_sets_of_their_classes_in_any_order(promises: dict[str, Any]) -> None:
    turned = mp.Scored(MATRIX[:, ::-1], TASKS, LABELS, CLASSES[::-1])
    plain = mp.Scored(MATRIX, TASKS, LABELS, CLASSES)
    promise, table = promises["by_class"], mp.open_table(TABLE, COLUMNS)
    found = [
        sorted(sorted(row.labels or ()) for row in data.resolve(promise).rows(promise, [3]))
        for data in (plain, turned, table)
    ]
    assert found[0] == found[1] == found[2]


def test_the_order_of_miss_rates_does_not_matter_to_a_monitor(tmp_path: Path) -> None:
    promise = method(epsilon={"maybe": 0.2, "yes": 0.3, "no": 0.4}, per_class=True)
    promise.calibrate(MATRIX, TASKS, LABELS, classes=CLASSES)
    mp.Monitor(promise).save(tmp_path / "m.json")
    assert mp.Monitor.load(tmp_path / "m.json", promise).terms.rates == [0.3, 0.4, 0.2]


def test_a_failed_calibration_leaves_the_earlier_one() -> None:
    names = {"p_yes": "p_0", "p_no": "p_1", "p_maybe": "p_2"}
    promise = method(epsilon=dict.fromkeys("012", 0.3), per_class=True)
    before = promise.calibrate(MATRIX, TASKS, CODES.astype(str), classes=[*"012"]).promise_
    with pytest.raises(mp.InvalidInput):
        promise.calibrate(mp.open_table(TABLE.rename(columns=names).assign(y="x"), COLUMNS))
    assert promise.promise_ == before


# Meta-PS: against a slow reference, and through every public method.
GUARANTEE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.6, "delta": 0.2}
SPLITS: list[str | float] = ["joint", "tight", "even", 0.3]
# Few distinct scores tie at the lowest score, which warns; see tests/test_evidence.py.
tied = pytest.mark.filterwarnings("ignore:(The threshold|Every label is kept)")
Examples = list[tuple[int, float]]
examples_of_tasks = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([-math.inf, 0.0, 0.125, 0.5, 0.75, 1.0])),
    min_size=1,
    max_size=80,
)


def draw_tasks(tasks: int = 130, examples: int = 40, rng: int = 0) -> tuple[Any, Any]:
    """Return scores, and the task of each."""
    scores = np.random.default_rng(rng).normal(size=tasks * examples)
    return scores, np.repeat(np.arange(tasks), examples)


def paper(**changes: Any) -> mp.MetaPS:
    """Return a predictor at the levels of the paper."""
    return mp.MetaPS(**{"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5} | changes)


def assert_same(one: mp.MetaPS, other: mp.MetaPS) -> None:
    """Assert that two calibrations give the same results."""
    assert (one.threshold_, one.level_) == (other.threshold_, other.level_)
    assert one.promise_ == other.promise_
    for name in ("tasks_", "task_sizes_", "task_thresholds_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


@tied
@given(examples=examples_of_tasks, split=st.sampled_from(SPLITS))
def test_meta_ps_is_two_calls_to_one_inequality(examples: Examples, split: str | float) -> None:
    tasks, scores = map(list, zip(*examples, strict=True))
    g = mp.Guarantee(**GUARANTEE, split=split)
    within = [level.alpha_within for level in g.levels]
    count = len(set(tasks))
    ranks = list(g.allowed_low_thresholds(count))
    if len(ranks) == 1:  # several levels are tested in tests/test_guarantee.py
        assert ranks == [oracles.allowed_errors(count, g.alpha_across, GUARANTEE["delta"])]
    result = mp.MetaPS(**GUARANTEE, split=split, on_infeasible="trivial").calibrate(scores, tasks)
    by_level = oracles.thresholds_by_level(scores, tasks, 0.3, within, ranks)
    assert result.threshold_ == max(by_level)
    assert result.level_ == g.levels[by_level.index(max(by_level))]


@tied
@given(examples=examples_of_tasks, split=st.sampled_from(SPLITS), cut=st.integers(0, 6))
def test_adding_or_combining_is_calibrating(examples: Examples, split: Any, cut: int) -> None:
    method = mp.MetaPS(**GUARANTEE, split=split, on_infeasible="trivial")
    by_task: dict[int, list[float]] = {}
    for task, score in examples:
        by_task.setdefault(task, []).append(score)
    whole = clone(method).calibrate([s for _, s in examples], [t for t, _ in examples])
    sent = {task: method.task_threshold(scores) for task, scores in by_task.items()}
    by_name = {task: len(scores) for task, scores in reversed(by_task.items())}
    for sizes in ([len(scores) for scores in by_task.values()], by_name):
        assert_same(clone(method).combine(sent, sizes=sizes), whole)
    assert clone(method).combine(sent).threshold_ == whole.threshold_
    old = [row for row in examples if row[0] < cut]
    new = [row for row in examples if row[0] >= cut]
    if old and new:
        scratch = clone(method).calibrate([s for _, s in old + new], [t for t, _ in old + new])
        method.calibrate([s for _, s in old], [t for t, _ in old])
        assert_same(method.add([s for _, s in new], [t for t, _ in new]), scratch)
        assert encode_evidence(method._evidence) == encode_evidence(scratch._evidence)


def test_editing_a_result_does_not_change_the_evidence() -> None:
    result = paper().calibrate(*draw_tasks())
    result.task_thresholds_[:] = 0
    assert result.add(np.ones(40), [-1] * 40).task_thresholds_[0] != 0


def test_scikit_learns_contract_and_short_forms() -> None:
    for method in (paper(split=0.2), mp.PS(epsilon=0.1, delta=0.2)):
        assert list(inspect.signature(type(method)).parameters) == list(method.get_params())
        assert clone(method).get_params() == method.get_params()
    copied = clone(method := paper(split=0.2))
    assert copied.set_params(alpha=0.3) is copied
    assert (copied.alpha, method.alpha) == (0.3, 0.1)
    assert repr(copied) == str(copied)
    assert copied._repr_html_() == f"<pre>{html.escape(repr(copied))}</pre>"
    mp.MetaPS(epsilon="never looked at", alpha=None, delta=-1)  # type: ignore[arg-type]
    method = paper().calibrate(*draw_tasks())
    shown = f"calibrated on 130 tasks, threshold {round_down(method.threshold_)}>"
    assert repr(method) == f"<MetaPS(epsilon=0.1, alpha=0.1, delta=1e-05) {shown}"
    assert html.escape(method.promise_) in method._repr_html_()
    each = mp.MetaPS(epsilon=0.4, alpha=0.4, delta=None, per_class=True)
    assert repr(each.calibrate(*draw_tasks(), np.arange(5200) % 5)).endswith(" and 2 more>")
    assert "5,200 examples" in repr(mp.PS(epsilon=0.1, delta=0.05).calibrate(draw_tasks()[0]))
    for twin in (copy.deepcopy(method), pickle.loads(pickle.dumps(method))):
        assert (twin.threshold_, twin.promise_) == (method.threshold_, method.promise_)


FOREIGN_NAMES: list[tuple[type, dict[str, float], str]] = [
    (mp.MetaPS, {"confidence_level": 0.9}, "unknown .*'confidence_level'; use epsilon = 1 - conf"),
    (mp.MetaPS, {"alpha": 0.1, "delta": 0.1}, "epsilon is. alpha is the fraction of new tasks"),
    (mp.PS, {"alpha": 0.1, "delta": 0.1}, "alpha is not the miss rate here: epsilon is"),
    (mp.MetaPS, {"epsilon": 0.1, "alpha": 0.1}, "missing .* 'delta'"),
]


def test_parameter_names_of_other_libraries_are_explained() -> None:
    for kind, options, message in FOREIGN_NAMES:
        with pytest.raises(TypeError, match=message):
            kind(**options)


USES: list[Any] = [
    lambda it: it.predict_set([0.1]),
    lambda it: it.predict_interval([0.1]),
    lambda it: it.save("never-written.json"),
    lambda it: it.add([0.1], [1]),
    lambda it: it.explain(),
    lambda it: it.check_calibrated(),
]


def test_an_uncalibrated_object_returns_nothing() -> None:
    changed = paper().calibrate(*draw_tasks()).set_params(on_infeasible="trivial")
    before = changed.threshold_  # the guarantee does not depend on on_infeasible
    changed.set_params(epsilon=0.2)
    assert changed.threshold_ == before  # only what relies on the guarantee is refused
    rates = dict.fromkeys(CLASSES, 0.4)
    mapped = method(per_class=True, epsilon=rates).calibrate(TRUE, TASKS, LABELS)
    rates["yes"] = 0.1
    for use in USES:
        for promise, words in ((paper(), "not calibrated yet"), (changed, "changed to .* again")):
            with pytest.raises(mp.NotCalibrated, match=words):
                use(promise)
        with pytest.raises(mp.NotCalibrated, match="changed"):
            use(mapped)
    for name in ("threshold_", "thresholds_", "promise_", "remarks_"):
        assert not hasattr(paper(), name)


@tied
def test_no_threshold_is_negative_zero() -> None:
    scores = np.full(400, -0.0)
    scores[::2] = 0.0
    result = mp.MetaPS(epsilon=0.5, alpha=0.5, delta=0.5).calibrate(scores, np.arange(400) // 20)
    assert not np.signbit(result.threshold_)
    assert not np.signbit(result.task_thresholds_).any()
    assert not np.signbit(mp.threshold(np.full(50, -0.0), epsilon=0.5, delta=0.5))


# PS: one call to the inequality.
@pytest.mark.parametrize("coarse", [np.float16, np.float32])
def test_scores_are_compared_in_the_coarser_precision(coarse: type) -> None:
    # 0.1 rounds up to float32 and down to float16; what calibration kept is still kept.
    exact = np.full(50, 0.1)
    narrow: Any = exact.astype(coarse)
    for calibration in (exact, narrow):
        result = mp.PS(epsilon=0.1, delta=0.05).calibrate(calibration)
        for scores in (exact, narrow):
            assert result.predict_set(scores).all()
    below = mp.PS(epsilon=0.1, delta=0.05).calibrate(narrow)
    assert not below.predict_set(np.nextafter(narrow, coarse(0))).any()
    assert mp.PS(epsilon=0.1, delta=0.05).calibrate([1e300] * 50).predict_set(narrow).sum() == 0


def test_arrays_without_tasks_are_checked_too() -> None:
    one = mp.PS(epsilon=0.1, delta=0.1)
    with pytest.warns(mp.CheckWarning, match="the true label scores lower than other labels"):
        one.calibrate(-MATRIX[:400], CODES[:400])
    one.calibrate(-MATRIX[:400], CODES[:400], allow=["direction"])
    for calibrate in (one.calibrate, method().task_threshold):
        with pytest.raises(mp.InvalidInput, match="every row occurs 2 times"):
            calibrate(np.tile(TRUE[:400], 2))


# What sites send: the result is that of all scores.
@tied
@pytest.mark.parametrize("split", ["tight", "joint"])
@pytest.mark.parametrize("coarse", [np.float16, np.float32])
def test_the_coarser_of_two_precisions_is_used(split: str, coarse: type) -> None:
    # A regression: with one site of 36 in float64, 0.1 was no longer kept.
    method = mp.MetaPS(epsilon=0.3, alpha=0.3, delta=0.1, split=split)
    sent = {i: method.task_threshold(np.full(30, coarse(0.1))) for i in range(35)}
    assert sent[0].dtype == coarse
    sent[99] = method.task_threshold(np.full(30, 0.9))
    for messages in (sent, list(sent.values())):
        result = method.combine(messages)
        assert result.precision_ == coarse
        assert set(result.task_sizes_) == {-1}  # they were not sent
        assert result.predict_set(np.array([0.1])).all()
    assert method.combine(np.stack(list(sent.values()))).precision_ == np.float64
    wide = mp.MetaPS(epsilon=0.3, alpha=0.3, delta=0.1).calibrate(*draw_tasks())
    assert wide.add(draw_tasks()[0][:40].astype(coarse) / 2, [-1] * 40).precision_ == coarse


def test_small_sites_are_noticed_without_their_sizes() -> None:
    method = paper()
    sent = [method.task_threshold(np.zeros(10)) for _ in range(130)]
    assert sent[0].tolist() == [-math.inf] * 10 + [0.0] * 19  # .9 ** 10 is below .35
    for sizes in (None, [10] * 130):
        with pytest.raises(mp.InfeasibleGuarantee, match="130 tasks have fewer than 19 examples"):
            method.combine(sent, sizes=sizes)
    with pytest.raises(
        mp.InfeasibleGuarantee, match="3 of the 133 tasks have fewer than 29 examples"
    ):
        paper(split="tight").combine([0.5] * 130 + [-math.inf] * 3)


@pytest.mark.parametrize("given", ["classes", "frame", "integers"])
def test_a_matrix_gives_the_threshold_of_its_true_labels(given: str, tmp_path: Path) -> None:
    scores: Any = pd.DataFrame(MATRIX, columns=CLASSES) if given == "frame" else MATRIX
    classes = CLASSES if given == "classes" else None
    labels = CODES if given == "integers" else LABELS
    names = [0, 1, 2] if given == "integers" else CLASSES
    predictor = method().calibrate(scores, TASKS, labels, classes=classes)
    alone = mp.PS(epsilon=0.1, delta=0.1).calibrate(scores, labels, classes=classes)
    assert predictor.threshold_ == method().calibrate(TRUE, TASKS).threshold_
    assert alone.threshold_ == mp.PS(epsilon=0.1, delta=0.1).calibrate(TRUE).threshold_
    predictor.save(tmp_path / "p.json")
    again = mp.load(tmp_path / "p.json")
    assert again.columns_ == predictor.columns_ == alone.columns_ == {"classes": names}
    assert_refused("order", lambda: again.predict_set(MATRIX, classes=names[::-1]))
    kept = again.predict_set(MATRIX, classes=names)
    np.testing.assert_array_equal(kept, predictor.predict_set(MATRIX))


def test_classes_keep_the_order_of_the_columns(promises: dict[str, Any]) -> None:
    by_class, matrix = promises["by_class"], promises["matrix"]
    assert by_class.classes_ == tuple(CLASSES)
    same = method(per_class=True).calibrate(TRUE, TASKS, LABELS)
    cuts = [same.threshold_of(name) for name in CLASSES]
    np.testing.assert_array_equal(by_class.predict_set(MATRIX), cuts <= MATRIX)
    for frame in (FRAME, FRAME.rename(columns="p_{}".format), pd.DataFrame(MATRIX)):
        np.testing.assert_array_equal(matrix.predict_set(frame), matrix.predict_set(MATRIX))
    assert matrix.threshold_of("any label") == matrix.threshold_
    first, *others = by_class.thresholds_.tolist()
    assert f"(yes: {first!r}, " in by_class.promise_
    assert by_class.predict_set([first, *others]).tolist() == [True] * 3
    assert by_class.predict_set(np.full((3, 4, 3), first)).shape == (3, 4, 3)
    assert by_class.predict_set(np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(mp.NotCalibrated, match="thresholds_"):
        _ = by_class.threshold_
    with pytest.raises(AttributeError, match="threshold_of"):
        _ = matrix.thresholds_


def test_classes_that_a_table_names_by_text_match() -> None:
    for labels, classes in (([True, False], ["False", "True"]), (["1", "0"], [0, 1])):
        matrix = read_class_matrix([[0.1, 0.9], [0.6, 0.4]], labels, classes)
        assert matrix is not None
        assert (matrix.codes.tolist(), matrix.classes) == ([1, 0], tuple(classes))


# per_class=True: a threshold for each class, so that a rare one cannot be missed unnoticed.


LOOSE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
NO_YES = np.array(["no", "yes"])


def examples(tasks: int = 40, n: int = 200, rare: float = 0.2, rng: int = 0) -> tuple[Any, ...]:
    """Return scores, tasks and labels; the rare class "yes" has lower scores."""
    generator = np.random.default_rng(rng)
    label = (generator.random(tasks * n) < rare).astype(int)
    scores = generator.normal(size=tasks * n) + np.where(label, 0.0, 3.0)
    return scores, np.repeat(np.arange(tasks), n), NO_YES[label]


def per_class(**changes: Any) -> mp.MetaPS:
    return mp.MetaPS(**LOOSE | changes, per_class=True)


@settings(max_examples=60)
@given(
    split=st.sampled_from(["joint", "tight", "even", 0.4]),
    delta=st.sampled_from([0.05, 0.2, None]),
    seed=st.integers(0, 99),
    own_rates=st.booleans(),
    minimum=st.sampled_from([0, 12]),
)
def test_each_class_is_calibrated_separately(
    split: Any, delta: float | None, seed: int, own_rates: bool, minimum: int
) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.choice(["a", "b", "c"], 900, p=[0.2, 0.3, 0.5])
    tasks, scores = generator.integers(0, 30, 900), generator.normal(size=900)
    rates = {"a": 0.3, "b": 0.2, "c": 0.4} if own_rates else dict.fromkeys("abc", 0.3)
    asked: dict[str, Any] = {"alpha": 0.4, "split": split, "on_infeasible": "trivial"}
    asked["min_examples"] = minimum
    epsilon: Any = rates if own_rates else 0.3
    result = mp.MetaPS(**asked, epsilon=epsilon, delta=delta, per_class=True)
    result.calibrate(scores, tasks, labels)
    assert result.classes_ == ("a", "b", "c")
    for number, name in enumerate(result.classes_):
        selected = labels == name
        names, padded = tasks[selected], scores[selected]
        if not minimum:  # a task without the class counts, as one example of score -inf does
            missing = sorted(set(tasks.tolist()) - set(names.tolist()))
            names, padded = np.r_[names, missing], np.r_[padded, np.full(len(missing), -np.inf)]
        alone = mp.MetaPS(**asked, epsilon=rates[name], delta=delta and delta / 3)
        with warnings.catch_warnings():  # a threshold of -inf, which only those examples make
            warnings.simplefilter("ignore")
            alone.calibrate(padded, names.astype(int))
        assert result.threshold_of(name) == result.thresholds_[number] == alone.threshold_
        assert result.level_[number] == alone.level_
        sizes = np.bincount(tasks[selected], minlength=30)
        assert np.asarray(result.left_out_)[number] == (sizes < minimum).sum()


@pytest.mark.parametrize("classes", [2, 5])
def test_the_guarantees_of_all_classes_fail_with_probability_at_most_delta(classes: int) -> None:
    # The examples of the classes are independent, so the failure probability is a product.
    worst = TwoPointFamily(bad=0.1 + 1e-9, miss=0.1 + 1e-9)
    whole = mp.Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, split="tight", per_class=True)
    size = {"tasks": 3910, "examples": 30_038}
    part = whole.for_class(0, range(classes))
    assert 1 - (1 - worst.probability_of_one(part, **size)) ** classes <= 0.05
    undivided = whole.for_class(0, range(1))  # the negative control: all of delta for each
    assert 1 - (1 - worst.probability_of_one(undivided, **size)) ** classes > 0.09


# Files, new tasks, sites.
def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    scores, tasks, labels = examples()
    for names in (["no", "yes"], [0, 1], [False, True], [np.int64(7), 300], ["é", "\N{SNOWMAN}"]):
        column, rates = np.array(names)[(labels == "yes").astype(int)], [0.1, 0.25]
        epsilon: Any = dict(zip(names, rates, strict=True)) if names != [0, 1] else 0.2
        before = clone(per_class(epsilon=epsilon, min_examples=2)).calibrate(scores, tasks, column)
        before.save(tmp_path / "promise.json")
        after = mp.load(tmp_path / "promise.json")
        assert after.classes_ == before.classes_ == tuple(names)
        assert [type(x) for x in after.classes_] == [type(x) for x in np.array(names).tolist()]
        assert (after.promise_, after.get_params()) == (before.promise_, before.get_params())
        np.testing.assert_array_equal(after.task_thresholds_, before.task_thresholds_)
        for one in (before, after):
            one.add(scores[:100] / 2, [-1] * 100, column[:100])
        assert after.thresholds_.tolist() == before.thresholds_.tolist()
    again = before.set_params(per_class=False, epsilon=0.2, min_examples=0)
    again.calibrate(scores, tasks)
    assert again.classes_ is None
    assert again.promise_ == mp.MetaPS(**again.get_params()).calibrate(scores, tasks).promise_


def test_old_and_new_tasks_may_lack_a_class() -> None:
    scores, tasks, labels = examples()
    new, ids, others = examples(tasks=3, rng=1)
    others = np.where(others == "yes", "maybe", others)  # before "no", in order
    grown = per_class(on_infeasible="trivial").calibrate(scores, tasks, labels)
    grown.add(new, ids + 100, others)
    whole = per_class(on_infeasible="trivial")
    whole.calibrate(np.r_[scores, new], np.r_[tasks, ids + 100], np.r_[labels, others].astype(str))
    assert grown.classes_ == whole.classes_ == ("maybe", "no", "yes")
    assert grown.thresholds_.tolist() == whole.thresholds_.tolist()
    assert encode_evidence(grown._evidence) == encode_evidence(whole._evidence)
    assert grown.remarks_ == ["Class 'maybe' is always kept, so its guarantee holds trivially."]
    counts = [[sum((tasks == t) & (labels == c)) for c in ("no", "yes")] for t in range(40)]
    assert grown.task_sizes_[:40, 1:].tolist() == counts


# Infeasible and uninformative classes.
def test_infeasible_classes_are_named_with_what_they_lack() -> None:
    scores, tasks, labels = examples(rare=0.005)
    sizes = [int(((tasks == t) & (labels == "yes")).sum()) for t in range(40)]
    with pytest.raises(mp.InfeasibleGuarantee, match="for 1 of 2 classes: class 'yes'") as caught:
        per_class().calibrate(scores, tasks, labels)
    (found,) = re.findall(r": (\d+) of the 40 tasks have fewer than (\d+) ex", str(caught.value))
    assert sum(size < int(found[1]) for size in sizes) == int(found[0])
    trivial = per_class(on_infeasible="trivial").calibrate(scores, tasks, labels)
    assert np.isfinite(trivial.thresholds_).tolist() == [True, False]
    assert trivial.predict_set([[-9.0, -math.inf]]).tolist() == [[False, True]]


def test_a_class_at_the_lowest_score_is_named() -> None:
    scores, tasks, labels = examples()
    scores = np.where(labels == "yes", np.maximum(scores, 0.0), np.abs(scores) + 1)
    with pytest.warns(UserWarning, match="class 'yes' is kept whatever its score") as text:
        result = per_class().calibrate(scores, tasks, labels)
    assert (len(text), result.threshold_of("yes")) == (1, 0)
    assert "in 40 of 40 tasks (100%)" in result.promise_
