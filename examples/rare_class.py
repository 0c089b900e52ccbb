"""A guarantee for all examples together can hold although a rare class is missed entirely.

One in twenty patients is ill. Sets that never contain "yes" satisfy a guarantee for all patients of
a hospital together, but not a guarantee per class.
"""

from __future__ import annotations

import numpy as np

from metapac import MetaPS

HOSPITALS, PATIENTS, CLASSES = 150, 600, np.array(["no", "yes"])


def patients(hospitals: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of both classes and the truth, hospital after hospital."""
    skill = np.repeat(rng.normal(1.5, 0.3, hospitals), PATIENTS)  # of the model at each hospital
    ill = rng.random(hospitals * PATIENTS) < 0.05
    logit = rng.normal(size=len(ill)) + skill * (2 * ill - 1) + np.log(0.05 / 0.95)
    yes = 1 / (1 + np.exp(-logit))
    return np.column_stack([1 - yes, yes]), ill.astype(int)


rng = np.random.default_rng(0)
scores, truth = patients(HOSPITALS, rng)
hospital = np.repeat(np.arange(HOSPITALS), PATIENTS)
true_scores = scores[np.arange(len(truth)), truth]

together = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(true_scores, hospital)
per_class = MetaPS(epsilon=0.2, alpha=0.1, delta=0.05, per_class=True)
per_class.calibrate(true_scores, hospital, CLASSES[truth])
print(per_class)

new, sick = patients(50, rng)
for name, predictor in (("all patients together", together), ("each class", per_class)):
    sets = predictor.predict_set(new)
    missed = ~sets[np.arange(len(sick)), sick]
    print(
        f"{name}: misses {missed.mean():.1%} of all, {missed[sick == 1].mean():.1%} of the ill; "
        f"{sets[:, 1].mean():.1%} of the sets contain yes, mean size {sets.sum(axis=1).mean():.2f}"
    )
