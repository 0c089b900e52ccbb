"""Tables of scores and promise files that the tests of the commands share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.helpers.commands import CLASSES, LEVELS, STRICT, metapac, write_csv


@pytest.fixture
def csv_promise(tmp_path: Path) -> Path:
    """A promise on scores of true labels, of 130 tasks with awkward names."""
    values = np.random.default_rng(0).random((130, 30)).tolist()
    rows = [[f"site, {i}", repr(value)] for i, row in enumerate(values) for value in row]
    scores = write_csv(tmp_path / "scores.csv", ["site", "true"], rows)
    return calibrate(scores, tmp_path / "promise.json", *STRICT)


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
    return pd.DataFrame({"site": site, "y": CLASSES[label], "true": true, **columns})


@pytest.fixture(scope="session")
def table(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "scores.parquet"
    frame.to_parquet(path)
    return path


@pytest.fixture(scope="session")
def promise(table: Path) -> Path:
    return calibrate(table, table.with_name("promise.json"), *LEVELS)


def calibrate(scores: Path, output: Path, *levels: str) -> Path:
    words = ["calibrate", scores, "--task", "site", "--score", "true", *levels, "-o", output]
    result = metapac(*words)
    assert result.exit_code == 0, result.output
    return output
