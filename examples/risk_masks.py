"""Organ masks by hospital: at most 10% of an organ is missed, on average over images.

The scores are made so that the risk of each hospital is known: a pixel of the organ scores below t
with probability t to the power of the hospital's skill, whatever the other pixels of its image do.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from metapac import Context, MetaRisk

HOSPITALS, IMAGES, WIDTH, GRID = 200, 80, 24, np.linspace(0, 1, 201)


def scan(skill: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of the pixels of an image, and which of them show the organ."""
    y, x = np.mgrid[:WIDTH, :WIDTH] - rng.uniform(8, 16, size=(2, 1, 1))
    organ = x**2 + y**2 < rng.uniform(3, 7) ** 2
    quality, noise = rng.normal(), rng.normal(size=organ.shape)
    scores = special.ndtr((quality + noise) / np.sqrt(2))  # uniform, and alike within an image
    return np.where(organ, scores ** (1 / skill), scores**4), organ


rng = np.random.default_rng(0)
skills = np.exp(rng.normal(0.3, 0.3, HOSPITALS))
scans = [scan(skill, rng) for skill in skills for _ in range(IMAGES)]
scores, organs = zip(*scans, strict=True)
hospital, image = np.repeat(np.arange(HOSPITALS), IMAGES), np.tile(np.arange(IMAGES), HOSPITALS)

losses = MetaRisk.missed_share(scores, organs, GRID)  # of each image, at each threshold
promise = MetaRisk(epsilon=0.1, alpha=0.1, delta=0.05)
promise.calibrate(losses, hospital, GRID, image, context=Context(unit="hospital", example="image"))
print(promise)

pooled = GRID[np.flatnonzero(losses.mean(axis=0) <= 0.1)[-1]]
new = np.exp(rng.normal(0.3, 0.3, 100_000))  # skills of new hospitals
for name, threshold in (("this guarantee", promise.threshold_), ("all images pooled", pooled)):
    risks = threshold**new
    print(
        f"{name}: threshold {threshold:.3f}, mean risk {risks.mean():.1%}, "
        f"above 10% at {np.mean(risks > 0.1):.1%} of new hospitals"
    )
pixels, organ = scan(1.5, rng)
mask = promise.predict(pixels)
print(f"a new image: {np.sum(mask & organ)} of {organ.sum()} pixels of the organ are found")
