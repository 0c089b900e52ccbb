"""``metapac site``: the numbers that leave a site."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from metapac import MetaPS, read_site
from tests.helpers.commands import (
    CLASSES,
    LEVELS,
    PER_CLASS,
    calibrate_frame_by_class,
    metapac,
)


def test_a_site_sends_thirteen_numbers_or_one(frame: pd.DataFrame, tmp_path: Path) -> None:
    scores, output = tmp_path / "scores.csv", tmp_path / "site.json"
    ohio = frame[frame.site == "site 00"]
    ohio[["true"]].to_csv(scores, index=False)
    words = ["site", scores, "--name", "ohio", "--score", "true", *LEVELS, "-o", output]
    result = metapac(*words)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("13 thresholds between ")
    assert result.stdout.endswith(f"from 80 examples of site ohio, written to {output}\n")
    sent = json.loads(metapac(*words, "--split", "tight", "--json").stdout)
    assert sent["examples"] == 80
    (only,) = sent["thresholds"]
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1, split="tight")
    assert only == method.task_threshold(ohio.true.to_numpy())
    assert read_site(output).thresholds == ((only,),)


def test_a_site_with_too_few_examples(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("true\n0.5\n")
    words = ["site", tmp_path / "a.csv", "--score", "true", *LEVELS, "-o", tmp_path / "a.json"]
    result = metapac(*words, "--name", " a ")
    assert result.exit_code == 0, result.output
    assert (
        "The site has 1 example, too few for a threshold, which takes 4. It counts as one that "
        "keeps every label."
    ) in " ".join(result.stdout.split())
    left_out = metapac(*words, "--name", "a", "--min-examples", 9)
    assert (
        "The site has 1 example, fewer than --min-examples 9, and is left out." in left_out.stdout
    )
    assert read_site(tmp_path / "a.json").name == "a"
    blank = metapac(*words, "--name", " ")
    assert "--name must be" in blank.stderr


@pytest.mark.parametrize("levels", [("1e-20", "0.1"), ("1e-17", "none")])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_levels_that_no_site_can_reach_write_nothing(
    tmp_path: Path, levels: tuple[str, str], more: list[str]
) -> None:
    scores, output = tmp_path / "a.csv", tmp_path / "a.json"
    scores.write_text("true\n" + "0.5\n" * 30)
    words = ["site", scores, "--name", "a", "--score", "true", "--alpha", "0.1", "-o", output]
    words += ["--epsilon", levels[0], "--delta", levels[1], *more]
    for earlier in (None, b"an earlier file"):
        if earlier is not None:
            output.write_bytes(earlier)
        result = metapac(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "needs more than 10**9 examples" in " ".join(result.stderr.split())
        assert (output.read_bytes() if output.exists() else None) == earlier


@pytest.mark.parametrize("split", ["joint", "tight"])
def test_sites_with_a_guarantee_for_each_class(
    ten_sites: pd.DataFrame, tmp_path: Path, split: str
) -> None:
    files = []
    words = [*PER_CLASS, "--epsilon", 0.3, "--split", split]
    for name, part in ten_sites.groupby("site"):
        part[["y", "p_cat", "p_dog", "p_owl"]].to_csv(tmp_path / "scores.csv", index=False)
        files.append(tmp_path / f"{name}.json")
        result = metapac("site", tmp_path / "scores.csv", "--name", name, *words, "-o", files[-1])
        assert result.exit_code == 0, result.output
    numbers = "13 numbers" if split == "joint" else "1 number"
    assert f"{numbers} for each of 3 classes from 80 examples of site site 09" in result.stdout
    site = metapac(
        "site", tmp_path / "scores.csv", "--name", "x", *words, "-o", tmp_path / "x.json", "--json"
    )
    sent = json.loads(site.stdout)
    assert [row["class"] for row in sent["classes"]] == CLASSES.tolist()
    assert sum(row["examples"] for row in sent["classes"]) == 80
    combined = metapac("combine", *files, "-o", tmp_path / "p.json", "--json")
    assert combined.exit_code == 0, combined.output
    thresholds = calibrate_frame_by_class(ten_sites, split=split).thresholds_.tolist()
    rows = json.loads(combined.stdout)["thresholds"]
    assert [row["threshold"] for row in rows] == thresholds
