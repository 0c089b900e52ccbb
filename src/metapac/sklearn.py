"""Classifiers and regressors of scikit-learn with a guarantee for new groups."""

from __future__ import annotations

import copy
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from metapac import _common, binomial, data_checks, evaluation, inputs, planning
from metapac._common import Array, Counts, Floats, PathLike, Seed, brief, listed, on_host, warn
from metapac.context import Context, as_context
from metapac.data_checks import MIN_ROWS, check_allowed, check_levels, report
from metapac.errors import InfeasibleGuarantee, InvalidInput, NotCalibrated
from metapac.evaluation import Evaluation
from metapac.grouping import Scored, name_units
from metapac.guarantee import Epsilon, PerClass, Split
from metapac.planning import Demand, all_feasible, demand_each
from metapac.predictors import MetaPS
from metapac.sets import score_numbers

try:
    from sklearn import base
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import _safe_indexing, indexable, metadata_routing, validation
    from sklearn.utils.metaestimators import available_if
except ModuleNotFoundError as error:
    raise _common.missing(error, extra="sklearn", purpose="metapac.sklearn") from error

__all__ = ["MetaPSClassifier", "MetaPSRegressor"]

Respond = Callable[[Any], Floats]  # from rows to the scores of all labels, or to predictions

_WORDS = Context(unit="group", example="row")
_LEARNERS = "metapac.fewshot.adapters"  # by name, as the core never imports the wing


class NotFitted(NotCalibrated, NotFittedError):  # type: ignore[misc]
    """There is no result yet, in the eyes of metapac and of scikit-learn."""


class Examples(NamedTuple):
    """Labelled examples: features, target and group of each row, and its unit if known."""

    x: Any
    y: Array
    groups: Array
    within: Array | None = None

    def take(self, rows: Counts) -> Self:
        """Return some of the rows."""
        units = None if self.within is None else self.within[rows]
        return type(self)(_safe_indexing(self.x, rows), self.y[rows], self.groups[rows], units)


