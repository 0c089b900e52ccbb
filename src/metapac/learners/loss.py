"""What training makes smaller, and what validation counts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from metapac.learners.contract import Trainable
from metapac.learners.episodes import EpisodeSampler, Positions


def episode_loss(
    logits: Tensor, support_y: Tensor, query_y: Tensor, class_weights: Tensor | None = None
) -> Tensor:
    """Return the mean over episodes of the weighted mean of -log p(true label) over its queries.

    Queries whose label is absent from the support set are left out: no learner can know it. An
    episode with none left counts as zero. Shapes: (E, Q, classes), (E, S), (E, Q) -> ().
    """
    known = (query_y.unsqueeze(-1) == support_y.unsqueeze(1)).any(-1)  # (E, Q)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    found = log_softmax(wide, -1).gather(-1, query_y.unsqueeze(-1)).squeeze(-1)  # (E, Q)
    weights = known.to(found.dtype)
    if class_weights is not None:
        weights = weights * class_weights[query_y]
    losses = weights * -torch.where(known, found, 0.0)  # (E, Q)
    total = weights.sum(1)  # (E,)
    return (losses.sum(1) / torch.where(total > 0, total, 1.0)).mean()


class EpisodeLoss(nn.Module):
    """``episode_loss`` of a learner: one module, so that torch can compile or distribute it."""

    def __init__(self, learner: Trainable, classes: int, class_weights: Tensor | None) -> None:
        super().__init__()
        self.learner, self.classes = learner, classes
        self.module = learner.module
        self.register_buffer("class_weights", class_weights, persistent=False)

    def forward(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, query_y: Tensor
    ) -> Tensor:
        with low_precision(support_y.device):
            logits = self.learner.logits(support_x, support_y, query_x, classes=self.classes)
        weights: Tensor | None = self.class_weights  # type: ignore[assignment]
        return episode_loss(logits, support_y, query_y, weights)


@torch.no_grad()
def count_correct(
    learner: Trainable,
    sampler: EpisodeSampler,
    drawn: Positions,
    at_once: int,
    class_weights: Tensor | None = None,
) -> Tensor:
    """Return how many queries get the highest probability on their own label, and how many are.

    Each counts with the weight of its label. Shape (2,).
    """
    weights = torch.ones(sampler.classes) if class_weights is None else class_weights
    weights = weights.to(sampler.device, torch.float64)  # whole numbers are exact
    correct = torch.zeros((), dtype=torch.float64, device=sampler.device)
    for start in range(0, len(drawn.query), at_once):
        support_x, support_y, query_x, query_y, classes = sampler.gather(
            drawn.part(start, start + at_once)
        )
        with low_precision(sampler.device):
            logits = learner.logits(support_x, support_y, query_x, classes=classes)
        correct += (weights[query_y] * (logits.argmax(-1) == query_y)).sum()
    return torch.stack([correct, weights[drawn.query_y].sum()])


def low_precision(device: torch.device) -> torch.autocast:
    """bfloat16 where it is fast and safe on a GPU; plain arithmetic on a CPU."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
