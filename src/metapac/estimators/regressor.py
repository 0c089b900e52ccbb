"""A regressor whose prediction intervals have a guarantee for new groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from metapac import _scores
from metapac._checks import on_host, reject_foreign_keywords
from metapac._columns import find_names
from metapac._types import Array, Floats, Seed
from metapac.assessment import arrays
from metapac.assessment.evaluation import Evaluation
from metapac.calibration import MetaPS
from metapac.context import Context
from metapac.estimators._groups import Counted, mean_by_group
from metapac.estimators._rows import (
    Examples,
    Respond,
    count_rows,
)
from metapac.estimators._scikit_learn import check_estimator, clone_estimator
from metapac.estimators.base import GroupEstimator
from metapac.exceptions import InvalidInput, Parameter
from metapac.guarantee import Split
from metapac.sets import residual_scores


class MetaPSRegressor(GroupEstimator):
    """Prediction intervals of any regressor, with a guarantee for new groups.

    ``fit`` trains the regressor on some of the groups and calibrates the guarantee of `MetaPS` on
    the others: with confidence ``1 - delta``, at least ``1 - alpha`` of new groups have intervals
    that miss at most a fraction ``epsilon`` of their values.

    Parameters
    ----------
    estimator : object
        Regressor with ``fit`` and ``predict``, such as a scikit-learn regressor or pipeline.
    epsilon : float
        Miss rate allowed on a group: the fraction of its values outside their intervals.
    alpha : float
        Fraction of new groups on which the miss rate may exceed ``epsilon``.
    delta : float or None
        Failure probability of the guarantee. None gives a guarantee in expectation.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps, as in `MetaPS`.
    min_examples : int, default 0
        Leave out calibration groups with fewer rows; the guarantee then covers only groups with
        at least this many.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do if the groups are too few: raise ``InfeasibleGuarantee``, or return infinite
        intervals.
    calibration : float, int or list, default 0.5
        Groups to calibrate on: a fraction, a number, or their names. The estimator is trained on
        the others. Ignored with ``prefit`` and ``shots``: every group is then used to calibrate.
    prefit : bool, default False
        Whether the estimator is fitted already, on groups that are not passed to ``fit``. Name them
        in ``context=Context(trained_on=[...])``: without that, nothing can be checked.
    shots : int, default 0
        Number of rows of each group, drawn at random, that the model is adapted to. The estimator
        is cloned and fitted on them alone, and the other rows of the group are scored.
    return_std : bool, default False
        Whether to scale intervals by the standard deviation that the estimator predicts for each
        row: ``predict(X, return_std=True)``, as `BayesianRidge` and Gaussian processes have it.
    rng : int or numpy.random.Generator or None, default 0
        Seed of the division of the groups, and of the rows drawn with ``shots``.
    context : Context, optional
        What the guarantee is about. The training groups are added to its ``trained_on``.
    allow : iterable of str, default ()
        Checks of the data to skip, such as "duplicates"; the message of a check names it.

    Attributes
    ----------
    estimator_ : object
        The fitted estimator; with ``shots``, the one that is cloned for each group.
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
    >>> from sklearn.linear_model import LinearRegression
    >>> from metapac.estimators import MetaPSRegressor
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(np.arange(80), 50)
    >>> X = rng.normal(size=(len(site), 2))
    >>> y = X[:, 0] + rng.normal(size=len(site))
    >>> model = MetaPSRegressor(LinearRegression(), epsilon=0.1, alpha=0.1, delta=0.05)
    >>> model.fit(X, y, groups=site).predict_interval([[0.0, 0.0], [3.0, 0.0]]).round(1)
    array([[-2.2,  2.2],
           [ 0.7,  5.2]])
    """

    _estimator_type = "regressor"

    @reject_foreign_keywords
    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: float,
        alpha: float,
        delta: float | None,
        split: Split = "joint",
        min_examples: int = 0,
        on_infeasible: str = "raise",
        calibration: Any = 0.5,
        prefit: bool = False,
        shots: int = 0,
        return_std: bool = False,
        rng: Seed = 0,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.alpha = alpha
        self.delta = delta
        self.split = split
        self.min_examples = min_examples
        self.on_infeasible = on_infeasible
        self.calibration = calibration
        self.prefit = prefit
        self.shots = shots
        self.return_std = return_std
        self.rng = rng
        self.context = context
        self.allow = allow

    def predict_interval(self, X: Any, *, support: Any = None) -> Floats:
        """Return an interval for each row.

        Parameters
        ----------
        X : array_like, data frame or sparse matrix, shape (n, features)
            Features of rows of any groups; with ``shots``, of one group.
        support : tuple (X, y), optional
            With ``shots``, and only then: that many rows of the group with their values.

        Returns
        -------
        ndarray, shape (n, 2)
            Lower and upper ends.
        """
        prediction, scale = self._respond(X, support).T
        return self.meta_ps_.predict_interval(prediction, scale)

    def predict(self, X: Any, *, support: Any = None) -> Floats:
        """Return the estimator's own prediction, the centre of each interval.

        Parameters
        ----------
        X : array_like, data frame or sparse matrix, shape (n, features)
            Features.
        support : tuple (X, y), optional
            As in ``predict_interval``.

        Returns
        -------
        ndarray, shape (n,)
            The predictions.
        """
        return self._respond(X, support)[:, 0]

    def _get_state(self) -> dict[str, Any]:
        return super()._get_state() | {"return_std": self.return_std}

    def _as_targets(self, y: Any) -> Floats:
        values = np.asarray(on_host(y))
        texts = [value for value in values.ravel().tolist() if isinstance(value, str)]
        if texts or values.dtype.kind not in "iufO":
            raise InvalidInput(
                "{} must hold real numbers, got {}. For classes use MetaPSClassifier.",
                Parameter("y"),
                repr(texts[0]) if texts else values.dtype,
            )
        values = _scores.as_score_array("y", values)
        _scores.check_finite("y", values)
        if values.ndim != 1:
            raise InvalidInput(
                "{} must be one-dimensional, got shape {}. Pass a single column, such as "
                "frame['y'], and fit a model for each.",
                Parameter("y"),
                values.shape,
            )
        return values

    def _find_columns(self, y: Any, groups: Any) -> dict[str, str]:
        own = {"prediction": "prediction"} | ({"scale": "scale"} if self.return_std else {})
        return own | {"y": "y"} | find_names(*own, task=groups, y=y)

    def _count(self, data: Examples) -> Counted:
        return Counted(data.groups, None, None, self.shots, is_interval=True)

    def _find_classes(self, model: Any, data: Examples) -> None:
        check_estimator(model, "predict")

    def _make_adapt(self, model: Any, classes: Array | None) -> Callable[[Any, Any], Respond]:
        if self.shots:
            return lambda x, y: self._make_predictor(clone_estimator(model).fit(x, y))
        return lambda _x, _y: self._make_predictor(model)

    def _make_predictor(self, model: Any) -> Respond:
        """Return the function from rows to their predictions and scales, in two columns."""

        def predict(x: Any) -> Floats:
            if self.return_std:
                columns = _predict_with_std(model, x)
            else:
                columns = [on_host(model.predict(x)), np.ones(count_rows("X", x))]
            return np.stack([_as_column(model, column, x) for column in columns], axis=1)

        return predict

    def _make_learner(self) -> Any:
        return self.estimator

    def _calibrate(
        self, method: MetaPS, output: Floats, data: Examples, classes: Array | None, **options: Any
    ) -> MetaPS:
        prediction, std = output.T
        scale = std if self.return_std else None
        return method.calibrate_intervals(data.y, prediction, data.groups, scale, **options)

    def _assess(self, output: Floats, data: Examples, **options: Any) -> Evaluation:
        scores = residual_scores(data.y, *output.T)
        evaluation = arrays.evaluate(self.meta_ps_, scores, data.groups, **options)
        low, high = self.meta_ps_.predict_interval(*output.T).T
        widths = mean_by_group(data.groups, high - low)
        return replace(evaluation, widths=np.array([widths[t] for t in evaluation.tasks.tolist()]))

    def _find_covered(self, output: Floats, data: Examples) -> Array:
        low, high = self.meta_ps_.predict_interval(*output.T).T
        return np.asarray((low <= data.y) & (data.y <= high))


def _predict_with_std(model: Any, x: Any) -> list[Any]:
    """Return predictions and their standard deviations."""
    try:
        prediction, scale = model.predict(x, return_std=True)
    except TypeError as error:
        raise InvalidInput(
            "{} must predict standard deviations with {}, but {}. Leave it out.",
            Parameter("estimator"),
            Parameter("return_std", True),
            error,
        ) from error
    return [prediction, scale]


def _as_column(model: Any, values: Any, x: Any) -> Floats:
    """Return predictions as one finite number for each row, in float64."""
    name = f"{type(model).__name__}.predict"
    column = _scores.as_score_array(name, values)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.shape != (count_rows("X", x),):
        raise InvalidInput(
            f"{name} must return one number for each of the {count_rows('X', x)} rows, got shape "
            f"{column.shape}."
        )
    return column.astype(np.float64)
