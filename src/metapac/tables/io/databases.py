"""Tables of a database, listed and selected by name."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import ibis

from metapac._types import Table
from metapac.exceptions import InvalidInput, Parameter
from metapac.tables.io.csv_format import OpenOption
from metapac.tables.io.engines import DUCKDB

_MEMTABLE = r"ibis_\w+_memtable_"  # frames that Ibis registered in the database


class _Place(NamedTuple):
    """Where a table is, and whether it is computed from others."""

    schema: Any
    name: str
    is_view: bool = False


def pick_table(
    connection: Any,
    name: str,
    table: str | None,
    catalog: str | None = None,
    *,
    views: bool = True,
) -> Table:
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
    views : bool, default True
        Whether views count as tables. Those of a file from elsewhere may read other files.

    Returns
    -------
    ibis.Table
        The table.

    Raises
    ------
    InvalidInput
        If there is no such table, if several could be meant, or if it is a view.
    """
    places = _list_tables(connection, catalog)
    hidden = [] if views else sorted(key for key, place in places.items() if place.is_view)
    tables = {key: place for key, place in places.items() if key not in hidden}
    if table is None and len(tables) == 1:
        (table,) = tables
    if table is not None and table not in places and "." in table and connection.name != DUCKDB:
        schema, _, plain = table.rpartition(".")
        tables[table] = _Place(schema, plain)
    if table in hidden or (hidden and not tables):
        raise _is_view(name, hidden[0] if table is None else table)
    if table is None or table not in tables:
        raise _not_found(name, table, sorted(tables))
    return connection.table(tables[table].name, database=tables[table].schema)


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


def open_sqlite(path: Path) -> Any:
    """Open a SQLite file, read-only.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Ibis connection
        A connection to it.
    """
    return ibis.sqlite.from_connection(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    )


def _list_tables(connection: Any, catalog: str | None) -> dict[str, _Place]:
    """Return the place of each table by the name that may be passed."""
    if connection.name == DUCKDB:
        return _list_duckdb_tables(connection, catalog)
    names = [name for name in connection.list_tables() if not re.match(_MEMTABLE, name)]
    views = _list_sqlite_views(connection) if connection.name == "sqlite" else set()
    return {name: _Place(None, name, name in views) for name in names}


def _list_sqlite_views(connection: Any) -> set[str]:
    rows = connection.con.execute("SELECT name FROM sqlite_master WHERE type = 'view'")
    return {name for (name,) in rows}


def _list_duckdb_tables(connection: Any, catalog: str | None) -> dict[str, _Place]:
    """List the tables in SQL, since Ibis 12 cannot list those of DuckDB 2."""
    catalogs = [connection.current_catalog, "temp"] if catalog is None else [catalog]
    rows = connection.raw_sql(
        "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables"
    ).fetchall()
    return {
        name if schema == "main" else f"{schema}.{name}": _Place(
            (place, schema), name, kind == "VIEW"
        )
        for place, schema, name, kind in rows
        if place in catalogs and not (place == "temp" and name.startswith("ibis_"))
    }


def _is_view(name: str, view: str) -> InvalidInput:
    return InvalidInput(
        "{} has the view {!r}, and a view of a file can read other files. If you trust it, read it "
        "with {}.",
        name,
        view,
        OpenOption("views", True),
    )


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
