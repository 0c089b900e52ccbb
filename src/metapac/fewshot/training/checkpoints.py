"""Weights and checkpoints as safetensors."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from metapac import artefact
from metapac._common import PathLike
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.adapters import Trainable
from metapac.fewshot.learners.maml import MAML
from metapac.fewshot.learners.networks import BACKBONES, Backbone, Sphere, describe_module
from metapac.fewshot.learners.protonet import ProtoNet
from metapac.fewshot.tensors import data_checksum, read_tensors, write_tensors

_Facts = Mapping[str, Any]


def _is_architecture(body: dict[str, Any]) -> bool:
    parts = [body.get(name, {}) for name in ("backbone", "model")]
    is_named = isinstance(body.get("class"), str) and all(isinstance(part, dict) for part in parts)
    return is_named and artefact.fits(body.get("weights"), artefact.Size)


class _Weights(TypedDict):
    architecture: Annotated[dict[str, Any], _is_architecture]


WEIGHTS = artefact.Format(
    "metapac weights",
    written_by="save_weights or metapac train",
    remedy="Restore it from a backup, or train again.",
    unsigned=True,
    shape=_Weights,
)
CHECKPOINT = artefact.Format(
    "metapac checkpoint",
    written_by="train",
    remedy="Restore it from a backup, or choose another folder to train from the start.",
    schema=2,
    oldest=2,
)
FILE = "checkpoint.safetensors"


def save_weights(learner: Trainable, path: PathLike) -> None:
    """Write the weights of a learner to a safetensors file that records its architecture.

    Parameters
    ----------
    learner : Trainable
    path : str or path-like
        File to write; it is replaced atomically.

    Examples
    --------
    >>> import tempfile
    >>> from metapac.fewshot import MLP, ProtoNet, save_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(ProtoNet(MLP(3, rng=0)), f"{folder}/model.safetensors")
    """
    body = {"architecture": describe_architecture(learner)}
    write_tensors(path, _copy_all(learner.module.state_dict()), body, WEIGHTS, framework="torch")


def load_weights(learner: Trainable, path: PathLike) -> None:
    """Load weights into a learner of the architecture that they were saved from.

    Parameters
    ----------
    learner : Trainable
        The learner, whose weights are replaced.
    path : str or path-like
        File that `save_weights` or ``metapac train`` wrote.

    Examples
    --------
    >>> import tempfile
    >>> from metapac.fewshot import MLP, ProtoNet, load_weights, save_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(ProtoNet(MLP(3, rng=0)), f"{folder}/model.safetensors")
    ...     load_weights(ProtoNet(MLP(3, rng=1)), f"{folder}/model.safetensors")
    """
    document, state = read_tensors(path, WEIGHTS, framework="torch")
    check_same_architecture(path, document["architecture"], describe_architecture(learner))
    check_tensors(path, WEIGHTS, state, learner.module.state_dict())
    learner.module.load_state_dict(state)


def load_learner(path: PathLike) -> ProtoNet | MAML:
    """Return a trained learner, rebuilt from its file.

    Learners or backbones of other classes cannot be rebuilt: pass one to `load_weights`.

    Parameters
    ----------
    path : str or path-like
        File that `save_weights` wrote, or folder that ``metapac train`` wrote.

    Returns
    -------
    ProtoNet or MAML
        The learner, in eval mode on the CPU.

    Examples
    --------
    >>> import tempfile
    >>> from metapac.fewshot import MLP, ProtoNet, load_learner, save_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(ProtoNet(MLP(3, width=8, rng=0)), f"{folder}/model.safetensors")
    ...     load_learner(folder).module.features
    8
    """
    file = Path(path)
    file = file / "model.safetensors" if file.is_dir() else file
    document, state = read_tensors(file, WEIGHTS, framework="torch")
    architecture = document["architecture"]
    with torch.device("meta"):  # no memory is spent on sizes that the tensors do not bear out
        blank = _build(file, architecture, len(state))
        check_tensors(file, WEIGHTS, state, blank.module.state_dict())
    learner = _build(file, architecture, len(state))
    check_same_architecture(file, architecture, describe_architecture(learner))
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


def check_same_architecture(path: PathLike, stored: _Facts, now: _Facts) -> None:
    """Raise if a file or folder was written for a learner of another architecture."""
    now = json.loads(json.dumps(now))  # tuples become lists
    if stored != now:
        calls = f"{_as_call(stored)}, and this learner is {_as_call(now)}"
        raise InvalidInput(f"{path} was made with {calls}.")


def check_tensors(
    path: PathLike, kind: artefact.Format, found: Mapping[str, Tensor], like: Mapping[str, Tensor]
) -> None:
    """Raise if the tensors of a file do not have the names and shapes that its learner needs."""
    for name in sorted({*found, *like}):
        shape, needed = (list(each[name].shape) if name in each else None for each in (found, like))
        if shape != needed:
            reason = f"tensor {name!r} has shape {shape}, and its architecture needs {needed}"
            raise artefact.inconsistent(path, kind, reason)


def _copy_all(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies that a file can hold: contiguous, on the host, sharing no memory."""
    return {name: x.detach().cpu().contiguous().clone() for name, x in tensors.items()}


