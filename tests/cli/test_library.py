"""Commands give what the library gives, and share their files with other processes."""

from __future__ import annotations

import csv
import errno
import json
import multiprocessing
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from metapac import MetaPS, Monitor, load
from metapac.federated import summarise_liars
from tests.helpers import kills
from tests.helpers.commands import CLASSES, LEVELS, as_new, calibrate_frame, metapac, write_csv
from tests.helpers.engines import connection

SCORES = [f"p_{name}" for name in CLASSES]
BY_LABEL = ["--task", "site", "--label", "y"]


@pytest.fixture
def new(frame: pd.DataFrame, tmp_path: Path) -> Path:
    """Other sites, whose examples have nearly the same scores."""
    as_new(frame).to_parquet(tmp_path / "new.parquet")
    return tmp_path / "new.parquet"


def run_json(*words: object, code: int = 0) -> Any:
    result = metapac(*words, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], {}),
        (["--split", "tight"], {"split": "tight"}),
        (["--split", "0.3"], {"split": 0.3}),
        (["--delta", "none", "--min-examples", 60], {"delta": None, "min_examples": 60}),
        (["--per-class"], {"per_class": True}),
        (
            ["--per-class", "--epsilon", "cat=.4", "--epsilon", "dog=.3", "--epsilon", "owl=.2"],
            {"per_class": True, "epsilon": {"cat": 0.4, "dog": 0.3, "owl": 0.2}},
        ),
    ],
    ids=str,
)
def test_a_promise_is_that_of_the_library(
    words: list[Any], options: dict[str, Any], frame: pd.DataFrame, table: Path, tmp_path: Path
) -> None:
    levels = [] if "--epsilon" in words else ["--epsilon", 0.3]
    levels += ["--alpha", 0.4, *([] if "--delta" in words else ["--delta", 0.4])]
    output = tmp_path / "promise.json"
    result = metapac("calibrate", table, *BY_LABEL, *levels, *words, "-o", output)
    assert result.exit_code == 0, result.output
    expected = MetaPS(**{"epsilon": 0.3, "alpha": 0.4, "delta": 0.4} | options)
    labels = [frame.y] if "per_class" in options else []
    expected.calibrate(frame.true, frame.site, *labels)
    found = load(output)
    assert isinstance(found, MetaPS)
    assert found.guarantee_ == expected.guarantee_
    for name in ("threshold_", "thresholds_", "classes_", "tasks_", "task_sizes_"):
        if hasattr(expected, name):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_spark_gives_the_same_promise(frame: pd.DataFrame, table: Path, tmp_path: Path) -> None:
    connection("spark")  # skips the test without Spark
    words = [*BY_LABEL, *LEVELS, "--engine", "spark", "--master", "local[2]"]
    found = run_json("calibrate", table, *words, "-o", tmp_path / "promise.json")
    assert found["threshold"] == calibrate_frame(frame).threshold_
    pd.DataFrame().to_csv(tmp_path / "a.sqlite")  # a database is not read by Spark
    result = metapac("plan", tmp_path / "a.sqlite", "--task", "site", "--engine", "spark")
    assert (result.exit_code, "error: " in result.stderr) == (2, True)


def test_sets_and_misses_are_those_of_the_library(
    frame: pd.DataFrame, new: Path, promise: Path, tmp_path: Path
) -> None:
    predictor = load(promise)
    in_set = predictor.predict_set(frame[SCORES].to_numpy())
    sets = tmp_path / "sets.parquet"
    summary = run_json("predict", promise, new, "-o", sets)["summary"]
    written = parquet.read_table(sets)
    assert written["set"].to_pylist() == [CLASSES[row].tolist() for row in in_set]
    assert [row["sets"] for row in summary["by_class"]] == in_set.sum(axis=0).tolist()
    assert metapac("predict", promise, new, "--booleans", "-o", sets).exit_code == 0
    marked = parquet.read_table(sets, columns=[f"in_{name}" for name in CLASSES]).to_pandas()
    np.testing.assert_array_equal(marked.to_numpy(), in_set)

    missed = ~predictor.predict_set(frame.true.to_numpy())
    judged = run_json("evaluate", promise, new, *BY_LABEL, "-o", tmp_path / "tasks.csv")
    assert (judged["tasks"], judged["examples"]) == (30, 2400)
    assert judged["missed"] == missed.sum()
    assert judged["set_size"] == pytest.approx(in_set.sum(axis=1).mean())
    for row, name in zip(judged["classes"], CLASSES, strict=True):
        assert row["missed"] == missed[(frame.y == name).to_numpy()].sum()
    with (tmp_path / "tasks.csv").open(newline="") as file:
        errors = {row["task"]: float(row["error"]) for row in csv.DictReader(file)}
    assert errors == dict(zip("new " + frame.site.unique(), by_site(missed), strict=True))


