"""The slider for epsilon: exact numbers, and sentences, at other miss rates."""

from __future__ import annotations

import numpy as np
import pytest

from metapac import Context, MetaPS, Scored
from metapac.guarantee import format_share
from metapac.report.levels import Trial, build_slider
from metapac.words import Words, round_down
from tests.report.conftest import attempt

WORDS = Words.from_context(Context(unit="hospital", example="patient"))


def test_the_slider_embeds_exact_numbers(
    promise: MetaPS, calibration: Scored, labelled: Scored
) -> None:
    trials = attempt(promise, calibration, labelled)
    slider = build_slider(trials, WORDS, {})
    assert slider["start"] == 2
    assert [row["epsilon"] for row in slider["rows"]] == ["0.1%", "10%", "20%", "30%"]
    for level, trial in zip(slider["data"][1:], trials[1:], strict=True):
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
    assert [level["point"] for level in slider["data"]] == [None, 0, 1, 2]
    none = slider["data"][0]
    assert none["thresholds"] == []
    assert none["text"].startswith("At 0.1% there would be no guarantee: the data are too few")


def test_without_labelled_tasks_the_slider_has_thresholds_alone(
    per_class: MetaPS, calibration: Scored
) -> None:
    trials = attempt(per_class, calibration, None)
    slider = build_slider(trials, WORDS, {})
    assert not slider["measured"]
    assert slider["data"][1]["missed"] is None
    assert slider["data"][1]["text"].count(" for ") == 3  # a threshold for each class
    assert slider["rows"][1]["within"] is None


def test_a_threshold_of_minus_infinity_is_written_as_json_can_hold_it() -> None:
    trivial = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1, on_infeasible="trivial")
    trivial.calibrate([0.5] * 10, [0] * 10, allow=["task-names"])
    slider = build_slider([Trial(0.2, True, trivial, None)], WORDS, {})
    assert slider["data"][0]["thresholds"] == ["-inf"]
    assert slider["data"][0]["point"] is None
    assert "every label is kept" in slider["data"][0]["text"]


def test_in_the_worst_class_a_share_of_tasks_stays_within(
    per_class: MetaPS, calibration: Scored, labelled: Scored
) -> None:
    trials = attempt(per_class, calibration, labelled)
    (promised,) = [trial for trial in trials if trial.is_promised]
    assert promised.evaluation is not None
    within = f"Then {format_share(promised.evaluation.within)} of the new hospitals, in the worst"
    assert within in build_slider(trials, WORDS, {})["data"][2]["text"]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({}, "At 20%, a label needs a score of at least -2.5."),
        (
            {"prediction": "p"},
            "At 20%, an interval is the predicted number plus and minus 2.5 (rounded up).",
        ),
        (
            {"prediction": "p", "scale": "sd"},
            "At 20%, an interval is the predicted number plus and minus 2.5 times its scale "
            "(rounded up).",
        ),
    ],
)
def test_columns_tell_intervals_from_lists(columns: dict[str, str], text: str) -> None:
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1, split="tight").combine([-2.5] * 20)
    slider = build_slider([Trial(0.2, True, method, None)], WORDS, columns)
    assert slider["data"][0]["text"] == text
    assert slider["extent"] is None
