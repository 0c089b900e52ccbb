"""Static SVG, drawn by Vega-Lite when a report is written.

Colours are variables of the page's style sheet, so that one drawing serves light, dark and print.
Each chart is drawn twice, for a wide and for a narrow screen: text keeps its size on a phone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from metapac import _optional

WIDE, NARROW = 676, 340
_POINTS = 240  # of a curve through many tasks
_FEW = 5  # tasks up to which each has its own place on the axis
INK, SOFT, LINE = "var(--ink)", "var(--soft)", "var(--line)"
GOOD, WARN, BAD = "var(--good)", "var(--warn)", "var(--bad)"
_FONT = "system-ui, sans-serif"
_CONFIG: dict[str, Any] = {
    "aria": False,
    "background": None,
    "padding": 2,
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT,
        "titleColor": SOFT,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "text": {"font": _FONT, "fontSize": 12, "color": INK},
}


class Chart(NamedTuple):
    """A chart, drawn for two widths, and what it shows.

    Attributes
    ----------
    wide, narrow : str
        The two drawings, as SVG.
    label : str
        What it shows, for those who cannot see it.
    """

    wide: str
    narrow: str
    label: str


def draw(build: Callable[[int], dict[str, Any]], label: str) -> Chart:
    """Draw a chart for a wide and for a narrow screen.

    Parameters
    ----------
    build : callable
        Takes a width in pixels and returns a Vega-Lite specification.
    label : str
        What the chart shows.

    Returns
    -------
    Chart
        The chart.

    Raises
    ------
    MissingExtra
        If vl-convert is not installed.
    """
    convert = _optional.require("vl_convert", extra="report", purpose="a report")

    def convert_at(width: int) -> str:
        view = build(width)
        fit = {} if "vconcat" in view else {"autosize": {"type": "fit-x", "contains": "padding"}}
        svg: str = convert.vegalite_to_svg({"config": _CONFIG, **fit, **view})
        return svg

    return Chart(convert_at(WIDE), convert_at(NARROW), label)


def make_axis(
    field: str,
    title: str | None,
    *,
    form: str = "",
    domain: list[float] | None = None,
    zero: bool = True,
) -> dict[str, Any]:
    """Return the encoding of a number along an axis.

    Parameters
    ----------
    field : str
        Name of the number in the data.
    title : str or None
        Title of the axis.
    form : str, default ""
        Format of its labels.
    domain : list of float, optional
        Its two ends.
    zero : bool, default True
        Whether it includes 0, if it has no domain.

    Returns
    -------
    dict
        The encoding.
    """
    axis = {"title": title, "tickCount": 5} | ({"format": form} if form else {})
    scale: dict[str, Any] = {"nice": False} if domain else {"zero": zero}
    if domain:
        scale["domain"] = domain
    return {"field": field, "type": "quantitative", "axis": axis, "scale": scale}


def make_places(title: str, count: int) -> dict[str, Any]:
    """Return the encoding of tasks in some order, along an axis without lines.

    Parameters
    ----------
    title : str
        Title of the axis.
    count : int
        Number of tasks.

    Returns
    -------
    dict
        The encoding of the field "place".
    """
    x = make_axis("place", title, domain=[0, count + 1])
    few = {"values": [*range(1, count + 1)]} if count <= _FEW else {"tickMinStep": 1}
    return x | {"axis": x["axis"] | {"grid": False, "format": ",d"} | few}


def make_names() -> dict[str, Any]:
    """Return the encoding of names, one below the other in the order of the data.

    Returns
    -------
    dict
        The encoding of the field "name".
    """
    axis = {
        "title": None,
        "labelColor": INK,
        "labelLimit": 110,
        "labelPadding": 8,
        "domain": False,
        "ticks": False,
    }
    return {"field": "name", "type": "nominal", "sort": None, "axis": axis}


def make_rule(channel: str, value: float) -> dict[str, Any]:
    """Return a dashed line at a limit, as a layer.

    Parameters
    ----------
    channel : {"x", "y"}
        The axis of the limit.
    value : float
        The limit.

    Returns
    -------
    dict
        The layer.
    """
    mark = {"type": "rule", "color": BAD, "strokeDash": [5, 4], "strokeWidth": 1.5}
    return {"data": {"values": [{}]}, "mark": mark, "encoding": {channel: {"datum": value}}}


def thin_out(length: int, keep: int) -> list[int]:
    """Return at most about 240 places of a sequence, its ends always among them.

    Parameters
    ----------
    length : int
        Length of the sequence.
    keep : int
        Another place to keep.

    Returns
    -------
    list of int
        The places, in ascending order.

    Examples
    --------
    >>> from metapac.report.drawing import thin_out
    >>> places = thin_out(10_000, keep=17)
    >>> places[0], 17 in places, places[-1], len(places)
    (0, True, 9999, 241)
    """
    if length <= _POINTS:
        return list(range(length))
    return sorted({*np.linspace(0, length - 1, _POINTS).round().astype(int).tolist(), keep})
