"""From the content of a report to one HTML file that loads no external resource."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from metapac import _optional
from metapac._visible import visible

_FOLDER = "metapac.report"
_LONGEST, _END = 60, 20  # characters of a name, and how many of them are its last ones


def render(page: Mapping[str, Any]) -> str:
    """Return the report as HTML.

    The template engine escapes text, and control characters that change its direction are made
    visible. The Content-Security-Policy forbids every request, and every script but its own.

    Parameters
    ----------
    page : mapping
        Variables of the template.

    Returns
    -------
    str
        The file.

    Raises
    ------
    MissingExtra
        If Jinja is not installed.
    """
    jinja = _optional.require("jinja2", extra="report", purpose="a report")
    environment = jinja.Environment(
        loader=jinja.PackageLoader(_FOLDER),
        autoescape=True,
        finalize=_make_visible,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    markup = _optional.require("markupsafe", extra="report", purpose="a report")
    environment.filters["name"] = lambda text: _isolate(markup.Markup, str(text), _LONGEST)
    environment.filters["whole"] = lambda text: _isolate(markup.Markup, str(text), None)
    style, script = (_read(name) for name in ("report.css", "report.js"))
    html: str = environment.get_template("report.html.j2").render(
        page,
        style=markup.Markup(style),
        script=markup.Markup(script),
        policy=_policy(style, script),
        svg=markup.Markup,
    )
    return html


def _isolate(markup: Any, name: str, longest: int | None) -> Any:
    """Return a name as HTML that keeps its own direction; of a long one, both its ends."""
    text = visible(name)
    if longest is None or len(text) <= longest:
        return markup("<bdi>{}</bdi>").format(text)
    short = f"{text[: longest - _END - 1]}…{text[-_END:]}"
    return markup('<bdi title="{}">{}</bdi>').format(text, short)


def _policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy: nothing but this style sheet and this script."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _read(name: str) -> str:
    return resources.files(_FOLDER).joinpath("templates", name).read_text(encoding="utf-8")


def _make_visible(value: Any) -> Any:
    """Make invisible characters of text visible; leave what is HTML already."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return visible(value)
    return value
