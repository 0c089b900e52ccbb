"""The built site in a real browser: no barriers, nothing cut on a phone, guides found first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

SITE = Path(__file__).parents[1] / "site"
pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="needs the site: make docs"
)
PAGES = (
    "",
    "learn/first-guarantee/",
    "learn/rare-class/",
    "howto/levels/",
    "howto/errors/",
    "understand/guarantee/",
    "understand/results/",
    "reference/api/metapac.MetaPS/",
    "reference/commands/",
    "theory/guarantee/",
)
BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Quiet(SimpleHTTPRequestHandler):
    """A server that says nothing."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_a_checker_finds_no_barrier(browser: Any, address: str, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    for name in PAGES:
        page.goto(address + name)
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(200)  # the script of the site mends what the theme adds
        assert page.evaluate(BEYOND) <= 0, name
        assert axe.run(page).response["violations"] == [], name
    context.close()


def test_no_page_is_wider_than_a_phone(browser: Any, address: str) -> None:
    size = {"width": 390, "height": 900}
    page = browser.new_context(viewport=size).new_page()
    names = [path.parent.relative_to(SITE).as_posix() for path in SITE.rglob("index.html")]
    for name in sorted(name for name in names if not name.startswith("reference/api/")):
        page.goto(f"{address}{name}/")
        assert page.evaluate(BEYOND) <= 0, name


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("how many sites", "howto/levels/"),
        ("empty set", "howto/sets/"),
        ("rare class", "learn/rare-class/"),
        ("exit code", "reference/commands/"),
    ],
)
def test_the_search_puts_guides_first(browser: Any, address: str, words: str, first: str) -> None:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(address)
    page.locator(".md-search__input").click()
    # What is typed before the index has arrived may be lost.
    page.locator(".md-search-result__meta", has_text="Type to start").wait_for(timeout=60_000)
    page.locator(".md-search__input").press_sequentially(words)
    page.wait_for_selector(".md-search-result__link", timeout=60_000)
    page.wait_for_timeout(500)
    found = page.locator(".md-search-result__link").all()
    links = [link.get_attribute("href") for link in found]
    places = [link.removeprefix(address).partition("?")[0].partition("#")[0] for link in links]
    assert first in places[:3], places
