"""The message of a site: what it may hold, and its file."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import (
    BadArtefact,
    Guarantee,
    InvalidInput,
    MetaPS,
    Site,
    artefact,
    combine_sites,
    load,
    read_site,
)
from metapac.federated import FORMAT
from tests.helpers.sites import GUARANTEE, draw_scores, send_site
from tests.helpers.tables import site_table

FIRST_VERSION = """{
"format": "metapac site",
"schema": 1,
"metapac": "0.1.0",
"site": "ohio",
"examples": 1200,
"parameters": {"epsilon": 0.2, "alpha": 0.3, "delta": 0.2, "split": "tight"},
"levels": [0.15],
"thresholds": [0.194],
"precision": "float64",
"checksum": "sha256:7bd05e70be6131c211124671b43c477877326d0304e12639a8e23f4f6295f909"
}
"""


def test_a_site_of_the_first_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(FIRST_VERSION)
    site = read_site(tmp_path / "old.json")
    assert (site.name, site.examples, site.thresholds, site.classes) == (
        "ohio", (1200,), ((0.194,),), None,
    )  # fmt: skip
    site.save(tmp_path / "new.json")
    assert read_site(tmp_path / "new.json") == site
    (tmp_path / "old.json").write_text(FIRST_VERSION.replace("1200", "12000"))
    with pytest.raises(BadArtefact, match="its checksum does not match its content"):
        read_site(tmp_path / "old.json")


@pytest.mark.parametrize(("split", "count"), [("joint", 13), ("tight", 1)])
def test_the_file_holds_a_number_for_each_level_and_no_scores(
    tmp_path: Path, split: str, count: int
) -> None:
    values = draw_scores()["site 0"]
    document = json.loads(send_site("ohio", values, tmp_path, split=split).read_text())
    method = MetaPS(**GUARANTEE, split=split)
    assert document["format"] == "metapac site"
    assert document["site"] == "ohio"
    assert document["examples"] == [80]
    assert document["parameters"] == GUARANTEE | {
        "split": split,
        "per_class": False,
        "min_examples": 0,
    }
    assert document["levels"] == [lv.alpha_within for lv in method._make_guarantee().levels]
    assert len(document["levels"]) == count
    assert document["thresholds"] == [np.atleast_1d(method.task_threshold(values)).tolist()]
    assert document.keys() == {
        "format", "schema", "metapac", "site", "examples", "parameters", "levels", "classes",
        "thresholds", "precision", "range", "columns", "checksum",
    }  # fmt: skip
    assert document["range"] == [values.min(), values.max()]
    assert document["columns"] == {"score": "p"}


def test_a_site_file_describes_columns_as_a_promise_file_does() -> None:
    folder = resources.files("metapac") / "schemas"
    texts = ((folder / f"{name}.json").read_text("utf-8") for name in ("site", "promise"))
    site, promise = (json.loads(text)["properties"] for text in texts)
    expected = dict(promise["columns"]["properties"])
    del expected["cluster"]  # a site is one task
    assert site["columns"]["properties"] == expected


def test_a_file_of_an_older_version_has_no_columns(tmp_path: Path) -> None:
    path = send_site("ohio", draw_scores()["site 0"], tmp_path)
    site = read_site(path)
    replace(site, columns=None).save(path)
    assert "columns" not in json.loads(path.read_text())
    assert read_site(path) == replace(site, columns=None) != site


def forge(path: Path, **changes: Any) -> None:
    document = json.loads(path.read_text()) | changes
    document.pop("checksum")
    document["checksum"] = artefact.checksum(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"levels": [0.02]},
            r"has thresholds at levels \[0.02\], but this metapac expects \[0.15\] for split='ti",
        ),
        ({"thresholds": []}, "thresholds"),
        (
            {"thresholds": [[0.5, 0.6]]},
            r"thresholds one list of 1, .* got shapes \(1,\) and",
        ),
        ({"classes": ["a", "b"]}, "site 'a': classes must be None, since per_class is False"),
        ({"examples": [-1]}, "examples must hold whole numbers"),
        ({"examples": [1]}, "site 'a': .* whose 1 examples are too few to certify any"),
        ({"parameters": {}}, "epsilon"),
        ({"precision": "x"}, "precision"),
    ],
)
def test_an_inconsistent_file_is_refused(tmp_path: Path, changes: Any, message: str) -> None:
    path = send_site("a", draw_scores()["site 0"], tmp_path, split="tight")
    forge(path, **changes)
    with pytest.raises(BadArtefact, match=message):
        read_site(path)


def test_other_and_edited_files_are_refused(tmp_path: Path) -> None:
    path = send_site("a", draw_scores()["site 0"], tmp_path)
    path.write_text(path.read_text().replace('"examples": [80]', '"examples": [81]'))
    with pytest.raises(BadArtefact, match="was edited or damaged: its checksum does not match"):
        read_site(path)
    MetaPS(**GUARANTEE, on_infeasible="trivial").calibrate([0.5], ["a"]).save(path)
    with pytest.raises(
        BadArtefact, match="is not a metapac site file. .* This is a metapac promise file.$"
    ):
        read_site(path)
    send_site("a", draw_scores()["site 0"], tmp_path)
    with pytest.raises(
        BadArtefact, match="is not a metapac promise file. Pass one written by .save"
    ):
        load(path)


def test_a_threshold_impossible_for_its_size_is_refused() -> None:
    good = site_table(
        pd.DataFrame({"p": draw_scores()["site 0"]}), name="a", score="p", **GUARANTEE
    )
    with pytest.raises(ValueError, match="holds 0.5 for task 'b', whose 1 examples are too few"):
        Site("b", good.guarantee, (1,), ((0.5,) * 13,), good.precision)


def test_thresholds_of_predicted_numbers_are_never_positive(tmp_path: Path) -> None:
    names = {"prediction": "guess", "y": "truth"}
    agreed = Guarantee(**GUARANTEE)
    good = Site("ohio", agreed, (1200,), ((0.0,) * 13,), np.dtype("f8"), columns=names)
    words = "site 'ohio': thresholds of predicted numbers must be at most 0, got 0.25: their scores"
    with pytest.raises(InvalidInput, match=words):
        replace(good, thresholds=((0.0,) * 12 + (0.25,),))
    positive = replace(good, thresholds=((0.25,) * 13,), columns=None)
    positive.save(tmp_path / "ohio.json")
    body = artefact.read(tmp_path / "ohio.json", FORMAT)
    own = {k: v for k, v in body.items() if k not in {"format", "schema", "metapac", "checksum"}}
    artefact.write(tmp_path / "ohio.json", own | {"columns": names}, FORMAT)
    with pytest.raises(BadArtefact, match=r"ohio\.json .*at most 0, got 0\.25"):
        combine_sites([tmp_path / "ohio.json"])
