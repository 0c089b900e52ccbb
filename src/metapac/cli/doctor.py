"""``metapac doctor``: versions, extras, engines, GPU, cache folder. It never fails."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from rich.table import Table

from metapac._common import data_home, install_command
from metapac._version import __version__
from metapac.cli import console
from metapac.cli.options import AsJson

# The packages that each extra installs, by the names under which they are distributed.
EXTRAS = {
    "cli": ("typer", "rich"),
    "plot": ("matplotlib",),
    "torch": ("torch", "safetensors"),
    "data": ("pillow", "pyarrow"),
    "parallel": ("joblib",),
    "sklearn": ("scikit-learn",),
    "tables": ("ibis-framework", "duckdb"),
    "excel": ("ibis-framework", "python-calamine"),
    "report": ("jinja2", "matplotlib"),
    "spark": ("ibis-framework", "pyspark"),
}


def doctor(*, as_json: AsJson = False) -> None:
    """Print versions, extras, engines, GPU and cache folder.

    Paste it into a bug report. It names no data and no user.

    Example:

        metapac doctor
    """
    facts = _examine()
    if as_json:
        console.print_json(facts)
        return
    for name in ("metapac", "python", "system", "numpy", "scipy"):
        console.print_line(f"{name}: {facts[name]}")
    console.stdout.print(_table(facts["extras"]))
    for extra, versions in facts["extras"].items():
        if not all(versions.values()):
            console.print_line(f"extra {extra}: {install_command(extra)}")
    for name in ("engines", "gpu", "cache"):
        shown = ", ".join(f"{key} {text}" for key, text in facts[name].items())
        console.print_line(f"{name}: {shown}")


def _table(extras: dict[str, dict[str, str | None]]) -> Table:
    table = console.make_table(["extra", "packages", "usable"], [])
    for extra, versions in extras.items():
        listed = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
        table.add_row(extra, console.make_cell(listed), "yes" if all(versions.values()) else "no")
    return table


def _examine() -> dict[str, Any]:
    return {
        "metapac": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "numpy": _version("numpy"),
        "scipy": _version("scipy"),
        "extras": {
            extra: {package: _version(package) for package in packages}
            for extra, packages in EXTRAS.items()
        },
        "engines": {
            "SQLite": sqlite3.sqlite_version,
            "DuckDB": _version("duckdb") or "missing",
            "Spark": _version("pyspark") or "missing",
            "Java": _find_java(),
        },
        "gpu": _find_gpu(),
        "cache": _measure_cache(),
    }


def _version(package: str) -> str | None:
    """Return the version of a distribution without importing it; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = home and shutil.which("java", path=str(Path(home) / "bin"))
    return "found" if found or shutil.which("java") else "missing"


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
    folder = data_home()
    size = 0
    for root, _, names in os.walk(folder):  # errors are skipped
        for name in names:
            try:
                size += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118
            except OSError:  # deleted in the meantime
                continue
    return {"folder": str(folder), "size": f"{size / 2**20:,.1f} MiB"}
