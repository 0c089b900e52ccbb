"""Tables opened with options of reading, for files that are not written as usual."""

from __future__ import annotations

from typing import Any

from metapac.tables.io.csv_format import CsvFormat
from metapac.tables.io.sources import Source, open_source


def open_table(
    source: Any,
    *,
    table: str | None = None,
    separator: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    views: bool = False,
    connection: Any = None,
) -> Source:
    """Open a table that is not written as usual, to pass it to the other table functions.

    Files that need no option can be passed to these functions by their path.

    Parameters
    ----------
    source : path, list of paths, frame, Ibis table or Ibis connection
        What to open; as in ``calibrate_table``.
    table : str, optional
        Table of a database, or sheet of a workbook.
    separator : str, optional
        Character between the columns of a CSV file; by default a tab in .tsv files and a comma in
        all others.
    decimal : {".", ","}, default "."
        Decimal character of numbers in a CSV file.
    encoding : str, default "utf-8"
        Encoding of a CSV file, such as "latin-1", "windows-1252" or "utf-16".
    views : bool, default False
        Whether to read views of a DuckDB or SQLite file. A view can read other files: pass True
        only if you trust the file.
    connection : Ibis connection, optional
        The engine that reads files and frames; see ``connect``. By default DuckDB in this process.

    Returns
    -------
    Source
        The open table. Used as a context manager, it closes a connection that it opened.

    Raises
    ------
    InvalidInput
        If an option is not valid, or does not apply to such a source.
    EngineError
        If the engine cannot read the table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from metapac.tables import calibrate_table, open_table
    >>> rows = [f"{i % 40};{i},5" for i in range(2000)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "scores.csv")
    ...     _ = path.write_text("\\n".join(["site;score", *rows]))
    ...     with open_table(path, separator=";", decimal=",") as scores:
    ...         calibrate_table(
    ...             scores, task="site", score="score", epsilon=0.1, alpha=0.1, delta=0.1
    ...         ).threshold_
    120.5
    """
    return open_source(
        source,
        table=table,
        connection=connection,
        csv_format=CsvFormat(separator, decimal, encoding),
        views=views,
    )
