"""Groups: their names, the division into training and calibration, the rows to adapt to."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.naive_bayes import GaussianNB

from metapac import InfeasibleGuarantee, InvalidInput, MetaPS, sklearn
from metapac.data_checks import CheckWarning
from metapac.sklearn import Division, MetaPSClassifier, MetaPSRegressor
from tests.helpers.group_data import LEVELS

NAMES = st.lists(st.integers(0, 30).map("s{}".format), min_size=2, max_size=80)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (None, r"groups must name the site.*enable_metadata_routing=True"),
        ("site", "groups are the tasks: .* got 'site'"),
        (["a", None], "groups are the tasks: tasks holds missing ids"),
        ([0.5, 1.5], "groups are the tasks: tasks must be strings or integers, got the float 0.5"),
        (["a", 1], "groups are the tasks: tasks must hold ids of one type"),
        ([("a", 1)], "groups are the tasks: tasks must be strings or integers"),
        ([[1], [2]], "groups are the tasks: unhashable"),
        (pd.DataFrame({"site": ["a"]}), "groups are the tasks: tasks must be one-dimensional"),
        (["ohio", "ohio "], "groups are the tasks: names of groups differ only in spaces"),
    ],
)
def test_bad_groups_are_refused(groups: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        sklearn.as_groups(groups)


def test_groups_may_be_dates_and_alike_if_allowed() -> None:
    days = [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)]
    assert sklearn.as_groups(days).tolist() == ["2026-01-01", "2026-01-02"]
    assert sklearn.as_groups(["ohio", "ohio "], ["task-names"]).tolist() == ["ohio", "ohio "]
    with pytest.warns(CheckWarning, match="case"):
        sklearn.as_groups(["ohio", "Ohio"])


@given(NAMES, st.floats(0.01, 0.99), st.integers(0, 5), st.randoms())
def test_groups_are_divided_whole_and_whatever_the_order_of_rows(
    names: list[str], share: float, rng: int, random: Any
) -> None:
    total = len(set(names))
    if total < 2:
        with pytest.raises(InvalidInput, match="of the 1 groups, and leave one to train on"):
            sklearn.divide_groups(np.array(names), share, rng)
        return
    division = sklearn.divide_groups(np.array(names), share, rng)
    training, calibration = set(division.training), set(division.calibration)
    assert training
    assert calibration
    assert not training & calibration
    assert training | calibration == set(names)
    assert len(calibration) == min(max(round(share * total), 1), total - 1)
    shuffled = random.sample(names, len(names))
    assert sklearn.divide_groups(np.array(shuffled), share, rng) == division
    assert sklearn.divide_groups(np.array(names), len(calibration), rng) == division
    # A larger number adds groups to a smaller one, as the advice on calibration= assumes.
    fewest = sklearn.divide_groups(np.array(names), 1, rng)
    assert fewest.calibration + fewest.training == division.calibration + division.training


def test_every_group_is_as_likely_to_calibrate() -> None:
    groups = np.array([f"s{i}" for i in range(10)])
    counts = dict.fromkeys(groups.tolist(), 0)
    for rng in range(4000):
        for name in sklearn.divide_groups(groups, 3, rng).calibration:
            counts[name] += 1
    # Binomial(4000, 0.3): 5.5 standard deviations, for ten groups a false alarm of 4e-7.
    assert max(abs(count - 1200) for count in counts.values()) < 5.5 * np.sqrt(4000 * 0.21)


@pytest.mark.parametrize("calibration", [0, 4, -1, 0.0, 1.0, 1.5, True, None, "half", np.nan])
def test_a_bad_share_is_refused(calibration: Any) -> None:
    with pytest.raises(InvalidInput, match="calibration must be .* of the 4 groups"):
        sklearn.divide_groups(np.array(list("abcd")), calibration, 0)


def test_calibration_groups_may_be_listed() -> None:
    groups = np.array([3, 1, 1, 2, 4])
    division = sklearn.divide_groups(groups, np.array([4, 1]), 0)
    assert division == Division([2, 3], [1, 4], is_drawn=False)
    for bad, got in [([1, 7], "7"), ([], "[]"), ([1, 2, 3, 4], "[1, 2, 3, 4]"), ({1: 2}, "{1: 2}")]:
        with pytest.raises(InvalidInput, match=re.escape(f"leave one to train on, got {got}.")):
            sklearn.divide_groups(groups, bad, 0)


@given(NAMES)
def test_rows_and_means_of_groups(names: list[str]) -> None:
    groups, values = np.array(names), np.arange(len(names)) ** 2
    some = sorted(set(names))[::2]
    rows = [i for i, name in enumerate(names) if name in some]
    assert sklearn.rows_of(groups, some).tolist() == rows
    means = sklearn.mean_by_group(groups, values)
    assert set(means) == set(names)
    for name, mean in means.items():
        members = [i**2 for i, other in enumerate(names) if other == name]
        assert mean == pytest.approx(sum(members) / len(members), rel=1e-12)


@given(NAMES, st.integers(1, 4), st.integers(0, 5))
def test_support_is_drawn_within_each_group(names: list[str], shots: int, rng: int) -> None:
    groups = np.array(names)
    small = [name for name in set(names) if names.count(name) <= shots]
    if small:
        with pytest.raises(InvalidInput, match=f"shots={shots} takes {shots} rows of each group"):
            list(sklearn.draw_support(groups, shots, rng))
        return
    drawn = list(sklearn.draw_support(groups, shots, rng))
    assert len(drawn) == len(set(names))
    for support, query in drawn:
        assert len(support) == shots
        assert len(set(groups[support]) | set(groups[query])) == 1
    everything = np.concatenate([rows for pair in drawn for rows in pair])
    assert sorted(everything.tolist()) == list(range(len(names)))


def test_support_does_not_depend_on_other_rows() -> None:
    groups = np.repeat(["b", "a", "c"], 10)
    positions = [set(support % 10) for support, _ in sklearn.draw_support(groups, 4, 1)]
    later = np.repeat(["a", "b", "c"], 10)
    assert [set(s % 10) for s, _ in sklearn.draw_support(later, 4, 1)] == positions
    assert len({*map(frozenset, positions)}) > 1


def fit(sizes: list[int], calibration: Any = 0.5, extra: int = 0, **changes: Any) -> None:
    """Fit on groups of given sizes, each with further rows to adapt to."""
    groups = np.repeat([f"s{i}" for i in range(len(sizes))], np.array(sizes) + extra)
    x, y = np.random.default_rng(0).random((2, len(groups)))
    options: Any = LEVELS | changes | {"shots": extra, "calibration": calibration}
    MetaPSRegressor(DummyRegressor(), **options).fit(x[:, None], y, groups)


def test_feasibility_is_that_of_calibrate() -> None:
    for calibration in (1, 9, *range(11, 16), 39):
        scores = np.random.default_rng(0).random(25 * calibration)
        tasks = np.repeat(np.arange(calibration), 25)
        try:
            MetaPS(**LEVELS).calibrate(scores, tasks, allow=["duplicates"])
        except InfeasibleGuarantee:
            with pytest.raises(InfeasibleGuarantee, match=f"{calibration} of 40 calibrate"):
                fit([25] * 40, calibration)
            with pytest.raises(InfeasibleGuarantee, match=f"there .* {calibration} task"):
                fit([25] * calibration, extra=5)
        else:
            fit([25] * 40, calibration)
            fit([25] * calibration, extra=5)


def test_the_number_of_groups_in_the_message_is_the_least_that_works() -> None:
    sizes = np.random.default_rng(0).integers(5, 60, 60).tolist()
    with pytest.raises(InfeasibleGuarantee, match="Groups are the tasks here: 3 of 60") as caught:
        fit(sizes, 3)
    enough = int(str(caught.value).rpartition("calibration=")[2].split()[0])
    fit(sizes, enough)
    with pytest.raises(InfeasibleGuarantee):
        fit(sizes, enough - 1)


def test_enough_groups_of_a_size_are_named() -> None:
    """Small groups are too many, however many calibrate; without them there are enough."""
    sizes = [40, 40, 2] * 40
    with pytest.raises(InfeasibleGuarantee, match=r"use min_examples=3, .* and the others train"):
        fit(sizes, 60)
    fit(sizes, 60, min_examples=3)


def test_without_enough_groups_no_number_is_named() -> None:
    with pytest.raises(InfeasibleGuarantee, match=r"3 of 8 calibrate, and the others train\.$"):
        fit([40] * 8, 3)
    with pytest.raises(InfeasibleGuarantee, match=r"3 of 40 calibrate, and the others train\.$"):
        fit([40] * 40, ["s0", "s1", "s2"])
    with pytest.raises(InfeasibleGuarantee, match=r"intervals of infinite width\.$"):
        fit([40] * 8, extra=3)
    fit([40] * 8, extra=3, on_infeasible="trivial")


def fit_classes(yes: list[int], **changes: Any) -> Any:
    """Fit on groups with 40 rows of "no" and a number of rows of "yes" each."""
    number = len(yes)
    groups = np.append(np.repeat(np.arange(number), 40), np.repeat(np.arange(number), yes))
    y = np.repeat(["no", "yes"], [40 * number, sum(yes)])
    x = np.random.default_rng(0).normal(size=(len(y), 1)) + (y == "yes")[:, None]
    options: Any = LEVELS | {"per_class": True, "calibration": 30} | changes
    return MetaPSClassifier(GaussianNB(), **options).fit(x, y, groups)


def test_each_class_is_counted() -> None:
    with pytest.raises(InfeasibleGuarantee, match="for 1 of 2 classes: class 'yes'.*30 of 40 cali"):
        fit_classes([2] * 40)
    with pytest.raises(InfeasibleGuarantee, match=r"6 of 120 calibrate, and the others train\.$"):
        fit_classes([40, 40, 2] * 40, calibration=6)
    with pytest.raises(InfeasibleGuarantee, match="30 of the 30 tasks.*30 of 40 calibrate"):
        fit_classes([0] * 30 + [40] * 10, calibration=np.arange(30))  # in training only


def test_classes_cannot_be_counted_before_the_support_is_drawn() -> None:
    with pytest.raises(InfeasibleGuarantee) as caught:
        fit_classes([2] * 40, shots=3)
    assert "Groups are the tasks here" not in str(caught.value)
