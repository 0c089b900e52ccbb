"""Shortfalls: what is missing, and why more is asked for than that."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from metapac import InfeasibleGuarantee, MetaPS

ASKED: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}


@pytest.mark.parametrize("per_class", [False, True])
def test_more_tasks_than_are_missing_are_explained(per_class: bool) -> None:
    sizes = [60] * 20 + [2] * 2
    tasks = np.repeat(np.arange(22), sizes)
    scores = np.random.default_rng(0).normal(size=len(tasks))
    labels = np.full(len(tasks), "yes") if per_class else None
    asked: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05, "split": "tight"}
    with pytest.raises(InfeasibleGuarantee) as caught:
        MetaPS(**asked, per_class=per_class).calibrate(scores, tasks, labels)
    found = re.search(
        r"takes (\d+) tasks .* but there are 22 tasks, 2 of them smaller.* add (\d+) tasks with at "
        r"least \d+ examples [a-z' ]+\((\d+), because 2 of the present 22 are too small( in class "
        r"'yes')?\)",
        str(caught.value),
    )
    assert found is not None
    assert int(found[2]) == int(found[3]) > int(found[1]) - 22
    assert bool(found[4]) == per_class


def test_no_tasks_or_a_single_one() -> None:
    with pytest.raises(
        InfeasibleGuarantee, match=r"1 more .* by min_examples=9\). Options: add 111 tasks wi"
    ):
        MetaPS(**ASKED, min_examples=9).calibrate([0.5] * 8, [0] * 8)
    with pytest.raises(
        InfeasibleGuarantee, match="but there is 1 task. Options: add 115 tasks with"
    ):
        MetaPS(**ASKED, split="tight").calibrate([0.5] * 50, [0] * 50)
