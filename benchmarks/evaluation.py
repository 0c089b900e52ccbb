"""The paper's evaluation from stored embeddings: all methods, 100 draws of 500 + 50 tasks.

    python benchmarks/evaluation.py [DRAWS] [JOBS]

The embeddings are random, 1600 numbers for each of 16 and 20 classes of 600, as those of
mini-ImageNet through Conv4. On a GPU where there is one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from metapac.fewshot import ClassPool, Method, PoolStudy, ProtoNet, paper_methods, run_study
from metapac.fewshot.learners.protonet import PrototypeBank
from metapac.fewshot.quantile_predictor import QuantilePredictor
from metapac.fewshot.reproduce.experiments import find_experiment
from metapac.fewshot.study.methods import SECOND_DELTA, neighbour_methods
from metapac.fewshot.study.rows import evaluate_draw

EXPERIMENT = find_experiment("miniimagenet")


def make_study(device: str) -> PoolStudy:
    """Return draws of tasks from random embeddings."""
    rng = np.random.default_rng(0)
    pools, banks = [], []
    for classes in (16, 20):
        centres = rng.normal(size=(classes, 1600)).repeat(600, axis=0)
        x = (0.25 * centres + rng.normal(size=centres.shape)).astype(np.float32) / 10
        names = [f"{classes}: {i}" for i in range(100, 100 + classes)]  # pools share no class
        pools.append(ClassPool(x, np.repeat(names, 600), name=str(classes)))
        banks.append(PrototypeBank(torch.from_numpy(x).to(device), x))
    guess = QuantilePredictor(epsilon=0.1, rng=0)
    guess.fit(-rng.uniform(size=(64, 25)), -rng.uniform(size=64))
    return PoolStudy(
        ProtoNet(torch.nn.Identity()),
        *pools,
        queries=EXPERIMENT.calibration_examples,
        predictor=guess,
        banks=(banks[0], banks[1]),
        description={},
    )


def all_methods() -> tuple[Method, ...]:
    """Return the paper's methods at two deltas, and related ones."""
    guarantee = EXPERIMENT.guarantee
    paper = paper_methods(guarantee, second_delta=SECOND_DELTA)
    return (*paper, *neighbour_methods(guarantee))


def best_of(run: Callable[[], Any], repeats: int = 7) -> float:
    """Return the least time in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def time_one_draw(study: PoolStudy, methods: Sequence[Method]) -> dict[str, float]:
    """Return the milliseconds of each step of one draw."""
    known, new = study.sample(np.random.default_rng(1))
    scores: Any = study._prepare()[0]
    draw = study.draw(np.random.default_rng(1))
    evaluate_draw(0, draw, methods)  # fills the caches of ranks
    pool, options = study.calibration, {"ways": 5, "shots": 5, "queries": study.queries}

    def draw_calibration() -> Any:
        return pool.tasks(study.tasks, **options, rng=1).draw()

    return {
        "drawing 500 calibration tasks": best_of(draw_calibration),
        "scoring them": best_of(lambda: scores.true_scores(known)),
        "a calibration draw: drawing and scoring": best_of(
            lambda: scores.true_scores(draw_calibration())
        ),
        "quantiles of 500 tasks, for Meta-CP": best_of(lambda: scores.bank.leave_one_out(known)),
        "scoring 50 test tasks": best_of(lambda: study._score_tests(new)),
        "a whole draw": best_of(lambda: study.draw(np.random.default_rng(1))),
        f"{len(methods)} methods": best_of(
            lambda: evaluate_draw(0, type(draw)(**fields(draw)), methods)
        ),
    }


def fields(draw: Any) -> dict[str, Any]:
    """Return what a draw was made of, without what methods have cached in it."""
    return {name: getattr(draw, name) for name in ("scores", "tasks", "tests", "quantiles")}


def main(draws: int = 100, jobs: int = 1) -> None:
    start = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    study, methods = make_study(device), all_methods()
    ready = time.perf_counter()
    rows = run_study(
        study, guarantee=EXPERIMENT.guarantee, methods=methods, draws=draws, n_jobs=jobs
    )
    end = time.perf_counter()
    print(
        f"{device}, {torch.get_num_threads()} torch threads, {jobs} jobs: {draws} draws x 50 test "
        f"tasks x {len(rows.methods())} methods in {end - ready:.1f} s, after "
        f"{ready - start:.1f} s for random embeddings and their Gram matrices"
    )
    print("one draw, milliseconds, best of 7:")
    for step, milliseconds in time_one_draw(study, methods).items():
        print(f"{milliseconds:9.1f}  {step}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
