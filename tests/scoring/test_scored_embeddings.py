"""Scores of stored vectors: the halves of the classes, the learners, the names of labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import InvalidInput
from metapac.fewshot import ClassPool, LogisticLearner, PrototypeLearner, RidgeLearner
from metapac.fewshot.options import Drawing, Embeddings
from metapac.fewshot.scored_tables import ScoredTable, score_embeddings
from metapac.fewshot.scoring import fit_temperature, tabulate

Y = np.array([f"class {i}" for i in range(9)])[np.arange(180) % 9]
X = np.random.default_rng(0).normal(size=(180, 4)) + (np.arange(180) % 9)[:, None]
TASKS = Drawing(tasks=5, ways=3, shots=2, queries=4)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    np.savez(tmp_path / "x.npz", x=X, y=Y)
    return tmp_path / "x.npz"


def run(file: Path, tasks: Drawing = TASKS, **options: Any) -> ScoredTable:
    model = options.pop("model", None)
    return score_embeddings(file, tasks, Embeddings(**options), model=model)


def test_the_halves_share_no_class_and_do_not_depend_on_the_seed(file: Path) -> None:
    seen: dict[str, list[set[str]]] = {"calibration": [], "test": []}
    for pool, classes in seen.items():
        for seed in (0, 7):
            table = run(file, replace(TASKS, tasks=60, pool=pool, rng=seed)).table
            classes.append({*table["label"].tolist()})
            assert Y[table["example"]].tolist() == table["label"].tolist()  # rows of the file
    first, second = seen["calibration"]
    assert first == second
    assert seen["test"][0] == seen["test"][1]
    assert not first & seen["test"][0]
    assert first | seen["test"][0] == {*Y.tolist()}
    assert len(first) == 5
    assert len({*run(file, replace(TASKS, tasks=60)).table["label"].tolist()}) == 9


@pytest.mark.parametrize(
    ("options", "learner", "name"),
    [
        ({}, PrototypeLearner(), "prototypes (metric euclidean, temperature 1.0)"),
        (
            {"metric": "cosine", "temperature": 0.1},
            PrototypeLearner("cosine", 0.1),
            "prototypes (metric cosine, temperature 0.1)",
        ),
        (
            {"learner": "ridge", "penalty": 2.0},
            RidgeLearner(2.0),
            "ridge (penalty 2.0, temperature 1.0)",
        ),
        ({"learner": "logistic"}, LogisticLearner(), "logistic (penalty 1.0)"),
    ],
)
def test_the_learner_is_that_of_the_library(
    file: Path, options: dict[str, Any], learner: Any, name: str
) -> None:
    table, provenance, _ = run(file, **options)
    drawn = ClassPool(X, Y, name="all").tasks(5, ways=3, shots=2, queries=4, rng=0)
    expected = tabulate(learner, drawn)
    np.testing.assert_array_equal(table["score"], expected["score"])
    np.testing.assert_array_equal(np.array(table["scores"]), np.array(expected["scores"]))
    assert provenance.model == f"{name} of 4 dimensions, 3 ways, 2 shots"
    assert run(file, model="clip").provenance.model.startswith("clip, prototypes (")


def test_labels_of_groups_keep_their_names(tmp_path: Path) -> None:
    names = np.array(["no", "yes"])[np.arange(180) % 2]
    np.savez(tmp_path / "x.npz", x=X, y=names, groups=np.arange(180) // 30)
    tasks = Drawing(shots=10, pool="test")
    table, provenance, _ = run(tmp_path / "x.npz", tasks)
    assert names[table["example"]].tolist() == table["label"].tolist()
    assert provenance.columns["classes"] == ["no", "yes"]
    assert len(set(table["task"].tolist())) == 3
    assert provenance.details["unit"] == "group"


def test_bad_options_are_named(file: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="learner must be 'prototypes' or 'ridge' or 'logistic'"):
        run(file, learner="knn")
    message = "metric does not apply to learner='ridge', which takes penalty, temperature"
    with pytest.raises(InvalidInput, match=message):
        run(file, learner="ridge", metric="cosine")
    with pytest.raises(InvalidInput, match="metric must be 'euclidean' or 'cosine', got 'l1'"):
        run(file, metric="l1")
    with pytest.raises(InvalidInput, match="pool must be 'all' or 'calibration' or 'test', got"):
        run(file, replace(TASKS, pool="train"))
    np.savez(tmp_path / "one.npz", x=X, y=np.zeros(180, int))
    message = "pool='test' needs at least 2 classes or groups, to divide them into two halves"
    with pytest.raises(InvalidInput, match=message):
        run(tmp_path / "one.npz", replace(TASKS, pool="test"))


def test_a_fitted_temperature_is_that_of_classes_left_out(tmp_path: Path) -> None:
    y = np.repeat([f"class {i}" for i in range(24)], 12)
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(24, 8)), 12, axis=0) + rng.normal(size=(288, 8))
    np.savez(tmp_path / "x.npz", x=x, y=y)
    found, models = {}, set()
    for pool in ("calibration", "test", "all"):
        options = replace(TASKS, tasks=80, pool=pool)
        scored = run(tmp_path / "x.npz", options, fit_temperature=True)
        found[pool] = {*scored.table["label"].tolist()}
        models.add(scored.provenance.model)
        assert any("fitted on 4 classes, from which no task" in note for note in scored.notes)
    assert found["all"] == found["calibration"] | found["test"]
    assert [len(classes) for classes in found.values()] == [8, 12, 20]
    fitted = ClassPool(x[~np.isin(y, [*found["all"]])], y[~np.isin(y, [*found["all"]])])
    tasks = fitted.tasks(200, ways=3, shots=2, queries=4, rng=0)
    temperature = float(f"{fit_temperature(PrototypeLearner(), tasks).temperature:.3g}")
    assert models == {
        f"prototypes (metric euclidean, temperature {temperature}) of 8 dimensions, 3 ways, 2 shots"
    }


def test_a_temperature_is_fitted_or_given(file: Path) -> None:
    with pytest.raises(InvalidInput, match="temperature and fit_temperature exclude each other"):
        run(file, fit_temperature=True, temperature=2.0)
    with pytest.raises(InvalidInput, match="temperature does not apply to learner='logistic'"):
        run(file, fit_temperature=True, learner="logistic")
