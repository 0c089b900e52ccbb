"""Tables that are read into memory: sheets of Excel workbooks, and Arrow files."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metapac import _optional
from metapac.exceptions import InvalidInput, Parameter
from metapac.tables.io.csv_text import name_columns

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
    return pa.concat_tables(tables, promote_options="default")


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
