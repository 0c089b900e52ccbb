"""``metapac show``: promise files of every kind, site files, pilot files, and none of these."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import PS, Exploration, Guarantee, MetaPS, Site, load
from metapac._version import __version__
from metapac.fewshot import MetaCP
from tests.helpers.commands import metapac

SCORES = np.random.default_rng(0).random(120 * 50)
TASKS = np.repeat(np.arange(120), 50)
LABELS = np.array(["[no]", "yes"])[np.arange(6000) % 2]
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}

PREDICTORS: dict[str, Any] = {
    "plain": MetaPS(**LEVELS).calibrate(SCORES, TASKS),
    "expectation": MetaPS(**LEVELS | {"delta": None}).calibrate(SCORES, TASKS),
    "per class": MetaPS(**LEVELS, per_class=True, min_examples=3).calibrate(SCORES, TASKS, LABELS),
    "trivial": MetaPS(**LEVELS, on_infeasible="trivial").calibrate([0.5], ["[a]"]),
    "sites": MetaPS(**LEVELS, split="tight").combine(np.linspace(0.1, 0.9, 60)),
    "PS": PS(epsilon=0.1, delta=0.05).calibrate(SCORES),
    "MetaCP": MetaCP(epsilon=0.2, delta=0.1).calibrate(SCORES, TASKS, np.full(120, -0.2)),
}


def as_words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_kind_of_promise_is_explained(name: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    PREDICTORS[name].save(path)
    predictor = load(path)
    result = metapac("show", path)
    assert result.exit_code == 0, result.output
    shown = as_words(result.stdout)
    assert as_words(predictor.explain()) in shown
    remarks = getattr(predictor, "remarks_", [])
    assert as_words(predictor.promise_.removesuffix(" ".join(["", *remarks]))) in shown
    assert [f"metapac: warning: {remark}" for remark in remarks] == result.stderr.splitlines()
    assert f"written by metapac {__version__}" in shown
    facts = json.loads(metapac("show", path, "--json").stdout)
    assert facts["explanation"] == predictor.explain()
    assert facts["promise"] == predictor.promise_
    assert facts["kind"] == type(predictor).__name__
    assert facts["context"]["unit"] == "task"


def test_the_table_has_levels_thresholds_and_sizes(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    predictor = PREDICTORS["plain"]
    predictor.save(path)
    (row,) = json.loads(metapac("show", path, "--json").stdout)["thresholds"]
    assert row == {
        "class": None,
        "epsilon": 0.2,
        "threshold": predictor.threshold_,
        "tasks": 120,
        "examples": 6000,
        "left_out": 0,
        "level": predictor.level_.alpha_within,
        "sizes": [50, 50.0, 50],
    }
    rows = [line.split() for line in metapac("show", path).stdout.replace("│", " ").splitlines()]
    level = str(predictor.level_.alpha_within)
    assert ["0.2", repr(predictor.threshold_), "120", "6000", level, "50/50/50"] in rows


def test_each_class_has_a_row(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    predictor = PREDICTORS["per class"]
    predictor.save(path)
    rows = json.loads(metapac("show", path, "--json").stdout)["thresholds"]
    assert [row["class"] for row in rows] == ["[no]", "yes"]
    assert [row["threshold"] for row in rows] == predictor.thresholds_.tolist()
    assert [row["level"] for row in rows] == [level.alpha_within for level in predictor.level_]
    assert "│ [no] " in metapac("show", path).stdout


def test_what_is_not_known_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    PREDICTORS["sites"].save(path)
    (row,) = json.loads(metapac("show", path, "--json").stdout)["thresholds"]
    assert row["examples"] is None
    assert row["sizes"] is None
    assert "median" not in metapac("show", path).stdout
    PREDICTORS["trivial"].save(path)
    (row,) = json.loads(metapac("show", path, "--json").stdout)["thresholds"]
    assert row["threshold"] == str(-math.inf)


def test_columns_are_shown(promise: Path) -> None:
    text = metapac("show", promise).stdout
    assert "column task: site\n" in text
    assert "column score: true\n" in text


def test_a_site_file_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ohio.json"
    agreed = Guarantee(**LEVELS, split="tight")
    Site("ohio", agreed, (100,), ((0.25,),), np.dtype("float64")).save(path)
    shown = as_words(metapac("show", path).stdout)
    assert "what the site 'ohio' sends to the coordinator" in shown
    assert "100 examples and is no guarantee by itself" in shown
    assert shown.endswith(agreed.sentence())
    facts = json.loads(metapac("show", path, "--json").stdout)
    assert facts["site"] == "ohio"
    assert facts["agreed"] == agreed.sentence()
    columns = {"prediction": "guess", "y": "days"}
    Site("ohio", agreed, (100,), ((-2.5,),), np.dtype("float64"), columns=columns).save(path)
    sentence = json.loads(metapac("show", path, "--json").stdout)["agreed"]
    assert "the intervals miss the true number at most" in sentence
    assert as_words(metapac("show", path).stdout).endswith(sentence)


def test_a_pilot_file_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pilot.json"
    Exploration(("ohio", "utah"), 80, 0.05, {"no": 0.9, "yes": 0.1}, (), {}).save(path)
    shown = as_words(metapac("show", path).stdout)
    assert "estimates from 2 pilot tasks with 80 examples" in shown
    assert "It guarantees nothing." in shown
    assert json.loads(metapac("show", path, "--json").stdout)["tasks"] == ["ohio", "utah"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"format": "metapac other"}']
)
def test_any_other_file_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    result = metapac("show", path)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"metapac: {path} is not ")
    assert result.stderr.count("\n") == 1


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    result = metapac("show", tmp_path / "none.json")
    assert result.exit_code == 2
    assert "No such file" in result.stderr
