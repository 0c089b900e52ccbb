"""Every step from the command line, with the packages that are installed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

GUARANTEE = ["--epsilon", ".1", "--alpha", ".2", "--delta", ".05"]


def write_tables(folder: Path) -> None:
    """Write labelled scores of pilot, calibration and new sites."""
    rng = np.random.default_rng(0)
    for name, sites in {"pilot": 20, "known": 60, "new": 20}.items():
        sick = rng.random(sites * 100) < 0.3
        p = rng.beta(2 + 4 * sick, 5)
        site = [f"{name} {i % sites}" for i in range(len(p))]
        table = pd.DataFrame({"site": site, "y": np.where(sick, "yes", "no")})
        table.assign(p_no=1 - p, p_yes=p).to_parquet(folder / f"{name}.parquet")


def run(folder: Path, *words: str) -> str:
    """Run a command, and return what it prints; it must succeed without a warning."""
    command = [sys.executable, "-I", "-m", "metapac", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    assert not done.stderr, f"{words}: {done.stderr}"
    return done.stdout


def check_commands(folder: Path) -> None:
    """Plan, explore, calibrate, predict, evaluate, and combine sites."""
    columns = ["--task", "site", "--label", "y"]
    assert "29 tasks" in run(folder, "plan", *GUARANTEE[:2], "--alpha", ".1", *GUARANTEE[4:])
    run(folder, "explore", "pilot.parquet", *columns, "--plot", "p.png", "-o", "pilot.json")
    run(folder, "calibrate", "known.parquet", *columns, *GUARANTEE, "-o", "promise.json")
    for output in ("sets.parquet", "sets.csv"):
        run(folder, "predict", "promise.json", "new.parquet", "-o", output)
        assert (folder / output).stat().st_size
    run(folder, "evaluate", "promise.json", "new.parquet")
    known = pd.read_parquet(folder / "known.parquet")
    files: list[str] = []
    for name, rows in known.groupby("site"):
        path = folder / f"{name}.parquet"
        rows.to_parquet(path)
        if len(files) < 15:
            files.append(f"{name}.json")
            words = ["site", path.name, "--name", str(name), "--label", "y"]
            run(folder, *words, *GUARANTEE, "-o", files[-1])
    assert "of 15 sites" in run(folder, "combine", *files, "-o", "all.json").lower()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder))
        check_commands(Path(folder))
