"""Classifiers and regressors with a guarantee for new groups, with the scikit-learn interface."""

from __future__ import annotations

import copy
import inspect
import numbers
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from metapac import evaluation, planning
from metapac._common import (
    Array,
    Counts,
    Floats,
    PathLike,
    Seed,
    as_whole_number,
    brief,
    check_bool,
    check_same_index,
    check_same_length,
    listed,
    on_host,
    reject_foreign_keywords,
    warn,
)
from metapac.adaptation import SklearnLearner, adapt_learner
from metapac.binomial import min_integer
from metapac.context import Context, as_context
from metapac.data_checks import check_levels, judge_rare_classes, judge_task_names
from metapac.errors import InfeasibleGuarantee, InvalidInput, NotCalibrated, keyword
from metapac.evaluation import Evaluation
from metapac.evidence import collect_evidence, with_classes
from metapac.findings import MIN_ROWS, check_allowed, report
from metapac.guarantee import Epsilon, Split
from metapac.inputs import (
    as_class_codes,
    as_json_names,
    as_score_array,
    as_task_ids,
    as_task_names,
    check_finite,
    check_no_nan,
    find_names,
    unhashable_task,
)
from metapac.predictors import MetaPS
from metapac.sample_size import Demand
from metapac.sets import residual_scores

__all__ = ["MetaPSClassifier", "MetaPSRegressor"]


def clone_estimator(estimator: Any) -> Any:
    """Return an unfitted copy; without scikit-learn, a deep copy, to be fitted anew."""
    base = sys.modules.get("sklearn.base")
    if base is None or not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    return base.clone(estimator)


def check_not_regressor(estimator: Any) -> None:
    """Raise InvalidInput if scikit-learn can tell that an estimator is a regressor."""
    base = sys.modules.get("sklearn.base")
    if base is not None and hasattr(estimator, "get_params") and base.is_regressor(estimator):
        raise InvalidInput(
            f"estimator must be a classifier, got the regressor {brief(estimator)}. For numbers "
            "use MetaPSRegressor.",
            parameter="estimator",
        )


def check_prefit(estimator: Any) -> None:
    """Raise InvalidInput if scikit-learn can tell that an estimator is not fitted."""
    check_estimator(estimator, "predict", "predict_proba", "decision_function")
    validation = sys.modules.get("sklearn.utils.validation")
    if validation is None or not hasattr(estimator, "fit"):
        return
    try:
        validation.check_is_fitted(estimator)
    except sys.modules["sklearn.exceptions"].NotFittedError as error:
        raise InvalidInput(
            f"estimator must be fitted, since prefit=True, got {brief(estimator)}. Fit it on other "
            "groups first, or leave prefit out.",
            parameter=("estimator", "prefit"),
        ) from error


def consumes_groups(estimator: Any) -> bool:
    """Return whether ``fit`` wants groups, as a search with ``cv=GroupKFold()`` does."""
    if not hasattr(estimator, "get_metadata_routing"):
        return False
    return "groups" in estimator.get_metadata_routing().consumes("fit", ["groups"])


