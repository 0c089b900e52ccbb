"""A report in a real browser: no errors, no requests, the control, print, phone, dark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from metapac import MetaPS, Monitor, Scored, evaluate
from metapac.report import report
from tests.report.conftest import CLASSES, LEVELS, calibrate, draw_scores

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, as Debian packages it")
playwright = pytest.importorskip("playwright.sync_api")
RATES = (0.001, 0.1, 0.15, 0.3)


class Opened(NamedTuple):
    """A page, and what it complained about or asked for."""

    page: Any
    messages: list[str]


@pytest.fixture(scope="module")
def file(
    promise: MetaPS, labelled: Scored, calibration: Scored, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    later = draw_scores([f"later {i}" for i in range(8)], 5)
    monitor = Monitor(promise)
    monitor.add(later.scores, later.tasks, later.labels, batch="2026-01 <b>")
    path = tmp_path_factory.mktemp("report") / "report.html"
    report(promise, labelled, calibration=calibration, monitor=monitor, epsilons=RATES, output=path)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # Without its sandbox, which needs rights that a container lacks: the page is our own.
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_report(browser: Any, file: Path) -> Iterator[Any]:
    contexts = []

    def open_with(width: int = 1000, **settings: Any) -> Opened:
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, **settings)
        contexts.append(context)
        page, messages = context.new_page(), []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: messages.append(request.url))
        page.on("dialog", lambda dialog: messages.append("a dialog"))
        page.goto(file.as_uri())
        assert messages.pop(0) == file.as_uri()  # the file itself
        return Opened(page, messages)

    yield open_with
    for context in contexts:
        context.close()


def test_it_opens_without_errors_requests_or_dialogs(open_report: Any) -> None:
    page, messages = open_report()
    page.wait_for_timeout(200)
    assert messages == []
    assert page.title() == "The guarantee of triage <3.1>"
    assert page.locator("bdi", has_text="<script>alert(1)</script>").count() > 0


def test_the_control_shows_what_calibrating_at_that_rate_gives(
    open_report: Any, calibration: Scored, labelled: Scored
) -> None:
    page, messages = open_report()
    slider = page.get_by_role("slider", name="Share that may be missed (epsilon)")
    assert slider.get_attribute("aria-valuetext") == "20%"
    slider.focus()
    seen = {}
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
        share = page.locator("#share").inner_text()
        row = page.locator("#level-table tbody tr.is-chosen")
        assert row.count() == 1
        assert row.locator("th").inner_text() == share
        assert slider.get_attribute("aria-valuetext") == share
        seen[share] = page.locator("#level-text").inner_text()
    assert [*seen] == ["15%", "10%", "0.1%"]  # the fourth press finds the end
    assert seen["0.1%"].startswith("At 0.1% there would be no guarantee")
    for rate in (0.1, 0.15):
        direct = calibrate(calibration, epsilon=rate)
        data = labelled.scores, labelled.tasks, labelled.labels
        found = evaluate(direct, *data, classes=CLASSES)
        assert found.sizes is not None
        within = int(np.sum(found.errors <= rate))
        text = seen[f"{rate:.0%}"]
        assert f"Then {within} of the 20 new hospitals stay within {rate:.0%}" in text
        assert f"A list holds {np.mean(found.sizes):.2f} labels on average over " in text
    assert messages == []


def test_the_control_moves_the_mark_in_the_chart_and_goes_back(open_report: Any) -> None:
    page, _ = open_report()
    marked = page.locator("#level-chart .wide .is-chosen")
    assert marked.count() == 2  # in both panels
    before = marked.first.get_attribute("transform")
    page.locator("#epsilon").focus()
    page.keyboard.press("End")
    assert page.locator("#share").inner_text() == "30%"
    assert marked.first.get_attribute("transform") != before
    page.keyboard.press("Home")
    assert marked.count() == 0  # no guarantee, so no point
    page.get_by_role("button", name="Back to what is promised").click()
    assert page.locator("#share").inner_text() == f"{LEVELS['epsilon']:.0%}"
    assert marked.first.get_attribute("transform") == before
    assert page.evaluate("document.activeElement.id") == "epsilon"


@pytest.mark.parametrize("width", [320, 375, 768, 1400])
def test_no_width_needs_scrolling_sideways(open_report: Any, width: int) -> None:
    page, _ = open_report(width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide, narrow = (
        page.locator(f"figure .{kind}").first.is_visible() for kind in ("wide", "narrow")
    )
    assert (wide, narrow) == (width > 700, width <= 700)
    too_wide = """[...document.querySelectorAll('svg')].filter(
        (svg) => svg.getBoundingClientRect().right > innerWidth).length"""
    assert page.evaluate(too_wide) == 0
    small = """[...document.querySelectorAll('svg text')].filter(
        (e) => e.getClientRects().length && e.getBoundingClientRect().height < 10.99).length"""
    # Text of charts is not shrunk: it is 11 px high, to within 1/2048 by where it stands.
    assert page.evaluate(small) == 0


def test_tables_of_short_names_fit_a_phone(browser: Any, promise: MetaPS, tmp_path: Path) -> None:
    tasks, classes = ["AL", "AK", "WY"], ("cat", "dog", "owl")
    data = draw_scores(tasks, 7)
    labels = np.array(classes, dtype=object)[[CLASSES.index(label) for label in data.labels]]
    path = tmp_path / "phone.html"
    report(promise, Scored(data.scores, data.tasks, labels, classes), output=path)
    page = browser.new_page(viewport={"width": 375, "height": 800})
    page.goto(path.as_uri())
    cut = """[...document.querySelectorAll('.scroll')].filter(
        (e) => e.scrollWidth > e.clientWidth).map((e) => e.ariaLabel)"""
    assert page.evaluate(cut) == []
    page.close()


CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const found = rgb(getComputedStyle(e).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || ['SCRIPT', 'STYLE'].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const colour = e instanceof SVGElement ? style.fill : style.color;
    const pair = [light(rgb(colour)), light(ground(e))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) faint.push(`${e.tagName} ${e.textContent.trim().slice(0, 30)} ${ratio}`);
  }
  return faint;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(open_report: Any, scheme: str) -> None:
    page, _ = open_report(color_scheme=scheme)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 25, 27)") == (scheme == "dark")
    assert page.evaluate(CONTRAST) == []


def test_all_can_be_reached_by_keyboard_in_order(open_report: Any) -> None:
    page, _ = open_report()
    reached = []
    for _press in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached[0] == "A"  # the link that skips what comes before the guarantee
    assert reached.index("print") < reached.index("assumption-1") < reached.index("epsilon")
    page.locator("#assumption-1").focus()
    page.keyboard.press("Space")
    assert page.locator("#assumption-1").is_checked()


def test_a_screen_reader_finds_names_for_what_it_reads(open_report: Any) -> None:
    page, _ = open_report()
    tree = page.locator("body").aria_snapshot()
    for words in ("banner", "main", "contentinfo", 'navigation "Contents"', "table", "slider"):
        assert words in tree
    assert tree.count("checkbox ") == len(page.query_selector_all(".checklist input"))
    assert 'checkbox "The labels in the data are right."' in tree
    assert 'img "Share missed at each of 20 new hospitals' in tree
    assert "graphics" not in tree  # the parts of drawings are not read out


def test_a_checker_finds_no_barrier(open_report: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page, _ = open_report(375, color_scheme="dark", bypass_csp=True)  # the checker is a script
    assert axe.run(page).response["violations"] == []


def test_it_can_be_printed(open_report: Any, tmp_path: Path) -> None:
    page, messages = open_report()
    page.emulate_media(media="print")
    assert not page.locator("#control").is_visible()
    assert not page.locator("nav").is_visible()
    assert page.locator(".sign").is_visible()
    # The width of the text on A4, in pixels of CSS: a chart that is wider would be cut.
    page.set_viewport_size({"width": 665, "height": 985})
    assert page.evaluate("document.documentElement.scrollWidth") <= 665
    tall = """[...document.querySelectorAll('figure, .hero')].filter(
        (e) => e.getBoundingClientRect().height > 985).length"""
    assert page.evaluate(tall) == 0  # each fits on a page, and none may be broken
    broken = """[...document.querySelectorAll('figure')].filter(
        (e) => getComputedStyle(e).breakInside !== 'avoid').length"""
    assert page.evaluate(broken) == 0
    pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    boxes = {bytes(box) for box in _media_boxes(pdf)}
    assert boxes == {b"0 0 594.95996 841.91998"}
    assert messages == []


def test_rows_that_are_folded_are_not_dropped_silently(open_report: Any) -> None:
    page, _ = open_report()
    remark = page.get_by_text("More rows are in the file, folded.")
    assert not remark.is_visible()
    page.emulate_media(media="print")
    assert remark.is_visible()
    page.locator("details").first.evaluate("(folded) => { folded.open = true; }")
    assert not remark.is_visible()


def test_a_long_name_takes_few_lines_on_a_phone(open_report: Any) -> None:
    page, _ = open_report(375)
    name = page.locator("bdi[title]").first
    lines = "(e) => e.getClientRects()[0].height / parseFloat(getComputedStyle(e).lineHeight)"
    assert name.evaluate(lines) <= 5


def test_a_table_that_is_cut_has_a_shade_at_that_side(open_report: Any) -> None:
    page, _ = open_report(375)
    scrolled = page.locator(".scroll", has=page.locator("bdi[title]")).first
    assert scrolled.evaluate("(e) => e.scrollWidth > e.clientWidth")
    style = "(e) => getComputedStyle(e).backgroundAttachment"
    assert scrolled.evaluate(style) == "local, local, scroll, scroll"


def _media_boxes(pdf: bytes) -> list[bytes]:
    return [part.partition(b"]")[0].strip(b" [") for part in pdf.split(b"/MediaBox")[1:]]


def test_without_scripts_the_table_has_the_numbers(open_report: Any) -> None:
    page, _ = open_report(java_script_enabled=False)
    assert not page.locator("#control").is_visible()
    assert not page.locator("#print").is_visible()
    assert page.locator("#level-table tbody tr").count() == 5


def test_a_report_without_the_control_has_no_errors(
    browser: Any, promise: MetaPS, tmp_path: Path
) -> None:
    path = tmp_path / "short.html"
    report(promise, output=path)
    page, messages = browser.new_page(), []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(path.as_uri())
    assert messages == []
    page.close()
