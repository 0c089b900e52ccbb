"""The verdict: p-values and errors by enumeration, its power, and what its sentences say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from metapac import InvalidInput, judge
from metapac import verdict as module
from metapac.guarantee import JOINT_LEVELS
from metapac.verdict import Trials, clopper_pearson_interval, judge_classes, p_value
from tests.helpers.enumeration import outcomes

OPTIONS: dict[str, Any] = {"epsilon": 0.05, "alpha": 0.1, "delta": 0.05}


def test_intervals_are_those_of_clopper_and_pearson() -> None:
    low, high = clopper_pearson_interval([0, 3, 10, 0], [10, 10, 10, 0])
    for i, missed in enumerate((0, 3, 10)):
        ends = stats.binomtest(missed, 10).proportion_ci(method="exact")
        assert (low[i], high[i]) == pytest.approx((ends.low, ends.high))
    assert (low[3], high[3]) == (0, 1)


def count_vectors(tasks: int, share: float) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield the numbers of tasks counted at each level, in the worst case, with their chance."""
    shares = share * (1 - np.array(JOINT_LEVELS))
    cells = np.append(1 - shares[0], -np.diff(shares, append=0.0))
    for kinds, chance in outcomes(cells, tasks):
        reached = np.bincount(kinds, minlength=len(cells))
        yield tuple((tasks - np.cumsum(reached)[:-1]).tolist()), chance


@pytest.mark.parametrize(("tasks", "share"), [(1, 0.3), (3, 0.1), (4, 0.5), (4, 0.9)])
def test_p_values_are_exact(tasks: int, share: float) -> None:
    found = [
        (p_value(Trials(tasks, share, counts)), chance)
        for counts, chance in count_vectors(tasks, share)
    ]
    assert sum(chance for _value, chance in found) == pytest.approx(1)
    for value in {value for value, _chance in found}:
        attained = sum(chance for other, chance in found if other <= value * (1 + 1e-8))
        assert attained == pytest.approx(value, rel=1e-8)


def test_many_tasks_divide_the_error_equally(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = tuple(range(30, 30 - len(JOINT_LEVELS), -1))
    exact = p_value(Trials(500, 0.1, counts))
    monkeypatch.setattr(module, "_MAX_TASKS", 499)
    assert exact < p_value(Trials(500, 0.1, counts)) <= len(JOINT_LEVELS) * exact


def test_further_tasks_never_count_as_better_than_these() -> None:
    sizes, missed = [200] * 7, [4, 4, 4, 4, 25, 25, 10]
    verdict = judge(sizes, missed, **OPTIONS)
    for n in range(8, 40):
        more = verdict._scale(n)
        for name in ("if_broken", "if_true"):
            pairs = zip(getattr(verdict, name).counts, getattr(more, name).counts, strict=True)
            assert all(0 <= 7 * b - n * a < 7 for a, b in pairs)
    most = judge(sizes * 3, missed * 3, **OPTIONS)
    assert replace(verdict._scale(21), within=most.within, flagged=most.flagged) == most


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        ("holds", [(0.5, 8, 0.3), (0.5, 2, 0.0)]),
        ("holds", [(0.5, 3, 0.3), (0.5, 8, 0.0)]),
        ("violated", [(0.5, 3, 0.3), (0.5, 6, 1.0)]),
        ("violated", [(0.5, 6, 0.3), (0.5, 2, 1.0)]),
    ],
)
def test_p_values_are_valid_if_sizes_depend_on_the_miss_rate(
    status: str, kinds: list[tuple[float, int, float]]
) -> None:
    # Half of the tasks miss at a rate of exactly epsilon, the boundary of both hypotheses. All
    # multisets of three tasks are enumerated; nothing is sampled.
    outcomes: dict[tuple[int, int], float] = {}
    for share, size, rate in kinds:
        for missed in range(size + 1):
            chance = share * stats.binom.pmf(missed, size, rate)
            outcomes[size, missed] = outcomes.get((size, missed), 0) + chance
    probability: dict[float, float] = {}
    for drawn in combinations_with_replacement(outcomes, 3):
        sizes, missed_ = zip(*drawn, strict=True)
        verdict = judge(sizes, missed_, epsilon=0.3, alpha=0.5, delta=0.1)
        p_value = verdict.p_holds if status == "holds" else verdict.p_violated
        ways = factorial(3) / prod(map(factorial, Counter(drawn).values()))
        chance = ways * prod(outcomes[outcome] for outcome in drawn)
        probability[p_value] = probability.get(p_value, 0) + chance
    total = np.cumsum([probability[p] for p in sorted(probability)])
    assert total[-1] == pytest.approx(1)
    assert all(total <= np.array(sorted(probability)) * (1 + 1e-9))
    assert min(probability) < 0.2  # small p-values occur, so the bound says something


