"""The core against its best rivals: the answer first, then the time, all in one run.

Run with ``make bench``; figures are in README.md beside this file.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mapie.classification import SplitConformalClassifier
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin

from metapac import MetaPS, allowed_errors

TASKS, EXAMPLES, CLASSES = 500, 2500, 5
PROMISE: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}
RANK = allowed_errors(EXAMPLES, 0.1, 0.05)
GRID_STEP = 1e-7

Array = NDArray[Any]


@pytest.fixture(scope="module")
def matrix() -> Array:
    return np.random.default_rng(0).random((TASKS, EXAMPLES))


@pytest.fixture(scope="module")
def order() -> Array:
    return np.random.default_rng(1).permutation(TASKS * EXAMPLES)


NUMBERS = np.repeat(np.arange(TASKS), EXAMPLES)
NAMES = np.repeat([f"site-{i:04d}" for i in range(TASKS)], EXAMPLES)


def thresholds(scores: Array, tasks: Array) -> Array:
    return MetaPS(**PROMISE).calibrate(scores, tasks).task_thresholds_


def expected(matrix: Array) -> Array:
    return np.sort(matrix, axis=1)[:, RANK]


@pytest.mark.benchmark(group="500 tasks x 2500 scores, contiguous")
class TestContiguous:
    def test_rival_one_partition(self, benchmark: Any, matrix: Array) -> None:
        found = benchmark(np.partition, matrix, RANK, axis=1)
        np.testing.assert_array_equal(found[:, RANK], expected(matrix))

    @pytest.mark.parametrize("ids", [NUMBERS, NAMES], ids=["integers", "strings"])
    def test_ours(self, benchmark: Any, matrix: Array, ids: Array) -> None:
        np.testing.assert_array_equal(thresholds(matrix.ravel(), ids), expected(matrix))
        benchmark(thresholds, matrix.ravel(), ids)


@pytest.mark.benchmark(group="the same, shuffled string ids")
class TestShuffled:
    def test_rival_pandas_groupby_quantile(
        self, benchmark: Any, matrix: Array, order: Array
    ) -> None:
        scores, ids = matrix.ravel()[order], NAMES[order]
        found = benchmark(lambda: pd.Series(scores).groupby(ids).quantile(RANK / (EXAMPLES - 1)))
        np.testing.assert_allclose(found.to_numpy(), expected(matrix))

    def test_rival_pandas_from_a_ready_frame(
        self, benchmark: Any, matrix: Array, order: Array
    ) -> None:
        frame = pd.DataFrame({"score": matrix.ravel()[order], "task": NAMES[order]})
        found = benchmark(lambda: frame.groupby("task").score.quantile(RANK / (EXAMPLES - 1)))
        np.testing.assert_allclose(found.to_numpy(), expected(matrix))

    @pytest.mark.parametrize("kind", ["numpy strings", "object strings"])
    def test_ours(self, benchmark: Any, matrix: Array, order: Array, kind: str) -> None:
        scores, ids = matrix.ravel()[order], NAMES[order]
        if kind == "object strings":  # what a pandas column is made of
            ids = np.asarray(pd.Series(np.unique(NAMES)))[np.unique(ids, return_inverse=True)[1]]
        found = benchmark(lambda: MetaPS(**PROMISE).calibrate(scores, ids))
        by_name = np.argsort(found.tasks_)
        np.testing.assert_array_equal(found.task_thresholds_[by_name], expected(matrix))


@pytest.mark.benchmark(group="a grid of step 1e-7, one Beta quantile per step")
class TestGrid:
    def test_rival_grid_walk(self, benchmark: Any, matrix: Array) -> None:
        """Walk a slice of the grid on one task; scale by the steps that all tasks need."""
        scores, steps = matrix[0], 200
        start = expected(matrix)[0] - steps * GRID_STEP / 2
        found = benchmark.pedantic(walk, (scores, start, steps), rounds=5, iterations=1)
        benchmark.extra_info["scale"] = expected(matrix).sum() / GRID_STEP / steps
        assert abs(found - expected(matrix)[0]) <= GRID_STEP

    def test_ours(self, benchmark: Any, matrix: Array) -> None:
        benchmark(thresholds, matrix.ravel(), NUMBERS)


def walk(scores: Array, start: float, steps: int) -> float:
    """Return the last of ``steps`` grid points whose Clopper-Pearson bound is within epsilon."""
    best, n = -np.inf, len(scores)
    for step in range(steps):
        cut = start + step * GRID_STEP
        errors = int((scores < cut).sum())
        if stats.beta.ppf(1 - 0.05, errors + 1, n - errors) <= 0.1:
            best = cut
    return best


class Remembering(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier whose probabilities cost nothing: it is handed them as its input."""

    def fit(self, x: Array, y: Array) -> Remembering:
        self.classes_ = np.arange(CLASSES)
        self.n_features_in_ = CLASSES
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, x: Array) -> Array:
        return x

    def predict(self, x: Array) -> Array:
        return np.asarray(x.argmax(axis=1))


