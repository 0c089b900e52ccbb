"""A table opened with options can be passed to every function on tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import MetaPS, Reading, open_table
from tests.helpers.tables import calibrate_table, evaluate_table, predict_table, site_table

LEVELS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    yes = rng.random(300)
    site = np.repeat([f"K\xf6ln {i}" for i in range(10)], 30)
    label = np.where(rng.random(300) < yes, "yes", "no")
    return pd.DataFrame({"site": site, "y": label, "p_no": 1 - yes, "p_yes": yes})


def test_every_function_takes_an_open_table(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    frame.to_csv(path, sep=";", decimal=",", encoding="latin-1", index=False)
    options: dict[str, Any] = {"separator": ";", "decimal": ",", "encoding": "latin-1"}
    with open_table(path, reading=Reading(**options)) as foreign:
        promise = calibrate_table(foreign, task="site", label="y", **LEVELS)
        same = calibrate_table(frame, task="site", label="y", **LEVELS)
        assert promise.threshold_ == same.threshold_ > 0
        assert promise.tasks_.tolist() == same.tasks_.tolist()
        sets = predict_table(promise, foreign, booleans=True).to_pandas()
        expected = predict_table(promise, frame, booleans=True).to_pandas()
        assert sets.in_yes.tolist() == expected.in_yes.tolist()
        evaluation = evaluate_table(promise, foreign, allow=("overlap",))
        assert evaluation.within == evaluate_table(promise, frame, allow=("overlap",)).within
        site = site_table(foreign, name="all", label="y", split="tight", **LEVELS)
        assert site == site_table(frame, name="all", label="y", split="tight", **LEVELS)


def test_an_open_table_closes_its_connection(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    with open_table(tmp_path / "a.csv") as table:
        assert table.with_columns(task="a").sizes()[None].tolist() == [1]
    with pytest.raises(Exception, match="closed"):
        table.with_columns(task="a").sizes()


def test_no_secret_reaches_a_promise_file(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "secret word.parquet")
    address = f"file://{tmp_path}/secret word.parquet"
    promise = calibrate_table(address, task="site", label="y", **LEVELS)
    promise.save(tmp_path / "p.json")
    assert "secret" not in (tmp_path / "p.json").read_text()
    assert isinstance(promise, MetaPS)
    assert json.loads((tmp_path / "p.json").read_text())["columns"]["task"] == "site"
