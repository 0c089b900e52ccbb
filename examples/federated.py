"""Federated calibration: each site sends a few numbers, in one round of communication."""

import numpy as np

from metapac import MetaPS
from metapac.fewshot import NormalFamily

family = NormalFamily()
scores_at = {
    f"site {i}": row
    for i, row in enumerate(family.draw_scores(family.draw_tasks(130, rng=0), 80, rng=1))
}
sizes = {name: len(scores) for name, scores in scores_at.items()}
pooled_scores, names = np.concatenate(list(scores_at.values())), np.repeat(list(scores_at), 80)

# With the default split, a site sends one number for each of 13 levels. If it may send only one
# number, agree on "tight"; sets are then larger.
for split in ("joint", "tight"):
    agreed = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5, split=split)

    # At each site. Only these numbers leave it.
    sent = {name: agreed.task_threshold(scores) for name, scores in scores_at.items()}

    # At the coordinator, from these numbers and the number of examples at each site.
    combined = agreed.combine(sent, sizes=sizes)

    pooled = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5, split=split).calibrate(pooled_scores, names)
    assert combined.threshold_ == pooled.threshold_
    size = family.size(family.draw_tasks(1000, rng=2), combined.threshold_).mean()
    print(
        f"{split}: numbers sent by a site {np.size(sent['site 0'])}, threshold "
        f"{combined.threshold_:.4f} as from all scores, mean set size {size:.2f} of 5 labels"
    )