class GroupEstimator(base.MetaEstimatorMixin, ABC):  # type: ignore[misc]
    """A model with a guarantee for new groups. It precedes other bases because of ``score``."""

    estimator_: Any
    meta_ps_: MetaPS
    training_groups_: list[Any]
    calibration_groups_: list[Any]
    per_class = return_std = False  # unless a subclass has the parameter
    _target: str  # what a table calls the true labels or values
    __metadata_request__fit = {"groups": True, "within": True}  # noqa: RUF012
    __metadata_request__score = {"groups": True}  # noqa: RUF012

    def fit(
        self, X: Any, y: Any = None, groups: Any = None, *, within: Any = None, **fit_params: Any
    ) -> Self:
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
        within : array_like, shape (n,), optional
            Unit of each row within its group, such as its household, as in ``MetaPS.calibrate``.
            The model is trained on every row, and calibrated on one random row of each unit, by
            ``rng`` if that is an integer, else by 0. Not with ``shots``.
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
        data = self._read(X, y, groups, within)
        training, calibration = self._divide(data.groups, fit_params)
        context.check_calibration_tasks(calibration)
        self._check_feasible(method, data, training, calibration)
        new = copy.copy(self)  # a failed fit keeps the earlier result
        new.estimator_ = self._train(data, training, fit_params)
        new._check_model(data)
        used = np.flatnonzero(find_codes(data.groups, calibration) >= 0)
        output, scored = new._score_groups(data.take(used))
        context = replace(context, trained_on=[*(context.trained_on or ()), *training] or None)
        allow = {*check_allowed(self.allow), "task-names"}  # all groups were compared
        seed = self.rng if isinstance(self.rng, int | np.integer) else 0
        options: Any = {"within": scored.within, "rng": seed, "context": context, "allow": allow}
        new._calibrate(method, output, scored, **options)
        reserved = {"prediction", "scale", "lower", "upper"} & (method.columns_ or {}).keys()
        names = inputs.find_names(*reserved, task=groups, **{self._target: y})
        new.meta_ps_ = method._name_columns(names)
        new._fitted_with = new._get_state()
        new.training_groups_ = sorted(training, key=str)
        new.calibration_groups_ = sorted(calibration, key=str)
        first = each_model(new.estimator_)[0]
        for name in ("n_features_in_", "feature_names_in_"):
            new.__dict__.pop(name, None)
            new.__dict__ |= {name: getattr(first, name)} if hasattr(first, name) else {}
        self.__dict__ = new.__dict__
        return self

    def evaluate(
        self,
        X: Any,
        y: Any,
        groups: Any,
        *,
        within: Any = None,
        min_examples: int = 0,
        false_alarm: float = 0.05,
        allow: Iterable[str] = (),
    ) -> Evaluation:
        """Compare the guarantee with labelled new groups: misses of each, and the verdict.

        Groups that were trained or calibrated on are left out.

        Parameters
        ----------
        X, y, groups : array_like
            Features, true labels or values, and groups, as in ``fit``.
        within : array_like, shape (n,), optional
            Units, as in ``fit``, if it had them: one random row of each is judged.
        min_examples, false_alarm, allow : optional
            As in ``metapac.evaluate``; ``allow`` adds to that of the constructor.

        Returns
        -------
        Evaluation
            The comparison, as ``metapac.evaluate`` returns it.
        """
        allowed = {*check_allowed(self.allow), *check_allowed(allow)}
        self._check_fitted()
        output, scored = self._score_groups(self._read(X, y, groups, within))
        more = {"min_examples": min_examples, "false_alarm": false_alarm, "within": scored.within}
        return self._assess(output, scored, allow=allowed, **more)

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return the mean coverage over groups: the share of rows whose set or interval is right.

        Each group counts once, however many rows it has. Higher is safer, not better: sets of all
        labels have a score of 1. Do not select models by it; select by the size of the sets.

        Parameters
        ----------
        X, y : array_like
            Features, and true labels or values, as in ``fit``.
        groups : array_like, shape (n,), optional
            Group of each row, known ones included. None raises an error.

        Returns
        -------
        float
            The mean coverage, between 0 and 1.
        """
        self._check_fitted()
        output, scored = self._score_groups(self._read(X, y, groups))
        return float(np.mean(mean_by_group(scored.groups, self._find_covered(output, scored))))

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, followed by remarks if it is uninformative."""
        return self._check_fitted().promise_

    def explain(self) -> str:
        """Return the guarantee in plain words, for people who are not statisticians.

        Returns
        -------
        str
            Paragraphs separated by empty lines; items of a list start with "- ".
        """
        return self._check_fitted().explain()

    def save_promise(self, path: PathLike) -> None:
        """Write the promise file: threshold, guarantee and evidence, but not the model.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically. ``metapac.load`` reads it.
        """
        self._check_fitted().save(path)

    def get_metadata_routing(self) -> Any:
        """Return what scikit-learn's metadata routing passes where.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
            ``fit`` and ``score`` take groups; what else ``fit`` takes, the estimator requests.
        """
        to_fit = metadata_routing.MethodMapping().add(caller="fit", callee="fit")
        router = metadata_routing.MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=each_model(self.estimator)[0], method_mapping=to_fit)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the class, with those of the estimator on its input."""
        tags = super().__sklearn_tags__()
        model = each_model(self.estimator)[0]
        if hasattr(model, "__sklearn_tags__"):
            inner = model.__sklearn_tags__()
            tags.input_tags, tags.non_deterministic = inner.input_tags, inner.non_deterministic
        return tags

    @abstractmethod
    def _as_targets(self, y: Any) -> Array:
        """Return the targets as an array, checked."""

    def _check_model(self, data: Examples) -> None:
        """Raise unless the fitted estimator can be scored; a classifier sets ``classes_``."""
        for model in each_model(self.estimator_):
            check_estimator(model, "predict")

    @abstractmethod
    def _adapt(self, x: Any = None, y: Any = None) -> Respond:
        """Return the fitted model; with ``shots``, adapted to support rows of a group."""

    @abstractmethod
    def _calibrate(self, method: MetaPS, output: Floats, data: Examples, **options: Any) -> None:
        """Calibrate ``method`` on the output of the model."""

    @abstractmethod
    def _assess(self, output: Floats, data: Examples, **options: Any) -> Evaluation:
        """Compare the guarantee with the output of the model for new groups."""

    @abstractmethod
    def _find_covered(self, output: Floats, data: Examples) -> Array:
        """Return which rows are covered."""

    def _make_method(self) -> MetaPS:
        """Return an uncalibrated predictor, once its parameters are known to be valid."""
        names = [name for name in MetaPS._parameter_names() if hasattr(self, name)]
        method = MetaPS(**{name: getattr(self, name) for name in names})
        stated = method._make_guarantee()
        check_levels(stated.epsilon, stated.alpha, stated.delta, allow=self.allow)
        return method

    def _read(self, x: Any, y: Any, groups: Any, within: Any = None) -> Examples:
        """Return the rows with their targets, groups and units, all checked."""
        _common.check_bool("prefit", self.prefit)
        shots = _common.as_whole_number("shots", self.shots, minimum=0)
        if y is None:  # in words that check_estimator looks for
            raise InvalidInput("this requires y to be passed, but the target y is None.")
        if within is not None and shots:
            rule = "within must be left out with shots: support rows may share a unit with others"
            raise InvalidInput(f"{rule}. Pass one row of each unit.")
        ids = as_groups(groups, self.allow)
        x = as_indexable(x, y=y, groups=groups)
        warn_of_group_column(x, groups, ids)
        names, index = index_groups(ids)
        if small := [names[i] for i in np.flatnonzero(np.bincount(index) <= shots)]:
            text = f"shots={shots} takes {shots} rows of each group and needs one more to score"
            raise InvalidInput(f"{text}. Leave out {quote(small)}.")
        units = None if within is None else name_units(within)
        if units is not None:
            _common.check_same_length("within", units, "groups", ids)
        return Examples(x, self._as_targets(y), ids, units)

    def _divide(self, groups: Array, fit_params: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """Return the groups to train on, and those to calibrate on, in the order of the draw."""
        if not self.prefit and not self.shots:
            return divide_groups(groups, self.calibration, self.rng)
        unfitted = f"shots={self.shots}" if self.shots else "prefit=True"
        if self.prefit and self.shots:
            raise InvalidInput(f"{unfitted} fits the estimator to each group. Leave prefit out.")
        if fit_params:
            names = listed(sorted(fit_params))
            raise InvalidInput(f"nothing is fitted with {unfitted}, so {names} must be left out.")
        return [], index_groups(groups)[0]

    def _check_feasible(
        self, method: MetaPS, data: Examples, training: list[Any], calibration: list[Any]
    ) -> None:
        """Raise InfeasibleGuarantee before anything is trained; numbers of rows alone decide."""
        # As many rows of each group remain whichever are drawn, but not of each class.
        is_drawn = self.shots or data.within is not None
        if self.on_infeasible != "raise" or (is_drawn and self.per_class):
            return
        if self.randomise is not None:  # smaller groups may do, depending on their names
            return
        if data.within is not None:
            pairs = zip(data.groups.tolist(), data.within.tolist(), strict=True)
            data = data.take(np.array([*{pair: i for i, pair in enumerate(pairs)}.values()]))
        whole, used, total = method._make_guarantee(), len(calibration), len(training + calibration)
        index, of_class = find_codes(data.groups, calibration + training), {None: slice(None)}
        if self.per_class:
            of_class = {x: data.y == x for x in np.unique(data.y).tolist()}
        sizes = {x: np.bincount(index[rows], minlength=total) for x, rows in of_class.items()}

        def count(groups: int) -> list[Demand]:
            return demand_each(whole, {x: n[:groups] - self.shots for x, n in sizes.items()})

        if all_feasible(count(used)):
            return
        trivial = (
            "for intervals of infinite width" if self._target == "y" else "to keep every label"
        )
        text = planning.explain_too_few_tasks(count(used), trivial=trivial)
        if training:
            text += f" Groups are the tasks here: {used} of {total} calibrate, and"
            is_drawn = isinstance(self.calibration, numbers.Real)
            most = total - 1 if is_drawn else used  # one is left to train on
            enough = all_feasible(count(most)) and binomial.min_integer(
                lambda groups: all_feasible(count(groups)), used, most
            )
            text += f" calibration={enough} would do." if enough else " the others train."
        raise InfeasibleGuarantee(text)

    def _train(self, data: Examples, training: list[Any], fit_params: dict[str, Any]) -> Any:
        """Return a clone fitted on the training groups; the estimator itself if there are none."""
        if not isinstance(self.estimator, tuple):
            return self._train_one(self.estimator, data, training, fit_params)
        if self._target == "label" or self.return_std or len(self.estimator) != 2:
            rule = "a tuple is for the two quantile models of MetaPSRegressor, without return_std"
            raise InvalidInput(f"estimator must be one model: {rule}, got {brief(self.estimator)}.")
        return tuple(self._train_one(one, data, training, fit_params) for one in self.estimator)

    def _train_one(
        self, model: Any, data: Examples, training: list[Any], fit_params: dict[str, Any]
    ) -> Any:
        if isinstance(model, base.BaseEstimator):  # others do not tell
            if self._target == "label" and base.is_regressor(model):
                text = f"estimator must be a classifier, got {brief(model)}"
                raise InvalidInput(f"{text}. For numbers use MetaPSRegressor.")
            if self.prefit:
                with explained("estimator must be fitted on other groups if prefit=True"):
                    validation.check_is_fitted(model)
        if self.prefit:
            return model
        if self.shots:
            return check_estimator(model, "fit", "adapt")
        model = base.clone(check_estimator(model, "fit"), safe=False)
        rows = np.flatnonzero(find_codes(data.groups, training) >= 0)
        train, params = data.take(rows), validation._check_method_params(data.x, fit_params, rows)
        if metadata_routing.get_routing_for_object(model).consumes("fit", ["groups"]):
            params["groups"] = train.groups  # of a search that splits by groups
        fitted = model.fit(train.x, train.y, **params)
        return model if fitted is None else fitted

    def _score_groups(self, data: Examples) -> tuple[Floats, Examples]:
        """Return the output of the model, and the rows it is for: all but support examples."""
        if not self.shots:
            return score_rows(self._adapt(), data.x), data
        outputs, rows = [], []
        for support, query in draw_support(data.groups, self.shots, self.rng):
            adapted = self._adapt(_safe_indexing(data.x, support), data.y[support])
            outputs.append(score_rows(adapted, _safe_indexing(data.x, query)))
            rows.append(query)
        return np.concatenate(outputs), data.take(np.concatenate(rows))

    def _respond(self, x: Any, support: Any) -> Floats:
        """Return the output of the fitted model for rows without labels."""
        return self._adapt(*self._as_support(support))(x)

    def _as_support(self, support: Any) -> tuple[Any, ...]:
        """Return features and targets of a new group's support; none without ``shots``."""
        self._check_fitted()
        if not self.shots and support is None:
            return ()
        rule = f"support must be (X, y): {self.shots} rows of the new group, as in calibration"
        if not self.shots or not isinstance(support, tuple | list) or len(support) != 2:
            raise InvalidInput(f"{rule} with shots={self.shots}, got {brief(support)}.")
        x = as_indexable(support[0], y=support[1])
        if validation._num_samples(x) != self.shots:
            raise InvalidInput(f"{rule}, got {validation._num_samples(x)}.")
        return x, self._as_targets(support[1])

    def _check_fitted(self) -> MetaPS:
        """Return the calibrated predictor; raise NotFitted if the parameters have changed since."""
        name, again = type(self).__name__, "Call .fit(X, y, groups=...)"
        if not hasattr(self, "meta_ps_"):
            raise NotFitted(f"this {name} is not fitted yet. {again} first.")
        if (now := self._get_state()) != (before := self._fitted_with):
            raise NotFitted(f"this {name} was fitted with {before}, not with {now}. {again} again.")
        return self.meta_ps_

    def _get_state(self) -> dict[str, Any]:
        """Return the parameters that the guarantee and the scores depend on."""
        scores = {"shots": self.shots, "return_std": self.return_std}
        return self._make_method()._guarantee_params() | scores


