"""Experiments end to end: trained once, embedded once, resumed where they stopped, never mixed."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from metapac import BadArtefact, InvalidInput
from metapac.artefact import as_json
from metapac.fewshot import ProtoNet, Sphere, run_study, save_weights, summarise
from metapac.fewshot.datasets.pools import LoadedPools
from metapac.fewshot.pools import GroupPool
from metapac.fewshot.quantile_predictor import QuantilePredictor
from metapac.fewshot.reproduce import run
from metapac.fewshot.reproduce.experiments import Experiment, list_controls
from metapac.fewshot.scoring import read_stored
from metapac.fewshot.study.draws import ScoredTask
from metapac.fewshot.study.run import read_rows, read_settings
from metapac.fewshot.training.loop import Recipe
from tests.helpers import experiments as tiny
from tests.helpers.commands import metapac
from tests.helpers.experiments import CLASSES, GROUPS, STRONG, class_pools, group_pools
from tests.helpers.studies import GUARANTEE, SmallStudy, same_rows

DATA = class_pools()
FILES = ("learner.json", "model.safetensors")
BANK = replace(CLASSES, tasks_from="bank", bank=(14, 5))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Small data for the experiments of tests/helpers/experiments.py."""
    tiny.shrink(monkeypatch)
    pools = {"sites": group_pools(), "points": DATA}
    monkeypatch.setattr(run, "load", lambda experiment, home: pools[experiment.data])
    monkeypatch.setattr("metapac.fewshot.reproduce.experiments.SMALL", (4,))
    return monkeypatch


@pytest.fixture
def trained(small: pytest.MonkeyPatch) -> list[int]:
    """The seeds of the trainings that were run."""
    made: list[int] = []
    train = run.train_learner

    def counted(*parts: Any, **options: Any) -> Any:
        made.append(options["rng"])
        return train(*parts, **options)

    small.setattr(run, "train_learner", counted)
    return made


def start(
    folder: Path, e: Experiment = CLASSES, data: LoadedPools = DATA, rng: int = 0
) -> run.SeedRun:
    return run.SeedRun(e, data, folder, rng)


def train_and_evaluate(own: run.SeedRun, controls: bool = False) -> list[Any]:
    learner, e = own.train("cpu"), own.experiment
    parts = [run.as_control(e), *(list_controls(e) if controls else ())]
    return [own.evaluate(learner, part) for part in parts]