def wrong(
    examples: int,
    tasks: int,
    alpha: float,
    *,
    at_epsilon: NDArray[np.float64],
    wrong_status: str,
    decide: Callable[[list[int]], str],
) -> float:
    """Return the probability of a wrong status in the worst case, by enumeration.

    Tasks have a miss rate of epsilon, which is within and as good as above; the others miss
    everything if the status would be wrong to say "violated", and nothing otherwise.
    """
    others = np.zeros(examples + 1)
    others[examples if wrong_status == "violated" else 0] = 1
    share = alpha if wrong_status == "violated" else 1 - alpha
    mixed = share * others + (1 - share) * at_epsilon
    return sum(
        chance for misses, chance in outcomes(mixed, tasks) if decide(misses) == wrong_status
    )


def binomial(examples: int, epsilon: float) -> NDArray[np.float64]:
    return np.asarray(stats.binom.pmf(np.arange(examples + 1), examples, epsilon))


CASES = [
    (8, 4, 0.1, 0.1, 0.05),
    (3, 6, 0.5, 0.5, 0.1),
    (5, 5, 0.25, 0.6, 0.2),
    (6, 4, 0.4, 0.3, 0.3),
]


@pytest.mark.parametrize("status", ["holds", "violated"])
@pytest.mark.parametrize(("examples", "tasks", "epsilon", "alpha", "limit"), CASES)
def test_a_wrong_status_is_no_more_probable_than_stated(
    status: str, examples: int, tasks: int, epsilon: float, alpha: float, limit: float
) -> None:
    def decide(misses: list[int]) -> str:
        options = {"epsilon": epsilon, "alpha": alpha, "delta": 0.1, "false_alarm": limit}
        return judge([examples] * tasks, misses, **options).status

    at_epsilon = binomial(examples, epsilon)
    size = wrong(examples, tasks, alpha, at_epsilon=at_epsilon, wrong_status=status, decide=decide)
    assert size <= limit


@pytest.mark.parametrize("status", ["holds", "violated"])
def test_examples_of_a_task_need_not_be_identically_distributed(status: str) -> None:
    # Half of the examples of a task are missed with probability 1/2, the others never.
    at_epsilon = np.append(binomial(4, 0.5), np.zeros(4))

    def decide(misses: list[int]) -> str:
        options = {"epsilon": 0.25, "alpha": 0.5, "delta": 0.1, "false_alarm": 0.2}
        return judge([8] * 4, misses, **options).status

    assert wrong(8, 4, 0.5, at_epsilon=at_epsilon, wrong_status=status, decide=decide) <= 0.2


def test_the_rank_within_a_task_is_that_of_calibration() -> None:
    # With its cap for balanced tasks, which takes effect here: 2 misses of 5 are 0.4 < epsilon.
    for missed, counted in ((1, 0), (2, 1)):
        verdict = judge([5], [missed], epsilon=0.5, alpha=0.1, delta=0.1)
        assert verdict.if_broken.counts[-1] == counted


def test_counting_measured_rates_above_epsilon_would_be_wrong_far_too_often() -> None:
    # The negative control: each task's finite sample is ignored.
    def naive(misses: list[int]) -> str:
        above = sum(count / 8 > 0.1 for count in misses)
        return "violated" if stats.binom.sf(above - 1, 4, 0.1) <= 0.05 else "cannot tell yet"

    size = wrong(8, 4, 0.1, at_epsilon=binomial(8, 0.1), wrong_status="violated", decide=naive)
    assert size > 0.3


