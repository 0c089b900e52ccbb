"""Engines: how tables are read, connections, databases, and what each engine can do."""

from __future__ import annotations

import re
import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import ibis

from metapac._common import Table, as_whole_number, check_one_of, require
from metapac.artefact import private_folder
from metapac.errors import InvalidInput, keyword
from metapac.tables.errors import pick_name, reason

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


_BOTH = ("ignores_case", "nan_is_largest", "overflows_to_infinity", "has_positions", "has_median")
_SHARED = dict.fromkeys(_BOTH, True)  # by DuckDB and Spark
_TRAITS = {
    DUCKDB: Traits(in_process=True, has_timezone_function=True, **_SHARED),
    SPARK: Traits(parses_java_numbers=True, **_SHARED),
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


# DuckDB would otherwise download and run code that a query or an address calls for.
_CODE = "allow_community_extensions autoinstall_known_extensions autoload_known_extensions"
_NO_DOWNLOADS = dict.fromkeys(_CODE.split(), False)


def connect(
    engine: str = "duckdb",
    *,
    master: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
) -> Any:
    """Return an Ibis connection, the engine that `Reading` takes.

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
    >>> from metapac import Columns, MetaPS, Reading, open_table
    >>> from metapac.tables import connect
    >>> connection = connect(memory_limit="1GiB", threads=1)
    >>> frame = pd.DataFrame({"site": [i % 40 for i in range(2000)], "score": range(2000)})
    >>> columns = Columns(task="site", score="score")
    >>> table = open_table(frame, columns, Reading(connection=connection))
    >>> MetaPS(epsilon=0.1, alpha=0.1, delta=0.1).calibrate(table).threshold_
    120.0
    >>> connection.disconnect()
    """
    check_one_of("engine", engine, ("duckdb", "spark"))
    if threads is not None:
        threads = as_whole_number("threads", threads)
    if engine == "spark":
        return _connect_spark(master, memory_limit, threads)
    if master is not None:
        given = keyword("master", master)
        raise InvalidInput(f"{given} applies only to Spark, and the engine is DuckDB.")
    return _connect_duckdb(memory_limit, threads)


def _connect_duckdb(memory_limit: str | None, threads: int | None) -> Any:
    duckdb = require("duckdb", extra="tables", purpose="reading tables")
    scratch = ExitStack()
    spill = scratch.enter_context(private_folder("metapac-spill"))
    config = {"temp_directory": str(spill), "threads": threads, "memory_limit": memory_limit}
    given = {name: value for name, value in config.items() if value is not None}
    try:
        return _close_with(ibis.duckdb.connect(**given, **_NO_DOWNLOADS), scratch)
    except (duckdb.Error, RuntimeError) as error:  # RuntimeError for text that is not UTF-8
        scratch.close()
        text = f"memory_limit must be a size such as 4GiB, got {memory_limit!r}."
        raise InvalidInput(text, parameter="memory_limit") from error


_SPARK_SETTINGS = {
    # Small tables of tasks are sent to every worker, so that the scores stay in place.
    "spark.sql.autoBroadcastJoinThreshold": "512m",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # site=007 in a path is a name, not a number.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_HOST = dict.fromkeys(("spark.driver.bindAddress", "spark.driver.host"), "127.0.0.1")
_SPARK_HERE = {**_HOST, "spark.ui.enabled": "false"}


def _connect_spark(master: str | None, memory_limit: str | None, threads: int | None) -> Any:
    sql = require("pyspark.sql", extra="spark", purpose="Spark")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    master = master or f"local[{threads or '*'}]"
    builder = sql.SparkSession.builder.appName("metapac").master(master)
    settings, scratch = dict(_SPARK_SETTINGS), ExitStack()
    if memory_limit is not None:
        settings["spark.driver.memory"] = memory_limit.lower().replace("ib", "").rstrip("b")
    if master.startswith("local"):  # by default, a folder in the working directory
        warehouse = scratch.enter_context(private_folder("metapac-spark"))
        settings |= {**_SPARK_HERE, "spark.sql.warehouse.dir": str(warehouse)}
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        scratch.close()
        raise InvalidInput(
            f"Spark did not start at {master!r} ({reason(error)}). It needs Java 17 or newer on "
            "this machine and, unless it runs here, a cluster that answers at that address."
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


_MEMTABLE = r"ibis_\w+_memtable_"  # frames that Ibis registered in the database
_DUCKDB_TABLES = """
    SELECT database_name, schema_name, view_name, true FROM duckdb_views() WHERE NOT internal
    UNION ALL
    SELECT database_name, schema_name, table_name, sql ILIKE '%GENERATED ALWAYS AS%'
    FROM duckdb_tables()
"""


def pick_table(
    connection: Any, name: str, table: str | None, catalog: str | None = None, *, views: bool = True
) -> Table:
    """Return a table of a database: the one named, or the only one."""
    tables = _list_tables(connection, catalog)
    computed = [key for key, (*_, is_computed) in tables.items() if is_computed and not views]
    names = sorted(tables.keys() - computed)
    if table in computed or (computed and not names and table is None):
        raise InvalidInput(
            f"{name}: {table or computed[0]!r} is a view or has generated columns, which can read "
            f"other files. If you trust it, read it with {keyword('views', True)}."
        )
    if table is not None and table not in names and "." in table and connection.name != DUCKDB:
        schema, _, plain = table.rpartition(".")
        return connection.table(plain, database=schema)
    place, plain, _ = tables[pick_name(name, table, names, "table")]
    return connection.table(plain, database=place)


def _list_tables(connection: Any, catalog: str | None) -> dict[str, tuple[Any, str, bool]]:
    """Return the place and the name of each table, and whether it is computed."""
    if connection.name != DUCKDB:
        names = [name for name in connection.list_tables() if not re.match(_MEMTABLE, name)]
        query = "SELECT name FROM sqlite_master WHERE type = 'view'"
        views = connection.con.execute(query).fetchall() if connection.name == "sqlite" else []
        return {name: (None, name, (name,) in views) for name in names}
    catalogs = [connection.current_catalog, "temp"] if catalog is None else [catalog]
    rows = connection.raw_sql(_DUCKDB_TABLES).fetchall()  # Ibis 12 cannot list those of DuckDB 2
    return {
        name if schema == "main" else f"{schema}.{name}": ((place, schema), name, is_computed)
        for place, schema, name, is_computed in rows
        if place in catalogs and not (place == "temp" and name.startswith("ibis_"))
    }
