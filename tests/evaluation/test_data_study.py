"""Studies of your own data: vectors, groups, data to train on, and runs; sizes of a draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from metapac import Guarantee
from metapac._common import ignore_progress
from metapac.fewshot import PrototypeLearner, class_reuse
from metapac.fewshot.options import Embeddings, Run, StudyTasks, Training
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.study.data_study import DrawSizes, _build_study, _open_source, study_data
from metapac.fewshot.study.pool_study import PoolStudy
from metapac.fewshot.training.runs import train_run

TASKS = StudyTasks(ways=3, shots=3, tasks=6, tests=4)
LEVELS = Guarantee(epsilon=0.2, alpha=0.3, delta=0.1)
SIZES = DrawSizes(calibration_tasks=6, new_tasks=1, examples=(9, 12), labelled=1, labels=2)
RNG = np.random.default_rng(0)


def vectors(path: Path, **more: Any) -> str:
    rng, y = np.random.default_rng(0), np.repeat(np.arange(25), 16)
    x = 2 * rng.normal(size=(25, 5))[y] + rng.normal(size=(400, 5))
    np.savez(path / "data.npz", **{"x": x.astype(np.float32), "y": y, **more})
    return str(path / "data.npz")


class Opened(NamedTuple):
    """A source, and the studies that it makes."""

    learner: str
    can_vary: bool
    make_study: Callable[[int], PoolStudy]


def opened(data: str, folder: Path, tasks: StudyTasks = TASKS, **options: Any) -> Opened:
    names = [field.name for field in fields(Embeddings) if field.name != "learner"]
    vectors = Embeddings(**{name: options.pop(name) for name in names if name in options})
    run = Run(device=options.pop("device", None))
    training = Training(**options)
    source = _open_source(data, folder, tasks, training, vectors, run, ignore_progress)

    def make_study(seed: int) -> PoolStudy:
        return _build_study(*source.open(seed), tasks, 0.1)

    return Opened(source.learner, source.can_vary, make_study)


@pytest.mark.parametrize("learner", [None, "prototypes", "ridge", "logistic"])
def test_each_seed_divides_vectors_anew(tmp_path: Path, learner: str | None) -> None:
    source = opened(vectors(tmp_path), tmp_path, learner=learner)
    assert source.learner.startswith(f"{learner or 'prototypes'} (")
    assert source.can_vary
    one, two = source.make_study(0), source.make_study(1)
    assert len(one.calibration.names) == len(one.test.names) == 10
    assert not set(one.calibration.names) & set(one.test.names)
    assert one.test.names != two.test.names
    (note,) = one.notes
    assert note.startswith("6 tasks from 10 classes: a class is in 1.8 tasks on average, and two")
    assert len(one.sample(np.random.default_rng(0))[0]) == 6


def test_groups_are_used_once_in_a_draw(tmp_path: Path) -> None:
    names = np.repeat([f"site {i}" for i in range(20)], 20)
    data = vectors(tmp_path, y=np.array(["no", "yes"] * 200), groups=names)
    study = opened(data, tmp_path, StudyTasks(shots=4)).make_study(0)
    tasks, tests = study.sample(np.random.default_rng(0))
    drawn = [task.name for task in (*tasks, *tests)]
    assert (len(tasks), len(tests), len(set(drawn))) == (8, 8, 16)
    assert study.distinct
    assert study.calibration.classes == 2


def test_a_learner_is_trained_for_each_seed_and_resumes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    options: dict[str, Any] = {
        "learner": "protonet", "epochs": 1, "episodes": 8, "device": "cpu",
    }  # fmt: skip
    source = opened(vectors(tmp_path), tmp_path / "study", **options)
    assert (source.learner, source.can_vary) == ("protonet", True)
    studies = [source.make_study(seed) for seed in (0, 1, 0)]
    weights = [study.describe()["learner"]["weights"] for study in studies]
    assert weights[0] == weights[2] != weights[1]
    assert (tmp_path / "study" / "seed-1" / "training").is_dir()


def test_the_strong_recipe_is_that_of_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from metapac.fewshot.training import runs

    calls: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr(
        runs, "train_strong", lambda learner, *_, **options: calls.append((learner, options))
    )
    rng, y = np.random.default_rng(0), np.repeat(np.arange(25), 16)
    images = rng.random((400, 28, 28)).astype(np.float32)
    np.savez(tmp_path / "images.npz", x=images, y=y)
    options: dict[str, Any] = {"recipe": "strong", "epochs": 2, "device": "cpu"}
    opened(str(tmp_path / "images.npz"), tmp_path, **options).make_study(0)
    ((learner, given),) = calls
    assert type(learner.module).__name__ == "Sphere"
    assert (given["recipe"].epochs, given["ways"], given["shots"]) == (2, 3, 3)
    with pytest.raises(ValueError, match="episodes does not apply to recipe='strong'"):
        opened(str(tmp_path / "images.npz"), tmp_path, **options, episodes=8).make_study(0)


def test_a_run_is_judged_as_it_is(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    data, run = vectors(tmp_path), tmp_path / "run"
    train_run(data, run, Training(epochs=1, episodes=8, tasks=8), ways=3, device="cpu")
    source = opened(str(run), tmp_path / "study")
    assert (source.learner, source.can_vary) == ("ProtoNet", False)
    study = source.make_study(0)
    assert len(study.sample(np.random.default_rng(0))[1]) == 4
    with pytest.raises(ValueError, match="seeds must be 1 for"):
        study_data(str(run), tmp_path / "study", guarantee=LEVELS, seeds=2, tasks=TASKS)
    with pytest.raises(ValueError, match="backbone does not apply to a training run"):
        opened(str(run), tmp_path / "study", backbone="mlp")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learner": "ridge"}, "takes vectors, and glyphs does not hold vectors. Pass learner='pr"),
        ({"labels": "y.npy"}, "labels does not apply to a learner that is trained. Leave it out"),
        ({"penalty": 2.0}, "penalty does not apply to a learner that is trained. Leave it out"),
    ],
)
def test_options_of_vectors_are_refused_elsewhere(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        opened("glyphs", tmp_path, **options)


def test_tasks_that_need_not_share_a_class_get_no_note(tmp_path: Path) -> None:
    few = StudyTasks(ways=3, shots=3, tasks=3, tests=4)  # 9 of 10 classes, if they are distinct
    assert opened(vectors(tmp_path), tmp_path, few).make_study(0).notes == ()


def test_the_counts_of_the_note_are_those_of_a_draw_on_average(tmp_path: Path) -> None:
    study = opened(vectors(tmp_path), tmp_path, StudyTasks(ways=3, shots=3, tasks=500)).make_study(
        0
    )
    reuse = class_reuse(study.sample(np.random.default_rng(0))[0])
    assert reuse.per_class == 150
    # Two tasks share 3 * 3 / 10 classes on average.
    assert reuse.shared == pytest.approx(0.9, abs=0.05)
    assert (
        "500 tasks from 10 classes: a class is in 150 tasks on average, and two tasks share 0.9 "
        in study.notes[0]
    )


def test_small_classes_are_left_out_of_a_training(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    keep = np.r_[0, 16:400]  # class 0 has one example
    with np.load(vectors(tmp_path)) as stored:
        x, y = stored["x"][keep], stored["y"][keep]
    np.savez(tmp_path / "data.npz", x=x, y=y)
    options: dict[str, Any] = {"learner": "protonet", "epochs": 1, "episodes": 8}
    source = opened(str(tmp_path / "data.npz"), tmp_path, **options, device="cpu")
    study = source.make_study(0)
    assert 0 not in {*study.calibration.names, *study.test.names}
    assert study.notes[-1].startswith(
        "left out 1 class with fewer than 8 examples, the 3 shots + 5"
    )


def test_two_classes_are_too_few(tmp_path: Path) -> None:
    data = vectors(tmp_path, y=np.arange(400) % 2)
    with pytest.raises(ValueError, match="the data have 2 classes or groups; a study needs at lea"):
        opened(data, tmp_path).make_study(0)


def measured(study: PoolStudy, tasks: StudyTasks) -> tuple[DrawSizes, list[int], int]:
    """What is said of a draw, and what one has: sizes of calibration tasks, labelled examples."""
    draw = study.draw(np.random.default_rng(0))
    sizes = np.bincount(draw.tasks).tolist()
    return DrawSizes.measure(study, tasks), sizes, len(draw.tests[0].labelled_scores)


@pytest.mark.parametrize("queries", [None, 4])
def test_sizes_of_tasks_of_classes(queries: int | None) -> None:
    pools = [ClassPool(RNG.random((80, 3)), np.repeat(np.arange(i, i + 8), 10)) for i in (0, 8)]
    shape: dict[str, Any] = {"ways": 3, "shots": 2, "queries": queries, "tasks": 7, "tests": 5}
    study = PoolStudy(PrototypeLearner(), *pools, **shape)
    said, sizes, labelled = measured(study, StudyTasks(**shape))
    assert said == DrawSizes(7, 5, (sizes[0], sizes[0]), labelled, 3)
    assert sizes == [3 * (queries or 8)] * 7


@pytest.mark.parametrize("queries", [None, 4])
def test_sizes_of_tasks_of_groups(queries: int | None) -> None:
    groups = np.repeat(np.arange(8), [10, 12, 14, 20, 10, 12, 14, 20])
    pool = GroupPool(RNG.random((112, 3)), np.arange(112) % 2, groups)
    shape: dict[str, Any] = {"shots": 2, "queries": queries, "tasks": 6, "tests": 2}
    study = PoolStudy(PrototypeLearner(), pool, pool, **shape, distinct=True)
    said, sizes, labelled = measured(study, StudyTasks(**shape))
    assert said == DrawSizes(6, 2, (queries or 8, queries or 18), labelled, 2)
    assert said.examples[0] <= min(sizes) <= max(sizes) <= said.examples[1]


def test_sizes_hold_for_all_seeds_and_are_said_in_words() -> None:
    other = replace(SIZES, examples=(7, 8), labels=3)
    assert DrawSizes.join([SIZES, other]) == replace(SIZES, examples=(7, 12), labels=3)
    assert DrawSizes.join([SIZES]) == SIZES
    assert str(SIZES) == (
        "A draw has 6 calibration tasks of 9 to 12 examples, and 1 new task, with 1 labelled "
        "example each for PS-Test. A set can have up to 2 labels."
    )
    assert " of 12 examples, " in str(replace(SIZES, examples=(12, 12)))