class ScikitLearnEstimator:
    """Parameters, metadata requests and tags of an estimator that wraps another one."""

    estimator: Any
    _estimator_type: str  # of scikit-learn before 1.6, which has no tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor.

        Parameters
        ----------
        deep : bool, default True
            Whether to add the parameters of the estimator, such as ``estimator__C``.

        Returns
        -------
        dict
            Value of each parameter by name.
        """
        params = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        if deep and hasattr(self.estimator, "get_params") and not isinstance(self.estimator, type):
            inner = self.estimator.get_params(deep=True)
            params |= {f"estimator__{name}": value for name, value in inner.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; fit again after a change.

        Parameters
        ----------
        **params : object
            New values. ``estimator__C`` sets the parameter C of the estimator.

        Returns
        -------
        MetaPSClassifier or MetaPSRegressor
            The object itself.
        """
        names = list(inspect.signature(type(self)).parameters)
        own = {name: value for name, value in params.items() if not _is_nested(name)}
        for name, value in own.items():
            if name not in names:
                raise InvalidInput(
                    f"{name!r} is not a parameter of {type(self).__name__}; it has "
                    f"{', '.join(names)}. Those of the estimator start with 'estimator__'."
                )
            setattr(self, name, value)
        nested = {name.partition("__")[2]: params[name] for name in params if _is_nested(name)}
        if nested:
            self.estimator.set_params(**nested)
        return self

    def set_fit_request(self, *, groups: bool | str | None = True) -> Self:
        """Set whether scikit-learn's metadata routing passes ``groups`` to ``fit``.

        Parameters
        ----------
        groups : bool, str or None, default True
            True (the initial setting) requests them; a string requests the metadata of that name;
            False ignores them; None makes it an error to pass them.

        Returns
        -------
        MetaPSClassifier or MetaPSRegressor
            The object itself.
        """
        return self._set_request("fit", groups)

    def set_score_request(self, *, groups: bool | str | None = True) -> Self:
        """Set whether scikit-learn's metadata routing passes ``groups`` to ``score``.

        Parameters
        ----------
        groups : bool, str or None, default True
            As in ``set_fit_request``.

        Returns
        -------
        MetaPSClassifier or MetaPSRegressor
            The object itself.
        """
        return self._set_request("score", groups)

    def get_metadata_routing(self) -> Any:
        """Return what scikit-learn's metadata routing passes where.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
            ``fit`` and ``score`` take groups; what else ``fit`` takes, the estimator requests.
        """
        from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping

        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self._get_requests())
        return router.add(estimator=self.estimator, method_mapping=to_fit)

    def _get_requests(self) -> Any:
        if hasattr(self, "_metadata_request"):  # scikit-learn copies it to clones
            return self._metadata_request
        from sklearn.utils.metadata_routing import MetadataRequest

        requests = MetadataRequest(owner=self)
        for method in ("fit", "score"):
            getattr(requests, method).add_request(param="groups", alias=True)
        return requests

    def _set_request(self, method: str, alias: bool | str | None) -> Self:
        requests = self._get_requests()
        getattr(requests, method).add_request(param="groups", alias=alias)
        self._metadata_request = requests
        return self

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the estimator, with one target and the type of this class."""
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags, get_tags

        known = hasattr(self.estimator, "__sklearn_tags__")
        tags = copy.deepcopy(get_tags(self.estimator)) if known else Tags(None, TargetTags(False))
        tags.estimator_type = self._estimator_type
        tags.target_tags = TargetTags(required=True)
        tags.transformer_tags, tags.array_api_support = None, False
        tags.requires_fit, tags.no_validation = True, False
        is_classifier = self._estimator_type == "classifier"
        tags.classifier_tags = (tags.classifier_tags or ClassifierTags()) if is_classifier else None
        tags.regressor_tags = None if is_classifier else tags.regressor_tags or RegressorTags()
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        return tags

    def __repr__(self) -> str:
        signature = inspect.signature(type(self)).parameters
        shown = [
            repr(value) if name == "estimator" else f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if not _is_default(value, signature[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def check_estimator(estimator: Any, *methods: str) -> None:
    """Raise InvalidInput unless ``estimator`` is an instance with one of the methods, or more."""
    if isinstance(estimator, type):
        raise InvalidInput(
            f"estimator must be an instance, got the class {estimator.__name__}. Pass "
            f"{estimator.__name__}().",
            parameter="estimator",
        )
    if not any(hasattr(estimator, method) for method in methods):
        raise InvalidInput(
            f"estimator must have {' or '.join(methods)}, got {brief(estimator)}.",
            parameter="estimator",
        )


def _is_nested(name: str) -> bool:
    return name.startswith("estimator__")


def _is_default(value: Any, default: Any) -> bool:
    try:
        return bool(value == default)
    except (TypeError, ValueError):  # arrays
        return False


Respond = Callable[[Any], Floats]  # from rows to the scores of all labels, or to predictions


class Examples(NamedTuple):
    """Labelled examples: features, target and group of each row."""

    x: Any
    y: Array
    groups: Array

    def take(self, rows: Counts) -> Self:
        """Return some of the rows."""
        return type(self)(take_rows(self.x, rows), self.y[rows], self.groups[rows])


def count_rows(name: str, x: Any) -> int:
    """Return the number of rows."""
    if hasattr(x, "__array__") and not hasattr(x, "shape"):
        x = np.asarray(x)
    if hasattr(x, "shape") and x.shape:
        return int(x.shape[0])
    if hasattr(x, "shape") or not hasattr(x, "__len__") or isinstance(x, str | bytes | dict):
        raise InvalidInput(
            f"{name} must have an entry for each example, got {brief(x)}.", parameter=name
        )
    return len(x)


def take_rows(x: Any, rows: Counts) -> Any:
    """Return some rows by position, in the type of ``x``."""
    if hasattr(x, "iloc"):  # pandas
        return x.iloc[rows]
    if hasattr(x, "tocsr"):  # SciPy; some sparse formats have no rows to take
        return x.tocsr()[rows]
    if hasattr(x, "take") and hasattr(x, "schema"):  # pyarrow
        return x.take(rows)
    if hasattr(x, "shape") and hasattr(x, "__getitem__"):  # NumPy, polars, torch
        return x[rows]
    if hasattr(x, "__array__"):
        return np.asarray(x)[rows]
    return [x[i] for i in rows.tolist()]


def score_rows(respond: Respond, x: Any) -> Floats:
    """Return the output of a model for all rows; check two rows scored alone."""
    output = respond(x)
    for row in {0, len(output) - 1}:
        alone = respond(take_rows(x, np.array([row])))[0]
        if not np.allclose(alone, output[row], rtol=1e-3, atol=1e-6):
            raise InvalidInput(
                f"the model gives row {row} the output {alone} alone and "
                f"{output[row]} among others. The rows of a group are then not independent, and no "
                "guarantee holds. Use a model that looks at one row at a time and is not random."
            )
    return output


def check_rows(x: Any, **columns: Any) -> None:
    """Raise unless every column, whose index is compared too, has an entry for each row of X."""
    rows = np.empty(count_rows("X", x))
    for name, column in columns.items():
        check_same_index("X", x, name, column)
        check_same_length("X", rows, name, np.empty(count_rows(name, column)))


def take_fit_params(params: dict[str, Any], length: int, rows: Counts) -> dict[str, Any]:
    """Return parameters of ``fit``; those with an entry for each example are cut to ``rows``."""
    return {
        name: take_rows(value, rows) if _has_length(value, length) else value
        for name, value in params.items()
    }


def _has_length(value: Any, length: int) -> bool:
    try:
        return count_rows("value", value) == length
    except InvalidInput:
        return False


def warn_if_perfect(scores: Floats, best: float) -> None:
    """Warn if every true label or value has the best possible score."""
    if len(scores) >= MIN_ROWS and (scores == best).all():
        warn(
            "every calibration row has the best possible score: the model has probably been "
            "trained on these rows, or X holds y. Calibrate on other groups, and name those that "
            "it was trained on: Context(trained_on=[...])."
        )


def warn_of_group_column(x: Any, groups: Any, ids: Array) -> None:
    """Warn if a column of X holds the groups, by its name or by its values."""
    name = getattr(groups, "name", None)
    if name is not None and name in list(getattr(x, "columns", ())):
        what = f"X holds the groups as its column {str(name)!r}"
    else:
        found = _find_column_like(x, ids)
        if found is None:
            return
        what = f"column {found!r} of X is the same within each group and differs between groups"
    warn(
        f"{what}. The model has never seen the name or number of a new group: leave such a column "
        "out of X."
    )


def _find_column_like(x: Any, ids: Array) -> Any:
    """Return the first column with one text or whole number for each group, and another for each.

    With less than two rows a group on average, that shows nothing.
    """
    first: dict[Any, int] = {}
    rows = np.array([first.setdefault(name, i) for i, name in enumerate(ids.tolist())])
    if len(first) < 2 or len(rows) < 2 * len(first):
        return None
    for name, column in _columns(x):
        is_constant = _has_codes(column) and np.array_equal(column, column[rows])
        if is_constant and len({*column[[*first.values()]].tolist()}) == len(first):
            return name
    return None


def _columns(x: Any) -> Iterator[tuple[Any, Array]]:
    """Yield the columns of a data frame or a matrix, each with its name or number."""
    names = getattr(x, "column_names", getattr(x, "columns", None))  # of pyarrow; of the others
    if names is not None:
        yield from ((name, np.asarray(x[name])) for name in list(names))
    elif isinstance(x, np.ndarray) and x.ndim == 2:
        yield from enumerate(x.T)


def _has_codes(column: Array) -> bool:
    """Return whether a column holds texts or whole numbers, which may be names of groups."""
    if column.ndim != 1 or column.dtype.kind not in "OUiuf":
        return False
    if column.dtype.kind == "f":
        return bool(np.all(column == np.floor(column)))
    return column.dtype.kind != "O" or all(isinstance(v, str | int) for v in column.tolist())


def as_support(support: Any, shots: int) -> tuple[Any, Any]:
    """Return features and targets of a new group's support, checked against ``shots``."""
    if not shots:
        if support is None:
            return None, None
        raise InvalidInput(
            "support adapts the model to a group, but it was fitted with shots=0. Leave it out.",
            parameter="support",
        )
    if not isinstance(support, tuple | list) or len(support) != 2:
        raise InvalidInput(
            f"support must be (X, y): the {shots} labelled examples of the new group that the "
            f"model is adapted to, got {brief(support)}.",
            parameter="support",
        )
    x, y = support
    check_rows(x, y=y)
    if count_rows("support", x) != shots:
        raise InvalidInput(
            f"support must hold {shots} examples, as many as each group was adapted to in "
            f"calibration, got {count_rows('support', x)}.",
            parameter="support",
        )
    return x, y


