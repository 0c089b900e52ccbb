"""The data of the experiments."""

from __future__ import annotations

import pytest

from metapac.fewshot.reproduce.experiments import EXPERIMENTS
from metapac.fewshot.reproduce.run import load


def test_every_experiment_has_a_loader() -> None:
    for experiment in EXPERIMENTS.values():
        if experiment.data != "glyphs":
            with pytest.raises(FileNotFoundError, match=f"metapac data prepare {experiment.data}"):
                load(experiment, home="/nowhere")
