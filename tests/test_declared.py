"""What is declared of the data: how examples are sampled, who lies, where new tasks come from.

Probabilities are sums over the number of broken tasks, each with the threshold that the public
methods return: the guarantee fails if it lies above the scores that broken tasks miss.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

import metapac as mp
from metapac.federated import read_site, summarise_liars
from metapac.guarantee import percent
from metapac.sklearn import MetaPSClassifier
from tests.helpers.forging import sign

LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
DECLARED: list[dict[str, Any]] = [
    {"sampling": "iid"},
    {"randomise": 7},
    {"sampling": "iid", "randomise": 7, "delta": None},
    {"shift": 0.1},
    {"dishonest": 2},
    {"dishonest": 1, "shift": 0.01, "sampling": "iid", "per_class": True},
]


def failure(method: mp.MetaPS, tasks: int, size: int, missed: int, share: float) -> float:
    """P(the guarantee fails), if a share of tasks is broken, and all of them miss as many."""
    examples = np.arange(tasks * size) % size

    def fails(broken: int) -> bool:
        scores = 1.0 - (examples < missed) * (np.arange(tasks * size) < broken * size)
        method.calibrate(scores, np.arange(tasks * size) // size, allow=["duplicates"])
        return method.threshold_ > 0

    low, high = -1, tasks + 1  # with more broken tasks it can only be lower
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return float(stats.binom.cdf(low, tasks, share))


@pytest.mark.filterwarnings("ignore:The threshold")
def test_shifted_tasks_keep_alpha() -> None:
    levels: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05, "split": "tight"}
    share = 0.05 * (1 - 1e-9)  # broken in calibration; 0.05 more of new tasks are
    both = (mp.MetaPS(**levels, shift=s) for s in (0.05, 0.0))
    shifted, plain = (failure(method, 100, 100, 100, share) for method in both)
    assert shifted <= 0.05 * 1.03 < 0.25 < plain


def test_how_many_sites_it_takes() -> None:
    levels: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
    assert [mp.plan(**levels, dishonest=m).tasks for m in (1, 2, 5)] == [47, 62, 104]
    assert [mp.plan(**levels, shift=s).tasks for s in (0, 0.01, 0.05)] == [29, 33, 60]
    assert "whatever up to 2 of the tasks send" in str(mp.plan(**levels, dishonest=2))
    # Without levels, alphas that leave nothing beside the shift are left out.
    offers: Any = mp.plan(sizes=[100] * 60, shift=0.1)
    assert {offer.alpha for offer in offers} == {0.2, 0.3}
    all_offers: Any = mp.plan(sizes=[100] * 60)
    plain = {(x.alpha, x.delta): x.epsilon for x in all_offers}
    assert all(x.epsilon > plain[x.alpha, x.delta] for x in offers)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Forty-five small sites of different sizes, with scores of three classes."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(20, 45, 45)
    site = np.repeat([f"site {i:02d}" for i in range(45)], sizes)
    y = rng.choice(["a", "b", "c"], len(site))
    x = rng.normal(size=(len(site), 3)) + 1.5 * (y[:, None] == ["a", "b", "c"])
    p = np.exp(x + rng.normal(0, 0.3, 45).repeat(sizes)[:, None] * (y[:, None] == "a"))
    scores = dict(zip(("p_a", "p_b", "p_c"), (p / p.sum(axis=1)[:, None]).T, strict=True))
    return pd.DataFrame({"site": site, "y": y, **scores, "x0": x[:, 0], "x1": x[:, 1]})


def check_schema(path: Path) -> None:
    """Check a file against the published schema of its kind."""
    document = json.loads(path.read_text())
    name = document["format"].removeprefix("metapac ")
    schema = resources.files("metapac").joinpath("schemas", f"{name}.json").read_text()
    jsonschema.validate(document, json.loads(schema))


def as_arrays(table: pd.DataFrame) -> tuple[Any, Any, Any]:
    return table[["p_a", "p_b", "p_c"]].to_numpy(), table["site"].to_numpy(), table["y"].to_numpy()


@pytest.mark.parametrize("declared", DECLARED, ids=str)
def test_all_roads_lead_to_one(table: pd.DataFrame, declared: Any, tmp_path: Path) -> None:
    method, classes = mp.MetaPS(**LEVELS | declared), ["a", "b", "c"]
    scores, sites, y = as_arrays(table)
    expected = mp.MetaPS(**LEVELS | declared).calibrate(scores, sites, y, classes=classes)
    plain = mp.MetaPS(**LEVELS | {"delta": method.delta, "per_class": method.per_class})
    plain.calibrate(scores, sites, y, classes=classes)
    assert not np.array_equal(expected._result()[1], plain._result()[1])

    columns = mp.Columns(task="site", label="y")
    with mp.open_table(table, columns) as opened:
        by_table = mp.MetaPS(**LEVELS | declared).calibrate(opened)
    sent = []
    for name, rows in table.groupby("site"):
        one = mp.Columns(label="y", columns="p_*")
        with mp.open_table(rows.drop(columns=["site", "x0", "x1"]), one) as opened:
            mp.make_site(method, opened, name=str(name)).save(tmp_path / f"{name}.json")
        sent.append(tmp_path / f"{name}.json")
    for other in (by_table, mp.combine_sites(sent)):
        assert np.array_equal(other._result()[1], expected._result()[1])
    assert read_site(sent[0]).guarantee == expected.guarantee_

    found = mp.explore(
        scores, sites, y, classes=classes, epsilon=[0.2], alpha=[0.3], **declared_of(declared)
    )
    expected.save(tmp_path / "promise.json")
    found.save(tmp_path / "pilot.json")
    assert mp.read_pilot(tmp_path / "pilot.json").options == found.options
    for file in ("promise.json", "pilot.json", sent[0].name):
        check_schema(tmp_path / file)
    again = mp.load(tmp_path / "promise.json")
    assert again.get_params() == expected.get_params()
    assert (again.promise_, again.explain()) == (expected.promise_, expected.explain())
    assert found.guarantee(found.cells[0]) == replace(expected.guarantee_, per_class=False)
    assert found.cells[0].size.value < 3


def declared_of(declared: dict[str, Any]) -> dict[str, Any]:
    """Return what ``explore`` takes, which always tries both with and without ``per_class``."""
    return {"delta": LEVELS["delta"], **{k: v for k, v in declared.items() if k != "per_class"}}


@pytest.mark.parametrize("declared", DECLARED[:-1], ids=str)
def test_estimators_pass_on_what_is_declared(table: pd.DataFrame, declared: dict[str, Any]) -> None:
    levels = LEVELS | declared
    model = MetaPSClassifier(LogisticRegression(), **levels, calibration=0.7)
    model.fit(table[["x0", "x1"]], table["y"], groups=table["site"])
    assert model.meta_ps_.guarantee_ == mp.Guarantee(**levels)


def test_every_assumption_is_stated() -> None:
    g = mp.Guarantee(**LEVELS, sampling="iid", randomise=7, shift=0.02)
    for words in ("i.i.d. within each task", "seed 7", "of the seed", "up to 2% of new tasks"):
        assert words in g.sentence()
    assert "balanced" not in g.sentence()
    liars = mp.Guarantee(**LEVELS, dishonest=2).sentence(tasks=62)
    assert "the 62 calibration tasks, whatever up to 2 of them report" in liars
    rooms = []
    for m in range(4):
        predictor = mp.MetaPS(**LEVELS, dishonest=m).calibrate(np.arange(6e3), np.arange(6000) % 60)
        rooms.append(predictor.guarantee_.free_shift(60))
        shown = "no room for new tasks from elsewhere"
        if rooms[-1] >= 0.001:
            shown = f"would still hold if up to {percent(rooms[-1])} of new tasks came from"
        assert shown in predictor.explain()
    assert min(rooms) < 0.001 <= max(rooms)


# A site that does not answer is one of the dishonest ones, and counts as if it had sent inf.
def test_sites_that_do_not_answer(table: pd.DataFrame, tmp_path: Path) -> None:
    agreed, columns = mp.MetaPS(**LEVELS), mp.Columns(label="y", columns="p_*")
    sites = []
    for name, rows in table.groupby("site"):
        with mp.open_table(rows.drop(columns=["site", "x0", "x1"]), columns) as opened:
            sites.append(mp.make_site(agreed, opened, name=str(name)))
    predictor = mp.combine_sites(sites[1:], dishonest=2, invited=45)
    silent = [np.full((1, 29), np.inf), *(site.thresholds for site in sites[1:])]
    method = mp.MetaPS(**LEVELS, dishonest=2)
    sent = np.concatenate([np.asarray(x) for x in silent])
    assert predictor.threshold_ == method.combine(sent).threshold_
    assert (
        predictor.threshold_
        == mp.MetaPS(**LEVELS, dishonest=2).combine(sent[1:], invited=45).threshold_
    )
    # Whoever is silent, the threshold is not above that of honest sites with all their answers.
    honest = mp.combine_sites(sites).threshold_
    assert all(
        mp.combine_sites(sites[:i] + sites[i + 1 :], dishonest=1, invited=45).threshold_ <= honest
        for i in range(0, 45, 9)
    )
    for text in ("of the 45 calibration tasks", "Of these tasks, 1 sent nothing"):
        assert text in predictor.promise_
    assert "Among the 2: 1 task that sent nothing." in predictor.explain()
    assert summarise_liars(predictor)["sites"] == 44
    low, high = mp.bound_threshold(predictor, 2)
    assert low <= predictor.threshold_ <= high
    predictor.save(tmp_path / "promise.json")
    check_schema(tmp_path / "promise.json")
    again = mp.load(tmp_path / "promise.json")
    assert again.promise_ == predictor.promise_
    body = json.loads((tmp_path / "promise.json").read_text())
    body["evidence"]["absent"] = 3
    (tmp_path / "promise.json").write_text(sign(body))
    with pytest.raises(mp.BadArtefact, match="3 of 47 invited"):
        mp.load(tmp_path / "promise.json")
    refused: list[tuple[Any, str]] = [
        ({"invited": 44}, "invited"),
        ({"invited": 46}, "dishonest"),
        ({"dishonest": -1}, "dishonest"),
    ]
    for bad, parameter in refused:
        with pytest.raises(mp.InvalidInput) as caught:
            mp.combine_sites(sites, **bad)
        assert parameter in caught.value.parameters
    declared = [replace(site, guarantee=replace(site.guarantee, dishonest=2)) for site in sites]
    assert mp.combine_sites(declared, dishonest=2).guarantee_.dishonest == 2
    with pytest.raises(mp.InvalidInput, match="the sites agreed on dishonest=2"):
        mp.combine_sites(declared, dishonest=1)
    with pytest.raises(mp.InfeasibleGuarantee):
        mp.combine_sites(sites, dishonest=12)


# Balanced by class, declared to be i.i.d.
@pytest.mark.parametrize(("tasks", "each", "classes"), [(30, 1, 2), (40, 3, 3), (60, 10, 2)])
def test_balanced_tasks_are_not_iid(tasks: int, each: int, classes: int) -> None:
    rng = np.random.default_rng(0)
    labels = np.tile(np.repeat(np.arange(classes), each), tasks)
    names = np.repeat(np.arange(tasks), each * classes)
    scores = rng.dirichlet(np.ones(classes), len(labels))
    options: dict[str, Any] = {**LEVELS, "epsilon": 0.45, "alpha": 0.45, "sampling": "iid"}
    data = pd.DataFrame(scores, columns=[f"p_{i}" for i in range(classes)])
    data = data.assign(task=names, y=labels)
    method = mp.MetaPS(**options, on_infeasible="trivial")
    with pytest.raises(mp.InvalidInput, match="equally many examples of each class"):
        method.calibrate(scores, names, labels)
    with (
        mp.open_table(data, mp.Columns(task="task", label="y")) as opened,
        pytest.raises(mp.InvalidInput, match="equally many"),
    ):
        method.calibrate(opened)
    with pytest.raises(mp.InvalidInput, match="equally many"):
        mp.explore(scores, names, labels, sampling="iid", epsilon=[0.4], alpha=[0.4])
    quiet = ["balanced", "labels", "direction"]
    method.calibrate(scores, names, labels, allow=quiet)
    mp.MetaPS(**options | {"sampling": "any"}, on_infeasible="trivial").calibrate(
        scores, names, labels, allow=quiet
    )
    mp.MetaPS(**options, per_class=True, on_infeasible="trivial").calibrate(
        scores, names, labels, allow=quiet
    )


@pytest.mark.parametrize("size", [1, 2, 3, 4, 10])
def test_natural_tasks_are_not_taken_for_balanced(size: int) -> None:
    # Two equally frequent classes: half of the tasks of two are balanced by chance.
    rng = np.random.default_rng(size)
    labels, names = rng.integers(0, 2, 400 * size), np.repeat(np.arange(400), size)
    scores = rng.dirichlet([1, 1], len(labels))
    method = mp.MetaPS(**LEVELS, sampling="iid", on_infeasible="trivial")
    method.calibrate(scores, names, labels, allow=["labels", "direction", "task-column"])


@pytest.mark.filterwarnings("ignore:the scores fit")
def test_tables_of_tiny_tasks_are_served(tmp_path: Path) -> None:
    # Tasks of 1 to 5 examples: nothing is refused, nothing has to be left out.
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, 200)
    names = np.repeat([f"school {i}" for i in range(200)], sizes)
    labels = rng.integers(0, 4, len(names))
    logits = rng.normal(size=(len(names), 4)) + 2.5 * (labels[:, None] == range(4))
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    levels: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.2, "delta": 0.05}
    sets = {
        s: mp.MetaPS(**levels, sampling=s, on_infeasible="trivial").calibrate(scores, names, labels)
        for s in ("capped", "any", "iid")
    }
    mean = {s: method.predict_set(scores).sum(axis=1).mean() for s, method in sets.items()}
    assert mean["capped"] == 4 > 3.5 > mean["any"] >= mean["iid"]
    assert mp.plan(**levels, sizes=sizes).recommended is not None
    found = mp.explore(scores, names, labels, epsilon=[0.2], alpha=[0.2], sizes={None: sizes})
    assert not found.cells[0].is_infeasible


def watch(predictor: mp.MetaPS, results: mp.Evaluation) -> list[Any]:
    monitor = mp.Monitor(predictor)
    monitor.add_evaluation(results)
    return [(s.task, s.missed, s.wealth, s.violated) for s in monitor.course]


def test_a_monitor_is_never_randomised_and_bets_on_alpha_alone(table: pd.DataFrame) -> None:
    # Given the sets, bets depend on what was promised of new tasks, not on how it was calibrated.
    scores, sites, y = as_arrays(table)
    new = np.array([f"new {name}" for name in sites])
    courses = []
    for declared in ({}, *DECLARED[:2], *DECLARED[3:5], {"randomise": 8}):
        predictor = mp.MetaPS(**LEVELS | declared).calibrate(
            scores, sites, y, classes=["a", "b", "c"]
        )
        predictor._outcomes, cut = predictor._outcomes, 0.3
        predictor._set_threshold(cut)  # the same sets for all
        results = mp.evaluate(
            predictor, mp.Scored(scores, new, y, ["a", "b", "c"]), allow=["duplicates"]
        )
        courses.append(watch(predictor, results))
    assert all(course == courses[0] for course in courses)
    assert len(courses[0]) == 45
