"""Scores grouped by task, and order statistics of each group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import InvalidInput, Scored, grouping
from metapac._common import ignore_progress
from metapac.binomial import allowed_errors_in_task
from metapac.grouping import group, task_thresholds
from metapac.guarantee import JOINT_LEVELS

rows = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["a", "b", "c"]),
        st.floats(allow_nan=False, width=32) | st.sampled_from([0.0, 1.0]),
    ),
    min_size=1,
    max_size=60,
)


@given(data=rows, levels=st.integers(1, 4), seed=st.integers(0, 9))
def test_any_ranks_of_any_groups(data: list[Any], levels: int, seed: int) -> None:
    tasks = [task for task, _, _ in data]
    grouped = group([score for _, _, score in data], tasks)
    rng = np.random.default_rng(seed)
    ranks = rng.integers(-1, grouped.sizes[:, None], (len(grouped.sizes), levels))
    result, lowest, highest, _ = task_thresholds(grouped, ranks)
    for i, name in enumerate(grouped.names.tolist()):
        scores_of_task = sorted(score for task, _, score in data if task == name)
        assert (lowest[i], highest[i]) == (scores_of_task[0], scores_of_task[-1])
        assert result[i].tolist() == [
            scores_of_task[rank] if rank >= 0 else -np.inf for rank in ranks[i]
        ]


@given(data=rows)
def test_groups_by_class(data: list[Any]) -> None:
    tasks, labels, scores = (list(column) for column in zip(*data, strict=True))
    found = Scored(scores, tasks, labels).order_statistics(
        lambda sizes, label: sizes[:, None] // 2, by_class=True, progress=ignore_progress
    )
    classes = sorted(set(labels))
    assert found.names.tolist() == list(dict.fromkeys(tasks))
    assert found.label is not None
    groups = list(zip(found.names[found.task], [classes[i] for i in found.label], strict=True))
    assert sorted(groups) == sorted(set(zip(tasks, labels, strict=True)))
    for i, group_of in enumerate(groups):
        of_group = sorted(s for t, c, s in data if (t, c) == group_of)
        assert found.sizes[i] == len(of_group)
        assert found.thresholds[i] == of_group[len(of_group) // 2]
        assert (found.low[i], found.high[i]) == (of_group[0], of_group[-1])


def test_each_task_is_counted_at_its_own_threshold() -> None:
    data = Scored([0.1, 0.4, 0.6, 0.9], ["b", "b", "a", "a"])
    cuts, names = np.array([[[0.2], [0.95]]]), np.array(["b", "a"], dtype=object)
    (tally,) = data.counts(cuts, np.dtype("f8"), names)
    assert dict(zip(tally.names[tally.task], tally.missed, strict=True)) == {"b": 1, "a": 2}


def test_groups_of_one_size_are_selected_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 12, 300)
    scores = rng.normal(size=sizes.sum())
    grouped = group(scores, np.repeat(np.arange(300), sizes))
    ranks = np.stack([np.minimum(1, sizes - 1), np.where(sizes > 4, 3, -1)], axis=1)
    whole = task_thresholds(grouped, ranks)
    monkeypatch.setattr(grouping, "_BLOCK", 20)
    for one, other in zip(whole, task_thresholds(grouped, ranks), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", ["calibrated", "wide"])
def test_ranks_of_large_groups(dtype: Any, spread: str) -> None:
    """NumPy's selection sorts small rows wholly, so only large ones show what it leaves unsorted.

    How large depends on the processor: about 20,000 scores if ranks lie close together, as those
    of a calibration do, and fewer if they are wide apart.
    """
    rng, sizes = np.random.default_rng(0), np.array([20_000, 20_000, 20_001, 50_000])
    scores = rng.normal(size=sizes.sum()).astype(dtype)
    grouped = group(scores, np.repeat(np.arange(4), sizes))
    ranks = np.sort(rng.integers(0, sizes[:, None], (4, 13)), axis=1)
    if spread == "calibrated":
        ranks = np.stack([allowed_errors_in_task(sizes, 0.1, t) for t in JOINT_LEVELS], axis=1)
    result, lowest, highest, _ = task_thresholds(grouped, ranks)
    for i, part in enumerate(np.split(scores, np.cumsum(sizes)[:-1])):
        ordered = np.sort(part)
        assert (lowest[i], highest[i]) == (ordered[0], ordered[-1])
        np.testing.assert_array_equal(result[i], ordered[ranks[i]])


def test_scores_are_not_changed() -> None:
    scores = np.random.default_rng(0).normal(size=200)
    before = scores.copy()
    grouped = group(scores, np.repeat([0, 1], 100))
    task_thresholds(grouped, np.array([[5, 50], [5, 50]]))
    np.testing.assert_array_equal(scores, before)


def test_scores_that_repeat_within_a_group_are_noticed() -> None:
    scores = np.random.default_rng(0).random((40, 2000))
    ranks = np.tile([100, 400], (40, 1))

    def may_repeat(rows: Any, which: Any = ranks) -> bool:
        return task_thresholds(group(rows.ravel(), np.repeat(np.arange(40), 2000)), which)[3]

    assert not may_repeat(scores)
    assert may_repeat(np.concatenate([scores[:, :1000]] * 2, axis=1))
    assert may_repeat(scores.round(3))
    assert may_repeat(scores, ranks[:, :1])  # a single rank shows nothing


def test_a_task_may_come_in_several_runs() -> None:
    tasks = np.repeat(["b", "a", "b", "c"], [40, 30, 20, 50])
    grouped = group(np.arange(140.0), tasks)
    assert grouped.names.tolist() == ["b", "a", "c"]
    assert grouped.sizes.tolist() == [60, 30, 50]
    assert grouped.scores.tolist() == [*range(40), *range(70, 90), *range(40, 70), *range(90, 140)]


def test_a_missing_score_is_found_in_its_task() -> None:
    scores = np.arange(12.0)
    for place, name in ((0, "a"), (2, "a"), (3, "b"), (7, "b"), (8, "c"), (11, "c")):
        bad = np.where(np.arange(12) == place, np.nan, scores)
        with pytest.raises(InvalidInput, match=f"in task '{name}'"):
            group(bad, np.repeat(["a", "b", "c"], [3, 5, 4])).check_no_nan()