def same_weights(one: ProtoNet, other: ProtoNet) -> bool:
    pairs = zip(one.module.state_dict().values(), other.module.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


# The learner of a seed


@pytest.mark.parametrize("e", [CLASSES, STRONG], ids=["episodes", "strong"])
def test_a_learner_is_trained_once(tmp_path: Path, trained: list[int], e: Experiment) -> None:
    first = start(tmp_path, e, rng=3).train("cpu")
    before = content(tmp_path)
    shutil.rmtree(tmp_path / "training")  # what is stored needs no checkpoint
    # What the weights do not depend on trains nothing anew.
    other = replace(e, calibration_tasks=9, predictor="train", new_tasks="calibration", draws=1)
    for experiment in (e, other):
        assert same_weights(first, start(tmp_path, experiment, rng=3).train("cpu"))
    assert trained == [3]
    assert content(tmp_path) == before
    assert not same_weights(first, run.build_learner(e, DATA, 3))
    assert isinstance(first.module, Sphere) == (e is STRONG)
    known = run.read_learner(tmp_path)
    assert known["experiment"] == as_json("a", e.describe())
    assert known["training"] == as_json("a", e.describe_training())
    assert (known["data"], known["rng"]) == ("sha256:classes", 3)
    assert known["weights"] == run.weights_checksum(first)
    assert known["pools"]["test"] == [6, 180]
    history = (known["epochs"], known["best_epoch"], known["episodes"])
    assert history == ((1, 1, 4) if e.training else (3, 3, 8))
    assert 1 / 3 < known["accuracy"] <= 1
    recipe = known.get("recipe", {})
    assert recipe.get("tuning_steps") == (None if e.training else 4)


def with_training(**changes: Any) -> Experiment:
    return replace(CLASSES, training=replace(tiny.TINY, **changes))


OTHERS: dict[str, Callable[[Path], run.SeedRun]] = {
    "rng": lambda folder: start(folder, rng=1),
    "data": lambda folder: start(folder, data=replace(DATA, checksum="sha256:other")),
    "training.epochs": lambda folder: start(folder, with_training(epochs=2)),
    "training.lr": lambda folder: start(folder, with_training(lr=1e-2)),
    "shots": lambda folder: start(folder, replace(CLASSES, shots=2)),
    "recipe.epochs": lambda folder: start(folder, STRONG),
}


def test_another_training_is_refused(
    tmp_path: Path, small: pytest.MonkeyPatch, trained: list[int]
) -> None:
    start(tmp_path).train("cpu")
    shutil.rmtree(tmp_path / "training")
    before = content(tmp_path)
    for name, other in OTHERS.items():
        with pytest.raises(InvalidInput, match=f"holds a training with .*{re.escape(name)}="):
            other(tmp_path).train("cpu")
    assert trained == [0]
    assert content(tmp_path) == before
    for name in ("rng", "training.lr"):
        OTHERS[name](tmp_path / name).train("cpu")
        assert run.read_learner(tmp_path / name)["weights"] != run.read_learner(tmp_path)["weights"]
    start(tmp_path / "strong", STRONG).train("cpu")
    small.setattr(run, "recipe_for", lambda backbone: Recipe(epochs=2, batch=16, lr=0.05))
    with pytest.raises(InvalidInput, match=r"recipe\.lr=0\.1, but this one has recipe\.lr=0\.05"):
        start(tmp_path / "strong", STRONG).train("cpu")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def replace_by_other_weights(path: Path) -> None:
    save_weights(run.build_learner(CLASSES, DATA, 7), path)


@pytest.mark.parametrize("harm", [truncate, Path.unlink, replace_by_other_weights])
def test_a_damaged_file_is_made_again_from_the_checkpoint(
    tmp_path: Path, harm: Callable[[Path], None], trained: list[int]
) -> None:
    first = start(tmp_path).train("cpu")
    before = content(tmp_path)
    for count, name in enumerate(FILES, start=2):
        harm(tmp_path / name)
        assert same_weights(first, start(tmp_path).train("cpu"))
        assert content(tmp_path) == before  # seconds too: no epoch was trained again
        start(tmp_path).train("cpu")
        assert len(trained) == count


def test_the_learner_of_an_evaluation_is_not_lost(tmp_path: Path, trained: list[int]) -> None:
    train_and_evaluate(start(tmp_path))
    shutil.rmtree(tmp_path / "training")
    for name in FILES:
        (tmp_path / name).unlink()
    for name in ("data", "training.epochs"):
        with pytest.raises(InvalidInput, match=f"holds an evaluation with .*{name}="):
            OTHERS[name](tmp_path).train("cpu")
    assert trained == [0]
    with pytest.MonkeyPatch.context() as patch:  # as on another device, where weights differ
        train = run.train_learner
        patch.setattr(run, "train_learner", lambda *parts, rng, **o: train(*parts, rng=9, **o))
        with pytest.raises(InvalidInput, match="holds an evaluation with weights='sha256:"):
            start(tmp_path).train("cpu")
    assert not any((tmp_path / name).exists() for name in FILES)
    shutil.rmtree(tmp_path / "training")
    learner = start(tmp_path).train("cpu")  # the same seed gives the same weights here
    assert run.weights_checksum(learner) == read_settings(tmp_path)["study"]["weights"]
    (tmp_path / "evaluation.json").write_text("{")
    with pytest.raises(BadArtefact, match=r"evaluation\.json"):
        start(tmp_path).train("cpu")


def test_groups_are_measured_by_their_ranks_too(small: pytest.MonkeyPatch) -> None:
    data = group_pools()
    learner, pool = run.build_learner(GROUPS, data), data.pools.test
    found, bank = run.measure_quality(GROUPS, learner, data), learner.bank(pool.x)
    tasks = list(pool.tasks(20, shots=6, queries=20, rng=0))
    areas = [roc_auc_score(task.query_y, bank.predict_proba(task)[:, 1]) for task in tasks]
    both = np.array([len(set(task.support_y.tolist())) == 2 for task in tasks])
    assert found["auroc"] == pytest.approx(np.mean(areas))
    assert found["auroc_both_labels"] == pytest.approx(np.mean(np.array(areas)[both]))
    assert found["tasks_with_both_labels"] == pytest.approx(both.mean())
    one_shot = run.measure_quality(replace(GROUPS, shots=1), learner, data)
    assert one_shot["tasks_with_both_labels"] == 0
    assert "auroc_both_labels" not in one_shot
    same = GroupPool(pool.x, np.zeros_like(pool.y), pool.groups, classes=2)
    none = run.measure_quality(GROUPS, learner, replace(data, pools=replace(data.pools, test=same)))
    assert none.keys() & {"auroc", "auroc_both_labels"} == set()
    json.dumps(none, allow_nan=False)


# What a seed stores, and its draws


def test_a_control_differs_in_one_thing(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    e = replace(CLASSES, guarantee=GUARANTEE)  # for which 12 tasks are enough
    own = start(tmp_path, e)
    learner = own.train("cpu")
    embedded = tiny.count_embedded(small)
    main = own.evaluate(learner, run.as_control(e))
    assert embedded == [180, 180, 180]  # validation, calibration and test
    controls = {control.name: control for control in list_controls(e)}
    assert [*controls] == ["seen", "no-shift", "n-12"]
    rows = {}
    for name, added in (("no-shift", 0), ("n-12", 0), ("seen", 1)):
        embedded.clear()
        rows[name] = own.evaluate(learner, controls[name])
        own.evaluate(learner, controls[name])
        assert len(embedded) == added, name  # the training pool, which was not embedded before
        folder = run.control_folder(tmp_path, controls[name])
        assert same_rows(read_rows(folder), rows[name])
        described = read_settings(folder)["study"]["experiment"]
        assert described == as_json("a", controls[name].experiment.describe())

    def thresholds(rows: Any, method: str) -> list[float]:
        return [float(x) for x in rows.select(method, GUARANTEE.delta).threshold]

    assert min(thresholds(main, "Meta-PS even")) > 0
    assert thresholds(rows["no-shift"], "Meta-PS even") == thresholds(main, "Meta-PS even")
    assert thresholds(rows["n-12"], "oracle") == thresholds(main, "oracle")
    for name, method in (("no-shift", "oracle"), ("n-12", "Meta-PS joint"), ("seen", "Meta-CP")):
        assert thresholds(rows[name], method) != thresholds(main, method)
    assert {name for name, _ in rows["seen"].methods()} == {"Meta-CP"}


def test_another_predictor_is_not_shared(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    predictors: dict[Any, Any] = {}

    def prepare(e: Experiment, rng: int = 0) -> int:
        study = run.ExperimentStudy(
            e, run.build_learner(CLASSES, DATA, rng), DATA, tmp_path, predictors
        )
        study.prepare()
        return len(predictors)

    assert [prepare(CLASSES), prepare(BANK)] == [1, 1]
    looser = replace(CLASSES.guarantee, epsilon=0.2)
    changes: list[dict[str, Any]] = [
        {"shots": 2}, {"evaluation_examples": 5}, {"guarantee": looser}, {"predictor": "train"},
    ]  # fmt: skip
    assert [prepare(replace(CLASSES, **change)) for change in changes] == [2, 3, 4, 5]
    assert prepare(CLASSES, rng=1) == 6


def test_damaged_arrays_are_computed_again(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    def draw(rng: int = 0, e: Experiment = CLASSES) -> Any:
        study = run.ExperimentStudy(e, run.build_learner(e, DATA, rng), DATA, tmp_path)
        assert study.preferred_backend == "threading"
        sent = pickle.loads(pickle.dumps(study))  # to workers
        return sent.draw(np.random.default_rng(0))

    embedded = tiny.count_embedded(small)
    first = draw()
    again = draw()
    assert len(embedded) == 3
    np.testing.assert_array_equal(first.scores, again.scores)
    np.testing.assert_array_equal(first.quantiles, again.quantiles)
    for path in sorted(tmp_path.glob("*.safetensors")):
        embedded.clear()
        truncate(path)
        np.testing.assert_array_equal(draw().scores, first.scores)
        assert len(embedded) == 1, path
    embedded.clear()
    assert not np.array_equal(draw(rng=1).scores, first.scores)
    assert len(embedded) == 3
    draw(rng=1, e=replace(CLASSES, evaluation_examples=5))  # other tasks for the predictor
    assert len(embedded) == 4


def test_the_predictor_learns_from_its_pool(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    pool = "train"
    e, learner = replace(CLASSES, predictor=pool), run.build_learner(CLASSES, DATA)
    predictors: dict[Any, QuantilePredictor] = {}
    run.ExperimentStudy(e, learner, DATA, tmp_path, predictors).prepare()
    assert [each.epsilon for each in predictors.values()] == [e.guarantee.miss_rate]
    file: Any = read_stored(tmp_path / f"{pool}-tasks.safetensors")
    assert file.provenance == {
        "data": "sha256:classes", "weights": run.weights_checksum(learner),
        "arrays": f"{pool}-tasks", "shots": 3, "ways": 3, "count": 8, "queries": 4,
    }  # fmt: skip
    tasks = list(getattr(DATA.pools, pool).tasks(8, ways=3, shots=3, queries=4, rng=0))
    expected = learner.bank(getattr(DATA.pools, pool).x)
    np.testing.assert_allclose(file.scores, expected.scores(tasks), rtol=1e-5)
    np.testing.assert_allclose(file.embeddings, expected.leave_one_out(tasks), rtol=1e-5)
    np.testing.assert_array_equal(file.tasks, np.arange(8).repeat(12))
    groups, many = group_pools(), replace(GROUPS, evaluation_examples=1000)  # a group has 40
    run.ExperimentStudy(many, run.build_learner(many, groups), groups, tmp_path)._train_predictor()
    assert read_stored(tmp_path / "validation-tasks.safetensors").provenance["queries"] == 40 - 6


STOPS = [
    ("training", 1), ("quantiles of Meta-CP", 3), ("embedding the pools", 0), ("draws", 1),
    ("draws", 2), ("seen: draws", 1),
]  # fmt: skip


@pytest.mark.parametrize("e", [CLASSES, GROUPS], ids=["classes", "groups"])
def test_a_stopped_run_ends_the_same(
    tmp_path: Path, small: pytest.MonkeyPatch, e: Experiment
) -> None:
    data = DATA if e is CLASSES else group_pools()
    expected = train_and_evaluate(start(tmp_path / "whole", e, data), controls=True)
    for name, number in STOPS:

        def stop(stage: str, done: int, total: int | None) -> None:
            if stage.partition(",")[0] == name and done == number:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_and_evaluate(run.SeedRun(e, data, tmp_path / "stopped", 0, stop), controls=True)
    result = train_and_evaluate(start(tmp_path / "stopped", e, data), controls=True)
    assert all(same_rows(*pair) for pair in zip(expected, result, strict=True))


class Brighter:
    name = "brighter"

    def __call__(self, images: Any, rng: Any) -> Any:
        return images + 1


def test_tasks_of_a_bank_are_scored_once(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    data, embed, fast = class_pools(transform=lambda rng: Brighter()), ProtoNet.embed, []

    def watched(self: ProtoNet, x: Any, **options: Any) -> Any:
        fast.append(options.get("fast", False))
        return embed(self, x, **options)

    own = start(tmp_path, BANK, data)
    learner = own.train("cpu")
    with small.context() as patch:
        patch.setattr(ProtoNet, "embed", watched)
        rows = own.evaluate(learner, run.as_control(BANK))
    assert fast == [True] * (8 + 14 + 5)  # data that only one task has
    assert len(rows) == 2 * 3 * len(rows.methods())
    embedded = tiny.count_embedded(small)
    (longer,) = train_and_evaluate(start(tmp_path, replace(BANK, draws=3), data))
    assert embedded == []
    assert same_rows(longer.take(longer.draw < 2), rows)
    moved = run.move_transformed(data.pools.test, learner)
    assert moved.x.device == next(learner.module.parameters()).device
    shape: dict[str, Any] = {"ways": 3, "shots": 3, "queries": 2, "rng": 0}
    for one, other in zip(data.pools.test.tasks(3, **shape), moved.tasks(3, **shape), strict=True):
        np.testing.assert_array_equal(one.x, other.x)


def test_a_bank_study_takes_no_task_twice() -> None:
    scores = np.arange(40, dtype=np.float64).reshape(8, 5)
    tests = [ScoredTask(np.ones(2), np.full(3, i), np.full((3, 2), i), 0.5) for i in range(1, 7)]
    e = replace(BANK, calibration_tasks=5, test_tasks=3)
    draw = run.BankStudy(e, scores, np.arange(8.0), tests).draw(np.random.default_rng(0))
    assert draw.quantiles is not None
    chosen = draw.quantiles.astype(int)
    assert len(set(chosen)) == 5
    np.testing.assert_array_equal(draw.scores.reshape(5, 5), scores[chosen])  # with its quantile
    drawn: list[Any] = list(draw.tests)
    assert len({float(test.true_scores[0]) for test in drawn}) == 3


# All seeds


@pytest.mark.parametrize("e", [GROUPS, STRONG], ids=["groups", "strong"])
def test_each_seed_is_a_run_of_its_own(tmp_path: Path, trained: list[int], e: Experiment) -> None:
    stages: list[str] = []
    options: Any = {"device": "cpu", "progress": lambda stage, *_: stages.append(stage)}
    found = run.reproduce(e, tmp_path, seeds=2, rng=4, **options)
    summary = found.summary
    assert "seed 5: draws" in stages
    assert trained == [4, 5]
    for number, rows in zip((4, 5), summary.rows, strict=True):
        assert same_rows(rows, read_rows(tmp_path / f"seed-{number}"))
    alone = run.reproduce(e, tmp_path / "alone", rng=5, device="cpu").summary
    assert same_rows(summary.rows[1], alone.rows[0])
    assert not same_rows(*summary.rows)
    assert summary.lines == summarise(summary.rows, e.guarantee).lines
    known = [run.read_learner(tmp_path / f"seed-{number}") for number in (4, 5)]
    assert found.accuracies == [each["accuracy"] for each in known]
    assert known[0]["weights"] != known[1]["weights"]


def test_more_seeds_extend_a_run(
    tmp_path: Path, small: pytest.MonkeyPatch, trained: list[int]
) -> None:
    first = run.reproduce(CLASSES, tmp_path, seeds=2, device="cpu").summary
    more = run.reproduce(replace(CLASSES, seeds=3), tmp_path, device="cpu").summary
    assert trained == [0, 1, 2]
    assert "over 3 seeds" in more.covers
    assert all(same_rows(*pair) for pair in zip(more.rows[:2], first.rows, strict=True))
    with small.context() as patch:
        patch.setattr(ProtoNet, "embed", pytest.fail)
        with patch.context() as inner:  # draws that are finished need no predictor either
            inner.setattr(QuantilePredictor, "fit", pytest.fail)
            run.reproduce(CLASSES, tmp_path, seeds=3, device="cpu")
        longer = run.reproduce(replace(CLASSES, draws=3), tmp_path, seeds=3, device="cpu").summary
    assert trained == [0, 1, 2]
    assert longer.draws == 3
    for rows, old in zip(longer.rows, more.rows, strict=True):
        assert same_rows(rows.take(rows.draw < 2), old)


def test_a_folder_of_something_else_is_left_as_it_is(tmp_path: Path, trained: list[int]) -> None:
    run.reproduce(CLASSES, tmp_path / "run", seeds=2, device="cpu")
    (tmp_path / "run" / "thesis.tex").touch()  # beside a run, it is no obstacle
    run.reproduce(CLASSES, tmp_path / "run", seeds=2, device="cpu")
    shutil.copytree(tmp_path / "run" / "seed-0", tmp_path / "old")  # as before runs had seeds
    (tmp_path / "note.txt").touch()
    run_study(SmallStudy(), guarantee=GUARANTEE, draws=1, folder=tmp_path / "other" / "seed-0")
    before = sorted(tmp_path.rglob("*"))
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("run", {"seeds": 1}, "already holds seed 1"),
        ("run", {"seeds": 2, "rng": 1}, "already holds seed 0"),
        ("run", {"seeds": 0}, "seeds must be"),
        ("run", {"rng": -1}, "rng must be"),
        ("old", {}, "folder must be new, empty or that of a run.*evaluation.json"),
        ("note.txt", {}, "folder must be a folder"),
        ("other", {}, r"experiment\.name=None.*experiment\.name='points'"),
    ]
    for name, options, message in refused:
        with pytest.raises(InvalidInput, match=message):
            run.reproduce(CLASSES, tmp_path / name, device="cpu", **options)
    assert sorted(tmp_path.rglob("*")) == before
    assert trained == [0, 1]


def test_glyphs_agree_with_the_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_CHARACTERS", (50, 10, 30, 30))
    monkeypatch.setattr(run, "QUANTILE_TASKS", 100)
    words = ("reproduce", "glyphs", "--draws", 3, "--device", "cpu", "-o", tmp_path, "--json")
    found = json.loads(metapac(*words).stdout)
    claims = {each["claim"].partition(":")[0]: each["status"] for each in found["claims"]}
    for name in ("Meta-PS even", "Meta-PS tight", "Meta-PS joint", "PS-Test"):
        assert claims[name] == "agrees"
    # Three draws, and tasks of 150 examples: what is seen may be noise.
    assert claims["PS"] in ("agrees", "cannot tell yet")
    learner = run.read_learner(tmp_path / "seed-0")
    assert found["accuracy"] == [learner["accuracy"]]
    assert learner["accuracy"] > 0.3  # chance is 0.2
    rows = read_rows(tmp_path / "seed-0")
    ours, grid = (rows.select(name) for name in ("Meta-PS even", "Meta-PS even, grid"))
    gaps = ours.threshold - grid.threshold
    assert ((gaps >= -1e-15) & (gaps < 1.001e-7)).all()
