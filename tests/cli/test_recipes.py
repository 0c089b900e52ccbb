"""Recipes of ``metapac train`` and ``metapac study``."""

from __future__ import annotations

from typing import Any

import pytest

from metapac import InvalidInput
from metapac.fewshot.cli.training import Fit, TrainingOptions, choose_recipe

torch = pytest.importorskip("torch")


def test_an_epoch_is_located_in_its_stage() -> None:
    fit = Fit(lambda: None, {"pre-training": 3, "tuning": 2}, {})  # type: ignore[arg-type, return-value]
    places = [fit.locate(epoch) for epoch in range(1, 6)]
    assert places == [
        ("pre-training", 1, 3), ("pre-training", 2, 3), ("pre-training", 3, 3),
        ("tuning", 1, 2), ("tuning", 2, 2),
    ]  # fmt: skip


def choose(**options: Any) -> Fit:
    from metapac.fewshot import MLP, ProtoNet, Sphere
    from metapac.fewshot.training import loop

    model = ProtoNet(Sphere(MLP(4, rng=0)))
    return choose_recipe(loop, TrainingOptions(**options), model)


def test_the_papers_recipe_has_its_settings() -> None:
    fit = choose(epochs=7)
    assert fit.stages == {"training": 7}
    assert (fit.options["epochs"], fit.options["episodes"], fit.options["lr"]) == (7, 400, 1e-3)
    assert fit.run.keywords["epochs"] == 7  # type: ignore[attr-defined]


def test_the_strong_recipe_has_two_stages() -> None:
    fit = choose(recipe="strong", epochs=3, tuning_steps=0)
    assert fit.stages["pre-training"] == 3
    assert list(fit.stages) == ["pre-training", "tuning"]
    assert fit.options["recipe"] == "strong"


def test_the_strong_recipe_runs_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidInput, match="recipe='strong' runs in one process"):
        choose(recipe="strong")
    assert choose().stages == {"training": 20}


def test_another_recipe_is_refused() -> None:
    with pytest.raises(InvalidInput, match="recipe must be 'paper' or 'strong'"):
        choose(recipe="weak")
