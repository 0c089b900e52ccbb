"""What every calibrated object can do: keep parameters, make sets and intervals, be saved."""

from __future__ import annotations

import functools
import inspect
import numbers
import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks, persistence, sets
from metapac.guarantee import NotCalibrated


class Calibrated(ABC):
    """One number with a promise. Subclasses find it; this class keeps it and its parameters."""

    precision_: np.dtype[np.floating[Any]]
    _found: ClassVar[str]  # the name of that number

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
                self._found: persistence.encode(getattr(self, f"{self._found}_")),
                "precision": self.precision_.name,
                **self._body(),
            },
        )

    def _kind(self) -> str:
        """Return the name by which ``load`` knows this class: for a subclass, its parent's."""
        return next(name for name, kind in _kinds().items() if isinstance(self, kind))

    def _plain_parameters(self) -> dict[str, Any]:
        """Return the parameters with every kind of number as a float, which JSON can hold."""
        params = self.get_params().items()
        return {name: float(v) if isinstance(v, numbers.Real) else v for name, v in params}

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

    def _calibrated(self, number: float, precision: np.dtype[Any]) -> Self:
        setattr(self, f"{self._found}_", number)
        self.precision_ = precision
        self._parameters = self._promised()
        return self

    def _promised(self) -> dict[str, Any]:
        return {name: value for name, value in self.get_params().items() if name != "on_infeasible"}

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

    def _kept(self, scores: ArrayLike, threshold: float) -> NDArray[np.bool_]:
        """Return which scores are at least ``threshold``, in the coarser of both precisions."""
        array = np.atleast_1d(_checks.score_array("scores", scores))
        _checks.no_nan("scores", array, lambda i: f"in row {np.unravel_index(i, array.shape)[0]}")
        coarse = min(array.dtype, self.precision_, key=lambda dtype: dtype.itemsize)
        with np.errstate(over="ignore"):  # beyond a narrow type's range lies infinity, in order
            return np.asarray(array.astype(coarse, copy=False) >= coarse.type(threshold))


class ThresholdSets(Calibrated):
    """One threshold for all new tasks. Subclasses calibrate it; this class uses it."""

    epsilon: float
    threshold_: float
    columns_: dict[str, Any] | None = None  # of the table it was calibrated on, if it was one
    _found = "threshold"

    def predict_set(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Return which labels are kept: ``scores >= threshold_``, in the shape of ``scores``.

        The comparison is made in the coarser of the precisions of these scores and of the
        calibration scores: rounding keeps order, so no label that was certified is lost to it.
        """
        self._check_calibrated()
        return self._kept(scores, self.threshold_)

    def predict_interval(self, prediction: ArrayLike, scale: ArrayLike = 1.0) -> _checks.Floats:
        """Return for each prediction the interval of all y kept, if calibrated on residual scores.

        Shape: that of ``prediction``, with lower and upper end added as a last axis.
        """
        self._check_calibrated()
        return sets.interval(self.threshold_, prediction, scale, precision=self.precision_)


def _kinds() -> dict[str, type[Calibrated]]:
    heirs = [*ThresholdSets.__subclasses__(), *Calibrated.__subclasses__()]  # the nearest first
    return {kind.__name__: kind for kind in heirs}


def load(path: str | os.PathLike[str]) -> Any:
    """Return the calibrated object that ``save`` wrote; refuse a file that is not as it was."""
    body = persistence.read(path)
    try:
        calibrated: Any = _kinds()[body["kind"]](**body["parameters"])
        calibrated._restore(body)
        name = calibrated._found
        stated, evident = float(body[name]), getattr(calibrated, f"{name}_")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise persistence.BadArtefact(
            f"{path} does not hold what a promise needs ({type(error).__name__}: {error}). "
            "Save the calibrated object again."
        ) from error
    if stated != evident:
        raise persistence.BadArtefact(
            f"{path} states {name} {stated:g}, but its evidence gives {evident:g}. Calibrate again."
        )
    return calibrated
