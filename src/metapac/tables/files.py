"""Files of every kind that tables are read from: CSV, Parquet, Arrow, JSON, Excel."""

from __future__ import annotations

import datetime
import errno
import fnmatch
import functools
import glob
import gzip
import math
import os
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.parsers import expat

import ibis
from ibis.backends.sql.datatypes import DuckDBType

from metapac._common import Table, require, warn
from metapac._text import mask
from metapac.artefact import check_unpacked, read_unpacked
from metapac.errors import InvalidInput
from metapac.tables.csv_text import PLAIN, CsvFormat, name_columns, read_common_header, recode
from metapac.tables.engines import SPARK

_TEXT = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json"}
_GZIPPED = {f"{suffix}.gz": kind for suffix, kind in _TEXT.items()}
_ARROW = dict.fromkeys((".feather", ".arrow", ".ipc"), "arrow")
_EXCEL = dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "excel")
_SUFFIXES = {".parquet": "parquet", ".pq": "parquet", **_TEXT, **_GZIPPED, **_ARROW, **_EXCEL}
_DATABASES = {
    "duckdb": (".duckdb", ".ddb", ".db"),
    "sqlite": (".sqlite", ".sqlite3", ".db3", ".db"),
}
_TITLES = {
    "arrow": "an Arrow file",
    "csv": "CSV",
    "duckdb": "a DuckDB database",
    "excel": "a workbook",
    "gzip": "compressed with gzip",
    "json": "JSON lines",
    "parquet": "a Parquet file",
    "sqlite": "a SQLite database",
    "zip": "a zip archive",
}
_MAGIC = {
    "parquet": (0, b"PAR1"),
    "sqlite": (0, b"SQLite format 3\0"),
    "duckdb": (8, b"DUCK"),
    "arrow": (0, b"ARROW1"),
    "gzip": (0, b"\x1f\x8b"),
    "zip": (0, b"PK\x03\x04"),
    "ole": (0, b"\xd0\xcf\x11\xe0"),
}
# What others write, and how to turn it into something that is read.
_FOREIGN = {
    (".pkl", ".pickle"): "a pickle, which can run code when it is opened. Load it yourself if you "
    "trust it, and pass the frame",
    (".rds", ".rda", ".rdata"): "an R file. In R, save the table with arrow::write_parquet or "
    "write.csv",
    (".sav", ".zsav", ".por"): "an SPSS file. Pass the frame that pandas.read_spss returns",
    (".dta",): "a Stata file. Pass the frame that pandas.read_stata returns",
    (".sas7bdat", ".xpt"): "a SAS file. Pass the frame that pandas.read_sas returns",
    (".h5", ".hdf", ".hdf5"): "an HDF5 file. Pass the frame that pandas.read_hdf returns",
    (".npy", ".npz"): "a file of NumPy arrays. Load it with numpy.load, and pass the arrays to "
    "MetaPS.calibrate",
    (".mdb", ".accdb"): "an Access database. Export the table as CSV",
    (".zip", ".7z", ".tar", ".bz2", ".xz", ".zst"): "an archive. Unpack it first, or compress "
    "text with gzip",
}


def kind_of(path: Path) -> str:
    """Return the kind of a file.

    The first bytes decide; a database must also have a name that says so, because its views can
    read other files.
    """
    if not path.is_file():
        raise InvalidInput(
            f"{path} is not a regular file, and a table is read more than once. Write it to a file "
            "first."
        )
    content, expected = _read_magic(path), suffix_kind(path)
    if content in _DATABASES:
        _check_database_name(path, content)
        return content
    if content in ("zip", "ole") or expected == "excel":
        return _check_workbook(path, content, expected)
    _check_not_foreign(path)
    if content == "gzip":
        _check_gzip_name(path)
    elif content is not None and expected not in (content, None):
        warn(f"{path} is {_TITLES[content]}, not {_TITLES[str(expected)]}, and is read as such.")
    return expected or "csv" if content in (None, "gzip") else content


