"""Prototypical networks (Snell et al. 2017): a label is the mean of its support examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from metapac._types import Floats
from metapac.exceptions import InvalidInput
from metapac.learners import _checks
from metapac.learners._inference import (
    BATCH,
    check_example_type,
    eval_mode,
    iter_batches,
    to_module_device,
    worst_case_scores,
)
from metapac.learners.bank import PrototypeBank
from metapac.learners.networks.base import describe
from metapac.learners.protocols import BoundedScorer
from metapac.learners.prototypes import (
    distance_error,
    logit_error,
    norms,
    prototype_logits,
    worst_case_logits,
)

# Differences held at a time when scoring: 2**23 doubles are 64 MiB.
_DIFFERENCES = 2**23


class ProtoNet:
    """Metric-based meta-learner: softmax over minus squared distances to the prototypes.

    The prototype of a label is the mean embedding of its support examples. Labels may have
    different numbers of them.

    Parameters
    ----------
    backbone : torch.nn.Module
        Any module from examples to vectors.

    Attributes
    ----------
    module : torch.nn.Module
        The backbone.

    Raises
    ------
    InvalidInput
        If a batch norm of the backbone has no running statistics.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.learners import MLP, ProtoNet
    >>> learner = ProtoNet(MLP(2, rng=0))
    >>> scorer = learner.adapt(np.eye(2), [0, 1], classes=3)
    >>> probabilities = scorer.predict_proba(np.eye(2))
    >>> probabilities.argmax(axis=1).tolist(), probabilities[:, 2].tolist()
    ([0, 1], [0.0, 0.0])
    """

    def __init__(self, backbone: nn.Module) -> None:
        for name, part in backbone.named_modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
                raise InvalidInput(
                    "backbone must not normalise each batch separately, since scores would then "
                    f"depend on each other, got {name or type(part).__name__} without running "
                    "statistics. Use track_running_stats=True."
                )
        self.module = backbone

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of a batch of episodes.

        Parameters
        ----------
        support_x : Tensor, shape (episodes, s, ...)
            Support examples.
        support_y : Tensor of int, shape (episodes, s)
            Their labels.
        query_x : Tensor, shape (episodes, q, ...)
            Query examples.
        classes : int
            Number of labels.

        Returns
        -------
        Tensor, shape (episodes, q, classes)
            The logits; see `prototype_logits`.
        """
        episodes, shots = support_y.shape
        x = torch.cat([support_x, query_x], dim=1)  # (E, S + Q, ...)
        z = self.module(x.flatten(0, 1)).unflatten(0, (episodes, -1))  # (E, S + Q, d)
        return prototype_logits(z[:, :shots], support_y, z[:, shots:], classes)

    def embed(self, x: Any, batch: int = BATCH, *, fast: bool = False) -> Tensor:
        """Return embeddings, computed in eval mode.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples. Whole numbers, such as uint8 pixels, reach the backbone as they are.
        batch : int, default 1024
            Number of examples embedded at a time.
        fast : bool, default False
            On a GPU, compute with three digits (TF32), which can be several times faster. Embed
            the examples to calibrate on and the new ones in the same way.

        Returns
        -------
        Tensor, shape (n, d)
            The embeddings in float32, on the module's device.

        Raises
        ------
        InvalidInput
            If the examples are whole numbers, and the backbone takes floats.
        """
        with eval_mode(self.module, fast=fast):
            batches = iter_batches(x, self.module, batch)
            return torch.cat([self._embed(part) for part in batches])

    def bank(self, x: Any) -> PrototypeBank:
        """Return the embeddings of a pool, from which its tasks are scored.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Data of the pool.

        Returns
        -------
        PrototypeBank
            The embeddings.
        """
        return PrototypeBank(self.embed(x), x)

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None
    ) -> PrototypeScorer:
        """Return the model adapted to a task.

        Parameters
        ----------
        support_x : array_like, shape (s, ...)
            Support examples.
        support_y : array_like of int, shape (s,)
            Their labels, from 0 to ``classes - 1``.
        classes : int, optional
            Number of labels; by default one more than the largest label.

        Returns
        -------
        PrototypeScorer
            The adapted model; it shares the backbone, so later training makes it invalid.
        """
        labels, total = _checks.as_support_set(support_x, support_y, classes)
        z = self.embed(support_x)  # (S, d)
        return PrototypeScorer(self, z, to_module_device(labels, self.module), total)

    def describe(self) -> dict[str, Any]:
        """Return the architecture, which files of weights record.

        Returns
        -------
        dict
            What JSON can hold.
        """
        return {"class": "ProtoNet", "backbone": describe(self.module)}

    def _embed(self, x: Tensor) -> Tensor:
        """Return the embeddings of one batch in float32."""
        try:
            z: Tensor = self.module(x)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            check_example_type(self.module, self.module, x)
            raise
        return z.float()


@dataclass(frozen=True, eq=False)
class PrototypeScorer(BoundedScorer):
    """A ProtoNet adapted to one task.

    Parameters
    ----------
    learner : ProtoNet
        The learner.
    support_z : Tensor, shape (s, d)
        Embeddings of the support examples.
    support_y : Tensor of int, shape (s,)
        Labels of the support examples.
    classes : int
        Number of labels.
    """

    learner: ProtoNet
    support_z: Tensor
    support_y: Tensor
    classes: int

    def predict_proba(self, x: Any) -> NDArray[np.float32]:
        probabilities = self._logits(self.learner.embed(x)).softmax(0).T
        return np.asarray(probabilities.float().cpu().numpy())

    def lowered_scores(self, x: Any, y: Any) -> Floats:
        z = self.learner.embed(x)  # (n, d)
        labels = to_module_device(y, self.learner.module).to(torch.int64)[None]  # (1, n)
        worst = worst_case_logits(self._logits(z)[None], labels, self._distance_error(z))
        return worst_case_scores(worst, labels)

    def bounded_logits(self, x: Any) -> tuple[Floats, Floats]:
        z = self.learner.embed(x)  # (n, d)
        logits = self._logits(z)  # (classes, n)
        error = logit_error(logits[None], self._distance_error(z))[0]
        return logits.T.cpu().numpy(), error.cpu().numpy()

    def _distance_error(self, z: Tensor) -> Tensor:
        """Return a bound on the error of a distance of embeddings, (n, d) -> (1, n)."""
        return distance_error(norms(z)[None], norms(self.support_z)[None], z.shape[1])

    def _logits(self, z: Tensor) -> Tensor:
        """Return the float64 logits of embeddings, (n, d) -> (classes, n)."""
        rows = max(1, _DIFFERENCES // (self.classes * max(1, z.shape[1])))
        support = self.support_z[None].double(), self.support_y[None]
        parts = [
            prototype_logits(*support, part[None].double(), self.classes)[0]
            for part in torch.split(z, rows)
        ]
        return torch.cat(parts).T
