"""Learners on stored vectors, such as the embeddings of a frozen encoder, in NumPy alone."""

from __future__ import annotations

from typing import Any

from metapac._checks import as_positive_number, check_one_of
from metapac._types import Doubles
from metapac.learners import _checks
from metapac.learners.linear_heads import (
    LinearHead,
    SupportSets,
    fit_cosine,
    fit_euclidean,
    fit_ridge,
)
from metapac.learners.logistic_head import fit_logistic
from metapac.learners.vector_bank import VectorBank, VectorScorer, one_hot_labels


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
        labels, total = _checks.as_support_set(support_x, support_y, classes)
        support = _checks.as_vectors("support_x", support_x)
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
        small one, such as 0.1; `metapac.scoring.fit_temperature` finds one.

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
    >>> from metapac.learners import PrototypeLearner
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
        small one, such as 0.1; `metapac.scoring.fit_temperature` finds one.

    Raises
    ------
    InvalidInput
        If a parameter is not positive.

    Examples
    --------
    >>> from metapac.learners import RidgeLearner
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
    >>> from metapac.learners import LogisticLearner
    >>> scorer = LogisticLearner(penalty=0.1).adapt([[0.0], [2.0]], [0, 1])
    >>> scorer.predict_proba([[0.5]]).round(3).tolist()
    [[0.79, 0.21]]
    """

    def __init__(self, penalty: float = 1.0) -> None:
        self.penalty = as_positive_number("penalty", penalty)

    def fit(self, support: Doubles, one_hot: Doubles) -> LinearHead:
        return fit_logistic(SupportSets(support, one_hot), self.penalty)
