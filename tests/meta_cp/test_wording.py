"""The guarantee of Meta-CP in words, and what infeasible tasks lack."""

from __future__ import annotations

import pytest

from metapac.fewshot.meta_cp import describe_guarantee, explain_shortage


def test_the_sentence_over_tasks() -> None:
    assert describe_guarantee("tasks", 0.1, 0.01, tasks=40, offset=0.25) == (
        "With confidence 99% over the draw of the 40 calibration tasks and their examples, the "
        "sets {label: score >= -(quantile + 0.25)} miss the true label at most 10% of the time on "
        "average over new tasks; this is no guarantee for each task; it holds provided that tasks "
        "are drawn i.i.d. from one distribution, that calibration and new examples are sampled in "
        "the same way (all balanced by class, or none), that no calibration task was seen in "
        "training, "
        "and that the same fixed score function and quantile predictor are used for all tasks."
    )


def test_the_sentence_over_examples_says_what_the_average_is_over() -> None:
    sentence = describe_guarantee("examples", 0.1, 0.01, tasks=40, offset=0.25)
    assert "over the draw of the examples of the 40 calibration tasks" in sentence
    assert "on average over the draw of the calibration tasks and of a new one" in sentence
    assert "no guarantee for each task" in sentence


@pytest.mark.parametrize(
    ("over", "min_size", "condition"),
    [
        ("tasks", 50, ""),
        ("examples", 50, " with at least 50 examples"),
        ("examples", 1, " with at least 1 example"),
    ],
)
def test_a_shortage_names_what_the_tasks_must_have(
    over: str, min_size: int, condition: str
) -> None:
    text = str(explain_shortage(over, 0.1, 0.01, 60, min_size))
    assert "cannot be guaranteed on average over tasks: this takes" in text
    assert f" tasks{condition}, but there are 60 tasks." in text
    assert "settle for epsilon=" in text
