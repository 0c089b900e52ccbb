"""The tasks that are drawn, their names, and what is recorded of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import InvalidInput
from metapac.fewshot import ClassPool, GroupPool, PrototypeLearner
from metapac.fewshot.options import Drawing
from metapac.fewshot.scored_tables import ScoredTable, score_pool

Y = np.repeat(np.arange(6), 20)
X = 5 * np.random.default_rng(0).normal(size=(6, 3))[Y] + np.arange(360).reshape(120, 3) % 7


def run(pool: Any = None, **options: Any) -> ScoredTable:
    return score_pool(
        PrototypeLearner(),
        ClassPool(X, Y, name="calibration") if pool is None else pool,
        Drawing(**options),
        model="prototypes",
        details={"kind": "embeddings", "pool": "calibration"},
    )


def test_the_defaults_are_500_tasks_of_5_ways_5_shots_and_15_queries() -> None:
    table, provenance, _ = run()
    assert provenance.model == "prototypes, 5 ways, 5 shots"
    assert len(set(table["task"])) == 500
    assert len(table["task"]) == 500 * 5 * 15
    facts = {"ways": 5, "shots": 5, "queries": 15, "tasks": 500, "rng": 0}
    assert {name: provenance.details[name] for name in facts} == facts
    assert provenance.columns["classes_column"] == "classes"


def test_ways_and_shots_may_differ_from_task_to_task() -> None:
    table, provenance, _ = run(tasks=40, ways=range(2, 5), shots=[1, 5], queries=3)
    assert provenance.model == "prototypes, 2-4 ways, 1,5 shots"
    assert provenance.details["ways"] == [2, 3, 4]
    assert {len(row) for row in table["scores"]} == {2, 3, 4}
    assert [len(row) for row in table["classes"]] == [len(row) for row in table["scores"]]


def test_another_seed_gives_tasks_of_other_names() -> None:
    names = [{*run(tasks=3, rng=seed).table["task"].tolist()} for seed in (0, 1, 2)]
    assert names[0] == {f"calibration-{i}" for i in range(3)}
    assert not names[0] & names[1]
    assert not names[1] & names[2]


def test_every_group_is_a_task_once() -> None:
    pool = GroupPool(X, Y % 2, [f"site {i % 4}" for i in range(120)], name="test")
    table, provenance, _ = run(pool, shots=10)
    assert sorted(set(table["task"])) == [f"site {i}" for i in range(4)]
    assert len(table["task"]) == 120 - 4 * 10
    assert provenance.model == "prototypes, 10 shots"
    assert provenance.details["queries"] is None
    assert "classes_column" not in provenance.columns
    assert len(run(pool, shots=10, queries=5, tasks=7).table["task"]) == 35
    with pytest.raises(InvalidInput, match="ways does not apply to groups, whose tasks have all"):
        run(pool, ways=2)


def test_the_accuracy_is_the_share_of_queries_whose_highest_score_is_theirs() -> None:
    noisy = ClassPool(np.random.default_rng(1).normal(size=(120, 2)), Y)
    table, provenance, _ = run(noisy, tasks=30, ways=3)
    right = sum(
        row[names.index(label)] == max(row)
        for row, names, label in zip(
            table["scores"], table["classes"], table["label"].tolist(), strict=True
        )
    )
    assert provenance.details["accuracy"] == right / len(table["task"]) < 0.6


def test_small_classes_are_recorded() -> None:
    rows = np.r_[0:101]  # class 5 has one example
    with pytest.warns(UserWarning, match="left out 1 class of calibration .*: 5 with 1"):
        table, provenance, _ = run(ClassPool(X[rows], Y[rows], name="calibration"), tasks=30)
    assert provenance.details["left_out"] == [5]
    assert provenance.details["units"] == 5
    assert {*table["label"].tolist()} == {*range(5)}
    np.testing.assert_array_equal(Y[table["example"]], table["label"])
    assert "left_out" not in run(tasks=3).provenance.details


def test_bad_sizes_are_named() -> None:
    with pytest.raises(InvalidInput, match="ways"):
        run(ways=7)
    with pytest.raises(InvalidInput, match=r"at least shots \+ queries = 25 examples"):
        run(shots=10)
    with pytest.raises(InvalidInput, match="score must be 'probability' or .*, got 'softmax'"):
        run(score="softmax")
