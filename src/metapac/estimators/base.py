"""The part that classifier and regressor share: fit a model on some groups, calibrate on others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from metapac import _checks
from metapac._types import Array, Floats, PathLike, Seed
from metapac.assessment.evaluation import Evaluation
from metapac.calibration import MetaPS
from metapac.context import Context, as_context
from metapac.estimators._groups import (
    Counted,
    Division,
    as_groups,
    check_feasible,
    divide_groups,
    draw_support,
    list_groups,
    mean_by_group,
    rows_of,
)
from metapac.estimators._rows import (
    Examples,
    Respond,
    as_support,
    check_rows,
    score_rows,
    take_fit_params,
    take_rows,
    warn_of_group_column,
)
from metapac.estimators._scikit_learn import (
    ScikitLearnEstimator,
    check_estimator,
    check_prefit,
    clone_estimator,
    consumes_groups,
)
from metapac.exceptions import InvalidInput, NotCalibrated, Parameter
from metapac.guarantee import Epsilon, Split
from metapac.meaning.checks import check_levels
from metapac.meaning.findings import check_allowed

_WORDS = Context(unit="group", example="row")


class GroupEstimator(ScikitLearnEstimator, ABC):
    """A model with a guarantee for new groups. Subclasses turn its output into scores.

    Attributes
    ----------
    estimator_ : object
        The fitted estimator; with ``shots``, the learner that is adapted to each group.
    meta_ps_ : MetaPS
        The calibrated predictor.
    training_groups_ : list
        Groups that the estimator was trained on; empty if none were.
    calibration_groups_ : list
        Groups that the guarantee was calibrated on.
    """

    epsilon: Epsilon
    alpha: float
    delta: float | None
    split: Split
    per_class: bool = False
    min_examples: int
    on_infeasible: str
    calibration: Any
    prefit: bool
    shots: int
    rng: Seed
    context: Context | None
    allow: Iterable[str]
    estimator_: Any
    meta_ps_: MetaPS
    training_groups_: list[Any]
    calibration_groups_: list[Any]
    _fitted_with: dict[str, Any]

    def fit(self, X: Any, y: Any = None, groups: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator on some groups, and calibrate the guarantee on the others.

        Groups are divided whole, by their names alone. With ``prefit`` or ``shots``, nothing is
        fitted here, and every group is used for calibration.

        Parameters
        ----------
        X : array_like, data frame or sparse matrix, shape (n, features)
            Features, as the estimator takes them.
        y : array_like, shape (n,), optional
            True labels or values; None raises an error.
        groups : array_like, shape (n,), optional
            Site, hospital or customer of each row: strings or integers. None raises an error.
        **fit_params : object
            Further arguments of the estimator's ``fit``, such as ``sample_weight``. Those with an
            entry for each row are restricted to the training rows. They affect the model only:
            the guarantee counts every row once.

        Returns
        -------
        MetaPSClassifier or MetaPSRegressor
            The object itself, fitted.

        Raises
        ------
        InfeasibleGuarantee
            If the calibration groups are too few or too small, before anything is trained; the
            message says what would work.
        """
        method = self._make_method()
        context = as_context(_WORDS if self.context is None else self.context)
        data = self._read(X, y, groups)
        division = self._divide(data, fit_params)
        context.check_calibration_tasks(division.calibration)
        check_feasible(method, division, self._count(data))
        model = self._prepare(data, division, fit_params)
        classes = self._find_classes(model, data)
        if division.training:
            data = data.take(rows_of(data.groups, division.calibration))
        output, scored = self._score_groups(model, classes, data)
        trained_on = [*(context.trained_on or ()), *division.training] or None
        calibrated = self._calibrate(
            method,
            output,
            scored,
            classes,
            context=replace(context, trained_on=trained_on),
            allow={*check_allowed(self.allow), "task-names"},  # all groups were compared
        )._name_columns(self._find_columns(y, groups))
        self._keep_results(model, division, calibrated, classes)
        return self

    def evaluate(
        self,
        X: Any,
        y: Any,
        groups: Any,
        *,
        min_examples: int = 0,
        false_alarm: float = 0.05,
        allow: Iterable[str] = (),
    ) -> Evaluation:
        """Compare the guarantee with labelled new groups: misses of each, and the verdict.

        Groups that were trained or calibrated on are left out.

        Parameters
        ----------
        X : array_like, data frame or sparse matrix, shape (n, features)
            Features.
        y : array_like, shape (n,)
            True labels or values.
        groups : array_like, shape (n,)
            Group of each row.
        min_examples : int, default 0
            Leave out groups with fewer rows.
        false_alarm : float, default 0.05
            Probability that the verdict is wrong.
        allow : iterable of str, default ()
            Checks of the data to skip, beside those of the constructor.

        Returns
        -------
        Evaluation
            The comparison, as ``metapac.evaluate`` returns it.
        """
        return self._assess(
            *self._score_new_groups(X, y, groups),
            min_examples=min_examples,
            false_alarm=false_alarm,
            allow={*check_allowed(self.allow), *check_allowed(allow)},
        )

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return the mean coverage over groups: the share of rows whose set or interval is right.

        Each group counts once, however many rows it has. Higher is safer, not better: sets of all
        labels have a score of 1. Do not select models by it; select by the size of the sets.

        Parameters
        ----------
        X : array_like, data frame or sparse matrix, shape (n, features)
            Features.
        y : array_like, shape (n,)
            True labels or values.
        groups : array_like, shape (n,), optional
            Group of each row, known ones included. None raises an error.

        Returns
        -------
        float
            The mean coverage, between 0 and 1.
        """
        output, scored = self._score_new_groups(X, y, groups)
        coverage = mean_by_group(scored.groups, self._find_covered(output, scored))
        return float(np.mean([*coverage.values()]))

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, followed by remarks if it is uninformative."""
        self._check_fitted()
        return self.meta_ps_.promise_

    def explain(self) -> str:
        """Return the guarantee in plain words, for people who are not statisticians.

        Returns
        -------
        str
            Paragraphs separated by empty lines; items of a list start with "- ".
        """
        self._check_fitted()
        return self.meta_ps_.explain()

    def save_promise(self, path: PathLike) -> None:
        """Write the promise file: threshold, guarantee and evidence, but not the model.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically. ``metapac.load`` reads it.
        """
        self._check_fitted()
        self.meta_ps_.save(path)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether ``fit`` was called."""
        return hasattr(self, "meta_ps_")

    @abstractmethod
    def _as_targets(self, y: Any) -> Array:
        """Return the targets as an array, checked."""

    @abstractmethod
    def _find_columns(self, y: Any, groups: Any) -> dict[str, str]:
        """Return the names of the columns that commands read from a table of new rows."""

    @abstractmethod
    def _count(self, data: Examples) -> Counted:
        """Return what decides whether the guarantee is feasible."""

    @abstractmethod
    def _find_classes(self, model: Any, data: Examples) -> Array | None:
        """Return the classes, of the model and of the data; None if there are none."""

    @abstractmethod
    def _make_adapt(self, model: Any, classes: Array | None) -> Callable[[Any, Any], Respond]:
        """Return the function from support examples, None without shots, to the adapted model."""

    @abstractmethod
    def _make_learner(self) -> Any:
        """Return the learner that is adapted to each group."""

    @abstractmethod
    def _calibrate(
        self, method: MetaPS, output: Floats, data: Examples, classes: Array | None, **options: Any
    ) -> MetaPS:
        """Calibrate on the output of the model."""

    @abstractmethod
    def _assess(self, output: Floats, data: Examples, **options: Any) -> Evaluation:
        """Compare the guarantee with the output of the model for new groups."""

    @abstractmethod
    def _find_covered(self, output: Floats, data: Examples) -> Array:
        """Return which rows are covered."""

    def _make_method(self) -> MetaPS:
        """Return an uncalibrated predictor, once its parameters are known to be valid."""
        method = MetaPS(
            epsilon=self.epsilon,
            alpha=self.alpha,
            delta=self.delta,
            split=self.split,
            per_class=self.per_class,
            min_examples=self.min_examples,
            on_infeasible=self.on_infeasible,
        )
        guarantee = method._make_guarantee()
        check_levels(guarantee.epsilon, guarantee.alpha, guarantee.delta, allow=self.allow)
        return method

    def _read(self, x: Any, y: Any, groups: Any) -> Examples:
        """Return the rows with their targets and groups, all checked."""
        _checks.check_bool("prefit", self.prefit)
        _checks.as_whole_number("shots", self.shots, minimum=0)
        if y is None:
            raise InvalidInput(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        ids = as_groups(groups, self.allow)
        check_rows(x, y=y, groups=groups)
        warn_of_group_column(x, groups, ids)
        return Examples(x, self._as_targets(y), ids)

    def _divide(self, data: Examples, fit_params: dict[str, Any]) -> Division:
        if self.prefit and self.shots:
            raise InvalidInput(
                "{} adapts the estimator to each group, so it cannot be fitted beforehand. Leave "
                "{} or {} out.",
                Parameter("shots", self.shots),
                Parameter("prefit", True),
                Parameter("shots"),
            )
        if not self.prefit and not self.shots:
            return divide_groups(data.groups, self.calibration, self.rng)
        if fit_params:
            raise InvalidInput(
                "nothing is fitted with {}, so {} cannot be passed on. Leave it out.",
                Parameter("prefit", True) if self.prefit else Parameter("shots", self.shots),
                _checks.listed(sorted(fit_params)),
            )
        return Division([], list_groups(data.groups))

    def _prepare(self, data: Examples, division: Division, fit_params: dict[str, Any]) -> Any:
        """Return the fitted estimator, or the learner that is adapted to each group."""
        if self.shots:
            check_estimator(self.estimator, "fit", "adapt")
            return self._make_learner()
        if self.prefit:
            check_prefit(self.estimator)
            return self.estimator
        check_estimator(self.estimator, "fit")
        rows = rows_of(data.groups, division.training)
        train, model = data.take(rows), clone_estimator(self.estimator)
        params = take_fit_params(fit_params, len(data.groups), rows)
        if consumes_groups(model):
            params |= {"groups": train.groups}
        fitted = model.fit(train.x, train.y, **params)
        return model if fitted is None else fitted

    def _score_groups(
        self, model: Any, classes: Array | None, data: Examples
    ) -> tuple[Floats, Examples]:
        """Return the output of the model, and the rows it is for: all but support examples."""
        adapt = self._make_adapt(model, classes)
        if not self.shots:
            return score_rows(adapt(None, None), data.x), data
        parts, rows = [], []
        for support, query in draw_support(data.groups, self.shots, self.rng):
            adapted = adapt(take_rows(data.x, support), data.y[support])
            parts.append(score_rows(adapted, take_rows(data.x, query)))
            rows.append(query)
        return np.concatenate(parts), data.take(np.concatenate(rows))

    def _score_new_groups(self, x: Any, y: Any, groups: Any) -> tuple[Floats, Examples]:
        """Return the output of the fitted model for labelled groups, and the rows it is for."""
        self._check_fitted()
        data = self._read(x, y, groups)
        return self._score_groups(self.estimator_, self._get_classes(), data)

    def _respond(self, x: Any, support: Any) -> Floats:
        """Return the output of the fitted model for rows without labels."""
        self._check_fitted()
        support_x, support_y = as_support(support, self.shots)
        labels = None if support_y is None else self._as_targets(support_y)
        return self._make_adapt(self.estimator_, self._get_classes())(support_x, labels)(x)

    def _get_classes(self) -> Array | None:
        return getattr(self, "classes_", None)

    def _keep_results(
        self, model: Any, division: Division, calibrated: MetaPS, classes: Array | None
    ) -> None:
        self.estimator_, self.meta_ps_ = model, calibrated
        self._fitted_with = self._get_state()
        if classes is not None:
            self.classes_ = classes
        self.training_groups_ = sorted(division.training, key=str)
        self.calibration_groups_ = sorted(division.calibration, key=str)
        for name in ("n_features_in_", "feature_names_in_"):
            vars(self).pop(name, None)
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def _check_fitted(self) -> None:
        """Raise NotCalibrated before ``fit``, or if the guarantee asked for has changed since."""
        name = type(self).__name__
        if not self.__sklearn_is_fitted__():
            raise NotCalibrated(
                f"this {name} is not fitted yet. Call .fit(X, y, groups=...) first."
            )
        now = self._get_state()
        if now != self._fitted_with:
            raise NotCalibrated(
                f"this {name} was fitted with {self._fitted_with}, and its parameters were changed "
                f"to {now} since. Call .fit(X, y, groups=...) again."
            )

    def _get_state(self) -> dict[str, Any]:
        """Return the parameters that the guarantee and the scores depend on."""
        return self._make_method()._guarantee_params() | {"shots": self.shots}
