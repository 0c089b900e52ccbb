"""Type aliases shared by all modules."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Counts = NDArray[np.int64]
PathLike = str | os.PathLike[str]
Seed = int | np.random.Generator | None
Table = Any  # an Ibis table; Ibis ships no types

# Called as progress(stage, done, total); total is None where it is not known.
Progress = Callable[[str, int, int | None], None]


def ignore_progress(stage: str, done: int, total: int | None) -> None:
    """Do nothing: the progress callback if none was passed."""
