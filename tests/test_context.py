"""A context is stored with the guarantee, and keeps tasks apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import PS, Context, InvalidInput, MetaPS, load
from metapac.context import as_context
from metapac.fewshot import MetaCP
from metapac.score_functions import ScoreFunction

SCORES = np.random.default_rng(0).random(400)
TASKS = np.repeat([f"h{i}" for i in range(10)], 40)
ABOUT = Context(model="triage 3.1", trained_on=["x", "y"], pilot=[1], unit="hospital")


def calibrate(context: Context | None, **options: Any) -> MetaPS:
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    return method.calibrate(SCORES, TASKS, context=context, **options)


def test_every_predictor_saves_and_loads_its_context(tmp_path: Path) -> None:
    predictors = [
        calibrate(ABOUT),
        PS(epsilon=0.1, delta=0.1).calibrate(SCORES, context=ABOUT),
        MetaCP(epsilon=0.3, delta=0.3).calibrate(SCORES, TASKS, np.zeros(10), context=ABOUT),
    ]
    for predictor in predictors:
        predictor.save(tmp_path / "p.json")
        assert load(tmp_path / "p.json").context_ == ABOUT == predictor.context_


def test_a_context_changes_no_threshold() -> None:
    assert calibrate(ABOUT).threshold_ == calibrate(None).threshold_
    assert calibrate(None).context_ == Context()


def test_json_holds_only_what_was_given() -> None:
    assert Context().to_json() == {}
    assert Context.from_json(None) == Context() == Context.from_json({"model": None, "unit": None})
    assert ABOUT.to_json() == {
        "model": "triage 3.1",
        "trained_on": ["x", "y"],
        "pilot": [1],
        "unit": "hospital",
    }
    assert Context.from_json(ABOUT.to_json() | {"later": 1}) == ABOUT


@pytest.mark.parametrize(
    ("name", "tasks", "shared"),
    [
        ("trained_on", ["h3", "z", "h5"], "2 tasks: 'h3', 'h5'"),
        ("pilot", np.array(["h3"]), "1 task: 'h3'"),
    ],
)
def test_tasks_that_were_used_before_are_refused(name: str, tasks: Any, shared: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} and .* share {shared}") as raised:
        calibrate(Context(**{name: tasks}))
    assert raised.value.parameters == (name,)


def test_numbers_and_texts_are_the_same_name() -> None:
    with pytest.raises(InvalidInput, match="share 1 task: 7"):
        Context(trained_on=[7]).check_calibration_tasks(["7"])
    with pytest.raises(InvalidInput, match="share 1 task: '7'"):
        Context(trained_on=["7"]).check_calibration_tasks([7])


def test_added_tasks_are_compared_too() -> None:
    predictor = calibrate(Context(trained_on=["new"]))
    with pytest.raises(InvalidInput, match="share 1 task: 'new'"):
        predictor.add(SCORES[:40], ["new"] * 40)
    predictor.add(SCORES[:40] / 2, ["other"] * 40)
    assert predictor.context_.trained_on == ("new",)


def test_score_functions_are_compared(tmp_path: Path) -> None:
    fitted = ScoreFunction("margin", temperature=1.5)
    about = Context(score=fitted)
    assert about == Context(score="margin(temperature=1.5)")
    for same in (None, fitted, "margin(temperature=1.5)"):
        about.check_score(same)
    # What a function computes is compared, not the tasks that its temperature was fitted on.
    provenance = ScoreFunction("margin", temperature=1.5, fitted_on=frozenset(["0a", "1b"]))
    assert Context(score=provenance).score == "margin(temperature=1.5); fitted_on=0a+1b"
    about.check_score(provenance)
    about = Context(score=provenance)
    about.check_score("margin(temperature=1.5)")
    Context(score="margin").check_score(ScoreFunction("margin", fitted_on=frozenset(["0a"])))
    with pytest.raises(InvalidInput, match=r"score must be 'margin\(temperature=1.5\)', the sc.*"):
        about.check_score("margin")
    with pytest.raises(InvalidInput, match="the score function that was calibrated, got 'probab"):
        about.check_score(ScoreFunction())
    with pytest.warns(UserWarning, match="names no score function.*'margin'"):
        Context().check_score("margin")
    method = calibrate(Context(score="margin"))
    method.save(tmp_path / "p.json")
    loaded = load(tmp_path / "p.json")
    assert isinstance(loaded, MetaPS)
    assert loaded.predict_set([[0.9, 0.0]], score="margin").shape == (1, 2)
    with pytest.raises(InvalidInput, match="score must be 'margin', the score function"):
        loaded.predict_set([[0.9, 0.0]], score="cumulative")


def test_models_are_compared() -> None:
    ABOUT.check_model(None)
    ABOUT.check_model("triage 3.1")
    with pytest.raises(InvalidInput, match="must be 'triage 3.1', .* got 'triage 4'") as raised:
        ABOUT.check_model("triage 4")
    assert raised.value.parameters == ("model",)
    with pytest.raises(InvalidInput, match="got 'Triage 3.1'"):
        ABOUT.check_model("Triage 3.1")
    with pytest.warns(UserWarning, match="names no model, so it cannot be compared with 'a'"):
        Context().check_model("a")
    with pytest.raises(InvalidInput, match="model must be a non-empty string, got ''"):
        Context().check_model("")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": 7}, "score must be a non-empty string, got 7"),
        ({"model": " "}, "model must be a non-empty string, got ' '"),
        ({"example": None}, "example must be a non-empty string, got None"),
        ({"unit": None}, "unit must be a non-empty string, got None"),
        ({"example": 3}, "example must be a non-empty string, got 3"),
        ({"trained_on": "ohio"}, "trained_on must be a list of task names"),
        ({"pilot": 3}, "pilot must be a list of task names"),
        ({"pilot": np.array([["a", "b"]])}, "pilot must be a list of task names"),
        ({"trained_on": pd.DataFrame({"state": ["a"]})}, "trained_on must be a list of task names"),
        ({"trained_on": {"a": 1}}, "trained_on must be a list of task names"),
        ({"pilot": [1.5]}, "pilot must be a list .*got 1.5"),
        ({"trained_on": [None]}, "trained_on must be a list .*got None"),
    ],
)
def test_invalid_values_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        Context(**options)
    assert raised.value.parameters == (*options,)


def test_a_context_must_be_one() -> None:
    with pytest.raises(InvalidInput, match="context must be a metapac.Context, got 'triage'"):
        as_context("triage")  # type: ignore[arg-type]


def test_tasks_are_kept_once_in_order() -> None:
    assert Context(trained_on=["b", "a", "b"]).trained_on == ("b", "a")