def as_labels(y: Any) -> Array:
    """Return class labels as strings, integers or booleans; whole floats become integers."""
    values = np.asarray(on_host(y)) if hasattr(y, "__array__") else np.fromiter(y, dtype=object)
    if values.ndim == 1 and len(values) and all(isinstance(v, float) for v in values.tolist()):
        values = _as_integers(values.astype(np.float64))
    try:
        names, codes = as_class_codes(values)
    except InvalidInput as error:
        raise InvalidInput(f"y holds the labels: {error}", parameter="y") from error
    return np.array(names)[codes]


def find_classes(model: Any, labels: Array) -> Array:
    """Return the classes of a fitted classifier and of the labels; warn of those it lacks."""
    check_estimator(model, "predict_proba", "decision_function")
    known = _known_classes(model)
    if (known.dtype.kind == "U") != (labels.dtype.kind == "U"):
        raise InvalidInput(
            f"y must hold the estimator's classes {listed([*map(repr, known.tolist())])}, got "
            f"{listed([*map(repr, np.unique(labels).tolist())])}.",
            parameter="y",
        )
    classes = np.union1d(known, labels)
    unseen = [repr(name) for name in classes.tolist() if name not in known.tolist()]
    if unseen:
        kind, them = ("class", "it") if len(unseen) == 1 else ("classes", "them")
        warn(
            f"The estimator was not fitted on the {kind} {listed(unseen)}: sets miss {them} unless "
            f"they keep every label. Train on groups that have {them}."
        )
    return classes


