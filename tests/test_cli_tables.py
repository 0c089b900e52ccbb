"""The commands on tables of every kind, as a person runs them."""

from __future__ import annotations

import csv
import json
import multiprocessing
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engines import connection
from pyarrow import parquet
from typer.testing import CliRunner, Result

from metapac import MetaPS, load
from metapac.cli.app import app
from metapac.cli.common import flagged
from metapac.sites import read_site

PROMISE = ["--epsilon", "0.2", "--alpha", "0.3", "--delta", "0.1"]
CLASSES = np.array(["cat", "dog", "owl"])


def metapac(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Thirty sites of eighty examples, whose true class tends to have the highest score."""
    rng = np.random.default_rng(0)
    label = rng.integers(3, size=2400)
    logits = rng.normal(size=(2400, 3))
    logits[np.arange(2400), label] += 2
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    columns = {f"p_{name}": scores[:, j] for j, name in enumerate(CLASSES)}
    true = scores[np.arange(2400), label]
    site = np.repeat([f"site {i:02d}" for i in range(30)], 80)
    lists = {"probs": list(scores)}
    return pd.DataFrame({"site": site, "y": CLASSES[label], "true": true, **columns, **lists})


@pytest.fixture(scope="module")
def table(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "scores.parquet"
    frame.to_parquet(path)
    return path


@pytest.fixture(scope="module")
def promise(table: Path) -> Path:
    path = table.with_name("promise.json")
    result = metapac("calibrate", table, "--task", "site", "--score", "true", *PROMISE, "-o", path)
    assert result.exit_code == 0, result.output
    return path


def expected(frame: pd.DataFrame, **changes: Any) -> MetaPS:
    method = MetaPS(**{"epsilon": 0.2, "alpha": 0.3, "delta": 0.1} | changes)
    return method.calibrate(frame.true.to_numpy(), frame.site.to_numpy())


@pytest.mark.parametrize(
    "how",
    [
        ["--score", "true"],
        ["--label", "y"],
        ["--label", "y", "--classes", "owl,cat,dog"],
        ["--label", "y", "--columns", "probs", "--classes", "cat,dog,owl"],
        ["--score", "true", "--memory-limit", "500MiB", "--threads", "1"],
    ],
    ids=" ".join,
)
def test_calibrate(frame: pd.DataFrame, table: Path, tmp_path: Path, how: list[str]) -> None:
    output = tmp_path / "promise.json"
    result = metapac("calibrate", table, "--task", "site", *how, *PROMISE, "-o", output)
    assert result.exit_code == 0, result.output
    assert load(output).threshold_ == expected(frame).threshold_
    assert "from 30 tasks and 2400 examples, written to" in " ".join(result.output.split())


def test_calibrate_with_spark(frame: pd.DataFrame, table: Path, tmp_path: Path) -> None:
    connection("spark")
    result = metapac(
        "calibrate", table, "--task", "site", "--label", "y", *PROMISE, "--split", "joint",
        "--engine", "spark", "--master", "local[2]", "-o", tmp_path / "promise.json", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["threshold"] == expected(frame).threshold_


def test_globs_and_folders(frame: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for i in range(3):
        frame.iloc[i::3].to_parquet(tmp_path / "parts" / f"{i}.parquet")
    for source in (tmp_path / "parts", tmp_path / "parts" / "*.parquet"):
        result = metapac(
            "calibrate", source, "--task", "site", "--score", "true", *PROMISE, "--json",
            "-o", tmp_path / "promise.json",
        )  # fmt: skip
        assert json.loads(result.stdout)["threshold"] == expected(frame).threshold_


def test_predict_to_parquet(
    frame: pd.DataFrame, table: Path, promise: Path, tmp_path: Path
) -> None:
    result = metapac("predict", promise, table, "-o", tmp_path / "sets.parquet")
    assert result.exit_code == 0, result.output
    assert "2400 sets of the 3 classes cat, dog, owl written to" in result.stdout
    found = parquet.read_table(tmp_path / "sets.parquet")
    kept = load(promise).predict_set(frame[["p_cat", "p_dog", "p_owl"]].to_numpy())
    assert found["set"].to_pylist() == [CLASSES[row].tolist() for row in kept]
    result = metapac("predict", promise, table, "--booleans", "-o", tmp_path / "sets.parquet")
    assert result.exit_code == 0, result.output
    marked = parquet.read_table(tmp_path / "sets.parquet")
    assert marked["in_dog"].to_pylist() == kept[:, 1].tolist()


def test_predict_to_the_screen_as_json_lists(table: Path, promise: Path) -> None:
    result = metapac("predict", promise, table, "--columns", "probs", "--classes", "a,b,c")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert len(rows) == 2400
    assert {label for row in rows for label in json.loads(row["set"])} == {"a", "b", "c"}


def test_evaluate(frame: pd.DataFrame, table: Path, promise: Path, tmp_path: Path) -> None:
    words = ["evaluate", promise, table, "--task", "site", "--label", "y"]
    result = metapac(*words, "-o", tmp_path / "tasks.csv")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "of 30 tasks (2400 examples); guaranteed on at least 70% of new tasks" in text
    assert "Worst tasks" in text
    machine = json.loads(metapac(*words, "--json").stdout)
    kept = load(promise).predict_set(frame[["p_cat", "p_dog", "p_owl"]].to_numpy())
    missed = ~load(promise).predict_set(frame.true.to_numpy())
    assert machine["tasks"] == 30
    assert machine["examples"] == 2400
    assert machine["error"] == pytest.approx(missed.mean())
    assert machine["set_size"] == pytest.approx(kept.sum(axis=1).mean())
    by_site = missed.reshape(30, 80).mean(axis=1)
    assert machine["within"] == np.mean(by_site <= 0.2)
    assert machine["worst"][0]["error"] == by_site.max()
    with (tmp_path / "tasks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["task"]: float(row["error"]) for row in rows} == pytest.approx(
        dict(zip(sorted(set(frame.site)), by_site, strict=True))
    )
    true_only = json.loads(
        metapac("evaluate", promise, table, "--task", "site", "--score", "true", "--json").stdout
    )
    assert true_only["set_size"] is None
    assert true_only["error"] == machine["error"]


def test_sites_send_a_few_numbers_each(frame: pd.DataFrame, tmp_path: Path) -> None:
    files = []
    for name, part in frame.groupby("site"):
        part[["true"]].to_csv(tmp_path / "scores.csv", index=False)
        files.append(tmp_path / f"{name}.json")
        result = metapac(
            "site", tmp_path / "scores.csv", "--name", name, "--score", "true", *PROMISE,
            "-o", files[-1],
        )  # fmt: skip
        assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "13 thresholds between " in text
    assert "from 80 examples of site site 29, written to" in text
    output = tmp_path / "promise.json"
    result = metapac("combine", *files, "-o", output, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["threshold"] == expected(frame).threshold_
    assert load(output).threshold_ == expected(frame).threshold_
    again = metapac("combine", files[0], files[0], "-o", output)
    assert again.exit_code == 2
    assert "are both of site 'site 00', and a site counts only once" in again.stderr
    over = metapac("combine", *files, "-o", files[0])
    assert over.exit_code == 2
    assert "is also the input. Write to another file." in over.stderr
    few = metapac("combine", files[0], "-o", tmp_path / "none.json")
    assert few.exit_code == 1
    assert not (tmp_path / "none.json").exists()


def test_faults_are_one_line_and_exit_with_two(table: Path, promise: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(table.read_bytes()[:-100])
    text = tmp_path / "text.parquet"
    pd.DataFrame({"site": ["a"], "true": ["high"]}).to_parquet(text)
    here = ["--task", "site", "--score", "true", *PROMISE, "-o", tmp_path / "p.json"]
    for words, message in [
        (["calibrate", cut, *here], "cut.parquet cannot be read ("),
        (["calibrate", text, *here], "column 'true' must hold numbers, got string"),
        (
            ["calibrate", table, "--task", "x", *here[2:]],
            "has no column 'x'; it has: site, y, true",
        ),
        (["calibrate", table, *here, "--label", "y"], "pass either --score, the column with"),
        (["calibrate", table, *here, "--master", "local"], "master is for engine='spark'"),
        (["calibrate", table, *here, "--memory-limit", "x"], "memory_limit must be a size such"),
        (["calibrate", table, *here, "--table", "x"], "table='x' is for databases"),
        (
            ["predict", promise, table, "-o", tmp_path / "x.txt"],
            "output must end in .parquet or .csv",
        ),
        (["evaluate", promise, table, "--score", "true", "--label", "y"], "pass either --score"),
        (["predict", promise, table, "--json"], "--json tells of the file written"),
        (["combine", promise, "-o", tmp_path / "p.json"], "promise.json is not a metapac site."),
        (["combine", tmp_path / "none", "-o", tmp_path / "p.json"], "none: No such file"),
    ]:
        result = metapac(*words)
        assert result.exit_code == 2, words
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
        assert not (tmp_path / "p.json").exists()


def test_a_missing_extra_is_named(table: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['ibis'] = None; from metapac.cli import main; main()"
    words = ["calibrate", table, "--task", "site", "--score", "true", *PROMISE, "-o", "p.json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "metapac: tables need ibis. Install it with: pip install 'metapac[tables]'\n"
    )


def test_two_processes_writing_one_promise(table: Path, tmp_path: Path) -> None:
    output = tmp_path / "promise.json"
    spawn = multiprocessing.get_context("spawn")
    both = [spawn.Process(target=calibrate, args=(table, e, output)) for e in ("0.2", "0.3")]
    for process in both:
        process.start()
    for process in both:
        process.join()
        assert process.exitcode == 0
    assert load(output).epsilon in (0.2, 0.3)
    assert list(tmp_path.iterdir()) == [output]


def calibrate(table: Path, epsilon: str, output: Path) -> None:
    words = ["--task", "site", "--score", "true", *PROMISE[2:], "--epsilon", epsilon, "-o", output]
    for _ in range(3):
        assert metapac("calibrate", table, *words).exit_code == 0


def test_progress_is_shown_on_a_terminal(table: Path, tmp_path: Path) -> None:
    code = (
        "from rich.console import Console; from metapac.cli import common, tables; "
        "tables.errors = Console(stderr=True, force_terminal=True, width=100); "
        "from metapac.cli.app import app; app()"
    )
    words = ["calibrate", table, "--task", "site", "--score", "true", *PROMISE, "-o", "p.json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert "counting the scores of each task" in done.stderr
    assert "threshold" in done.stdout


def test_calibrate_says_which_classes_it_used(table: Path, tmp_path: Path) -> None:
    words = ["calibrate", table, "--task", "site", "--label", "y", *PROMISE]
    result = metapac(*words, "-o", tmp_path / "p.json")
    assert result.exit_code == 0, result.output
    assert "classes cat, dog, owl" in result.stdout
    result = metapac(*words, "--classes", "cat, dog , owl", "-o", tmp_path / "p.json", "--json")
    assert json.loads(result.stdout)["columns"]["classes"] == ["cat", "dog", "owl"]


def test_files_may_be_many(frame: pd.DataFrame, tmp_path: Path) -> None:
    parts = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for i, part in enumerate(parts):
        frame.iloc[i::2].to_parquet(part)
    output = tmp_path / "p.json"
    result = metapac(
        "calibrate", *parts, "--task", "site", "--score", "true", *PROMISE, "-o", output
    )
    assert result.exit_code == 0, result.output
    assert load(output).threshold_ == expected(frame).threshold_
    predicted = metapac("predict", output, *parts, "-o", tmp_path / "sets.csv")
    assert f"{len(frame)} sets of" in predicted.stdout


def test_evaluate_spares_the_promise_and_knows_its_tasks(
    table: Path, promise: Path, tmp_path: Path
) -> None:
    before = promise.read_bytes()
    over = metapac("evaluate", promise, table, "-o", promise)
    assert (over.exit_code, promise.read_bytes()) == (2, before)
    copy = tmp_path / "promise.csv"
    copy.write_bytes(before)
    over = metapac("evaluate", copy, table, "-o", copy)
    assert over.exit_code == 2
    assert "is also the input" in over.stderr
    other = metapac("evaluate", promise, table, "-o", tmp_path / "tasks.parquet")
    assert "--output must end in .csv" in other.stderr
    result = metapac("evaluate", promise, table, "-o", tmp_path / "tasks.csv")
    assert "30 of these tasks carry the name of a task that it was calibrated on" in " ".join(
        result.stdout.split()
    )
    assert "Set sizes need a score for each class: pass --label." in result.stdout
    assert "30 tasks written to" in result.stdout
    told = json.loads(metapac("evaluate", promise, table, "--json").stdout)
    assert (told["tasks"], told["calibrated_on"]) == (30, 30)


def test_a_site_with_too_few_examples_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("true\n0.5\n")
    words = ["site", tmp_path / "a.csv", "--score", "true", *PROMISE, "-o", tmp_path / "a.json"]
    result = metapac(*words, "--name", " a ")
    assert result.exit_code == 0, result.output
    assert "1 examples are too few for a threshold: it takes 4." in " ".join(result.stdout.split())
    left_out = metapac(*words, "--name", "a", "--min-examples", 9)
    assert "1 examples are fewer than --min-examples 9: the site is left out." in left_out.stdout
    assert read_site(tmp_path / "a.json").name == "a"
    blank = metapac(*words, "--name", " ")
    assert "name must be the name of the site, which no other has" in blank.stderr


def test_combine_takes_folders_and_globs(frame: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    for name, part in frame.groupby("site"):
        part[["true"]].to_csv(tmp_path / "scores.csv", index=False)
        metapac(
            "site", tmp_path / "scores.csv", "--name", name, "--score", "true", *PROMISE,
            "-o", tmp_path / "sites" / f"{name}.json",
        )  # fmt: skip
    for given in (tmp_path / "sites", tmp_path / "sites" / "*.json"):
        result = metapac("combine", given, "-o", tmp_path / "p.json", "--json")
        assert json.loads(result.stdout)["threshold"] == expected(frame).threshold_
    (tmp_path / "none").mkdir()
    empty = metapac("combine", tmp_path / "none", "-o", tmp_path / "p.json")
    assert "holds no .json. Pass files written by metapac site." in empty.stderr


def test_a_promise_may_go_down_a_pipe(table: Path) -> None:
    words = [sys.executable, "-m", "metapac", "calibrate", str(table), "--task", "site"]
    words += ["--score", "true", *PROMISE, "-o", "/dev/stdout"]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    assert done.stdout.startswith('{\n"format": "metapac promise"')


def test_a_database_is_not_read_by_spark(tmp_path: Path) -> None:
    there = sqlite3.connect(tmp_path / "a.sqlite")
    there.execute("CREATE TABLE t (site TEXT, true REAL)")
    there.close()
    connection("spark")  # or skip
    words = ["calibrate", tmp_path / "a.sqlite", "--task", "site", "--score", "true", *PROMISE]
    result = metapac(*words, "-o", tmp_path / "p.json", "--engine", "spark")
    assert result.exit_code == 2
    assert "is read by sqlite, not Spark. Leave --engine out." in result.stderr


def test_names_of_tasks_are_no_markup(promise: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("site,true\n[/b]x,0.5\n[red]y,0.5\n")
    result = metapac("evaluate", promise, path)
    assert result.exit_code == 0, result.output
    assert "[/b]x" in result.stdout
    assert "[red]y" in result.stdout


def test_outputs_are_not_put_among_the_inputs(
    frame: pd.DataFrame, promise: Path, tmp_path: Path
) -> None:
    frame.to_parquet(tmp_path / "a.parquet")
    words = ["calibrate", tmp_path, "--task", "site", "--score", "true", *PROMISE]
    result = metapac(*words, "-o", tmp_path / "p.json")
    assert result.exit_code == 2
    assert "would be found among the input" in result.stderr
    result = metapac("evaluate", promise, tmp_path, "-o", tmp_path / "tasks.csv")
    assert "would be found among the input" in result.stderr


def test_remedies_are_flags(table: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text("site,true\na,0.5\n")
    here = [*PROMISE, "-o", tmp_path / "p.json"]
    result = metapac("calibrate", few, "--task", "site", "--score", "true", *here)
    assert result.exit_code == 1
    assert "or pass --on-infeasible trivial to keep every label" in result.stderr
    result = metapac("calibrate", table, "--task", "site", *here)
    assert "pass either --score, the column" in result.stderr
    assert ", or --label, the column" in result.stderr


PER_CLASS = ["--alpha", "0.4", "--delta", "0.4", "--per-class", "--label", "y"]


def by_class(frame: pd.DataFrame, **changes: Any) -> MetaPS:
    options = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.4, "per_class": True} | changes
    method = MetaPS(**options)
    return method.calibrate(frame.true.to_numpy(), frame.site.to_numpy(), frame.y.to_numpy())


@pytest.mark.parametrize(
    "how",
    [[], ["--score", "true"], ["--columns", "probs", "--classes", "cat,dog,owl"]],
    ids=" ".join,
)
def test_a_guarantee_for_each_class(
    frame: pd.DataFrame, table: Path, tmp_path: Path, how: list[str]
) -> None:
    words = ["calibrate", table, "--task", "site", *PER_CLASS, *how, "-o", tmp_path / "p.json"]
    rates = ["--epsilon", "cat=0.4", "--epsilon", "owl=0.3", "--epsilon", "dog=0.2"]
    result = metapac(*words, *rates)
    assert result.exit_code == 0, result.output
    found = by_class(frame, epsilon={"cat": 0.4, "owl": 0.3, "dog": 0.2})
    text = result.stdout
    assert "one threshold for each of 3 classes from 30 tasks and 2400 examples" in text
    rows = [line.split() for line in text.replace("│", " ").splitlines()]
    for label, rate, cut in zip(CLASSES, ("0.4", "0.2", "0.3"), found.thresholds_, strict=True):
        count = str((frame.y == label).sum())
        assert [label, rate, repr(float(cut)), "30", count] in rows
    again = load(tmp_path / "p.json")
    assert again.thresholds_.tolist() == found.thresholds_.tolist()
    machine = json.loads(metapac(*words, *rates, "--json").stdout)
    assert [row["threshold"] for row in machine["thresholds"]] == found.thresholds_.tolist()
    assert [row["class"] for row in machine["thresholds"]] == CLASSES.tolist()
    assert [row["left_out"] for row in machine["thresholds"]] == [0, 0, 0]
    assert machine["remarks"] == []
    one = json.loads(metapac(*words, "--epsilon", "0.3", "--json").stdout)
    assert [row["threshold"] for row in one["thresholds"]] == by_class(frame).thresholds_.tolist()


def test_sets_and_verdicts_for_each_class(frame: pd.DataFrame, table: Path, tmp_path: Path) -> None:
    promise = tmp_path / "p.json"
    least = ["--min-examples", 25]
    words = ["calibrate", table, "--task", "site", *PER_CLASS, *least, "-o", promise]
    result = metapac(*words, "--epsilon", 0.3)
    assert result.exit_code == 0, result.output
    assert "left out" in result.stdout
    method = load(promise)
    assert method.thresholds_.tolist() == by_class(frame, min_examples=25).thresholds_.tolist()
    assert " ".join(result.stdout.split()).count("at least 25 examples of that class") == 2
    kept = method.predict_set(frame[["p_cat", "p_dog", "p_owl"]].to_numpy())
    assert metapac("predict", promise, table, "-o", tmp_path / "s.parquet").exit_code == 0
    sets = parquet.read_table(tmp_path / "s.parquet")["set"].to_pylist()
    assert sets == [CLASSES[row].tolist() for row in kept]
    result = metapac("evaluate", promise, table, "-o", tmp_path / "tasks.csv")
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert (
        "30 tasks (2400 examples); guaranteed on at least 60% of new tasks for each class" in text
    )
    machine = json.loads(metapac("evaluate", promise, table, "--json").stdout)
    with (tmp_path / "tasks.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    for i, (label, row) in enumerate(zip(CLASSES, machine["by_class"], strict=True)):
        own = (frame.y == label).to_numpy()
        counts = frame[own].groupby("site").size()
        judged = counts.index[counts >= 25]
        errors = pd.Series(~kept[own, i]).groupby(frame.site[own].to_numpy()).mean()[judged]
        assert row["class"] == label
        assert (row["tasks"], row["left_out"]) == (len(judged), 30 - len(judged))
        assert row["within"] == np.mean(errors <= 0.3)
        assert row["error"] == pytest.approx(errors.mean())
        shown = f"class {label}: error at most 30% on {row['within']:.2%} of {len(judged)} tasks ("
        assert shown in text
        assert f"{row['examples']} examples, {row['left_out']} left out)" in text
        mine = {line["task"]: float(line["error"]) for line in written if line["class"] == label}
        assert mine == pytest.approx(errors.to_dict())
    assert machine["within"] == min(row["within"] for row in machine["by_class"])
    worst = machine["worst"][0]
    assert worst["error"] == max(float(line["error"]) for line in written)


@pytest.mark.parametrize("split", ["joint", "tight"])
def test_sites_with_a_guarantee_for_each_class(
    frame: pd.DataFrame, tmp_path: Path, split: str
) -> None:
    files = []
    words = [*PER_CLASS, "--epsilon", 0.3, "--split", split]
    for name, part in frame.groupby("site"):
        part[["y", "p_cat", "p_dog", "p_owl"]].to_csv(tmp_path / "scores.csv", index=False)
        files.append(tmp_path / f"{name}.json")
        result = metapac("site", tmp_path / "scores.csv", "--name", name, *words, "-o", files[-1])
        assert result.exit_code == 0, result.output
    numbers = "13 numbers" if split == "joint" else "1 numbers"
    assert f"{numbers} for each of 3 classes from 80 examples of site site 29" in result.stdout
    site = metapac(
        "site", tmp_path / "scores.csv", "--name", "x", *words, "-o", tmp_path / "x.json", "--json"
    )
    sent = json.loads(site.stdout)
    assert [row["class"] for row in sent["classes"]] == CLASSES.tolist()
    assert sum(row["examples"] for row in sent["classes"]) == 80
    combined = metapac("combine", *files, "-o", tmp_path / "p.json", "--json")
    assert combined.exit_code == 0, combined.output
    expected = by_class(frame, split=split).thresholds_.tolist()
    found = json.loads(combined.stdout)["thresholds"]
    assert [row["threshold"] for row in found] == expected


def test_in_expectation_and_large_tasks_only(
    frame: pd.DataFrame, table: Path, tmp_path: Path
) -> None:
    few = frame.drop(frame.index[:30])  # leaves 50 of the first site
    few.to_parquet(tmp_path / "few.parquet")
    words = ["--task", "site", "--score", "true", "--epsilon", 0.2, "--alpha", 0.3]
    words += ["--delta", "None", "--min-examples", 60, "-o", tmp_path / "p.json"]
    result = metapac("calibrate", tmp_path / "few.parquet", *words)
    assert result.exit_code == 0, result.output
    changes: dict[str, Any] = {"delta": None, "min_examples": 60}
    assert load(tmp_path / "p.json").threshold_ == expected(few, **changes).threshold_
    text = " ".join(result.stdout.split())
    assert "1 tasks with fewer than 60 examples were left out" in text
    assert "On average over the draw of the 29 calibration tasks" in text
    judged = metapac("evaluate", tmp_path / "p.json", tmp_path / "few.parquet")
    assert "1 task with fewer than 60 examples left out" in judged.stdout
    machine = json.loads(
        metapac("evaluate", tmp_path / "p.json", tmp_path / "few.parquet", "--json").stdout
    )
    assert (machine["tasks"], machine["left_out"]) == (29, 1)


def test_a_guarantee_that_says_little_is_one_line_on_stderr(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    true = np.where(rng.random(3000) < 0.4, 0, rng.random(3000))
    pd.DataFrame({"site": np.repeat(np.arange(60), 50), "true": true}).to_parquet(
        tmp_path / "a.parquet"
    )
    words = ["calibrate", tmp_path / "a.parquet", "--task", "site", "--score", "true", *PROMISE]
    result = metapac(*words, "-o", tmp_path / "p.json")
    assert result.exit_code == 0
    assert result.stderr.startswith("metapac: warning: The threshold is 0.0, so, if")
    assert result.stderr.count("\n") == 1
    assert "if scores are probabilities" not in result.stdout
    machine = metapac(*words, "-o", tmp_path / "p.json", "--json")
    assert json.loads(machine.stdout)["remarks"] == load(tmp_path / "p.json").remarks_
    assert "UserWarning" not in machine.stderr
    pd.DataFrame({"true": true[:50]}).to_parquet(tmp_path / "b.parquet")
    site = ["site", tmp_path / "b.parquet", "--score", "true", *PROMISE, "-o", tmp_path / "b.json"]
    assert metapac(*site, "--name", "b").stderr == ""
    trivial = metapac(
        "combine", tmp_path / "b.json", "--on-infeasible", "trivial", "-o", tmp_path / "p.json"
    )
    assert (
        trivial.stderr
        == "metapac: warning: Every label is kept, so the guarantee holds trivially.\n"
    )


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
        (["--epsilon", "cat=2"], "epsilon['cat'] must be a number strictly between 0 and 1, got 2"),
        (["--epsilon", "cat=0.1"], "epsilon has no value for class 'dog'; it has 'cat'. Give"),
        (
            [w for c in ("cat", "dog", "owl", "fox") for w in ("--epsilon", f"{c}=0.1")],
            "epsilon names class 'fox', which is none of the classes 'cat', 'dog', 'owl'.",
        ),
        (["--epsilon", "0.1", "--delta", "never"], "--delta must be a number, got 'never'."),
    ],
)  # fmt: skip
def test_bad_rates_are_told(table: Path, tmp_path: Path, words: list[str], message: str) -> None:
    first = ["calibrate", table, "--task", "site", *PER_CLASS, "-o", tmp_path / "p.json"]
    result = metapac(*first, *words)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_ways_out_are_flags(frame: pd.DataFrame, table: Path, tmp_path: Path) -> None:
    out = ["-o", tmp_path / "p.json"]
    words = ["calibrate", table, "--task", "site", "--score", "true", *out, "--epsilon"]
    few = metapac(*words, 0.1, "--alpha", 0.1, "--delta", 0.01)
    assert few.exit_code == 1
    assert "Options: use --delta none, a weaker guarantee that holds on average" in few.stderr
    other = metapac(*words, 0.2, "--alpha", 0.3, "--delta", 0.1, "--split", "1e-9")
    assert other.exit_code == 1
    assert "Options: use --split joint, which gives the same guarantee" in other.stderr
    small = frame[(frame.groupby("site").cumcount() < 2) | (frame.site > "site 06")]
    small.to_parquet(tmp_path / "small.parquet")
    words[1] = tmp_path / "small.parquet"
    large = metapac(*words, 0.2, "--alpha", 0.2, "--delta", 0.1)
    assert large.exit_code == 1
    assert "use --min-examples 3, which keeps 23 of the 30 tasks" in large.stderr
    mapping = metapac(*words, "cat=0.1", "--alpha", 0.2, "--delta", 0.1)
    assert mapping.exit_code == 2
    assert "Pass --per-class to give each class its own." in mapping.stderr
    unlabelled = metapac(*words, 0.1, "--alpha", 0.2, "--delta", 0.1, "--per-class")
    assert "--label must name the column with the true label" in unlabelled.stderr
    assert "Pass --label, with or without --score." in unlabelled.stderr
    site = ["site", table, "--name", "a", "--score", "true", "--epsilon", 0.2, *PER_CLASS, *out]
    assert "--classes must name all classes where --score is given" in metapac(*site).stderr


@pytest.mark.parametrize("number", ["0.2", "0.123"])
def test_a_split_that_is_a_number_is_a_flag_too(number: str) -> None:
    assert flagged(f"Options: use split={number}, which gives the same guarantee; or x.") == (
        f"Options: use --split {number}, which gives the same guarantee; or x."
    )
