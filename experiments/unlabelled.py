"""Set sizes with and without unlabelled examples of each task, on stored learners.

    metapac train fewrel -o fewrel-0
    python experiments/unlabelled.py fewrel-0 --shots 5 1 -o fewrel-0.json

A source is the folder of a run of 'metapac train' (a protonet), which needs a GPU only to embed
images fast, or 'glove': the sentences of FewRel as the mean of their word vectors. Temperatures and
the offset are fitted on tasks of the run's validation classes, all methods are calibrated on the
same tasks of its calibration classes, and tested on the same tasks of its test classes. For the
ResNet-12 of mini-ImageNet:

    metapac train miniimagenet --recipe strong --backbone resnet12 -o resnet12
    python experiments/unlabelled.py resnet12 --shots 5 1 -o resnet12.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metapac import MetaPS
from metapac._common import Array, Floats
from metapac.fewshot import ClassPool, PrototypeLearner, fewrel, fit_offset, fit_temperature
from metapac.fewshot.scoring import SharedEmbeddings, score_matrix, score_tasks
from metapac.verdict import clopper_pearson_interval

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}
UNLABELLED, FIT_TASKS, TASKS, TESTS = 100, 400, 500, 500
POOLS = ("validation", "calibration", "test")
Pools = dict[str, ClassPool]


class Unaided:
    """A learner that takes no unlabelled examples."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> Any:
        return self.learner.adapt(support_x, support_y, classes=classes)


def read_pools(source: str, device: str | None) -> tuple[Pools, PrototypeLearner]:
    """Return the vectors of three pools, and the learner on them."""
    if source == "glove":
        pools, words = fewrel(validation=8)
        found = {name: getattr(pools, name) for name in POOLS}
        x = {name: average_words(pool.x, words) for name, pool in found.items()}
        return {name: ClassPool(x[name], found[name].y, name=name) for name in POOLS}, (
            PrototypeLearner("cosine", 0.1)
        )
    from metapac.fewshot.datasets.pools import load_run_pools
    from metapac.fewshot.scored_tables import load_run_learner

    _, learner, _, _ = load_run_learner(source, device)
    loaded = load_run_pools(source).pools
    found = {name: getattr(loaded, name) for name in POOLS}
    x = {name: learner.embed(pool.x).cpu().numpy() for name, pool in found.items()}
    return {name: ClassPool(x[name], found[name].y, name=name) for name in POOLS}, (
        PrototypeLearner()
    )


def average_words(sentences: Array, words: Array) -> Floats:
    """Return the mean word vector of each sentence."""
    rows = sentences[:, :, 0]
    known = rows > 1  # neither padding nor unknown
    total = np.stack([words[row[mask]].sum(0) for row, mask in zip(rows, known, strict=True)])
    return np.asarray(total / np.maximum(known.sum(1), 1)[:, None])


def compare(pools: Pools, learner: Any, shots: int, rng: int) -> list[dict[str, Any]]:
    """Return size and validity of each way to use unlabelled examples."""
    shape: Any = {"ways": 5, "shots": shots, "unlabelled": UNLABELLED}
    most = min(map(len, pools["validation"].positions)) - shots - UNLABELLED // 5
    seeds = np.random.default_rng(rng).spawn(3)
    fitted = pools["validation"].tasks(FIT_TASKS, **shape, queries=min(100, most), rng=seeds[0])
    known = pools["calibration"].tasks(TASKS, **shape, queries=100, rng=seeds[1])
    new = pools["test"].tasks(TESTS, **shape, queries=100, rng=seeds[2])
    rows = []
    for used, model in (("no", Unaided(learner)), ("refined", learner)):
        scale = fit_temperature(model, fitted, score="log_probability")
        offset = fit_offset(model, fitted, epsilon=LEVELS["epsilon"])
        shared = SharedEmbeddings(model)
        tables = [score_matrix(shared, task, score=scale) for task in new]
        rows.append({"prototypes": used, "score": "oracle", **judge(tables, new, None)})
        for name, score in (("temperature", scale), ("offset", offset)):
            promise = MetaPS(**LEVELS).calibrate(*score_tasks(shared, known, score=score))
            tables = [score_matrix(shared, task, score=score) for task in new]
            rows.append({"prototypes": used, "score": name})
            rows[-1] |= judge(tables, new, promise.threshold_)
    return rows


def judge(tables: Sequence[Floats], tasks: Any, threshold: float | None) -> dict[str, Any]:
    """Return mean size, accuracy and the share of tasks within; the oracle knows each threshold."""
    sizes, misses, right = [], [], []
    for table, task in zip(tables, tasks, strict=True):
        true = table[np.arange(len(table)), task.query_y]
        oracle = np.quantile(true, LEVELS["epsilon"], method="lower")
        cut = oracle if threshold is None else threshold
        sizes.append((table >= cut).sum(1).mean())
        misses.append((true < cut).mean())
        right.append((table.argmax(1) == task.query_y).mean())
    within = int((np.array(misses) <= LEVELS["epsilon"]).sum())
    low, high = clopper_pearson_interval(within, len(tables), confidence=0.95)
    return {
        "size": float(np.mean(sizes)),
        "accuracy": float(np.mean(right)),
        "within": within / len(tables),
        "within_interval": [float(low), float(high)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="+")
    parser.add_argument("--shots", type=int, nargs="+", default=[5, 1])
    parser.add_argument("--rng", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    results = []
    for i, source in enumerate(given.source):
        pools, learner = read_pools(source, given.device)
        for shots in given.shots:
            for row in compare(pools, learner, shots, given.rng + i):
                results.append({"source": Path(source).name, "shots": shots, **row})
                print(*results[-1].values(), flush=True)
    settings = {**LEVELS, "unlabelled": UNLABELLED, "tasks": TASKS, "tests": TESTS}
    given.output.write_text(json.dumps({**settings, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