def score_classes(model: Any, x: Any, classes: Array) -> Floats:
    """Return the score of each class for each row: its probability, or the decision function.

    A class that the model was not fitted on gets the lowest score: 0, or ``-inf``.
    """
    columns = find_codes(_known_classes(model), classes)
    if hasattr(model, "predict_proba"):
        known = _read_probabilities(model, x, len(columns))
        scores = np.zeros((len(known), len(classes)), dtype=known.dtype)
    else:
        known = _read_decisions(model, x, len(columns))
        scores = np.full((len(known), len(classes)), -np.inf, dtype=known.dtype)
    scores[:, columns] = known
    return scores


def adapt(learner: Any, x: Any, labels: Array, classes: Array) -> Callable[[Any], Floats]:
    """Return a function from rows to probabilities, adapted to the support of one group."""
    codes = find_codes(labels, classes)
    if (codes < 0).any():
        raise InvalidInput(
            "the labels of support must be among the classes "
            f"{listed([*map(repr, classes.tolist())])}, got {labels[codes < 0].tolist()[0]!r}.",
            parameter="support",
        )
    scorer = adapt_learner(learner, x, codes, classes=len(classes))
    return lambda queries: _read_probabilities(scorer, queries, len(classes))


def find_codes(labels: Array, classes: Array) -> Counts:
    """Return the position of each label in the sorted ``classes``; -1 if it is none of them."""
    place = {name: i for i, name in enumerate(classes.tolist())}
    return np.array([place.get(label, -1) for label in labels.tolist()], dtype=np.int64)


