"""What goes wrong on the first day, in order: each mistake is met by one line that says what to do.

One model, 30 hospitals to calibrate on and 20 new ones; one patient in twenty is ill.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers.commands import metapac

LEVELS: list[Any] = ["--epsilon", 0.1, "--alpha", 0.2, "--delta", 0.05]
COLUMNS = ["--task", "site", "--label", "ill"]
Change = Callable[[pd.DataFrame], pd.DataFrame]


def draw(name: str, sites: int, rng: int) -> pd.DataFrame:
    """Return the scores of patients at some hospitals, and whether they are ill."""
    generator = np.random.default_rng(rng)
    ill = generator.random((sites, 120)) < 0.05
    logit = generator.normal(-3.0, 1.0, ill.shape) + 2.0 * ill
    p_yes = 1 / (1 + np.exp(-logit.ravel()))
    return pd.DataFrame(
        {
            "site": np.repeat([f"{name} {i:02d}" for i in range(sites)], 120),
            "patient": np.arange(ill.size),
            "ill": np.where(ill.ravel(), "yes", "no"),
            "p_no": 1 - p_yes,
            "p_yes": p_yes,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two tables, and the promise calibrated on the first."""
    path = tmp_path_factory.mktemp("first_use")
    draw("known", 30, rng=0).to_parquet(path / "known.parquet")
    draw("new", 20, rng=1).to_parquet(path / "new.parquet")
    words = [path / "known.parquet", *COLUMNS, *LEVELS, "-o", path / "promise.json"]
    result = metapac("calibrate", *words)
    assert result.exit_code == 0, result.output
    return path


def says(result: Any, code: int, *phrases: str) -> None:
    """Check the exit code, and that the message is one line with these phrases."""
    assert result.exit_code == code, result.output
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("metapac: ")
    for phrase in phrases:
        assert phrase in result.stderr


def changed(folder: Path, tmp_path: Path, name: str, change: Change) -> Path:
    path = tmp_path / "changed.parquet"
    change(pd.read_parquet(folder / f"{name}.parquet")).to_parquet(path)
    return path


def test_a_rare_class_that_is_never_in_a_set_is_named_at_once(folder: Path) -> None:
    result = metapac("evaluate", folder / "promise.json", folder / "new.parquet")
    assert result.exit_code == 0, result.output
    verdict, harm, *_rest = result.stdout.split("\n\n")
    assert verdict.startswith(("Holds: ", "Cannot tell yet: "))
    assert re.match(r"Beware: a class is missed far more often than 10%:\s+yes in", harm)


