"""Learners: adapt to a task with a few labelled examples, then score.

Names are imported when they are asked for: the plain learners never import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metapac.learners.backbones import MLP, Conv4, ResNet12, ResNet50, SentenceCNN
    from metapac.learners.contract import Learner, Scorer, Trainable
    from metapac.learners.episodes import Episodes, EpisodeSampler
    from metapac.learners.loading import load_learner
    from metapac.learners.maml import MAML
    from metapac.learners.plain import CallableLearner, FixedModel, SklearnLearner
    from metapac.learners.protonet import ProtoNet
    from metapac.learners.prototypes import prototype_logits
    from metapac.learners.quantiles import QuantilePredictor, leave_one_out
    from metapac.learners.training import Epoch, History, accuracy, train
    from metapac.learners.weights import load_weights, save_weights

__all__ = [
    "MAML",
    "MLP",
    "CallableLearner",
    "Conv4",
    "EpisodeSampler",
    "Episodes",
    "Epoch",
    "FixedModel",
    "History",
    "Learner",
    "ProtoNet",
    "QuantilePredictor",
    "ResNet12",
    "ResNet50",
    "Scorer",
    "SentenceCNN",
    "SklearnLearner",
    "Trainable",
    "accuracy",
    "leave_one_out",
    "load_learner",
    "load_weights",
    "prototype_logits",
    "save_weights",
    "train",
]

_HOMES = {
    **dict.fromkeys(("Learner", "Scorer", "Trainable"), "contract"),
    **dict.fromkeys(("SklearnLearner", "FixedModel", "CallableLearner"), "plain"),
    **dict.fromkeys(("Conv4", "MLP", "ResNet12", "ResNet50", "SentenceCNN"), "backbones"),
    "ProtoNet": "protonet",
    "prototype_logits": "prototypes",
    "MAML": "maml",
    "load_learner": "loading",
    **dict.fromkeys(("Episodes", "EpisodeSampler"), "episodes"),
    **dict.fromkeys(("Epoch", "History", "accuracy", "train"), "training"),
    **dict.fromkeys(("QuantilePredictor", "leave_one_out"), "quantiles"),
    **dict.fromkeys(("load_weights", "save_weights"), "weights"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "safetensors"):
            raise
        raise ModuleNotFoundError(
            f"{name} needs {error.name}. Install it with: pip install 'metapac[torch]'",
            name=error.name,
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
