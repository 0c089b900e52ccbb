"""``metapac study``: from data to table and figure, resumed and extended."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metapac.fewshot.study import pool_study
from metapac.fewshot.study.run import read_seeds
from tests.helpers.commands import metapac

SMALL = ["--ways", 3, "--shots", 3, "--tasks", 40, "--tests", 8, "--draws", 2]
LEVELS = ["--epsilon", 0.2, "--alpha", 0.2, "--delta", 0.1]


@pytest.fixture(autouse=True)
def _few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_study, "PREDICTOR_TASKS", 10)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """30 classes of 24 vectors."""
    rng, y = np.random.default_rng(0), np.repeat(np.arange(30), 24)
    x = 1.2 * rng.normal(size=(30, 8))[y] + rng.normal(size=(720, 8))
    np.savez(tmp_path / "data.npz", x=x, y=y)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    return tmp_path / "data.npz"


def test_a_table_in_three_formats_and_a_figure(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    result = metapac("study", data, *SMALL, *LEVELS, "-o", folder)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "prototypes" in text
    assert "95 % intervals, Student's t over 3 seeds" in text
    assert "Meta-CP is left out" not in text
    summary = read_seeds(folder)
    assert [line.method for line in summary] == [
        "PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle",
    ]  # fmt: skip
    assert (summary.seeds, summary.draws, summary.guarantee.miss_rate) == (3, 2, 0.2)
    sizes = (
        "A draw has 40 calibration tasks of 63 examples, and 8 new tasks, with 15 labelled "
        "examples each for PS-Test. A set can have up to 3 labels."
    )
    features = "The features are the 8 columns of the array of vectors."
    assert f"{sizes} {features}" in text
    written = replace(summary, notes=(sizes, features, *summary.notes))
    assert (folder / "summary.md").read_text() == written.to_markdown()
    assert (folder / "summary.tex").read_text() == written.to_latex()
    with (folder / "summary.csv").open(newline="") as file:
        means = [float(row["size"]) for row in csv.DictReader(file)]
    assert means == [line.size for line in summary]
    assert (folder / "error-and-size.png").read_bytes().startswith(b"\x89PNG")
    for line in summary:
        assert f"{line.size:.2f}" in text
        assert line.verdict in text


def test_a_study_is_extended_and_not_shrunk(data: Path, tmp_path: Path) -> None:
    words = ["study", data, *SMALL, "-o", tmp_path / "study"]
    first = metapac(*words, "--seeds", 1, "--json")
    assert first.exit_code == 0, first.output
    table = json.loads(first.stdout)
    assert set(table) == {
        "methods", "seeds", "draws", "columns", "covers", "notes", "guarantee",
        "calibration_tasks", "new_tasks", "examples", "labelled", "labels",
        "learner", "features", "feature_columns", "files",
    }  # fmt: skip
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    (row,) = re.findall(r"^\| `study` \| .*$", page, re.MULTILINE)
    assert {*table, "needed"} <= {*re.findall(r"`(\w+)`", row)}
    assert table["guarantee"] == {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
    assert [table[name] for name in ("calibration_tasks", "new_tasks", "labels")] == [40, 8, 3]
    assert (table["examples"], table["labelled"]) == ([63, 63], 15)
    assert (table["features"], table["feature_columns"]) == (8, None)
    described = "prototypes (metric euclidean, temperature 1.0)"
    assert (table["seeds"], table["learner"], len(table["files"])) == (1, described, 4)
    rows = (tmp_path / "study" / "seed-0" / "rows.csv.gz").read_bytes()
    more = metapac(*words, "--seeds", 2, "--json")
    assert json.loads(more.stdout)["seeds"] == 2
    assert (tmp_path / "study" / "seed-0" / "rows.csv.gz").read_bytes() == rows
    fewer = metapac(*words, "--seeds", 2, "--draws", 1)
    assert fewer.exit_code == 2
    assert "already holds 2 draws, more than --draws 1. Pass at least --draws 2" in fewer.output
    assert metapac(*words, "--seeds", 1).exit_code == 2
    other = metapac(*words, "--seeds", 2, "--shots", 4)
    assert other.exit_code == 2
    assert "study.shots=3, but this one has study.shots=4" in " ".join(other.output.split())
    assert metapac(*words, "--seeds", 2, "--metric", "cosine").exit_code == 2


def test_the_learner_is_that_of_score(data: Path, tmp_path: Path) -> None:
    sizes = {}
    for metric in ("euclidean", "cosine"):
        words = ["--metric", metric, "--temperature", 0.5, "--seeds", 1, "-o", tmp_path / metric]
        result = metapac("study", data, *SMALL, *words, "--json")
        assert result.exit_code == 0, result.output
        table = json.loads(result.stdout)
        assert table["learner"] == f"prototypes (metric {metric}, temperature 0.5)"
        sizes[metric] = [line["size"] for line in table["methods"]]
    assert sizes["euclidean"] != sizes["cosine"]


def test_vectors_with_labels_in_another_file_give_the_same_rows(data: Path, tmp_path: Path) -> None:
    folder = data.parent
    both: list[list[object]] = [[data], [folder / "x.npy", "--labels", folder / "y.npy"]]
    for i, words in enumerate(both):
        result = metapac("study", *words, *SMALL, "--seeds", 1, "-o", tmp_path / str(i))
        assert result.exit_code == 0, result.output
    tables = [(tmp_path / str(i) / "seed-0" / "rows.csv.gz").read_bytes() for i in range(2)]
    assert tables[0] == tables[1]


def test_one_shot_says_that_meta_cp_is_left_out(data: Path, tmp_path: Path) -> None:
    words = [*SMALL, "--shots", 1, "--seeds", 2, "-o", tmp_path / "study"]
    result = metapac("study", data, *words)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert text.count("Meta-CP is left out: its quantile predictor leaves one support exam") == 1
    assert "with one shot its class then has none." in text


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    """15 sites of 20 patients, in a Parquet file."""
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    columns = {"age": rng.normal(size=300), "visit": np.arange(300), "outcome": np.arange(300) % 2}
    table = arrow.table({**columns, "site": [f"site {i // 20}" for i in range(300)]})
    parquet.write_table(table, tmp_path / "sites.parquet")
    return tmp_path / "sites.parquet"


def test_a_study_says_what_it_had_and_what_it_needs(sites: Path, tmp_path: Path) -> None:
    words = [sites, "--labels", "outcome", "--groups", "site", "--draws", 2, "-o", tmp_path / "s"]
    text = " ".join(metapac("study", *words).output.split())
    assert "A draw has 6 calibration tasks of 15 examples, and 6 new tasks, with 3 lab" in text
    assert "A set can have up to 2 labels." in text
    assert "Needed: 29 labels for PS-Test; " in text
    assert "29 tasks of 44 examples for Meta-PS joint." in text
    assert "The features are in 2 columns: age, visit. Choose others with --columns." in text
    assert "classes or groups" not in text  # three seeds
    table = json.loads(metapac("study", *words, "--json").stdout)
    needed = {line["method"]: line["needed"] for line in table["methods"]}
    assert needed["Meta-PS joint"] == "29 tasks of 44 examples"
    assert needed["oracle"] is None
    assert table["feature_columns"] == ["age", "visit"]


def test_levels_that_look_like_confidences_are_refused(data: Path, tmp_path: Path) -> None:
    words = ["study", data, *SMALL, "--seeds", 1, "-o", tmp_path / "study"]
    for name, value, meant in (("epsilon", 0.9, 0.1), ("alpha", 0.9, 0.1), ("delta", 0.95, 0.05)):
        refused = metapac(*words, f"--{name}", value)
        assert refused.exit_code == 2
        message = f"Did you mean --{name} {meant}? To go on, pass --allow levels."
        assert message in " ".join(refused.output.split())
        assert not (tmp_path / "study").exists()
    allowed = metapac(*words, "--epsilon", 0.9, "--delta", 0.95, "--allow", "levels")
    assert allowed.exit_code == 0, allowed.output


def test_what_cannot_be_studied_is_one_line(data: Path, tmp_path: Path) -> None:
    csv_file = tmp_path / "data.csv"
    csv_file.write_text("x,y\n1,2\n")
    cases: list[tuple[list[object], str]] = [
        ([tmp_path / "none.npz"], "No such file"),
        ([data, "--learner", "knn"], "--learner must be 'prototypes' or 'ridge'"),
        ([data, "--ways", 13], "--ways must be at most 12"),
        ([data, "--backbone", "conv4"], "--backbone does not apply to vectors"),
        ([data, "--recipe", "strong"], "--recipe does not apply to vectors"),
        ([data, "--episodes", 8], "--episodes does not apply to vectors"),
        ([data, "--penalty", 2], "--penalty does not apply to --learner prototypes"),
        ([data, "--metric", "l1"], "metric must be"),
        (["glyphs", "--metric", "cosine"], "--metric does not apply to a learner that is trained"),
        ([data, "--shots", 24], "examples out of the data, or pass --shots 22."),
        ([tmp_path], "holds no run.json"),
        ([data, "--epsilon", 2], "--epsilon must be a number strictly between 0 and 1"),
        ([data, "--delta", "none"], "--delta must be a number: a study compares methods at a fail"),
        ([data, "--delta", "5%"], "--delta must be a number, got '5%'. Write 0.05."),
        ([csv_file, "--labels", "y"], ".csv must be an .npz, .npy or .parquet file, or the folder"),
        ([csv_file], f"pandas.read_csv('{csv_file}').to_parquet('{tmp_path / 'data.parquet'}')."),
        ([data.parent / "x.npy"], "has no classes. Pass them as --labels"),
    ]
    for words, message in cases:
        result = metapac("study", *words, "-o", tmp_path / "study")
        assert result.exit_code == 2, words
        assert message in " ".join(result.output.split()), result.output
