"""The constants of the experiments."""

from __future__ import annotations

from metapac.reproduce.experiments import EXPERIMENTS


def test_the_constants_are_those_of_the_paper() -> None:
    mini, cifar, fewrel, heart = (
        EXPERIMENTS[name] for name in ("miniimagenet", "cifar10c", "fewrel", "heart")
    )
    for e in (mini, fewrel):
        assert (e.ways, e.shots, e.calibration_examples, e.evaluation_examples) == (5, 5, 500, 100)
        assert (e.calibration_tasks, e.test_tasks, e.labelled_examples) == (500, 50, 20)
    assert (cifar.ways, cifar.calibration_examples, cifar.guarantee.epsilon) == (10, 500, 0.2)
    assert (heart.ways, heart.shots, heart.calibration_examples) == (None, 10, 3000)
    assert (heart.calibration_tasks, heart.training.class_weights) == (250, (1.0, 10.0))
    assert [e.training.lr for e in (mini, cifar, heart)] == [1e-3, 1e-2, 1e-3]
    assert all(e.guarantee.alpha == 0.1 for e in EXPERIMENTS.values())
    assert {e.guarantee.delta for e in EXPERIMENTS.values()} == {1e-5, 0.01}
