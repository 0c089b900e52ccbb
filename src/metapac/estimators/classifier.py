"""A classifier whose prediction sets have a guarantee for new groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac._checks import on_host, reject_foreign_keywords
from metapac._columns import find_names
from metapac._types import Array, Floats, Seed
from metapac.assessment import arrays
from metapac.assessment.evaluation import Evaluation
from metapac.calibration import MetaPS
from metapac.context import Context
from metapac.estimators._class_scores import (
    adapt,
    as_labels,
    check_known,
    find_classes,
    find_codes,
    score_classes,
)
from metapac.estimators._groups import Counted
from metapac.estimators._rows import (
    Examples,
    Respond,
    as_support,
    warn_if_perfect,
)
from metapac.estimators._scikit_learn import check_not_regressor
from metapac.estimators.base import GroupEstimator
from metapac.guarantee import Epsilon, Split
from metapac.learners.adapters import SklearnLearner
from metapac.meaning.findings import report
from metapac.meaning.judges import judge_rare_classes


class MetaPSClassifier(GroupEstimator):
    """Prediction sets of any classifier, with a guarantee for new groups.

    ``fit`` trains the classifier on some of the groups and calibrates the guarantee of `MetaPS` on
    the others: with confidence ``1 - delta``, at least ``1 - alpha`` of new groups have sets that
    miss the true label of at most a fraction ``epsilon`` of their rows.

    Parameters
    ----------
    estimator : object
        Classifier with ``fit``, and with ``predict_proba`` or ``decision_function``, such as a
        scikit-learn classifier or pipeline. With ``shots``, also a learner with ``adapt``.
    epsilon : float or mapping from class to float
        Miss rate allowed on a group. With ``per_class``, a mapping gives each class its own.
    alpha : float
        Fraction of new groups on which the miss rate may exceed ``epsilon``.
    delta : float or None
        Failure probability of the guarantee. None gives a guarantee in expectation.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps, as in `MetaPS`.
    per_class : bool, default False
        Whether to bound the miss rate of each class separately.
    min_examples : int, default 0
        Leave out calibration groups with fewer rows; the guarantee then covers only groups with
        at least this many.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do if the groups are too few: raise ``InfeasibleGuarantee``, or keep every label.
    calibration : float, int or list, default 0.5
        Groups to calibrate on: a fraction, a number, or their names. The estimator is trained on
        the others. Ignored with ``prefit`` and ``shots``: every group is then used to calibrate.
    prefit : bool, default False
        Whether the estimator is fitted already, on groups that are not passed to ``fit``. Name them
        in ``context=Context(trained_on=[...])``: without that, nothing can be checked.
    shots : int, default 0
        Number of rows of each group, drawn at random, that the model is adapted to. The estimator
        is cloned and fitted on them alone, and the other rows of the group are scored.
    rng : int or numpy.random.Generator or None, default 0
        Seed of the division of the groups, and of the rows drawn with ``shots``.
    context : Context, optional
        What the guarantee is about. The training groups are added to its ``trained_on``.
    allow : iterable of str, default ()
        Checks of the data to skip, such as "duplicates"; the message of a check names it.

    Attributes
    ----------
    classes_ : ndarray
        The classes, in the order of the columns of ``predict_set`` and ``predict_proba``.
    estimator_ : object
        The fitted estimator; with ``shots``, the learner that is adapted to each group.
    meta_ps_ : MetaPS
        The calibrated predictor.
    training_groups_ : list
        Groups that the estimator was trained on; empty with ``prefit`` and with ``shots``.
    calibration_groups_ : list
        Groups that the guarantee was calibrated on.
    promise_ : str
        The guarantee in one sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from metapac import label_lists
    >>> from metapac.estimators import MetaPSClassifier
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(np.arange(80), 50)
    >>> y = rng.choice(["no", "yes"], len(site))
    >>> X = rng.normal(size=(len(site), 2)) + 2 * (y == "yes")[:, None]
    >>> model = MetaPSClassifier(LogisticRegression(), epsilon=0.1, alpha=0.1, delta=0.05)
    >>> sets = model.fit(X, y, groups=site).predict_set([[-1.0, -1.0], [1.0, 1.1], [4.0, 3.0]])
    >>> label_lists(sets, model.classes_)
    [['no'], ['no', 'yes'], ['yes']]
    """

    _estimator_type = "classifier"
    classes_: Array

    @reject_foreign_keywords
    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: Epsilon,
        alpha: float,
        delta: float | None,
        split: Split = "joint",
        per_class: bool = False,
        min_examples: int = 0,
        on_infeasible: str = "raise",
        calibration: Any = 0.5,
        prefit: bool = False,
        shots: int = 0,
        rng: Seed = 0,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.alpha = alpha
        self.delta = delta
        self.split = split
        self.per_class = per_class
        self.min_examples = min_examples
        self.on_infeasible = on_infeasible
        self.calibration = calibration
        self.prefit = prefit
        self.shots = shots
        self.rng = rng
        self.context = context
        self.allow = allow

    def predict_set(self, X: Any, *, support: Any = None) -> NDArray[np.bool_]:
        """Return which labels are kept for each row.

        Parameters
        ----------
        X : array_like, data frame or sparse matrix, shape (n, features)
            Features of rows of any groups; with ``shots``, of one group.
        support : tuple (X, y), optional
            With ``shots``, and only then: that many labelled rows of the group.

        Returns
        -------
        ndarray of bool, shape (n, classes)
            Whether each label of ``classes_`` is kept. ``metapac.label_lists`` names them.
        """
        scores = self._respond(X, support)
        return self.meta_ps_.predict_set(scores)

    def predict(self, X: Any, *, support: Any = None) -> Array:
        """Return the estimator's own prediction, which carries no guarantee.

        Parameters
        ----------
        X : array_like, data frame or sparse matrix, shape (n, features)
            Features.
        support : tuple (X, y), optional
            As in ``predict_set``.

        Returns
        -------
        ndarray, shape (n,)
            The label that the estimator predicts; with ``shots``, the most probable one.
        """
        if self.shots:
            return np.asarray(self.classes_[np.argmax(self._respond(X, support), axis=1)])
        self._check_fitted()
        as_support(support, self.shots)
        return np.asarray(on_host(self.estimator_.predict(X)))

    def predict_proba(self, X: Any, *, support: Any = None) -> Floats:
        """Return the estimator's probability of each class.

        Parameters
        ----------
        X : array_like, data frame or sparse matrix, shape (n, features)
            Features.
        support : tuple (X, y), optional
            As in ``predict_set``.

        Returns
        -------
        ndarray, shape (n, classes)
            The probabilities; 0 for a class that the estimator was not fitted on.
        """
        self._check_fitted()
        if not self.shots and not hasattr(self.estimator_, "predict_proba"):
            name = type(self.estimator_).__name__
            raise AttributeError(
                f"{name} has no predict_proba; its sets are those of its decision_function."
            )
        return self._respond(X, support)

    def _make_method(self) -> MetaPS:
        check_not_regressor(self.estimator)
        return super()._make_method()

    def _as_targets(self, y: Any) -> Array:
        return as_labels(y)

    def _find_columns(self, y: Any, groups: Any) -> dict[str, str]:
        return find_names(task=groups, label=y)

    def _count(self, data: Examples) -> Counted:
        if not self.per_class:
            return Counted(data.groups, None, None, self.shots)
        return Counted(data.groups, data.y, tuple(np.unique(data.y).tolist()), self.shots)

    def _find_classes(self, model: Any, data: Examples) -> Array:
        return np.unique(data.y) if self.shots else find_classes(model, data.y)

    def _make_adapt(self, model: Any, classes: Array | None) -> Callable[[Any, Any], Respond]:
        assert classes is not None
        if self.shots:
            return lambda x, y: adapt(model, x, y, classes)
        return lambda _x, _y: lambda x: score_classes(model, x, classes)

    def _make_learner(self) -> Any:
        is_learner = hasattr(self.estimator, "adapt")
        return self.estimator if is_learner else SklearnLearner(self.estimator)

    def _calibrate(
        self, method: MetaPS, output: Floats, data: Examples, classes: Array | None, **options: Any
    ) -> MetaPS:
        assert classes is not None
        names = classes.tolist()
        warn_if_perfect(output[np.arange(len(output)), find_codes(data.y, classes)], 1.0)
        if not self.per_class:
            counts = {name: int(np.count_nonzero(data.y == name)) for name in names}
            finding = judge_rare_classes(counts, float(method.epsilon))
            report([finding], options["allow"])
        return method.calibrate(output, data.groups, data.y, classes=names, **options)

    def _assess(self, output: Floats, data: Examples, **options: Any) -> Evaluation:
        check_known(data.y, self.classes_)
        return arrays.evaluate(self.meta_ps_, output, data.groups, data.y, **options)

    def _find_covered(self, output: Floats, data: Examples) -> Array:
        sets = self.meta_ps_.predict_set(output)
        codes = find_codes(data.y, self.classes_)
        if (codes < 0).all():  # such as 0 and 1 for "no" and "yes"
            check_known(data.y, self.classes_)
        return np.asarray((codes >= 0) & sets[np.arange(len(sets)), codes])
