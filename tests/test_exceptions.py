"""Exceptions: one base class, and messages that name parameters as their reader types them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from metapac import InvalidInput, MetapacError, MissingExtra, NotCalibrated, errors
from metapac.errors import DownloadFailed, Message, Parameter

SUBCLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, MetapacError) and value is not MetapacError
]


def as_option(parameter: Parameter) -> str:
    name = f"--{parameter.name.replace('_', '-')}"
    return f"{name} {parameter.value}" if parameter.has_value else name


@pytest.mark.parametrize("kind", SUBCLASSES)
def test_every_exception_renders_its_parameters(kind: type[MetapacError]) -> None:
    error = kind("{} must be {}, got {!r}. Pass {}.", *CONTENT)
    assert str(error) == "min_size must be even, got 'x'. Pass min_size=4."
    assert error.render(as_option) == "--min-size must be even, got 'x'. Pass --min-size 4."


CONTENT = (Parameter("min_size"), "even", "x", Parameter("min_size", 4))


@pytest.mark.parametrize("kind", SUBCLASSES)
def test_exceptions_can_be_pickled(kind: type[MetapacError]) -> None:
    again = pickle.loads(pickle.dumps(kind("{} and {!r}, {}; {}", *CONTENT)))
    assert type(again) is kind
    assert str(again) == "min_size and 'even', x; min_size=4"
    assert again.render(as_option) == "--min-size and 'even', x; --min-size 4"


def test_each_exception_is_what_python_would_raise() -> None:
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(NotCalibrated, ValueError)
    assert issubclass(NotCalibrated, AttributeError)  # so that hasattr(method, "threshold_") works
    assert issubclass(DownloadFailed, OSError)
    assert issubclass(MissingExtra, ModuleNotFoundError)


def test_values_are_filled_in_within_nested_messages() -> None:
    remedy = Message("use {}", Parameter("delta", None))
    error = InvalidInput(Message("{} or {:.2f}", remedy, 0.5))
    assert str(error) == "use delta=None or 0.50"
    assert error.render(as_option) == "use --delta None or 0.50"


def test_text_without_values_may_hold_braces() -> None:
    assert str(InvalidInput("the sets {label: score >= 0.5}")) == "the sets {label: score >= 0.5}"
    assert str(MetapacError()) == ""


def test_a_parameter_may_have_the_value_none() -> None:
    assert (Parameter("delta").has_value, Parameter("delta", None).has_value) == (False, True)


def test_an_exception_holds_text_and_not_the_objects_of_the_user() -> None:
    rates = {"yes": 0.1}
    error = InvalidInput("{} must be a number, got {!r}.", Parameter("epsilon"), rates)
    rates["yes"] = 0.2
    assert str(error) == error.render() == "epsilon must be a number, got {'yes': 0.1}."
    unpicklable = InvalidInput("got {}.", lambda: None)
    assert str(pickle.loads(pickle.dumps(unpicklable))) == str(unpicklable)
    with pytest.raises(TypeError, match="has no placeholder for"):
        InvalidInput("a", "b")
    assert str(Parameter("epsilon", np.float64(0.1))) == "epsilon=0.1"
