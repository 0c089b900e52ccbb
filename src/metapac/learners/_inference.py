"""Inference of torch learners: eval mode, precision, batches on the module's device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from metapac._types import Array, Floats
from metapac.exceptions import InvalidInput
from metapac.learners import _checks
from metapac.learners.protocols import lower_scores

BATCH = 1024


@contextmanager
def eval_mode(module: nn.Module, *, fast: bool = False) -> Iterator[None]:
    """Put ``module`` in eval mode, without gradients; restore the mode of each part at the end.

    On a GPU, ``fast`` allows TF32, which has only 3 digits; the last ones depend on the batch size.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        device = _reference_tensor(module).device
        precision = "high" if fast else "highest"
        with torch.no_grad(), cuda_math(device, precision, allow_tf32=fast):
            yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def cuda_math(device: torch.device, precision: str, **flags: bool) -> Iterator[None]:
    """On a GPU, set cuDNN flags and the precision of matrix products; restore them at the end."""
    if device.type != "cuda":
        yield
        return
    old_precision = torch.get_float32_matmul_precision()
    old_flags = {name: getattr(torch.backends.cudnn, name) for name in flags}
    _set_cuda_math(precision, flags)
    try:
        yield
    finally:
        _set_cuda_math(old_precision, old_flags)


def _set_cuda_math(precision: str, flags: Mapping[str, bool]) -> None:
    for name, value in flags.items():
        setattr(torch.backends.cudnn, name, value)
    torch.set_float32_matmul_precision(precision)


def iter_batches(x: Any, module: nn.Module, batch: int = BATCH) -> Iterator[Tensor]:
    """Yield ``x`` in batches on the module's device; no examples make one empty batch."""
    array = x if isinstance(x, Tensor) or hasattr(x, "shape") else np.asarray(x)
    for start in range(0, max(_checks.count_examples(array), 1), batch):
        yield to_module_device(array[start : start + batch], module)


def to_module_device(x: Any, module: nn.Module) -> Tensor:
    """Return ``x`` on the module's device, floats in the module's precision."""
    reference = _reference_tensor(module)
    tensor = x if isinstance(x, Tensor) else torch.as_tensor(_torch_compatible(x))
    return tensor.to(reference.device, reference.dtype if tensor.is_floating_point() else None)


def _reference_tensor(module: nn.Module) -> Tensor:
    """Return a tensor with the device and the precision of the module."""
    return next(iter(module.parameters()), torch.empty(0))


def _torch_compatible(x: Any) -> Array:
    """Return numbers as torch takes them: contiguous, writable, in native byte order."""
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"x must hold numbers, got {array.dtype}. A torch learner takes float or uint8 arrays, "
            "or whole numbers for a SentenceCNN."
        )
    return np.require(array, array.dtype.newbyteorder("="), ["C", "W"])


def check_example_type(module: nn.Module, call: Callable[..., Any], *examples: Tensor) -> None:
    """Raise InvalidInput if a call fails on whole numbers and works on floats."""
    whole = {x.dtype for x in examples if not x.is_floating_point()}
    if not whole or _works(module, call, *examples):
        return
    floats = [x.to(_reference_tensor(module).dtype) for x in examples]
    if not _works(module, call, *floats):  # it fails for another reason
        return
    kind = str(whole.pop()).removeprefix("torch.")
    raise InvalidInput(
        f"the backbone takes floats, and the examples are {kind}. Begin its forward with "
        f"x.float(){' / 255' if kind == 'uint8' else ''}, or pass examples as floats."
    )


def _works(module: nn.Module, call: Callable[..., Any], *examples: Tensor) -> bool:
    try:
        with eval_mode(module):
            call(*examples)
    except RuntimeError:
        return False
    return True


def worst_case_scores(logits: Tensor, labels: Tensor) -> Floats:
    """Return the scores to calibrate on: softmax of worst-case float64 logits at ``labels``.

    Shapes: (T, classes, ...), (T, ...) -> flat scores. A softmax rises with the logit of the true
    label and falls with any other, so the worst case is lowest there and highest elsewhere.
    """
    true = logits.softmax(1).gather(1, labels.unsqueeze(1))
    return lower_scores(true.flatten().cpu().numpy(), precision=np.float32)
