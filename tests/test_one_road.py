"""Arrays and tables take one road: what one verb refuses or does, the others do too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import (
    PS,
    Columns,
    InvalidInput,
    MetaPS,
    Monitor,
    Reading,
    Scored,
    combine_sites,
    evaluate,
    explore,
    make_site,
    open_table,
)
from metapac.provenance import Provenance, write_scores
from metapac.tables import compare_tables

LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
RNG = np.random.default_rng(0)
TASKS = np.repeat([f"site {i:02}" for i in range(40)], 40)
LABELS = RNG.integers(3, size=len(TASKS))
LOGITS = RNG.normal(size=(len(TASKS), 3)) + 2 * (LABELS[:, None] == np.arange(3))
SCORES = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
NAMES: Any = np.array(["a", "b", "c"])
FRAME = pd.DataFrame(SCORES, columns=["p_a", "p_b", "p_c"])
FRAME = FRAME.assign(site=TASKS, y=NAMES[LABELS], score=SCORES[np.arange(len(TASKS)), LABELS])
COLUMNS = Columns(task="site", label="y")


def write(folder: Path, model: str, first: int, **details: Any) -> Path:
    """Write scores of a model for forty sites, as ``metapac score`` does."""
    path = folder / f"{model}-{first}.parquet"
    named = FRAME.assign(
        site=[f"{name} {first}" for name in TASKS], score=FRAME.score / (first + 1)
    )
    columns = {"task": "site", "score": "score"}
    table = {name: named[name].to_numpy() for name in columns.values()}
    write_scores(path, table, Provenance(model=model, columns=columns, details=details))
    return path


def test_added_tables_are_of_the_same_model_and_of_no_training_pool(tmp_path: Path) -> None:
    columns = Columns(task="site", score="score")
    promise = MetaPS(**LEVELS).calibrate(open_table(write(tmp_path, "A", 0), columns))
    with pytest.raises(InvalidInput, match="'B'"):
        promise.add(open_table(write(tmp_path, "B", 1), columns))
    with pytest.raises(InvalidInput, match="pool 'train'"):
        promise.add(open_table(write(tmp_path, "A", 2, pool="train"), columns))
    assert len(promise.add(open_table(write(tmp_path, "A", 3), columns)).tasks_) == 80


def test_added_scores_are_on_the_same_scale() -> None:
    promise = MetaPS(**LEVELS).calibrate(FRAME.score, FRAME.site)
    with pytest.raises(InvalidInput, match="these are percentages"):
        promise.add(100 * FRAME.score, "new " + FRAME.site)
    with pytest.raises(InvalidInput, match="these are percentages"):
        evaluate(promise, 100 * FRAME.score, "new " + FRAME.site)


def test_columns_in_another_order_are_not_evaluated() -> None:
    turned = pd.DataFrame(SCORES[:, ::-1], columns=NAMES[::-1])
    with pytest.raises(InvalidInput, match="order"):
        evaluate(PROMISE, turned, "new " + FRAME.site, NAMES[LABELS])


def test_a_table_that_is_used_again_is_checked_again(tmp_path: Path) -> None:
    path = tmp_path / "numbers.parquet"
    numbers = pd.DataFrame({"site": TASKS, "y": LOGITS[:, 0], "p": LOGITS[:, 1], "sd": 1.0})
    numbers.to_parquet(path)
    table = open_table(path, Columns(task="site", y="y", prediction="p", scale="sd"))
    MetaPS(**LEVELS).calibrate(table)
    numbers.assign(sd=-1.0).to_parquet(path)
    with pytest.raises(InvalidInput, match="sd"):
        MetaPS(**LEVELS).calibrate(table)


def test_a_site_is_one_task() -> None:
    with pytest.raises(InvalidInput, match="one task, got 40"):
        make_site(MetaPS(**LEVELS), Scored(FRAME.score, FRAME.site), name="all")


def test_rows_have_the_sets_of_their_classes_in_any_order() -> None:
    promise = MetaPS(**LEVELS, per_class=True)
    promise.calibrate(SCORES, TASKS, NAMES[LABELS], classes=NAMES)
    turned = Scored(SCORES[:, ::-1], TASKS, NAMES[LABELS], NAMES[::-1])
    plain = Scored(SCORES, TASKS, NAMES[LABELS], NAMES)
    for data in (turned, open_table(FRAME, COLUMNS)):
        rows = [data.resolve(promise).rows(promise, ["site 03"]) for data in (data, plain)]
        found, expected = ([{*(row.labels or ())} for row in some] for some in rows)
        assert sorted(map(sorted, found)) == sorted(map(sorted, expected))


def test_clusters_are_not_explored() -> None:
    with pytest.raises(InvalidInput, match="cluster") as caught:
        explore(Scored(SCORES, TASKS, NAMES[LABELS], NAMES, clusters=TASKS))
    assert "clusters" in caught.value.parameters


def test_the_order_of_miss_rates_does_not_matter_to_a_monitor(tmp_path: Path) -> None:
    rates = {"c": 0.3, "a": 0.2, "b": 0.2}
    promise = MetaPS(**LEVELS | {"epsilon": rates}, per_class=True)
    promise.calibrate(SCORES, TASKS, NAMES[LABELS], classes=NAMES)
    Monitor(promise).save(tmp_path / "m.json")
    assert Monitor.load(tmp_path / "m.json", promise).terms.rates == [0.2, 0.2, 0.3]


def test_a_failed_calibration_leaves_the_earlier_one() -> None:
    frame = FRAME.assign(y=LABELS).rename(columns={"p_a": "p_0", "p_b": "p_1", "p_c": "p_2"})
    promise = MetaPS(**LEVELS | {"epsilon": {"0": 0.2, "1": 0.2, "2": 0.2}}, per_class=True)
    promise.calibrate(SCORES, TASKS, LABELS.astype(str), classes=["0", "1", "2"])
    before = promise.threshold_of("0")
    with pytest.raises(InvalidInput):
        promise.calibrate(open_table(frame.assign(y="x"), COLUMNS))
    assert promise.threshold_of("0") == before


PROMISE = MetaPS(**LEVELS).calibrate(SCORES, TASKS, NAMES[LABELS], classes=NAMES)
WRONG: list[tuple[Any, str]] = [
    (lambda: evaluate(PROMISE, "new.csv"), "scores"),
    (lambda: evaluate(PROMISE, FRAME), "scores"),
    (lambda: evaluate("promise.json", SCORES, TASKS), "promise"),  # type: ignore[arg-type]
    (lambda: MetaPS(**LEVELS).calibrate("known.csv"), "scores"),
    (lambda: MetaPS(**LEVELS).calibrate(open_table(FRAME, COLUMNS), TASKS), "tasks"),
    (lambda: MetaPS(**LEVELS).calibrate(open_table(FRAME, Columns(score="score"))), "task"),
    (lambda: PROMISE.predict(FRAME), "table"),
    (lambda: PS(epsilon=0.1, delta=0.1).calibrate(open_table(FRAME, COLUMNS)), "scores"),  # type: ignore[arg-type]
    (lambda: make_site(open_table(FRAME), PROMISE, name="a"), "method"),  # type: ignore[arg-type]
    (lambda: make_site(PROMISE, open_table(FRAME), name=" a"), "name"),
    (lambda: combine_sites("site.json"), "sites"),
    (lambda: Monitor("promise.json"), "promise"),  # type: ignore[arg-type]
    (lambda: compare_tables(PROMISE, FRAME, FRAME), "table"),
    (lambda: open_table(FRAME, {"task": "site"}), "columns"),  # type: ignore[arg-type]
    (lambda: open_table(FRAME, COLUMNS, {"decimal": ","}), "reading"),  # type: ignore[arg-type]
    (lambda: open_table(open_table(FRAME), COLUMNS, Reading(decimal=",")), "reading"),
    (lambda: Reading(views="yes"), "views"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "parameter"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_what_is_passed_in_the_wrong_place_is_named(call: Any, parameter: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    assert parameter in caught.value.parameters
