"""Bad input: for each function, what it refuses and the argument or the value that it names."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from metapac import Columns, InvalidInput, MetaPS, Monitor, NotCalibrated, open_table
from metapac.tables import scores
from tests.helpers import tables

LOOSE: dict[str, Any] = {"epsilon": 0.5, "alpha": 0.5, "delta": 0.5, "on_infeasible": "trivial"}
TEXT, LISTS = pa.string(), pa.list_(pa.float64())
TABLE: dict[str, Any] = {
    "g": ["u", "u", "v"],
    "y": ["a", "b", "a"],
    "p_a": [0.9, 0.2, 0.7],
    "p_b": [0.1, 0.8, 0.3],
    "true": [0.9, 0.8, 0.7],
    "guess": [1.0, 2.0, 3.0],
    "truth": [1.5, 2.5, 2.0],
    "sd": [1.0, 2.0, 1.0],
    "high": [2.0, 2.5, 4.0],
    "l": [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]],
    "k": [["a", "b"], ["a", "b"], ["b", "a"]],
}
SCORE, LABEL = {"task": "g", "score": "true"}, {"task": "g", "label": "y"}
EACH = LABEL | {"per_class": True}
NUMBERS = {"task": "g", "prediction": "guess", "y": "truth", "scale": "sd"}
PAIR = {"task": "g", "lower": "guess", "upper": "high", "y": "truth"}
IN_LISTS = LABEL | {"columns": "l"}
NAMED = IN_LISTS | {"classes_column": "k"}


def check(call: Any, expected: str | tuple[str, ...]) -> None:
    """Check that a call is refused: a tuple names parameters, a text occurs in the message."""
    with pytest.raises(InvalidInput) as caught:
        call()
    if isinstance(expected, tuple):
        assert caught.value.parameters == expected
    else:
        assert re.search(expected, str(caught.value))


COLUMNS: list[Any] = [
    ({"task": ["g"]}, ("task",)),
    ({"cluster": 3}, ("cluster",)),
    ({"id": b"x"}, ("id",)),
    ({"classes_column": 3}, ("classes_column",)),
    ({"columns": 3}, ("columns",)),
    ({"columns": []}, ("columns",)),
    ({"columns": ["p_a", 3]}, ("columns",)),
    ({"columns": ["p_a", "p_a"]}, ("columns",)),
    ({"classes_column": "k"}, ("columns",)),
    ({"columns": ["p_a"], "classes_column": "k"}, ("columns",)),
    ({"y": "truth"}, ("y", "label")),
    ({"scale": "sd", "label": "y"}, ("scale", "label")),
    ({**NUMBERS, "score": "true"}, ("score",)),
    ({**NUMBERS, "classes": ["a"]}, ("classes",)),
    ({**NUMBERS, "columns": "l", "classes_column": "k"}, ("classes_column",)),
    ({**NUMBERS, "prediction": "truth"}, ("prediction", "y")),
]


def test_columns() -> None:
    for columns, expected in COLUMNS:
        check(lambda: Columns(**columns), expected)


def test_open_table() -> None:
    check(lambda: open_table(pa.table(TABLE), {"task": "g"}), ("columns",))  # type: ignore[arg-type]
    check(lambda: open_table(3), "source must be a path")
    check(lambda: open_table(pd.DataFrame({"S": [1], "s": [2]})), "in case")


CALIBRATE: list[tuple[dict[str, Any], dict[str, Any], str | tuple[str, ...]]] = [
    # columns that are not there, or not what they should be
    ({}, {"task": "g"}, ("score", "prediction", "y")),
    ({}, {"score": "true"}, ("task",)),
    ({}, SCORE | {"score": "Treu"}, "no column 'Treu'; it has: g, y, .* Did you mean 'true'"),
    ({}, SCORE | {"id": "ids"}, "no column 'ids'"),
    ({f"c{i}": [1.0] * 3 for i in range(200)}, SCORE | {"task": "x"}, "c18 and 181 more"),
    ({}, SCORE | {"score": "y"}, "column 'y' must hold numbers, got string"),
    ({}, SCORE | {"task": "l"}, "column 'l' must hold strings or integers .* got array"),
    ({"g": [0.5, 1.5, 1.0]}, SCORE, "'g' must hold strings or integers .* in 2 rows"),
    ({"g": pa.nulls(3)}, SCORE, "'g' must hold .*null"),
    ({"true": pa.nulls(3)}, SCORE, "'true' must hold .*null"),
    # rows
    ({"g": ["u", None, "v"]}, SCORE, "'g'.* missing in 1 row"),
    ({"true": [1.0, None, math.nan]}, SCORE, "2 .* out of 3 values .*'u': 1, 'v': 1"),
    ({"true": [1.0, None, math.nan]}, EACH | {"score": "true"}, "'u', class 'b': 1, 'v', class"),
    ({"h": ["x", None, "z"]}, SCORE | {"cluster": "h"}, "'h', .*missing in 1 row"),
    ({"h": ["x", "y", "z"]}, SCORE | {"cluster": "h"}, "'u' is in the clusters 'x' and 'y'"),
    ({name: pa.array([], TEXT) for name in TABLE}, SCORE | {"score": "p_a"}, "must hold numbers"),
    # labels and classes
    ({"y": ["a", "c", "b"]}, LABEL | {"classes": ["a", "b"]}, "classes 'a', 'b', got 'c' in 1 row"),
    ({"y": ["a", None, "b"]}, LABEL, "got no label in 1 row"),
    ({"y": ["A", "b", "A"]}, LABEL, "only in case"),
    ({"y": pa.array([None] * 3, TEXT)}, EACH | {"score": "true"}, "'y' holds no labels"),
    ({"p_true": [1.0, 1.0, 1.0]}, LABEL, ("classes",)),
    ({}, {"task": "y", "label": "g"}, "'u' in 2 rows"),
    ({"h": ["a", "b", "c"]}, {"task": "h", "label": "g"}, r"classes=\['u', 'v'\]"),
    ({"y": ["1", "0", "1"]}, LABEL | {"columns": ["p_a", "p_b"]}, r"classes=\['0', '1'\]"),
    ({}, EACH | {"label": None, "score": "true"}, ("label",)),
    ({}, EACH | {"epsilon": {"a": 0.5}}, "no value for class 'b'"),
    ({}, EACH | {"epsilon": dict.fromkeys("abc", 0.5)}, "names class 'c'"),
    ({}, LABEL | {"epsilon": {"a": 0.5}}, "per_class=True"),
    ({}, LABEL | {"columns": "q_*"}, ("columns",)),
    ({}, LABEL | {"columns": "*_*"}, ("columns",)),
    ({}, LABEL | {"columns": ["p_a", "g"]}, ("columns",)),
    ({}, LABEL | {"columns": ["p_a"]}, "one class only"),
    ({}, LABEL | {"columns": ["p_a", "p_b"], "classes": ["a"]}, ("classes",)),
    ({}, LABEL | {"classes": "ab"}, ("classes",)),
    ({}, LABEL | {"classes": ["a", "a"]}, ("classes",)),
    ({}, LABEL | {"classes": ["a", "c"]}, "no column 'p_c'"),
    # numbers
    ({}, NUMBERS | {"y": None}, ("y", "prediction")),
    ({}, NUMBERS | {"per_class": True}, "prediction"),
    ({}, NUMBERS | {"prediction": "gues"}, "Did you mean 'guess'"),
    *(
        ({name: [1.0, value, 1.0]}, NUMBERS, f"'{name}' must hold .* in 1 of 3 rows")
        for name, values in {
            "sd": (0.0, -1.0, math.inf, None, math.nan),
            "guess": (None, -math.inf),
            "truth": (None, math.inf),
        }.items()
        for value in values
    ),
    # quantiles
    ({}, PAIR | {"y": None}, ("y", "lower")),
    ({}, PAIR | {"upper": None}, ("lower", "upper")),
    ({}, PAIR | {"lower": None}, ("lower", "upper")),
    ({}, PAIR | {"upper": "truth"}, ("upper", "y")),
    ({}, PAIR | {"upper": "guess"}, ("lower", "upper")),
    ({}, PAIR | {"prediction": "sd"}, ("prediction", "lower")),
    ({}, PAIR | {"scale": "sd"}, ("scale", "lower")),
    ({}, PAIR | {"score": "true"}, ("score",)),
    ({}, PAIR | {"label": "y"}, ("label",)),
    ({}, PAIR | {"per_class": True}, "lower"),
    ({}, PAIR | {"lower": "gues"}, "Did you mean 'guess'"),
    ({}, PAIR | {"lower": "y"}, "'y' must hold numbers"),
    *(
        ({name: [1.0, value, 1.0]}, PAIR, f"'{name}' must hold .* in 1 of 3 rows")
        for name in ("guess", "high", "truth")
        for value in (None, math.nan, math.inf, -math.inf)
    ),
    # lists
    ({"l": [[1.0, 2.0], None, [1.0, 2.0]]}, IN_LISTS, "'l' .*missing in 1 row"),
    ({"l": [[1.0, 2.0], [1.0], [1.0, 2.0]]}, IN_LISTS, "at least two scores, got 1"),
    ({"l": [[1.0], [1.0], [1.0]]}, IN_LISTS, "one class only"),
    ({"l": pa.array([[]] * 3, LISTS)}, IN_LISTS, "got 0 to 0 scores"),
    ({"l": [[0.1, 0.9, 0.3], [0.3, 0.1], [0.5, 0.5]]}, IN_LISTS | {"per_class": True}, "length"),
    ({}, IN_LISTS | {"classes": ["a", "b", "c"]}, "got 2 to 2 scores"),
    ({"y": [0, 2, 1]}, IN_LISTS, r"classes '0', '1', got '2' in 1 row"),
    ({"l": [[0.1, 0.9, 0.3], [0.3, 0.1], [0.5, 0.5]], "y": [0, 2, 1]}, IN_LISTS,
     ("classes_column",)),
    ({"l": [[0.1, 0.9, None], [0.3, None, None], [0.5, 0.5, 0.1]], "y": [0, 0, 1]}, IN_LISTS,
     "nulls after 1 to 2 scores in task 'u'"),
    ({}, NAMED | {"per_class": True}, "per_class=True"),
    ({}, NAMED | {"columns": "y"}, ("columns",)),
    ({}, NAMED | {"classes_column": "y"}, ("classes_column",)),
    ({"y": ["a", "c", "a"]}, NAMED, "'y' must hold .*'k' .* in 1 row"),
    *(
        ({"k": [["a", "b"], value, ["a", "b"]]}, NAMED, "'l' and 'k' .* in 1 row")
        for value in (["a"], ["a", "a"], ["a", None], None, [])
    ),
]  # fmt: skip


def test_calibrate() -> None:
    for changes, options, expected in CALIBRATE:
        table = pa.table(TABLE | changes)
        check(lambda: tables.calibrate_table(table, **LOOSE | options), expected)


def promise(**changes: Any) -> MetaPS:
    rng = np.random.default_rng(0)
    labels = np.tile(["a", "b"], 400) if changes.get("per_class") else None
    method = MetaPS(**{"epsilon": 0.3, "alpha": 0.4, "delta": 0.3} | changes)
    return method.calibrate(rng.random(800), np.repeat(np.arange(20), 40), labels)


PREDICT: list[Any] = [
        ({"set": [1, 1, 1]}, {}, "already has a column 'set'"),
        ({"answer": [1, 1, 1]}, {"answer": True}, "already has a column 'answer'"),
        ({}, {"columns": "l", "classes": ["A", "a"], "booleans": True}, "in case"),
        ({"p_a": [True] * 3}, {}, "'p_a' must hold numbers, got boolean"),
        ({"p_a": [1.0, None, 1.0]}, {}, r"1 of 3 rows \(by class, 'a': 1\)"),
        ({"l": [[0.2, None], [0.1, 0.2], [0.1, 0.1]]}, {"columns": "l", "classes": "ab"},
         ("classes",)),
        ({"l": [[0.2, None], [0.1, 0.2], [0.1, 0.1]]}, {"columns": "l", "classes": ["a", "b"]},
         r"1 of 3 rows \(by class, 'b': 1\)"),
        ({"l": [[None, 0.2], [0.1, 0.2, 1.0], [0.1, 0.1]]}, {"columns": "l"}, "1 of 3 rows;"),
    ({"l": [[0.1, math.nan, 0.2], [0.1, 0.2, None], [0.1, 0.1, None]]}, {"columns": "l"},
     "1 of 3 rows;"),
        ({}, {"columns": "l", "classes_column": "k", "booleans": True}, "booleans=True"),
        ({}, {"columns": "l", "classes": ["a", "b", "c"]}, "got 2 to 2 scores"),
        ({}, {"output": "x.txt", "columns": "q_*"}, ("output",)),  # before the table is read
        ({}, {"prediction": "guess", "booleans": True}, ("prediction",)),
        ({}, {"prediction": "guess"}, "residual_scores"),
        ({}, {"lower": "guess", "upper": "high", "answer": True}, ("lower",)),
        ({}, {"lower": "guess"}, ("lower", "upper")),
        ({"lower": [1] * 3}, {"lower": "guess", "upper": "high"}, "already has a column 'lower'"),
        ({}, {"allow": ["x"]}, "got 'x'"),
        ({"p_a": [90.0, 20.0, 70.0], "p_b": [10.0, 80.0, 30.0]}, {}, "percentages"),
    ]  # fmt: skip


def test_predict(tmp_path: Path) -> None:
    for changes, options, expected in PREDICT:
        table = pa.table(TABLE | changes)
        check(lambda: tables.predict_table(promise(), table, **options), expected)
        path = tmp_path / "sets.csv"
        with pytest.raises(InvalidInput):
            tables.predict_table(promise(), table, **{"output": path} | options)
        assert not path.exists()


def test_predict_with_the_wrong_promise() -> None:
    table, each = pa.table(TABLE), promise(per_class=True)
    check(lambda: tables.predict_table(each, table, classes=["a", "c"]), "no column 'p_c'")
    check(lambda: tables.predict_table(each, table, columns="l", classes=["a", "c"]), ("classes",))
    check(lambda: tables.predict_table(each, table, prediction="guess"), "one threshold")
    of_class = promise()
    of_class.columns_ = {"task": "g", "score": "p_b"}  # which is not that of the true label
    more = pa.table(TABLE | {"p_c": [0.5, 0.5, 0.5]})
    check(lambda: tables.predict_table(of_class, more), ("label", "score", "classes"))
    check(lambda: promise().predict(TABLE), ("table",))  # type: ignore[arg-type]
    residuals = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    residuals.calibrate(-np.random.default_rng(0).random(800), np.repeat(np.arange(20), 40))
    call = lambda: tables.summarise_table(residuals, table, prediction="guess")  # noqa: E731
    check(call, "intervals, not sets")


def test_quantiles_and_predictions_give_different_scores() -> None:
    table, pair = pa.table(TABLE), {"lower": "guess", "upper": "high"}
    rng, y = np.random.default_rng(0), np.arange(800.0)
    tasks = np.repeat(np.arange(20), 40)
    level: Any = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}
    noise = y + rng.normal(size=800)
    by_pair = MetaPS(**level).calibrate_intervals(y, tasks=tasks, lower=noise - 1, upper=noise + 1)
    by_number = MetaPS(**level).calibrate_intervals(y, noise, tasks)
    for known, other in ((by_pair, {"prediction": "guess"}), (by_number, pair)):
        check(lambda: tables.predict_table(known, table, **other), ("prediction", "lower"))
        check(
            lambda: tables.evaluate_table(known, table, task="g", y="truth", **other),
            ("prediction", "lower"),
        )
    many = pa.table({"low": [1.0] * 20, "high": [0.0] * 11 + [2.0] * 9})
    swapped = {"lower": "low", "upper": "high"}
    check(lambda: tables.predict_table(by_pair, many, **swapped), "11 of 20 rows.*swapped")
    assert (
        tables.predict_table(by_pair, many.slice(1), **swapped).to_pandas().notna().all(axis=None)
    )


NEW_TASKS: list[tuple[dict[str, Any], dict[str, Any], str | tuple[str, ...]]] = [
    ({}, {"score": "true"}, ("task",)),
    ({}, {"task": "g"}, ("score", "prediction", "y")),
    ({}, {"task": "nowhere", "score": "true"}, "no column 'nowhere'"),
    ({"y": ["a", "fox", "b"]}, LABEL, "got 'fox' in 1"),
    ({"y": [0.5, 1.5, 1.0]}, LABEL, "to name labels, got double|to name labels, got float"),
    ({"p_b": [0.5, None, 0.5]}, LABEL, "nulls or NaN|NaN"),
    ({"true": [0.5, None, 0.5]}, SCORE, "1 .* out of 3"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_evaluate_and_monitor() -> None:
    for changes, options, expected in NEW_TASKS:
        known, table = promise(), pa.table(TABLE | changes)
        check(lambda: tables.evaluate_table(known, table, **options), expected)
        monitor = Monitor(known)
        check(lambda: tables.monitor_table(monitor, table, **options), expected)
        assert monitor.course == []


def test_evaluate_with_the_wrong_promise() -> None:
    table, each = pa.table(TABLE), promise(per_class=True)
    check(lambda: tables.evaluate_table(each, table, **SCORE), ("label",))
    call = lambda: tables.evaluate_table(each, table, **LABEL, score="true", classes=["a", "x"])  # noqa: E731
    check(call, "classes")
    check(
        lambda: tables.evaluate_table(promise(min_examples=9), table, **SCORE),
        "at least 9 examples",
    )
    with pytest.raises(NotCalibrated):
        tables.evaluate_table(MetaPS(epsilon=0.1, alpha=0.1, delta=0.1), table, **SCORE)


def test_sizes(tmp_path: Path) -> None:
    for options, expected in (({"task": None}, ("task",)), ({"label": "z"}, "no column 'z'")):
        table = tables.open_scores(pa.table(TABLE), LABEL | options)
        check(lambda: table.sizes(by_class=True), expected)
    (tmp_path / "a.csv").write_text('g,s\na,1\n"",2\n')
    sources: list[tuple[Any, str]] = [
        (pa.table({"g": ["a", None, None]}), "'g'.* is missing in 2 rows"),
        (pa.table({"g": pa.array([], TEXT)}), "holds no rows"),
        (tmp_path / "a.csv", "a.csv, line 3: column 'g' is empty"),
    ]
    for source, words in sources:
        check(lambda: open_table(source, Columns(task="g")).sizes(), words)
    unlabelled = open_table(pa.table({"g": ["a", "a"], "y": ["no", None]}), Columns(**LABEL))
    check(lambda: unlabelled.sizes(by_class=True), "'y'.* is missing in 1 row")


def test_site() -> None:
    levels, table = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}, pa.table(TABLE)
    sites: list[tuple[dict[str, Any], str | tuple[str, ...]]] = [
        *(({"name": name, "score": "true"}, ("name",)) for name in ("", "  ", None, 7)),
        ({"label": "y", "score": "true", "per_class": True}, ("classes", "score")),
        ({"score": "true", "task": "g"}, ("task",)),
        ({"score": "y"}, "'y' must hold numbers"),
        ({}, ("score", "prediction", "y")),
        ({"label": "g"}, "got 'u' in 2 rows"),
    ]
    for options, expected in sites:
        check(lambda: tables.site_table(table, **{"name": "a"} | options, **levels), expected)


def test_a_column_with_too_many_values_is_not_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "_MAX_CLASSES", 5)
    table = pa.table({"g": ["a"] * 6, "id": [f"row {i}" for i in range(6)], "s": [1.0] * 6})
    options = {"task": "g", "label": "id", "score": "s", "per_class": True}
    check(lambda: tables.calibrate_table(table, **options, **LOOSE), "'id' holds more than 5")


def test_compare_tables() -> None:
    rng = np.random.default_rng(0)
    known = pd.DataFrame({"g": np.repeat(np.arange(30), 20), "p_a": rng.random(600)})
    known = known.assign(p_b=1 - known.p_a)
    new = known[:40].assign(g="new")
    for changed, reference, expected in (
        (new.assign(g=new.g.where(new.index > 3, None)), known, "'g'.* missing in 4 rows"),
        (new.assign(p_a=new.p_a.where(new.index > 3)), known, "4 of 40 rows"),
        (new[:0], known, "no rows"),
        (new, known[:0], "no rows"),
        (new, known[known.g < 10], "at least 19 tasks"),
        (new, known.assign(p_a=np.inf), "finite scores"),
        (new.drop(columns="g"), known, "no column 'g'"),
    ):
        check(lambda a=changed, b=reference: tables.compare(promise(), a, b, task="g"), expected)
    check(lambda: tables.compare(promise(), new, known), ("task",))
