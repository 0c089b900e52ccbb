"""Errors and warnings as the command line shows them: one line, options, exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from metapac.cli.commands import add_command, make_translator
from typer.testing import CliRunner, Result

from metapac import BadArtefact, InfeasibleGuarantee, InvalidInput
from metapac.cli.options import ColumnOptions, GuaranteeOptions, PromiseOutput, Scores
from tests.helpers.commands import LEVELS, PER_CLASS, STRICT, calibrate_csv, metapac, write_csv

# Parameters as Python writes them, such as memory_limit or split='joint'.
PYTHON = re.compile(r"\b(?<![-/.])[a-z]+(_[a-z]+)+\b|\b[a-z_]+=['\d]|\bNone\b|\bTrue\b")
COLUMNS = {"p_a", "p_cat", "p_dog", "p_owl", "p_true"}


def check_words(result: Result, code: int) -> str:
    """Return the message, after checking that it is one line without Python syntax."""
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("metapac: ")
    assert result.stderr.count("\n") == 1
    words = {match[0] for match in PYTHON.finditer(result.stderr)}
    assert not words - COLUMNS, result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("epsilon is bad", "--epsilon is bad"),
        ("epsilon=0.1", "--epsilon 0.1"),
        ("epsilon={'cat': 0.1, 'great owl': 0.2}", "--epsilon cat=0.1 --epsilon 'great owl=0.2'"),
        ("delta=None", "--delta none"),
        ("delta=1e-05.", "--delta 1e-05."),
        ("per_class", "--per-class"),
        ("per_class=True", "--per-class"),
        ("per_class=False", "no --per-class"),
        ("min_examples=3, split='joint'", "--min-examples 3, --split joint"),
        ("split=0.123", "--split 0.123"),
        ("columns='p_*'", "--columns 'p_*'"),
        ("classes=['cat', 'dog']", "--classes cat,dog"),
        ("output", "--output"),
        ("scores", "SCORES"),
        ("master", "master"),
        ("master='local'", "master='local'"),
        ("the epsilons", "the epsilons"),
    ],
)  # fmt: skip
def test_arguments_are_shown_as_they_are_typed(message: str, text: str) -> None:
    shown = []

    def command(
        context: typer.Context,
        scores: Scores,
        output: PromiseOutput,
        guarantee: GuaranteeOptions,
        columns: ColumnOptions,
    ) -> None:
        """Show a message."""
        names = ("epsilon", "output", "scores", "master")
        shown.append(make_translator(context)(message, names))

    app = typer.Typer()
    add_command(app, command, "command")
    result = CliRunner().invoke(app, ["a.csv", "-o", "b", *LEVELS])
    assert result.exit_code == 0, result.output
    assert shown == [text]


def run(error: Exception) -> Result:
    """Run a command that fails."""

    def fail(columns: ColumnOptions) -> None:
        """Fail."""
        raise error

    app = typer.Typer()
    add_command(app, fail, "fail")
    return CliRunner().invoke(app, [])


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InvalidInput("columns='x' is bad"), 2, "--columns x is bad"),
        (InvalidInput("label is bad", parameter="label"), 2, "--label is bad"),
        (InfeasibleGuarantee("too few"), 1, "too few"),
        (BadArtefact("{braces} stay"), 2, "{braces} stay"),
        (FileNotFoundError(2, "No such file", "x.csv"), 2, "x.csv: No such file"),
        (OSError("no file name"), 2, "no file name"),
        (ValueError("of another library"), 2, "of another library"),
        (ModuleNotFoundError("No module named 'x'"), 2, "No module named 'x'"),
    ],
)
def test_exit_codes(error: Exception, code: int, text: str) -> None:
    result = run(error)
    assert (result.exit_code, result.stderr) == (code, f"metapac: {text}\n")


def test_bugs_are_not_hidden() -> None:
    assert isinstance(run(KeyError("bug")).exception, KeyError)


class DeprecationForUsers(UserWarning, DeprecationWarning):
    """What Pyparsing says of Matplotlib."""


@pytest.mark.parametrize(
    ("category", "printed"),
    [(UserWarning, "metapac: warning: no checksum\n"), (DeprecationForUsers, "")],
)
def test_warnings_are_one_line_unless_about_a_library(
    category: type[Warning], printed: str
) -> None:
    def warn() -> None:
        """Warn."""
        warnings.warn("no checksum", category, stacklevel=1)

    app = typer.Typer()
    add_command(app, warn, "warn")
    result = CliRunner().invoke(app, [])
    assert (result.exit_code, result.stderr) == (0, printed)


def test_a_closed_pipe_is_not_an_error(csv_promise: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "new.csv", ["p_a", "p_b"], [[0.1, 0.9]] * 50_000)
    command = f"{sys.executable} -m metapac predict {csv_promise} {table} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == "p_a,p_b,set,set_size\n"
    assert done.stderr == ""


def test_bad_files(csv_promise: Path, csv_scores: Path, tmp_path: Path) -> None:
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"site,p_true\n\xff\xfe,1\n")
    marked = write_csv(tmp_path / "marked.csv", ["p_a", "p_b", "set"], [[1, 0, 2]])
    good = write_csv(tmp_path / "good.csv", ["p_a", "p_b"], [[1, 0]])
    output = tmp_path / "p.json"
    for result, message in [
        (calibrate_csv(tmp_path / "none.csv", "-o", output), "No such file"),
        (calibrate_csv(csv_scores, "-o", tmp_path / "none" / "p.json"), "folder does not exist"),
        (calibrate_csv(csv_scores, "-o", csv_scores), "scores.csv is also the input. Write to"),
        (metapac("predict", csv_promise, good, "-o", good), "good.csv is also the input"),
        (calibrate_csv(binary, "-o", output), "is not utf-8 text"),
        (metapac("predict", csv_scores, csv_promise), "scores.csv is not a metapac promise"),
        (metapac("predict", csv_promise, marked), "already has a column 'set'. Rename or drop it."),
    ]:
        assert message in check_words(result, 2)


def test_bad_options_are_shown_as_they_are_typed(
    csv_promise: Path, csv_scores: Path, tmp_path: Path
) -> None:
    good = write_csv(tmp_path / "good.csv", ["p_a"], [[1]])
    output = ["-o", tmp_path / "p.json"]
    for result, messages in [
        (
            calibrate_csv(csv_scores, "--epsilon", "10", *output),
            ["--epsilon must be one number, got 0.1 and 10"],
        ),
        (
            metapac(
                "calibrate",
                csv_scores,
                "--task",
                "site",
                "--score",
                "p_true",
                *output,
                "--epsilon",
                10,
                "--alpha",
                0.1,
                "--delta",
                0.1,
            ),
            ["--epsilon must be a number strictly between 0 and 1, got 10.0"],
        ),
        (calibrate_csv(csv_scores, "--alpha", 2, *output), ["--alpha must be a number strictly"]),
        (
            calibrate_csv(csv_scores, "--on-infeasible", "x", *output),
            ["--on-infeasible must be", "'x'"],
        ),
        (calibrate_csv(csv_scores, "--split", "odd", *output), ["--split must be 'joint'"]),
        (
            metapac("predict", csv_promise, good, "--columns", "q_*"),
            ["no column like 'q_*'; it has: p_a"],
        ),
        (
            metapac("predict", csv_promise, good, "--columns", "p_a"),
            ["--columns must contain"],
        ),
        (metapac("plan", "--tasks", 0), ["--tasks must be a whole number"]),
        (metapac("plan", "--epsilon", 2, *STRICT[2:]), ["--epsilon must be a number"]),
        (metapac("plan", *STRICT, "--tasks", 0, "--examples", 5), ["--tasks must be a whole"]),
    ]:
        text = check_words(result, 2)
        assert all(message in text for message in messages), text


def test_bad_table_options(table: Path, promise: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(table.read_bytes()[:-100])
    text = tmp_path / "text.parquet"
    pd.DataFrame({"site": ["a"], "true": ["high"]}).to_parquet(text)
    here = ["--task", "site", "--score", "true", *LEVELS, "-o", tmp_path / "p.json"]
    for words, message in [
        (["calibrate", cut, *here], "cut.parquet cannot be read ("),
        (["calibrate", text, *here], "column 'true' must hold numbers, got string"),
        (
            ["calibrate", table, "--task", "x", *here[2:]],
            "has no column 'x'; it has: site, y, true",
        ),
        (["calibrate", table, *here, "--label", "y"], "pass either --score, the column with"),
        (["calibrate", table, *here, "--master", "local"], "--master local applies only to Spark"),
        (["calibrate", table, *here, "--memory-limit", "x"], "--memory-limit must be a size such"),
        (["calibrate", table, *here, "--table", "x"], "--table x"),
        (["predict", promise, table, "-o", tmp_path / "x.txt"], "--output must end in .parquet or"),
        (["evaluate", promise, table, "--score", "true", "--label", "y"], "pass either --score"),
        (["predict", promise, table, "--json"], "--json describes the file written"),
        (["combine", promise, "-o", tmp_path / "p.json"], "promise.json is not a metapac site"),
        (["combine", tmp_path / "none", "-o", tmp_path / "p.json"], "none: No such file"),
    ]:
        assert message in check_words(metapac(*words), 2)
        assert not (tmp_path / "p.json").exists()


def test_outputs_are_not_written_among_the_inputs(
    frame: pd.DataFrame, promise: Path, tmp_path: Path
) -> None:
    frame.to_parquet(tmp_path / "a.parquet")
    words = ["calibrate", tmp_path, "--task", "site", "--score", "true", *LEVELS]
    result = metapac(*words, "-o", tmp_path / "p.json")
    assert "p.json would be part of the input" in check_words(result, 2)
    result = metapac("evaluate", promise, tmp_path, "-o", tmp_path / "tasks.csv")
    assert "tasks.csv would be part of the input" in check_words(result, 2)


def test_remedies_are_options(frame: pd.DataFrame, table: Path, tmp_path: Path) -> None:
    out = ["-o", tmp_path / "p.json"]
    few = write_csv(tmp_path / "few.csv", ["site", "true"], [["a", 0.5]])
    words: list[Any] = ["calibrate", table, "--task", "site", "--score", "true", *out, "--epsilon"]
    result = metapac("calibrate", few, *words[2:], *LEVELS[1:])
    assert "or pass --on-infeasible trivial to keep every label" in check_words(result, 1)
    result = metapac("calibrate", table, "--task", "site", *LEVELS, *out)
    message = check_words(result, 2)
    assert "pass either --score, the column" in message
    result = metapac(*words, 0.1, "--alpha", 0.1, "--delta", 0.01)
    assert "use --delta none, a weaker guarantee" in check_words(result, 1)
    result = metapac(*words, 0.2, "--alpha", 0.3, "--delta", 0.1, "--split", "1e-9")
    assert "use --split joint, which gives the same guarantee" in check_words(result, 1)
    small = frame[(frame.groupby("site").cumcount() < 2) | (frame.site > "site 06")]
    small.to_parquet(tmp_path / "small.parquet")
    words[1] = tmp_path / "small.parquet"
    result = metapac(*words, 0.2, "--alpha", 0.2, "--delta", 0.1)
    assert "use --min-examples 3, which keeps 23 tasks" in check_words(result, 1)
    result = metapac(*words, "cat=0.1", "--alpha", 0.2, "--delta", 0.1)
    assert "if --per-class" in check_words(result, 2)


def test_remedies_for_a_guarantee_per_class(table: Path, tmp_path: Path) -> None:
    out = ["-o", tmp_path / "p.json"]
    words = ["--score", "true", "--epsilon", 0.2, *out]
    unlabelled = metapac("calibrate", table, "--task", "site", *PER_CLASS[:5], *words)
    message = check_words(unlabelled, 2)
    assert "--label must name the column with the true label" in message
    site = metapac("site", table, "--name", "a", *PER_CLASS, *words)
    assert "--classes must name all classes" in check_words(site, 2)


def test_parameters_of_the_guarantee_are_shown_as_options_in_every_command(tmp_path: Path) -> None:
    scores = write_csv(tmp_path / "a.csv", ["true"], [[0.5]] * 50)
    words = ["--name", "a", "--score", "true", *LEVELS, "-o", tmp_path / "a.json"]
    assert metapac("site", scores, *words).exit_code == 0
    message = check_words(metapac("combine", tmp_path / "a.json", "-o", tmp_path / "p.json"), 1)
    assert "--epsilon 0.2, --alpha 0.3, --delta 0.1 cannot be guaranteed with --split" in message


COLUMNS_AND_LEVELS = ["--task", "site", "--score", "p_true", *LEVELS]


@pytest.mark.parametrize(
    "words",
    [
        ["calibrate", " postgres://u:{}@127.0.0.1:1/db", *COLUMNS_AND_LEVELS, "-o", "p.json"],
        ["calibrate", "md:db?motherduck_token={}", *COLUMNS_AND_LEVELS, "-o", "p.json"],
        ["calibrate", "host=h user=u password={}", *COLUMNS_AND_LEVELS, "-o", "p.json"],
        ["calibrate", "a.csv", *COLUMNS_AND_LEVELS, "-o", "s3://u:{}@b/x.json"],
        ["calibrate", "a.csv", *COLUMNS_AND_LEVELS, "-o", "s3:/u:{}@b/x.json"],
        ["site", "a.csv", "--name", "a", *COLUMNS_AND_LEVELS[2:], "-o", "s3://u:{}@b/x.json"],
        ["combine", "a.json", "-o", "s3://u:{}@b/x.json"],
        ["combine", "s3://u:{}@b/x.json", "-o", "p.json"],
        ["predict", "s3://u:{}@b/p.json", "a.csv"],
        ["evaluate", "s3://u:{}@b/p.json", "a.csv"],
        ["show", "https://h/p.json?sig={}"],
        ["show", "https:/h/p.json?sig={}"],
        ["show", "p.json", "postgres://u:{}@h/db"],
    ],
)
def test_secrets_that_were_typed_are_not_printed(
    words: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "a.csv", ["site", "p_true"], [["a", 0.5]] * 3)
    result = metapac(*(str(word).format("Zq7x7x") for word in words))
    assert re.search(r"/\.\.\.|\*\*\*", check_words(result, 2))
    assert "Zq7x" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_files_of_metapac_must_be_local() -> None:
    message = check_words(metapac("show", "https://h/p.json"), 2)
    assert "Invalid value for 'FILE': https://h/... must be a local file. Try" in message


def test_errors_of_libraries_lose_what_looks_like_a_secret() -> None:
    error = ValueError("cannot open postgres://u:secret@h/db with token=abc, or key=3")
    message = "cannot open postgres://h/... with token=*** or key=3"
    assert run(error).stderr == f"metapac: {message}\n"
