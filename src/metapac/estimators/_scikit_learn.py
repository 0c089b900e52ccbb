"""The interface of scikit-learn, imported only if it calls or if the estimator comes from it."""

from __future__ import annotations

import copy
import inspect
import sys
from typing import Any, Self

from metapac._checks import brief
from metapac.exceptions import InvalidInput, Parameter


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
            "{} must be a classifier, got the regressor {}. For numbers use MetaPSRegressor.",
            Parameter("estimator"),
            brief(estimator),
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
            "{} must be fitted, since {}, got {}. Fit it on other groups first, or leave {} out.",
            Parameter("estimator"),
            Parameter("prefit", True),
            brief(estimator),
            Parameter("prefit"),
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
            "{} must be an instance, got the class {}. Pass {}().",
            Parameter("estimator"),
            estimator.__name__,
            estimator.__name__,
        )
    if not any(hasattr(estimator, method) for method in methods):
        raise InvalidInput(
            "{} must have {}, got {}.",
            Parameter("estimator"),
            " or ".join(methods),
            brief(estimator),
        )


def _is_nested(name: str) -> bool:
    return name.startswith("estimator__")


def _is_default(value: Any, default: Any) -> bool:
    try:
        return bool(value == default)
    except (TypeError, ValueError):  # arrays
        return False
