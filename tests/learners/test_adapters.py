"""Learners without torch, and the contract that all learners satisfy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from metapac import InvalidInput
from metapac.fewshot import (
    MAML,
    MLP,
    CallableLearner,
    FixedModel,
    GroupPool,
    ProtoNet,
    SklearnLearner,
    score_tasks,
)
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
    "protonet": ProtoNet(MLP(4, rng=0)),
    "maml": MAML(MLP(4, rng=0), classes=5),
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


@EVERY
def test_one_label_and_one_example(learner: Learner) -> None:
    for count in (1, 3):
        actual = learner.adapt(X[:count], [2] * count, classes=4).predict_proba(X[10:])
        assert (actual[:, [0, 1, 3]] == 0).all()
        assert (actual[:, 2] > 0).all()


@EVERY
@pytest.mark.parametrize(
    ("x", "y", "classes", "message"),
    [
        (X[:3], [0, 1], None, "support_x and support_y must have the same length, .*got 3 and 2"),
        (X[:2], [0, 2], 2, r"labels 0 \.\. 1, got 2"),
        (X[:2], [-1, 0], None, r"labels 0 \.\. 0, got -1"),
        (X[:2], [0.0, 1.0], None, r"one whole number .* got float64 of shape \(2,\)"),
        (X[:2], ["a", "b"], None, r"got <U1 of shape \(2,\)"),
        (X[:2], [[0], [1]], None, r"got int64 of shape \(2, 1\)"),
        (X[:0], np.zeros(0, int), None, "at least 1, got 0 and 0"),
        (X[:2], [0, 1], 0, "classes must be a whole number from 1"),
    ],
)
def test_bad_support_sets(
    learner: Learner, x: Array, y: Any, classes: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        learner.adapt(x, y, classes=classes)


@EVERY
def test_boolean_labels_are_labels(learner: Learner) -> None:
    flags = Y == 3
    actual = learner.adapt(X[:10], flags).predict_proba(X[10:])
    numbered = learner.adapt(X[:10], flags.astype(np.uint8)).predict_proba(X[10:])
    np.testing.assert_array_equal(actual, numbered)
    tensor = learner.adapt(X[:10], torch.tensor(flags.astype(int))).predict_proba(X[10:])
    np.testing.assert_array_equal(actual, tensor)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        KNeighborsClassifier(2),
        DecisionTreeClassifier(random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_an_estimator_is_cloned_and_its_columns_are_moved_to_their_labels(estimator: Any) -> None:
    actual = SklearnLearner(estimator).adapt(X[:10], Y, classes=5).predict_proba(X[10:])
    assert not hasattr(estimator, "n_features_in_")  # the original stays unfitted
    direct = estimator.fit(X[:10], Y).predict_proba(X[10:])
    np.testing.assert_array_equal(actual[:, [0, 3]], direct)
    assert (actual[:, [1, 2, 4]] == 0).all()


def test_a_randomised_estimator_forgets_earlier_tasks() -> None:
    state = np.random.RandomState(0)
    learner = SklearnLearner(RandomForestClassifier(5, random_state=state))
    first = learner.adapt(X[:10], Y).predict_proba(X[10:])
    learner.adapt(X[10:20], Y)
    np.testing.assert_array_equal(learner.adapt(X[:10], Y).predict_proba(X[10:]), first)


def test_one_label_works_even_if_the_estimator_needs_two() -> None:
    with pytest.raises(ValueError, match="at least 2 classes"):
        LogisticRegression().fit(X[:3], [1, 1, 1])
    scorer = SklearnLearner(LogisticRegression()).adapt(X[:3], [1, 1, 1], classes=3)
    assert scorer.predict_proba(X[:2]).tolist() == [[0, 1, 0]] * 2


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


def test_no_examples_give_no_rows() -> None:
    assert LEARNERS["sklearn"].adapt(X[:10], Y).predict_proba(X[:0]).shape == (0, 4)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (SVC(), "and predict_proba, got SVC"),
        (KMeans(), "and predict_proba, got KMeans"),
        (LogisticRegression, "must be an instance of .*got <class .*LogisticRegression"),
        (nearest, "classifier .*got <function nearest"),
    ],
    ids=["SVC", "KMeans", "class", "function"],
)
def test_estimators_without_probabilities_are_rejected(estimator: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SklearnLearner(estimator)


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
    pool = GroupPool(table, labels, np.repeat(["ohio", "utah"], 15))
    scores, _ = score_tasks(FixedModel(model), pool.tasks(shots=0, rng=0))
    expected = model.predict_proba(table)[np.arange(30), labels]
    np.testing.assert_allclose(np.sort(scores), np.sort(expected), rtol=1e-9)
    shuffled = GroupPool(table[["sex", *"dcba"]].drop(columns="a"), labels, pool.groups)
    with pytest.raises(ValueError, match="columns are missing"):
        score_tasks(FixedModel(model), shuffled.tasks(shots=0, rng=0))


def test_a_fixed_function_keeps_all_its_labels() -> None:
    def softmax(x: Array) -> torch.Tensor:
        return torch.tensor(x[:, :3]).softmax(-1)

    actual = FixedModel(softmax).adapt(X[:1], [0]).predict_proba(X)
    np.testing.assert_allclose(actual, softmax(X), rtol=1e-12)
    padded = FixedModel(softmax).adapt(classes=5).predict_proba(X)
    np.testing.assert_array_equal(padded[:, :3], actual)
    assert (padded[:, 3:] == 0).all()
    with pytest.raises(
        ValueError, match=r"softmax must return .* \(30, 1 to 2\), got shape \(30, 3\)"
    ):
        FixedModel(softmax).adapt(classes=2).predict_proba(X)


def test_unsuitable_fixed_models_are_rejected() -> None:
    named = LogisticRegression().fit(X[:4], ["ill", "well", "ill", "well"])
    with pytest.raises(
        ValueError, match=r"fitted on labels \['ill', 'well'\], but the task has labels 0 \.\. 1"
    ):
        FixedModel(named).adapt(classes=2)
    with pytest.raises(ValueError, match=r"fitted on labels \['ill', 'well'\]"):
        FixedModel(named).adapt()
    with pytest.raises(
        ValueError, match=r"fitted on labels \[0, 3\], but the task has labels 0 \.\. 2"
    ):
        FixedModel(LogisticRegression().fit(X[:10], Y)).adapt(classes=3)
    with pytest.raises(ValueError, match=r"fitted on labels \[-1, 0\]"):
        FixedModel(LogisticRegression().fit(X[:2], [-1, 0])).adapt()
    for model in (3.0, LogisticRegression):
        with pytest.raises(ValueError, match="a fitted classifier or a function"):
            FixedModel(model)


def test_a_function_gets_its_input_unchanged_and_absent_labels_get_zero() -> None:
    seen: list[Any] = []

    def rising(support_x: Any, support_y: Array, x: Any) -> Array:
        seen.extend([support_x, support_y.dtype, x])
        return np.tile([0.1, 0.2, 0.3, 0.4], (len(x), 1))

    table = pd.DataFrame(X)
    actual = CallableLearner(rising).adapt(table[:10], Y, classes=5).predict_proba(table[10:])
    assert actual.tolist() == [[0.1, 0, 0, 0.4, 0]] * 20
    assert seen[0].equals(table[:10])
    assert seen[1] == np.int64
    assert seen[2].equals(table[10:])


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (np.ones((30, 3)), r"must return a row .* \(30, 4 to 5\), got shape \(30, 3\)"),
        (np.ones((30, 6)), r"got shape \(30, 6\)"),
        (np.ones((29, 5)), r"got shape \(29, 5\)"),
        (np.ones(30), r"got shape \(30,\)"),
        (
            np.full((30, 5), -2.5),
            r"none negative .* got -2.5\. .* outputs='logits' or outputs='scores'",
        ),
        (np.full((30, 5), np.nan), "none negative .* got nan"),
    ],
)
def test_bad_probabilities_are_rejected(output: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CallableLearner(lambda *_: output).adapt(X[:10], Y, classes=5).predict_proba(X)


def test_a_function_must_be_callable() -> None:
    with pytest.raises(ValueError, match=r"function must be callable as .* got 7"):
        CallableLearner(7)  # type: ignore[arg-type]


def minus_distance(support_x: Any, support_y: Any, x: Any) -> Any:
    means = np.stack([support_x[support_y == c].mean(0) for c in np.unique(support_y)])
    return -((x[:, None] - means) ** 2).sum(2)


@pytest.mark.parametrize("outputs", ["logits", "scores"])
def test_functions_may_return_any_real_numbers(outputs: str) -> None:
    x, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 1, 1])
    scorer = CallableLearner(minus_distance, outputs=outputs).adapt(x, y, classes=3)
    raw = np.array([[-0.25, -2.25, -np.inf]])
    np.testing.assert_allclose(scorer.raw_outputs(np.array([[0.5]])), raw)
    expected = raw if outputs == "scores" else np.exp(raw) / np.exp(raw).sum()
    np.testing.assert_allclose(scorer.predict_proba(np.array([[0.5]])), expected)


def test_log_probabilities_are_logits() -> None:
    p = np.array([[0.7, 0.2, 0.1]])
    model = FixedModel(lambda x: np.log(np.tile(p, (len(x), 1))), outputs="logits")
    np.testing.assert_allclose(model.adapt().predict_proba([[0.0]]), p)


class Model:
    def __call__(self, support_x: Any, support_y: Any, x: Any) -> Any:
        return np.full((len(x), 2), -1.0)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (minus_distance, "minus_distance"),
        (partial(minus_distance), "minus_distance"),
        (Model(), "Model"),
        (lambda *parts: minus_distance(*parts), "the function of CallableLearner"),
    ],
)
def test_messages_name_the_function_of_the_user(function: Any, name: str) -> None:
    scorer = CallableLearner(function).adapt(np.array([[0.0], [1.0]]), [0, 1])
    with pytest.raises(InvalidInput, match=f"^{name} must return probabilities"):
        scorer.predict_proba(np.array([[0.5]]))


@pytest.mark.parametrize(
    ("outputs", "values", "message"),
    [
        ("probabilities", [[0.6, 0.6]], "got a row .* 1.2"),
        ("logits", [[np.nan, 0.0]], "must return logits that can be compared, got NaN"),
        ("logits", [[np.inf, 0.0]], "must return logits that can be compared, got infinity"),
        ("scores", [[np.nan, 0.0]], "must return scores that can be compared, got NaN"),
        ("logits", [[0.0, 1.0, 2.0]], r"\(1, 1 to 2\), got shape \(1, 3\)"),
        ("scores", [0.0, 1.0], r"a column for each label, .* got shape \(2,\)"),
    ],
)
def test_outputs_of_each_kind_are_checked(outputs: str, values: Any, message: str) -> None:
    scorer = FixedModel(lambda x: values, outputs=outputs).adapt(classes=2)
    with pytest.raises(InvalidInput, match=message):
        scorer.predict_proba([[0.0]])
    with pytest.raises(InvalidInput, match="outputs must be 'probabilities' or .*, got 'odds'"):
        CallableLearner(minus_distance, outputs="odds")
    with pytest.raises(InvalidInput, match="outputs must be 'probabilities' or .*, got 'odds'"):
        FixedModel(minus_distance, outputs="odds")


def test_a_learner_shows_its_function() -> None:
    assert repr(CallableLearner(minus_distance, outputs="logits")) == (
        "CallableLearner(minus_distance, outputs='logits')"
    )


@pytest.mark.parametrize("precision", [np.float32, np.float64, np.int64])
def test_outputs_keep_their_precision(precision: Any) -> None:
    values = np.array([[0, 1]], precision)
    found = FixedModel(lambda x: values).adapt().predict_proba(X[:1])
    assert found.dtype == (np.float64 if precision is np.int64 else precision)
    with pytest.raises(InvalidInput, match=r"\(2, 1 to any\), got shape \(1, 2\)"):
        FixedModel(lambda x: values).adapt().predict_proba(X[:2])


def test_logits_that_look_like_probabilities_are_pointed_out() -> None:
    def read(values: Any) -> Any:
        return FixedModel(lambda x: values, outputs="logits").adapt().predict_proba(values)

    with pytest.warns(UserWarning, match="taken for logits. If they are probabilities, say"):
        read([[0.3, 0.7], [1.0, 0.0]] * 4)
    for fine in ([[0.3, 0.8], [1.0, 0.0]], [[-0.5, 1.5], [1.0, 0.0]], [[1.0], [1.0]]):
        read(fine * 4)
    read([[0.3, 0.7]] * 7)  # too few to tell
    read([[0.0, 1.0], [1.0, 0.0]] * 4)  # counts
