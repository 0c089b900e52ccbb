"""Meta-PS: against a slow reference, and through every public method."""

from __future__ import annotations

import inspect
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from metapac import PS, Guarantee, InfeasibleGuarantee, MetaPS, NotCalibrated, load, threshold
from metapac.binomial import allowed_errors_in_task
from metapac.data_checks import CheckWarning
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


def test_the_docstring_of_add_warns_about_repeated_looks() -> None:
    text = " ".join((MetaPS.add.__doc__ or "").split())
    assert "fixed in advance" in text
    assert "use ``delta / (j * (j + 1))`` at look j" in text


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paper(epsilon=0).calibrate([1.0], ["a"]), "epsilon must be .* got 0"),
        (lambda: paper(on_infeasible="x").calibrate([1.0], ["a"]), "on_infeasible must be 'raise'"),
        (lambda: paper().set_params(beta=1), "'beta' is not a parameter of MetaPS; it has epsilon"),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


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


def test_a_predictor_can_be_pickled() -> None:
    predictor = paper().calibrate(*draw_tasks())
    assert pickle.loads(pickle.dumps(predictor)).promise_ == predictor.promise_