@pytest.mark.benchmark(group="MAPIE 1.6 conformalize, as many scores")
class TestMapie:
    def test_rival_mapie(self, benchmark: Any) -> None:
        rng = np.random.default_rng(2)
        proba = rng.dirichlet(np.ones(CLASSES), TASKS * EXAMPLES)
        y = rng.integers(CLASSES, size=len(proba))
        model = Remembering().fit(proba, y)

        def conformalize() -> SplitConformalClassifier:
            method = SplitConformalClassifier(model, confidence_level=0.9, prefit=True)
            return method.conformalize(proba, y)

        found = benchmark.pedantic(conformalize, rounds=3, iterations=1)
        assert found.predict_set(proba[:10])[1].shape[:2] == (10, CLASSES)

    def test_ours(self, benchmark: Any, matrix: Array) -> None:
        benchmark(thresholds, matrix.ravel(), NUMBERS)


@pytest.mark.benchmark(group="predict_set on 200,000 x 5")
class TestPredict:
    probabilities = np.random.default_rng(3).random((200_000, CLASSES))

    def test_rival_bare_comparison(self, benchmark: Any) -> None:
        benchmark(lambda: self.probabilities >= 0.08)

    def test_ours(self, benchmark: Any, matrix: Array) -> None:
        promise = MetaPS(**PROMISE).calibrate(matrix.ravel(), NUMBERS)
        found = benchmark(promise.predict_set, self.probabilities)
        np.testing.assert_array_equal(found, self.probabilities >= promise.threshold_)


@pytest.mark.parametrize("ids", [NUMBERS, NAMES], ids=["integers", "strings"])
def test_contiguous_in_turns(matrix: Array, ids: Array, record: Callable[..., None]) -> None:
    """The first group once more, call by call in turns, which a busy machine disturbs least."""
    ours, rival = [], []
    for _ in range(100):
        rival.append(seconds(lambda: np.partition(matrix, RANK, axis=1)))
        ours.append(seconds(lambda: thresholds(matrix.ravel(), ids)))
    kind = "integers" if ids is NUMBERS else "strings"
    record(f"contiguous {kind}, in turns", f"{min(ours) / min(rival):.2f} x one partition")
    np.testing.assert_array_equal(thresholds(matrix.ravel(), ids), expected(matrix))


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@pytest.mark.parametrize(
    "kind", ["contiguous integers", "shuffled integers", "shuffled int32", "shuffled strings"]
)
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_peak_extra_memory(
    matrix: Array, order: Array, kind: str, precision: type, record: Callable[..., None]
) -> None:
    ids = NAMES if kind.endswith("strings") else NUMBERS
    ids = ids.astype(np.int32) if kind.endswith("int32") else ids
    scores: Array = matrix.ravel().astype(precision)
    if kind.startswith("shuffled"):
        scores, ids = scores[order], ids[order]
    thresholds(scores, ids)  # imports and caches are not the call's
    tracemalloc.start()
    thresholds(scores, ids)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    ratio = peak / (scores.nbytes + ids.nbytes)
    record(f"extra memory, {kind}, {np.dtype(precision).name}", f"{ratio:.2f} x input")
    assert ratio <= 3
