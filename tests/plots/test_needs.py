"""The figure of a plan has a line for every split."""

from __future__ import annotations

from pathlib import Path

import pytest

from metapac import Plan, plan, plots


@pytest.mark.parametrize("parameter", ["alpha", "delta", "split"])
def test_needs_are_drawn_for_every_split(parameter: str, tmp_path: Path) -> None:
    curves = {}
    for split in ("tight", "even"):
        planned = plan(epsilon=0.1, alpha=0.1, delta=0.05, split=split)
        assert isinstance(planned, Plan)
        curves[split] = planned.curve(parameter, [0.1, 0.2, 0.4])
    path = tmp_path / "needs.svg"
    plots.draw_needs(curves, title="Needs", path=path, mark=0.2)
    content = path.read_text(encoding="utf-8")
    for text in ("Needs", "tight", "even", "minimum tasks", "minimum examples per task"):
        assert f"<!-- {text} -->" in content
