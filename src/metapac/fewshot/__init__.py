"""The few-shot wing: tasks, learners, training, data sets, studies, and the paper's experiments.

Names are imported when they are first used, so that the plain learners never import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metapac._common import require

if TYPE_CHECKING:  # the same names as below, for type checkers
    from metapac.adaptation import Learner as Learner
    from metapac.adaptation import SklearnLearner as SklearnLearner
    from metapac.fewshot.adapters import CallableLearner as CallableLearner
    from metapac.fewshot.adapters import FixedModel as FixedModel
    from metapac.fewshot.datasets.cifar10c import cifar10c as cifar10c
    from metapac.fewshot.datasets.fewrel import fewrel as fewrel
    from metapac.fewshot.datasets.glyphs import glyphs as glyphs
    from metapac.fewshot.datasets.heart import heart as heart
    from metapac.fewshot.datasets.heart import heart_groups as heart_groups
    from metapac.fewshot.datasets.images import image_folder as image_folder
    from metapac.fewshot.datasets.miniimagenet import miniimagenet as miniimagenet
    from metapac.fewshot.datasets.pools import load_pools as load_pools
    from metapac.fewshot.drawing import LazyArray as LazyArray
    from metapac.fewshot.learners.accuracy import accuracy as accuracy
    from metapac.fewshot.learners.maml import MAML as MAML
    from metapac.fewshot.learners.networks import MLP as MLP
    from metapac.fewshot.learners.networks import Conv4 as Conv4
    from metapac.fewshot.learners.networks import ResNet12 as ResNet12
    from metapac.fewshot.learners.networks import ResNet50 as ResNet50
    from metapac.fewshot.learners.networks import SentenceCNN as SentenceCNN
    from metapac.fewshot.learners.networks import Sphere as Sphere
    from metapac.fewshot.learners.protonet import ProtoNet as ProtoNet
    from metapac.fewshot.learners.vectors import LogisticLearner as LogisticLearner
    from metapac.fewshot.learners.vectors import PrototypeLearner as PrototypeLearner
    from metapac.fewshot.learners.vectors import RidgeLearner as RidgeLearner
    from metapac.fewshot.meta_cp import MetaCP as MetaCP
    from metapac.fewshot.pools import ClassPool as ClassPool
    from metapac.fewshot.pools import DomainPool as DomainPool
    from metapac.fewshot.pools import GroupPool as GroupPool
    from metapac.fewshot.pools import split_classes as split_classes
    from metapac.fewshot.pools import split_domains as split_domains
    from metapac.fewshot.pools import split_groups as split_groups
    from metapac.fewshot.prompts import InContextLearner as InContextLearner
    from metapac.fewshot.prompts import read_samples as read_samples
    from metapac.fewshot.scoring import fit_temperature as fit_temperature
    from metapac.fewshot.scoring import score_examples as score_examples
    from metapac.fewshot.scoring import score_tasks as score_tasks
    from metapac.fewshot.study.draws import SyntheticStudy as SyntheticStudy
    from metapac.fewshot.study.methods import Chosen as Chosen
    from metapac.fewshot.study.methods import Method as Method
    from metapac.fewshot.study.methods import Rule as Rule
    from metapac.fewshot.study.methods import neighbour_methods as neighbour_methods
    from metapac.fewshot.study.methods import paper_methods as paper_methods
    from metapac.fewshot.study.pool_study import PoolStudy as PoolStudy
    from metapac.fewshot.study.run import run_seeds as run_seeds
    from metapac.fewshot.study.run import run_study as run_study
    from metapac.fewshot.study.summary import summarise as summarise
    from metapac.fewshot.synthetic import NormalFamily as NormalFamily
    from metapac.fewshot.synthetic import TwoPointFamily as TwoPointFamily
    from metapac.fewshot.tasks import Task as Task
    from metapac.fewshot.tasks import class_reuse as class_reuse
    from metapac.fewshot.training.checkpoints import load_learner as load_learner
    from metapac.fewshot.training.checkpoints import load_weights as load_weights
    from metapac.fewshot.training.checkpoints import save_weights as save_weights
    from metapac.fewshot.training.loop import train as train
    from metapac.fewshot.training.strong import recipe_for as recipe_for
    from metapac.fewshot.training.strong import train_strong as train_strong

_NAMES = {
    "adapters": "CallableLearner FixedModel",
    "datasets.cifar10c": "cifar10c",
    "datasets.fewrel": "fewrel",
    "datasets.glyphs": "glyphs",
    "datasets.heart": "heart heart_groups",
    "datasets.images": "image_folder",
    "datasets.miniimagenet": "miniimagenet",
    "datasets.pools": "load_pools",
    "drawing": "LazyArray",
    "learners.accuracy": "accuracy",
    "learners.maml": "MAML",
    "learners.networks": "MLP Conv4 ResNet12 ResNet50 SentenceCNN Sphere",
    "learners.protonet": "ProtoNet",
    "learners.vectors": "LogisticLearner PrototypeLearner RidgeLearner",
    "meta_cp": "MetaCP",
    "metapac.adaptation": "Learner SklearnLearner",
    "pools": "ClassPool DomainPool GroupPool split_classes split_domains split_groups",
    "prompts": "InContextLearner read_samples",
    "scoring": "fit_temperature score_examples score_tasks",
    "study.draws": "SyntheticStudy",
    "study.methods": "Chosen Method Rule neighbour_methods paper_methods",
    "study.pool_study": "PoolStudy",
    "study.run": "run_seeds run_study",
    "study.summary": "summarise",
    "synthetic": "NormalFamily TwoPointFamily",
    "tasks": "Task class_reuse",
    "training.checkpoints": "load_learner load_weights save_weights",
    "training.loop": "train",
    "training.strong": "recipe_for train_strong",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES[name]
    path = module if module.startswith("metapac.") else f"{__name__}.{module}"
    return getattr(require(path, extra="torch", purpose=name), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
