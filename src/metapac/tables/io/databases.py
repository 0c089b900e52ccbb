"""Tables of a database, listed and selected by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ibis

from metapac._types import Table
from metapac.exceptions import InvalidInput, Parameter
from metapac.tables.io.engines import DUCKDB

_MEMTABLE = r"ibis_\w+_memtable_"  # frames that Ibis registered in the database


def pick_table(connection: Any, name: str, table: str | None, catalog: str | None = None) -> Table:
    """Return a table of a database: the one named, or the only one.

    Parameters
    ----------
    connection : Ibis connection
        A connection to the database.
    name : str
        Name of the database in messages.
    table : str or None
        Name of the table, as schema.table if it is not in the default schema.
    catalog : str, optional
        Name of an attached DuckDB file.

    Returns
    -------
    ibis.Table
        The table.

    Raises
    ------
    InvalidInput
        If there is no such table, or if several could be meant.
    """
    places = _list_tables(connection, catalog)
    if table is None and len(places) == 1:
        (table,) = places
    if table is not None and table not in places and "." in table and connection.name != DUCKDB:
        schema, _, plain = table.rpartition(".")
        places[table] = (schema, plain)
    if table is None or table not in places:
        raise _not_found(name, table, sorted(places))
    schema, plain = places[table]
    return connection.table(plain, database=schema)


def attach(connection: Any, path: Path) -> str:
    """Attach a DuckDB file to a DuckDB connection, read-only.

    Parameters
    ----------
    connection : Ibis connection
        A connection to DuckDB.
    path : Path
        The file.

    Returns
    -------
    str
        Name of the file's catalog in the connection.
    """
    alias: str = ibis.util.gen_name("file")
    quoted = str(path.absolute()).replace("'", "''")
    connection.raw_sql(f"ATTACH '{quoted}' AS {alias} (READ_ONLY)")
    return alias


def _list_tables(connection: Any, catalog: str | None) -> dict[str, tuple[Any, str]]:
    """Return the schema and table for each name that may be passed."""
    if connection.name == DUCKDB:
        return _list_duckdb_tables(connection, catalog)
    names = connection.list_tables()
    return {name: (None, name) for name in names if not re.match(_MEMTABLE, name)}


def _list_duckdb_tables(connection: Any, catalog: str | None) -> dict[str, tuple[Any, str]]:
    """List the tables in SQL, since Ibis 12 cannot list those of DuckDB 2."""
    catalogs = [connection.current_catalog, "temp"] if catalog is None else [catalog]
    rows = connection.raw_sql(
        "SELECT table_catalog, table_schema, table_name FROM information_schema.tables"
    ).fetchall()
    return {
        name if schema == "main" else f"{schema}.{name}": ((place, schema), name)
        for place, schema, name in rows
        if place in catalogs and not (place == "temp" and name.startswith("ibis_"))
    }


def _not_found(name: str, table: str | None, names: list[str]) -> InvalidInput:
    if not names:
        return InvalidInput(f"{name} holds no table. Pass a database with one.")
    problem = "holds several tables" if table is None else f"has no table {table!r}"
    return InvalidInput(
        "{}; it has: {}. Pass one of them as {}.",
        f"{name} {problem}",
        ", ".join(names),
        Parameter("table"),
    )
