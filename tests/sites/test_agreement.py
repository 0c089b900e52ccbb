"""Sites that do not agree. Models and score functions: tests/tables/test_origins.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import Guarantee, InvalidInput, Site, combine_sites, load
from metapac.data_checks import CheckWarning
from tests.helpers.sites import GUARANTEE, draw_scores, labelled_sites, send_site
from tests.helpers.tables import site_table


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.1}, "b.json was computed with epsilon=0.1, but .*a.json with epsilon=0.2"),
        ({"alpha": 0.2}, "b.json was computed with alpha=0.2, but .*a.json with alpha=0.3"),
        ({"delta": 0.2}, "b.json was computed with delta=0.2, but .*a.json with delta=0.1"),
        (
            {"split": "even"},
            "b.json was computed with split='even', but .*a.json with split='joint'",
        ),
        (
            {"min_examples": 3},
            "b.json was computed with min_examples=3, but .*a.json with min_examples=0",
        ),
        ({"delta": None}, "b.json was computed with delta=None, but .*a.json with delta=0.1"),
    ],
)
def test_sites_at_different_levels_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    values = draw_scores()["site 0"]
    files = [send_site("a", values, tmp_path), send_site("b", values, tmp_path, **changes)]
    with pytest.raises(ValueError, match=message):
        combine_sites(files)


def test_sites_must_have_the_same_classes(tmp_path: Path) -> None:
    frame = labelled_sites()
    options = GUARANTEE | {"per_class": True, "label": "y"}
    sites = [
        site_table(frame, name=str(i), classes=classes, **options)
        for i, classes in enumerate([["no", "yes"], ["yes", "no"]])
    ]
    with pytest.raises(ValueError, match="site '1' was computed with classes=.'yes', 'no'., but"):
        combine_sites(sites)
    with pytest.raises(
        ValueError, match="classes must name all classes if score is passed: they m"
    ):
        site_table(frame, name="a", score="true", **options)
    with pytest.raises(
        ValueError, match="epsilon names class 'x', but the classes are 'no', 'yes'"
    ):
        site_table(frame, name="a", **options | {"epsilon": {"x": 0.1, "no": 0.1}})
    with pytest.raises(
        ValueError, match="epsilon has no value for class 'yes', only for 'no'. Give"
    ):
        site_table(frame, name="a", **options | {"epsilon": {"no": 0.1}})
    with pytest.raises(ValueError, match="column 'y' must hold one of the classes 'no', got 'yes'"):
        site_table(frame, name="a", score="true", classes=["no"], **options)


@pytest.mark.parametrize("odd", [0, 5, 28])
@pytest.mark.parametrize("sent", [["b", "a"], ["a", "b", "c"]])
def test_sites_have_one_order_of_classes(odd: int, sent: list[str]) -> None:
    agreed = Guarantee(**GUARANTEE, split="tight")
    sites = [
        Site(f"s{i}", agreed, (80,), ((0.5,),), np.dtype("float64"), columns={"classes": classes})
        for i in range(29)
        for classes in [sent if i == odd else ["a", "b"]]
    ]
    message = rf"site 's{odd or 1}' has scores of the classes .*, but site 's0' of \["
    with pytest.raises(InvalidInput, match=message):
        combine_sites(sites)


def test_a_site_counts_once(tmp_path: Path) -> None:
    path = send_site("ohio", draw_scores()["site 0"], tmp_path)
    again = path.rename(tmp_path / "first.json")
    files = [again, send_site("ohio", draw_scores()["site 1"], tmp_path)]
    message = r"ohio.json and .*first.json are both of site 'ohio', and a site counts only once"
    with pytest.raises(ValueError, match=message):
        combine_sites(files)


@pytest.mark.parametrize("other", ["North ohio", "north  ohio", "NORTH OHIO"])
def test_one_site_under_two_names_counts_once(other: str) -> None:
    agreed = Guarantee(**GUARANTEE, split="tight")
    names = ["north ohio", other, *(f"site {i}" for i in range(12))]
    sites = [Site(name, agreed, (80,), ((0.5,),), np.dtype("float64")) for name in names]
    message = (
        rf"names of sites differ only in .*: 'north ohio' and '{other}'.*allow=\('task-names',\)"
    )
    with pytest.raises(InvalidInput, match=message):
        combine_sites(sites)
    assert len(combine_sites(sites, allow=["task-names"]).tasks_) == 14
    with pytest.raises(InvalidInput, match="must name checks to skip"):
        combine_sites(sites, allow=["names"])


def test_a_coarse_site_is_named(tmp_path: Path) -> None:
    agreed = Guarantee(**GUARANTEE, split="tight")
    sites = [Site(f"s{i}", agreed, (80,), ((0.5,),), np.dtype("float64")) for i in range(29)]
    assert combine_sites(sites).precision_ == np.float64
    sites[7] = replace(sites[7], precision=np.dtype("float16"))
    with pytest.warns(CheckWarning, match="sets are decided in float16, because of site 's7'"):
        combined = combine_sites(sites)
    combined.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").precision_ == np.float16


def test_precisions_of_sites_may_differ(tmp_path: Path) -> None:
    data = draw_scores()
    files = [
        send_site(name, values.astype(np.float32 if i % 2 else np.float64), tmp_path)
        for i, (name, values) in enumerate(data.items())
    ]
    with pytest.warns(CheckWarning, match="in float32, because of sites 'site 1', 'site 3', 'site"):
        result = combine_sites(files)
    assert result.precision_ == np.float32
    assert result.threshold_ in result.task_thresholds_.tolist()
