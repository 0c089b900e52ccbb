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

from metapac import Guarantee, MetaPS, allowed_errors
from metapac.binomial import allowed_errors_in_task
from metapac.ranks import joint_ranks

TASKS, EXAMPLES, CLASSES = 500, 2500, 5
PROMISE: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}
RANK = allowed_errors(EXAMPLES, 0.1, 0.05)
GRID_STEP = 1e-7

Array = NDArray[Any]


def group(name: str) -> Any:
    """Measure processor time, which other work on the machine hardly disturbs."""
    return pytest.mark.benchmark(group=name, timer=time.process_time)


@pytest.fixture(scope="module")
def matrix() -> Array:
    return np.random.default_rng(0).random((TASKS, EXAMPLES))


@pytest.fixture(scope="module")
def order() -> Array:
    return np.random.default_rng(1).permutation(TASKS * EXAMPLES)


NUMBERS = np.repeat(np.arange(TASKS), EXAMPLES)
NAMES = np.repeat([f"site-{i:04d}" for i in range(TASKS)], EXAMPLES)


def calibrated(scores: Array, tasks: Array, split: str = "joint") -> MetaPS:
    return MetaPS(**PROMISE, split=split).calibrate(scores, tasks)


def expected(matrix: Array, rank: int = RANK) -> Array:
    return np.sort(matrix, axis=1)[:, rank]


def check(found: MetaPS, matrix: Array) -> None:
    """Compare with sorting: the task thresholds are those of the level that won."""
    assert found.level_ in found.guarantee_.levels
    rank = allowed_errors_in_task(EXAMPLES, 0.1, found.level_.alpha_within)
    np.testing.assert_array_equal(found.task_thresholds_, expected(matrix, rank))


@group("500 tasks x 2500 scores, contiguous")
class TestContiguous:
    def test_rival_one_partition(self, benchmark: Any, matrix: Array) -> None:
        found = benchmark(np.partition, matrix, RANK, axis=1)
        np.testing.assert_array_equal(found[:, RANK], expected(matrix))

    @pytest.mark.parametrize("split", ["joint", "tight"])
    @pytest.mark.parametrize("ids", [NUMBERS, NAMES], ids=["integers", "strings"])
    def test_ours(self, benchmark: Any, matrix: Array, ids: Array, split: str) -> None:
        check(benchmark(calibrated, matrix.ravel(), ids, split), matrix)


@group("the same, shuffled string ids")
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
        found = benchmark(calibrated, scores, ids)
        found.task_thresholds_ = found.task_thresholds_[np.argsort(found.tasks_)]
        check(found, matrix)


@group("a grid of step 1e-7, one Beta quantile per step")
class TestGrid:
    def test_rival_grid_walk(self, benchmark: Any, matrix: Array) -> None:
        """Walk a slice of the grid on one task; scale by the steps that all tasks need."""
        scores, steps = matrix[0], 200
        start = expected(matrix)[0] - steps * GRID_STEP / 2
        found = benchmark.pedantic(walk, (scores, start, steps), rounds=5, iterations=1)
        benchmark.extra_info["scale"] = expected(matrix).sum() / GRID_STEP / steps
        assert abs(found - expected(matrix)[0]) <= GRID_STEP

    def test_ours(self, benchmark: Any, matrix: Array) -> None:
        benchmark(calibrated, matrix.ravel(), NUMBERS)


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


@group("MAPIE 1.6 conformalize, as many scores")
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
        benchmark(calibrated, matrix.ravel(), NUMBERS)


@group("predict_set on 200,000 x 5")
class TestPredict:
    probabilities = np.random.default_rng(3).random((200_000, CLASSES))

    def test_rival_bare_comparison(self, benchmark: Any) -> None:
        benchmark(lambda: self.probabilities >= 0.08)

    def test_ours(self, benchmark: Any, matrix: Array) -> None:
        promise = calibrated(matrix.ravel(), NUMBERS)
        found = benchmark(promise.predict_set, self.probabilities)
        np.testing.assert_array_equal(found, self.probabilities >= promise.threshold_)


LEVELS = Guarantee(**PROMISE).levels


@group("ranks across tasks at 13 levels, nothing cached")
class TestRanks:
    @pytest.mark.parametrize("tasks", [500, 2000, 1_000_000], ids="{:,} tasks".format)
    def test_ours(self, benchmark: Any, tasks: int) -> None:
        args = (tasks, LEVELS, PROMISE["delta"])
        found = benchmark.pedantic(joint_ranks, args, setup=joint_ranks.cache_clear, rounds=5)
        assert list(found) == sorted(found, reverse=True)


def test_memory_of_ranks(record: Callable[..., None]) -> None:
    joint_ranks(1000, LEVELS, PROMISE["delta"])  # imports are not the call's
    peak = peak_memory(lambda: joint_ranks.__wrapped__(1_000_000, LEVELS, PROMISE["delta"]))
    record("peak memory, ranks of 1,000,000 tasks", f"{peak / 2**20:.0f} MiB")


@pytest.mark.parametrize(
    ("kind", "precision", "split"),
    [
        ("integers", "float64", "joint"),
        ("integers", "float64", "tight"),
        ("integers", "float32", "joint"),
        ("strings", "float64", "joint"),
    ],
)
def test_contiguous_in_turns(
    matrix: Array, kind: str, precision: str, split: str, record: Callable[..., None]
) -> None:
    """The first group once more, call by call in turns, which a busy machine disturbs least."""
    rows = matrix.astype(precision)
    ids = NUMBERS if kind == "integers" else NAMES
    ours, rival = [], []
    for _ in range(100):
        rival.append(seconds(lambda: np.partition(rows, RANK, axis=1)))
        ours.append(seconds(lambda: calibrated(rows.ravel(), ids, split)))
    name = f"contiguous {kind}, {precision}, {split}, in turns"
    record(name, f"{min(ours) / min(rival):.2f} x one partition")
    check(calibrated(rows.ravel(), ids, split), rows)


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


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
    calibrated(scores, ids)  # imports and caches are not the call's
    ratio = peak_memory(lambda: calibrated(scores, ids)) / (scores.nbytes + ids.nbytes)
    record(f"extra memory, {kind}, {np.dtype(precision).name}", f"{ratio:.2f} x input")
    assert ratio <= 3


def peak_memory(call: Callable[[], object]) -> int:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
