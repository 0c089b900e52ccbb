"""A guarantee for hospitals with awkward names, the scores that reports are made from, a reader."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from metapac import Context, MetaPS, Scored
from metapac._common import Array

CLASSES = ("cat", "dog", "</script><b>owl")
ODD = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "evil \u202e </script> \u200b",
    "x" * 300,
    "\U0001f3e5 \u05e9\u05dc\u05d5\u05dd \u0639\u0631\u0628\u064a \u75c5\u9662",
    "a\"b'c&amp;{{ 7 * 7 }}{% raw %}",
)
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.2, "delta": 0.1}


class Reader(HTMLParser):
    """Collects the tags of a page, its text, and the cells of its tables by caption."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.tables: dict[str, list[list[str]]] = {}
        self._inside: list[str] = []
        self._caption = ""
        self.feed(html)
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "tr" and "tbody" in self._inside:
            self.tables[self._caption].append([])
        elif tag in ("th", "td") and "tbody" in self._inside:
            self.tables[self._caption][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" in self._inside:
            return
        self.text += data
        if self._inside[-1:] == ["caption"]:
            self._caption = data
            self.tables[data] = []
        elif "tbody" in self._inside and {"td", "th"} & {*self._inside}:
            self.tables[self._caption][-1][-1] += data


def draw_scores(names: list[str], rng: int, *, examples: int = 50) -> Scored:
    """Return scores of three classes, whose true class tends to have the highest one."""
    generator = np.random.default_rng(rng)
    rows = len(names) * examples
    label = generator.integers(3, size=rows)
    logits = generator.normal(size=(rows, 3))
    shift = np.repeat(generator.normal(1.5, 0.5, size=len(names)), examples)
    logits[np.arange(rows), label] += shift
    scores: Array = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    tasks = np.repeat(np.array(names, dtype=object), examples)
    return Scored(scores, tasks, np.array(CLASSES, dtype=object)[label], CLASSES)


def spoil(data: Scored) -> Scored:
    """Return the same tasks with scores of 0 for all true labels."""
    is_true = data.labels[:, None] == np.array(data.classes, dtype=object)
    return Scored(np.where(is_true, 0.0, data.scores), data.tasks, data.labels, data.classes)


def calibrate(calibration: Scored, **changes: Any) -> MetaPS:
    about = Context(
        model="triage <3.1>",
        trained_on=["north"],
        pilot=["pilot"],
        unit="hospital",
        example="patient",
    )
    return MetaPS(**LEVELS | changes).calibrate(calibration, context=about)


@pytest.fixture(scope="session")
def calibration() -> Scored:
    return draw_scores([f"old {i}" for i in range(40)], 0)


@pytest.fixture(scope="session")
def labelled() -> Scored:
    return draw_scores([*ODD, *(f"new {i}" for i in range(14))], 1)


@pytest.fixture(scope="session")
def promise(calibration: Scored) -> MetaPS:
    return calibrate(calibration)


@pytest.fixture(scope="session")
def per_class(calibration: Scored) -> MetaPS:
    return calibrate(calibration, per_class=True, alpha=0.3)
