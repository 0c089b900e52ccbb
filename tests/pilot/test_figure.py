"""The figure of an exploration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metapac import Exploration, plots
from metapac.plots import draw_pilot


def test_a_figure_is_written(pilot: Exploration, tmp_path: Path) -> None:
    pilot.plot(tmp_path / "pilot.png")
    assert (tmp_path / "pilot.png").read_bytes().startswith(b"\x89PNG")


def test_the_rarest_classes_have_a_panel_each(
    pilot: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "save", lambda figure, _path: drawn.append(figure))
    half = pilot.cells[0].size
    shares = {"common": 0.5, "a": 0.11, "b": 0.12, "c": 0.13, "$d$": 0.14}
    cells = tuple(replace(cell, missed=dict.fromkeys(shares, half)) for cell in pilot.cells)
    draw_pilot(replace(pilot, prevalence=shares, cells=cells), "never-written.png")
    sizes, *misses = drawn[0].axes
    assert sizes.get_title() == "mean set size over tasks"
    assert [line.get_label() for line in sizes.get_lines()] == [
        "alpha 0.1",
        "alpha 0.1, per class",
    ]
    assert [axes.get_title().splitlines()[0] for axes in misses] == [
        "missed among a",
        "missed among b",
        "missed among c",
        "missed among $d$",
    ]
    for axes in drawn[0].axes:
        assert [*axes.get_lines()[0].get_xdata()] == [0.05, 0.1]
        assert [*axes.get_lines()[0].get_ydata()] == [0.5, 0.5]
