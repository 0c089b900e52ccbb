"""Checks of parameters, lengths and shapes, and the texts that messages share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from metapac import InvalidInput, _common


@pytest.mark.parametrize("value", [0, 1, -0.5, 1.5, math.nan, math.inf, True, "0.1", None])
def test_a_probability_lies_strictly_between_0_and_1(value: object) -> None:
    message = r"^epsilon must be a number strictly .* got .* small one such as epsilon=0\.1\.$"
    with pytest.raises(InvalidInput, match=message) as caught:
        _common.as_probability("epsilon", value)
    assert caught.value.parameters == ("epsilon",)


def test_a_probability_is_returned_as_a_float() -> None:
    assert type(_common.as_probability("epsilon", np.float32(0.5))) is float


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (3.0, 3), (np.int8(3), 3), (10**9, 10**9)])
def test_a_whole_number_is_returned_as_an_int(value: Any, expected: int) -> None:
    number = _common.as_whole_number("n", value)
    assert type(number) is int
    assert number == expected


@pytest.mark.parametrize("value", [0, 2.5, math.nan, math.inf, "3", None, True, [1], 10**9 + 1])
def test_not_a_whole_number(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^n must be a whole number from 1 to 10\*\*9, got "):
        _common.as_whole_number("n", value)


@pytest.mark.parametrize("value", [2, 0.5, np.float32(0.5), np.int8(3), 5e-324])
def test_a_positive_number_is_returned_as_a_float(value: Any) -> None:
    number = _common.as_positive_number("x", value)
    assert type(number) is float
    assert number == value


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "3", None, True, [1.0]])
def test_not_a_positive_number(value: Any) -> None:
    with pytest.raises(InvalidInput, match="^x must be a positive number, got "):
        _common.as_positive_number("x", value)


def test_whole_numbers_have_the_shape_of_the_input() -> None:
    array = _common.as_whole_numbers("n", [[1, 2], [3, 4]], minimum=1)
    assert array.dtype == np.int64
    assert array.shape == (2, 2)
    for bad in ([1, 0], [1, 2.5], [[1], [1, 2]]):
        with pytest.raises(InvalidInput, match="n must hold whole numbers from 1 to .* got "):
            _common.as_whole_numbers("n", bad, minimum=1)


def test_one_of_a_few_words() -> None:
    _common.check_one_of("over", "tasks", ("tasks", "examples"))
    with pytest.raises(InvalidInput, match="^over must be 'tasks' or 'examples', got 'rows'.$"):
        _common.check_one_of("over", "rows", ("tasks", "examples"))


def test_true_or_false() -> None:
    _common.check_bool("per_class", np.True_)
    with pytest.raises(InvalidInput, match="^per_class must be True or False, got 1.$"):
        _common.check_bool("per_class", 1)


def test_lengths_and_shapes() -> None:
    two, three = np.zeros(2), np.zeros(3)
    with pytest.raises(InvalidInput, match="a and b must have the same length, got 2 and 3"):
        _common.check_same_length("a", two, "b", three)
    with pytest.raises(InvalidInput, match=r"must have the same shape, got \(2,\) and \(3,\)"):
        _common.check_same_shape("a", two, "b", three)
    with pytest.raises(InvalidInput, match=r"matching shapes, got \(2,\) and \(3,\). Pass one of"):
        _common.broadcast_pair("a", two, "b", three)
    first, second = _common.broadcast_pair("a", two, "b", np.zeros(()))
    assert first.shape == second.shape == (2,)


def test_parameter_names_of_other_libraries_are_explained() -> None:
    @_common.reject_foreign_keywords
    def method(*, epsilon: float = 0.1, alpha: float = 0.1) -> float:
        return epsilon + alpha

    assert method(epsilon=0.25, alpha=0.5) == 0.75
    with pytest.raises(
        TypeError, match="^unknown parameter 'coverage'; use epsilon = 1 - coverage"
    ):
        method(coverage=0.9)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="alpha is not the miss rate here: epsilon is"):
        method(alpha=0.1)


def test_a_tensor_is_brought_to_numpy() -> None:
    tensor = torch.tensor([0.5], requires_grad=True)
    assert isinstance(_common.on_host(tensor), np.ndarray)
    assert _common.on_host(tensor.to(torch.bfloat16)).dtype == np.float32
    plain = [0.5]
    assert _common.on_host(plain) is plain


def test_long_values_and_lists_are_shortened() -> None:
    assert _common.brief(np.zeros((2, 2))) == "array([[0., 0.], [0., 0.]])"
    assert _common.brief("x" * 100) == "'" + "x" * 56 + "..."
    assert _common.listed(["a", "b"]) == "a, b"
    assert _common.listed(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert _common.listed(list("abc"), shown=2) == "a, b and 1 more"
