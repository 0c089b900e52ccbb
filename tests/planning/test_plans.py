"""Plans: what they ask for is enough, nothing less is, and affordable values are feasible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import Guarantee, MetaPS, plan
from tests.helpers.plans import make_plan, supports

SPLITS: list[str | float] = ["joint", "tight", "even", 0.2]
small = st.floats(0.01, 0.5)


def test_reference_numbers() -> None:
    tight = make_plan(epsilon=0.1, alpha=0.1, delta=1e-5, split="tight")
    even = make_plan(epsilon=0.1, alpha=0.1, delta=1e-5, split="even")
    assert (tight.tasks, even.tasks) == (116, 225)
    assert tight.examples_per_task == even.examples_per_task == 29
    assert str(tight).startswith(
        "Needed: 116 tasks with at least 29 labelled examples each (3364 labels in total). "
        "Guarantee: With confidence 99.999% over"
    )
    joint = make_plan(epsilon=0.1, alpha=0.1, delta=1e-5)
    assert (joint.tasks, joint.examples_per_task, joint.labels) == (111, 44, 111 * 44)
    assert (joint.needs[-1].examples_per_task, joint.needs[-1].level.alpha_within) == (7, 0.5)
    assert str(joint).startswith(
        "Needed: 111 tasks with at least 44 labelled examples each (4884 labels in total), "
        f"or {joint.needs[-1].tasks} tasks with at least 7 labelled examples each ("
    )
    assert [make_plan(epsilon=0.1, alpha=0.1, delta=d).tasks for d in (0.1, 0.05, 0.01, None)] == [
        23, 29, 45, 10,
    ]  # fmt: skip


@settings(max_examples=60)
@given(
    epsilon=st.floats(0.05, 0.5),
    alpha=small,
    delta=st.one_of(st.none(), small),
    split=st.sampled_from(SPLITS),
    tasks=st.integers(1, 120),
    examples=st.integers(1, 60),
)
def test_one_half_of_the_data_determines_the_other(
    epsilon: float, alpha: float, delta: float | None, split: Any, tasks: int, examples: int
) -> None:
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
    result = make_plan(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
    size, count = result.examples_for(tasks), result.tasks_for(examples)
    if size is None:
        assert not supports(g, tasks, 10**6)
    else:
        assert supports(g, tasks, size)
        assert not supports(g, tasks, size - 1)
    if count is None:
        assert not supports(g, 10**6, examples)
    else:
        assert supports(g, count, examples)
        assert not any(supports(g, fewer, examples) for fewer in range(1, count)[-30:])


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("delta", [0.01, None])
def test_calibration_agrees_with_the_plan(split: str | float, delta: float | None) -> None:
    asked = {"epsilon": 0.2, "alpha": 0.3, "delta": delta, "split": split}
    need = make_plan(**asked)
    scores = np.random.default_rng(0).random(need.labels)
    tasks = np.repeat(np.arange(need.tasks), need.examples_per_task)
    assert MetaPS(**asked).calibrate(scores, tasks).threshold_ > -np.inf  # type: ignore[arg-type]


@settings(max_examples=30)
@given(tasks=st.integers(1, 400), examples=st.integers(1, 400), split=st.sampled_from(SPLITS))
def test_what_is_affordable_is_feasible_and_no_less(
    tasks: int, examples: int, split: str | float
) -> None:
    asked: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-3, "split": split}
    best = make_plan(**asked).affordable(tasks, examples)._asdict()
    for name, value in best.items():
        if value is None:
            assert not supports(Guarantee(**asked | {name: 1 - 1e-9}), tasks, examples)
        else:
            assert supports(Guarantee(**asked | {name: value}), tasks, examples)
            if split != "joint":  # where a slightly smaller value may be feasible too
                less = Guarantee(**asked | {name: value * (1 - 1e-9)})
                assert not supports(less, tasks, examples)


def test_in_expectation_there_is_no_affordable_delta() -> None:
    best = make_plan(epsilon=0.1, alpha=0.1, delta=None).affordable(20, 100)
    assert best.delta is None
    assert best.epsilon == pytest.approx(1 - 0.05 ** (1 / 100), rel=1e-12)
    # floor(alpha (1 - alpha / 2) 21) >= 1 from alpha = 1 - sqrt(1 - 2 / 21) on.
    assert best.alpha == pytest.approx(1 - (1 - 2 / 21) ** 0.5, rel=1e-9)


def test_data_that_support_any_delta_support_the_smallest() -> None:
    for split in ("joint", "tight"):
        best = make_plan(epsilon=0.1, alpha=0.1, delta=1e-5, split=split).affordable(10**5, 1000)
        assert best.delta is not None
        assert 0 < best.delta < 1e-300


def test_plan_explains_parameter_names_of_other_libraries() -> None:
    with pytest.raises(TypeError, match="unknown parameter .confidence_level.; use epsilon = 1 - "):
        plan(confidence_level=0.9)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="alpha is not the miss rate here"):
        plan(alpha=0.1, delta=0.1)  # type: ignore[call-overload]


def test_affordable_in_closed_form() -> None:
    asked = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5, "split": "tight"}
    best = make_plan(**asked).affordable(tasks=200, examples_per_task=50)
    assert best.epsilon == pytest.approx(1 - 0.05 ** (1 / 50), rel=1e-12)
    assert best.delta == pytest.approx(0.905**200, rel=1e-12)


@pytest.mark.parametrize("parameter", ["epsilon", "alpha", "delta", "split"])
def test_curves_are_plans_side_by_side(parameter: str) -> None:
    asked: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5, "split": "tight"}
    curve = make_plan(**asked).curve(parameter)
    for i in (0, len(curve.values) // 2, -1):
        one = make_plan(**asked | {parameter: float(curve.values[i])})
        assert (curve.tasks[i], curve.examples_per_task[i]) == (one.tasks, one.examples_per_task)
    assert make_plan(**asked).curve(parameter, [0.3]).values.tolist() == [0.3]
    if parameter == "delta":
        assert curve.tasks[0] == make_plan(**asked | {"delta": 1e-12}).tasks
    if parameter == "split":
        assert (np.diff(curve.tasks) >= 0).all()
        assert (np.diff(curve.examples_per_task) <= 0).all()
    curve.values[:] = 7  # a copy
    assert make_plan(**asked).curve(parameter).values.max() < 1


def test_a_plan_for_each_class_counts_all_labels() -> None:
    result = make_plan(epsilon=0.1, alpha=0.1, delta=0.05, classes=3)
    assert (result.classes, result.asked.delta, result.guarantee.delta) == (3, 0.05, 0.05 / 3)
    examples, total = result.examples_per_task, result.labels
    text = f"{examples} labelled examples of each of 3 classes ({total} labels in total)"
    assert text in str(result)
    assert "With confidence 95% over" in str(result)


def test_with_several_classes_each_has_its_share() -> None:
    asked = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
    five = make_plan(**asked, classes=5)
    assert five.needs == make_plan(**asked | {"delta": 0.01}).needs
    assert five.guarantee.delta == 0.01
    # In expectation nothing is divided.
    assert make_plan(**asked | {"delta": None}, classes=5).tasks == 10


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "plan is missing epsilon and alpha and delta. Pass epsilon, alpha and delta; or only"),
        ({"epsilon": 0.1, "alpha": 0.1}, "plan is missing delta"),
        ({"epsilon": 0.1, "delta": None}, "plan is missing alpha"),
        ({"epsilon": 0.1, "sizes": [4]}, "plan is missing alpha and delta"),
    ],
)
def test_what_is_left_out_is_named(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        plan(**asked)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda it: it.curve("beta"),
            "parameter must be 'epsilon' or 'alpha' or 'delta' or 'split",
        ),
        (lambda it: it.curve("alpha", [1.5]), "alpha must be a number strictly between 0 and 1"),
        (lambda it: it.curve("alpha", [[0.1]]), "values must be one-dimensional"),
        (lambda it: plan(epsilon=5e-324, alpha=0.1, delta=0.1), "needs more than 10..9 examples"),
        (lambda it: it.affordable(0, 10), "tasks must be a whole number from 1"),
        (lambda it: it.affordable(10, 2.5), "examples_per_task must be a whole number from 1"),
        (
            lambda it: plan(epsilon=0.1, alpha=0.1, delta=0.1, sizes=[1.5]),
            "sizes must hold whole numbers from 0",
        ),
        (
            lambda it: plan(epsilon=0.1, alpha=0.1, delta=0.1, classes=0),
            "classes must be a whole number from 1",
        ),
        (
            lambda it: it.affordable([1, 2], 5),
            r"tasks must be a whole number from 1 to 10..9, got \[1, 2\]",
        ),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(plan(epsilon=0.1, alpha=0.1, delta=0.1))
