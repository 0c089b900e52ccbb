"""Vectors of one length, so that a ProtoNet compares directions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from metapac._checks import as_positive_number
from metapac.learners.networks.base import Backbone, describe


class Sphere(Backbone):
    """A backbone whose vectors are scaled to one length, which is learned.

    A prototype is the mean of vectors on the sphere, and lies inside it; the distance to it is
    Euclidean, as of the L2-normalised features of SimpleShot (Wang et al. 2019).

    Parameters
    ----------
    backbone : torch.nn.Module
        Any module from examples to vectors.
    scale : float, default 10.0
        Twice the squared length of the vectors, at first. It is learned with the other weights.

    Attributes
    ----------
    backbone : torch.nn.Module
        The backbone.
    features : int
        Number of dimensions of a vector; missing if the backbone does not have it.
    log_temperature : torch.nn.Parameter
        Logarithm of the scale, which is an inverse temperature; the name is that in files of
        weights.

    Notes
    -----
    With z of length 1 and m the mean of the support vectors of a label, scaled to length 1, the
    logit is ``-scale / 2 * |z - m|^2``, or ``scale * (z.m - |m|^2 / 2)`` up to a number that all
    labels share. With one shot that is the cosine times the scale. With more shots it is not: m is
    the shorter, the more its vectors differ.

    On stored vectors, ``PrototypeLearner(temperature=2 / scale)`` does the same after they are
    scaled to length 1. ``PrototypeLearner("cosine")`` does not: it averages the vectors as they
    are, and then looks at the direction of the mean alone.

    Examples
    --------
    >>> import torch
    >>> from metapac.learners import MLP, ProtoNet, Sphere
    >>> learner = ProtoNet(Sphere(MLP(3, rng=0), scale=8.0))
    >>> learner.embed(torch.eye(3)).norm(dim=1).round(decimals=5).tolist()
    [2.0, 2.0, 2.0]
    """

    def __init__(self, backbone: nn.Module, *, scale: float = 10.0) -> None:
        super().__init__(backbone=describe(backbone))
        start = as_positive_number("scale", scale)
        self.backbone = backbone
        features = getattr(backbone, "features", None)
        if isinstance(features, int):
            self.features = features
        self.log_temperature = nn.Parameter(torch.tensor(math.log(start)))

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
