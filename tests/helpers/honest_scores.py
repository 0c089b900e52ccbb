"""Scores of fair models on many sites."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import Scored
from metapac.data_checks import check_facts

SITES = np.repeat(np.arange(60), 400)
CHILDREN = ["none", "one", "two", "more"]


def draw_honest(rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return labels of which 5% are rare, and probabilities of a fair model."""
    labels = (rng.random(len(SITES)) < 0.05).astype(np.int64)
    rare = 1 / (1 + np.exp(2 - rng.normal(size=len(SITES)) - 1.5 * labels))
    return labels, np.column_stack([1 - rare, rare])


def draw_communes(
    rng: np.random.Generator, communes: int = 78, *, separation: float = 1.3
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]:
    """Return communes of 143 people, labels of which 75, 15, 8 and 2% are of a class, and scores.

    Classes are ordered, communes differ in their shares, and the scores are probabilities of a
    model that knows the shares of all communes together.
    """
    shares, sites = np.array([0.75, 0.15, 0.08, 0.02]), np.repeat(np.arange(communes), 143)
    own = shares * np.exp(0.3 * rng.normal(size=(communes, 4)))
    limits = np.cumsum(own / own.sum(axis=1, keepdims=True), axis=1)[sites, :3]
    labels = np.sum(rng.random(len(sites))[:, None] > limits, axis=1)
    means = separation * np.arange(4)
    seen = means[labels] + rng.normal(size=len(sites))
    scores = shares * np.exp(seen[:, None] * means - means**2 / 2)
    return sites, np.array(CHILDREN)[labels], scores / scores.sum(axis=1, keepdims=True)


def check_examples(
    tasks: Any, scores: Any, labels: Any = None, classes: Any = None, allow: Any = ()
) -> None:
    """Run the checks of labelled examples that every calibration runs."""
    data, skipped = Scored(scores, tasks, labels, classes), frozenset(allow)
    names, sizes = np.unique(np.asarray(tasks), return_counts=True)
    check_facts(data.facts(names, sizes, skipped), skipped)
