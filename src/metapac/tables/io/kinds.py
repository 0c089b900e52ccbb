"""Kinds of files, recognised by their first bytes and their names."""

from __future__ import annotations

from pathlib import Path

from metapac._warnings import warn
from metapac.exceptions import InvalidInput

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

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    {"parquet", "csv", "json", "arrow", "excel", "duckdb", "sqlite"}
        The kind; without a known suffix, CSV.

    Raises
    ------
    InvalidInput
        If the file is of a kind that is not read, or a database under another name.
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
    """Return the kind of a table that a name stands for.

    Parameters
    ----------
    path : Path
        The file; it need not exist.

    Returns
    -------
    str or None
        The kind; None if the suffix is not known.
    """
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
