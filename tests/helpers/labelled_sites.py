"""Labelled examples of new sites, and a guarantee to compare with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from metapac import MetaPS, evaluate
from metapac.evaluation import Evaluation

CLASSES = ["cat", "dog", "owl"]


def calibrate(**changes: Any) -> MetaPS:
    rng = np.random.default_rng(0)
    options: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3} | changes
    names = np.repeat([f"known {i}" for i in range(12)], 90)
    labels = np.tile(CLASSES, 360) if options.get("per_class") else None
    return MetaPS(**options).calibrate(rng.random(1080), names, labels)


def get_scores(frame: pd.DataFrame) -> Any:
    return frame[[f"p_{name}" for name in CLASSES]].to_numpy()


def get_true_scores(frame: pd.DataFrame) -> Any:
    return get_scores(frame)[np.arange(len(frame)), [CLASSES.index(y) for y in frame.y]]


def run(promise: Any, frame: pd.DataFrame, **options: Any) -> Evaluation:
    return evaluate(promise, get_scores(frame), frame.site, frame.y, classes=CLASSES, **options)
