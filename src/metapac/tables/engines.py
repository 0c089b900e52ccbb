"""Engines: connections, databases, and what each engine can do."""

from __future__ import annotations

import re
import sqlite3
import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ibis

from metapac._common import Table, as_whole_number, check_one_of, require
from metapac.artefact import private_folder
from metapac.errors import InvalidInput, keyword
from metapac.tables.errors import reason

DUCKDB, SPARK = "duckdb", "pyspark"  # the names that Ibis gives them


@dataclass(frozen=True)
class Traits:
    """What an engine can and cannot do."""

    in_process: bool = False
    ignores_case: bool = False
    has_lists: bool = True
    has_nan: bool = True
    nan_is_largest: bool = False
    overflows_to_infinity: bool = False
    has_collations: bool = False
    mixes_types: bool = False
    parses_java_numbers: bool = False
    has_positions: bool = False
    has_median: bool = False
    has_timezone_function: bool = False


_TRAITS = {
    DUCKDB: Traits(
        in_process=True,
        ignores_case=True,
        nan_is_largest=True,
        overflows_to_infinity=True,
        has_positions=True,
        has_median=True,
        has_timezone_function=True,
    ),
    SPARK: Traits(
        ignores_case=True,
        nan_is_largest=True,
        overflows_to_infinity=True,
        parses_java_numbers=True,
        has_positions=True,
        has_median=True,
    ),
    "postgres": Traits(nan_is_largest=True, has_median=True, has_timezone_function=True),
    "sqlite": Traits(
        in_process=True,
        ignores_case=True,
        has_lists=False,
        has_nan=False,
        has_collations=True,
        mixes_types=True,
    ),
}


def traits_of(connection: Any) -> Traits:
    """Return the traits of an engine; for one that is not listed, the most cautious ones."""
    return _TRAITS.get(connection.name, Traits())


_ENGINES = ("duckdb", "spark")
# DuckDB would otherwise download and run code that a query or an address calls for.
_NO_DOWNLOADS = {
    "allow_community_extensions": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def connect(
    engine: str = "duckdb",
    *,
    master: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
) -> Any:
    """Return an Ibis connection for ``calibrate_table`` and the other table functions.

    Parameters
    ----------
    engine : {"duckdb", "spark"}, default "duckdb"
        DuckDB runs in this process; Spark runs at ``master``.
    master : str, optional
        Spark master URL, such as "spark://host:7077"; by default Spark runs on this machine.
    memory_limit : str, optional
        Memory that the engine may use, such as "4GiB". DuckDB spills the rest to the temporary
        folder.
    threads : int, optional
        Number of engine threads; by default one for each core.

    Returns
    -------
    ibis.BaseBackend
        The connection. Close it with its method ``disconnect``.

    Raises
    ------
    InvalidInput
        If an option is not valid, or if Spark does not start.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac.tables import calibrate_table, connect
    >>> connection = connect(memory_limit="1GiB", threads=1)
    >>> frame = pd.DataFrame({"site": [i % 40 for i in range(2000)], "score": range(2000)})
    >>> calibrate_table(
    ...     frame, task="site", score="score", epsilon=0.1, alpha=0.1, delta=0.1,
    ...     connection=connection,
    ... ).threshold_
    120.0
    >>> connection.disconnect()
    """
    check_one_of("engine", engine, _ENGINES)
    if threads is not None:
        threads = as_whole_number("threads", threads)
    if engine == "spark":
        return _connect_spark(master, memory_limit, threads)
    if master is not None:
        raise InvalidInput(
            f"{keyword('master', master)} applies only to Spark, and the engine is DuckDB. Pass "
            "engine='spark', or leave it out."
        )
    return _connect_duckdb(memory_limit, threads)


def _connect_duckdb(memory_limit: str | None, threads: int | None) -> Any:
    duckdb = require("duckdb", extra="tables", purpose="reading tables")
    scratch = ExitStack()
    spill = scratch.enter_context(private_folder("metapac-spill"))
    config = {"temp_directory": str(spill), "threads": threads, "memory_limit": memory_limit}
    try:
        given = {name: value for name, value in config.items() if value is not None}
        connection = ibis.duckdb.connect(**given, **_NO_DOWNLOADS)
        return _close_with(connection, scratch)
    except (duckdb.Error, RuntimeError) as error:  # RuntimeError for text that is not UTF-8
        scratch.close()
        raise InvalidInput(
            f"memory_limit must be a size such as 4GiB, got {memory_limit!r}. Pass "
            "memory_limit='4GiB'.",
            parameter="memory_limit",
        ) from error


def _connect_spark(master: str | None, memory_limit: str | None, threads: int | None) -> Any:
    sql = require("pyspark.sql", extra="spark", purpose="Spark")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    master = master or f"local[{threads or '*'}]"
    builder = sql.SparkSession.builder.appName("metapac").master(master)
    for name, value in _spark_settings(master, memory_limit).items():
        builder = builder.config(name, value)
    scratch = ExitStack()
    if master.startswith("local"):  # by default, a folder in the working directory
        warehouse = scratch.enter_context(private_folder("metapac-spark"))
        builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        scratch.close()
        no_answer = "stopped SparkContext" in reason(error)
        why = "no master answered" if no_answer else reason(error)
        raise InvalidInput(
            f"Spark did not start at {master!r} ({why}). It needs Java 17 or "
            "newer on this machine and, unless it runs here, a cluster that answers at that "
            "address."
        ) from error
    return _close_with(ibis.pyspark.connect(session), scratch)


def _close_with(connection: Any, scratch: ExitStack) -> Any:
    """Return the connection, whose scratch folder goes with it, or at the end of the process."""
    delete = weakref.finalize(connection, scratch.close)
    disconnect = connection.disconnect

    def close() -> None:
        try:
            disconnect()
        finally:
            delete()

    connection.disconnect = close
    return connection


def _spark_settings(master: str, memory_limit: str | None) -> dict[str, str]:
    settings = {
        # Small tables of tasks are sent to every worker, so that the scores stay in place.
        "spark.sql.autoBroadcastJoinThreshold": "512m",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # site=007 in a path is a name, not a number.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if master.startswith("local"):
        localhost = "127.0.0.1"
        settings |= {"spark.driver.bindAddress": localhost, "spark.driver.host": localhost}
        settings["spark.ui.enabled"] = "false"
    if memory_limit is not None:
        settings["spark.driver.memory"] = memory_limit.lower().replace("ib", "").rstrip("b")
    return settings


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
    """Return a table of a database: the one named, or the only one."""
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
    """Attach a DuckDB file to a DuckDB connection, read-only."""
    alias: str = ibis.util.gen_name("file")
    quoted = str(path.absolute()).replace("'", "''")
    connection.raw_sql(f"ATTACH '{quoted}' AS {alias} (READ_ONLY)")
    return alias


def open_sqlite(path: Path) -> Any:
    """Open a SQLite file, read-only."""
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
        f"{name} has the view {view!r}, and a view of a file can read other files. If you trust "
        "it, read it with views=True."
    )


def _not_found(name: str, table: str | None, names: list[str]) -> InvalidInput:
    if not names:
        return InvalidInput(f"{name} holds no table. Pass a database with one.")
    problem = "holds several tables" if table is None else f"has no table {table!r}"
    return InvalidInput(
        f"{name} {problem}; it has: {', '.join(names)}. Pass one of them as table.",
        parameter="table",
    )
