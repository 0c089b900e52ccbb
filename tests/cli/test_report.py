"""``metapac report``: one HTML file, and one line for whatever cannot be used."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
from rich.progress import Progress

from metapac.provenance import Provenance, write_scores
from tests.helpers.commands import LEVELS, as_new, metapac


@pytest.fixture(scope="module")
def old(table: Path) -> Path:
    return table


@pytest.fixture(scope="module")
def new(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("new") / "new.parquet"
    as_new(frame).to_parquet(path)
    return path


@pytest.fixture(scope="module")
def by_label(old: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("promise") / "promise.json"
    words = ["--task", "site", "--label", "y", "--unit", "hospital", "--example", "patient"]
    result = metapac("calibrate", old, *words, *LEVELS, "-o", path)
    assert result.exit_code == 0, result.output
    return path


def test_a_report_from_tables(by_label: Path, new: Path, tmp_path: Path) -> None:
    output = tmp_path / "my report.html"
    fields = ["--owner", "Safety board", "--decision", "approve", "--valid-until", "May 2027"]
    result = metapac("report", by_label, new, *fields, "--examples", 6, "-o", output)
    assert result.exit_code == 0, result.output
    assert result.output == f"report written to {output}; open it in a browser\n"
    html = output.read_text(encoding="utf-8")
    assert "at least 70% of new hospitals of the same kind" in html
    assert "Checked on new hospitals" in html
    assert "Some patients and what they are given" in html
    for text in ("Safety board", "May 2027", 'id="decision-approve" autocomplete="off" checked'):
        assert text in html
    for path in (by_label, new):
        assert path.name in html
        assert hashlib.sha256(path.read_bytes()).hexdigest() in html


def test_clusters(frame: pd.DataFrame, tmp_path: Path) -> None:
    owners = {site: i // 2 for i, site in enumerate(frame.site.unique())}
    frame = frame.assign(owner=frame.site.map(owners))
    new = as_new(frame).assign(group=frame.owner + 1000)
    frame.to_parquet(tmp_path / "old.parquet")
    new.drop(columns="owner").to_parquet(tmp_path / "new.parquet")
    promise, output = tmp_path / "promise.json", tmp_path / "report.html"
    words = ["--task", "site", "--label", "y", "--cluster", "owner", "--cluster-rng", "7"]
    result = metapac("calibrate", tmp_path / "old.parquet", *words, *LEVELS, "-o", promise)
    assert result.exit_code == 0, result.output
    table = tmp_path / "new.parquet"
    result = metapac("report", promise, table, "--cluster", "group", "-o", output)
    assert result.exit_code == 0, result.output
    result = metapac("report", promise, table, "-o", output)
    assert result.exit_code == 2
    assert "has no column 'owner'" in result.stderr


def test_a_table_of_scores_names_its_columns(old: Path, new: Path, tmp_path: Path) -> None:
    promise, output = tmp_path / "promise.json", tmp_path / "report.html"
    words = ["--task", "site", "--score", "true", "--model", "m", *LEVELS, "-o", promise]
    assert metapac("calibrate", old, *words).exit_code == 0
    named = Provenance(model="m", columns={"task": "site", "label": "y", "columns": "p_*"})
    write_scores(tmp_path / "new.parquet", pd.read_parquet(new).to_dict("list"), named)
    for table, has_sizes in ((new, False), (tmp_path / "new.parquet", True)):
        result = metapac("report", promise, table, "-o", output)
        assert result.exit_code == 0, result.output
        text = output.read_text(encoding="utf-8")
        assert ("The model answers" in text) == has_sizes


def test_a_promise_alone_is_enough(
    promise: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = metapac("report", promise, "--json")
    assert result.exit_code == 0, result.output
    written = json.loads(result.output)
    assert written == {"output": "report.html", "bytes": Path("report.html").stat().st_size}
    assert "Nobody has compared" in Path("report.html").read_text(encoding="utf-8")


def test_an_earlier_report_is_replaced_and_that_is_said(
    promise: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = [metapac("report", promise).output for _ in range(2)]
    assert outputs == [
        "report written to report.html; open it in a browser\n",
        "report written to report.html, in place of the earlier one; open it in a browser\n",
    ]
    Path("report.html").write_text("<html>My own page</html>")
    result = metapac("report", promise)
    assert result.exit_code == 2
    assert "--output must not replace a file that is not a report of metapac" in result.stderr
    assert Path("report.html").read_text() == "<html>My own page</html>"


def test_tables_of_text_are_read_alike(by_label: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    new = as_new(frame.drop(columns="probs"))
    new.to_csv(tmp_path / "new.csv", sep=";", decimal=",", index=False)
    words = ["--separator", ";", "--decimal", ",", "-o", tmp_path / "report.html"]
    result = metapac("report", by_label, tmp_path / "new.csv", *words)
    assert result.exit_code == 0, result.output


def test_the_course_of_a_monitor(by_label: Path, new: Path, tmp_path: Path) -> None:
    state, output = tmp_path / "monitor.json", tmp_path / "report.html"
    result = metapac("monitor", by_label, new, "--state", state, "--batch", "2026-01")
    assert result.exit_code in (0, 3), result.output
    result = metapac("report", by_label, "--monitor", state, "-o", output)
    assert result.exit_code == 0, result.output
    assert "2026-01" in output.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{new}"], "is not a metapac promise file"),
        (["{promise}", "{new}", "--task", "ward"], "has no column 'ward'; it has: site, y"),
        (["{promise}", "no.parquet"], "no.parquet: No such file"),
        (["{promise}", "-o", "{promise}"], "is also the input. Write to another file."),
        (["{promise}", "{new}", "-o", "{new}"], "is also the input. Write to another file."),
        (["{promise}", "-o", "report.pdf"], "--output must end in .html, got 'report.pdf'"),
        (["{promise}", "-o", "no/report.html"], "folder does not exist; create it first"),
        (["{promise}", "--decision", "yes"], "--decision must be 'approve' or 'conditions' or"),
        (["{promise}", "--monitor", "{promise}"], "is not a metapac monitor file"),
        (["{promise}", "{old}"], "--allow overlap"),
        (["{promise}", "{new}", "--false-alarm", "0.7"], "--false-alarm"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    words: list[str],
    message: str,
    by_label: Path,
    old: Path,
    new: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = by_label.read_bytes(), new.read_bytes()
    names = {"promise": by_label, "new": new, "old": old}
    result = metapac("report", *(word.format(**names) for word in words))
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert (by_label.read_bytes(), new.read_bytes()) == before
    assert not [*tmp_path.iterdir()]


def test_a_missing_extra_is_named(
    promise: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = metapac("report", promise, "-o", tmp_path / "report.html")
    assert result.exit_code != 0
    assert re.search(r"a report needs jinja2\. Install it with: pip install", result.stderr)


def test_progress_is_shown(
    by_label: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = []

    def update(self: object, *_: object, description: str = "", **__: object) -> None:
        stages.append(description.partition(",")[0])

    monkeypatch.setattr(Progress, "update", update)
    metapac("report", by_label, new, "-o", tmp_path / "report.html")
    assert [*dict.fromkeys(stages)] == ["evaluating the sets of each task", "drawing"]
