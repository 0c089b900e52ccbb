"""The demonstration on drawn characters, with a small learner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metapac.fewshot import run_study
from metapac.fewshot.learners import accuracy as task_accuracy
from metapac.fewshot.learners.accuracy import accuracy
from metapac.fewshot.reproduce import demos


@pytest.fixture(scope="module")
def small() -> demos.GlyphDemo:
    """The demonstration with few characters, few epochs and few tasks."""
    training = replace(demos.TRAINING, epochs=2, episodes_per_epoch=20)
    experiment = replace(demos.EXPERIMENT, training=training, calibration_tasks=115, test_tasks=4)
    few = dict.fromkeys(demos.CHARACTERS, 12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demos, "TRAINING", training)
        patch.setattr(demos, "EXPERIMENT", experiment)
        patch.setattr(demos, "CHARACTERS", few)
        # 10 tasks of 250 labels tell 0.4 from the chance of 0.2 as surely as 100 tasks do.
        patch.setattr(
            task_accuracy,
            "accuracy",
            lambda *pools, **shape: accuracy(*pools, **{**shape, "tasks": 10}),
        )
        return demos.prepare_glyphs(rng=0)


def test_the_learner_beats_chance_on_unseen_characters(small: demos.GlyphDemo) -> None:
    assert small.accuracy > 0.3  # chance is 0.2, and 12 standard errors below
    assert not set(small.pools.train.names) & set(small.pools.test.names)


def test_every_method_is_evaluated_on_the_same_tasks(small: demos.GlyphDemo) -> None:
    rows = run_study(small.study, guarantee=demos.GUARANTEE, methods=demos.METHODS, draws=1)
    assert [name for name, _ in rows.methods()] == [method.name for method in demos.METHODS]
    assert len(rows) == 4 * len(demos.METHODS)
    assert not rows.select("PS-Test").feasible.any()  # 100 labels, and 110 are needed
    assert (rows.select("PS-Test").size == 5).all()


def test_pictures_and_table_are_written(small: demos.GlyphDemo, tmp_path: Path) -> None:
    demos.draw_sets(small, 0, tmp_path / "sets.png")
    rows = run_study(small.study, guarantee=demos.GUARANTEE, methods=demos.METHODS, draws=1)
    table, picture = demos.write_results(rows, tmp_path / "new", "a title", rng=3)
    for path in (tmp_path / "sets.png", picture):
        assert path.read_bytes().startswith(b"\x89PNG")
    header, *lines = table.read_text().splitlines()
    assert header == "draw,method,task,threshold,error,size,rng,metapac"
    assert len(lines) == len(rows)
    sizes = np.array([float(line.split(",")[5]) for line in lines])
    np.testing.assert_array_equal(sizes, rows.size)
