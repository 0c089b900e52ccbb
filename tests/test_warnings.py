"""Warnings name the line of the caller, not a line of metapac."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from metapac import Columns, MetaPS, combine_sites, open_table
from metapac._common import warn
from tests.helpers.tables import site_table

LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.5, "delta": 0.5}


def test_a_warning_of_a_caller_outside_metapac() -> None:
    with pytest.warns(UserWarning, match="careful") as record:
        warn("careful")
    assert record[0].filename == __file__


def test_a_remark_on_a_calibration_points_at_the_call() -> None:
    scores, tasks = np.tile([0.0] * 16 + [1.0] * 4, 20), np.repeat(np.arange(20), 20)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"score": scores, "task": tasks})
    sites = [site_table(frame[tasks == i], name=str(i), score="score", **LEVELS) for i in range(20)]
    calls: tuple[Callable[[], Any], ...] = (
        lambda: MetaPS(**LEVELS).calibrate(scores, tasks),
        lambda: MetaPS(**LEVELS).calibrate(open_table(frame, Columns(task="task", score="score"))),
        lambda: combine_sites(sites),
    )
    for calibrate in calls:
        with pytest.warns(UserWarning, match="threshold is 0.0") as record:
            calibrate()
        remarks = [warning for warning in record if "threshold is" in str(warning.message)]
        assert [remark.filename for remark in remarks] == [__file__]
