"""Intervals from arrays: the threshold of residual scores, and the words of tables."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import (
    CheckWarning,
    Context,
    Guarantee,
    InfeasibleGuarantee,
    MetaPS,
    Site,
    combine_sites,
    evaluate,
    load,
    residual_scores,
)
from tests.helpers.tables import calibrate_table, evaluate_table, predict_table, site_table

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.1}
TRIVIAL = "Every interval is infinite, so the guarantee holds trivially."


def draw_sites(sites: int = 40, rng: int = 0) -> pd.DataFrame:
    """Return predictions with a scale, and the true numbers, at sites with 50 rows each."""
    generator = np.random.default_rng(rng)
    frame = pd.DataFrame({"site": np.repeat([f"{rng}-{i}" for i in range(sites)], 50)})
    frame["guess"] = generator.normal(size=len(frame))
    frame["sd"] = np.exp(generator.normal(scale=0.3, size=len(frame)))
    frame["truth"] = frame.guess + frame.sd * generator.normal(size=len(frame))
    return frame


def calibrate(frame: pd.DataFrame, *, scaled: bool = True, **options: Any) -> MetaPS:
    scale = frame.sd if scaled else None
    return MetaPS(**LEVELS).calibrate_intervals(
        frame.truth, frame.guess, frame.site, scale, **options
    )


@pytest.mark.parametrize("scaled", [False, True])
def test_arrays_give_what_a_table_gives(scaled: bool, tmp_path: Path) -> None:
    frame, about = draw_sites(), Context(unit="clinic", example="patient")
    ours = calibrate(frame, scaled=scaled, context=about)
    scores = residual_scores(frame.truth, frame.guess, frame.sd if scaled else 1.0)
    assert ours.threshold_ == MetaPS(**LEVELS).calibrate(scores, frame.site).threshold_
    names: dict[str, Any] = {"prediction": "guess", "y": "truth"}
    names |= {"scale": "sd"} if scaled else {}
    table = calibrate_table(frame, task="site", **names, context=about, **LEVELS)
    ours.save(tmp_path / "promise.json")
    for predictor in (ours, load(tmp_path / "promise.json")):
        assert predictor.columns_ == table.columns_
        assert predictor.promise_ == table.promise_
        assert predictor.explain() == table.explain()
    assert "label" not in ours.explain() + ours.promise_
    assert ("times its scale" in ours.explain()) == scaled
    assert "label" in MetaPS(**LEVELS).calibrate(scores, frame.site).explain()  # as before


def test_columns_of_a_new_table_are_known(tmp_path: Path) -> None:
    promise, new = calibrate(draw_sites()), draw_sites(15, rng=1)
    scores = residual_scores(new.truth, new.guess, new.sd)
    by_table, by_array = evaluate_table(promise, new), evaluate(promise, scores, new.site)
    assert sorted(by_table.missed.tolist()) == sorted(by_array.missed.tolist())
    assert by_table.widths is not None
    predict_table(promise, new, output=tmp_path / "intervals.parquet")
    written = pd.read_parquet(tmp_path / "intervals.parquet")
    low, high = promise.predict_interval(new.guess, new.sd).T
    assert written.lower.tolist() == low.tolist()
    assert written.upper.tolist() == high.tolist()


def test_numbers_without_names_have_the_names_of_the_parameters() -> None:
    frame = draw_sites()
    y, prediction = frame.truth.to_numpy(), frame.guess.to_numpy()
    method = MetaPS(**LEVELS).calibrate_intervals(y, prediction, frame.site)
    assert method.columns_ == {"prediction": "prediction", "y": "y"}
    method.calibrate_intervals(y, prediction, frame.site.to_numpy(), 2.0)
    assert method.columns_ == {"prediction": "prediction", "y": "y", "scale": "scale"}
    method.calibrate_intervals(frame.truth.rename("site"), frame.guess, frame.site)
    assert method.columns_ == {"prediction": "prediction", "y": "y"}


def test_new_tasks_are_added_as_intervals() -> None:
    old, new = draw_sites(), draw_sites(10, rng=1)
    grown = calibrate(old).add(residual_scores(new.truth, new.guess, new.sd), new.site)
    whole = calibrate(pd.concat([old, new], ignore_index=True))
    assert grown.promise_ == whole.promise_
    assert grown.explain() == whole.explain()


def test_one_task_of_each_cluster_is_drawn() -> None:
    frame = draw_sites(60)
    owners = {name: i // 2 for i, name in enumerate(frame.site.unique())}
    scores = residual_scores(frame.truth, frame.guess, frame.sd)
    ours = calibrate(frame, clusters=owners, rng=5)
    expected = MetaPS(**LEVELS).calibrate(scores, frame.site, clusters=owners, rng=5)
    assert ours.tasks_.tolist() == expected.tasks_.tolist()
    assert ours.threshold_ == expected.threshold_
    assert "new tasks of new clusters" in ours.promise_


def test_calibrating_on_labels_again_speaks_of_labels() -> None:
    frame = draw_sites()
    method = calibrate(frame)
    method.calibrate(residual_scores(frame.truth, frame.guess), frame.site)
    assert method.columns_ is None
    assert "the sets {label" in method.promise_


def test_a_failed_call_changes_nothing() -> None:
    method = calibrate(draw_sites())
    before = method.promise_
    few = draw_sites(3, rng=1)
    with pytest.raises(InfeasibleGuarantee):
        method.calibrate_intervals(few.truth, few.guess, few.site)
    assert method.promise_ == before
    assert method.columns_ is not None
    assert "scale" in method.columns_


def test_too_few_tasks_may_have_infinite_intervals() -> None:
    few = draw_sites(3)
    remedy = "; or pass on_infeasible='trivial' for intervals of infinite width."
    with pytest.raises(InfeasibleGuarantee, match=re.escape(remedy) + "$"):
        calibrate(few)
    with pytest.raises(InfeasibleGuarantee, match=re.escape(remedy) + "$"):
        calibrate_table(few, task="site", prediction="guess", y="truth", **LEVELS)
    method = MetaPS(**LEVELS, on_infeasible="trivial")
    method.calibrate_intervals(few.truth, few.guess, few.site)
    assert method.predict_interval([1.0]).tolist() == [[-math.inf, math.inf]]
    table = calibrate_table(
        few, task="site", prediction="guess", y="truth", **LEVELS, on_infeasible="trivial"
    )
    for promise in (method, table):
        assert promise.remarks_ == [TRIVIAL]
        assert promise.promise_.endswith(f" {TRIVIAL}")
        assert "it gives an interval: all numbers" in promise.explain()
        assert "label" not in promise.promise_ + promise.explain()
    scores = residual_scores(few.truth, few.guess)
    with pytest.raises(InfeasibleGuarantee, match="on_infeasible='trivial' to keep every label"):
        MetaPS(**LEVELS).calibrate(scores, few.site)


def test_a_largest_residual_that_tasks_share_is_reported(tmp_path: Path) -> None:
    """Of ratings from 1 to 5, all predicted as 1, many are as wrong as can be."""
    tasks = np.repeat(np.arange(40), 50)
    y = np.tile(np.where(np.arange(50) < 20, 5.0, 1.0), 40)
    method = MetaPS(**LEVELS)
    words = (
        "The threshold -4.0 is the lowest calibration score, so intervals are wide enough for "
        "every true number in the calibration tasks, and the guarantee says little: in 40 of 40 "
        "tasks (100%) more true numbers lie that far from their prediction than may be missed."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(words)}$"):
        method.calibrate_intervals(y, np.ones(2000), tasks, allow=("duplicates",))
    assert method.remarks_ == [words]
    method.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").remarks_ == [words]
    little = "plus and minus 4 (rounded up); hardly any true number is farther off, so the"
    assert little in method.explain()


def test_a_copy_of_the_true_value_is_no_prediction() -> None:
    frame, words = draw_sites(), "^every prediction equals its true value"
    copied = frame.assign(guess=frame.truth)
    with pytest.warns(CheckWarning, match=words):
        assert calibrate(copied, allow=("duplicates",)).threshold_ == 0
    columns = {"prediction": "guess", "y": "truth", "scale": "sd", **LEVELS}
    with pytest.warns(CheckWarning, match=words):
        calibrate_table(copied, task="site", **columns)
    with pytest.warns(CheckWarning, match=words):
        site_table(copied.head(50), name="ohio", **columns)
    copied.loc[7, "guess"] += 1  # one prediction that differs
    assert calibrate(copied, allow=("duplicates",)).threshold_ == 0
    assert calibrate_table(copied, task="site", **columns).threshold_ == 0


def test_few_exact_predictions_show_nothing() -> None:
    method, y = MetaPS(epsilon=0.45, alpha=0.7, delta=0.4), np.arange(19.0)
    tasks = np.arange(19) % 3
    method.calibrate_intervals(y, y, tasks, allow=("duplicates", "levels"))
    with pytest.warns(CheckWarning, match="every prediction equals its true value"):
        method.calibrate_intervals(
            np.append(y, 9.0), np.append(y, 9.0), np.append(tasks, 0), allow=("duplicates",)
        )


def test_sites_whose_numbers_are_exact_have_the_most_informative_intervals() -> None:
    """A threshold of 0 keeps every label of probabilities, but intervals of no width."""
    agreed = Guarantee(**LEVELS)
    names = {"prediction": "guess", "y": "truth"}
    ranks = len(agreed.levels)
    sites = [
        Site(f"s{i}", agreed, (60,), ((0.0,) * ranks,), np.dtype("f8"), columns=names)
        for i in range(40)
    ]
    exact = combine_sites(sites)
    assert (exact.threshold_, exact.remarks_) == (0.0, [])
    with pytest.warns(UserWarning, match="The threshold is 0.0, so, if scores are probabilities"):
        combine_sites([replace(site, columns=None) for site in sites])


def test_tasks_may_be_a_generator() -> None:
    frame = draw_sites(60)
    owners = {name: i // 2 for i, name in enumerate(frame.site.unique())}
    scores = residual_scores(frame.truth, frame.guess)

    def compare(clusters: Any, **tasks: Any) -> list[float]:
        one, two = MetaPS(**LEVELS), MetaPS(**LEVELS)
        one.calibrate_intervals(frame.truth, frame.guess, tasks["first"], clusters=clusters)
        two.calibrate(scores, tasks["second"], clusters=clusters)
        return [one.threshold_, two.threshold_]

    for clusters in (None, owners):
        expected = compare(clusters, first=frame.site, second=frame.site)
        found = compare(clusters, first=iter(frame.site), second=(x for x in frame.site))
        assert found == expected
    grown = MetaPS(**LEVELS).calibrate(scores, frame.site)
    new = (f"new {name}" for name in frame.site)
    assert len(grown.add(2 * scores, new).tasks_) == 120


def test_a_scale_is_used_in_calibration_and_prediction_or_in_neither() -> None:
    rng = np.random.default_rng(0)
    tasks, scale = np.arange(60).repeat(40), rng.uniform(1, 3, 2400)
    prediction = rng.normal(size=2400)
    y = prediction + scale * rng.normal(size=2400)
    plain = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1).calibrate_intervals(y, prediction, tasks)
    scaled = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1)
    scaled.calibrate_intervals(y, prediction, tasks, scale)
    np.testing.assert_array_equal(
        plain.predict_interval([0.0, 1.0]), plain.predict_interval([0.0, 1.0], 1.0)
    )
    assert np.ptp(scaled.predict_interval([0.0], [2.0])) == pytest.approx(
        2 * np.ptp(scaled.predict_interval([0.0], [1.0]))
    )
