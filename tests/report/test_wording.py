"""The parts of an explanation, and the assumptions that somebody has to vouch for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import PS, Context, MetaPS
from metapac.fewshot import MetaCP
from metapac.report.wording import NOT_ON_RECORD, list_assumptions, split_explanation
from metapac.words import Words


def predictors() -> list[Any]:
    """Return guarantees of every kind."""
    rng = np.random.default_rng(0)
    scores, tasks = rng.random(6000), np.repeat(np.arange(60), 100)
    labels = np.tile(["a", "b"], 3000)
    levels: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
    regression = MetaPS(**levels).calibrate(-scores, tasks)
    regression.columns_ = {"task": "site", "prediction": "p", "y": "y"}
    quantiles = rng.random(60)
    return [
        MetaPS(**levels).calibrate(scores, tasks),
        MetaPS(**levels, per_class=True).calibrate(scores, tasks, labels),
        MetaPS(**levels | {"delta": None}).calibrate(scores, tasks),
        MetaPS(**levels, min_examples=20).calibrate(scores, tasks),
        regression,
        PS(epsilon=0.1, delta=0.1).calibrate(scores),
        MetaCP(epsilon=0.2, delta=0.2).calibrate(scores, tasks, quantiles),
    ]


PREDICTORS = predictors()


@pytest.mark.parametrize("predictor", PREDICTORS, ids=lambda p: repr(p)[:40])
def test_no_word_of_an_explanation_is_lost(predictor: Any) -> None:
    text = predictor.explain()
    parts = split_explanation(text)
    limits = "\n".join(["It does not hold", *(f"- {limit}" for limit in parts.limits)])
    claim = "\n".join([parts.claim, *(f"- {item}" for item in parts.classes)])
    joined = [parts.basis, claim, parts.confidence, parts.conditions, limits, parts.use]
    assert "\n\n".join(joined) == text
    assert len(parts.limits) >= 4
    assert parts.conditions.startswith("It holds only if ")  # the template says what holds
    assert len(parts.classes) == (2 if getattr(predictor, "per_class", False) else 0)


@pytest.mark.parametrize("predictor", PREDICTORS, ids=lambda p: repr(p)[:40])
def test_every_guarantee_has_assumptions_to_sign(predictor: Any) -> None:
    words = Words.from_context(predictor.context_)
    statements = [item.statement for item in list_assumptions(predictor, words)]
    assert len(statements) == len({*statements}) >= 5
    assert all(statement.endswith(".") and statement[0].isupper() for statement in statements)
    assert any("at random from the same kind" in statement for statement in statements)
    assert any("not trained on" in statement for statement in statements)
    assert any(statement.endswith(" in the data are right.") for statement in statements)
    mixed = any("balanced by class" in statement for statement in statements)
    assert mixed == ("balanced by class" in predictor.promise_)


def test_what_is_on_record_stands_beside_the_assumption() -> None:
    scores, tasks = np.random.default_rng(0).random(6000), np.repeat(np.arange(60), 100)
    about = Context(
        model="triage", trained_on=["x"], pilot=["y", "z"], unit="hospital", example="patient"
    )
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1, min_examples=20)
    method.calibrate(scores, tasks, context=about)
    found = list_assumptions(method, Words.from_context(about))
    records = {item.statement: item.record for item in found}
    assert records["The model was not trained on any of these hospitals."] == (
        "On record: trained on 1 other hospital; none of them is among these, by name."
    )
    limits = "The limits (20% of the patients, 30% of the hospitals, a risk of 10%)"
    assert records[f"{limits} were chosen beforehand, or on other hospitals."] == (
        "On record: chosen on 2 pilot hospitals; none of them is among these, by name."
    )
    assert "New hospitals have at least 20 patients, like these." in records
    assert found[0].record == "On record: 6,000 patients in all."
    assert found[-1].record == "On record: triage."


def test_what_is_not_on_record_is_said() -> None:
    found = list_assumptions(PREDICTORS[0], Words.from_context(Context()))
    assert [item.record for item in found].count(NOT_ON_RECORD) == 3
