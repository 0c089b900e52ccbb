"""The verdict: p-values and errors by enumeration, its power, and what its sentences say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations_with_replacement, product
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
from metapac.verdict import Trials, judge_classes, p_value
from tests.helpers.enumeration import outcomes

OPTIONS: dict[str, Any] = {"epsilon": 0.05, "alpha": 0.1, "delta": 0.05}


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
        ("holds", [(8, 0.3), (2, 0.0)]),
        ("holds", [(3, 0.3), (8, 0.0)]),
        ("violated", [(3, 0.3), (6, 1.0)]),
        ("violated", [(6, 0.3), (2, 1.0)]),
    ],
)
def test_p_values_if_sizes_depend_on_miss_rates(status: str, kinds: Any) -> None:
    # Half of the tasks miss at a rate of exactly epsilon, the boundary of both hypotheses. All
    # multisets of three tasks are enumerated; nothing is sampled.
    outcomes: Any = Counter()
    for size, rate in kinds:
        for missed in range(size + 1):
            outcomes[size, missed] += stats.binom.pmf(missed, size, rate) / 2
    probability: Any = Counter()
    for drawn in combinations_with_replacement(outcomes, 3):
        sizes, missed_ = zip(*drawn, strict=True)
        verdict = judge(sizes, missed_, epsilon=0.3, alpha=0.5, delta=0.1)
        p_value = verdict.p_holds if status == "holds" else verdict.p_violated
        ways = factorial(3) / prod(map(factorial, Counter(drawn).values()))
        probability[p_value] += ways * prod(outcomes[outcome] for outcome in drawn)
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
    return sum(chance for found, chance in outcomes(mixed, tasks) if decide(found) == wrong_status)


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
        options: Any = {"epsilon": epsilon, "alpha": alpha, "delta": 0.1, "false_alarm": limit}
        verdict = judge([examples] * tasks, misses, **options)
        assert (verdict.status == "holds") == (verdict.p_holds <= limit)
        assert (verdict.status == "violated") == (verdict.p_violated <= limit)
        return verdict.status

    chances = [binomial(examples, epsilon)]
    if 2 * epsilon <= 1 and examples % 2 == 0:  # half of the examples are never missed
        chances.append(np.append(binomial(examples // 2, 2 * epsilon), [0] * (examples // 2)))
    for chance in chances:
        rule: dict[str, Any] = {"at_epsilon": chance, "wrong_status": status}
        assert wrong(examples, tasks, alpha, **rule, decide=decide) <= limit


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
def test_a_miss_never_helps(data: Any, epsilon: float, alpha: float, which: int) -> None:
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
def test_verdicts_exclude_each_other(data: Any, epsilon: float, alpha: float) -> None:
    examples, missed = zip(*data, strict=True)
    verdict = judge(examples, missed, epsilon=epsilon, alpha=alpha, delta=None, false_alarm=0.49)
    assert max(verdict.p_holds, verdict.p_violated) > 0.49
    low, high = verdict.interval or (0, 1)
    assert low <= high


@pytest.mark.parametrize(("missed", "settled"), [(4, "holds"), (18, "violated")])
def test_more_tasks_settle_it_and_one_fewer_does_not(missed: int, settled: str) -> None:
    tasks = 10 if settled == "holds" else 1
    more = judge([200] * tasks, [missed] * tasks, **OPTIONS).more_tasks
    assert more is not None
    counts = (tasks + more, tasks + more - 1)
    enough, short = (judge([200] * n, [missed] * n, **OPTIONS) for n in counts)
    assert (enough.status, short.status) == (settled, "cannot tell yet")
    assert enough.more_tasks == 0


def test_the_share_of_bad_tasks_is_between_its_bounds() -> None:
    verdict = judge([1000] * 50, [10] * 30 + [200] * 20, **OPTIONS)
    assert (verdict.within, verdict.flagged) == (30, 20)
    low, high = verdict.interval or (0, 1)
    one_sided = stats.beta.ppf([0.05, 0.95], [20, 21], [31, 30])  # if tasks were known exactly
    assert one_sided[0] - 0.05 <= low <= one_sided[0]
    assert one_sided[1] <= high <= one_sided[1] + 0.05
    # 0.94**50 < 0.05 < 0.95**50
    assert judge([1000] * 50, [10] * 50, **OPTIONS).interval == (0, 0.06)
    # With the cap for balanced tasks, which takes effect here: 2 misses of 5 are 0.4 < epsilon.
    for missed, counted in ((1, 0), (2, 1)):
        verdict = judge([5], [missed], epsilon=0.5, alpha=0.1, delta=0.1)
        assert verdict.if_broken.counts[-1] == counted


def test_a_guarantee_for_examples_is_an_exact_binomial_test() -> None:
    for missed, expected in ((30, "holds"), (50, "cannot tell yet"), (70, "violated")):
        verdict = judge([500, 500], [missed, 0], epsilon=0.05, alpha=None, delta=0.1)
        tests = [stats.binomtest(missed, 1000, 0.05, alternative=a) for a in ("less", "greater")]
        assert verdict.p_holds == pytest.approx(tests[0].pvalue)
        assert verdict.p_violated == pytest.approx(tests[1].pvalue)
        assert verdict.status == expected
        low, high = verdict.interval or (0, 1)
        assert low < missed / 1000 < high


def test_every_class_is_judged_at_its_share() -> None:
    good, bad = ([400] * 60, [8] * 60), ([40] * 60, [40] * 60)
    options: dict[str, Any] = {"alpha": 0.1, "delta": 0.05, "false_alarm": 0.06}
    epsilon = {"no": 0.05, "yes": 0.2, "maybe": 0.05}
    counts = {"no": good, "yes": bad, "maybe": ([0] * 60, [0] * 60)}
    verdict = judge_classes(counts, epsilon=epsilon, **options)
    parts = dict(verdict.by_class or {})
    statuses = {label: part.status for label, part in parts.items()}
    assert statuses == {"no": "holds", "yes": "violated", "maybe": "cannot tell yet"}
    assert (verdict.status, verdict.tasks, verdict.flagged) == ("violated", 60, 60)
    assert verdict.p_violated == pytest.approx(3 * parts["yes"].p_violated)
    assert (verdict.p_holds, verdict.interval, verdict.more_tasks) == (1, None, None)
    for label, pair in (("no", good), ("yes", bad)):
        alone = judge(*pair, epsilon=epsilon[label], alpha=0.1, delta=0.05, false_alarm=0.02)
        assert alone.p_violated == parts[label].p_violated
        assert parts[label].false_alarm == pytest.approx(0.02)
        assert parts[label].false_alarm <= 0.02


def test_as_many_tasks_show_that_it_holds_for_all_classes_as_for_one() -> None:
    # Without any bad task among n, a share of alpha is ruled out only if (1 - alpha)**n <= 0.05.
    for classes, tasks in product((1, 2, 10, 100), (28, 29)):
        counts = {f"c{i}": ([400] * tasks, [0] * tasks) for i in range(classes)}
        verdict = judge_classes(counts, **OPTIONS)
        assert verdict.status == ("cannot tell yet" if tasks == 28 else "holds")
        assert verdict.more_tasks == 29 - tasks
        assert (verdict.p_holds <= 0.05) == (tasks == 29)


@pytest.mark.parametrize("status", ["holds", "violated"])
@pytest.mark.parametrize(("examples", "tasks", "epsilon", "alpha", "limit"), CASES[1::2])
def test_the_verdict_on_all_classes_is_wrong_as_rarely_as_that_on_one(
    status: str, examples: int, tasks: int, epsilon: float, alpha: float, limit: float
) -> None:
    # Worst case for "holds": one class is broken, the other surely found to hold. For "violated":
    # both are at the limit, independently.
    options: Any = {"epsilon": epsilon, "alpha": alpha, "delta": 0.1, "false_alarm": limit}

    def decide(misses: list[int]) -> str:
        own = ([examples] * tasks, misses)
        other = ([50] * 20, [0] * 20) if status == "holds" else own
        verdict = judge_classes({"a": own, "b": other}, **options)
        return (verdict if status == "holds" else (verdict.by_class or {})["a"]).status

    rule: dict[str, Any] = {"at_epsilon": binomial(examples, epsilon), "wrong_status": status}
    size = wrong(examples, tasks, alpha, **rule, decide=decide)
    assert (size if status == "holds" else 1 - (1 - size) ** 2) <= limit


def test_bad_input_is_named() -> None:
    cases: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        (("missed", "examples"), {"missed": [6, 0]}),
        (("missed",), {"missed": [0.5, 0]}),
        (("examples",), {"examples": [[5]], "missed": [[0]]}),
        *(((x,), {x: value}) for x, value in (("epsilon", 5), ("alpha", 0), ("delta", 1))),
        *((("false_alarm",), {"false_alarm": value}) for value in (0.5, 0)),
    ]
    for parameters, changes in cases:
        with pytest.raises(InvalidInput) as caught:
            judge(**{"examples": [5, 5], "missed": [0, 0]} | OPTIONS | changes)
        assert caught.value.parameters == parameters


SENTENCES: list[tuple[list[int], list[int], dict[str, Any], str]] = [
    ([500] * 60, [5] * 60, {}, "Holds: at least 90% of new cities|60 cities|p = 0.0019|most 5%"),
    ([500] * 60, [5] * 60, {"false_alarm": 0.12345}, "'holds' with probability at most 12.4%"),
    ([500] * 9, [250] * 9, {}, "Violated: more than 10% of new cities|rate above 5%|p < 0.0001"),
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


def test_a_sentence_has_claim_evidence_and_probability_of_being_wrong() -> None:
    for sizes, missed, changes, facts in SENTENCES:
        verdict = judge(sizes, missed, **OPTIONS | changes)
        text = verdict.sentence(unit="city/cities", example="patient")
        assert [fact for fact in facts.split("|") if fact not in text] == []
        assert not {"task", "tasks", "example", "examples"} & {*text.split()}
        assert verdict.sentence(unit="city/cities", example="patient") == text


def test_a_trivial_guarantee_leaves_nothing_to_check() -> None:
    verdict = judge_classes({"a": ([500] * 60, [5] * 60), "b": ([5], [0])}, **OPTIONS)
    parts = dict(verdict.by_class or {})
    trivial = replace(verdict, by_class=parts | {"b": replace(parts["b"], trivial="why.")})
    assert "nothing to check on class b, because why." in str(trivial)
    assert str(replace(verdict, trivial="why.")) == "Nothing to check: why."
