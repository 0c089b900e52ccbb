"""The shipped sample: small, with natural label frequencies, and large enough for a guarantee."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import InvalidInput, MetaPS, load_heart_sites
from metapac.heart_sites import LABELS, Sample, read_sample
from tests.helpers.shared_data import SHARED, needs_real_data


@pytest.fixture(scope="module")
def sample() -> Sample:
    return read_sample()


def test_arrays_agree_in_length_and_type(sample: Sample) -> None:
    n = len(sample.y)
    assert sample.x.shape == (n, len(sample.features)) == (n, 11)
    assert sample.x.dtype == np.float64
    assert sample.state.shape == sample.year.shape == (n,)
    assert sample.state.dtype.kind == "U"
    assert set(np.unique(sample.y)) == {0, 1}


def test_every_state_year_has_enough_respondents(sample: Sample) -> None:
    (names, years), sizes = np.unique([sample.state, sample.year], axis=1, return_counts=True)
    assert len(names) == 107
    assert {*years} == {"2021", "2022"}
    assert sorted(sizes)[:4] == [743, 1373, 1549, 1646]  # all that there are
    assert set(sorted(sizes)[4:]) == {1700}


def test_label_balance_is_natural(sample: Sample) -> None:
    # 36,266 of the 682,060 respondents behind the sample had a heart attack; states differ in size.
    assert sample.y.mean() == pytest.approx(36266 / 682060, abs=0.005)


def test_answers_are_small_codes_and_missing_in_2021_alone(sample: Sample) -> None:
    assert sample.x.min() == -1
    assert sample.x.max() == 5
    assert np.array_equal(sample.x, np.round(sample.x))
    complete = sample.year == "2022"
    assert sample.x[complete].min() == 0
    assert sample.x[~complete].min() == -1


def test_rows_within_a_task_are_in_random_order(sample: Sample) -> None:
    # A sorted task would have few runs of equal labels; a random one has about 2 n p (1 - p) + 1.
    y = sample.y[sample.find_rows(np.array(["Ohio"]))]
    runs = 1 + np.count_nonzero(np.diff(y))
    expected = 2 * len(y) * y.mean() * (1 - y.mean()) + 1
    assert runs == pytest.approx(expected, rel=0.2)


def test_is_small_and_states_its_provenance() -> None:
    folder = files("metapac")
    assert len(folder.joinpath("heart_sites.npz").read_bytes()) <= 400_000
    text = folder.joinpath("heart_sites.txt").read_text(encoding="utf-8")
    assert "Public domain" in text
    assert "inferred from the order of the file" in text
    assert "complete answers only" in text


def test_stored_without_pickles() -> None:
    with files("metapac").joinpath("heart_sites.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        assert {name: stored[name].dtype.kind for name in stored.files} == {
            "answers": "i",
            "feature_names": "U",
            "task_names": "U",
            "sizes": "i",
        }


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
def test_forty_states_support_a_guarantee(sample: Sample, per_class: bool) -> None:
    train, known = (sample.find_rows(part) for part in np.split(sample.states, [10]))
    p = _naive_bayes(sample.x[train], sample.y[train])(sample.x[known])
    y = sample.y[known]
    scores = np.where(y == 1, p, 1 - p)
    predictor = MetaPS(epsilon=0.1, alpha=0.2, delta=0.05, per_class=per_class)
    predictor.calibrate(scores, tasks=sample.state[known], labels=y if per_class else None)
    thresholds = predictor.thresholds_ if per_class else [predictor.threshold_]
    assert np.all(np.isfinite(thresholds))


def test_frames_hold_the_sample_and_share_no_state(sample: Sample) -> None:
    sites = load_heart_sites(12, 30, rng=5)
    train, pilot, known, new = ({*frame["state"]} for frame in sites)
    assert train == pilot
    assert not train & known
    assert not (train | known) & new
    assert (train | known | new) == {*sample.states}
    assert [len(part) for part in (train, known, new)] == [12, 30, 11]
    for frame, year in zip(sites, ["2021", "2022", "2021", "2021"], strict=True):
        rows = frame.index
        assert {*sample.year[rows]} == {year}
        assert np.array_equal(frame[sites.features], sample.x[rows])
        assert frame["attack"].tolist() == [LABELS[label] for label in sample.y[rows]]
        assert frame["state"].tolist() == sample.state[rows].tolist()


def test_a_split_is_a_function_of_the_seed() -> None:
    first, again, other = (load_heart_sites(rng=rng) for rng in (1, 1, 2))
    assert first.new.equals(again.new)
    assert [*first.new["state"].unique()] != [*other.new["state"].unique()]


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"train": 0}, "train"),
        ({"calibration": 2.5}, "calibration"),
        ({"train": 23, "calibration": 30}, "leave one of 53 states new, got 53"),
    ],
)
def test_bad_splits_are_refused(bad: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        load_heart_sites(**bad)


@needs_real_data
def test_is_what_the_script_draws(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments import make_sample

    monkeypatch.setattr(make_sample, "TARGET", tmp_path / "sites.npz")
    make_sample.main(str(SHARED / "brfss2021_2022_harmonized.parquet"))
    with np.load(tmp_path / "sites.npz") as drawn:
        assert np.array_equal(drawn["answers"][0], sample.y)
        assert np.array_equal(drawn["answers"][1:].T, sample.x)