tasks_strategy = st.lists(
    st.integers(0, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    min_size=1,
    max_size=40,
)
rate = st.floats(0.01, 0.6)


@settings(max_examples=60, deadline=None)
@given(data=tasks_strategy, epsilon=rate, alpha=rate, which=st.integers(0, 39))
def test_a_further_miss_never_speaks_for_the_guarantee(
    data: list[tuple[int, int]], epsilon: float, alpha: float, which: int
) -> None:
    examples, missed = (np.array(column) for column in zip(*data, strict=True))
    more = missed.copy()
    index = which % len(data)
    more[index] = min(more[index] + 1, examples[index])
    options: dict[str, Any] = {"epsilon": epsilon, "alpha": alpha, "delta": 0.1}
    before, after = judge(examples, missed, **options), judge(examples, more, **options)
    assert after.p_holds >= before.p_holds * (1 - 1e-6)
    assert after.p_violated <= before.p_violated * (1 + 1e-6)


@settings(max_examples=60, deadline=None)
@given(data=tasks_strategy, epsilon=rate, alpha=rate)
def test_the_two_verdicts_exclude_each_other(
    data: list[tuple[int, int]], epsilon: float, alpha: float
) -> None:
    examples, missed = zip(*data, strict=True)
    verdict = judge(examples, missed, epsilon=epsilon, alpha=alpha, delta=None, false_alarm=0.49)
    assert max(verdict.p_holds, verdict.p_violated) > 0.49
    low, high = verdict.interval or (0, 1)
    assert low <= high


def test_no_test_could_do_with_fewer_good_tasks() -> None:
    # Without any bad task among n, a share of alpha is ruled out only if (1 - alpha)**n <= 0.05.
    statuses = {n: judge([500] * n, [5] * n, **OPTIONS).status for n in (28, 29)}
    assert statuses == {28: "cannot tell yet", 29: "holds"}


def test_two_tasks_that_miss_everything_break_the_guarantee() -> None:
    assert judge([500], [500], **OPTIONS).status == "cannot tell yet"  # one in ten may
    assert judge([500] * 2, [500] * 2, **OPTIONS).status == "violated"


def test_the_status_follows_the_p_values() -> None:
    rng = np.random.default_rng(0)
    for tasks in (5, 30, 60):
        missed = rng.binomial(200, rng.uniform(0, 0.1, tasks))
        for limit in (0.01, 0.05, 0.2):
            verdict = judge([200] * tasks, missed, **OPTIONS, false_alarm=limit)
            holds, violated = verdict.p_holds <= limit, verdict.p_violated <= limit
            expected = "holds" if holds else "violated" if violated else "cannot tell yet"
            assert verdict.status == expected


@pytest.mark.parametrize(("missed", "settled"), [(4, "holds"), (18, "violated")])
def test_more_tasks_settle_it_and_one_fewer_does_not(missed: int, settled: str) -> None:
    tasks = 10 if settled == "holds" else 1
    more = judge([200] * tasks, [missed] * tasks, **OPTIONS).more_tasks
    assert more is not None
    enough, short = (
        judge([200] * n, [missed] * n, **OPTIONS) for n in (tasks + more, tasks + more - 1)
    )
    assert (enough.status, short.status) == (settled, "cannot tell yet")
    assert enough.more_tasks == 0


def test_the_share_of_bad_tasks_is_between_its_bounds() -> None:
    verdict = judge([1000] * 50, [10] * 30 + [200] * 20, **OPTIONS)
    assert (verdict.within, verdict.flagged) == (30, 20)
    low, high = verdict.interval or (0, 1)
    one_sided = stats.beta.ppf([0.05, 0.95], [20, 21], [31, 30])  # if tasks were known exactly
    assert one_sided[0] - 0.05 <= low <= one_sided[0]
    assert one_sided[1] <= high <= one_sided[1] + 0.05
    assert judge([1000] * 50, [10] * 50, **OPTIONS).interval == (
        0,
        0.06,
    )  # 0.94**50 < 0.05 < 0.95**50


@pytest.mark.parametrize("missed", [30, 50, 70])
def test_a_guarantee_for_examples_is_an_exact_binomial_test(missed: int) -> None:
    verdict = judge([500, 500], [missed, 0], epsilon=0.05, alpha=None, delta=0.1)
    tests = [stats.binomtest(missed, 1000, 0.05, alternative=a) for a in ("less", "greater")]
    assert verdict.p_holds == pytest.approx(tests[0].pvalue)
    assert verdict.p_violated == pytest.approx(tests[1].pvalue)
    expected = {30: "holds", 50: "cannot tell yet", 70: "violated"}[missed]
    assert verdict.status == expected
    ends = verdict.interval or (0, 1)
    assert ends[0] < missed / 1000 < ends[1]
    assert "1,000 examples" in str(verdict) or verdict.status == "cannot tell yet"


def test_every_class_is_judged_at_its_share() -> None:
    good, bad = ([400] * 60, [8] * 60), ([40] * 60, [40] * 60)
    options: dict[str, Any] = {"alpha": 0.1, "delta": 0.05, "false_alarm": 0.06}
    epsilon = {"no": 0.05, "yes": 0.2, "maybe": 0.05}
    verdict = judge_classes(
        {"no": good, "yes": bad, "maybe": ([0] * 60, [0] * 60)}, epsilon=epsilon, **options
    )
    assert verdict.by_class is not None
    statuses = {label: part.status for label, part in verdict.by_class.items()}
    assert statuses == {"no": "holds", "yes": "violated", "maybe": "cannot tell yet"}
    shares = [part.false_alarm for part in verdict.by_class.values()]
    assert shares == [pytest.approx(0.02)] * 3
    assert sum(shares) <= 0.06
    assert (verdict.status, verdict.tasks, verdict.flagged) == ("violated", 60, 60)
    assert verdict.p_violated == pytest.approx(3 * verdict.by_class["yes"].p_violated)
    assert (verdict.p_holds, verdict.interval, verdict.more_tasks) == (1, None, None)
    for label, pair in (("no", good), ("yes", bad)):
        alone = judge(*pair, epsilon=epsilon[label], alpha=0.1, delta=0.05, false_alarm=0.02)
        assert alone.p_violated == verdict.by_class[label].p_violated
    unknown = judge_classes({"no": good, "yes": ([0], [0])}, epsilon=0.05, **options)
    assert unknown.status == "cannot tell yet"


GOOD, WEAK, NONE = ([400] * 60, [8] * 60), ([200] * 60, [6] * 60), ([0], [0])
BAD, MIXED = ([200] * 60, [60] * 60), ([200] * 60, [4, 60] * 30)
FEW = ([400] * 29, [0] * 29)


@pytest.mark.parametrize(
    ("counts", "start", "end"),
    [
        ({"a": GOOD, "b": GOOD}, "Holds for every class; the weakest evidence is for class a", ""),
        ({"a": GOOD, "b": WEAK}, "Holds for every class; the weakest evidence is for class b", ""),
        ({"a": BAD, "b": GOOD, "c": NONE}, "Violated for class a: more than 10%",
         "Cannot tell yet for class c. Holds for class b."),
        ({"a": MIXED, "b": GOOD, "c": BAD},
         "Violated for classes a, c; the strongest evidence is for class c: ", ""),
        ({"a": NONE, "b": NONE}, "Cannot tell yet, for any class; the weakest ", ""),
        ({"a": FEW, "b": FEW}, "Holds for every class",
         "Cannot tell yet for classes a, b alone, at a share of the error."),
    ],
)  # fmt: skip
def test_the_sentence_names_the_class_that_decides(counts: Any, start: str, end: str) -> None:
    verdict = judge_classes(counts, **OPTIONS)
    text = verdict.sentence()
    assert text.startswith(start)
    assert text.endswith(end)
    named = verdict.named(unit="city/cities", example="patient")
    assert named.sentence() == str(named) == verdict.sentence(unit="city/cities", example="patient")
    assert "task" not in str(named)


@pytest.mark.parametrize("classes", [1, 2, 5, 10, 100])
def test_as_many_tasks_show_that_it_holds_for_all_classes_as_for_one(classes: int) -> None:
    for tasks, status in ((28, "cannot tell yet"), (29, "holds")):
        verdict = judge_classes(
            {f"c{i}": ([400] * tasks, [0] * tasks) for i in range(classes)}, **OPTIONS
        )
        assert (verdict.status, verdict.more_tasks) == (status, 29 - tasks)
        assert f"{tasks} tasks" in verdict.sentence()
        assert (verdict.p_holds <= 0.05) == (status == "holds")


@pytest.mark.parametrize("status", ["holds", "violated"])
@pytest.mark.parametrize(("examples", "tasks", "epsilon", "alpha", "limit"), CASES[1::2])
def test_the_verdict_on_all_classes_is_wrong_as_rarely_as_that_on_one(
    status: str, examples: int, tasks: int, epsilon: float, alpha: float, limit: float
) -> None:
    # Worst case for "holds": one class is broken, the other surely found to hold. For "violated":
    # both are at the limit, independently.
    options = {"epsilon": epsilon, "alpha": alpha, "delta": 0.1, "false_alarm": limit}
    sizes = [examples] * tasks

    def decide(misses: list[int]) -> str:
        sure = ([50] * 20, [0] * 20)
        return judge_classes({"a": (sizes, misses), "b": sure}, **options).status

    def decide_alone(misses: list[int]) -> str:
        verdict = judge_classes({"a": (sizes, misses), "b": (sizes, misses)}, **options)
        return (verdict.by_class or {})["a"].status

    def size(decide: Callable[[list[int]], str]) -> float:
        at_epsilon = binomial(examples, epsilon)
        rule: dict[str, Any] = {"at_epsilon": at_epsilon, "wrong_status": status}
        return wrong(examples, tasks, alpha, **rule, decide=decide)

    of_all = size(decide) if status == "holds" else 1 - (1 - size(decide_alone)) ** 2
    assert of_all <= limit


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"missed": [6, 0]}, ("missed", "examples")),
        ({"missed": [0.5, 0]}, "missed"),
        ({"examples": [[5]], "missed": [[0]]}, "examples"),
        ({"epsilon": 5}, "epsilon"),
        ({"alpha": 0}, "alpha"),
        ({"delta": 1}, "delta"),
        ({"false_alarm": 0.5}, "false_alarm"),
        ({"false_alarm": 0}, "false_alarm"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], parameter: str | tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput) as caught:
        judge(**{"examples": [5, 5], "missed": [0, 0]} | OPTIONS | changes)
    assert caught.value.parameters == ((parameter,) if isinstance(parameter, str) else parameter)


