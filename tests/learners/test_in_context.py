"""In-context learning: what the function gets, what it may return, and the guard on its scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from metapac import InvalidInput
from metapac.fewshot import CallableLearner, InContextLearner, Task, score_tasks

NAMES = ["refund", "delivery", "other"]
SUPPORT = ["my money back", "where is my parcel", "hello there"]
TEXTS = ["the parcel is lost", "money please", "hello", "my parcel", "back there"]


def overlap(support: list[str], labels: list[Any], texts: list[str]) -> list[list[float]]:
    """Return how many words a text shares with those of each label; stands in for a model."""
    names = NAMES if labels and isinstance(labels[0], str) else list(range(3))
    words = {name: set[str]() for name in names}
    for text, label in zip(support, labels, strict=True):
        words[label] |= set(text.split())
    return [[float(len(words[name] & set(text.split()))) for name in names] for text in texts]


def test_names_and_numbers_give_the_same_probabilities() -> None:
    by_number = InContextLearner(overlap).adapt(SUPPORT, [0, 1, 2])
    by_name = InContextLearner(overlap, labels=NAMES).adapt(SUPPORT, [0, 1, 2])
    expected = special.softmax(overlap(SUPPORT, [0, 1, 2], TEXTS), axis=1)
    assert by_number.predict_proba(TEXTS) == pytest.approx(expected)
    assert by_name.predict_proba(TEXTS).tolist() == by_number.predict_proba(TEXTS).tolist()


def test_the_function_gets_plain_lists_and_may_change_them() -> None:
    seen = []

    def spoil(support: list[str], labels: list[Any], texts: list[str]) -> Any:
        assert all(type(text) is str for text in support + texts)
        seen.append((tuple(support), tuple(labels), len(texts)))
        support.clear()
        labels.clear()
        return np.zeros((len(texts), 3))

    learner = InContextLearner(spoil, labels=NAMES, batch_size=2)
    scorer = learner.adapt(np.array(SUPPORT), np.array([0, 1, 2]))
    assert scorer.predict_proba(np.array(TEXTS)).shape == (5, 3)
    assert scorer.predict_proba(TEXTS).shape == (5, 3)
    assert seen == [(tuple(SUPPORT), tuple(NAMES), n) for n in (2, 2, 1, 2, 2, 1)]


@given(st.integers(1, 9), st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8))
def test_batches_change_nothing(size: int, texts: list[str]) -> None:
    whole = InContextLearner(overlap).adapt(SUPPORT, [0, 1, 2]).predict_proba(texts)
    parts = InContextLearner(overlap, batch_size=size).adapt(SUPPORT, [0, 1, 2])
    assert parts.predict_proba(texts).tolist() == whole.tolist()


def test_labels_absent_from_the_support_set() -> None:
    absent = InContextLearner(overlap).adapt(SUPPORT[:2], [0, 1], classes=3)
    assert (absent.predict_proba(TEXTS)[:, 2] == 0).all()
    named = InContextLearner(overlap, labels=NAMES).adapt(SUPPORT[:2], [0, 1])
    assert (named.predict_proba(TEXTS)[:, 2] > 0).all()


def test_no_texts_have_no_scores() -> None:
    scorer = InContextLearner(lambda s, y, x: np.zeros((len(x), 3))).adapt(SUPPORT, [0, 1, 2])
    assert scorer.predict_proba([]).shape == (0, 3)


@pytest.mark.parametrize("outputs", ["probabilities", "logits", "scores"])
def test_outputs_mean_what_they_mean_in_a_callable_learner(outputs: str) -> None:
    def uniform(support: Any, labels: Any, texts: Any) -> Any:
        return np.full((len(texts), 3), 0.25)

    task = Task.from_arrays(SUPPORT, [0, 1, 2], TEXTS, [1, 0, 2, 1, 0], name="shop")
    here, ids = score_tasks(InContextLearner(uniform, outputs=outputs), [task])
    there, _ids = score_tasks(CallableLearner(uniform, outputs=outputs), [task])
    assert here.tolist() == there.tolist()
    assert ids.tolist() == ["shop"] * 5


def test_tasks_of_texts_are_scored() -> None:
    task = Task.from_arrays(SUPPORT, [0, 1, 2], TEXTS, [1, 0, 2, 1, 0], name="shop")
    scores, _ids = score_tasks(InContextLearner(overlap, labels=NAMES), [task])
    expected = special.softmax(overlap(SUPPORT, [0, 1, 2], TEXTS), axis=1)
    assert scores == pytest.approx(expected[np.arange(5), task.query_y], rel=1e-9)
    assert (scores <= expected[np.arange(5), task.query_y]).all()


def test_texts_in_one_prompt_are_refused() -> None:
    def all_in_one_prompt(support: Any, labels: Any, texts: list[str]) -> Any:
        return np.array(overlap(support, labels, texts)) + 0.1 * len(texts) * np.arange(3)

    task = Task.from_arrays(SUPPORT, [0, 1, 2], TEXTS, [1, 0, 2, 1, 0], name="shop")
    with pytest.raises(InvalidInput, match="the learner must score each query by itself"):
        score_tasks(InContextLearner(all_in_one_prompt), [task])


@pytest.mark.parametrize(("kind", "refused"), [(np.float16, False), (np.float64, True)])
def test_the_noise_of_a_model_is_borne_in_float16(kind: Any, refused: bool) -> None:
    rng = np.random.default_rng(0)

    def noisy(support: Any, labels: Any, texts: list[str]) -> Any:
        exact = np.array(overlap(support, labels, texts))
        return (exact + rng.uniform(-0.05, 0.05, exact.shape)).astype(kind)

    task = Task.from_arrays(SUPPORT, [0, 1, 2], TEXTS, [1, 0, 2, 1, 0], name="shop")
    if refused:
        with pytest.raises(InvalidInput, match="must score an example the same each time"):
            score_tasks(InContextLearner(noisy), [task])
    else:
        scores, _ids = score_tasks(InContextLearner(noisy), [task])
        # No score is above what the model may return the next time.
        worst = special.softmax(overlap(SUPPORT, [0, 1, 2], TEXTS), axis=1)
        assert (scores <= worst[np.arange(5), task.query_y]).all()


@pytest.mark.parametrize("x", [[1.0, 2.0, 3.0], [None, "a", "b"], [b"a", b"b", b"c"], "one text"])
def test_examples_must_be_texts(x: Any) -> None:
    learner = InContextLearner(overlap)
    if not isinstance(x, str):
        with pytest.raises(InvalidInput, match="support_x must hold texts, got .*CallableLearner"):
            learner.adapt(x, [0, 1, 2])
    with pytest.raises(InvalidInput, match="x must hold texts, got .*Pass a list of texts"):
        learner.adapt(SUPPORT, [0, 1, 2]).predict_proba(x)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"labels": ["only"]}, "labels must name at least two labels, such as"),
        ({"labels": "ab"}, "labels must name at least two labels, such as"),
        ({"labels": [0, 1]}, "labels must name at least two labels, such as"),
        ({"labels": ["a", "a"]}, "labels must be distinct, got"),
        ({"outputs": "log_likelihoods"}, "outputs must be 'probabilities' or 'logits' or 'scores'"),
        ({"batch_size": 0}, "batch_size must be"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        InContextLearner(overlap, **parameters)


def test_the_function_must_be_callable() -> None:
    with pytest.raises(InvalidInput, match="function must be callable as"):
        InContextLearner("gpt")  # type: ignore[arg-type]


def test_the_task_must_have_the_named_labels() -> None:
    learner = InContextLearner(overlap, labels=NAMES)
    with pytest.raises(
        InvalidInput, match="names 3 labels, .* and the task has 4. Name the labels"
    ):
        learner.adapt(SUPPORT, [0, 1, 2], classes=4)


@pytest.mark.parametrize("batch_size", [None, 2])
@pytest.mark.parametrize("shape", [(2,), (1, 3), (5, 2), (5, 4)])
def test_the_shape_of_the_output_is_checked(batch_size: int | None, shape: Any) -> None:
    def wrong(support: Any, labels: Any, texts: Any) -> Any:
        return np.zeros(shape)

    learner = InContextLearner(wrong, labels=NAMES, batch_size=batch_size)
    with pytest.raises(InvalidInput, match="^wrong must return a row for each"):
        learner.adapt(SUPPORT, [0, 1, 2]).predict_proba(TEXTS)


def test_a_learner_says_what_it_is() -> None:
    learner = InContextLearner(overlap, labels=["a", "b"])
    assert repr(learner) == "InContextLearner(overlap, labels=['a', 'b'], outputs='logits')"


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_labels_may_be_given_by_name(kind: Any) -> None:
    learner = InContextLearner(overlap, labels=NAMES)
    by_name = learner.adapt(SUPPORT, kind(["refund", "delivery", "other"]))
    by_number = learner.adapt(SUPPORT, kind([0, 1, 2]))
    assert by_name.predict_proba(TEXTS).tolist() == by_number.predict_proba(TEXTS).tolist()
    with pytest.raises(InvalidInput, match="support_y must hold labels of the learner, .* 'lost'"):
        learner.adapt(SUPPORT, kind(["refund", "lost", "other"]))
    with pytest.raises(InvalidInput, match="support_y must hold one whole number"):
        InContextLearner(overlap).adapt(SUPPORT, kind(NAMES))
