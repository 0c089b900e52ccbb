"""Odd words and odd tables: a command ends well, or with one line that says why.

Commands run in this process, so that an exception that no handler expects fails the test.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from metapac import MetaPS, load
from metapac._text import visible
from metapac.data_checks import CHECKS
from tests.helpers.commands import as_new, list_commands, metapac, write_csv

LEVELS: dict[str, Any] = {"epsilon": 0.4, "alpha": 0.5, "delta": 0.4}
# Nothing is shrunk, so that the time is bounded.
FUZZ = settings(max_examples=25, deadline=None, derandomize=True, phases=[Phase.generate])

Words = dict[str, str | None]
GUARANTEE: Words = {f"--{name}": str(value) for name, value in LEVELS.items()}
OUTPUT: Words = {"--output": "out.json"}
COMMANDS: dict[str, tuple[list[str], Words]] = {
    "plan": (["good.csv"], {"--task": "site", **GUARANTEE}),
    "calibrate": (["good.csv"], {"--task": "site", "--score": "true", **GUARANTEE, **OUTPUT}),
    "predict": (["promise.json", "good.csv"], {}),
    "evaluate": (["promise.json", "other.csv"], {"--task": "site", "--label": "y"}),
    "site": (["good.csv"], {"--name": "ohio", "--score": "true", **GUARANTEE, **OUTPUT}),
    "combine": (["a.json", "b.json"], {"--on-infeasible": "trivial", **OUTPUT}),
    "show": (["promise.json"], {}),
    "explore": (["good.csv"], {"--task": "site", "--label": "y", **OUTPUT}),
}
PARAMS = {words[0]: each.params for words, each in list_commands() if words[0] in COMMANDS}
NAMED = {
    name: {max(param.opts, key=len): getattr(param, "is_flag", False) for param in params
           if param.opts[0].startswith("-")}
    for name, params in PARAMS.items()
}  # fmt: skip
FLAGS = sorted({name for named in NAMED.values() for name, is_flag in named.items() if is_flag})
ODD = [
    "", " ", "-", "--", "0", "1", "-1", "0.5", "1.5", "nan", "inf", "none", "5e-324", "1e-300",
    "1e400", "9" * 30, "2,3", ",", "0.1,0.2", "a=0.5", "=", "a b", "\N{SNOWMAN}", "\x1b[2J",
    "a\nb", "\udcff", "'", '"', "%", "*", "?", "[", "p_*", "*_*", "~", "..", "site", "y", "n",
    "p_a", "true", "probs", "a,b", "b,a", "a,b,c", "joint", "tight", "even", "0.3", "trivial",
    "utf-16", "latin-1", ";", "\\t", "1GiB", "person/people", "m", *CHECKS,
]  # fmt: skip
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)
FILES = [
    "good.csv", "good.parquet", "good.jsonl", "promise.json", "classes.json", "a.json", "b.json",
    "pilot.json", "out.json", "out.csv", "out.parquet", "empty.csv", "empty.json", "header.csv",
    "binary.parquet", "folder", "missing.csv", "missing/a.csv", "*.csv", "*.none", "it's.csv",
    "postgres://u:secret@127.0.0.1:1/x", "sqlite://none.db", "a://b", "s3://b/x.csv",
]  # fmt: skip


def sample() -> pd.DataFrame:
    """Return 12 sites of 12 examples, with class scores."""
    rng = np.random.default_rng(0)
    p = rng.random(144).round(6)
    y = np.where(rng.random(144) < p, "a", "b")
    true = np.where(y == "a", p, 1 - p)
    site = np.repeat([f"site {i:02d}" for i in range(12)], 12)
    columns = {"site": site, "n": range(144), "y": y, "true": true, "p_a": p, "p_b": 1 - p}
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the files that commands read, which are in the working directory."""
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        frame = sample()
        frame.to_csv("good.csv", index=False)
        frame.to_csv("it's.csv", index=False)
        as_new(frame).to_csv("other.csv", index=False)
        frame.to_json("good.jsonl", orient="records", lines=True)
        frame.assign(probs=list(frame[["p_a", "p_b"]].to_numpy())).to_parquet("good.parquet")
        by_class = {"--label": "y", "--per-class": None, "--output": "classes.json"}
        run("calibrate", *COMMANDS["calibrate"], {"--output": "promise.json"})
        run("calibrate", ["good.csv"], {"--task": "site", **GUARANTEE}, by_class)
        for name in "ab":
            run("site", *COMMANDS["site"], {"--name": name, "--output": f"{name}.json"})
        run("explore", *COMMANDS["explore"], {"--output": "pilot.json"})
        Path("empty.csv").touch()
        Path("empty.json").touch()
        Path("header.csv").write_text("site,y,true,p_a,p_b\n")
        Path("binary.parquet").write_bytes(bytes(range(256)))
        Path("folder").mkdir()
        yield Path(shutil.copytree(folder, tmp_path_factory.mktemp("good") / "files"))


