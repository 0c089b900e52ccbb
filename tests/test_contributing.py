"""CONTRIBUTING.md shows the house as it is: every module, in the order of imports, by its name."""

from __future__ import annotations

import ast
import pkgutil
import re
from pathlib import Path

import pytest

import metapac

ROOT = Path(__file__).parent.parent
SOURCE = Path(metapac.__file__).parent
BEFORE, TREE, AFTER = re.split(r"```(?:text)?\n", (ROOT / "CONTRIBUTING.md").read_text())
QUOTED = {*re.findall(r"`([^`\s]+)`", BEFORE + AFTER)}
NAMED = sorted(text for text in QUOTED if re.search(r"\w[./]", text))


def read_tree() -> list[str]:
    """Return the modules of the tree, in its order; indented lines are in the folder above."""
    folders: list[str] = []
    modules = []
    for indent, name, slash in re.findall(r"^( *)(\w+)(/?)", TREE, re.MULTILINE):
        folders[len(indent) // 2 :] = [name]
        if not slash:
            modules.append(".".join(folders))
    return modules


def imports(module: str) -> set[str]:
    """Return what a module imports from the package at its top level."""
    tree = ast.parse((SOURCE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    froms = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = {(node.module or "", alias.name) for node in froms for alias in node.names}
    both = {text for name, alias in names for text in (name, f"{name}.{alias}")}
    return {text.removeprefix("metapac.") for text in both if text.startswith("metapac.")}


def test_the_tree_has_every_module_once() -> None:
    files = [path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py")]
    modules = [".".join(file.parts) for file in files if file.name != "__init__"]
    assert sorted(read_tree()) == sorted(modules)


def test_modules_import_only_from_those_above() -> None:
    modules = read_tree()
    for place, module in enumerate(modules):
        assert not imports(module) & {*modules[place:]}, module


@pytest.mark.parametrize("text", NAMED)
def test_what_is_named_exists(text: str) -> None:
    if re.search(r"/|\.(md|py)$", text):
        assert (ROOT / text).exists()
    else:
        pkgutil.resolve_name(f"metapac.{text.removeprefix('metapac.')}")
