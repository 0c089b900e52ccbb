"""Commands on Spark, on many rows, through pipes, and a monitor whose state survives."""

from __future__ import annotations

import csv
import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from metapac import Monitor, load
from tests.helpers.commands import LEVELS, as_new, calibrate_frame, metapac, write_csv
from tests.helpers.engines import connection


def run_json(*words: object) -> Any:
    result = metapac(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_spark_gives_the_same_promise(frame: pd.DataFrame, table: Path, tmp_path: Path) -> None:
    connection("spark")  # skips the test without Spark
    words = ["--task", "site", "--label", "y", *LEVELS, "--engine", "spark", "--master", "local[2]"]
    found = run_json("calibrate", table, *words, "-o", tmp_path / "promise.json")
    assert found["threshold"] == calibrate_frame(frame).threshold_
    pd.DataFrame().to_csv(tmp_path / "a.sqlite")  # a database is not read by Spark
    result = metapac("plan", tmp_path / "a.sqlite", "--task", "site", "--engine", "spark")
    assert (result.exit_code, "error: " in result.stderr) == (2, True)


def test_rows_keep_their_order_and_failures_no_file(csv_promise: Path, tmp_path: Path) -> None:
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


def test_an_alarm_survives_a_failure(
    promise: Path, frame: pd.DataFrame, tmp_path: Path, monkeypatch: Any
) -> None:
    state, new, good = tmp_path / "monitor.json", tmp_path / "new.parquet", as_new(frame)
    good.to_parquet(new)
    facts = run_json("monitor", promise, new, "--state", state)
    monitor = Monitor(load(promise))
    monitor.add(good.true, good.site, batch="new")
    assert facts["sentence"] == monitor.sentence()
    monitor.save(tmp_path / "library.json")
    assert state.read_bytes() == (tmp_path / "library.json").read_bytes()

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "figure.png")

    monkeypatch.setattr(Monitor, "plot", fail)
    words = ["--state", state, "--plot", tmp_path / "figure.png", "--json"]
    failed = metapac("monitor", promise, *words)
    assert (failed.exit_code, json.loads(failed.stdout)["alarm"]) == (2, None)
    good.assign(site="bad " + good.site, true=good.true / 3).to_parquet(new)
    alarm = metapac("monitor", promise, new, *words)
    assert (alarm.exit_code, json.loads(alarm.stdout)["status"]) == (3, "violated")
    for result in (failed, alarm):
        assert "No space left on device" in result.stderr
