"""Tables of a database: which there are, and the one that is meant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ibis

from metapac.tables._checks import Table

_OF_IBIS = r"ibis_\w+_memtable_"  # frames that it lent to the database


def pick(connection: Any, name: str, table: str | None, catalog: str | None = None) -> Table:
    """Return a table of a database called ``name`` in messages: the one named, or the only one.

    Tables of another schema than the usual are named schema.table.
    """
    if connection.name == "duckdb":
        there = _duckdb_tables(connection, catalog)
    else:
        own = (each for each in connection.list_tables() if not re.match(_OF_IBIS, each))
        there = {each: (None, each) for each in own}
    if table is None and len(there) == 1:
        (table,) = there
    if table is not None and table not in there and connection.name != "duckdb" and "." in table:
        schema, _, plain = table.rpartition(".")
        there[table] = (schema, plain)
    if table is None or table not in there:
        raise _not_there(name, table, sorted(there))
    place, plain = there[table]
    return connection.table(plain, database=place)


def attached(connection: Any, path: Path) -> str:
    """Attach a DuckDB file to a DuckDB connection, to be read only; return its name there."""
    alias: str = ibis.util.gen_name("file")
    quoted = str(path.absolute()).replace("'", "''")
    connection.raw_sql(f"ATTACH '{quoted}' AS {alias} (READ_ONLY)")
    return alias


def _not_there(name: str, table: str | None, names: list[str]) -> ValueError:
    if not names:
        return ValueError(f"{name} holds no table. Pass a database with one.")
    wanted = "holds several tables" if table is None else f"has no table {table!r}"
    return ValueError(f"{name} {wanted}; it has: {', '.join(names)}. Pass one of them as table.")


def _duckdb_tables(connection: Any, catalog: str | None) -> dict[str, tuple[Any, str]]:
    """Return where each table is and its name there, which Ibis 12 cannot ask DuckDB 2 for."""
    places = [connection.current_catalog, "temp"] if catalog is None else [catalog]
    found = connection.raw_sql(
        "SELECT table_catalog, table_schema, table_name FROM information_schema.tables"
    ).fetchall()
    return {
        own if schema == "main" else f"{schema}.{own}": ((place, schema), own)
        for place, schema, own in found
        if place in places and not (place == "temp" and own.startswith("ibis_"))
    }
