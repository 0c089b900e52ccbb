"""How torch learners score outside training: eval mode lent, examples moved as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from metapac.learners import _checks

BATCH = 1024


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Lend ``module`` in eval mode without gradients; each part gets its own mode back."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training


def batches(x: Any, module: nn.Module, batch: int = BATCH) -> Iterator[Tensor]:
    """Yield ``x`` in pieces on the module's device; no examples make one empty piece."""
    array = x if isinstance(x, Tensor) or hasattr(x, "shape") else np.asarray(x)
    for start in range(0, max(_checks.length(array), 1), batch):
        yield on_device(array[start : start + batch], module)


def on_device(x: Any, module: nn.Module) -> Tensor:
    """Return ``x`` on the module's device, floats in the module's precision."""
    home = next(iter(module.parameters()), torch.empty(0))
    tensor = x if isinstance(x, Tensor) else torch.as_tensor(_plain_memory(x))
    return tensor.to(home.device, home.dtype if tensor.is_floating_point() else None)


def _plain_memory(x: Any) -> np.ndarray[Any, Any]:
    """Return an array that torch may look at: in order, writable, of numbers."""
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"x must hold numbers, got {array.dtype}. A torch learner takes float or uint8 arrays, "
            "or whole numbers for a SentenceCNN."
        )
    return np.require(array, array.dtype.newbyteorder("="), ["C", "W"])
