"""An example of each backbone, with input for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac.fewshot import MLP, Conv4, ResNet12, ResNet50, SentenceCNN
from metapac.fewshot.learners.networks import Backbone

WORDS = np.random.default_rng(0).normal(size=(11, 4)).astype(np.float16)


def sentences(rng: np.random.Generator, count: int, tokens: int) -> NDArray[np.int64]:
    """Sentences of unequal lengths, padded at the end with word 0."""
    x = rng.integers(-tokens, tokens, size=(count, tokens, 3))
    x[..., 0] = rng.integers(1, len(WORDS), size=(count, tokens))
    for sentence in x[1:]:
        sentence[rng.integers(1, tokens + 1) :, 0] = 0
    return x


def small_sentence_cnn(**options: Any) -> SentenceCNN:
    return SentenceCNN(WORDS, **{"tokens": 6, "maps": 7, "rng": 0, **options})


def images(size: int, channels: int = 3, count: int = 5) -> NDArray[np.uint8]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (count, size, size, channels), dtype=np.uint8)


EXAMPLES: dict[str, tuple[Callable[[], Backbone], Any]] = {
    "Conv4": (lambda: Conv4(1, 28, rng=0), images(28, 1)),
    "ResNet12": (lambda: ResNet12(rng=0), images(16)),
    "ResNet50": (lambda: ResNet50(rng=0), images(16)),
    "MLP": (lambda: MLP(6, rng=0), np.random.default_rng(2).normal(size=(5, 6))),
    "SentenceCNN": (small_sentence_cnn, sentences(np.random.default_rng(3), 5, 6)),
}


def count_weights(backbone: Backbone) -> int:
    return sum(weight.numel() for weight in backbone.parameters())
