"""The content of a report: its title and thresholds, and one way to speak of intervals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import PS, MetaPS, evaluate, open_table
from metapac.report.levels import Trial
from metapac.report.page import build_page
from metapac.words import round_down
from tests.helpers.tables import calibrate_table
from tests.report.conftest import attempt


def build(promise: Any, **changes: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"title": None, "date": "today", "findings": None, "evaluation": None}
    empty |= {"trials": [], "why_not": "no scores", "course": None, "provenance": []}
    return build_page(promise, **empty | changes)


@pytest.fixture(scope="module")
def numbers() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    sites = np.repeat([f"site {i:02d}" for i in range(40)], 50)
    table = pd.DataFrame({"site": sites, "predicted": rng.normal(50, 9, 2000)})
    table["sd"] = rng.uniform(5, 15, 2000)
    return table.assign(true=table.predicted + table.sd * rng.normal(size=2000))


@pytest.mark.parametrize(
    ("scale", "caption"),
    [
        (None, "around the predicted number (rounded up)"),
        ("sd", "times its scale, around the predicted number (rounded up)"),
    ],
)
def test_intervals_are_spoken_of_as_the_explanation_does(
    numbers: pd.DataFrame, scale: str | None, caption: str
) -> None:
    names: dict[str, Any] = {"task": "site", "prediction": "predicted", "y": "true", "scale": scale}
    promise = calibrate_table(numbers, **names, epsilon=0.2, alpha=0.2, delta=0.1)
    new = numbers.assign(site="new " + numbers.site, true=numbers.true + 1e-4)
    data = open_table(new)
    evaluation = evaluate(promise, data)
    trials = attempt(promise, open_table(numbers), data)
    page = build(promise, evaluation=evaluation, trials=trials, why_not=None)
    radius = round_down(promise.threshold_).removeprefix("-")
    assert page["figures"][1] == (f"± {radius}", caption)
    reach = re.search(r"the predicted number plus and minus .*? \(rounded up\)", promise.explain())
    assert reach is not None
    control = page["control"]
    promised = control["data"][control["start"]]
    assert f", an interval is {reach[0]}. Then" in promised["text"]
    assert evaluation.widths is not None
    assert promised["width"] == float(np.mean(evaluation.widths))
    assert f"An interval is {promised['width']:.4g} wide on average over tasks." in promised["text"]
    assert control["extent"] == "width of the intervals"
    assert float(control["rows"][control["start"]]["extent"]) == pytest.approx(
        promised["width"], 0.01
    )
    assert [level["point"] for level in control["data"]] == [None, 0, 1, 2]
    text = str({name: page[name] for name in ("figures", "control", "assumptions", "plan")})
    assert "label" not in re.sub(
        r"'label'|aria-label|label=", "", re.sub("<svg.*?</svg>", "", text)
    )


def test_an_interval_of_all_numbers(numbers: pd.DataFrame) -> None:
    names: dict[str, Any] = {"task": "site", "prediction": "predicted", "y": "true"}
    levels: dict[str, Any] = {"epsilon": 0.001, "alpha": 0.2, "delta": 0.1}
    promise = calibrate_table(numbers, **names, **levels, on_infeasible="trivial")
    page = build(promise, trials=[Trial(0.001, True, promise, None)], why_not=None)
    assert page["figures"][1] == ("all numbers", "are in every interval")
    assert page["control"]["data"][0]["text"] == "At 0.1%, every interval holds all numbers."
    assert page["plan"][0]["rank"].startswith("Nothing is ruled out")


def test_a_single_task_is_spoken_of_in_the_singular() -> None:
    trivial = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1, on_infeasible="trivial")
    trivial.calibrate([0.5] * 10, [0] * 10, allow=["task-names"])
    page = build(trivial)
    assert page["figures"] == [("1", "task calibrated on"), ("all labels", "are in every list")]
    first = page["assumptions"][0].statement
    assert first.startswith("The 1 task calibrated on, and the new tasks, come at random")


def test_of_clusters_one_task_each_is_assumed_to_be_drawn() -> None:
    scores, tasks = np.linspace(0, 1, 4000), np.tile(np.arange(40), 100)
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1)
    owners = {task: f"owner {task // 2}" for task in range(40)}
    page = build(method.calibrate(scores, tasks, clusters=owners))
    assert page["assumptions"][0].statement == (
        "The 20 clusters calibrated on, and the new clusters, come at random from the same kind. "
        "One task of each was drawn."
    )


def test_each_class_has_its_threshold(per_class: MetaPS) -> None:
    page = build(per_class)
    rows = {row[0]: row for row in page["threshold_rows"]}
    for label, cut in zip(per_class.classes_ or (), per_class.thresholds_.tolist(), strict=True):
        assert rows[str(label)][1] == round_down(cut)
    assert len(page["threshold_panels"]) == 3


@pytest.mark.parametrize("title", [None, "Our report"])
def test_the_title_names_the_model_unless_one_is_given(promise: MetaPS, title: str | None) -> None:
    assert build(promise, title=title)["title"] == (title or "The guarantee of triage <3.1>")
    nameless = PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 99))
    assert build(nameless)["title"] == "A guarantee"


def test_a_guarantee_for_examples_has_no_plan_of_tasks() -> None:
    page = build(PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 99)))
    assert page["plan"] == page["threshold_panels"] == []
    assert page["figures"][0] == ("99", "examples calibrated on")
