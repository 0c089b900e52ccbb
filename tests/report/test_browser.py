"""A report in a real browser: no errors, no requests, no barriers; phone, dark, and on A4."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import PS, MetaPS, Monitor, Scored
from metapac.report import SignOff, report
from tests.report.conftest import CLASSES, draw_scores, spoil


@pytest.fixture(scope="module")
def file(promise: MetaPS, labelled: Scored, tmp_path_factory: pytest.TempPathFactory) -> Path:
    later = draw_scores([f"later {i}" for i in range(8)], 5)
    monitor = Monitor(promise)
    monitor.add(later.scores, later.tasks, later.labels, batch="2026-01 <b>")
    path = tmp_path_factory.mktemp("report") / "report.html"
    report(promise, labelled, monitor=monitor, examples=9, output=path)
    return path


@pytest.fixture
def open_report(browser: Any, file: Path) -> Iterator[Any]:
    contexts = []

    def open_with(width: int = 1200, path: Path = file, **settings: Any) -> tuple[Any, list[str]]:
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        page, messages = context.new_page(), []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: messages.append(request.url))
        page.on("dialog", lambda dialog: messages.append("a dialog"))
        page.goto(path.as_uri())
        assert messages.pop(0) == path.as_uri()  # the file itself
        return page, messages

    yield open_with
    for context in contexts:
        context.close()


GROUNDS = {
    "light": ("rgb(251, 250, 247)", "rgb(23, 133, 123)"),
    "dark": ("rgb(20, 25, 27)", "rgb(79, 192, 178)"),
}
OUTSIDE = """[...document.querySelectorAll('figure svg')].filter((svg) => {
    const frame = svg.getBoundingClientRect();
    return frame.right > innerWidth || [...svg.querySelectorAll('use, path')].some((e) => {
        if (e.closest('defs')) return false;
        const box = e.getBoundingClientRect();
        return box.width && (box.left < frame.left - 1 || box.right > frame.right + 1
            || box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
    });
}).length"""
CUT = """[...document.querySelectorAll('.scroll')].filter(
    (e) => e.scrollWidth > e.clientWidth).map((e) => e.ariaLabel)"""
STYLE = "(e, name) => getComputedStyle(e)[name]"


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", GROUNDS)
def test_a_checker_finds_no_barrier(open_report: Any, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page, _ = open_report(width, color_scheme=scheme, bypass_csp=True)  # the checker is a script
    page.locator("details").first.evaluate("(folded) => { folded.open = true; }")
    assert axe.run(page).response["violations"] == []
    mark = page.locator("figure use.fill-good").first
    shown = (page.locator("body").evaluate(STYLE, "backgroundColor"), mark.evaluate(STYLE, "fill"))
    assert shown == GROUNDS[scheme]  # the colours of drawings follow the page


def test_no_requests_and_nothing_cut_at_any_width(
    open_report: Any, promise: Any, tmp_path: Path
) -> None:
    for width in (320, 390, 768, 1400):
        page, messages = open_report(width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OUTSIDE) == 0
    page.wait_for_timeout(200)
    assert messages == []
    assert page.title() == "Guarantee report: model “triage <3.1>”"
    assert page.locator("bdi", has_text="<script>alert(1)</script>").count() > 0
    # Tables of short names fit a phone.
    classes, path, data = ("cat", "dog", "owl"), tmp_path / "a.html", draw_scores(["AL", "AK"], 7)
    labels = np.array(classes, dtype=object)[[CLASSES.index(label) for label in data.labels]]
    report(promise, Scored(data.scores, data.tasks, labels, classes), output=path)
    assert open_report(390, path)[0].evaluate(CUT) == []


def test_it_can_be_filled_in_by_keyboard(open_report: Any) -> None:
    page, _ = open_report()
    reached = []
    for _press in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached[0] == "A"  # the link that skips what comes before the guarantee
    places = [reached.index(name) for name in ("purpose", "assumption-1", "conditions")]
    assert places == sorted(places)
    page.locator("#assumption-1").focus()
    page.keyboard.press("Space")
    assert page.locator("#assumption-1").is_checked()
    tree = page.locator("body").aria_snapshot()
    for words in ("banner", "main", "contentinfo", "table", 'radio "Approve with conditions"'):
        assert words in tree
    assert 'checkbox "The labels in the data are right."' in tree
    assert 'img "Miss rate of each new hospital' in tree


KINDS: dict[str, Any] = {
    "plain": lambda promise, per_class: (promise, draw_scores([f"n {i}" for i in range(20)], 1)),
    "per class": lambda promise, per_class: (per_class, draw_scores(["n 1", "n 2"], 1)),
    "violated": lambda promise, per_class: (promise, spoil(draw_scores(["n 1", "n 2"] * 9, 1))),
    "no data": lambda promise, per_class: (PS(epsilon=0.1, delta=0.1).calibrate(np.ones(99)), None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_two_pages_to_sign(
    open_report: Any, promise: Any, per_class: Any, tmp_path: Path, kind: str
) -> None:
    path, text = tmp_path / "report.html", "Some words that fill a line or two of a field. " * 2
    predictor, data = KINDS[kind](promise, per_class)
    fields = dict.fromkeys(("purpose", "owner", "population", "dates", "conditions"), text)
    for sign_off in (SignOff(), SignOff(**fields)):
        report(predictor, data, output=path, sign_off=sign_off, allow=["direction", "overlap"])
        page, messages = open_report(path=path)
        page.evaluate(
            "document.querySelectorAll('#results, #results ~ *').forEach((e) => e.remove())"
        )
        sheets = re.findall(rb"/MediaBox \[(.*?)\]", page.pdf(prefer_css_page_size=True))
        assert sheets == [b"0 0 594.95996 841.91998"] * 2
        assert messages == []


def test_paper_has_no_wide_or_tall_parts_and_says_what_is_folded(open_report: Any) -> None:
    page, _ = open_report()
    remark = page.get_by_text("More rows are in the file, folded.")
    assert not remark.is_visible()
    page.emulate_media(media="print")
    assert remark.is_visible()
    assert page.locator(".sign").is_visible()
    # The width of the text on A4, in pixels of CSS: a chart that is wider would be cut.
    page.set_viewport_size({"width": 665, "height": 985})
    assert page.evaluate("document.documentElement.scrollWidth") <= 665
    tall = """[...document.querySelectorAll('figure, .card')].filter(
        (e) => e.getBoundingClientRect().height > 985).length"""
    assert page.evaluate(tall) == 0  # each fits on a page, and none may be broken
