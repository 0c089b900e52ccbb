"""``metapac combine``: from the files of sites to a promise file."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from metapac import load
from tests.helpers.commands import calibrate_frame, metapac


def test_sites_give_the_threshold_of_all_scores(
    ten_sites: pd.DataFrame, site_files: list[Path], tmp_path: Path
) -> None:
    output = tmp_path / "promise.json"
    threshold = calibrate_frame(ten_sites).threshold_
    result = metapac("combine", *site_files, "-o", output)
    assert result.exit_code == 0, result.output
    assert f"threshold {threshold!r} from 10 tasks and 800 examples" in result.stdout
    assert load(output).threshold_ == threshold


@pytest.mark.parametrize("pattern", [".", "*.json"])
def test_folders_and_globs(
    ten_sites: pd.DataFrame, site_files: list[Path], tmp_path: Path, pattern: str
) -> None:
    source = site_files[0].parent / pattern
    result = metapac("combine", source, "-o", tmp_path / "p.json", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["threshold"] == calibrate_frame(ten_sites).threshold_


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
