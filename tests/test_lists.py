"""Finite lists: the failure probability by enumeration of all draws, the verdict, and the draw."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from metapac import (
    BadArtefact,
    Context,
    Guarantee,
    InvalidInput,
    MetaPS,
    MetaRisk,
    Monitor,
    draw_tasks,
    evaluate,
    failure_probability,
    judge,
    load,
    plan,
    plan_list,
    read_draw,
)
from metapac import verdict as module
from metapac.artefact import checksum
from metapac.planning import find_need
from metapac.ranks import (
    ONE_NEW_TASK,
    Level,
    NewTasks,
    expectation_rank,
    failure_of_ranks,
    joint_ranks,
    list_start,
)
from metapac.words import summarise_guarantee
from tests.helpers.commands import metapac
from tests.helpers.enumeration import outcomes
from tests.helpers.oracles import FALSE_ALARM, grown_union_probability
from tests.helpers.refusals import assert_refused

OF_20: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05, "new_tasks": 20}
Levels = tuple[Level, ...]


def start(tasks: int, new: NewTasks) -> list[Fraction]:
    """P(H = h), as DESIGN.md 8.1 has it, in fractions."""
    r, m = new.may_break, new.number
    ways = [math.comb(h + r, r) * math.comb(tasks - h + m - r - 1, m - r - 1)
            for h in range(tasks + 1)]  # fmt: skip
    return [Fraction(each, math.comb(tasks + m, m)) for each in ways]


def failure(tasks: int, levels: Levels, ranks: Sequence[int], new: NewTasks) -> float:
    """P(the guarantee for the list fails) in the worst case, with no code of the library."""
    shares = [1 - level.alpha_within for level in levels]
    chances = start(tasks, new)
    return sum(
        float(chance) * (1.0 if h <= max(ranks) else grown_union_probability(h, shares, ranks))
        for h, chance in enumerate(chances)
    )


def test_failures_by_enumeration_of_all_draws() -> None:
    # Task i breaks above the threshold i. At level t its own threshold is i if u > t, which has
    # probability 1 - t, and otherwise too high. All draws and all cells of the u are enumerated.
    levels, new = (Level(0.2, 1.0), Level(0.5, 1.0)), NewTasks.at_most(0.4, 3)
    tasks, delta = 5, 0.5
    assert new == (3, 1)
    ranks = joint_ranks(tasks, levels, delta, new)
    assert min(ranks) >= 0
    cells = (0.2, 0.3, 0.5)  # u <= .2, up to .5, and above
    for used in (ranks, (ranks[0] + 1, ranks[1]), (ranks[0], ranks[1] + 1)):
        fails = 0.0
        for drawn in itertools.combinations(range(tasks + new.number), tasks):
            others = [i for i in range(tasks + new.number) if i not in drawn]
            for reached in itertools.product(range(3), repeat=tasks):
                own = np.where(
                    np.array(reached)[:, None] > np.arange(2), np.array(drawn)[:, None], math.inf
                )
                found = max(np.sort(own[:, j])[rank] for j, rank in enumerate(used))
                if sum(i < found for i in others) > new.may_break:
                    fails += math.prod(cells[cell] for cell in reached)
        fails /= math.comb(tasks + new.number, tasks)
        assert fails == pytest.approx(failure(tasks, levels, used, new), rel=1e-12)
        assert failure_of_ranks(tasks, levels, used, new) == pytest.approx(fails, rel=1e-9)
        assert (fails <= delta) == (used == ranks)


@pytest.mark.parametrize("new", [NewTasks(20, 2), NewTasks(1, 0), NewTasks(7, 6), NewTasks(300, 3)])
@pytest.mark.parametrize("tasks", [1, 33, 200])
def test_where_the_chain_starts(tasks: int, new: NewTasks) -> None:
    exact = np.array([float(chance) for chance in start(tasks, new)])
    np.testing.assert_allclose(list_start(tasks, new), exact, rtol=1e-10)


CASES = [
    *((33, 20, 0.1, 0.05), (34, 10, 0.1, 0.05), (15, 20, 0.2, 0.05), (100, 5, 0.1, 0.05)),
    *((100, 20, 0.1, 0.05), (60, 60, 0.2, 0.01), (40, 3, 0.5, 0.2), (90, 400, 0.1, 0.05)),
]


@pytest.mark.parametrize(("tasks", "number", "alpha", "delta"), CASES)
@pytest.mark.parametrize("split", ["joint", "tight"])
def test_ranks_of_lists_are_valid_and_none_can_be_raised(
    tasks: int, number: int, alpha: float, delta: float, split: str
) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=delta, new_tasks=number, split=split)
    new = NewTasks(number, math.floor(Fraction(repr(alpha)) * number))
    ranks = g.allowed_low_thresholds(tasks)
    assert failure(tasks, g.levels, ranks, new) <= delta
    assert failure_probability(g, tasks) == pytest.approx(
        failure(tasks, g.levels, ranks, new), rel=1e-6, abs=1e-12
    )
    for j in {0, len(ranks) // 2, len(ranks) - 1}:
        up = [rank + (i == j) for i, rank in enumerate(ranks)]
        assert failure(tasks, g.levels, up, new) > delta * (1 - 1e-8)


@pytest.mark.parametrize(("number", "least"), [(20, 1.9), (5, 4.0)])
def test_ranks_for_a_distribution_would_fail_on_a_list(number: int, least: float) -> None:
    # The negative control: today's ranks, read for a list of 20 or of 5.
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    new = NewTasks(number, number // 10)
    ranks = g.allowed_low_thresholds(100)
    assert failure(100, g.levels, ranks, new) > least * 0.05
    assert max(replace(g, new_tasks=number).allowed_low_thresholds(100)) < max(ranks)


@pytest.mark.parametrize("tasks", [10, 20, 22, 30, 60, 100])
def test_all_levels_in_expectation_by_the_exact_sum(tasks: int) -> None:
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=None)
    ranks = g.allowed_low_thresholds(tasks)
    assert max(ranks) >= 0
    assert failure(tasks, g.levels, ranks, ONE_NEW_TASK) <= 0.1
    # The negative control: each level at the rank that it would have alone.
    full = [expectation_rank(tasks, Fraction("0.1") * (1 - Fraction(level.alpha_within)))
            for level in g.levels]  # fmt: skip
    assert tasks == 10 or failure(tasks, g.levels, full, ONE_NEW_TASK) > 0.1
    # What is allowed at a smaller alpha is a shift for free.
    free = g.free_shift(tasks)
    assert 0 <= free < 0.1
    assert failure(tasks, g.levels, ranks, ONE_NEW_TASK) <= 0.1 - free


def test_free_shifts_of_a_single_level_are_exact() -> None:
    # Rank 8 of 100 tasks is allowed while alpha (1 - .05) 101 >= 9.
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=None, split="tight")
    assert g.allowed_low_thresholds(100) == (8,)
    assert g.free_shift(100) == math.floor((0.1 - 9 / (0.95 * 101)) * 1e4) / 1e4


def test_the_least_number_of_tasks() -> None:
    levels: dict[str, Any] = {"epsilon": 0.1, "delta": 0.05}
    for alpha, new_tasks, least in ((0.1, 20, 33), (0.1, 10, 34), (0.2, 20, 15)):
        asked = Guarantee(**levels, alpha=alpha, new_tasks=new_tasks)
        assert find_need(asked, 0).tasks == least
    for listed, alpha, least in ((53, 0.1, 33), (44, 0.1, 34), (35, 0.2, 15)):
        found = plan_list(listed, **levels, alpha=alpha)
        assert found.label == least
        feasible = [
            label
            for label in range(1, listed)
            if max(
                Guarantee(alpha=alpha, new_tasks=listed - label, **levels).allowed_low_thresholds(
                    label
                )
            )
            >= 0
        ]
        assert min(feasible) == least
        # It is not monotone in the number labelled, and the text says where.
        gaps = {*range(least, listed)} - {*feasible}
        assert all(division.label in feasible for division in found.divisions)
        assert ("Not enough" in str(found)) == bool(gaps)
        for one, other in itertools.pairwise(found.divisions):
            if one.may_exceed > other.may_exceed:
                between = {*range(one.label + 1, other.label)} & gaps
                assert not between or f"{min(between)} to {max(between)}" in str(found)
    short = plan_list(20, **levels, alpha=0.1)
    assert (short.label, short.to_dict()["divisions"]) == (None, [])
    assert "too short" in str(short)
    assert_refused("listed", plan_list, 1, **levels, alpha=0.1)
    assert_refused("new_tasks delta", plan_list, 53, epsilon=0.1, alpha=0.1, delta=None)
    # What is declared counts here too, in Python and on the command line, or is refused.
    honest, other = (plan_list(53, **levels, alpha=0.3, dishonest=m).label for m in (0, 1))
    assert (other or 0) > (honest or 99)
    rule, iid = (plan_list(53, **levels, alpha=0.3, sampling=s) for s in ("any", "iid"))
    assert iid.divisions[0].examples_per_task <= rule.divisions[0].examples_per_task
    assert_refused("new_tasks shift", plan_list, 53, **levels, alpha=0.1, shift=0.02)
    assert_refused("new_tasks randomise", plan_list, 53, **levels, alpha=0.1, randomise=1)
    words = ["plan", "--list", 53, "--epsilon", 0.1, "--alpha", 0.3, "--delta", 0.05]
    assert metapac(*words, "--dishonest", 1, "--sampling", "iid").exit_code == 0
    assert "cannot be combined" in metapac(*words, "--shift", 0.02).stderr


def test_plans_for_lists_leave_out_what_cannot_be_combined() -> None:
    found = plan(epsilon=0.1, alpha=0.1, delta=0.05, new_tasks=20, sizes=[60] * 30)
    assert [*found.by_split()] == ["joint", "tight"]
    assert found.recommended is None
    assert not any("delta=None" in remedy for remedy in found.remedies())
    assert any("add 3 tasks" in remedy for remedy in found.remedies())


def test_plans_in_expectation_name_the_split_for_large_tasks() -> None:
    for size, tasks, best in ((30, 22, "joint"), (500, 22, "tight"), (500, 60, "joint")):
        found = plan(epsilon=0.1, alpha=0.1, delta=None, sizes=[size] * tasks).recommended
        assert found is not None
        assert found.split == best
    assert "choose before you look" in str(plan(epsilon=0.1, alpha=0.1, delta=None))


# The verdict on a list.


def status_chances(
    at_epsilon: int, others: list[int], examples: int, decide: Callable[[list[int]], str]
) -> dict[str, float]:
    """Return the probability of each status, by enumeration of the misses of some tasks."""
    found: dict[str, float] = defaultdict(float)
    for misses, chance in outcomes(binomial(examples), at_epsilon):
        found[decide([*misses, *others])] += chance
    return found


def binomial(examples: int) -> Any:
    return stats.binom.pmf(np.arange(examples + 1), examples, 0.3)


@pytest.mark.parametrize(("examples", "limit"), [(8, 0.05), (16, 0.2), (5, 0.3)])
def test_a_wrong_verdict_on_a_list_is_no_more_probable_than_stated(
    examples: int, limit: float
) -> None:
    # alpha .4 of 4: one may exceed. With two at epsilon, the list is as good as broken; with three
    # at epsilon and one that misses everything, it is as good as kept.
    levels: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.1}

    def decide(misses: list[int], new_tasks: int | None = 4) -> str:
        sizes = [examples] * len(misses)
        verdict = judge(sizes, misses, **levels, new_tasks=new_tasks, false_alarm=limit)
        assert (verdict.status == "holds") == (verdict.p_holds <= limit)
        assert (verdict.status == "violated") == (verdict.p_violated <= limit)
        return verdict.status

    holds = status_chances(2, [0, 0], examples, decide)["holds"]
    violated = status_chances(3, [examples], examples, decide)["violated"]
    assert max(holds, violated) <= limit
    assert max(holds, violated) > 0

    # The negative control: each task's finite sample is ignored.
    def naive(misses: list[int]) -> str:
        return "holds" if sum(count / examples > 0.3 for count in misses) <= 1 else ""

    assert status_chances(2, [0, 0], examples, naive)["holds"] > limit


def test_the_hypotheses_of_a_list_take_the_fewest_tasks() -> None:
    verdict = judge([40] * 20, [0] * 17 + [40] * 3, **OF_20)
    assert (verdict.if_broken.number, verdict.if_true.number) == (3, 18)
    assert verdict.status == "violated"
    for bad, status in ((0, "holds"), (2, "cannot tell yet"), (3, "violated")):
        found = judge([40] * 20, [0] * (20 - bad) + [40] * bad, **OF_20)
        assert found.status == status
        low, high = found.interval or (0, 1)
        assert low <= bad / 20 <= high
        assert found.more_tasks == (None if status == "cannot tell yet" else 0)
    # A list of which at most 2 of 20 may exceed is not 10% of all new tasks.
    assert judge([40] * 20, [0] * 20, epsilon=0.1, alpha=0.1, delta=0.05).status != "holds"
    assert_refused("new_tasks 21", judge, [40] * 21, [0] * 21, **OF_20)
    assert_refused("new_tasks alpha", judge, [40], [0], **{**OF_20, "alpha": None})


@pytest.mark.parametrize("missing", [1, 6, 20])
def test_a_list_of_which_some_are_missing_has_no_verdict(missing: int) -> None:
    for misses in (0, 40):
        verdict = judge([40] * (20 - missing), [misses] * (20 - missing), **OF_20)
        assert (verdict.status, verdict.missing) == ("cannot tell yet", missing)
        assert f"{missing} {'is' if missing == 1 else 'are'} missing" in str(verdict)
        assert verdict.to_dict()["missing"] == missing
        low, high = verdict.interval or (0, 1)
        assert low == 0 if not misses else high == 1


def test_levels_of_a_list_are_as_many_as_its_counts() -> None:
    assert len({len(levels) for levels in module._ALL_LEVELS}) == 3


# Calibration, files and words.

NAMES = [f"hospital {i}" for i in range(53)]


@pytest.fixture(scope="module")
def draw() -> Any:
    return draw_tasks(NAMES, 33, rng=4)


def scores_of(tasks: Sequence[Any], examples: int = 60, low: float = 0.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(len(tasks) + examples)
    return low + (1 - low) * rng.random(len(tasks) * examples), np.repeat(tasks, examples)


@pytest.fixture(scope="module")
def promise(draw: Any) -> MetaPS:
    about = Context(unit="hospital", example="patient", draw=draw)
    return MetaPS(**OF_20).calibrate(*scores_of(draw.drawn), context=about)


def test_every_sentence_names_the_number_of_tasks(promise: MetaPS) -> None:
    about = promise.context_
    texts = [promise.promise_, promise.explain(), summarise_guarantee(promise.guarantee_, about)]
    for text in texts:
        assert "all but at most 2 of the 20 other" in text
        assert "90%" not in text
        assert "same kind" not in text
        assert "i.i.d." not in text
    for text in texts[:2]:
        assert "drawn at random from a list of all 53" in text
        assert "no distribution" in text
    assert "up to 2 of the 20 may be worse" in texts[1]
    html = pytest.importorskip("metapac.report").report(promise)
    for text in ("2 of the 20 other hospitals", "2 of the 20 others", "33 of 53 were drawn"):
        assert text in html
    none = MetaPS(**{**OF_20, "new_tasks": 5}).calibrate(*scores_of([*range(100)]))
    assert "on all 5 other tasks" in none.promise_
    assert "for each single" not in none.explain()
    one = MetaPS(**{**OF_20, "new_tasks": 1}).calibrate(*scores_of([*range(60)]))
    assert "the one other of the tasks" in one.promise_


def test_clusters_and_classes_of_a_list(draw: Any) -> None:
    owners = draw_tasks([f"owner {i}" for i in range(53)], 33, rng=1)
    tasks = [f"{owner}/{i}" for owner in owners.drawn for i in range(2)]
    scores, names = scores_of(tasks)
    clusters = [name.split("/")[0] for name in names.tolist()]
    method = MetaPS(**OF_20).calibrate(
        scores, names, clusters=clusters, context=Context(draw=owners, cluster="owner")
    )
    assert "one random task of all but at most 2 of the 20 other owners" in method.promise_
    new = [f"{owner}/{i}" for owner in owners.rest for i in range(2)]
    scores, names = scores_of(new, low=0.5)
    clusters = [name.split("/")[0] for name in names.tolist()]
    found: Any = evaluate(method, scores, names, clusters=clusters)
    assert (len(found.tasks), found.verdict.status) == (20, "holds")
    labels = np.tile(["yes", "no"], 60 * 30)
    per_class = MetaPS(**OF_20, per_class=True, on_infeasible="trivial")
    both = per_class.calibrate(*scores_of([*range(60)]), labels)
    assert "for each class" in both.promise_
    assert "2 of the 20 other tasks" in both.promise_


def test_small_tasks_of_a_list_cannot_break_it(draw: Any) -> None:
    about = Context(draw=draw)
    method = MetaPS(**OF_20, min_examples=30).calibrate(*scores_of(draw.drawn), context=about)
    few, large = draw.rest[:3], draw.rest[3:]
    parts = scores_of(few, 10, 0.5), scores_of(large, 60, 0.5)
    scores, names = (np.concatenate(each) for each in zip(*parts, strict=True))
    found: Any = evaluate(method, scores, names)
    assert (found.left_out, found.verdict.tasks, found.verdict.missing) == (3, 17, 0)
    assert found.verdict.if_true.number == 15
    assert found.verdict.status == "holds"
    # Left out of the evaluation alone, they could break the guarantee unseen.
    whole = MetaPS(**OF_20).calibrate(*scores_of(draw.drawn), context=about)
    scores, names = scores - np.repeat([0.6, 0.0], [3 * 10, 17 * 60]), names
    found = evaluate(whole, scores, names, allow=["direction"])
    assert found.verdict.status != "holds"
    assert_refused("min_examples 30", evaluate, whole, scores, names, min_examples=30)


def test_a_list_is_judged_when_all_of_it_is_there(promise: MetaPS, draw: Any) -> None:
    scores, names = scores_of(draw.rest, low=0.5)
    whole: Any = evaluate(promise, scores, names)
    assert whole.verdict.status == "holds"
    worse: Any = evaluate(promise, scores - 0.6, names, allow=["direction"])
    assert worse.verdict.status == "violated"
    part: Any = evaluate(promise, scores[: 14 * 60], names[: 14 * 60])
    assert part.verdict.status == "cannot tell yet"
    assert "14 of the 20 other hospitals evaluated; 6 are missing: no verdict" in str(part)
    assert part.missing == draw.rest[14:]
    assert part.to_dict()["missing"] == [*draw.rest[14:]]
    assert_refused("tasks 'elsewhere' not on the list", evaluate, promise, scores[:60],
                   ["elsewhere"] * 60)  # fmt: skip
    unnamed = MetaPS(**OF_20).calibrate(*scores_of(draw.drawn))
    part = evaluate(unnamed, scores[60:], names[60:])
    assert part.verdict.missing == 1
    scores, names = scores_of([*map(str, range(21))], low=0.5)
    assert_refused("new_tasks 21", evaluate, unnamed, scores, names)


def test_calibration_compares_its_tasks_with_the_draw(draw: Any, promise: MetaPS) -> None:
    about, method = Context(draw=draw), MetaPS(**OF_20)
    good = scores_of(draw.drawn)
    refused: list[tuple[str, MetaPS, Any]] = [
        ("new_tasks 20 None", MetaPS(epsilon=0.1, alpha=0.1, delta=0.05), good),
        ("new_tasks 20 19", MetaPS(**{**OF_20, "new_tasks": 19}), good),
        ("draw 1 absent", method, scores_of(draw.drawn[1:])),
        ("draw 1 not drawn", method, scores_of([*draw.drawn, draw.rest[0]])),
        ("draw 1 absent 1 not drawn", method, scores_of([*draw.drawn[1:], "elsewhere"])),
    ]
    for words, one, data in refused:
        assert_refused(words, one.calibrate, *data, context=about)
    assert_refused("draw", Context, draw="draw.json")
    assert_refused("new_tasks once", promise.add, *scores_of(["late"]))
    numbers = draw_tasks(range(53), 33, rng=4)  # 7 and "7" are the same name
    texts = MetaPS(**OF_20).calibrate(
        *scores_of([*map(str, numbers.drawn)]), context=Context(draw=numbers)
    )
    assert texts.context_.draw == numbers
    with pytest.raises(InvalidInput, match="list"):
        Monitor(promise)


def test_a_promise_file_keeps_the_draw(promise: MetaPS, draw: Any, tmp_path: Path) -> None:
    path = tmp_path / "promise.json"
    promise.save(path)
    found = load(path)
    assert (found.context_.draw, found.new_tasks) == (draw, 20)
    assert found.promise_ == promise.promise_
    document = json.loads(path.read_text())
    for key, value in (("seed", 5), ("drawn", draw.rest), ("list", NAMES[1:]), ("tasks", 32)):
        forged = json.loads(path.read_text())
        forged["context"]["draw"][key] = value
        del forged["checksum"]
        forged["checksum"] = checksum(forged)
        path.write_text(json.dumps(forged))
        with pytest.raises(BadArtefact):
            load(path)
        path.write_text(json.dumps(document))


def test_risks_of_a_list() -> None:
    losses, tasks = np.tile([0.0, 0.2], 60 * 30), np.repeat(np.arange(60), 60)
    method = MetaRisk(epsilon=0.5, alpha=0.1, delta=0.05, new_tasks=20)
    found = method.calibrate(np.stack([losses, losses], axis=1), tasks, thresholds=[0.0, 1.0])
    assert "2 of the 20 other tasks" in found.promise_


# The draw.


def test_a_draw_can_be_repeated() -> None:
    # printf '%s' '4/ohio' | sha256sum, and so on: 2 of them are lowest.
    names = ["ohio", "texas", "utah", "iowa", "maine"]
    found = draw_tasks(names, 2, rng=4)
    assert draw_tasks(names[::-1], 2, rng=4).drawn == found.drawn[::-1]
    assert sorted([*found.drawn, *found.rest]) == sorted(names)
    assert found.drawn == ("texas", "utah")
    assert draw_tasks(names[::-1], 2, rng=4).list_checksum == found.list_checksum
    # LC_ALL=C sort names.txt | sha256sum
    assert found.list_checksum == (
        "sha256:84930358229650af89bd7a7a1e58dbaf3d961bab94e463e00ed9a8e9e5b42848"
    )


def test_every_task_is_as_likely_to_be_drawn() -> None:
    draws = [draw_tasks(range(5), 2, rng=seed).drawn for seed in range(2000)]
    pairs = Counter(draws)
    assert len(pairs) == 10
    assert stats.chisquare([*pairs.values()]).pvalue > FALSE_ALARM


def test_draws_in_files(tmp_path: Path) -> None:
    path = tmp_path / "draw.json"
    found = draw_tasks(["ohio", "texas", "utah"], 2, rng=1)
    found.save(path)
    assert read_draw(path) == found
    document = json.loads(path.read_text())
    assert document["algorithm"].startswith("the tasks with the lowest SHA-256")
    changes = {"seed": 2, "list": ["ohio", "texas", "iowa"], "drawn": ["ohio"], "tasks": 1}
    for key, value in changes.items():
        forged = {name: x for name, x in document.items() if name != "checksum"} | {key: value}
        forged["checksum"] = checksum(forged)
        path.write_text(json.dumps(forged))
        with pytest.raises(BadArtefact):
            read_draw(path)


BAD_LISTS: list[tuple[str, Any, Any]] = [
    ("names 'b' once", ["a", "b", "b"], {}),
    ("names blank", ["a", " ", "b"], {}),
    ("names missing", ["a", None, "b"], {}),
    ("names missing", ["a", math.nan, "b"], {}),
    ("names type", ["a", 1, "b"], {}),
    ("names list", "abc", {}),
    ("names list", {"a", "b", "c"}, {}),
    ("names list", 3, {}),
    ("names neither", [["a", "b"], ["c", "d"]], {}),
    ("task-names 'Ohio'", ["ohio", "Ohio", "utah"], {}),
    ("tasks 2", ["a", "b", "c"], {"tasks": 3}),
    ("tasks", ["a", "b", "c"], {"tasks": 0}),
    ("rng", ["a", "b", "c"], {"rng": -1}),
    ("rng", ["a", "b", "c"], {"rng": None}),
    ("rng", ["a", "b", "c"], {"rng": 1.5}),
]


@pytest.mark.parametrize(("words", "names", "changes"), BAD_LISTS)
def test_bad_lists_are_named(words: str, names: Any, changes: dict[str, Any]) -> None:
    options = {"tasks": 1, "rng": 1} | changes
    assert_refused(words, draw_tasks, names, **options)
    if "task-names" in words:
        assert draw_tasks(names, **options, allow=["task-names"]).tasks == 1
