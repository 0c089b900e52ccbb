"""Rows that belong together within a task: one of each unit counts."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin

import metapac as mp
from metapac.grouping import hash_row
from metapac.report import report
from metapac.sklearn import MetaPSClassifier

LEVELS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.1}


def make(tasks: int = 40, units: int = 25, seed: int = 0, word: str = "site") -> pd.DataFrame:
    """Return rows in units of 1 to 4 rows, whose names occur in every task."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, tasks * units)
    unit = np.repeat(np.tile(np.arange(units), tasks), sizes)
    task = np.repeat(np.repeat(np.arange(tasks), units), sizes)
    frame = pd.DataFrame({"task": [f"{word} {i}" for i in task], "home": unit})
    frame["y"] = rng.choice(["no", "yes"], len(frame))
    frame["p"] = rng.random(len(frame))
    frame["no"] = np.where(frame.y == "no", frame.p, rng.random(len(frame)))
    frame["yes"] = np.where(frame.y == "yes", frame.p, rng.random(len(frame)))
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def draw_by_hand(frame: pd.DataFrame, rng: int) -> pd.DataFrame:
    """Return one row of each unit, by the rule as the docs state it."""
    drawn = []
    for (task, home), rows in frame.groupby(["task", "home"]):
        texts = [f"{rng}/{place}/{task}/{home}".encode() for place in range(len(rows))]
        place = int(np.argmin([int(hashlib.md5(text).hexdigest(), 16) for text in texts]))
        drawn.append(rows.sort_values("p").iloc[place])
    return pd.DataFrame(drawn)


FRAME, NEW = make(), make(seed=1, word="new")


def calibrate(frame: pd.DataFrame = FRAME, rng: int = 3, **changes: Any) -> mp.MetaPS:
    return mp.MetaPS(**LEVELS | changes).calibrate(frame.p, frame.task, within=frame.home, rng=rng)


def facts(predictor: mp.MetaPS) -> Any:
    """Return what was calibrated, with tasks in the order of their names."""
    data = predictor._evidence
    order = np.argsort(data.names)
    name = "threshold_" if predictor.classes_ is None else "thresholds_"
    tasks = data.names[order].tolist(), data.sizes[order].tolist(), data.thresholds[order].tolist()
    return tasks, np.ravel(getattr(predictor, name)).tolist(), data.within


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_each_row_of_a_unit_is_as_likely_as_the_others(size: int) -> None:
    # Seeds 0 to 9,999 for one unit, and 10,000 units for one seed. Fixed before it was run; each
    # p-value is below 1e-6 with probability 1e-6 if rows are equally likely.
    for names in (
        [(i, "a", "b") for i in range(10_000)],
        [(0, "a", str(i)) for i in range(10_000)],
    ):
        keys = [[hash_row(rng, place, *unit) for place in range(size)] for rng, *unit in names]
        counts = np.bincount([key.index(min(key)) for key in keys], minlength=size)
        assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("rng", [0, 3])
@pytest.mark.parametrize("per_class", [False, True])
def test_the_rows_drawn_are_those_drawn_by_hand(rng: int, per_class: bool) -> None:
    method, by_hand = mp.MetaPS(**LEVELS, per_class=per_class), draw_by_hand(FRAME, rng)
    rows = FRAME
    labels = (rows.y, by_hand.y) if per_class else (None, None)
    method.calibrate(rows.p, rows.task, labels[0], within=rows.home, rng=rng)
    found = facts(method)
    assert found[:2] == facts(method.calibrate(by_hand.p, by_hand.task, labels[1]))[:2]
    assert found[2] == (len(FRAME), len(by_hand), rng)


def test_misses_are_those_of_rows_drawn_by_hand() -> None:
    predictor, drawn = calibrate(), draw_by_hand(NEW, 3)
    found = mp.evaluate(predictor, NEW.p, NEW.task, within=NEW.home)
    missed = (drawn.p < predictor.threshold_).groupby(drawn.task).agg(["sum", "size"])
    counts = zip(found.missed.tolist(), found.examples.tolist(), strict=True)
    assert dict(zip(found.tasks, counts, strict=True)) == {
        task: tuple(row) for task, row in zip(missed.index, missed.values.tolist(), strict=True)
    }
    assert missed["sum"].sum() > 0
    assert found.drawn == (len(NEW), len(drawn), 3)
    assert f"{len(drawn):,} of {len(NEW):,}" in str(found)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_the_draw_depends_on_names_and_on_no_order_of_rows(seed: int, with_labels: bool) -> None:
    tied = FRAME.assign(p=FRAME.p.round(1))
    rows = np.random.default_rng(seed).permutation(len(FRAME))
    labels = {"per_class": True} if with_labels else {}
    both = []
    for frame in (tied, tied.iloc[rows]):
        method = mp.MetaPS(**LEVELS | labels)
        label = frame.y if with_labels else None
        both.append(facts(method.calibrate(frame.p, frame.task, label, within=frame.home)))
    assert both[0] == both[1]


