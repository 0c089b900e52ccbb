"""Exceptions: one base class, each what Python would raise, and the arguments that it is about."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from metapac import InvalidInput, MetapacError, MissingExtra, NotCalibrated, errors
from metapac.errors import DownloadFailed, keyword

SUBCLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, MetapacError) and value is not MetapacError
]


@pytest.mark.parametrize("kind", SUBCLASSES)
def test_exceptions_survive_a_pickle_with_their_parameters(kind: type[MetapacError]) -> None:
    again = pickle.loads(pickle.dumps(kind("a and {b}", parameter=("a", "b"))))
    assert type(again) is kind
    assert (str(again), again.parameters) == ("a and {b}", ("a", "b"))
    assert kind("a", parameter="a").parameters == ("a",)


def test_each_exception_is_what_python_would_raise() -> None:
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(NotCalibrated, ValueError)
    assert issubclass(NotCalibrated, AttributeError)  # so that hasattr(method, "threshold_") works
    assert issubclass(DownloadFailed, OSError)
    assert issubclass(MissingExtra, ModuleNotFoundError)


def test_a_keyword_is_written_as_it_is_passed() -> None:
    assert keyword("epsilon", np.float64(0.1)) == "epsilon=0.1"
    assert keyword("split", "joint") == "split='joint'"
    assert keyword("delta", None) == "delta=None"
