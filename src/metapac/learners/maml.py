"""MAML (Finn et al. 2017): weights from which a few gradient steps reach a task's own."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from metapac import _checks as _numbers
from metapac.learners import _checks
from metapac.learners._backbone import describe
from metapac.learners._inference import batches, evaluating, on_device, worst_case_scores
from metapac.learners.support_norm import SupportNorm, norm_by_support

Weights = dict[str, Tensor]
# Rounding error of a difference of two logits, in machine epsilons, relative to 1 plus the largest
# difference of the example: 6.1e-5 in float32. Measured over MLP, Conv4, ResNet12 and ResNet50:
# batch sizes from 1 to 1024 move it by 0 on a CPU and by at most 3.0e-5 on an H200.
LOGIT_ERROR = 2.0**9


class MAML:
    """Optimisation-based meta-learning: ``steps`` of gradient descent on the support set.

    The model is a copy of ``backbone`` (its ``features`` wide) and a linear layer to ``classes``
    labels, which starts at zero: no label is preferred. ``second_order`` differentiates
    through the steps; without it the gradient at the adapted weights is used as it is (FOMAML).
    Batch norms use the support set's statistics, see ``SupportNorm``. Labels absent from the
    support set take no part: neither in the steps nor in the answer.
    """

    def __init__(
        self,
        backbone: nn.Module,
        classes: int,
        steps: int = 5,
        step_size: float = 0.01,
        second_order: bool = True,
    ) -> None:
        self.classes = _numbers.whole_number("classes", classes)
        self.steps = _numbers.whole_number("steps", steps)
        if not 0 < step_size < float("inf"):
            raise ValueError(f"step_size must be positive, got {step_size!r}. Try 0.01.")
        self.step_size = step_size
        self.second_order = second_order
        self.module: nn.Module = Classifier(backbone, self.classes)

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of each episode after its own steps from the common weights."""
        self._check(classes)

        def episode(support_x: Tensor, support_y: Tensor, query_x: Tensor) -> Tensor:
            adapted = self._adapt(support_x, support_y)
            return self._logits(adapted, support_x, support_y, query_x)  # (Q, self.classes)

        every = vmap(episode, randomness="different")(support_x, support_y, query_x)
        found: Tensor = every[..., :classes]  # (episodes, Q, classes)
        return found

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> AdaptedModel:
        """Return the model after ``steps`` on the support set, in eval mode; ours is untouched."""
        labels, known = _checks.support_set(support_x, support_y, classes)
        self._check(known)
        x, y = on_device(support_x, self.module), on_device(labels, self.module)
        with evaluating(self.module):
            return AdaptedModel(self, self._adapt(x, y), x, y, known)

    def describe(self) -> dict[str, Any]:
        """Return what a checkpoint records to refuse another architecture."""
        return {
            "class": "MAML",
            "steps": self.steps,
            "step_size": self.step_size,
            "second_order": self.second_order,
            "model": describe(self.module),
        }

    def _adapt(self, x: Tensor, y: Tensor) -> Weights:
        """Return the trainable weights after ``steps`` on one support set, (S, ...) and (S,)."""

        def loss(weights: Weights) -> Tensor:
            support = functional_call(self.module, weights, (x, len(y)))  # (S, classes)
            # A large number below zero, not -inf, whose second derivative would be 0 * inf.
            lowest = torch.finfo(support.dtype).min
            return cross_entropy(support.masked_fill(~self._present(y), lowest), y)

        weights: Weights = {
            name: w for name, w in self.module.named_parameters() if w.requires_grad
        }
        for _ in range(self.steps):
            slope = grad(loss)(weights)
            if not self.second_order:
                slope = {name: g.detach() for name, g in slope.items()}
            weights = {name: w - self.step_size * slope[name] for name, w in weights.items()}
        return weights

    def _logits(
        self, weights: Weights, support_x: Tensor, support_y: Tensor, query_x: Tensor
    ) -> Tensor:
        x = torch.cat([support_x, query_x])  # (S + Q, ...)
        every: Tensor = functional_call(self.module, weights, (x, len(support_y)))
        return every[len(support_y) :].masked_fill(~self._present(support_y), -torch.inf)

    def _present(self, y: Tensor) -> Tensor:
        return (y.unsqueeze(-1) == torch.arange(self.classes, device=y.device)).any(0)  # (classes,)

    def _check(self, classes: int) -> None:
        if classes > self.classes:
            raise ValueError(
                f"classes must be at most {self.classes}, the labels this MAML was built for, got "
                f"{classes}. Build MAML(backbone, classes={classes})."
            )


class Classifier(nn.Module):
    """A backbone and a linear layer; logits in float32 at least."""

    def __init__(self, backbone: nn.Module, classes: int) -> None:
        super().__init__()
        features: int = backbone.features  # type: ignore[assignment]
        self.backbone = norm_by_support(copy.deepcopy(backbone))
        self.head = nn.Linear(features, classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor, support: int) -> Tensor:
        """Return logits (n, classes) where the first ``support`` examples set the statistics."""
        for part in self.backbone.modules():
            if isinstance(part, SupportNorm):
                part.support = support
        logits: Tensor = self.head(self.backbone(x))  # (n, classes)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def describe(self) -> dict[str, Any]:
        return {
            "class": "Classifier",
            "classes": self.head.out_features,
            "backbone": describe(self.backbone),
        }


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """A MAML adapted to one task; later training of the learner does not change it."""

    learner: MAML
    weights: Weights
    support_x: Tensor  # (S, ...)
    support_y: Tensor  # (S,)
    classes: int

    def predict_proba(self, x: Any) -> NDArray[np.float32]:
        """Return the softmax of the adapted model, (n, classes); absent labels exactly 0."""
        return np.asarray(self._logits(x).double().softmax(1).float().cpu().numpy())

    def lowered_scores(self, x: Any, y: Any) -> NDArray[np.floating[Any]]:
        """Return the scores of labels ``y`` to calibrate on, (n,): see ``lower_scores``."""
        labels = on_device(y, self.learner.module).to(torch.int64)  # (n,)
        logits = self._logits(x)  # (n, classes)
        lowest = torch.where(logits.isfinite(), logits, torch.inf).amin(1)
        error = LOGIT_ERROR * torch.finfo(logits.dtype).eps * (1 + logits.amax(1) - lowest)
        worst = logits.double().scatter_add(1, labels[:, None], -error.double()[:, None])
        return worst_case_scores(worst, labels)

    def _logits(self, x: Any) -> Tensor:
        """Return the logits of the adapted model, (n, classes); absent labels -inf."""
        module, given = self.learner.module, (self.support_x, self.support_y)
        with evaluating(module):
            parts = [self.learner._logits(self.weights, *given, q) for q in batches(x, module)]
        return torch.cat(parts)[:, : self.classes]
