"""What the check of one table and the monitor say together, and how it is coloured."""

from __future__ import annotations

import pytest

from metapac import Context
from metapac.report.charts import Chart
from metapac.report.findings import BAD, CAUTION, GOOD, QUIET, Course, find_standing
from metapac.words import Words

WORDS = Words.from_context(Context(unit="hospital", example="patient"))
ALERT = "Monitor: alarm after 90 hospitals (March). This guarantee can no longer be relied on."


def watch(status: str, tasks: int = 90) -> Course:
    alert = ALERT if status == "violated" else None
    return Course(status, alert, tasks, "sentence", Chart("", "", ""), [], 0)


@pytest.mark.parametrize(
    ("verdict", "monitor", "is_broken", "colours", "is_split"),
    [
        ("holds", "holds", False, (GOOD, GOOD), False),
        ("holds", "cannot tell yet", False, (GOOD, QUIET), False),
        ("holds", "violated", True, (CAUTION, BAD), True),
        ("cannot tell yet", "holds", False, (CAUTION, GOOD), False),
        ("cannot tell yet", "cannot tell yet", False, (CAUTION, QUIET), False),
        ("cannot tell yet", "violated", True, (CAUTION, BAD), True),
        ("nothing to check", "holds", False, (CAUTION, GOOD), False),
        ("violated", "holds", True, (BAD, CAUTION), True),
        ("violated", "cannot tell yet", True, (BAD, CAUTION), True),
        ("violated", "violated", True, (BAD, BAD), False),
    ],
)
def test_nothing_looks_good_beside_bad_news(
    verdict: str, monitor: str, is_broken: bool, colours: tuple[str, str], is_split: bool
) -> None:
    found = find_standing(verdict, watch(monitor), WORDS)
    assert found.is_broken == is_broken
    assert (found.verdict, found.monitor) == colours
    assert found.is_split == is_split
    assert found.comparison is not None
    assert "The monitor counts all 90 hospitals that it was given" in found.comparison
    assert ("needs more evidence" in found.comparison) == (monitor != "violated")


@pytest.mark.parametrize("status", ["holds", "cannot tell yet", "violated"])
def test_one_of_them_alone_has_nothing_to_be_compared_with(status: str) -> None:
    check, monitor = find_standing(status, None, WORDS), find_standing(None, watch(status), WORDS)
    for found in (check, monitor):
        assert found.is_broken == (status == "violated")
        assert not found.is_split
        assert found.comparison is None
    assert not find_standing(None, None, WORDS).is_broken


def test_a_single_task_is_counted_in_words() -> None:
    found = find_standing("holds", watch("cannot tell yet", tasks=1), WORDS)
    assert "counts 1 hospital that" in str(found.comparison)
