"""Promise files of every kind of predictor, read in a fresh process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import PS, MetaCP, MetaPS, load


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
