"""The shipped sample: small, with natural label frequencies, and large enough for a guarantee."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import MetaPS
from metapac.datasets import sites_sample
from metapac.datasets.sample.load import SitesSample
from tests.helpers.shared_data import SHARED, needs_real_data


@pytest.fixture(scope="module")
def sample() -> SitesSample:
    return sites_sample()


def test_arrays_agree_in_length_and_type(sample: SitesSample) -> None:
    n = len(sample.y)
    assert sample.x.shape == (n, len(sample.feature_names)) == (n, 11)
    assert sample.x.dtype == np.float64
    assert sample.tasks.shape == (n,)
    assert sample.tasks.dtype.kind == "U"
    assert set(np.unique(sample.y)) == {0, 1}


def test_every_state_year_has_enough_respondents(sample: SitesSample) -> None:
    names, sizes = np.unique(sample.tasks, return_counts=True)
    assert len(names) == 107
    assert {name[:5] for name in names} == {"2021 ", "2022 "}
    assert sorted(sizes)[:4] == [743, 1373, 1549, 1646]  # all that there are
    assert set(sorted(sizes)[4:]) == {1700}


def test_label_balance_is_natural(sample: SitesSample) -> None:
    # 36,266 of the 682,060 respondents behind the sample had a heart attack; states differ in size.
    assert sample.y.mean() == pytest.approx(36266 / 682060, abs=0.005)


def test_answers_are_small_codes_and_missing_in_2021_alone(sample: SitesSample) -> None:
    assert sample.x.min() == -1
    assert sample.x.max() == 5
    assert np.array_equal(sample.x, np.round(sample.x))
    complete = np.char.startswith(sample.tasks, "2022")
    assert sample.x[complete].min() == 0
    assert sample.x[~complete].min() == -1


def test_rows_within_a_task_are_in_random_order(sample: SitesSample) -> None:
    # A sorted task would have few runs of equal labels; a random one has about 2 n p (1 - p) + 1.
    y = sample.y[sample.tasks == "2021 Ohio"]
    runs = 1 + np.count_nonzero(np.diff(y))
    expected = 2 * len(y) * y.mean() * (1 - y.mean()) + 1
    assert runs == pytest.approx(expected, rel=0.2)


def test_is_small_and_states_its_provenance() -> None:
    folder = files("metapac.datasets.sample")
    assert len(folder.joinpath("sites.npz").read_bytes()) <= 400_000
    text = folder.joinpath("PROVENANCE.txt").read_text(encoding="utf-8")
    assert "Public domain" in text
    assert "inferred from the order of the file" in text
    assert "complete answers only" in text


def test_stored_without_pickles() -> None:
    with files("metapac.datasets.sample").joinpath("sites.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        assert {name: stored[name].dtype.kind for name in stored.files} == {
            "answers": "i",
            "feature_names": "U",
            "task_names": "U",
            "sizes": "i",
        }


def test_cannot_be_reassigned(sample: SitesSample) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        sample.x = sample.x[:10]  # type: ignore[misc]


def _naive_bayes(x: Any, y: Any) -> Callable[[Any], Any]:
    """Return a function that predicts the probability of a heart attack for each row."""
    codes = (x + 1).astype(int)
    odds = np.zeros((x.shape[1], 7))
    for column in range(x.shape[1]):
        counts = np.array([np.bincount(codes[y == k, column], minlength=7) for k in (0, 1)]) + 1
        rates = counts / counts.sum(1, keepdims=True)
        odds[column] = np.log(rates[1] / rates[0])
    base = np.log(y.mean() / (1 - y.mean()))
    columns = np.arange(x.shape[1])
    return lambda new: 1 / (1 + np.exp(-base - odds[columns, (new + 1).astype(int)].sum(1)))


@pytest.mark.parametrize("per_class", [False, True])
def test_sixty_state_years_support_a_guarantee(sample: SitesSample, per_class: bool) -> None:
    names = np.unique(sample.tasks)
    train = ~np.isin(sample.tasks, names[:80])
    calibration = np.isin(sample.tasks, names[:60])
    p = _naive_bayes(sample.x[train], sample.y[train])(sample.x[calibration])
    y = sample.y[calibration]
    scores = np.where(y == 1, p, 1 - p)
    predictor = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05, per_class=per_class)
    labels = y if per_class else None
    predictor.calibrate(scores, tasks=sample.tasks[calibration], labels=labels)
    thresholds = predictor.thresholds_ if per_class else [predictor.threshold_]
    assert np.all(np.isfinite(thresholds))


@needs_real_data
def test_is_what_the_script_draws(
    sample: SitesSample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments import make_sample

    monkeypatch.setattr(make_sample, "TARGET", tmp_path / "sites.npz")
    make_sample.main(str(SHARED / "brfss2021_2022_harmonized.parquet"))
    with np.load(tmp_path / "sites.npz") as drawn:
        assert np.array_equal(drawn["answers"][0], sample.y)
        assert np.array_equal(drawn["answers"][1:].T, sample.x)
