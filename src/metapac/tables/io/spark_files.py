"""Files read by Spark: exactly those that are listed, with partitions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ibis

from metapac._types import Table
from metapac.exceptions import InvalidInput

_CSV = {"header": True, "inferSchema": False, "multiLine": True, "escape": '"', "mode": "FAILFAST"}


def read(
    connection: Any,
    kind: str,
    paths: Sequence[Path],
    columns: Sequence[str] = (),
    separator: str = ",",
) -> Table:
    """Return files as one table.

    Parameters
    ----------
    connection : Ibis connection
        A connection to Spark.
    kind : {"parquet", "csv", "json"}
        Kind of the files.
    paths : sequence of Path
        The files.
    columns : sequence of str, optional
        Columns of CSV files.
    separator : str, default ","
        Separator of the columns of CSV files.

    Returns
    -------
    ibis.Table
        The table.
    """
    for path in paths:
        if path.name[0] in "_.":
            raise InvalidInput(
                f"{path}: Spark ignores files whose names start with '_' or '.'. Rename it."
            )
    absolute = [path.absolute() for path in paths]
    # Hadoop would expand these characters as a pattern.
    names = [re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path)) for path in absolute]
    options = _partition_options(absolute)
    return load(connection, kind, names, columns, separator=separator, **options)


def load(
    connection: Any,
    kind: str,
    names: list[str],
    columns: Sequence[str] = (),
    *,
    separator: str = ",",
    **options: Any,
) -> Table:
    """Return all files under some names as one table.

    Parameters
    ----------
    connection : Ibis connection
        A connection to Spark.
    kind : {"parquet", "csv", "json"}
        Kind of the files.
    names : list of str
        Paths or addresses, in the syntax of Hadoop.
    columns : sequence of str, optional
        Columns of CSV files; by default those of their header.
    separator : str, default ","
        Separator of the columns of CSV files.
    **options : object
        Further options of Spark's reader.

    Returns
    -------
    ibis.Table
        The table.
    """
    if kind == "csv":
        options |= {**_CSV, "sep": separator}
    if kind == "parquet":
        options["mergeSchema"] = True
    reader = connection._session.read.options(**options)
    if columns:
        reader = reader.schema(_text_schema(columns))
    view = ibis.util.gen_name("read")
    reader.format(kind).load(names).createOrReplaceTempView(view)
    return connection.table(view)


def _text_schema(columns: Sequence[str]) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in columns])


def _partition_options(paths: list[Path]) -> dict[str, Any]:
    """Return the options that turn folders such as site=ohio into columns, if all files agree."""
    roots = [_partition_root(path) for path in paths]
    if roots[0][1] and all(root == roots[0] for root in roots):
        return {"basePath": str(roots[0][0])}
    return {"recursiveFileLookup": True}


def _partition_root(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder above the folders like site=ohio, and the names of these columns."""
    folder, columns = path.parent, []
    while "=" in folder.name:
        columns.append(folder.name.partition("=")[0])
        folder = folder.parent
    return folder, tuple(columns)
