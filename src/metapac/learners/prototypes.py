"""Distances to prototypes, for a batch of episodes, and the bound on their rounding error."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Rounding error of an embedding relative to its length: 16 float32 epsilons, or 1.9e-6.
# Measured over MLP, Conv4, ResNet12 and ResNet50: batch sizes from 1 to 1024 move an embedding by
# at most 8.0e-7 (CPU, and H200 without TF32), a change from CPU to GPU by 1.0e-6, a ResNet50 by
# 2.3e-6. Distances of trained networks moved by at most 6 % of what distance_error allows.
EMBEDDING_ERROR = 2.0**-19


def prototype_logits(support_z: Tensor, support_y: Tensor, query_z: Tensor, classes: int) -> Tensor:
    """Return minus the squared Euclidean distance of each query to each label's prototype.

    A prototype is the mean of the support embeddings of a label.

    Parameters
    ----------
    support_z : Tensor, shape (episodes, s, d)
        Embeddings of the support examples.
    support_y : Tensor of int, shape (episodes, s)
        Labels of the support examples.
    query_z : Tensor, shape (episodes, q, d)
        Embeddings of the query examples.
    classes : int
        Number of labels.

    Returns
    -------
    Tensor, shape (episodes, q, classes)
        The logits; ``-inf`` for labels absent from the support set, hence probability 0.

    Notes
    -----
    Computed in float32 at least, with autocast or without. Embeddings far from the origin lose no
    digits: the support mean is subtracted first, which changes no distance but makes the sums
    behind the prototypes small, and distances are sums of squared differences, not
    ``|q|^2 - 2 q.p + |p|^2``, whose large terms would cancel. No difference is rounded to TF32, as
    a matrix product may be.

    Examples
    --------
    >>> import torch
    >>> from metapac.learners import prototype_logits
    >>> support, query = torch.tensor([[[0.0], [2.0]]]), torch.tensor([[[0.5]]])
    >>> prototype_logits(support, torch.tensor([[0, 1]]), query, 3).tolist()
    [[[-0.25, -2.25, -inf]]]
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


def worst_case_logits(logits: Tensor, labels: Tensor, error: Tensor) -> Tensor:
    """Return the logits that are worst for the true labels within an error of the distances.

    Parameters
    ----------
    logits : Tensor, shape (t, classes, q)
        Minus the squared distances.
    labels : Tensor of int, shape (t, q)
        True labels.
    error : Tensor, shape (t, q)
        Bound on the error of a distance, from `distance_error`.

    Returns
    -------
    Tensor, shape (t, classes, q)
        The worst-case logits.
    """
    distances = (-logits).clamp_(min=0).sqrt_()  # (T, classes, Q)
    farther = distances.gather(1, labels.unsqueeze(1)).add_(error.unsqueeze(1))  # (T, 1, Q)
    nearer = distances.sub_(error.unsqueeze(1)).clamp_(min=0)
    return nearer.scatter_(1, labels.unsqueeze(1), farther).square_().neg_()


def logit_error(logits: Tensor, error: Tensor) -> Tensor:
    """Return a bound on the error of each logit, from that of the distances.

    Parameters
    ----------
    logits : Tensor, shape (t, classes, q)
        Minus the squared distances.
    error : Tensor, shape (t, q)
        Bound on the error of a distance, from `distance_error`.

    Returns
    -------
    Tensor, shape (t, q)
        The bound: (d + e)^2 - d^2 at the largest distance d.
    """
    distances = torch.where(logits.isfinite(), -logits, 0.0).clamp(min=0).sqrt()
    return (2 * distances.amax(1) + error) * error


def distance_error(query_norms: Tensor, support_norms: Tensor, width: int) -> Tensor:
    """Return a bound on the rounding error of a distance to a prototype.

    Parameters
    ----------
    query_norms : Tensor, shape (t, q)
        Lengths of the query embeddings.
    support_norms : Tensor, shape (t, s)
        Lengths of the support embeddings.
    width : int
        Number of dimensions.

    Returns
    -------
    Tensor, shape (t, q)
        The bound.

    Notes
    -----
    Let r be the largest length involved. Query and prototype each move by at most
    ``EMBEDDING_ERROR`` times r, and by the triangle inequality the distance moves by at most the
    sum of both. In addition, |q|^2 - 2 q.p + |p|^2 consists of sums of ``terms`` products of
    lengths up to r, so that float64 computes it with an error of at most 4 terms 2^-53 r^2, and
    its root with an error of at most 2 sqrt(terms 2^-53) r.
    """
    reach = query_norms.maximum(support_norms.amax(-1, keepdim=True))  # (T, Q)
    terms = width + 2 * support_norms.shape[-1] + 8
    return 2 * reach * (EMBEDDING_ERROR + math.sqrt(terms * 2.0**-53))


def norms(z: Tensor) -> Tensor:
    """Return the length of each embedding in float64.

    Parameters
    ----------
    z : Tensor, shape (..., d)
        Embeddings.

    Returns
    -------
    Tensor, shape (...)
        The lengths.
    """
    lengths: Tensor = torch.linalg.vector_norm(z, dim=-1, dtype=torch.float64)
    return lengths