def suffix_kind(path: Path) -> str | None:
    """Return the kind of a table that a name stands for."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return _SUFFIXES.get("".join(suffixes)) or _SUFFIXES.get("".join(suffixes[-1:]))


def _read_magic(path: Path) -> str | None:
    with path.open("rb") as file:
        start = file.read(16)
    for kind, (offset, magic) in _MAGIC.items():
        if start[offset : offset + len(magic)] == magic:
            return kind
    return None


def _check_database_name(path: Path, kind: str) -> None:
    names = _DATABASES[kind]
    if path.suffix.lower() not in names:
        raise InvalidInput(
            f"{path} is {_TITLES[kind]}, but its name does not say so. If you trust it, rename it "
            f"to end in {names[0]}."
        )


def _check_workbook(path: Path, content: str | None, expected: str | None) -> str:
    """Return "excel", or raise for archives and for files that only bear its name."""
    if expected == "excel" and content in ("zip", "ole"):
        return "excel"
    if expected == "excel":
        raise InvalidInput(
            f"{path} is not a workbook, though its name says so. If it is text, rename it to end "
            "in .csv."
        )
    what = "a zip archive" if content == "zip" else "a file of an office program"
    raise InvalidInput(
        f"{path} is {what}. Unpack it first, or, if it is a workbook, rename it to end in .xlsx."
    )


def _check_not_foreign(path: Path) -> None:
    for suffixes, advice in _FOREIGN.items():
        if path.suffix.lower() in suffixes:
            raise InvalidInput(f"{path} cannot be read: it is {advice}.")


def _check_gzip_name(path: Path) -> None:
    if path.suffix.lower() != ".gz":
        raise InvalidInput(
            f"{path} is compressed with gzip, but its name does not say so. Rename it to end in "
            f"{path.suffix}.gz."
        )


_SPARK_CSV = {
    "header": True,
    "inferSchema": False,
    "multiLine": True,
    "escape": '"',
    "mode": "FAILFAST",
}


def read_spark(
    connection: Any,
    kind: str,
    paths: Sequence[Path],
    columns: Sequence[str] = (),
    separator: str = ",",
) -> Table:
    """Return files as one table."""
    for path in paths:
        if path.name[0] in "_.":
            raise InvalidInput(
                f"{path}: Spark ignores files whose names start with '_' or '.'. Rename it."
            )
    absolute = [path.absolute() for path in paths]
    # Hadoop would expand these characters as a pattern.
    names = [re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path)) for path in absolute]
    options = _partition_options(absolute)
    return load(connection, kind, names, columns, separator=separator, **options)


def load(
    connection: Any,
    kind: str,
    names: list[str],
    columns: Sequence[str] = (),
    *,
    separator: str = ",",
    **options: Any,
) -> Table:
    """Return all files under some names as one table."""
    if kind == "csv":
        options |= {**_SPARK_CSV, "sep": separator}
    if kind == "parquet":
        options["mergeSchema"] = True
    reader = connection._session.read.options(**options)
    if columns:
        reader = reader.schema(_text_schema(columns))
    view = ibis.util.gen_name("read")
    reader.format(kind).load(names).createOrReplaceTempView(view)
    return connection.table(view)


def _text_schema(columns: Sequence[str]) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in columns])


def _partition_options(paths: list[Path]) -> dict[str, Any]:
    """Return the options that turn folders such as site=ohio into columns, if all files agree."""
    roots = [_partition_root(path) for path in paths]
    if roots[0][1] and all(root == roots[0] for root in roots):
        return {"basePath": str(roots[0][0])}
    return {"recursiveFileLookup": True}


def _partition_root(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder above the folders like site=ohio, and the names of these columns."""
    folder, columns = path.parent, []
    while "=" in folder.name:
        columns.append(folder.name.partition("=")[0])
        folder = folder.parent
    return folder, tuple(columns)


_ANY_CELLS, _CELLS_PER_BYTE = 1 << 22, 4  # of 32 bytes each; a full sheet has at most one per byte
_CELL = rb"<(?:[^\s<>:/]+:)?(?:c|[a-z-]+-cell)(?=[\s/>])"
_PLACE = re.compile(_CELL + rb'(?: r="([A-Z]{1,3})([0-9]{1,7})"(?![^<]*\sr\s*=))?')
Cell = Any  # str, float, bool, date, time or timedelta; "" if empty


def read_sheet(path: Path, sheet: str | None) -> Any:
    """Return a sheet of a workbook, whose first row holds the column names."""
    import pyarrow as pa

    calamine = require("python_calamine", extra="excel", purpose=f"{path}: reading a workbook")
    _check_extent(path)
    with calamine.CalamineWorkbook.from_path(str(path)) as workbook:
        name = _pick_sheet(path, sheet, workbook.sheet_names)
        rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=True)
    if not rows:
        raise InvalidInput(
            f"{path}, sheet {name} is empty. Write the column names in its first row."
        )
    names = name_columns(f"{path}, sheet {name}", [_as_text(cell) or "" for cell in rows[0]])
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else [()] * len(names)
    arrays = [_as_array(cells) for cells in columns]
    return pa.Table.from_arrays(arrays, names=names)


