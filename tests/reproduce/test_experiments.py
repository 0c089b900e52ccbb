"""The constants of the experiments, and what their results depend on."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace

import pytest

from metapac.fewshot.reproduce.experiments import (
    EXPERIMENTS,
    Experiment,
    Published,
    Training,
    find_experiment,
)


def test_the_constants_are_those_of_the_paper() -> None:
    mini, cifar, fewrel, heart = (
        EXPERIMENTS[name] for name in ("miniimagenet", "cifar10c", "fewrel", "heart")
    )
    for e in (mini, fewrel):
        assert (e.ways, e.shots, e.calibration_examples, e.evaluation_examples) == (5, 5, 500, 100)
        assert (e.calibration_tasks, e.test_tasks, e.labelled_examples) == (500, 50, 20)
    assert (cifar.ways, cifar.calibration_examples, cifar.guarantee.epsilon) == (10, 500, 0.2)
    assert (heart.ways, heart.shots, heart.calibration_examples) == (None, 10, 3000)
    assert heart.calibration_tasks == 250
    trainings = [e.training for e in (mini, cifar, heart) if e.training is not None]
    assert [training.lr for training in trainings] == [1e-3, 1e-2, 1e-3]
    assert trainings[-1].class_weights == (1.0, 10.0)
    assert all(e.guarantee.alpha == 0.1 for e in EXPERIMENTS.values())
    assert {e.guarantee.delta for e in EXPERIMENTS.values()} == {1e-5, 0.01}


def test_every_result_rests_on_several_seeds() -> None:
    few = {name for name, e in EXPERIMENTS.items() if e.seeds < 3}
    assert few <= {"glyphs", "cifar10c"}
    together = {name: e.seeds * e.draws for name, e in EXPERIMENTS.items()}
    assert together.pop("glyphs") == 10
    assert min(together.values()) >= 100  # as many draws as the paper has


def test_strong_learners_have_the_tasks_of_the_paper() -> None:
    mini = EXPERIMENTS["miniimagenet"]
    strong = {name: e for name, e in EXPERIMENTS.items() if e.training is None}
    assert {name: e.backbone for name, e in strong.items()} == {
        "miniimagenet-conv4-strong": "conv4",
        "miniimagenet-resnet12-strong": "resnet12",
    }
    for e in strong.values():
        changed = {name for name, value in e.describe().items() if value != mini.describe()[name]}
        assert changed <= {"name", "backbone", "training"}
        assert e.differences != mini.differences


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS.keys())
def test_the_description_says_all_that_matters(experiment: Experiment) -> None:
    described = experiment.describe()
    assert json.loads(json.dumps(described))["name"] == experiment.name
    names = {field.name for field in fields(Experiment)}
    assert names - described.keys() == {"title", "draws", "seeds", "differences", "published"}
    trained_by = experiment.describe_training()
    assert trained_by.items() <= described.items()
    assert {"data", "backbone", "training", "ways", "shots"} <= trained_by.keys()
    more = replace(experiment, draws=7, seeds=9, published=(Published(0.5, "a", "b"),))
    assert more.describe() == described


def test_a_training_is_known_by_its_settings() -> None:
    mini = EXPERIMENTS["miniimagenet"]
    other = replace(mini, training=Training(lr=1e-3, episodes_per_epoch=1601))
    assert other.describe_training() != mini.describe_training()
    for change in ({"backbone": "resnet12"}, {"ways": 4}, {"shots": 1}, {"min_group_size": 2}):
        assert replace(mini, **change).describe_training() != mini.describe_training()
    for change in ({"calibration_examples": 1}, {"predictor": "train"}, {"name": "other"}):
        assert replace(mini, **change).describe_training() == mini.describe_training()


def test_an_experiment_is_found_by_its_name() -> None:
    assert find_experiment("heart") is EXPERIMENTS["heart"]
    assert all(name == e.name for name, e in EXPERIMENTS.items())
    with pytest.raises(ValueError, match="name must be 'glyphs' or"):
        find_experiment("mnist")


def test_published_accuracies_have_their_source() -> None:
    for experiment in EXPERIMENTS.values():
        for published in experiment.published:
            assert 0 < published.accuracy < 1
            assert published.learner
            assert re.search(r"\b(19|20)\d\d\b|github\.com/", published.source)
