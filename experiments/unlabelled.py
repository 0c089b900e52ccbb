"""Set sizes with and without unlabelled examples of each task, on stored learners.

    metapac train miniimagenet --recipe strong --backbone resnet12 --rng 1 -o resnet12-1
    for i in 0 1 2; do
        metapac train fewrel --rng $i --episodes 800 --epochs 200 --patience 30 -o fewrel-$i
    done
    python experiments/unlabelled.py resnet12-1 resnet12-1 resnet12-1 -o unlabelled.json
    python experiments/unlabelled.py fewrel-0 fewrel-1 fewrel-2 -o unlabelled.json
    python experiments/unlabelled.py resnet12-1 --learner ridge -o unlabelled.json

A source is the folder of a run of 'metapac train' (a protonet), which needs a GPU only to embed
images fast. Temperatures and the offset are fitted on tasks of the run's validation classes; all
methods are calibrated on the same tasks of its calibration classes, and tested on the same tasks of
its test classes. With --learner ridge or logistic (run on resnet12-1 and fewrel-0), such a head
takes the place of the prototypes, and its own guesses for the unlabelled examples are added to its
support set. Results are added to those in the file. Embeddings are rounded to float16.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metapac import MetaPS
from metapac._common import Floats
from metapac.fewshot import (
    ClassPool,
    LogisticLearner,
    PrototypeLearner,
    RidgeLearner,
    fit_offset,
    fit_temperature,
)
from metapac.fewshot.datasets.pools import load_run_pools
from metapac.fewshot.scored_tables import load_run_learner
from metapac.fewshot.scoring import SharedEmbeddings, score_matrix, score_tasks
from metapac.verdict import clopper_pearson_interval

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}
UNLABELLED = 100  # of a task
TASKS = {"validation": 400, "calibration": 500, "test": 500}  # of a pool
QUERIES = {"validation": 100, "calibration": 500, "test": 100}  # of a class, as in the paper
POOLS = tuple(TASKS)
LEARNERS: dict[str, Any] = {
    "prototypes": PrototypeLearner,
    "ridge": RidgeLearner,
    "logistic": LogisticLearner,
}
Pools = dict[str, ClassPool]


class Unaided:
    """A learner that takes no unlabelled examples."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> Any:
        return self.learner.adapt(support_x, support_y, classes=classes)


class PseudoLabels(Unaided):
    """A learner that adapts again, to its own guesses for the unlabelled examples."""

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None, unlabelled: Any = None
    ) -> Any:
        scorer = super().adapt(support_x, support_y, classes=classes)
        if unlabelled is None:
            return scorer
        guesses = scorer.predict_proba(unlabelled).argmax(1)
        x, y = np.concatenate([support_x, unlabelled]), np.concatenate([support_y, guesses])
        return super().adapt(x, y, classes=classes)


def read_pools(source: str, device: str | None) -> Pools:
    """Return the embeddings of three pools of a run."""
    _, learner, _, _ = load_run_learner(source, device)
    loaded = load_run_pools(source).pools
    found = {name: getattr(loaded, name) for name in POOLS}
    x = {name: learner.embed(pool.x).cpu().numpy().astype("f2") for name, pool in found.items()}
    return {name: ClassPool(x[name], found[name].y, name=name) for name in POOLS}


def compare(pools: Pools, name: str, shots: int, rng: int) -> Iterator[dict[str, Any]]:
    """Yield size and validity of each way to use unlabelled examples."""
    shape: Any = {"ways": 5, "shots": shots, "unlabelled": UNLABELLED}
    spare = {name: min(map(len, pools[name].positions)) - shots - UNLABELLED // 5 for name in POOLS}
    queries = {name: min(QUERIES[name], spare[name]) for name in POOLS}
    fitted, known, new = (
        pools[name].tasks(TASKS[name], **shape, queries=queries[name], rng=seed)
        for name, seed in zip(POOLS, np.random.default_rng(rng).spawn(3), strict=True)
    )
    learner = LEARNERS[name]()
    aided = {"refined": learner} if name == "prototypes" else {"guessed": PseudoLabels(learner)}
    for used, model in ({"no": Unaided(learner)} | aided).items():
        shared = SharedEmbeddings(model)
        scores = {"temperature": fit_temperature(model, fitted, score="log_probability")}
        if name == "prototypes":
            scores["offset"] = fit_offset(model, fitted, epsilon=LEVELS["epsilon"])
        for kind, score in scores.items():
            promise = MetaPS(**LEVELS).calibrate(*score_tasks(shared, known, score=score))
            tables = [score_matrix(shared, task, score=score) for task in new]
            cuts = {kind: promise.threshold_} | ({"oracle": None} if kind == "temperature" else {})
            for by, cut in cuts.items():
                yield {"unlabelled": used, "score": by, **judge(tables, new, cut)}


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
    parser.add_argument("--learner", choices=LEARNERS, default="prototypes")
    parser.add_argument("--shots", type=int, nargs="+", default=[5, 1])
    parser.add_argument("--rng", type=int, nargs="+", help="of each source; by default 0, 1, ...")
    parser.add_argument("--device")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    results = json.loads(given.output.read_text())["results"] if given.output.exists() else []
    seeds = given.rng or range(len(given.source))
    for source, rng in zip(given.source, seeds, strict=True):
        pools = read_pools(source, given.device)
        for shots in given.shots:
            about = {"source": Path(source).name, "learner": given.learner, "shots": shots}
            for row in compare(pools, given.learner, shots, rng):
                results.append({**about, "rng": rng, **row})
                print(*results[-1].values(), flush=True)
    settings = {**LEVELS, "unlabelled": UNLABELLED, "tasks": TASKS, "queries": QUERIES}
    rows = ",\n".join(map(json.dumps, results))
    text = json.dumps({**settings, "results": []}).replace("[]", f"[\n{rows}\n]")
    given.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
