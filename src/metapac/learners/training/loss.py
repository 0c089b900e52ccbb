"""The training loss of episodes, and the number of correct predictions on tasks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from metapac.exceptions import InvalidInput, Parameter
from metapac.learners.protocols import Trainable
from metapac.learners.training.episodes import EpisodeSampler, Positions


def episode_loss(
    logits: Tensor, support_y: Tensor, query_y: Tensor, class_weights: Tensor | None = None
) -> Tensor:
    """Return the weighted cross-entropy of the queries, averaged over episodes.

    Queries whose label is absent from the support set are ignored, since no learner can predict
    it. If an episode has no other query, its loss is 0.

    Parameters
    ----------
    logits : Tensor, shape (episodes, q, classes)
        Logits of the queries.
    support_y : Tensor of int, shape (episodes, s)
        Labels of the support examples.
    query_y : Tensor of int, shape (episodes, q)
        Labels of the queries.
    class_weights : Tensor, shape (classes,), optional
        Weight of each label.

    Returns
    -------
    Tensor, shape ()
        The loss.
    """
    learnable = (query_y.unsqueeze(-1) == support_y.unsqueeze(1)).any(-1)  # (E, Q)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_p = log_softmax(wide, -1).gather(-1, query_y.unsqueeze(-1)).squeeze(-1)  # (E, Q)
    weights = learnable.to(log_p.dtype)
    if class_weights is not None:
        weights = weights * class_weights[query_y]
    losses = weights * -torch.where(learnable, log_p, 0.0)  # (E, Q)
    total = weights.sum(1)  # (E,)
    return (losses.sum(1) / torch.where(total > 0, total, 1.0)).mean()


class EpisodeLoss(nn.Module):
    """`episode_loss` of a learner, as a module that torch can compile or distribute.

    Parameters
    ----------
    learner : Trainable
        The learner.
    classes : int
        Number of labels.
    class_weights : Tensor or None
        Weight of each label.
    """

    def __init__(self, learner: Trainable, classes: int, class_weights: Tensor | None) -> None:
        super().__init__()
        self.learner, self.classes = learner, classes
        self.module = learner.module
        self.register_buffer("class_weights", class_weights, persistent=False)

    def forward(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, query_y: Tensor
    ) -> Tensor:
        """Return the loss of a batch of episodes.

        Parameters
        ----------
        support_x : Tensor, shape (episodes, s, ...)
            Support examples.
        support_y : Tensor of int, shape (episodes, s)
            Their labels.
        query_x : Tensor, shape (episodes, q, ...)
            Query examples.
        query_y : Tensor of int, shape (episodes, q)
            Their labels.

        Returns
        -------
        Tensor, shape ()
            The loss.
        """
        with mixed_precision(support_y.device):
            logits = self.learner.logits(support_x, support_y, query_x, classes=self.classes)
        weights: Tensor | None = self.class_weights  # type: ignore[assignment]
        return episode_loss(logits, support_y, query_y, weights)


def check_finite_loss(loss: float, epoch: int, lr: float, lr_name: str) -> None:
    """Raise if training has diverged.

    Parameters
    ----------
    loss : float
        Mean loss of an epoch.
    epoch : int
        Number of the epoch.
    lr : float
        Its learning rate.
    lr_name : str
        Parameter that sets the learning rate.

    Raises
    ------
    InvalidInput
        If the loss is infinite or NaN.
    """
    if not math.isfinite(loss):
        raise InvalidInput(
            "the loss became {} in epoch {} at learning rate {:g}: training has diverged. Pass a "
            "smaller {}, and check the data for NaN.",
            loss,
            epoch,
            lr,
            Parameter(lr_name),
        )


@torch.no_grad()
def count_correct(
    learner: Trainable,
    sampler: EpisodeSampler,
    drawn: Positions,
    batch: int,
    class_weights: Tensor | None = None,
) -> Tensor:
    """Return the weighted number of correctly labelled queries, and of all queries.

    Parameters
    ----------
    learner : Trainable
        The learner; its mode (training or eval) is not changed.
    sampler : EpisodeSampler
        Sampler that has drawn the episodes.
    drawn : Positions
        The episodes.
    batch : int
        Number of episodes evaluated at a time.
    class_weights : Tensor, shape (classes,), optional
        Weight of each label; by default 1.

    Returns
    -------
    Tensor, shape (2,)
        The two sums in float64.
    """
    weights = torch.ones(sampler.classes) if class_weights is None else class_weights
    weights = weights.to(sampler.device, torch.float64)  # whole numbers are exact
    correct = torch.zeros((), dtype=torch.float64, device=sampler.device)
    for start in range(0, len(drawn.query), batch):
        support_x, support_y, query_x, query_y, classes = sampler.gather(
            drawn.part(start, start + batch)
        )
        with mixed_precision(sampler.device):
            logits = learner.logits(support_x, support_y, query_x, classes=classes)
        correct += (weights[query_y] * (logits.argmax(-1) == query_y)).sum()
    return torch.stack([correct, weights[drawn.query_y].sum()])


def mixed_precision(device: torch.device) -> torch.autocast:
    """Return the autocast context: bfloat16 on a GPU, no change on a CPU.

    Parameters
    ----------
    device : torch.device
        Device of the computation.

    Returns
    -------
    torch.autocast
        The context.
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
