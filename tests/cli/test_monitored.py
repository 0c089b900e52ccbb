"""The standing of a monitor in the terminal and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from metapac.cli.monitor import print_monitor, summarise_monitor

from metapac import Context, MetaPS, Monitor
from tests.helpers.commands import metapac


@pytest.fixture
def monitor() -> Monitor:
    rng = np.random.default_rng(0)
    promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1)
    promise.calibrate(rng.random(4000), np.repeat(np.arange(40), 100), context=Context(unit="ward"))
    monitor = Monitor(promise)
    for batch in ("january", "february"):
        tasks = np.repeat([f"{batch} {i:02d}" for i in range(15)], 100)
        scores = rng.random(1500)
        scores[:100] = 0.0
        monitor.add(scores, tasks, batch=batch)
    return monitor


def test_offenders_of_the_latest_batch(
    monitor: Monitor, capsys: pytest.CaptureFixture[str]
) -> None:
    assert monitor.alarm is None
    print_monitor(monitor)
    text = capsys.readouterr().out
    assert "each ward alone): february 00 (100 of 100 missed)" in text
    assert "january 00" not in text
    assert "counted." not in text
    monitor.add(np.zeros(1000), np.repeat(np.arange(100, 110), 100), batch="march")
    print_monitor(monitor)
    text = capsys.readouterr().out
    assert "january 00 (100 of 100 missed)" in text


def test_fields_without_new_tasks(monitor: Monitor) -> None:
    facts = summarise_monitor(monitor)
    assert (facts["tasks"], facts["added"], facts["known"], facts["left_out"]) == (30, [], [], 0)
    added = monitor.add(np.zeros(100), ["one"] * 100, batch="march")
    assert [step["task"] for step in summarise_monitor(monitor, added)["added"]] == ["one"]


def test_show(monitor: Monitor, tmp_path: Path) -> None:
    path = tmp_path / "monitor.json"
    monitor.save(path)
    shown = metapac("show", path)
    assert shown.exit_code == 0, shown.output
    assert "state of a monitor" in shown.stdout
    text = " ".join(shown.stdout.split())
    assert monitor.sentence() in text
    assert monitor.terms.promise in text
    facts = json.loads(metapac("show", path, "--json").stdout)
    assert facts == {"file": str(path)} | json.loads(json.dumps(summarise_monitor(monitor)))
