"""Engines: connections and databases, what each can do, its errors, exact arithmetic in all."""

from __future__ import annotations

import json
import math
import re
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import ibis
import numpy as np
import pyarrow as pa

from metapac._common import Array, Table, as_whole_number, check_one_of, require
from metapac._text import scrub_line
from metapac.artefact import private_folder
from metapac.errors import EngineError, InvalidInput, keyword

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
        raise InvalidInput(text) from error


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
        text = f"Spark did not start at {master!r} ({reason(error)}). It needs Java 17 or newer on"
        text += " this machine and, unless it runs here, a cluster that answers at that"
        raise InvalidInput(f"{text} address.") from error
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
        text = f"{name}: {table or computed[0]!r} is a view or has generated columns, which can"
        text += " read other files. If you trust it, read it with"
        raise InvalidInput(f"{text} {keyword('views', True)}.")
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


# Exceptions from these packages report a problem with a file or a server, not a bug in metapac.
_PACKAGES = r"_?duckdb|ibis|psycopg|py4j|pyarrow|pyspark|python_calamine|sqlite3|xml"


@contextmanager
def reporting(
    name: str, verb: str = "read", *, is_file: bool = False, address: str = ""
) -> Iterator[None]:
    """Turn an error of an engine into an ``EngineError`` that names the table.

    Of an address, neither the message nor a traceback shows more than ``mask`` does.
    """
    try:
        with warnings.catch_warnings():  # Ibis 12 calls what DuckDB 2 deprecates
            warnings.filterwarnings("ignore", "fetch_arrow_table", DeprecationWarning)
            yield
    except Exception as error:
        if not re.match(rf"(?:{_PACKAGES})\b", type(error).__module__):
            raise
        why, cause = reason(error, address), None if address else error
        if "OutOfMemory" in type(error).__name__:
            text = f"{name}: {why}. Raise memory_limit."
            raise EngineError(text, parameter="memory_limit") from cause
        hint = " Is it truncated, or of another type than its name says?" if is_file else ""
        raise EngineError(f"{name} cannot be {verb} ({why}).{hint}") from cause


def reason(error: BaseException, address: str = "") -> str:
    """Return an engine's error message in one line; of a Java error, the root cause."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    message = str(error if cause is None else cause.getMessage())
    inside = re.search(r'"exception_message":("(?:[^"\\]|\\.)*")', message)  # of DuckDB 2
    message = json.loads(inside[1]) if inside else message
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return scrub_line(lines[0], address) if lines else type(error).__name__


def pick_name(title: str, wanted: str | None, names: Sequence[str], noun: str) -> str:
    """Return the table or sheet that is wanted, or the only one."""
    if wanted in names:
        return str(wanted)
    if wanted is None and len(names) == 1:
        return names[0]
    if not names:
        raise InvalidInput(f"{title} holds no {noun}. Pass a file with one.")
    problem = f"holds several {noun}s" if wanted is None else f"has no {noun} {wanted!r}"
    text = f"{title} {problem}; it has: {', '.join(names)}. Pass one of them as table."
    raise InvalidInput(text, parameter="table")


def check_case_collisions(name: str, columns: Sequence[str]) -> None:
    """Raise InvalidInput for equal names; engines may also confuse those that differ in case."""
    seen: dict[str, str] = {}
    for column in columns:
        if column.lower() in seen:
            both = f"{seen[column.lower()]!r} and {column!r}"
            raise InvalidInput(
                f"{name} has columns {both}, which differ at most in case. Rename one."
            )
        seen[column.lower()] = column


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 row" or "2 rows"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def previous_float(values: Array) -> Array:
    """Return the largest number of the same precision below each value."""
    with np.errstate(over="ignore", under="ignore"):  # to infinity, and to subnormal numbers
        return np.asarray(np.nextafter(values, values.dtype.type(-np.inf)))


def next_float(values: Array) -> Array:
    """Return the smallest number of the same precision above each value."""
    return -previous_float(-values)


def exact(value: float) -> Any:
    """Return a number as integers and powers of two, which no engine rounds in a query."""
    fraction, exponent = math.frexp(value)
    expression, power = ibis.literal(int(fraction * 2**53)).cast("float64"), exponent - 53
    while power:
        step = max(-60, min(power, 60))  # so that 2**step fits into an integer of 64 bits
        factor = ibis.literal(2 ** abs(step)).cast("float64")
        expression = expression * factor if step > 0 else expression / factor
        power -= step
    return expression


def upload(task_type: Any, tasks: Sequence[Any], **columns: Array) -> Table:
    """Return a small table to join by ``task``: unlike in a query, its numbers are not rounded."""
    arrays = {name: pa.array(column) for name, column in columns.items()}
    arrays["task"] = pa.array(tasks, type=task_type.to_pyarrow())
    return ibis.memtable(pa.table(arrays))


def as_int(condition: Any) -> Any:
    """Return 1 or 0; not every engine converts booleans to numbers."""
    return condition.ifelse(1, 0)


def add_up(terms: list[Any]) -> Any:
    """Return the sum of expressions, nested as little as possible."""
    while len(terms) > 1:
        terms = [reduce(lambda a, b: a + b, terms[i : i + 8]) for i in range(0, len(terms), 8)]
    return terms[0]


def constant_list(texts: Sequence[str]) -> Any:
    """Return a list of texts as one constant, however long it is."""
    used = {*"".join(texts)}
    separator = next(mark for mark in map(chr, range(0x1F, 0, -1)) if mark not in used)
    return ibis.literal(separator.join(texts)).split(separator)


def constant_floats(values: Sequence[float]) -> Any:
    """Return a list of numbers as one constant; text is converted without rounding."""
    texts = [repr(float(value)).replace("inf", "Infinity") for value in values]
    return constant_list(texts).map(lambda text: text.cast("float64"))


def pick(lists: Any, position: Any) -> Any:
    """Return the entry of a list at a position; null if the position is null or negative."""
    # Spark takes positions of 32 bits only.
    return (position >= 0).ifelse(lists[position.cast("int32")], ibis.null())