def test_the_seed_matters_and_scores_do_not() -> None:
    assert facts(calibrate(rng=3)) != facts(calibrate(rng=4))
    # The places drawn are the same whatever the scores: a monotone change moves no draw.
    cubed = facts(calibrate(FRAME.assign(p=FRAME.p**3)))
    expected = np.array(facts(calibrate())[0][2]) ** 3
    np.testing.assert_allclose(np.array(cubed[0][2]), expected, rtol=1e-12)


def test_a_name_in_two_tasks_names_two_units() -> None:
    apart = FRAME.assign(home=FRAME.task + FRAME.home.map(str))
    assert calibrate()._evidence.within == calibrate(apart)._evidence.within


@pytest.mark.parametrize("kind", [str, float, "category", "Int64"])
def test_kinds_of_names_draw_alike(kind: Any) -> None:
    assert facts(calibrate(FRAME.assign(home=FRAME.home.astype(kind)))) == facts(calibrate())


def test_keeping_every_row_breaks_the_guarantee() -> None:
    # 41 % of tasks are bad: at a high threshold they miss 31 % of their units, where 30 % and
    # 40 % are allowed. Each unit has 30 copies. The probability of a high threshold is exact.
    g = mp.Guarantee(**LEVELS, split=0.1)
    kept, copied = (mp.allowed_errors(n, 0.3, g.alpha_within) for n in (12, 12 * 30))
    passes = stats.binom.cdf([kept, copied // 30], 12, 0.31)  # of a bad task
    allowed = mp.allowed_errors(60, g.alpha_across, 0.1)
    one, many = stats.binom.cdf(allowed, 60, 0.41 * (1 - passes)).tolist()
    assert one <= 0.1
    assert many > 0.5
    # With so many bad tasks, each of which misses as few as passes, the threshold is high for all
    # copies, and low for one of each unit.
    for is_drawn in (True, False):
        misses = (np.arange(60) < allowed + 1)[:, None] & (np.arange(12) <= kept)
        scores = np.where(misses, 0.0, 1.0).repeat(30, axis=1) + np.arange(360) / 1e4
        units = np.tile(np.arange(12).repeat(30), 60) if is_drawn else None
        method = mp.MetaPS(**LEVELS, split=0.1, on_infeasible="trivial")
        tasks = np.arange(60).repeat(360)
        method.calibrate(scores.ravel(), tasks, within=units, allow=["duplicates", "sets"])
        assert (method.threshold_ > 0.5) == (not is_drawn)


def test_sites_together_are_the_table(tmp_path: Path) -> None:
    sites = []
    for i, (name, rows) in enumerate(FRAME.groupby("task")):
        site = mp.make_site(mp.MetaPS(**LEVELS), rows.p, name=str(name), within=rows.home, rng=3)
        site.save(tmp_path / f"{i}.json")
        sites.append(mp.read_site(tmp_path / f"{i}.json"))
    together = mp.combine_sites(sites)
    assert facts(together) == facts(calibrate())
    other = mp.make_site(mp.MetaPS(**LEVELS), NEW.p, name="other", within=NEW.home, rng=4)
    unknown = mp.make_site(mp.MetaPS(**LEVELS), NEW.p, name="other")
    for site in (other, unknown):
        with pytest.raises(mp.InvalidInput, match="units"):
            mp.combine_sites([*sites, site])


def test_added_tasks_and_files_keep_the_draw(tmp_path: Path) -> None:
    both = pd.concat([FRAME, NEW])
    grown = calibrate().add(NEW.p, NEW.task, within=NEW.home)
    assert facts(grown) == facts(calibrate(both))
    grown.save(tmp_path / "promise.json")
    assert facts(mp.load(tmp_path / "promise.json")) == facts(grown)
    with pytest.raises(mp.InvalidInput, match="only some"):
        calibrate().add(NEW.p, NEW.task)


def test_monitor_counts_one_row_of_each_unit() -> None:
    monitor, by_hand = mp.Monitor(calibrate()), draw_by_hand(FRAME, 3)
    drawn = mp.Monitor(mp.MetaPS(**LEVELS).calibrate(by_hand.p, by_hand.task))
    monitor.add(NEW.p, NEW.task, within=NEW.home)
    by_hand = draw_by_hand(NEW, 3).set_index("task").loc[NEW.task.unique()]
    drawn.add(by_hand.p, by_hand.index)
    assert monitor.wealth == drawn.wealth


def test_explore_counts_one_row_of_each_unit() -> None:
    levels: dict[str, Any] = {"classes": ["no", "yes"], "epsilon": [0.3], "alpha": [0.4]}
    drawn = draw_by_hand(FRAME, 0).sort_index()  # in the order of the rows
    found, expected = (
        mp.explore(frame[["no", "yes"]].to_numpy(float), frame.task, frame.y, **levels, **within)
        for frame, within in ((FRAME, {"within": FRAME.home}), (drawn, {}))
    )
    assert found.to_dict() == expected.to_dict()


class _Known(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model whose features are its scores."""

    def fit(self, _x: Any, y: Any) -> _Known:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, x: Any) -> Any:
        return x / x.sum(axis=1, keepdims=True)


class _Untrained(_Known):
    def fit(self, _x: Any, _y: Any) -> _Known:
        raise AssertionError("trained")


def test_an_estimator_draws_from_its_calibration_groups() -> None:
    x = FRAME[["no", "yes"]].to_numpy()
    model = MetaPSClassifier(_Known(), **LEVELS, rng=3)
    model.fit(x, FRAME.y, FRAME.task, within=FRAME.home)
    drawn = model.meta_ps_._evidence.within
    used = FRAME[FRAME.task.isin(model.calibration_groups_)]
    assert drawn == (len(used), len(used[["task", "home"]].drop_duplicates()), 3)
    new = NEW[["no", "yes"]].to_numpy()
    judged = model.evaluate(new, NEW.y, NEW.task, within=NEW.home).drawn
    assert judged == (len(NEW), len(NEW[["task", "home"]].drop_duplicates()), 3)
    with pytest.raises(mp.InvalidInput, match="within"):
        model.evaluate(new, NEW.y, NEW.task)
    with pytest.raises(mp.InvalidInput, match="shots"):
        MetaPSClassifier(_Known(), **LEVELS, shots=1).fit(x, FRAME.y, FRAME.task, within=FRAME.home)


def test_units_decide_before_training_whether_an_estimator_can_be_calibrated() -> None:
    model = MetaPSClassifier(_Untrained(), **LEVELS | {"epsilon": 0.1})
    for within, error in ((None, AssertionError), (FRAME.home % 2, mp.InfeasibleGuarantee)):
        with pytest.raises(error):
            model.fit(FRAME[["no", "yes"]].to_numpy(), FRAME.y, FRAME.task, within=within)


def test_it_is_said_what_is_assumed(tmp_path: Path) -> None:
    predictor = calibrate()
    for text in (predictor.promise_, predictor.explain()):
        assert "independent" in text
        assert "a random example of a random unit" in text
        assert "seed 3" in text
    report(predictor, output=tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "each unit was drawn at random and independently of the others" in page
    assert "several of one household" not in page


HOLE = FRAME.home.astype(float).where(FRAME.index > 0, math.nan)
BAD: list[tuple[str, dict[str, Any]]] = [
    ("length", {"within": FRAME.home[1:].to_numpy()}),
    ("missing", {"within": HOLE}),
    ("missing", {"within": [None, *FRAME.home[1:]]}),
    ("single one", {"within": FRAME.task}),
    ("rng", {"within": FRAME.home, "rng": -1}),
    ("rng", {"within": FRAME.home, "rng": 0.5}),
]


@pytest.mark.parametrize(("text", "given"), BAD)
def test_bad_units(text: str, given: dict[str, Any]) -> None:
    with pytest.raises(mp.InvalidInput, match=text):
        mp.MetaPS(**LEVELS).calibrate(FRAME.p, FRAME.task, **given)


@pytest.mark.parametrize(
    ("text", "frame", "column"),
    [
        ("ward", FRAME, "ward"),
        ("missing|empty|NULL", FRAME.assign(home=HOLE), "home"),
        ("single one", FRAME.assign(home=FRAME.task), "home"),
        ("different columns", FRAME, "task"),
    ],
)
def test_bad_columns_of_units(text: str, frame: pd.DataFrame, column: str) -> None:
    def call() -> None:
        with mp.open_table(frame, mp.Columns(task="task", score="p", within=column)) as table:
            mp.MetaPS(**LEVELS).calibrate(table)

    with pytest.raises(mp.InvalidInput, match=text):
        call()


def test_units_must_be_named_where_they_were_calibrated() -> None:
    predictor = calibrate()
    for call in (
        lambda: mp.evaluate(predictor, NEW.p, NEW.task),
        lambda: mp.Monitor(predictor).add(NEW.p, NEW.task),
        lambda: mp.evaluate(predictor, mp.Scored(NEW.p, NEW.task)),
    ):
        with pytest.raises(mp.InvalidInput, match="within"):
            call()
