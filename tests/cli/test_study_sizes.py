"""How many tasks, examples and labels a draw of ``metapac study`` has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metapac.fewshot import PoolStudy, PrototypeLearner
from metapac.fewshot.cli.study import DrawSizes, describe_features, join_sizes, measure_draw
from metapac.fewshot.cli.study_sources import TaskOptions
from metapac.fewshot.pools import ClassPool, GroupPool

SIZES = DrawSizes(calibration_tasks=6, new_tasks=1, examples=(9, 12), labelled=1, labels=2)
RNG = np.random.default_rng(0)


def measured(study: PoolStudy, tasks: TaskOptions) -> tuple[DrawSizes, list[int], int]:
    """What is said of a draw, and what one has: sizes of calibration tasks, labelled examples."""
    draw = study.draw(np.random.default_rng(0))
    return (
        measure_draw(study, tasks),
        np.bincount(draw.tasks).tolist(),
        len(draw.tests[0].labelled_scores),
    )


@pytest.mark.parametrize("queries", [None, 4])
def test_tasks_of_classes(queries: int | None) -> None:
    pools = [ClassPool(RNG.random((80, 3)), np.repeat(np.arange(i, i + 8), 10)) for i in (0, 8)]
    tasks = TaskOptions(ways=3, shots=2, queries=queries, tasks=7, tests=5)
    shape: dict[str, Any] = {"ways": 3, "shots": 2, "queries": queries, "tasks": 7, "tests": 5}
    said, sizes, labelled = measured(PoolStudy(PrototypeLearner(), *pools, **shape), tasks)
    expected = DrawSizes(
        calibration_tasks=7, new_tasks=5, examples=(sizes[0], sizes[0]), labelled=labelled, labels=3
    )
    assert said == expected
    assert sizes == [3 * (queries or 8)] * 7


@pytest.mark.parametrize("queries", [None, 4])
def test_tasks_of_groups(queries: int | None) -> None:
    groups = np.repeat(np.arange(8), [10, 12, 14, 20, 10, 12, 14, 20])
    pool = GroupPool(RNG.random((112, 3)), np.arange(112) % 2, groups)
    shape: dict[str, Any] = {"shots": 2, "queries": queries, "tasks": 6, "tests": 2}
    study = PoolStudy(PrototypeLearner(), pool, pool, **shape, distinct=True)
    said, sizes, labelled = measured(study, TaskOptions(**shape))
    assert said == DrawSizes(
        calibration_tasks=6, new_tasks=2, examples=(queries or 8, queries or 18),
        labelled=labelled, labels=2,
    )  # fmt: skip
    assert said.examples[0] <= min(sizes) <= max(sizes) <= said.examples[1]


def test_seeds_may_differ() -> None:
    other = replace(SIZES, examples=(7, 8), labels=3)
    assert join_sizes([SIZES, other]) == replace(SIZES, examples=(7, 12), labels=3)
    assert join_sizes([SIZES]) == SIZES


def test_the_numbers_in_words_and_in_json() -> None:
    assert str(SIZES) == (
        "A draw has 6 calibration tasks of 9 to 12 examples, and 1 new task, with 1 labelled "
        "example each for PS-Test. A set can have up to 2 labels."
    )
    assert " of 12 examples, " in str(replace(SIZES, examples=(12, 12)))
    assert SIZES.describe() == {
        "calibration_tasks": 6, "new_tasks": 1, "examples": [9, 12], "labelled": 1, "labels": 2,
    }  # fmt: skip


def test_features_are_named() -> None:
    assert describe_features(5, []) == "The features are the 5 columns of the array of vectors."
    assert describe_features(64, ["embedding"]) == (
        "The features are in 1 column: embedding. Choose others with --columns."
    )
    many = describe_features(20, [f"f_{i}" for i in range(20)])
    assert ": f_0, f_1, " in many
    assert ", f_11 and 8 more. Choose" in many
