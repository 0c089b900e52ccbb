"""Files by name, glob or folder: which there are, of what kind, and how an engine reads them."""

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

from metapac.tables import csv_text, spark_files
from metapac.tables._checks import Table

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".jsonl.gz": "json",
    ".ndjson.gz": "json",
    ".json.gz": "json",
}
_STORES = ("abfs", "abfss", "az", "file", "gcs", "gs", "hdfs", "http", "https", "r2", "s3", "s3a")
# site=007 in a path is a name, not a number.
_HIVE = {"hive_types_autocast": False}
_PARQUET = {**_HIVE, "union_by_name": True}
_CSV = {**_HIVE, "quote": '"', "escape": '"'}
_JSON = {**_HIVE, "format": "newline_delimited"}
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
    address = address.replace(f":{parts.password}@", ":***@") if parts.password else address
    return re.sub(r"(password=)[^&]*", r"\1***", address, flags=re.IGNORECASE)


def find(paths: Sequence[str]) -> tuple[str, list[Path]]:
    """Return the kind of the files at paths, globs and below folders, and the files."""
    by_place = {file.resolve(): file for path in paths for file in _found(path)}
    found = list(by_place.values())
    if not found:
        raise ValueError("source is an empty list of paths. Pass at least one.")
    kinds = {_kind(file): file for file in reversed(found)}
    if len(kinds) > 1:
        examples = " and ".join(f"{kind} ({file})" for kind, file in kinds.items())
        raise ValueError(f"{called(paths)} holds files of several kinds: {examples}. Pass one.")
    kind = next(iter(kinds))
    if len(found) > 1 and kind in ("duckdb", "sqlite"):
        raise ValueError(f"{called(paths)} matches {len(found)} databases. Pass one.")
    return kind, found


def called(paths: Sequence[str]) -> str:
    """Return what to call several paths in a message."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _found(path: str) -> list[Path]:
    one = Path(path)
    if one.is_dir():
        inside = [file for file in sorted(one.rglob("*")) if _suffix(file) and file.is_file()]
        found = [file for file in inside if not _hidden(file, one)]
        problem = "folder holds no Parquet, CSV or JSON lines files"
    elif one.exists():
        return [one]
    else:
        if scheme(path):
            raise ValueError(f"{path} is an address, and must be the only source.")
        names = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (from anywhere, not a folder)
        found = [file for name in names for file in _matched(Path(name))]
        problem = "No such file" if not glob.has_magic(path) else "no file matches"
    if not found:
        raise FileNotFoundError(errno.ENOENT, problem, path)
    return found


def _matched(path: Path) -> list[Path]:
    """Return what a match of a glob stands for: itself, or the parts that Spark wrote there."""
    if path.is_dir():
        return _found(str(path)) if _suffix(path) else []
    return [path] if path.is_file() else []


def would_find(origin: str, path: Path) -> bool:
    """Whether a file written to ``path`` would be found next time at a glob or in a folder."""
    if Path(origin).is_dir():
        return path.resolve().is_relative_to(Path(origin).resolve())
    if Path(origin).exists():
        return False
    return _matches(path.absolute().parts, Path(origin).absolute().parts)


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[i:], pattern[1:]) for i in range(len(parts) + 1))
    here = bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0])
    return here and _matches(parts[1:], pattern[1:])


def on_disk(text: str) -> Path | None:
    """Return the path that a path or an address of this machine stands for; else None."""
    if scheme(text) == "file":
        return Path(unquote(urlsplit(text).path))
    return None if scheme(text) else Path(text)


def read(connection: Any, kind: str, paths: list[Path]) -> Table:
    """Return files of one kind as a table."""
    if kind == "json":
        for path in paths:
            _refuse_no_lines(path)
    if connection.name == "pyspark":
        return spark_files.read(connection, kind, paths)
    names = [glob.escape(str(p.absolute())) for p in paths]
    if kind == "parquet":
        return connection.read_parquet(names, **_PARQUET)
    if kind == "json":
        return _read_json(connection, names)
    columns = dict.fromkeys(csv_text.common_header(paths), "VARCHAR")
    return connection.read_csv(names, columns=columns, delim=csv_text.delimiter(paths[0]), **_CSV)


def read_remote(connection: Any, address: str) -> tuple[str, Table]:
    """Return the kind and the table of files that only the engine can see: Parquet, by default."""
    kind = _suffix(Path(address)) or "parquet"
    if connection.name == "pyspark":
        return kind, spark_files.load(connection, kind, [address])
    if kind == "csv":
        delim = csv_text.delimiter(Path(address))
        return kind, connection.read_csv(address, all_varchar=True, delim=delim, **_CSV)
    if kind == "json":
        return kind, _read_json(connection, [address])
    return kind, connection.read_parquet(address, **_PARQUET)


def _refuse_no_lines(path: Path) -> None:
    """Refuse what is JSON but not in lines, and an empty file."""
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        start = file.read(100)
        file.seek(0)
        first = next((line.strip() for line in file if line.strip()), b"")
    if b'"format": "metapac' in start:
        raise ValueError(f"{path} was written by metapac and is no table. Pass a table of scores.")
    if not (first.startswith(b"{") and first.endswith(b"}")):
        found = "an array" if first.startswith(b"[") else "something else"
        raise ValueError(
            f"{path} must hold JSON lines, an object on each, got {found if first else 'nothing'}. "
            "Write it so, as to_json(orient='records', lines=True) of pandas does."
        )


def _read_json(connection: Any, names: list[str]) -> Table:
    """Read JSON lines; strings stay strings, even such as look like a date or an identifier."""
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
