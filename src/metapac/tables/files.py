"""Files of every kind that tables are read from: CSV as text, Parquet, Arrow, JSON, Excel."""

from __future__ import annotations

import csv
import datetime
import errno
import glob
import gzip
import math
import os
import re
import shutil
import string
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, reduce
from itertools import groupby
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote
from xml.parsers import expat

import ibis
import pyarrow as pa
from ibis.backends.sql.datatypes import DuckDBType
from pyarrow import feather

from metapac._common import Table, listed, require, warn
from metapac._text import mask
from metapac.artefact import check_unpacked, private_folder, read_unpacked
from metapac.columns import Reading
from metapac.errors import InvalidInput, keyword
from metapac.tables.engines import DUCKDB, SPARK, check_case_collisions, pick_name

_SUFFIXES = {
    "parquet": ".parquet .pq",
    "csv": ".csv .tsv .csv.gz .tsv.gz",
    "json": ".jsonl .ndjson .json .jsonl.gz .ndjson.gz .json.gz",
    "arrow": ".feather .arrow .ipc",
    "excel": ".xlsx .xlsm .xlsb .xls .ods",
}
PLAIN = Reading()
_KINDS = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_DATABASES = {
    "duckdb": (".duckdb", ".ddb", ".db"),
    "sqlite": (".sqlite", ".sqlite3", ".db3", ".db"),
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


def kind_of(path: Path) -> str:
    """Return the kind of a file by its first bytes; a database's name must say so too."""
    if not path.is_file():
        raise InvalidInput(f"{path} is not a regular file, and a table is read more than once.")
    with path.open("rb") as file:
        start = file.read(16)
    magic = (kind for kind, (place, mark) in _MAGIC.items() if start[place:].startswith(mark))
    content, expected, suffix = next(magic, None), suffix_kind(path), path.suffix.lower()
    if content in _DATABASES and suffix not in _DATABASES[content]:
        ending = _DATABASES[content][0]
        raise InvalidInput(f"{path} is a {content} file. If you trust it, let it end in {ending}.")
    if (content in ("zip", "ole")) != (expected == "excel"):
        kinds = "a CSV, JSON lines, Parquet, Arrow, Excel, DuckDB or SQLite file"
        raise InvalidInput(f"{path} cannot be read. Pass {kinds} whose name says so, or a frame.")
    if content == "gzip" and suffix != ".gz":
        raise InvalidInput(f"{path} is compressed with gzip. Rename it to end in {path.suffix}.gz.")
    if content in (None, "gzip", "zip", "ole"):
        return expected or "csv"
    if expected not in (None, content):
        warn(f"{path} is a {content} file, not {expected}, and is read as such.")
    return content


def suffix_kind(path: Path) -> str | None:
    """Return the kind of a table that a name stands for."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return _KINDS.get("".join(suffixes)) or _KINDS.get("".join(suffixes[-1:]))


_ANY_CELLS, _CELLS_PER_BYTE = 1 << 22, 4  # of 32 bytes each; a full sheet has at most one per byte
Cell = Any  # str, float, bool, date, time or timedelta; "" if empty


def read_sheet(path: Path, sheet: str | None) -> Any:
    """Return a sheet of a workbook, whose first row holds the column names."""
    calamine = require("python_calamine", extra="excel", purpose=f"{path}: reading a workbook")
    _check_extent(path)
    with calamine.CalamineWorkbook.from_path(str(path)) as workbook:
        name = pick_name(str(path), sheet, workbook.sheet_names, "sheet")
        rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=True)
    title = f"{path}, sheet {name}"
    if not rows:
        raise InvalidInput(f"{title} is empty. Write the column names in its first row.")
    names = name_columns(title, [_as_text(cell) or "" for cell in rows[0]])
    columns = [[row[i] for row in rows[1:]] for i in range(len(names))]
    return pa.Table.from_arrays([_as_array(cells) for cells in columns], names=names)


def make_table(frame: Any) -> Table:
    """Return a frame as a table; half precision, which DuckDB does not read, as float32."""
    half = [name for name, kind in ibis.memtable(frame).schema().items() if kind.is_float16()]
    if half and isinstance(frame, pa.Table | pa.RecordBatch):
        kinds = {field.name: field.type for field in frame.schema}
        frame = frame.cast(pa.schema(kinds | dict.fromkeys(half, pa.float32())))
    elif half and hasattr(frame, "astype"):
        frame = frame.astype(dict.fromkeys(half, "float32"))
    return ibis.memtable(frame)


def read_arrow(paths: Sequence[Path]) -> Any:
    """Return Arrow files, also called Feather files, as one table."""
    # Without notes of pandas, which engines would take for an index.
    tables = [feather.read_table(path).replace_schema_metadata(None) for path in paths]
    for table in tables:
        table.validate(full=True)  # engines trust offsets, and a wrong one ends the process
    return pa.concat_tables(tables, promote_options="default")


def _check_extent(path: Path) -> None:
    """Raise if a sheet reaches much further than it has cells: calamine allocates them all."""
    most = max(_ANY_CELLS, _CELLS_PER_BYTE * path.stat().st_size)
    if path.suffix.lower() == ".xls":  # which is not zipped
        return
    for name, parts in groupby(read_unpacked(path), key=lambda part: part[0]):
        cells = _count_cells(chunk for _, chunk in parts)
        if cells > most:
            text = f"{path} is small, but its part {name} reaches over {cells:,} cells. Delete"
            raise InvalidInput(f"{text} stray cells far from the table, or save the sheet as CSV.")


def _count_cells(chunks: Iterable[bytes]) -> int:
    """Return the size of the rectangle around the filled cells of a sheet, or of all in an .ods."""
    total = row = column = rows = columns = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal total, row, column, rows, columns
        kind, place = tag.rpartition(":")[2], attributes.get("r")
        if kind == "c" and place:
            letters = place.rstrip(string.digits)
            row, column = int(place[len(letters) :]), _column_number(letters)
        elif kind in ("c", "table-cell", "covered-table-cell"):
            column += int(attributes.get("table:number-columns-repeated", 1))
        elif kind in ("row", "table-row"):
            step = int(attributes.get("table:number-rows-repeated", 1))
            row, column = int(place or row + step), 0
        elif kind == "table":
            total, row, rows, columns = total + rows * columns, 0, 0, 0
        if kind in ("v", "is") or (
            kind != "c" and any(name[:7] in ("office:", "table:f") for name in attributes)
        ):
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


@cache
def _column_number(letters: str) -> int:
    return reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters.upper(), 0)


def _as_array(cells: Sequence[Cell]) -> Any:
    """Return a column as numbers or booleans if all cells are, and as text otherwise."""
    values = [None if cell == "" else cell for cell in cells]
    filled = [value for value in values if value is not None]
    kinds = {type(value) for value in filled}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds and kinds <= {int, float}:
        is_whole = all(float(value).is_integer() and abs(value) <= 2**53 for value in filled)
        return pa.array(values, pa.float64()).cast(pa.int64() if is_whole else pa.float64())
    return pa.array(map(_as_text, cells), pa.string())


def _as_text(cell: Cell) -> str | None:
    """Return a cell as text, null if it is empty: 7.0 is 7, as the sheet shows it."""
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return str(int(cell) if type(cell) is float and cell.is_integer() else cell) or None


# Addresses of files that only the engine can find.
STORES = ("abfs", "abfss", "az", "gcs", "gs", "hdfs", "http", "https", "r2", "s3", "s3a")
_MOST_ENTRIES = 100_000  # of a folder that is searched: one such as / is a slip
# site=007 in a path is a name, not a number.
_HIVE = {"hive_types_autocast": False}
_PARQUET = {**_HIVE, "union_by_name": True}
_CSV = {**_HIVE, "quote": '"', "escape": '"', "header": True}
_JSON = {**_HIVE, "format": "newline_delimited"}
_TEXT = {"header": True, "inferSchema": False, "multiLine": True, "escape": '"', "mode": "FAILFAST"}
_SPARK: dict[str, dict[str, Any]] = {"csv": _TEXT, "parquet": {"mergeSchema": True}}


def scheme(text: str) -> str | None:
    """Return the part before :// in lower case; None if there is none."""
    match = re.match(r"([a-zA-Z][a-zA-Z0-9+]*)://", text)
    return match[1].lower() if match else None


def local_path(text: str) -> Path | None:
    """Return the local path that a path or a file:// address stands for."""
    if scheme(text) == "file":
        return Path(unquote(text.partition("://")[2]))
    return None if scheme(text) else Path(text)


def find(paths: Sequence[str]) -> tuple[str, list[Path]]:
    """Return the kind of the files at some paths, globs or folders, and the files."""
    distinct = {file.resolve(): file for path in paths for file in _expand(path)}
    files = list(distinct.values())
    if not files:
        raise InvalidInput("source is an empty list of paths. Pass at least one.")
    for file in files:  # Linux allows any bytes in a name, and engines do not
        if re.search("[\ud800-\udfff]", str(file.absolute())):
            raise InvalidInput(f"the path of {file} is not valid UTF-8. Rename the file or folder.")
    name = display_name(paths)
    kinds = {kind_of(file): file for file in reversed(files)}
    if len(kinds) > 1:
        examples = " and ".join(f"{kind} ({file})" for kind, file in kinds.items())
        raise InvalidInput(f"{name} holds files of several kinds: {examples}.")
    (kind,) = kinds
    if len(files) > 1 and kind in ("duckdb", "excel", "sqlite"):
        raise InvalidInput(f"{name} matches {len(files)} databases or workbooks. Pass one.")
    return kind, files


def display_name(paths: Sequence[str]) -> str:
    """Return a name for several paths, for messages."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _expand(path: str) -> list[Path]:
    """Return the files that a path, glob or folder stands for."""
    target = local_path(path)
    if target is None:
        raise InvalidInput(f"{mask(path)} is an address, and must be the only source.")
    if target.is_dir():
        files = sorted(_walk(target))
    elif target.exists():
        return [target]
    else:
        names = sorted(glob.glob(str(target), recursive=True))  # noqa: PTH207 (from anywhere)
        files = []
        for match in map(Path, names):  # a folder is one of parts, as Spark writes it
            files += sorted(_walk(match)) if match.is_dir() and suffix_kind(match) else []
            files += [match] if match.is_file() else []
    if not files:
        problem = "folder holds no table" if target.is_dir() else "No such file"
        raise FileNotFoundError(errno.ENOENT, problem, mask(path))
    return files


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the data files of a folder, at any depth; hidden ones and those that vanish are not."""
    seen = 0
    for place, folders, names in os.walk(folder):
        seen += len(folders) + len(names)
        if seen > _MOST_ENTRIES:
            text = f"{folder} holds more than {_MOST_ENTRIES:,} files and folders. Pass a glob."
            raise InvalidInput(text)
        folders[:] = [name for name in folders if name[0] not in "._"]
        paths = [Path(place, name) for name in names if name[0] not in "._"]  # such as _SUCCESS
        yield from (path for path in paths if suffix_kind(path) and path.is_file())


def read(connection: Any, kind: str, paths: list[Path], reading: Reading) -> Table:
    """Return files of one kind as one table; the columns of CSV files are text."""
    for path in paths:
        check_unpacked(path)
    if kind == "excel":
        return ibis.memtable(read_sheet(paths[0], reading.table))
    if kind == "arrow":
        return make_table(read_arrow(paths))
    columns = read_common_header(paths, reading) if kind == "csv" else []
    separator = separator_of(paths[0], reading)
    if kind == "csv" and reading.encoding != "utf-8":
        paths = recode(paths, reading, connection)
    names = [str(path.absolute()) for path in paths]
    if connection.name != SPARK:
        return _load(connection, kind, [*map(glob.escape, names)], separator, columns)
    ignored = [path for path in paths if path.name[0] in "_."]
    if ignored:
        raise InvalidInput(f"{ignored[0]}: Spark ignores names that start with '_' or '.'.")
    # Hadoop would expand these characters as a pattern.
    names = [re.sub(r"([\\*?\[\]{}])", r"\\\1", name) for name in names]
    return _load(connection, kind, names, separator, columns, **_partition_options(paths))


def read_remote(connection: Any, address: str, reading: Reading) -> tuple[str, Table]:
    """Return the kind and the table of files that only the engine can find."""
    path = Path(re.split("[?#]", address)[0])
    kind = suffix_kind(path) or "parquet"
    if kind in ("arrow", "excel") or reading.encoding != "utf-8":
        raise InvalidInput(f"{mask(address)} must be downloaded first, and passed as a file.")
    if connection.name == DUCKDB and scheme(address) != "hdfs":
        _load_extension(connection, address)
    return kind, _load(connection, kind, [address], separator_of(path, reading))


def _load(
    connection: Any,
    kind: str,
    names: list[str],
    separator: str,
    columns: Sequence[str] = (),
    **options: Any,
) -> Table:
    """Return all files under some names as one table."""
    if connection.name == SPARK:
        reader = connection._session.read.options(**options, **_SPARK.get(kind, {}), sep=separator)
        if columns:
            quoted = [name.replace("`", "``") for name in columns]
            reader = reader.schema(", ".join(f"`{name}` STRING" for name in quoted))
        view = ibis.util.gen_name("read")
        reader.format(kind).load(names).createOrReplaceTempView(view)
        return connection.table(view)
    if kind == "parquet":
        return connection.read_parquet(names, **_PARQUET)
    if kind == "csv":
        text = {"columns": dict.fromkeys(columns, "VARCHAR")} if columns else {"all_varchar": True}
        return connection.read_csv(names, delim=separator, **text, **_CSV)
    table = connection.read_json(names, sample_size=-1, **_JSON)
    kinds = table.schema().items()
    guessed = [name for name, kind in kinds if kind.is_temporal() or kind.is_uuid()]
    if not guessed:
        return table
    types = {name: DuckDBType.to_string(kind) for name, kind in kinds}
    types |= dict.fromkeys(guessed, "VARCHAR")  # strings that look like dates remain strings
    return connection.read_json(names, columns=types, **_JSON)


def _partition_options(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the options that turn folders such as site=ohio into columns, if all files agree."""
    (root, columns), *others = {partition_root(path) for path in paths}
    return {"recursiveFileLookup": True} if others or not columns else {"basePath": str(root)}


def _load_extension(connection: Any, address: str) -> None:
    """Load the extension of DuckDB that reads an address, if the user has installed it."""
    extension = "azure" if str(scheme(address)).startswith("a") else "httpfs"
    known = "SELECT loaded OR installed FROM duckdb_extensions() WHERE extension_name"
    if connection.raw_sql(f"{known} = '{extension}'").fetchall() != [(True,)]:
        install = f"import duckdb; duckdb.sql('INSTALL {extension}')"
        text = f"{mask(address)} needs DuckDB's extension {extension}, and metapac downloads no"
        raise InvalidInput(f'{text} code. Run python -c "{install}", or download the file.')
    connection.raw_sql(f"LOAD {extension}")


def separator_of(path: Path, reading: Reading) -> str:
    """Return the character between the columns of a file."""
    by_name = "\t" if re.search(r"(?i)\.tsv(\.gz)?$", path.name) else ","
    return by_name if reading.separator is None else reading.separator


@contextmanager
def open_text(path: Path, reading: Reading) -> Iterator[IO[str]]:
    """Open a file as text."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    encoding = "utf-8-sig" if reading.encoding == "utf-8" else reading.encoding
    try:
        with opener(path, "rt", encoding=encoding, newline="") as file:
            yield file
    except UnicodeError as error:
        likely = keyword("encoding", "windows-1252")
        remedy = f"Read it with its encoding, such as {likely}, if it is CSV."
        raise InvalidInput(f"{path} is not {reading.encoding} text. {remedy}") from error
    except (csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{path} is not readable ({error}).") from error


def recode(paths: Sequence[Path], reading: Reading, owner: Any) -> list[Path]:
    """Copy files as UTF-8 to a private folder, which is removed with its owner.

    DuckDB itself reads few encodings, and takes a file that is not UTF-16 for an empty one.
    """
    scratch, copies = ExitStack(), []
    folder = scratch.enter_context(private_folder("metapac-csv"))
    weakref.finalize(owner, scratch.close)
    for i, path in enumerate(paths):
        parts = path.absolute().parent.relative_to(partition_root(path)[0])
        copy = folder / parts / f"{i}-{path.name.removesuffix(path.suffix)}.csv"
        copy.parent.mkdir(parents=True, exist_ok=True)
        with open_text(path, reading) as text, copy.open("w", encoding="utf-8", newline="") as file:
            shutil.copyfileobj(text, file, 1 << 20)
        copies.append(copy)
    return copies


def partition_root(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder above the folders like site=ohio, and the names of these columns."""
    folder, columns = path.absolute().parent, []
    while "=" in folder.name:
        columns.append(folder.name.partition("=")[0])
        folder = folder.parent
    return folder, tuple(columns)


def read_header(path: Path, reading: Reading) -> list[str]:
    """Return the column names of a file."""
    with open_text(path, reading) as file:
        columns = next(csv.reader(file, delimiter=separator_of(path, reading)), [])
    if not columns:
        raise InvalidInput(f"{path} is empty; it needs a header line with the column names.")
    likely = next((mark for mark in ";\t|," if mark in columns[0]), None)
    if len(columns) == 1 and reading.separator is None and likely is not None:
        remedy = f"which looks like several. Read it with {keyword('separator', likely)}."
        raise InvalidInput(f"{path} has only the column {columns[0]!r}, {remedy}")
    return name_columns(str(path), columns)


def name_columns(title: str, columns: Sequence[str]) -> list[str]:
    """Return the names of columns, such as "Unnamed: 0" for one without a name, as pandas does."""
    unnamed = (f"Unnamed: {i}" for i in range(len(columns)))
    pairs = zip(columns, unnamed, strict=True)
    names = [name or new + "_" * (new in columns) for name, new in pairs]
    check_case_collisions(title, names)
    return names


def read_common_header(paths: Sequence[Path], reading: Reading) -> list[str]:
    """Return the column names that all files share, in one order."""
    headers = ((path, separator_of(path, reading), read_header(path, reading)) for path in paths)
    first, separator, columns = next(headers)
    for path, other, header in headers:
        if (other, header) != (separator, columns):
            text = f"{path} has other columns or another separator than {first}: {listed(header)}"
            raise InvalidInput(f"{text} instead of {listed(columns)}.")
    return columns


def check_rows(
    paths: Sequence[Path], numbers: Sequence[str], task: str | None, reading: Reading
) -> None:
    """Raise InvalidInput for the first row with a wrong number of fields, no task or no score."""
    for path in paths:
        places = {name: i for i, name in enumerate(read_header(path, reading))}
        with open_text(path, reading) as file:
            reader = csv.reader(file, delimiter=separator_of(path, reading))
            next(reader)
            for row in filter(None, reader):
                fault = _find_fault(row, places, numbers, task, reading.decimal)
                if fault:
                    raise InvalidInput(f"{path}, line {reader.line_num}: {fault}")


def _find_fault(
    row: list[str], places: dict[str, int], numbers: Sequence[str], task: str | None, decimal: str
) -> str:
    if len(row) != len(places):
        count = f"{len(row)} fields where the header has {len(places)}"
        return f"{count}. Quote fields that contain a separator."
    if task in places and not row[places[task]]:
        return f"column {task!r} is empty; an example must belong to a task."
    cells = [(name, row[places[name]]) for name in numbers if name in places]  # or in a folder
    for name, text in cells:
        if not _is_number(text, decimal):
            fault = f"column {name!r} holds {text!r}, which is not a number like 0{decimal}25"
            is_comma = decimal == "." and re.search(r"\d,\d", text)
            remedy = " Drop rows without a number." if not text.strip() else ""
            remedy = f" Read decimal commas with {keyword('decimal', ',')}." if is_comma else remedy
            return f"{fault}.{remedy}"
    return ""


def _is_number(text: str, decimal: str) -> bool:
    if "_" in text or (decimal == "," and "." in text):
        return False
    try:
        return not math.isnan(float(text.replace(decimal, ".")))
    except ValueError:
        return False
