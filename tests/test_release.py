"""What a release says of itself in several places is the same in all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import metapac

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_the_version_is_cited_and_has_its_changes() -> None:
    version = metapac.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version


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
