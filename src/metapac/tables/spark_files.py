"""Files through Spark: just those that were found, whatever their names, with their partitions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ibis

from metapac.tables import csv_text
from metapac.tables._checks import Table

_CSV = {
    "header": True,
    "inferSchema": False,
    "multiLine": True,
    "escape": '"',
    "mode": "FAILFAST",
}


def read(connection: Any, kind: str, paths: Sequence[Path]) -> Table:
    """Return these files as one table."""
    for path in paths:
        if path.name[0] in "_.":
            raise ValueError(f"{path}: Spark leaves out files named so. Rename it.")
    whole = [path.absolute() for path in paths]
    # Hadoop takes some characters of a name for a pattern.
    names = [re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path)) for path in whole]
    columns = csv_text.common_header(paths) if kind == "csv" else None
    return load(connection, kind, names, columns, **_partitions(whole))


def load(
    connection: Any, kind: str, names: list[str], columns: list[str] | None = None, **options: Any
) -> Table:
    """Return what Spark finds under these names as one table; ``columns`` are those of CSV."""
    if kind == "csv":
        options |= {**_CSV, "sep": csv_text.delimiter(Path(names[0]))}
    if kind == "parquet":
        options["mergeSchema"] = True
    reader = connection._session.read.options(**options)
    if columns is not None:
        reader = reader.schema(_texts(columns))
    view = ibis.util.gen_name("read")
    reader.format(kind).load(names).createOrReplaceTempView(view)
    return connection.table(view)


def _texts(columns: list[str]) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in columns])


def _partitions(paths: list[Path]) -> dict[str, Any]:
    """Return the options that make columns of folders such as site=ohio, where all files have them.

    These are the folders just above the files.
    """
    homes = [_home(path) for path in paths]
    if homes[0][1] and all(home == homes[0] for home in homes):
        return {"basePath": str(homes[0][0])}
    return {"recursiveFileLookup": True}


def _home(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder above all folders like site=ohio, and the names of these columns."""
    folder, columns = path.parent, []
    while "=" in folder.name:
        columns.append(folder.name.partition("=")[0])
        folder = folder.parent
    return folder, tuple(columns)
