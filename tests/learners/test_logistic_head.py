"""Logistic regression: the gradient vanishes, and the bound on the error is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import check_grad

from metapac import InvalidInput
from metapac.fewshot.learners import vectors
from metapac.fewshot.learners.vectors import Objective, SupportSets, fit_logistic


def draw(seed: int, scale: float = 1.0, size: int = 12, width: int = 5) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    labels = np.arange(size) % 3
    support = scale * (rng.normal(size=(3, width))[labels] + rng.normal(size=(size, width)))
    return support, (labels[:, None] == np.arange(4)).astype(float)


def plain_gradient(support: Any, one_hot: Any, head: Any, penalty: float) -> Any:
    """The gradient in the original coordinates, from the head's own weights."""
    z = np.hstack([support - head.centre[0], np.ones((len(support), 1))])
    bias = np.where(np.isfinite(head.bias[0]), head.bias[0], 0.0)
    weights = np.hstack([head.weights[0], bias[:, None]])  # (classes, d + 1)
    present = one_hot.any(0)
    logits = z @ weights[present].T
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return (p - one_hot[:, present]).T @ z + penalty * weights[present]


@pytest.mark.parametrize("penalty", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("size", "width"), [(12, 5), (6, 40)])
def test_the_gradient_vanishes_in_the_original_coordinates(
    penalty: float, size: int, width: int
) -> None:
    support, one_hot = draw(1, size=size, width=width)
    head = fit_logistic(SupportSets(support[None], one_hot[None]), penalty)
    assert np.abs(plain_gradient(support, one_hot, head, penalty)).max() < 1e-9
    assert np.isneginf(head.bias[0, 3])
    assert head.error.max() < 1e-8 / penalty


@pytest.mark.parametrize("reach", [1.0, 1e6])
def test_a_worse_optimum_is_within_its_bound(monkeypatch: pytest.MonkeyPatch, reach: float) -> None:
    # Without Newton steps the gradient is larger, and so is the bound; both contain the optimum.
    support, one_hot = draw(2)
    exact = fit_logistic(SupportSets(support[None], one_hot[None]), 0.1)
    monkeypatch.setattr(vectors, "_NEWTON_STEPS", 0)
    monkeypatch.setattr(vectors, "_CONVERGED", 1.0)
    rough = fit_logistic(SupportSets(support[None], one_hot[None]), 0.1)
    queries = reach * np.random.default_rng(3).normal(size=(1, 50, 5))
    (first, small), (second, large) = exact.logits(queries), rough.logits(queries)
    wrong = np.abs(first[..., :3] - second[..., :3])
    assert (wrong <= (small + large)[..., None]).all()
    assert large.mean() > small.mean()


def test_loss_and_gradient_agree() -> None:
    support, one_hot = draw(4)
    objective = Objective(support, one_hot[:, :3], 0.7)
    theta = np.random.default_rng(5).normal(size=15)
    value, gradient = objective.loss(theta)
    assert check_grad(lambda t: objective.loss(t)[0], objective.gradient, theta) < 1e-5
    np.testing.assert_array_equal(gradient, objective.gradient(theta))
    p = np.exp(support @ theta.reshape(5, 3))
    p /= p.sum(1, keepdims=True)
    expected = -np.log(p[one_hot[:, :3] > 0]).sum() + 0.35 * (theta**2).sum()
    assert value == pytest.approx(expected)


def test_a_newton_step_solves_the_quadratic_model() -> None:
    support, one_hot = draw(6)
    objective = Objective(support, one_hot[:, :3], 0.7)
    theta = np.random.default_rng(7).normal(size=15)
    step = objective.newton_step(theta)
    shift = 1e-5 * step
    change = (objective.gradient(theta + shift) - objective.gradient(theta - shift)) / 2e-5
    np.testing.assert_allclose(change, -objective.gradient(theta), rtol=1e-4, atol=1e-6)


def test_a_fit_that_does_not_converge_is_refused() -> None:
    support, one_hot = draw(8, scale=1e6)
    with pytest.raises(InvalidInput, match=r"penalty must be large enough .*1e-10.* length 1"):
        fit_logistic(SupportSets(support[None], one_hot[None]), 1e-10)
