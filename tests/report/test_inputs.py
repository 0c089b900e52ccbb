"""What a report is made from: a promise, labelled scores, a monitor; and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import (
    BadArtefact,
    Columns,
    Context,
    InvalidInput,
    MetaPS,
    Monitor,
    Scored,
    evaluate,
    open_table,
)
from metapac.fewshot import MetaCP
from metapac.report import report
from metapac.report.builder import check_data, open_monitor, open_promise
from metapac.words import Words
from tests.report.conftest import calibrate, draw_scores


def test_a_promise_is_a_file_or_a_calibrated_predictor(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="promise must be a promise file or a calibrated pred"):
        report({"epsilon": 0.1})
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(BadArtefact, match="is not a metapac promise file"):
        report(tmp_path / "other.json")


def test_a_baseline_takes_no_labelled_tasks() -> None:
    rng = np.random.default_rng(0)
    method = MetaCP(epsilon=0.2, delta=0.2)
    method.calibrate(rng.random(6000), np.repeat(np.arange(60), 100), rng.random(60))
    with pytest.raises(InvalidInput, match="labelled cannot be used with MetaCP"):
        report(method, Scored([0.5], ["a"]))


def test_the_monitor_has_to_be_of_this_promise(
    promise: MetaPS, calibration: Scored, tmp_path: Path
) -> None:
    tasks = draw_scores([f"later {i}" for i in range(6)], 5)
    watched = Monitor(promise)
    watched.add(tasks.scores, tasks.tasks, tasks.labels, batch="2026-01")
    watched.save(tmp_path / "monitor.json")
    for monitor in (watched, tmp_path / "monitor.json"):
        html = report(promise, monitor=monitor)
        assert "2026-01" in html
        assert "from the monitor, after 6 hospitals" in html
        with pytest.raises(InvalidInput, match="another"):
            report(calibrate(calibration, epsilon=0.3), monitor=monitor)


def test_a_promise_file_is_on_record(promise: MetaPS, tmp_path: Path) -> None:
    promise.save(tmp_path / "promise.json")
    loaded, facts = open_promise(tmp_path / "promise.json")
    assert loaded.promise_ == promise.promise_
    assert "promise.json" in str(facts)
    same, facts = open_promise(promise)
    assert same is promise
    assert "promise.json" not in str(facts)


def test_scores_are_in_arrays_in_a_table_or_evaluated(
    promise: MetaPS, labelled: Scored, tmp_path: Path
) -> None:
    table = tmp_path / "new.csv"
    table.write_text("site,score\nnew,0.5\n")
    evaluation = evaluate(promise, labelled)
    for nothing in (None, evaluation):
        assert check_data("labelled", nothing, promise) == (None, [])
    assert check_data("labelled", labelled, promise) == (labelled, [])
    opened = open_table(table, Columns(task="site"))
    data, facts = check_data("calibration", opened, promise)
    assert data is opened
    assert "Calibration data" in str(facts)
    assert "new.csv" in str(facts)
    for name in ("labelled", "calibration"):
        given: dict[str, Any] = {name: table}  # a path names no columns
        with pytest.raises(InvalidInput) as raised:
            report(promise, **given)
        assert raised.value.parameters == (name,)


def test_a_report_needs_no_monitor(promise: MetaPS) -> None:
    assert open_monitor(None, promise, Words.from_context(Context())) == (None, [])
