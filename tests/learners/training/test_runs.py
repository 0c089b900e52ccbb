"""A run from data to weights: its learner, its record, and what it does not take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import InvalidInput
from metapac.fewshot import MAML, load_learner
from metapac.fewshot.datasets.pools import LoadedPools, read_run
from metapac.fewshot.options import Training
from metapac.fewshot.pools import ClassPool, GroupPool, Pools
from metapac.fewshot.training.runs import build_learner, load_training_pools, train_run

Y = np.repeat(np.arange(16), 12)
X = np.random.default_rng(0).normal(Y[:, None], 1.0, (192, 4)).astype(np.float32)
SIZE: dict[str, Any] = {"ways": 3, "shots": 2, "queries": 3, "device": "cpu"}


def save(folder: Path, **arrays: Any) -> str:
    folder.mkdir(exist_ok=True)
    np.savez(folder / "data.npz", **{"x": X, "y": Y, **arrays})
    return str(folder / "data.npz")


def test_a_run_says_how_good_it_is_and_resumes(tmp_path: Path) -> None:
    data, folder, stages = save(tmp_path), tmp_path / "run", list[tuple[str, int, int | None]]()
    training = Training(epochs=1, tasks=4, episodes=8, batch=4)
    run = train_run(data, folder, training, **SIZE, progress=lambda *now: stages.append(now))
    assert run is not None
    (text,) = [stage for stage, done, total in stages if (done, total) == (1, 1)]
    assert text.startswith("training, loss ")
    resumed = train_run(data, folder, replace(training, epochs=3), **SIZE)
    assert resumed is not None
    assert resumed.history.epochs[:1] == run.history.epochs
    assert f"\nBest of 3 epochs: {resumed.history.best.epoch}, with " in str(resumed)
    learner, record = load_learner(folder), read_run(folder)
    assert record["architecture"]["backbone"] == learner.describe()["backbone"]
    with pytest.raises(InvalidInput, match="made with shots=2, and this call has shots=1"):
        train_run(data, folder, training, **{**SIZE, "shots": 1})
    with pytest.raises(InvalidInput, match="the data changed"):
        train_run(save(tmp_path, x=X + 1), folder, training, **SIZE)


def test_the_stages_of_the_strong_recipe_are_reported(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(256, size=(192, 16, 16, 3), dtype=np.uint8)
    stages: list[str] = []

    def progress(stage: str, done: int, total: int | None) -> None:
        stages.append(f"{stage.partition(',')[0]} {done} of {total}")

    training = Training(epochs=1, tasks=4, recipe="strong", tuning_steps=1)
    run = train_run(save(tmp_path, x=images), tmp_path / "run", training, **SIZE, progress=progress)
    assert "\nLast of 2 epochs: 2, with " in str(run)
    counted = [stage for stage in stages if "of None" not in stage]
    assert counted == ["pre-training 1 of 1", "tuning 1 of 1"]


def test_bad_input_of_a_run_is_refused(tmp_path: Path) -> None:
    data = save(tmp_path)
    strong = {name: {name: 5, "recipe": "strong"} for name in ("batch", "halve_every", "patience")}
    bad: dict[str, dict[str, Any]] = {f"{k} does not apply": v for k, v in strong.items()}
    bad |= {"epochs": {"epochs": 0}, "flip does not apply": {"flip": True}}
    bad |= {"backbone='conv4' takes images": {"backbone": "conv4"}}
    for message, training in bad.items():
        with pytest.raises(InvalidInput, match=message):
            train_run(data, tmp_path / "run", Training(**training), **SIZE)
    wrong: list[dict[str, Any]] = [{"pools": [1, 2, 3]}, {"pools": [0, 1, 1, 1]}, {"queries": 0}]
    wrong += [{"image_size": 8}]
    for options in wrong:
        with pytest.raises(InvalidInput, match=next(iter(options))):
            train_run(data, tmp_path / "run", **SIZE | options)


def loaded(x: Any, **more: Any) -> LoadedPools:
    pool = ClassPool(x, np.repeat(["a", "b"], 4))
    return LoadedPools(Pools(train=pool), "sha256:none", **more)


def images(*shape: int) -> Any:
    return np.random.default_rng(0).integers(256, size=(8, *shape), dtype=np.uint8)


def test_the_learner_suits_the_data() -> None:
    cases: list[tuple[Any, str | None, str, int | None]] = [
        ((16, 16), None, "Conv4", 1),
        ((16, 16, 3), None, "Conv4", 3),
        ((3, 16, 16), None, "Conv4", 3),
        ((16, 16, 3), "resnet12", "ResNet12", 3),
        ((8, 8, 3), "mlp", "MLP", None),
        ((4,), None, "MLP", None),
    ]
    for shape, backbone, kind, channels in cases:
        learner = build_learner(loaded(images(*shape)), Training(backbone=backbone), 2, 0)
        described = learner.module.describe()
        assert (described["class"], described.get("channels")) == (kind, channels)
    x = images(16, 16, 3)
    mean = build_learner(loaded(x), Training(), 2, 0).module.describe()["mean"]
    assert mean == pytest.approx((x / 255).mean((0, 1, 2)).tolist())
    known = loaded(x, is_imagenet=True)
    assert build_learner(known, Training(), 2, 0).module.describe()["mean"][0] == 0.485
    # MAML has an output for each class of a task.
    maml, groups = Training(learner="maml"), GroupPool(images(4), [0, 1] * 4, ["x", "y"] * 4)
    assert build_learner(loaded(images(4)), maml, 5, 0).classes == 5
    learner = build_learner(LoadedPools(Pools(train=groups), "sha256:none"), maml, 5, 0)
    assert isinstance(learner, MAML)
    assert learner.classes == 2
    sentences = loaded(np.zeros((8, 128, 3), np.int32), words=np.zeros((5, 4), np.float32))
    built = build_learner(sentences, Training(), 2, 0).module
    assert built.describe()["class"] == "SentenceCNN"
    with pytest.raises(InvalidInput, match="backbone must be 'sentence_cnn', got 'mlp'"):
        build_learner(sentences, Training(backbone="mlp"), 2, 0)


def test_what_is_too_small_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [9, 9, 9, 9, 3, 9, 4, 9]
    data = save(tmp_path, x=np.zeros((61, 2)), y=np.repeat(np.arange(8), sizes))
    for queries, small in ((2, {}), (3, {4: 3}), (4, {4: 3, 6: 4})):
        found, notes = load_training_pools(data, shots=1, queries=queries, rng=0)
        assert found.left_out == small
        names = {name for pool in vars(found.pools).values() for name in pool.names}
        assert names == {*range(8)} - small.keys()
        assert len(notes) == bool(small)
    assert notes[0].startswith("left out 2 classes with fewer than 5 examples, the 1 shots + 4 q")
    assert notes[0].endswith(": 4 with 3, 6 with 4.")
    y, groups = np.arange(38) % 2, np.repeat([*"abcde"], [9, 9, 9, 2, 9])
    data = save(tmp_path / "groups", x=np.zeros((38, 2)), y=y, groups=groups)
    found, notes = load_training_pools(data, shots=2, queries=1, rng=0)
    assert found.left_out == {"d": 2}
    assert notes[0].startswith("left out 1 group with fewer than 3 examples")
    asked: list[Any] = []  # the surveys of heart keep all state-years

    def load(data: str, **options: Any) -> Any:
        asked.append(options)
        return LoadedPools(Pools(train=ClassPool(X, Y)), "sha256:none")

    monkeypatch.setattr("metapac.fewshot.training.runs.load_pools", load)
    load_training_pools("heart", shots=5, queries=5)
    assert asked == [{"min_size": None}]
