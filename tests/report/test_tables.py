"""Labelled scores in a table: the same as in arrays, counted by an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from metapac.report.tables import Tabled

from metapac import InvalidInput, MetaPS, Scored
from metapac.tables.sources import Source, open_source
from tests.helpers.tables import calibrate_table
from tests.report.conftest import CLASSES, LEVELS

NAMES = ["p_cat", "p_dog", "p_owl"]
COLUMNS = {"columns": NAMES, "classes": CLASSES}


def as_frame(data: Scored) -> pd.DataFrame:
    frame = pd.DataFrame(data.scores, columns=NAMES)
    codes = [CLASSES.index(label) for label in data.labels]
    frame["true"] = data.scores[np.arange(len(codes)), codes]
    return frame.assign(site=data.tasks.astype(str), y=data.labels.astype(str), set="taken")


@pytest.fixture
def old(calibration: Scored, tmp_path: Path) -> Iterator[Source]:
    path = tmp_path / "old.parquet"
    as_frame(calibration).to_parquet(path)
    with open_source(path) as source:
        yield source


@pytest.fixture
def new(labelled: Scored, tmp_path: Path) -> Iterator[Source]:
    path = tmp_path / "new.parquet"
    as_frame(labelled).to_parquet(path)
    with open_source(path) as source:
        yield source


@pytest.mark.parametrize("changes", [{}, {"per_class": True, "alpha": 0.3}])
def test_a_table_gives_what_arrays_give(
    old: Source, new: Source, calibration: Scored, labelled: Scored, changes: dict[str, Any]
) -> None:
    levels = LEVELS | changes
    promise = calibrate_table(old, task="site", label="y", **COLUMNS, **levels)  # type: ignore[arg-type]
    again = Tabled(old, {}).calibrate(promise, 0.1)
    expected = calibration.calibrate(promise, 0.1)
    assert again._encoded_result() == expected._encoded_result()
    assert again.columns_ == promise.columns_
    found = Tabled(new, {}).evaluate(promise, false_alarm=0.05, allow=())
    counted = labelled.evaluate(promise, false_alarm=0.05, allow=())
    assert found.missed.tolist() == counted.missed.tolist()
    assert found.verdict == counted.verdict
    tasks = ["new 3", "<script>alert(1)</script>"]
    shown = Tabled(new, {}).examples(promise, tasks)
    by_hand = labelled.examples(promise, tasks)
    assert sorted(map(str, shown)) == sorted(map(str, by_hand))
    assert shown == sorted(shown, key=lambda row: tuple(map(str, row)))


def test_a_table_with_scores_of_true_labels_has_no_examples(old: Source, new: Source) -> None:
    promise = calibrate_table(old, task="site", score="true", **LEVELS)
    assert Tabled(old, {}).calibrate(promise, 0.2).threshold_ == promise.threshold_
    assert Tabled(new, {}).examples(promise, ["new 3"]) == []


def test_one_task_of_each_cluster_counts(calibration: Scored, tmp_path: Path) -> None:
    frame = as_frame(calibration)
    frame["owner"] = frame.site.str.removeprefix("old ").astype(int) // 2
    path = tmp_path / "clustered.parquet"
    frame.to_parquet(path)
    levels = LEVELS | {"alpha": 0.3}
    with open_source(path) as source:
        columns: dict[str, Any] = {"task": "site", "score": "true", "cluster": "owner"}
        promise = calibrate_table(source, **columns, rng=3, **levels)
        again = Tabled(source, {}).calibrate(promise, 0.2)
        assert again.tasks_.tolist() == promise.tasks_.tolist()
        assert again.threshold_ == promise.threshold_
        own = MetaPS(**levels).calibrate(frame.true, frame.site, clusters=frame.owner)
        found = Tabled(source, columns).calibrate(own, 0.2)
        assert {*found.tasks_.tolist()} == {*own.tasks_.tolist()}
        with pytest.raises(InvalidInput, match="cluster must name the column with the cluster"):
            Tabled(source, {"task": "site", "score": "true"}).calibrate(own, 0.2)
        every = calibrate_table(source, task="site", score="true", **levels)
        assert len(Tabled(source, columns).calibrate(every, 0.2).tasks_) == 40


def test_columns_can_be_named(old: Source, new: Source) -> None:
    promise = calibrate_table(old, task="site", score="true", **LEVELS)
    data = Tabled(new, {"task": "site", "label": "y", **COLUMNS})
    assert data.evaluate(promise, false_alarm=0.05, allow=()).sizes is not None
    assert len(data.examples(promise, ["new 3"])) == 50


def test_intervals_have_their_ends(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"site": np.repeat(np.arange(50), 60), "y": rng.normal(size=3000)})
    frame["p"] = frame.y + 0.1 * rng.normal(size=3000)
    path = tmp_path / "numbers.parquet"
    frame.to_parquet(path)
    with open_source(path) as source:
        promise: MetaPS = calibrate_table(source, task="site", prediction="p", y="y", **LEVELS)
        data = Tabled(source, {})
        assert data.calibrate(promise, 0.2).threshold_ == promise.threshold_
        rows = data.examples(promise, [7])
    assert len(rows) == 60
    part = frame[frame.site == 7]
    missed = np.abs(part.y - part.p) > -promise.threshold_
    assert sum(row.is_missed for row in rows) == missed.sum()
    assert all(row.interval is not None and row.labels is None for row in rows)
