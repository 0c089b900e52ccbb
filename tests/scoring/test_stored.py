"""Files of scores and embeddings: what was stored comes back, and damage is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import BadArtefact, InvalidInput
from metapac.fewshot.scoring import FORMAT, Stored, read_stored
from metapac.fewshot.tensors import write_tensors


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[: len(raw) // 2], "was edited or damaged|is not a metapac scores file"),
        (lambda raw: raw[:-4] + b"\x00\x00\x00\x01", "was edited or damaged: its checksum does"),
        (lambda raw: raw.replace(b'\\"a\\"', b'\\"z\\"'), "was edited or damaged"),
        (lambda raw: raw.replace(b'\\"rng\\": 0', b'\\"rng\\": 7'), "was edited or damaged"),
        (
            lambda raw: raw.replace(b"metapac scores", b"another format"),
            "is not a metapac scores f",
        ),
        (lambda raw: raw.replace(b'schema\\": 2', b'schema\\": 9'), "has schema 9, .* Upgrade met"),
        (
            lambda raw: raw.replace(b'schema\\": 2', b'schema\\": 1'),
            "has schema 1, .* Score the tasks again.",
        ),
        (lambda raw: b"", "is not a metapac scores file, or is truncated"),
        (lambda raw: json.dumps({}).encode(), "is not a metapac scores file, or is truncated"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: Any, message: str) -> None:
    path = tmp_path / "scores.safetensors"
    tasks = np.repeat(["a", "b"], 25)
    Stored(scores=np.linspace(0, 1, 50), tasks=tasks, provenance={"rng": 0}).save(path)
    before = path.read_bytes()
    path.write_bytes(damage(before))
    assert path.read_bytes() != before
    with pytest.raises(BadArtefact, match=message):
        read_stored(path)


@pytest.mark.parametrize(
    "body", [{}, {"names": [], "provenance": {}}, {"names": {"tasks": ["a"]}, "provenance": {}}]
)
def test_a_forged_file_is_refused(tmp_path: Path, body: dict[str, Any]) -> None:
    path, tensors = tmp_path / "scores.safetensors", {"tasks": np.array([0, 1])}
    write_tensors(path, tensors, body, FORMAT)
    with pytest.raises(BadArtefact, match="is not a valid metapac scores file: .* Score the"):
        read_stored(path)


def test_provenance_comes_back_as_json_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "scores.safetensors"
    Stored(scores=np.zeros(1), provenance={"shots": {2: (1, 5), 10: None}}).save(path)
    assert read_stored(path).provenance == {"shots": {"2": [1, 5], "10": None}}
    message = "provenance must hold only .* JSON can store"
    with pytest.raises(InvalidInput, match=message):
        Stored(scores=np.zeros(1), provenance={"rng": np.random.default_rng(0)}).save(path)
