"""per_class=True: a threshold for each class, so that a rare one cannot be missed unnoticed."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from metapac import (
    BadArtefact,
    Guarantee,
    InfeasibleGuarantee,
    MetaPS,
    NotCalibrated,
    artefact,
    load,
)
from metapac.fewshot.synthetic import NormalFamily, TwoPointFamily
from tests.helpers.oracles import too_many

LOOSE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
NAMES = np.array(["no", "yes"])


def examples(tasks: int = 40, n: int = 200, rare: float = 0.2, rng: int = 0) -> tuple[Any, ...]:
    """Return scores, tasks and labels; the rare class "yes" has lower scores."""
    generator = np.random.default_rng(rng)
    label = (generator.random(tasks * n) < rare).astype(int)
    scores = generator.normal(size=tasks * n) + np.where(label, 0.0, 3.0)
    return scores, np.repeat(np.arange(tasks), n), NAMES[label]


def per_class(**changes: Any) -> MetaPS:
    return MetaPS(**LOOSE | changes, per_class=True)


@settings(max_examples=60)
@given(
    split=st.sampled_from(["joint", "tight", "even", 0.4]),
    delta=st.sampled_from([0.05, 0.2, None]),
    seed=st.integers(0, 99),
    own_rates=st.booleans(),
    minimum=st.sampled_from([0, 12]),
)
def test_each_class_is_calibrated_separately(
    split: str | float, delta: float | None, seed: int, own_rates: bool, minimum: int
) -> None:
    generator = np.random.default_rng(seed)
    count = 900
    labels = generator.choice(["a", "b", "c"], count, p=[0.2, 0.3, 0.5])
    tasks = generator.integers(0, 30, count)
    scores = generator.normal(size=count)
    epsilon = {"a": 0.3, "b": 0.2, "c": 0.4} if own_rates else 0.3
    asked = {"epsilon": epsilon, "alpha": 0.4, "delta": delta, "split": split}
    asked |= {"min_examples": minimum, "on_infeasible": "trivial"}
    result = MetaPS(**asked, per_class=True).calibrate(scores, tasks, labels)  # type: ignore[arg-type]
    assert result.classes_ == ("a", "b", "c")
    for number, name in enumerate(result.classes_):
        selected = labels == name
        # A task without examples of the class counts too, with a threshold of -inf.
        missing = set(tasks.tolist()) - set(tasks[selected].tolist())
        alone = MetaPS(
            **asked  # type: ignore[arg-type]
            | {
                "epsilon": epsilon[name] if isinstance(epsilon, dict) else epsilon,
                "delta": None if delta is None else delta / 3,
            }
        )
        padded = np.r_[scores[selected], np.full(len(missing), -np.inf)]
        if not minimum:  # one example of score -inf is a task with no evidence, of size 1
            names = np.r_[tasks[selected], list(missing)].astype(int)
            alone.calibrate(padded, names)
        else:
            alone.calibrate(scores[selected], tasks[selected])
        assert result.thresholds_[number] == alone.threshold_
        assert result.threshold_of(name) == alone.threshold_
        assert result.level_[number] == alone.level_


def test_shapes_and_names_of_the_results() -> None:
    scores, tasks, labels = examples()
    result = per_class().calibrate(scores, tasks, labels)
    assert result.classes_ == ("no", "yes")
    assert result.thresholds_.shape == (2,)
    assert result.task_sizes_.shape == result.task_thresholds_.shape == (40, 2)
    for number, name in enumerate(result.classes_):
        counts = [int(((tasks == t) & (labels == name)).sum()) for t in range(40)]
        assert result.task_sizes_[:, number].tolist() == counts
    assert result.tasks_.tolist() == list(range(40))
    assert np.asarray(result.left_out_).tolist() == [0, 0]
    assert not hasattr(result, "threshold_")
    assert str(result) == result.promise_
    no, yes = result.thresholds_.tolist()
    assert (
        "over the draw of the 40 calibration tasks, for each class, the sets {label: score >= its "
        f"threshold}} (no: {no!r}, yes: {yes!r}) miss at most 20% of the examples of that class on"
    ) in result.promise_
    limited = per_class(min_examples=40).calibrate(scores, tasks, labels)
    small = (limited.task_sizes_ < 40).sum(axis=0)
    assert np.asarray(limited.left_out_).tolist() == small.tolist()
    assert (np.isnan(limited.task_thresholds_) == (limited.task_sizes_ < 40)).all()
    assert small[1] > 5 > small[0] == 0


# A class of 2%.

RARE, COMMON = NormalFamily(signal=0.0), NormalFamily(signal=3.0)
DRAWS, TASKS, SIZE = 300, 30, 500


def draw(rng: np.random.Generator) -> tuple[Any, ...]:
    """Return scores, tasks and labels; 2% are of class 1, with the same spread over tasks."""
    z = RARE.draw_tasks(TASKS, rng)
    label = rng.random((TASKS, SIZE)) < 0.02
    scores = rng.standard_normal((TASKS, SIZE)) + z[:, None] + np.where(label, 0.0, 3.0)
    return scores.ravel(), np.repeat(np.arange(TASKS), SIZE), label.ravel().astype(int)


def test_a_class_of_two_percent_has_its_guarantee() -> None:
    violated = missed = feasible = 0
    for seed in np.random.SeedSequence(0).spawn(DRAWS):
        scores, tasks, labels = draw(np.random.default_rng(seed))
        # If too few tasks have 4 of the rare class, it is always kept, which violates nothing.
        method = per_class(on_infeasible="trivial").calibrate(scores, tasks, labels)
        common, rare = method.thresholds_
        feasible += rare > -math.inf
        violated += max(RARE.violation_rate(rare, 0.2), COMMON.violation_rate(common, 0.2)) > 0.3
        plain = MetaPS(**LOOSE).calibrate(scores, tasks)
        missed += RARE.violation_rate(plain.threshold_, 0.2) > 0.3
        # The negative control satisfies its guarantee, which says nothing about the rare class.
        assert COMMON.violation_rate(plain.threshold_, 0.2) < 0.9
    assert not too_many(violated, DRAWS, 0.1)
    assert missed == DRAWS
    assert feasible > 0.8 * DRAWS
    assert RARE.error(np.zeros(1), plain.threshold_)[0] > 0.9


@pytest.mark.parametrize("classes", [2, 5])
def test_the_guarantees_of_all_classes_fail_with_probability_at_most_delta(classes: int) -> None:
    # The examples of the classes are independent, so the failure probability is a product.
    worst = TwoPointFamily(bad=0.1 + 1e-9, miss=0.1 + 1e-9)
    whole = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, split="tight", per_class=True)
    size = {"tasks": 3910, "examples": 30_038}
    part = whole.for_class(0, range(classes))
    assert 1 - (1 - worst.probability_of_one(part, **size)) ** classes <= 0.05
    undivided = whole.for_class(0, range(1))  # the negative control: all of delta for each
    assert 1 - (1 - worst.probability_of_one(undivided, **size)) ** classes > 0.09


# Sets.


def test_columns_are_in_the_order_of_classes() -> None:
    scores, tasks, labels = examples()
    result = per_class().calibrate(scores, tasks, labels)
    no, yes = result.thresholds_
    assert yes < no
    between = (yes + no) / 2
    assert result.predict_set([[between, between]]).tolist() == [[False, True]]
    assert result.predict_set([no, yes]).tolist() == [True, True]
    assert result.predict_set([[yes, no]]).tolist() == [[False, True]]
    assert result.predict_set(np.full((3, 4, 2), between)).shape == (3, 4, 2)
    assert result.predict_set(np.zeros((0, 2))).shape == (0, 2)
    assert result.threshold_of("yes") == yes
    flipped = per_class().calibrate(scores, tasks, np.where(labels == "yes", "a", "b"))
    assert flipped.classes_ == ("a", "b")
    assert flipped.thresholds_.tolist() == [yes, no]


# Files, new tasks, sites.


@pytest.mark.parametrize(
    "names",
    [["no", "yes"], [0, 1], [False, True], [7, 300], ["é", "\N{SNOWMAN}"], [-1, 1]],
    ids=str,
)
@pytest.mark.parametrize("own_rates", [False, True])
def test_what_was_saved_comes_back(tmp_path: Path, names: list[Any], own_rates: bool) -> None:
    scores, tasks, labels = examples()
    column = np.array(names)[(labels == "yes").astype(int)]
    epsilon = {names[0]: 0.1, names[1]: 0.25} if own_rates else 0.2
    before = per_class(epsilon=epsilon, min_examples=2).calibrate(scores, tasks, column)
    before.save(tmp_path / "promise.json")
    after = load(tmp_path / "promise.json")
    assert after.classes_ == before.classes_ == tuple(names)
    assert [type(name) for name in after.classes_] == [type(name) for name in names]
    assert after.thresholds_.tolist() == before.thresholds_.tolist()
    assert after.promise_ == before.promise_
    assert after.get_params() == before.get_params()
    np.testing.assert_array_equal(after.task_thresholds_, before.task_thresholds_)
    more = np.random.default_rng(9).normal(size=100)
    two = np.array(names)[np.arange(100) % 2]
    for one in (before, after):
        one.add(more, [-1] * 100, two)
    assert after.thresholds_.tolist() == before.thresholds_.tolist()
    assert len(after.tasks_) == 41


def test_a_saved_threshold_that_contradicts_its_evidence_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "promise.json"
    per_class().calibrate(*examples()).save(path)
    document = json.loads(path.read_text())
    document["thresholds"] = document["thresholds"][::-1]
    del document["checksum"]
    document["checksum"] = artefact.checksum(document)
    path.write_text(json.dumps(document))
    with pytest.raises(BadArtefact, match="thresholds .* but the evidence gives"):
        load(path)


def test_old_tasks_have_no_examples_of_a_new_class() -> None:
    scores, tasks, labels = examples()
    new, ids, others = examples(tasks=3, rng=1)
    others = np.where(others == "yes", "maybe", others)  # before "no", in order
    grown = per_class(on_infeasible="trivial").calibrate(scores, tasks, labels)
    grown.add(new, ids + 100, others)
    whole = per_class(on_infeasible="trivial")
    whole.calibrate(np.r_[scores, new], np.r_[tasks, ids + 100], np.r_[labels, others].astype(str))
    assert grown.classes_ == whole.classes_ == ("maybe", "no", "yes")
    assert grown.thresholds_.tolist() == whole.thresholds_.tolist()
    assert grown.thresholds_[0] == -math.inf
    np.testing.assert_array_equal(grown.task_sizes_, whole.task_sizes_)
    np.testing.assert_array_equal(grown.task_thresholds_, whole.task_thresholds_)
    assert grown.remarks_ == ["Class 'maybe' is always kept, so its guarantee holds trivially."]


def test_new_tasks_may_lack_a_class() -> None:
    scores, tasks, labels = examples()
    new = np.random.default_rng(1).normal(size=50)
    grown = per_class().calibrate(scores, tasks, labels).add(new, [99] * 50, ["yes"] * 50)
    whole = per_class().calibrate(
        np.r_[scores, new], np.r_[tasks, [99] * 50], np.r_[labels, ["yes"] * 50]
    )
    assert grown.classes_ == ("no", "yes")
    assert grown.thresholds_.tolist() == whole.thresholds_.tolist()
    assert grown.task_sizes_[-1].tolist() == [0, 50]


def test_scikit_learns_contract() -> None:
    method = per_class(epsilon={"no": 0.1, "yes": 0.2})
    copy = clone(method)
    assert copy.get_params() == method.get_params()
    assert copy.epsilon == {"no": 0.1, "yes": 0.2}


# Infeasible and uninformative classes.


def test_infeasible_classes_are_named_with_what_they_lack() -> None:
    scores, tasks, labels = examples(rare=0.005)
    sizes = [int(((tasks == t) & (labels == "yes")).sum()) for t in range(40)]
    with pytest.raises(InfeasibleGuarantee) as caught:
        per_class().calibrate(scores, tasks, labels)
    text = str(caught.value)
    assert text.startswith(
        "alpha=0.3, delta=0.1 cannot be guaranteed with split='joint' for 1 of 2 classes: class "
        "'yes' (epsilon=0.2): "
    )
    (examples_needed,) = re.findall(r"have fewer than (\d+) examples of class 'yes',", text)
    small = sum(size < int(examples_needed) for size in sizes)
    assert (
        f"(epsilon=0.2): {small} of the 40 tasks have fewer than {examples_needed} examples" in text
    )
    trivial = per_class(on_infeasible="trivial").calibrate(scores, tasks, labels)
    assert np.isfinite(trivial.thresholds_).tolist() == [True, False]
    assert trivial.remarks_ == ["Class 'yes' is always kept, so its guarantee holds trivially."]
    assert trivial.predict_set([[-9.0, -math.inf]]).tolist() == [[False, True]]


def test_calibrating_again_replaces_all_results(tmp_path: Path) -> None:
    scores, tasks, labels = examples()
    method = per_class(epsilon=0.4).calibrate(scores, tasks, labels)
    method.set_params(per_class=False, epsilon=0.2).calibrate(scores, tasks)
    fresh = MetaPS(**method.get_params()).calibrate(scores, tasks)
    assert method.classes_ is None
    assert not hasattr(method, "thresholds_")
    assert method.promise_ == fresh.promise_
    table = np.linspace(-3, 3, 14).reshape(7, 2)
    assert (method.predict_set(table) == fresh.predict_set(table)).all()
    method.save(tmp_path / "promise.json")
    assert (load(tmp_path / "promise.json").predict_set(table) == fresh.predict_set(table)).all()
    method.set_params(per_class=True).calibrate(scores, tasks, labels)
    assert not hasattr(method, "threshold_")


def test_a_mapping_that_changes_is_noticed() -> None:
    scores, tasks, labels = examples()
    rates = {"yes": 0.4, "no": 0.4}
    method = per_class(epsilon=rates).calibrate(scores, tasks, labels)
    rates["yes"] = 0.1
    with pytest.raises(NotCalibrated, match="its parameters were changed"):
        method.predict_set([[0.1, 0.2]])


def test_a_mapping_names_exactly_the_classes() -> None:
    scores, tasks, labels = examples()
    with pytest.raises(
        ValueError, match="epsilon names class 'maybe', but the classes are 'no', '"
    ):
        per_class(epsilon={"yes": 0.4, "no": 0.4, "maybe": 0.4}).calibrate(scores, tasks, labels)


@pytest.mark.parametrize("labels", [["x", math.nan], ["x", None], ["x", 1]])
def test_a_list_of_labels_is_not_converted_to_strings(labels: list[Any]) -> None:
    with pytest.raises(ValueError, match="labels must hold strings, integers or booleans of one"):
        per_class().calibrate([0.5, 0.5], ["a", "b"], labels)


def test_new_labels_must_have_the_old_type() -> None:
    scores, tasks, labels = examples()
    method = per_class(epsilon=0.4).calibrate(scores, tasks, labels == "yes")
    with pytest.raises(
        ValueError, match="labels must be of one type, got 'no', but the classes so far"
    ):
        method.add(scores, tasks + 1000, labels)


def test_numpy_scalars_are_accepted(tmp_path: Path) -> None:
    scores, tasks, labels = examples()
    numbers = (labels == "yes").astype(int)
    epsilon = {np.int64(0): 0.4, np.int64(1): 0.4}
    asked: Any = LOOSE | {"epsilon": epsilon, "per_class": np.True_}
    method = MetaPS(**asked).calibrate(scores, tasks, numbers)
    method.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").thresholds_.tolist() == method.thresholds_.tolist()
    assert hash(method.guarantee_) == hash(method.guarantee_)


def test_many_infeasible_classes_are_counted() -> None:
    scores, tasks, _ = examples(tasks=20, n=200)
    labels = np.arange(4000) % 200
    with pytest.raises(InfeasibleGuarantee, match="for 200 of 200 classes: .*; and 197 more. Opti"):
        per_class().calibrate(scores, tasks, labels)


def test_a_class_at_the_lowest_score_is_named() -> None:
    scores, tasks, labels = examples()
    scores = np.where(labels == "yes", np.maximum(scores, 0.0), np.abs(scores) + 1)
    with pytest.warns(
        UserWarning, match="probabilities, class 'yes' is kept whatever its score"
    ) as text:
        result = per_class().calibrate(scores, tasks, labels)
    assert len(text) == 1
    assert result.threshold_of("yes") == 0
    assert result.threshold_of("no") > 0
    assert "in 40 of 40 tasks (100%)" in result.promise_
