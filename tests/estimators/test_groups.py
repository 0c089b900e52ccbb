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

from metapac import InfeasibleGuarantee, InvalidInput, MetaPS, sklearn
from metapac.findings import CheckWarning
from metapac.sklearn import Counted, Division
from tests.helpers.group_data import LEVELS

NAMES = st.lists(st.integers(0, 30).map("s{}".format), min_size=2, max_size=80)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (None, r"groups must name the site.*enable_metadata_routing=True"),
        ("site", r"groups must be the column .*, not its name: pass groups=frame\['site'\]"),
        (["a", None], "groups are the tasks: tasks holds missing ids"),
        ([0.5, 1.5], "groups are the tasks: tasks must be strings or integers, got the float 0.5"),
        (["a", 1], "groups are the tasks: tasks must hold ids of one type"),
        ([("a", 1)], "groups are the tasks: tasks must be strings or integers"),
        ([[1], [2]], "groups are the tasks: tasks must hold hashable ids"),
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
        with pytest.raises(InvalidInput, match="groups must hold at least two groups.*got 1"):
            sklearn.divide_groups(np.array(names), share, rng)
        return
    division = sklearn.divide_groups(np.array(names), share, rng)
    training, calibration = set(division.training), set(division.calibration)
    assert training
    assert calibration
    assert not training & calibration
    assert training | calibration == set(names)
    assert abs(len(calibration) - share * total) <= 1
    shuffled = random.sample(names, len(names))
    assert sklearn.divide_groups(np.array(shuffled), share, rng) == division
    assert sklearn.divide_groups(np.array(names), len(calibration), rng) == division


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
    with pytest.raises(InvalidInput, match="a number of groups from 1 to 3, or a list of groups"):
        sklearn.divide_groups(np.array(list("abcd")), calibration, 0)


def test_calibration_groups_may_be_listed() -> None:
    groups = np.array([3, 1, 1, 2, 4])
    division = sklearn.divide_groups(groups, np.array([4, 1]), 0)
    assert division == Division([2, 3], [1, 4], is_drawn=False)
    with pytest.raises(InvalidInput, match="must list some of the groups 1, 2, 3, 4, got 7"):
        sklearn.divide_groups(groups, [1, 7], 0)
    with pytest.raises(InvalidInput, match="must list some of the groups 1, 2, 3, 4, got none"):
        sklearn.divide_groups(groups, [], 0)
    with pytest.raises(InvalidInput, match="lists every group, and none is left to train on"):
        sklearn.divide_groups(groups, [1, 2, 3, 4], 0)
    with pytest.raises(InvalidInput, match="calibration must list groups, got {1: 2}"):
        sklearn.divide_groups(groups, {1: 2}, 0)


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


def counted(sizes: list[int], shots: int = 0) -> Counted:
    groups = np.repeat([f"s{i}" for i in range(len(sizes))], sizes)
    return Counted(groups, None, None, shots)


def divide(count: Counted, calibration: int) -> Division:
    return sklearn.divide_groups(count.groups, calibration, 0)


@pytest.mark.parametrize("shots", [0, 5])
def test_feasibility_is_that_of_calibrate(shots: int) -> None:
    method = MetaPS(**LEVELS)
    for calibration in (1, 9, *range(11, 16), 39):
        count = counted([25 + shots] * 40, shots)
        scores = np.random.default_rng(0).random(25 * calibration)
        tasks = np.repeat(np.arange(calibration), 25)
        try:
            MetaPS(**LEVELS).calibrate(scores, tasks, allow=["duplicates"])
        except InfeasibleGuarantee:
            with pytest.raises(InfeasibleGuarantee, match=f"{calibration} of 40 calibrate"):
                sklearn.check_feasible(method, divide(count, calibration), count)
        else:
            sklearn.check_feasible(method, divide(count, calibration), count)


def test_the_number_of_groups_in_the_message_is_the_least_that_works() -> None:
    sizes = np.random.default_rng(0).integers(5, 60, 60).tolist()
    count, method = counted(sizes), MetaPS(**LEVELS)
    with pytest.raises(InfeasibleGuarantee, match="Groups are the tasks here: 3 of 60") as caught:
        sklearn.check_feasible(method, divide(count, 3), count)
    enough = int(str(caught.value).rpartition("calibration=")[2].split()[0])
    sklearn.check_feasible(method, divide(count, enough), count)
    with pytest.raises(InfeasibleGuarantee):
        sklearn.check_feasible(method, divide(count, enough - 1), count)


def test_enough_groups_of_a_size_are_named() -> None:
    """Small groups are too many, however many calibrate; without them there are enough."""
    count, method = counted([40, 40, 2] * 40), MetaPS(**LEVELS)
    with pytest.raises(InfeasibleGuarantee, match=r"use min_examples=3, .* and the others train"):
        sklearn.check_feasible(method, divide(count, 60), count)
    with pytest.raises(InfeasibleGuarantee) as caught:
        sklearn.check_feasible(method, divide(count, 6), count)
    found = re.search(
        r"6 of 120 calibrate, and calibration=(\d+) with min_examples=3 would do: for groups with "
        r"at least 3 rows\.$",
        str(caught.value),
    )
    assert found is not None
    enough, larger = int(found[1]), MetaPS(**LEVELS, min_examples=3)
    sklearn.check_feasible(larger, divide(count, enough), count)
    with pytest.raises(InfeasibleGuarantee):
        sklearn.check_feasible(larger, divide(count, enough - 1), count)


def test_without_enough_groups_no_number_is_named() -> None:
    count, method = counted([40] * 8), MetaPS(**LEVELS)
    with pytest.raises(InfeasibleGuarantee, match=r"3 of 8 calibrate, and the others train\.$"):
        sklearn.check_feasible(method, divide(count, 3), count)
    listed = Division([f"s{i}" for i in range(3, 40)], ["s0", "s1", "s2"], is_drawn=False)
    with pytest.raises(InfeasibleGuarantee, match="3 of 40 calibrate, and the others train"):
        sklearn.check_feasible(method, listed, counted([40] * 40))
    every = Division([], [f"s{i}" for i in range(8)])
    with pytest.raises(InfeasibleGuarantee, match="keep every label.$"):
        sklearn.check_feasible(method, every, count)
    sklearn.check_feasible(MetaPS(**LEVELS, on_infeasible="trivial"), every, count)


def test_classes_cannot_be_counted_before_the_support_is_drawn() -> None:
    groups, labels = np.repeat(np.arange(5), 40), np.tile(np.repeat(["no", "yes"], [38, 2]), 5)
    count = Counted(groups, labels, ("no", "yes"), 3)
    every = Division([], list(range(5)))
    sklearn.check_feasible(MetaPS(**LEVELS, per_class=True), every, count)
    with pytest.raises(InfeasibleGuarantee):
        sklearn.check_feasible(MetaPS(**LEVELS, per_class=True), every, count._replace(shots=0))


def test_each_class_is_counted() -> None:
    groups, labels = np.repeat(np.arange(40), 40), np.tile(np.repeat(["no", "yes"], [38, 2]), 40)
    method = MetaPS(**LEVELS, per_class=True)
    count = Counted(groups, labels, ("no", "yes"), 0)
    with pytest.raises(InfeasibleGuarantee, match="for 1 of 2 classes: class 'yes'"):
        sklearn.check_feasible(method, divide(count, 30), count)
    count = Counted(groups, labels, ("never", "no", "yes"), 0)
    with pytest.raises(InfeasibleGuarantee, match="for 2 of 3 classes: class 'never'"):
        sklearn.check_feasible(method, divide(count, 30), count)
