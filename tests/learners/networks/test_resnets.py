"""The residual networks have the widths and the weights of the literature."""

from __future__ import annotations

from metapac.fewshot import ProtoNet, ResNet12, ResNet50
from tests.helpers.backbones import count_weights, images


def test_resnet12_has_the_usual_widths_and_weights() -> None:
    backbone = ResNet12(rng=0)
    assert backbone.features == 640
    blocks, inputs = 0, 3
    for width in (64, 160, 320, 640):
        blocks += 9 * width * (inputs + 2 * width) + inputs * width + 4 * 2 * width
        inputs = width
    assert count_weights(backbone) == blocks == 12_424_320
    assert ProtoNet(backbone).embed(images(84, count=1)).shape == (1, 640)


def test_resnet50_keeps_32_pixels_to_the_first_stage() -> None:
    backbone = ResNet50(rng=0).eval()
    # torchvision's ResNet-50 without its last layer, with a 3x3 stem in place of the 7x7 one.
    assert count_weights(backbone) == 23_508_032 - 3 * 64 * (49 - 9)
    assert backbone.features == 2048
    shapes = []
    for stage in backbone.stages:
        stage.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape)))
    ProtoNet(backbone).embed(images(32, count=1))
    assert shapes == [(1, 256, 32, 32), (1, 512, 16, 16), (1, 1024, 8, 8), (1, 2048, 4, 4)]
