"""What a report shows of labelled examples."""

from __future__ import annotations

import numpy as np

from metapac.evaluation import Evaluation
from metapac.grouping import Row
from metapac.predictors import MetaPS


def is_missed(row: Row) -> bool:
    """Return whether the set lacks the true label, or the interval the true number."""
    if row.interval is not None:
        return not row.interval[0] <= row.truth <= row.interval[1]
    return str(row.truth) not in (row.labels or ())


def kind_of_set(row: Row) -> str:
    """Return what a set is like, for choosing examples of every kind."""
    if row.interval is not None:
        return "missed" if is_missed(row) else "hit"
    size = len(row.labels or ())
    if size == 0 or is_missed(row):
        return "missed" if size else "empty"
    if row.full:
        return "full"
    return "single" if size == 1 else "several"


def find_cluster_seed(promise: MetaPS) -> int | None:
    """Return the seed that drew one task from each cluster."""
    clusters = promise._evidence.clusters
    return None if clusters is None else clusters.rng


def count_within(evaluation: Evaluation) -> int:
    """Return the number of tasks whose share missed is at most what is allowed."""
    return int(np.count_nonzero(evaluation.errors <= evaluation.epsilon))


def format_size(size: float) -> str:
    """Return a mean number of labels, with as many digits everywhere."""
    return f"{size:,.2f}"


def format_width(width: float) -> str:
    """Return a width of intervals, with as many digits everywhere."""
    return f"{width:,.4g}"
