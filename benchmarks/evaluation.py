"""The paper's evaluation from stored embeddings: all methods, 100 draws of 500 + 50 tasks.

    python benchmarks/evaluation.py [DRAWS] [JOBS]

The embeddings are random, 1600 numbers for each of 16 and 20 classes of 600, as those of
mini-ImageNet through Conv4. On a GPU where there is one.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch

from metapac.evaluation import PoolStudy, evaluate
from metapac.learners import ProtoNet
from metapac.learners.bank import PrototypeBank
from metapac.meta_cp.quantiles import QuantilePredictor
from metapac.reproduce.experiments import find_experiment
from metapac.tasks.pools import ClassPool


def study(device: str) -> PoolStudy:
    chosen = find_experiment("miniimagenet")
    rng = np.random.default_rng(0)
    pools, banks = [], []
    for classes in (16, 20):
        centres = rng.normal(size=(classes, 1600)).repeat(600, axis=0)
        x = (0.25 * centres + rng.normal(size=centres.shape)).astype(np.float32) / 10
        pools.append(ClassPool(x, np.arange(classes).repeat(600), name=str(classes)))
        banks.append(PrototypeBank(torch.from_numpy(x).to(device), x))
    guess = QuantilePredictor(epsilon=0.1, rng=0)
    guess.fit(-rng.uniform(size=(64, 25)), -rng.uniform(size=64))
    return PoolStudy(
        ProtoNet(torch.nn.Identity()),
        *pools,
        queries=chosen.calibration_examples,
        predictor=guess,
        banks=(banks[0], banks[1]),
        description={},
    )


def main(draws: int = 100, jobs: int = 1) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    made = study(device)
    made.draw(np.random.default_rng(1))
    start = time.perf_counter()
    made.draw(np.random.default_rng(2))
    drawn = time.perf_counter()
    guarantee = find_experiment("miniimagenet").guarantee
    rows = evaluate(made, guarantee=guarantee, draws=draws, n_jobs=jobs)
    end = time.perf_counter()
    print(
        f"{device}: one draw scored in {drawn - start:.3f} s; {draws} draws x 50 test tasks x "
        f"{len(rows.methods())} methods in {end - drawn:.1f} s with {jobs} jobs"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
