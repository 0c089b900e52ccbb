"""Plans: nothing less would do, and what they say can be afforded can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import Guarantee, MetaPS, plan
from metapac.binomial import allowed_errors
from metapac.planning import feasible, least_size, rounded_up

SPLITS: list[str | float] = ["tight", "even", "adaptive", 0.2]
small = st.floats(0.01, 0.6)


def test_numbers_of_the_design() -> None:
    tight = plan(epsilon=0.1, alpha=0.1, delta=1e-5)
    even = plan(epsilon=0.1, alpha=0.1, delta=1e-5, split="even")
    assert (tight.tasks, even.tasks) == (116, 225)
    assert tight.examples_per_task == even.examples_per_task == 29
    assert str(tight).startswith(
        "It takes at least 116 tasks with at least 29 labelled examples each (3364 labels in all) "
        "to promise: With probability at least 1 - 1e-05"
    )
    adaptive = plan(epsilon=0.1, alpha=0.1, delta=1e-5, split="adaptive")
    assert (adaptive.tasks, adaptive.examples_per_task) == (126, 38)
    assert ", or at least 252 tasks with at least 7 labelled" in str(adaptive)


@given(epsilon=st.floats(1e-6, 0.99), delta=st.floats(1e-12, 0.99), errors=st.integers(0, 200))
def test_least_size_is_least(epsilon: float, delta: float, errors: int) -> None:
    n = least_size(epsilon, delta, errors)
    assert allowed_errors(n, epsilon, delta) >= errors
    assert allowed_errors(n - 1, epsilon, delta) < errors


@given(epsilon=small, alpha=small, delta=small, split=st.sampled_from(SPLITS))
def test_a_plan_is_enough_and_nothing_less_is(
    epsilon: float, alpha: float, delta: float, split: str | float
) -> None:
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
    need = plan(epsilon=epsilon, alpha=alpha, delta=delta, split=split)

    def carries(tasks: int, examples: int) -> bool:
        return feasible(g, np.array([examples]), np.array([tasks]))

    assert carries(need.tasks, need.examples_per_task)
    if split != "adaptive":  # which may do with fewer of one for more of the other
        assert not carries(need.tasks - 1, 10**6)
        assert not carries(10**6, need.examples_per_task - 1)


@pytest.mark.parametrize("split", SPLITS)
def test_calibration_agrees_with_the_plan(split: str | float) -> None:
    promise = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.01, "split": split}
    need = plan(**promise)  # type: ignore[arg-type]
    scores = np.random.default_rng(0).random(need.labels)
    tasks = np.repeat(np.arange(need.tasks), need.examples_per_task)
    assert MetaPS(**promise).calibrate(scores, tasks).threshold_ > -np.inf  # type: ignore[arg-type]


@settings(max_examples=40)
@given(tasks=st.integers(1, 400), examples=st.integers(1, 400), split=st.sampled_from(SPLITS))
def test_what_is_affordable_is_feasible_and_no_less(
    tasks: int, examples: int, split: str | float
) -> None:
    asked = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-3}
    best = plan(**asked, split=split).affordable(tasks, examples)._asdict()
    sizes, counts = np.array([examples]), np.array([tasks])
    for name, value in best.items():
        if value is None:
            hopeless = Guarantee(**asked | {name: 1 - 1e-9}, split=split)
            assert not feasible(hopeless, sizes, counts)
        else:
            assert feasible(Guarantee(**asked | {name: value}, split=split), sizes, counts)
            less = Guarantee(**asked | {name: value * (1 - 1e-9)}, split=split)
            assert not feasible(less, sizes, counts)


def test_plan_translates_the_words_of_other_libraries() -> None:
    with pytest.raises(TypeError, match="confidence_level is called otherwise here"):
        plan(confidence_level=0.9)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="alpha is not the miss rate here"):
        plan(alpha=0.1, delta=0.1)  # type: ignore[call-arg]


@given(value=st.floats(1e-300, 0.999))
def test_rounding_up_never_promises_more(value: float) -> None:
    up = rounded_up(value)
    assert value <= up <= value * 1.011
    assert float(f"{up:.3g}") == up


def test_affordable_in_closed_form() -> None:
    best = plan(epsilon=0.1, alpha=0.1, delta=1e-5).affordable(tasks=200, examples_per_task=50)
    assert best.epsilon == pytest.approx(1 - 0.05 ** (1 / 50), rel=1e-12)
    assert best.delta == pytest.approx(0.905**200, rel=1e-12)


@pytest.mark.parametrize("parameter", ["epsilon", "alpha", "delta", "split"])
def test_curves_are_plans_side_by_side(parameter: str) -> None:
    promise: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5, "split": "tight"}
    curve = plan(**promise).curve(parameter)
    for i in (0, len(curve.values) // 2, -1):
        one = plan(**promise | {parameter: float(curve.values[i])})
        assert (curve.tasks[i], curve.examples_per_task[i]) == (one.tasks, one.examples_per_task)
    assert plan(**promise).curve(parameter, [0.3]).values.tolist() == [0.3]
    if parameter == "delta":
        assert curve.tasks[0] == plan(**promise | {"delta": 1e-12}).tasks
    if parameter == "split":
        assert (np.diff(curve.tasks) >= 0).all()
        assert (np.diff(curve.examples_per_task) <= 0).all()
    curve.values[:] = 7  # the caller's own copy
    assert plan(**promise).curve(parameter).values.max() < 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda it: it.curve("beta"),
            "parameter must be 'epsilon' or 'alpha' or 'delta' or 'split",
        ),
        (lambda it: it.curve("alpha", [1.5]), "alpha must be a number strictly between 0 and 1"),
        (lambda it: it.curve("alpha", [[0.1]]), "values must be one-dimensional"),
        (lambda it: plan(epsilon=5e-324, alpha=0.1, delta=0.1), "needs more than 2..53 examples"),
        (lambda it: it.affordable(0, 10), "tasks must hold whole numbers from 1"),
        (lambda it: it.affordable(10, 2.5), "examples_per_task must hold whole numbers from 1"),
        (lambda it: it.affordable([1, 2], 5), r"tasks must be one whole number, got \[1, 2\]"),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(plan(epsilon=0.1, alpha=0.1, delta=0.1))