def _as_call(description: Mapping[str, Any]) -> str:
    """Return a description as the call that builds the learner."""
    values = {name: value for name, value in description.items() if name != "class"}
    texts = {k: _as_call(v) if isinstance(v, Mapping) else repr(v) for k, v in values.items()}
    return f"{description.get('class')}({', '.join(f'{k}={v}' for k, v in texts.items())})"


def _build(file: Path, architecture: Mapping[str, Any], layers: int) -> ProtoNet | MAML:
    options = {name: value for name, value in architecture.items() if name != "weights"}
    name = options.pop("class")
    try:
        if name == "ProtoNet":
            return ProtoNet(_build_backbone(options["backbone"], layers))
        if name == "MAML":
            model = options.pop("model")
            return MAML(_build_backbone(model["backbone"], layers), model["classes"], **options)
    except NotImplementedError as error:  # a backbone of another class
        name = error.args[0]
    except Exception as error:  # whatever the classes raise for arguments that they refuse
        reason = f"{_as_call(architecture)} cannot be built ({error})"
        raise artefact.inconsistent(file, WEIGHTS, " ".join(reason.split())) from error
    rule = f"{file} holds weights of {name}, a class that metapac cannot build"
    raise InvalidInput(f"{rule}. Build the learner and pass it to load_weights with this file.")


def _build_backbone(description: Mapping[str, Any], layers: int) -> Backbone:
    options = dict(description)
    name = options.pop("class")
    if name == "Sphere":
        return Sphere(_build_backbone(options["backbone"], layers))
    known = {backbone.__name__: backbone for backbone in BACKBONES.values()}
    if name not in known:
        raise NotImplementedError(name)
    if options.get("depth", 0) > layers:
        raise InvalidInput("it has fewer tensors than layers")
    if name == "SentenceCNN":  # the word vectors are among the weights
        options["words"] = torch.zeros(options["words"])
    return known[name](**options, rng=0)


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the rest of a training run depends on."""

    architecture: Mapping[str, Any]
    config: Mapping[str, Any]
    history: list[dict[str, Any]]
    weights: Mapping[str, Tensor]
    best: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]


_TENSORS = ("weights", "best", "optimiser")


def write_checkpoint(folder: PathLike, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; the previous one is replaced only when the new one is complete."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    body = dict(vars(checkpoint))
    parts = ((part, body.pop(part)) for part in _TENSORS)
    tensors = {f"{part}/{name}": x for part, named in parts for name, x in named.items()}
    write_tensors(Path(folder) / FILE, _copy_all(tensors), body, CHECKPOINT, framework="torch")


def read_checkpoint(folder: PathLike) -> Checkpoint | None:
    path = Path(folder) / FILE
    if not path.exists():
        return None
    document, tensors = read_tensors(path, CHECKPOINT, framework="torch")
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _TENSORS}
    for key, tensor in tensors.items():
        part, _, name = key.partition("/")
        parts[part][name] = tensor
    return Checkpoint(document["architecture"], document["config"], document["history"], **parts)


def check_same_run(
    folder: PathLike, stored: Checkpoint, architecture: _Facts, config: _Facts, epochs: int
) -> None:
    """Raise if a checkpoint has other data, another configuration or learner, or more epochs."""
    changed = [name for name in config if stored.config.get(name) != config[name]]
    if changed:
        before = ", ".join(keyword(name, stored.config.get(name)) for name in changed)
        now = ", ".join(keyword(name, config[name]) for name in changed)
        rule = f"{folder} was made with {before}, and this call has {now}"
        raise InvalidInput(f"{rule}. Pass the same arguments, or another folder.")
    check_same_architecture(folder, stored.architecture, architecture)
    if len(stored.history) > epochs:
        done, now = keyword("epochs", len(stored.history)), keyword("epochs", epochs)
        raise InvalidInput(f"{folder} already holds {done}, got {now}.", parameter="epochs")


def get_optimiser_state(optimiser: Optimizer) -> dict[str, Tensor]:
    state = optimiser.state_dict()["state"]
    return {f"{i}/{name}": value for i in state for name, value in state[i].items()}


def set_optimiser_state(optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
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
