"""Vectors of one length, so that a ProtoNet compares them by their cosine."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from metapac._scores import check_finite
from metapac.learners.networks.base import Backbone, describe


class Sphere(Backbone):
    """A backbone whose vectors are scaled to one length.

    With z and p of length 1, the squared distance is 2 - 2 cos(z, p). So a ProtoNet on a sphere
    whose squared radius is half the temperature compares two examples by their cosine times the
    temperature. A prototype is the mean of vectors on the sphere, and the more they differ, the
    shorter it is.

    Parameters
    ----------
    backbone : torch.nn.Module
        Any module from examples to vectors.
    temperature : float, default 10.0
        Initial temperature. It is learned with the other weights.

    Attributes
    ----------
    backbone : torch.nn.Module
        The backbone.
    features : int
        Length of a vector; missing if the backbone does not have it.
    log_temperature : torch.nn.Parameter
        Logarithm of the temperature.

    Examples
    --------
    >>> import torch
    >>> from metapac.learners import MLP, ProtoNet, Sphere
    >>> learner = ProtoNet(Sphere(MLP(3, rng=0), temperature=8.0))
    >>> learner.embed(torch.eye(3)).norm(dim=1).round(decimals=5).tolist()
    [2.0, 2.0, 2.0]
    """

    def __init__(self, backbone: nn.Module, *, temperature: float = 10.0) -> None:
        super().__init__(backbone=describe(backbone))
        check_finite("temperature", np.atleast_1d(np.float64(temperature)), positive=True)
        self.backbone = backbone
        features = getattr(backbone, "features", None)
        if isinstance(features, int):
            self.features = features
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the vectors of examples, all of the same length.

        Parameters
        ----------
        x : Tensor, shape (n, ...)
            Examples.

        Returns
        -------
        Tensor, shape (n, d)
            The vectors, in float32 at least.
        """
        z = self.backbone(x)  # (n, d)
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        radius = (0.5 * self.log_temperature.exp()).sqrt()
        return radius * normalize(z, dim=-1)
