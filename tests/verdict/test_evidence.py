"""p-values are those of the worst case: enumerated, not sampled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import Any

import numpy as np
import pytest
from scipy import stats

from metapac import judge
from metapac import verdict as module
from metapac.guarantee import JOINT_LEVELS
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
        (module._p_value(tasks, share, counts), chance)
        for counts, chance in count_vectors(tasks, share)
    ]
    assert sum(chance for _value, chance in found) == pytest.approx(1)
    for value in {value for value, _chance in found}:
        attained = sum(chance for other, chance in found if other <= value * (1 + 1e-8))
        assert attained == pytest.approx(value, rel=1e-8)


def test_many_tasks_divide_the_error_equally(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = tuple(range(30, 30 - len(JOINT_LEVELS), -1))
    exact = module._p_value(500, 0.1, counts)
    monkeypatch.setattr(module, "_MAX_TASKS", 499)
    assert exact < module._p_value(500, 0.1, counts) <= len(JOINT_LEVELS) * exact


def test_further_tasks_never_count_as_better_than_these() -> None:
    sizes, missed = [200] * 7, [4, 4, 4, 4, 25, 25, 10]
    evidence: Any = judge(sizes, missed, **OPTIONS).evidence
    for n in range(8, 40):
        more = evidence.scaled(n)
        for now, then in zip(evidence[1:3], more[1:3], strict=True):
            assert all(0 <= 7 * b - n * a < 7 for a, b in zip(now, then, strict=True))
    assert evidence.scaled(21)[:3] == judge(sizes * 3, missed * 3, **OPTIONS).evidence[:3]


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
