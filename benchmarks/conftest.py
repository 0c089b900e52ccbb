"""Print each group as ratios of ours to each rival, from the minima of one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

_records: dict[str, str] = {}


@pytest.fixture
def record() -> Callable[[str, str], None]:
    """Keep a figure for the table."""
    return _records.__setitem__


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    groups: dict[str, dict[str, float]] = {}
    for bench in config._benchmarksession.benchmarks:
        name = bench.name.removeprefix("test_").replace("_", " ")
        seconds = bench.stats.min * bench.extra_info.get("scale", 1)
        groups.setdefault(bench.group, {})[name] = seconds
    terminalreporter.write_line("\n| what | time | ratio |\n|---|---:|---:|")
    for group, times in groups.items():
        rivals = {name: t for name, t in times.items() if name.startswith("rival")}
        terminalreporter.write_line(f"| **{group}** | | |")
        for name, seconds in times.items():
            against = [f"{seconds / t:.3g} x {rival[6:]}" for rival, t in rivals.items()]
            shown = "" if name in rivals else "; ".join(against)
            terminalreporter.write_line(f"| {name} | {1000 * seconds:.4g} ms | {shown} |")
    for name, figure in _records.items():
        terminalreporter.write_line(f"| {name} | | {figure} |")
