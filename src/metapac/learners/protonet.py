"""Prototypical networks (Snell et al. 2017): a label is the mean of its support examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from metapac.learners import _checks
from metapac.learners._backbone import describe
from metapac.learners._inference import (
    BATCH,
    batches,
    evaluating,
    on_device,
    worst_case_scores,
)
from metapac.learners.bank import PrototypeBank
from metapac.learners.prototypes import (
    distance_error,
    norms,
    prototype_logits,
    worst_case_logits,
)

# Differences held at a time when scoring: 2**23 doubles are 64 MiB.
_DIFFERENCES = 2**23


class ProtoNet:
    """Metric-based meta-learning: embed, then softmax over minus squared distances to prototypes.

    ``backbone`` is any module from examples to vectors. Unequal shots are fine.
    """

    def __init__(self, backbone: nn.Module) -> None:
        for name, part in backbone.named_modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
                raise _checks.own_batch_norm(name or type(part).__name__)
        self.module = backbone

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of a batch of episodes; see ``prototype_logits``."""
        episodes, shots = support_y.shape
        x = torch.cat([support_x, query_x], dim=1)  # (E, S + Q, ...)
        z = self.module(x.flatten(0, 1)).unflatten(0, (episodes, -1))  # (E, S + Q, d)
        return prototype_logits(z[:, :shots], support_y, z[:, shots:], classes)

    def embed(self, x: Any, batch: int = BATCH) -> Tensor:
        """Return the embeddings of ``x`` in eval mode, (n, d) float32 on the module's device."""
        with evaluating(self.module):
            return torch.cat([self.module(part).float() for part in batches(x, self.module, batch)])

    def bank(self, x: Any) -> PrototypeBank:
        """Return the embeddings of a pool, from which tasks are scored without embedding again."""
        return PrototypeBank(self.embed(x), x)

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None
    ) -> PrototypeScorer:
        """Return the scorer of a task; it is good for as long as the module is not trained on."""
        labels, known = _checks.support_set(support_x, support_y, classes)
        z = self.embed(support_x)  # (S, d)
        return PrototypeScorer(self, z, on_device(labels, self.module), known)

    def describe(self) -> dict[str, Any]:
        """Return what a checkpoint records to refuse another architecture."""
        return {"class": "ProtoNet", "backbone": describe(self.module)}


@dataclass(frozen=True, eq=False)
class PrototypeScorer:
    """A ProtoNet adapted to one task."""

    learner: ProtoNet
    support_z: Tensor  # (S, d)
    support_y: Tensor  # (S,)
    classes: int

    def predict_proba(self, x: Any) -> NDArray[np.float32]:
        """Return softmax over minus squared distances, (n, classes); absent labels exactly 0."""
        probabilities = self._logits(self.learner.embed(x)).softmax(0).T
        return np.asarray(probabilities.float().cpu().numpy())

    def lowered_scores(self, x: Any, y: Any) -> NDArray[np.floating[Any]]:
        """Return the scores of labels ``y`` to calibrate on, (n,): see ``lower_scores``."""
        z = self.learner.embed(x)  # (n, d)
        labels = on_device(y, self.learner.module).to(torch.int64)[None]  # (1, n)
        error = distance_error(norms(z)[None], norms(self.support_z)[None], z.shape[1])  # (1, n)
        return worst_case_scores(worst_case_logits(self._logits(z)[None], labels, error), labels)

    def _logits(self, z: Tensor) -> Tensor:
        """Return the float64 logits of embeddings, (n, d) -> (classes, n)."""
        rows = max(1, _DIFFERENCES // (self.classes * max(1, z.shape[1])))
        support = self.support_z[None].double(), self.support_y[None]
        parts = [
            prototype_logits(*support, part[None].double(), self.classes)[0]
            for part in torch.split(z, rows)
        ]
        return torch.cat(parts).T
