"""What every calibrated object can do: keep parameters, make sets and intervals, be saved."""

from __future__ import annotations

import functools
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks, persistence, sets
from metapac.guarantee import NotCalibrated


class Calibrated(ABC):
    """One number with a promise. Subclasses find it; this class keeps it and its parameters."""

    precision_: np.dtype[np.floating[Any]]

    @property
    @abstractmethod
    def _found(self) -> str:
        """The name of that number."""

    @property
    @abstractmethod
    def promise_(self) -> str: ...

    @abstractmethod
    def _body(self) -> dict[str, Any]: ...

    @abstractmethod
    def _restore(self, body: dict[str, Any]) -> None: ...

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the number, its promise and its evidence as versioned JSON, atomically."""
        self._check_calibrated()
        persistence.write(
            path,
            {
                "kind": self._kind(),
                "parameters": self._plain_parameters(),
                "promise": self.promise_,
                self._found: self._number(),
                "precision": self.precision_.name,
                **self._body(),
            },
        )

    def _number(self) -> Any:
        """Return that number, or the list of them, as JSON can hold it."""
        found = getattr(self, f"{self._found}_")
        return persistence.encode_all(np.asarray(found, dtype=float).tolist())

    def _kind(self) -> str:
        """Return the name by which ``load`` knows this class: for a subclass, its parent's."""
        return next(name for name, kind in _kinds().items() if isinstance(self, kind))

    def _plain_parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON can hold them."""
        return {name: persistence.plain(value) for name, value in self.get_params().items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters, as scikit-learn expects."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters by name, as scikit-learn expects."""
        for name, value in params.items():
            if name not in self._parameter_names():
                raise ValueError(
                    f"{name!r} is not a parameter of {type(self).__name__}; "
                    f"it has {', '.join(self._parameter_names())}."
                )
            setattr(self, name, value)
        return self

    @classmethod
    @functools.cache
    def _parameter_names(cls) -> tuple[str, ...]:
        return tuple(inspect.signature(cls).parameters)

    def _calibrated(self, precision: np.dtype[Any]) -> Self:
        self.precision_ = precision
        self._parameters = self._promised()
        return self

    def _promised(self) -> dict[str, Any]:
        """Return what the guarantee depends on; a mapping as it is now, whatever becomes of it."""
        kept = {name: x for name, x in self.get_params().items() if name != "on_infeasible"}
        return {name: dict(x) if isinstance(x, Mapping) else x for name, x in kept.items()}

    def _check_calibrated(self) -> None:
        name = type(self).__name__
        if not hasattr(self, f"{self._found}_"):
            raise NotCalibrated(
                f"this {name} has no {self._found} yet. Call .calibrate(...) first, "
                "or metapac.load(path)."
            )
        if self._parameters != self._promised():
            raise NotCalibrated(
                f"this {name} was calibrated with {self._parameters}, and its parameters were "
                f"changed to {self._promised()} since. Call .calibrate(...) again."
            )

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({params})"

    def __str__(self) -> str:
        return self.promise_ if hasattr(self, f"{self._found}_") else repr(self)

    def _kept(self, scores: ArrayLike, threshold: ArrayLike) -> NDArray[np.bool_]:
        """Return which scores are at least ``threshold``, in the coarser of both precisions."""
        array = np.atleast_1d(_checks.score_array("scores", scores))
        _checks.no_nan("scores", array, lambda i: f"in row {np.unravel_index(i, array.shape)[0]}")
        if _checks.is_bfloat16(scores):
            return np.asarray(array >= _checks.floor_to_bfloat16(threshold))
        coarse = min(array.dtype, self.precision_, key=lambda dtype: dtype.itemsize)
        with np.errstate(over="ignore"):  # beyond a narrow type's range lies infinity, in order
            return np.asarray(
                array.astype(coarse, copy=False) >= np.asarray(threshold).astype(coarse)
            )


class ThresholdSets(Calibrated):
    """A threshold for all new tasks, or one for each class. Subclasses calibrate it."""

    epsilon: Any
    threshold_: float
    thresholds_: NDArray[np.float64]  # with a guarantee per class, of each of classes_
    classes_: tuple[Any, ...] | None = None
    columns_: dict[str, Any] | None = None  # of the table it was calibrated on, if it was one

    @property
    def _found(self) -> str:
        return "thresholds" if getattr(self, "per_class", False) else "threshold"

    def threshold_of(self, label: Any) -> float:
        """Return the threshold that decides whether a label is kept.

        Parameters
        ----------
        label : object
            One of ``classes_`` with a guarantee per class; else any label, since all share one.
        """
        self._check_calibrated()
        if self.classes_ is None:
            return self.threshold_
        if label not in self.classes_:
            raise ValueError(
                f"label must be one of the classes {', '.join(map(repr, self.classes_))}, got "
                f"{label!r}."
            )
        return float(self.thresholds_[self.classes_.index(label)])

    def predict_set(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Return which labels are kept: those whose score is at least the threshold.

        The comparison is made in the coarser of the precisions of these scores and of the
        calibration scores: rounding keeps order, so no label that was certified is lost to it.

        Parameters
        ----------
        scores : array_like
            Scores of labels, usually of shape (n, classes). With a guarantee per class, the last
            axis holds the classes in the order of ``classes_``.

        Returns
        -------
        ndarray of bool
            Whether each label is kept, in the shape of ``scores``.
        """
        self._check_calibrated()
        if self.classes_ is None:
            return self._kept(scores, self.threshold_)
        shape = np.shape(_checks.score_array("scores", scores))
        if not shape or shape[-1] != len(self.classes_):
            raise ValueError(
                f"scores must have a column for each of the {len(self.classes_)} classes "
                f"{', '.join(map(repr, self.classes_))}, in this order, got shape {shape}."
            )
        return self._kept(scores, self.thresholds_)

    def predict_interval(self, prediction: ArrayLike, scale: ArrayLike = 1.0) -> _checks.Floats:
        """Return for each prediction the interval of all y kept, if calibrated on residual scores.

        Parameters
        ----------
        prediction : array_like
            Predicted values.
        scale : array_like, default 1.0
            Scale of each residual, as in ``residual_scores``.

        Returns
        -------
        ndarray
            Shape of ``prediction``, with lower and upper end added as a last axis.
        """
        self._check_calibrated()
        if self.classes_ is not None:
            raise ValueError(
                "predict_interval needs one threshold, and per_class=True has several."
            )
        return sets.interval(self.threshold_, prediction, scale, precision=self.precision_)


def _kinds() -> dict[str, type[Calibrated]]:
    heirs = [*ThresholdSets.__subclasses__(), *Calibrated.__subclasses__()]  # the nearest first
    return {kind.__name__: kind for kind in heirs}


def load(path: str | os.PathLike[str]) -> Any:
    """Return the calibrated object that ``save`` wrote; refuse a file that is not as it was."""
    body = persistence.read(path)
    try:
        parameters = persistence.restored(body["parameters"])
        calibrated: Any = _kinds()[body["kind"]](**parameters)
        calibrated._restore(body)
        stated, evident = body[calibrated._found], calibrated._number()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise persistence.BadArtefact(
            f"{path} does not hold what a promise needs ({type(error).__name__}: {error}). "
            "Save the calibrated object again."
        ) from error
    if stated != evident:
        raise persistence.BadArtefact(
            f"{path} states {calibrated._found} {stated}, but its evidence gives {evident}. "
            "Calibrate again."
        )
    return calibrated
