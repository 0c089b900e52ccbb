"""Outcomes of rows with few and with many classes are those of ``predict_set``."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from metapac import InvalidInput, MetaPS
from metapac.tables.scores import FEW_CLASSES
from tests.helpers.engines import put
from tests.helpers.tables import calibrate_table, evaluate_table, open_scores, predict_table

ENGINES = ("duckdb", "sqlite", "postgres", "spark")
MANY = FEW_CLASSES + 5
ODD = ["it's", 'say "x"', "back\\slash", "\N{DOG}", "a|b", "\x1fmark", ", "]


def names_of(count: int) -> list[str]:
    return [*ODD, *(f"c{i}" for i in range(count))][:count]


def predictor(count: int, *, per_class: bool, kind: Any = np.float64) -> MetaPS:
    rng = np.random.default_rng(0)
    names = names_of(count)
    labels = np.tile(names, 20 * 12)
    scores = rng.random(len(labels)).astype(kind)
    method = MetaPS(
        epsilon=0.4, alpha=0.5, delta=0.5 if not per_class else 0.9, per_class=per_class
    )
    tasks = np.repeat(np.arange(20), len(labels) // 20)
    allow = ("levels",)
    if not per_class:
        return method.calibrate(scores, tasks, allow=allow)
    return method.calibrate(scores, tasks, labels, allow=allow)


def examples(promise: MetaPS, count: int, kind: Any) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return a frame of class scores, some at the threshold and one step below it."""
    rng = np.random.default_rng(1)
    names = names_of(count)
    scores = rng.random((12, count)).astype(kind)
    cuts = np.array([promise.threshold_of(name) for name in names])
    scores[0], scores[1] = cuts, np.nextafter(cuts.astype(kind), kind(-1))
    scores[2], scores[3] = np.inf, -np.inf
    labels = [names[i] for i in rng.integers(count, size=12)]
    frame = pd.DataFrame(
        {"id": np.arange(12), "site": "a", "y": labels}
        | {f"p_{name}": scores[:, j] for j, name in enumerate(names)}
    )
    return frame, scores


def in_order(promise: MetaPS, count: int) -> list[int]:
    names = names_of(count)
    return (
        list(range(count))
        if promise.classes_ is None
        else [names.index(name) for name in promise.classes_]
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [4, MANY])
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sets_sizes_and_misses(engine: str, count: int, per_class: bool, kind: Any) -> None:
    promise = predictor(count, per_class=per_class, kind=kind)
    frame, scores = examples(promise, count, kind)
    names, place = names_of(count), in_order(promise, count)
    kept = np.empty((12, count), bool)
    kept[:, place] = promise.predict_set(scores[:, place])
    true = np.array([names.index(label) for label in frame.y])
    table = put(engine, frame)
    got = predict_table(promise, table, classes=names).to_pandas().sort_values("id")
    sets = got["set"].map(json.loads) if engine == "sqlite" else got["set"]
    assert [list(one) for one in sets] == [[names[j] for j in np.flatnonzero(row)] for row in kept]
    assert got["set_size"].tolist() == kept.sum(axis=1).tolist()
    file = io.StringIO()
    open_scores(table, {"classes": names}).add_sets(promise, file)
    rows = sorted(csv.DictReader(io.StringIO(file.getvalue())), key=lambda row: int(row["id"]))
    assert [json.loads(row["set"]) for row in rows] == [list(one) for one in sets]
    judged = evaluate_table(promise, table, task="site", label="y", classes=names)
    assert judged.missed.sum() == np.sum(~kept[np.arange(12), true])
    assert judged.sets is not None
    assert judged.sets.labels.sum() == kept.sum()


@pytest.mark.parametrize("count", [3, MANY])
def test_a_label_that_is_no_class_has_no_score(count: int) -> None:
    names = [f"c{i}" for i in range(count)]
    columns = {f"p_{name}": 1.0 for name in names}
    frame = pd.DataFrame({"site": "a", "y": ["c1", "fox", None], **columns})
    with pytest.raises(InvalidInput, match="got no label in 1 row, 'fox' in 1 row"):
        calibrate_table(
            frame, task="site", label="y", classes=names, epsilon=0.4, alpha=0.5, delta=0.5
        )


def test_integers_stay_integers_in_lists() -> None:
    promise = predictor(3, per_class=False)
    frame = pd.DataFrame({"l": [[1.0] * MANY]})
    result = predict_table(promise, frame, columns="l").to_pyarrow()
    assert result["set"].to_pylist() == [list(range(MANY))]


def test_twenty_thousand_classes_in_lists() -> None:
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(20_000)]
    scores, codes = rng.random((60, 20_000)), rng.integers(20_000, size=60)
    frame = pd.DataFrame(
        {
            "site": np.repeat(np.arange(6), 10),
            "y": [names[code] for code in codes],
            "l": list(scores),
        }
    )
    promise = calibrate_table(
        frame, task="site", label="y", columns="l", classes=names, epsilon=0.4, alpha=0.5, delta=0.5
    )
    true = scores[np.arange(60), codes]
    same = MetaPS(epsilon=0.4, alpha=0.5, delta=0.5).calibrate(true, frame.site)
    assert promise.threshold_ == same.threshold_
    sizes = predict_table(promise, frame).to_pyarrow()["set_size"].to_pylist()
    assert sizes == promise.predict_set(scores).sum(axis=1).tolist()
