"""Tables that are read into memory: sheets of Excel workbooks, and Arrow files."""

from __future__ import annotations

import datetime
import functools
import math
import re
import string
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.parsers import expat

from metapac import _optional
from metapac._files import read_unpacked
from metapac.exceptions import InvalidInput, Parameter
from metapac.tables.io.csv_text import name_columns

_ANY_CELLS, _CELLS_PER_BYTE = 1 << 22, 4  # of 32 bytes each; a full sheet has at most one per byte
_CELL = rb"<(?:[^\s<>:/]+:)?(?:c|[a-z-]+-cell)(?=[\s/>])"
_PLACE = re.compile(_CELL + rb'(?: r="([A-Z]{1,3})([0-9]{1,7})"(?![^<]*\sr\s*=))?')
Cell = Any  # str, float, bool, date, time or timedelta; "" if empty


def read_sheet(path: Path, sheet: str | None) -> Any:
    """Return a sheet of a workbook, whose first row holds the column names.

    Parameters
    ----------
    path : Path
        An .xlsx, .xlsm, .xlsb, .xls or .ods file.
    sheet : str or None
        Name of the sheet; it may be left out if there is only one.

    Returns
    -------
    pyarrow.Table
        The rows. A column is numeric if all its cells are; dates become text as in ISO 8601.

    Raises
    ------
    InvalidInput
        If there is no such sheet, if several could be meant, or if the sheet is empty.
    """
    import pyarrow as pa

    calamine = _optional.require(
        "python_calamine", extra="excel", purpose=f"{path}: reading a workbook"
    )
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
    """Return Arrow files, also called Feather files, as one table.

    Parameters
    ----------
    paths : sequence of Path
        The files.

    Returns
    -------
    pyarrow.Table
        Their rows.
    """
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
        "{}; it has: {}. Pass one of them as {}.",
        f"{path} {problem}",
        ", ".join(names),
        Parameter("table"),
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
