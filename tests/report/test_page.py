"""The page: its numbers are those of ``to_dict``, names are text, and nothing can be loaded."""

from __future__ import annotations

import base64
import hashlib
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from metapac import MetaPS, Scored, evaluate
from metapac.guarantee import format_share
from metapac.report import report
from metapac.words import round_down
from tests.report.conftest import CLASSES, ODD, Reader


@pytest.fixture(scope="module")
def html(promise: MetaPS, labelled: Scored) -> str:
    return report(promise, labelled, title=ODD[0], examples=9)


@pytest.fixture(scope="module")
def page(html: str) -> Reader:
    return Reader(html)


def show_misses(row: dict[str, Any]) -> list[str]:
    """Return the cells of a row that has misses and their interval."""
    rates = [format_share(row[key]) for key in ("error", "low", "high")]
    return [f"{row['missed']} of {row['examples']}", rates[0], f"{rates[1]} to {rates[2]}", ""]


def test_the_worst_tasks_are_those_of_evaluate(
    page: Reader, promise: MetaPS, labelled: Scored
) -> None:
    found = evaluate(promise, labelled)
    worst = page.tables["The worst new hospitals"]
    assert len(worst) == 10
    for cells, row in zip(worst, found.to_dict()["worst"], strict=False):
        sizes = [f"{row['set_size']:.2f}", str(row["empty"])]
        assert cells[1:] == show_misses(row) + sizes
        assert cells[0][:30] == row["task"][:30] or "\\u" in cells[0]
    listed = page.tables["New hospitals, the worst first"]
    assert [cells[1] for cells in listed] == [show_misses(row)[0] for row in found.worst(20)]


def test_the_numbers_at_the_top_are_those_of_evaluate(
    page: Reader, promise: MetaPS, labelled: Scored
) -> None:
    found = evaluate(promise, labelled)
    values = found.to_dict()
    single = values["sets"]["single"]
    cost = (
        f"The model answers {format_share(single)} of the patients; a person decides on "
        f"{format_share(1 - single)}. Measured on 20 new hospitals."
    )
    assert cost in page.text
    assert f"every label ({format_share(values['sets']['full'])})" in page.text
    within = "all" if values["within"] == 1 else str(int(np.sum(found.errors <= 0.2)))
    assert f"in {within} of them, at most 20% were missed; on average " in page.text
    assert f"on average {format_share(values['error'])}." in page.text
    assert values["verdict"]["sentence"] in page.text
    classes = {row[0]: row for row in page.tables["Missed in each class, the most missed first"]}
    for part in values["classes"]:
        assert classes[part["class"]][1:] == show_misses(part)


def test_each_class_has_its_claim_its_threshold_and_its_rows(
    per_class: MetaPS, labelled: Scored
) -> None:
    page, found = Reader(report(per_class, labelled)), evaluate(per_class, labelled)
    assert found.by_class is not None
    parts = found.by_class
    card = page.text[: page.text.index("What is not guaranteed")]
    rarest = sorted(parts, key=lambda label: parts[label].examples.sum())
    worst = page.tables["The worst new hospitals"]
    assert [*dict.fromkeys(row[0] for row in worst)] == rarest
    for label in CLASSES:
        assert f"at most 20% of the patients whose true label is “{label}” get a set" in card
        own = [row[2] for row in worst if row[0] == label]
        assert own == [show_misses(row)[0] for row in found.by_class[label].worst(len(own))]
    thresholds = page.tables["Thresholds, rounded down, and what they rest on"]
    cuts = dict(zip(per_class.classes_ or (), per_class.thresholds_.tolist(), strict=True))
    assert {row[0]: row[2] for row in thresholds} == {k: round_down(v) for k, v in cuts.items()}
    for row in thresholds:
        rank, tasks = map(int, row[3].split(" of "))
        of_class = per_class.task_thresholds_[:, CLASSES.index(row[0])]
        assert np.sort(of_class)[rank - 1] == cuts[row[0]]
        assert tasks == len(of_class)


