"""Explanations as HTML, for notebooks."""

from __future__ import annotations

import html

from metapac._visible import visible


def render_card(title: str, text: str, sentence: str) -> str:
    """Return an explanation as HTML for a notebook: no scripts, no external resources.

    Parameters
    ----------
    title : str
        First line of the card.
    text : str
        The explanation, as ``explain`` of a predictor returns it.
    sentence : str
        The technical sentence, folded away.

    Returns
    -------
    str
        The card. Colours are those of the notebook, dark or light.
    """
    style = "border:1px solid;border-radius:6px;padding:.5em 1em;max-width:60em"
    parts = [_render_paragraph(paragraph) for paragraph in text.split("\n\n")]
    return (
        f'<div style="{style}"><strong>{_escape(title)}</strong>{"".join(parts)}'
        f"<details><summary>Technical sentence</summary><p>{_escape(sentence)}</p></details></div>"
    )


def render_text(text: str) -> str:
    """Return text as HTML, in the font of code.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    str
        The HTML.
    """
    return f"<pre>{_escape(text)}</pre>"


def _render_paragraph(paragraph: str) -> str:
    first, *items = paragraph.split("\n- ")
    listed = "".join(f"<li>{_escape(item)}</li>" for item in items)
    return f"<p>{_escape(first)}</p>{f'<ul>{listed}</ul>' if items else ''}"


def _escape(text: str) -> str:
    return html.escape(visible(text))
