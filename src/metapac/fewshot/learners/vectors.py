"""Learners on stored embeddings: prototypes, ridge and logistic heads.

Every head is linear in the vector, up to a number that all labels share: prototypes because
-|q - p|^2 = 2 q.p - |p|^2 - |q|^2, ridge and logistic regression by definition. All arithmetic is
in float64. A bound on the error of a logit comes with each head: u = 2^-53 is the unit of
rounding, a sum of ``terms`` products of lengths a and b is off by at most ``terms`` u a b, and
``UNIT`` = 8 u leaves room for the constants.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metapac._common import Counts, Doubles, Floats, check_one_of, on_host
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.adapters import (
    BoundedScorer,
    as_positive_number,
    as_support_set,
    count_examples,
    lower_true_scores,
)
from metapac.fewshot.options import Embeddings
from metapac.fewshot.tasks import (
    Task,
    TaskBatch,
    batches,
    check_one_support_size,
    check_pool_of_task,
)
from metapac.score_functions import ScoreFunction

UNIT = 2.0**-50


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Logits ``(q - centre) . weights + bias`` of T tasks, and a bound on their rounding error."""

    centre: Doubles
    weights: Doubles
    bias: Doubles
    error: Doubles
    error_slope: Doubles
    curvature: float = 0.0
    unit: bool = False

    def logits(self, query: Doubles) -> tuple[Doubles, Doubles]:
        """Return the logits of vectors, and a bound on the error of each."""
        vectors = to_unit_length(query) if self.unit else query - self.centre  # (T, Q, d)
        squares = np.einsum("tqd,tqd->tq", vectors, vectors)  # (T, Q)
        logits = vectors @ self.weights.mT + self.bias[:, None]
        curve = self.curvature * squares  # (T, Q)
        error = self.error[:, None] + self.error_slope[:, None] * np.sqrt(squares)
        # All labels share the curve, but not the rounding of the difference.
        return logits - curve[:, :, None], error + UNIT * curve


@dataclass(frozen=True, eq=False)
class SupportSets:
    """Support sets of T tasks, all of one size."""

    vectors: Doubles
    one_hot: Doubles

    @property
    def rounding(self) -> float:
        """Error of the longest sum, relative to the lengths of its factors: ``terms`` units."""
        _, size, width = self.vectors.shape
        return UNIT * float(size + width + 8)

    def means(self, centre: Doubles | float = 0.0) -> Doubles:
        """Return the mean of each label's vectors."""
        counts = np.maximum(self.one_hot.sum(1), 1.0)  # (T, classes)
        return np.asarray(self.one_hot.mT @ (self.vectors - centre) / counts[:, :, None])

    def centre(self) -> tuple[Doubles, Doubles]:
        """Return the mean of each support set, and its rounding error.

        Far from the origin, the rounding error of the mean is proportional to its size. The mean
        of the centred vectors corrects it.
        """
        centre = self.vectors.mean(1, keepdims=True)
        return centre, (self.vectors - centre).mean(1, keepdims=True)

    def mask_absent(self, bias: Doubles) -> Doubles:
        """Return the bias with ``-inf`` for labels absent from the support set."""
        return np.where(self.one_hot.any(1), bias, -np.inf)


