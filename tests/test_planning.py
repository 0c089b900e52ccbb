"""Plans: the smallest numbers that are enough, and nothing less; remedies that work."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import (
    Guarantee,
    InfeasibleGuarantee,
    InvalidInput,
    MetaPS,
    allowed_errors,
    plan,
    planning,
)
from metapac.planning import (
    OFFERED_ALPHAS,
    OFFERED_DELTAS,
    Demand,
    Offer,
    find_supported,
    min_sample_size,
    smallest,
)
from tests.helpers.plans import make_plan, supports
from tests.helpers.refusals import assert_refused

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


def test_reference_numbers() -> None:
    tight = make_plan(epsilon=0.1, alpha=0.1, delta=1e-5, split="tight")
    even = make_plan(epsilon=0.1, alpha=0.1, delta=1e-5, split="even")
    assert (tight.tasks, even.tasks) == (116, 225)
    assert tight.examples_per_task == even.examples_per_task == 29
    assert "116 tasks with at least 29 labelled examples each (3364 labels in total)" in str(tight)
    joint = make_plan(epsilon=0.1, alpha=0.1, delta=1e-5)
    assert (joint.tasks, joint.examples_per_task, joint.labels) == (111, 44, 111 * 44)
    assert (joint.needs[-1].examples_per_task, joint.needs[-1].level.alpha_within) == (7, 0.5)
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


def test_with_several_classes_each_has_its_share() -> None:
    asked = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
    five = make_plan(**asked, classes=5)
    assert five.needs == make_plan(**asked | {"delta": 0.01}).needs
    assert (five.classes, five.asked.delta, five.guarantee.delta) == (5, 0.05, 0.01)
    assert f"of each of 5 classes ({five.labels} labels in total)" in str(five)
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


LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.1}


@pytest.mark.parametrize(
    ("words", "method", "arguments"),
    [
        ("epsilon alpha delta", "plan", {"epsilon": 5e-324}),
        ("epsilon", "plan", {"epsilon": 1.5}),
        ("sizes", "plan", {"sizes": [1.5]}),
        ("classes", "plan", {"classes": 0}),
        ("parameter", "curve", {"parameter": "beta"}),
        ("alpha", "curve", {"values": [1.5]}),
        ("values", "curve", {"values": [[0.1]]}),
        ("values", "curve", {"values": []}),
        ("tasks", "affordable", {"tasks": 0, "examples_per_task": 10}),
        ("tasks", "affordable", {"tasks": [1, 2], "examples_per_task": 5}),
        ("examples_per_task", "affordable", {"tasks": 10, "examples_per_task": 2.5}),
        ("tasks", "examples_for", {"tasks": 0}),
        ("examples_per_task", "tasks_for", {"examples_per_task": 0}),
    ],
)
def test_bad_input_is_named(words: str, method: str, arguments: dict[str, Any]) -> None:
    if method == "plan":
        assert_refused(words, lambda: plan(**LEVELS | arguments))
    else:
        assert_refused(words, lambda: getattr(make_plan(**LEVELS), method)(**arguments))


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


# Too few tasks: what a message says is missing is missing, and every remedy in it works.


ASKED: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}


def explain(g: Guarantee, sizes: Any) -> str:
    return planning.explain_too_few_tasks([Demand.from_sizes(g, sizes)])


def works(g: Guarantee, sizes: Any, **changes: Any) -> bool:
    return Demand.from_sizes(g, sizes).with_parameters(**changes).is_feasible()


def numbers(pattern: str, text: str) -> list[int] | None:
    result = re.search(pattern, text)
    return None if result is None else [int(number) for number in result.groups()]


def passed(remedy: str) -> dict[str, Any]:
    """Return the argument that a remedy names, as one passes it."""
    name, value = re.search(r"(\w+)=('?[\w.-]+'?)", remedy).groups()  # type: ignore[union-attr]
    return {name: None if value == "None" else value.strip("'") if "'" in value else float(value)}


def check_reason(g: Guarantee, sizes: Any, text: str) -> None:
    """Check what a message says of the tasks; ``text`` is about one guarantee."""
    is_minimal = len(g.levels) == 1
    counts = r"(\d+) of the (\d+) tasks? have fewer than (\d+) examples.*?, "
    if limit := numbers(counts + r"and at most (\d+) may", text):
        small, tasks, examples, may_stay = limit
        assert (small, tasks) == ((sizes < examples).sum(), len(sizes))
        larger, huge = np.sort(sizes), np.sort(sizes)
        larger[may_stay:] = np.maximum(larger[may_stay:], examples)
        huge[may_stay + 1 :] = 10**6
        assert works(g, larger)
        assert not is_minimal or not works(g, huge)
        return
    smaller = numbers(r"but there (?:is|are) \d+ tasks?, (\d+) of them smaller", text) or [0]
    needed, examples, tasks = (
        numbers(r"takes (\d+) tasks? with at least (\d+) ex.*? but there (?:is|are) (\d+)", text)
        or [0] * 3
    )
    assert smaller == [(sizes < examples).sum()]
    assert tasks == len(sizes)
    assert supports(g, needed, examples)
    if is_minimal:
        assert not supports(g, needed - 1, 10**6)
        assert not supports(g, 10**6, examples - 1)


def draw_case(rng: np.random.Generator, split: Any) -> tuple[Guarantee, Any]:
    """Return a guarantee and the sizes of some tasks, often too few or too small for it."""
    g = Guarantee(
        epsilon=float(rng.choice([0.02, 0.05, 0.1, 0.2, 0.35])),
        alpha=float(rng.choice([0.05, 0.1, 0.2, 0.4])),
        delta=None if rng.random() < 0.2 else float(rng.choice([1e-5, 1e-3, 0.05, 0.2])),
        split=split,
        min_examples=int(rng.choice([0, 0, 0, 5, 30])),
    )
    count = int(rng.integers(1, 150))
    kind = rng.integers(4)
    if kind == 0:
        sizes = np.full(count, rng.integers(1, 100))
    elif kind == 1:
        sizes = rng.integers(1, 120, count)
    elif kind == 2:
        sizes = rng.choice([3, 60, 200], count)
    else:
        sizes = rng.geometric(1 / 40, count)
    return g, sizes


def infeasible_cases(split: Any, count: int) -> Iterator[tuple[Guarantee, Any, str]]:
    rng = np.random.default_rng(0)
    result = 0
    while result < count:
        g, sizes = draw_case(rng, split)
        demand = Demand.from_sizes(g, sizes)
        if demand.tasks and not demand.is_feasible():
            result += 1
            yield g, sizes, planning.explain_too_few_tasks([demand])


def list_remedies(text: str) -> list[str]:
    remedies = text.split("Options: ", 1)[1].removesuffix(".").split("; or ")
    assert remedies.pop() == "pass on_infeasible='trivial' to keep every label"
    return remedies


def apply_all(g: Guarantee, sizes: Any, text: str) -> set[str]:
    """Apply every remedy of a message; return the kinds of remedies."""
    check_reason(g, sizes[sizes >= g.min_examples], text)
    return {apply(g, sizes, remedy) for remedy in list_remedies(text)}


def apply(g: Guarantee, sizes: Any, remedy: str) -> str:
    is_minimal = len(g.levels) == 1
    used = sizes[sizes >= g.min_examples]
    if added := numbers(r"^add (\d+) tasks? with at least (\d+) examples", remedy):
        count, examples = added
        assert works(g, np.r_[used, [examples] * count])
        if is_minimal:
            assert not works(g, np.r_[used, [10**6] * (count - 1)])
            assert not works(g, np.r_[used, [examples - 1] * count])
        return "add"
    if grown := numbers(
        r"^increase (\d+) of the small tasks to (\d+) examples(?: of class \d+)? each$", remedy
    ):
        count, examples = grown
        larger, fewer = np.sort(used), np.sort(used)
        larger[:count] = np.maximum(larger[:count], examples)
        fewer[: count - 1] = 10**6
        assert works(g, larger)
        assert not is_minimal or not works(g, fewer)
        return "increase"
    ((name, value),) = passed(remedy).items()
    assert works(g, sizes, **{name: int(value) if name == "min_examples" else value})
    if name == "min_examples":
        assert f"keeps {(sizes >= value).sum()} task" in remedy
        assert "only new tasks" in remedy
    elif value is None:
        assert "weaker" in remedy
    elif name == "split":
        assert value != g.split
    else:
        assert getattr(g, name) < value <= 0.5
        assert not is_minimal or not works(g, sizes, **{name: value * 0.98})
    return "None" if value is None else name


@pytest.mark.parametrize(
    ("split", "count"), [("tight", 80), ("even", 60), (0.3, 60), ("joint", 8)], ids=str
)
def test_every_remedy_works(split: Any, count: int) -> None:
    applied: set[str] = set()
    for g, sizes, text in infeasible_cases(split, count):
        applied |= apply_all(g, sizes, text)
    assert applied >= {"add", "increase", "alpha"}
    everything = {"split", "min_examples", "None", "epsilon", "delta"}
    assert applied >= everything or split == "joint"  # whose messages take longer


@pytest.mark.parametrize("split", ["joint", "tight"])
def test_calibration_raises_where_it_is_infeasible_and_only_there(split: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        g, sizes = draw_case(rng, split)
        asked = {name: getattr(g, name) for name in ("epsilon", "alpha", "delta", "min_examples")}
        scores, tasks = rng.normal(size=sizes.sum()), np.repeat(np.arange(len(sizes)), sizes)
        result = MetaPS(**asked, split=split, on_infeasible="trivial").calibrate(scores, tasks)
        assert (result.threshold_ > -math.inf) == Demand.from_sizes(g, sizes).is_feasible()


def test_many_small_tasks_among_enough_large_ones() -> None:
    # Sixty large tasks and twenty small ones: large tasks alone would be enough.
    sizes = np.array([200] * 60 + [10] * 20)
    tasks = np.repeat(np.arange(80), sizes)
    scores = np.random.default_rng(0).normal(size=len(tasks))
    asked: dict[str, Any] = {"epsilon": 0.05, "alpha": 0.2, "delta": 0.05, "split": "tight"}
    with pytest.raises(InfeasibleGuarantee, match="20 of the 80 tasks .*, and at most 8 may") as e:
        MetaPS(**asked).calibrate(scores, tasks)
    expected = {"min_examples", "add", "increase", "epsilon", "alpha"}
    assert apply_all(Guarantee(**asked), sizes, str(e.value)) == expected
    assert MetaPS(**asked, min_examples=11).calibrate(scores, tasks).threshold_ > -math.inf


@pytest.mark.parametrize(
    ("changes", "sizes", "applied"),
    [
        # Too small for tight, but numerous enough for a higher level.
        ({"split": "tight", "epsilon": 0.2, "alpha": 0.2, "delta": 0.01}, [9] * 60, "split"),
        ({"delta": 0.01}, [200] * 20, "None"),
        # .3926 is feasible, and .393, as it would be shown, is not.
        (
            {"epsilon": 0.02, "alpha": 0.05, "delta": 1e-3, "min_examples": 30},
            [52] * 26,
            "alpha",
        ),
    ],
)
def test_a_remedy_is_named_where_it_works(
    changes: dict[str, Any], sizes: list[int], applied: str
) -> None:
    g = Guarantee(**ASKED | changes)
    assert applied in apply_all(g, np.array(sizes), explain(g, sizes))


def class_case(rng: np.random.Generator, split: Any) -> tuple[Guarantee, Any]:
    classes = int(rng.integers(2, 6))
    g = Guarantee(
        epsilon=float(rng.choice([0.05, 0.1, 0.3])),
        alpha=float(rng.choice([0.1, 0.3])),
        delta=None if rng.random() < 0.2 else float(rng.choice([1e-3, 0.05])),
        split=split,
        per_class=True,
        min_examples=int(rng.choice([0, 0, 4])),
    )
    means = rng.choice([2, 30, 80, 150], classes)
    return g, rng.poisson(means, (int(rng.integers(5, 120)), classes))


def demands_of(g: Guarantee, sizes: Any) -> list[Demand]:
    count = sizes.shape[1]
    return [
        Demand.from_sizes(g.for_class(label, range(count)), sizes[:, label], label=label)
        for label in range(count)
    ]


def all_work(g: Guarantee, sizes: Any) -> bool:
    return all(each.is_feasible() for each in demands_of(g, sizes))


def more_tasks(sizes: Any, count: int, examples: int) -> Any:
    return np.vstack([sizes, np.full((count, sizes.shape[1]), examples)])


@pytest.mark.parametrize(("split", "count"), [("tight", 50), ("joint", 4)], ids=str)
def test_every_remedy_for_classes_works(split: str, count: int) -> None:
    rng = np.random.default_rng(0)
    applied: set[str] = set()
    cases = 0
    while cases < count:
        g, sizes = class_case(rng, split)
        if all_work(g, sizes) or not (sizes >= g.min_examples).any(axis=0).all():
            continue
        cases += 1
        demands = demands_of(g, sizes)
        lacking = [each.label for each in demands if not each.is_feasible()]
        text = planning.explain_too_few_tasks(demands)
        head = text.split(" Options: ", 1)[0]
        assert f"alpha={g.alpha}, delta={g.delta} " in head  # of all classes
        assert f"{len(lacking)} of {sizes.shape[1]} classes" in head
        assert len(lacking) <= 3 or f"and {len(lacking) - 3} more." in head
        for label in lacking[:3]:
            (part,) = re.findall(rf"class {label} \(epsilon=[\d.]+\): (.*?)(?:; |\.$)", head)
            used = sizes[:, label][sizes[:, label] >= g.min_examples]
            check_reason(demands[label].guarantee, used, part)
        for remedy in list_remedies(text):
            if more := numbers(r"add (\d+) tasks? with at least (\d+) examples of each", remedy):
                assert all_work(g, more_tasks(sizes, *more))
                assert split == "joint" or not all_work(g, more_tasks(sizes, more[0] - 1, more[1]))
                applied.add("add")
            elif remedy.startswith("increase"):
                (label,) = lacking  # only of a single class
                part = demands[label].guarantee
                applied.add(apply(part, sizes[:, label], remedy))
            else:
                ((name, value),) = passed(remedy).items()
                change: dict[str, Any] = {name: int(value) if name == "min_examples" else value}
                assert all_work(replace(g, **change), sizes)
                applied.add("None" if value is None else name)
    assert applied
    every = {"add", "increase", "min_examples", "None", "epsilon", "alpha", "delta"}
    assert applied >= every or split == "joint"


@pytest.mark.parametrize("split", ["tight", "joint"])
def test_tasks_to_add_are_large_enough_for_every_class(split: str) -> None:
    # The rare class lacks tasks; the common one needs more examples than it in each.
    g = Guarantee(epsilon={0: 0.3, 1: 0.02}, alpha=0.2, delta=0.1, split=split, per_class=True)
    sizes = np.array([[1, 900]] * 30)
    text = planning.explain_too_few_tasks(demands_of(g, sizes))
    more = numbers(r"add (\d+) tasks? with at least (\d+) examples of each", text)
    assert more is not None
    assert all_work(g, more_tasks(sizes, *more))
    assert more[1] > 30


def test_the_cheapest_labels_are_advised_first() -> None:
    # One more label in each task is enough; 76 tasks of 44 examples would take 2,888.
    text = explain(Guarantee(epsilon=0.1, alpha=0.1, delta=0.05), [6] * 78)
    assert "78 of the 78 tasks have fewer than 7 examples, and at most 0 may" in text
    assert list_remedies(text)[0] == "increase 78 of the small tasks to 7 examples each"


def test_nobody_is_advised_to_fail_often() -> None:
    text = explain(Guarantee(epsilon=0.1, alpha=0.1, delta=0.05), [200] * 12)
    assert "settle for alpha=0.224" in text
    assert "settle for delta" not in text  # 0.287 would be feasible


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
