"""Numbers of an evaluation: counted by hand, and with as many digits everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from metapac import MetaPS, Scored, evaluate
from metapac.report.data import count_within, format_size, format_width


def test_a_task_at_the_limit_is_within_it() -> None:
    scores, tasks = np.random.default_rng(0).random(4000), np.repeat(np.arange(40), 100)
    promise = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1).calibrate(0.5 + scores / 2, tasks)
    missed = {"a": 0, "b": 2, "c": 3}  # of ten
    rows = [(task, i >= number) for task, number in missed.items() for i in range(10)]
    data = Scored([float(kept) for _, kept in rows], [task for task, _ in rows])
    evaluation = evaluate(promise, data, allow=["duplicates", "direction"])
    assert evaluation.missed.tolist() == [0, 2, 3]
    assert count_within(evaluation) == 2


@pytest.mark.parametrize(("size", "text"), [(1, "1.00"), (2.345, "2.35"), (1234.5, "1,234.50")])
def test_sizes_have_two_decimals(size: float, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(("width", "text"), [(1, "1"), (2.34567, "2.346"), (12345.6, "1.235e+04")])
def test_widths_have_four_digits(width: float, text: str) -> None:
    assert format_width(width) == text
