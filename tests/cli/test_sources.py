"""Tables opened by an engine."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.helpers.commands import LEVELS, metapac
from tests.helpers.engines import connection


def test_a_missing_extra_is_named(table: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['ibis'] = None; from metapac.cli import main; main()"
    words = ["calibrate", table, "--task", "site", "--score", "true", *LEVELS, "-o", "p.json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "needs ibis. Install it with: pip install 'metapac[tables]'\n" in done.stderr
    assert done.stderr.count("\n") == 1


def test_progress_is_shown_on_a_terminal(table: Path, tmp_path: Path) -> None:
    code = (
        "from rich.console import Console; from metapac.cli import console; "
        "console.stderr = Console(stderr=True, force_terminal=True, width=100); "
        "from metapac.cli.app import app; app()"
    )
    words = ["calibrate", table, "--task", "site", "--score", "true", *LEVELS, "-o", "p.json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert "counting the scores of each task" in done.stderr
    assert "threshold" in done.stdout


def test_a_database_is_not_read_by_spark(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.sqlite")
    database.execute("CREATE TABLE t (site TEXT, true REAL)")
    database.close()
    connection("spark")  # skips the test without Spark
    words = ["calibrate", tmp_path / "a.sqlite", "--task", "site", "--score", "true", *LEVELS]
    result = metapac(*words, "-o", tmp_path / "p.json", "--engine", "spark")
    assert result.exit_code == 2
    assert "is read by sqlite, not Spark. Leave --engine out." in result.stderr
