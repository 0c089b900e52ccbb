"""Learners on stored embeddings: prototypes, ridge and logistic heads.

Every head is linear in the vector, up to a number that all labels share: prototypes because
-|q - p|^2 = 2 q.p - |p|^2 - |q|^2. All arithmetic is in float64.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from metapac._common import Counts, Doubles, Floats, check_one_of, on_host
from metapac.errors import InvalidInput, keyword
from metapac.fewshot import adapters
from metapac.fewshot import tasks as few_shot
from metapac.fewshot.adapters import BATCH, Learner, as_positive_number, as_support_set
from metapac.fewshot.options import Embeddings
from metapac.fewshot.scoring import Outputs
from metapac.fewshot.tasks import Task, TaskBatch
from metapac.score_functions import ScoreFunction


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Logits ``(q - centre) . weights + bias - curvature |q - centre|^2`` of T tasks."""

    centre: Doubles  # (T, 1, d)
    weights: Doubles  # (T, classes, d)
    bias: Doubles  # (T, classes)
    curvature: float = 0.0
    unit: bool = False  # whether vectors are scaled to length 1

    def logits(self, query: Doubles) -> Doubles:
        """Return the logits of vectors, (T, Q, d) -> (T, Q, classes)."""
        vectors = to_unit_length(query) if self.unit else query - self.centre
        squares = np.einsum("tqd,tqd->tq", vectors, vectors)
        logits = vectors @ self.weights.mT + self.bias[:, None]
        return np.asarray(logits - (self.curvature * squares)[:, :, None])


def centre_of(vectors: Doubles) -> tuple[Doubles, Doubles]:
    """Return the mean of each support set, (T, 1, d), and its rounding error."""
    centre = vectors.mean(1, keepdims=True)
    return centre, (vectors - centre).mean(1, keepdims=True)


def mask_absent(bias: Doubles, one_hot: Doubles) -> Doubles:
    """Return the bias with ``-inf`` for labels absent from the support set."""
    return np.where(one_hot.any(1), bias, -np.inf)


