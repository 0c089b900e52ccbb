"""CSV files: their faults are named with the line, and engines read what Python reads."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac.columns import Columns
from metapac.tables.csv_text import check_rows, read_common_header, read_header
from metapac.tables.engines import Reading
from metapac.tables.scores import true_scores
from metapac.tables.sources import open_source
from tests.helpers.engines import connection


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; it needs a header line with the column names"),
        ("a,a\n", "has two columns named 'a'. Rename one."),
        ("a,A\n", "has columns 'a' and 'A', which differ only in case. Rename one."),
        (
            "site;score\na;1\n",
            "has only the column 'site;score', which looks like several. Read .* separator=';'\\.$",
        ),
        ("a\tb\n1\t2\n", r"Read it with separator='\\t'"),
    ],
)
def test_invalid_headers_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_header(tmp_path / "a.csv")


def test_a_header_may_be_quoted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('\ufeff"a, ""b""",c d,\N{DOG}\n1,2,3\n', encoding="utf-8")
    (tmp_path / "b.csv").write_text('"a, ""b""","c d",\N{DOG}\n', encoding="utf-8")
    both = [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert read_common_header(both) == ['a, "b"', "c d", "\N{DOG}"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,1\nb\n", "line 3: 1 fields where the header has 2. Quote fields that contain a sep"),
        ("a,1\nb,2,3\n", "line 3: 3 fields where the header has 2"),
        ('"a\nb",1\n,2\n', "line 4: column 'task' is empty; an example must belong to a task"),
        (
            "a,high\n",
            "line 2: column 'score' holds 'high', which is not a number. Write numbers lik",
        ),
        ("a,1_0\n", "line 2: column 'score' holds '1_0'"),
        ("a,nan\n", "line 2: column 'score' holds 'nan'"),
        ("a,\n", "line 2: column 'score' holds ''"),
    ],
)
def test_the_first_faulty_line_is_named(tmp_path: Path, rows: str, message: str) -> None:
    (tmp_path / "good.csv").write_text("task,score\na,1\n\nb, -inf \n")
    (tmp_path / "bad.csv").write_text("task,score\n" + rows)
    both = [tmp_path / "good.csv", tmp_path / "bad.csv"]
    with pytest.raises(ValueError, match=f"bad.csv, {message}"):
        check_rows(both, ["score"], "task")
    check_rows(both[:1], ["score"], "task")


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (",a\n", ["Unnamed: 0", "a"]),
        ("a,,\n", ["a", "Unnamed: 1", "Unnamed: 2"]),
        ("Unnamed: 1,\n", ["Unnamed: 1", "Unnamed: 1_"]),
    ],
)
def test_columns_without_a_name_get_one(tmp_path: Path, header: str, names: list[str]) -> None:
    (tmp_path / "a.csv").write_text(header)
    assert read_header(tmp_path / "a.csv") == names


@pytest.mark.parametrize(
    ("text", "decimal", "message"),
    [
        ("0,5", ".", "Write numbers like 0.25, .* Read decimal commas with decimal=','"),
        ("1,234.5", ".", "without thousands separators"),
        ("1.234,5", ",", "Write numbers like 0,25, without thousands separators"),
        ("0.5", ",", "holds '0.5', which is not a number. Write numbers like 0,25"),
        ("1,2,3", ",", "holds '1,2,3', which is not a number"),
    ],
)
def test_numbers_of_another_country_are_explained(
    tmp_path: Path, text: str, decimal: str, message: str
) -> None:
    (tmp_path / "a.csv").write_text(f"task;score\na;{text}\n")
    with pytest.raises(ValueError, match=message):
        check_rows([tmp_path / "a.csv"], ["score"], "task", Reading(None, ";", decimal))


TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8
)
NUMBER = st.floats(allow_nan=False).map(repr) | st.sampled_from(["1", " 2 ", "-.5", "1e3", "+inf"])


@settings(max_examples=60)
@given(st.lists(st.tuples(TEXT, NUMBER), min_size=1, max_size=6))
def test_an_engine_reads_what_python_reads(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("task", "score"), *rows])
    path.write_text(buffer.getvalue(), encoding="utf-8", newline="")
    source = open_source(path, connection=connection("duckdb"))
    result = source.run(true_scores(source, Columns(task="task", score="score")).table).to_pylist()
    assert [(row["task"], row["score"]) for row in result] == [(t, float(s)) for t, s in rows]
