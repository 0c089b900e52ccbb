"""Vectors of one length, and how a ProtoNet on them compares directions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from metapac import InvalidInput
from metapac.fewshot import MLP, ProtoNet, PrototypeLearner, Sphere, load_learner, save_weights


def test_with_one_shot_the_probabilities_are_a_softmax_of_cosines() -> None:
    rng = np.random.default_rng(0)
    support, query = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
    scorer = ProtoNet(Sphere(nn.Identity(), scale=7.0)).adapt(support, [0, 1, 2])
    for x, row in zip(query, scorer.predict_proba(query), strict=True):
        cosines = [x @ s / math.dist(x, 0 * x) / math.dist(s, 0 * s) for s in support]
        weights = np.exp(7.0 * np.array(cosines))
        np.testing.assert_allclose(row, weights / weights.sum(), rtol=1e-5)


def test_a_prototype_is_the_mean_of_vectors_on_the_sphere() -> None:
    # Two shots at right angles: their mean is 1 / sqrt(2) from the centre of the unit sphere.
    support = np.array([[3.0, 0.0], [0.0, 5.0], [-1.0, 0.0]])
    scorer = ProtoNet(Sphere(nn.Identity(), scale=2.0)).adapt(support, [0, 0, 1])
    (row,) = scorer.predict_proba(np.array([[9.0, 0.0]]))
    distances = np.array([0.5**2 + 0.5**2, 2.0**2])  # of (1, 0) to (0.5, 0.5) and (-1, 0)
    weights = np.exp(-distances)
    np.testing.assert_allclose(row, weights / weights.sum(), rtol=1e-6)


def test_stored_vectors_of_length_1_are_compared_in_the_same_way() -> None:
    rng = np.random.default_rng(1)
    support, query = rng.normal(size=(9, 4)), rng.normal(size=(6, 4))
    y = np.repeat([0, 1, 2], 3)
    sphere = ProtoNet(Sphere(nn.Identity(), scale=7.0))
    unit, probe = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (support, query))

    def difference(learner: PrototypeLearner, shots: slice) -> float:
        expected = sphere.adapt(support[shots], y[shots]).predict_proba(query)
        found = learner.adapt(unit[shots], y[shots]).predict_proba(probe)
        return float(np.abs(found - expected).max())

    assert difference(PrototypeLearner(temperature=2 / 7.0), slice(None)) < 1e-5
    cosine = PrototypeLearner("cosine", temperature=1 / 7.0)
    assert difference(cosine, slice(None, None, 3)) < 1e-5  # one shot
    assert difference(cosine, slice(None)) > 0.01  # three shots: the mean is inside the sphere


def test_lengths_do_not_matter_and_the_scale_does() -> None:
    x = torch.tensor([[0.3, -0.4], [30.0, -40.0]])
    short, long = Sphere(nn.Identity(), scale=2.0)(x)
    torch.testing.assert_close(short, long)
    assert float(short.detach().norm()) == pytest.approx(1.0)
    far = Sphere(nn.Identity(), scale=50.0)(x)[0]
    assert float(far.detach().norm()) == pytest.approx(5.0)


def test_a_zero_vector_stays_finite() -> None:
    assert Sphere(nn.Identity())(torch.zeros(1, 3)).tolist() == [[0.0, 0.0, 0.0]]


def test_the_scale_is_trained_and_saved(tmp_path: object) -> None:
    learner = ProtoNet(Sphere(MLP(3, width=4, rng=0), scale=5.0))
    module = learner.module
    assert isinstance(module, Sphere)
    assert any(weight is module.log_temperature for weight in module.parameters())
    with torch.no_grad():
        module.log_temperature.fill_(math.log(11.0))
    path = f"{tmp_path}/model.safetensors"
    save_weights(learner, path)
    loaded = load_learner(path)
    assert isinstance(loaded.module, Sphere)
    assert float(loaded.module.log_temperature.detach().exp()) == pytest.approx(11.0)
    assert torch.equal(loaded.embed(np.eye(3)), learner.embed(np.eye(3)))  # type: ignore[union-attr]
    assert loaded.module.features == 4


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_must_be_positive(scale: float) -> None:
    with pytest.raises(InvalidInput, match="scale must be a positive number"):
        Sphere(nn.Identity(), scale=scale)
