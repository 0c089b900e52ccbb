"""Pictures as files: the same figure twice is the same file, in whatever format was asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from metapac import plots


def written(path: Path) -> bytes:
    figure, (axes,) = plots.new_figure(1, width=3, height=2)
    plots.boxes(axes, [np.arange(11)], whiskers=(10, 90), colours=["#123456"])
    axes.plot([0, 1], [0, 1], clip_path=axes.patch)  # clipping is what SVG makes up names for
    plots.save(figure, path)
    return path.read_bytes()


def test_an_svg_depends_on_the_figure_alone(tmp_path: Path) -> None:
    first = written(tmp_path / "first.svg")
    assert first == written(tmp_path / "second.svg")
    assert b"<dc:date>" not in first
    assert b"#123456" in first


def test_the_name_chooses_the_format(tmp_path: Path) -> None:
    assert written(tmp_path / "a.png").startswith(b"\x89PNG")
    assert written(tmp_path / "a.pdf").startswith(b"%PDF")
    assert written(tmp_path / "a").startswith(b"\x89PNG")


def test_boxes_have_their_colours_places_and_whiskers() -> None:
    _, (axes,) = plots.new_figure(1, width=3, height=2)
    values = [np.arange(11.0), np.arange(101.0)]
    colours = ["#ff0000", "#0000ff"]
    plots.boxes(axes, values, whiskers=(10, 90), colours=colours, positions=[2, 5], width=0.5)
    assert [box.get_facecolor()[:3] for box in axes.patches] == [(1, 0, 0), (0, 0, 1)]
    ends = np.concatenate([np.ravel(line.get_ydata()) for line in axes.lines])
    assert set(ends.tolist()) >= {1, 9, 10, 90}
    assert axes.get_xticks().tolist() == [2, 5]


def test_axes_above_one_another_share_their_scales() -> None:
    _, (top, bottom) = plots.new_figure(1, rows=2, width=3, height=2)
    top.set_ylim(0, 7)
    assert bottom.get_ylim() == (0, 7)
    _, (left, right) = plots.new_figure(2, width=3, height=2)
    left.set_ylim(0, 7)
    assert right.get_ylim() != (0, 7)


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"Install it with: pip install 'metapac\[plot\]'"
    ):
        plots.new_figure(1, width=1, height=1)
