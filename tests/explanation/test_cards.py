"""Cards for notebooks: all of the text, and no tag from the data."""

from __future__ import annotations

from html.parser import HTMLParser

from metapac import Guarantee
from metapac.context import Context
from metapac.words import Rule, explain_guarantee, render_card, render_text

EVIL = '<script>alert(1)</script>&"\x1b[2J\n- forged\n\nforged'
HOSPITALS = Context(unit="hospital", example="patient")


class Tags(HTMLParser):
    """Collects the names of all tags."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


def test_a_card_has_all_paragraphs_items_and_the_sentence() -> None:
    card = render_card("title", "first\n\nsecond\n- a\n- b", "exact")
    assert "<strong>title</strong><p>first</p><p>second</p><ul><li>a</li><li>b</li></ul>" in card
    assert "<summary>Technical sentence</summary><p>exact</p>" in card


def test_names_cannot_forge_a_line_or_a_tag() -> None:
    about = Context(unit=EVIL, example=EVIL, model=EVIL)
    g = Guarantee(epsilon=0.03, alpha=0.1, delta=0.01, per_class=True)
    plain = explain_guarantee(g, [Rule("yes", 0.03, 0.5, 60, 9)], 60, HOSPITALS).split("\n\n")
    evil = explain_guarantee(g, [Rule(EVIL, 0.03, 0.5, 60, 9)], 60, about).split("\n\n")
    assert [p.count("\n") for p in evil] == [p.count("\n") for p in plain]
    card = render_card(EVIL, "\n\n".join(evil), EVIL)
    parser = Tags()
    parser.feed(card)
    assert not parser.tags - {"div", "strong", "p", "ul", "li", "details", "summary"}
    assert "\x1b" not in card
    assert "src" not in card
    assert "url" not in card
    assert render_text(EVIL).count("<") == 2
