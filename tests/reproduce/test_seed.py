"""One seed of an experiment: trained once, embedded once, and resumed wherever it stopped."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from metapac import BadArtefact
from metapac.fewshot import ProtoNet, Sphere, save_weights
from metapac.fewshot.datasets.pools import LoadedPools
from metapac.fewshot.reproduce import seed
from metapac.fewshot.reproduce.experiments import Experiment, list_controls
from metapac.fewshot.reproduce.seed import (
    SeedRun,
    build_learner,
    control_folder,
    make_study,
    read_learner,
    weights_checksum,
)
from metapac.fewshot.study.run import read_rows, read_settings
from metapac.fewshot.training import strong
from metapac.fewshot.training.strong import Recipe
from tests.helpers.experiments import (
    CLASSES,
    GROUPS,
    STRONG,
    TINY,
    class_pools,
    count_embedded,
    group_pools,
    shrink,
)
from tests.helpers.studies import same_rows

DATA = class_pools()
FILES = ("learner.json", "model.safetensors")
OTHER_RECIPE = Recipe(epochs=2, batch=16, lr=0.05, tuning_steps=4, episodes_per_step=2)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of the trainings that were run."""
    made: list[int] = []
    train = seed.train_learner

    def counted(*parts: Any, **options: Any) -> Any:
        made.append(options["rng"])
        return train(*parts, **options)

    monkeypatch.setattr(seed, "train_learner", counted)
    return made


def run(
    folder: Path, experiment: Experiment = CLASSES, data: LoadedPools = DATA, rng: int = 0
) -> SeedRun:
    return SeedRun(experiment, data, folder, rng)


def same_weights(one: ProtoNet, other: ProtoNet) -> bool:
    pairs = zip(one.module.state_dict().values(), other.module.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.mark.parametrize("experiment", [CLASSES, STRONG], ids=["episodes", "strong"])
def test_finished_weights_are_read_bit_for_bit(
    tmp_path: Path, trainings: list[int], experiment: Experiment
) -> None:
    first = run(tmp_path, experiment).train("cpu")
    before = content(tmp_path)
    shutil.rmtree(tmp_path / "training")  # what is stored needs no checkpoint
    again = run(tmp_path, experiment).train("cpu")
    assert trainings == [0]
    assert same_weights(first, again)
    assert content(tmp_path) == before
    untrained = build_learner(experiment, DATA, 0)
    assert not same_weights(first, untrained)


def with_training(**changes: Any) -> Experiment:
    return replace(CLASSES, training=replace(TINY, **changes))


OTHERS: dict[str, Callable[[Path], SeedRun]] = {
    "rng": lambda folder: run(folder, rng=1),
    "data": lambda folder: run(folder, data=replace(DATA, checksum="sha256:other")),
    "epochs": lambda folder: run(folder, with_training(epochs=2)),
    "learning rate": lambda folder: run(folder, with_training(lr=1e-2)),
    "shots": lambda folder: run(folder, replace(CLASSES, shots=2)),
    "recipe": lambda folder: run(folder, STRONG),
}


CHANGES = {
    "rng": "rng=0, but this one has rng=1",
    "data": "data='sha256:classes', but this one has data='sha256:other'",
    "epochs": "experiment.training.epochs=1, but this one has experiment.training.epochs=2",
    "learning rate": "experiment.training.lr=0.001, but this one has experiment.training.lr=0.01",
    "shots": "experiment.shots=3, but this one has experiment.shots=2",
    "recipe": "recipe.epochs=None, but this one has recipe.epochs=2",
}


@pytest.mark.parametrize("change", OTHERS)
def test_another_training_neither_replaces_this_one_nor_is_mistaken_for_it(
    tmp_path: Path, trainings: list[int], change: str
) -> None:
    run(tmp_path).train("cpu")
    shutil.rmtree(tmp_path / "training")
    before = content(tmp_path)
    other = OTHERS[change](tmp_path)
    message = re.escape(f"{tmp_path} holds a training with {CHANGES[change]}")
    with pytest.raises(ValueError, match=message + ".* Use the same settings, or another folder"):
        other.train("cpu")
    assert trainings == [0]
    assert content(tmp_path) == before
    OTHERS[change](tmp_path / "other").train("cpu")
    known = read_learner(tmp_path / "other")
    assert (known["rng"], known["data"]) == (other.rng, other.data.checksum)
    if change in ("rng", "learning rate", "recipe"):  # else the same weights may come out
        assert known["weights"] != read_learner(tmp_path)["weights"]


def test_a_training_by_another_recipe_is_not_mistaken_for_this_one(
    tmp_path: Path, trainings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, STRONG).train("cpu")
    shutil.rmtree(tmp_path / "training")
    before = content(tmp_path)
    monkeypatch.setattr(seed, "recipe_for", lambda backbone: OTHER_RECIPE)
    monkeypatch.setattr(strong, "recipe_for", lambda backbone: OTHER_RECIPE)
    with pytest.raises(ValueError, match=r"recipe\.lr=0\.1, but this one has recipe\.lr=0\.05"):
        run(tmp_path, STRONG).train("cpu")
    assert trainings == [0]
    assert content(tmp_path) == before
    run(tmp_path / "other", STRONG).train("cpu")
    assert read_learner(tmp_path / "other")["recipe"] == asdict(OTHER_RECIPE)


def test_what_the_weights_do_not_depend_on_trains_nothing_anew(
    tmp_path: Path, trainings: list[int]
) -> None:
    run(tmp_path).train("cpu")
    other = replace(CLASSES, calibration_tasks=9, predictor="train", new_tasks="calibration")
    run(tmp_path, replace(other, draws=1, title="Other", test_tasks=2)).train("cpu")
    assert trainings == [0]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: Path) -> None:
    old = path.read_bytes()
    path.write_bytes(old[:-3] + bytes([old[-3] ^ 1]) + old[-2:])


