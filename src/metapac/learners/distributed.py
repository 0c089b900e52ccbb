"""Training on several devices: a process each, episodes shared out, gradients averaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Ranks(NamedTuple):
    """Which of ``world`` processes this one is."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def share(self, count: int) -> tuple[int, int]:
        """Return where this process's part of ``count`` items starts and stops."""
        return count * self.rank // self.world, count * (self.rank + 1) // self.world

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of ``value`` over all processes."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def agreed(self, value: int) -> int:
        """Return the first process's ``value``, in every process."""
        box = [value]
        if self.world > 1:
            dist.broadcast_object_list(box)
        return box[0]


def choose_device(device: str | torch.device | None) -> torch.device:
    """Return the device asked for, or a GPU if there is one; under torchrun each has its own."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device must be one that torch knows, got {device!r}. Pass cpu or cuda."
        ) from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {device!s}, but torch sees no GPU here. Pass cpu.")
    if chosen.type == "cuda" and chosen.index is None:
        chosen = torch.device(
            "cuda", int(os.environ.get("LOCAL_RANK", torch.cuda.current_device()))
        )
    return chosen


@contextmanager
def process_group(device: torch.device) -> Iterator[Ranks]:
    """Join the process group that is there, or the one torchrun describes, or be alone."""
    ours = not dist.is_initialized() and all(name in os.environ for name in _TORCHRUN)
    if ours:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        together = dist.is_available() and dist.is_initialized()
        yield Ranks(dist.get_rank(), dist.get_world_size()) if together else Ranks()
        if ours:
            dist.barrier()  # nobody leaves while another may still be talking to it
    finally:
        if ours:
            dist.destroy_process_group()


@contextmanager
def common_batch_norm(module: nn.Module, ranks: Ranks) -> Iterator[None]:
    """Let batch norms in training use the mean and variance over all processes' examples.

    The weights then become what one process with the whole batch would have made of them.
    torch's own SyncBatchNorm does the same, but only on GPUs.
    """
    layers = [part for part in module.modules() if isinstance(part, _BatchNorm)]
    if ranks.world > 1:
        for layer in layers:
            layer.forward = partial(_normalise, layer, ranks)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


class _Sum(torch.autograd.Function):
    """The sum over processes; each one's loss depends on every one's term."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:  # the same sum, of the slopes
        return _Sum.forward(ctx, slopes[0])


def _sum_over_ranks(x: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(x)  # type: ignore[no-untyped-call]
    return total


def _normalise(layer: _BatchNorm, ranks: Ranks, x: Tensor) -> Tensor:
    if not layer.training:
        frozen: Tensor = type(layer).forward(layer, x)
        return frozen
    across = [0, *range(2, x.ndim)]
    shape = (1, -1, *(1 for _ in across[1:]))
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # (n, channels, ...)
    count = ranks.world * wide.numel() // wide.shape[1]  # every process has equally many
    mean = _sum_over_ranks(wide.sum(across)) / count  # (channels,)
    centred = wide - mean.view(shape)
    variance = _sum_over_ranks(centred.square().sum(across)) / count  # (channels,)
    _run_along(layer, mean.detach(), variance.detach() * count / (count - 1))
    y = centred * torch.rsqrt(variance + layer.eps).view(shape)
    if layer.affine:
        y = y * layer.weight.view(shape) + layer.bias.view(shape)
    return y.to(x.dtype)


def _run_along(layer: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Move the running statistics as torch's batch norm does."""
    if layer.running_mean is None or layer.running_var is None:
        return
    assert layer.num_batches_tracked is not None
    layer.num_batches_tracked.add_(1)
    share = layer.momentum if layer.momentum is not None else 1 / int(layer.num_batches_tracked)
    layer.running_mean.lerp_(mean, share)
    layer.running_var.lerp_(variance, share)
