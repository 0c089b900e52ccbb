"""What is estimated on a table is what arrays give, task by task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, MetaPS
from metapac.tables.sources import Source
from tests.helpers.engines import ENGINES, put
from tests.helpers.tables import explore_table

LEVELS: dict[str, Any] = {"epsilon": [0.1, 0.3], "alpha": [0.3], "delta": 0.2}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1500
    sick = rng.random(n) < 0.2
    p = rng.beta(2 + 3 * sick, 5)
    labels = np.where(sick, "yes", "no")
    return pd.DataFrame({"site": np.arange(n) % 25, "y": labels, "p_no": 1 - p, "p_yes": p})


@pytest.mark.parametrize("engine", ENGINES)
def test_each_task_is_judged_by_the_others(engine: str, frame: pd.DataFrame) -> None:
    found = explore_table(put(engine, frame), task="site", label="y", n_tasks=24, **LEVELS)
    assert [(c.epsilon, c.per_class) for c in found.cells] == [
        (e, per_class) for per_class in (False, True) for e in (0.1, 0.3)
    ]
    scores, yes = frame[["p_no", "p_yes"]].to_numpy(), (frame.y == "yes").to_numpy()
    true = scores[np.arange(len(yes)), yes.astype(int)]
    for cell in found.cells:
        # 24 calibration tasks, and 24 pilot tasks without the one judged: calibration itself.
        method = MetaPS(
            epsilon=cell.epsilon,
            alpha=0.3,
            delta=0.2,
            per_class=cell.per_class,
            on_infeasible="trivial",
        )
        kept = np.zeros(scores.shape, dtype=bool)
        for site in range(25):
            out = (frame.site == site).to_numpy()
            labels = frame.y[~out].to_numpy() if cell.per_class else None
            method.calibrate(true[~out], frame.site[~out].to_numpy(), labels)
            kept[out] = method.predict_set(scores[out])
        size = kept.sum(axis=1)
        missed = ~kept[np.arange(len(yes)), yes.astype(int)]
        assert cell.tasks == 24
        assert cell.size.value == pytest.approx(size.mean())  # tasks of one size
        assert cell.empty.value == pytest.approx((size == 0).mean())
        assert cell.full.value == pytest.approx((size == 2).mean())
        assert cell.missed["yes"].value == pytest.approx(missed[yes].mean())
        assert cell.missed["no"].value == pytest.approx(missed[~yes].mean())
    assert found.prevalence["yes"] == pytest.approx(yes.mean())
    assert found.tasks == tuple(range(25))
    assert found.columns["label"] == "y"


def test_a_few_cells_at_a_time_give_the_same(
    frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = explore_table(frame, task="site", label="y", **LEVELS)
    monkeypatch.setattr("metapac.tables.sets._COMPARISONS", 1)
    asked: list[Any] = []

    def run(self: Source, table: Any, run: Any = Source.run) -> Any:
        asked.append(table)
        result = run(self, table)
        if "examples" not in table.columns:
            return result
        order = np.random.default_rng(len(asked)).permutation(len(result))
        return result.take(order)  # an engine returns groups in any order

    monkeypatch.setattr(Source, "run", run)
    assert explore_table(frame, task="site", label="y", **LEVELS).to_dict() == whole.to_dict()


def test_tasks_count_once_whatever_their_size() -> None:
    # Task b has a third of the examples; both labels of a are kept, none of b's scores is as high.
    rows = [("a", 0.9, 0.9)] * 60 + [("b", 0.2, 0.1)] * 20
    table = pd.DataFrame(rows, columns=["site", "p_yes", "p_no"])
    table["y"] = np.where(np.arange(80) % 2, "yes", "no")
    found = explore_table(table, task="site", label="y", epsilon=[0.2], alpha=[0.3], n_tasks=40)
    assert found.cells[0].size.value == pytest.approx((2 + 0) / 2)  # not 60/80 of 2


def test_small_tasks_are_left_out(frame: pd.DataFrame) -> None:
    asked: dict[str, Any] = {"task": "site", "label": "y"} | LEVELS
    small = frame[:50].assign(site=np.arange(50) % 5 + 100, p_no=0.01, p_yes=0.02)
    found = explore_table(pd.concat([frame, small]), **asked, min_examples=30, allow=["duplicates"])
    alone = explore_table(frame, **asked)
    assert (len(found.tasks), found.examples, found.min_examples) == (30, 1550, 30)
    assert [c.to_dict() for c in found.cells[:2]] == [c.to_dict() for c in alone.cells[:2]]
    enough = explore_table(frame, **asked, min_examples=60)
    assert [c.to_dict() for c in enough.cells[:2]] == [c.to_dict() for c in alone.cells[:2]]
    # Every site has 30 examples of 'no', and none has as many of 'yes', which is then always kept.
    for cell, other in zip(found.cells[2:], alone.cells[2:], strict=True):
        assert cell.tasks == other.tasks == 25
        assert cell.thresholds == (other.thresholds[0], -math.inf)
        assert cell.missed["no"] == other.missed["no"]
        assert math.isnan(cell.missed["yes"].value)
        assert cell.empty.value == 0


def make_equal_tasks(large: int) -> pd.DataFrame:
    """Return 12 tasks of the same scores; so many have 30 examples of 'yes', the others 3."""
    steps = np.arange(1, 31) / 31
    parts = []
    for site in range(12):
        yes = steps[:: 1 if site < large else 10]
        p = np.concatenate([0.6 * steps, 0.4 + 0.6 * yes])
        labels = ["no"] * 30 + ["yes"] * len(yes)
        parts.append(pd.DataFrame({"site": site, "y": labels, "p_no": 1 - p, "p_yes": p}))
    return pd.concat(parts)


@pytest.mark.parametrize("large", [10, 2, 1])
def test_tasks_too_small_for_a_class_get_the_threshold_of_the_others(large: int) -> None:
    table = make_equal_tasks(large)
    asked: dict[str, Any] = {"task": "site", "label": "y", "epsilon": [0.3], "alpha": [0.3]}
    cell = explore_table(table, **asked, min_examples=30).cells[1]
    no, yes = cell.thresholds
    assert no > 0
    assert (yes > 0) == (large > 1)  # a single task says nothing about others
    size = (table.p_no >= no).astype(int) + (table.p_yes >= yes)
    assert cell.size.value == pytest.approx(size.groupby(table.site).mean().mean())


def test_by_default_as_many_tasks_as_the_pilot_or_the_fewest_that_work(frame: pd.DataFrame) -> None:
    found = explore_table(frame, task="site", label="y", epsilon=[0.1], alpha=[0.05, 0.3])
    assert [cell.tasks for cell in found.cells[:2]] == [60, 25]


def test_what_the_data_mean_is_checked(frame: pd.DataFrame) -> None:
    swapped = frame.rename(columns={"p_no": "p_yes", "p_yes": "p_no"})
    asked: dict[str, Any] = {"task": "site", "label": "y"} | LEVELS
    with pytest.raises(InvalidInput, match="the true label scores lower than other labels"):
        explore_table(swapped, **asked)
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        explore_table(pd.concat([frame, frame]), **asked)
    twice = explore_table(pd.concat([frame, frame]), **asked, allow=["duplicates"])
    assert twice.examples == 2 * len(frame)
    with pytest.raises(InvalidInput, match="holds no rows"):
        explore_table(frame.iloc[:0], **asked)
    with pytest.raises(InvalidInput, match="column 'y' never holds 'yes'"):
        explore_table(frame[frame.y == "no"], **asked)


def test_names_of_any_script() -> None:
    rng = np.random.default_rng(0)
    names = ["日本", "[red]", "$a_{", "é\x1b"]
    label = rng.integers(4, size=800)
    scores = rng.random((800, 4)) + 2 * np.eye(4)[label]
    table = pd.DataFrame(scores, columns=[f"p_{name}" for name in names])
    table = table.assign(y=[names[i] for i in label], site=[f"Ü {i % 20}" for i in range(800)])
    found = explore_table(table, task="site", label="y", epsilon=[0.1], alpha=[0.2])
    assert {*found.prevalence} == {*names}
    assert set(found.tasks) == {f"Ü {i}" for i in range(20)}