def test_of_many_classes_no_cut_is_silent() -> None:
    rng = np.random.default_rng(2)
    classes = [f"kind {i}" for i in range(60)]
    tasks, labels = np.repeat(np.arange(30), 1200), np.tile(np.arange(60), 600)
    scores = rng.random((len(tasks), 60))
    scores[np.arange(len(tasks)), labels] += 0.95
    names = np.array(classes)[labels]
    levels: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.2, "per_class": True}
    promise = MetaPS(**levels).calibrate(scores, tasks, names, classes=classes)
    new = Scored(scores + 1e-6, np.char.add("new ", tasks.astype(str)), names, classes)
    text = Reader(report(promise, new)).text
    assert text.count("get a set without it.") == 4
    for words in (
        "The same is guaranteed for 56 more classes, listed in the appendix.",
        "(the most missed; more in the appendix)",
        "Drawn for the 4 rarest of 60 classes.",
        "For the 20 rarest of 60 classes.",
        "The 500 worst of 1,800 rows",
        "The 50 most missed of 60 classes.",
        "The 50 rarest of 60 classes.",
    ):
        assert words in text


def test_tasks_that_are_not_new_are_named(
    promise: MetaPS, calibration: Scored, labelled: Scored
) -> None:
    parts = zip(
        (labelled.scores, labelled.tasks, labelled.labels),
        (calibration.scores[:50], calibration.tasks[:50], calibration.labels[:50]),
        strict=True,
    )
    scores, tasks, labels = (np.concatenate(pair) for pair in parts)
    both = Scored(scores, tasks, labels, labelled.classes)
    text = Reader(report(promise, both)).text
    assert "Not counted: 1 hospital used in calibration, training or the pilot." in text
    assert "because they were used in calibration, training or the pilot: old 0." in text


def test_names_are_text_and_nothing_else(html: str, page: Reader) -> None:
    for name in (ODD[0], ODD[1], ODD[4], ODD[5], "</script><b>owl", "triage <3.1>"):
        assert name in page.text
    tags = [tag for tag, _attributes in page.tags]
    assert tags.count("style") == 1
    assert not {"script", "img", "b", "iframe", "object", "embed", "link", "base", "form"} & {*tags}
    assert "49" not in re.findall(r"c&amp;amp;(.*?)<", html)[0]  # 7 * 7 is not computed
    assert "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>" in html
    assert "\u202e" not in html
    assert "\u200b" not in html
    assert r"<bdi>evil \u202e &lt;/script&gt; \u200b</bdi>" in html
    assert f"<bdi>{ODD[4]}</bdi>" in html  # names keep their own direction


def test_a_long_name_shows_both_its_ends_and_a_title_is_whole(
    page: Reader, promise: MetaPS
) -> None:
    titles = [found["title"] for tag, found in page.tags if tag == "bdi" and "title" in found]
    assert {*titles} == {ODD[3]}
    assert f"{'x' * 39}…{'x' * 20}" in page.text
    assert ODD[3] not in page.text
    assert f"<h1><bdi>{ODD[3]}</bdi></h1>" in report(promise, title=ODD[3])


def test_the_policy_allows_the_own_style_alone(html: str, page: Reader) -> None:
    policy = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)[0]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.replace("&#39;", "'").split(";"))
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert rules == {"default-src": "'none'", "style-src": f"'sha256-{digest}'"} | {
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    for tag, attributes in page.tags:
        assert not {"src", "srcset", "data", "action", "style"} & attributes.keys(), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert str(attributes.get("href", "#")).startswith("#")
    assert not re.findall(r"https?://", html)


def test_each_id_is_used_once_and_references_lead_to_it(html: str, page: Reader) -> None:
    ids = [attributes["id"] for _tag, attributes in page.tags if "id" in attributes]
    assert len(ids) == len({*ids})
    for tag, attributes in page.tags:
        for name in ("for", "aria-labelledby", "aria-describedby", "href"):
            for target in str(attributes.get(name) or "").split():
                assert target.removeprefix("#") in ids, tag
    assert {*re.findall(r"url\(#(.*?)\)", html)} <= {*ids}


def test_headings_tables_and_charts_can_be_read_aloud(page: Reader) -> None:
    tags = [tag for tag, _attributes in page.tags]
    assert tags.count("h1") == tags.count("main") == tags.count("header") == 1
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert tags.count("table") == tags.count("caption")
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    drawings = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert all("aria-labelledby" in found or "aria-hidden" in found for found in drawings)
    assert tags.count("desc") == sum("aria-labelledby" in found for found in drawings) > 2
