"""The data to train on: what is too small for a task is left out, and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac.fewshot.training.runs import load_training_pools


def save(folder: Path, sizes: list[int], **more: Any) -> str:
    y = np.repeat(np.arange(len(sizes)), sizes)
    np.savez(folder / "data.npz", **{"x": np.zeros((len(y), 2)), "y": y, **more})
    return str(folder / "data.npz")


@pytest.mark.parametrize(("queries", "small"), [(2, {}), (3, {4: 3}), (4, {4: 3, 6: 4})])
def test_classes_with_fewer_examples_than_a_task_takes(
    tmp_path: Path, queries: int, small: dict[int, int]
) -> None:
    data = save(tmp_path, [9, 9, 9, 9, 3, 9, 4, 9])
    loaded, notes = load_training_pools(data, shots=1, queries=queries, rng=0)
    assert loaded.left_out == small
    assert bool(notes) == bool(small)
    pools = vars(loaded.pools).values()
    assert {name for pool in pools for name in pool.names} == {*range(8)} - small.keys()


def test_the_note_counts_and_names_them(tmp_path: Path) -> None:
    data = save(tmp_path, [9, 9, 9, 9, 3, 9, 4, 9])
    _, notes = load_training_pools(data, shots=2, queries=3, rng=0)
    assert notes == (
        "left out 2 classes with fewer than 5 examples, the 2 shots + 3 queries of a training "
        "task: 4 with 3, 6 with 4.",
    )


def test_groups_that_are_too_small(tmp_path: Path) -> None:
    sizes = [9, 9, 9, 2, 9]
    y = np.arange(sum(sizes)) % 2
    y[28] = 2  # a label that occurs in the small group alone
    data = save(tmp_path, sizes, y=y, groups=np.repeat([*"abcde"], sizes))
    loaded, notes = load_training_pools(data, shots=2, queries=1, rng=0)
    assert loaded.left_out == {"d": 2}
    assert notes[0].startswith("left out 1 group with fewer than 3 examples, the 2 shots + 1 ")


def test_the_surveys_of_heart_keep_all_state_years(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def load(data: str, **options: Any) -> Any:
        asked.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("metapac.fewshot.training.runs.load_pools", load)
    with pytest.raises(KeyboardInterrupt):
        load_training_pools("heart", shots=5, queries=5)
    assert asked == {"min_size": None}
