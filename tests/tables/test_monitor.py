"""Monitors of tables count as those of arrays; scores without labels in any engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, MetaPS, Monitor, compare_scores
from tests.helpers.engines import ENGINES, put
from tests.helpers.tables import calibrate_table, monitor_table
from tests.helpers.tables import compare as compare_tables
from tests.tables.test_residuals import make_sites
from tests.tables.test_row_classes import make_tasks

CLASSES = np.array(["cat", "dog", "owl"])
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


def make(word: str, sites: int, *, examples: int = 40, seed: int = 0, noise: float = 1.0) -> Any:
    """Return a table of sites, with a score for each class."""
    rng = np.random.default_rng(seed)
    rows = sites * examples
    label = rng.integers(3, size=rows)
    logits = noise * rng.normal(size=(rows, 3))
    logits[np.arange(rows), label] += 2
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    columns = {f"p_{name}": scores[:, j] for j, name in enumerate(CLASSES)}
    site = np.repeat([f"{word} {i:02d}" for i in range(sites)], examples)
    true = scores[np.arange(rows), label]
    return pd.DataFrame({"site": site, "y": CLASSES[label], "true": true, **columns})


@pytest.fixture(scope="module")
def known() -> pd.DataFrame:
    return make("old", 30)


@pytest.fixture(scope="module")
def promise(known: pd.DataFrame) -> MetaPS:
    return calibrate_table(known, task="site", label="y", **LEVELS)


def test_a_guarantee_for_each_class(known: pd.DataFrame) -> None:
    promise = calibrate_table(
        known, task="site", label="y", per_class=True, **LEVELS | {"epsilon": 0.4, "delta": 0.4}
    )
    new = make("new", 6, seed=2)
    by_table, by_array = Monitor(promise), Monitor(promise)
    monitor_table(by_table, new)
    by_array.add(new.true.to_numpy(), new.site.to_numpy(), new.y.to_numpy())
    assert by_table.by_class == by_array.by_class
    assert by_table._counted == by_array._counted


def test_one_task_of_each_cluster_counts(known: pd.DataFrame) -> None:
    by_owner = known.assign(owner="owner of " + known.site)
    promise = calibrate_table(by_owner, task="site", label="y", cluster="owner", **LEVELS)
    new = make("new", 6, seed=6)
    new["owner"] = new.site.map({f"new {i:02d}": f"owner {i % 4}" for i in range(6)})
    by_table, by_array = Monitor(promise), Monitor(promise)
    monitor_table(by_table, new)
    owners = new.owner.to_numpy()
    by_array.add(new.true.to_numpy(), new.site.to_numpy(), clusters=owners)
    assert len(by_table.course) == 4
    assert by_table._counted == by_array._counted
    late = make("late", 2, seed=7).assign(owner=["owner 1"] * 40 + ["another"] * 40)
    added = monitor_table(by_table, late)
    assert ([step.task for step in added.steps], added.overlap) == (["late 01"], ("late 00",))
    with pytest.raises(InvalidInput, match="owner"):
        monitor_table(by_table, late.drop(columns="owner"))


def test_regression() -> None:
    words: dict[str, Any] = {"prediction": "guess", "y": "truth", "scale": "sd"}
    promise = calibrate_table(make_sites(), task="site", **words, **LEVELS)
    monitor = Monitor(promise)
    new = make_sites(100, sites=15).assign(site=lambda f: "new " + f.site.astype(str))
    assert len(monitor_table(monitor, new).steps) == 15
    shifted = new.assign(truth=new.truth + 100 * new.sd, site="bad " + new.site)
    monitor_table(monitor, shifted)
    assert monitor.status == "violated"
    drift = compare_tables(promise, new.drop(columns="truth"), make_sites())
    assert len(drift.shifts) == 15
    assert not drift.is_suspicious
    assert compare_tables(promise, new.assign(guess=new.guess + 1e10), make_sites()).is_suspicious


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("noise", [1.0, 2.0])
def test_scores_without_labels(
    engine: str, promise: MetaPS, known: pd.DataFrame, noise: float
) -> None:
    new = make("new", 8, seed=3, noise=noise)
    table = put(engine, new.drop(columns=["y", "true"]))
    drift = compare_tables(promise, table, put(engine, known))
    columns = [f"p_{name}" for name in CLASSES]
    exact = compare_scores(
        new[columns], new.site, reference=known[columns], reference_tasks=known.site
    )
    assert drift.is_suspicious == exact.is_suspicious == (noise == 2.0)
    for shift, other in zip(drift.shifts, exact.shifts, strict=True):
        assert (shift.task, shift.examples) == (other.task, other.examples)
        assert shift.higher == pytest.approx(other.higher, abs=0.005)  # a thousand bins


def test_scores_outside_those_of_calibration(promise: MetaPS, known: pd.DataFrame) -> None:
    columns = [f"p_{name}" for name in CLASSES]
    rows = len(known)
    # The highest score of calibration shares the bin of all that are as high or higher.
    for value, higher in ((-5, 0), (-np.inf, 0), (5, 1 - 0.5 / rows), (np.inf, 1 - 0.5 / rows)):
        new = make("new", 2, seed=4).assign(**dict.fromkeys(columns, float(value)))
        drift = compare_tables(promise, new, known)
        assert [shift.higher for shift in drift.shifts] == pytest.approx([higher] * 2, abs=1e-12)


def test_equal_scores_everywhere(promise: MetaPS, known: pd.DataFrame) -> None:
    equal = known.assign(p_cat=0.5, p_dog=0.5, p_owl=0.5)
    drift = compare_tables(promise, make("new", 3).assign(p_cat=0.5, p_dog=0.5, p_owl=0.5), equal)
    assert [(s.higher, s.is_unusual) for s in drift.shifts] == [(0.5, False)] * 3
    assert not drift.is_suspicious


def test_columns_of_lists(known: pd.DataFrame) -> None:
    tasks = make_tasks()
    promise = calibrate_table(
        tasks, task="task", label="y", columns="probs", classes_column="candidates", **LEVELS
    )
    drift = compare_tables(promise, tasks, tasks)
    assert len(drift.shifts) == drift.reference
    lists = known.assign(probs=known[["p_cat", "p_dog", "p_owl"]].to_numpy().tolist())
    drift = compare_tables(promise, lists, lists, task="site", columns="probs", classes=[*CLASSES])
    assert len(drift.shifts) == 30