def has_probabilities(classifier: MetaPSClassifier) -> bool:
    """Return whether its scores are probabilities, not those of a decision function."""
    model = getattr(classifier, "estimator_", classifier.estimator)
    return bool(classifier.shots) or hasattr(model, "predict_proba")


class MetaPSClassifier(GroupEstimator, base.ClassifierMixin, base.BaseEstimator):  # type: ignore[misc]
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
    split, per_class, min_examples : optional
        As in `MetaPS`: calibration groups with fewer rows are left out, and then not covered.
    new_tasks, shift, dishonest, sampling, randomise, offsets : optional
        A finite list of new groups, new groups from elsewhere, groups that may be wrong, how the
        rows of a group are sampled, and offsets of the classes, as in `Guarantee`.
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
    training_groups_, calibration_groups_ : list
        Groups trained on (none with ``prefit`` or ``shots``), and groups calibrated on.
    promise_ : str
        The guarantee in one sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from metapac import label_lists
    >>> from metapac.sklearn import MetaPSClassifier
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(np.arange(80), 50)
    >>> y = rng.choice(["no", "yes"], len(site))
    >>> X = rng.normal(size=(len(site), 2)) + 2 * (y == "yes")[:, None]
    >>> model = MetaPSClassifier(LogisticRegression(), epsilon=0.1, alpha=0.1, delta=0.05)
    >>> sets = model.fit(X, y, groups=site).predict_set([[-1.0, -1.0], [1.0, 1.1], [4.0, 3.0]])
    >>> label_lists(sets, model.classes_)
    [['no'], ['no', 'yes'], ['yes']]
    """

    _target = "label"

    @_common.reject_foreign_keywords
    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: Epsilon,
        alpha: float,
        delta: float | None,
        split: Split = "joint",
        per_class: PerClass = False,
        min_examples: int = 0,
        new_tasks: int | None = None,
        shift: float = 0.0,
        dishonest: int = 0,
        sampling: str = "any",
        randomise: int | None = None,
        offsets: Any = None,
        on_infeasible: str = "raise",
        calibration: Any = 0.5,
        prefit: bool = False,
        shots: int = 0,
        rng: Seed = 0,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> None:
        self.__dict__.update({k: v for k, v in locals().items() if k != "self"})

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
        self._as_support(support)
        return np.asarray(on_host(self.estimator_.predict(X)))

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
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
        return self._respond(X, support)

    def _as_targets(self, y: Any) -> Array:
        with explained("y holds the labels"):
            return as_labels(y)

    def _check_model(self, data: Examples) -> None:
        if self.shots and not hasattr(self.estimator_, "adapt"):
            self.estimator_ = import_module(_LEARNERS).SklearnLearner(self.estimator_)
        self.classes_ = np.unique(data.y) if self.shots else find_classes(self.estimator_, data.y)

    def _adapt(self, x: Any = None, y: Any = None) -> Respond:
        if not self.shots:
            return lambda rows: score_classes(self.estimator_, rows, self.classes_)
        codes, classes = check_known(y, self.classes_, "support"), len(self.classes_)
        adapt = import_module(_LEARNERS).adapt_learner
        scorer = adapt(self.estimator_, x, codes, classes=classes)
        return lambda rows: read_scores(scorer, "predict_proba", rows, classes)

    def _calibrate(self, method: MetaPS, output: Floats, data: Examples, **options: Any) -> None:
        names = self.classes_.tolist()
        codes = find_codes(data.y, names)
        if len(codes) >= MIN_ROWS and (output[np.arange(len(codes)), codes] == 1).all():
            text = "every calibration row has the best possible score. If the model was trained on"
            warn(f"{text} them, calibrate on others, and list these in Context(trained_on=[...]).")
        if not self.per_class:
            counts = {name: int(np.count_nonzero(data.y == name)) for name in names}
            stated, scored = method._make_guarantee(), Scored(output, data.groups, data.y, names)

            def works() -> bool:
                return planning.supports_classes(stated, scored.sizes(by_class=True))

            rare = data_checks.judge_rare_classes(counts, stated.miss_rate, supports_classes=works)
            report([rare], options["allow"])
        method.calibrate(output, data.groups, data.y, classes=names, **options)

    def _assess(self, output: Floats, data: Examples, **options: Any) -> Evaluation:
        check_known(data.y, self.classes_)
        return evaluation.evaluate(self.meta_ps_, output, data.groups, data.y, **options)

    def _find_covered(self, output: Floats, data: Examples) -> Array:
        sets = self.meta_ps_.predict_set(output)
        codes = find_codes(data.y, self.classes_.tolist())
        if (codes < 0).all():  # such as 0 and 1 for "no" and "yes"
            check_known(data.y, self.classes_)
        return np.asarray((codes >= 0) & sets[np.arange(len(sets)), codes])


class MetaPSRegressor(GroupEstimator, base.RegressorMixin, base.BaseEstimator):  # type: ignore[misc]
    """Prediction intervals of any regressor, with a guarantee for new groups.

    ``fit`` trains the regressor on some of the groups and calibrates the guarantee of `MetaPS` on
    the others: with confidence ``1 - delta``, at least ``1 - alpha`` of new groups have intervals
    that miss at most a fraction ``epsilon`` of their values.

    Parameters
    ----------
    estimator : object, or tuple of two
        Regressor with ``fit`` and ``predict``, such as a scikit-learn regressor or pipeline. Or two
        of them, for a low and a high quantile: intervals are then those of `quantile_scores`.
    epsilon : float
        Miss rate allowed on a group: the fraction of its values outside their intervals.
    alpha, delta : float, and None for ``delta``
        As in `MetaPSClassifier`.
    split, min_examples, new_tasks, shift, dishonest, sampling, randomise : optional
        As in `MetaPSClassifier`.
    on_infeasible : {"raise", "trivial"}, default "raise"
        If the groups are too few, raise ``InfeasibleGuarantee`` or return infinite intervals.
    calibration, prefit, shots : optional
        As in `MetaPSClassifier`.
    return_std : bool, default False
        Whether to scale intervals by the standard deviation that the estimator predicts for each
        row: ``predict(X, return_std=True)``, as `BayesianRidge` and Gaussian processes have it.
    rng, context, allow : optional
        As in `MetaPSClassifier`.

    Attributes
    ----------
    estimator_, meta_ps_, training_groups_, calibration_groups_, promise_ : object
        As in `MetaPSClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from metapac.sklearn import MetaPSRegressor
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(np.arange(80), 50)
    >>> X = rng.normal(size=(len(site), 2))
    >>> y = X[:, 0] + rng.normal(size=len(site))
    >>> model = MetaPSRegressor(LinearRegression(), epsilon=0.1, alpha=0.1, delta=0.05)
    >>> model.fit(X, y, groups=site).predict_interval([[0.0, 0.0]]).round(1)
    array([[-2.2,  2.2]])
    """

    _target = "y"

    @_common.reject_foreign_keywords
    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: float,
        alpha: float,
        delta: float | None,
        split: Split = "joint",
        min_examples: int = 0,
        new_tasks: int | None = None,
        shift: float = 0.0,
        dishonest: int = 0,
        sampling: str = "any",
        randomise: int | None = None,
        on_infeasible: str = "raise",
        calibration: Any = 0.5,
        prefit: bool = False,
        shots: int = 0,
        return_std: bool = False,
        rng: Seed = 0,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> None:
        self.__dict__.update({k: v for k, v in locals().items() if k != "self"})

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
            Lower and upper ends; ``inf`` and ``-inf`` of an empty interval, as quantiles may give.
        """
        output = self._respond(X, support)
        return self.meta_ps_.predict_interval(**self._name(output))

    def predict(self, X: Any, *, support: Any = None) -> Floats:
        """Return the estimator's own prediction, or the middle between its two quantiles.

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
        output = self._respond(X, support)
        return output.mean(axis=1) if isinstance(self.estimator_, tuple) else output[:, 0]

    def _as_targets(self, y: Any) -> Floats:
        with explained("y holds the true values; for classes use MetaPSClassifier"):
            values = inputs.as_score_array("y", y)  # in their own precision
        inputs.check_finite("y", values)
        if values.ndim != 1:
            raise InvalidInput(f"y must be one column, got shape {values.shape}.")
        return values

    def _adapt(self, x: Any = None, y: Any = None) -> Respond:
        models = each_model(self.estimator_)
        if self.shots:
            models = tuple(base.clone(model, safe=False).fit(x, y) for model in models)
        return lambda rows: predict_numbers(models, rows, self.return_std)

    def _name(self, output: Floats) -> dict[str, Floats]:
        """Return the columns of the output by what they mean to `MetaPS`."""
        names = ("prediction", "scale") if self.return_std else ("prediction",)
        names = ("lower", "upper") if isinstance(self.estimator_, tuple) else names
        return dict(zip(names, output.T, strict=False))

    def _calibrate(self, method: MetaPS, output: Floats, data: Examples, **options: Any) -> None:
        options |= self._name(output)
        method.calibrate_intervals(data.y, tasks=data.groups, **options)

    def _assess(self, output: Floats, data: Examples, **options: Any) -> Evaluation:
        scores = score_numbers(data.y, self._name(output))
        measured = evaluation.evaluate(self.meta_ps_, scores, data.groups, **options)
        low, high = self.meta_ps_.predict_interval(**self._name(output)).T
        width = np.maximum(high - low, 0.0)  # an empty interval has none
        names, widths = index_groups(data.groups)[0], mean_by_group(data.groups, width)
        return replace(measured, widths=widths[find_codes(measured.tasks, names)])

    def _find_covered(self, output: Floats, data: Examples) -> Array:
        low, high = self.meta_ps_.predict_interval(**self._name(output)).T
        return np.asarray((low <= data.y) & (data.y <= high))


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raise InvalidInput that says which argument an error is about, in the words of groups."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInput(f"{what}: {error}") from error


def quote(names: Iterable[Any]) -> str:
    """Return names as they are written in Python; of many, the first ones."""
    return listed([*map(repr, names)])


def each_model(estimator: Any) -> tuple[Any, ...]:
    """Return the models of a pair, or the only one."""
    return estimator if isinstance(estimator, tuple) and estimator else (estimator,)


def check_estimator(estimator: Any, *methods: str) -> Any:
    """Return ``estimator``, once it is an instance with one of the methods, or more."""
    if isinstance(estimator, type) or not any(hasattr(estimator, name) for name in methods):
        wanted = " or ".join(methods)
        raise InvalidInput(f"estimator must be an instance with {wanted}, got {brief(estimator)}.")
    return estimator


def as_indexable(x: Any, **columns: Any) -> Any:
    """Return X, once every column has an entry for each of its rows, and the same pandas index."""
    with explained(f"{', '.join(['X', *columns])} must have an entry for each row"):
        for name, column in {"X": x, **columns}.items():
            _common.check_same_index("X", x, name, column)
            if isinstance(column, str | bytes | dict | None):
                raise TypeError(f"{name} is {brief(column)}")
        return indexable(x, *columns.values())[0]


def score_rows(respond: Respond, x: Any) -> Floats:
    """Return the output of a model for all rows; check two rows scored alone."""
    output = respond(x)
    for row in {0, len(output) - 1}:
        alone = respond(_safe_indexing(x, [row]))[0]
        if not np.allclose(alone, output[row], rtol=1e-3, atol=1e-6):
            text = f"the model gives row {row} {alone} alone and {output[row]} among others"
            raise InvalidInput(f"{text}: it must look at one row at a time, and not be random.")
    return output


def warn_of_group_column(x: Any, groups: Any, ids: Array) -> None:
    """Warn if a column of X holds the groups, by its name or by its values."""
    columns = getattr(x, "column_names", getattr(x, "columns", ()))  # of pyarrow; of the others
    if isinstance(x, np.ndarray) and x.ndim == 2:
        columns, x = range(x.shape[1]), x.T
    names, index = index_groups(ids)
    many = len(names) >= 2 and len(index) >= 2 * len(names)  # with fewer rows, values show nothing
    for name in list(columns):
        is_named = name is not None and name == getattr(groups, "name", None)
        if is_named or (many and tells_apart(np.asarray(x[name]), index)):
            text = f"column {name!r} of X tells the groups apart, and a new group has another value"
            warn(f"{text} that the model has never seen: leave such a column out of X.")
            break


def tells_apart(column: Array, index: Counts) -> bool:
    """Return whether a column has one text or whole number for each group, and another for each."""
    if column.dtype.kind == "f":
        is_code = bool((column == np.floor(column)).all())
    elif column.dtype.kind == "O":
        is_code = all(isinstance(value, str | int) for value in column.tolist())
    else:
        is_code = column.dtype.kind in "Uiu"
    if column.ndim != 1 or not is_code:
        return False
    values = column[np.unique(index, return_index=True)[1]]  # of the first row of each group
    return np.array_equal(column, values[index]) and len({*values.tolist()}) == len(values)


def as_groups(groups: Any, allow: Iterable[str] = ()) -> Array:
    """Return the group of each row, checked."""
    if groups is None:
        rule = "groups must name the site or customer of each row. A search passes them on after"
        raise InvalidInput(f"{rule} sklearn.set_config(enable_metadata_routing=True).")
    with explained("groups are the tasks"):
        ids = inputs.as_task_ids(groups)
        names = inputs.as_task_names(list(dict.fromkeys(ids.tolist())))
        report([data_checks.judge_task_names(inputs.as_json_names(names), what="group")], allow)
    return ids


def index_groups(groups: Array) -> tuple[list[Any], Counts]:
    """Return the distinct groups, whatever the order of the rows, and the index of each row's."""
    names = sorted(set(groups.tolist()), key=str)
    return names, find_codes(groups, names)


def mean_by_group(groups: Array, values: Array) -> NDArray[np.float64]:
    """Return the mean of the values of each group, by name."""
    _, index = index_groups(groups)
    return np.asarray(np.bincount(index, weights=values) / np.bincount(index))


def draw_support(groups: Array, shots: int, rng: Seed) -> Iterator[tuple[Counts, Counts]]:
    """Yield for each group, by name, the rows to adapt to, drawn at random, and the other rows."""
    _, index = index_groups(groups)
    generator = np.random.default_rng(rng)
    ends = np.cumsum(np.bincount(index))[:-1]
    for rows in np.split(np.argsort(index, kind="stable"), ends):
        shuffled = generator.permutation(rows)
        yield shuffled[:shots], np.sort(shuffled[shots:])


def divide_groups(groups: Array, calibration: Any, rng: Seed) -> tuple[list[Any], list[Any]]:
    """Return the groups to train on and those to calibrate on, drawn by their names alone."""
    names, _ = index_groups(groups)
    count, chosen = calibration, set()
    if isinstance(count, float | np.floating) and 0 < count < 1:
        count = min(max(round(float(count) * len(names)), 1), len(names) - 1)
    if isinstance(count, int | np.integer) and not isinstance(count, bool):
        names = [names[i] for i in np.random.default_rng(rng).permutation(len(names))]
        chosen = {*names[: max(count, 0)]}
    else:
        with suppress(InvalidInput, TypeError):  # what is no list names no groups
            chosen = {*inputs.as_task_ids(calibration).tolist()}
    training = [name for name in names if name not in chosen]
    unknown = sorted(chosen - {*names}, key=str)
    if unknown or not training or not chosen:
        rule = f"calibration must be a fraction, a number or a list of the {len(names)} groups, and"
        got = quote(unknown) or brief(calibration)
        raise InvalidInput(f"{rule} leave one to train on, got {got}.")
    return training, [name for name in names if name in chosen]


def as_labels(y: Any) -> Array:
    """Return class labels as strings, integers or booleans; whole floats become integers."""
    values = np.asarray(on_host(y)) if hasattr(y, "__array__") else np.fromiter(y, dtype=object)
    if values.ndim == 1 and len(values) and all(isinstance(v, float) for v in values.tolist()):
        bad = [value for value in values.tolist() if not value.is_integer()]
        if bad:
            raise InvalidInput(f"{bad[0]:g} is missing or continuous, as for MetaPSRegressor.")
        values = values.astype(np.int64)
    names, codes = inputs.as_class_codes(values)
    return np.array(names)[codes]


def read_classes(model: Any) -> Array:
    """Return the classes that a model was fitted on, in its order."""
    with explained("estimator must have usable classes_ once it is fitted"):
        return as_labels(model.classes_)


def find_classes(model: Any, labels: Array) -> Array:
    """Return the classes of a fitted classifier and of the labels; warn of those it lacks."""
    known = read_classes(check_estimator(model, "predict_proba", "decision_function"))
    if (known.dtype.kind == "U") != (labels.dtype.kind == "U"):
        got = quote(np.unique(labels).tolist())
        raise InvalidInput(f"y must hold the classes {quote(known.tolist())}, got {got}.")
    if len(unseen := np.setdiff1d(labels, known)):
        text = f"The estimator was not fitted on {quote(unseen.tolist())}: sets miss such labels"
        warn(f"{text} unless they keep every label. Train on groups that have them.")
    return np.union1d(known, labels)


def find_codes(values: Array, known: Iterable[Any]) -> Counts:
    """Return the position of each value among the known ones; -1 if it is none of them."""
    place = {name: i for i, name in enumerate(known)}
    return np.array([place.get(value, -1) for value in values.tolist()], dtype=np.int64)


def check_known(labels: Array, classes: Array, name: str = "y") -> Counts:
    """Return the codes of labels, all of which must be among the classes in ``fit``."""
    codes = find_codes(labels, classes.tolist())
    if len(unknown := labels[codes < 0]):
        got = f"{quote(np.unique(unknown).tolist())} in {len(unknown)} of {len(labels)} rows"
        raise InvalidInput(f"{name} must hold classes that fit has seen, got {got}.")
    return codes


def score_classes(model: Any, x: Any, classes: Array) -> Floats:
    """Return the probability or decision function of each class; lowest for a class not fitted."""
    columns = find_codes(read_classes(model), classes.tolist())
    has_proba = hasattr(model, "predict_proba")
    method, lowest = ("predict_proba", 0.0) if has_proba else ("decision_function", -np.inf)
    found = read_scores(model, method, x, len(columns))
    scores = np.full((len(found), len(classes)), lowest, dtype=found.dtype)
    scores[:, columns] = found
    return scores


def read_scores(model: Any, method: str, x: Any, columns: int) -> Floats:
    """Return what a method gives for all rows, once there is a number for each row and class."""
    name = f"{type(model).__name__}.{method}"
    values = inputs.as_score_array(name, getattr(model, method)(x))
    if method == "decision_function" and values.ndim == 1 and columns == 2:
        values = np.stack([-values, values], axis=1)
    shape = validation._num_samples(x), columns
    if values.shape != shape:
        raise InvalidInput(f"{name} must return rows and classes, {shape}, got {values.shape}.")
    inputs.check_no_nan(name, values, lambda i: f"in row {i // columns}", "Mend the model.")
    return values


def predict_numbers(models: tuple[Any, ...], x: Any, with_std: bool) -> Floats:
    """Return two columns: predictions and scales, 1 unless they are predicted; or two quantiles."""
    name, rows = f"{type(models[0]).__name__}.predict", validation._num_samples(x)
    both = models[0].predict(x, return_std=True) if with_std else [m.predict(x) for m in models]
    both = both if len(both) > 1 else [*both, np.ones(rows)]
    columns = [inputs.as_score_array(name, values) for values in both]
    for column in columns:
        if column.shape not in ((rows,), (rows, 1)):
            raise InvalidInput(f"{name} must return {rows} numbers, got shape {column.shape}.")
    return np.stack([column.reshape(rows).astype(np.float64) for column in columns], axis=1)
