"""Calibrated predictors: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import datetime
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone

from metapac import (
    PS,
    CheckWarning,
    Columns,
    Guarantee,
    InfeasibleGuarantee,
    InvalidInput,
    MetaPS,
    NotCalibrated,
    combine_sites,
    load,
    open_table,
    threshold,
)
from metapac._common import warn
from metapac.binomial import allowed_errors_in_task
from metapac.inputs import check_column_order, read_class_matrix
from tests.helpers import oracles
from tests.helpers.calibrations import (
    GUARANTEE,
    SPLITS,
    Examples,
    assert_same,
    collect_evidence,
    draw_tasks,
    examples_of_tasks,
    paper,
    tied,
)
from tests.helpers.refusals import assert_refused
from tests.helpers.tables import site_table

# Bad input: one table for each public function.


def method(**options: Any) -> MetaPS:
    return MetaPS(**{"epsilon": 0.3, "alpha": 0.3, "delta": 0.2} | options)


RNG = np.random.default_rng(0)


CLASSES = ["yes", "no", "maybe"]  # not in ascending order


CODES = RNG.integers(3, size=3600)


MATRIX = RNG.dirichlet([1, 1, 1], size=3600)


MATRIX[np.arange(3600), CODES] += 0.3


TASKS, LABELS = np.repeat(np.arange(30), 120), np.array(CLASSES)[CODES]


TRUE = MATRIX[np.arange(3600), CODES]


FRAME = pd.DataFrame(MATRIX, columns=CLASSES)


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
    ("tasks missing", ["a", None]),
    ("tasks missing", ["a", math.nan]),
    ("tasks missing", pd.Series(["a", None])),
    ("tasks missing", pd.Series(["a", pd.NA], dtype="string")),
    ("tasks missing", pd.Series([1, None])),
    ("tasks missing", pd.Series([1, None], dtype="Int64")),
    ("tasks missing", pl.Series(["a", None])),
    ("tasks missing", pl.Series([1, None])),
    ("tasks missing", pa.array(["a", None])),
    ("tasks missing", NAT),
    ("tasks missing", NAT.astype(object)),
    ("tasks missing", np.array([*NAT], dtype=object)),
    ("tasks float 0.5 swapped", [0.5, 0.7]),
    ("tasks float 0.5 swapped", np.array([0.5, 0.7])),
    ("tasks one type str 'a' int 3", ["a", 3]),
    ("tasks one type bool int", [1, True]),
    ("tasks one type", ["2024-01-31", datetime.date(2024, 1, 31)]),
    ("tasks one type", [datetime.date(2024, 1, 31), "2024-01-31"]),
    ("tasks one type", [True, "a"]),
    ("tasks hashable", [["a"], ["b"]]),
    ("tasks one-dimensional (2, 1)", np.array([["a"], ["b"]])),
    ("tasks 'ab'", "ab"),
    ("tasks", {"a"}),
    ("tasks", {"a": 1, "b": 2}),
    ("tasks 3", 3),
    ("tasks", None),
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


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("epsilon 0", {"epsilon": 0}),
    ("epsilon 2", {"epsilon": 2}),
    ("alpha 1", {"alpha": 1}),
    ("delta nan", {"delta": math.nan}),
    ("epsilon=0.95 miss rate epsilon=0.05 allow=('levels',)", {"epsilon": 0.95}),
    ("alpha=0.8 alpha=0.2 allow=('levels',)", {"alpha": 0.8}),
    ("delta=0.99 delta=0.01 allow=('levels',)", {"delta": 0.99}),
    ("split", {"split": "x"}),
    ("split", {"split": 0.7}),
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


@pytest.mark.parametrize(("words", "scores"), SCORES.items())
def test_scores_that_calibrate_refuses(words: str, scores: Any) -> None:
    tasks: Any = pd.Series(["utah", "ohio"]) if "indices" in words else ["utah", "ohio"]
    tasks = [] if "empty" in words else tasks
    assert_refused(words, lambda: method().calibrate(scores, tasks))
    if "tasks" not in words:  # of a single task
        assert_refused(words.replace("ohio", ""), lambda: method().task_threshold(scores))
        assert_refused(
            words.replace("ohio", ""), lambda: PS(epsilon=0.3, delta=0.2).calibrate(scores)
        )


def test_the_task_of_a_missing_score_is_named_whatever_its_id() -> None:
    assert_refused("scores NaN ('ohio',)", lambda: method().calibrate([math.nan], [("ohio",)]))
    scores, tasks, labels = [0.1, math.nan], ["utah", "ohio"], ["x", "y"]
    by_class = method(per_class=True)
    assert_refused("NaN task 'ohio', class 'y'", lambda: by_class.calibrate(scores, tasks, labels))


@pytest.mark.parametrize(("words", "tasks"), IDS, ids=str)
def test_tasks_that_calibrate_refuses(words: str, tasks: Any) -> None:
    assert_refused(words, lambda: method().calibrate([0.1, 0.2], tasks))
    assert_refused(words, lambda: method(per_class=True).calibrate([0.1, 0.2], tasks, ["x", "y"]))


@pytest.mark.parametrize(("words", "scores", "labels", "classes"), MATRICES)
def test_class_scores_that_calibrate_refuses(
    words: str, scores: Any, labels: Any, classes: Any
) -> None:
    assert_refused(words, lambda: method().calibrate(scores, TASKS, labels, classes=classes))
    one = PS(epsilon=0.3, delta=0.2)
    assert_refused(words, lambda: one.calibrate(scores, labels, classes=classes))


@pytest.mark.parametrize(("words", "options"), OPTIONS, ids=str)
def test_levels_that_calibrate_refuses(words: str, options: dict[str, Any]) -> None:
    assert_refused(words, lambda: method(**options).calibrate(TRUE, TASKS))
    if "per_class" not in options:
        assert_refused(words, lambda: method(**options).combine([[0.5] * 13] * 30))
        assert_refused(words, lambda: method(**options).task_threshold(TRUE))
    if options.keys() <= {"epsilon", "delta", "on_infeasible"} and "per_class" not in words:
        levels: dict[str, Any] = {"epsilon": 0.3, "delta": 0.2} | options
        assert_refused(words, lambda: PS(**levels).calibrate(TRUE))


@pytest.mark.parametrize(("words", "options"), CALLS, ids=str)
def test_options_that_calibrate_refuses(words: str, options: dict[str, Any]) -> None:
    assert_refused(words, lambda: method().calibrate(TRUE, TASKS, **options))


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ("labels per_class=True", None),
        ("scores labels length 3600 2", ["x", "y"]),
        ("labels empty", []),
        ("labels 'yes'", "yes"),
        ("labels 1 missing", [None, *LABELS[1:]]),
        ("labels one type int str", np.array([3, *LABELS[1:]], dtype=object)),
        ("labels one type float", (CODES + 0.5).tolist()),
        ("labels one-dimensional (3600, 1)", LABELS[:, None]),
        ("scores labels indices", pd.Series(LABELS, index=np.arange(1, 3601))),
        ("epsilon 'maybe'", LABELS),
        ("delta=5e-324 3 classes", LABELS),
    ],
)
def test_labels_that_calibrate_refuses_per_class(words: str, labels: Any) -> None:
    epsilon: Any = {"yes": 0.1, "no": 0.2} if "epsilon" in words else 0.3
    delta = 5e-324 if "delta" in words else 0.2
    promise = method(per_class=True, epsilon=epsilon, delta=delta, split="tight")
    assert_refused(words, lambda: promise.calibrate(pd.Series(TRUE), TASKS, labels))


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("task_thresholds NaN task 1", {"task_thresholds": [0.1, math.nan]}),
        ("task_thresholds 1 value (0,)", {"task_thresholds": []}),
        ("task_thresholds 1 value (2, 3)", {"task_thresholds": np.zeros((2, 3))}),
        ("tasks 'ohio' once", {"tasks": ["ohio", "ohio"]}),
        ("task_thresholds tasks length", {"tasks": ["a"]}),
        ("tasks hashable", {"tasks": [["a"], ["b"]]}),
        ("tasks missing", {"tasks": ["a", None]}),
        ("sizes tasks shape", {"sizes": [1]}),
        ("sizes tasks shape", {"sizes": 5}),
        ("sizes whole", {"sizes": [1.5, 2]}),
        ("sizes whole", {"sizes": [0, 2]}),
        ("tasks mapping", {"task_thresholds": {"a": 0.1}, "tasks": ["a"]}),
        ("task_thresholds 0.5 'a' 1 few", {"task_thresholds": {"a": 0.5}, "sizes": [1]}),
        ("sizes 'b'", {"task_thresholds": {"a": 0.1, "b": 0.2}, "sizes": {"a": 5, "c": 5}}),
        ("sizes 'c'", {"task_thresholds": {"a": 0.1}, "sizes": {"a": 5, "c": 5}}),
        ("sites 'ohio' 'Ohio' allow=('task-names',)", {"tasks": ["ohio", "Ohio"]}),
        ("min_examples=10 sizes", {"min_examples": 10}),
        ("combine per_class=True", {"per_class": True}),
    ],
)
def test_what_combine_refuses(words: str, arguments: dict[str, Any]) -> None:
    options = {k: arguments.pop(k) for k in ("min_examples", "per_class") if k in arguments}
    arguments = {"task_thresholds": [0.1, 0.2]} | arguments
    assert_refused(words, lambda: method(split="tight", **options).combine(**arguments))


def test_combine_refuses_another_number_of_levels_and_falling_thresholds() -> None:
    assert_refused("task_thresholds 13 values (2,)", lambda: method().combine([0.1, 0.2]))
    sent = np.tile(np.linspace(0.1, 0.2, 13), (200, 1))
    assert method().combine(sent).threshold_ > 0
    sent[7, 5] = 0.3
    assert_refused("task_thresholds falls 0.3 0.15 task 7", lambda: method().combine(sent))


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("y prediction shape (1,) (2,)", {"y": [1.0]}),
        ("y finite nan position 1", {"y": [1.0, math.nan]}),
        ("y real <U1 tasks swapped", {"y": ["a", "b"]}),
        ("prediction real 'a' str position 0 tasks swapped", {
            "prediction": pd.Series(["a", "b"], dtype=object)}),
        ("y (0,)", {"y": [], "prediction": [], "tasks": []}),
        ("y prediction shape (2,) (1,)", {"prediction": [1.0], "scale": [1.0, 2.0]}),
        ("y tasks length 2 3", {"tasks": [1, 2, 3]}),
        ("tasks 'ohio'", {"tasks": "ohio"}),
        ("scale positive 0.0", {"scale": 0.0}),
        ("scale finite inf", {"scale": [1.0, math.inf]}),
        ("y scale shape (2,) (1,)", {"scale": [1.0]}),
        ("y scale indices", {
            "y": pd.Series([1.0, 2.0]), "scale": pd.Series([1.0, 2.0], index=[5, 6])}),
        ("y (2, 1)", {"y": [[1.0], [2.0]], "prediction": [[1.0], [2.0]]}),
        ("y ()", {"y": 1.0, "prediction": 1.0}),
        ("y tasks indices", {"y": pd.Series([1.0, 2.0]), "tasks": pd.Series([1, 2], index=[5, 6])}),
        ("per_class=True", {"per_class": True}),
    ],
)  # fmt: skip
def test_what_calibrate_intervals_refuses(words: str, change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"y": [1.0, 2.0], "prediction": [1.0, 2.5], "tasks": [1, 2]} | change
    promise = method(per_class=given.pop("per_class", False))
    assert_refused(words, lambda: promise.calibrate_intervals(**given))


@pytest.fixture(scope="module")
def promises() -> dict[str, Any]:
    y = RNG.normal(size=3600)
    return {
        "true": method().calibrate(TRUE, TASKS),
        "matrix": method().calibrate(MATRIX, TASKS, LABELS, classes=CLASSES),
        "by_class": method(per_class=True).calibrate(MATRIX, TASKS, LABELS, classes=CLASSES),
        "plain": method().calibrate_intervals(y, 0 * y, TASKS),
        "scaled": method().calibrate_intervals(y, 0 * y, TASKS, np.full(3600, 2.0)),
        "clusters": method().calibrate(TRUE, TASKS, clusters=[f"c{i}" for i in TASKS]),
    }


NEW = {"scores": TRUE[:120] / 2, "tasks": [1000] * 120}


@pytest.mark.parametrize(
    ("kind", "words", "call"),
    [
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
    ],
)  # fmt: skip
def test_what_a_calibrated_predictor_refuses(
    promises: dict[str, Any], kind: str, words: str, call: Any
) -> None:
    before = promises[kind].promise_
    assert_refused(words, lambda: call(promises[kind]))
    assert promises[kind].promise_ == before  # a failed call changes nothing


# Meta-PS: against a slow reference, and through every public method.


@tied
@given(examples=examples_of_tasks, split=st.sampled_from(SPLITS))
def test_meta_ps_is_two_calls_to_one_inequality(examples: Examples, split: str | float) -> None:
    tasks, scores = map(list, zip(*examples, strict=True))
    g = Guarantee(**GUARANTEE, split=split)
    within = [level.alpha_within for level in g.levels]
    count = len(set(tasks))
    ranks = list(g.allowed_low_thresholds(count))
    if len(ranks) == 1:  # several levels are tested in tests/test_ranks.py
        assert ranks == [oracles.allowed_errors(count, g.alpha_across, GUARANTEE["delta"])]
    result = MetaPS(**GUARANTEE, split=split, on_infeasible="trivial").calibrate(scores, tasks)
    assert result.threshold_ == oracles.meta_ps(scores, tasks, 0.3, within, ranks)


@tied
@given(examples=examples_of_tasks, split=st.sampled_from(SPLITS), rng=st.integers(0, 99))
def test_order_does_not_matter(examples: Examples, split: str | float, rng: int) -> None:
    shuffled = [examples[i] for i in np.random.default_rng(rng).permutation(len(examples))]
    first, second = (
        MetaPS(**GUARANTEE, split=split, on_infeasible="trivial").calibrate(
            [score for _, score in rows], [task for task, _ in rows]
        )
        for rows in (examples, shuffled)
    )
    assert first.threshold_ == second.threshold_
    by_task = dict(zip(second.tasks_.tolist(), second.task_thresholds_, strict=True))
    assert [by_task[task] for task in first.tasks_.tolist()] == first.task_thresholds_.tolist()


@tied
@given(examples=examples_of_tasks, split=st.sampled_from(SPLITS), cut=st.integers(0, 6))
@example([(0, -np.inf), (0, 0.0), (1, 0.0), (1, 0.125)], "joint", 1)  # no logarithms
def test_adding_tasks_equals_calibrating_from_scratch(
    examples: Examples, split: str | float, cut: int
) -> None:
    old = [row for row in examples if row[0] < cut]
    new = [row for row in examples if row[0] >= cut]
    if not old or not new:
        return
    method = MetaPS(**GUARANTEE, split=split, on_infeasible="trivial")
    scratch = clone(method).calibrate([s for _, s in old + new], [t for t, _ in old + new])
    grown = method.calibrate([s for _, s in old], [t for t, _ in old])
    grown.add([s for _, s in new], [t for t, _ in new])
    assert_same(grown, scratch)


def test_results_of_a_calibration() -> None:
    scores, tasks = draw_tasks()
    result = paper(split="tight").calibrate(scores, tasks)
    assert result.threshold_ == np.sort(result.task_thresholds_)[0]  # 130 tasks allow no error
    for task in (0, 77):
        expected = threshold(scores[tasks == task], epsilon=0.1, delta=0.05)
        assert result.task_thresholds_[task] == expected
    assert result.tasks_.tolist() == list(range(130))
    assert set(result.task_sizes_) == {40}
    assert result.left_out_ == 0
    assert result.level_ == result.guarantee_.levels[0]
    assert str(result) == result.promise_
    assert "over the draw of the 130 calibration tasks" in result.promise_
    assert result.remarks_ == []


def test_the_joint_split_takes_the_largest_of_its_levels() -> None:
    scores, tasks = draw_tasks(300, 60)
    joint = paper().calibrate(scores, tasks)
    ranks = joint.guarantee_.allowed_low_thresholds(300)
    rows = np.sort(scores.reshape(300, 60), axis=1)
    cuts = []
    for rank, level in zip(ranks, joint.guarantee_.levels, strict=True):
        task_thresholds = rows[:, allowed_errors_in_task(60, 0.1, level.alpha_within)]
        cuts.append(np.sort(task_thresholds)[rank] if rank >= 0 else -math.inf)
        if level == joint.level_:
            np.testing.assert_array_equal(joint.task_thresholds_, task_thresholds)
    assert joint.threshold_ == max(cuts)
    assert joint.level_ == joint.guarantee_.levels[int(np.argmax(cuts))]
    for split in ("tight", "even", 0.25):
        assert joint.threshold_ >= paper(split=split).calibrate(scores, tasks).threshold_


def test_a_task_that_is_too_small_has_threshold_minus_infinity() -> None:
    scores, tasks = draw_tasks(300)
    tasks = np.concatenate([tasks, [300]])
    result = paper(split="tight").calibrate(np.append(scores, 9.0), tasks)
    assert result.task_thresholds_[-1] == -math.inf
    assert result.threshold_ > -math.inf
    k = 9  # allowed errors of 301 tasks at 0.095 and 1e-5, one of which the small task takes
    assert result.threshold_ == np.sort(result.task_thresholds_)[k]


def test_minus_infinity_is_a_score_like_any_other() -> None:
    scores, tasks = draw_tasks(130, 44)
    with pytest.warns(UserWarning, match="Every label is kept, so the guarantee holds trivially"):
        result = paper().calibrate(np.full_like(scores, -np.inf), tasks)
    assert result.threshold_ == -math.inf
    assert result.promise_.endswith("Every label is kept, so the guarantee holds trivially.")
    assert result.predict_set([[-math.inf, 0.5]]).all()


def test_a_threshold_of_plus_infinity_is_not_called_trivial() -> None:
    scores, tasks = draw_tasks(130, 44)
    result = paper().calibrate(np.full_like(scores, np.inf), tasks)
    assert result.predict_set([np.inf, 1e300]).tolist() == [True, False]
    assert "kept" not in result.promise_


def test_a_failed_call_changes_nothing() -> None:
    scores, tasks = draw_tasks()
    result = paper().calibrate(scores, tasks)
    before = result.threshold_
    with pytest.raises(ValueError, match="was calibrated already"):
        result.add(scores[:40], tasks[:40])
    with pytest.raises(InfeasibleGuarantee):
        result.calibrate(scores[:40], tasks[:40])
    assert result.threshold_ == before
    assert len(result.tasks_) == 130


def test_adding_scores_of_coarser_precision() -> None:
    scores, tasks = draw_tasks()
    result = paper().calibrate(scores, tasks).add(scores[:40].astype(np.float32) / 2, [-1] * 40)
    assert result.precision_ == np.float32


def test_editing_a_result_does_not_change_the_evidence() -> None:
    result = paper().calibrate(*draw_tasks())
    result.task_thresholds_[:] = 0
    assert result.add(np.ones(40), [-1] * 40).task_thresholds_[0] != 0


def test_scikit_learns_contract() -> None:
    method = paper(split=0.2)
    assert list(inspect.signature(MetaPS).parameters) == list(method.get_params())
    copy = clone(method)
    assert copy is not method
    assert copy.get_params() == method.get_params()
    assert copy.set_params(alpha=0.3) is copy
    assert (copy.alpha, method.alpha) == (0.3, 0.1)
    assert repr(copy) == (
        "MetaPS(epsilon=0.1, alpha=0.3, delta=1e-05, split=0.2, per_class=False, min_examples=0, "
        "on_infeasible='raise')"
    )
    assert str(copy) == repr(copy)
    MetaPS(epsilon="never looked at", alpha=None, delta=-1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: MetaPS(confidence_level=0.9),  # type: ignore[call-arg]
            "unknown parameter 'confidence_level'; use epsilon = 1 - confidence_level instead.",
        ),
        (
            lambda: MetaPS(alpha=0.1, delta=0.1),  # type: ignore[call-arg]
            "alpha is not the miss rate here: epsilon is. alpha is the fraction of new tasks that "
            "may violate the guarantee",
        ),
        (lambda: PS(alpha=0.1, delta=0.1), "alpha is not the miss rate here: epsilon is"),  # type: ignore[call-arg]
        (lambda: MetaPS(epsilon=0.1, alpha=0.1), "missing .* 'delta'"),  # type: ignore[call-arg]
        (lambda: MetaPS(0.1, 0.1, 0.1), "positional argument"),  # type: ignore[call-arg]
    ],
)
def test_parameter_names_of_other_libraries_are_explained(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(
    "use",
    [
        lambda it: it.predict_set([0.1]),
        lambda it: it.predict_interval([0.1]),
        lambda it: it.save("never-written.json"),
        lambda it: it.add([0.1], [1]),
        lambda it: it.promise_,
    ],
)
def test_an_uncalibrated_object_returns_nothing(use: Any) -> None:
    with pytest.raises(NotCalibrated, match="this MetaPS is not calibrated yet. Call .calibrate"):
        use(paper())
    changed = paper().calibrate(*draw_tasks()).set_params(epsilon=0.2)
    with pytest.raises(NotCalibrated, match="its parameters were changed to .* again"):
        use(changed)


@tied
def test_no_threshold_is_negative_zero() -> None:
    scores = np.full(400, -0.0)
    scores[::2] = 0.0
    result = MetaPS(epsilon=0.5, alpha=0.5, delta=0.5).calibrate(scores, np.arange(400) // 20)
    assert not np.signbit(result.threshold_)
    assert not np.signbit(result.task_thresholds_).any()
    assert not np.signbit(threshold(np.full(50, -0.0), epsilon=0.5, delta=0.5))


@pytest.mark.parametrize("split", ["joint", "tight"])
@pytest.mark.parametrize("per_class", [False, True])
def test_from_evidence_equals_calibrate(split: str, per_class: bool) -> None:
    rng = np.random.default_rng(0)
    scores, tasks = rng.random(6000), np.repeat(np.arange(60), 100)
    labels = rng.integers(2, size=6000) if per_class else None
    guarantee = Guarantee(epsilon=0.2, alpha=0.2, delta=0.1, split=split, per_class=per_class)
    evidence = collect_evidence(guarantee, scores, tasks, labels)
    one = MetaPS.from_evidence(guarantee, evidence)
    other = MetaPS(**one.get_params()).calibrate(scores, tasks, labels)
    assert one.guarantee_ is guarantee
    assert one.promise_ == other.promise_
    np.testing.assert_array_equal(one.task_thresholds_, other.task_thresholds_)
    np.testing.assert_array_equal(one.predict_set([[0.5, 0.01]]), other.predict_set([[0.5, 0.01]]))


def test_the_guarantee_is_validated_once_per_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Guarantee] = []
    check = Guarantee.__post_init__

    def counted(guarantee: Guarantee) -> None:
        calls.append(guarantee)
        check(guarantee)

    monkeypatch.setattr(Guarantee, "__post_init__", counted)
    method = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1)
    assert calls == []  # constructors only store
    scores = np.random.default_rng(0).random(6000)
    method.calibrate(scores, np.repeat(np.arange(60), 100))
    method.predict_set(scores)
    assert len(calls) == 1


class Tagged(MetaPS):
    """A subclass with a parameter that the guarantee does not know."""

    def __init__(
        self,
        *,
        epsilon: float,
        alpha: float,
        delta: float,
        split: str = "joint",
        per_class: bool = False,
        min_examples: int = 0,
        on_infeasible: str = "raise",
        tag: str = "x",
    ) -> None:
        super().__init__(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
        self.tag = tag


def test_a_subclass_may_have_parameters_of_its_own() -> None:
    scores, tasks = np.linspace(0, 1, 3000), np.repeat(np.arange(60), 50)
    levels: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
    tagged = Tagged(**levels).calibrate(scores, tasks)
    assert tagged.threshold_ == MetaPS(**levels).calibrate(scores, tasks).threshold_


def test_results_are_plain_attributes() -> None:
    scores, tasks = np.linspace(0, 1, 3000), np.repeat(np.arange(60), 50)
    predictor = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05)
    assert not hasattr(predictor, "threshold_")
    predictor.calibrate(scores, tasks)
    assert "threshold_" in vars(predictor)
    predictor.set_params(epsilon=0.3)
    assert predictor.threshold_ >= 0  # the number stays; using it for sets is refused
    with pytest.raises(NotCalibrated):
        predictor.predict_set([[0.5]])


@pytest.mark.parametrize("scores", [[[99.2, 0.8]], 100 * np.random.default_rng(1).random((50, 3))])
def test_percentages_after_fractions_are_warned_of_once(scores: Any, tmp_path: Path) -> None:
    fractions = np.random.default_rng(0).random(1200)
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1)
    method.calibrate(fractions, np.repeat(np.arange(24), 50))
    method.save(tmp_path / "promise.json")
    for predictor in (method, load(tmp_path / "promise.json")):
        with pytest.warns(CheckWarning, match="these are percentages and those fractions") as seen:
            kept = predictor.predict_set(scores)
        assert len(seen) == 1
        np.testing.assert_array_equal(kept, np.asarray(scores) >= method.threshold_)
        predictor.predict_set(np.asarray(scores) / 100)  # no warning


# PS: one call to the inequality.


def test_ps_is_one_call_to_the_inequality() -> None:
    scores = draw_tasks()[0]
    result = PS(epsilon=0.1, delta=1e-5).calibrate(scores)
    assert result.threshold_ == threshold(scores, epsilon=0.1, delta=1e-5)
    assert "over the draw of the 5200 calibration examples" in str(result)


def test_ps_on_examples_of_the_test_task_is_infeasible_in_the_paper() -> None:
    with pytest.raises(InfeasibleGuarantee) as caught:
        PS(epsilon=0.1, delta=1e-5).calibrate(np.zeros(100))
    assert str(caught.value) == (
        "epsilon=0.1, delta=1e-05 cannot be guaranteed: this takes 110 examples, but there "
        "are 100. Options: add 10 examples; or settle for epsilon=0.109; or settle for "
        "delta=2.66e-05; or pass on_infeasible='trivial' to keep every label."
    )
    assert PS(epsilon=0.109, delta=1e-5).calibrate(np.zeros(100)).threshold_ == 0
    assert PS(epsilon=0.1, delta=2.66e-5).calibrate(np.zeros(100)).threshold_ == 0
    trivial = PS(epsilon=0.1, delta=1e-5, on_infeasible="trivial").calibrate(np.zeros(100))
    assert trivial.threshold_ == -math.inf


def test_sets_are_scores_at_least_the_threshold() -> None:
    result = PS(epsilon=0.5, delta=0.5).calibrate([0.25] * 9)
    kept = result.predict_set([[0.25, 0.2], [0.3, math.nextafter(0.25, 0)]])
    assert kept.dtype == np.bool_
    assert kept.tolist() == [[True, False], [True, False]]
    assert result.predict_set(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("coarse", [np.float16, np.float32])
def test_scores_are_compared_in_the_coarser_precision(coarse: type) -> None:
    # 0.1 rounds up to float32 and down to float16; what calibration kept is still kept.
    exact = np.full(50, 0.1)
    narrow: Any = exact.astype(coarse)
    for calibration in (exact, narrow):
        result = PS(epsilon=0.1, delta=0.05).calibrate(calibration)
        for scores in (exact, narrow):
            assert result.predict_set(scores).all()
    below = PS(epsilon=0.1, delta=0.05).calibrate(narrow)
    assert not below.predict_set(np.nextafter(narrow, coarse(0))).any()
    assert PS(epsilon=0.1, delta=0.05).calibrate([1e300] * 50).predict_set(narrow).sum() == 0


def test_ps_keeps_scikit_learns_contract() -> None:
    assert clone(PS(epsilon=0.1, delta=0.2)).get_params() == {
        "epsilon": 0.1,
        "delta": 0.2,
        "on_infeasible": "raise",
    }


def test_arrays_without_tasks_are_checked_too() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=400)
    score = rng.beta(1 + 2 * labels, 3 - 2 * labels)
    matrix = np.stack([1 - score, score], axis=1)
    method = PS(epsilon=0.1, delta=0.1)
    with pytest.warns(CheckWarning, match="the true label scores lower than other labels"):
        method.calibrate(matrix[:, ::-1], labels)
    method.calibrate(matrix[:, ::-1], labels, allow=["direction"])
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        method.calibrate(np.tile(score, 2))
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        MetaPS(epsilon=0.1, alpha=0.1, delta=0.1).task_threshold(np.tile(score, 2))


# What sites send: the result is that of all scores.


@tied
@given(examples=examples_of_tasks, split=st.sampled_from(SPLITS))
def test_combining_what_sites_send_equals_calibrating_on_all_scores(
    examples: Examples, split: str | float
) -> None:
    method = MetaPS(**GUARANTEE, split=split, on_infeasible="trivial")
    by_task: dict[int, list[float]] = {}
    for task, score in examples:
        by_task.setdefault(task, []).append(score)
    sent = {task: method.task_threshold(scores) for task, scores in by_task.items()}
    sizes = [len(scores) for scores in by_task.values()]
    whole = clone(method).calibrate([s for _, s in examples], [t for t, _ in examples])
    assert_same(clone(method).combine(sent, sizes=sizes), whole)
    by_name = {task: len(scores) for task, scores in reversed(by_task.items())}
    assert_same(clone(method).combine(sent, sizes=by_name), whole)
    assert clone(method).combine(sent).threshold_ == whole.threshold_


@tied
def test_the_size_of_a_site_is_unknown_if_it_did_not_send_it() -> None:
    scores, tasks = draw_tasks()
    method = paper(split="tight")
    sent = {i: method.task_threshold(scores[tasks == i]) for i in range(130)}
    assert set(method.combine(sent).task_sizes_) == {-1}
    assert set(method.combine(sent, sizes=[40] * 130).task_sizes_) == {40}


def test_a_site_sends_its_precision() -> None:
    narrow = np.full(50, 0.1, dtype=np.float32)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.2, split="tight")
    sent = {i: method.task_threshold(narrow) for i in range(20)}
    assert sent[0].dtype == np.float32
    assert method.combine(sent).predict_set([0.1]).all()
    joint = MetaPS(epsilon=0.3, alpha=0.4, delta=0.2)
    assert joint.task_threshold(narrow).shape == (13,)
    assert joint.combine([joint.task_threshold(narrow)] * 30).precision_ == np.float32


@tied
@pytest.mark.parametrize("split", ["tight", "joint"])
@pytest.mark.parametrize("coarse", [np.float16, np.float32])
@pytest.mark.parametrize("as_mapping", [True, False])
def test_the_coarser_of_two_precisions_is_used(split: str, coarse: type, as_mapping: bool) -> None:
    # A regression: with one site of 36 in float64, 0.1 was no longer kept.
    method = MetaPS(epsilon=0.3, alpha=0.3, delta=0.1, split=split)
    sent = {i: method.task_threshold(np.full(30, coarse(0.1))) for i in range(35)}
    sent[99] = method.task_threshold(np.full(30, 0.9))
    result = method.combine(sent if as_mapping else list(sent.values()))
    assert result.precision_ == coarse
    assert result.predict_set(np.array([0.1])).all()
    assert method.combine(np.stack(list(sent.values()))).precision_ == np.float64


# Too few data: what is missing is said, and each remedy works.


@pytest.mark.parametrize(
    ("tasks", "examples", "facts"),
    [
        (40, 100, ["takes 116 tasks with at least 29 examples", "are 40 tasks", "add 76 tasks"]),
        (400, 20, ["400 of the 400 tasks have fewer than 29 examples", "add 4734 tasks"]),
        (40, 20, ["40 of the 40 tasks have fewer than 29 examples", "instead of 116"]),
    ],
)
def test_an_infeasible_guarantee_says_what_is_missing(
    tasks: int, examples: int, facts: list[str]
) -> None:
    scores, names = draw_tasks(tasks, examples)
    with pytest.raises(InfeasibleGuarantee) as caught:
        paper(split="tight").calibrate(scores, names)
    assert [fact for fact in facts if fact not in str(caught.value)] == []
    trivial = paper(split="tight", on_infeasible="trivial").calibrate(scores, names)
    assert trivial.threshold_ == -math.inf
    assert trivial.remarks_ == ["Every label is kept, so the guarantee holds trivially."]


@pytest.mark.parametrize("remedy", [{"alpha": 0.294}, {"delta": 0.0185}, {"tasks": 116}], ids=str)
def test_each_remedy_works(remedy: dict[str, float]) -> None:
    scores, names = draw_tasks(int(remedy.pop("tasks", 40)), 100)
    assert paper(split="tight", **remedy).calibrate(scores, names).threshold_ > -math.inf


def test_remedies_for_small_tasks_work() -> None:
    scores, names = draw_tasks(400, 20)
    for remedy in ({"epsilon": 0.14}, {"alpha": 0.244}):
        result = paper(split="tight", **remedy).calibrate(scores, names)
        assert result.threshold_ > -math.inf
    more = np.concatenate([scores, draw_tasks(4734, 29)[0]])
    ids = np.concatenate([names, 400 + draw_tasks(4734, 29)[1]])
    assert paper(split="tight").calibrate(more, ids).threshold_ > -math.inf
    with pytest.raises(InfeasibleGuarantee):
        paper(split="tight").calibrate(more[29:], np.concatenate([names, ids[8029:]]))


def test_the_joint_split_requires_the_fewest_tasks_over_its_levels() -> None:
    scores, names = draw_tasks(110, 200)
    with pytest.raises(InfeasibleGuarantee, match="takes 111 tasks with .* add 1 task with at"):
        paper().calibrate(scores, names)
    assert paper().calibrate(*draw_tasks(111, 200)).threshold_ > -math.inf


def test_small_sites_are_noticed_without_their_sizes() -> None:
    method = paper()
    sent = [method.task_threshold(np.zeros(10)) for _ in range(130)]
    assert sent[0].tolist() == [-math.inf] * 10 + [0.0] * 3  # .9 ** 10 is below .35
    for sizes in (None, [10] * 130):
        with pytest.raises(InfeasibleGuarantee, match="takes 1.. tasks with at least"):
            method.combine(sent, sizes=sizes)


def test_infeasible_sites_are_counted() -> None:
    sent = [0.5] * 130 + [-math.inf] * 3
    with pytest.raises(InfeasibleGuarantee, match="3 of the 133 tasks have fewer than 29 examples"):
        paper(split="tight").combine(sent)


def test_from_evidence_checks_that_the_tasks_are_enough() -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    evidence = collect_evidence(guarantee, [0.5, 0.6], ["a", "b"])
    with pytest.raises(InfeasibleGuarantee, match="cannot be guaranteed"):
        MetaPS.from_evidence(guarantee, evidence)
    trivial = MetaPS.from_evidence(guarantee, evidence, on_infeasible="trivial")
    assert trivial.threshold_ == -math.inf
    assert trivial.on_infeasible == "trivial"
    with pytest.raises(ValueError, match="on_infeasible must be 'raise' or 'trivial', got 'no'"):
        MetaPS.from_evidence(guarantee, evidence, on_infeasible="no")


def test_each_class_is_feasible_or_not() -> None:
    labels = np.array(["common"] * 39 + ["rare"] * 1)
    scores, tasks = draw_tasks(40, 40)
    g = Guarantee(epsilon=0.2, alpha=0.2, delta=0.1, split="tight", per_class=True)
    evidence = collect_evidence(g, scores, tasks, np.tile(labels, 40))
    assert evidence.classes == ("common", "rare")
    trivial = MetaPS.from_evidence(g, evidence, on_infeasible="trivial")
    assert (trivial.thresholds_ > -math.inf).tolist() == [True, False]
    with pytest.raises(InfeasibleGuarantee, match="rare"):
        MetaPS.from_evidence(g, evidence)


# Matrices of class scores.


CLASSES = ["yes", "no", "maybe"]  # not in ascending order


RNG = np.random.default_rng(0)


CODES = RNG.integers(3, size=3600)


MATRIX = RNG.dirichlet([1, 1, 1], size=3600)


MATRIX[np.arange(3600), CODES] += 0.3


TASKS = np.repeat(np.arange(30), 120)


LABELS = np.array(CLASSES)[CODES]


TRUE = MATRIX[np.arange(3600), CODES]


@pytest.mark.parametrize("given", ["classes", "frame"])
def test_a_matrix_gives_the_threshold_of_its_true_labels(given: str, tmp_path: Path) -> None:
    scores: Any = pd.DataFrame(MATRIX, columns=CLASSES) if given == "frame" else MATRIX
    classes = CLASSES if given == "classes" else None
    predictor = method().calibrate(scores, TASKS, LABELS, classes=classes)
    assert predictor.threshold_ == method().calibrate(TRUE, TASKS).threshold_
    assert predictor.columns_ == {"classes": CLASSES}
    predictor.save(tmp_path / "p.json")
    again = load(tmp_path / "p.json")
    with pytest.raises(InvalidInput, match="calibrated in the order yes, no, maybe"):
        again.predict_set(MATRIX, classes=["no", "yes", "maybe"])
    kept = again.predict_set(MATRIX, classes=CLASSES)
    np.testing.assert_array_equal(kept, predictor.predict_set(MATRIX))


def test_integer_labels_are_columns() -> None:
    predictor = method().calibrate(MATRIX, TASKS, CODES)
    assert predictor.columns_ == {"classes": [0, 1, 2]}
    assert predictor.threshold_ == method().calibrate(TRUE, TASKS).threshold_


def test_classes_keep_the_order_of_the_columns_per_class() -> None:
    predictor = method(per_class=True).calibrate(MATRIX, TASKS, LABELS, classes=CLASSES)
    assert predictor.classes_ == tuple(CLASSES)
    same = method(per_class=True).calibrate(TRUE, TASKS, LABELS)
    for name in CLASSES:
        assert predictor.threshold_of(name) == same.threshold_of(name)
    kept = predictor.predict_set(MATRIX)
    cuts = [predictor.threshold_of(name) for name in CLASSES]
    np.testing.assert_array_equal(kept, cuts <= MATRIX)


def test_ps_takes_a_matrix_too(tmp_path: Path) -> None:
    predictor = PS(epsilon=0.1, delta=0.1).calibrate(MATRIX, LABELS, classes=CLASSES)
    assert predictor.threshold_ == PS(epsilon=0.1, delta=0.1).calibrate(TRUE).threshold_
    predictor.save(tmp_path / "p.json")
    assert load(tmp_path / "p.json").columns_ == {"classes": CLASSES}
    with pytest.raises(InvalidInput, match="labels must not be passed"):
        PS(epsilon=0.1, delta=0.1).calibrate(TRUE, LABELS)


def test_frames_are_compared_by_the_names_of_their_columns() -> None:
    predictor = method().calibrate(MATRIX, TASKS, LABELS, classes=CLASSES)
    frame = pd.DataFrame(MATRIX, columns=CLASSES)
    np.testing.assert_array_equal(predictor.predict_set(frame), predictor.predict_set(MATRIX))
    named = frame.rename(columns="p_{}".format)
    np.testing.assert_array_equal(predictor.predict_set(named), predictor.predict_set(MATRIX))
    unnamed = pd.DataFrame(MATRIX)
    np.testing.assert_array_equal(predictor.predict_set(unnamed), predictor.predict_set(MATRIX))
    with pytest.raises(InvalidInput, match="the columns of scores are maybe, no, yes, but the cla"):
        predictor.predict_set(frame[sorted(CLASSES)])


def test_a_threshold_without_classes_compares_nothing() -> None:
    predictor = method().calibrate(TRUE, TASKS)
    assert predictor.predict_set(MATRIX[:, :2]).shape == (3600, 2)


def test_one_row_of_labels_needs_no_column_names() -> None:
    predictor = method().calibrate(MATRIX, TASKS, LABELS, classes=CLASSES)
    assert predictor.predict_set([0.9, 0.0]).tolist() == [True, False]
    check_column_order(["a"], "p_*", 0.5, by_position=False)


def test_added_matrices_must_keep_the_order() -> None:
    predictor = method().calibrate(MATRIX, TASKS, LABELS, classes=CLASSES)
    order = [1, 0, 2]
    with pytest.raises(InvalidInput, match="calibrated in the order"):
        predictor.add(MATRIX[:, order], TASKS + 100, LABELS, classes=["no", "yes", "maybe"])
    more = MATRIX * 0.9
    predictor.add(more, TASKS + 100, LABELS, classes=CLASSES)
    true = np.concatenate([TRUE, more[np.arange(3600), CODES]])
    same = method().calibrate(true, np.concatenate([TASKS, TASKS + 100]))
    assert predictor.threshold_ == same.threshold_


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([True, False], ["False", "True"]), ([1, 0], ["0", "1"]), (["1", "0"], [0, 1])],
    ids=str,
)
def test_classes_that_a_table_names_by_text_match(labels: Any, classes: list[Any]) -> None:
    matrix = read_class_matrix([[0.1, 0.9], [0.6, 0.4]], labels, classes)
    assert matrix is not None
    assert matrix.codes.tolist() == [1, 0]
    assert matrix.classes == tuple(classes)


# Warnings name the line of the caller.


CLIPPED: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.5, "delta": 0.5}


def test_a_warning_of_a_caller_outside_metapac() -> None:
    with pytest.warns(UserWarning, match="careful") as record:
        warn("careful")
    assert record[0].filename == __file__


def test_a_remark_on_a_calibration_points_at_the_call() -> None:
    scores, tasks = np.tile([0.0] * 16 + [1.0] * 4, 20), np.repeat(np.arange(20), 20)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"score": scores, "task": tasks})
    sites = [
        site_table(frame[tasks == i], name=str(i), score="score", **CLIPPED) for i in range(20)
    ]
    calls: tuple[Callable[[], Any], ...] = (
        lambda: MetaPS(**CLIPPED).calibrate(scores, tasks),
        lambda: MetaPS(**CLIPPED).calibrate(open_table(frame, Columns(task="task", score="score"))),
        lambda: combine_sites(sites),
    )
    for calibrate in calls:
        with pytest.warns(UserWarning, match="threshold is 0.0") as record:
            calibrate()
        remarks = [warning for warning in record if "threshold is" in str(warning.message)]
        assert [remark.filename for remark in remarks] == [__file__]
