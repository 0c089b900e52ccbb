"""Numbers for an engine: a small table that it joins to a large one. Every value stays exact."""

from __future__ import annotations

from typing import Any

import ibis
import pyarrow as pa

from metapac.tables._checks import Table
from metapac.tables.brackets import Array


def upload(kind: Any = None, **columns: Array) -> Table:
    """Return a table of these columns; ``kind`` is the type of the column task, if there is one.

    A number written into a query may be rounded on its way, a number in a table is not.
    """
    arrays = {name: pa.array(column) for name, column in columns.items() if name != "task"}
    if kind is not None:
        arrays["task"] = pa.array(columns["task"].tolist(), type=kind.to_pyarrow())
    return ibis.memtable(pa.table(arrays))
