"""Learners: adapt to a task with a few labelled examples, then score.

Names are imported on first use, so that the plain learners never import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metapac import _optional

if TYPE_CHECKING:  # the same names as below, for type checkers
    from metapac.learners.adapters import CallableLearner as CallableLearner
    from metapac.learners.adapters import FixedModel as FixedModel
    from metapac.learners.adapters import SklearnLearner as SklearnLearner
    from metapac.learners.embeddings import LogisticLearner as LogisticLearner
    from metapac.learners.embeddings import PrototypeLearner as PrototypeLearner
    from metapac.learners.embeddings import RidgeLearner as RidgeLearner
    from metapac.learners.in_context import InContextLearner as InContextLearner
    from metapac.learners.maml import MAML as MAML
    from metapac.learners.networks.backbones import MLP as MLP
    from metapac.learners.networks.backbones import Conv4 as Conv4
    from metapac.learners.networks.backbones import SentenceCNN as SentenceCNN
    from metapac.learners.networks.resnets import ResNet12 as ResNet12
    from metapac.learners.networks.resnets import ResNet50 as ResNet50
    from metapac.learners.networks.sphere import Sphere as Sphere
    from metapac.learners.protocols import Learner as Learner
    from metapac.learners.protocols import Scorer as Scorer
    from metapac.learners.protocols import Trainable as Trainable
    from metapac.learners.protonet import ProtoNet as ProtoNet
    from metapac.learners.prototypes import prototype_logits as prototype_logits
    from metapac.learners.task_accuracy import Accuracy as Accuracy
    from metapac.learners.task_accuracy import accuracy as accuracy
    from metapac.learners.training.episodes import Episodes as Episodes
    from metapac.learners.training.episodes import EpisodeSampler as EpisodeSampler
    from metapac.learners.training.history import Epoch as Epoch
    from metapac.learners.training.history import History as History
    from metapac.learners.training.recipes import Recipe as Recipe
    from metapac.learners.training.recipes import recipe_for as recipe_for
    from metapac.learners.training.strong import train_strong as train_strong
    from metapac.learners.training.train import train as train
    from metapac.learners.training.weights import load_learner as load_learner
    from metapac.learners.training.weights import load_weights as load_weights
    from metapac.learners.training.weights import save_weights as save_weights

_NAMES = {
    "adapters": ("CallableLearner", "FixedModel", "SklearnLearner"),
    "embeddings": ("LogisticLearner", "PrototypeLearner", "RidgeLearner"),
    "in_context": ("InContextLearner",),
    "maml": ("MAML",),
    "networks.backbones": ("MLP", "Conv4", "SentenceCNN"),
    "networks.resnets": ("ResNet12", "ResNet50"),
    "networks.sphere": ("Sphere",),
    "protocols": ("Learner", "Scorer", "Trainable"),
    "protonet": ("ProtoNet",),
    "prototypes": ("prototype_logits",),
    "task_accuracy": ("Accuracy", "accuracy"),
    "training.episodes": ("EpisodeSampler", "Episodes"),
    "training.history": ("Epoch", "History"),
    "training.recipes": ("Recipe", "recipe_for"),
    "training.strong": ("train_strong",),
    "training.train": ("train",),
    "training.weights": ("load_learner", "load_weights", "save_weights"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _optional.require(f"{__name__}.{_MODULES[name]}", extra="torch", purpose=name)
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
