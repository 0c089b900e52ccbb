"""Shared ground: array types, checks of arguments, optional imports, warnings.

Here and in `inputs`, ``check_x`` raises `InvalidInput` and returns nothing; ``as_x`` returns the
converted value, or raises.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import numbers
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from metapac.errors import InvalidInput, MissingExtra, keyword

Array = NDArray[Any]
Floats = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Counts = NDArray[np.int64]
PathLike = str | os.PathLike[str]
Seed = int | np.random.Generator | None
Table = Any  # an Ibis table; Ibis ships no types

# Called as progress(stage, done, total); total is None where it is not known.
Progress = Callable[[str, int, int | None], None]


def ignore_progress(stage: str, done: int, total: int | None) -> None:
    """Do nothing: the progress callback if none was passed."""


def name_progress(progress: Progress | None, part: str) -> Progress:
    """Return a callback that names the part of the work, if it has a name, before each stage."""
    report = progress or ignore_progress
    return lambda stage, *counts: report(f"{part}: {stage}" if part else stage, *counts)


def warn(message: str | Warning) -> None:
    """Issue a UserWarning that names the innermost line outside metapac."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "metapac":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Return an optional module, or raise ``MissingExtra`` with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing(error, extra=extra, purpose=purpose) from error


def missing(error: ModuleNotFoundError, *, extra: str, purpose: str) -> ModuleNotFoundError:
    """Return the error to raise: ``error`` itself if the missing module belongs to metapac."""
    package = (error.name or "metapac").partition(".")[0]
    if package == "metapac":
        return error
    result = MissingExtra(f"{purpose} needs {package}. Install it with: {install_command(extra)}")
    result.name = error.name
    return result


def install_command(extra: str) -> str:
    """Return what to type to install an extra, also for those who work in a checkout."""
    return f"pip install 'metapac[{extra}]' (in a checkout: pip install -e '.[{extra}]')"


LARGEST_COUNT = 10**9  # up to this, binomial probabilities are compared exactly

P = ParamSpec("P")
R = TypeVar("R")

# Parameter names of other libraries, and what to pass instead.
_FOREIGN = {
    "confidence_level": "epsilon = 1 - confidence_level",
    "coverage": "epsilon = 1 - coverage",
    "significance_level": "epsilon",
    "miscoverage": "epsilon",
    "error_rate": "epsilon",
}


def reject_foreign_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function explain parameter names that other libraries use."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name in _FOREIGN:
                raise TypeError(f"unknown parameter {name!r}; use {_FOREIGN[name]} instead.")
        takes_others = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        is_known = takes_others or not {*kwargs} - {*parameters}
        if "alpha" in kwargs and (
            "alpha" not in parameters or ("epsilon" not in kwargs and is_known)
        ):
            raise TypeError(
                "alpha is not the miss rate here: epsilon is. alpha is the fraction of new tasks "
                "that may violate the guarantee; MetaPS takes it together with epsilon and delta."
            )
        return function(*args, **kwargs)

    return wrapper


def as_probability(name: str, value: object, *, scope: str = "") -> float:
    """Return ``value`` as a float strictly between 0 and 1; messages show ``scope`` after name."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 < float(value) < 1:
        return float(value)
    text = f"{name}{scope} must be a number strictly between 0 and 1, got {value!r}."
    raise InvalidInput(f"{text} Pass a small one such as {keyword(name, 0.1)}.", parameter=name)


def check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise if ``value`` is not one of the allowed strings."""
    if value not in allowed:
        words = " or ".join(repr(word) for word in allowed)
        raise InvalidInput(f"{name} must be {words}, got {value!r}.")


def check_bool(name: str, value: object) -> None:
    """Raise if ``value`` is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be True or False, got {value!r}.")


def check_text(name: str, value: object) -> None:
    """Raise unless ``value`` is text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} must be a non-empty string, got {brief(value)}.")


def as_whole_numbers(name: str, value: Any, *, minimum: int) -> Counts:
    """Return ``value`` as int64 of any shape, with no element below ``minimum``."""
    return _as_counts(name, value, minimum, "hold whole numbers")


def as_whole_number(name: str, value: object, *, minimum: int = 1) -> int:
    """Return ``value`` as one int, not below ``minimum``."""
    return int(_as_counts(name, value, minimum, "be a whole number", most_axes=0))


def _as_counts(name: str, value: Any, minimum: int, rule: str, most_axes: int = 99) -> Counts:
    with suppress(ValueError):  # rows of unequal length
        array = np.asarray(value)
        fits = array.dtype.kind in "iuf" and array.ndim <= most_axes
        if fits and np.all(
            (array >= minimum) & (array <= LARGEST_COUNT) & (array == np.floor(array))
        ):
            return array.astype(np.int64)
    raise InvalidInput(f"{name} must {rule} from {minimum} to 10**9, got {brief(value)}.")


def check_same_length(name: str, array: Array, other: str, reference: Array) -> None:
    """Raise if two arrays differ in length."""
    if len(array) != len(reference):
        lengths = f"{len(array)} and {len(reference)}"
        raise InvalidInput(f"{name} and {other} must have the same length, got {lengths}.")


def check_same_shape(name: str, array: Array, other: str, reference: Array) -> None:
    """Raise if two arrays differ in shape."""
    if array.shape != reference.shape:
        shapes = f"{array.shape} and {reference.shape}"
        raise InvalidInput(f"{name} and {other} must have the same shape, got {shapes}.")


def check_same_index(name: str, column: Any, other: str, reference: Any) -> None:
    """Raise if two pandas columns have different indices, so that pairing by position is unsafe."""
    pandas = hasattr(column, "iloc") and hasattr(reference, "iloc")
    if pandas and not column.index.equals(reference.index):
        text = f"{name} and {other} are pandas columns with different indices"
        raise InvalidInput(f"{text}. Take both from one frame, or pass .to_numpy().")


def on_host(value: Any) -> Any:
    """Return a torch tensor as a NumPy array, without importing torch; anything else as it is."""
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def brief(value: object) -> str:
    """Return the repr of a value in one line of at most 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal digits, also of one that UTF-8 cannot encode."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def listed(words: Sequence[str], *, shown: int = 5) -> str:
    """Return words separated by commas; of a long list, the first ones and how many follow."""
    more = f" and {len(words) - shown} more" if len(words) > shown else ""
    return ", ".join(words[:shown]) + more


def data_home(home: PathLike | None = None) -> Path:
    """Return the folder of all data sets."""
    chosen = home or os.environ.get("METAPAC_DATA")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "metapac"
