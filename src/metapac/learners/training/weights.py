"""Files of weights, which record the architecture of their learner."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from metapac import _document, _schema
from metapac._types import PathLike
from metapac.exceptions import InvalidInput
from metapac.learners.maml import MAML
from metapac.learners.networks.base import Backbone, describe
from metapac.learners.networks.registry import BACKBONES
from metapac.learners.networks.sphere import Sphere
from metapac.learners.protocols import Trainable
from metapac.learners.protonet import ProtoNet

WEIGHTS = _document.Format(
    "metapac weights",
    written_by="save_weights or metapac train",
    remedy="Restore it from a backup, or train again.",
    unsigned=True,
    shape="weights",
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
    >>> from metapac.learners import MLP, ProtoNet, load_weights, save_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(ProtoNet(MLP(3, rng=0)), f"{folder}/model.safetensors")
    ...     load_weights(ProtoNet(MLP(3, rng=1)), f"{folder}/model.safetensors")
    """
    state = {name: detached_copy(tensor) for name, tensor in learner.module.state_dict().items()}
    body = {"architecture": describe_architecture(learner)}
    _document.write_tensors(path, state, body, WEIGHTS, framework="torch")


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
    >>> from metapac.learners import MLP, ProtoNet, load_weights, save_weights
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
    >>> from metapac.learners import MLP, ProtoNet, load_learner, save_weights
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


def describe_architecture(learner: Trainable) -> dict[str, Any]:
    """Return what must be equal for weights to fit: classes, arguments, number of weights.

    Parameters
    ----------
    learner : Trainable
        The learner.

    Returns
    -------
    dict
        What JSON can hold.
    """
    method = getattr(learner, "describe", None)
    description = method() if callable(method) else {"backbone": describe(learner.module)}
    weights = sum(tensor.numel() for tensor in learner.module.state_dict().values())
    return {"class": type(learner).__name__, **description, "weights": weights}


def check_same_architecture(path: PathLike, stored: Mapping[str, Any], learner: Trainable) -> None:
    """Raise if a file or folder was written for a learner of another architecture.

    Parameters
    ----------
    path : str or path-like
        The file or folder, for the message.
    stored : mapping
        Architecture that it records.
    learner : Trainable
        The learner.
    """
    described = json.loads(json.dumps(describe_architecture(learner)))  # tuples become lists
    if stored != described:
        raise InvalidInput(
            f"{path} was made with {_as_call(stored)}, and this learner is {_as_call(described)}. "
            "Build the learner that it was made with, or choose another file or folder."
        )


def check_tensors(
    path: PathLike, kind: _document.Format, found: Mapping[str, Tensor], like: Mapping[str, Tensor]
) -> None:
    """Raise if the tensors of a file do not have the names and shapes that its learner needs.

    Parameters
    ----------
    path : str or path-like
        The file, for the message.
    kind : Format
        Its format.
    found : mapping of Tensor
        Its tensors.
    like : mapping of Tensor
        Tensors of these names and shapes are needed.

    Raises
    ------
    BadArtefact
        If a tensor is missing, unknown or of another shape.
    """
    for name in sorted({*found, *like}):
        shape, needed = (list(each[name].shape) if name in each else None for each in (found, like))
        if shape != needed:
            reason = f"tensor {name!r} has shape {shape}, and its architecture needs {needed}"
            raise _document.inconsistent(path, kind, reason)


def detached_copy(tensor: Tensor) -> Tensor:
    """Return a copy that a file can hold: contiguous, on the host, sharing no memory.

    Parameters
    ----------
    tensor : Tensor
        Any tensor.

    Returns
    -------
    Tensor
        The copy.
    """
    return tensor.detach().cpu().contiguous().clone()


def _read(path: PathLike) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the architecture and the weights in a file."""
    document, tensors = _document.read_tensors(path, WEIGHTS, framework="torch")
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
    try:
        _schema.check(architecture, _schema.load_schema("architecture"))
    except _schema.Fault as fault:
        raise _document.inconsistent(file, WEIGHTS, fault.inside("architecture")) from fault
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
        raise _document.inconsistent(file, WEIGHTS, "it has fewer tensors than layers")
    try:
        network = _build_backbone(backbone)
        if architecture["class"] == "ProtoNet":
            return ProtoNet(network)
        options = {name: architecture[name] for name in ("steps", "step_size", "second_order")}
        return MAML(network, architecture["model"]["classes"], **options)
    except (InvalidInput, TypeError, RuntimeError) as error:  # arguments that the class refuses
        reason = f"{_as_call(architecture)} cannot be built ({error})"
        raise _document.inconsistent(file, WEIGHTS, " ".join(reason.split())) from error


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
