"""The surroundings of a transcript: one thread, its own data folder, and a small experiment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from threadpoolctl import threadpool_limits

from metapac.cli import console
from metapac.fewshot.reproduce import experiments, run
from metapac.fewshot.study import pool_study
from tests.helpers.experiments import CLASSES, class_pools

_SIZES = {"ACCURACY_TASKS": 10, "QUANTILE_TASKS": 8, "RANKED_TASKS": 20, "VALIDATION_TASKS": 4}


@contextmanager
def settled(folder: Path) -> Iterator[None]:
    """Make results the same on every machine, and the experiment ``glyphs`` one of a moment."""
    threads, load = torch.get_num_threads(), run.load

    def load_points(experiment: Any, home: Any) -> Any:
        return class_pools() if experiment.name == "glyphs" else load(experiment, home=home)

    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):
        torch.set_num_threads(1)
        patch.setenv("METAPAC_DATA", str(folder / "home"))
        patch.setenv("COLUMNS", "200")
        for terminal in (console.stdout, console.stderr):
            patch.setattr(terminal, "_width", 200)  # Rich read COLUMNS, 80 in workers, when made
        for name, size in _SIZES.items():
            patch.setattr(run, name, size)
        patch.setattr(run, "load", load_points)
        patch.setattr(experiments, "SMALL", (4,))
        patch.setattr(pool_study, "PREDICTOR_TASKS", 10)
        patch.setitem(experiments.EXPERIMENTS, "glyphs", replace(CLASSES, name="glyphs"))
        yield
    torch.set_num_threads(threads)
