"""Too few tasks: what a message says is missing is missing, and every remedy in it works."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metapac import Guarantee, InfeasibleGuarantee, MetaPS, planning
from metapac.planning import Demand
from tests.helpers.plans import supports

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
        # 15 examples reach level .9 ** 15 = .206; the next of the joint split is .25, at 155 tasks.
        ({}, [15] * 145, "split"),
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


def test_the_first_remedy_keeps_the_guarantee() -> None:
    assert passed(list_remedies(explain(Guarantee(**ASKED), [15] * 145))[0]) == {"split": 0.206}
    assert "use split" not in explain(Guarantee(**ASKED), [15] * 130)


@pytest.mark.parametrize(
    ("tasks", "changes", "facts"),
    [
        (1, {"split": "tight"}, ["takes 116 tasks", "there is 1 task.", "add 115 tasks"]),
        (1, {"min_examples": 60}, ["there are 0 tasks", "1 more", "min_examples=60", "add 111 "]),
        (3, {}, ["epsilon=0.1, alpha=0.1, delta=1e-05", "split='joint'", "there are 3 tasks"]),
    ],
)
def test_what_is_asked_and_what_is_there_are_named(
    tasks: int, changes: dict[str, Any], facts: list[str]
) -> None:
    with pytest.raises(InfeasibleGuarantee) as caught:
        MetaPS(**ASKED, **changes).calibrate([0.5] * 50 * tasks, np.repeat(np.arange(tasks), 50))
    assert [fact for fact in facts if fact not in str(caught.value)] == []


@pytest.mark.parametrize("n", [1, 5, 28])
def test_examples_of_one_distribution(n: int) -> None:
    text = planning.explain_too_few_examples(0.1, 0.05, n)
    facts = ["epsilon=0.1, delta=0.05", "takes 29 examples", f"are {n}.", f"add {29 - n} example"]
    assert [fact for fact in facts if fact not in text] == []


def test_the_cheapest_labels_are_advised_first() -> None:
    # One more label in each task is enough; 76 tasks of 44 examples would take 2,888.
    text = explain(Guarantee(epsilon=0.1, alpha=0.1, delta=0.05), [6] * 78)
    assert "78 of the 78 tasks have fewer than 7 examples, and at most 0 may" in text
    assert list_remedies(text)[0] == "increase 78 of the small tasks to 7 examples each"


def test_nobody_is_advised_to_fail_often() -> None:
    text = explain(Guarantee(epsilon=0.1, alpha=0.1, delta=0.05), [200] * 12)
    assert "settle for alpha=0.224" in text
    assert "settle for delta" not in text  # 0.287 would be feasible


def test_levels_are_shown_without_the_errors_of_arithmetic() -> None:
    text = explain(Guarantee(epsilon=0.1 + 0.2, alpha=0.1, delta=1e-5), [15])
    assert text.startswith("epsilon=0.3, ")


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
