"""Words of the messages: one and many, and levels as they are shown."""

from __future__ import annotations

import pytest

from metapac import planning


@pytest.mark.parametrize(
    ("count", "text"), [(0, "are 0 tasks"), (1, "is 1 task"), (2, "are 2 tasks")]
)
def test_tasks_are_counted(count: int, text: str) -> None:
    assert planning.are_tasks(count) == text
    assert text.endswith(planning.count_tasks(count))


def test_a_level_is_shown_without_the_errors_of_its_arithmetic() -> None:
    assert planning.rounded("alpha", 0.1 + 0.2) == "alpha=0.3"
