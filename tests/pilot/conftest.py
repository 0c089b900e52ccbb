"""An exploration that the tests look at."""

from __future__ import annotations

import math

import pytest

from metapac import Exploration
from metapac.exploration import Cell, Estimate


@pytest.fixture
def pilot() -> Exploration:
    """Two pilot tasks, two classes, one of them without examples, and four cells."""
    half, nothing = Estimate(0.5, 0.4, 0.6), Estimate(math.nan, math.nan, math.nan)
    missed = {"no": half, "yes": nothing}
    cells = tuple(
        Cell(epsilon, 0.1, per_class, 29, thresholds, half, half, half, missed)
        for per_class, thresholds in ((False, (0.2,)), (True, (-math.inf, 0.3)))
        for epsilon in (0.05, 0.1)
    )
    columns = {"task": "site"}
    shares = {"no": 0.9, "yes": 0.1}
    return Exploration(("utah", "ohio"), 40, 0.05, shares, cells, columns, 0.05, 7)
