"""Optional dependencies, and the extra that installs each."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from metapac.exceptions import MissingExtra


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Return an optional module, or raise ``MissingExtra`` with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing(error, extra=extra, purpose=purpose) from error


def missing(error: ModuleNotFoundError, *, extra: str, purpose: str) -> ModuleNotFoundError:
    """Return the error to raise: ``error`` itself if the missing module belongs to metapac."""
    package = (error.name or "metapac").partition(".")[0]
    if package == "metapac":
        return error
    extra_error = MissingExtra(
        f"{purpose} needs {package}. Install it with: {install_command(extra)}"
    )
    extra_error.name = error.name
    return extra_error


def install_command(extra: str) -> str:
    """Return what to type to install an extra, also for those who work in a checkout."""
    return f"pip install 'metapac[{extra}]' (in a checkout: pip install -e '.[{extra}]')"
