"""A recipe with its options: what is recorded, and what it does not take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import InvalidInput
from metapac.fewshot.options import Training
from metapac.fewshot.training.runs import train_run

Y = np.repeat(np.arange(16), 12)
X = np.random.default_rng(0).normal(Y[:, None], 1.0, (192, 4)).astype(np.float32)
SHORT: dict[str, Any] = {"epochs": 1, "tasks": 4}
SIZE: dict[str, Any] = {"ways": 3, "shots": 2, "queries": 3, "device": "cpu"}


@pytest.fixture
def data(tmp_path: Path) -> str:
    np.savez(tmp_path / "rows.npz", x=X, y=Y)
    return str(tmp_path / "rows.npz")


def test_a_run_says_how_good_it_is_and_resumes(data: str, tmp_path: Path) -> None:
    training = Training(**SHORT, episodes=8, batch=4)
    stages: list[tuple[str, int, int | None]] = []

    def progress(stage: str, done: int, total: int | None) -> None:
        stages.append((stage.partition(",")[0], done, total))

    run = train_run(data, tmp_path / "run", training, **SIZE, progress=progress)
    assert run is not None
    assert ("training", 1, 1) in stages
    assert str(run).startswith(f"Accuracy {run.accuracy.value:.1%} (")
    assert "\nAfter 1 epoch, with " in str(run)
    longer = Training(epochs=3, tasks=4, episodes=8, batch=4)
    resumed = train_run(data, tmp_path / "run", longer, **SIZE)
    assert resumed is not None
    assert resumed.history.epochs[:1] == run.history.epochs
    assert f"\nBest of 3 epochs: {resumed.history.best.epoch}, with " in str(resumed)
    with pytest.raises(InvalidInput, match="was made with shots=2, and this call has shots=1"):
        train_run(data, tmp_path / "run", training, **{**SIZE, "shots": 1})


def test_the_strong_recipe_is_told_by_its_stages(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(256, size=(192, 16, 16, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", x=images, y=Y)
    stages: list[str] = []

    def progress(stage: str, done: int, total: int | None) -> None:
        stages.append(f"{stage.partition(',')[0]} {done} of {total}")

    training = Training(**SHORT, recipe="strong", tuning_steps=1)
    run = train_run(
        str(tmp_path / "images.npz"), tmp_path / "run", training, **SIZE, progress=progress
    )
    assert run is not None
    assert "\nLast of " in str(run)
    assert [stage for stage in stages if "of None" not in stage] == [
        "pre-training 1 of 1",
        "tuning 1 of 1",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe": "weak"}, "recipe must be 'paper' or 'strong'"),
        ({"epochs": 0}, "epochs must be a whole number from 1"),
        ({"learner": "knn"}, "learner must be 'protonet' or 'maml', got 'knn'"),
        ({"learner": "maml", "recipe": "strong"}, "recipe='strong' trains a protonet, got learner"),
        ({"flip": True}, "flip does not apply to recipe='paper'"),
        *(
            ({name: 5, "recipe": "strong"}, f"{name} does not apply to recipe='strong'")
            for name in ("episodes", "batch", "halve_every", "patience")
        ),
    ],
)
def test_what_a_recipe_does_not_take(
    data: str, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        train_run(data, tmp_path / "run", Training(**options), **SIZE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pools": [1, 2, 3]}, "pools must be four whole numbers"),
        ({"pools": [0, 1, 1, 1]}, "only calibration may be 0"),
        ({"image_size": 8}, "image_size must be a whole number from 16"),
        ({"queries": 0}, "queries must be a whole number from 1"),
    ],
)
def test_bad_sizes_are_named(
    data: str, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        train_run(data, tmp_path / "run", **{**SIZE, **options})


def test_the_strong_recipe_runs_in_one_process(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidInput, match="recipe='strong' runs in one process"):
        train_run(data, tmp_path / "run", Training(recipe="strong"), **SIZE)
