"""What a guarantee does not say: for each kind of guarantee, and in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from metapac import Context, Guarantee
from metapac.words import (
    Rule,
    Words,
    find_limits,
    find_pooled_limits,
    list_limits,
    summarise_limits,
)

HOSPITALS = Context(unit="hospital", example="patient")
WORDS = Words.from_context(HOSPITALS)
LEVELS: dict[str, Any] = {"epsilon": 0.03, "alpha": 0.1, "delta": 0.01}
RULE = Rule(None, 0.03, 0.5, 60, 9)
PART = "for a part of the patients, such as one age group, or for one patient: "
CLASSES = [
    "for one class alone: a rare class may be missed far more often, even always",
    "for another mix of classes, such as the natural one after a calibration balanced by class",
]


def test_a_list_ends_with_what_every_guarantee_leaves_open() -> None:
    assert list_limits(WORDS, ["on Sundays"]).splitlines() == [
        "It does not hold",
        "- on Sundays",
        "- for hospitals unlike these, or once their patients change",
        "- for another model, or once the model or its scores change",
    ]


@pytest.mark.parametrize("is_interval", [False, True])
def test_only_sets_of_labels_have_classes(is_interval: bool) -> None:
    single, *classes, part = find_limits(
        WORDS, Guarantee(**LEVELS), [RULE], is_interval=is_interval
    )
    assert single == (
        "for each single hospital: up to 10% of them may be worse, and nobody knows which"
    )
    assert classes == ([] if is_interval else CLASSES)
    assert part == f"{PART}3% is a share of all patients of one hospital"


def test_each_class_may_fail_elsewhere() -> None:
    assert find_limits(WORDS, Guarantee(**LEVELS, per_class=True), [RULE]) == [
        "for each single hospital: for each class up to 10% of them may be worse, not necessarily "
        "the same ones",
        f"{PART}the shares are those of all patients of one class and hospital",
    ]


@pytest.mark.parametrize(
    ("per_class", "left_out", "limit"),
    [
        (False, 0, "for hospitals with fewer than 45 patients"),
        (False, 4, "for hospitals with fewer than 45 patients (4 left out of the calibration)"),
        (True, 0, "for hospitals with fewer than 45 patients of the class"),
        (True, 4, "for hospitals with fewer than 45 patients of the class"),
    ],
)
def test_small_tasks_are_excluded(per_class: bool, left_out: int, limit: str) -> None:
    g = Guarantee(**LEVELS, min_examples=45, per_class=per_class)
    assert find_limits(WORDS, g, [RULE._replace(left_out=left_out)])[-1] == limit


def test_a_bound_over_all_examples_covers_no_single_task() -> None:
    assert find_pooled_limits(WORDS, 0.1, "it may be worse") == [
        "for any one hospital: it may be worse",
        *CLASSES,
        f"{PART}10% is a share of all patients",
    ]


def test_the_limits_in_one_sentence() -> None:
    text = summarise_limits(Guarantee(**LEVELS), HOSPITALS)
    assert text == (
        "It does not hold for one class alone (a rare one may always be missed), for hospitals "
        "unlike these, or once the model or its scores change."
    )
    assert "class" not in summarise_limits(Guarantee(**LEVELS, per_class=True), HOSPITALS)
    assert "class" not in summarise_limits(Guarantee(**LEVELS), HOSPITALS, {"prediction": "guess"})
