"""Scores of a fair model on many sites."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SITES = np.repeat(np.arange(60), 400)


def draw_honest(rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return labels of which 5% are rare, and probabilities of a fair model."""
    labels = (rng.random(len(SITES)) < 0.05).astype(np.int64)
    rare = 1 / (1 + np.exp(2 - rng.normal(size=len(SITES)) - 1.5 * labels))
    return labels, np.column_stack([1 - rare, rare])
