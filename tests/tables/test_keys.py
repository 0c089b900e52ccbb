"""Keys hold a task and a class, and give both back."""

from __future__ import annotations

import numpy as np
import pytest

from metapac.tables.columns import Keys


@pytest.mark.parametrize("integer_tasks", [True, False])
def test_keys_hold_a_class_and_a_task(integer_tasks: bool) -> None:
    keys = Keys(("no", "yes"), integer_tasks)
    groups = keys.groups(np.array(["0:12", "1:3", "1:12"], dtype=object))
    assert groups.names.tolist() == ([3, 12] if integer_tasks else ["12", "3"])
    assert groups.task.tolist() == ([1, 0, 1] if integer_tasks else [0, 1, 0])
    assert groups.label.tolist() == [0, 1, 1]
    assert keys.describe("1:12") == ("12, class 'yes'" if integer_tasks else "'12', class 'yes'")
    assert Keys(("a",), integer_tasks=False).describe("0:x:y") == "'x:y', class 'a'"