def read_arrow(paths: Sequence[Path]) -> Any:
    """Return Arrow files, also called Feather files, as one table."""
    import pyarrow as pa
    from pyarrow import feather

    # Without notes of pandas, which engines would take for an index.
    tables = [feather.read_table(path).replace_schema_metadata(None) for path in paths]
    for table in tables:
        table.validate(full=True)  # engines trust offsets, and a wrong one ends the process
    return pa.concat_tables(tables, promote_options="default")


def _check_extent(path: Path) -> None:
    """Raise if a sheet reaches much further than it has cells: calamine allocates them all."""
    most = max(_ANY_CELLS, _CELLS_PER_BYTE * path.stat().st_size)
    if path.suffix.lower() == ".xls" or _bound_cells(path) <= most:  # .xls is not zipped
        return
    for name, parts in groupby(read_unpacked(path), key=lambda part: part[0]):
        cells = _count_cells(chunk for _, chunk in parts)
        if cells > most:
            raise InvalidInput(
                f"{path} has {path.stat().st_size:,} bytes, but its part {name} reaches over "
                f"{cells:,} cells. Delete stray cells far from the table, or save the sheet as CSV."
            )


def _bound_cells(path: Path) -> float:
    """Return quickly a bound on what `_count_cells` returns, infinite if cells are not numbered."""
    rows, letters, rest = 0, {b"A"}, b""
    for _, chunk in read_unpacked(path):
        text, mark, rest = (rest + chunk).rpartition(b"<")
        rest = mark + rest
        places = _PLACE.findall(text)
        rows = max(rows, *(int(digits or 0) for _, digits in places), 0)
        letters |= {column for column, _ in places}
    is_numbered = b"" not in letters and not _PLACE.match(rest)
    return rows * max(map(_column_number, letters)) if is_numbered else math.inf


def _column_number(letters: bytes) -> int:
    return functools.reduce(lambda number, letter: 26 * number + letter - 64, letters.upper(), 0)


def _count_cells(chunks: Iterable[bytes]) -> int:
    """Return the size of the rectangle around the filled cells of a sheet, or of all in an .ods."""
    total = row = column = rows = columns = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal total, row, column, rows, columns
        kind, place = tag.rpartition(":")[2], attributes.get("r")
        if kind == "c" and place:
            letters = place.rstrip(string.digits)
            row, column = int(place[len(letters) :]), _column_number(letters.encode())
        elif kind in ("c", "table-cell", "covered-table-cell"):
            column += int(attributes.get("table:number-columns-repeated", 1))
        elif kind in ("row", "table-row"):
            step = int(attributes.get("table:number-rows-repeated", 1))
            row, column = int(place or row + step), 0
        elif kind == "table":
            total, row, rows, columns = total + rows * columns, 0, 0, 0
        if kind in ("v", "is") or any(name[:7] in ("office:", "table:f") for name in attributes):
            rows, columns = max(row, rows), max(column, columns)

    parser, fault, end, is_sheet = expat.ParserCreate(), "", b"", False
    parser.StartElementHandler = start
    for chunk in chunks:
        is_sheet = is_sheet or any(tag in end + chunk for tag in (b"sheetData", b"table-row"))
        end = chunk[-10:]
        try:
            fault or parser.Parse(chunk)
        except (expat.ExpatError, ValueError) as error:
            fault = str(error)
    if fault and is_sheet:  # other parts may be of any format
        raise expat.ExpatError(fault)
    return total + rows * columns


def _pick_sheet(path: Path, sheet: str | None, names: list[str]) -> str:
    if sheet is None and len(names) == 1:
        return names[0]
    if sheet is not None and sheet in names:
        return sheet
    problem = "holds several sheets" if sheet is None else f"has no sheet {sheet!r}"
    raise InvalidInput(
        f"{path} {problem}; it has: {', '.join(names)}. Pass one of them as table.",
        parameter="table",
    )


