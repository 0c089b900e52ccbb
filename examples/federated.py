"""Sites that may not share data send one number each; the coordinator finishes in one round."""

import numpy as np

from metapac import MetaPS
from metapac.tasks.synthetic import NormalFamily

family = NormalFamily()
scores_at = {
    f"site {i}": row
    for i, row in enumerate(family.draw_scores(family.draw_tasks(130, rng=0), 80, rng=1))
}

agreed = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5)

# At each site: its scores stay there.
sent = {name: agreed.task_threshold(scores) for name, scores in scores_at.items()}

# At the coordinator: 130 numbers and how many examples are behind each.
promise = agreed.combine(sent, sizes=[len(scores) for scores in scores_at.values()])

pooled = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(
    np.concatenate(list(scores_at.values())), np.repeat(list(scores_at), 80)
)
print(
    f"threshold from 130 numbers {promise.threshold_:.6f}, from all scores {pooled.threshold_:.6f}"
)
assert promise.threshold_ == pooled.threshold_
