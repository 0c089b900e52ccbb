"""The backbones by name."""

from __future__ import annotations

from typing import Any

from metapac._checks import check_one_of
from metapac.learners.networks.backbones import MLP, Conv4, SentenceCNN
from metapac.learners.networks.base import Backbone
from metapac.learners.networks.resnets import ResNet12, ResNet50

BACKBONES: dict[str, type[Backbone]] = {
    "conv4": Conv4,
    "mlp": MLP,
    "resnet12": ResNet12,
    "resnet50": ResNet50,
    "sentence_cnn": SentenceCNN,
}


def build_backbone(name: str, **options: Any) -> Backbone:
    """Return an untrained backbone.

    Parameters
    ----------
    name : str
        ``"conv4"``, ``"mlp"``, ``"resnet12"``, ``"resnet50"`` or ``"sentence_cnn"``.
    **options : object
        Arguments of its constructor.

    Returns
    -------
    Backbone
        The backbone.

    Raises
    ------
    InvalidInput
        If there is no backbone of that name.

    Examples
    --------
    >>> from metapac.learners.networks.registry import build_backbone
    >>> build_backbone("mlp", inputs=3, rng=0).features
    100
    """
    check_one_of("backbone", name, tuple(BACKBONES))
    return BACKBONES[name](**options)
