"""The distance at the heart of prototypical networks, for a batch of episodes."""

from __future__ import annotations

import torch
from torch import Tensor


def prototype_logits(support_z: Tensor, support_y: Tensor, query_z: Tensor, classes: int) -> Tensor:
    """Return minus the squared Euclidean distance of each query to each label's prototype.

    Shapes: (E, S, d), (E, S), (E, Q, d) -> (E, Q, classes). A prototype is the mean of the
    label's support embeddings; a label without any gets -inf, hence probability exactly 0.

    Computed in float32 at least, autocast or not. Embeddings far from the origin lose no digits:
    the support mean is subtracted first, which moves no distance but makes the sums behind the
    prototypes small, and distances are sums of squared differences, not
    ``|q|^2 - 2 q.p + |p|^2``, whose large terms would cancel. No difference is ever rounded to
    TF32, as a matrix product may be.
    """
    precision = torch.promote_types(support_z.dtype, torch.float32)
    with torch.autocast(support_z.device.type, enabled=False):
        support_z, query_z = support_z.to(precision), query_z.to(precision)
        centre = support_z.mean(1, keepdim=True).detach()  # (E, 1, d)
        labels = torch.arange(classes, device=support_y.device)
        belongs = (support_y.unsqueeze(-1) == labels).to(precision)  # (E, S, classes)
        counts = belongs.sum(1)  # (E, classes)
        sums = belongs.mT @ (support_z - centre)  # (E, classes, d)
        prototypes = sums / counts.clamp(min=1).unsqueeze(-1)  # (E, classes, d)
        differences = (query_z - centre).unsqueeze(2) - prototypes.unsqueeze(1)
        distances = differences.square().sum(-1)  # (E, Q, classes)
        return torch.where(counts.unsqueeze(1) > 0, -distances, -torch.inf)
