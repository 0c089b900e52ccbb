"""A summary in all formats, read back."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, replace
from html.parser import HTMLParser

import numpy as np
import pytest

from metapac import Guarantee
from metapac.fewshot import summarise
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import Summary
from tests.helpers.studies import method_rows as table

G = Guarantee(epsilon=0.1, alpha=0.05, delta=0.05)


COLUMNS = (
    "mean size: over tasks. tasks within: new tasks with an error of at most 0.1. draws within: "
    "calibration draws in "
    "which these are at least 95 % of the new tasks. by chance: draws within to be expected if all "
    "thresholds were equally good. verdict: 'observed within' is about errors as observed, 'holds' "
    "of metapac evaluate about true miss rates; 'violated' if few test examples do not explain the "
    "tasks above 0.1; 'cannot tell yet': small test sets alone could explain them."
)


@pytest.fixture
def summary() -> Summary:
    rng = np.random.default_rng(0)
    odd = table(0.3 * rng.random((4, 9)), rng.random((4, 9)), method="50 % <b> & a|b_c")
    other = table(np.zeros((4, 9)), method="PS-Test", delta=0.1, feasible=False)
    return summarise(Rows.concatenate([odd, other]), G, notes=["A note & more."])


def test_markdown_is_a_table_with_footnotes(summary: Summary) -> None:
    lines = summary.to_markdown().splitlines()
    head, rule, first, second, empty, columns, covers, short, note = lines
    assert head == (
        "| method | mean size | 95 % error | tasks within | draws within | by chance | verdict |"
    )
    assert rule == "| --- | ---: | ---: | ---: | ---: | ---: | --- |"
    assert first.replace(r"\|", "").count("|") == 8
    low, high = summary[0].size_interval
    assert f"| {summary[0].size:.3f} [{low:.3f}, {high:.3f}] |" in first
    assert second.startswith("| PS-Test, delta = 0.1 † | 1.000 [1.000, 1.000] | 0.000 [0.000, 1.0")
    assert second.endswith("| 100% | 100% | too few data |")
    assert not empty
    assert columns == COLUMNS
    assert covers == summary.covers
    assert short == (
        "† too few data for its guarantee on some task, where every label is kept. Needed: 22 "
        "labels for PS-Test, delta = 0.1."
    )
    assert note == "A note & more."


def test_latex_escapes_what_has_a_meaning(summary: Summary) -> None:
    text = summary.to_latex()
    assert r"50 \% <b> \& a|b\_c & " in text
    assert r"PS-Test, delta = 0.1 $\dagger$ & 1.000 [1.000, 1.000]" in text
    comment, *lines = text.splitlines()
    assert comment.startswith(f"% {COLUMNS} 95 % intervals")
    assert lines[0] == r"\begin{tabular}{lrrrrrl}"
    assert all(line.count(" & ") == 6 for line in lines if line.endswith(r"\\"))
    assert sum(line.endswith(r"\\") for line in lines) == 3


def test_csv_has_every_number_to_its_last_digit(summary: Summary) -> None:
    first, second = csv.DictReader(io.StringIO(summary.to_csv()))
    for name, value in asdict(summary[0]).items():
        if name.endswith("_interval"):
            stem = name.removesuffix("_interval")
            assert (float(first[f"{stem}_low"]), float(first[f"{stem}_high"])) == value
        else:
            assert first[name] == str(value)
    assert second["verdict"] == "too few data"


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_html_shows_the_same_cells_and_no_markup_of_names(summary: Summary) -> None:
    parser = Cells()
    parser.feed(summary._repr_html_())
    assert set(parser.tags) == {"table", "tr", "th", "td", "p"}
    assert parser.tags.count("td") == 14
    assert "50 % <b> & a|b_c" in parser.texts
    assert COLUMNS in parser.texts
    assert parser.texts[-1] == "A note & more."


def test_json_never_says_that_a_guarantee_holds_for_want_of_data() -> None:
    enough, short = (
        table(np.zeros((9, 20)), method=name, feasible=name == "PS") for name in ("PS", "PS-Test")
    )
    text = json.dumps(summarise(Rows.concatenate([enough, short]), G).describe())
    said = [
        tuple(line[name] for name in ("feasible", "holds", "verdict"))
        for line in json.loads(text)["methods"]
    ]
    assert said == [(True, True, "observed within"), (False, False, "too few data")]


def test_sets_that_always_have_every_label_are_marked() -> None:
    parts = [
        replace(table(np.zeros((9, 20)), sizes, method=name), labels=np.full(180, 3))
        for name, sizes in (("PS", np.full((9, 20), 3.0)), ("oracle", np.full((9, 20), 2.9)))
    ]
    summary = summarise(Rows.concatenate(parts), G, notes=[])
    assert [(line.every_label, line.verdict) for line in summary] == [
        (True, "observed within"),
        (False, "observed within"),
    ]
    text = summary.to_markdown()
    assert "| PS ‡ |" in text
    assert "| oracle |" in text
    assert text.endswith(
        "‡ every set has every label, so that its error is 0 whatever the scores.\n"
    )
    assert r"PS $\ddagger$ &" in summary.to_latex()
    unknown = table(np.zeros((9, 20)), np.full((9, 20), 3.0))  # of how many labels
    assert not summarise(unknown, G)[0].every_label


def test_a_method_of_your_own_has_no_known_need() -> None:
    rows = table(np.zeros((9, 20)), method="mine", feasible=False)
    summary = summarise(rows, G, notes=[])
    assert summary.to_markdown().endswith("on some task, where every label is kept.\n")
    assert summary.describe()["methods"][0]["needed"] is None


def test_json_has_no_infinity() -> None:
    summary = summarise(table([[0.1, 0.2]]), G)
    text = json.dumps(summary.describe(), allow_nan=False)
    line = json.loads(text)["methods"][0]
    assert line["size_interval"] == [None, None]
    assert line["verdict"] == "cannot tell yet"
    assert json.loads(text)["columns"] == COLUMNS
    assert json.loads(text)["notes"] == list(summary.notes)
    assert " [" not in summary.to_markdown().splitlines()[2].split("|")[2]
