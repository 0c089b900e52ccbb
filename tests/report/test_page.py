"""The content of a report: key figures, thresholds, and exact numbers for the control."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import PS, MetaPS
from metapac._types import ignore_progress
from metapac.explanation.words import round_down
from metapac.report import Scored
from metapac.report.levels import Trial, try_epsilons
from metapac.report.page import build_page
from metapac.report.scored import Data
from metapac.report.tables import Tabled
from metapac.sentences import format_share
from metapac.tables import calibrate_table
from metapac.tables.io.sources import open_source


def build(promise: Any, **changes: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"title": None, "date": "today", "findings": None, "evaluation": None}
    empty |= {"trials": [], "why_not": "no scores", "course": None, "provenance": []}
    return build_page(promise, **empty | changes)


def attempt(promise: MetaPS, calibration: Data, labelled: Data | None) -> list[Trial]:
    return try_epsilons(
        promise,
        calibration,
        labelled,
        [0.001, 0.1, 0.3],
        false_alarm=0.05,
        allow=(),
        progress=ignore_progress,
    )


def test_the_control_embeds_exact_numbers(
    promise: MetaPS, calibration: Scored, labelled: Scored
) -> None:
    trials = attempt(promise, calibration, labelled)
    control = build(promise, trials=trials, why_not=None)["control"]
    assert control["start"] == 2
    assert [row["epsilon"] for row in control["rows"]] == ["0.1%", "10%", "20%", "30%"]
    for level, trial in zip(control["data"][1:], trials[1:], strict=True):
        found = trial.evaluation
        assert found is not None
        assert found.sizes is not None
        assert level["epsilon"] == trial.epsilon
        assert level["thresholds"] == trial.thresholds
        assert level["within"] == found.within
        assert level["missed"] == float(np.mean(found.errors))
        assert level["size"] == float(np.mean(found.sizes))
        assert round_down(trial.thresholds[0]) in level["text"]
        assert format_share(float(np.mean(found.errors))) in level["text"]
    assert [level["point"] for level in control["data"]] == [None, 0, 1, 2]
    none = control["data"][0]
    assert none["thresholds"] == []
    assert none["text"].startswith("At 0.1% there would be no guarantee: the data are too few")


def test_without_labelled_tasks_the_control_has_thresholds_alone(
    per_class: MetaPS, calibration: Scored
) -> None:
    trials = attempt(per_class, calibration, None)
    control = build(per_class, trials=trials, why_not=None)["control"]
    assert not control["measured"]
    assert control["data"][1]["missed"] is None
    assert control["data"][1]["text"].count(" for ") == 3  # a threshold for each class
    assert control["rows"][1]["within"] is None


def test_a_threshold_of_minus_infinity_is_written_as_json_can_hold_it(promise: MetaPS) -> None:
    trivial = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1, on_infeasible="trivial")
    trivial.calibrate([0.5] * 10, [0] * 10, allow=["task-names"])
    control = build(promise, trials=[Trial(0.2, True, trivial, None)], why_not=None)["control"]
    assert control["data"][0]["thresholds"] == ["-inf"]
    assert control["data"][0]["point"] is None
    assert "every label is kept" in control["data"][0]["text"]


def test_the_numbers_to_see_first(promise: MetaPS, per_class: MetaPS, labelled: Scored) -> None:
    evaluation = labelled.evaluate(promise, false_alarm=0.05, allow=())
    figures = build(promise, evaluation=evaluation)["figures"]
    assert figures[0] == ("40", "hospitals calibrated on")
    assert figures[1].value == round_down(promise.threshold_)
    within = int(np.sum(evaluation.errors <= 0.2))
    assert figures[2] == (f"{within} of 20", "new hospitals with at most 20% missed")
    assert evaluation.sizes is not None
    assert evaluation.set_shares is not None
    assert figures[3].value == f"{np.mean(evaluation.sizes):.2f}"
    full = format_share(evaluation.set_shares["full"])
    assert figures[5:] == [(full, "lists with every label: a person decides")]
    each = labelled.evaluate(per_class, false_alarm=0.05, allow=())
    figures = build(per_class, evaluation=each)["figures"]
    assert figures[1] == ("3", "classes, each with a threshold")
    assert figures[2].value == format_share(each.within)


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
    new = numbers.assign(site="new " + numbers.site)
    with open_source(numbers) as old, open_source(new) as table:
        data = Tabled(table, {})
        evaluation = data.evaluate(promise, false_alarm=0.05, allow=())
        trials = attempt(promise, Tabled(old, {}), data)
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
    assert f"An interval is {promised['width']:.4g} wide on average." in promised["text"]
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
