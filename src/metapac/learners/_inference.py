"""How torch learners score outside training: eval mode lent, examples moved as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from metapac.learners import _checks
from metapac.learners.contract import lower_scores

BATCH = 1024


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Lend ``module`` in eval mode without gradients; each part gets its own mode back."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad(), _full_precision(module):
            yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def _full_precision(module: nn.Module) -> Iterator[None]:
    """On a GPU, switch TF32 off: it keeps 3 digits, and which ones depends on the batch size."""
    if _home(module).device.type != "cuda":
        yield
        return
    cudnn, products = torch.backends.cudnn, torch.get_float32_matmul_precision()
    convolutions = cudnn.allow_tf32
    cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        cudnn.allow_tf32 = convolutions
        torch.set_float32_matmul_precision(products)


def batches(x: Any, module: nn.Module, batch: int = BATCH) -> Iterator[Tensor]:
    """Yield ``x`` in pieces on the module's device; no examples make one empty piece."""
    array = x if isinstance(x, Tensor) or hasattr(x, "shape") else np.asarray(x)
    for start in range(0, max(_checks.length(array), 1), batch):
        yield on_device(array[start : start + batch], module)


def on_device(x: Any, module: nn.Module) -> Tensor:
    """Return ``x`` on the module's device, floats in the module's precision."""
    home = _home(module)
    tensor = x if isinstance(x, Tensor) else torch.as_tensor(_plain_memory(x))
    return tensor.to(home.device, home.dtype if tensor.is_floating_point() else None)


def _home(module: nn.Module) -> Tensor:
    """Return a tensor that lives where the module does, in its precision."""
    return next(iter(module.parameters()), torch.empty(0))


def _plain_memory(x: Any) -> np.ndarray[Any, Any]:
    """Return an array that torch may look at: in order, writable, of numbers."""
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"x must hold numbers, got {array.dtype}. A torch learner takes float or uint8 arrays, "
            "or whole numbers for a SentenceCNN."
        )
    return np.require(array, array.dtype.newbyteorder("="), ["C", "W"])


def worst_case_scores(logits: Tensor, labels: Tensor) -> NDArray[np.floating[Any]]:
    """Return the scores to calibrate on: softmax of worst-case float64 logits at ``labels``.

    Shapes: (T, classes, ...), (T, ...) -> all scores in a row. A softmax rises with the logit of
    the true label and falls with any other, so the worst case is lowest there, highest elsewhere.
    """
    true = logits.softmax(1).gather(1, labels.unsqueeze(1))
    return lower_scores(true.flatten().cpu().numpy(), precision=np.float32)
