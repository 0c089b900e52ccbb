"""How much smaller sets become with more calibration tasks, under the same guarantee."""

import numpy as np

from metapac import MetaPS
from metapac.fewshot import NormalFamily

family, rng = NormalFamily(classes=5), np.random.default_rng(0)
new_tasks = family.draw_tasks(1000, rng)

print("tasks   mean set size on new tasks (200 examples per task, mean of 20 draws)")
for tasks in (111, 150, 250, 500, 1000, 2000):
    ids, sizes = np.repeat(np.arange(tasks), 200), []
    for _ in range(20):
        scores = family.draw_scores(family.draw_tasks(tasks, rng), 200, rng)
        predictor = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(scores.ravel(), ids)
        sizes.append(family.size(new_tasks, predictor.threshold_).mean())
    print(f"{tasks:5d}   {np.mean(sizes):.2f}")
