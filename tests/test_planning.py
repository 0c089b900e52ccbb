"""Plans: the smallest numbers that are enough, and nothing less; remedies that work."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import Guarantee, MetaPS, Plan, allowed_errors, plan, planning
from tests.helpers.refusals import assert_refused

SPLITS: list[str | float] = ["joint", "tight", "even", 0.2]
small = st.floats(0.01, 0.5)


def make_plan(**asked: Any) -> Plan:
    result = plan(**asked)
    assert isinstance(result, Plan)
    return result


def supports(g: Guarantee, tasks: int, examples: int) -> bool:
    """Return whether tasks, with as many examples each, support a guarantee."""
    return planning.Demand(g, np.array([examples]), np.array([tasks])).is_feasible()


@given(epsilon=st.floats(1e-6, 0.99), delta=st.floats(1e-12, 0.99), errors=st.integers(0, 200))
def test_the_minimum_sample_size_is_minimal(epsilon: float, delta: float, errors: int) -> None:
    n = planning.min_sample_size(epsilon, delta, errors)
    assert allowed_errors(n, epsilon, delta) >= errors
    assert allowed_errors(n - 1, epsilon, delta) < errors


def test_classes_share_delta() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05, split="tight")
    demand = planning.Demand(g, np.array([60]), np.array([40]))
    both = planning.smallest([demand, demand], "delta")
    assert both == pytest.approx(2 * 0.82**40, rel=1e-9)  # alpha_across is 0.18


@settings(max_examples=60)
@given(epsilon=small, alpha=small, delta=st.one_of(st.none(), small), split=st.sampled_from(SPLITS))
def test_every_need_is_enough_and_nothing_less_is(**asked: Any) -> None:
    g, result = Guarantee(**asked), make_plan(**asked)
    assert (result.tasks, result.examples_per_task) == result.needs[0][:2]
    for need in result.needs:
        assert supports(g, need.tasks, need.examples_per_task)
        assert need.level in g.levels
    # More tasks need fewer examples each; fewer of either is infeasible.
    tasks = [need.tasks for need in result.needs]
    examples = [need.examples_per_task for need in result.needs]
    assert tasks == sorted(tasks)
    assert examples == sorted(examples, reverse=True)
    assert not supports(g, tasks[0] - 1, 10**6)
    assert not supports(g, 10**6, examples[-1] - 1)


def test_reference_numbers() -> None:
    asked: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}
    needs = [make_plan(**asked, split=split).needs[0] for split in ("tight", "even", "joint")]
    assert [(n.tasks, n.examples_per_task) for n in needs] == [(116, 29), (225, 29), (111, 44)]
    last = make_plan(**asked).needs[-1]
    assert (last.examples_per_task, last.level.alpha_within) == (1, 0.9)
    for delta, tasks in ((0.1, 23), (0.05, 29), (0.01, 45), (None, 10)):
        assert make_plan(**asked | {"delta": delta}).tasks == tasks


@settings(max_examples=60)
@given(
    epsilon=st.floats(0.05, 0.5),
    alpha=small,
    delta=st.one_of(st.none(), small),
    split=st.sampled_from(SPLITS),
    tasks=st.integers(1, 120),
    examples=st.integers(1, 60),
)
def test_one_half_of_the_data_determines_the_other(tasks: int, examples: int, **asked: Any) -> None:
    g, result, split = Guarantee(**asked), make_plan(**asked), asked["split"]
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
        # With several levels the rank of one may fall as tasks are added, so far below count some
        # numbers may be enough.
        tried = 1 if split == "joint" else 30
        assert not any(supports(g, fewer, examples) for fewer in range(1, count)[-tried:])


@settings(max_examples=30)
@given(tasks=st.integers(1, 400), examples=st.integers(1, 400), split=st.sampled_from(SPLITS))
def test_the_affordable_is_feasible_and_no_less(tasks: int, examples: int, split: Any) -> None:
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
    best = make_plan(epsilon=0.1, alpha=0.1, delta=None, split="tight").affordable(20, 100)
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
    curve.values[:] = 7  # a copy
    assert make_plan(**asked).curve(parameter).values.max() < 1


def test_what_is_left_out_is_named() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "epsilon and alpha and delta"),
        ({"epsilon": 0.1, "delta": None}, "alpha"),
        ({"epsilon": 0.1, "sizes": [4]}, "alpha and delta"),
    ]
    for asked, missing in cases:
        with pytest.raises(TypeError, match=f"missing {missing}\\."):
            plan(**asked)


LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.1}


BAD_INPUT_IS_NAMED: list[Any] = [
    ("epsilon alpha delta", "plan", {"epsilon": 5e-324}),
    ("epsilon", "plan", {"epsilon": 1.5}),
    ("sizes", "plan", {"sizes": [1.5]}),
    ("classes", "plan", {"classes": 0}),
    ("parameter", "curve", {"parameter": "beta"}),
    ("alpha", "curve", {"values": [1.5]}),
    *(("values", "curve", {"values": values}) for values in ([[0.1]], [])),
    *(("tasks", "affordable", {"tasks": n, "examples_per_task": 10}) for n in (0, [1, 2])),
    ("examples_per_task", "affordable", {"tasks": 10, "examples_per_task": 2.5}),
    ("tasks", "examples_for", {"tasks": 0}),
    ("examples_per_task", "tasks_for", {"examples_per_task": 0}),
]


def test_bad_input_is_named() -> None:
    for words, method, arguments in BAD_INPUT_IS_NAMED:
        if method == "plan":
            assert_refused(words, lambda: plan(**LEVELS | arguments))
        else:
            assert_refused(words, lambda: getattr(make_plan(**LEVELS), method)(**arguments))


def test_options_are_what_each_split_makes_of_the_tasks() -> None:
    for option in make_plan(**LEVELS, sizes=[200] * 60).options:
        ranks = Guarantee(**LEVELS, split=option.split).allowed_low_thresholds(60)
        assert option.nth_lowest == tuple(count + 1 for count in ranks if count >= 0)


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 120), min_size=1, max_size=60),
    alpha=st.sampled_from([0.05, 0.1, 0.3]),
    delta=st.sampled_from([1e-3, 0.05, 0.2, None]),
    split=st.sampled_from(["joint", "tight", 0.3]),
)
def test_the_recommended_option_works_and_none_is_hidden(sizes: list[int], **levels: Any) -> None:
    result = make_plan(epsilon=0.1, **levels, sizes=sizes)
    demand = planning.Demand.from_sizes(Guarantee(epsilon=0.1, **levels), sizes)
    for option in result.options:
        asked = demand.with_parameters(split=option.split, delta=option.delta)
        assert option.feasible == asked.is_feasible()
    splits = ("joint", "tight", "even")
    any_works = any(demand.with_parameters(split=split).is_feasible() for split in splits)
    best = result.recommended
    if best is None:
        assert not any_works
        assert not demand.with_parameters(delta=None).is_feasible()
    else:
        assert best.feasible
        assert str(best) in str(result)
        assert not any_works or best.delta == levels["delta"]


def test_offers_are_the_smallest_epsilon() -> None:
    sizes = [50] * 20 + [400] * 20
    result: Any = plan(sizes=sizes)
    expected = itertools.product(planning.OFFERED_ALPHAS, planning.OFFERED_DELTAS)
    for offer, (alpha, delta) in zip(result, expected, strict=True):
        assert (offer.alpha, offer.delta) == (alpha, delta)
        g = Guarantee(epsilon=offer.epsilon or 1 - 1e-9, alpha=alpha, delta=delta)
        demand = planning.Demand.from_sizes(g, sizes)
        assert demand.is_feasible() == (offer.epsilon is not None)
        assert not demand.with_parameters(epsilon=(offer.epsilon or 1) * (1 - 2e-5)).is_feasible()
    # 40 tasks are too few at alpha = .05, delta = .05, and enough in expectation.
    assert result[0] == planning.Offer(0.05, 0.05, None)
    assert (result[1].delta, result[1].epsilon is None) == (None, False)


# Too few tasks: what a message says is missing is missing, and every remedy in it works.


ASKED: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}


def works(g: Guarantee, sizes: Any, **changes: Any) -> bool:
    return planning.Demand.from_sizes(g, sizes).with_parameters(**changes).is_feasible()


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
    kinds: list[Any] = [
        lambda: np.full(count, rng.integers(1, 100)),
        lambda: rng.integers(1, 120, count),
        lambda: rng.choice([3, 60, 200], count),
        lambda: rng.geometric(1 / 40, count),
    ]
    return g, kinds[rng.integers(4)]()


def infeasible_cases(split: Any, count: int) -> Iterator[tuple[Guarantee, Any]]:
    rng = np.random.default_rng(0)
    while count:
        g, sizes = draw_case(rng, split)
        if (sizes >= g.min_examples).any() and not works(g, sizes):
            count -= 1
            yield g, sizes


def list_remedies(text: str) -> list[str]:
    remedies = text.split("Options: ", 1)[1].removesuffix(".").split("; or ")
    assert remedies.pop() == "pass on_infeasible='trivial' to keep every label"
    return remedies


def apply_every(g: Guarantee, sizes: Any) -> list[str]:
    """Apply every remedy of the message; return the kinds of remedies."""
    text = planning.explain_too_few_tasks([planning.Demand.from_sizes(g, sizes)])
    check_reason(g, sizes[sizes >= g.min_examples], text)
    return [apply(g, sizes, remedy) for remedy in list_remedies(text)]


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
    for g, sizes in infeasible_cases(split, count):
        applied.update(apply_every(g, sizes))
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
        assert (result.threshold_ > -math.inf) == works(g, sizes)


def test_a_remedy_is_named_where_it_works() -> None:
    cases: list[tuple[str, dict[str, Any], list[int]]] = [
        # Too small for tight, but numerous enough for a higher level.
        ("split", {"split": "tight", "epsilon": 0.2, "alpha": 0.2, "delta": 0.01}, [9] * 60),
        ("None", {"delta": 0.01}, [200] * 20),
        # .3926 is feasible, and .393, as it would be shown, is not.
        ("alpha", {"epsilon": 0.02, "alpha": 0.05, "delta": 1e-3, "min_examples": 30}, [52] * 26),
        # One more label in each task is enough; one more task would take 38.
        ("increase", {"delta": 0.05}, [43] * 29),
    ]
    for applied, changes, sizes in cases:
        assert applied in apply_every(Guarantee(**ASKED | changes), np.array(sizes))
    kinds = apply_every(Guarantee(**ASKED | changes), np.array(sizes))
    assert kinds.index("increase") < kinds.index("add")  # the cheapest first
    # Nobody is advised to fail often: delta=0.287 would be feasible.
    kinds = apply_every(Guarantee(**ASKED | {"delta": 0.05}), np.array([200] * 12))
    assert "alpha" in kinds
    assert "delta" not in kinds


def demands_of(g: Guarantee, sizes: Any) -> list[planning.Demand]:
    count = sizes.shape[1]
    return [
        planning.Demand.from_sizes(g.for_class(label, range(count)), sizes[:, label], label=label)
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
    while count:
        g = replace(draw_case(rng, split)[0], per_class=True)
        means = rng.choice([2, 30, 80, 150], int(rng.integers(2, 6)))
        sizes = rng.poisson(means, (int(rng.integers(5, 120)), len(means)))
        if all_work(g, sizes) or not (sizes >= g.min_examples).any(axis=0).all():
            continue
        count -= 1
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
                applied.add(apply(demands[label].guarantee, sizes[:, label], remedy))
            else:
                ((name, value),) = passed(remedy).items()
                change: dict[str, Any] = {name: int(value) if name == "min_examples" else value}
                assert all_work(replace(g, **change), sizes)
                applied.add("None" if value is None else name)
    every = {"add", "increase", "min_examples", "None", "epsilon", "alpha", "delta"}
    assert applied >= every or split == "joint"


@pytest.mark.parametrize("split", ["tight", "joint"])
def test_tasks_to_add_are_large_enough_for_every_class(split: str) -> None:
    # The rare class lacks tasks; the common one needs more examples than it in each.
    g = Guarantee(epsilon={0: 0.3, 1: 0.02}, alpha=0.2, delta=0.1, split=split, per_class=True)
    sizes = np.array([[1, 900]] * 30)
    text = planning.explain_too_few_tasks(demands_of(g, sizes))
    more: Any = numbers(r"add (\d+) tasks? with at least (\d+) examples of each", text)
    assert all_work(g, more_tasks(sizes, *more))
    assert more[1] > 10  # one of the rare class is enough in a task


def test_small_tasks_can_be_left_out_of_a_plan() -> None:
    asked: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
    sizes = [60] * 60 + [1] * 36
    lacking, enough = (make_plan(**asked, sizes=sizes, min_examples=n) for n in (0, 2))
    assert "96 tasks of 1 to 60 examples do not suffice: 36 of the 96 tasks have" in str(lacking)
    assert any(remedy.startswith("use min_examples=2,") for remedy in lacking.remedies())
    assert [x.to_dict()["recommended"] for x in (lacking, enough)] == [None, "joint"]
    assert (enough.remedies(), enough.explain()) == ([], "")
    (only,) = make_plan(**asked, min_examples=50).needs
    assert only.examples_per_task == 50


def test_without_a_value_the_reason_is_said() -> None:
    rows, text = planning.find_supported({"a": np.full(78, 90), "b": np.zeros(78, dtype=int)})
    assert {row["epsilon"] for row in rows} == {None}
    assert "too many are too small" in text
    assert "no value" not in planning.find_supported({None: np.full(500, 90)})[1]
