"""The results of all cases are those that ``make.py`` stored: numbers do not move with the code."""

from __future__ import annotations

from typing import Any

import pytest

from tests.golden.cases import CASES, find_differences
from tests.golden.make import STORED, compute, read_stored


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    return read_stored()


@pytest.mark.parametrize("name", CASES)
def test_a_result_is_as_stored(name: str, stored: dict[str, Any]) -> None:
    differences = find_differences(stored[name], compute(name))
    shown = "\n".join(line[:500] for line in differences[:10])
    assert not differences, f"{len(differences)} values differ:\n{shown}"


def test_every_stored_result_has_a_case(stored: dict[str, Any]) -> None:
    assert stored.keys() == CASES.keys()
    assert STORED.stat().st_size < 200_000


def test_differences_are_found() -> None:
    for expected, found, where in (
        ({"a": [1, "0.5"]}, {"a": [1, "0.5000000000000001"]}, [".a[1]"]),
        ({"a": 0.5}, {"a": 0.5 + 1e-14}, []),
        ({"a": 0.5}, {"a": 0.5 + 1e-11}, [".a"]),
        ({"a": 1}, {"b": 1}, [".a", ".b"]),
        ([1, 2], [1], [""]),
        (1, True, [""]),
        (1, 1.0, [""]),
    ):
        assert [line.split(":")[0] for line in find_differences(expected, found)] == where
