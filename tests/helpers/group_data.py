"""Labelled rows of many groups, which differ by an offset."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metapac._common import Array

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
