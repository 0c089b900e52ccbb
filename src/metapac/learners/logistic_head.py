"""Multinomial logistic regression on support sets, solved until the error is known to be small."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metapac._types import Doubles
from metapac.exceptions import InvalidInput, Parameter
from metapac.learners.linear_heads import LinearHead, SupportSets, times_shift

# The fit has converged if logits on the support set are this close to those of the optimum.
_CONVERGED = 1e-6
_NEWTON_STEPS = 5


def fit_logistic(support: SupportSets, penalty: float) -> LinearHead:
    """Return heads of multinomial logistic regression on centred vectors, with an L2 penalty.

    Parameters
    ----------
    support : SupportSets
        The support sets.
    penalty : float
        Half of it times the squared weights, intercepts included, is added to the cross-entropy.

    Returns
    -------
    LinearHead
        The heads.

    Raises
    ------
    InvalidInput
        If the optimiser does not converge.

    Notes
    -----
    The objective is strongly convex with modulus ``penalty``, so the error of the weights is at
    most the norm of the gradient divided by ``penalty``.
    """
    centre, shift = support.centre()
    vectors = support.vectors - centre - shift  # (T, S, d)
    z = np.concatenate([vectors, np.ones_like(vectors[:, :, :1])], axis=2)
    weights, gradients = _minimise(z, support.one_hot, penalty)  # (T, classes, d + 1), (T,)
    size, slope = (np.linalg.norm(matrix, axis=(1, 2)) for matrix in (z, weights))
    sizes = size * (1 + slope) + penalty * slope
    rounding = SupportSets(z, support.one_hot).rounding
    distance = (gradients + rounding * sizes) / penalty  # (T,)
    _check_converged(distance * np.linalg.norm(z, axis=-1).max(1), penalty)
    slopes, intercepts = weights[:, :, :-1], weights[:, :, -1]
    return LinearHead(
        centre,
        slopes,
        support.mask_absent(intercepts - times_shift(slopes, shift)),
        error=distance,
        error_slope=distance,
    )


def _minimise(z: Doubles, one_hot: Doubles, penalty: float) -> tuple[Doubles, Doubles]:
    """Return the optimal weights of each task, and the norm of the gradient there."""
    # They lie in the span of the support set: fit in an orthonormal basis of it.
    basis, coordinates = np.linalg.qr(z.mT)  # (T, d + 1, r), (T, r, S)
    weights = np.zeros((len(z), one_hot.shape[2], z.shape[2]))  # (T, classes, d + 1)
    gradients = np.zeros(len(z))
    for i, present in enumerate(one_hot.max(1) > 0):
        problem = Objective(coordinates[i].T, one_hot[i][:, present], penalty)
        theta = problem.minimise()
        weights[i, present] = theta.T @ basis[i].T
        gradients[i] = np.linalg.norm(problem.gradient(theta.ravel()))
    return weights, gradients


@dataclass(frozen=True, eq=False)
class Objective:
    """Penalised cross-entropy of one support set.

    Parameters
    ----------
    z : ndarray, shape (s, r)
        Support vectors.
    one_hot : ndarray, shape (s, classes)
        1 where a vector has a label, else 0.
    penalty : float
        Half of it times the squared weights is added.
    """

    z: Doubles
    one_hot: Doubles
    penalty: float

    def minimise(self) -> Doubles:
        """Return the optimal weights.

        Line searches stop when the loss no longer changes in its last digit, at a gradient of
        about 1e-7. Newton steps, which use only the gradient, continue from there.

        Returns
        -------
        ndarray, shape (r, classes)
            The weights.
        """
        from scipy.optimize import minimize

        shape = self.z.shape[1], self.one_hot.shape[1]
        options = {"maxiter": 10_000, "maxfun": 20_000, "gtol": 1e-7, "ftol": 0.0}
        start = np.zeros(shape[0] * shape[1])
        theta = minimize(self.loss, start, jac=True, method="L-BFGS-B", options=options).x
        for _ in range(_NEWTON_STEPS):
            moved = theta + self.newton_step(theta)
            if not np.linalg.norm(self.gradient(moved)) < np.linalg.norm(self.gradient(theta)):
                break
            theta = moved
        return np.asarray(theta.reshape(shape))

    def loss(self, theta: Doubles) -> tuple[float, Doubles]:
        """Return the objective and its gradient.

        Parameters
        ----------
        theta : ndarray, shape (r * classes,)
            The weights.

        Returns
        -------
        value : float
            The objective.
        gradient : ndarray, shape (r * classes,)
            Its gradient.
        """
        logits = self.z @ theta.reshape(self.z.shape[1], -1)
        logits -= logits.max(1, keepdims=True)
        value = np.log(np.exp(logits).sum(1)).sum() - (self.one_hot * logits).sum()
        return float(value + self.penalty / 2 * theta @ theta), self.gradient(theta)

    def gradient(self, theta: Doubles) -> Doubles:
        """Return the gradient of the objective.

        Parameters
        ----------
        theta : ndarray, shape (r * classes,)
            The weights.

        Returns
        -------
        ndarray, shape (r * classes,)
            The gradient.
        """
        residuals = self._probabilities(theta) - self.one_hot
        return np.asarray((self.z.T @ residuals).ravel() + self.penalty * theta)

    def newton_step(self, theta: Doubles) -> Doubles:
        """Return the step to the minimum of the quadratic model, by conjugate gradients.

        Parameters
        ----------
        theta : ndarray, shape (r * classes,)
            The weights.

        Returns
        -------
        ndarray, shape (r * classes,)
            The step.
        """
        from scipy.sparse.linalg import LinearOperator, cg

        p = self._probabilities(theta)  # (S, classes)

        def times_hessian(direction: Doubles) -> Doubles:
            change = p * (self.z @ direction.reshape(self.z.shape[1], -1))
            change -= p * change.sum(1, keepdims=True)
            return np.asarray((self.z.T @ change).ravel() + self.penalty * direction)

        hessian = LinearOperator((theta.size, theta.size), matvec=times_hessian, dtype=theta.dtype)
        return np.asarray(cg(hessian, -self.gradient(theta), rtol=1e-6, maxiter=1000)[0])

    def _probabilities(self, theta: Doubles) -> Doubles:
        logits = self.z @ theta.reshape(self.z.shape[1], -1)
        odds = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(odds / odds.sum(1, keepdims=True))


def _check_converged(error: Doubles, penalty: float) -> None:
    """Raise if logits on the support set may be off by more than ``_CONVERGED``."""
    if not (error <= _CONVERGED).all():
        raise InvalidInput(
            "{} must be large enough for logistic regression to converge, got {!r}: its logits "
            "are only known to {:.0e}. Scale the vectors to length 1, or raise it.",
            Parameter("penalty"),
            penalty,
            float(np.max(error)),
        )
