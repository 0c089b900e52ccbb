"""Any monotone risk: a loss becomes a miss, and all that holds for misses holds for losses."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import metapac as mp
from metapac.report import report
from tests.helpers.engines import ENGINES, put
from tests.helpers.forging import sign
from tests.helpers.refusals import assert_refused

LEVELS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.1}
GRID = np.linspace(0, 1, 21)


def make(tasks: int = 40, size: int = 25, seed: int = 0, word: str = "site") -> pd.DataFrame:
    """Return losses that grow with the threshold, faster on some tasks than on others."""
    rng = np.random.default_rng(seed)
    slope = np.repeat(rng.uniform(0.5, 1.5, tasks), size)[:, None]
    losses = np.minimum(1, slope * rng.random((tasks * size, 1)) * GRID)
    frame = pd.DataFrame(losses, columns=[f"loss_{i}" for i in range(len(GRID))])
    frame["site"] = np.repeat([f"{word} {i}" for i in range(tasks)], size)
    frame["image"] = np.tile(np.arange(size), tasks)
    return frame


def losses_of(frame: pd.DataFrame) -> NDArray[np.float64]:
    return np.asarray(frame.filter(like="loss_"))


FRAME, NEW = make(), make(seed=1, word="new")
LOSSES = losses_of(FRAME)


def calibrate(frame: pd.DataFrame = FRAME, **changes: Any) -> mp.MetaRisk:
    method = mp.MetaRisk(**LEVELS | changes)
    about = mp.Context(unit="hospital", example="image")
    return method.calibrate(losses_of(frame), frame.site, GRID, frame.image, context=about)


def new_losses(frame: pd.DataFrame = NEW) -> mp.Scored:
    return mp.Scored(losses_of(frame), frame.site, keys=frame.image)


# The theorem: a miss has the probability of the loss, and nothing else changes.


def test_misses_of_a_three_point_loss_are_binomial_with_its_mean_exactly() -> None:
    # All 6**4 outcomes of four examples with a loss of 0, 1/2 or 1 and V in either half of [0, 1).
    weight = {0.0: Fraction(5, 10), 0.5: Fraction(3, 10), 1.0: Fraction(2, 10)}
    outcomes = [*itertools.product(itertools.product(weight, (0, 1)), repeat=4)]
    losses, tasks, keys = [], [], []
    candidates = np.arange(60)
    for place, outcome in enumerate(outcomes):
        task = f"case {place}"
        halves = mp.risk.draw_limits(0, np.full(60, task), candidates) >= 0.5
        unused = {half: [*candidates[halves == half]] for half in (0, 1)}
        for loss, half in outcome:
            losses.append(loss)
            tasks.append(task)
            keys.append(unused[half].pop())
    promise = calibrate()
    found = mp.evaluate(promise, mp.Scored(losses, tasks, keys=keys), allow=["duplicates"])
    assert found.tasks.tolist() == sorted(set(tasks))
    chance: dict[int, Fraction] = defaultdict(Fraction)
    missed = dict(zip(found.tasks.tolist(), found.missed.tolist(), strict=True))
    for place, outcome in enumerate(outcomes):
        product = Fraction(1)
        for loss, _half in outcome:
            product *= weight[loss] / 2
        chance[missed[f"case {place}"]] += product
    mean = Fraction(3, 10) / 2 + Fraction(2, 10)
    assert chance == {k: math.comb(4, k) * mean**k * (1 - mean) ** (4 - k) for k in range(5)}


def test_a_loss_equal_to_its_number_is_no_miss_and_the_next_one_is() -> None:
    # Strict: with left-continuous losses the largest threshold with L <= V exists.
    promise, sites = calibrate(), np.repeat(["a", "b"], 30)
    limits = mp.risk.draw_limits(promise.rng, sites)
    assert mp.evaluate(promise, limits, sites).missed.tolist() == [0, 0]
    above = mp.evaluate(promise, np.nextafter(limits, 1), sites)
    assert above.missed.tolist() == [30, 30]


def test_numbers_are_uniform_and_differ_between_seeds_tasks_and_keys() -> None:
    sites, keys = np.repeat(["a", "b", "1", "11"], 5000), np.tile(np.arange(5000), 4)
    limits = mp.risk.draw_limits(0, sites, keys)
    assert stats.kstest(limits, "uniform").pvalue > 1e-6
    assert len(np.unique(limits)) == len(limits)
    assert not np.isin(mp.risk.draw_limits(1, sites, keys), limits).any()
    assert mp.risk.draw_limits(0, np.array(["1"]), ["1/2"]) != mp.risk.draw_limits(
        0, np.array(["1/1"]), ["2"]
    )
    pairs = limits.reshape(4, -1)
    for one, other in itertools.combinations(pairs, 2):
        assert stats.pearsonr(one, other).pvalue > 1e-7


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 99),
    dtype=st.sampled_from([np.float32, np.float64]),
    ties=st.booleans(),
    changes=st.sampled_from(
        [
            *({}, {"split": "tight"}, {"delta": None}, {"min_examples": 12}, {"split": 0.3}),
            *({"new_tasks": 20}, {"shift": 0.05}, {"randomise": 3}, {"sampling": "iid"}),
        ]
    ),
)
def test_losses_of_0_and_1_are_meta_ps(seed: int, dtype: Any, ties: bool, changes: Any) -> None:
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(40), rng.integers(5, 40, 40))
    scores = rng.normal(size=len(tasks)).astype(dtype)
    scores = scores.round(1) if ties else scores
    grid = np.unique(scores)
    levels = LEVELS | {"rng": seed} | changes
    mine = mp.MetaRisk(**levels).calibrate(scores[:, None] < grid, tasks, grid)
    levels.pop("rng")
    theirs = mp.MetaPS(**levels).calibrate(scores, tasks)
    assert mine.threshold_ == theirs.threshold_
    np.testing.assert_array_equal(mine.task_thresholds_, theirs.task_thresholds_)
    assert (mine.level_, mine.precision_) == (theirs.level_, theirs.precision_)
    kept = rng.normal(size=(7, 3)).astype(dtype)
    np.testing.assert_array_equal(mine.predict(kept), theirs.predict_set(kept))


# A share alpha of tasks has the loss tau in every example, the others none: the guarantee fails
# if the threshold exceeds epsilon. Each calibration has seeds of its own.
TASKS, SIZE, RUNS = 12, 12, 400
STEPS = np.array([0.1, 0.2, 0.3, 0.3001, 0.4])
FAILS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.6, "delta": 0.2, "split": "tight"}


def failures(runs: int = RUNS, seeds: int = 1) -> int:
    """Return how often the guarantee fails; of several seeds, the one that is liked best."""
    failed, names = 0, np.repeat(np.arange(TASKS), SIZE)
    for run in range(runs):
        hard = np.random.default_rng(run).random(TASKS) < FAILS["alpha"]
        losses = np.repeat(hard, SIZE)[:, None] * STEPS
        found = [
            mp.MetaRisk(**FAILS, rng=100 * run + i, on_infeasible="trivial")
            .calibrate(losses, names, STEPS)
            .threshold_
            for i in range(seeds)
        ]
        failed += max(found) > FAILS["epsilon"]
    return failed


@pytest.mark.filterwarnings("ignore:No threshold is certified")
def test_the_guarantee_fails_at_most_with_probability_delta() -> None:
    assert 0 < failures() <= stats.binom.ppf(1 - 1e-6, RUNS, 0.2)


@pytest.mark.filterwarnings("ignore:No threshold is certified")
def test_one_number_for_a_task_would_break_it(monkeypatch: Any) -> None:
    def shared(*given: Any) -> Any:
        return np.repeat(draw(*given)[::SIZE], SIZE)

    draw = mp.risk.draw_limits
    monkeypatch.setattr(mp.risk, "draw_limits", shared)
    assert failures(100) > stats.binom.ppf(1 - 1e-6, 100, 0.2)


@pytest.mark.filterwarnings("ignore:No threshold is certified")
def test_numbers_chosen_after_the_losses_would_break_it() -> None:
    assert failures(60, seeds=20) > stats.binom.ppf(1 - 1e-6, 60, 0.2)


# What comes with MetaPS.


def test_the_order_of_rows_does_not_matter_if_they_have_keys() -> None:
    mixed = FRAME.sample(frac=1, random_state=2)
    assert calibrate(mixed).threshold_ == calibrate().threshold_
    as_text = FRAME.assign(image=FRAME.image.map(str))
    assert calibrate(as_text).task_thresholds_.tolist() == calibrate().task_thresholds_.tolist()
    by_place = mp.MetaRisk(**LEVELS).calibrate(LOSSES, FRAME.site, GRID)
    assert by_place.task_thresholds_.tolist() == calibrate().task_thresholds_.tolist()
    assert "the place within its task of each" in by_place.promise_
    assert "the key of each" in calibrate().promise_
    assert calibrate(rng=1).task_thresholds_.tolist() != calibrate().task_thresholds_.tolist()


def test_losses_may_be_a_function_of_the_threshold() -> None:
    columns = dict(zip(GRID.tolist(), LOSSES.T, strict=True))
    called = mp.MetaRisk(**LEVELS).calibrate(columns.__getitem__, FRAME.site, GRID, FRAME.image)
    assert called.task_thresholds_.tolist() == calibrate().task_thresholds_.tolist()


def test_evaluation_takes_all_losses_or_those_at_the_threshold() -> None:
    promise = calibrate()
    place = int(np.flatnonzero(promise.threshold_ == GRID)[0])
    every, at = mp.evaluate(promise, new_losses()), losses_of(NEW)[:, place]
    one = mp.evaluate(promise, mp.Scored(at, NEW.site, keys=NEW.image))
    assert every.missed.tolist() == one.missed.tolist()
    limits = mp.risk.draw_limits(0, NEW.site.to_numpy(), NEW.image)
    assert every.missed.sum() == np.sum(at > limits)
    assert every.verdict is not None
    assert "hospitals have a risk of at most 30%" in every.verdict.sentence()
    assert "images" in str(every)
    assert not any(word in str(every) + repr(every) for word in ("label ", "miss rate", "sets"))


def test_adding_tasks_gives_what_calibrating_on_all_gives() -> None:
    both, added = pd.concat([FRAME, NEW]), calibrate().add(new_losses())
    assert added.task_thresholds_.tolist() == calibrate(both).task_thresholds_.tolist()
    assert added.columns_ == calibrate().columns_


def test_a_file_comes_back_and_a_forged_one_is_refused(tmp_path: Path) -> None:
    promise, path = calibrate(), tmp_path / "promise.json"
    promise.save(path)
    found = mp.load(path)
    assert type(found) is mp.MetaRisk
    assert (found.promise_, found.get_params()) == (promise.promise_, promise.get_params())
    assert found.explain() == promise.explain()
    assert (
        mp.evaluate(found, new_losses()).missed.tolist()
        == mp.evaluate(promise, new_losses()).missed.tolist()
    )
    document = json.loads(path.read_text())
    for name, value in (("seed", 1), ("thresholds", [0.1, 0.2]), ("thresholds", None)):
        forged = document | {"columns": document["columns"] | {name: value}}
        path.write_text(sign(forged))
        with pytest.raises(mp.BadArtefact):
            mp.load(path)


def test_sites_give_what_one_table_gives(tmp_path: Path) -> None:
    agreed, files = mp.MetaRisk(**LEVELS, rng=5), []
    for name, rows in FRAME.groupby("site"):
        own = mp.Scored(losses_of(rows), None, keys=rows.image, thresholds=GRID)
        site = mp.make_site(agreed, own, name=str(name))
        site.save(tmp_path / f"{name}.json")
        assert mp.read_site(tmp_path / f"{name}.json") == site
        files.append(tmp_path / f"{name}.json")
    together, pooled = mp.combine_sites(files), calibrate(rng=5)
    assert (type(together), together.threshold_) == (mp.MetaRisk, pooled.threshold_)
    assert together.get_params() == pooled.get_params()
    assert (
        mp.evaluate(together, new_losses()).missed.tolist()
        == mp.evaluate(pooled, new_losses()).missed.tolist()
    )
    together.save(tmp_path / "promise.json")
    assert mp.load(tmp_path / "promise.json").threshold_ == pooled.threshold_
    own = mp.Scored(losses_of(NEW), None, keys=NEW.index, thresholds=GRID)
    other = mp.make_site(mp.MetaRisk(**LEVELS, rng=6), own, name="other")
    assert_refused("losses options", mp.combine_sites, [*files, other])
    labels = mp.make_site(mp.MetaPS(**LEVELS), np.linspace(0, 1, 25), name="labels")
    assert_refused("losses options", mp.combine_sites, [*files, labels])
    assert_refused(
        "tasks site", mp.make_site, agreed, mp.Scored(LOSSES, FRAME.site, thresholds=GRID), name="x"
    )


def test_clusters_and_units_are_drawn_as_for_scores() -> None:
    group, home = FRAME.site.str[:6], FRAME.image // 2
    wide = mp.MetaRisk(**LEVELS | {"alpha": 0.6})
    drawn = wide.calibrate(LOSSES, FRAME.site, GRID, clusters=group)
    assert drawn.clusters_ is not None
    assert len(drawn.tasks_) == group.nunique()
    units = mp.MetaRisk(**LEVELS).calibrate(LOSSES, FRAME.site, GRID, FRAME.image, within=home)
    assert set(units.task_sizes_.tolist()) == {13}
    assert "random unit" in units.promise_


def test_monitor_and_report_speak_of_the_risk(tmp_path: Path) -> None:
    promise = calibrate()
    promise.save(tmp_path / "promise.json")
    watched = mp.Monitor(mp.load(tmp_path / "promise.json"))
    watched.add(new_losses(), batch="january")
    watched.save(tmp_path / "monitor.json")
    again = mp.Monitor.load(tmp_path / "monitor.json", promise)
    assert str(again) == str(watched)
    bad = mp.Scored(np.full(600, 0.9), np.arange(20).repeat(30), keys=np.tile(np.arange(30), 20))
    watched.add(bad, batch="february")
    assert watched.alarm is not None
    assert "new hospitals have a risk above 30%. Stop relying on it" in str(watched)
    assert not any(word in str(watched) for word in ("miss rate", "these sets", "label"))
    html = report(tmp_path / "promise.json", new_losses(), monitor=tmp_path / "monitor.json")
    assert "Risk of each new hospital" in html
    assert "the mean loss is at most 30%" in html
    assert not any(word in html for word in ("miss rate", "true label", "sets are made"))
    assert f"What scores at least {promise.threshold_:g} is kept" in html


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_give_what_arrays_give(engine: str, tmp_path: Path) -> None:
    columns = mp.Columns(task="site", id="image", losses="loss_*", thresholds=GRID.tolist())
    mixed = FRAME.sample(frac=1, random_state=3)
    mixed.to_csv(tmp_path / "losses.csv", index=False)
    for source in (put(engine, mixed), tmp_path / "losses.csv"):
        promise = mp.MetaRisk(**LEVELS).calibrate(mp.open_table(source, columns))
        assert promise.tasks_.tolist() == sorted(promise.tasks_.tolist())
        order = np.argsort(calibrate().tasks_)
        assert promise.task_thresholds_.tolist() == calibrate().task_thresholds_[order].tolist()
    found, wanted = mp.evaluate(promise, mp.open_table(NEW)), mp.evaluate(calibrate(), new_losses())
    assert found.missed.tolist() == wanted.missed.tolist()
    at = f"loss_{GRID.tolist().index(promise.threshold_)}"
    one = mp.open_table(NEW, mp.Columns(losses=at))
    assert mp.evaluate(promise, one).missed.tolist() == wanted.missed.tolist()
    above = mp.open_table(mixed.assign(loss_20=9.0), columns)
    with pytest.raises(mp.InvalidInput, match=r"9 at threshold .* \(id \d+, in task 'site 0'\)"):
        mp.MetaRisk(**LEVELS).calibrate(above)
    with pytest.raises(mp.InvalidInput, match="id holds '7' twice"):
        mp.MetaRisk(**LEVELS).calibrate(mp.open_table(FRAME.assign(image=7), columns))


# Misuse speaks up.


def swap(matrix: NDArray[Any], row: int, values: Any) -> NDArray[Any]:
    changed = matrix.copy()
    changed[row] = values
    return changed


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("losses decrease row 30 'site 1' 0.7 0.2 accumulate", {
            "losses": swap(LOSSES, 30, [0.5] * 19 + [0.7, 0.2])}),
        ("losses decrease negate", {"losses": LOSSES[:, ::-1]}),
        ("losses between 1.5 row 30 'site 1'", {"losses": swap(LOSSES, 30, [0.5] * 20 + [1.5])}),
        ("losses between -0.1", {"losses": swap(LOSSES, 30, [-0.1] + [0.5] * 20)}),
        ("losses between nan row 30", {"losses": swap(LOSSES, 30, [0.5] * 20 + [np.nan])}),
        ("losses between nan", {"losses": swap(LOSSES, 30, [0.1] + [np.nan] * 20)}),
        ("losses between row 0 'site 0'", {"losses": LOSSES * 100}),
        ("losses column 21 (1000, 20)", {"losses": LOSSES[:, :20]}),
        ("losses column", {"losses": LOSSES[:, 3]}),
        ("losses order", {"losses": FRAME[[f"loss_{i}" for i in [1, 0, *range(2, 21)]]]}),
        ("thresholds ascending", {"thresholds": GRID[::-1]}),
        ("thresholds ascending once", {"thresholds": np.maximum(GRID, 0.1)}),
        ("thresholds finite", {"thresholds": [*GRID[:20], np.inf]}),
        ("thresholds finite", {"thresholds": [*GRID[:20], np.nan]}),
        ("thresholds", {"thresholds": None}),
        ("thresholds", {"thresholds": 0.5}),
        ("tasks", {"tasks": None}),
        ("tasks length", {"tasks": FRAME.site.to_numpy()[1:]}),
        ("keys 3 twice 'site 0'", {"keys": [3, 3, *range(2, 1000)]}),
        ("keys missing", {"keys": [None, *range(1, 1000)]}),
        ("keys length", {"keys": [1, 2]}),
        ("different indices", {"losses": FRAME.filter(like="loss_"), "tasks": FRAME.site[::-1]}),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(words: str, changes: dict[str, Any]) -> None:
    given = {"losses": LOSSES, "tasks": FRAME.site.to_numpy(), "thresholds": GRID} | changes
    assert_refused(words, mp.MetaRisk(**LEVELS).calibrate, **given)


def test_the_callable_and_the_parameters_are_checked_too() -> None:
    method = mp.MetaRisk(**LEVELS)
    assert_refused(
        "losses between", method.calibrate, lambda t: np.full(1000, 2 * t), FRAME.site, GRID
    )
    assert_refused(
        "losses shape", method.calibrate, lambda t: LOSSES[: 9 + (t > 0), 0], FRAME.site, GRID
    )
    assert_refused("per_class loss", mp.MetaRisk, **LEVELS, per_class=True)
    assert_refused("rng", mp.MetaRisk(**LEVELS, rng=-1).calibrate, LOSSES, FRAME.site, GRID)
    with pytest.raises(TypeError, match="splitt"):
        mp.MetaRisk(**LEVELS, splitt="joint")
    with pytest.raises(TypeError, match="epsilon"):
        mp.MetaRisk(**LEVELS, confidence_level=0.9)
    assert "per_class" not in method.get_params()
    assert_refused("make_site", method.task_threshold, LOSSES)
    assert_refused("make_site", method.combine, [[0.1] * 13] * 40)
    assert_refused("calibrate_intervals loss", method.calibrate_intervals, GRID, GRID, GRID)
    with pytest.raises(mp.InfeasibleGuarantee, match="to keep everything"):
        method.calibrate(LOSSES[:50], FRAME.site[:50], GRID)
    assert_refused("scores truth shape", mp.MetaRisk.missed_share, [[0.1]], [[True, True]], GRID)
    assert_refused("scores truth length", mp.MetaRisk.missed_share, [[0.1]], [], GRID)
    assert_refused("scores truth NaN", mp.MetaRisk.missed_share, [[np.nan]], [[True]], GRID)
    assert_refused("scores costs shape", mp.MetaRisk.missed_cost, [0.1, 0.2], [1.0], GRID)
    assert_refused("limit above 0", mp.MetaRisk.capped_distance, [[0.1]], [[1.0]], GRID, 0)


def test_new_losses_must_be_like_those_of_the_calibration() -> None:
    promise = calibrate()
    others = mp.Scored(losses_of(NEW), NEW.site, thresholds=GRID / 2)
    assert_refused("thresholds calibration", mp.evaluate, promise, others)
    assert_refused("losses 21 (1000, 20)", mp.evaluate, promise, losses_of(NEW)[:, 1:], NEW.site)
    assert_refused("labels", mp.evaluate, promise, losses_of(NEW), NEW.site, NEW.image)
    named = mp.Columns(task="site", losses="loss_*", id="image")
    assert_refused(
        "no column 'image'", mp.evaluate, promise, mp.open_table(NEW.drop(columns="image"), named)
    )
    columns = mp.Columns(task="site", losses="loss_*", thresholds=GRID.tolist())
    assert_refused("losses id", mp.MetaRisk(**LEVELS).calibrate, mp.open_table(FRAME, columns))
    assert_refused("losses label", mp.Columns, losses="loss_*", label="y")


def test_a_loss_too_large_at_the_lowest_threshold_certifies_nothing() -> None:
    flat = np.full(LOSSES.shape, 0.6)
    with pytest.raises(mp.InfeasibleGuarantee, match="lowest, 0, is not certified in 40 tasks"):
        mp.MetaRisk(**LEVELS).calibrate(flat, FRAME.site, GRID)
    with pytest.warns(UserWarning, match="No threshold is certified"):
        trivial = mp.MetaRisk(**LEVELS, on_infeasible="trivial").calibrate(flat, FRAME.site, GRID)
    assert trivial.threshold_ == -np.inf
    assert "nothing is guaranteed" in trivial.promise_
    found = mp.evaluate(trivial, new_losses())
    assert "no threshold is certified" in str(found)
    with pytest.raises(mp.InfeasibleGuarantee, match="tasks"):
        mp.MetaRisk(**LEVELS).calibrate(LOSSES[:50], FRAME.site[:50], GRID)


# Ready losses.


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_ready_losses_are_what_their_definitions_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = np.sort(rng.choice(50, 12, replace=False)) / 49
    shapes = [(rng.integers(1, 4), rng.integers(1, 4)) for _ in range(5)]
    scores = [rng.integers(0, 50, shape) / 49 for shape in shapes]
    truth = [rng.random(shape) < 0.5 for shape in shapes]
    for row, s, y in zip(mp.MetaRisk.missed_share(scores, truth, grid), scores, truth, strict=True):
        assert row.tolist() == [np.sum(y & (s < cut)) / max(1, y.sum()) for cut in grid]
    far = [rng.uniform(0, 20, shape) for shape in shapes]
    found = mp.MetaRisk.capped_distance(scores, far, grid, limit=10)
    for row, s, d in zip(found, scores, far, strict=True):
        assert row.tolist() == [min([10, *d[s >= cut]]) / 10 for cut in grid]
    ones, costs, wrong = rng.integers(0, 50, 9) / 49, rng.random(9), rng.random(9) < 0.5
    kept = mp.MetaRisk.missed_cost(ones, costs, grid)
    assert kept.tolist() == [[c * (s < t) for t in grid] for s, c in zip(ones, costs, strict=True)]
    given_wrong = mp.MetaRisk.missed_cost(ones, wrong, grid)
    assert given_wrong.tolist() == [
        [bool(w and s < t) for t in grid] for s, w in zip(ones, wrong, strict=True)
    ]
    for losses in (mp.MetaRisk.missed_share(scores, truth, grid), found, kept, given_wrong):
        assert np.all(np.diff(losses.astype(float)) >= 0)
