"""The example with Flower: a simulation on two processes gives the threshold of pooled scores."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.test_docs import DOCS, ROOT, blocks

PYTHON = os.environ.get("METAPAC_FLOWER", "")
EXAMPLE = ROOT / "examples" / "flower.py"
needs_flower = pytest.mark.skipif(
    not PYTHON, reason="no Flower: METAPAC_FLOWER is not set (.ci/run installs it and sets it)"
)


def run(example: Path) -> subprocess.CompletedProcess[str]:
    offline = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    environment = {**os.environ, **offline, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [PYTHON, str(example)], capture_output=True, text=True, env=environment, timeout=1200
    )


@needs_flower
def test_clients_that_send_numbers_give_the_pooled_threshold() -> None:
    done = run(EXAMPLE)
    assert done.returncode == 0, done.stderr
    assert re.search(r"threshold 0\.\d{4} from 30 clients, as from all scores", done.stdout)


@needs_flower
def test_a_client_that_sends_other_numbers_is_noticed(tmp_path: Path) -> None:
    honest, dishonest = "task_threshold(scores)", "task_threshold(scores * 0.5)"
    code = EXAMPLE.read_text()
    assert honest in code
    (tmp_path / "flower.py").write_text(code.replace(honest, dishonest))
    done = run(tmp_path / "flower.py")
    assert done.returncode != 0
    assert "AssertionError" in done.stderr


def test_the_page_shows_the_code_of_the_example() -> None:
    shown = [block.code for block in blocks(DOCS / "federated.md") if block.language == "py"]
    assert shown
    for code in shown:
        assert code in EXAMPLE.read_text()
