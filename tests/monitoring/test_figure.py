"""The figure of a monitor: what its axes hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from metapac import MetaPS, Monitor
from metapac.plots import draw_monitor
from tests.monitoring.conftest import draw


def add_months(monitor: Monitor, months: int) -> None:
    rng = np.random.default_rng(0)
    for i in range(months):
        monitor.add(*draw(rng, [f"{i} {j}" for j in range(4)], power=2.5), batch=f"$2026-{i:02d}$")


def texts(axes: Any) -> list[str]:
    return [text.get_text().strip() for text in axes.texts]


def test_wealth_and_share(promise: MetaPS, tmp_path: Path) -> None:
    monitor = Monitor(promise)
    add_months(monitor, 3)
    figure = monitor.plot(tmp_path / "monitor.png")
    assert (tmp_path / "monitor.png").stat().st_size > 5000
    axes: list[Any] = figure.axes
    wealth, share = axes
    assert wealth.get_yscale() == "log"
    drawn = wealth.lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, [1.0, *(step.wealth for step in monitor.course)])
    assert wealth.lines[1].get_ydata()[0] == 100
    alarm = wealth.lines[2]
    assert monitor.alarm is not None
    assert alarm.get_ydata()[0] == monitor.alarm.wealth
    lower, upper = (line.get_ydata() for line in share.lines[:2])
    np.testing.assert_array_equal(lower[1:], [step.lower for step in monitor.course])
    np.testing.assert_array_equal(upper[1:], [step.upper for step in monitor.course])
    assert share.get_ylabel() == "share of clinics above epsilon"
    assert texts(wealth) == ["alarm", "$2026-00$", "$2026-01$", "$2026-02$"]
    assert texts(share)[0] == "alpha"
    assert figure.get_suptitle() == "guarantee: violated"


def test_many_batches_have_no_names(promise: MetaPS) -> None:
    monitor = Monitor(promise)
    add_months(monitor, 13)
    assert texts(draw_monitor(monitor).axes[0]) == ["alarm"]


def test_an_empty_monitor_and_tasks_without_batches(promise: MetaPS) -> None:
    monitor = Monitor(promise)
    assert len(draw_monitor(monitor).axes) == 2
    monitor.add(*draw(np.random.default_rng(1), ["a"]))
    assert texts(draw_monitor(monitor).axes[0]) == ["alarm"]
