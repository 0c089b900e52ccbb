"""The learner of an experiment and its metrics."""

from __future__ import annotations

import numpy as np
import pytest

from metapac.reproduce import learner as learning


def test_area_under_the_curve() -> None:
    scores, labels = np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1])
    assert learning._auroc(scores, labels) == pytest.approx((1 + 1 + 1 + 0.5) / 4)
    assert learning._auroc(-scores, labels) == pytest.approx(0.5 / 4)
    assert np.isnan(learning._auroc(scores, np.zeros(4, int)))
