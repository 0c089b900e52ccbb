"""A trained learner from its file alone: the architecture is written beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from metapac.learners.backbones import MLP, Conv4, ResNet12, ResNet50, SentenceCNN
from metapac.learners.maml import MAML
from metapac.learners.protonet import ProtoNet
from metapac.learners.weights import Where, read_weights, refuse_other_architecture

_BACKBONES = {kind.__name__: kind for kind in (Conv4, MLP, ResNet12, ResNet50, SentenceCNN)}


def load_learner(path: Where) -> ProtoNet | MAML:
    """Return the learner that ``save_weights`` or ``metapac train`` wrote, ready to adapt.

    ``path`` is the file of weights or the folder of the run. A learner of your own, or one on a
    backbone of your own, is built by you and takes its weights by ``load_weights``.
    """
    file = Path(path)
    file = file / "model.safetensors" if file.is_dir() else file
    made, state = read_weights(file)
    learner = _built(file, made)
    refuse_other_architecture(file, made, learner)
    learner.module.load_state_dict(state)
    learner.module.eval()
    return learner


def _built(file: Path, made: Mapping[str, Any]) -> ProtoNet | MAML:
    if made["class"] == "ProtoNet":
        return ProtoNet(_backbone(file, made["backbone"]))
    if made["class"] == "MAML":
        options = {name: made[name] for name in ("steps", "step_size", "second_order")}
        model = made["model"]
        return MAML(_backbone(file, model["backbone"]), model["classes"], **options)
    raise _foreign(file, made["class"])


def _backbone(file: Path, made: Mapping[str, Any]) -> torch.nn.Module:
    arguments = dict(made)
    name = arguments.pop("class")
    if name not in _BACKBONES:
        raise _foreign(file, name)
    if name == "SentenceCNN":  # the vectors themselves are among the weights
        arguments["words"] = torch.zeros(arguments["words"])
    return _BACKBONES[name](**arguments, rng=0)


def _foreign(file: Path, name: str) -> ValueError:
    return ValueError(
        f"{file} holds weights of {name}, which metapac cannot build by itself. Build the learner "
        "and pass it to load_weights with this file."
    )
