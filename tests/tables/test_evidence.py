"""The first step: the guarantee learns the classes of the table, and stages are reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from metapac.tables.calibration import collect_evidence

from metapac import InvalidInput
from metapac.columns import Columns
from metapac.guarantee import Guarantee
from metapac.tables.sources import open_source
from tests.helpers.engines import as_if_large, connection

TABLE = pa.table(
    {
        "g": ["u", "v"] * 20,
        "y": [1, 2, 2, 1] * 10,
        "s": np.linspace(0, 1, 40),
        "p_1": np.full(40, 0.5),
        "p_2": np.zeros(40),
        "p_3": np.ones(40),
    }
)


def collect(columns: Columns, epsilon: Any, progress: Any = None) -> Any:
    per_class = columns.per_class
    guarantee = Guarantee(epsilon=epsilon, alpha=0.5, delta=0.5, per_class=per_class)
    source = open_source(TABLE, connection=connection("duckdb"))
    return collect_evidence(source, columns, guarantee, progress)


def test_every_stage_is_reported() -> None:
    calls: list[tuple[str, int, int | None]] = []
    collect(Columns("g", "s"), 0.3, lambda *call: calls.append(call))
    assert calls == [("counting the scores of each task", 0, None)]
    with as_if_large(worth_sorting=1):
        collect(Columns("g", "s"), 0.3, lambda *call: calls.append(call))
    assert calls[1:] == [
        ("counting the scores of each task", 0, None),
        ("sorting 40 scores", 0, None),
    ]


def test_the_evidence_stores_the_columns() -> None:
    _guarantee, evidence = collect(Columns("g", "s"), 0.3)
    assert evidence.columns == {"task": "g", "score": "s"}
    assert evidence.names.tolist() == ["u", "v"]
    assert (evidence.lowest[0], evidence.highest[0]) == (0, 1)


def test_epsilon_may_name_classes_as_text() -> None:
    columns = Columns("g", "s", "y", per_class=True)
    guarantee, evidence = collect(columns, {"2": 0.3, "1": 0.4})
    assert guarantee.epsilon == {1: 0.4, 2: 0.3}
    assert evidence.classes == (1, 2)


def test_epsilon_must_name_every_class_and_no_other() -> None:
    columns = Columns("g", "s", "y", per_class=True)
    with pytest.raises(InvalidInput, match="epsilon names class 3, but the classes are 1, 2"):
        collect(columns, {1: 0.3, 2: 0.3, 3: 0.3})
    with pytest.raises(InvalidInput, match="epsilon has no value for class 2, only for 1. Give"):
        collect(columns, {1: 0.3})


def test_a_single_task_may_lack_a_class() -> None:
    columns = Columns(None, None, "y")
    _guarantee, evidence = collect(columns, 0.3)
    assert evidence.sizes.tolist() == [[40]]
    assert evidence.columns == {"label": "y", "columns": "p_*", "classes": ["1", "2", "3"]}
