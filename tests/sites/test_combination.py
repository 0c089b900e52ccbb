"""Combined sites: the few numbers that they send give the result of one table with all scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InfeasibleGuarantee, MetaPS, combine_sites, load, read_site
from metapac.data_checks import CheckWarning
from tests.helpers.engines import connection
from tests.helpers.sites import GUARANTEE, draw_scores, labelled_sites, send_site
from tests.helpers.tables import calibrate_table, site_table


@pytest.mark.parametrize("split", ["joint", "tight", 0.2])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_combined_sites_equal_one_table(tmp_path: Path, split: Any, kind: Any) -> None:
    data = {name: values.astype(kind) for name, values in draw_scores().items()}
    files = [send_site(name, values, tmp_path, split=split) for name, values in data.items()]
    combined = combine_sites(reversed(files))
    names = np.repeat(list(data), [len(values) for values in data.values()])
    together = pd.DataFrame({"site": names, "p": np.concatenate(list(data.values()))})
    expected = calibrate_table(together, task="site", score="p", **GUARANTEE, split=split)
    assert combined.tasks_.tolist() == expected.tasks_.tolist()
    assert combined.task_sizes_.tolist() == expected.task_sizes_.tolist()
    assert combined.task_thresholds_.tolist() == expected.task_thresholds_.tolist()
    assert combined.threshold_ == expected.threshold_ > -np.inf
    assert combined.precision_ == expected.precision_ == kind
    assert combined.promise_ == expected.promise_
    combined.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").threshold_ == expected.threshold_


@pytest.mark.parametrize("per_class", [False, True])
def test_columns_on_which_all_sites_agree_are_kept(tmp_path: Path, per_class: bool) -> None:
    frame = pd.DataFrame({"y": ["a", "b"] * 40, "q_b": np.linspace(0, 1, 80), "q_a": 0.5})
    options = GUARANTEE | {"label": "y", "columns": "q_*", "per_class": per_class}
    site = site_table(frame, name="ohio", **options, connection=connection("duckdb"))
    sites = [replace(site, name=f"site {i:02d}") for i in range(40)]
    sites[0].save(tmp_path / "a.json")
    assert read_site(tmp_path / "a.json") == sites[0]
    combined = combine_sites([tmp_path / "a.json", *sites[1:]])
    assert combined.columns_ == {"label": "y", "columns": "q_*", "classes": ["b", "a"]}
    combined.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").columns_ == combined.columns_
    renamed = {"label": "x", "columns": "q_*", "classes": ["b", "a"]}
    for sent, kept in ((renamed, {"classes": ["b", "a"]}), (None, None)):
        for i in (0, 39):
            others = [*sites[:i], replace(sites[i], columns=sent), *sites[i + 1 :]]
            with pytest.warns(CheckWarning, match="scores from different columns: .*label 'y'"):
                other = combine_sites(others)
            assert other.columns_ == kept
            assert other.tasks_.tolist() == combined.tasks_.tolist()


PER_CLASS: list[dict[str, Any]] = [
    {"label": "y"},
    {"label": "y", "classes": ["yes", "no"]},
    {"label": "y", "score": "true", "classes": ["no", "yes"]},
    {"label": "y", "score": "true", "epsilon": {"yes": 0.3, "no": 0.2}},
]


@pytest.mark.parametrize("how", PER_CLASS, ids=lambda how: " ".join(how))
@pytest.mark.parametrize("minimum", [0, 10])
def test_sites_with_a_guarantee_for_each_class(
    tmp_path: Path, how: dict[str, Any], minimum: int
) -> None:
    options = GUARANTEE | {"per_class": True, "min_examples": minimum, "delta": 0.4} | how
    frame, there = labelled_sites(), connection("duckdb")
    files = []
    for name, part in frame.groupby("site"):
        files.append(tmp_path / f"{name}.json")
        site_table(part, name=name, connection=there, **options).save(files[-1])
    combined = combine_sites(files, on_infeasible="trivial")
    expected = calibrate_table(
        frame, task="site", connection=there, on_infeasible="trivial", **options
    )
    assert sorted(combined.classes_ or ()) == sorted(expected.classes_ or ()) == ["no", "yes"]
    for label in ("no", "yes"):
        assert combined.threshold_of(label) == expected.threshold_of(label)
    if combined.classes_ == expected.classes_:
        assert combined.task_sizes_.tolist() == expected.task_sizes_.tolist()
        assert (combined._evidence.thresholds == expected._evidence.thresholds).all()
        assert np.array_equal(combined.left_out_, expected.left_out_)
    assert (expected.task_sizes_ == 0).any()
    combined.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").thresholds_.tolist() == combined.thresholds_.tolist()


@pytest.mark.parametrize("delta", [None, 0.1])
def test_sites_in_expectation_and_with_min_examples(tmp_path: Path, delta: float | None) -> None:
    data = draw_scores(30)
    options = {"delta": delta, "min_examples": 60}
    files = [send_site(name, values, tmp_path, **options) for name, values in data.items()]
    combined = combine_sites(files)
    names = np.repeat(list(data), [len(values) for values in data.values()])
    expected = MetaPS(**GUARANTEE | options).calibrate(np.concatenate(list(data.values())), names)
    assert combined.threshold_ == expected.threshold_ > -np.inf
    assert combined.left_out_ == expected.left_out_ == 9
    assert combined.promise_ == expected.promise_


def test_too_few_sites_are_reported() -> None:
    site = site_table(
        pd.DataFrame({"p": draw_scores()["site 0"]}), name="a", score="p", **GUARANTEE
    )
    with pytest.raises(InfeasibleGuarantee, match="cannot be guaranteed"):
        combine_sites([site])
    assert combine_sites([site], on_infeasible="trivial").threshold_ == -np.inf
    with pytest.raises(ValueError, match="sites is empty; pass at least one file written by"):
        combine_sites([])
