"""``metapac doctor``: versions, extras, engines, GPU, cache folder. It never fails."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
from contextlib import suppress
from importlib import import_module, metadata
from typing import Any

from metapac._common import data_home, install_command
from metapac._text import format_table
from metapac._version import __version__
from metapac.cli import console

# The packages that each extra installs, by the names under which they are distributed.
EXTRAS = {
    "cli": "click rich",
    "plot": "matplotlib",
    "torch": "torch safetensors",
    "data": "pillow pyarrow",
    "parallel": "joblib",
    "sklearn": "scikit-learn",
    "tables": "ibis-framework duckdb",
    "excel": "ibis-framework python-calamine",
    "report": "jinja2 matplotlib",
    "spark": "ibis-framework pyspark",
}


def doctor(*, json: bool = False) -> None:
    """Print versions, engines, GPU and cache.

    Example:

        metapac doctor

    Paste it into a bug report. It names no data and no user.
    """
    extras = {extra: {n: _version(n) for n in names.split()} for extra, names in EXTRAS.items()}
    places = f"{os.environ.get('JAVA_HOME', '')}/bin{os.pathsep}{os.environ.get('PATH', '')}"
    facts: dict[str, Any] = {
        "metapac": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "numpy": _version("numpy"),
        "scipy": _version("scipy"),
        "extras": extras,
        "engines": {
            "SQLite": sqlite3.sqlite_version,
            "DuckDB": _version("duckdb") or "missing",
            "Spark": _version("pyspark") or "missing",
            "Java": "found" if shutil.which("java", path=places) else "missing",
        },
        "gpu": _find_gpu(),
        "cache": _measure_cache(),
    }
    lines = [format_table([_describe(*item) for item in extras.items()])]
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {text}" for key, text in value.items())
        lines += [f"{name}: {value}"] if name != "extras" else []
    console.show(facts, as_json=json, text="\n".join(lines))


def _describe(extra: str, versions: dict[str, str | None]) -> dict[str, str]:
    listed = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    usable = "yes" if all(versions.values()) else f"no; {install_command(extra)}"
    return {"extra": extra, "packages": listed, "usable": usable}


def _version(package: str) -> str | None:
    """Return the version of a distribution without importing it; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _find_gpu() -> dict[str, str]:
    """Return the accelerator that torch sees. Torch is imported if it is installed."""
    if _version("torch") is None:
        return {"torch": "missing"}
    try:
        torch = import_module("torch")
        if torch.cuda.is_available():
            return {"CUDA": str(torch.cuda.get_device_name(0))}
        return {"MPS": "found"} if torch.backends.mps.is_available() else {"CUDA": "none"}
    except Exception as error:  # a broken installation is a finding, not a failure
        return {"torch": f"broken ({type(error).__name__}: {' '.join(str(error).split())})"}


def _measure_cache() -> dict[str, str]:
    """Return the folder of the data sets and its size."""
    folder, size = data_home(), 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # deleted in the meantime
            size += 0 if path.is_dir() else path.lstat().st_size
    return {"folder": str(folder), "size": f"{size / 2**20:,.1f} MiB"}
