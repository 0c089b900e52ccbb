"""Plans: the smallest numbers that are enough, and nothing less; feasibility of given tasks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import Guarantee, InvalidInput, MetaPS, allowed_errors, plan
from metapac.planning import (
    OFFERED_ALPHAS,
    OFFERED_DELTAS,
    Demand,
    Offer,
    find_single_level,
    find_supported,
    min_sample_size,
    min_task_size,
    min_tasks,
    min_tasks_over_levels,
    smallest,
)
from tests.helpers.plans import make_plan, supports

SPLITS: list[str | float] = ["joint", "tight", "even", 0.2]
small = st.floats(0.01, 0.5)


@given(epsilon=st.floats(1e-6, 0.99), delta=st.floats(1e-12, 0.99), errors=st.integers(0, 200))
def test_the_minimum_sample_size_is_minimal(epsilon: float, delta: float, errors: int) -> None:
    n = min_sample_size(epsilon, delta, errors)
    assert allowed_errors(n, epsilon, delta) >= errors
    assert allowed_errors(n - 1, epsilon, delta) < errors


def test_a_sample_size_beyond_counting_is_an_error() -> None:
    with pytest.raises(InvalidInput) as caught:
        min_sample_size(1e-300, 0.05)
    assert caught.value.parameters == ("epsilon", "alpha", "delta")


@settings(max_examples=25)
@given(
    alpha=st.floats(0.05, 0.5),
    delta=st.one_of(st.none(), st.floats(1e-6, 0.5)),
    few=st.integers(0, 4),
    split=st.sampled_from(SPLITS),
)
def test_the_minimum_number_of_tasks_allows_small_ones(
    alpha: float, delta: float | None, few: int, split: str | float
) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=delta, split=split)
    for level in {0, len(g.levels) // 2, len(g.levels) - 1}:
        tasks = min_tasks(g, level, few)
        assert g.allowed_low_thresholds(tasks)[level] >= few
        if len(g.levels) == 1:
            assert g.allowed_low_thresholds(tasks - 1)[level] < few


@pytest.mark.parametrize("delta", [0.01, None])
@pytest.mark.parametrize("split", SPLITS)
def test_the_level_with_the_fewest_tasks(split: str | float, delta: float | None) -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=delta, split=split)
    small = list(range(len(g.levels), 0, -1))  # the lowest level asks for the largest tasks
    tasks, level = min_tasks_over_levels(g, small)
    by_level = [min_tasks(g, number, few) for number, few in enumerate(small)]
    assert tasks == min(by_level) == by_level[level]


@pytest.mark.parametrize(("minimum", "expected"), [(0, 22), (22, 22), (30, 30)])
def test_a_task_that_counts_is_not_left_out_by_its_size(minimum: int, expected: int) -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1, split="tight", min_examples=minimum)
    assert min_task_size(g, g.levels[0]) == expected  # 0.9 ** 22 < 0.1 < 0.9 ** 21


def test_tasks_of_one_size_are_counted_together() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05, min_examples=10)
    demand = Demand.from_sizes(g, [30, 5, 30, 12])
    assert (demand.sizes.tolist(), demand.counts.tolist()) == ([5, 12, 30], [1, 1, 2])
    assert (demand.tasks, demand.left_out) == (3, 1)
    more = demand.with_tasks(4, 7)
    assert (more.tasks, more.left_out) == (3, 5)
    assert demand.with_parameters(min_examples=0).tasks == 4


@pytest.mark.parametrize(
    "sizes", [[10] * 24, [200] * 60, [12] * 60, [200] * 10, [5] * 9, [30] * 40 + [3] * 5]
)
@pytest.mark.parametrize("delta", [0.05, None])
def test_feasibility_agrees_with_the_spare_tasks_of_each_level(
    sizes: list[int], delta: float | None
) -> None:
    demand = Demand.from_sizes(Guarantee(epsilon=0.1, alpha=0.2, delta=delta), sizes)
    assert demand.is_feasible() == (max(demand.spare_tasks()) >= 0)


def test_without_tasks_nothing_is_feasible() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05, min_examples=10)
    assert not Demand.from_sizes(g, [5, 5]).is_feasible()


def test_a_single_level_is_found_where_one_works() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
    demand = Demand.from_sizes(g, [15] * 145)
    level = find_single_level([demand])
    assert level == pytest.approx(0.9**15, rel=1e-2)
    assert demand.with_parameters(split=level).is_feasible()
    assert find_single_level([Demand.from_sizes(g, [15] * 20)]) is None


def test_affordable_values_are_feasible() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05)
    demand = Demand(g, np.array([60]), np.array([40]))
    for name, value in demand.affordable()._asdict().items():
        assert 0 < value < 1
        assert demand.with_parameters(**{name: value}).is_feasible()
    assert smallest([demand], "epsilon") == demand.affordable().epsilon


def test_classes_share_delta() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05, split="tight")
    demand = Demand(g, np.array([60]), np.array([40]))
    both = smallest([demand, demand], "delta")
    assert both == pytest.approx(2 * 0.82**40, rel=1e-9)  # alpha_across is 0.18


@settings(max_examples=60)
@given(
    epsilon=small,
    alpha=small,
    delta=st.one_of(st.none(), small),
    split=st.sampled_from(SPLITS),
)
def test_every_need_is_enough_and_nothing_less_is(
    epsilon: float, alpha: float, delta: float | None, split: str | float
) -> None:
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
    result = make_plan(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
    assert (result.tasks, result.examples_per_task) == result.needs[0][:2]
    for need in result.needs:
        assert supports(g, need.tasks, need.examples_per_task)
        assert need.level in g.levels
    if len(g.levels) == 1:
        (need,) = result.needs
        assert not supports(g, need.tasks - 1, 10**6)
        assert not supports(g, 10**6, need.examples_per_task - 1)
    else:  # more tasks need fewer examples each; fewer of either is infeasible
        tasks = [need.tasks for need in result.needs]
        examples = [need.examples_per_task for need in result.needs]
        assert tasks == sorted(tasks)
        assert examples == sorted(examples, reverse=True)
        assert not supports(g, tasks[0] - 1, 10**6)
        assert not supports(g, 10**6, examples[-1] - 1)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_more_tasks_always_need_fewer_examples(alpha: float) -> None:
    needs = plan(epsilon=0.1, alpha=alpha, delta=0.05).needs
    for need, more in itertools.pairwise(needs):
        assert need.tasks < more.tasks
        assert need.examples_per_task > more.examples_per_task


def test_reference_numbers() -> None:
    tight = make_plan(epsilon=0.1, alpha=0.1, delta=1e-5, split="tight")
    even = make_plan(epsilon=0.1, alpha=0.1, delta=1e-5, split="even")
    assert (tight.tasks, even.tasks) == (116, 225)
    assert tight.examples_per_task == even.examples_per_task == 29
    assert str(tight).startswith(
        "Needed: 116 tasks with at least 29 labelled examples each (3364 labels in total).\n"
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


def test_with_several_classes_each_has_its_share() -> None:
    asked = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
    five = make_plan(**asked, classes=5)
    assert five.needs == make_plan(**asked | {"delta": 0.01}).needs
    assert five.guarantee.delta == 0.01
    # In expectation nothing is divided.
    assert make_plan(**asked | {"delta": None}, classes=5).tasks == 10


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        ({}, "epsilon and alpha and delta"),
        ({"epsilon": 0.1, "alpha": 0.1}, "delta"),
        ({"epsilon": 0.1, "delta": None}, "alpha"),
        ({"epsilon": 0.1, "sizes": [4]}, "alpha and delta"),
    ],
)
def test_what_is_left_out_is_named(asked: dict[str, Any], missing: str) -> None:
    with pytest.raises(TypeError, match=f"missing {missing}\\."):
        plan(**asked)


@pytest.mark.parametrize(
    ("method", "arguments", "parameter"),
    [
        ("plan", {"epsilon": 5e-324}, ("epsilon", "alpha", "delta")),
        ("plan", {"epsilon": 1.5}, "epsilon"),
        ("plan", {"sizes": [1.5]}, "sizes"),
        ("plan", {"classes": 0}, "classes"),
        ("curve", {"parameter": "beta"}, "parameter"),
        ("curve", {"values": [1.5]}, "alpha"),
        ("affordable", {"tasks": 0, "examples_per_task": 10}, "tasks"),
        ("affordable", {"tasks": [1, 2], "examples_per_task": 5}, "tasks"),
        ("affordable", {"tasks": 10, "examples_per_task": 2.5}, "examples_per_task"),
        ("examples_for", {"tasks": 0}, "tasks"),
        ("tasks_for", {"examples_per_task": 0}, "examples_per_task"),
    ],
)
def test_bad_input_is_named(
    method: str, arguments: dict[str, Any], parameter: str | tuple[str, ...]
) -> None:
    levels = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.1}
    call: Any = plan
    if method == "plan":
        arguments = levels | arguments
    else:
        call = getattr(make_plan(**levels), method)
    with pytest.raises(InvalidInput) as caught:
        call(**arguments)
    assert caught.value.parameters == ((parameter,) if isinstance(parameter, str) else parameter)


@pytest.mark.parametrize("values", [[[0.1]], []])
def test_a_curve_takes_a_list_of_values(values: Any) -> None:
    with pytest.raises(InvalidInput, match="values"):
        make_plan(epsilon=0.1, alpha=0.1, delta=0.1).curve("alpha", values)


def test_options_are_what_each_split_makes_of_the_tasks() -> None:
    asked: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
    sizes = [200] * 60
    result = make_plan(**asked, sizes=sizes)
    assert [option.split for option in result.options] == ["joint", "tight", "even"]
    for option in result.options:
        g = Guarantee(**asked, split=option.split)
        expected = [count + 1 for count in g.allowed_low_thresholds(60) if count >= 0]
        assert option.nth_lowest == tuple(expected)
        assert option.feasible == bool(expected)
    assert result.recommended == result.options[0]
    assert str(result).endswith("Recommended for your tasks: split='joint'.")
    assert make_plan(**asked).recommended is None
    assert make_plan(**asked).options == ()
    # As in calibration: the second lowest threshold at the lowest level, or a higher one.
    assert result.options[1].nth_lowest == (allowed_errors(60, 0.095, 0.05) + 1,)


def test_levels_that_need_larger_tasks_are_not_used() -> None:
    # 10 examples at .1 certify levels from .9 ** 10 = .349 on: the last three.
    asked: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.05}
    result = make_plan(**asked, sizes=[10] * 100)
    joint, tight, even = result.options
    assert len(joint.nth_lowest) == 3
    assert joint.examples_per_task == 7
    assert not tight.feasible
    assert not even.feasible
    assert tight.examples_per_task == min_sample_size(0.1, 0.1)
    assert result.recommended == joint


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 120), min_size=1, max_size=60),
    alpha=st.sampled_from([0.05, 0.1, 0.3]),
    delta=st.sampled_from([1e-3, 0.05, 0.2, None]),
    split=st.sampled_from(["joint", "tight", 0.3]),
)
def test_the_recommended_option_works_and_none_is_hidden(
    sizes: list[int], alpha: float, delta: float | None, split: str | float
) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=delta, split=split)
    result = make_plan(epsilon=0.1, alpha=alpha, delta=delta, split=split, sizes=sizes)
    demand = Demand.from_sizes(g, sizes)
    for option in result.options:
        asked = demand.with_parameters(split=option.split, delta=option.delta)
        assert option.feasible == asked.is_feasible()
    best = result.recommended
    if best is None:
        assert not any(
            demand.with_parameters(split=x).is_feasible() for x in ("joint", "tight", "even")
        )
        assert not demand.with_parameters(delta=None).is_feasible()
    else:
        assert best.feasible
        assert str(best) in str(result)
        if best.delta is None and delta is not None:
            assert not any(
                demand.with_parameters(split=s).is_feasible() for s in ("joint", "tight", "even")
            )


def test_few_tasks_are_offered_a_guarantee_in_expectation() -> None:
    result = make_plan(epsilon=0.1, alpha=0.1, delta=0.05, sizes=[200] * 15)
    assert result.recommended is not None
    assert result.recommended.delta is None
    assert str(result).endswith(
        "split='joint', delta=None, a weaker guarantee, on average over calibrations."
    )


def test_the_rarest_class_decides() -> None:
    asked: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.3, "delta": 0.05}
    rare, common = [5] * 20 + [2] * 20, [80] * 40
    both = make_plan(**asked, sizes={"no": common, "yes": rare})
    alone = make_plan(**asked, classes=2, sizes=rare)
    assert both.classes == 2
    assert both.options == alone.options
    assert both.to_dict() == alone.to_dict()
    assert plan(sizes={"no": common, "yes": rare}) == plan(sizes=rare, classes=2)
    assert "40 tasks (80 of class 'no', 2 to 5 of class 'yes') suffice." in str(both)


def test_small_tasks_can_be_left_out_of_a_plan() -> None:
    asked: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
    sizes = [60] * 60 + [1] * 36
    lacking = make_plan(**asked, sizes=sizes)
    why = "96 tasks of 1 to 60 examples do not suffice: 36 of the 96 tasks have fewer than "
    assert why in str(lacking)
    assert lacking.to_dict()["recommended"] is None
    assert any(remedy.startswith("use min_examples=2,") for remedy in lacking.remedies())
    enough = make_plan(**asked, sizes=sizes, min_examples=2)
    assert enough.to_dict()["recommended"] == "joint"
    assert (enough.remedies(), enough.explain()) == ([], "")
    (only,) = make_plan(**asked, min_examples=50).needs
    assert only.examples_per_task == 50


def test_without_a_value_the_reason_is_said() -> None:
    rows, text = find_supported({"a": np.full(78, 90), "b": np.zeros(78, dtype=int)})
    assert {row["epsilon"] for row in rows} == {None}
    assert "too many are too small" in text
    assert "no value" not in find_supported({None: np.full(500, 90)})[1]


def test_offers_are_the_smallest_epsilon() -> None:
    sizes = [50] * 20 + [400] * 20
    result = plan(sizes=sizes)
    assert isinstance(result, list)
    assert [(o.alpha, o.delta) for o in result] == [
        (alpha, delta) for alpha in OFFERED_ALPHAS for delta in OFFERED_DELTAS
    ]
    assert OFFERED_DELTAS == (0.05, None)
    for offer in result:
        if offer.epsilon is None:
            g = Guarantee(epsilon=1 - 1e-9, alpha=offer.alpha, delta=offer.delta)
            assert not Demand.from_sizes(g, sizes).is_feasible()
            continue
        g = Guarantee(epsilon=offer.epsilon, alpha=offer.alpha, delta=offer.delta)
        demand = Demand.from_sizes(g, sizes)
        assert demand.is_feasible()
        assert not demand.with_parameters(epsilon=offer.epsilon * (1 - 1e-9)).is_feasible()
    # 40 tasks are too few at alpha = .05, delta = .05, and enough in expectation.
    assert result[0] == Offer(0.05, 0.05, None)
    assert result[1].epsilon is not None
