"""New sets are compared with those of calibration, in arrays, tables and promise files."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import PS, BadArtefact, CheckWarning, MetaPS, data_checks, load
from metapac.artefact import checksum
from metapac.data_checks import Sample, SetCounts, count_sets, judge_sets, warn_of_sets
from tests.helpers.honest_scores import CHILDREN, draw_communes
from tests.helpers.tables import calibrate_table, predict_table

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}


@pytest.fixture(scope="module")
def promise() -> MetaPS:
    sites, labels, scores = draw_communes(np.random.default_rng(0))
    return MetaPS(**LEVELS).calibrate(scores, sites, labels, classes=CHILDREN)


def as_frame(scores: Any) -> pd.DataFrame:
    return pd.DataFrame(scores, columns=[f"p_{name}" for name in CHILDREN])


def sharpen(scores: Any) -> Any:
    return scores**2 / np.sum(scores**2, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda p: p[:, [2, 1, 0, 3]], "'none' in .* instead of"),
        (lambda p: p[:, [0, 2, 1, 3]], "'one' in .* 'two' in"),
        (sharpen, "mean size 1.* instead of"),
        (np.log, "look like logarithms"),
    ],
)
def test_scores_of_another_kind_are_noticed_in_prediction(
    promise: MetaPS, spoil: Any, match: str
) -> None:
    scores = spoil(draw_communes(np.random.default_rng(1), 49)[2])
    for predict in (promise.predict_set, lambda p: predict_table(promise, as_frame(p))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            predict(scores)
        assert any(re.search(match, str(warning.message)) for warning in caught)


def test_empty_sets_are_noticed_without_counts() -> None:
    method = PS(epsilon=0.1, delta=0.05).calibrate(np.linspace(0, 1, 101))
    method.predict_set(np.zeros((19, 4)))
    with pytest.warns(CheckWarning, match="first 20 sets are all empty"):
        method.predict_set(np.zeros((20, 4)))


def test_the_check_of_sets_can_be_skipped(promise: MetaPS) -> None:
    scores = draw_communes(np.random.default_rng(1), 49)[2][:, [2, 1, 0, 3]]
    predict_table(promise, as_frame(scores), allow=["sets"])


@pytest.mark.parametrize("seed", range(10))
def test_communes_that_differ_pass(promise: MetaPS, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    promise.predict_set(draw_communes(rng, 49)[2])
    promise.predict_set(draw_communes(rng, 2)[2])
    predict_table(promise, as_frame(draw_communes(rng, 2)[2]))


def test_logarithms_are_calibrated_and_probabilities_noticed() -> None:
    sites, labels, scores = draw_communes(np.random.default_rng(0))
    method = MetaPS(**LEVELS).calibrate(np.log(scores), sites, labels, classes=CHILDREN)
    method.predict_set(np.log(scores))
    with pytest.warns(CheckWarning, match="these look like probabilities"):
        method.predict_set(scores[:150])


def test_tables_and_arrays_count_the_same(promise: MetaPS) -> None:
    sites, labels, scores = draw_communes(np.random.default_rng(0))
    frame = as_frame(scores).assign(site=sites, y=labels)
    lists = pd.DataFrame({"site": sites, "y": labels, "probs": scores.tolist()})
    columns: dict[str, Any] = {"task": "site", "label": "y", **LEVELS}
    assert calibrate_table(frame, **columns)._sets == promise._sets
    listed = calibrate_table(lists, columns="probs", classes=CHILDREN, **columns)
    assert listed._sets == promise._sets
    assert promise._sets is not None
    assert promise._sets.classes == promise.predict_set(scores).sum(axis=0).tolist()


def test_counts_are_those_of_the_sets_and_of_tasks() -> None:
    rng = np.random.default_rng(0)
    tasks, labels, scores = np.repeat(np.arange(12), 5), rng.integers(0, 3, 60), rng.random((60, 3))
    order = rng.permutation(60)
    sample = Sample(tasks[order], labels, scores[order], "abc", is_part=True)
    counts = count_sets(sample, np.array([0.2, 0.5, 0.9]))
    sets = scores >= [0.2, 0.5, 0.9]
    sizes = sets.sum(axis=1)
    assert (counts.rows, counts.sampled) == (60, True)
    assert counts.sizes == np.bincount(sizes).tolist()
    assert counts.classes == sets.sum(axis=0).tolist()
    assert counts.mean_size == pytest.approx(sizes.mean())
    by_task = np.column_stack([sizes, sets]).reshape(12, 5, 4)
    between = by_task.mean(axis=1).var(axis=0) - by_task.var(axis=1, ddof=1).mean(axis=0) / 5
    assert counts.spread == pytest.approx(np.sqrt(np.maximum(between, 0)), abs=1e-6)
    assert count_sets(sample._replace(classes=()), 0.5).classes == []
    assert count_sets(sample._replace(tasks=tasks * 0), 0.5).spread is None


def test_a_figure_is_far_beyond_five_deviations_and_a_fifth() -> None:
    then = SetCounts(10_000, False, [0, 5000, 5000], [5000, 10_000], [0.0, 0.1, 0.0])
    for share, is_far in ((0.99, False), (1.01, True)):
        moved = 0.5 - share * np.hypot(0.5, 5 * 0.5 / 100)  # deviations between tasks and of rows
        finding = judge_sets(then, 10_000, 1.5, {"a": round(10_000 * moved), "b": 10_000})
        assert (finding is not None) == is_far
    assert judge_sets(then, 10_000, 1.5, {"a": 5000, "b": 8001}) is None
    assert judge_sets(then, 10_000, 1.5, {"a": 5000, "b": 7999}) is not None
    assert judge_sets(then, 199, 0.0, {"a": 0, "b": 0}) is None
    unknown = then._replace(spread=None)
    assert judge_sets(unknown, 10_000, 1.5, {"a": 5000, "b": 5001}) is None
    assert judge_sets(unknown, 10_000, 1.5, {"a": 5000, "b": 4999}) is not None


def test_rare_classes_are_far_by_a_factor_beyond_their_tails() -> None:
    then = SetCounts(12_000, False, [0, 12_000], [10_548, 1200, 252], [0.0, 0.01, 0.01, 0.005])

    def judge(one: int, other: int, **changed: Any) -> Any:
        sets = {"a": 10_548, "b": one, "c": other}
        return judge_sets(then._replace(**changed), 12_000, 1.0, sets)

    assert judge(1200, 252) is None
    assert "'b' in 2.1% instead of 10.0%, 'c' in 10.0% instead of 2.1%" in str(
        judge(252, 1200).text
    )
    assert judge(405, 700) is None  # less than a factor of 3
    assert judge(395, 252) is not None
    assert judge(1200, 770) is None  # 6 deviations between tasks, but tails are long
    assert judge(1200, 770, spread=[0.0, 0.01, 0.01, 0.003]) is not None
    assert judge(252, 1200, spread=None) is None
    few = {"a": 174, "b": 20, "c": 26}
    steady = then._replace(spread=[0.0] * 4)
    assert judge_sets(steady, 200, 1.1, few) is None
    assert judge_sets(steady, 600, 1.1, {"a": 522, "b": 60, "c": 78}) is not None
    rare = steady._replace(classes=[10_548, 1200, 199])
    assert judge_sets(rare, 12_000, 1.1, {"a": 10_548, "b": 1200, "c": 1200}) is None
    sets = np.eye(3, dtype=bool)[np.repeat([0, 1, 2], [879, 21, 100])]
    with pytest.warns(CheckWarning, match="'b' in 2.1% instead of 10.0%"):
        warn_of_sets(sets, then, "abc")
    warn_of_sets(sets[:, [0, 2, 1]], then, "abc")


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_alternate_by_class_are_counted_as_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.arange(4000) % 2
    ill = 1 / (1 + np.exp(-2 * (2 * labels - 1) - rng.normal(size=4000)))
    scores = np.column_stack([1 - ill, ill])
    sites = np.repeat(np.arange(40), 100)
    method = MetaPS(**LEVELS).calibrate(scores, sites, labels)
    method.predict_set(scores)


def test_large_arrays_are_counted_in_a_random_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_checks, "MAX_ROWS", 2000)
    rng = np.random.default_rng(0)
    labels = np.arange(4000) % 2
    ill = 1 / (1 + np.exp(-2 * (2 * labels - 1) - rng.normal(size=4000)))
    scores, sites = np.column_stack([1 - ill, ill]), np.repeat(np.arange(40), 100)
    method = MetaPS(**LEVELS).calibrate(scores, sites, labels)
    assert method._sets is not None
    assert (method._sets.rows, method._sets.sampled) == (2000, True)
    shares = np.array(method._sets.classes) / 2000
    assert shares == pytest.approx(np.mean(scores >= method.threshold_, axis=0), abs=0.05)


def write_signed(path: Path, body: dict[str, Any]) -> None:
    content = {key: value for key, value in body.items() if key != "checksum"}
    path.write_text(json.dumps(content | {"checksum": checksum(content)}))


def test_promise_files_keep_the_counts_and_old_ones_lack_them(
    promise: MetaPS, tmp_path: Path
) -> None:
    _, labels, scores = draw_communes(np.random.default_rng(0))
    for method in (
        promise,
        PS(epsilon=0.1, delta=0.05).calibrate(scores, labels, classes=CHILDREN),
    ):
        method.save(tmp_path / "new.json")
        assert load(tmp_path / "new.json")._sets == method._sets
        body = json.loads((tmp_path / "new.json").read_text())
        assert body["sets"]["rows"] == len(labels)
        bad = {"rows": 0, "sampled": False, "sizes": [], "classes": []}
        write_signed(tmp_path / "bad.json", body | {"sets": bad})
        with pytest.raises(BadArtefact, match="sets"):
            load(tmp_path / "bad.json")
        del body["sets"]
        write_signed(tmp_path / "old.json", body)
        load(tmp_path / "old.json").predict_set(scores[:, [2, 1, 0, 3]])
