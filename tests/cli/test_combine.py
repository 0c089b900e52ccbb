"""``metapac combine``: from the files of sites to a promise file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from metapac import load, read_site
from metapac.federated import summarise_liars
from tests.helpers.commands import LEVELS, as_new, calibrate_frame, metapac


def test_sites_give_the_threshold_of_all_scores(
    ten_sites: pd.DataFrame, site_files: list[Path], tmp_path: Path
) -> None:
    output = tmp_path / "promise.json"
    threshold = calibrate_frame(ten_sites).threshold_
    result = metapac("combine", *site_files, "-o", output)
    assert result.exit_code == 0, result.output
    assert f"threshold {threshold!r} from 10 tasks and 800 examples" in result.stdout
    assert "dishonest one can force every label into every set" in " ".join(result.stdout.split())
    assert load(output).threshold_ == threshold


def test_columns_of_the_sites_serve_predict_and_evaluate(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    files = []
    for name, part in frame.groupby("site"):
        part.rename(columns=lambda c: c.replace("p_", "q_")).to_parquet(tmp_path / "a.parquet")
        files.append(tmp_path / f"{name}.json")
        words = ["--name", name, "--label", "y", "--columns", "q_*", *LEVELS, "-o", files[-1]]
        assert metapac("site", tmp_path / "a.parquet", *words).exit_code == 0
    promise, new = tmp_path / "promise.json", tmp_path / "new.parquet"
    assert metapac("combine", *files, "-o", promise).exit_code == 0
    renamed = frame.rename(columns=lambda c: c.replace("p_", "q_"))
    as_new(renamed).to_parquet(new)
    sets = metapac("predict", promise, new, "-o", tmp_path / "sets.parquet")
    assert "2400 sets of 3 classes (cat, dog, owl) written" in sets.stdout, sets.output
    asked = metapac("evaluate", promise, new)
    assert asked.exit_code == 2
    assert "--task must name the column" in asked.stderr
    assert asked.stderr.count("\n") == 1
    judged = metapac("evaluate", promise, new, "--task", "site")
    assert judged.exit_code == 0, judged.output
    assert "30 tasks (2,400 examples)" in judged.stdout


@pytest.mark.parametrize("pattern", [".", "*.json"])
def test_folders_and_globs(
    ten_sites: pd.DataFrame, site_files: list[Path], tmp_path: Path, pattern: str
) -> None:
    source = site_files[0].parent / pattern
    result = metapac("combine", source, "-o", tmp_path / "p.json", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["threshold"] == calibrate_frame(ten_sites).threshold_
    assert summary["dishonest"] == summarise_liars(calibrate_frame(ten_sites))


def test_names_that_are_alike_need_permission(site_files: list[Path], tmp_path: Path) -> None:
    body = read_site(site_files[0])
    alike = tmp_path / "alike.json"
    replace(body, name=body.name.upper()).save(alike)
    words = ["combine", *site_files, alike, "-o", tmp_path / "p.json"]
    refused = metapac(*words)
    assert refused.exit_code == 2
    assert "names of sites differ only in " in refused.stderr
    assert "To go on, pass --allow task-names." in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert metapac(*words, "--allow", "task-names").exit_code == 0
    assert "--allow must name checks to skip" in metapac(*words, "--allow", "names").stderr


def test_bad_files(site_files: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "p.json"
    twice = metapac("combine", site_files[0], site_files[0], "-o", output)
    assert twice.exit_code == 2
    assert "are both of site 'site 00', and a site counts only once" in twice.stderr
    before = site_files[0].read_bytes()
    over = metapac("combine", *site_files, "-o", site_files[0])
    assert over.exit_code == 2
    assert "is also the input. Write to another file." in over.stderr
    assert site_files[0].read_bytes() == before
    empty = metapac("combine", tmp_path, "-o", output)
    assert "holds no .json. Pass files written by 'metapac site'." in empty.stderr
    few = metapac("combine", site_files[0], "-o", output)
    assert few.exit_code == 1
    assert not output.exists()
