"""Regression from tables: residuals as scores, on every engine as in the array route."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, MetaPS, combine_sites, evaluate, load, residual_scores
from tests.helpers import engines
from tests.helpers.tables import calibrate_table, evaluate_table, predict_table, site_table
from tests.helpers.tables import summarise_table as summarise_sets

PROMISE: dict[str, Any] = {"epsilon": 0.15, "alpha": 0.2, "delta": 0.1}
COLUMNS: dict[str, Any] = {"prediction": "guess", "y": "truth", "scale": "sd"}


def make_sites(first: int = 0, sites: int = 40, examples: int = 30, seed: int = 0) -> pd.DataFrame:
    """Return predictions, scales and true values of some sites, of very different magnitudes."""
    rng = np.random.default_rng([seed, first])
    n = sites * examples
    guess = rng.normal(size=n) * 10.0 ** rng.integers(-8, 9, n)
    sd = np.exp(rng.normal(size=n)) * 10.0 ** rng.integers(-3, 4, n)
    site = np.repeat(np.arange(first, first + sites), examples)
    return pd.DataFrame({"site": site, "guess": guess, "sd": sd}).assign(
        truth=guess + sd * rng.normal(size=n)
    )


@pytest.mark.parametrize("engine", engines.ENGINES)
@pytest.mark.parametrize("has_scale", [True, False])
def test_a_table_gives_the_threshold_of_its_arrays(engine: str, has_scale: bool) -> None:
    frame = make_sites()
    columns = COLUMNS if has_scale else {k: v for k, v in COLUMNS.items() if k != "scale"}
    by_table = calibrate_table(engines.put(engine, frame), task="site", **columns, **PROMISE)
    scores = residual_scores(frame.truth, frame.guess, frame.sd if has_scale else 1.0)
    by_array = MetaPS(**PROMISE).calibrate(scores, frame.site)
    assert by_table.threshold_ == by_array.threshold_
    np.testing.assert_array_equal(by_table.task_thresholds_, by_array.task_thresholds_)
    assert by_table.columns_ == {"task": "site", **columns}


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_misses_and_widths_are_those_of_the_arrays(engine: str) -> None:
    frame, new = make_sites(), make_sites(100, sites=12)
    promise = calibrate_table(frame, task="site", **COLUMNS, **PROMISE)
    evaluation = evaluate_table(promise, engines.put(engine, new))
    by_array = evaluate(promise, residual_scores(new.truth, new.guess, new.sd), new.site)
    np.testing.assert_array_equal(evaluation.missed, by_array.missed)
    assert evaluation.verdict == by_array.verdict
    low, high = promise.predict_interval(new.guess, new.sd).T
    expected = pd.Series(high - low).groupby(new.site.to_numpy()).mean()
    assert evaluation.widths is not None
    np.testing.assert_allclose(evaluation.widths, expected, rtol=1e-12)
    assert evaluation.sizes is None
    assert evaluation.to_frame()["width"].tolist() == evaluation.widths.tolist()
    assert "mean width" in repr(evaluation)


def test_small_types_are_computed_as_doubles() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "site": np.repeat(np.arange(30), 30),
            "guess": rng.normal(size=900).astype(np.float32),
            "sd": rng.random(900).astype(np.float32) + np.float32(0.5),
            "truth": rng.integers(-2, 3, 900).astype(np.int8),
        }
    )
    promise = calibrate_table(frame, task="site", **COLUMNS, **PROMISE)
    scores = residual_scores(frame.truth, frame.guess, frame.sd)
    assert promise.threshold_ == MetaPS(**PROMISE).calibrate(scores, frame.site).threshold_
    assert promise.precision_ == np.float64


def test_csv_and_the_promise_file_keep_every_bit(tmp_path: Path) -> None:
    frame = make_sites()
    frame.to_csv(tmp_path / "sites.csv", index=False)
    promise = calibrate_table(tmp_path / "sites.csv", task="site", **COLUMNS, **PROMISE)
    promise.save(tmp_path / "promise.json")
    restored = load(tmp_path / "promise.json")
    assert restored.columns_ == {"task": "site", **COLUMNS}
    scores = residual_scores(frame.truth, frame.guess, frame.sd)
    assert restored.threshold_ == MetaPS(**PROMISE).calibrate(scores, frame.site).threshold_
    frame["guess"] = frame.guess.astype(object)
    frame.loc[3, "guess"] = "high"
    frame.to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(
        InvalidInput, match="bad.csv, line 5: column 'guess' holds 'high', which is"
    ):
        calibrate_table(tmp_path / "bad.csv", task="site", **COLUMNS, **PROMISE)


def test_sites_send_what_the_whole_table_gives() -> None:
    frame = make_sites()
    sites = [
        site_table(part, name=f"s{name:03}", **COLUMNS, **PROMISE)
        for name, part in frame.groupby("site")
    ]
    combined = combine_sites(sites)
    assert (
        combined.threshold_ == calibrate_table(frame, task="site", **COLUMNS, **PROMISE).threshold_
    )
    new = make_sites(100, sites=5)
    evaluation = evaluate_table(combined, new, task="site", **COLUMNS)  # it stores no columns
    assert evaluation.widths is not None


def test_an_explicit_score_overrides_the_stored_columns() -> None:
    frame = make_sites()
    promise = calibrate_table(frame, task="site", **COLUMNS, **PROMISE)
    new = make_sites(100)
    scored = new.assign(score=residual_scores(new.truth, new.guess, new.sd))[["site", "score"]]
    evaluation = evaluate_table(promise, scored, score="score")
    np.testing.assert_array_equal(evaluation.missed, evaluate_table(promise, new).missed)
    assert evaluation.widths is None


def test_prediction_needs_no_true_values() -> None:
    frame = make_sites()
    promise = calibrate_table(frame, task="site", **COLUMNS, **PROMISE)
    unlabelled = frame[["guess", "sd"]].rename(columns={"guess": "mu"})
    result = predict_table(promise, unlabelled, prediction="mu").to_pandas()
    assert list(result) == ["mu", "sd", "lower", "upper"]
    with pytest.raises(InvalidInput, match="gives intervals, not sets"):
        summarise_sets(promise, frame)
    with pytest.raises(InvalidInput, match="booleans=True is for classes, and prediction for num"):
        predict_table(promise, frame, booleans=True)
