"""Weights and checkpoints as safetensors."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from metapac import artefact
from metapac._common import PathLike
from metapac.errors import BadArtefact, InvalidInput, keyword
from metapac.fewshot.adapters import Trainable
from metapac.fewshot.datasets.pools import Architecture, EpochRow
from metapac.fewshot.learners.maml import MAML
from metapac.fewshot.learners.networks import BACKBONES, Backbone, Sphere, describe_module
from metapac.fewshot.learners.protonet import ProtoNet
from metapac.fewshot.tensors import data_checksum, read_tensors, write_tensors

_Size = Annotated[int, lambda size: 1 <= size <= 1 << 16]
_Seed = Annotated[int, lambda seed: seed >= 0]
_Large = Annotated[int, lambda size: 0 <= size <= 1 << 31]
_Network = TypedDict(
    "_Network",
    {
        "class": Annotated[str, lambda name: name != "Sphere"],
        "channels": NotRequired[_Size],
        "size": NotRequired[_Size],
        "width": NotRequired[_Size],
        "inputs": NotRequired[_Size],
        "depth": NotRequired[_Size],
        "tokens": NotRequired[_Size],
        "positions": NotRequired[_Size],
        "maps": NotRequired[_Size],
        "mean": NotRequired[list[float]],
        "std": NotRequired[list[float]],
        "dropout": NotRequired[artefact.Share],
        "words": NotRequired[
            Annotated[list[Annotated[_Large, bool]], lambda sizes: len(sizes) == 2]
        ],
        "frozen": NotRequired[bool],
        "padding": NotRequired[_Large],
        "is": NotRequired[str],
    },
)
_Sphere = TypedDict("_Sphere", {"class": Literal["Sphere"], "backbone": _Network})
_Model = TypedDict(
    "_Model", {"class": Literal["Classifier"], "classes": _Size, "backbone": _Network | _Sphere}
)


class _ProtoNet(TypedDict):
    backbone: _Network | _Sphere


class _MAML(TypedDict):
    steps: Annotated[int, lambda steps: 0 <= steps <= 1 << 16]
    step_size: float
    second_order: bool
    model: _Model


class _Weights(TypedDict):
    architecture: Architecture


class _Checkpoint(TypedDict):
    architecture: Architecture
    config: Annotated[dict[str, Any], lambda config: artefact.fits(config.get("rng"), _Seed)]
    history: list[EpochRow]


WEIGHTS = artefact.Format(
    "metapac weights",
    written_by="save_weights or metapac train",
    remedy="Restore it from a backup, or train again.",
    unsigned=True,
    shape=_Weights,
)


def save_weights(learner: Trainable, path: PathLike) -> None:
    """Write the weights of a learner to a safetensors file that records its architecture.

    Parameters
    ----------
    learner : Trainable
        The learner.
    path : str or path-like
        File to write; it is replaced atomically.

    Examples
    --------
    >>> import tempfile
    >>> from metapac.fewshot import MLP, ProtoNet, load_weights, save_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(ProtoNet(MLP(3, rng=0)), f"{folder}/model.safetensors")
    ...     load_weights(ProtoNet(MLP(3, rng=1)), f"{folder}/model.safetensors")
    """
    state = {name: detached_copy(tensor) for name, tensor in learner.module.state_dict().items()}
    body = {"architecture": describe_architecture(learner)}
    write_tensors(path, state, body, WEIGHTS, framework="torch")


def load_weights(learner: Trainable, path: PathLike) -> None:
    """Load weights into a learner of the architecture that they were saved from.

    Parameters
    ----------
    learner : Trainable
        The learner, whose weights are replaced.
    path : str or path-like
        File that `save_weights` or ``metapac train`` wrote.

    Raises
    ------
    BadArtefact
        If the file is damaged, or is not a file of weights.
    InvalidInput
        If the file records another architecture.

    Examples
    --------
    >>> import tempfile
    >>> from metapac.fewshot import MLP, ProtoNet, load_weights, save_weights
    >>> saved, fresh = ProtoNet(MLP(3, rng=0)), ProtoNet(MLP(3, rng=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(saved, f"{folder}/model.safetensors")
    ...     load_weights(fresh, f"{folder}/model.safetensors")
    >>> bool((saved.embed([[1.0, 2.0, 3.0]]) == fresh.embed([[1.0, 2.0, 3.0]])).all())
    True
    """
    architecture, state = _read(path)
    check_same_architecture(path, architecture, learner)
    check_tensors(path, WEIGHTS, state, learner.module.state_dict())
    learner.module.load_state_dict(state)


def load_learner(path: PathLike) -> ProtoNet | MAML:
    """Return a trained learner, rebuilt from its file.

    A learner of another class, or with a backbone of another class, cannot be rebuilt: build it
    and pass it to `load_weights`.

    Parameters
    ----------
    path : str or path-like
        File that `save_weights` wrote, or folder that ``metapac train`` wrote.

    Returns
    -------
    ProtoNet or MAML
        The learner, in eval mode on the CPU.

    Raises
    ------
    BadArtefact
        If the file is damaged, or is not a file of weights.
    InvalidInput
        If metapac cannot rebuild the learner.

    Examples
    --------
    >>> import tempfile
    >>> from metapac.fewshot import MLP, ProtoNet, load_learner, save_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(ProtoNet(MLP(3, width=8, rng=0)), f"{folder}/model.safetensors")
    ...     learner = load_learner(folder)
    >>> learner.module.features
    8
    """
    file = Path(path)
    file = file / "model.safetensors" if file.is_dir() else file
    architecture, state = _read(file)
    _check_rebuildable(file, architecture)
    with torch.device("meta"):  # no memory is spent on sizes that the tensors do not bear out
        blank = _build(file, architecture, state)
        check_tensors(file, WEIGHTS, state, blank.module.state_dict())
    learner = _build(file, architecture, state)
    check_same_architecture(file, architecture, learner)
    learner.module.load_state_dict(state)
    learner.module.eval()
    return learner


def weights_checksum(learner: Trainable) -> str:
    """Return the SHA-256 of the weights of a learner, whatever file they are stored in."""
    state = dict(sorted(learner.module.state_dict().items()))
    arrays = [tensor.detach().cpu().numpy() for tensor in state.values()]
    return data_checksum(np.array([*state], dtype=str), *arrays)


def describe_architecture(learner: Trainable) -> dict[str, Any]:
    """Return what must be equal for weights to fit: classes, arguments, number of weights."""
    method = getattr(learner, "describe", None)
    description = method() if callable(method) else {"backbone": describe_module(learner.module)}
    weights = sum(tensor.numel() for tensor in learner.module.state_dict().values())
    return {"class": type(learner).__name__, **description, "weights": weights}


def check_same_architecture(path: PathLike, stored: Mapping[str, Any], learner: Trainable) -> None:
    """Raise if a file or folder was written for a learner of another architecture."""
    described = json.loads(json.dumps(describe_architecture(learner)))  # tuples become lists
    if stored != described:
        raise InvalidInput(
            f"{path} was made with {_as_call(stored)}, and this learner is {_as_call(described)}. "
            "Build the learner that it was made with, or choose another file or folder."
        )


def check_tensors(
    path: PathLike, kind: artefact.Format, found: Mapping[str, Tensor], like: Mapping[str, Tensor]
) -> None:
    """Raise if the tensors of a file do not have the names and shapes that its learner needs."""
    for name in sorted({*found, *like}):
        shape, needed = (list(each[name].shape) if name in each else None for each in (found, like))
        if shape != needed:
            reason = f"tensor {name!r} has shape {shape}, and its architecture needs {needed}"
            raise artefact.inconsistent(path, kind, reason)


def detached_copy(tensor: Tensor) -> Tensor:
    """Return a copy that a file can hold: contiguous, on the host, sharing no memory."""
    return tensor.detach().cpu().contiguous().clone()


def _read(path: PathLike) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the architecture and the weights in a file."""
    document, tensors = read_tensors(path, WEIGHTS, framework="torch")
    return document["architecture"], tensors


def _as_call(description: Mapping[str, Any]) -> str:
    """Return a description as the call that builds the learner."""
    arguments = ", ".join(
        f"{name}={_as_call(value) if isinstance(value, Mapping) else repr(value)}"
        for name, value in description.items()
        if name != "class"
    )
    return f"{description.get('class')}({arguments})"


def _check_rebuildable(file: Path, architecture: Mapping[str, Any]) -> None:
    """Raise unless metapac knows the classes of a learner and of its backbone."""
    if architecture["class"] not in ("ProtoNet", "MAML"):
        raise _unknown_class(file, architecture["class"])
    with artefact.decoding(file, WEIGHTS):
        shape = _ProtoNet if architecture["class"] == "ProtoNet" else _MAML
        artefact.check_shape(architecture, shape)
    described = _backbone(architecture)
    name = described.get("backbone", described)["class"]  # of the network on a sphere
    if name not in {backbone.__name__ for backbone in BACKBONES.values()}:
        raise _unknown_class(file, name)


def _backbone(architecture: Mapping[str, Any]) -> Mapping[str, Any]:
    described: Mapping[str, Any] = architecture.get("model", architecture)["backbone"]
    return described


def _build(
    file: Path, architecture: Mapping[str, Any], state: Mapping[str, Tensor]
) -> ProtoNet | MAML:
    backbone = _backbone(architecture)
    if backbone.get("backbone", backbone).get("depth", 0) > len(state):
        raise artefact.inconsistent(file, WEIGHTS, "it has fewer tensors than layers")
    try:
        network = _build_backbone(backbone)
        if architecture["class"] == "ProtoNet":
            return ProtoNet(network)
        options = {name: architecture[name] for name in ("steps", "step_size", "second_order")}
        return MAML(network, architecture["model"]["classes"], **options)
    except (InvalidInput, TypeError, RuntimeError) as error:  # arguments that the class refuses
        reason = f"{_as_call(architecture)} cannot be built ({error})"
        raise artefact.inconsistent(file, WEIGHTS, " ".join(reason.split())) from error


def _build_backbone(description: Mapping[str, Any]) -> Backbone:
    options = dict(description)
    class_name = options.pop("class")
    classes = {backbone.__name__: backbone for backbone in BACKBONES.values()}
    if class_name == "Sphere":
        return Sphere(_build_backbone(options["backbone"]))
    if class_name == "SentenceCNN":  # the word vectors are among the weights
        options["words"] = torch.zeros(options["words"])
    return classes[class_name](**options, rng=0)


def _unknown_class(file: Path, name: str) -> InvalidInput:
    return InvalidInput(
        f"{file} holds weights of {name}, a class that metapac cannot build. Build the learner "
        "and pass it to load_weights with this file."
    )


FILE = "checkpoint.safetensors"
CHECKPOINT = artefact.Format(
    "metapac checkpoint",
    written_by="train",
    remedy="Restore it from a backup, or choose another folder to train from the start.",
    schema=2,
    oldest=2,
    shape=_Checkpoint,
)
_OLD_INDEX = "checkpoint.json"  # of metapac 0.1, beside a file of tensors for each epoch
_PARTS = ("weights", "best", "optimiser")


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the rest of a training run depends on."""

    architecture: Mapping[str, Any]
    config: Mapping[str, Any]
    history: list[dict[str, Any]]
    weights: Mapping[str, Tensor]
    best: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]


def write_checkpoint(folder: PathLike, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; the previous one is replaced only when the new one is complete."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    tensors = {name: detached_copy(tensor) for name, tensor in _name_tensors(checkpoint).items()}
    body = {name: getattr(checkpoint, name) for name in ("architecture", "config", "history")}
    write_tensors(checkpoint_file(target), tensors, body, CHECKPOINT, framework="torch")


def read_checkpoint(folder: PathLike) -> Checkpoint | None:
    """Return the checkpoint in a folder."""
    path = checkpoint_file(folder)
    old = path.with_name(_OLD_INDEX)
    if old.exists() and not path.exists():
        raise BadArtefact(
            f"{old} is a checkpoint of metapac 0.1, which this version cannot resume. Choose "
            "another folder to train from the start, or resume with metapac 0.1."
        )
    if not path.exists():
        return None
    document, tensors = read_tensors(path, CHECKPOINT, framework="torch")
    epochs = [epoch["epoch"] for epoch in document["history"]]
    if epochs != list(range(1, len(epochs) + 1)):
        raise artefact.inconsistent(path, CHECKPOINT, "its history skips or repeats an epoch")
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    for key, tensor in tensors.items():
        part, _, name = key.partition("/")
        if part not in parts:
            raise artefact.inconsistent(path, CHECKPOINT, f"tensor {key!r} belongs to no part")
        parts[part][name] = tensor
    return Checkpoint(document["architecture"], document["config"], document["history"], **parts)


def check_same_run(
    folder: PathLike, stored: Checkpoint, learner: Trainable, config: Mapping[str, Any], epochs: int
) -> None:
    """Raise if a checkpoint has another learner or configuration, or more epochs."""
    check_same_architecture(folder, stored.architecture, learner)
    changed = [name for name in config if stored.config.get(name) != config[name]]
    if changed:
        before, now = (
            ", ".join([keyword(name, values.get(name)) for name in changed])
            for values in (stored.config, config)
        )
        raise InvalidInput(
            f"{folder} was made with {before}, and this call has {now}. A run can only be resumed "
            "with the arguments it was started with: pass those, or choose another folder."
        )
    if len(stored.history) > epochs:
        raise InvalidInput(
            f"{folder} already holds {len(stored.history)} epochs, more than "
            f"{keyword('epochs', epochs)}. Pass at least {keyword('epochs', len(stored.history))}, "
            "or choose another folder."
        )


def checkpoint_file(folder: PathLike) -> Path:
    """Return the file that holds the checkpoint of a folder."""
    return Path(folder) / FILE


def check_same_tensors(
    folder: PathLike, stored: Checkpoint, learner: Trainable, optimiser: Optimizer
) -> None:
    """Raise if the tensors of a checkpoint do not fit a learner and its optimiser."""
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
    """Return the state of an optimiser as named tensors."""
    state = optimiser.state_dict()["state"]
    return {f"{i}/{name}": value for i in state for name, value in state[i].items()}


def set_optimiser_state(optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state of an optimiser."""
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
