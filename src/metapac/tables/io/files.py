"""Files by path, glob or folder: how they are found, recognised and read."""

from __future__ import annotations

import errno
import fnmatch
import glob
import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ibis.backends.sql.datatypes import DuckDBType

from metapac._types import Table
from metapac.exceptions import InvalidInput
from metapac.tables.io import csv_text, spark_files
from metapac.tables.io.engines import SPARK

_TEXT = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json"}
_GZIPPED = {f"{suffix}.gz": kind for suffix, kind in _TEXT.items()}
_SUFFIXES = {".parquet": "parquet", ".pq": "parquet", **_TEXT, **_GZIPPED}
_STORES = ("abfs", "abfss", "az", "file", "gcs", "gs", "hdfs", "http", "https", "r2", "s3", "s3a")
# site=007 in a path is a name, not a number.
_HIVE = {"hive_types_autocast": False}
_PARQUET = {**_HIVE, "union_by_name": True}
_CSV = {**_HIVE, "quote": '"', "escape": '"'}
_JSON = {**_HIVE, "format": "newline_delimited"}
_MAGIC = {"parquet": (0, b"PAR1"), "sqlite": (0, b"SQLite format 3\0"), "duckdb": (8, b"DUCK")}


def scheme(text: str) -> str | None:
    """Return the part before :// in lower case; None if there is none.

    Parameters
    ----------
    text : str
        A path or an address.

    Returns
    -------
    str or None
        The scheme.
    """
    match = re.match(r"([a-zA-Z][a-zA-Z0-9+]*)://", text)
    return match[1].lower() if match else None


def is_remote(text: str) -> bool:
    """Return whether an address points to files that only the engine can find.

    Parameters
    ----------
    text : str
        A path or an address.

    Returns
    -------
    bool
        True for object stores, web servers and file:// addresses.
    """
    return scheme(text) in _STORES


def hide_password(address: str) -> str:
    """Return an address with stars in place of its password.

    Parameters
    ----------
    address : str
        The address of a database.

    Returns
    -------
    str
        The address to show in messages.
    """
    password = urlsplit(address).password
    address = address.replace(f":{password}@", ":***@") if password else address
    return re.sub(r"(password=)[^&]*", r"\1***", address, flags=re.IGNORECASE)


def find(paths: Sequence[str]) -> tuple[str, list[Path]]:
    """Return the kind of the files at some paths, globs or folders, and the files.

    Parameters
    ----------
    paths : sequence of str
        Paths, globs or folders. A file counts once, even if several of them match it.

    Returns
    -------
    kind : {"parquet", "csv", "json", "duckdb", "sqlite"}
        Kind of all files.
    files : list of Path
        The files.

    Raises
    ------
    InvalidInput
        If the files are of several kinds, or if several databases match.
    FileNotFoundError
        If a path matches nothing.
    """
    distinct = {file.resolve(): file for path in paths for file in _expand(path)}
    files = list(distinct.values())
    if not files:
        raise InvalidInput("source is an empty list of paths. Pass at least one.")
    name = display_name(paths)
    kinds = {_kind(file): file for file in reversed(files)}
    if len(kinds) > 1:
        examples = " and ".join(f"{kind} ({file})" for kind, file in kinds.items())
        raise InvalidInput(
            f"{name} holds files of several kinds: {examples}. Pass files of one kind."
        )
    (kind,) = kinds
    if len(files) > 1 and kind in ("duckdb", "sqlite"):
        raise InvalidInput(f"{name} matches {len(files)} databases. Pass one.")
    return kind, files


def display_name(paths: Sequence[str]) -> str:
    """Return a name for several paths, for messages.

    Parameters
    ----------
    paths : sequence of str
        The paths.

    Returns
    -------
    str
        The first path, and the number of the others.
    """
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def would_match(origin: str, path: Path) -> bool:
    """Return whether a glob or folder would include a file written to ``path``.

    Parameters
    ----------
    origin : str
        The path, glob or folder that was read.
    path : Path
        The file to write.

    Returns
    -------
    bool
        True if reading ``origin`` again would read that file too.
    """
    if Path(origin).is_dir():
        return path.resolve().is_relative_to(Path(origin).resolve())
    if Path(origin).exists():
        return False
    return _matches(path.absolute().parts, Path(origin).absolute().parts)


def local_path(text: str) -> Path | None:
    """Return the local path that a path or a file:// address stands for.

    Parameters
    ----------
    text : str
        A path or an address.

    Returns
    -------
    Path or None
        The path; None for the address of another machine.
    """
    if scheme(text) == "file":
        return Path(unquote(urlsplit(text).path))
    return None if scheme(text) else Path(text)


