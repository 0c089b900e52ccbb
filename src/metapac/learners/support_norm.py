"""Batch normalisation by the statistics of the support set alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_BATCH_NORMS = nn.modules.batchnorm._BatchNorm


class SupportNorm(nn.Module):
    """Batch norm whose mean and variance are those of the first ``support`` examples.

    The usual MAML code normalises the queries by their own batch: the score of an example then
    depends on the others it came with, the scores of a task are not independent, and a promise
    made from them is void. Here a query is normalised by the support set, in training and after.
    Nothing runs along from batch to batch.
    """

    support: int  # set before each forward pass, by whoever knows where the support set ends

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        across = [0, *range(2, x.ndim)]
        support = x[: self.support].to(torch.promote_types(x.dtype, torch.float32))
        variance, mean = torch.var_mean(support, across, correction=0, keepdim=True)
        y = (x - mean) * torch.rsqrt(variance + self.eps)
        if self.weight is not None:
            channels = mean.shape  # (1, channels, 1, ...)
            y = y * self.weight.view(channels) + self.bias.view(channels)
        return y.to(x.dtype)


def norm_by_support(module: nn.Module) -> nn.Module:
    """Return ``module`` with every batch norm in it replaced, weights kept."""
    if isinstance(module, _BATCH_NORMS):
        return SupportNorm(module)
    for name, part in module.named_children():
        setattr(module, name, norm_by_support(part))
    return module
