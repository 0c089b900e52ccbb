"""Risks: time and memory, thresholds beside Hoeffding-Bentkus, and the table of docs/howto/risk.md.

    python benchmarks/risk.py [speed] [bounds] [rivals]

*Bounds* certifies one task at a time: mean threshold, as a share of the perfect one, for losses
that are the share of some objects missed, so that the risk at a threshold is the threshold.
*Rivals* are methods with one level, on the images of all hospitals together, in the family of
examples/risk_masks.py: its risks and sizes are in closed form.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from scipy import special, stats

from metapac import MetaRisk, threshold
from metapac._common import Array, Floats
from metapac.grouping import Scored
from metapac.risk import score_losses

EPSILON, ALPHA, DELTA = 0.1, 0.1, 0.05
GRID = np.linspace(0, 1, 201)


def measure_speed() -> None:
    """Print the seconds and the memory of 500 x 500 x 200 losses: the best of five calls."""
    rng, grid = np.random.default_rng(0), np.linspace(0, 1, 200)
    losses = rng.random((250_000, 1)) * grid
    tasks, keys = np.repeat(np.arange(500), 500), np.tile(np.arange(500), 500)
    method = MetaRisk(epsilon=EPSILON, alpha=ALPHA, delta=DELTA)
    seconds = []
    for _ in range(5):
        start = time.perf_counter(), time.process_time()
        method.calibrate(losses, tasks, grid, keys)
        seconds.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    tracemalloc.start()
    method.calibrate(losses, tasks, grid, keys)
    peak = tracemalloc.get_traced_memory()[1] + losses.nbytes
    wall, processor = np.min(seconds, axis=0)
    print(f"500 x 500 x 200 losses: {wall:.2f} s, {processor:.2f} s of the processor;", end=" ")
    print(f"memory with the input {peak / losses.nbytes:.2f} times the input")


def hoeffding_bentkus(means: Floats, n: int, epsilon: float) -> Floats:
    """Return the p-values of "the risk exceeds epsilon", given mean losses of n examples."""
    low = np.minimum(means, epsilon)
    entropy = special.rel_entr(low, epsilon) + special.rel_entr(1 - low, 1 - epsilon)
    bentkus = np.e * stats.binom.cdf(np.ceil(n * means - 1e-9), n, epsilon)
    return np.asarray(np.minimum(np.exp(-n * entropy), bentkus))


def largest(is_safe: Array) -> Array:
    """Return the largest grid point up to which each row is safe."""
    count = np.cumprod(is_safe, axis=-1).sum(axis=-1)
    return np.asarray(np.concatenate([[0.0], GRID])[count])


def compare_bounds(tasks: int = 400) -> int:
    """Print the table, and return in how many cells Hoeffding-Bentkus has the larger threshold."""
    worse, cells = 0, 0
    print("| objects | examples | " + " | ".join(f"level {t}" for t in LEVELS) + " |")
    print("|---:|---:|" + "---:|" * len(LEVELS))
    for objects in (1, 2, 5, 30):
        for n in (30, 100, 200, 500):
            rng, row = np.random.default_rng([objects, n]), []
            found = rng.random((tasks * n, objects))
            losses = MetaRisk.missed_share(found, np.ones_like(found), GRID)
            names = np.repeat(np.arange(tasks), n)
            scores = score_losses(Scored(losses, names, thresholds=GRID), 0, None, None).true_scores
            means = losses.reshape(tasks, n, -1).mean(axis=1)
            for level in LEVELS:
                known = largest(hoeffding_bentkus(means, n, EPSILON) <= level)
                ours = [
                    threshold(s, epsilon=EPSILON, delta=level) for s in scores.reshape(tasks, n)
                ]
                pair = np.mean(known) / EPSILON, np.mean(np.maximum(ours, 0)) / EPSILON
                row.append("{:.2f} / {:.2f}".format(*pair))
                worse, cells = worse + (pair[1] < pair[0]), cells + 1
            print(f"| {objects} | {n} | {' | '.join(row)} |")
    print(f"Hoeffding-Bentkus is larger in {worse} of {cells} cells.")
    return worse


LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5)
HOSPITALS, IMAGES, RUNS = 200, 200, 100


def choose_rcps(losses: Floats) -> float:
    """Return the threshold of risk-controlling prediction sets, by Hoeffding and Bentkus."""
    return float(largest(hoeffding_bentkus(losses.mean(axis=0), len(losses), EPSILON) <= DELTA))


def choose_crc(losses: Floats) -> float:
    """Return the threshold of conformal risk control: a mean with one more image, of loss 1."""
    return float(largest((losses.sum(axis=0) + 1) / (len(losses) + 1) <= EPSILON))


def choose_ltt(losses: Floats) -> float:
    """Return the largest threshold of Learn then Test, by Bonferroni over the whole grid."""
    safe = hoeffding_bentkus(losses.mean(axis=0), len(losses), EPSILON) <= DELTA / len(GRID)
    return float(GRID[np.flatnonzero(safe)].max(initial=0))


METHODS: dict[str, Callable[[Floats], float]] = {
    "RCPS": choose_rcps,
    "conformal risk control": choose_crc,
    "Learn then Test": choose_ltt,
}


def draw_skills(number: int, rng: np.random.Generator) -> Floats:
    """Return how well the model finds the organ at each of some hospitals."""
    return np.exp(rng.normal(0.3, 0.3, number))


def compare_rivals() -> None:
    """Print for each method its threshold and, over new hospitals, risks and sizes of masks."""
    found: dict[str, list[tuple[float, ...]]] = {}
    new = draw_skills(100_000, np.random.default_rng(0))
    tasks, keys = np.repeat(np.arange(HOSPITALS), IMAGES), np.tile(np.arange(IMAGES), HOSPITALS)
    for run in range(1, RUNS + 1):
        rng = np.random.default_rng(run)
        skill = np.repeat(draw_skills(HOSPITALS, rng), IMAGES)[:, None]
        latent = rng.normal(size=(len(skill), 1)) + rng.normal(size=(len(skill), 60))
        scores = special.ndtr(latent / np.sqrt(2)) ** (1 / skill)  # of 60 pixels of the organ
        losses = MetaRisk.missed_share(scores, np.ones_like(scores), GRID)
        method = MetaRisk(epsilon=EPSILON, alpha=ALPHA, delta=DELTA)
        chosen = {"metapac": method.calibrate(losses, tasks, GRID, keys).threshold_}
        chosen |= {name: choose(losses) for name, choose in METHODS.items()}
        for name, cut in chosen.items():
            risks, kept = cut**new, 1 - cut ** (1 / 4)  # of pixels without the organ
            over = float(np.mean(risks > EPSILON))
            found.setdefault(name, []).append((cut, risks.mean(), over, over > ALPHA, kept))
    print(
        "| method | threshold | mean risk | hospitals over | runs over alpha | other pixels kept |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for name, rows in found.items():
        cut, *shares = np.mean(rows, axis=0)
        print(f"| {name} | {cut:.3f} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["speed", "bounds", "rivals"]
    if "speed" in wanted:
        measure_speed()
    if "bounds" in wanted and compare_bounds():
        sys.exit("The binarised bound must never be smaller.")
    if "rivals" in wanted:
        compare_rivals()