def to_unit_length(vectors: Doubles) -> Doubles:
    """Return vectors of length 1; a vector of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


def times_shift(weights: Doubles, shift: Doubles) -> Doubles:
    """Return the product of the weights of each label with the shift of the centre."""
    return np.asarray(np.einsum("tcd,tud->tc", weights, shift))


@dataclass(frozen=True, eq=False)
class Objective:
    """Penalised cross-entropy of one support set."""

    z: Doubles
    one_hot: Doubles
    penalty: float

    def minimise(self) -> Doubles:
        """Return the optimal weights, by line searches and then Newton steps to the last digits."""
        from scipy.optimize import minimize

        shape = self.z.shape[1], self.one_hot.shape[1]
        options = {"maxiter": 10_000, "maxfun": 20_000, "gtol": 1e-7, "ftol": 0.0}
        start = np.zeros(math.prod(shape))
        theta = minimize(self.loss, start, jac=True, method="L-BFGS-B", options=options).x
        for _ in range(_NEWTON_STEPS):
            moved = theta + self.newton_step(theta)
            if not np.linalg.norm(self.gradient(moved)) < np.linalg.norm(self.gradient(theta)):
                break
            theta = moved
        return np.asarray(theta.reshape(shape))

    def loss(self, theta: Doubles) -> tuple[float, Doubles]:
        logits = self.z @ theta.reshape(self.z.shape[1], -1)
        logits -= logits.max(1, keepdims=True)
        value = np.log(np.exp(logits).sum(1)).sum() - (self.one_hot * logits).sum()
        return float(value + self.penalty / 2 * theta @ theta), self.gradient(theta)

    def gradient(self, theta: Doubles) -> Doubles:
        residuals = self._probabilities(theta) - self.one_hot
        return np.asarray((self.z.T @ residuals).ravel() + self.penalty * theta)

    def newton_step(self, theta: Doubles) -> Doubles:
        from scipy.sparse.linalg import LinearOperator, cg

        p = self._probabilities(theta)  # (S, classes)

        def times_hessian(direction: Doubles) -> Doubles:
            change = p * (self.z @ direction.reshape(self.z.shape[1], -1))
            change -= p * change.sum(1, keepdims=True)
            return np.asarray((self.z.T @ change).ravel() + self.penalty * direction)

        hessian = LinearOperator((theta.size, theta.size), matvec=times_hessian, dtype=theta.dtype)
        return np.asarray(cg(hessian, -self.gradient(theta), rtol=1e-6, maxiter=1000)[0])

    def _probabilities(self, theta: Doubles) -> Doubles:
        return softmax(self.z @ theta.reshape(self.z.shape[1], -1))


# Vectors gathered at a time: 2**22 doubles are 32 MiB.
_WORK = 2**22


def one_hot_labels(labels: Counts, classes: int) -> Doubles:
    return np.asarray(labels[..., None] == np.arange(classes), dtype=np.float64)


def softmax(logits: Floats) -> Doubles:
    """Return probabilities in float64; the largest logit of a row must be finite."""
    odds = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    return np.asarray(odds / odds.sum(-1, keepdims=True))


def as_vectors(name: str, x: Any, *, columns: int | None = None) -> Doubles:
    """Return vectors in float64, one in a row, all finite and of one length."""
    width = count_columns(name, x)
    if columns not in (None, width):
        raise InvalidInput(f"{name} must hold vectors of length {columns}, got {width}.")
    vectors = np.asarray(on_host(x)).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(vectors).all(1))
    if len(bad):
        got = f"{len(bad)} of {len(vectors)} vectors with NaN or infinity"
        raise InvalidInput(f"{name} must be finite, got {got} (first at position {bad[0]}).")
    return vectors


def count_columns(name: str, x: Any) -> int:
    """Return the length of the vectors in a matrix of numbers."""
    array = x if hasattr(x, "shape") and hasattr(x, "dtype") else np.asarray(on_host(x))
    kind = getattr(array.dtype, "kind", "f")
    if len(array.shape) != 2 or kind not in "fiub" or not array.shape[1]:
        got = f"{array.dtype} of shape {tuple(array.shape)}"
        raise InvalidInput(f"{name} must hold vectors, numbers of shape (n, d), got {got}.")
    return int(array.shape[1])


@dataclass(frozen=True, eq=False)
class VectorScorer:
    """A learner on vectors adapted to one task."""

    head: LinearHead

    def predict_proba(self, x: Any) -> Doubles:
        return self.probabilities_and_logits(x)[0]

    def probabilities_and_logits(self, x: Any) -> tuple[Doubles, Doubles]:
        """Return probabilities and logits, a batch of one size at a time."""
        _, classes, width = self.head.weights.shape
        query = as_vectors("x", x, columns=width)
        batches = np.zeros((-(-len(query) // BATCH), BATCH, width))
        batches.reshape(-1, width)[: len(query)] = query
        logits = self.head.logits(batches).reshape(-1, classes)[: len(query)]
        return softmax(logits), logits


class VectorBank:
    """The vectors of a pool, scored for many tasks at a time: for both halves of a study."""

    thread_safe = True

    def __init__(self, fit: Callable[[Doubles, Doubles], LinearHead], x: Any) -> None:
        self.fit, self.x, self.width = fit, x, count_columns("x", x)
        self._check = partial(few_shot.check_pool_of_task, x=x, rows=len(x))

    def scores(self, tasks: Sequence[Task]) -> Floats:
        parts: list[Floats] = [np.empty(0)]
        for batch in self._batches(tasks):
            logits = self._logits(batch).reshape(-1, batch.classes)
            labels = batch.query_y.ravel()
            parts.append(Outputs(logits, "logits", ScoreFunction()).lowered_scores(labels))
        return np.concatenate(parts)

    def predict_proba(self, task: Task) -> Doubles:
        return self.predict_tasks([task])[0]

    def predict_tasks(self, tasks: Sequence[Task]) -> list[Doubles]:
        return [table for batch in self._batches(tasks) for table in softmax(self._logits(batch))]

    def leave_one_out(self, tasks: Sequence[Task]) -> Doubles:
        few_shot.check_one_support_size(tasks)
        return np.stack([self._leave_one_out(task) for task in tasks])

    def _leave_one_out(self, task: Task) -> Doubles:
        self._check(task)
        size = len(task.support)
        others = np.array([np.delete(np.arange(size), i) for i in range(size)], int)  # (S, S - 1)
        alone = (task.support_y[others] != task.support_y[:, None]).all(1)  # no other of its label
        result = np.zeros(size)
        step = max(1, _WORK // (max(1, size - 1) * self.width))
        for part in np.array_split(np.flatnonzero(~alone), max(1, -(-size // step))):
            if len(part):
                labels = one_hot_labels(task.support_y[others[part]], task.classes)
                head = self.fit(self._gather(task.support[others[part]]), labels)
                logits = head.logits(self._gather(task.support[part][:, None]))
                own = task.support_y[part][:, None, None]
                result[part] = np.take_along_axis(softmax(logits), own, 2).ravel()
        return result

    def _batches(self, tasks: Sequence[Task]) -> Iterator[TaskBatch]:
        """Yield consecutive tasks of one shape, as many as fit in the workspace."""
        for batch in few_shot.batches(tasks, self._check):
            examples = batch.support.shape[1] + batch.query.shape[1]
            yield from batch.split(max(1, _WORK // (examples * self.width)))

    def _logits(self, batch: TaskBatch) -> Doubles:
        labels = one_hot_labels(batch.support_y, batch.classes)
        return self.fit(self._gather(batch.support), labels).logits(self._gather(batch.query))

    def _gather(self, positions: Counts) -> Doubles:
        rows = as_vectors("x", self.x[positions.ravel()], columns=self.width)
        return rows.reshape(*positions.shape, self.width)


class VectorLearner(Learner):
    """Base class of the learners on vectors; a subclass defines ``fit``."""

    def fit(self, support: Doubles, one_hot: Doubles) -> LinearHead:
        """Return the heads of many support sets of one size.

        Parameters
        ----------
        support, one_hot : ndarray, shape (t, s, d) and (t, s, classes)
            Support vectors; 1 where a vector has a label, else 0.

        Returns
        -------
        LinearHead
        """
        raise NotImplementedError

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> VectorScorer:
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

    Long vectors count more, also for the cosine. If lengths mean nothing, scale them to 1.
    Unlabelled examples of the task refine the prototypes: three rounds of soft k-means (Ren et al.
    2018), in which each counts as much as a support example. How sure its guesses are depends on
    the distances between prototypes, not on the temperature, so that few shots make them careful.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}, default "euclidean"
        Minus the squared distance to the prototype, as in a `ProtoNet`; or the cosine of the angle
        between vector and prototype, as in Meta-Baseline (Chen et al. 2021).
    temperature : float, default 1.0
        Number that the similarities are divided by. Cosines differ by at most 2, so they need a
        small one, such as 0.1; `metapac.fewshot.fit_temperature` finds one.

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

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None, unlabelled: Any = None
    ) -> VectorScorer:
        labels, total = as_support_set(support_x, support_y, classes)
        support = as_vectors("support_x", support_x)[None]
        one_hot = one_hot_labels(labels[None], total)
        head = self.fit(support, one_hot)
        if unlabelled is not None:
            others = as_vectors("unlabelled", unlabelled, columns=support.shape[2])[None]
            head = self._refine(head, support, one_hot, others)
        return VectorScorer(head)

    def _refine(
        self, head: LinearHead, support: Doubles, one_hot: Doubles, others: Doubles
    ) -> LinearHead:
        """Return the head after soft k-means over support and other vectors of one task."""
        z = others - head.centre  # (1, U, d)
        sums, counts = one_hot.mT @ (support - head.centre), one_hot.sum(1)
        present, means = counts > 0, sums / np.maximum(counts, 1.0)[:, :, None]
        queries = to_unit_length(others) if head.unit else z
        for _ in range(adapters.ROUNDS):
            p = to_unit_length(means) if head.unit else means  # (1, classes, d)
            # Squared distances up to a number that all labels share, which is far less work.
            lengths = 0.0 if head.unit else np.einsum("tcd,tcd->tc", p, p)[:, None]
            logits = (2 * queries @ p.mT - lengths) / adapters.guess_temperature(p[present])
            guesses = softmax(np.where(present[:, None], logits, -np.inf))
            total = np.maximum(counts + guesses.sum(1), 1.0)
            means = (sums + guesses.mT @ z) / total[:, :, None]
        return self._make_head(head.centre, means, present)

    def fit(self, support: Doubles, one_hot: Doubles) -> LinearHead:
        # Vectors are centred at the mean of the support set, which changes no distance. Products
        # with the prototypes then have the size of the distances, however far the origin is.
        is_cosine = self.metric == "cosine"
        centre = np.zeros_like(support[:, :1]) if is_cosine else support.mean(1, keepdims=True)
        counts = np.maximum(one_hot.sum(1), 1.0)  # (T, classes)
        means = one_hot.mT @ (support - centre) / counts[:, :, None]
        return self._make_head(centre, means, one_hot.any(1))

    def _make_head(self, centre: Doubles, prototypes: Doubles, present: Any) -> LinearHead:
        """Return the head of prototypes, (T, classes, d), of the labels that are present."""
        if self.metric == "cosine":
            weights = to_unit_length(prototypes) / self.temperature
            return LinearHead(centre, weights, np.where(present, 0.0, -np.inf), unit=True)
        squares = np.einsum("tcd,tcd->tc", prototypes, prototypes)
        bias = np.where(present, -squares / self.temperature, -np.inf)
        return LinearHead(centre, 2 * prototypes / self.temperature, bias, 1 / self.temperature)


class RidgeLearner(VectorLearner):
    """Softmax over a ridge regression of label indicators, solved in closed form.

    Parameters
    ----------
    penalty : float, default 1.0
        Multiple of the squared weights that is added to the squared errors; not on the intercept.
    temperature : float, default 1.0
        Number that the outputs, near 0 and 1, are divided by; `fit_temperature` finds one.

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
        # The weights are Z' a with (Z Z' + penalty) a = Y, or w with (Z' Z + penalty) w = Z' Y;
        # the smaller system is solved.
        centre, shift = centre_of(support)
        z = support - centre - shift  # (T, S, d)
        shares = one_hot.mean(1)  # (T, classes)
        targets = one_hot - shares[:, None]  # (T, S, classes)
        ridge = self.penalty * np.eye(min(z.shape[1:]))
        if z.shape[1] <= z.shape[2]:
            weights = np.linalg.solve(z @ z.mT + ridge, targets).mT @ z
        else:
            weights = np.linalg.solve(z.mT @ z + ridge, z.mT @ targets).mT
        bias = (shares - times_shift(weights, shift)) / self.temperature
        return LinearHead(centre, weights / self.temperature, mask_absent(bias, one_hot))


