"""Labelled rows of many groups, which differ by an offset, and a slow reference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from metapac._common import Array
from tests.helpers import oracles

LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.2, "delta": 0.1}


class Data(NamedTuple):
    """Features, labels, values and group of each row."""

    x: Array
    labels: Array
    values: Array
    groups: Array


def make_data(groups: int = 60, rows: int = 40, rng: int = 0, prefix: str = "s") -> Data:
    generator = np.random.default_rng(rng)
    group = np.repeat([f"{prefix}{i}" for i in range(groups)], rows)
    labels = generator.choice(["a", "b", "c"], len(group))
    offset = generator.normal(scale=0.5, size=groups).repeat(rows)
    x = generator.normal(size=(len(group), 3))
    x[:, 0] += 2 * (labels == "b") + offset
    x[:, 1] += 2 * (labels == "c")
    return Data(x, labels, x[:, 1] + offset + generator.normal(size=len(group)), group)


def threshold_by_loops(
    scores: Iterable[float], groups: Iterable[Any], *, epsilon: float, alpha: float, delta: float
) -> float:
    """The threshold of split=0.1 by sorting and counting, from the paper's two steps."""
    by_group: dict[Any, list[float]] = {}
    for score, group in zip(scores, groups, strict=True):
        by_group.setdefault(group, []).append(score)
    within = []
    for members in by_group.values():
        errors = oracles.allowed_errors_in_task(len(members), epsilon, 0.1)
        within.append(sorted(members)[errors] if errors >= 0 else -np.inf)
    rank = oracles.allowed_errors(len(within), alpha * 0.9, delta)
    return sorted(within)[rank]
