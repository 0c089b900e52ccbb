"""Files by path, glob or folder: how they are found, recognised and read."""

from __future__ import annotations

import errno
import fnmatch
import glob
import gzip
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import ibis
from ibis.backends.sql.datatypes import DuckDBType

from metapac._files import check_unpacked
from metapac._masking import mask
from metapac._types import Table
from metapac.exceptions import InvalidInput
from metapac.tables.io import csv_text, spark_files, workbooks
from metapac.tables.io.csv_format import PLAIN, CsvFormat, recode
from metapac.tables.io.engines import SPARK
from metapac.tables.io.kinds import kind_of, suffix_kind

_STORES = ("abfs", "abfss", "az", "file", "gcs", "gs", "hdfs", "http", "https", "r2", "s3", "s3a")
_MOST_ENTRIES = 100_000  # of a folder that is searched: one such as / is a slip
# site=007 in a path is a name, not a number.
_HIVE = {"hive_types_autocast": False}
_PARQUET = {**_HIVE, "union_by_name": True}
_CSV = {**_HIVE, "quote": '"', "escape": '"', "header": True}
_JSON = {**_HIVE, "format": "newline_delimited"}
_EXTENSIONS = {  # of DuckDB, by scheme
    **dict.fromkeys(("gcs", "gs", "http", "https", "r2", "s3", "s3a"), "httpfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "azure"),
}


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


def find(paths: Sequence[str]) -> tuple[str, list[Path]]:
    """Return the kind of the files at some paths, globs or folders, and the files.

    Parameters
    ----------
    paths : sequence of str
        Paths, globs or folders. A file counts once, even if several of them match it.

    Returns
    -------
    kind : {"parquet", "csv", "json", "arrow", "excel", "duckdb", "sqlite"}
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
    _check_names(files)
    name = display_name(paths)
    kinds = {kind_of(file): file for file in reversed(files)}
    if len(kinds) > 1:
        examples = " and ".join(f"{kind} ({file})" for kind, file in kinds.items())
        raise InvalidInput(
            f"{name} holds files of several kinds: {examples}. Pass files of one kind."
        )
    (kind,) = kinds
    if len(files) > 1 and kind in ("duckdb", "excel", "sqlite"):
        noun = "workbooks" if kind == "excel" else "databases"
        raise InvalidInput(f"{name} matches {len(files)} {noun}. Pass one.")
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


def read(connection: Any, kind: str, paths: list[Path], csv_format: CsvFormat = PLAIN) -> Table:
    """Return files of one kind as one table; the columns of CSV files are text.

    Parameters
    ----------
    connection : Ibis connection
        The engine that reads them.
    kind : {"parquet", "csv", "json", "arrow"}
        Kind of the files.
    paths : list of Path
        The files.
    csv_format : CsvFormat, optional
        How CSV files are written.

    Returns
    -------
    ibis.Table
        The table.
    """
    for path in paths:
        check_unpacked(path)
        if kind == "json":
            _check_json_lines(path)
    if kind == "arrow":
        return ibis.memtable(workbooks.read_arrow(paths))
    columns = csv_text.read_common_header(paths, csv_format) if kind == "csv" else []
    separator = csv_format.separator_of(paths[0])
    if kind == "csv" and not csv_format.is_utf8:
        paths = recode(paths, csv_format, connection)
    if connection.name == SPARK:
        return spark_files.read(connection, kind, paths, columns, separator)
    names = [glob.escape(str(path.absolute())) for path in paths]
    if kind == "parquet":
        return connection.read_parquet(names, **_PARQUET)
    if kind == "json":
        return _read_json(connection, names)
    types = dict.fromkeys(columns, "VARCHAR")
    return connection.read_csv(names, columns=types, delim=separator, **_CSV)


def read_remote(connection: Any, address: str, csv_format: CsvFormat = PLAIN) -> tuple[str, Table]:
    """Return the kind and the table of files that only the engine can find.

    Parameters
    ----------
    connection : Ibis connection
        The engine that reads them.
    address : str
        Their address; without a known suffix, they are Parquet files.
    csv_format : CsvFormat, optional
        How CSV files are written.

    Returns
    -------
    kind : {"parquet", "csv", "json"}
        Kind of the files.
    table : ibis.Table
        The table.

    Raises
    ------
    InvalidInput
        If DuckDB has no extension for such an address; none is downloaded.
    """
    path = Path(re.split("[?#]", address)[0])
    kind = suffix_kind(path) or "parquet"
    if kind in ("arrow", "excel") or not csv_format.is_utf8:
        raise InvalidInput(f"{mask(address)} must be downloaded first, and passed as a file.")
    separator = csv_format.separator_of(path)
    if connection.name == SPARK:
        return kind, spark_files.load(connection, kind, [address], separator=separator)
    _load_extension(connection, address)
    if kind == "csv":
        return kind, connection.read_csv(address, all_varchar=True, delim=separator, **_CSV)
    if kind == "json":
        return kind, _read_json(connection, [address])
    return kind, connection.read_parquet(address, **_PARQUET)


def _load_extension(connection: Any, address: str) -> None:
    """Load the extension of DuckDB that reads an address, if the user has installed it."""
    extension = _EXTENSIONS.get(str(scheme(address)))
    if extension is None:  # file:// needs none
        return
    (is_loaded, is_installed), *_ = connection.raw_sql(
        f"SELECT loaded, installed FROM duckdb_extensions() WHERE extension_name = '{extension}'"
    ).fetchall() or [(False, False)]
    if is_loaded:
        return
    if not is_installed:
        raise InvalidInput(
            f"{mask(address)} needs DuckDB's extension {extension}, which is not installed, and "
            "metapac downloads no code. Download the file and pass its path, or install the "
            f"extension once: python -c \"import duckdb; duckdb.sql('INSTALL {extension}')\"."
        )
    connection.raw_sql(f"LOAD {extension}")


def _check_names(files: list[Path]) -> None:
    """Raise for a path that is not UTF-8: Linux allows any bytes, and engines do not."""
    for file in files:
        if any("\ud800" <= character <= "\udfff" for character in str(file.absolute())):
            raise InvalidInput(f"the path of {file} is not valid UTF-8. Rename the file or folder.")


def _expand(path: str) -> list[Path]:
    """Return the files that a path, glob or folder stands for."""
    target = Path(path)
    if target.is_dir():
        files = sorted(_walk(target))
        problem = "folder holds no files that are read, such as Parquet, CSV or JSON lines"
    elif target.exists():
        return [target]
    elif scheme(path):
        raise InvalidInput(f"{mask(path)} is an address, and must be the only source.")
    else:
        names = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (from anywhere, not a folder)
        files = [file for name in names for file in _expand_match(Path(name))]
        problem = "no file matches" if glob.has_magic(path) else "No such file"
    if not files:
        raise FileNotFoundError(errno.ENOENT, problem, mask(path))
    return files


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the data files of a folder, at any depth; hidden ones and those that vanish are not."""
    seen = 0
    for place, folders, names in os.walk(folder):
        seen += len(folders) + len(names)
        if seen > _MOST_ENTRIES:
            raise InvalidInput(
                f"{folder} holds more than {_MOST_ENTRIES:,} files and folders. Pass a folder that "
                "holds the table alone, or a glob."
            )
        folders[:] = [name for name in folders if name[0] not in "._"]
        yield from (Path(place, name) for name in names if _is_data(Path(place, name)))


def _expand_match(path: Path) -> list[Path]:
    """Return the file that a glob matched, or the parts of a folder that Spark wrote."""
    if path.is_dir():
        return _expand(str(path)) if suffix_kind(path) else []
    return [path] if path.is_file() else []


def _is_data(path: Path) -> bool:
    """Return whether a file holds data, unlike files such as _SUCCESS that engines add."""
    return path.name[0] not in "._" and suffix_kind(path) is not None and path.is_file()


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