def check_known(labels: Array, classes: Array) -> None:
    """Raise InvalidInput for labels that were not among the classes in ``fit``."""
    unknown = labels[find_codes(labels, classes) < 0]
    if len(unknown):
        raise InvalidInput(
            f"y holds {len(unknown)} of {len(labels)} rows with classes that fit has not seen "
            f"({listed([*map(repr, np.unique(unknown).tolist())])}; it knows "
            f"{listed([*map(repr, classes.tolist())])}). Every set misses them: leave them out, or "
            "fit again with rows of all classes.",
            parameter="y",
        )


def _known_classes(model: Any) -> Array:
    if not hasattr(model, "classes_"):
        raise InvalidInput(
            "estimator must have classes_ once it is fitted: the class of each column of its "
            "scores.",
            parameter="estimator",
        )
    try:
        return as_labels(model.classes_)
    except InvalidInput as error:
        raise InvalidInput(
            f"classes_ of estimator are not usable: {error}", parameter="estimator"
        ) from error


def _as_integers(values: Array) -> Array:
    """Return whole floats, which scikit-learn accepts as classes, as integers."""
    if np.isnan(values).any():
        raise InvalidInput("y holds NaN. Drop the rows without a label.", parameter="y")
    is_whole = np.isfinite(values) & (values == np.floor(values))
    if not is_whole.all():
        raise InvalidInput(
            f"y must hold classes, got continuous numbers such as {values[~is_whole][0]:g}. For "
            "numbers use MetaPSRegressor.",
            parameter="y",
        )
    return values.astype(np.int64)


def _read_probabilities(model: Any, x: Any, columns: int) -> Floats:
    name = f"{type(model).__name__}.predict_proba"
    return _as_matrix(name, as_score_array(name, model.predict_proba(x)), x, columns)


def _read_decisions(model: Any, x: Any, columns: int) -> Floats:
    """Return the decision function, which has a single column for two classes, with both."""
    name = f"{type(model).__name__}.decision_function"
    values = as_score_array(name, model.decision_function(x))
    if values.ndim == 1 and columns == 2:
        values = np.stack([-values, values], axis=1)
    return _as_matrix(name, values, x, columns)


