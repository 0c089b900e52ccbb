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


def test_the_build_backend_is_the_same_where_the_release_is_built() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (backend,) = settings["build-system"]["requires"]
    assert backend.startswith("hatchling>=")  # older ones do not know license-files of PEP 639
    assert backend in settings["dependency-groups"]["build"]


@pytest.mark.skipif(not (ROOT / ".github").is_dir(), reason="not in source distributions")
def test_nothing_is_published_before_the_tests_pass() -> None:
    workflows = ROOT / ".github" / "workflows"
    assert re.search(r"^  workflow_call:", (workflows / "tests.yml").read_text(), re.MULTILINE)
    release = (workflows / "release.yml").read_text()
    assert "\n  tests:\n    uses: ./.github/workflows/tests.yml\n" in release
    assert "\n  publish:\n    needs: [tests, build]\n" in release
