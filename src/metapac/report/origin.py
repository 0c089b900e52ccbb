"""Where a report comes from: files with their checksums, the model, versions, dates."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from metapac._types import PathLike
from metapac._version import __version__
from metapac._visible import name_score
from metapac.context import Context

_FILES = 20  # listed one by one


class Fact(NamedTuple):
    """A line of the provenance.

    Attributes
    ----------
    name : str
        What it is.
    value : str
        What is known.
    is_code : bool
        Whether it is a checksum, or the like.
    """

    name: str
    value: str
    is_code: bool = False


def find_date() -> str:
    """Return the date of the report: today, or what ``SOURCE_DATE_EPOCH`` says.

    Returns
    -------
    str
        The date in UTC, such as "16 November 2026".
    """
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    date = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdigit() else datetime.now(UTC)
    return f"{date.day} {date:%B %Y}"


def describe_promise(promise: Any) -> list[Fact]:
    """Return what a promise says about its model, its tasks and its columns.

    Parameters
    ----------
    promise : MetaPS, PS or MetaCP
        The guarantee.

    Returns
    -------
    list of Fact
        What is known.
    """
    facts = [Fact("Kind of guarantee", promise._kind)]
    about, default = asdict(promise.context_), asdict(Context())
    for name, value in about.items():
        if value != default[name] and name not in ("unit", "example"):  # seen in every sentence
            text = f"{len(value):,} named" if isinstance(value, tuple) else str(value)
            facts.append(Fact(name.replace("_", " ").capitalize(), text))
    if promise.context_.model is None:
        facts.append(Fact("Model", "not named"))
    for name, value in (getattr(promise, "columns_", None) or {}).items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        facts.append(Fact(f"Column {name}" if name != "classes" else "Classes", text))
    return [*facts, Fact("Precision of the scores", promise.precision_.name)]


def describe_files(name: str, paths: Iterable[PathLike]) -> list[Fact]:
    """Return size, date and checksum of some files.

    Parameters
    ----------
    name : str
        What the files are.
    paths : iterable of path
        The files; what is not a file is left out.

    Returns
    -------
    list of Fact
        Some lines for each of the first 20 files.
    """
    files = [path for path in map(Path, paths) if path.is_file()]
    facts = []
    for path in files[:_FILES]:
        status = path.stat()
        date = datetime.fromtimestamp(status.st_mtime, UTC)
        text = f"{path.name}, {status.st_size:,} bytes, last changed {date:%Y-%m-%d}"
        facts.append(Fact(name, text))
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        facts.append(Fact(f"{name}: SHA-256", digest, is_code=True))
        facts += _describe_scores(name, path)
    if len(files) > _FILES:
        facts.append(Fact(name, f"and {len(files) - _FILES:,} more files"))
    return facts


def _describe_scores(name: str, path: Path) -> list[Fact]:
    """Return what a Parquet file says about the scores in it, if it says anything."""
    if path.suffix.lower() not in (".parquet", ".pq"):
        return []
    from metapac.scoring.provenance import read_provenance

    found = read_provenance(path)
    if found is None:
        return []
    facts = [
        Fact(f"{name}: model", found.model),
        Fact(f"{name}: score function", name_score(found.score)),
    ]
    return facts + [
        Fact(f"{name}: {key.replace('_', ' ')}", str(value)) for key, value in found.details.items()
    ]


def describe_software(written_by: str | None) -> list[Fact]:
    """Return the versions that wrote the promise file and the report.

    Parameters
    ----------
    written_by : str or None
        Version of metapac that wrote the promise file, if there is a file.

    Returns
    -------
    list of Fact
        The versions.
    """
    versions = f"Python {platform.python_version()}"
    for package in ("numpy", "scipy"):
        versions += f", {package} {metadata.version(package)}"
    facts = [] if written_by is None else [Fact("Promise file written by", f"metapac {written_by}")]
    return [*facts, Fact("Report written by", f"metapac {__version__} ({versions})")]
