"""The configuration of a training run, and the record of its epochs."""

from __future__ import annotations

from typing import Any

import pytest

from metapac.fewshot.training.history import Epoch, History, TrainingConfig

CONFIG: dict[str, Any] = {
    **dict.fromkeys(TrainingConfig.__dataclass_fields__, 1),
    "class_weights": None,
}


def history(*accuracies: float) -> History:
    epochs = enumerate(accuracies, start=1)
    return History(tuple(Epoch(i, 1.0, accuracy, 0.1, 1.0) for i, accuracy in epochs))


def test_the_learning_rate_is_halved_regularly() -> None:
    config = TrainingConfig(**{**CONFIG, "lr": 0.4, "halve_every": 3})
    rates = [config.lr_at(epoch) for epoch in range(1, 8)]
    assert rates == [0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1]


def test_no_two_draws_of_a_run_share_a_seed() -> None:
    seeds = []
    for rng in (0, 1):
        config = TrainingConfig(**{**CONFIG, "rng": rng})
        seeds.append(config.validation_seed())
        for epoch in range(1, 30):
            seeds.append(config.episodes_seed(epoch))
            seeds.extend(config.dropout_seed(epoch, rank) for rank in range(3))
    assert len(set(seeds)) == len(seeds) == 2 * (1 + 29 * 4)


def test_an_epoch_has_whole_steps() -> None:
    steps = {
        episodes: TrainingConfig(
            **{**CONFIG, "episodes_per_epoch": episodes, "episodes_per_step": 4}
        ).steps
        for episodes in (1, 4, 5, 8)
    }
    assert steps == {1: 1, 4: 1, 5: 2, 8: 2}


def test_an_empty_history_has_no_best_epoch() -> None:
    with pytest.raises(ValueError, match=r"history is empty"):
        _ = History().best


def test_ties_go_to_the_earlier_epoch() -> None:
    assert history(0.5, 0.9, 0.9).best.epoch == 2


def test_a_history_grows_by_copies() -> None:
    short = history(0.5)
    longer = short.append(Epoch(2, 1.0, 0.6, 0.1, 1.0))
    assert (len(short.epochs), len(longer.epochs)) == (1, 2)


def test_a_history_stalls_after_epochs_without_improvement() -> None:
    assert not History().has_stalled(1)
    assert not history(0.5, 0.4, 0.4).has_stalled(None)
    assert not history(0.5, 0.4).has_stalled(2)
    assert history(0.5, 0.4, 0.5).has_stalled(2)
