"""The learner of an experiment, its metrics, and Meta-CP's quantile predictor."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac.fewshot import ProtoNet, Sphere
from metapac.fewshot.pools import GroupPool
from metapac.fewshot.reproduce import seed
from metapac.fewshot.reproduce.seed import (
    RunScores,
    build_learner,
    embed_tasks,
    measure_quality,
    move_transformed,
    train_learner,
    train_predictor,
)
from metapac.fewshot.scoring import read_stored
from tests.helpers.experiments import (
    CLASSES,
    GROUPS,
    STRONG,
    class_pools,
    count_embedded,
    group_pools,
    shrink,
)

DATA = class_pools()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def test_area_under_the_curve() -> None:
    scores, labels = np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1])
    assert seed._auroc(scores, labels) == pytest.approx((1 + 1 + 1 + 0.5) / 4)
    assert seed._auroc(-scores, labels) == pytest.approx(0.5 / 4)
    assert np.isnan(seed._auroc(scores, np.zeros(4, int)))


def test_a_strong_learner_is_on_a_sphere() -> None:
    plain, strong = (build_learner(e, DATA) for e in (CLASSES, STRONG))
    assert not isinstance(plain.module, Sphere)
    assert isinstance(strong.module, Sphere)
    x = DATA.pools.test.x[:7]
    lengths = strong.embed(x).norm(dim=1).tolist()
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-5)


@pytest.mark.parametrize("experiment", [CLASSES, STRONG], ids=["episodes", "strong"])
def test_a_seed_is_a_training(experiment: Any) -> None:
    def embed(rng: int) -> Any:
        learner, history = train_learner(experiment, DATA, device="cpu", rng=rng)
        assert len(history.epochs) == (1 if experiment.training else 3)
        return learner.embed(DATA.pools.test.x).numpy()

    one, again, other = map(embed, (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)


def test_groups_are_measured_by_their_ranks_too() -> None:
    data = group_pools()
    quality = measure_quality(GROUPS, build_learner(GROUPS, data), data)
    low, high = quality.pop("accuracy_interval")
    assert low < quality["accuracy"] < high
    assert quality.pop("accuracy_tasks") == 10
    assert quality.keys() == {"accuracy", "auroc", "auroc_both_labels", "tasks_with_both_labels"}
    assert all(0.5 <= value <= 1 for value in quality.values())


def test_without_both_labels_there_is_no_area() -> None:
    data = group_pools()
    learner = build_learner(GROUPS, data)
    one_shot = measure_quality(replace(GROUPS, shots=1), learner, data)
    assert 0 <= one_shot["auroc"] <= 1  # the queries have both labels
    assert one_shot["tasks_with_both_labels"] == 0
    assert "auroc_both_labels" not in one_shot
    test = data.pools.test
    same = GroupPool(test.x, np.zeros_like(test.y), test.groups, classes=2)
    none = measure_quality(GROUPS, learner, replace(data, pools=replace(data.pools, test=same)))
    assert none.keys() & {"auroc", "auroc_both_labels"} == set()
    json.dumps(none, allow_nan=False)


def test_each_seed_is_measured_on_tasks_of_its_own() -> None:
    learner = build_learner(CLASSES, DATA)
    first, again, other = (measure_quality(CLASSES, learner, DATA, rng) for rng in (0, 0, 1))
    assert first.keys() == {"accuracy", "accuracy_interval", "accuracy_tasks"}
    assert first == again
    assert first["accuracy"] != other["accuracy"]


@pytest.mark.parametrize("pool", ["validation", "train"])
def test_the_predictor_learns_the_quantiles_of_its_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    e, learner = replace(CLASSES, predictor=pool), build_learner(CLASSES, DATA)
    stored = RunScores(tmp_path, {"weights": "a"})
    embedded = count_embedded(monkeypatch)
    predictor = train_predictor(e, learner, DATA, stored)
    assert predictor.epsilon == e.guarantee.miss_rate
    assert embedded == [180]
    file = read_stored(tmp_path / f"{pool}-tasks.safetensors")
    assert file.provenance == {
        "weights": "a", "arrays": f"{pool}-tasks", "shots": 3, "ways": 3, "count": 8, "queries": 4,
    }  # fmt: skip
    tasks = list(getattr(DATA.pools, pool).tasks(8, ways=3, shots=3, queries=4, rng=0))
    expected = learner.bank(getattr(DATA.pools, pool).x)
    assert file.scores is not None
    assert file.embeddings is not None
    np.testing.assert_allclose(file.scores, expected.scores(tasks), rtol=1e-5)
    np.testing.assert_allclose(file.embeddings, expected.leave_one_out(tasks), rtol=1e-5)
    embedded.clear()
    again = train_predictor(e, learner, DATA, stored)
    assert embedded == []
    first, second = (each.predict(-file.embeddings) for each in (predictor, again))
    np.testing.assert_array_equal(first, second)
    monkeypatch.setattr(seed, "QUANTILE_TASKS", 9)  # other settings are scored anew
    train_predictor(e, learner, DATA, stored)
    assert embedded == [180]


def test_a_small_pool_gives_the_queries_that_it_has(tmp_path: Path) -> None:
    data = group_pools()
    e = replace(GROUPS, evaluation_examples=1000)
    train_predictor(e, build_learner(e, data), data, RunScores(tmp_path, {}))
    assert read_stored(tmp_path / "validation-tasks.safetensors").provenance["queries"] == 40 - 6


def test_tasks_of_one_pool_share_its_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    learner: ProtoNet = build_learner(CLASSES, DATA)
    embedded = count_embedded(monkeypatch)
    shape: dict[str, Any] = {"ways": 3, "shots": 3, "queries": 2, "rng": 0}
    one, other = (list(pool.tasks(2, **shape)) for pool in (DATA.pools.train, DATA.pools.test))
    banks = [bank for bank, _ in embed_tasks(learner, [*one, *other], fast=False)]
    assert embedded == [180, 180]
    assert [bank is banks[0] for bank in banks] == [True, True, False, False]


def test_pools_whose_tasks_are_transformed_are_moved_to_the_device() -> None:
    def shift(rng: np.random.Generator) -> Any:
        return lambda x, _: x + 1

    learner = build_learner(CLASSES, DATA)
    for pool in (DATA.pools.test, group_pools().pools.test):
        assert move_transformed(pool, learner) is pool
    pool = class_pools(shift).pools.test
    moved = move_transformed(pool, learner)
    assert moved.x.device == next(learner.module.parameters()).device
    shape: dict[str, Any] = {"ways": 3, "shots": 3, "queries": 2, "rng": 0}
    for one, other in zip(pool.tasks(3, **shape), moved.tasks(3, **shape), strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(one.x, other.x)
