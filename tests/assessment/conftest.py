"""Labelled examples of four sites, one of which was calibrated on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.helpers.labelled_sites import CLASSES


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    label = rng.integers(3, size=400)
    columns = {f"p_{name}": rng.random(400) for name in CLASSES}
    sites = np.array(["a", "b", "known 3", "d"])[rng.integers(4, size=400)]
    return pd.DataFrame({"site": sites, "y": np.array(CLASSES)[label], **columns})
