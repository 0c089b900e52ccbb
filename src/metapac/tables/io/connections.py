"""Connections to the engine that reads files: DuckDB in this process, or Spark."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import Any

import ibis

from metapac import _checks, _optional
from metapac._files import private_folder
from metapac.exceptions import InvalidInput, Parameter
from metapac.tables.io.errors import reason

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
    _checks.check_one_of("engine", engine, _ENGINES)
    if threads is not None:
        threads = _checks.as_whole_number("threads", threads)
    if engine == "spark":
        return _connect_spark(master, memory_limit, threads)
    if master is not None:
        raise InvalidInput(
            "{} applies only to Spark, and the engine is DuckDB. Pass {}, or leave it out.",
            Parameter("master", master),
            Parameter("engine", "spark"),
        )
    return _connect_duckdb(memory_limit, threads)


def _connect_duckdb(memory_limit: str | None, threads: int | None) -> Any:
    duckdb = _optional.require("duckdb", extra="tables", purpose="reading tables")
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
            "{} must be a size such as 4GiB, got {!r}. Pass {}.",
            Parameter("memory_limit"),
            memory_limit,
            Parameter("memory_limit", "4GiB"),
        ) from error


def _connect_spark(master: str | None, memory_limit: str | None, threads: int | None) -> Any:
    sql = _optional.require("pyspark.sql", extra="spark", purpose="Spark")
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