SENTENCES: list[tuple[list[int], list[int], dict[str, Any], str]] = [
    ([500] * 60, [5] * 60, {}, "Holds: at least 90% of new cities|60 cities|p = 0.0019|most 5%"),
    ([500] * 60, [5] * 60, {"false_alarm": 0.12345}, "'holds' with probability at most 12.4%"),
    ([500] * 9, [250] * 9, {}, "Violated: more than 10% of new cities|rate above 5%|p < 0.0001"),
    ([500] * 9, [250] * 9, {}, "'violated' with probability at most 5%|(probability at most 5%)"),
    ([500], [5], {}, "Cannot tell yet: 1 city does not|from 0% to|28 more cities like this would"),
    ([], [], {}, "Cannot tell yet: 0 cities do not|Collect labelled patients of new cities."),
    ([500] * 3, [100] * 3, {"alpha": None}, "Violated: the sets have a miss rate above 5%|1,500 p"),
    ([500], [25], {"alpha": None}, "miss rate of at most 5%|miss rate may be anything from 3."),
    # Sizes alone settle nothing: tasks are near epsilon, or too small to be within it.
    ([1700] * 20, [85] * 20, {"alpha": 0.2}, "No feasible number of cities|close to 5%"),
    ([5] * 20, [0] * 20, {"alpha": 0.2}, "too few labelled patients to tell|at least 14)"),
    # At least 95% of new tasks exceed epsilon; by Markov's inequality, that has a probability of at
    # most 0.1 / 0.95 over calibrations.
    ([500] * 60, [250] * 60, {"delta": None}, "at most 10.6% of all calibrations come out this b"),
    ([500] * 3, [100] * 3, {"alpha": None, "delta": None}, "some of all calibrations come out"),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "missed", "changes", "facts"), SENTENCES)
def test_a_sentence_has_claim_evidence_and_probability_of_being_wrong(
    sizes: list[int], missed: list[int], changes: dict[str, Any], facts: str
) -> None:
    verdict = judge(sizes, missed, **OPTIONS | changes)
    text = verdict.sentence(unit="city/cities", example="patient")
    assert [fact for fact in facts.split("|") if fact not in text] == []
    assert not {"task", "tasks", "example", "examples"} & {*text.split()}
    assert verdict.named(unit="city/cities", example="patient").sentence() == text


def test_a_trivial_guarantee_leaves_nothing_to_check() -> None:
    verdict = judge_classes({"a": ([500] * 60, [5] * 60), "b": ([5], [0])}, **OPTIONS)
    parts = dict(verdict.by_class or {})
    trivial = replace(verdict, by_class=parts | {"b": replace(parts["b"], trivial="why.")})
    assert "nothing to check on class b, because why." in str(trivial)
    assert str(replace(verdict, trivial="why.")) == "Nothing to check: why."
