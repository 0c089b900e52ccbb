"""Prediction intervals with the same guarantee, of predictions that have a scale."""

import numpy as np

from metapac import MetaPS

rng = np.random.default_rng(0)


def site(examples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a model's predictions, their predicted scale, and the true values at one new site."""
    prediction = rng.normal(size=examples)
    scale = np.exp(rng.normal(scale=0.3, size=examples))
    noise = rng.uniform(0.5, 1.5)  # some sites are harder than the model thinks
    return prediction, scale, prediction + noise * scale * rng.normal(size=examples)


tasks, examples = 150, 100
prediction, scale, y = map(
    np.concatenate, zip(*(site(examples) for _ in range(tasks)), strict=True)
)
predictor = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5)
predictor.calibrate_intervals(y, prediction, np.repeat(np.arange(tasks), examples), scale)

prediction, scale, y = site(1000)
low, high = predictor.predict_interval(prediction, scale).T
print(f"intervals: prediction plus or minus {-predictor.threshold_:.2f} times its scale")
print(f"a new site's intervals miss {np.mean((y < low) | (y > high)):.1%} of the time")
