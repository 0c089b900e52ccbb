"""Copies of the paper's data sets, if there are any beside the repository."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"

needs_real_data = pytest.mark.skipif(
    not (SHARED / "unpack.py").is_file(), reason="needs the real data in ../shared/data"
)


def unpacked(name: str, folder: Path) -> Path:
    """Write one data set in its publisher's layout under ``folder``."""
    spec = importlib.util.spec_from_file_location("unpack", SHARED / "unpack.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    getattr(module, name)(folder)
    return folder
