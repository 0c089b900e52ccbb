"""``metapac calibrate``: results, output and errors."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import MetaPS, load
from tests.helpers.commands import (
    CLASSES,
    LEVELS,
    PER_CLASS,
    as_new,
    calibrate_csv,
    calibrate_frame,
    calibrate_frame_by_class,
    metapac,
    write_csv,
)
from tests.helpers.engines import connection
from tests.test_clusters import made as clustered


def test_calibrate_writes_what_the_library_computes(csv_promise: Path) -> None:
    values = np.random.default_rng(0).random((130, 30))
    names = [f"site, {i}" for i in range(130)]
    expected = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(
        values.ravel(), np.repeat(names, 30)
    )
    written = load(csv_promise)
    assert written.threshold_ == expected.threshold_
    assert written.tasks_.tolist() == sorted(names)


def test_calibrate_prints_the_guarantee(csv_scores: Path, tmp_path: Path) -> None:
    result = calibrate_csv(csv_scores, "-o", tmp_path / "p.json")
    text = " ".join(result.output.split())
    assert "from 130 tasks and 3900 examples, written to" in text
    assert "With confidence 99.999% over the draw of the 130 calibration tasks" in text
    assert result.stderr == ""
    machine = json.loads(calibrate_csv(csv_scores, "-o", tmp_path / "p.json", "--json").output)
    assert machine["tasks"] == 130
    assert machine["threshold"] == load(tmp_path / "p.json").threshold_


@pytest.mark.parametrize("split", ["joint", "tight", "even", "0.3"])
def test_every_split(csv_scores: Path, tmp_path: Path, split: str) -> None:
    result = metapac(
        "calibrate", csv_scores, "--task", "site", "--score", "p_true", "--epsilon", 0.3,
        "--alpha", 0.3, "--delta", 0.1, "--split", split, "-o", tmp_path / "p.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert str(load(tmp_path / "p.json").split) == split


def test_a_byte_order_mark_is_not_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("\ufeffsite,p_true\na,0.1\n", encoding="utf-8")
    assert (
        calibrate_csv(path, "-o", tmp_path / "p.json").exit_code == 1
    )  # it was read, but has too few tasks


def test_too_few_tasks_exit_with_one(tmp_path: Path) -> None:
    few = write_csv(tmp_path / "few.csv", ["site", "p_true"], [["a", 0.1]])
    result = calibrate_csv(few, "-o", tmp_path / "p.json")
    assert result.exit_code == 1
    assert (
        "metapac: --epsilon 0.1, --alpha 0.1, --delta 1e-05 cannot be guaranteed" in result.stderr
    )
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
        ("site;p_true\na;1\n", "has only the column 'site;p_true', which looks like several"),
        ("site,p_true\n", "scores.csv holds no rows. Pass at least one labelled example"),
        ("site,site,p_true\na,b,1\n", "has columns 'site' and 'site'"),
    ],
)
def test_bad_tables_exit_with_two(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    result = calibrate_csv(path, "-o", tmp_path / "p.json")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "p.json").exists()


def test_trivial_sets_on_request(tmp_path: Path) -> None:
    few = write_csv(tmp_path / "few.csv", ["site", "p_true"], [["a", 0.1]])
    result = calibrate_csv(few, "--on-infeasible", "trivial", "-o", tmp_path / "p.json", "--json")
    assert json.loads(result.stdout)["threshold"] == "-inf"


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
def test_columns_of_scores(
    frame: pd.DataFrame, table: Path, tmp_path: Path, how: list[str]
) -> None:
    output = tmp_path / "promise.json"
    result = metapac("calibrate", table, "--task", "site", *how, *LEVELS, "-o", output)
    assert result.exit_code == 0, result.output
    assert load(output).threshold_ == calibrate_frame(frame).threshold_
    assert "from 30 tasks and 2400 examples, written to" in " ".join(result.output.split())


def test_calibrate_with_spark(frame: pd.DataFrame, table: Path, tmp_path: Path) -> None:
    connection("spark")
    result = metapac(
        "calibrate", table, "--task", "site", "--label", "y", *LEVELS, "--split", "joint",
        "--engine", "spark", "--master", "local[2]", "-o", tmp_path / "promise.json", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["threshold"] == calibrate_frame(frame).threshold_


def test_globs_and_folders(frame: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for i in range(3):
        frame.iloc[i::3].to_parquet(tmp_path / "parts" / f"{i}.parquet")
    for source in (tmp_path / "parts", tmp_path / "parts" / "*.parquet"):
        result = metapac(
            "calibrate", source, "--task", "site", "--score", "true", *LEVELS, "--json",
            "-o", tmp_path / "promise.json",
        )  # fmt: skip
        assert json.loads(result.stdout)["threshold"] == calibrate_frame(frame).threshold_


def test_several_files(frame: pd.DataFrame, tmp_path: Path) -> None:
    parts = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for i, part in enumerate(parts):
        frame.iloc[i::2].to_parquet(part)
    output = tmp_path / "p.json"
    result = metapac(
        "calibrate", *parts, "--task", "site", "--score", "true", *LEVELS, "-o", output
    )
    assert result.exit_code == 0, result.output
    assert load(output).threshold_ == calibrate_frame(frame).threshold_
    predicted = metapac("predict", output, *parts, "-o", tmp_path / "sets.csv")
    assert f"{len(frame)} sets of" in predicted.stdout


def test_two_processes_can_write_one_promise(table: Path, tmp_path: Path) -> None:
    output = tmp_path / "promise.json"
    spawn = multiprocessing.get_context("spawn")
    both = [
        spawn.Process(target=calibrate_three_times, args=(table, e, output)) for e in ("0.2", "0.3")
    ]
    for process in both:
        process.start()
    for process in both:
        process.join()
        assert process.exitcode == 0
    assert load(output).epsilon in (0.2, 0.3)
    assert list(tmp_path.iterdir()) == [output]


def calibrate_three_times(table: Path, epsilon: str, output: Path) -> None:
    words = ["--task", "site", "--score", "true", *LEVELS[2:], "--epsilon", epsilon, "-o", output]
    for _ in range(3):
        assert metapac("calibrate", table, *words).exit_code == 0


def test_calibrate_prints_the_classes(table: Path, tmp_path: Path) -> None:
    words = ["calibrate", table, "--task", "site", "--label", "y", *LEVELS]
    result = metapac(*words, "-o", tmp_path / "p.json")
    assert result.exit_code == 0, result.output
    assert "classes cat, dog, owl" in result.stdout
    result = metapac(*words, "--classes", "cat, dog , owl", "-o", tmp_path / "p.json", "--json")
    assert json.loads(result.stdout)["columns"]["classes"] == ["cat", "dog", "owl"]


def test_a_promise_can_be_written_to_a_pipe(table: Path) -> None:
    words = [sys.executable, "-m", "metapac", "calibrate", str(table), "--task", "site"]
    words += ["--score", "true", *LEVELS, "-o", "/dev/stdout"]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    assert done.stdout.startswith('{\n"format": "metapac promise"')


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
    computed = calibrate_frame_by_class(frame, epsilon={"cat": 0.4, "owl": 0.3, "dog": 0.2})
    text = result.stdout
    assert "one threshold for each of 3 classes from 30 tasks and 2400 examples" in text
    rows = [line.split() for line in text.replace("│", " ").splitlines()]
    for label, rate, cut in zip(CLASSES, ("0.4", "0.2", "0.3"), computed.thresholds_, strict=True):
        count = str((frame.y == label).sum())
        assert [label, rate, repr(float(cut)), "30", count] in rows
    again = load(tmp_path / "p.json")
    assert again.thresholds_.tolist() == computed.thresholds_.tolist()
    machine = json.loads(metapac(*words, *rates, "--json").stdout)
    assert [row["threshold"] for row in machine["thresholds"]] == computed.thresholds_.tolist()
    assert [row["class"] for row in machine["thresholds"]] == CLASSES.tolist()
    assert [row["left_out"] for row in machine["thresholds"]] == [0, 0, 0]
    assert machine["remarks"] == []
    one = json.loads(metapac(*words, "--epsilon", "0.3", "--json").stdout)
    assert [row["threshold"] for row in one["thresholds"]] == calibrate_frame_by_class(
        frame
    ).thresholds_.tolist()


def test_in_expectation_and_large_tasks_only(
    frame: pd.DataFrame, table: Path, tmp_path: Path
) -> None:
    few = frame.drop(frame.index[:30])  # 50 examples of the first site remain
    few.to_parquet(tmp_path / "few.parquet")
    words = ["--task", "site", "--score", "true", "--epsilon", 0.2, "--alpha", 0.3]
    words += ["--delta", "None", "--min-examples", 60, "-o", tmp_path / "p.json"]
    result = metapac("calibrate", tmp_path / "few.parquet", *words)
    assert result.exit_code == 0, result.output
    changes: dict[str, Any] = {"delta": None, "min_examples": 60}
    assert load(tmp_path / "p.json").threshold_ == calibrate_frame(few, **changes).threshold_
    text = " ".join(result.stdout.split())
    assert "1 task with fewer than 60 examples left out" in text
    assert "On average over the draw of the 29 calibration tasks" in text
    as_new(few).to_parquet(tmp_path / "new.parquet")
    words = ["evaluate", tmp_path / "p.json", tmp_path / "new.parquet"]
    printed = metapac(*words).stdout
    assert "Judged: tasks with at least 60 examples." in printed
    assert "29 tasks (2,320 examples, 1 left out)" in printed
    machine = json.loads(metapac(*words, "--json").stdout)
    assert (machine["tasks"], machine["left_out"]) == (29, 1)


def test_remarks_are_one_line_warnings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    true = np.where(rng.random(3000) < 0.4, 0, rng.random(3000))
    pd.DataFrame({"site": np.repeat(np.arange(60), 50), "true": true}).to_parquet(
        tmp_path / "a.parquet"
    )
    words = ["calibrate", tmp_path / "a.parquet", "--task", "site", "--score", "true", *LEVELS]
    result = metapac(*words, "-o", tmp_path / "p.json")
    assert result.exit_code == 0
    assert result.stderr.startswith("metapac: warning: The threshold is 0.0, so, if")
    assert result.stderr.count("\n") == 1
    assert "if scores are probabilities" not in result.stdout
    machine = metapac(*words, "-o", tmp_path / "p.json", "--json")
    assert json.loads(machine.stdout)["remarks"] == load(tmp_path / "p.json").remarks_
    assert "UserWarning" not in machine.stderr
    pd.DataFrame({"true": true[:50]}).to_parquet(tmp_path / "b.parquet")
    site = ["site", tmp_path / "b.parquet", "--score", "true", *LEVELS, "-o", tmp_path / "b.json"]
    assert metapac(*site, "--name", "b").stderr == ""
    trivial = metapac(
        "combine", tmp_path / "b.json", "--on-infeasible", "trivial", "-o", tmp_path / "p.json"
    )
    assert (
        trivial.stderr
        == "metapac: warning: Every label is kept, so the guarantee holds trivially.\n"
    )


def test_a_class_rarer_than_epsilon_is_pointed_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sick = rng.random(2000) < 0.05
    p = rng.beta(2 + 3 * sick, 5)
    frame = pd.DataFrame({"site": np.arange(2000) % 40, "y": np.where(sick, "yes", "no")})
    frame.assign(p_no=1 - p, p_yes=p).to_csv(tmp_path / "scores.csv", index=False)
    words = ["calibrate", tmp_path / "scores.csv", "--task", "site", "--label", "y"]
    words += ["--epsilon", 0.1, "--alpha", 0.2, "--delta", 0.1, "-o", tmp_path / "p.json"]
    result = metapac(*words, "--trained-on", "x", "--model", "risk 1.0")
    assert f"'yes' is {sick.mean():.1%} of the examples, less than epsilon" in result.stderr
    assert "Use --per-class. To silence this, pass --allow rare-class." in result.stderr
    assert metapac(*words, "--allow", "rare-class").stderr == ""
    each = metapac(*words, "--per-class", "--on-infeasible", "trivial")
    assert "less than --epsilon" not in each.stderr


def test_one_task_of_each_cluster_counts(tmp_path: Path) -> None:
    frame = clustered()
    frame.to_parquet(tmp_path / "scores.parquet")
    levels = ("--epsilon", 0.2, "--alpha", 0.2, "--delta", 0.1)
    named = ("--task", "task", "--score", "score", "--cluster", "alphabet", "--cluster-rng", 5)
    promise = tmp_path / "p.json"
    result = metapac("calibrate", tmp_path / "scores.parquet", *named, *levels, "-o", promise)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "from 40 tasks and 800 examples, one task from each of 40 clusters with 200" in text
    assert "For at least 80% of new tasks of new alphabets of the same kind" in text
    arrays = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1)
    arrays.calibrate(frame.score, frame.task, clusters=frame.alphabet, rng=5)
    assert load(promise).threshold_ == arrays.threshold_
    new = clustered(rng=1).replace({"alphabet": r"^a", "task": r"^t"}, "n", regex=True)
    new.to_parquet(tmp_path / "new.parquet")
    judged = metapac("evaluate", promise, tmp_path / "new.parquet")
    assert "40 tasks (800 examples)" in judged.output
    every = metapac("evaluate", promise, tmp_path / "new.parquet", "--cluster", "task")
    assert "200 tasks (4,000 examples)" in every.output
    wrong = metapac("calibrate", tmp_path / "scores.parquet", *named, *levels, "-o", promise,
                    "--cluster", "alfabet")  # fmt: skip
    assert wrong.exit_code == 2
    assert "no column 'alfabet'" in wrong.output
