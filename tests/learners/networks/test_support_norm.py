"""Batch norm by the support set."""

from __future__ import annotations

import torch
from torch import nn

from metapac.fewshot.learners.networks import SupportNorm, norm_by_support


def test_support_norm_on_the_support_set_is_batch_norm() -> None:
    norm = nn.BatchNorm2d(3, eps=0.1)
    generator = torch.Generator().manual_seed(0)
    norm.weight.data = torch.randn(3, generator=generator)
    norm.bias.data = torch.randn(3, generator=generator)
    x = 5 + 2 * torch.randn(6, 3, 4, 4, generator=generator)
    ours = SupportNorm(norm)
    ours.support = 6
    torch.testing.assert_close(ours(x), norm(x))
    ours.support = 2
    torch.testing.assert_close(ours(x)[:2], norm(x[:2]))
    first = x[:2].transpose(0, 1).flatten(1)
    scale = torch.sqrt(first.var(1, correction=0) + 0.1)
    slow = (x[5] - first.mean(1).view(3, 1, 1)) / scale.view(3, 1, 1)
    slow = slow * norm.weight.view(3, 1, 1) + norm.bias.view(3, 1, 1)
    torch.testing.assert_close(ours(x)[5], slow)


def test_every_batch_norm_is_replaced_with_its_weights() -> None:
    norm = nn.BatchNorm1d(3)
    norm.weight.data.fill_(2.0)
    module = norm_by_support(nn.Sequential(nn.Linear(2, 3), nn.Sequential(norm, nn.ReLU())))
    replaced = [part for part in module.modules() if isinstance(part, SupportNorm)]
    assert not any(isinstance(part, nn.BatchNorm1d) for part in module.modules())
    assert len(replaced) == 1
    assert replaced[0].weight is norm.weight
    assert isinstance(norm_by_support(norm), SupportNorm)