def _as_matrix(name: str, values: Floats, x: Any, columns: int) -> Floats:
    """Return scores, once there is one for each row and class, and none is NaN."""
    expected = count_rows("X", x), columns
    if values.shape != expected:
        raise InvalidInput(
            f"{name} must return a row for each example and a column for each class, {expected}, "
            f"got shape {values.shape}."
        )
    check_no_nan(
        name, values, lambda i: f"in row {i // columns}", "Mend the model, or drop such rows."
    )
    return values


class Division(NamedTuple):
    """Names of the groups to train on, and of those to calibrate on, in the order of the draw."""

    training: list[Any]
    calibration: list[Any]
    is_drawn: bool = True  # False if the groups were listed


def as_groups(groups: Any, allow: Iterable[str] = ()) -> Array:
    """Return the group of each row, checked."""
    if groups is None:
        raise InvalidInput(
            "groups must name the site, hospital or customer of each row: the guarantee is about "
            "new ones. Pass groups=frame['site']; inside a scikit-learn pipeline or search, call "
            "sklearn.set_config(enable_metadata_routing=True) first.",
            parameter="groups",
        )
    if isinstance(groups, str):
        raise InvalidInput(
            "groups must be the column with the group of each row, not its name: pass "
            f"groups=frame[{groups!r}].",
            parameter="groups",
        )
    try:
        ids = as_task_ids(groups)
        names = _distinct_names(ids)
        report([judge_task_names(names, what="group")], allow)
    except InvalidInput as error:
        raise InvalidInput(f"groups are the tasks: {error}", parameter="groups") from error
    return ids


def _distinct_names(ids: Array) -> list[Any]:
    """Return the distinct groups, which must be strings or integers of one type."""
    try:
        names = as_task_names(list(dict.fromkeys(ids.tolist())))
    except TypeError as error:
        raise unhashable_task(error) from error
    return as_json_names(names)


def divide_groups(groups: Array, calibration: Any, rng: Seed) -> Division:
    """Divide whole groups into training and calibration, by their names alone."""
    names = list_groups(groups)
    if calibration is None or isinstance(calibration, str | numbers.Number):
        count = _count_calibration(calibration, len(names))
        drawn = [names[i] for i in np.random.default_rng(rng).permutation(len(names))]
        return Division(drawn[count:], drawn[:count])
    chosen = _named_groups(calibration, names)
    training = [name for name in names if name not in chosen]
    if not training:
        raise InvalidInput(
            "calibration lists every group, and none is left to train on. Leave one out, or train "
            "the model elsewhere and pass prefit=True.",
            parameter="calibration",
        )
    return Division(training, [name for name in names if name in chosen], is_drawn=False)


def list_groups(groups: Array) -> list[Any]:
    """Return the distinct groups in an order that does not depend on that of the rows."""
    return sorted(dict.fromkeys(groups.tolist()), key=str)


def _count_calibration(calibration: Any, total: int) -> int:
    """Return how many groups to calibrate on: at least one, and one is left to train on."""
    if total < 2:
        raise InvalidInput(
            "groups must hold at least two groups, one to train on and one to calibrate on, got "
            f"{total}. With a single source of data, use metapac.PS.",
            parameter="groups",
        )
    if isinstance(calibration, int | np.integer) and not isinstance(calibration, bool):
        if 1 <= calibration < total:
            return int(calibration)
    elif isinstance(calibration, float | np.floating) and 0 < calibration < 1:
        return min(max(round(float(calibration) * total), 1), total - 1)
    raise InvalidInput(
        f"calibration must be a fraction of the groups, a number of groups from 1 to {total - 1}, "
        f"or a list of groups, got {brief(calibration)}.",
        parameter="calibration",
    )


def _named_groups(calibration: Any, names: list[Any]) -> set[Any]:
    """Return the groups in a list of names."""
    try:
        wanted = {*as_task_ids(calibration).tolist()}
    except (InvalidInput, TypeError) as error:
        raise InvalidInput(
            f"calibration must list groups, got {brief(calibration)}.", parameter="calibration"
        ) from error
    unknown = sorted(map(repr, wanted - {*names}))
    if unknown or not wanted:
        raise InvalidInput(
            f"calibration must list some of the groups {listed([*map(repr, names)])}, got "
            f"{listed(unknown) or 'none'}.",
            parameter="calibration",
        )
    return wanted


