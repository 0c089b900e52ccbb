"""Checks of arguments: what passes is converted, what does not is named."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from metapac import InvalidInput, MissingExtra, _common

TWO, THREE = np.zeros(2), np.zeros(3)


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (_common.as_probability, np.float32(0.5), 0.5),
        (_common.as_whole_number, 3, 3),
        (_common.as_whole_number, 3.0, 3),
        (_common.as_whole_number, np.int8(3), 3),
        (_common.as_whole_number, 10**9, 10**9),
    ],
)
def test_numbers_are_converted(check: Callable[..., Any], value: Any, expected: Any) -> None:
    number = check("x", value)
    assert type(number) is type(expected)
    assert number == expected


def as_counts(name: str, value: Any) -> Any:
    return _common.as_whole_numbers(name, value, minimum=1)


def as_word(name: str, value: Any) -> None:
    _common.check_one_of(name, value, ("tasks", "examples"))


@pytest.mark.parametrize(
    ("check", "rule", "values"),
    [
        (
            _common.as_probability,
            "strictly between 0 and 1, got .* x=0.1",
            [0, 1, -0.5, 1.5, math.nan, math.inf, True, "0.1", None],
        ),
        (
            _common.as_whole_number,
            r"a whole number from 1 to 10\*\*9",
            [0, 2.5, math.nan, math.inf, "3", None, True, [1], 10**9 + 1],
        ),
        (as_counts, "whole numbers from 1", [[1, 0], [1, 2.5], [[1], [1, 2]], [10**9 + 1]]),
        (as_word, "'tasks' or 'examples'", ["rows", None, 1]),
        (_common.check_bool, "True or False", [1, None, "True"]),
    ],
)
def test_bad_values_are_named(check: Callable[..., Any], rule: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidInput, match=f"^x must .*{rule}") as caught:
            check("x", value)
        assert caught.value.parameters == ("x",)


def test_good_values_pass() -> None:
    array = as_counts("n", [[1, 2], [3, 4]])
    assert (array.dtype, array.shape) == (np.int64, (2, 2))
    as_word("over", "tasks")
    _common.check_bool("per_class", np.True_)
    _common.check_same_index("a", pd.Series([1], [5]), "b", pd.Series([2], [5]))


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (_common.check_same_length, "a and b must have the same length, got 2 and 3"),
        (_common.check_same_shape, r"a and b must have the same shape, got \(2,\) and \(3,\)"),
    ],
)
def test_pairs_that_do_not_fit(check: Callable[..., Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        check("a", TWO, "b", THREE)
    with pytest.raises(InvalidInput, match="different indices"):
        _common.check_same_index("a", pd.Series([1], [5]), "b", pd.Series([2], [6]))


def test_parameter_names_of_other_libraries_are_explained() -> None:
    @_common.reject_foreign_keywords
    def method(*, epsilon: float = 0.1, alpha: float = 0.1) -> float:
        return epsilon + alpha

    assert method(epsilon=0.25, alpha=0.5) == 0.75
    with pytest.raises(TypeError, match="'coverage'; use epsilon = 1 - coverage"):
        method(coverage=0.9)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="alpha is not the miss rate"):
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


@pytest.mark.parametrize("module", ["nowhere", "nowhere.figure"])
def test_a_missing_module_names_the_extra_that_installs_it(module: str) -> None:
    with pytest.raises(MissingExtra, match=r"^a figure needs nowhere.*'metapac\[plot\]'"):
        _common.require(module, extra="plot", purpose="a figure")


def test_a_missing_module_of_metapac_is_a_bug_and_not_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="metapac.nowhere") as caught:
        _common.require("metapac.nowhere", extra="plot", purpose="a figure")
    assert not isinstance(caught.value, MissingExtra)
