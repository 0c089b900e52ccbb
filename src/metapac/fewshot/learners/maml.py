"""MAML: a few gradient steps on the support set."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from metapac._common import Floats, as_whole_number
from metapac.errors import InvalidInput
from metapac.fewshot.adapters import as_positive_number, as_support_set
from metapac.fewshot.learners import protonet
from metapac.fewshot.learners.networks import SupportNorm, describe_module, norm_by_support
from metapac.fewshot.learners.protonet import eval_mode, in_batches, to_module_device

Weights = dict[str, Tensor]


class MAML:
    """Optimisation-based meta-learner: gradient descent on the support set, from learned weights.

    The model is a copy of the backbone and a linear layer that starts at zero, so that no label is
    preferred. Batch norms use the statistics of the support set, see `SupportNorm`. Labels absent
    from the support set take no part in the descent and get probability 0.

    Parameters
    ----------
    backbone : torch.nn.Module
        Module from examples to vectors of length ``backbone.features``.
    classes : int
        Largest number of labels of a task.
    steps : int, default 5
        Number of gradient steps.
    step_size : float, default 0.01
        Learning rate of the steps.
    second_order : bool, default True
        Whether training differentiates through the steps, or uses the gradient at the adapted
        weights (FOMAML).

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import MAML, MLP
    >>> learner = MAML(MLP(2, rng=0), classes=3, steps=2)
    >>> learner.adapt(np.eye(2), [0, 1], classes=3).predict_proba(np.eye(2))[:, 2].tolist()
    [0.0, 0.0]
    """

    def __init__(
        self,
        backbone: nn.Module,
        classes: int,
        steps: int = 5,
        step_size: float = 0.01,
        second_order: bool = True,
    ) -> None:
        self.classes = as_whole_number("classes", classes)
        self.steps = as_whole_number("steps", steps)
        self.step_size = as_positive_number("step_size", step_size)
        self.second_order = second_order
        self.module: nn.Module = Classifier(backbone, self.classes)

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of a batch of episodes, each adapted from the same weights.

        Parameters
        ----------
        support_x, support_y, query_x : Tensor, shape (episodes, ...)
            Support examples, their labels, and query examples.
        classes : int
            Number of labels.

        Returns
        -------
        Tensor, shape (episodes, q, classes)
            The logits; ``-inf`` for labels absent from the support set of an episode.
        """
        self._check_classes(classes)

        def episode(support_x: Tensor, support_y: Tensor, query_x: Tensor) -> Tensor:
            weights = self._adapt(support_x, support_y)
            return self._query_logits(weights, support_x, support_y, query_x)  # (Q, self.classes)

        logits: Tensor = vmap(episode, randomness="different")(support_x, support_y, query_x)
        return logits[..., :classes]  # (episodes, Q, classes)

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> AdaptedModel:
        """Return the model adapted to a task, in eval mode; the learner does not change.

        Parameters
        ----------
        support_x, support_y : array_like, shape (s, ...)
            Support examples, and their labels from 0 to ``classes - 1``.
        classes : int, optional
            Number of labels; by default one more than the largest label.

        Returns
        -------
        AdaptedModel
        """
        labels, total = as_support_set(support_x, support_y, classes)
        self._check_classes(total)
        x, y = to_module_device(support_x, self.module), to_module_device(labels, self.module)
        adapt = partial(self._adapt, y=y)
        check = partial(protonet.check_example_type, self.module, adapt, x)
        with eval_mode(self.module), protonet.explain_failures(check):
            return AdaptedModel(self, adapt(x), x, y, total)

    def _query_logits(
        self, weights: Weights, support_x: Tensor, support_y: Tensor, query_x: Tensor
    ) -> Tensor:
        """Return the query logits of one task for given weights."""
        x = torch.cat([support_x, query_x])  # (S + Q, ...)
        logits: Tensor = functional_call(self.module, weights, (x, len(support_y)))
        return logits[len(support_y) :].masked_fill(~self._present(support_y), -torch.inf)

    def describe(self) -> dict[str, Any]:
        """Return the architecture, which files of weights record.

        Returns
        -------
        dict
            What JSON can hold.
        """
        settings = {name: getattr(self, name) for name in ("steps", "step_size", "second_order")}
        return {"class": "MAML", **settings, "model": describe_module(self.module)}

    def _adapt(self, x: Tensor, y: Tensor) -> Weights:
        """Return the trainable weights after ``steps`` on one support set, (S, ...) and (S,)."""

        def loss(weights: Weights) -> Tensor:
            support = functional_call(self.module, weights, (x, len(y)))  # (S, classes)
            # The lowest finite number, since the second derivative at -inf would be 0 * inf.
            lowest = torch.finfo(support.dtype).min
            return cross_entropy(support.masked_fill(~self._present(y), lowest), y)

        named = self.module.named_parameters()
        weights: Weights = {name: w for name, w in named if w.requires_grad}
        for _ in range(self.steps):
            grads = grad(loss)(weights)
            if not self.second_order:
                grads = {name: g.detach() for name, g in grads.items()}
            weights = {name: w - self.step_size * grads[name] for name, w in weights.items()}
        return weights

    def _present(self, y: Tensor) -> Tensor:
        return (y.unsqueeze(-1) == torch.arange(self.classes, device=y.device)).any(0)  # (classes,)

    def _check_classes(self, classes: int) -> None:
        if classes > self.classes:
            rule = f"classes must be at most {self.classes}, which this MAML was built for"
            raise InvalidInput(f"{rule}, got {classes}.", parameter="classes")


class Classifier(nn.Module):
    """A backbone and a linear layer, with logits in float32 at least."""

    def __init__(self, backbone: nn.Module, classes: int) -> None:
        super().__init__()
        features: int = backbone.features  # type: ignore[assignment]
        self.backbone = norm_by_support(copy.deepcopy(backbone))
        self.head = nn.Linear(features, classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor, support: int) -> Tensor:
        for part in self.backbone.modules():
            if isinstance(part, SupportNorm):
                part.support = support
        logits: Tensor = self.head(self.backbone(x))  # (n, classes)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def describe(self) -> dict[str, Any]:
        backbone = describe_module(self.backbone)
        return {"class": "Classifier", "classes": self.head.out_features, "backbone": backbone}


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """A MAML adapted to one task; later training of the learner does not change it."""

    learner: MAML
    weights: Weights
    support_x: Tensor
    support_y: Tensor
    classes: int

    def predict_proba(self, x: Any) -> Floats:
        return self.probabilities_and_logits(x)[0]

    def probabilities_and_logits(self, x: Any) -> tuple[Floats, Floats]:
        """Return probabilities and logits of each label; absent labels get 0 and -inf."""
        learner, support = self.learner, (self.support_x, self.support_y)

        def both(part: Tensor) -> Tensor:
            logits = learner._query_logits(self.weights, *support, part)[:, : self.classes]
            return torch.cat([logits.double().softmax(1).float().to(logits), logits], 1)

        with eval_mode(learner.module):
            values = in_batches(both, x, learner.module).cpu().numpy()
        probabilities, logits = np.split(values, 2, axis=1)
        return probabilities.astype(np.float32), logits
