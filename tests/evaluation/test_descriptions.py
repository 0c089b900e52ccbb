"""Descriptions tell learners, pools and code apart, and are the same in another process."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac.fewshot import CallableLearner, ClassPool, GroupPool, PrototypeLearner, SklearnLearner
from metapac.fewshot.study.methods import describe_learner, describe_pool, digest_code


def guess(support_x: object, support_y: object, x: object) -> object:
    return x


def test_learners_without_weights_are_described_by_their_parameters() -> None:
    from sklearn.linear_model import LogisticRegression

    function = describe_learner(CallableLearner(guess))
    assert (function["class"], function["function"]) == ("CallableLearner", "guess")
    sklearn = describe_learner(SklearnLearner(LogisticRegression(C=0.5)))
    assert sklearn == {"class": "SklearnLearner", "estimator": "LogisticRegression(C=0.5)"}
    one = describe_learner(PrototypeLearner(temperature=2.0))
    assert one != describe_learner(PrototypeLearner())
    assert json.loads(json.dumps(one)) == one


def test_weights_are_part_of_a_description() -> None:
    torch = pytest.importorskip("torch")
    from metapac.fewshot import MLP, ProtoNet

    learner, same, other = (ProtoNet(MLP(3, rng=seed)) for seed in (0, 0, 1))
    assert describe_learner(learner) == describe_learner(same)
    assert describe_learner(learner)["weights"] != describe_learner(other)["weights"]
    with torch.no_grad():
        next(same.module.parameters()).view(-1)[0] += 1
    assert describe_learner(learner) != describe_learner(same)


def test_pools_are_described_by_their_data() -> None:
    x, y = np.arange(12.0).reshape(6, 2), [0, 0, 1, 1, 0, 1]
    pool = describe_pool(ClassPool(x, y))
    assert {k: v for k, v in pool.items() if k != "checksum"} == {
        "unit": "class",
        "names": 2,
        "examples": 6,
    }
    assert describe_pool(ClassPool(x + 1, y)) != pool
    assert describe_pool(ClassPool(x, y[::-1])) != pool
    groups = [describe_pool(GroupPool(x, y, list(names))) for names in ("aabbcc", "abcabc")]
    assert groups[0] != groups[1]


# Each program defines a rule; the second text, in place of the first, must change its checksum.
PROGRAMS = {
    "body": ("def rule(draw, g):\n    return 0.1", "0.1", "5.0"),
    "name": ("def rule(draw, g):\n    return draw.low", "low", "high"),
    "lambda": ("rule = lambda draw, g: 0.1", "0.1", "5.0"),
    "nested": ("def rule(draw, g):\n    return (lambda x: x < 2)(draw)", "2", "3"),
    "default": ("def rule(draw, g, cut=0.1):\n    return cut", "0.1", "5.0"),
    "keyword": ("def rule(draw, g, *, cut=0.1):\n    return cut", "0.1", "5.0"),
    "set": ("def rule(draw, g):\n    return draw in {'a', 'b', 'c'}", "'c'", "'d'"),
    "global": ("Z = 1.6\ndef rule(draw, g):\n    return Z", "1.6", "2.0"),
    "array": ("Z = np.arange(9.0)\ndef rule(draw, g):\n    return Z", "9.0", "8.0"),
    "used": ("A = B = 1; C = 2\ndef rule(draw, g):\n    return A", "return A", "return C"),
    "helper": (
        "def f(x):\n    return x and f(x - 1)\ndef rule(draw, g):\n    return f(g)", "- 1", "- 2"
    ),
    "cached": (
        "@functools.cache\ndef f(x):\n    return 1\ndef rule(draw, g):\n    return f(g)", "1", "2"
    ),
    "closure": (
        "def make(cut):\n    return lambda draw, g: cut\nrule = make(0.1)", "make(0.1)", "make(5.0)"
    ),
    "partial": ("rule = functools.partial(lambda cut, draw, g: cut, 0.1)", "0.1", "5.0"),
    "operator": ("rule = operator.attrgetter('low')", "low", "high"),
    "state": (
        "class Rule:\n    def __init__(self):\n        self.cut = 0.1\n"
        "    def __call__(self, draw, g):\n        return self.cut\nrule = Rule()",
        "0.1", "5.0",
    ),
    "method": (
        "class Rule:\n    @staticmethod\n    def f(x):\n        return 1\n"
        "    def choose(self, draw, g):\n        return self.f(g)\nrule = Rule().choose",
        "1", "2",
    ),
    "property": (
        "@dataclass(frozen=True)\nclass Rule:\n    k: int = 3\n    @property\n"
        "    def cut(self):\n        return 1\n"
        "    def __call__(self, draw, g):\n        return self.cut\nrule = Rule()",
        "return 1", "return 2",
    ),
    "base": (
        "class Base:\n    low = 1\nclass Rule(Base):\n    def __call__(self, draw, g):\n"
        "        return self.low\nrule = Rule()",
        "low = 1", "low = 2",
    ),
    "generator": (
        "rng = np.random.default_rng(1)\ndef rule(draw, g):\n    return rng", "(1)", "(2)"
    ),
}  # fmt: skip
IMPORTS = "import functools, operator\nfrom dataclasses import dataclass\nimport numpy as np\n"


def digest(program: str, file: str = "<one>") -> str:
    names: dict[str, Any] = {"__name__": "__main__", "draw": object(), "low": object()}
    exec(compile(IMPORTS + program, file, "exec"), names)
    return digest_code(names["rule"])


@pytest.mark.parametrize(("program", "old", "new"), PROGRAMS.values(), ids=PROGRAMS)
def test_code_is_the_same_until_it_changes(program: str, old: str, new: str) -> None:
    first = digest(program)
    moved = program.replace(":\n ", ": # a comment\n\n ")
    assert digest("\n" + moved, "<other>") == first
    assert program.count(old)
    assert digest(program.replace(old, new)) != first


def test_code_is_the_same_in_another_process() -> None:
    script = "import sys, json; sys.path[:] = json.loads(sys.argv[1])\n"
    script += "from tests.evaluation.test_descriptions import PROGRAMS, digest\n"
    script += "print(json.dumps([digest(program) for program, *_ in PROGRAMS.values()]))"
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(sys.path)],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == [digest(program) for program, *_ in PROGRAMS.values()]


def test_a_module_of_the_user_is_part_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    program = "import own_helpers\ndef rule(draw, g):\n    return own_helpers.cut()"
    found = []
    for cut in ("0.1", "5.0"):
        (tmp_path / "own_helpers.py").write_text(f"def cut():\n    return {cut}\n")
        found.append(digest(program))
    assert found[0] != found[1]
    monkeypatch.delitem(sys.modules, "own_helpers")


@pytest.mark.parametrize(
    "line",
    [
        "from own.cuts import cut",
        "from own import cuts",
        "import own.cuts as c",
        "import own.cuts",
        "from .cuts import cut",
        "from . import cuts",
        "from own.other import f",
    ],
)
def test_what_a_rule_imports_when_it_runs_is_part_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").touch()
    (tmp_path / "own" / "other.py").write_text("from own.cuts import cut\ndef f(): return cut()")
    program = f"__package__ = 'own'\ndef rule(draw, g):\n    import json, no_such\n    {line}"
    found = []
    for cut in ("0.1", "5.0", "5.0"):
        for name in [name for name in sys.modules if name.partition(".")[0] == "own"]:
            monkeypatch.delitem(sys.modules, name)
        (tmp_path / "own" / "cuts.py").write_text(f"def cut():\n    return {cut}\n")
        importlib.invalidate_caches()
        found.append(digest(program))
    assert found[0] != found[1] == found[2]


@pytest.mark.parametrize(
    "program",
    [
        "rule = len",
        "import threading\nlock = threading.Lock()\ndef rule(draw, g):\n    return lock",
        "def make():\n    rows = (i for i in 'ab')\n    return lambda draw, g: rows\nrule = make()",
    ],
)
def test_code_that_cannot_be_compared_is_refused(program: str) -> None:
    with pytest.raises(TypeError, match="has no Python code|cannot pickle"):
        digest(program)
