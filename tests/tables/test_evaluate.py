"""Errors and sizes of a table are those of the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from metapac import PS, Context, InvalidInput, MetaPS, evaluate
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


def test_scores_of_the_true_labels_have_no_sizes(promise: MetaPS, frame: pd.DataFrame) -> None:
    by_label = evaluate_table(promise, frame, task="site", label="y")
    by_score = evaluate_table(promise, frame, task="site", score="true")
    assert by_score.errors.tolist() == by_label.errors.tolist()
    assert by_score.sizes is None


def test_ps_can_be_evaluated_too(frame: pd.DataFrame) -> None:
    alone = PS(epsilon=0.3, delta=0.1).calibrate(np.linspace(0, 1, 100))
    assert evaluate_table(alone, frame, task="site", score="true").epsilon == 0.3


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
    table = result.to_frame()
    rates = ["task", "examples", "missed", "error", "low", "high"]
    assert list(table) == [*rates, "set_size", "empty", "single", "full"]
    assert table["error"].tolist() == result.errors.tolist()
    plain = evaluate_table(promise, frame, task="site", score="true").to_frame()
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
    table = result.to_frame()
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
