"""Numbers reach every engine unrounded, and long sums are not nested deeply."""

from __future__ import annotations

import math
from typing import Any

import ibis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.tables.expressions import add_up, constant_floats, constant_list, exact, pick, upload
from tests.helpers.engines import ENGINES, connection, one_row

EXTREME = [0.1, -0.1, 1 / 3, 0.0, 1.0, 5e-324, -5e-324, 1.7976931348623157e308, 2.0**-1022, 1e23]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_reaches_the_engine_unrounded(engine: str) -> None:
    values = [*EXTREME, *np.random.default_rng(0).normal(size=20).tolist()]
    there = connection(engine)
    dummy = one_row(engine)
    result = there.to_pyarrow(dummy.select(**{f"x{i}": exact(v) for i, v in enumerate(values)}))
    assert [column[0].as_py() for column in result.columns] == values


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_is_exact(value: float) -> None:
    result = connection("duckdb").to_pyarrow(exact(value).name("x").as_table())
    assert result["x"][0].as_py() == value


def test_a_sum_of_many_terms() -> None:
    for count in (1, 2, 8, 9, 300):
        assert add_up(list(range(count))) == sum(range(count))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_uploaded_table_holds_the_same_numbers(engine: str) -> None:
    values = np.array(EXTREME)
    single = values[:6].astype(np.float32)
    table = upload(value=values)
    result = connection(engine).to_pyarrow(table.order_by("value"))
    assert result["value"].to_pylist() == np.sort(values).tolist()
    narrow = connection(engine).to_pyarrow(upload(value=single).order_by("value"))
    assert narrow["value"].to_pylist() == np.sort(single).tolist()


WITH_LISTS = [engine for engine in ENGINES if engine != "sqlite"]
ODD = [
    "it's",
    'say "x"',
    "back\\slash",
    "\N{DOG}",
    "a|b",
    "",
    " ",
    ", ",
    "\x1f",
    "\x1e\x1d",
    "%_",
    "$1",
]


def compute(engine: str, **columns: Any) -> dict[str, Any]:
    """Return the values of expressions on one row."""
    result = connection(engine).to_pyarrow(one_row(engine).select(**columns))
    return {name: result[name][0].as_py() for name in columns}


@pytest.mark.parametrize("engine", WITH_LISTS)
def test_texts_reach_the_engine_as_they_are(engine: str) -> None:
    many = [f"class {i}" for i in range(3000)]
    assert compute(
        engine, odd=constant_list(ODD), many=constant_list(many), one=constant_list(["a"])
    ) == {
        "odd": ODD,
        "many": many,
        "one": ["a"],
    }


@pytest.mark.parametrize("engine", WITH_LISTS)
def test_floats_in_lists_are_not_rounded(engine: str) -> None:
    values = [*EXTREME, math.inf, -math.inf, *np.random.default_rng(0).normal(size=20).tolist()]
    assert compute(engine, x=constant_floats(values)) == {"x": values}


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=5))
def test_any_list_of_floats_is_exact(values: list[float]) -> None:
    assert compute("duckdb", x=constant_floats(values)) == {"x": values}


@pytest.mark.parametrize("engine", WITH_LISTS)
def test_picking_an_entry(engine: str) -> None:
    letters = constant_list(["a", "b", "c"])
    places: dict[str, Any] = {
        "first": letters.index("a"),
        "last": letters.index("c"),
        "absent": letters.index("z"),
        "unknown": ibis.null("int64"),
    }
    picked = compute(engine, **{name: pick(letters, place) for name, place in places.items()})
    assert picked == {"first": "a", "last": "c", "absent": None, "unknown": None}
