"""The HTML: what comes from data is escaped, and nothing can be loaded or run but its own."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest

from metapac import MetaPS, MissingExtra, Scored
from metapac.report import report
from metapac.report.page import render
from tests.report.conftest import ODD


class Reader(HTMLParser):
    """Collects tags, text and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "script" not in self.inside and "style" not in self.inside:
            self.text.append(data)


@pytest.fixture(scope="module")
def html(promise: MetaPS, labelled: Scored, calibration: Scored) -> str:
    return report(promise, labelled, calibration=calibration, title=ODD[0], epsilons=[0.1])


@pytest.fixture(scope="module")
def page(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def test_a_long_name_shows_both_its_ends(page: Reader) -> None:
    titles = [found["title"] for tag, found in page.tags if tag == "bdi" and "title" in found]
    assert {*titles} == {ODD[3]}
    assert ODD[3] not in "".join(page.text)
    assert f"{'x' * 39}…{'x' * 20}" in page.text


def test_a_long_title_is_shown_whole(promise: MetaPS) -> None:
    assert f"<h1><bdi>{ODD[3]}</bdi></h1>" in report(promise, title=ODD[3])


def test_names_are_text_and_nothing_else(html: str, page: Reader) -> None:
    text = "".join(page.text)
    for name in (ODD[0], ODD[1], ODD[4], ODD[5], "</script><b>owl", "triage <3.1>"):
        assert name in text
    tags = [tag for tag, _attributes in page.tags]
    assert tags.count("script") == 2  # the data of the control, and the script of the page
    assert tags.count("style") == 1
    assert not {"img", "b", "iframe", "object", "embed", "link", "base", "form"} & {*tags}
    assert "49" not in re.findall(r"c&amp;amp;(.*?)<", html)[0]  # 7 * 7 is not computed


def test_marks_of_direction_are_visible_and_names_are_isolated(html: str) -> None:
    assert "\u202e" not in html
    assert "\u200b" not in html
    assert r"<bdi>evil \u202e &lt;/script&gt; \u200b</bdi>" in html
    assert f"<bdi>{ODD[4]}</bdi>" in html


def test_the_title_is_escaped(html: str, promise: MetaPS) -> None:
    assert "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>" in html
    reversed_title = report(promise, title="safe \u202egnp.exe")
    assert "\u202e" not in reversed_title
    assert r"<title>safe \u202egnp.exe</title>" in reversed_title


def test_the_policy_allows_the_own_style_and_script_alone(html: str) -> None:
    policy = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)[0].replace(
        "&#39;", "'"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    for name, tag in (("style-src", "style"), ("script-src", "script")):
        content = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert len(content) == 1
        digest = base64.b64encode(hashlib.sha256(content[0].encode()).digest()).decode()
        assert rules.pop(name) == f"'sha256-{digest}'"
    assert rules == {"base-uri": "'none'", "form-action": "'none'"}


def test_nothing_is_loaded_and_nothing_runs_from_attributes(page: Reader) -> None:
    for tag, attributes in page.tags:
        assert not {"src", "srcset", "data", "action", "style"} & attributes.keys(), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert str(attributes.get("href", "#")).startswith("#")


def test_drawings_refer_to_nothing(html: str) -> None:
    assert "url(" not in html
    assert "clip" not in html


def test_addresses_occur_only_as_names_of_formats(html: str) -> None:
    assert {*re.findall(r"https?://[^\s\"'<]+", html)} == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_the_data_of_the_control_cannot_end_its_element(html: str) -> None:
    text = re.findall(r'<script type="application/json" id="levels">(.*?)</script>', html)[0]
    assert "<" not in text
    assert [level["epsilon"] for level in json.loads(text)] == [0.1, 0.2]


def test_each_name_is_used_once_and_labels_lead_to_it(page: Reader) -> None:
    ids = [attributes["id"] for _tag, attributes in page.tags if "id" in attributes]
    assert len(ids) == len({*ids})
    for tag, attributes in page.tags:
        for name in ("for", "aria-labelledby", "aria-describedby"):
            if name in attributes:
                assert attributes[name] in ids, tag
        if tag == "a":
            assert str(attributes["href"])[1:] in ids


def test_headings_tables_and_charts_can_be_read_aloud(html: str, page: Reader) -> None:
    tags = [tag for tag, _attributes in page.tags]
    assert tags.count("h1") == tags.count("main") == tags.count("header") == 1
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert tags.count("table") == tags.count("caption")
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    drawn = [attributes for _tag, attributes in page.tags if attributes.get("role") == "img"]
    assert len(drawn) * 2 == tags.count("svg")
    assert all(len(str(attributes["aria-label"])) > 20 for attributes in drawn)


@pytest.mark.parametrize("module", ["jinja2", "markupsafe"])
def test_without_the_engine_the_extra_is_named(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'metapac\[report\]'"):
        render({})


def test_a_variable_that_is_missing_is_an_error() -> None:
    import jinja2

    nothing: dict[str, Any] = {}
    with pytest.raises(jinja2.UndefinedError):
        render(nothing)
