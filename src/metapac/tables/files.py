"""Files by name, glob or folder: which there are, of what kind, and how an engine reads them."""

from __future__ import annotations

import errno
import glob
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ibis.backends.sql.datatypes import DuckDBType

from metapac.tables import csv_text
from metapac.tables._checks import Table

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".jsonl.gz": "json",
    ".ndjson.gz": "json",
    ".json.gz": "json",
}
_STORES = ("abfs", "abfss", "az", "file", "gcs", "gs", "hdfs", "http", "https", "r2", "s3", "s3a")
# site=007 in a path is a name, not a number.
_PARQUET = {"hive_types_autocast": False, "union_by_name": True}
_CSV = {"delim": ",", "quote": '"', "escape": '"'}
_SPARK_CSV = {"inferSchema": False, "multiLine": True, "escape": '"', "mode": "FAILFAST"}
_MAGIC = {"parquet": (0, b"PAR1"), "sqlite": (0, b"SQLite format 3\0"), "duckdb": (8, b"DUCK")}


def scheme(text: str) -> str | None:
    """Return what stands before :// in an address."""
    found = re.match(r"([a-zA-Z][a-zA-Z0-9+]*)://", text)
    return found[1].lower() if found else None


def is_remote(text: str) -> bool:
    """Whether an address is one of files, which an engine finds by itself."""
    return scheme(text) in _STORES


def without_password(address: str) -> str:
    parts = urlsplit(address)
    return address.replace(f":{parts.password}@", ":***@") if parts.password else address


def find(path: str) -> tuple[str, list[Path]]:
    """Return the kind of the files at a path, a glob or below a folder, and the files."""
    one = Path(path)
    if one.is_dir():
        found = [p for p in sorted(one.rglob("*")) if p.is_file() and not _hidden(p, one)]
        found = [p for p in found if _suffix(p) is not None]
        problem = "folder holds no Parquet, CSV or JSON lines files"
    elif one.exists():
        return _kind(one), [one]
    else:
        names = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (from anywhere, not a folder)
        found = [Path(name) for name in names if Path(name).is_file()]
        problem = "No such file" if not glob.has_magic(path) else "no file matches"
    if not found:
        raise FileNotFoundError(errno.ENOENT, problem, path)
    kinds = {_kind(p): p for p in reversed(found)}
    if len(kinds) > 1:
        examples = " and ".join(f"{kind} ({p})" for kind, p in kinds.items())
        raise ValueError(f"{path} holds files of several kinds: {examples}. Pass one kind.")
    kind = next(iter(kinds))
    if len(found) > 1 and kind in ("duckdb", "sqlite"):
        raise ValueError(f"{path} matches {len(found)} databases. Pass one.")
    return kind, found


def read(connection: Any, kind: str, paths: list[Path], origin: str) -> Table:
    """Return files of one kind, found at the path, glob or folder ``origin``, as a table."""
    if connection.name == "pyspark":
        return _read_with_spark(connection, kind, paths, origin)
    names = [glob.escape(str(p.absolute())) for p in paths]
    if kind == "parquet":
        return connection.read_parquet(names, **_PARQUET)
    if kind == "json":
        return _read_json(connection, names)
    columns = dict.fromkeys(csv_text.common_header(paths), "VARCHAR")
    return connection.read_csv(names, columns=columns, **_CSV)


def read_remote(connection: Any, address: str) -> tuple[str, Table]:
    """Return the kind and the table of files that only the engine can see: Parquet, by default."""
    kind = _suffix(Path(address)) or "parquet"
    spark = connection.name == "pyspark"
    if kind == "csv":
        options = _SPARK_CSV if spark else {"all_varchar": True, **_CSV}
        return kind, connection.read_csv(address, **options)
    if kind == "json":
        read = connection.read_json(address) if spark else _read_json(connection, [address])
        return kind, read
    return kind, connection.read_parquet(address, **({} if spark else _PARQUET))


def _read_json(connection: Any, names: list[str]) -> Table:
    """Read JSON lines; strings stay strings, even such as look like a date or an identifier."""
    table = connection.read_json(names, format="newline_delimited", sample_size=-1)
    schema = table.schema()
    guessed = [name for name, kind in schema.items() if kind.is_temporal() or kind.is_uuid()]
    if not guessed:
        return table
    columns = {name: DuckDBType.to_string(kind) for name, kind in schema.items()}
    columns |= dict.fromkeys(guessed, "VARCHAR")
    return connection.read_json(names, format="newline_delimited", columns=columns)


def _read_with_spark(connection: Any, kind: str, paths: list[Path], origin: str) -> Table:
    names = [str(p.absolute()) for p in paths]
    if kind == "json":
        return connection.read_json(names)
    if kind == "csv":
        csv_text.common_header(paths)
        return connection.read_csv(names, **_SPARK_CSV)
    # A folder as it is, so that site=ohio in the name of one below is found; or all below.
    deep = not any("=" in part for p in paths for part in p.parts)
    options = {"pathGlobFilter": "*.{parquet,pq}", "recursiveFileLookup": deep}
    return connection.read_parquet(origin, **(options if Path(origin).is_dir() else {}))


def _kind(path: Path) -> str:
    if not path.is_file():
        raise ValueError(
            f"{path} is not a plain file, and a table is read more than once. Write it to a file "
            "first."
        )
    with path.open("rb") as file:
        start = file.read(16)
    for kind, (offset, magic) in _MAGIC.items():
        if start[offset : offset + len(magic)] == magic:
            return kind
    return _suffix(path) or "csv"


def _suffix(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return _SUFFIXES.get("".join(suffixes)) or _SUFFIXES.get("".join(suffixes[-1:]))


def _hidden(path: Path, folder: Path) -> bool:
    """Whether a file is of the kind that engines leave beside their data, such as _SUCCESS."""
    return any(part[0] in "._" for part in path.relative_to(folder).parts)
