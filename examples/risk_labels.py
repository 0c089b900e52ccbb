"""Sets of labels where several are true, by site: at most 20% of the findings are missed."""

from __future__ import annotations

import numpy as np

from metapac import Context, MetaRisk, Scored, evaluate

SITES, REPORTS, FINDINGS, GRID = 80, 100, 12, np.linspace(0, 1, 101)


def reports(sites: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of all findings in the reports of some sites, and which are true."""
    skill = np.repeat(rng.normal(2.0, 0.4, sites), REPORTS)[:, None]
    truth = rng.random((sites * REPORTS, FINDINGS)) < np.geomspace(0.4, 0.02, FINDINGS)
    logits = rng.normal(size=truth.shape) + skill * (2 * truth - 1)
    return 1 / (1 + np.exp(-logits)), truth


rng = np.random.default_rng(0)
site, report = np.repeat(np.arange(SITES), REPORTS), np.tile(np.arange(REPORTS), SITES)
scores, truth = reports(SITES, rng)
promise = MetaRisk(epsilon=0.2, alpha=0.1, delta=0.05).calibrate(
    MetaRisk.missed_share(scores, truth, GRID), site, GRID, report, context=Context(unit="site")
)
print(promise)

scores, truth = reports(40, rng)  # new sites
site, report = np.repeat(np.arange(100, 140), REPORTS), np.tile(np.arange(REPORTS), 40)
losses = MetaRisk.missed_share(scores, truth, [promise.threshold_])[:, 0]
print(evaluate(promise, Scored(losses, site, keys=report)))
kept = promise.predict(scores)
print(f"labels per set: {kept.sum(axis=1).mean():.2f}, true ones {truth.sum(axis=1).mean():.2f}")
