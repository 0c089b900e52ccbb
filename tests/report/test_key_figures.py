"""The numbers to see first, for each kind of guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import PS, Context, MetaPS, Monitor, Scored, evaluate
from metapac.guarantee import format_share
from metapac.report.findings import find_figures, read_course
from metapac.words import Words, round_down
from tests.report.conftest import draw_scores

WORDS = Words.from_context(Context(unit="hospital", example="patient"))


def test_the_numbers_to_see_first(promise: MetaPS, per_class: MetaPS, labelled: Scored) -> None:
    evaluation = evaluate(promise, labelled)
    figures = find_figures(promise, WORDS, evaluation, None)
    assert figures[0] == ("40", "hospitals calibrated on")
    assert figures[1].value == round_down(promise.threshold_)
    within = int(np.sum(evaluation.errors <= 0.2))
    assert figures[2] == (f"{within} of 20", "new hospitals with at most 20% missed")
    assert evaluation.sizes is not None
    assert evaluation.set_shares is not None
    assert figures[3].value == f"{np.mean(evaluation.sizes):.2f}"
    full = format_share(evaluation.set_shares["full"])
    assert figures[5:] == [(full, "lists with every label: a person decides")]
    each = evaluate(per_class, labelled)
    figures = find_figures(per_class, WORDS, each, None)
    assert figures[1] == ("3", "classes, each with a threshold")
    assert figures[2].value == format_share(each.within)


@pytest.mark.parametrize(
    ("columns", "figure"),
    [
        (None, ("-2.5", "score that a label needs (rounded down)")),
        ({"prediction": "p"}, ("± 2.5", "around the predicted number (rounded up)")),
        (
            {"prediction": "p", "scale": "sd"},
            ("± 2.5", "times its scale, around the predicted number (rounded up)"),
        ),
    ],
)
def test_columns_tell_intervals_from_lists(columns: Any, figure: tuple[str, str]) -> None:
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1, split="tight").combine([-2.5] * 20)
    method._name_columns(columns or {})
    assert find_figures(method, WORDS, None, None) == [("20", "hospitals calibrated on"), figure]


@pytest.mark.parametrize(
    ("columns", "figure"),
    [
        ({}, ("all labels", "are in every list")),
        ({"prediction": "p"}, ("all numbers", "are in every interval")),
    ],
)
def test_nothing_may_be_ruled_out(columns: dict[str, str], figure: tuple[str, str]) -> None:
    trivial = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1, on_infeasible="trivial")
    trivial.calibrate([0.5] * 10, [0] * 10, allow=["task-names"])._name_columns(columns)
    assert find_figures(trivial, WORDS, None, None) == [("1", "hospital calibrated on"), figure]


def test_a_guarantee_for_examples_counts_them() -> None:
    promise = PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 99))
    assert find_figures(promise, WORDS, None, None)[0] == ("99", "patients calibrated on")


def test_a_quiet_monitor_is_a_figure_and_an_alarm_is_not(promise: MetaPS) -> None:
    good = draw_scores([f"later {i}" for i in range(6)], 5)
    quiet = Monitor(promise)
    quiet.add(good.scores, good.tasks, good.labels)
    figures = find_figures(promise, WORDS, None, read_course(quiet, WORDS))
    assert figures[-1] == ("no alarm", "from the monitor, after 6 hospitals")
    loud, bad = Monitor(promise), draw_scores([f"bad {i}" for i in range(20)], 6)
    loud.add(bad.scores * 0, bad.tasks, bad.labels, allow=["direction"])
    assert loud.alarm is not None
    assert len(find_figures(promise, WORDS, None, read_course(loud, WORDS))) == 2
