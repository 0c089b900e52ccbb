"""What an engine raises, turned into a sentence that names the file or the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from metapac.tables._checks import reason

# Exceptions of these packages tell of a file or a server, not of a mistake in this one.
_ENGINES = ("_duckdb", "duckdb", "ibis", "psycopg", "py4j", "pyarrow", "pyspark", "sqlite3")


class EngineError(ValueError):
    """What an engine could not read or write, said with the name of it."""


@contextmanager
def reading(name: str, *, is_file: bool = False) -> Iterator[str]:
    """Lend the name of a source, and turn what an engine raises into a sentence about it."""
    try:
        yield name
    except Exception as error:
        if not _of_an_engine(error):
            raise
        if "OutOfMemory" in type(error).__name__:
            raise EngineError(f"{name}: {reason(error)}. Raise memory_limit.") from error
        hint = " If it is truncated, or of another kind than its name says, write it again."
        raise EngineError(f"{name} cannot be read ({reason(error)}).{hint * is_file}") from error


@contextmanager
def writing(name: str) -> Iterator[None]:
    """Turn what an engine raises into a sentence about what it was to write."""
    try:
        yield
    except Exception as error:
        if not _of_an_engine(error):
            raise
        raise EngineError(f"{name} cannot be written ({reason(error)}).") from error


def _of_an_engine(error: Exception) -> bool:
    return type(error).__module__.split(".")[0] in _ENGINES
