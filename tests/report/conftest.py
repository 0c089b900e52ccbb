"""A guarantee for hospitals with awkward names, and the scores that reports are made from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import Context, MetaPS, Scored
from metapac._common import Array, ignore_progress
from metapac.grouping import Data
from metapac.report.levels import Trial, try_epsilons

CLASSES = ("cat", "dog", "</script><b>owl")
ODD = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "evil \u202e </script> \u200b",
    "x" * 300,
    "\U0001f3e5 \u05e9\u05dc\u05d5\u05dd \u0639\u0631\u0628\u064a",
    "a\"b'c&amp;{{ 7 * 7 }}{% raw %}",
)
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.2, "delta": 0.1}


def draw_scores(names: list[str], rng: int, *, examples: int = 50) -> Scored:
    """Return scores of three classes, whose true class tends to have the highest one."""
    generator = np.random.default_rng(rng)
    rows = len(names) * examples
    label = generator.integers(3, size=rows)
    logits = generator.normal(size=(rows, 3))
    shift = np.repeat(generator.normal(1.5, 0.5, size=len(names)), examples)
    logits[np.arange(rows), label] += shift
    scores: Array = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    tasks = np.repeat(np.array(names, dtype=object), examples)
    return Scored(scores, tasks, np.array(CLASSES, dtype=object)[label], CLASSES)


def calibrate(calibration: Scored, **changes: Any) -> MetaPS:
    about = Context(
        model="triage <3.1>",
        trained_on=["north"],
        pilot=["pilot"],
        unit="hospital",
        example="patient",
    )
    return MetaPS(**LEVELS | changes).calibrate(
        calibration.scores,
        calibration.tasks,
        calibration.labels,
        classes=CLASSES,
        context=about,
    )


def attempt(promise: MetaPS, calibration: Data, labelled: Data | None) -> list[Trial]:
    """Return the guarantee at three other miss rates; there are too few data for the first."""
    return try_epsilons(
        promise,
        calibration,
        labelled,
        [0.001, 0.1, 0.3],
        false_alarm=0.05,
        allow=(),
        progress=ignore_progress,
    )


@pytest.fixture(scope="session")
def calibration() -> Scored:
    return draw_scores([f"old {i}" for i in range(40)], 0)


@pytest.fixture(scope="session")
def labelled() -> Scored:
    return draw_scores([*ODD, *(f"new {i}" for i in range(14))], 1)


@pytest.fixture(scope="session")
def promise(calibration: Scored) -> MetaPS:
    return calibrate(calibration)


@pytest.fixture(scope="session")
def per_class(calibration: Scored) -> MetaPS:
    return calibrate(calibration, per_class=True, alpha=0.3)
