"""The base classes of all calibrated predictors: parameters, prediction sets, promise files."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks, _document, _scores, sets
from metapac._types import Floats, PathLike
from metapac.class_matrix import check_column_order
from metapac.context import Context
from metapac.exceptions import InvalidInput, NotCalibrated
from metapac.explanation.cards import render_card, render_text
from metapac.explanation.words import round_down
from metapac.meaning.checks import warn_of_scale
from metapac.meaning.sets import SetCounts, warn_of_sets

if TYPE_CHECKING:
    from metapac.scoring.functions import ScoreFunction

FORMAT = _document.Format(
    "metapac promise",
    written_by=".save() or by 'metapac calibrate -o'",
    remedy="Calibrate again, or restore it from a backup.",
    shape="promise",
)


class Calibrated(ABC):
    """A predictor whose calibrated result comes with a guarantee. Subclasses calibrate it.

    Attributes
    ----------
    precision_ : numpy.dtype
        Precision of the calibration scores.
    context_ : Context
        What the guarantee is about.
    """

    context_: Context
    precision_: np.dtype[np.floating[Any]]
    _kind: ClassVar[str]  # its name in promise files; a subclass is saved as its parent
    _calibrated_with: dict[str, Any] | None = None  # None until it is calibrated

    @property
    @abstractmethod
    def promise_(self) -> str:
        """The guarantee in one sentence, with its numbers and its assumptions."""

    @abstractmethod
    def explain(self) -> str:
        """Return the guarantee in plain words, and what it does not say.

        Returns
        -------
        str
            Paragraphs separated by empty lines; items of a list start with "- ".
        """

    @abstractmethod
    def _result(self) -> tuple[str, Any]:
        """Return what was calibrated: its name in promise files, and its value."""

    @abstractmethod
    def _body(self) -> dict[str, Any]:
        """Return the rest of a promise file, such as the evidence."""

    @abstractmethod
    def _restore(self, body: dict[str, Any]) -> None:
        """Set all results from the content of a promise file."""

    def save(self, path: PathLike) -> None:
        """Write a promise file: the result, its guarantee and its evidence as versioned JSON.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        """
        self.check_calibrated()
        name, result = self._encoded_result()
        body = {
            "kind": self._kind,
            "parameters": _document.encode_parameters(self.get_params()),
            "promise": self.promise_,
            name: result,
            "precision": self.precision_.name,
            "context": self._about().to_json(),
            **self._body(),
        }
        _document.write(path, body, FORMAT)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters, as scikit-learn expects.

        Parameters
        ----------
        deep : bool, default True
            Ignored; no parameter is an estimator.

        Returns
        -------
        dict
            Value of each parameter by name.
        """
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters by name, as scikit-learn expects.

        Parameters
        ----------
        **params : object
            New values. Calibrate again after a change.

        Returns
        -------
        Calibrated
            The object itself.
        """
        names = self._parameter_names()
        for name, value in params.items():
            if name not in names:
                raise InvalidInput(
                    f"{name!r} is not a parameter of {type(self).__name__}; "
                    f"it has {', '.join(names)}."
                )
            setattr(self, name, value)
        return self

    def check_calibrated(self) -> None:
        """Raise NotCalibrated before calibration, or if the parameters have changed since."""
        name = type(self).__name__
        if self._calibrated_with is None:
            raise NotCalibrated(
                f"this {name} is not calibrated yet. Call .calibrate(...) first, or "
                "metapac.load(path)."
            )
        if self._calibrated_with != self._guarantee_params():
            raise NotCalibrated(
                f"this {name} was calibrated with {self._calibrated_with}, and its parameters were "
                f"changed to {self._guarantee_params()} since. Call .calibrate(...) again."
            )

    @classmethod
    @functools.cache
    def _parameter_names(cls) -> tuple[str, ...]:
        return tuple(inspect.signature(cls).parameters)

    def _mark_calibrated(self, precision: np.dtype[Any]) -> Self:
        self.precision_ = precision
        self._calibrated_with = self._guarantee_params()
        return self

    def _guarantee_params(self) -> dict[str, Any]:
        """Return the parameters that the guarantee depends on; mappings are copied."""
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in self.get_params().items()
            if name != "on_infeasible"
        }

    def _encoded_result(self) -> tuple[str, Any]:
        """Return the result with its name, as JSON can hold it."""
        name, value = self._result()
        return name, _document.encode_floats(np.asarray(value, dtype=float).tolist())

    def __repr__(self) -> str:
        if self._calibrated_with != self._guarantee_params():  # not, or not with these parameters
            return self._constructor(self.get_params())
        return f"<{self._constructor(self._changed_params())} {self._state()}>"

    def _constructor(self, params: Mapping[str, Any]) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in params.items())
        return f"{type(self).__name__}({listed})"

    def _changed_params(self) -> dict[str, Any]:
        """Return the parameters that differ from their defaults."""
        defaults = {p.name: p.default for p in inspect.signature(type(self)).parameters.values()}
        return {k: v for k, v in self.get_params().items() if v != defaults[k]}

    @abstractmethod
    def _state(self) -> str:
        """Return what was calibrated and on what, such as "calibrated on 60 tasks ..."."""

    def _about(self) -> Context:
        """Return what the guarantee is about."""
        return getattr(self, "context_", None) or Context()

    def _repr_html_(self) -> str:
        """Return a card for notebooks: the explanation, and the guarantee in one sentence."""
        if self._calibrated_with != self._guarantee_params():
            return render_text(repr(self))
        return render_card(repr(self), self.explain(), self.promise_)

    def __str__(self) -> str:
        return repr(self) if self._calibrated_with is None else self.promise_

    def _at_least(
        self,
        scores: ArrayLike,
        threshold: ArrayLike,
        score_range: tuple[float, float] | None = None,
    ) -> NDArray[np.bool_]:
        """Return which scores are at least ``threshold``, in the coarser of both precisions.

        A warning is given if their scale is not that of ``score_range``.
        """
        array = np.atleast_1d(_scores.as_score_array("scores", scores))
        _scores.check_no_nan(
            "scores",
            array,
            lambda i: f"in row {np.unravel_index(i, array.shape)[0]}",
            "Give a label without a score inf, so that it is kept.",
        )
        warn_of_scale(array, score_range)
        if _scores.is_bfloat16(scores):
            return np.asarray(array >= _scores.floor_to_bfloat16(threshold))
        coarser = min(array.dtype, self.precision_, key=lambda dtype: dtype.itemsize)
        with np.errstate(over="ignore"):  # overflow to inf is intended; it preserves order
            return np.asarray(
                array.astype(coarser, copy=False) >= np.asarray(threshold).astype(coarser)
            )


class ThresholdSets(Calibrated):
    """Prediction sets of all labels whose score is at least a calibrated threshold.

    Attributes
    ----------
    threshold_ : float
        The threshold. Not available with ``per_class``.
    thresholds_ : ndarray
        With ``per_class``, the threshold of each of ``classes_``.
    classes_ : tuple or None
        With ``per_class``, the classes in the order of the columns of ``predict_set``.
    columns_ : dict or None
        Columns of the table it was calibrated on, if it was a table.
    precision_ : numpy.dtype
        Precision of the calibration scores.
    """

    epsilon: Any
    classes_: tuple[Any, ...] | None = None
    columns_: dict[str, Any] | None = None
    threshold_: float
    thresholds_: NDArray[np.float64]
    _score_range: tuple[float, float] | None = None  # in calibration, of true labels; if known
    _sets: SetCounts | None = None  # of the calibration rows, if all labels had scores

    def __getattr__(self, name: str) -> Any:
        """Explain why a result is missing."""
        if name.endswith("_") and not name.startswith("_"):
            self.check_calibrated()
        if name == "threshold_":
            raise NotCalibrated(
                "threshold_ does not exist with per_class=True, which gives each class a "
                "threshold. Use .thresholds_, or .threshold_of(label)."
            )
        if name == "thresholds_":
            raise NotCalibrated(
                "thresholds_ exists only with per_class=True; here all labels share one "
                "threshold. Use .threshold_, or .threshold_of(label)."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _set_threshold(self, threshold: float | NDArray[np.float64]) -> None:
        """Set the threshold, or with ``per_class`` that of each class, and drop an earlier one."""
        for name in ("threshold_", "thresholds_"):
            vars(self).pop(name, None)
        setattr(self, "threshold_" if isinstance(threshold, float) else "thresholds_", threshold)

    def threshold_of(self, label: Any) -> float:
        """Return the threshold that decides whether a label is kept.

        Parameters
        ----------
        label : object
            With ``per_class``, one of ``classes_``; otherwise any label, since all share one.

        Returns
        -------
        float
            The threshold.
        """
        self.check_calibrated()
        if self.classes_ is None:
            return self.threshold_
        if label not in self.classes_:
            raise InvalidInput(
                f"label must be one of the classes {', '.join(map(repr, self.classes_))}, got "
                f"{label!r}."
            )
        return float(self.thresholds_[self.classes_.index(label)])

    def predict_set(
        self,
        scores: ArrayLike,
        *,
        classes: Sequence[Any] | None = None,
        score: str | ScoreFunction | None = None,
    ) -> NDArray[np.bool_]:
        """Return which labels are kept: those whose score is at least the threshold.

        The comparison is made in the coarser of the precisions of these scores and of the
        calibration scores: rounding preserves order, so it cannot lose a label that was certified.

        Parameters
        ----------
        scores : array_like
            Scores of labels, usually of shape (n, classes). If calibrated on scores of all
            classes, or with ``per_class``, the last axis holds the classes in the same order; the
            column names of a data frame are compared.
        classes : sequence, optional
            Class of each column, to be compared with the calibrated ones.
        score : str or ScoreFunction, optional
            Score function that gave the scores, to be compared with the calibrated one, that is
            ``Context(score=...)``.

        Returns
        -------
        ndarray of bool
            Whether each label is kept, in the shape of ``scores``.

        Warns
        -----
        CheckWarning
            If the first scores look like percentages or logarithms and those of calibration were
            fractions, or the reverse; if all sets are empty; or if the sets of at least 200 rows
            are unlike those of calibration.
        """
        self.check_calibrated()
        if "prediction" in (self.columns_ or {}):
            raise InvalidInput("this predictor was calibrated for intervals. Use predict_interval.")
        self._about().check_score(score)
        self._check_order(scores, classes)
        kept = self._at_least(scores, self._result()[1], self._score_range)
        if kept.ndim == 2:
            warn_of_sets(kept, self._sets, self._known_classes)
        return kept

    @property
    def _known_classes(self) -> Sequence[Any] | None:
        """Names of the columns of a matrix of scores; None if they are not known."""
        return self.classes_ or (self.columns_ or {}).get("classes")

    def _check_order(self, scores: ArrayLike, classes: Sequence[Any] | None) -> None:
        """Raise unless the last axis of ``scores`` holds the calibrated classes, in their order."""
        known = self._known_classes
        if known is None and classes is not None:
            raise InvalidInput(
                "classes cannot be compared: no class names were calibrated. Leave them out, or "
                "calibrate with classes."
            )
        if known is not None:
            pattern = (self.columns_ or {}).get("columns", "p_*")
            check_column_order(known, pattern, scores, classes, self.classes_ is not None)

    def predict_interval(self, prediction: ArrayLike, scale: ArrayLike | None = None) -> Floats:
        """Return an interval for each prediction, if calibrated for intervals.

        Parameters
        ----------
        prediction : array_like
            Predicted values.
        scale : array_like, optional
            Scale of each residual, if calibrated with a scale; by default 1.

        Returns
        -------
        ndarray
            Lower and upper ends, in the shape of ``prediction`` with a last axis of length 2.
        """
        self.check_calibrated()
        if self.classes_ is not None:
            raise InvalidInput(
                "predict_interval needs one threshold, and per_class=True has several."
            )
        self._check_scale(scale)
        widths = 1.0 if scale is None else scale
        return sets.interval(self.threshold_, prediction, widths, precision=self.precision_)

    def _check_scale(self, scale: ArrayLike | None) -> None:
        """Raise if residuals were divided by a scale in calibration only, or in prediction only."""
        known = self.columns_ or {}
        if "prediction" not in known:  # calibrated on scores, which do not tell
            return
        if "scale" in known and scale is None:
            raise InvalidInput(
                "the residuals were calibrated with a scale, and scale is missing. Pass the scale "
                "of each prediction."
            )
        if "scale" not in known and scale is not None and np.any(np.asarray(scale) != 1):
            raise InvalidInput(
                "the residuals were calibrated without a scale. Leave scale out, or calibrate with "
                "one."
            )

    def _encode_sets(self) -> dict[str, Any]:
        return {} if self._sets is None else {"sets": self._sets._asdict()}

    def _result(self) -> tuple[str, Any]:
        name = "threshold" if self.classes_ is None else "thresholds"
        return name, getattr(self, f"{name}_")

    def _state(self) -> str:
        name, value = self._result()
        shown = map(round_down, np.atleast_1d(value).tolist())
        if self.classes_ is not None:
            shown = map("{} {}".format, self.classes_, shown)
        return f"calibrated on {self._basis()}, {name} {_checks.listed([*shown], shown=3)}"

    @abstractmethod
    def _basis(self) -> str:
        """Return what the threshold rests on, such as "60 hospitals"."""
