"""The rules of the house: two wings, layers, lazy imports, public names listed once; releases."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import metapac
from metapac import fewshot

SOURCE = Path(metapac.__file__).parent


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_core_runs_without_the_wing() -> None:
    code = """
import sys; sys.modules["metapac.fewshot"] = None
import numpy as np, metapac, metapac.sklearn
tasks = np.repeat(np.arange(60), 50)
scores = np.random.default_rng(0).random((3000, 3))
promise = metapac.MetaPS(epsilon=.1, alpha=.2, delta=.05).calibrate(scores[:, 0], tasks)
promise.predict_set(scores)
metapac.plan(epsilon=.1, alpha=.1, delta=.1)
print(type(promise).__name__)
"""
    assert run(code) == "MetaPS"


@pytest.mark.parametrize("package", [metapac, fewshot], ids=["core", "wing"])
def test_public_names_are_those_that_type_checkers_see(package: ModuleType) -> None:
    stub = Path(str(package.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    froms = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    declared = {alias.asname: node.module for node in froms for alias in node.names}
    modules = {name for name, module in declared.items() if module == package.__name__}
    for name in modules:
        assert getattr(package, str(name)).__name__ == f"{package.__name__}.{name}"
        del declared[name]
    version = declared.pop("__version__", None)
    assert {*declared} == {*package.__all__} - {"__version__"}
    assert version is None or package.__version__
    for name, module in declared.items():
        value = getattr(package, str(name))
        assert value is getattr(importlib.import_module(str(module)), str(name))
        assert getattr(value, "__module__", module) == module  # defined there, not passed along
    assert {*package.__all__} <= {*dir(package)}
    with pytest.raises(AttributeError, match="has no attribute 'Perceptron'"):
        package.Perceptron  # noqa: B018


def test_without_torch_the_extra_is_named() -> None:
    code = """
import sys; sys.modules["torch"] = None
try:
    from metapac.fewshot import MAML
except ModuleNotFoundError as error:
    print(error)
"""
    assert run(code) == (
        "MAML needs torch. Install it with: pip install 'metapac[torch]' "
        "(in a checkout: pip install -e '.[torch]')"
    )


def exists(dotted: str) -> bool:
    """Return whether a name in a text, such as ``metapac.fewshot.train``, is there."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        return attrgetter(".".join(parts[1:]))(metapac) is not None
    return False


def test_names_in_texts_exist() -> None:
    named = re.compile(r"(?<![\w/.@-])metapac(?:\.[A-Za-z_]\w*)+")
    found = {(path, name) for path in SOURCE.rglob("*.py") for name in named.findall(read(path))}
    assert not [(path.name, name) for path, name in found if not exists(name)]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# CONTRIBUTING.md shows the house as it is.


ROOT = Path(__file__).parent.parent
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


def imports_at_top(module: str) -> set[str]:
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
        assert not imports_at_top(module) & {*modules[place:]}, module


def test_what_is_named_exists() -> None:
    for text in NAMED:
        if re.search(r"/|\.(md|py)$", text):
            assert (ROOT / text).exists(), text
        else:
            pkgutil.resolve_name(f"metapac.{text.removeprefix('metapac.')}")


def test_submodules_are_attributes_without_an_import_of_their_own() -> None:
    code = "import metapac; print(metapac.binomial.__name__, metapac.fewshot.__name__)"
    assert run(code).split() == ["metapac.binomial", "metapac.fewshot"]


# What importing the package and starting the command line load. Times: benchmarks/startup.py.


# The bounds leave room for other versions of Python and typer; NumPy alone adds 140 modules.
PRINT_MODULES = "import sys; print(*sys.modules)"
ENGINES = {"ibis", "duckdb", "pyspark", "sqlglot", "pandas", "polars", "pyarrow", "torch"}
HEAVY = {*ENGINES, "PIL", "matplotlib", "sklearn", "typer", "rich", "scipy.stats"}
RUN_MAIN = f"""
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
        (RUN_MAIN, ["--version"], {"typer", "rich", "numpy"}, 60),
        (RUN_MAIN, ["--help"], {"numpy", "scipy", "metapac.cli.planning"}, 350),
    ],
)
def test_little_is_loaded(code: str, words: Any, absent: Any, most: int, empty: set[str]) -> None:
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


# What a release says of itself in several places is the same in all of them.


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_the_version_is_cited_and_has_its_changes() -> None:
    version = metapac.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version.partition(".dev")[0]


def test_the_oldest_python_is_the_same_everywhere(project: dict[str, Any]) -> None:
    versions = re.findall(r":: (3\.\d+)'", str(project["classifiers"]))
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert project["requires-python"] == f">={versions[0]}"
    assert settings["ruff"]["target-version"] == f"py{versions[0].replace('.', '')}"


def test_all_has_every_extra(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    (everything,) = extras["all"]
    assert everything == f"metapac[{','.join(name for name in extras if name != 'all')}]"


@pytest.mark.skipif(not (ROOT / ".github").is_dir(), reason="not in source distributions")
def test_every_python_is_tested(project: dict[str, Any]) -> None:
    versions = re.findall(r":: (3\.\d+)'", str(project["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    tested = re.search(r"python: \[(.*)\]", workflow)
    assert tested is not None
    assert re.findall(r"[\d.]+", tested[1]) == versions


@pytest.mark.skipif(not (ROOT / ".github").is_dir(), reason="not in source distributions")
def test_nothing_is_published_before_the_tests_pass() -> None:
    workflows = ROOT / ".github" / "workflows"
    assert re.search(r"^  workflow_call:", (workflows / "tests.yml").read_text(), re.MULTILINE)
    release = (workflows / "release.yml").read_text()
    assert "\n  tests:\n    uses: ./.github/workflows/tests.yml\n" in release
    assert "\n  publish:\n    needs: [tests, build]\n" in release