# The fit has converged if logits on the support set are this close to those of the optimum.
_CONVERGED = 1e-6
_NEWTON_STEPS = 5
_UNIT = 2.0**-50  # of rounding, eightfold: room for the constants


class LogisticLearner(VectorLearner):
    """Multinomial logistic regression with an L2 penalty.

    Vectors are centred at the mean of the support set, so the penalty on the intercepts does not
    depend on the origin.

    Parameters
    ----------
    penalty : float, default 1.0
        Half of it times the squared weights, intercepts included, is added to the cross-entropy
        of the support set. It is 1 / C of scikit-learn's LogisticRegression.

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
        # The objective is strongly convex with modulus ``penalty``, so the error of the weights is
        # at most the norm of the gradient divided by ``penalty``. A sum of ``terms`` products is
        # off by at most ``terms`` units of rounding, relative to the lengths of its factors.
        centre, shift = centre_of(support)
        vectors = support - centre - shift  # (T, S, d)
        z = np.concatenate([vectors, np.ones_like(vectors[:, :, :1])], axis=2)
        weights, gradients = self._minimise(z, one_hot)  # (T, classes, d + 1), (T,)
        size, slope = (np.linalg.norm(matrix, axis=(1, 2)) for matrix in (z, weights))
        terms = z.shape[1] + z.shape[2] + 8
        rounding = terms * _UNIT * (size * (1 + slope) + self.penalty * slope)
        distance = (gradients + rounding) / self.penalty  # (T,)
        error = float(np.max(distance * np.linalg.norm(z, axis=-1).max(1)))
        if not error <= _CONVERGED:
            text = f"penalty must be large enough to converge, got {self.penalty!r}"
            text = f"{text}: logits are only known to {error:.0e}. Scale the vectors to length 1."
            raise InvalidInput(text, parameter="penalty")
        slopes, intercepts = weights[:, :, :-1], weights[:, :, -1]
        bias = intercepts - times_shift(slopes, shift)
        return LinearHead(centre, slopes, mask_absent(bias, one_hot))

    def _minimise(self, z: Doubles, one_hot: Doubles) -> tuple[Doubles, Doubles]:
        """Return the optimal weights of each task, and the norm of the gradient there."""
        # They lie in the span of the support set: fit in an orthonormal basis of it.
        basis, coordinates = np.linalg.qr(z.mT)  # (T, d + 1, r), (T, r, S)
        weights = np.zeros((len(z), one_hot.shape[2], z.shape[2]))  # (T, classes, d + 1)
        gradients = np.zeros(len(z))
        for i, present in enumerate(one_hot.max(1) > 0):
            problem = Objective(coordinates[i].T, one_hot[i][:, present], self.penalty)
            theta = problem.minimise()
            weights[i, present] = theta.T @ basis[i].T
            gradients[i] = np.linalg.norm(problem.gradient(theta.ravel()))
        return weights, gradients


LEARNERS = ("prototypes", "ridge", "logistic")
_CLASSES: Any = (PrototypeLearner, RidgeLearner, LogisticLearner)


def build_vector_learner(options: Embeddings) -> tuple[VectorLearner, str]:
    name = options.learner or "prototypes"
    check_one_of("learner", name, LEARNERS)
    build = _CLASSES[LEARNERS.index(name)]
    takes = inspect.signature(build).parameters
    given = {key: getattr(options, key) for key in ("metric", "temperature", "penalty")}
    given = {key: value for key, value in given.items() if value is not None}
    for key in [key for key in given if key not in takes]:
        text = f"{key} does not apply to {keyword('learner', name)}, which takes"
        raise InvalidInput(f"{text} {', '.join(takes)}.", parameter=key)
    learner: VectorLearner = build(**given)
    used = ", ".join(f"{key} {getattr(learner, key)}" for key in takes)
    return learner, f"{name} ({used})"