def rows_of(groups: Array, names: Iterable[Any]) -> Counts:
    """Return the positions of the rows of some groups, in their order."""
    chosen = {*names}
    return np.flatnonzero([name in chosen for name in groups.tolist()])


def mean_by_group(groups: Array, values: Array) -> dict[Any, float]:
    """Return the mean of the values of each group."""
    names = list_groups(groups)
    place = {name: i for i, name in enumerate(names)}
    index = np.array([place[name] for name in groups.tolist()], dtype=np.int64)
    means = np.bincount(index, weights=values) / np.bincount(index)
    return dict(zip(names, means.tolist(), strict=True))


def draw_support(groups: Array, shots: int, rng: Seed) -> Iterator[tuple[Counts, Counts]]:
    """Yield for each group the rows to adapt to, drawn at random, and the other rows.

    Groups come in the order of their names, so the draw does not depend on the order of the rows
    of other groups.
    """
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(groups.tolist()):
        rows.setdefault(name, []).append(row)
    small = [name for name in rows if len(rows[name]) <= shots]
    if small:
        raise InvalidInput(
            f"{keyword('shots', shots)} takes {shots} rows of each group to adapt the model and "
            f"needs one more to score, but {listed([*map(repr, small)])} "
            f"{'has' if len(small) == 1 else 'have'} fewer. Leave "
            f"{'it' if len(small) == 1 else 'them'} out: the guarantee is then about groups with "
            "more rows."
        )
    generator = np.random.default_rng(rng)
    for name in list_groups(groups):
        shuffled = generator.permutation(rows[name])
        yield shuffled[:shots], np.sort(shuffled[shots:])


class Counted(NamedTuple):
    """The groups and classes of the rows, which decide whether a guarantee is feasible."""

    groups: Array
    labels: Array | None  # None unless each class has its guarantee
    classes: tuple[Any, ...] | None
    shots: int
    is_interval: bool = False

    def demands(self, method: MetaPS, names: Iterable[Any]) -> list[Demand]:
        """Return what a guarantee requires of some groups, for each class or for all together."""
        guarantee = method._make_guarantee()
        rows = rows_of(self.groups, names)
        if self.shots:
            drawn = draw_support(self.groups[rows], self.shots, 0)
            rows = rows[np.concatenate([query for _, query in drawn])]
        labels = None if self.labels is None else self.labels[rows]
        evidence = collect_evidence(guarantee, np.zeros(len(rows)), self.groups[rows], labels)
        if self.classes is not None:
            evidence = with_classes(evidence, self.classes)
        return [part.demand() for part in evidence.parts(guarantee)]


def check_feasible(method: MetaPS, division: Division, counted: Counted) -> None:
    """Raise InfeasibleGuarantee before anything is trained; numbers of rows alone decide.

    With shots, as many rows of each group remain whichever are drawn, but not of each class.
    """
    if method.on_infeasible != "raise" or (counted.shots and counted.classes is not None):
        return
    demands = counted.demands(method, division.calibration)
    if all(one.is_feasible() for one in demands):
        return
    message = planning.explain_too_few_tasks(demands, is_interval=counted.is_interval)
    if division.training:
        message = f"{message} {_advise(method, division, counted)}"
    raise InfeasibleGuarantee(message)