def read(connection: Any, kind: str, paths: list[Path]) -> Table:
    """Return files of one kind as one table; the columns of CSV files are text.

    Parameters
    ----------
    connection : Ibis connection
        The engine that reads them.
    kind : {"parquet", "csv", "json"}
        Kind of the files.
    paths : list of Path
        The files.

    Returns
    -------
    ibis.Table
        The table.
    """
    if kind == "json":
        for path in paths:
            _check_json_lines(path)
    if connection.name == SPARK:
        return spark_files.read(connection, kind, paths)
    names = [glob.escape(str(path.absolute())) for path in paths]
    if kind == "parquet":
        return connection.read_parquet(names, **_PARQUET)
    if kind == "json":
        return _read_json(connection, names)
    columns = dict.fromkeys(csv_text.read_common_header(paths), "VARCHAR")
    return connection.read_csv(names, columns=columns, delim=csv_text.delimiter(paths[0]), **_CSV)


def read_remote(connection: Any, address: str) -> tuple[str, Table]:
    """Return the kind and the table of files that only the engine can find.

    Parameters
    ----------
    connection : Ibis connection
        The engine that reads them.
    address : str
        Their address; without a known suffix, they are Parquet files.

    Returns
    -------
    kind : {"parquet", "csv", "json"}
        Kind of the files.
    table : ibis.Table
        The table.
    """
    kind = _suffix_kind(Path(address)) or "parquet"
    if connection.name == SPARK:
        return kind, spark_files.load(connection, kind, [address])
    if kind == "csv":
        delim = csv_text.delimiter(Path(address))
        return kind, connection.read_csv(address, all_varchar=True, delim=delim, **_CSV)
    if kind == "json":
        return kind, _read_json(connection, [address])
    return kind, connection.read_parquet(address, **_PARQUET)


def _expand(path: str) -> list[Path]:
    """Return the files that a path, glob or folder stands for."""
    target = Path(path)
    if target.is_dir():
        files = [file for file in sorted(target.rglob("*")) if _is_data(file, target)]
        problem = "folder holds no Parquet, CSV or JSON lines files"
    elif target.exists():
        return [target]
    elif scheme(path):
        raise InvalidInput(f"{path} is an address, and must be the only source.")
    else:
        names = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (from anywhere, not a folder)
        files = [file for name in names for file in _expand_match(Path(name))]
        problem = "no file matches" if glob.has_magic(path) else "No such file"
    if not files:
        raise FileNotFoundError(errno.ENOENT, problem, path)
    return files


def _expand_match(path: Path) -> list[Path]:
    """Return the file that a glob matched, or the parts of a folder that Spark wrote."""
    if path.is_dir():
        return _expand(str(path)) if _suffix_kind(path) else []
    return [path] if path.is_file() else []


def _is_data(path: Path, folder: Path) -> bool:
    """Return whether a file holds data, unlike files such as _SUCCESS that engines add."""
    is_hidden = any(part[0] in "._" for part in path.relative_to(folder).parts)
    return _suffix_kind(path) is not None and path.is_file() and not is_hidden


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[i:], pattern[1:]) for i in range(len(parts) + 1))
    is_match = bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0])
    return is_match and _matches(parts[1:], pattern[1:])


def _check_json_lines(path: Path) -> None:
    """Raise InvalidInput if a file is empty or does not hold JSON lines."""
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        start = file.read(100)
        file.seek(0)
        first = next((line.strip() for line in file if line.strip()), b"")
    if b'"format": "metapac' in start:
        raise InvalidInput(f"{path} is a metapac file, not a table of scores. Pass the table.")
    if not (first.startswith(b"{") and first.endswith(b"}")):
        content = "an array" if first.startswith(b"[") else "something else"
        raise InvalidInput(
            f"{path} must hold JSON lines, one object per line, got "
            f"{content if first else 'nothing'}. With pandas, write it with "
            "to_json(orient='records', lines=True)."
        )


def _read_json(connection: Any, names: list[str]) -> Table:
    """Read JSON lines; strings that look like dates or identifiers remain strings."""
    table = connection.read_json(names, sample_size=-1, **_JSON)
    schema = table.schema()
    guessed = [name for name, kind in schema.items() if kind.is_temporal() or kind.is_uuid()]
    if not guessed:
        return table
    columns = {name: DuckDBType.to_string(kind) for name, kind in schema.items()}
    columns |= dict.fromkeys(guessed, "VARCHAR")
    return connection.read_json(names, columns=columns, **_JSON)


def _kind(path: Path) -> str:
    if not path.is_file():
        raise InvalidInput(
            f"{path} is not a regular file, and a table is read more than once. Write it to a file "
            "first."
        )
    with path.open("rb") as file:
        start = file.read(16)
    for kind, (offset, magic) in _MAGIC.items():
        if start[offset : offset + len(magic)] == magic:
            return kind
    return _suffix_kind(path) or "csv"


def _suffix_kind(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return _SUFFIXES.get("".join(suffixes)) or _SUFFIXES.get("".join(suffixes[-1:]))
