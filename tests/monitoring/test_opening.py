"""Monitors in state files: opened, begun, saved, and never half updated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metapac import InvalidInput, MetaPS, Monitor, open_monitor
from tests.monitoring.conftest import LEVELS, draw, names


def test_a_monitor_is_opened_begun_and_saved(promise: MetaPS, rng: Any, tmp_path: Path) -> None:
    path = tmp_path / "monitor.json"
    with open_monitor(path, promise, false_alarm=0.02, min_examples=3) as monitor:
        monitor.add(*draw(rng, ["a"]))
    with open_monitor(path, promise) as monitor:
        monitor.add(*draw(rng, ["b"]))
        assert (monitor.terms.false_alarm, monitor.terms.min_examples) == (0.02, 3)
    assert {step.task for step in Monitor.load(path).course} == {"a", "b"}
    before = path.read_bytes()
    with (
        pytest.raises(InvalidInput, match="counted before"),
        open_monitor(path, promise) as monitor,
    ):
        monitor.add(*draw(rng, ["a", "c"]))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["monitor.json"]
    for name, value in (("false_alarm", 0.01), ("min_examples", 0)):
        words: dict[str, Any] = {name: value}
        with (
            pytest.raises(InvalidInput, match=f"{name} must stay at"),
            open_monitor(path, promise, **words),
        ):
            pass


def test_the_same_words_twice(rng: Any, tmp_path: Path) -> None:
    promise = MetaPS(**LEVELS, min_examples=30).calibrate(*draw(rng, names("old", 40)))
    path = tmp_path / "monitor.json"
    for name in ("a", "b"):
        with open_monitor(path, promise, min_examples=10) as monitor:  # the guarantee needs more
            monitor.add(*draw(rng, [name]))
    assert monitor.terms.min_examples == 30
    with (
        pytest.raises(InvalidInput, match="min_examples must stay at 30, .* got 31"),
        open_monitor(path, promise, min_examples=31),
    ):
        pass