def run(command: str, arguments: list[str], *options: Words) -> Any:
    """Run a command; whatever happens, its end is one that the documentation describes."""
    typed: Words = {}
    for each in options:
        typed |= each
    words = [word for pair in typed.items() for word in pair if word is not None]
    result = metapac(command, *arguments, *words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    errors = result.stderr.splitlines()
    messages = [line for line in errors if not line.startswith(("warning: ", "hint: "))]
    assert result.exit_code in (0, 1, 2, 3), result.stderr
    assert len(messages) == (result.exit_code in (1, 2)), result.stderr
    assert all(line.startswith("error: ") for line in messages)
    assert all(line == visible(line) for line in errors), result.stderr
    return result


def restore(files: Path) -> None:
    """Undo what a command has written."""
    for path in Path().iterdir():
        if path.is_file():
            path.unlink()
    shutil.copytree(files, ".", dirs_exist_ok=True)


def test_plain_words_work_and_bugs_are_noticed(files: Path, monkeypatch: Any) -> None:
    # So that what follows changes commands that would succeed.
    for command in COMMANDS:
        restore(files)
        assert run(command, *COMMANDS[command]).exit_code == 0
    monkeypatch.setattr("metapac.predictors.FORMAT", None)
    with pytest.raises(AttributeError):
        run("show", ["promise.json"])


@given(draw=st.data())
@settings(FUZZ, max_examples=120)
def test_odd_words(files: Path, draw: st.DataObject) -> None:
    command = draw.draw(st.sampled_from(list(COMMANDS)))
    arguments, typed = [*COMMANDS[command][0]], dict(COMMANDS[command][1])
    for _ in range(draw.draw(st.integers(1, 3))):
        value = draw.draw(st.sampled_from(ODD) | st.sampled_from(FILES) | TEXT)
        match draw.draw(st.sampled_from(["argument", "change", "add", "add", "remove"])):
            case "argument":
                arguments[draw.draw(st.integers(0, len(arguments) - 1))] = value
            case "change" | "add" as action:
                names = [*typed] if action == "change" else [*NAMED[command], *FLAGS]
                option = draw.draw(st.sampled_from(names or FLAGS))
                typed[option] = None if option in FLAGS else value
            case _:
                typed.pop(draw.draw(st.sampled_from([*typed, ""])), None)
    restore(files)
    run(command, arguments, typed)


NAMES = st.sampled_from([
    "a", "A", "b", "1", "01", "1.0", "1e0", "TRUE", "null", "nan", "-", "a,b", 'a"b', "a\nb", "a b",
    "\u00e9", "e\u0301", "\N{SNOWMAN}", "\x1b[2J", "=1+1", "'", "2024-01-01",
]) | TEXT.filter(str.strip)  # fmt: skip
NUMBERS = st.floats(0, 1) | st.integers(0, 9).map(lambda tenths: tenths / 10)
TASKS = st.dictionaries(NAMES, st.lists(NUMBERS, min_size=1, max_size=12), min_size=1, max_size=5)
ODD_CELLS = ["", " ", "x", "nan", "inf", "-inf", "1e400", "0,5", "1_0", "0x1", "TRUE", "null"]
LENIENT: Words = {"--on-infeasible": "trivial", "--allow": ",".join(CHECKS)}


def assert_same(written: MetaPS, scores: Any, tasks: Any) -> None:
    """Compare a promise with what arrays give."""
    method = MetaPS(**LEVELS, on_infeasible="trivial")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the command has printed them
        expected = method.calibrate(scores, tasks, allow=CHECKS)
    assert written.threshold_ == expected.threshold_
    assert sorted(written.task_sizes_.tolist()) == sorted(expected.task_sizes_.tolist())


@given(tasks=TASKS, odd=st.none() | st.sampled_from(ODD_CELLS), draw=st.data())
@FUZZ
def test_text_gives_the_threshold_of_its_numbers(
    files: Path, tasks: Any, odd: str | None, draw: Any
) -> None:
    rows = [[task, repr(score)] for task, scores in tasks.items() for score in scores]
    if odd is not None:
        draw.draw(st.sampled_from(rows))[draw.draw(st.integers(0, 1))] = odd
    restore(files)
    write_csv(Path("odd.csv"), ["site", "true"], rows)
    result = run("calibrate", ["odd.csv"], COMMANDS["calibrate"][1], LENIENT)
    assert result.exit_code == 0 or odd is not None, result.stderr
    if result.exit_code == 0:
        names, scores = zip(*rows, strict=True)
        assert_same(load("out.json"), [float(score) for score in scores], [*names])
        assert {*load("out.json").tasks_} == {*names}
