"""Remedies: every one that a message names is tried, and works."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metapac import Guarantee, InfeasibleGuarantee, MetaPS, planning
from metapac.sample_size import Demand

ASKED: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}


def works(g: Guarantee, sizes: Any, **changes: Any) -> bool:
    return Demand.from_sizes(g, sizes).with_parameters(**changes).is_feasible()


def numbers(pattern: str, text: str) -> list[float] | None:
    result = re.search(pattern, text)
    return None if result is None else [float(number) for number in result.groups()]


def check_counts(text: str, sizes: Any) -> int:
    """Check the counts in a message against the tasks; return the examples that each needs."""
    few = numbers(
        r"this takes (\d+) tasks? with at least (\d+) examples.*?, but there (?:are|is) "
        r"(\d+)",
        text,
    )
    if few is not None:
        needed, examples, there = few
        assert there == len(sizes)
        (smaller,) = numbers(r"(\d+) of them smaller(?:\. | \()", text) or [0]
        assert smaller == (sizes < examples).sum()
        assert there - smaller < needed  # no contradiction
        assert there < needed
        return int(examples)
    small_tasks = numbers(
        r"(\d+) of the (\d+) tasks? have fewer than (\d+) examples.*? \(the smallest has (\d+)\), "
        r"but (?:at most (\d+) may|that is too many)",
        text.replace("that is too many", "at most 0 may"),
    )
    assert small_tasks is not None, text
    small, tasks, examples, smallest, allowed = small_tasks
    assert small == (sizes < examples).sum()
    assert (tasks, smallest) == (len(sizes), sizes.min())
    assert small > allowed >= 0
    return int(examples)


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


def infeasible_cases(split: Any, count: int) -> Any:
    rng = np.random.default_rng(0)
    result = 0
    while result < count:
        g, sizes = draw_case(rng, split)
        demand = Demand.from_sizes(g, sizes)
        if demand.tasks and not demand.is_feasible():
            result += 1
            yield g, sizes, str(planning.explain_too_few_tasks([demand]))


def act(g: Guarantee, sizes: Any, text: str) -> set[str]:
    """Apply every remedy of a message; return the kinds of remedies."""
    used = sizes[sizes >= g.min_examples]
    examples = check_counts(text, used)
    acted = set()
    remedies = text.split("Options: ", 1)[1].removesuffix(".").split("; or ")
    assert remedies.pop() == "pass on_infeasible='trivial' to keep every label"
    for remedy in remedies:
        acted.add(_act(g, sizes, remedy, examples))
    return acted


def _act(g: Guarantee, sizes: Any, remedy: str, examples: int) -> str:
    one_level = len(g.levels) == 1
    enough = max(examples, g.min_examples)
    if remedy.startswith("use split="):
        split: Any = remedy.split("=")[1].split(",")[0]
        split = split.strip("'") if "'" in split else float(split)
        assert split != g.split
        assert works(g, sizes, split=split)
        return "split"
    if result := numbers(r"use min_examples=(\d+), which keeps (\d+) of the (\d+) tasks", remedy):
        minimum, remaining, tasks = result
        assert works(g, sizes, min_examples=int(minimum))
        assert (remaining, tasks) == ((sizes >= minimum).sum(), len(sizes))
        assert minimum == 0 or f"only new tasks with at least {minimum:.0f} examples" in remedy
        return "min_examples"
    if remedy.startswith("use delta=None, a weaker guarantee"):
        assert works(g, sizes, delta=None)
        return "None"
    if result := numbers(r"^add (\d+) tasks? with at least (\d+) examples each", remedy):
        assert result[1] == examples
        assert works(g, np.r_[sizes, [enough] * int(result[0])])
        if one_level:
            assert not works(g, np.r_[sizes, [10**6] * int(result[0] - 1)])
        return "add"
    sizes = sizes[sizes >= g.min_examples]
    if result := numbers(r"^increase (\d+) of the small tasks to (\d+) examples each$", remedy):
        grown = np.sort(sizes)
        grown[: int(result[0])] = np.maximum(grown[: int(result[0])], result[1])
        assert works(g, grown)
        if one_level:
            fewer = np.sort(sizes)
            fewer[: int(result[0]) - 1] = 10**6
            assert not works(g, fewer)
        return "increase"
    if result := numbers(
        r"^increase the small tasks to (\d+) examples each and add (\d+) tasks?$", remedy
    ):
        larger = np.r_[np.maximum(sizes, result[0]), [enough] * int(result[1])].astype(int)
        assert works(g, larger)
        if one_level:
            assert not works(g, larger[:-1])
        return "bring and add"
    found_value = re.match(r"^settle for (epsilon|alpha|delta)=(\S+)$", remedy)
    assert found_value, remedy
    name, value = found_value[1], float(found_value[2])
    assert getattr(g, name) < value <= 0.5
    assert works(g, sizes, **{name: value})
    if one_level:
        assert not works(g, sizes, **{name: value * 0.98})
    return name


@pytest.mark.parametrize(
    ("split", "count"), [("tight", 80), ("even", 60), (0.3, 60), ("joint", 8)], ids=str
)
def test_every_remedy_works(split: Any, count: int) -> None:
    acted: set[str] = set()
    for g, sizes, text in infeasible_cases(split, count):
        acted |= act(g, sizes, text)
    assert acted >= {"add", "increase", "alpha"}
    everything = {"split", "min_examples", "None", "bring and add", "epsilon", "delta"}
    assert acted >= everything or split == "joint"  # whose messages take longer


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
    # Sixty large tasks and twenty small ones: the message must not claim that tasks are missing.
    sizes = [200] * 60 + [10] * 20
    tasks = np.repeat(np.arange(80), sizes)
    scores = np.random.default_rng(0).normal(size=len(tasks))
    asked: dict[str, Any] = {"epsilon": 0.05, "alpha": 0.2, "delta": 0.05, "split": "tight"}
    with pytest.raises(InfeasibleGuarantee) as caught:
        MetaPS(**asked).calibrate(scores, tasks)
    assert str(caught.value) == (
        "epsilon=0.05, alpha=0.2, delta=0.05 cannot be guaranteed with split='tight': 20 of the 80 "
        "tasks have fewer than 45 examples (the smallest has 10), but at most 8 may. Options: use "
        "min_examples=11, which keeps 60 of the 80 tasks and covers only new tasks with at least "
        "11 examples; or add 77 tasks with at least 45 examples each; or increase 12 of the small "
        "tasks to 45 examples each; or settle for epsilon=0.206; or settle for alpha=0.439; or "
        "pass on_infeasible='trivial' to keep every label."
    )
    act(Guarantee(**asked), np.array(sizes), str(caught.value))
    assert MetaPS(**asked, min_examples=11).calibrate(scores, tasks).threshold_ > -math.inf


def test_a_value_that_is_shown_works_as_it_is_shown() -> None:
    # With several levels a larger alpha may be infeasible where a smaller one is not: .3926 is
    # feasible, and .393, as it would be shown, is not.
    g = Guarantee(epsilon=0.02, alpha=0.05, delta=1e-3, min_examples=30)
    text = str(planning.explain_too_few_tasks([Demand.from_sizes(g, [52] * 26)]))
    assert act(g, np.full(26, 52), text) >= {"alpha"}


def test_a_split_that_gives_the_same_guarantee_is_named_first() -> None:
    # Sixty tasks of 12 examples: too small for tight, but numerous enough for a higher level.
    g = Guarantee(epsilon=0.2, alpha=0.2, delta=0.01, split="tight")
    text = str(planning.explain_too_few_tasks([Demand.from_sizes(g, [9] * 60)]))
    assert "Options: use split='joint', which gives the same guarantee; or" in text
    assert works(g, np.full(60, 9), split="joint")


def test_a_numeric_split_is_suggested_where_joint_is_infeasible() -> None:
    # 15 examples reach level .9 ** 15 = .206; the next of the joint split is .25, at 155 tasks.
    g = Guarantee(**ASKED)
    text = str(planning.explain_too_few_tasks([Demand.from_sizes(g, [15] * 145)]))
    assert "use split=0.206, which gives the same guarantee" in text
    assert works(g, np.full(145, 15), split=0.206)
    assert "use split" not in str(
        planning.explain_too_few_tasks([Demand.from_sizes(g, [15] * 130)])
    )


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


def more_tasks(sizes: Any, count: float, examples: float) -> Any:
    return np.vstack([sizes, np.full((int(count), sizes.shape[1]), int(examples))])


@pytest.mark.parametrize(("split", "count"), [("tight", 50), ("joint", 4)], ids=str)
def test_every_remedy_for_classes_works(split: str, count: int) -> None:
    rng = np.random.default_rng(0)
    acted: set[str] = set()
    cases = 0
    while cases < count:
        g, sizes = class_case(rng, split)
        if all_work(g, sizes) or not (sizes >= g.min_examples).any(axis=0).all():
            continue
        cases += 1
        demands = demands_of(g, sizes)
        lacking = [each.label for each in demands if not each.is_feasible()]
        text = str(planning.explain_too_few_tasks(demands))
        head, ways = text.split("Options: ", 1)
        assert (
            f"for {len(lacking)} of {sizes.shape[1]} classes: class {lacking[0]} (epsilon=" in head
        )
        for label in lacking[:3]:
            (part,) = re.findall(rf"class {label} \(epsilon=[\d.]+\): (.*?)(?:; |\. $)", head)
            used = sizes[:, label][sizes[:, label] >= g.min_examples]
            check_counts(part + ". ", used)
        for remedy in ways.removesuffix(".").split("; or ")[:-1]:
            if result := numbers(r"use min_examples=(\d+), which keeps at least (\d+) of", remedy):
                assert all_work(replace(g, min_examples=int(result[0])), sizes)
                left = (sizes >= result[0]).sum(axis=0)
                assert left.min() == result[1]
                acted.add("min_examples")
            elif remedy.startswith("use split="):
                value: Any = remedy.split("=")[1].split(",")[0]
                value = value.strip("'") if "'" in value else float(value)
                assert all_work(replace(g, split=value), sizes)
                acted.add("split")
            elif remedy.startswith("use delta=None"):
                assert all_work(replace(g, delta=None), sizes)
                acted.add("None")
            elif remedy.startswith("merge "):
                named = [int(label) for label in re.findall(r"\d+", remedy.split(" and ")[0])]
                assert named == lacking[:3]
                rest = [i for i in range(sizes.shape[1]) if i not in lacking]
                merged = sizes[:, rest].copy()
                merged[:, 0] += sizes[:, lacking].sum(axis=1)
                assert all_work(g, merged)
                acted.add("merge")
            elif more := numbers(r"add (\d+) tasks? with at least (\d+) examples of each", remedy):
                assert all_work(g, more_tasks(sizes, *more))
                assert split == "joint" or not all_work(g, more_tasks(sizes, more[0] - 1, more[1]))
                acted.add("add")
            elif remedy.startswith("settle for "):
                name, value = (
                    remedy.removesuffix(" for every class").removeprefix("settle for ").split("=")
                )
                change: dict[str, Any] = {name: float(value)}
                assert all_work(replace(g, **change), sizes)
                acted.add(name)
            else:
                (label,) = lacking  # only of a single class
                part = demands[label].guarantee
                used = sizes[:, label][sizes[:, label] >= g.min_examples]
                plain = remedy.replace(f" of class {label}", "")
                (examples,) = re.findall(r"(\d+) examples", plain)
                acted.add(_act(part, used, plain, int(examples)))
    assert acted
    every = {"add", "increase", "merge", "min_examples", "None", "epsilon", "alpha", "delta"}
    assert acted >= every or split == "joint"
