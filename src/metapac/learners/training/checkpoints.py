"""Checkpoints: the state of a training run in one file, replaced after every epoch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from metapac import _document
from metapac._types import PathLike
from metapac.exceptions import BadArtefact, InvalidInput, Message, Parameter
from metapac.learners.protocols import Trainable
from metapac.learners.training.weights import (
    check_same_architecture,
    check_tensors,
    detached_copy,
)

FILE = "checkpoint.safetensors"
CHECKPOINT = _document.Format(
    "metapac checkpoint",
    written_by="train",
    remedy="Restore it from a backup, or choose another folder to train from the start.",
    schema=2,
    oldest=2,
    shape="checkpoint",
)
_OLD_INDEX = "checkpoint.json"  # of metapac 0.1, beside a file of tensors for each epoch
_PARTS = ("weights", "best", "optimiser")


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the rest of a training run depends on.

    Parameters
    ----------
    architecture : mapping
        Description of the learner.
    config : mapping
        Fields of the `TrainingConfig`.
    history : list of dict
        Fields of each `Epoch`.
    weights : mapping of Tensor
        Weights after the last epoch.
    best : mapping of Tensor
        Weights after the best epoch.
    optimiser : mapping of Tensor
        State of the optimiser.
    """

    architecture: Mapping[str, Any]
    config: Mapping[str, Any]
    history: list[dict[str, Any]]
    weights: Mapping[str, Tensor]
    best: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]


def write(folder: PathLike, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; the previous one is replaced only when the new one is complete.

    Parameters
    ----------
    folder : str or path-like
        Folder of the run; it is created if it does not exist.
    checkpoint : Checkpoint
        The state of the run.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    tensors = {name: detached_copy(tensor) for name, tensor in _name_tensors(checkpoint).items()}
    body = {name: getattr(checkpoint, name) for name in ("architecture", "config", "history")}
    _document.write_tensors(checkpoint_file(target), tensors, body, CHECKPOINT, framework="torch")


def read(folder: PathLike) -> Checkpoint | None:
    """Return the checkpoint in a folder.

    Parameters
    ----------
    folder : str or path-like
        Folder of the run.

    Returns
    -------
    Checkpoint or None
        The state of the run; None if the folder has no checkpoint.

    Raises
    ------
    BadArtefact
        If the checkpoint is damaged, or was written by another version of metapac.
    """
    path = checkpoint_file(folder)
    old = path.with_name(_OLD_INDEX)
    if old.exists() and not path.exists():
        raise BadArtefact(
            f"{old} is a checkpoint of metapac 0.1, which this version cannot resume. Choose "
            "another folder to train from the start, or resume with metapac 0.1."
        )
    if not path.exists():
        return None
    document, tensors = _document.read_tensors(path, CHECKPOINT, framework="torch")
    epochs = [epoch["epoch"] for epoch in document["history"]]
    if epochs != list(range(1, len(epochs) + 1)):
        raise _document.inconsistent(path, CHECKPOINT, "its history skips or repeats an epoch")
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    for key, tensor in tensors.items():
        part, _, name = key.partition("/")
        if part not in parts:
            raise _document.inconsistent(path, CHECKPOINT, f"tensor {key!r} belongs to no part")
        parts[part][name] = tensor
    return Checkpoint(document["architecture"], document["config"], document["history"], **parts)


def check_same_run(
    folder: PathLike, stored: Checkpoint, learner: Trainable, config: Mapping[str, Any], epochs: int
) -> None:
    """Raise if a checkpoint has another learner or configuration, or more epochs.

    Parameters
    ----------
    folder : str or path-like
        Folder of the run, for the message.
    stored : Checkpoint
        The checkpoint.
    learner : Trainable
        Learner to train.
    config : mapping
        Fields of the `TrainingConfig`.
    epochs : int
        Number of epochs to reach.
    """
    check_same_architecture(folder, stored.architecture, learner)
    changed = [name for name in config if stored.config.get(name) != config[name]]
    if changed:
        before, now = (
            Message.join(", ", [Parameter(name, values.get(name)) for name in changed])
            for values in (stored.config, config)
        )
        raise InvalidInput(
            "{} was made with {}, and this call has {}. A run can only be resumed with the "
            "arguments it was started with: pass those, or choose another folder.",
            folder,
            before,
            now,
        )
    if len(stored.history) > epochs:
        raise InvalidInput(
            "{} already holds {} epochs, more than {}. Pass at least {}, or choose another folder.",
            folder,
            len(stored.history),
            Parameter("epochs", epochs),
            Parameter("epochs", len(stored.history)),
        )


def checkpoint_file(folder: PathLike) -> Path:
    """Return the file that holds the checkpoint of a folder.

    Parameters
    ----------
    folder : str or path-like
        Folder of the run.

    Returns
    -------
    Path
        The file.
    """
    return Path(folder) / FILE


def check_same_tensors(
    folder: PathLike, stored: Checkpoint, learner: Trainable, optimiser: Optimizer
) -> None:
    """Raise if the tensors of a checkpoint do not fit a learner and its optimiser.

    Parameters
    ----------
    folder : str or path-like
        Folder of the run, for the message.
    stored : Checkpoint
        The checkpoint.
    learner : Trainable
        Learner to train.
    optimiser : torch.optim.Optimizer
        Adam, with the parameters to train.

    Raises
    ------
    BadArtefact
        If a tensor is missing, unknown or of another shape.
    """
    state = learner.module.state_dict()
    like = {f"{part}/{name}": state[name] for part in ("weights", "best") for name in state}
    started = {key.partition("/")[0] for key in stored.optimiser}  # those that had a gradient
    for i, parameter in enumerate(optimiser.param_groups[0]["params"]):
        if str(i) in started:
            moments = dict.fromkeys(("exp_avg", "exp_avg_sq"), parameter)
            needed = {"step": torch.zeros(()), **moments}
            like |= {f"optimiser/{i}/{name}": tensor for name, tensor in needed.items()}
    check_tensors(checkpoint_file(folder), CHECKPOINT, _name_tensors(stored), like)


def _name_tensors(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint by their name in its file."""
    return {
        f"{part}/{name}": tensor
        for part in _PARTS
        for name, tensor in getattr(checkpoint, part).items()
    }


def get_optimiser_state(optimiser: Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimiser as named tensors.

    Parameters
    ----------
    optimiser : torch.optim.Optimizer
        The optimiser.

    Returns
    -------
    dict of Tensor
        The state: ``"0/exp_avg"`` and so on.
    """
    state = optimiser.state_dict()["state"]
    return {f"{i}/{name}": value for i in state for name, value in state[i].items()}


def set_optimiser_state(optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state of an optimiser.

    Parameters
    ----------
    optimiser : torch.optim.Optimizer
        The optimiser to change.
    tensors : mapping of Tensor
        The state that `get_optimiser_state` returned.
    """
    state: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for key, value in tensors.items():
        i, _, name = key.partition("/")
        state[int(i)][name] = value.clone()
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": dict(state), "param_groups": groups})
    for parameter, values in optimiser.state.items():
        for name, value in values.items():
            if value.shape == parameter.shape:  # in the memory format of the parameter
                values[name] = torch.empty_like(parameter).copy_(value)