def to_unit_length(vectors: Doubles) -> Doubles:
    """Return vectors of length 1; a vector of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


def fit_euclidean(support: SupportSets, temperature: float) -> LinearHead:
    """Return heads whose logits are minus the squared distance to each label's mean.

    Vectors are centred at the mean of the support set, which changes no distance. Products with
    the prototypes then have the size of the distances, however far from the origin the vectors
    lie, and the error of a logit is at most terms u (2 |q| r + r^2) with r the largest length.
    """
    centre = support.vectors.mean(1, keepdims=True)  # (T, 1, d)
    prototypes = support.means(centre)  # (T, classes, d)
    reach = np.linalg.norm(support.vectors - centre, axis=-1).max(1)  # (T,)
    squares = np.einsum("tcd,tcd->tc", prototypes, prototypes)
    scale = support.rounding / temperature
    return LinearHead(
        centre,
        2 * prototypes / temperature,
        support.mask_absent(-squares / temperature),
        error=scale * reach**2,
        error_slope=scale * reach,
        curvature=1 / temperature,
    )


def fit_cosine(support: SupportSets, temperature: float) -> LinearHead:
    """Return heads whose logits are the cosine with each label's mean.

    A mean of length m of vectors up to length r is off by terms u r, hence its direction by
    terms u r / m. No cosine is off by more than 2.
    """
    prototypes = support.means()
    lengths = np.linalg.norm(prototypes, axis=-1)  # (T, classes)
    reach = np.linalg.norm(support.vectors, axis=-1).max(1, keepdims=True)  # (T, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(support.one_hot.any(1), reach / lengths, 0.0).max(1)  # (T,)
    error = np.fmin(support.rounding * (1 + spread), 2.0) / temperature
    return LinearHead(
        np.zeros_like(support.vectors[:, :1]),
        to_unit_length(prototypes) / temperature,
        support.mask_absent(np.zeros(lengths.shape)),
        error=error,
        error_slope=np.zeros_like(error),
        unit=True,
    )


def fit_ridge(support: SupportSets, penalty: float, temperature: float) -> LinearHead:
    """Return heads that regress label indicators on centred vectors, with a squared penalty.

    The weights are Z' a with (Z Z' + penalty) a = Y, or w with (Z' Z + penalty) w = Z' Y; the
    smaller system is solved. Its matrix is off by terms u |Z|^2 and its inverse is at most
    1 / penalty, hence the solution a by terms u (|Z|^2 + penalty) |a| / penalty, and w likewise.
    """
    centre, shift = support.centre()
    z = support.vectors - centre - shift  # (T, S, d)
    shares = support.one_hot.mean(1)  # (T, classes)
    targets = support.one_hot - shares[:, None]  # (T, S, classes)
    size = np.linalg.norm(z, axis=(1, 2))  # (T,)
    stiffness = (size**2 + penalty) / penalty
    if z.shape[1] <= z.shape[2]:
        dual = np.linalg.solve(_penalised(z @ z.mT, penalty), targets)  # (T, S, classes)
        weights = dual.mT @ z  # (T, classes, d)
        scale = size * np.linalg.norm(dual, axis=(1, 2))
    else:
        weights = np.linalg.solve(_penalised(z.mT @ z, penalty), z.mT @ targets).mT
        scale = np.linalg.norm(weights, axis=(1, 2))
        scale += size * np.linalg.norm(targets, axis=(1, 2)) / (size**2 + penalty)
    return LinearHead(
        centre,
        weights / temperature,
        support.mask_absent((shares - times_shift(weights, shift)) / temperature),
        error=np.full(len(z), support.rounding / temperature),
        error_slope=support.rounding * (1 + stiffness) * scale / temperature,
    )


def times_shift(weights: Doubles, shift: Doubles) -> Doubles:
    """Return the product of the weights of each label with the shift of the centre."""
    return np.asarray(np.einsum("tcd,tud->tc", weights, shift))


def _penalised(gram: Doubles, penalty: float) -> Doubles:
    return np.asarray(gram + penalty * np.eye(gram.shape[-1]))


# The fit has converged if logits on the support set are this close to those of the optimum.
_CONVERGED = 1e-6
_NEWTON_STEPS = 5


def fit_logistic(support: SupportSets, penalty: float) -> LinearHead:
    """Return heads of multinomial logistic regression on centred vectors, with an L2 penalty.

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
    """Penalised cross-entropy of one support set."""

    z: Doubles
    one_hot: Doubles
    penalty: float

    def minimise(self) -> Doubles:
        """Return the optimal weights.

        Line searches stop when the loss no longer changes in its last digit, at a gradient of
        about 1e-7. Newton steps, which use only the gradient, continue from there.
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
        """Return the objective and its gradient."""
        logits = self.z @ theta.reshape(self.z.shape[1], -1)
        logits -= logits.max(1, keepdims=True)
        value = np.log(np.exp(logits).sum(1)).sum() - (self.one_hot * logits).sum()
        return float(value + self.penalty / 2 * theta @ theta), self.gradient(theta)

    def gradient(self, theta: Doubles) -> Doubles:
        """Return the gradient of the objective."""
        residuals = self._probabilities(theta) - self.one_hot
        return np.asarray((self.z.T @ residuals).ravel() + self.penalty * theta)

    def newton_step(self, theta: Doubles) -> Doubles:
        """Return the step to the minimum of the quadratic model, by conjugate gradients."""
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
            f"penalty must be large enough for logistic regression to converge, got {penalty!r}: "
            f"its logits are only known to {float(np.max(error)):.0e}. Scale the vectors to length "
            "1, or raise it.",
            parameter="penalty",
        )


# Vectors gathered at a time: 2**22 doubles are 32 MiB.
_WORK = 2**22


def one_hot_labels(labels: Counts, classes: int) -> Doubles:
    """Return label indicators."""
    return np.asarray(labels[..., None] == np.arange(classes), dtype=np.float64)


def softmax(logits: Floats) -> Doubles:
    """Return probabilities in float64; the largest logit of a row must be finite."""
    odds = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    return np.asarray(odds / odds.sum(-1, keepdims=True))


def as_vectors(name: str, x: Any, *, columns: int | None = None) -> Doubles:
    """Return vectors in float64, one in a row, all finite and of one length."""
    width = count_columns(name, x)
    if columns not in (None, width):
        text = f"{name} must hold vectors of length {columns}, as the support set does"
        raise InvalidInput(f"{text}, got {width}.")
    vectors = np.asarray(on_host(x)).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(vectors).all(1))
    if len(bad):
        raise InvalidInput(
            f"{name} must hold finite numbers, got {len(bad)} of {len(vectors)} vectors with NaN "
            f"or infinity (first at position {bad[0]})."
        )
    return vectors


def count_columns(name: str, x: Any) -> int:
    """Return the length of the vectors in a matrix of numbers."""
    array = x if hasattr(x, "shape") and hasattr(x, "dtype") else np.asarray(on_host(x))
    kind = getattr(array.dtype, "kind", "f")
    if len(array.shape) != 2 or kind not in "fiub" or not array.shape[1]:
        raise InvalidInput(
            f"{name} must hold one vector for each example, as numbers of shape (n, d), got "
            f"{array.dtype} of shape {tuple(array.shape)}. Pass the embeddings of an encoder."
        )
    return int(array.shape[1])


@dataclass(frozen=True, eq=False)
class VectorScorer(BoundedScorer):
    """A learner on vectors adapted to one task."""

    head: LinearHead

    def predict_proba(self, x: Any) -> Doubles:
        return softmax(self.bounded_logits(x)[0])

    def lowered_scores(self, x: Any, y: Any) -> Floats:
        return _lowered(*self.bounded_logits(x), np.asarray(y))

    def bounded_logits(self, x: Any) -> tuple[Doubles, Doubles]:
        query = as_vectors("x", x, columns=self.head.weights.shape[2])
        logits, error = self.head.logits(query[None])
        return logits[0], error[0]


class VectorBank:
    """The vectors of a pool, scored for many tasks at a time."""

    thread_safe = True

    def __init__(self, fit: Callable[[Doubles, Doubles], LinearHead], x: Any) -> None:
        self.fit = fit
        self.x = x
        self.width = count_columns("x", x)

    def scores(self, tasks: Sequence[Task]) -> Floats:
        """Return the scores of the true labels of all queries, to calibrate on."""
        parts = []
        for batch in self._batches(tasks):
            logits, error = self._logits(batch)
            flat = logits.reshape(-1, logits.shape[2])
            parts.append(_lowered(flat, error.ravel(), batch.query_y.ravel()))
        return np.concatenate(parts or [np.empty(0)])

    def predict_proba(self, task: Task) -> Doubles:
        """Return the probability of each label for each query of a task."""
        return self.predict_tasks([task])[0]

    def predict_tasks(self, tasks: Sequence[Task]) -> list[Doubles]:
        """Return the probability of each label for each query of each task."""
        return [softmax(logits) for logits, _ in self.bounded_logits(tasks)]

    def bounded_logits(self, tasks: Sequence[Task]) -> list[tuple[Doubles, Doubles]]:
        """Return the logits of the queries of each task, and a bound on their rounding error."""
        pairs: list[tuple[Doubles, Doubles]] = []
        for batch in self._batches(tasks):
            pairs.extend(zip(*self._logits(batch), strict=True))
        return pairs

    def leave_one_out(self, tasks: Sequence[Task]) -> Doubles:
        """Return the probability of each support example's label when the example is left out."""
        check_one_support_size(tasks)
        return np.stack([self._leave_one_out(task) for task in tasks])

    def _leave_one_out(self, task: Task) -> Doubles:
        """Return the probabilities of one task, (s,)."""
        self._check(task)
        size = len(task.support)
        left_out = np.arange(size)
        others = np.array([np.delete(left_out, i) for i in left_out], dtype=np.int64)  # (S, S - 1)
        alone = (task.support_y[others] != task.support_y[:, None]).all(1)  # no other of its label
        result = np.zeros(size)
        step = max(1, _WORK // (max(1, size - 1) * self.width))
        for part in np.array_split(np.flatnonzero(~alone), max(1, -(-size // step))):
            if len(part):
                labels = one_hot_labels(task.support_y[others[part]], task.classes)
                head = self.fit(self._gather(task.support[others[part]]), labels)
                logits, _ = head.logits(self._gather(task.support[part][:, None]))
                own = task.support_y[part][:, None, None]
                result[part] = np.take_along_axis(softmax(logits), own, 2).ravel()
        return result

    def _batches(self, tasks: Sequence[Task]) -> Iterator[TaskBatch]:
        """Yield consecutive tasks of one shape, as many as fit in the workspace."""
        for batch in batches(tasks, self._check):
            examples = batch.support.shape[1] + batch.query.shape[1]
            yield from batch.split(max(1, _WORK // (examples * self.width)))

    def _check(self, task: Task) -> None:
        check_pool_of_task(task, self.x, count_examples(self.x))

    def _logits(self, batch: TaskBatch) -> tuple[Doubles, Doubles]:
        """Return the logits of tasks of one shape, (T, Q, classes), and their error, (T, Q)."""
        labels = one_hot_labels(batch.support_y, batch.classes)
        return self.fit(self._gather(batch.support), labels).logits(self._gather(batch.query))

    def _gather(self, positions: Counts) -> Doubles:
        """Return the vectors at positions of any shape, in float64."""
        rows = as_vectors("x", self.x[positions.ravel()], columns=self.width)
        return rows.reshape(*positions.shape, self.width)


def _lowered(logits: Doubles, error: Doubles, labels: Counts) -> Floats:
    """Return lower bounds on the probabilities of labels; two logits are off by an error each."""
    return lower_true_scores(ScoreFunction(), logits, labels, kind="logits", slack=2 * error)


class VectorLearner:
    """Base class of the learners on vectors; a subclass defines ``fit``."""

    def fit(self, support: Doubles, one_hot: Doubles) -> LinearHead:
        """Return the heads of many support sets of one size.

        Parameters
        ----------
        support : ndarray, shape (t, s, d)
            Support vectors.
        one_hot : ndarray, shape (t, s, classes)
            1 where a vector has a label, else 0.

        Returns
        -------
        LinearHead
            The heads.
        """
        raise NotImplementedError

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> VectorScorer:
        """Return the model adapted to a task.

        Parameters
        ----------
        support_x : array_like, shape (s, d)
            Support vectors.
        support_y : array_like of int, shape (s,)
            Their labels, from 0 to ``classes - 1``.
        classes : int, optional
            Number of labels; by default one more than the largest label.

        Returns
        -------
        VectorScorer
            The adapted model.
        """
        labels, total = as_support_set(support_x, support_y, classes)
        support = as_vectors("support_x", support_x)
        return VectorScorer(self.fit(support[None], one_hot_labels(labels[None], total)))

    def bank(self, x: Any) -> VectorBank:
        """Return the vectors of a pool, from which its tasks are scored many at a time.

        Parameters
        ----------
        x : array_like, shape (n, d)
            Vectors of the pool.

        Returns
        -------
        VectorBank
            The vectors.
        """
        return VectorBank(self.fit, x)

    def describe(self) -> dict[str, Any]:
        """Return the learner and its parameters, for the provenance of scores.

        Returns
        -------
        dict
            What JSON can hold.
        """
        return {"class": type(self).__name__, **vars(self)}

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({parameters})"


class PrototypeLearner(VectorLearner):
    """Softmax over the similarity of a vector to the prototype of each label, its mean vector.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}, default "euclidean"
        Minus the squared distance to the prototype, as in a `ProtoNet`; or the cosine of the angle
        between vector and prototype, as in Meta-Baseline (Chen et al. 2021).
    temperature : float, default 1.0
        Number that the similarities are divided by. Cosines differ by at most 2, so they need a
        small one, such as 0.1; `metapac.fewshot.fit_temperature` finds one.

    Raises
    ------
    InvalidInput
        If the metric is unknown or the temperature is not positive.

    Notes
    -----
    Prototypes are means of the vectors as they are, so long vectors count more, also for the
    cosine. If lengths mean nothing, scale the vectors to length 1. With the Euclidean metric, that
    is what a `ProtoNet` on a `Sphere` does.

    Examples
    --------
    >>> from metapac.fewshot import PrototypeLearner
    >>> scorer = PrototypeLearner().adapt([[0.0], [2.0]], [0, 1], classes=3)
    >>> scorer.predict_proba([[0.5]]).round(3).tolist()
    [[0.881, 0.119, 0.0]]
    """

    def __init__(self, metric: str = "euclidean", temperature: float = 1.0) -> None:
        check_one_of("metric", metric, ("euclidean", "cosine"))
        self.metric = metric
        self.temperature = as_positive_number("temperature", temperature)

    def fit(self, support: Doubles, one_hot: Doubles) -> LinearHead:
        fit = fit_cosine if self.metric == "cosine" else fit_euclidean
        return fit(SupportSets(support, one_hot), self.temperature)


class RidgeLearner(VectorLearner):
    """Softmax over a ridge regression of label indicators, solved in closed form.

    Parameters
    ----------
    penalty : float, default 1.0
        Multiple of the squared weights that is added to the squared errors; not on the intercept.
    temperature : float, default 1.0
        Number that the regression's outputs are divided by. They lie near 0 and 1, so they need a
        small one, such as 0.1; `metapac.fewshot.fit_temperature` finds one.

    Raises
    ------
    InvalidInput
        If a parameter is not positive.

    Examples
    --------
    >>> from metapac.fewshot import RidgeLearner
    >>> scorer = RidgeLearner(temperature=0.1).adapt([[0.0], [2.0]], [0, 1])
    >>> scorer.predict_proba([[0.5]]).round(3).tolist()
    [[0.966, 0.034]]
    """

    def __init__(self, penalty: float = 1.0, temperature: float = 1.0) -> None:
        self.penalty = as_positive_number("penalty", penalty)
        self.temperature = as_positive_number("temperature", temperature)

    def fit(self, support: Doubles, one_hot: Doubles) -> LinearHead:
        return fit_ridge(SupportSets(support, one_hot), self.penalty, self.temperature)


class LogisticLearner(VectorLearner):
    """Multinomial logistic regression with an L2 penalty.

    Vectors are centred at the mean of the support set, so the penalty on the intercepts does not
    depend on the origin.

    Parameters
    ----------
    penalty : float, default 1.0
        Half of it times the squared weights, intercepts included, is added to the cross-entropy
        of the support set. It is 1 / C of scikit-learn's LogisticRegression.

    Raises
    ------
    InvalidInput
        If the penalty is not positive, or too small for the optimiser to converge.

    Examples
    --------
    >>> from metapac.fewshot import LogisticLearner
    >>> scorer = LogisticLearner(penalty=0.1).adapt([[0.0], [2.0]], [0, 1])
    >>> scorer.predict_proba([[0.5]]).round(3).tolist()
    [[0.79, 0.21]]
    """

    def __init__(self, penalty: float = 1.0) -> None:
        self.penalty = as_positive_number("penalty", penalty)

    def fit(self, support: Doubles, one_hot: Doubles) -> LinearHead:
        return fit_logistic(SupportSets(support, one_hot), self.penalty)


_LEARNERS: dict[str, Any] = {
    "prototypes": PrototypeLearner,
    "ridge": RidgeLearner,
    "logistic": LogisticLearner,
}
LEARNERS = tuple(_LEARNERS)


def build_vector_learner(options: Embeddings) -> tuple[VectorLearner, str]:
    """Return the learner that the options name, and its description."""
    name = options.learner or "prototypes"
    check_one_of("learner", name, LEARNERS)
    takes = inspect.signature(_LEARNERS[name]).parameters
    given = {key: getattr(options, key) for key in ("metric", "temperature", "penalty")}
    given = {key: value for key, value in given.items() if value is not None}
    for key in given:
        if key not in takes:
            raise InvalidInput(
                f"{key} does not apply to {keyword('learner', name)}, which takes "
                f"{', '.join(takes)}.",
                parameter=key,
            )
    learner: VectorLearner = _LEARNERS[name](**given)
    used = ", ".join(f"{key} {getattr(learner, key)}" for key in takes)
    return learner, f"{name} ({used})"
