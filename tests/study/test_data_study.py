"""Studies of your own data: vectors, groups, data to train on, and runs; sizes of a draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from metapac import Guarantee
from metapac._common import ignore_progress
from metapac.fewshot import PrototypeLearner
from metapac.fewshot.options import Embeddings, Run, StudyTasks, Training
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.study.data_study import DrawSizes, _build_study, _open_source
from metapac.fewshot.study.pool_study import PoolStudy
from metapac.fewshot.training.runs import train_run
from tests.helpers.refusals import assert_refused

TASKS = StudyTasks(ways=3, shots=3, tasks=6, tests=4)
LEVELS = Guarantee(epsilon=0.2, alpha=0.3, delta=0.1)
RNG = np.random.default_rng(0)


def vectors(path: Path, **more: Any) -> str:
    rng, y = np.random.default_rng(0), np.repeat(np.arange(25), 16)
    x = 2 * rng.normal(size=(25, 5))[y] + rng.normal(size=(400, 5))
    np.savez(path / "data.npz", **{"x": x.astype(np.float32), "y": y, **more})
    return str(path / "data.npz")


def opened(data: str, folder: Path, tasks: StudyTasks = TASKS, **training: Any) -> tuple[Any, Any]:
    """Return a source, and a function that makes the study of a seed."""
    parts = Training(**training), Embeddings(), Run(device="cpu"), ignore_progress
    source = _open_source(data, folder, tasks, *parts)
    return source, lambda seed: _build_study(*source.open(seed), tasks, 0.1)


def test_each_seed_divides_vectors_anew(tmp_path: Path) -> None:
    data = vectors(tmp_path)
    for learner in (None, "prototypes", "ridge", "logistic"):
        source, make_study = opened(data, tmp_path, learner=learner)
        assert source.learner.startswith(f"{learner or 'prototypes'} (")
        assert source.can_vary
        one, two = make_study(0), make_study(1)
        assert len(one.calibration.names) == len(one.test.names) == 10
        assert not {*one.calibration.names} & {*one.test.names}
        assert one.test.names != two.test.names
    _, make_study = opened(vectors(tmp_path, y=np.arange(400) % 2), tmp_path)
    assert_refused("2 classes", make_study, 0)


def test_a_learner_is_trained_for_each_seed_and_resumes(tmp_path: Path) -> None:
    options: dict[str, Any] = {"learner": "protonet", "epochs": 1, "episodes": 8}
    keep = np.r_[0, 16:400]  # class 0 has one example, and is left out
    with np.load(vectors(tmp_path)) as stored:
        x, y = stored["x"][keep], stored["y"][keep]
    np.savez(tmp_path / "data.npz", x=x, y=y)
    source, make_study = opened(str(tmp_path / "data.npz"), tmp_path / "study", **options)
    assert (source.learner, source.can_vary) == ("protonet", True)
    studies = [make_study(seed) for seed in (0, 1, 0)]
    weights = [study.describe()["learner"]["weights"] for study in studies]
    assert weights[0] == weights[2] != weights[1]
    assert (tmp_path / "study" / "seed-1" / "training").is_dir()
    assert 0 not in {*studies[0].calibration.names, *studies[0].test.names}
    assert studies[0].notes[-1].startswith("left out 1 class with fewer than 8 examples")


def test_a_run_is_judged_as_it_is(tmp_path: Path) -> None:
    data, run = vectors(tmp_path), tmp_path / "run"
    train_run(data, run, Training(epochs=1, episodes=8, tasks=8), ways=3, device="cpu")
    source, make_study = opened(str(run), tmp_path / "study")
    assert (source.learner, source.can_vary) == ("ProtoNet", False)
    assert len(make_study(0).sample(RNG)[1]) == 4
    assert_refused("backbone", opened, str(run), tmp_path / "study", backbone="mlp")


def test_sizes_of_a_draw_are_as_said() -> None:
    pools = [ClassPool(RNG.random((80, 3)), np.repeat(np.arange(i, i + 8), 10)) for i in (0, 8)]
    members = np.repeat(np.arange(8), [10, 12, 14, 20, 10, 12, 14, 20])
    sites = GroupPool(RNG.random((112, 3)), np.arange(112) % 2, members)
    for queries in (None, 4):
        shape: dict[str, Any] = {"shots": 2, "queries": queries, "tasks": 6, "tests": 2}
        study = PoolStudy(PrototypeLearner(), *pools, **shape, ways=3)
        said, draw = DrawSizes.measure(study, StudyTasks(**shape, ways=3)), study.draw(RNG)
        sizes = np.bincount(draw.tasks).tolist()
        assert sizes == [3 * (queries or 8)] * 6
        labelled = len(draw.tests[0].labelled_scores)
        assert said == DrawSizes(6, 2, (sizes[0], sizes[0]), labelled, 3)
        study = PoolStudy(PrototypeLearner(), sites, sites, **shape, distinct=True)
        said, draw = DrawSizes.measure(study, StudyTasks(**shape)), study.draw(RNG)
        sizes, labelled = np.bincount(draw.tasks).tolist(), len(draw.tests[0].labelled_scores)
        assert said == DrawSizes(6, 2, (queries or 8, queries or 18), labelled, 2)
        assert said.examples[0] <= min(sizes) <= max(sizes) <= said.examples[1]