def by_site(missed: Any) -> Any:
    return missed.reshape(30, 80).mean(axis=1)


def test_sites_give_the_threshold_of_all_scores(frame: pd.DataFrame, tmp_path: Path) -> None:
    for name, part in frame.groupby("site"):
        part[["true"]].to_csv(tmp_path / "scores.csv", index=False)
        words = ["--name", name, "--score", "true", *LEVELS, "-o", tmp_path / f"{name}.json"]
        assert metapac("site", tmp_path / "scores.csv", *words).exit_code == 0
    (tmp_path / "scores.csv").unlink()
    combined = run_json("combine", tmp_path, "-o", tmp_path.with_suffix(".json"))
    expected = calibrate_frame(frame)
    assert combined["threshold"] == expected.threshold_
    assert combined["dishonest"] == summarise_liars(expected)


def test_rows_keep_their_order_and_a_failure_leaves_no_file(
    csv_promise: Path, tmp_path: Path
) -> None:
    table, sets = tmp_path / "new.csv", tmp_path / "sets.csv"
    write_csv(table, ["id", "p_a", "p_b"], [[i, 1.0, i % 2] for i in range(300_000)])
    assert run_json("predict", csv_promise, table, "-o", sets)["sets"] == 300_000
    with sets.open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [str(i) for i in range(300_000)]
    sets.unlink()
    write_csv(table, ["p_a"], [[0.1], ["nan"]])
    assert metapac("predict", csv_promise, table, "-o", sets).exit_code == 2
    assert not sets.exists()


def test_data_go_through_pipes(csv_promise: Path, table: Path, tmp_path: Path) -> None:
    new = write_csv(tmp_path / "new.csv", ["p_a", "p_b"], [[0.1, 0.9]] * 50_000)
    command = f"{sys.executable} -m metapac predict {csv_promise} {new} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("p_a,p_b,set,set_size\n", "")
    words = [sys.executable, "-m", "metapac", "calibrate", str(table), "--task", "site"]
    words += ["--score", "true", *LEVELS, "-o", "/dev/stdout"]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    assert done.stdout.startswith('{\n"format": "metapac promise"')


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


def test_a_monitor_is_that_of_the_library_and_its_alarm_survives(
    promise: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, figure = tmp_path / "monitor.json", tmp_path / "figure.png"
    good = pd.read_parquet(new)
    facts = run_json("monitor", promise, new, "--state", state)
    monitor = Monitor(load(promise))
    monitor.add(good.true, good.site, batch="new")
    assert facts["sentence"] == monitor.sentence()
    assert facts["added"] == [step._asdict() for step in monitor.course]
    assert state.read_bytes() == save(monitor, tmp_path).read_bytes()

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "figure.png")

    monkeypatch.setattr(Monitor, "plot", fail)
    failed = metapac("monitor", promise, "--state", state, "--plot", figure, "--json")
    assert (failed.exit_code, json.loads(failed.stdout)["alarm"]) == (2, None)
    good.assign(site="bad " + good.site, true=good.true / 3).to_parquet(new)
    alarm = metapac("monitor", promise, new, "--state", state, "--plot", figure, "--json")
    assert (alarm.exit_code, json.loads(alarm.stdout)["status"]) == (3, "violated")
    for result in (failed, alarm):
        assert "No space left on device" in result.stderr


def save(monitor: Monitor, folder: Path) -> Path:
    monitor.save(folder / "library.json")
    return folder / "library.json"


def test_a_killed_monitor_leaves_the_old_or_the_new_state(
    promise: Path, frame: pd.DataFrame, tmp_path: Path
) -> None:
    victims = kills.Victims(tmp_path.resolve())
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    as_new(frame).to_parquet(first)
    as_new(as_new(frame)).to_parquet(second)
    try:
        state = victims.root / "monitor.json"
        words = ["monitor", promise, "--state", state, "--threads", 1]
        assert victims.run(*words, first)["status"] == 0
        old = state.read_bytes()
        whole = victims.run(*words, second)
        assert whole["status"] == 0
        new = state.read_bytes()
        last = whole["writes"] - 1
        for point in (0, last // 2, last - 1, last):
            state.write_bytes(old)
            killed = victims.run(*words, second, write=point)
            assert killed["status"] == -signal.SIGKILL
            assert state.read_bytes() in (old, new)
            assert victims.run(*words, second)["status"] == 0
            assert state.read_bytes() == new
            assert victims.leftovers() == []
    finally:
        victims.close()
