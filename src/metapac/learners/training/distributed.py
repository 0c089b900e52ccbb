"""Training on several devices: one process each, which share the episodes of a step."""

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

from metapac.exceptions import InvalidInput, Parameter

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Ranks(NamedTuple):
    """The rank of this process among those that train together.

    Attributes
    ----------
    rank : int
        Number of this process, from 0.
    world : int
        Number of processes.
    """

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the first process."""
        return self.rank == 0

    def share(self, count: int) -> tuple[int, int]:
        """Return the range of items that this process handles.

        Parameters
        ----------
        count : int
            Number of items.

        Returns
        -------
        start : int
            First item.
        stop : int
            Item after the last one.
        """
        return count * self.rank // self.world, count * (self.rank + 1) // self.world

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes.

        Parameters
        ----------
        value : Tensor
            Tensor of this process; it is changed in place.

        Returns
        -------
        Tensor
            The sum.
        """
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def broadcast(self, value: int) -> int:
        """Return the value of the first process, in every process.

        Parameters
        ----------
        value : int
            Value of this process.

        Returns
        -------
        int
            Value of the first process.
        """
        box = [value]
        if self.world > 1:
            dist.broadcast_object_list(box)
        return box[0]


def choose_device(device: str | torch.device | None) -> torch.device:
    """Return the device to train on.

    Parameters
    ----------
    device : str, torch.device or None
        The device; None takes a GPU if there is one, under torchrun another one per process.

    Returns
    -------
    torch.device
        The device, with its number.

    Raises
    ------
    InvalidInput
        If torch has no such device.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise InvalidInput(
            "{} must be a device that torch supports, got {!r}. Pass {} or {}.",
            Parameter("device"),
            device,
            Parameter("device", "cpu"),
            Parameter("device", "cuda"),
        ) from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InvalidInput(
            "{} is {}, but torch finds no GPU. Pass {}.",
            Parameter("device"),
            device,
            Parameter("device", "cpu"),
        )
    if chosen.type == "cuda" and chosen.index is None:
        chosen = torch.device(
            "cuda", int(os.environ.get("LOCAL_RANK", torch.cuda.current_device()))
        )
    return chosen


@contextmanager
def process_group(device: torch.device) -> Iterator[Ranks]:
    """Join the existing process group, or start that of torchrun; without either, do nothing.

    Parameters
    ----------
    device : torch.device
        Device of this process.

    Yields
    ------
    Ranks
        The rank of this process.
    """
    created = not dist.is_initialized() and all(name in os.environ for name in _TORCHRUN)
    if created:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        grouped = dist.is_available() and dist.is_initialized()
        yield Ranks(dist.get_rank(), dist.get_world_size()) if grouped else Ranks()
        if created:
            dist.barrier()  # wait for all ranks before teardown
    finally:
        if created:
            dist.destroy_process_group()


@contextmanager
def synced_batch_norm(module: nn.Module, ranks: Ranks) -> Iterator[None]:
    """Make batch norms use the statistics of all processes in training.

    The weights are then those that a single process with the whole batch would reach. torch's
    SyncBatchNorm does the same, but only on GPUs.

    Parameters
    ----------
    module : torch.nn.Module
        Module in training.
    ranks : Ranks
        Processes that train together.

    Yields
    ------
    None
        The batch norms are restored at the end.
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
    """The sum over all processes, with the gradient of the sum of their losses."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # the sum of the gradients
        return _Sum.forward(ctx, grads[0])


def _sum_over_ranks(x: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(x)  # type: ignore[no-untyped-call]
    return total


def _normalise(layer: _BatchNorm, ranks: Ranks, x: Tensor) -> Tensor:
    if not layer.training:
        y: Tensor = type(layer).forward(layer, x)
        return y
    across = [0, *range(2, x.ndim)]
    shape = (1, -1, *(1 for _ in across[1:]))
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # (n, channels, ...)
    count = ranks.world * wide.numel() // wide.shape[1]  # the same number in every process
    mean = _sum_over_ranks(wide.sum(across)) / count  # (channels,)
    centred = wide - mean.view(shape)
    variance = _sum_over_ranks(centred.square().sum(across)) / count  # (channels,)
    _update_running_statistics(layer, mean.detach(), variance.detach() * count / (count - 1))
    y = centred * torch.rsqrt(variance + layer.eps).view(shape)
    if layer.affine:
        y = y * layer.weight.view(shape) + layer.bias.view(shape)
    return y.to(x.dtype)


def _update_running_statistics(layer: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Update the running statistics as torch's batch norm does."""
    if layer.running_mean is None or layer.running_var is None:
        return
    assert layer.num_batches_tracked is not None
    layer.num_batches_tracked.add_(1)
    momentum = layer.momentum if layer.momentum is not None else 1 / int(layer.num_batches_tracked)
    layer.running_mean.lerp_(mean, momentum)
    layer.running_var.lerp_(variance, momentum)
