"""Tables of scores and promise files that the tests of the commands share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.helpers.commands import CLASSES, LEVELS, calibrate_csv, metapac, write_csv


@pytest.fixture
def csv_scores(tmp_path: Path) -> Path:
    """130 tasks of 30 examples, with awkward names."""
    values = np.random.default_rng(0).random((130, 30))
    rows = [[f"site, {i}", i, repr(v)] for i, row in enumerate(values.tolist()) for v in row]
    return write_csv(tmp_path / "scores.csv", ["site", "note", "p_true"], rows)


@pytest.fixture
def csv_promise(csv_scores: Path, tmp_path: Path) -> Path:
    path = tmp_path / "promise.json"
    result = calibrate_csv(csv_scores, "-o", path)
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    """Thirty sites of eighty examples, whose true class tends to have the highest score."""
    rng = np.random.default_rng(0)
    label = rng.integers(3, size=2400)
    logits = rng.normal(size=(2400, 3))
    logits[np.arange(2400), label] += 2
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    columns = {f"p_{name}": scores[:, j] for j, name in enumerate(CLASSES)}
    true = scores[np.arange(2400), label]
    site = np.repeat([f"site {i:02d}" for i in range(30)], 80)
    lists = {"probs": list(scores)}
    return pd.DataFrame({"site": site, "y": CLASSES[label], "true": true, **columns, **lists})


@pytest.fixture(scope="session")
def table(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "scores.parquet"
    frame.to_parquet(path)
    return path


@pytest.fixture(scope="session")
def promise(table: Path) -> Path:
    path = table.with_name("promise.json")
    result = metapac("calibrate", table, "--task", "site", "--score", "true", *LEVELS, "-o", path)
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture(scope="session")
def ten_sites(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.site < "site 10"]


@pytest.fixture(scope="session")
def site_files(ten_sites: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The file that each of ten sites sends, written by the command."""
    folder = tmp_path_factory.mktemp("sites")
    scores = tmp_path_factory.mktemp("site") / "scores.csv"
    files = []
    for name, part in ten_sites.groupby("site"):
        part[["true"]].to_csv(scores, index=False)
        files.append(folder / f"{name}.json")
        words = ["--name", name, "--score", "true", *LEVELS, "-o", files[-1]]
        result = metapac("site", scores, *words)
        assert result.exit_code == 0, result.output
    return files
