"""Every module of the package has a test file of its name, in the same folder of ``tests``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import metapac

SOURCE = Path(metapac.__file__).parent
MODULES = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]

# Modules without a test file of their own, each with the reason.
EXCEPTIONS = {
    "__main__.py": "two lines, run by tests/cli/test_app.py",
    "_types.py": "aliases alone, checked by mypy",
    "_version.py": "one line, checked by tests/test_release.py",
}


def expected(module: Path) -> Path:
    """Return where the tests of a module are; names lose their leading underscores."""
    return module.with_name(f"test_{module.name.lstrip('_')}")


@pytest.mark.parametrize("module", sorted(MODULES), ids=Path.as_posix)
def test_a_module_has_its_tests(module: Path) -> None:
    present = (Path(__file__).parent / expected(module)).is_file()
    reason = EXCEPTIONS.get(module.as_posix())
    assert present or reason, f"write tests/{expected(module)}"
    assert not (present and reason), f"{module} has tests: take it from EXCEPTIONS"


def test_exceptions_are_modules() -> None:
    assert {module.as_posix() for module in MODULES} >= EXCEPTIONS.keys()


def test_a_type_alias_has_one_meaning() -> None:
    shared = _assigned(Path("_types.py"))
    assert "Floats" in shared
    for module in MODULES:
        if module.name != "_types.py":
            assert not shared & _assigned(module), f"{module} defines an alias of _types.py again"


def _assigned(module: Path) -> set[str]:
    """Return the names that a module assigns at its top level."""
    statements = ast.parse((SOURCE / module).read_text(encoding="utf-8")).body
    targets = [t for s in statements if isinstance(s, ast.Assign) for t in s.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}
