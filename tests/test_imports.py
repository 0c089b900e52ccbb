"""Which way imports point, and what the package has without them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import metapac

SOURCE = Path(metapac.__file__).parent
PUBLIC = sorted(vars(metapac)["__all__"])


def test_imports_form_no_cycle() -> None:
    TopologicalSorter(_graph()).prepare()  # raises CycleError


def _graph() -> dict[str, set[str]]:
    """Return the modules that each module imports, packages aside."""
    paths = [path for path in SOURCE.rglob("*.py") if not path.name.startswith("__")]
    names = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in paths}
    return {name: _imports(path) & names.keys() - {name} for name, path in names.items()}


def _imports(path: Path) -> set[str]:
    """Return the modules of this package that a file imports, anywhere in it."""
    imported = set()
    for node in _nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "metapac":
            inside = (node.module or "").removeprefix("metapac").removeprefix(".")
            imported |= {inside, *(f"{inside}.{alias.name}".strip(".") for alias in node.names)}
    return imported


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a file, but for what only a type checker sees."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from _nodes(child)


def test_every_public_name_is_there_and_documented() -> None:
    for name in PUBLIC:
        assert getattr(metapac, name).__doc__


def test_submodules_are_attributes_without_an_import_of_their_own() -> None:
    code = "import metapac; print(metapac.binomial.__name__, metapac.fewshot.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["metapac.binomial", "metapac.fewshot"]
    assert dir(metapac) == PUBLIC