def test_the_score_of_one_class_is_not_that_of_the_true_label(folder: Path, tmp_path: Path) -> None:
    words = [folder / "known.parquet", "--task", "site", "--score", "p_yes", *LEVELS]
    result = metapac("calibrate", *words, "-o", tmp_path / "p.json")
    says(result, 2, "--score p_yes looks like the score of one class", "true label")
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("value", [None, np.nan])
def test_a_missing_score_is_given_the_cautious_value(
    folder: Path, tmp_path: Path, command: str, value: Any
) -> None:
    def drop(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(p_yes=table.p_yes.where(table.index >= 50, value))

    table = changed(folder, tmp_path, "new", drop)
    output = ["-o", tmp_path / "sets.parquet"] if command == "predict" else []
    result = metapac(command, folder / "promise.json", table, *output)
    says(result, 2, "in 50 of 2400 rows", "inf, so that it is kept")
    assert "-inf" not in result.stderr


def test_a_model_that_changed_has_a_verdict_and_an_exit_code(folder: Path, tmp_path: Path) -> None:
    def shift(table: pd.DataFrame) -> pd.DataFrame:
        p_no = 1 - (1 - table.p_no) ** 0.3
        return table.assign(p_no=p_no, p_yes=1 - p_no)

    table = changed(folder, tmp_path, "new", shift)
    result = metapac("evaluate", folder / "promise.json", table, "--check")
    assert (result.exit_code, result.stdout[:10]) == (3, "Violated: "), result.output
    few = changed(folder, tmp_path, "new", lambda table: table.groupby("site").tail(5))
    result = metapac("evaluate", folder / "promise.json", few, "--check")
    assert (result.exit_code, result.stdout[:17]) == (0, "Cannot tell yet: "), result.output


def percentages(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(p_no=100 * table.p_no, p_yes=100 * table.p_yes)


def losses(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(p_no=-np.log(table.p_no), p_yes=-np.log(table.p_yes))


def join(table: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([table, table])


def two_names(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(site=table.site.where(table.index % 2 == 0, table.site + " "))


def gaps(table: pd.DataFrame) -> pd.DataFrame:
    first = table.index[table.ill == "no"][:2]
    return table.assign(p_yes=table.p_yes.mask(table.index.isin(first)))


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_percentages_after_fractions(folder: Path, tmp_path: Path, command: str) -> None:
    table = changed(folder, tmp_path, "new", percentages)
    output = ["-o", tmp_path / "sets.parquet"] if command == "predict" else []
    result = metapac(command, folder / "promise.json", table, *output)
    says(result, 2, "these are percentages and those fractions", "Divide these by 100")


@pytest.mark.parametrize(
    ("change", "phrases"),
    [
        (losses, ["the true label scores lower than other labels", "negated"]),
        (join, ["every row occurs 2 times", "join"]),
        (two_names, ["names of tasks differ only in spaces", "'known 00' and 'known 00 '"]),
        (gaps, ["scores of classes are missing in 2 of 3600 rows (by class, 'yes': 2)"]),
        (lambda table: table[:0], ["holds no rows"]),
    ],
)
def test_tables_that_are_wrong_in_meaning(
    folder: Path, tmp_path: Path, change: Change, phrases: list[str]
) -> None:
    table = changed(folder, tmp_path, "known", change)
    result = metapac("calibrate", table, *COLUMNS, *LEVELS, "-o", tmp_path / "p.json")
    says(result, 2, *phrases)


@pytest.mark.parametrize("option", ["--epsilon", "--delta"])
def test_a_confidence_is_not_a_failure_rate(folder: Path, tmp_path: Path, option: str) -> None:
    at = LEVELS.index(option)
    levels = [*LEVELS[:at], option, 0.95, *LEVELS[at + 2 :]]
    words = [folder / "known.parquet", *COLUMNS, *levels, "-o", tmp_path / "p.json"]
    says(metapac("calibrate", *words), 2, f"Did you mean {option} 0.05?")


def test_small_sites_are_told_the_easy_way(folder: Path, tmp_path: Path) -> None:
    def add(table: pd.DataFrame) -> pd.DataFrame:
        small = draw("small", 15, rng=2)
        return pd.concat([table, small[small.patient % 120 < 3]])

    table = changed(folder, tmp_path, "known", add)
    words = ["calibrate", table, *COLUMNS, *LEVELS, "-o", tmp_path / "p.json"]
    says(metapac(*words), 1, "15 of the 45 tasks have fewer than", "use --min-examples 4")
    assert metapac(*words, "--min-examples", 4).exit_code == 0


def semicolons(table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path, index=False, sep=";", decimal=",")


def latin_1(table: pd.DataFrame, path: Path) -> None:
    table.assign(site="Köln " + table.site).to_csv(path, index=False, encoding="latin-1")


def with_index(table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path)


@pytest.mark.parametrize(
    ("write", "hint", "options"),
    [
        (semicolons, "--separator ';'", ["--separator", ";", "--decimal", ","]),
        (latin_1, "Read it with its encoding, such as --encoding", ["--encoding", "latin-1"]),
        (with_index, None, []),
    ],
)
def test_the_csv_files_of_other_programs(
    folder: Path, tmp_path: Path, write: Any, hint: str | None, options: list[str]
) -> None:
    write(pd.read_parquet(folder / "known.parquet"), tmp_path / "known.csv")
    words = ["calibrate", tmp_path / "known.csv", *COLUMNS, *LEVELS, "-o", tmp_path / "p.json"]
    if hint is not None:
        says(metapac(*words), 2, hint)
    result = metapac(*words, *options, "--json")
    assert result.exit_code == 0, result.output
    before = json.loads((folder / "promise.json").read_text())
    assert json.loads(result.stdout)["threshold"] == pytest.approx(before["threshold"], rel=1e-12)


def test_truth_values_and_dates_are_read_as_pandas_writes_them(
    folder: Path, tmp_path: Path
) -> None:
    def convert(table: pd.DataFrame) -> pd.DataFrame:
        day = pd.to_timedelta(table.site.str[-2:].astype(int), unit="D")
        table = table.rename(columns={"p_no": "p_False", "p_yes": "p_True"})
        return table.assign(site=pd.Timestamp("2024-01-01") + day, ill=table.ill == "yes")

    table = changed(folder, tmp_path, "known", convert)
    result = metapac("calibrate", table, *COLUMNS, *LEVELS, "-o", tmp_path / "p.json", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["tasks"] == 30


def test_what_the_data_at_hand_can_promise(folder: Path) -> None:
    result = metapac("plan", folder / "known.parquet", "--task", "site")
    assert result.exit_code == 0, result.output
    assert "30 tasks of 120 examples" in result.stdout


def test_calibration_sites_among_the_new_ones_are_named(folder: Path, tmp_path: Path) -> None:
    def add(table: pd.DataFrame) -> pd.DataFrame:
        known = pd.read_parquet(folder / "known.parquet")
        return pd.concat([table, known[known.site == "known 07"]])

    table = changed(folder, tmp_path, "new", add)
    result = metapac("evaluate", folder / "promise.json", table)
    assert "1 task calibrated on, so not counted here: known 07." in result.stdout
    assert "20 tasks (2,400 examples)" in result.stdout
