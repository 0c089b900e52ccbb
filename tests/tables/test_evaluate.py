"""Errors and sizes of a table are those of the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from metapac import PS, Context, InvalidInput, MetaPS, NotCalibrated, evaluate
from tests.helpers.engines import ENGINES, put
from tests.helpers.tables import evaluate_table

CLASSES = np.array(["cat", "dog", "owl"])


@pytest.fixture(scope="module")
def promise() -> MetaPS:
    rng = np.random.default_rng(0)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    return method.calibrate(rng.random(400), np.repeat(np.arange(100, 110), 40))


@pytest.fixture(scope="module")
def scores() -> NDArray[np.float64]:
    return np.random.default_rng(1).random((90, 3))


@pytest.fixture(scope="module")
def frame(scores: NDArray[np.float64]) -> pd.DataFrame:
    label = np.random.default_rng(2).integers(3, size=90)
    columns = {f"p_{name}": scores[:, j] for j, name in enumerate(CLASSES)}
    true = scores[np.arange(90), label]
    site = np.random.default_rng(3).integers(4, size=90)
    return pd.DataFrame({"site": site, "y": CLASSES[label], "true": true, **columns})


@pytest.mark.parametrize("engine", ENGINES)
def test_errors_and_sizes_of_each_task(
    engine: str, promise: MetaPS, scores: NDArray[np.float64], frame: pd.DataFrame
) -> None:
    result = evaluate_table(promise, put(engine, frame), task="site", label="y")
    kept = promise.predict_set(scores)
    missed = ~promise.predict_set(frame.true.to_numpy())
    assert result.tasks.tolist() == [0, 1, 2, 3]
    for i in range(4):
        in_task = (frame.site == i).to_numpy()
        assert result.examples[i] == in_task.sum()
        assert result.errors[i] == pytest.approx(missed[in_task].mean(), abs=1e-12)
        assert result.sizes is not None
        assert result.sizes[i] == pytest.approx(kept[in_task].sum(axis=1).mean(), abs=1e-12)
    assert result.within == np.mean(result.errors <= 0.3)


def test_scores_of_the_true_labels_have_no_sizes(promise: MetaPS, frame: pd.DataFrame) -> None:
    by_label = evaluate_table(promise, frame, task="site", label="y")
    by_score = evaluate_table(promise, frame, task="site", score="true")
    assert by_score.errors.tolist() == by_label.errors.tolist()
    assert by_score.sizes is None


def test_ps_can_be_evaluated_too(frame: pd.DataFrame) -> None:
    alone = PS(epsilon=0.3, delta=0.1).calibrate(np.linspace(0, 1, 100))
    assert evaluate_table(alone, frame, task="site", score="true").epsilon == 0.3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": ["Cat", "dog"]}, "'Cat' differs from 'cat' only in case or spaces: give it one spe"),
        (
            {"y": ["cat", "fox"]},
            "column 'y' must hold one of the classes 'cat', 'dog', got 'fox' in 1",
        ),
        ({"y": ["cat", None]}, "must hold one of the classes 'cat', 'dog', got no label in 1 row"),
        ({"y": [0.5, 1.5]}, "column 'y' must hold strings or integers to name labels, got float64"),
        ({"p_dog": [0.5, None]}, "nulls or NaN"),
        (
            {"site": [0.5, 1.5]},
            "column 'site' must hold strings or integers to name tasks, got flo",
        ),
        (
            {"site": ["a", None]},
            "column 'site' is missing in 1 row; an example must belong to a ta",
        ),
    ],
)
def test_invalid_tables_are_rejected(
    promise: MetaPS, changes: dict[str, Any], message: str
) -> None:
    columns = {"site": ["a", "b"], "y": ["cat", "dog"], "p_cat": [0.5, 0.5], "p_dog": [0.5, 0.5]}
    with pytest.raises(ValueError, match=message):
        evaluate_table(promise, pa.table(columns | changes), task="site", label="y")


def test_score_or_label(promise: MetaPS, frame: pd.DataFrame) -> None:
    choices: list[dict[str, Any]] = [{}, {"score": "true", "label": "y"}]
    for options in choices:
        with pytest.raises(ValueError, match="pass either score, the column with the score of the"):
            evaluate_table(promise, frame, task="site", **options)
    with pytest.raises(ValueError, match="has no column 'nowhere'; it has: site, y, true, p_cat"):
        evaluate_table(promise, frame, task="nowhere", score="true")


def test_a_predictor_must_be_calibrated(frame: pd.DataFrame) -> None:
    with pytest.raises(NotCalibrated, match="this MetaPS is not calibrated yet"):
        evaluate_table(MetaPS(epsilon=0.1, alpha=0.1, delta=0.1), frame, task="site", score="true")


@pytest.mark.parametrize("names", [["b", "a"], ["a", "b"]])
def test_errors_are_in_the_order_of_the_tasks(promise: MetaPS, names: list[str]) -> None:
    table = pa.table({"site": np.repeat(names, 500), "true": np.repeat([1.0, -1.0], 500)})
    result = evaluate_table(promise, table, task="site", score="true")
    assert dict(zip(result.tasks, result.errors, strict=True)) == {names[0]: 0, names[1]: 1}
    assert result.tasks.tolist() == ["a", "b"]


def test_repr_and_frame_of_an_evaluation(promise: MetaPS, frame: pd.DataFrame) -> None:
    result = evaluate_table(promise, frame, task="site", label="y")
    assert result.verdict is not None
    status = result.verdict.status
    assert repr(result).startswith(f"<Evaluation of 4 tasks: {status}; error at most 0.3 on ")
    table = result.to_pandas()
    rates = ["task", "examples", "missed", "error", "low", "high"]
    assert list(table) == [*rates, "set_size", "empty", "single", "full"]
    assert table["error"].tolist() == result.errors.tolist()
    plain = evaluate_table(promise, frame, task="site", score="true").to_pandas()
    assert list(plain) == rates


def per_class(**changes: Any) -> MetaPS:
    options: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3, "per_class": True}
    rng = np.random.default_rng(5)
    labels = np.tile(CLASSES, 400)
    scores = rng.random(1200) ** np.tile([0.5, 1, 2], 400)
    return MetaPS(**options | changes).calibrate(
        scores, np.repeat(np.arange(100, 112), 100), labels
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", [{}, {"score": "true"}], ids=["looked up", "a column"])
@pytest.mark.parametrize("minimum", [0, 7])
def test_each_class_is_evaluated_separately(
    engine: str, how: dict[str, Any], minimum: int, scores: NDArray[np.float64], frame: pd.DataFrame
) -> None:
    epsilon = {"cat": 0.5, "dog": 0.3, "owl": 0.4}
    promise = per_class(epsilon=epsilon, min_examples=minimum)
    assert len(set(promise.thresholds_.tolist())) == 3
    some = frame[~((frame.site == 2) & (frame.y == "owl"))]  # one task lacks a class
    kept = promise.predict_set(scores)[some.index]
    missed = ~kept[np.arange(len(some)), [list(CLASSES).index(y) for y in some.y]]
    result = evaluate_table(promise, put(engine, some), task="site", label="y", **how)
    assert result.by_class is not None
    assert list(result.by_class) == list(CLASSES)
    shares = []
    for label, part in result.by_class.items():
        of_class = (some.y == label).to_numpy()
        counts = some[of_class].groupby("site").size()
        covered = counts[counts >= max(1, minimum)]
        assert part.tasks.tolist() == covered.index.tolist()
        assert part.examples.tolist() == covered.tolist()
        assert part.left_out == 4 - len(covered)
        expected = (
            pd.Series(missed[of_class])
            .groupby(some.site[of_class].to_numpy())
            .mean()[covered.index]
        )
        np.testing.assert_allclose(part.errors, expected)
        assert part.epsilon == epsilon[label]
        assert part.by_class is None
        shares.append(np.mean(expected <= epsilon[label]))
        if how:
            assert part.sizes is None
        else:
            assert part.sizes is not None
            sizes = (
                pd.Series(kept[of_class].sum(axis=1)).groupby(some.site[of_class].to_numpy()).mean()
            )
            np.testing.assert_allclose(part.sizes, sizes[covered.index])
    assert result.within == min(shares)
    assert result.tasks.tolist() == [0, 1, 2, 3]
    assert result.examples.sum() == len(some)
    np.testing.assert_allclose(
        result.errors, pd.Series(missed).groupby(some.site.to_numpy()).mean()
    )
    table = result.to_pandas()
    assert list(table)[:5] == ["task", "class", "examples", "missed", "error"]
    assert len(table) == sum(len(part.tasks) for part in result.by_class.values())
    assert "error at most its epsilon on at least " in repr(result)


def test_an_absent_class_has_no_tasks(frame: pd.DataFrame) -> None:
    promise = per_class()
    result = evaluate_table(promise, frame[frame.y != "owl"], task="site", label="y", score="true")
    assert result.by_class is not None
    owl = result.by_class["owl"]
    assert (len(owl.tasks), owl.left_out) == (0, 4)
    assert np.isnan(owl.within)
    assert repr(owl) == "<Evaluation of 0 tasks (4 left out)>"
    assert result.within == min(result.by_class[name].within for name in ("cat", "dog"))


@pytest.mark.parametrize("engine", ENGINES)
def test_tasks_that_the_guarantee_does_not_cover_are_left_out(
    engine: str, promise: MetaPS, frame: pd.DataFrame
) -> None:
    sizes = frame.groupby("site").size()
    minimum = int(sizes.sort_values().iloc[1])
    rng = np.random.default_rng(0)
    large = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3, min_examples=minimum)
    large.calibrate(rng.random(800), np.repeat(np.arange(100, 110), 80))
    result = evaluate_table(large, put(engine, frame), task="site", score="true")
    assert result.left_out == (sizes < minimum).sum() == 1
    assert result.tasks.tolist() == sizes.index[sizes >= minimum].tolist()
    missed = ~large.predict_set(frame.true.to_numpy())
    errors = pd.Series(missed).groupby(frame.site.to_numpy()).mean()[result.tasks]
    np.testing.assert_allclose(result.errors, errors)
    assert repr(result).startswith("<Evaluation of 3 tasks (1 left out): ")


def test_it_is_an_error_if_no_task_is_covered(frame: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    large = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3, min_examples=80)
    large.calibrate(rng.random(800), np.repeat(np.arange(100, 110), 80))
    message = "no task to evaluate: tasks need at least 80 examples, and the 4 tasks here have few"
    with pytest.raises(ValueError, match=message):
        evaluate_table(large, frame, task="site", score="true")


def test_a_guarantee_per_class_needs_labels(frame: pd.DataFrame) -> None:
    promise = per_class()
    with pytest.raises(
        ValueError, match="label must name the column with the true label, since ea"
    ):
        evaluate_table(promise, frame, task="site", score="true")
    with pytest.raises(
        ValueError, match="column 'y' must hold one of the classes 'cat', 'dog', 'o"
    ):
        evaluate_table(promise, frame.replace({"y": {"cat": "fox"}}), task="site", label="y")
    with pytest.raises(ValueError, match="classes must be among the calibrated ones"):
        evaluate_table(promise, frame, task="site", label="y", score="true", classes=["cat", "x"])


@pytest.mark.parametrize("labels", [[0, 1], [False, True]], ids=str)
def test_labels_calibrated_on_arrays_match_those_of_tables(labels: list[Any]) -> None:
    rng = np.random.default_rng(0)
    options: dict[str, Any] = {"epsilon": dict.fromkeys(labels, 0.3), "per_class": True}
    promise = MetaPS(**options, alpha=0.4, delta=0.3).calibrate(
        rng.random(1000), np.repeat(np.arange(10), 100), np.tile(labels, 500)
    )
    named = np.tile([str(label) for label in labels], 50)
    true = rng.random(100)
    result = evaluate_table(
        promise, pa.table({"g": ["a"] * 100, "y": named, "s": true}), task="g", label="y", score="s"
    )
    assert result.by_class is not None
    for i, label in enumerate(labels):
        missed = true[i::2] < promise.threshold_of(label)
        assert result.by_class[label].errors.tolist() == [missed.mean()]


def test_the_table_route_agrees_with_the_array_route(
    promise: MetaPS, scores: NDArray[np.float64], frame: pd.DataFrame
) -> None:
    table = evaluate_table(promise, frame, task="site", label="y", min_examples=20)
    arrays = evaluate(
        promise, scores, frame.site, frame.y, classes=CLASSES.tolist(), min_examples=20
    )
    pd.testing.assert_frame_equal(table.to_pandas(), arrays.to_pandas(), check_dtype=False)
    assert table.classes == arrays.classes
    assert table.left_out == arrays.left_out
    assert str(table.verdict) == str(arrays.verdict)


def test_many_classes_in_lists() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((200, 500))
    label = rng.integers(500, size=200)
    promise = PS(epsilon=0.3, delta=0.1).calibrate(rng.random(100))
    lists = pa.table({"site": np.repeat(["a", "b"], 100), "y": label, "probs": list(scores)})
    result = evaluate_table(promise, lists, task="site", label="y", columns="probs")
    kept = promise.predict_set(scores)
    missed = ~kept[np.arange(200), label]
    assert result.missed.tolist() == [missed[:100].sum(), missed[100:].sum()]
    assert result.sizes is not None
    np.testing.assert_allclose(result.sizes, kept.sum(axis=1).reshape(2, 100).mean(axis=1))
    assert result.classes is not None
    assert len(result.classes) == 500
    counts = {part.label: (part.examples, part.missed) for part in result.classes}
    for name in np.unique(label).tolist():
        assert counts[name] == ((label == name).sum(), missed[label == name].sum())


def test_calibration_tasks_are_left_out(frame: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    promise = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    promise.calibrate(rng.random(400), np.repeat(np.arange(3, 13), 40))
    result = evaluate_table(promise, frame, task="site", label="y")
    assert (result.tasks.tolist(), result.overlap) == ([0, 1, 2], (3,))
    assert result.verdict is not None
    assert result.verdict.tasks == 3
    allowed = evaluate_table(promise, frame, task="site", label="y", allow=["overlap"])
    assert allowed.tasks.tolist() == [0, 1, 2, 3]


def test_the_model_is_compared(frame: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    promise = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    tasks = np.repeat(np.arange(100, 110), 40)
    promise.calibrate(rng.random(400), tasks, context=Context(model="v1"))
    evaluate_table(promise, frame, task="site", score="true", model="v1")
    with pytest.raises(InvalidInput, match="model must be 'v1'"):
        evaluate_table(promise, frame, task="site", score="true", model="v2")
    with pytest.raises(InvalidInput, match="model must be 'v1'"):
        evaluate(promise, frame.true, frame.site, model="v2")


def test_a_table_without_labels_is_for_prediction(promise: MetaPS) -> None:
    table = pa.table({"site": ["a", "b"], "p_cat": [0.5, 0.5], "p_dog": [0.5, 0.5]})
    with pytest.raises(InvalidInput, match="no column 'truth'.* Misses need labels"):
        evaluate_table(promise, table, task="site", label="truth")
