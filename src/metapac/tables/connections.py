"""The engine that reads files: DuckDB, embedded, unless asked for Spark."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

import ibis

from metapac import _checks
from metapac.tables._checks import reason

_ENGINES = ("duckdb", "spark")


def connect(
    engine: str = "duckdb",
    *,
    master: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
) -> Any:
    """Return an Ibis connection for ``calibrate_table`` and its kin.

    DuckDB runs in this process and spills to the temporary folder what does not fit into
    ``memory_limit``, such as "4GiB". Spark runs at ``master``, by default on this machine.
    """
    _checks.one_of("engine", engine, _ENGINES)
    if threads is not None and not (isinstance(threads, int) and threads > 0):
        raise ValueError(f"threads must be a whole number from 1 on, got {threads!r}.")
    if engine == "spark":
        return _spark(master, memory_limit, threads)
    if master is not None:
        raise ValueError(f"master is for engine='spark', got master={master!r} with DuckDB.")
    return _duckdb(memory_limit, threads)


def _duckdb(memory_limit: str | None, threads: int | None) -> Any:
    import duckdb

    spill = Path(tempfile.gettempdir()) / f"metapac-{os.getpid()}-{secrets.token_hex(4)}"
    config: dict[str, Any] = {"temp_directory": str(spill)}
    if threads is not None:
        config["threads"] = threads
    if memory_limit is not None:
        config["memory_limit"] = memory_limit
    try:
        return ibis.duckdb.connect(**config)
    except duckdb.Error as error:
        raise ValueError(
            f"memory_limit must be a size such as '4GiB', got {memory_limit!r}."
        ) from error


def _spark(master: str | None, memory_limit: str | None, threads: int | None) -> Any:
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "engine='spark' needs pyspark. Install it with: pip install 'metapac[spark]'",
            name=error.name,
        ) from error
    master = master or f"local[{threads or '*'}]"
    builder = SparkSession.builder.appName("metapac").master(master)
    for name, value in _spark_settings(master, memory_limit).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise ValueError(
            f"Spark did not start at {master!r} ({_cause(error)}). It needs Java 17 or newer on "
            "this machine and, unless it runs here, a cluster that answers at that address."
        ) from error
    return ibis.pyspark.connect(session)


def _cause(error: Exception) -> str:
    said = reason(error)
    return "no master answered" if "stopped SparkContext" in said else said


def _spark_settings(master: str, memory_limit: str | None) -> dict[str, str]:
    settings = {
        # Tasks and their brackets are sent to every worker: scores stay where they are.
        "spark.sql.autoBroadcastJoinThreshold": "512m",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # site=007 in a path is a name, not a number.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if master.startswith("local"):
        here = "127.0.0.1"
        settings |= {"spark.driver.bindAddress": here, "spark.driver.host": here}
        settings["spark.ui.enabled"] = "false"
    if memory_limit is not None:
        settings["spark.driver.memory"] = memory_limit.lower().replace("ib", "").rstrip("b")
    return settings
