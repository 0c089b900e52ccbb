"""What importing the package and starting the command line load. Times: benchmarks/startup.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The bounds leave room for other versions of Python and click; NumPy alone adds 140 modules.
PRINT_MODULES = "import sys; print(*sys.modules)"
ENGINES = {"ibis", "duckdb", "pyspark", "sqlglot", "pandas", "polars", "pyarrow", "torch"}
HEAVY = {*ENGINES, "PIL", "matplotlib", "sklearn", "click", "rich", "scipy.stats"}
RUN = f"""
import sys
from metapac.cli import main
try:
    main()
except SystemExit:
    pass
{PRINT_MODULES}
"""


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


@pytest.mark.parametrize(
    ("code", "words", "absent", "most"),
    [
        (f"import metapac; {PRINT_MODULES}", [], {"numpy", "typing"}, 30),
        (f"import metapac.fewshot; {PRINT_MODULES}", [], {"numpy", "typing"}, 30),
        (f"from metapac import InvalidInput; {PRINT_MODULES}", [], {"numpy"}, 60),
        (f"from metapac.fewshot.datasets.pools import *; {PRINT_MODULES}", [], HEAVY, 10_000),
        (f"import metapac.cli.app; {PRINT_MODULES}", [], ENGINES, 350),
        (RUN, ["--version"], {"click", "rich", "numpy"}, 60),
        (RUN, ["--help"], {"numpy", "scipy", "metapac.errors", "metapac.cli.plan"}, 350),
    ],
)
def test_little_is_loaded(
    code: str, words: list[str], absent: set[str], most: int, empty: set[str]
) -> None:
    modules = loaded_modules(code, *words) - empty
    assert not absent & modules
    assert len(modules) < most


def test_the_core_loads_little_more_than_scipy_special(empty: set[str]) -> None:
    scipy = loaded_modules(f"import scipy.special; {PRINT_MODULES}") - empty
    core = loaded_modules(f"from metapac import *; {PRINT_MODULES}") - empty
    own = {name for name in core if name.split(".")[0] == "metapac"}
    assert "numpy" in core
    assert not HEAVY & core
    assert len(core - scipy - own) < 10
    assert not {f"metapac.{name}" for name in ("cli", "fewshot", "tables")} & own