def _advise(method: MetaPS, division: Division, counted: Counted) -> str:
    """Return how many groups calibrate, and how many would be enough, if they are there."""
    used, spare = len(division.calibration), len(division.training) - 1  # one is left to train on
    drawn = division.calibration + division.training
    text = f"Groups are the tasks here: {used} of {used + spare + 1} calibrate"

    def works(more: int, least: int) -> bool:
        demands = counted.demands(method, drawn[: used + more])
        return all(one.with_parameters(min_examples=least).is_feasible() for one in demands)

    now = least = method.min_examples
    if division.is_drawn and spare and not works(spare, now):
        found = planning.find_min_examples(counted.demands(method, drawn[: used + spare]))
        least = max(now, found or 0)
    # With no more groups, another size is an option that is named already.
    if not division.is_drawn or not spare or works(0, least) or not works(spare, least):
        return f"{text}, and the others train."
    enough = used + min_integer(lambda more: works(more, least), 0, spare)
    text = f"{text}, and {keyword('calibration', enough)}"
    if least == now:
        return f"{text} would do."
    rows = f"{least} rows{'' if counted.classes is None else ' of the class'}"
    larger = keyword("min_examples", least)
    return f"{text} with {larger} would do: for groups with at least {rows}."


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
        check_bool("prefit", self.prefit)
        as_whole_number("shots", self.shots, minimum=0)
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
                f"{keyword('shots', self.shots)} adapts the estimator to each group, so it cannot "
                "be fitted beforehand. Leave prefit=True or shots out.",
                parameter="shots",
            )
        if not self.prefit and not self.shots:
            return divide_groups(data.groups, self.calibration, self.rng)
        if fit_params:
            raise InvalidInput(
                "nothing is fitted with "
                f"{keyword('prefit', True) if self.prefit else keyword('shots', self.shots)}, "
                f"so {listed(sorted(fit_params))} cannot be passed on. Leave it out."
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
        return evaluation.evaluate(self.meta_ps_, output, data.groups, data.y, **options)

    def _find_covered(self, output: Floats, data: Examples) -> Array:
        sets = self.meta_ps_.predict_set(output)
        codes = find_codes(data.y, self.classes_)
        if (codes < 0).all():  # such as 0 and 1 for "no" and "yes"
            check_known(data.y, self.classes_)
        return np.asarray((codes >= 0) & sets[np.arange(len(sets)), codes])


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
    >>> from metapac.sklearn import MetaPSRegressor
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
                f"y must hold real numbers, got {repr(texts[0]) if texts else values.dtype}. For "
                "classes use MetaPSClassifier.",
                parameter="y",
            )
        values = as_score_array("y", values)
        check_finite("y", values)
        if values.ndim != 1:
            raise InvalidInput(
                f"y must be one-dimensional, got shape {values.shape}. Pass a single column, such "
                "as frame['y'], and fit a model for each.",
                parameter="y",
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
        measured = evaluation.evaluate(self.meta_ps_, scores, data.groups, **options)
        low, high = self.meta_ps_.predict_interval(*output.T).T
        widths = mean_by_group(data.groups, high - low)
        return replace(measured, widths=np.array([widths[t] for t in measured.tasks.tolist()]))

    def _find_covered(self, output: Floats, data: Examples) -> Array:
        low, high = self.meta_ps_.predict_interval(*output.T).T
        return np.asarray((low <= data.y) & (data.y <= high))


def _predict_with_std(model: Any, x: Any) -> list[Any]:
    """Return predictions and their standard deviations."""
    try:
        prediction, scale = model.predict(x, return_std=True)
    except TypeError as error:
        raise InvalidInput(
            f"estimator must predict standard deviations with return_std=True, but {error}. Leave "
            "it out.",
            parameter="estimator",
        ) from error
    return [prediction, scale]


def _as_column(model: Any, values: Any, x: Any) -> Floats:
    """Return predictions as one finite number for each row, in float64."""
    name = f"{type(model).__name__}.predict"
    column = as_score_array(name, values)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.shape != (count_rows("X", x),):
        raise InvalidInput(
            f"{name} must return one number for each of the {count_rows('X', x)} rows, got shape "
            f"{column.shape}."
        )
    return column.astype(np.float64)
