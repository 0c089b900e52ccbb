"""Figures: axes, boxes, the format of the file, and the same SVG for the same figure."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from metapac import MissingExtra, plots


def save_figure(path: Path) -> bytes:
    figure, (axes,) = plots.create_figure(1, width=3, height=2)
    plots.draw_boxes(axes, [np.arange(11)], whiskers=(10, 90), colours=["#123456"])
    axes.plot([0, 1], [0, 1], clip_path=axes.patch)  # SVG gives clip paths random names
    plots.save(figure, path)
    return path.read_bytes()


def test_an_svg_depends_on_the_figure_alone(tmp_path: Path) -> None:
    first = save_figure(tmp_path / "first.svg")
    assert first == save_figure(tmp_path / "second.svg")
    assert b"<dc:date>" not in first
    assert b"#123456" in first


def test_the_extension_selects_the_format(tmp_path: Path) -> None:
    assert save_figure(tmp_path / "a.png").startswith(b"\x89PNG")
    assert save_figure(tmp_path / "a.pdf").startswith(b"%PDF")
    assert save_figure(tmp_path / "a").startswith(b"\x89PNG")


def test_boxes_have_colours_positions_and_whiskers() -> None:
    _, (axes,) = plots.create_figure(1, width=3, height=2)
    values = [np.arange(11.0), np.arange(101.0)]
    colours = ["#ff0000", "#0000ff"]
    plots.draw_boxes(axes, values, whiskers=(10, 90), colours=colours, positions=[2, 5], width=0.5)
    assert [box.get_facecolor()[:3] for box in axes.patches] == [(1, 0, 0), (0, 0, 1)]
    ends = np.concatenate([np.ravel(line.get_ydata()) for line in axes.lines])
    assert set(ends.tolist()) >= {1, 9, 10, 90}
    assert axes.get_xticks().tolist() == [2, 5]


def test_axes_of_several_rows_share_their_scales() -> None:
    _, (top, bottom) = plots.create_figure(1, rows=2, width=3, height=2)
    top.set_ylim(0, 7)
    assert bottom.get_ylim() == (0, 7)
    _, (left, right) = plots.create_figure(2, width=3, height=2)
    left.set_ylim(0, 7)
    assert right.get_ylim() != (0, 7)


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    message = r"a figure needs matplotlib. Install it with: pip install 'metapac\[plot\]'"
    with pytest.raises(MissingExtra, match=message):
        plots.create_figure(1, width=1, height=1)
