"""Evidence from arrays, against a loop over tasks and classes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import Guarantee, MetaPS
from metapac.evidence import Evidence, ranks_within
from tests.helpers.calibrations import collect_evidence

LOOSE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


def collect_slowly(
    g: Guarantee, scores: Any, tasks: Any, labels: Any, classes: tuple[str, ...]
) -> Evidence:
    """Return the evidence of each class, one task after the other."""
    names = np.array(list(dict.fromkeys(tasks.tolist())))
    groups = [[scores[(tasks == t) & (labels == c)] for c in classes] for t in names]
    sizes = np.array([[len(group) for group in row] for row in groups])
    thresholds = np.full((*sizes.shape, len(g.levels)), -np.inf)
    for (task, index), size in np.ndenumerate(sizes):
        one = g.for_class(classes[index], classes) if g.per_class else g
        for level, rank in enumerate(ranks_within(np.array([size]), one)[0]):
            if rank >= 0:
                thresholds[task, index, level] = sorted(groups[task][index])[rank]
    of_class = [scores[labels == c] for c in classes]
    lowest = np.array([group.min() for group in of_class])
    highest = np.array([group.max() for group in of_class])
    return Evidence(names, sizes, thresholds, lowest, scores.dtype, classes, highest=highest)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    split=st.sampled_from(["joint", "tight", 0.4]),
    per_class=st.booleans(),
)
def test_evidence_is_that_of_a_loop(seed: int, split: str | float, per_class: bool) -> None:
    rng = np.random.default_rng(seed)
    scores, tasks = rng.normal(size=300), rng.integers(0, 8, 300)
    labels = rng.choice(["a", "b", "c"], 300, p=[0.05, 0.25, 0.7])
    labels[:3] = ["a", "b", "c"]
    g = Guarantee(**LOOSE, split=split, per_class=per_class)
    if per_class:
        found = collect_evidence(g, scores, tasks, labels)
        expected = collect_slowly(g, scores, tasks, labels, ("a", "b", "c"))
    else:
        found = collect_evidence(g, scores, tasks)
        expected = collect_slowly(g, scores, tasks, np.full(300, "all"), ("all",))
    assert found.classes == (expected.classes if per_class else None)
    assert found.precision == np.float64
    for name in ("names", "sizes", "thresholds", "lowest", "highest"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


def test_levels_and_thresholds_ascend() -> None:
    scores, tasks = np.random.default_rng(0).normal(size=40 * 200), np.repeat(np.arange(40), 200)
    sent = [MetaPS(**LOOSE).task_threshold(scores[tasks == i]) for i in range(40)]
    assert all(a <= b for each in sent for a, b in pairwise(each.tolist()))
