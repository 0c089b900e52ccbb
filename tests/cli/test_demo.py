"""``metapac demo``: the table, the files, and the same results for the same seed."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from tests.helpers.commands import metapac

METHODS = ("PS", "PS-Test", "Meta-PS even", "Meta-PS joint")


def test_synthetic_demo(tmp_path: Path) -> None:
    result = metapac("demo", "--data", "synthetic", "--draws", 3, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "labelled examples of the new task itself and needs 110, so it keeps every label" in text
    rows = [line.split() for line in result.output.replace("│", " ").splitlines()]
    guarantee = {" ".join(row[:-4]): row[-1] for row in rows if " ".join(row[:-4]) in METHODS}
    assert guarantee == {name: "violated" if name == "PS" else "satisfied" for name in METHODS}
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "out" / "demo.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == 3 * 4 * 50
    sizes = {m: np.mean([float(r["size"]) for r in written if r["method"] == m]) for m in METHODS}
    assert sizes["PS-Test"] == 5
    assert sizes["Meta-PS joint"] < sizes["Meta-PS even"]
    again = metapac("demo", "--data", "synthetic", "--draws", 3, "-o", tmp_path / "again")
    assert again.exit_code == 0
    assert (tmp_path / "again/demo.csv").read_text() == (tmp_path / "out/demo.csv").read_text()