def _as_array(cells: Sequence[Cell]) -> Any:
    """Return a column as numbers or booleans if all cells are, and as text otherwise."""
    import pyarrow as pa

    filled = [cell for cell in cells if cell != ""]
    values = [None if cell == "" else cell for cell in cells]
    if filled and all(isinstance(cell, bool) for cell in filled):
        return pa.array(values, pa.bool_())
    if filled and all(type(cell) in (int, float) for cell in filled):
        if all(float(cell).is_integer() and abs(cell) <= 2**53 for cell in filled):
            return pa.array([None if v is None else int(v) for v in values], pa.int64())
        return pa.array(values, pa.float64())
    return pa.array([_as_text(cell) for cell in cells], pa.string())


def _as_text(cell: Cell) -> str | None:
    """Return a cell as text, null if it is empty: 7.0 is 7, as the sheet shows it."""
    if cell == "":
        return None
    if type(cell) is float and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell)


_STORES = ("abfs", "abfss", "az", "file", "gcs", "gs", "hdfs", "http", "https", "r2", "s3", "s3a")
_MOST_ENTRIES = 100_000  # of a folder that is searched: one such as / is a slip
# site=007 in a path is a name, not a number.
_HIVE = {"hive_types_autocast": False}
_PARQUET = {**_HIVE, "union_by_name": True}
_DUCKDB_CSV = {**_HIVE, "quote": '"', "escape": '"', "header": True}
_JSON = {**_HIVE, "format": "newline_delimited"}
_EXTENSIONS = {  # of DuckDB, by scheme
    **dict.fromkeys(("gcs", "gs", "http", "https", "r2", "s3", "s3a"), "httpfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "azure"),
}


def scheme(text: str) -> str | None:
    """Return the part before :// in lower case; None if there is none."""
    match = re.match(r"([a-zA-Z][a-zA-Z0-9+]*)://", text)
    return match[1].lower() if match else None


def is_remote(text: str) -> bool:
    """Return whether an address points to files that only the engine can find."""
    return scheme(text) in _STORES


def find(paths: Sequence[str]) -> tuple[str, list[Path]]:
    """Return the kind of the files at some paths, globs or folders, and the files."""
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
    """Return a name for several paths, for messages."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def would_match(origin: str, path: Path) -> bool:
    """Return whether a glob or folder would include a file written to ``path``."""
    if Path(origin).is_dir():
        return path.resolve().is_relative_to(Path(origin).resolve())
    if Path(origin).exists():
        return False
    return _matches(path.absolute().parts, Path(origin).absolute().parts)


def local_path(text: str) -> Path | None:
    """Return the local path that a path or a file:// address stands for."""
    if scheme(text) == "file":
        return Path(unquote(urlsplit(text).path))
    return None if scheme(text) else Path(text)


def read(connection: Any, kind: str, paths: list[Path], csv_format: CsvFormat = PLAIN) -> Table:
    """Return files of one kind as one table; the columns of CSV files are text."""
    for path in paths:
        check_unpacked(path)
        if kind == "json":
            _check_json_lines(path)
    if kind == "arrow":
        return ibis.memtable(read_arrow(paths))
    columns = read_common_header(paths, csv_format) if kind == "csv" else []
    separator = csv_format.separator_of(paths[0])
    if kind == "csv" and not csv_format.is_utf8:
        paths = recode(paths, csv_format, connection)
    if connection.name == SPARK:
        return read_spark(connection, kind, paths, columns, separator)
    names = [glob.escape(str(path.absolute())) for path in paths]
    if kind == "parquet":
        return connection.read_parquet(names, **_PARQUET)
    if kind == "json":
        return _read_json(connection, names)
    types = dict.fromkeys(columns, "VARCHAR")
    return connection.read_csv(names, columns=types, delim=separator, **_DUCKDB_CSV)


def read_remote(connection: Any, address: str, csv_format: CsvFormat = PLAIN) -> tuple[str, Table]:
    """Return the kind and the table of files that only the engine can find."""
    path = Path(re.split("[?#]", address)[0])
    kind = suffix_kind(path) or "parquet"
    if kind in ("arrow", "excel") or not csv_format.is_utf8:
        raise InvalidInput(f"{mask(address)} must be downloaded first, and passed as a file.")
    separator = csv_format.separator_of(path)
    if connection.name == SPARK:
        return kind, load(connection, kind, [address], separator=separator)
    _load_extension(connection, address)
    if kind == "csv":
        return kind, connection.read_csv(address, all_varchar=True, delim=separator, **_DUCKDB_CSV)
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
