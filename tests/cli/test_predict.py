"""``metapac predict``: the sets it writes and prints."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from metapac import Context, load
from tests.helpers.commands import (
    CLASSES,
    LEVELS,
    metapac,
    write_csv,
)
from tests.helpers.honest_scores import CHILDREN, draw_communes


def test_predict_adds_sets(csv_promise: Path, tmp_path: Path) -> None:
    cut = load(csv_promise).threshold_
    rows = [["x,1", cut, 0.0, 1.0], ["y\n2", 0.0, 0.0, np.nextafter(cut, 0)]]
    table = write_csv(tmp_path / "new.csv", ["id", "p_cat", "p_great owl", "p_\N{DOG}"], rows)
    result = metapac("predict", csv_promise, table, "-o", tmp_path / "sets.csv")
    assert result.exit_code == 0, result.output
    with (tmp_path / "sets.csv").open(newline="", encoding="utf-8") as file:
        header, *written = list(csv.reader(file))
    assert header == ["id", "p_cat", "p_great owl", "p_\N{DOG}", "set", "set_size"]
    assert [row[0] for row in written] == ["x,1", "y\n2"]
    assert json.loads(written[0][4]) == ["cat", "\N{DOG}"]
    assert [row[5] for row in written] == ["2", "0"]
    assert "2 sets of 3 classes (cat, great owl, \N{DOG}) written to" in result.stdout
    printed = metapac("predict", csv_promise, table)
    assert printed.stdout == (tmp_path / "sets.csv").read_text(encoding="utf-8")


def test_check_exits_with_3_if_the_sets_are_unlike_those_of_calibration(tmp_path: Path) -> None:
    def write(name: str, scores: object) -> Path:
        frame = pd.DataFrame(scores, columns=[f"p_{name}" for name in CHILDREN])
        frame.assign(site=sites, y=labels).to_parquet(tmp_path / name)
        return tmp_path / name

    sites, labels, scores = draw_communes(np.random.default_rng(0), 40)
    table, promise = write("table.parquet", scores), tmp_path / "promise.json"
    words = ["--task", "site", "--label", "y", *LEVELS, "-o", promise]
    calibrated = metapac("calibrate", table, *words)
    assert "mean set size 1." in calibrated.stdout, calibrated.output
    swapped, logs = write("swapped", scores[:, [2, 1, 0, 3]]), write("logs", np.log(scores))
    for new, code, check in (
        (table, 0, ["--check"]),
        (swapped, 3, ["--check"]),
        (swapped, 0, ["--check", "--allow", "sets"]),
        (logs, 3, ["--check"]),
        (logs, 0, []),
    ):
        output = tmp_path / f"{new.name}-{len(check)}.csv"
        result = metapac("predict", promise, new, *check, "-o", output)
        assert result.exit_code == code, result.output
        assert len(pd.read_csv(output)) == len(labels)
        assert "nothing to compare with" not in result.stderr


def test_predict_keeps_the_order_of_many_rows(csv_promise: Path, tmp_path: Path) -> None:
    rows = [[i, 1.0, i % 2] for i in range(300_000)]
    table = write_csv(tmp_path / "new.csv", ["id", "p_a", "p_b"], rows)
    result = metapac("predict", csv_promise, table, "-o", tmp_path / "sets.csv")
    assert "300000 sets of 2 classes (a, b) written" in result.stdout
    with (tmp_path / "sets.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [str(i) for i in range(300_000)]


def test_addresses_are_shown_without_secrets(
    table: Path, promise: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metapac.tables.table.write", lambda *_words: None)  # no network
    words = ["predict", promise, table, "-o", "s3://me:pass-word@bucket/sets.parquet"]
    for result in (metapac(*words), metapac(*words, "--json")):
        assert result.exit_code == 0, result.output
        assert "s3://bucket/..." in result.stdout
        assert "pass-word" not in result.output


def test_predict_with_other_column_names(csv_promise: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "new.csv", ["cat score", "dog score", "p_x"], [[1, 0, "text"]])
    result = metapac("predict", csv_promise, table, "--columns", "* score")
    assert '1,0,text,"[""cat""]",1' in result.stdout


def test_a_failed_prediction_leaves_no_file(csv_promise: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "new.csv", ["p_a"], [[0.1], ["nan"]])
    result = metapac("predict", csv_promise, table, "-o", tmp_path / "sets.csv")
    assert result.exit_code == 2
    assert not (tmp_path / "sets.csv").exists()


def test_predict_to_parquet(
    frame: pd.DataFrame, table: Path, promise: Path, tmp_path: Path
) -> None:
    result = metapac("predict", promise, table, "-o", tmp_path / "sets.parquet")
    assert result.exit_code == 0, result.output
    assert "2400 sets of 3 classes (cat, dog, owl) written to" in result.stdout
    written = parquet.read_table(tmp_path / "sets.parquet")
    in_set = load(promise).predict_set(frame[["p_cat", "p_dog", "p_owl"]].to_numpy())
    assert written["set"].to_pylist() == [CLASSES[row].tolist() for row in in_set]
    result = metapac("predict", promise, table, "--booleans", "-o", tmp_path / "sets.parquet")
    assert result.exit_code == 0, result.output
    marked = parquet.read_table(tmp_path / "sets.parquet")
    assert marked["in_dog"].to_pylist() == in_set[:, 1].tolist()


def test_predict_to_the_screen_as_json_lists(table: Path, promise: Path) -> None:
    result = metapac("predict", promise, table, "--columns", "probs", "--classes", "a,b,c")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert len(rows) == 2400
    assert {label for row in rows for label in json.loads(row["set"])} == {"a", "b", "c"}


def test_a_summary_follows(csv_promise: Path, tmp_path: Path) -> None:
    rows = [[1.0, 0.0]] * 150 + [[1.0, 1.0]] * 40 + [[0.0, 0.0]] * 10
    table = write_csv(tmp_path / "new.csv", ["p_a", "p_b"], rows)
    result = metapac("predict", csv_promise, table, "-o", tmp_path / "sets.csv")
    assert result.exit_code == 0, result.output
    assert (
        "one label in 150 (75.0%), all labels in 40 (20.0%), empty 10 (5.0%); mean size 1.15 "
        "over rows" in result.stdout
    )
    assert "sets that contain each class: a in 190 (95.0%), b in 40 (20.0%)" in result.stdout
    assert "Empty: no label scored high enough" in result.stdout
    assert "Treat these sets as all labels." in " ".join(result.stdout.split())
    result = metapac("predict", csv_promise, table, "-o", tmp_path / "sets.csv", "--json")
    printed = json.loads(result.stdout)
    assert printed["summary"]["by_class"] == [
        {"class": "a", "sets": 190},
        {"class": "b", "sets": 40},
    ]
    assert printed["warnings"] == []


def test_a_class_that_never_occurs_is_reported(csv_promise: Path, tmp_path: Path) -> None:
    rows = [[1.0, 0.0]] * 150 + [[0.0, 0.0]] * 50
    table = write_csv(tmp_path / "new.csv", ["p_a", "p_b"], rows)
    result = metapac("predict", csv_promise, table, "-o", tmp_path / "sets.csv")
    assert result.exit_code == 0
    assert "None of the 200 sets contains 'b'" in result.stderr


def test_models_are_compared(csv_promise: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "new.csv", ["p_a", "p_b"], [[1.0, 0.0]])
    result = metapac("predict", csv_promise, table, "--model", "triage 3.1")
    assert result.exit_code == 0
    assert "The guarantee names no model" in result.stderr


def test_more_empty_sets_than_may_miss(promise: Path, table: Path, tmp_path: Path) -> None:
    classes = [str(name) for name in (load(promise).columns_ or {}).get("classes", ["a", "b"])]
    rows = [[0.0] * len(classes) if i % 2 else [1.0] * len(classes) for i in range(200)]
    path = write_csv(tmp_path / "new.csv", [f"p_{name}" for name in classes], rows)
    result = metapac("predict", promise, path, "-o", tmp_path / "sets.csv", "--json")
    assert result.exit_code == 0, result.output
    (warning,) = [w for w in json.loads(result.stdout)["warnings"] if "are empty" in w]
    assert warning.startswith("50.0% of the sets are empty")
    assert "the guarantee does not hold on these rows" in result.stderr
    for words, code in (["--check"], 3), (["--check", "--allow", "sets"], 0):
        result = metapac("predict", promise, path, "-o", tmp_path / "sets.csv", *words)
        assert result.exit_code == code, result.output
        assert ("are empty" in result.stderr) == (code == 3)
        assert "--check has nothing to compare with" in result.stderr  # only true labels had scores


def test_the_calibrated_model_is_named(promise: Path, tmp_path: Path) -> None:
    predictor = load(promise)
    predictor.context_ = Context(model="risk 1.0")
    predictor.save(tmp_path / "named.json")
    path = write_csv(tmp_path / "new.csv", ["p_a", "p_b"], [[1.0, 0.0]])
    words = ["predict", tmp_path / "named.json", path, "-o", tmp_path / "sets.csv"]
    assert "calibrated for model 'risk 1.0'" in metapac(*words).stdout
    assert "calibrated for" not in metapac(*words, "--model", "risk 1.0").stdout
