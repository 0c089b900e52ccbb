"""The learner built for the given data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import InvalidInput
from metapac.fewshot import MAML, MLP, Conv4, ProtoNet, ResNet12, SentenceCNN
from metapac.fewshot.datasets.pools import LoadedPools
from metapac.fewshot.options import Training
from metapac.fewshot.pools import ClassPool, GroupPool, Pools
from metapac.fewshot.training.runs import build_learner

LABELS = np.repeat(["a", "b"], 4)


def loaded(x: Any, **more: Any) -> LoadedPools:
    return LoadedPools(Pools(train=ClassPool(x, LABELS)), "sha256:none", **more)


def images(*shape: int) -> Any:
    return np.random.default_rng(0).integers(256, size=(8, *shape), dtype=np.uint8)


@pytest.mark.parametrize(
    ("shape", "backbone", "kind", "channels"),
    [
        ((16, 16), None, Conv4, 1),
        ((16, 16, 3), None, Conv4, 3),
        ((3, 16, 16), None, Conv4, 3),
        ((16, 16, 3), "resnet12", ResNet12, 3),
        ((8, 8, 3), "mlp", MLP, None),
        ((4,), None, MLP, None),
    ],
)
def test_the_backbone_suits_the_data(
    shape: tuple[int, ...], backbone: str | None, kind: type, channels: int | None
) -> None:
    learner = build_learner(loaded(images(*shape)), Training(backbone=backbone), 2, 0)
    assert isinstance(learner, ProtoNet)
    described: Any = learner.module.describe()  # type: ignore[operator]
    assert described["class"] == kind.__name__
    assert described.get("channels") == channels


def test_pixels_are_normalised_by_the_data_or_as_for_imagenet() -> None:
    x = images(16, 16, 3)
    mean = build_learner(loaded(x), Training(), 2, 0).module.describe()["mean"]
    assert mean == pytest.approx((x / 255).mean((0, 1, 2)).tolist())
    known = loaded(x, is_imagenet=True)
    assert build_learner(known, Training(), 2, 0).module.describe()["mean"][0] == 0.485


def test_maml_has_an_output_for_each_class_of_a_task() -> None:
    assert build_learner(loaded(images(4)), Training(learner="maml"), 5, 0).classes == 5
    groups = GroupPool(images(4), [0, 1] * 4, ["x", "y"] * 4)
    learner = build_learner(
        LoadedPools(Pools(train=groups), "sha256:none"),
        Training(learner="maml"),
        5,
        0,
    )
    assert isinstance(learner, MAML)
    assert learner.classes == 2


def test_sentences_have_their_own_backbone() -> None:
    sentences = loaded(np.zeros((8, 128, 3), np.int32), words=np.zeros((5, 4), np.float32))
    assert isinstance(
        build_learner(sentences, Training(), 2, 0).module,
        SentenceCNN,
    )
    with pytest.raises(InvalidInput, match="backbone must be 'sentence_cnn', got 'mlp'"):
        build_learner(sentences, Training(backbone="mlp"), 2, 0)


def test_bad_names() -> None:
    rows = loaded(images(4))
    with pytest.raises(InvalidInput, match="learner must be 'protonet' or 'maml', got 'knn'"):
        build_learner(rows, Training(learner="knn"), 2, 0)
    with pytest.raises(InvalidInput, match="backbone must be 'conv4' or .*, got 'vgg'"):
        build_learner(rows, Training(backbone="vgg"), 2, 0)
    with pytest.raises(InvalidInput, match="backbone='conv4' takes images, x of 3 or 4 dimensions"):
        build_learner(rows, Training(backbone="conv4"), 2, 0)
