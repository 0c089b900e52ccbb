"""What importing the package and starting the command line load. Times: benchmarks/startup.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The bounds leave room for other versions of Python and typer; NumPy alone adds 140 modules.
PRINT_MODULES = "import sys; print(*sys.modules)"


def loaded_modules(code: str, *words: str) -> set[str]:
    """Return the modules that are loaded at the end of a program."""
    run = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    return set(run.stdout.splitlines()[-1].split())


@pytest.fixture(scope="module")
def empty() -> set[str]:
    """The modules of an empty program."""
    return loaded_modules(PRINT_MODULES)


def test_importing_the_package_loads_almost_nothing(empty: set[str]) -> None:
    modules = loaded_modules(f"import metapac; {PRINT_MODULES}") - empty
    assert "numpy" not in modules
    assert len(modules) < 60


def test_the_core_loads_little_more_than_scipy_special(empty: set[str]) -> None:
    scipy = loaded_modules(f"import scipy.special; {PRINT_MODULES}") - empty
    core = loaded_modules(f"from metapac import *; {PRINT_MODULES}") - empty
    own = {name for name in core if name.split(".")[0] == "metapac"}
    assert "scipy.stats" not in core
    assert len(core - scipy - own) < 10
    assert not {f"metapac.{name}" for name in ("cli", "fewshot", "tables")} & own


RUN = f"""
import sys
from metapac.cli import main
try:
    main()
except SystemExit:
    pass
{PRINT_MODULES}
"""


def test_the_version_is_printed_before_anything_is_loaded(empty: set[str]) -> None:
    modules = loaded_modules(RUN, "--version") - empty
    assert not {"typer", "rich", "numpy"} & modules
    assert len(modules) < 60


def test_the_help_loads_neither_numpy_nor_any_command(empty: set[str]) -> None:
    modules = loaded_modules(RUN, "--help") - empty
    assert not {"numpy", "scipy", "metapac.errors", "metapac.cli.plan"} & modules
    assert len(modules) < 350
