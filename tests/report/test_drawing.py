"""Drawings: two widths, colours of the page, nothing that runs or is loaded."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import MissingExtra
from metapac.report import charts


def build(width: int) -> dict[str, Any]:
    values = [{"place": 1, "name": "<script>alert(1)</script>\" onload='x'"}]
    encoding = {"x": charts.make_places("tasks", 1), "y": charts.make_names()}
    point = {"mark": {"type": "circle", "color": charts.GOOD}, "encoding": encoding}
    layers = [{"data": {"values": values}, **point}, charts.make_rule("x", 0.5)]
    return {"width": width, "height": 50, "layer": layers}


def test_a_chart_is_drawn_for_two_widths() -> None:
    chart = charts.draw(build, "one task")
    widths = [float(re.findall(r'<svg[^>]* width="(\d+)"', svg)[0]) for svg in chart[:2]]
    assert widths == [charts.WIDE, charts.NARROW]
    assert chart.label == "one task"


def test_a_drawing_runs_nothing_loads_nothing_and_has_the_colours_of_the_page() -> None:
    svg = charts.draw(build, "").wide
    assert "<script" not in svg
    assert "&lt;script&gt;" in svg
    assert not re.search(r"\s(?:on\w+|href|style|xlink:href)=", svg)
    assert "url(" not in svg
    colours = {*re.findall(r'(?:fill|stroke)="([^"]+)"', svg)}
    named = {"none", *(f"var(--{name})" for name in ("ink", "soft", "line", "good", "bad"))}
    assert colours <= named


@pytest.mark.parametrize("count", [1, 2, 5, 6, 30])
def test_no_place_on_the_axis_is_written_twice(count: int) -> None:
    data = {"values": [{"place": i + 1} for i in range(count)]}
    view = {"data": data, "mark": "point", "encoding": {"x": charts.make_places("tasks", count)}}
    svg = charts.draw(lambda width: view | {"width": width}, "label").narrow
    shown = re.findall(r">(\d+)</text>", svg)
    assert len(shown) == len({*shown}) >= min(count, 3)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingExtra, match=r"pip install 'metapac\[report\]'"):
        charts.draw(build, "")


@given(st.integers(1, 5000), st.data())
def test_what_is_left_out_is_in_between(length: int, data: st.DataObject) -> None:
    keep = data.draw(st.integers(0, length - 1))
    places = charts.thin_out(length, keep)
    assert places == sorted({*places})
    assert {0, keep, length - 1} <= {*places} <= {*range(length)}
    assert len(places) <= 241
    assert max((b - a for a, b in pairwise(places)), default=1) <= (1 + length // 200)
