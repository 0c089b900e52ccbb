"""A model that is never adapted (the paper's Appendix A): calibrate on its raw scores.

One classifier serves all hospitals. Measurements are shifted at each hospital, so the classifier is
better at some hospitals than at others. Needs scikit-learn.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

from metapac import MetaPS, set_sizes

rng = np.random.default_rng(0)


def hospital(patients: int) -> tuple[np.ndarray, np.ndarray]:
    """Return measurements and diagnoses (0, 1, 2) at one new hospital."""
    labels = rng.integers(3, size=patients)
    shift = rng.normal(scale=0.4, size=2)
    centres = np.array([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    return centres[labels] + shift + rng.normal(size=(patients, 2)), labels


x, y = map(np.concatenate, zip(*(hospital(100) for _ in range(20)), strict=True))
model = LogisticRegression().fit(x, y)

scores, names = [], []
for i in range(150):  # hospitals that took no part in training
    x, y = hospital(100)
    scores.append(model.predict_proba(x)[np.arange(100), y])
    names.append(np.full(100, i))
predictor = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5)
predictor.calibrate(np.concatenate(scores), np.concatenate(names))
print(predictor)

errors = []
for _ in range(1000):  # new hospitals
    x, y = hospital(1000)
    sets = predictor.predict_set(model.predict_proba(x))
    errors.append(1 - sets[np.arange(1000), y].mean())
print(f"{np.mean(np.array(errors) <= 0.1):.1%} of 1000 new hospitals miss at most 10%")
print(f"mean set size at the last one: {set_sizes(sets).mean():.2f}")
