"""A summary in all formats, read back."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from html.parser import HTMLParser

import numpy as np
import pytest

from metapac import Guarantee
from metapac.evaluation import Rows, Summary, summarise
from tests.helpers.studies import method_rows as table

G = Guarantee(epsilon=0.1, alpha=0.05, delta=0.05)


COLUMNS = (
    "tasks within: new tasks with an error of at most 0.1. draws within: calibration draws in "
    "which these are at least 95 % of the new tasks. by chance: draws within to be expected if all "
    "thresholds were equally good."
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
    assert second.endswith("| 100% | 100% | cannot tell yet |")
    assert not empty
    assert columns == COLUMNS
    assert covers == summary.covers
    assert short == "† keeps every label on some task: too few data for its guarantee."
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
    assert second["verdict"] == "cannot tell yet"


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


def test_json_has_no_infinity() -> None:
    summary = summarise(table([[0.1, 0.2]]), G)
    text = json.dumps(summary.describe(), allow_nan=False)
    line = json.loads(text)["methods"][0]
    assert line["size_interval"] == [None, None]
    assert line["verdict"] == "cannot tell yet"
    assert json.loads(text)["columns"] == COLUMNS
    assert json.loads(text)["notes"] == list(summary.notes)
    assert " [" not in summary.to_markdown().splitlines()[2].split("|")[2]
