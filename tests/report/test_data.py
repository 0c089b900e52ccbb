"""Labelled scores of a report, in arrays and tables: calibrated again, and as rows with sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import Columns, InvalidInput, MetaPS, Scored, evaluate, open_table
from metapac._common import ignore_progress
from metapac.grouping import Data, Row
from metapac.report import report
from metapac.report.data import find_cluster_seed, is_missed, kind_of_set
from metapac.report.levels import try_epsilons
from metapac.tables import Table
from tests.report.conftest import CLASSES, LEVELS, calibrate

NAMES = ["p_cat", "p_dog", "p_owl"]


def recalibrate(promise: MetaPS, data: Data, epsilon: float) -> MetaPS:
    """Return the guarantee at another miss rate, as the report shows it."""
    options: Any = {"false_alarm": 0.05, "allow": (), "progress": ignore_progress}
    (found,) = [t for t in try_epsilons(promise, data, None, [epsilon], **options)
                if t.epsilon == epsilon]  # fmt: skip
    assert found.predictor is not None
    return found.predictor


def show_rows(promise: MetaPS, data: Data, tasks: list[Any]) -> list[Row]:
    return data.resolve(promise).rows(promise, tasks)


def as_table(data: Scored, columns: Columns | None = None, folder: Path | None = None) -> Table:
    frame = pd.DataFrame(data.scores, columns=NAMES)
    codes = [CLASSES.index(label) for label in data.labels]
    frame["true"] = data.scores[np.arange(len(codes)), codes]
    frame = frame.assign(site=data.tasks.astype(str), y=data.labels.astype(str), set="taken")
    frame["owner"] = [int(name.removeprefix("old ")) // 2 if "old" in name else 0
                      for name in frame.site]  # fmt: skip
    if folder is None:
        return open_table(frame, columns)
    frame.to_parquet(folder / "table.parquet")
    return open_table(folder / "table.parquet", columns)


@pytest.mark.parametrize(
    ("labels", "full", "kind", "missed"),
    [
        ((), False, "empty", True),
        (("dog",), False, "missed", True),
        (("cat",), False, "single", False),
        (("cat", "dog"), False, "several", False),
        (("cat", "dog", "owl"), True, "full", False),
        (("cat",), True, "full", False),
    ],
)
def test_what_a_set_is_like(labels: tuple[str, ...], full: bool, kind: str, missed: bool) -> None:
    row = Row("a", "cat", labels, full=full)
    assert (kind_of_set(row), is_missed(row)) == (kind, missed)


@pytest.mark.parametrize(
    ("truth", "missed"), [(1.0, False), (2.0, False), (2.1, True), (0.9, True)]
)
def test_an_interval_contains_its_ends(truth: float, missed: bool) -> None:
    row = Row("a", truth, None, (1.0, 2.0))
    assert is_missed(row) == missed
    assert kind_of_set(row) == ("missed" if missed else "hit")


def test_the_seed_of_the_draw_from_clusters_is_kept(promise: MetaPS) -> None:
    scores, tasks = np.linspace(0, 1, 4000), np.tile(np.arange(40), 100)
    owners = {task: task // 2 for task in range(40)}
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1)
    assert find_cluster_seed(method.calibrate(scores, tasks, clusters=owners, rng=7)) == 7
    assert find_cluster_seed(promise) is None


@pytest.mark.parametrize("epsilon", [0.1, 0.3])
def test_calibrating_again_is_calibrating_at_that_epsilon(
    calibration: Scored, promise: MetaPS, per_class: MetaPS, epsilon: float
) -> None:
    again = recalibrate(promise, calibration, epsilon)
    assert again.threshold_ == calibrate(calibration, epsilon=epsilon).threshold_
    assert again.context_ == promise.context_
    each = recalibrate(per_class, calibration, epsilon)
    expected = calibrate(calibration, epsilon=epsilon, per_class=True, alpha=0.3)
    assert each.thresholds_.tolist() == expected.thresholds_.tolist()
    assert each.guarantee_ == replace(per_class.guarantee_, epsilon=epsilon)


@pytest.mark.parametrize("changes", [{}, {"per_class": True, "alpha": 0.3}])
def test_a_table_gives_what_arrays_give(
    calibration: Scored, labelled: Scored, changes: dict[str, Any], tmp_path: Path
) -> None:
    columns = Columns(task="site", label="y", columns=NAMES, classes=CLASSES)
    promise = MetaPS(**LEVELS | changes).calibrate(as_table(calibration, columns))
    again = recalibrate(promise, as_table(calibration), 0.1)
    assert again._encoded_result() == recalibrate(promise, calibration, 0.1)._encoded_result()
    assert again.columns_ == promise.columns_
    new = as_table(labelled, folder=tmp_path)
    found, counted = evaluate(promise, new), evaluate(promise, labelled)
    assert found.missed.tolist() == counted.missed.tolist()
    assert found.verdict == counted.verdict
    tasks = ["new 3", "<script>alert(1)</script>"]
    shown = show_rows(promise, new, tasks)
    assert sorted(map(str, shown)) == sorted(map(str, show_rows(promise, labelled, tasks)))
    assert shown == sorted(shown, key=lambda row: tuple(map(str, row)))


def test_scores_of_true_labels_have_no_rows(calibration: Scored, promise: MetaPS) -> None:
    codes = np.array([CLASSES.index(label) for label in calibration.labels])
    true = calibration.scores[np.arange(len(codes)), codes]
    data = Scored(true, calibration.tasks, calibration.labels)  # labels are for evaluation only
    assert recalibrate(promise, data, 0.2).threshold_ == promise.threshold_
    assert evaluate(promise, data, allow=["overlap"]).classes is not None
    table = as_table(calibration, Columns(task="site", score="true"))
    for some in (data, table):
        assert show_rows(promise, some, ["old 1"]) == []
    own = MetaPS(**LEVELS).calibrate(table)
    assert recalibrate(own, as_table(calibration), 0.2).threshold_ == own.threshold_
    named = as_table(calibration, Columns(task="site", label="y", columns=NAMES, classes=CLASSES))
    assert evaluate(own, named, allow=["overlap"]).sizes is not None
    assert len(show_rows(own, named, ["old 3"])) == 50


def test_rows_have_the_sets_of_the_predictor(labelled: Scored, per_class: MetaPS) -> None:
    chosen = ["new 3", "new 5"]
    found = show_rows(per_class, labelled, chosen)
    rows = np.isin(labelled.tasks.astype(str), chosen)
    sets = per_class.predict_set(labelled.scores[rows])
    assert len(found) == rows.sum()
    for example, row, label in zip(found, sets, labelled.labels[rows], strict=True):
        assert example.truth == label
        assert example.labels == tuple(np.array(CLASSES, dtype=object)[row])
        assert example.full == row.all()


def test_intervals_have_their_ends() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"site": np.repeat(np.arange(50), 60), "y": rng.normal(size=3000)})
    frame["p"] = frame.y + 0.1 * rng.normal(size=3000)
    data = open_table(frame, Columns(task="site", prediction="p", y="y"))
    promise = MetaPS(**LEVELS).calibrate(data)
    assert recalibrate(promise, data, 0.2).threshold_ == promise.threshold_
    rows = show_rows(promise, data, [7])
    assert len(rows) == 60
    part = frame[frame.site == 7]
    assert sum(map(is_missed, rows)) == (np.abs(part.y - part.p) > -promise.threshold_).sum()
    assert all(row.interval is not None and row.labels is None for row in rows)


def find_clusters(data: Scored, word: str = "") -> dict[str, str]:
    """Return a cluster for each task: two tasks are in each, which may not both count."""
    names = dict.fromkeys(data.tasks.tolist())
    return {name: f"{word}{i // 2}" for i, name in enumerate(names)}


def test_one_task_of_each_cluster_counts(calibration: Scored, labelled: Scored) -> None:
    old = replace(calibration, clusters=find_clusters(calibration))
    new = replace(labelled, clusters=find_clusters(labelled, "new "))
    promise = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1).calibrate(old, rng=3)
    again = recalibrate(promise, old, 0.2)
    assert again.tasks_.tolist() == promise.tasks_.tolist()
    assert len(again.tasks_) == 20
    assert again.threshold_ == promise.threshold_
    html = report(promise, new, calibration=old, examples=0)
    assert "of the 10 new tasks stay within" in html
    for labels, scores in ((new, calibration), (labelled, old)):
        with pytest.raises(InvalidInput) as raised:
            report(promise, labels, calibration=scores)
        assert raised.value.parameters == ("clusters",)


def test_clusters_do_not_change_a_calibration_without_them(
    calibration: Scored, promise: MetaPS
) -> None:
    data = replace(calibration, clusters=find_clusters(calibration))
    assert recalibrate(promise, data, 0.2).tasks_.tolist() == promise.tasks_.tolist()
    columns = Columns(task="site", score="true")
    every = MetaPS(**LEVELS).calibrate(as_table(calibration, columns))
    clustered = as_table(calibration, replace(columns, cluster="owner"))
    assert len(recalibrate(every, clustered, 0.2).tasks_) == 40


def test_one_task_of_each_cluster_of_a_table_counts(calibration: Scored) -> None:
    columns = Columns(task="site", score="true", cluster="owner")
    levels = LEVELS | {"alpha": 0.3}
    promise = MetaPS(**levels).calibrate(as_table(calibration, columns), rng=3)
    again = recalibrate(promise, as_table(calibration), 0.2)
    assert again.tasks_.tolist() == promise.tasks_.tolist()
    assert again.threshold_ == promise.threshold_
    own = MetaPS(**levels).calibrate(replace(calibration, clusters=find_clusters(calibration)))
    with pytest.raises(InvalidInput) as raised:  # arrays store no columns
        recalibrate(own, as_table(calibration, replace(columns, cluster=None)), 0.2)
    assert raised.value.parameters == ("cluster",)
