"""Warnings that point at the caller's line, however deep in metapac they arise."""

from __future__ import annotations

import sys
import warnings


def warn(message: str | Warning) -> None:
    """Issue a UserWarning that names the innermost line outside metapac."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "metapac":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)
