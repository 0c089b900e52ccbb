"""Messages on infeasible guarantees: what they state, and how they are rendered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import Guarantee, InfeasibleGuarantee, MetaPS, planning
from metapac.sample_size import Demand

ASKED: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}


def test_delta_is_that_of_all_classes() -> None:
    scores, tasks = np.random.default_rng(0).normal(size=300), np.repeat(np.arange(10), 30)
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.03, per_class=True)
    with pytest.raises(InfeasibleGuarantee, match="^alpha=0.1, delta=0.03 cannot be guaranteed wi"):
        method.calibrate(scores, tasks, np.arange(300) % 3)


@pytest.mark.parametrize("n", [1, 5, 28])
def test_examples_of_one_distribution(n: int) -> None:
    text = str(planning.explain_too_few_examples(0.1, 0.05, n))
    assert f"this takes 29 examples, but there are {n}. Options: add {29 - n} exa" in text


@pytest.mark.parametrize(
    ("changes", "sizes", "options"),
    [
        (
            {"split": "tight", "epsilon": 0.2, "alpha": 0.2, "delta": 0.01},
            [9] * 60,
            ["use split='joint', which", "with split='tight': "],
        ),
        ({}, [15] * 145, ["use split=0.206, which"]),
        ({"split": "tight"}, [200] * 120 + [5] * 5, ["use min_examples=6, which"]),
        ({"min_examples": 60}, [50] * 115, ["(115 more are left out by min_examples=60)"]),
        ({"delta": 0.01}, [200] * 20, ["use delta=None, a weaker", "settle for alpha=0."]),
    ],
)
def test_remedies_are_written_as_they_are_passed(
    changes: dict[str, Any], sizes: list[int], options: list[str]
) -> None:
    g = Guarantee(**ASKED | changes)
    message = planning.explain_too_few_tasks([Demand.from_sizes(g, sizes)])
    options += ["pass on_infeasible='trivial' to keep", f"epsilon={g.epsilon}, alpha"]
    assert [option for option in options if option not in message] == []