def replace_by_other_weights(path: Path) -> None:
    save_weights(build_learner(CLASSES, DATA, 7), path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", [truncate, flip, Path.unlink, replace_by_other_weights])
def test_a_damaged_file_is_made_again_from_the_checkpoint(
    tmp_path: Path, name: str, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(tmp_path).train("cpu")
    before = content(tmp_path)
    harm(tmp_path / name)
    again = run(tmp_path).train("cpu")
    assert same_weights(first, again)
    assert content(tmp_path) == before  # seconds too: no epoch was trained again
    with monkeypatch.context() as patch:
        patch.setattr(seed, "train_learner", pytest.fail)
        run(tmp_path).train("cpu")


def test_the_description_names_what_the_learner_is_known_by(tmp_path: Path) -> None:
    learner = run(tmp_path, rng=3).train("cpu")
    known = read_learner(tmp_path)
    assert known["training"] == json.loads(json.dumps(CLASSES.describe_training()))
    assert known["experiment"] == json.loads(json.dumps(CLASSES.describe()))
    assert (known["data"], known["rng"]) == ("sha256:classes", 3)
    assert known["weights"] == weights_checksum(learner)
    assert known["pools"]["test"] == [6, 180]
    assert (known["epochs"], known["episodes"], known["best_epoch"]) == (1, 4, 1)
    assert 1 / 3 < known["accuracy"] <= 1
    assert "recipe" not in known


def test_a_strong_learner_is_described_by_its_recipe(tmp_path: Path) -> None:
    learner = run(tmp_path, STRONG).train("cpu")
    assert isinstance(learner.module, Sphere)
    known = read_learner(tmp_path)
    assert known["training"]["training"] is None
    assert (known["recipe"]["epochs"], known["recipe"]["tuning_steps"]) == (2, 4)
    assert (known["epochs"], known["best_epoch"], known["episodes"]) == (3, 3, 8)


@pytest.mark.parametrize("change", ["epochs", "data", "recipe"])
def test_the_learner_of_an_evaluation_is_not_lost(
    tmp_path: Path, trainings: list[int], change: str
) -> None:
    first = run(tmp_path)
    first.evaluate(first.train("cpu"))
    shutil.rmtree(tmp_path / "training")
    before = content(tmp_path)
    with pytest.raises(ValueError, match="holds an evaluation with .* Use the same settings"):
        OTHERS[change](tmp_path).train("cpu")
    assert trainings == [0]
    assert content(tmp_path) == before
    (tmp_path / "evaluation.json").write_text("{")
    with pytest.raises(BadArtefact, match=r"evaluation\.json"):
        OTHERS[change](tmp_path).train("cpu")


def test_other_weights_do_not_replace_those_of_an_evaluation(tmp_path: Path) -> None:
    first = run(tmp_path)
    first.evaluate(first.train("cpu"))
    shutil.rmtree(tmp_path / "training")
    (tmp_path / "model.safetensors").unlink()
    described = (tmp_path / "learner.json").read_bytes()
    with pytest.MonkeyPatch.context() as patch:  # as on another device, where results differ
        train = seed.train_learner
        patch.setattr(seed, "train_learner", lambda *parts, rng, **o: train(*parts, rng=9, **o))
        with pytest.raises(ValueError, match="holds an evaluation with weights='sha256:"):
            run(tmp_path).train("cpu")
    assert (tmp_path / "learner.json").read_bytes() == described
    assert not (tmp_path / "model.safetensors").exists()
    shutil.rmtree(tmp_path / "training")
    learner = run(tmp_path).train("cpu")  # the same seed gives the same weights here
    assert weights_checksum(learner) == read_learner(tmp_path)["weights"]


def test_a_control_embeds_no_pool_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metapac.fewshot.reproduce.experiments.SMALL", (4, 6))
    own = run(tmp_path)
    learner = own.train("cpu")
    embedded = count_embedded(monkeypatch)
    rows = own.evaluate(learner)
    assert embedded == [180, 180, 180]  # validation, calibration and test
    controls = {control.name: control for control in list_controls(CLASSES)}
    assert [*controls] == ["seen", "no-shift", "n-12", "n-18"]
    for name, added in (("no-shift", 0), ("n-12", 0), ("n-18", 0), ("seen", 1)):
        embedded.clear()
        result = own.evaluate_control(learner, controls[name])
        assert len(embedded) == added, name  # the training pool, which was not embedded before
        assert not same_rows(result, rows)
        own.evaluate_control(learner, controls[name])
        assert len(embedded) == added, name
        folder = control_folder(tmp_path, controls[name])
        assert same_rows(read_rows(folder), result)
        described = read_settings(folder)["study"]["experiment"]
        assert described == json.loads(json.dumps(controls[name].experiment.describe()))
    assert same_rows(own.evaluate(learner), rows)
    assert {name for name, _ in read_rows(tmp_path / "controls" / "seen").methods()} == {"Meta-CP"}


def test_a_predictor_is_fitted_once_and_only_for_draws_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metapac.fewshot.reproduce.experiments.SMALL", (4, 6))
    fitted: list[str] = []
    fit = seed.train_predictor

    def counted(experiment: Experiment, *parts: Any) -> Any:
        fitted.append(experiment.predictor)
        return fit(experiment, *parts)

    monkeypatch.setattr(seed, "train_predictor", counted)

    def work(draws: int) -> list[Any]:
        own = run(tmp_path, replace(CLASSES, draws=draws))
        learner = own.train("cpu")
        controls = list_controls(own.experiment)
        return [own.evaluate(learner), *(own.evaluate_control(learner, c) for c in controls)]

    first = work(2)
    assert fitted == ["validation", "train"]
    fitted.clear()
    again = work(2)
    assert fitted == []
    assert all(same_rows(*pair) for pair in zip(first, again, strict=True))
    longer = work(3)
    assert fitted == ["validation", "train"]
    for rows, old in zip(longer, first, strict=True):
        assert same_rows(rows.take(rows.draw < 2), old)


@pytest.mark.parametrize(
    "change",
    [
        {"shots": 2},
        {"evaluation_examples": 5},
        {"guarantee": replace(CLASSES.guarantee, epsilon=0.2)},
    ],
)
def test_another_predictor_is_not_shared(tmp_path: Path, change: dict[str, Any]) -> None:
    learner = build_learner(CLASSES, DATA, 0)
    predictors: dict[Any, Any] = {}
    for experiment in (CLASSES, replace(CLASSES, tasks_from="bank", bank=(14, 5))):
        seed.make_study(experiment, learner, DATA, tmp_path, None, predictors)
    assert len(predictors) == 1
    seed.make_study(replace(CLASSES, **change), learner, DATA, tmp_path, None, predictors)
    other = build_learner(CLASSES, DATA, 1)
    seed.make_study(CLASSES, other, DATA, tmp_path, None, predictors)
    assert len(predictors) == 3


def test_a_control_differs_in_what_it_controls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metapac.fewshot.reproduce.experiments.SMALL", (4,))
    own = run(tmp_path)
    learner = own.train("cpu")
    controls: dict[str, Any] = {
        control.name: seed.make_study(control.experiment, learner, DATA, tmp_path)
        for control in list_controls(CLASSES)
    }
    main: Any = seed.make_study(CLASSES, learner, DATA, tmp_path)
    pools = DATA.pools
    assert (main.calibration, main.test) == (pools.calibration, pools.test)
    assert controls["no-shift"].test is controls["no-shift"].calibration is pools.calibration
    assert (main.queries, controls["n-12"].queries) == (9, 4)
    assert controls["seen"].test is pools.test
    one, other = (study.draw(np.random.default_rng(0)) for study in (main, controls["seen"]))
    assert one.quantiles is not None
    assert other.quantiles is not None
    np.testing.assert_array_equal(one.scores, other.scores)
    assert not np.array_equal(one.quantiles, other.quantiles)  # another predictor


STOPS = [
    ("training", 1),
    ("quantiles of Meta-CP", 3),
    ("embedding the pools", 0),
    ("draws", 1),
    ("draws", 2),
    ("seen: draws", 1),
]


@pytest.mark.parametrize("experiment", [CLASSES, GROUPS], ids=["classes", "groups"])
def test_a_stopped_run_ends_with_the_same_rows(tmp_path: Path, experiment: Experiment) -> None:
    data = DATA if experiment is CLASSES else group_pools()
    seen = list_controls(experiment)[0]

    def work(folder: Path, progress: Any) -> list[Any]:
        own = SeedRun(experiment, data, folder, 0, progress)
        learner = own.train("cpu")
        return [own.evaluate(learner), own.evaluate_control(learner, seen)]

    expected = work(tmp_path / "whole", lambda *stage: None)
    for name, number in STOPS:

        def stop(stage: str, done: int, total: int | None) -> None:
            if stage.partition(",")[0] == name and done == number:  # noqa: B023 (called at once)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            work(tmp_path / "stopped", stop)
    result = work(tmp_path / "stopped", lambda *stage: None)
    assert all(same_rows(*pair) for pair in zip(expected, result, strict=True))


class Brighter:
    name = "brighter"

    def __call__(self, images: Any, rng: Any) -> Any:
        return images + 1


def test_tasks_with_changed_examples_are_scored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = class_pools(transform=lambda rng: Brighter())
    experiment = replace(CLASSES, tasks_from="bank", bank=(14, 5), calibration_tasks=12)
    own = run(tmp_path, experiment, data)
    learner = own.train("cpu")
    rows = own.evaluate(learner)
    assert len(rows) == 2 * 3 * len(rows.methods())
    embedded = count_embedded(monkeypatch)
    longer = run(tmp_path, replace(experiment, draws=3), data)
    again = longer.evaluate(longer.train("cpu"))
    assert embedded == []
    assert same_rows(again.take(again.draw < 2), rows)


@pytest.mark.parametrize("kind", ["bank", "pools"])
def test_data_that_only_one_task_has_are_embedded_fast(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed, chosen = ProtoNet.embed, []

    def watched(self: ProtoNet, x: Any, *, fast: bool = False) -> Any:
        chosen.append(fast)
        return embed(self, x, fast=fast)

    monkeypatch.setattr(ProtoNet, "embed", watched)
    e, data = replace(CLASSES, tasks_from=kind, bank=(14, 5)), class_pools()
    make_study(e, build_learner(e, data), data, tmp_path)
    assert set(chosen) == {kind == "bank"}
