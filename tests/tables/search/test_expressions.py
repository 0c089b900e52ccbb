"""Numbers reach every engine unrounded, and long sums are not nested deeply."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.tables.search.expressions import add_up, exact, upload
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
