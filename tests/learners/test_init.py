"""Names of the package, imported on first use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from metapac import learners


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_plain_learners_never_import_torch() -> None:
    assert (
        run(
            "import sys, metapac.learners\n"
            "from metapac.learners import SklearnLearner, FixedModel, CallableLearner, Learner\n"
            "CallableLearner(lambda *_: [[1.0]]).adapt([[0]], [0]).predict_proba([[1]])\n"
            "print('torch' in sys.modules, 'sklearn' in sys.modules)"
        )
        == "False False"
    )


@pytest.mark.parametrize("name", ["ProtoNet", "MAML", "Conv4"])
def test_without_torch_the_extra_is_named(name: str) -> None:
    assert (
        run(
            "import sys, metapac.learners; sys.modules['torch'] = None\n"
            f"try:\n    from metapac.learners import {name}\n"
            "except ModuleNotFoundError as error:\n    print(error)"
        )
        == f"{name} needs torch. Install it with: pip install 'metapac[torch]' "
        "(in a checkout: pip install -e '.[torch]')"
    )


def test_public_names_are_listed_and_others_raise() -> None:
    assert {"ProtoNet", "SklearnLearner"} <= set(dir(learners))
    for name in learners.__all__:
        assert getattr(learners, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Perceptron'"):
        learners.Perceptron  # noqa: B018


def test_type_checkers_see_the_names_that_are_imported_on_first_use() -> None:
    tree = ast.parse(Path(learners.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    declared = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    package = "metapac.learners"
    assert declared == {name: f"{package}.{at}" for name, at in learners._MODULES.items()}
