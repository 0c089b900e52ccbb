"""The pools of each experiment, from the prepared data sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from metapac.datasets import cache
from metapac.datasets.cifar10c import cifar10c
from metapac.datasets.fewrel import fewrel
from metapac.datasets.heart import heart_groups
from metapac.datasets.miniimagenet import miniimagenet
from metapac.evaluation.draws import data_checksum
from metapac.reproduce.experiments import Experiment
from metapac.tasks.glyphs import glyphs
from metapac.tasks.pools import Pools, split_classes

VALIDATION_CLASSES = 8  # of the training classes, to choose the epoch on
CHARACTERS = {"train": 100, "validation": 20, "calibration": 60, "test": 60}


@dataclass(frozen=True)
class Data:
    """The pools of an experiment, the word vectors of sentences, and a checksum of the source."""

    pools: Pools[Any]
    checksum: str
    words: Any = None


def load(experiment: Experiment, *, home: cache.Home = None) -> Data:
    """Return the pools of an experiment, or say how to prepare its data."""
    return _LOADERS[experiment.data](experiment, home)


def _miniimagenet(experiment: Experiment, home: cache.Home) -> Data:
    pools = miniimagenet(validation=VALIDATION_CLASSES, home=home)
    return Data(pools, cache.opened("miniimagenet", home).checksum)


def _cifar10c(experiment: Experiment, home: cache.Home) -> Data:
    return Data(cifar10c(home=home), cache.opened("cifar10c", home).checksum)


def _fewrel(experiment: Experiment, home: cache.Home) -> Data:
    pools, words = fewrel(validation=VALIDATION_CLASSES, home=home)
    return Data(pools, cache.opened("fewrel", home).checksum, words)


def _heart(experiment: Experiment, home: cache.Home) -> Data:
    names = ("train", "validation", "calibration", "test")
    counts = dict(zip(names, experiment.groups, strict=True))
    pools = heart_groups(**counts, least=experiment.least, rng=0, home=home)
    return Data(pools, cache.opened("heart", home).checksum)


def _glyphs(experiment: Experiment, home: cache.Home) -> Data:
    x, y, _ = glyphs(characters=sum(CHARACTERS.values()), rng=0)
    return Data(split_classes(x, y, **CHARACTERS, rng=0), data_checksum(x, y))


_LOADERS: dict[str, Callable[[Experiment, cache.Home], Data]] = {
    "miniimagenet": _miniimagenet,
    "cifar10c": _cifar10c,
    "fewrel": _fewrel,
    "heart": _heart,
    "glyphs": _glyphs,
}
