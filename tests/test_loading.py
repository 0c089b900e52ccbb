"""Promise files of every kind of predictor, read in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import PS, MetaPS, artefact, load
from metapac.fewshot import MetaCP


@pytest.mark.parametrize("kind", ["MetaPS", "PS", "MetaCP"])
def test_every_kind_is_found_without_importing_it_first(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    scores, tasks = rng.random(3000), np.repeat(np.arange(60), 50)
    methods: dict[str, Any] = {
        "MetaPS": lambda: MetaPS(epsilon=0.2, alpha=0.2, delta=0.1).calibrate(scores, tasks),
        "PS": lambda: PS(epsilon=0.2, delta=0.1).calibrate(scores),
        "MetaCP": lambda: MetaCP(epsilon=0.2, delta=0.1).calibrate(scores, tasks, np.zeros(60)),
    }
    before = methods[kind]()
    before.save(tmp_path / "promise.json")
    code = "import sys, metapac; print(metapac.load(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path / "promise.json")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == f"{before.promise_}\n"
    assert type(load(tmp_path / "promise.json")).__name__ == kind


def saved(path: Path, **changes: Any) -> dict[str, Any]:
    """Write a promise file with changes and a right checksum; return its document."""
    tasks = np.repeat(np.arange(60), 50)
    scores = np.random.default_rng(0).random(3000)
    MetaPS(epsilon=0.2, alpha=0.2, delta=0.1).calibrate(scores, tasks).save(path)
    document: dict[str, Any] = json.loads(path.read_text()) | changes
    del document["checksum"]
    path.write_text(json.dumps(document | {"checksum": artefact.checksum(document)}))
    return document


SHARED = {"format": "metapac promise", "schema": 1, "metapac": "0.1.0", "precision": "float64"}
FIRST_VERSION: dict[str, dict[str, Any]] = {  # as metapac 0.1.0 wrote them
    "MetaPS": {
        "kind": "MetaPS",
        "parameters": {
            "epsilon": 0.3, "alpha": 0.5, "delta": 0.4, "split": "tight", "on_infeasible": "raise",
        },
        "promise": "With probability at least 1 - 0.4 over the 6 calibration tasks, the sets "
        "{label: score >= 0.04} miss the true label at most 30% of the time on at least 50% of new "
        "tasks (each with its own adaptation examples, if any), provided that tasks are drawn "
        "independently and alike, that no calibration task was seen in training, and that one "
        "fixed score function serves them all.",
        "threshold": 0.04,
        "columns": None,
        "evidence": {
            "tasks": ["a", "b", "c", "d", "e", "f"],
            "sizes": [10, 10, 10, 10, 10, 10],
            "thresholds": [[0.04], [0.03], [0.12], [0.31], [0.23], [0.06]],
        },
        "checksum": "sha256:16d864867e170bcfbd5a593a9e30c2a5e5408383cb6cd39a79b35e28ad4da58b",
    },
    "PS": {
        "kind": "PS",
        "parameters": {"epsilon": 0.2, "delta": 0.1, "on_infeasible": "raise"},
        "promise": "With probability at least 1 - 0.1 over the 60 calibration examples, the sets "
        "{label: score >= 0.08} miss the true label at most 20% of the time on new examples, "
        "provided that these are drawn independently from the same distribution, that no "
        "calibration example was seen in training, and that the score function is fixed; nothing "
        "is said of any one task inside that distribution.",
        "threshold": 0.08,
        "evidence": {"examples": 60},
        "checksum": "sha256:99680cd0cc63a050e4c57397e82e4391a4a467d0d59e4c4d0a630cbb0da54fec",
    },
    "MetaCP": {
        "kind": "MetaCP",
        "parameters": {"epsilon": 0.5, "delta": 0.4, "over": "tasks", "on_infeasible": "raise"},
        "promise": "With probability at least 1 - 0.4 over the 6 calibration tasks and their "
        "examples, the sets {label: score >= -(quantile + -0.06)} miss the true label at most 50% "
        "of the time on average over new tasks, not on each of them, provided that tasks are drawn "
        "independently and alike, that no calibration task was seen in training, and that one "
        "fixed score function and one fixed quantile predictor serve them all.",
        "lambda": -0.06,
        "evidence": {
            "tasks": ["a", "b", "c", "d", "e", "f"],
            "sizes": [10, 10, 10, 10, 10, 10],
            "quantiles": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        },
        "checksum": "sha256:092b4afaceb28c40a6f867b50be72126ea045f44cb479f139b4b3a4c5b6336ff",
    },
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), [("MetaPS", 0.04), ("PS", 0.08), ("MetaCP", -0.06)])
def test_promises_of_the_first_version_are_read(tmp_path: Path, kind: str, value: float) -> None:
    (tmp_path / "old.json").write_text(json.dumps(SHARED | FIRST_VERSION[kind]))
    predictor = load(tmp_path / "old.json")
    assert (type(predictor).__name__, predictor._result()[1]) == (kind, value)
    predictor.save(tmp_path / "new.json")
    assert load(tmp_path / "new.json")._result() == predictor._result()


@pytest.mark.parametrize("version", [{}, {"metapac": "0.2.0"}])
def test_the_sentence_is_computed_not_read(tmp_path: Path, version: dict[str, str]) -> None:
    path = tmp_path / "promise.json"
    stated = saved(path)["promise"]
    saved(path, promise="The same, in other words.", **version)
    assert load(path).promise_ == stated


def test_an_early_file_without_the_lowest_score_is_read(tmp_path: Path) -> None:
    path = tmp_path / "promise.json"
    evidence = saved(path)["evidence"]
    threshold = load(path).threshold_
    evidence = {k: v for k, v in evidence.items() if k not in ("lowest", "highest")}
    saved(path, evidence=evidence)
    assert load(path).threshold_ == threshold


def test_keys_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "promise.json"
    saved(path, note={"of": "a later version"}, columns={"weight": "w"})
    assert load(path).columns_ == {"weight": "w"}
