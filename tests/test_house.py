"""The rules of the house: two wings, and public names that are listed once and imported lazily."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import pytest

import metapac
from metapac import fewshot

SOURCE = Path(metapac.__file__).parent
CORE = [path for path in SOURCE.rglob("*.py") if "fewshot" not in path.parts]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return plain | {f"{node.module}.{alias.name}" for node in froms for alias in node.names}


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_core_never_imports_the_wing(path: Path) -> None:
    assert not [name for name in imported(path) if name.startswith("metapac.fewshot")]


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


def test_a_module_of_the_wing_would_be_found(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("def f():\n    from metapac import fewshot\n")
    assert imported(file) == {"metapac.fewshot"}


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


def test_plain_learners_never_import_torch() -> None:
    code = """
import sys
from metapac.fewshot import CallableLearner, FixedModel, Learner, PrototypeLearner, SklearnLearner
CallableLearner(lambda *_: [[1.0]]).adapt([[0]], [0]).predict_proba([[1]])
print("torch" in sys.modules, "sklearn" in sys.modules)
"""
    assert run(code) == "False False"


@pytest.mark.parametrize("name", ["ProtoNet", "MAML", "Conv4"])
def test_without_torch_the_extra_is_named(name: str) -> None:
    code = f"""
import sys; sys.modules["torch"] = None
try:
    from metapac.fewshot import {name}
except ModuleNotFoundError as error:
    print(error)
"""
    assert run(code) == (
        f"{name} needs torch. Install it with: pip install 'metapac[torch]' "
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
