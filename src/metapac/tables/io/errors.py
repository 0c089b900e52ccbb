"""Errors of engines as ``EngineError``, with the name of the file or the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from metapac._masking import scrub
from metapac.exceptions import EngineError, Parameter

# Exceptions from these packages report a problem with a file or a server, not a bug in metapac.
_PACKAGES = (
    "_duckdb",
    "duckdb",
    "ibis",
    "psycopg",
    "py4j",
    "pyarrow",
    "pyspark",
    "python_calamine",
    "sqlite3",
    "xml",
)


@contextmanager
def reporting(
    name: str, verb: str = "read", *, is_file: bool = False, secrets: tuple[str, ...] = ()
) -> Iterator[str]:
    """Turn an error of an engine into an ``EngineError`` that names the table.

    Parameters
    ----------
    name : str
        Name of the table in messages.
    verb : {"read", "written"}, default "read"
        What could not be done with it.
    is_file : bool, default False
        Whether it is read from a file, which may be damaged.
    secrets : tuple of str, optional
        Parts of an address that must not be shown.

    Yields
    ------
    str
        The name.

    Raises
    ------
    EngineError
        If the engine failed.
    """
    try:
        yield name
    except Exception as error:
        if type(error).__module__.split(".")[0] not in _PACKAGES:
            raise
        cause = None if secrets else error  # whose traceback would show them
        if "OutOfMemory" in type(error).__name__:
            raise EngineError(
                "{}: {}. Raise {}.", name, reason(error), Parameter("memory_limit")
            ) from cause
        hint = " If it is truncated, or not of the type that its name says, write it again."
        raise EngineError(
            f"{name} cannot be {verb} ({reason(error, secrets)}).{hint if is_file else ''}"
        ) from cause


def reason(error: BaseException, secrets: tuple[str, ...] = ()) -> str:
    """Return an engine's error message in one line; of a Java error, the root cause.

    Parameters
    ----------
    error : BaseException
        An error of an engine.
    secrets : tuple of str, optional
        Parts of an address that must not be shown.

    Returns
    -------
    str
        The message.
    """
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    message = str(error if cause is None else cause.getMessage())
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return scrub(lines[0], secrets) if lines else type(error).__name__
