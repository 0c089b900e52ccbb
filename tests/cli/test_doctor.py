"""``metapac doctor``: what is installed, without failing on what is not."""

from __future__ import annotations

import json
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from metapac._version import __version__
from metapac.cli import doctor
from tests.helpers.commands import metapac

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.bin").write_bytes(bytes(3 << 20))
    (folder / "dangling").symlink_to("nowhere")
    monkeypatch.setenv("METAPAC_DATA", str(folder))
    return folder


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = set(project["optional-dependencies"]) - {"all"}
    assert declared == doctor.EXTRAS.keys()


def test_all_is_printed(cache: Path) -> None:
    result = metapac("doctor", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.output)
    assert facts["metapac"] == __version__
    assert facts["numpy"] == metadata.version("numpy")
    assert facts["extras"]["cli"] == {n: metadata.version(n) for n in ("typer", "rich")}
    assert facts["cache"] == {"folder": str(cache), "size": "3.0 MiB"}
    assert set(facts["engines"]) == {"SQLite", "DuckDB", "Spark", "Java"}
    text = metapac("doctor").output
    assert f"metapac: {__version__}" in text
    assert "size 3.0 MiB" in text


def test_what_is_missing_has_its_command(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    facts = json.loads(metapac("doctor", "--json").output)
    assert facts["extras"]["torch"] == {"torch": None, "safetensors": None}
    assert facts["gpu"] == {"torch": "missing"}
    assert facts["engines"]["Java"] == "missing"
    result = metapac("doctor")
    assert result.exit_code == 0
    assert "pip install 'metapac[torch]'" in result.output


class Broken:
    """A torch that cannot be used."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("a library is missing\nin many lines")


def test_a_broken_torch_is_a_finding(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", Broken())
    monkeypatch.setattr(doctor, "_version", lambda package: "1.0")
    assert doctor._find_gpu() == {
        "torch": "broken (RuntimeError: a library is missing in many lines)"
    }
