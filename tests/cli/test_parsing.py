"""Values of options, read from text, and what is said of those that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from metapac.cli.options import parse_delta, parse_epsilon, parse_names, parse_split
from tests.helpers.commands import PER_CLASS, metapac


def test_parsed_text() -> None:
    assert parse_epsilon(["0.1"]) == 0.1
    assert parse_epsilon(["a=b=0.1", "c=1e-3"]) == {"a=b": 0.1, "c": 1e-3}
    assert [parse_delta(text) for text in ("0.05", "none", " None ")] == [0.05, None, None]
    assert [parse_split(text) for text in ("joint", "0.2")] == ["joint", 0.2]
    assert parse_names("cat, dog ,owl") == ["cat", "dog", "owl"]
    assert parse_names(None) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epsilon", "0.1", "--epsilon", "0.2"], "--epsilon must be one number, got 0.1 and"),
        (
            ["--epsilon", "cat=0.1", "--epsilon", "0.2"],
            "--epsilon must be either one number or CLASS=NUMBER for each class, got '0.2' among",
        ),
        (["--epsilon", "=0.1"], "CLASS=NUMBER for each class, got '=0.1'"),
        (
            ["--epsilon", "cat=0.1", "--epsilon", "cat=0.2"],
            "--epsilon gives class 'cat' twice. Give each class once.",
        ),
        (["--epsilon", "cat=x"], "--epsilon must be a number, got 'x' in 'cat=x'."),
        (["--epsilon", "x"], "--epsilon must be a number, got 'x'."),
        (["--epsilon", "5%"], "--epsilon must be a number, got '5%'. Write 0.05."),
        (["--epsilon", "0,10"], "--epsilon must be a number, got '0,10'. Write 0.1."),
        (["--epsilon", "cat=2"], "must be a number strictly between 0 and 1, got 2"),
        (["--epsilon", "cat=0.1"], "--epsilon has no value for class 'dog', only for 'cat'"),
        (
            [w for c in ("cat", "dog", "owl", "fox") for w in ("--epsilon", f"{c}=0.1")],
            "'fox'",
        ),
        (["--epsilon", "0.1", "--delta", "never"], "--delta must be a number, got 'never'."),
    ],
)  # fmt: skip
def test_bad_values(table: Path, tmp_path: Path, words: list[str], message: str) -> None:
    first = ["calibrate", table, "--task", "site", *PER_CLASS, "-o", tmp_path / "p.json"]
    result = metapac(*first, *words)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
