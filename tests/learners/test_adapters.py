"""Learners without torch, and the contract that all learners satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse, stats
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from metapac import InvalidInput, fewshot
from metapac.fewshot import CallableLearner, FixedModel, PrototypeLearner, SklearnLearner, accuracy
from metapac.fewshot.adapters import Learner

Array = NDArray[Any]
X = np.random.default_rng(0).normal(size=(30, 4))
Y = np.array([3, 0, 0, 3, 3, 0, 3, 0, 0, 0])  # labels 1 and 2 absent, shots unequal


def nearest(support_x: Array, support_y: Array, x: Array) -> Array:
    """Softmax over minus the distance to the nearest example of each label, absent ones too."""
    gaps = np.linalg.norm(x[:, None] - support_x[None], axis=-1)
    logits = [
        -np.where(support_y == label, gaps, 9.0).min(1) for label in range(support_y.max() + 1)
    ]
    weights = np.exp(np.stack(logits, axis=1))
    return np.asarray(weights / weights.sum(1, keepdims=True))


LEARNERS: dict[str, Learner] = {
    "sklearn": SklearnLearner(LogisticRegression()),
    "callable": CallableLearner(nearest),
    "protonet": fewshot.ProtoNet(fewshot.MLP(4, rng=0)),
    "maml": fewshot.MAML(fewshot.MLP(4, rng=0), classes=5),
}
EVERY = pytest.mark.parametrize("learner", LEARNERS.values(), ids=list(LEARNERS))


@EVERY
def test_every_learner_satisfies_the_protocol(learner: Learner) -> None:
    scorer = learner.adapt(X[:10], Y, classes=5)
    actual = scorer.predict_proba(X[10:])
    assert actual.shape == (20, 5)
    assert np.issubdtype(actual.dtype, np.floating)
    assert (actual[:, [1, 2, 4]] == 0).all()
    assert (actual[:, [0, 3]] > 0).all()
    assert learner.adapt(X[:10], Y).predict_proba(X[10:]).shape == (20, 4)
    one_by_one = np.concatenate([scorer.predict_proba(X[i : i + 1]) for i in range(10, 30)])
    np.testing.assert_allclose(one_by_one, actual, atol=1e-6)
    np.testing.assert_array_equal(scorer.predict_proba(X[10:]), actual)
    again = learner.adapt(X[:10].copy(), Y.tolist(), classes=5).predict_proba(X[10:])
    np.testing.assert_array_equal(again, actual)
    for count in (1, 3):  # one label
        certain = learner.adapt(X[:count], [2] * count, classes=4).predict_proba(X[10:])
        assert (certain > 0).tolist() == [[False, False, True, False]] * 20


BAD_SUPPORT: list[tuple[Any, Any, Any, str]] = [
    (X[:3], [0, 1], None, "each of the 3 .* shape .2,."),
    (X[:2], [0, 2], 2, r"labels 0 \.\. 1, got 2"),
    (X[:2], [-1, 0], None, r"labels 0 \.\. 0, got -1"),
    (X[:2], [0.0, 1.0], None, r"one whole number .* got float64 of shape \(2,\)"),
    (X[:2], [[0], [1]], None, r"got int64 of shape \(2, 1\)"),
    (X[:0], np.zeros(0, int), None, "at least 1. examples, got .* of shape .0,"),
    (X[:2], [0, 1], 0, "classes must be a whole number from 1"),
]


@EVERY
def test_bad_support_sets_are_named(learner: Learner) -> None:
    for x, y, classes, message in BAD_SUPPORT:
        with pytest.raises(ValueError, match=message):
            learner.adapt(x, y, classes=classes)


def test_an_estimator_is_cloned_and_its_columns_are_moved_to_their_labels() -> None:
    for estimator in (
        LogisticRegression(),
        KNeighborsClassifier(2),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ):
        actual = SklearnLearner(estimator).adapt(X[:10], Y, classes=5).predict_proba(X[10:])
        assert not hasattr(estimator, "n_features_in_")  # the original stays unfitted
        direct = estimator.fit(X[:10], Y).predict_proba(X[10:])
        np.testing.assert_array_equal(actual[:, [0, 3]], direct)
        assert (actual[:, [1, 2, 4]] == 0).all()


def test_estimators_take_what_scikit_learn_takes_and_images_and_tensors() -> None:
    learner = SklearnLearner(LogisticRegression())
    actual = learner.adapt(X[:10], Y).predict_proba(X[10:])
    kinds = (
        pd.DataFrame(X, columns=list("abcd")),
        sparse.csr_matrix(X),
        torch.tensor(X),
        X.reshape(-1, 2, 2),
        X.tolist(),
    )
    for kind in kinds:
        again = learner.adapt(kind[:10], Y).predict_proba(kind[10:])
        np.testing.assert_allclose(again, actual, atol=1e-6)
    text = make_pipeline(CountVectorizer(), LogisticRegression())
    words = SklearnLearner(text).adapt(["good day", "bad day"], [1, 0]).predict_proba(["so good"])
    assert words[0, 1] > words[0, 0]


def test_what_cannot_be_adapted_is_rejected() -> None:
    assert LEARNERS["sklearn"].adapt(X[:10], Y).predict_proba(X[:0]).shape == (0, 4)
    for estimator, message in (
        (SVC(), "and predict_proba, got SVC"),
        (LogisticRegression, "must be an instance of .*got <class .*LogisticRegression"),
        (nearest, "classifier .*got <function nearest"),
    ):
        with pytest.raises(ValueError, match=message):
            SklearnLearner(estimator)
    no_adapt: Any = len
    nothing: Any = type("Own", (), {"adapt": lambda self, x, y: None})
    task = fewshot.Task.from_arrays(X[:2], [0, 1], X[2:4], [0, 1], name="a")
    for learner, message in (
        (no_adapt, r"a method adapt\(x, y\), got"),
        (nothing, "must have a method adapt"),
        (nothing(), r"adapt must return .*predict_proba\(x\), got"),
    ):
        with pytest.raises(InvalidInput, match=message):
            fewshot.score_tasks(learner, [task])


class Uniform:
    """The scorer of learners below, which take the number of labels or do not."""

    def __init__(self, columns: int) -> None:
        self.columns = columns

    def predict_proba(self, x: Any) -> Any:
        return np.full((len(x), self.columns), 1 / self.columns)


def test_classes_are_passed_to_learners_that_take_them() -> None:
    def by_labels(self: Any, x: Any, y: Any) -> Uniform:
        return Uniform(len(set(y)))

    def by_classes(self: Any, x: Any, y: Any, *, classes: Any = None) -> Uniform:
        return Uniform(classes)

    def by_options(self: Any, x: Any, y: Any, **options: Any) -> Uniform:
        return Uniform(options["classes"])

    for adapt, columns in ((by_labels, 2), (by_classes, 3), (by_options, 3)):
        learner = type("Own", (), {"adapt": adapt})()
        scores = fewshot.score_examples(learner, [[0], [1]], [0, 1], [[2]], classes=columns)
        assert scores.shape == (1, columns)


def test_a_fixed_model_ignores_the_support_set() -> None:
    fitted = LogisticRegression().fit(X[:10], Y)
    direct = fitted.predict_proba(X[10:])
    for scorer in (FixedModel(fitted).adapt(), FixedModel(fitted).adapt(X[:1], [1])):
        actual = scorer.predict_proba(X[10:])
        np.testing.assert_array_equal(actual[:, [0, 3]], direct)
        assert (actual[:, [1, 2]] == 0).all()
    wide = FixedModel(fitted).adapt(classes=6).predict_proba(X[10:].reshape(-1, 2, 2))
    np.testing.assert_array_equal(wide[:, :4], actual)
    assert wide.shape == (20, 6)


def test_a_fixed_model_gets_the_columns_that_it_was_fitted_on() -> None:
    # scikit-learn warns of missing names, and a warning is an error here.
    table = pd.DataFrame(X, columns=list("abcd")).assign(sex=["f", "m"] * 15)
    encode = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    labels = np.arange(30) % 2
    model = make_pipeline(encode, LogisticRegression()).fit(table, labels)
    pool = fewshot.GroupPool(table, labels, np.repeat(["ohio", "utah"], 15))
    scores, _ = fewshot.score_tasks(FixedModel(model), pool.tasks(shots=0, rng=0))
    expected = model.predict_proba(table)[np.arange(30), labels]
    np.testing.assert_allclose(np.sort(scores), np.sort(expected), rtol=1e-9)
    shuffled = fewshot.GroupPool(table[["sex", *"dcba"]].drop(columns="a"), labels, pool.groups)
    with pytest.raises(ValueError, match="columns are missing"):
        fewshot.score_tasks(FixedModel(model), shuffled.tasks(shots=0, rng=0))


def test_unsuitable_fixed_models_are_rejected() -> None:
    named = LogisticRegression().fit(X[:4], ["ill", "well", "ill", "well"])
    known, negative = (LogisticRegression().fit(X[: len(y)], y) for y in (Y, [-1, 0]))
    for model, classes, message in (
        (named, 2, r"labels \['ill', 'well'\], but the task has 2 labels"),
        (named, None, r"labels \['ill', 'well'\]"),
        (known, 3, r"labels \[0, 3\], but the task has 3 labels, from 0"),
        (negative, None, r"labels \[-1, 0\]"),
    ):
        with pytest.raises(ValueError, match=f"fitted on {message}"):
            FixedModel(model).adapt(classes=classes)
    for unsuitable in (3.0, LogisticRegression):
        with pytest.raises(ValueError, match="a fitted classifier or a function"):
            FixedModel(unsuitable)


def minus_distance(support_x: Any, support_y: Any, x: Any) -> Any:
    means = np.stack([support_x[support_y == c].mean(0) for c in np.unique(support_y)])
    return -((x[:, None] - means) ** 2).sum(2)


def test_outputs_of_each_kind_are_checked() -> None:
    cases: list[tuple[str, Any, str]] = [
        ("probabilities", [[0.6, 0.6]], "got a row .* 1.2"),
        ("probabilities", [[0.5, -2.5]], r"got -2.5\. .* outputs='logits' or outputs='scores'"),
        ("probabilities", [[0.5, np.nan]], "none negative .* got nan"),
        ("logits", [[np.nan, 0.0]], "must return logits that can be compared, got NaN"),
        ("logits", [[np.inf, 0.0]], "must return logits that can be compared, got infinity"),
        ("scores", [[np.nan, 0.0]], "must return scores that can be compared, got NaN"),
        ("logits", [[0.0, 1.0, 2.0]], r"\(1, 1 to 2\), got shape \(1, 3\)"),
        ("scores", [0.0, 1.0], r"a column for each label, .* got shape \(2,\)"),
    ]
    for outputs, values, message in cases:
        model = FixedModel(lambda x, values=values: values, outputs=outputs).adapt(classes=2)
        with pytest.raises(InvalidInput, match=message):
            model.predict_proba([[0.0]])
    with pytest.raises(ValueError, match=r"function must be callable as .* got 7"):
        CallableLearner(7)  # type: ignore[arg-type]
    for kind in (CallableLearner, FixedModel):
        with pytest.raises(InvalidInput, match="outputs must be 'probabilities' or .*, got 'odds'"):
            kind(minus_distance, outputs="odds")


def test_outputs_keep_their_precision() -> None:
    for precision in (np.float32, np.float64, np.int64):
        model = FixedModel(lambda x, kind=precision: np.array([[0, 1]], kind)).adapt()
        expected = np.float64 if precision is np.int64 else precision
        assert model.predict_proba(X[:1]).dtype == expected
        with pytest.raises(InvalidInput, match=r"\(2, 1 to any\), got shape \(1, 2\)"):
            model.predict_proba(X[:2])


def test_logits_that_look_like_probabilities_are_pointed_out() -> None:
    def read(values: Any) -> Any:
        return FixedModel(lambda x: values, outputs="logits").adapt().predict_proba(values)

    with pytest.warns(UserWarning, match="taken for logits. If they are probabilities, say"):
        read([[0.3, 0.7], [1.0, 0.0]] * 4)
    for fine in ([[0.3, 0.8], [1.0, 0.0]], [[-0.5, 1.5], [1.0, 0.0]], [[1.0], [1.0]]):
        read(fine * 4)
    read([[0.3, 0.7]] * 7)  # too few to tell
    read([[0.0, 1.0], [1.0, 0.0]] * 4)  # counts


# Accuracy.

CLASSES = np.repeat(np.arange(8), 12)
RNG = np.random.default_rng(0)
POINTS = (RNG.normal(size=(8, 3))[CLASSES] + 0.8 * RNG.normal(size=(96, 3))).astype(np.float32)
POOL = fewshot.ClassPool(POINTS, CLASSES)
SHAPE: dict[str, Any] = {"ways": 4, "shots": 2, "queries": 3, "tasks": 25, "rng": 6}


def plain_accuracy(learner: Any, pool: Any, tasks: int, rng: int, **shape: Any) -> list[float]:
    shares = []
    for task in pool.tasks(tasks, **shape, rng=rng):
        scorer = learner.adapt(task.support_x, task.support_y, classes=task.classes)
        guesses = scorer.predict_proba(task.query_x).argmax(1)
        shares.append(float(np.mean(guesses == task.query_y)))
    return shares


def test_accuracy_equals_that_of_tasks_scored_one_by_one() -> None:
    shifted = fewshot.ClassPool(
        POINTS, CLASSES, transform=lambda rng: lambda x, rng: x + rng.normal()
    )
    learners: list[Any] = [
        fewshot.ProtoNet(fewshot.MLP(3, rng=0)),
        fewshot.MAML(fewshot.MLP(3, width=4, rng=0), classes=4, steps=1),
        PrototypeLearner(),
        SklearnLearner(KNeighborsClassifier(1)),
        CallableLearner(minus_distance, outputs="logits"),
        CallableLearner(minus_distance, outputs="scores"),
    ]
    for learner, pool in (*((one, POOL) for one in learners), (PrototypeLearner(), shifted)):
        actual, shares = accuracy(learner, pool, **SHAPE), plain_accuracy(learner, pool, **SHAPE)
        assert actual.value == pytest.approx(np.mean(shares))
        low, high = stats.t.interval(0.95, 24, np.mean(shares), stats.sem(shares))
        right = round(12 * sum(shares))  # of 25 tasks with 12 queries each
        exact = stats.binomtest(right, 300).proportion_ci(0.95, "exact")
        assert actual.low == pytest.approx(min(low, exact.low))
        assert actual.high == pytest.approx(max(high, exact.high))
        assert [type(end) for end in (actual.value, actual.low, actual.high)] == [float] * 3
    groups = fewshot.GroupPool(POINTS, CLASSES % 2, np.arange(96) % 6, classes=2)
    shape: dict[str, Any] = {"shots": 4, "queries": 5, "tasks": 10, "rng": 1}
    expected = plain_accuracy(PrototypeLearner(), groups, **shape)
    assert accuracy(PrototypeLearner(), groups, **shape).value == pytest.approx(np.mean(expected))
    model = FixedModel(lambda x: np.tile([1.0, 0.0], (len(x), 1)))
    assert 0.3 < accuracy(model, groups, shots=0, queries=16, tasks=6).value < 0.7


def test_the_interval_of_an_accuracy_is_honest() -> None:
    certain = fewshot.ClassPool(100.0 * CLASSES[:, None], CLASSES)
    sure = accuracy(PrototypeLearner(), certain, **SHAPE)
    assert (sure.value, sure.high) == (1, 1)
    assert sure.low == pytest.approx(0.025 ** (1 / 300))  # not one of 300 queries is wrong
    one = accuracy(PrototypeLearner(), POOL, **{**SHAPE, "tasks": 1})
    assert (one.low, one.high) == (0.0, 1.0)
    assert str(one).endswith("% (0.0 to 100.0%, 1 task)")
    for options, message in (
        ({"tasks": 0}, "tasks must be a whole number from 1"),
        ({"ways": 9}, "ways"),
        ({"shots": 11}, "at least shots . queries = 14 examples"),
    ):
        with pytest.raises(InvalidInput, match=message):
            accuracy(PrototypeLearner(), POOL, **{**SHAPE, **options})
