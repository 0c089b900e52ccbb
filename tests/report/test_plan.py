"""The data behind a guarantee: its needs, its slack, and the rank of its threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import Context, MetaPS, plan
from metapac.planning import Affordable
from metapac.report.levels import describe_rank, describe_slack, find_plan
from metapac.words import Words

WORDS = Words.from_context(Context(unit="hospital", example="patient"))


def calibrate(tasks: int, examples: int, **changes: Any) -> MetaPS:
    scores = np.random.default_rng(0).random(tasks * examples)
    names = np.repeat(np.arange(tasks), examples)
    return MetaPS(**{"epsilon": 0.1, "alpha": 0.2, "delta": 0.05} | changes).calibrate(
        scores, names
    )


@pytest.mark.parametrize(
    "changes", [{}, {"split": "tight"}, {"split": "even"}, {"delta": None}, {"min_examples": 10}]
)
@pytest.mark.parametrize("tasks", [40, 150])
def test_the_rank_is_the_place_of_the_threshold(tasks: int, changes: dict[str, Any]) -> None:
    promise = calibrate(tasks, 60, **changes)
    facts = find_plan(promise)[0]
    assert facts.rank is not None
    assert np.sort(facts.thresholds)[facts.rank - 1] == promise.threshold_ == facts.threshold
    assert facts.thresholds.tolist() == promise.task_thresholds_.tolist()
    levels = {name: getattr(promise, name) for name in ("epsilon", "alpha", "delta", "split")}
    need = plan(**levels)
    assert facts.tasks == tasks
    assert facts.tasks_needed == need.tasks
    assert facts.examples_needed == need.examples_per_task
    assert facts.sizes == (60, 60, 60)


def test_slack_is_how_many_tasks_could_be_too_small() -> None:
    promise = calibrate(40, 60)
    spare = find_plan(promise)[0].spare
    names = np.repeat(np.arange(40), 60)
    scores = np.random.default_rng(0).random(2400)
    for small in (spare, spare + 1):
        kept = np.concatenate(
            [np.flatnonzero(names == i)[: 1 if i < small else 60] for i in range(40)]
        )
        method = MetaPS(epsilon=0.1, alpha=0.2, delta=0.05, on_infeasible="trivial")
        method.calibrate(scores[kept], names[kept], allow=["task-names", "rare-class"])
        assert (method.threshold_ > -np.inf) == (small == spare)


def test_the_strictest_limits_are_possible_and_stricter_ones_are_not() -> None:
    strict = find_plan(calibrate(40, 60))[0].affordable
    assert strict is not None
    assert strict.alpha is not None
    assert calibrate(40, 60, alpha=strict.alpha).threshold_ > -np.inf
    trivial = calibrate(40, 60, alpha=strict.alpha * 0.99, on_infeasible="trivial")
    assert trivial.threshold_ == -np.inf


def test_what_the_data_could_support_in_words() -> None:
    facts = find_plan(calibrate(40, 60))[0]
    strict = Affordable(0.00077, 0.15, 0.0123)
    facts = facts._replace(tasks=40, tasks_needed=14, examples_needed=32, affordable=strict)
    start = "This guarantee needs at least 14 hospitals with 32 patients each; there are 40."
    assert describe_slack(facts, WORDS) == (
        f"{start} Changing one number and keeping the others, these data could support: 0.077% "
        "missed instead of 10%; or 15% of hospitals above 10% instead of 20%; or a risk of 1.3% "
        "instead of 5%."
    )
    assert describe_slack(facts._replace(affordable=None), WORDS) == start
    no_better = facts._replace(affordable=Affordable(0.1, None, 0.0499))
    assert describe_slack(no_better, WORDS) == start  # 4.99% is 5%, rounded up
    of_class = describe_slack(facts._replace(label="sick"), WORDS)
    assert of_class.endswith("a risk of 1.3% for this class instead of 5%.")


def test_the_rank_in_words() -> None:
    text = describe_rank(find_plan(calibrate(40, 60))[0], WORDS)
    assert text.startswith("Each of the 40 hospitals gives a threshold of its own. The one in use ")
    assert "lowest of them" in text
    assert "nobody chose it by hand" in text
    lowest = find_plan(calibrate(14, 60))[0]
    assert lowest.rank == 1
    assert "is the lowest of them" in describe_rank(lowest, WORDS)
    assert "no hospital lies below it" in describe_rank(lowest, WORDS)


@pytest.mark.parametrize(
    ("rank", "words"),
    [
        (2, "the 2nd lowest"),
        (3, "the 3rd lowest"),
        (11, "the 11th lowest"),
        (21, "the 21st lowest"),
    ],
)
def test_places_in_words(rank: int, words: str) -> None:
    facts = find_plan(calibrate(40, 60))[0]._replace(rank=rank)
    assert words in describe_rank(facts, WORDS)


def test_tasks_that_are_too_small_are_named() -> None:
    facts = find_plan(calibrate(40, 60))[0]
    one = facts._replace(thresholds=np.array([-np.inf, 0.1, 0.2]))
    assert "1 hospital has too few patients for a threshold and counts as" in describe_rank(
        one, WORDS
    )
    two = facts._replace(thresholds=np.array([-np.inf, -np.inf, 0.2]))
    assert "2 hospitals have too few patients for a threshold and count as" in describe_rank(
        two, WORDS
    )


def test_a_guarantee_that_keeps_every_label_has_no_rank() -> None:
    facts = find_plan(calibrate(5, 60, on_infeasible="trivial"))[0]
    assert facts.rank is None
    assert "Nothing is ruled out" in describe_rank(facts, WORDS)
    assert "too few for this guarantee" in describe_slack(facts, WORDS)


def test_each_class_has_its_own_plan() -> None:
    scores = np.random.default_rng(0).random(6000)
    names, labels = np.repeat(np.arange(60), 100), np.tile(["a", "b"], 3000)
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1, per_class=True)
    promise = method.calibrate(scores, names, labels)
    plans = find_plan(promise)
    assert [facts.label for facts in plans] == ["a", "b"]
    assert [facts.threshold for facts in plans] == promise.thresholds_.tolist()
    assert [facts.sizes for facts in plans] == [(50, 50, 50)] * 2


def test_tiny_limits_are_not_spelled_out() -> None:
    text = describe_slack(find_plan(calibrate(150, 60))[0], WORDS)
    assert "a risk of less than 0.001% instead of 5%" in text
    assert "0.0000" not in text
