"""The learner that ``metapac train`` trains: a few-shot method on a network that suits the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac import _document
from metapac._checks import check_one_of
from metapac._types import Array
from metapac.datasets.pools import LoadedPools
from metapac.exceptions import InvalidInput, Parameter
from metapac.tasks.pools import ClassPool, GroupPool


def build_learner(
    name: str,
    backbone: str | None,
    loaded: LoadedPools,
    ways: int,
    rng: int,
    *,
    recipe: str = "paper",
) -> Any:
    """Return an untrained learner.

    Parameters
    ----------
    name : {"protonet", "maml"}
        The few-shot method.
    backbone : str or None
        Name of the network; None for one that suits the data.
    loaded : LoadedPools
        The data.
    ways : int
        Number of classes per task.
    rng : int
        Seed of the weights.
    recipe : {"paper", "strong"}, default "paper"
        How it will be trained; the strong recipe needs a ProtoNet on a sphere.

    Returns
    -------
    ProtoNet or MAML
        The learner.
    """
    from metapac.learners import MAML, ProtoNet, Sphere

    check_one_of("learner", name, ("protonet", "maml"))
    pool: ClassPool | GroupPool = loaded.pools.train
    network = _build_backbone(backbone, pool.x, loaded, rng)
    if name == "protonet":
        return ProtoNet(Sphere(network) if recipe == "strong" else network)
    if recipe == "strong":
        raise InvalidInput(
            "{} trains a protonet, got {}. Leave one of them out.",
            Parameter("recipe", "strong"),
            Parameter("learner", name),
        )
    return MAML(network, ways if isinstance(pool, ClassPool) else pool.classes)


def weights_checksum(learner: Any) -> str:
    """Return the SHA-256 of the weights of a learner, whatever file they are stored in.

    Parameters
    ----------
    learner : Trainable
        The learner.

    Returns
    -------
    str
        The checksum.
    """
    state = dict(sorted(learner.module.state_dict().items()))
    arrays = [tensor.detach().cpu().numpy() for tensor in state.values()]
    return _document.data_checksum(np.array([*state], dtype=str), *arrays)


def _build_backbone(name: str | None, x: Array, loaded: LoadedPools, rng: int) -> Any:
    """Return a backbone for examples like ``x``."""
    from metapac.learners.networks.registry import build_backbone

    if loaded.words is not None:
        check_one_of("backbone", name or "sentence_cnn", ("sentence_cnn",))
        return build_backbone("sentence_cnn", words=loaded.words, rng=rng)
    name = name or ("mlp" if x.ndim == 2 else "conv4")
    check_one_of("backbone", name, ("conv4", "resnet12", "resnet50", "mlp"))
    if name == "mlp":
        return build_backbone("mlp", inputs=int(np.prod(x.shape[1:])), rng=rng)
    if x.ndim not in (3, 4):
        raise InvalidInput(
            f"--backbone {name} takes images, x of 3 or 4 dimensions, got shape {x.shape}. "
            "Pass --backbone mlp."
        )
    return build_backbone(name, **_image_options(name, x, loaded.is_imagenet), rng=rng)


def _image_options(name: str, x: Array, imagenet: bool) -> dict[str, Any]:
    """Return the shape of images, and the mean and standard deviation of their channels."""
    from metapac.learners.networks.backbones import IMAGENET_MEAN, IMAGENET_STD

    sample = x[:: max(1, len(x) // 1000)] / (255 if x.dtype == np.uint8 else 1)
    images = sample[..., None] if x.ndim == 3 else sample
    if x.ndim == 4 and x.shape[3] not in (1, 3):
        images = np.moveaxis(images, 1, 3)  # (n, h, w, channels)
    size = {"size": images.shape[1]} if name == "conv4" else {}
    options = {"channels": images.shape[3], **size}
    if imagenet:
        return options | {"mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    mean, std = images.mean((0, 1, 2)), images.std((0, 1, 2))
    return options | {"mean": mean.tolist(), "std": np.where(std > 0, std, 1.0).tolist()}
