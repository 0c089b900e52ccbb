"""Batch normalisation by the statistics of the support set alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_BATCH_NORMS = nn.modules.batchnorm._BatchNorm


class SupportNorm(nn.Module):
    """Batch norm whose mean and variance are those of the support examples, the first of a batch.

    The usual MAML code normalises queries by their batch. The score of an example then depends on
    the other examples of the batch, the scores of a task are not independent, and no guarantee
    follows from them. Here queries are normalised by the support set, in training and afterwards.
    There are no running statistics.

    Parameters
    ----------
    norm : torch.nn.modules.batchnorm._BatchNorm
        Batch norm to replace; weight, bias and ``eps`` are taken from it.

    Attributes
    ----------
    support : int
        Number of support examples, set before each forward pass.
    """

    support: int

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """Return normalised examples.

        Parameters
        ----------
        x : Tensor, shape (n, channels, ...)
            Examples, support first.

        Returns
        -------
        Tensor, shape (n, channels, ...)
            The normalised examples.
        """
        across = [0, *range(2, x.ndim)]
        support = x[: self.support].to(torch.promote_types(x.dtype, torch.float32))
        variance, mean = torch.var_mean(support, across, correction=0, keepdim=True)
        y = (x - mean) * torch.rsqrt(variance + self.eps)
        if self.weight is not None:
            channels = mean.shape  # (1, channels, 1, ...)
            y = y * self.weight.view(channels) + self.bias.view(channels)
        return y.to(x.dtype)


def norm_by_support(module: nn.Module) -> nn.Module:
    """Replace every batch norm in a module by a `SupportNorm` with the same weights.

    Parameters
    ----------
    module : torch.nn.Module
        Module to change in place.

    Returns
    -------
    torch.nn.Module
        The module, or its replacement if it is a batch norm.
    """
    if isinstance(module, _BATCH_NORMS):
        return SupportNorm(module)
    for name, part in module.named_children():
        setattr(module, name, norm_by_support(part))
    return module
