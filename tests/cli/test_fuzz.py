"""Odd words, odd tables and damaged files: a command ends well, or with one line that says why.

Commands run in this process, so that an exception that no handler expects fails the test.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from metapac import MetaPS, load
from metapac._text import visible
from metapac.data_checks import CHECKS
from tests.helpers.commands import as_new, metapac
from tests.helpers.forging import damage, mutate, sign

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
CLASSES = ["--label", "--columns", "--classes"]
READING = ["--table", "--separator", "--decimal", "--encoding", "--memory-limit", "--threads"]
CONTEXT = ["--model", "--trained-on", "--pilot", "--unit", "--example"]
MORE = {
    "plan": [*READING, "--per-class", "--number-of-classes", "--sizes", "--tasks", "--examples"],
    "calibrate": [*READING, *CLASSES, *CONTEXT, "--per-class", "--split", "--min-examples",
                  "--on-infeasible", "--id", "--allow"],
    "predict": [*READING, *CLASSES[1:], "--booleans", "--model", "--allow", "--output"],
    "evaluate": [*READING, *CLASSES, "--score", "--min-examples", "--false-alarm", "--check",
                 "--id", "--model", "--allow", "--output"],
    "site": [*READING, *CLASSES, "--per-class", "--split", "--min-examples", "--id", "--allow"],
    "combine": CONTEXT,
    "show": [],
    "explore": [*READING, *CLASSES, *GUARANTEE, "--tasks"],
}  # fmt: skip
FLAGS = ["--json", "--per-class", "--booleans", "--check", "--views", "--help"]
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
    return pd.DataFrame(
        {"site": site, "n": range(144), "y": y, "true": true, "p_a": p, "p_b": 1 - p}
    )


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
    messages = [line for line in errors if not line.startswith("metapac: warning: ")]
    assert result.exit_code in (0, 1, 2, 3), result.stderr
    assert len(messages) == (result.exit_code in (1, 2)), result.stderr
    assert all(line.startswith("metapac: ") for line in messages)
    assert all(line == visible(line) for line in errors), result.stderr
    return result


def restore(files: Path) -> None:
    """Undo what a command has written."""
    for path in Path().iterdir():
        if path.is_file():
            path.unlink()
    shutil.copytree(files, ".", dirs_exist_ok=True)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_plain_words_work(files: Path, command: str) -> None:
    # So that what follows changes commands that would succeed.
    restore(files)
    assert run(command, *COMMANDS[command]).exit_code == 0


def test_a_bug_would_be_noticed(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
                names = [*typed] if action == "change" else [*MORE[command], *FLAGS]
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


def write_rows(path: str, header: list[str], rows: list[list[Any]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


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
    files: Path, tasks: dict[str, list[float]], odd: str | None, draw: st.DataObject
) -> None:
    rows = [[task, repr(score)] for task, scores in tasks.items() for score in scores]
    if odd is not None:
        draw.draw(st.sampled_from(rows))[draw.draw(st.integers(0, 1))] = odd
    restore(files)
    write_rows("odd.csv", ["site", "true"], rows)
    result = run("calibrate", ["odd.csv"], COMMANDS["calibrate"][1], LENIENT)
    assert result.exit_code == 0 or odd is not None, result.stderr
    if result.exit_code == 0:
        names, scores = zip(*rows, strict=True)
        assert_same(load("out.json"), [float(score) for score in scores], [*names])
        assert {*load("out.json").tasks_} == {*names}


TASK_TYPES = [
    pa.large_string(), pa.int8(), pa.int64(), pa.uint64(), pa.bool_(), pa.float64(),
    pa.date32(), pa.timestamp("us"), pa.binary(), pa.dictionary(pa.int8(), pa.string()),
    pa.decimal128(9, 2), pa.list_(pa.float64()), pa.null(),
]  # fmt: skip
SCORE_TYPES = [
    pa.float16(), pa.float32(), pa.int8(), pa.int64(), pa.uint64(), pa.bool_(),
    pa.decimal128(9, 2), pa.string(), pa.date32(), pa.list_(pa.float64()), pa.null(),
]  # fmt: skip
TYPES = [(kind, pa.float64()) for kind in TASK_TYPES] + [
    (pa.string(), kind) for kind in SCORE_TYPES
]
PAIRS = st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0, 2.0]))


def as_type(kind: pa.DataType, numbers: list[float]) -> pa.Array:
    """Return numbers as values of any type."""
    if pa.types.is_null(kind):
        return pa.nulls(len(numbers))
    if pa.types.is_list(kind):
        return pa.array([[number] for number in numbers], kind)
    if pa.types.is_temporal(kind):
        days = pa.array([int(4 * number) for number in numbers], pa.int32())
        return days.cast(pa.date32()).cast(kind)
    if pa.types.is_floating(kind):
        return pa.array(np.array(numbers, kind.to_pandas_dtype()), kind)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        return pa.array(numbers, pa.float64()).cast(kind, safe=False)
    return pa.array([str(number) for number in numbers], pa.string()).cast(kind)


@given(types=st.sampled_from(TYPES), drawn=st.lists(PAIRS, max_size=40))
@settings(FUZZ, max_examples=40)
def test_typed_columns_give_the_threshold_of_their_arrays(
    files: Path,
    types: tuple[pa.DataType, pa.DataType],
    drawn: list[tuple[int, float]],
) -> None:
    restore(files)
    tasks = as_type(types[0], [float(task) for task, _ in drawn])
    scores = as_type(types[1], [score for _, score in drawn])
    pq.write_table(pa.table({"site": tasks, "true": scores}), "odd.parquet")
    result = run("calibrate", ["odd.parquet"], COMMANDS["calibrate"][1], LENIENT)
    if result.exit_code == 0:
        ids = [int(task) if isinstance(task, float) else task for task in tasks.to_pylist()]
        if pa.types.is_decimal(types[1]):
            scores = scores.cast(pa.float64())
        assert_same(load("out.json"), scores.to_numpy(zero_copy_only=False), ids)


@given(
    cells=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=6),
    odd=st.none() | st.sampled_from(ODD_CELLS),
    draw=st.data(),
)
@FUZZ
def test_sets_are_those_of_the_numbers(
    files: Path, cells: list[tuple[float, float]], odd: str | None, draw: st.DataObject
) -> None:
    rows = [[repr(number) for number in pair] for pair in cells]
    if odd is not None and rows:
        draw.draw(st.sampled_from(rows))[draw.draw(st.integers(0, 1))] = odd
    restore(files)
    write_rows("odd.csv", ["p_a", "p_b"], rows)
    result = run("predict", ["promise.json", "odd.csv"], {"--allow": ",".join(CHECKS)})
    assert result.exit_code == 0 or odd is not None or not rows, result.stderr
    if result.exit_code == 0:
        cut = load("promise.json").threshold_
        sets = [json.loads(row["set"]) for row in csv.DictReader(io.StringIO(result.stdout))]
        assert sets == [
            [name for name, cell in zip("ab", row, strict=True) if float(cell) >= cut]
            for row in rows
        ]


READERS: dict[str, list[tuple[str, list[str], Words]]] = {
    "promise.json": [
        ("show", ["odd.json"], {}),
        ("predict", ["odd.json", "good.csv"], {}),
        ("evaluate", ["odd.json", "other.csv"], {"--task": "site", "--label": "y"}),
    ],
    "b.json": [
        ("show", ["odd.json"], {}),
        ("combine", ["a.json", "odd.json"], {"--on-infeasible": "trivial", **OUTPUT}),
    ],
    "pilot.json": [
        ("show", ["odd.json"], {}),
        ("calibrate", ["other.csv"], {**COMMANDS["calibrate"][1], "--pilot": "odd.json"}),
    ],
}


@given(draw=st.data())
@FUZZ
def test_a_damaged_file_gives_the_same_or_a_line(files: Path, draw: st.DataObject) -> None:
    name = draw.draw(st.sampled_from([*READERS]))
    command, arguments, options = draw.draw(st.sampled_from(READERS[name]))
    restore(files)
    Path("odd.json").write_bytes((files / name).read_bytes())
    good = run(command, arguments, options)
    assert good.exit_code == 0
    if draw.draw(st.booleans()):
        Path("odd.json").write_bytes(damage((files / name).read_bytes(), draw))
        result = run(command, arguments, options)
        assert result.exit_code == 2 or result.stdout == good.stdout
    else:
        Path("odd.json").write_text(sign(mutate(json.loads((files / name).read_bytes()), draw)))
        result = run(command, arguments, options)
    assert "odd.json" in result.stderr or result.exit_code < 2
