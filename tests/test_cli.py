"""The commands as a person runs them: what they print, write, refuse, and their exit codes."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from metapac import MetaPS, __version__, load, plan, shortage
from metapac.cli.app import app
from metapac.cli.common import flagged
from metapac.demands import Demand
from metapac.demo.setting import GUARANTEE
from metapac.evaluation import Rows, summarise
from metapac.guarantee import Guarantee

PROMISE = ["--epsilon", "0.1", "--alpha", "0.1", "--delta", "1e-5"]


def metapac(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def write_csv(path: Path, header: list[str], rows: list[list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    values = np.random.default_rng(0).random((130, 30))
    rows = [[f"site, {i}", i, repr(v)] for i, row in enumerate(values.tolist()) for v in row]
    return write_csv(tmp_path / "scores.csv", ["site", "note", "p_true"], rows)


@pytest.fixture
def promise(scores: Path, tmp_path: Path) -> Path:
    path = tmp_path / "promise.json"
    result = calibrate(scores, "-o", path)
    assert result.exit_code == 0, result.output
    return path


def calibrate(path: Path, *more: object, task: str = "site", score: str = "p_true") -> Result:
    return metapac("calibrate", path, "--task", task, "--score", score, *PROMISE, *more)


def test_calibrate_writes_what_the_library_computes(scores: Path, promise: Path) -> None:
    values = np.random.default_rng(0).random((130, 30))
    names = [f"site, {i}" for i in range(130)]
    expected = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(
        values.ravel(), np.repeat(names, 30)
    )
    found = load(promise)
    assert found.threshold_ == expected.threshold_
    assert found.tasks_.tolist() == sorted(names)


def test_calibrate_says_what_it_promises(scores: Path, tmp_path: Path) -> None:
    result = calibrate(scores, "-o", tmp_path / "p.json")
    text = " ".join(result.output.split())
    assert "from 130 tasks and 3900 examples, written to" in text
    assert "With confidence 99.999% over the draw of the 130 calibration tasks" in text
    assert result.stderr == ""
    machine = json.loads(calibrate(scores, "-o", tmp_path / "p.json", "--json").output)
    assert machine["tasks"] == 130
    assert machine["threshold"] == load(tmp_path / "p.json").threshold_


@pytest.mark.parametrize("split", ["joint", "tight", "even", "0.3"])
def test_calibrate_knows_every_split(scores: Path, tmp_path: Path, split: str) -> None:
    result = metapac(
        "calibrate", scores, "--task", "site", "--score", "p_true", "--epsilon", 0.3,
        "--alpha", 0.3, "--delta", 0.1, "--split", split, "-o", tmp_path / "p.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert str(load(tmp_path / "p.json").split) == split


def test_predict_adds_sets(promise: Path, tmp_path: Path) -> None:
    cut = load(promise).threshold_
    rows = [["x,1", cut, 0.0, 1.0], ["y\n2", 0.0, 0.0, np.nextafter(cut, 0)]]
    table = write_csv(tmp_path / "new.csv", ["id", "p_cat", "p_great owl", "p_\N{DOG}"], rows)
    result = metapac("predict", promise, table, "-o", tmp_path / "sets.csv")
    assert result.exit_code == 0, result.output
    with (tmp_path / "sets.csv").open(newline="", encoding="utf-8") as file:
        header, *found = list(csv.reader(file))
    assert header == ["id", "p_cat", "p_great owl", "p_\N{DOG}", "set", "set_size"]
    assert [row[0] for row in found] == ["x,1", "y\n2"]
    assert json.loads(found[0][4]) == ["cat", "\N{DOG}"]
    assert [row[5] for row in found] == ["2", "0"]
    assert "2 sets of the 3 classes cat, great owl, \N{DOG} written to" in result.stdout
    printed = metapac("predict", promise, table)
    assert printed.stdout == (tmp_path / "sets.csv").read_text(encoding="utf-8")


def test_a_byte_order_mark_is_not_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("\ufeffsite,p_true\na,0.1\n", encoding="utf-8")
    assert calibrate(path, "-o", tmp_path / "p.json").exit_code == 1  # read, and too few


def test_predict_keeps_the_order_of_many_rows(promise: Path, tmp_path: Path) -> None:
    rows = [[i, 1.0] for i in range(300_000)]
    table = write_csv(tmp_path / "new.csv", ["id", "p_a"], rows)
    result = metapac("predict", promise, table, "-o", tmp_path / "sets.csv")
    assert "300000 sets of the 1 classes a" in result.stdout
    with (tmp_path / "sets.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [str(i) for i in range(300_000)]


def test_predict_with_other_column_names(promise: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "new.csv", ["cat score", "dog score", "p_x"], [[1, 0, "text"]])
    result = metapac("predict", promise, table, "--columns", "* score")
    assert '1,0,text,"[""cat""]",1' in result.stdout


def test_plan_prints_every_split() -> None:
    result = metapac("plan", *PROMISE)
    assert result.exit_code == 0
    rows = [line.split() for line in result.output.replace("│", " ").splitlines()]
    assert ["joint,", "fewest", "tasks", "111", "44", "4884"] in rows
    assert ["joint,", "smallest", "tasks", "244", "7", "1708"] in rows
    assert ["tight", "116", "29", "3364"] in rows
    assert ["even", "225", "29", "6525"] in rows
    machine = json.loads(
        metapac("plan", *PROMISE, "--tasks", 40, "--examples", 50, "--json").stdout
    )
    assert machine["tight"]["tasks"] == 116
    assert machine["tight"]["best_alpha"] == pytest.approx(0.29304, abs=1e-4)
    assert machine["tight"]["best_epsilon"] is None
    assert machine["joint"]["needs"][0] == [111, 44]


SIZES = ["29,300,4000", ",".join(["90"] * 48), "5,6"]


def test_plan_shows_what_each_split_makes_of_own_tasks() -> None:
    sizes = [word for text in SIZES for word in ("--sizes", text)]
    asked = ["--epsilon", 0.1, "--alpha", 0.1, "--delta"]
    result = metapac("plan", *asked, 0.2, *sizes)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "Rank of each split on 53 tasks of 5 to 4000 examples" in text
    assert "Recommended: --split" in text
    machine = json.loads(metapac("plan", *asked, 0.2, *sizes, "--json").stdout)
    own = [29, 300, 4000, *[90] * 48, 5, 6]
    found = plan(epsilon=0.1, alpha=0.1, delta=0.2, sizes=own)
    for option in found.options:
        if option.delta is not None:
            assert machine[option.split]["ranks"] == list(option.ranks)
            small = sum(size < option.examples_per_task for size in own)
            assert machine[option.split]["too_small"] == small
    assert machine["recommended"] == "joint"
    assert machine["ways_out"] is None
    few = metapac("plan", *asked, "1e-5", *sizes)
    assert few.exit_code == 0
    text = " ".join(few.output.split())
    demand = Demand.of_sizes(Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5), own)
    assert flagged(shortage.of_tasks([demand], trivial=False)) in text
    assert "on-infeasible" not in text  # which plan does not have
    assert "Options: use --delta none, a weaker guarantee" in text
    assert "Recommended" not in text
    none = metapac("plan", *asked, "none", *sizes)
    assert "Recommended: --split joint, the default." in none.output


def test_plan_counts_the_tasks_of_a_table(scores: Path) -> None:
    words = ["plan", scores, "--task", "site", *PROMISE]
    machine = json.loads(metapac(*words, "--sizes", "7,8", "--json").stdout)
    same = ["--sizes", ",".join(["30"] * 130 + ["7", "8"])]
    assert machine == json.loads(metapac("plan", *PROMISE, *same, "--json").stdout)
    assert "on 130 tasks of 30 examples" in metapac(*words).output
    empty = scores.with_name("empty.csv")
    empty.write_text("site,p\na,1\n,2\n")
    result = metapac("plan", empty, "--task", "site")
    assert result.exit_code == 2
    assert "line 3: column 'site' is empty; an example must belong to a task" in result.stderr


def test_plan_shows_what_own_tasks_can_carry() -> None:
    words = ["plan", "--tasks", 60, "--examples", 40]
    machine = json.loads(metapac(*words, "--json").stdout)
    assert [tuple(row.values()) for row in machine] == plan(sizes=[40] * 60)
    result = metapac(*words)
    rows = [line.split() for line in result.output.replace("│", " ").splitlines()]
    assert ["alpha", "┃", "delta", "0.05", "┃", "delta", "none", "┃"] in [row[1:] for row in rows]
    by_alpha = {row[0]: row[1:] for row in rows if len(row) == 3}
    for alpha, delta, epsilon in plan(sizes=[40] * 60):
        shown = by_alpha[f"{alpha:g}"][0 if delta else 1]
        assert shown == "-" if epsilon is None else float(shown) >= epsilon
    one = metapac("plan", "--sizes", "3", "--classes", 2)
    assert ["0.05", "-", "-"] in [
        line.replace("│", " ").split() for line in one.output.splitlines()
    ]
    each = json.loads(metapac(*words, "--classes", 2, "--json").stdout)
    assert [tuple(row.values()) for row in each] == plan(sizes=[40] * 60, classes=2)
    assert each != machine


def test_plan_for_each_class() -> None:
    result = metapac("plan", *PROMISE, "--classes", 2)
    assert "For each of 2 classes: examples are those of one class" in " ".join(
        result.output.split()
    )
    machine = json.loads(metapac("plan", *PROMISE, "--classes", 2, "--json").stdout)
    assert (
        machine["tight"]["tasks"] == plan(epsilon=0.1, alpha=0.1, delta=5e-6, split="tight").tasks
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "pass --epsilon and --alpha and --delta, to see what a guarantee needs"),
        (["--epsilon", 0.1], "pass --alpha and --delta too"),
        (["--sizes", "3,x"], "--sizes must be whole numbers separated by commas, such as 743,3875"),
        (["--sizes", "-3"], "--sizes must be whole numbers separated by commas"),
        (["--task", "site"], "a table and --task go together"),
        (["scores.csv"], "a table and --task go together"),
        (["--sizes", "3", "--tasks", 2, "--examples", 2], "--tasks and --examples are for tasks"),
        (["--sizes", "3", "--plot", "x.png"], "pass --epsilon and --alpha and --delta, to"),
        ([*PROMISE[:4], "--delta", "x"], "--delta must be a number, got 'x'."),
        ([*PROMISE[:4], "--delta", "2"], "delta must be a number strictly between 0 and 1"),
    ],
)
def test_what_cannot_be_planned_is_said(words: list[Any], message: str) -> None:
    result = metapac("plan", *words)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_plan_draws(tmp_path: Path) -> None:
    for delta in ("1e-5", "none"):
        words = [*PROMISE[:4], "--delta", delta, "--plot", tmp_path / "plan.png"]
        result = metapac("plan", *words)
        assert result.exit_code == 0, result.output
        assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
        (tmp_path / "plan.png").unlink()


def test_demo_shows_who_keeps_the_promise(tmp_path: Path) -> None:
    result = metapac("demo", "--data", "synthetic", "--draws", 3, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "labels of the new task itself and needs 110: it keeps every label" in " ".join(
        result.output.split()
    )
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "out" / "demo.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 4 * 50
    sizes = {m: np.mean([float(r["size"]) for r in rows if r["method"] == m]) for m in METHODS}
    assert sizes["PS-Test"] == 5
    assert sizes["Meta-PS joint"] < sizes["Meta-PS even"]
    again = metapac("demo", "--data", "synthetic", "--draws", 3, "-o", tmp_path / "again")
    assert again.exit_code == 0
    assert (tmp_path / "again/demo.csv").read_text() == (tmp_path / "out/demo.csv").read_text()


def test_the_demo_table_is_what_it_says() -> None:
    errors = {"PS": [0.0, 0.05, 0.2, 0.2], "PS-Test": [0.0] * 4}
    one_draw = np.concatenate([errors.get(method, [0.1] * 4) for method in METHODS])
    rows = Rows(
        draw=np.repeat([0, 1], 16),
        method=np.tile(np.repeat(METHODS, 4), 2),
        delta=np.full(32, GUARANTEE.delta),
        task=np.tile(np.arange(4), 8),
        threshold=np.full(32, 0.5),
        feasible=np.ones(32, dtype=bool),
        error=np.tile(one_draw, 2),
        size=np.full(32, 2.0),
    )
    table = {each.method: each for each in summarise(rows, GUARANTEE)}
    assert table["PS"].size == 2
    assert table["PS"].tasks_within == 0.5
    assert table["PS"].error_90 == pytest.approx(0.2)
    assert [table[method].kept for method in METHODS] == [False, True, True, True]


METHODS = ("PS", "PS-Test", "Meta-PS even", "Meta-PS joint")


def test_too_few_tasks_exit_with_one(scores: Path, tmp_path: Path) -> None:
    few = write_csv(tmp_path / "few.csv", ["site", "p_true"], [["a", 0.1]])
    result = calibrate(few, "-o", tmp_path / "p.json")
    assert result.exit_code == 1
    assert "metapac: epsilon=0.1, alpha=0.1, delta=1e-05 cannot be guaranteed" in result.stderr
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; it needs a header line with the column names"),
        ("site,other\na,1\n", "has no column 'p_true'; it has: site, other."),
        ("site,p_true\na,high\n", "line 2: column 'p_true' holds 'high', which is not a number"),
        ("site,p_true\na,0.1\nb,\n", "line 3: column 'p_true' holds '', which is not a number"),
        ("site,p_true\na,0.1,3\n", "line 2: 3 fields where the header has 2. Quote fields"),
        ("site,p_true\n,0.1\n", "line 2: column 'site' is empty; an example must belong to a task"),
        ("site,p_true\na,nan\n", "line 2: column 'p_true' holds 'nan', which is not a number"),
        ("site,p_true\na,1_0\n", "line 2: column 'p_true' holds '1_0', which is not a number"),
        ("site;p_true\na;1\n", "it has: site;p_true. Columns must be separated by commas,"),
        ("site,p_true\n", "scores.csv holds no rows. Pass at least one labelled example"),
        ("site,site,p_true\na,b,1\n", "has two columns named 'site'. Rename one."),
    ],
)
def test_bad_tables_exit_with_two(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    result = calibrate(path, "-o", tmp_path / "p.json")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "p.json").exists()


def test_other_bad_input_exits_with_two(promise: Path, scores: Path, tmp_path: Path) -> None:
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"site,p_true\n\xff\xfe,1\n")
    marked = write_csv(tmp_path / "marked.csv", ["p_a", "set"], [[1, 2]])
    good = write_csv(tmp_path / "good.csv", ["p_a"], [[1]])
    for result, message in [
        (calibrate(tmp_path / "none.csv", "-o", tmp_path / "p.json"), "No such file"),
        (calibrate(scores, "-o", tmp_path / "none" / "p.json"), "none: folder does not exist"),
        (calibrate(scores, "-o", scores), "scores.csv is also the input. Write to another file."),
        (metapac("predict", promise, good, "-o", good), "good.csv is also the input"),
        (calibrate(scores, "--on-infeasible", "x", "-o", tmp_path / "p.json"), "on_infeasible mu"),
        (calibrate(binary, "-o", tmp_path / "p.json"), "is not UTF-8 text"),
        (calibrate(scores, "--split", "odd", "-o", tmp_path / "p.json"), "split must be 'joint'"),
        (metapac("predict", scores, promise), "scores.csv is not a metapac promise"),
        (metapac("predict", promise, marked), "has a column 'set' already. Rename or drop it."),
        (
            metapac("predict", promise, good, "--columns", "q_*"),
            "no column like 'q_*'; it has: p_a",
        ),
        (metapac("predict", promise, good, "--columns", "p_a"), "columns must hold one star, such"),
        (metapac("plan", *PROMISE, "--tasks", 5), "--tasks and --examples go together"),
        (metapac("plan", "--epsilon", 2, "--alpha", 0.1, "--delta", 0.1), "epsilon must be a nu"),
        (metapac("plan", *PROMISE, "--tasks", 0, "--examples", 5), "tasks must hold whole numbers"),
    ]:
        assert result.exit_code == 2, message
        assert message in result.stderr


def test_a_failed_prediction_leaves_no_file(promise: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "new.csv", ["p_a"], [[0.1], ["nan"]])
    result = metapac("predict", promise, table, "-o", tmp_path / "sets.csv")
    assert result.exit_code == 2
    assert not (tmp_path / "sets.csv").exists()


def test_a_reader_that_has_seen_enough_is_no_error(promise: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "new.csv", ["p_a"], [[0.1]] * 50_000)
    command = f"{sys.executable} -m metapac predict {promise} {table} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == "p_a,set,set_size\n"
    assert done.stderr == ""


def test_trivial_sets_can_be_asked_for(tmp_path: Path) -> None:
    few = write_csv(tmp_path / "few.csv", ["site", "p_true"], [["a", 0.1]])
    result = calibrate(few, "--on-infeasible", "trivial", "-o", tmp_path / "p.json", "--json")
    assert json.loads(result.stdout)["threshold"] == "-inf"


def test_the_version_is_shown() -> None:
    assert metapac("--version").stdout.strip() == __version__


def test_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "metapac", "--help"], capture_output=True, text=True, check=True
    )
    for command in ("plan", "calibrate", "predict", "evaluate", "site", "combine", "demo"):
        assert command in done.stdout


def test_a_missing_extra_is_named() -> None:
    code = "import sys; sys.modules['typer'] = None; from metapac.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "The command line needs typer. Install it with: pip install 'metapac[cli]'\n"
    )
    code = "import sys; sys.modules['matplotlib'] = None; from metapac.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", *PROMISE, "--plot", "never.png"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pictures need matplotlib. Install it with: pip install 'metapac[plot]'" in done.stderr
