"""The paper's experiments: a small one end to end, and what the large ones are made of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from metapac.cli.app import app
from metapac.evaluation import read_rows, summarise, verdicts
from metapac.evaluation.draws import Judged
from metapac.learners.bank import PrototypeBank
from metapac.learners.quantiles import QuantilePredictor
from metapac.reproduce import learning, run
from metapac.reproduce.data import Data, load
from metapac.reproduce.experiments import EXPERIMENTS, Experiment, Training, experiment
from metapac.reproduce.studies import BankStudy, Distinct, Independent, PoolStudy, judged
from metapac.tasks.pools import ClassPool, GroupPool, Pools

TINY = Training(
    lr=1e-3, episodes_per_epoch=4, epochs=1, episodes_per_step=2, validation_tasks=4, queries=2
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment on glyphs, run from the command line."""
    folder = tmp_path_factory.mktemp("glyphs")
    options = ["--device", "cpu", "-o", str(folder), "--json"]
    result = CliRunner().invoke(app, ["reproduce", "glyphs", *options])
    assert result.exit_code == 0, result.output
    (folder / "said.json").write_text(result.stdout)
    return folder


def test_the_claims_of_the_paper_hold_on_glyphs(small: Path) -> None:
    chosen = experiment("glyphs")
    found = verdicts(read_rows(small), chosen.guarantee)
    assert [verdict.claim.partition(":")[0] for verdict in found] == [
        "Meta-PS even",
        "Meta-PS tight",
        "Meta-PS joint",
        "PS",
        "Meta-CP",
        "PS-Test",
    ]
    assert all(verdict.holds for verdict in found), found


def test_the_run_is_told_and_drawn(small: Path) -> None:
    said = json.loads((small / "said.json").read_text())
    assert [claim["holds"] for claim in said["claims"]] == [True] * 6
    feasible = {line["method"]: line["feasible"] for line in said["methods"]}
    assert (feasible["PS-Test"], feasible["PS"]) == (False, True)
    for name in ("error", "size", "error_per_set", "error_per_delta"):
        assert (small / f"{name}.png").stat().st_size > 5000
        assert (small / f"{name}.svg").read_text().startswith("<?xml")
    learner = json.loads((small / "learner.json").read_text())
    assert learner["accuracy"] > 0.4  # chance is 0.2
    assert learner["episodes"] == 180
    assert learner["experiment"] == json.loads(json.dumps(experiment("glyphs").describe()))


def test_a_finished_run_is_not_done_again(small: Path) -> None:
    before = (small / "rows.csv.gz").read_bytes()
    result = CliRunner().invoke(app, ["reproduce", "glyphs", "--device", "cpu", "-o", str(small)])
    assert result.exit_code == 0, result.output
    assert "holds: Meta-PS tight" in result.output
    assert "PS-Test (keeps every" in result.output
    assert (small / "rows.csv.gz").read_bytes() == before
    other = CliRunner().invoke(
        app, ["reproduce", "glyphs", "--epochs", "1", "--device", "cpu", "-o", str(small)]
    )
    assert other.exit_code == 2  # another training is another run


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    for words, message in [
        (["mnist"], "name must be 'glyphs' or 'miniimagenet'"),
        (["heart", "--home", str(tmp_path)], "Run 'metapac data fetch heart', then"),
    ]:
        result = CliRunner().invoke(app, ["reproduce", *words, "-o", str(tmp_path / "run")])
        assert result.exit_code == 2
        assert message in result.output


def test_the_constants_are_those_of_the_paper() -> None:
    mini, cifar, fewrel, heart = (
        EXPERIMENTS[name] for name in ("miniimagenet", "cifar10c", "fewrel", "heart")
    )
    for each in (mini, fewrel):
        assert (each.ways, each.shots, each.calibration_examples, each.judged_examples) == (
            *(5, 5, 500),
            100,
        )
        assert (each.calibration_tasks, each.test_tasks, each.own_examples) == (500, 50, 20)
    assert (cifar.ways, cifar.calibration_examples, cifar.guarantee.epsilon) == (10, 500, 0.2)
    assert (heart.ways, heart.shots, heart.calibration_examples) == (None, 10, 3000)
    assert (heart.calibration_tasks, heart.training.class_weights) == (250, (1.0, 10.0))
    assert [e.training.lr for e in (mini, cifar, heart)] == [1e-3, 1e-2, 1e-3]
    assert all(e.guarantee.alpha == 0.1 for e in EXPERIMENTS.values())
    assert {e.guarantee.delta for e in EXPERIMENTS.values()} == {1e-5, 0.01}


def groups(count: int = 8, each: int = 40, rng: int = 0) -> GroupPool:
    generator = np.random.default_rng(rng)
    y = (generator.random(count * each) < 0.4).astype(int)
    x = generator.normal(size=(count * each, 4)).astype(np.float32)
    x[:, 0] += 2 * y
    names = np.repeat([f"site {rng}-{i}" for i in range(count)], each)
    return GroupPool(x, y, names, classes=2)


GROUPS = Experiment(
    name="sites",
    title="Sites",
    data="sites",
    backbone="mlp",
    training=TINY,
    ways=None,
    shots=6,
    calibration_examples=None,
    judged_examples=20,
    own_examples=5,
    calibration_tasks=5,
    test_tasks=3,
    tasks_from="distinct",
    draws=2,
)


def guess(size: int) -> QuantilePredictor:
    rng = np.random.default_rng(0)
    return QuantilePredictor(epsilon=0.1, rng=0).fit(
        -rng.uniform(size=(16, size)), -rng.uniform(size=16)
    )


def test_distinct_groups_are_used_once() -> None:
    pool = groups()
    dealt = []
    for seed in range(5):
        tasks, tests = Distinct(pool).deal(GROUPS, np.random.default_rng(seed))
        names = [task.name for task in (*tasks, *tests)]
        assert len(set(names)) == len(names) == 8
        assert {len(task.query) for task in tasks} == {34}  # all the rest of a group
        assert {len(task.query) for task in tests} == {25}
        dealt.append(tuple(names))
    assert len(set(dealt)) > 1  # dealt anew


def test_independent_tasks_come_from_their_pools() -> None:
    e = replace(GROUPS, calibration_examples=10, calibration_tasks=30, test_tasks=20)
    one, other = groups(rng=1), groups(rng=2)
    tasks, tests = Independent(one, other).deal(e, np.random.default_rng(0))
    assert {str(task.name).split("#")[0] for task in tasks} == set(one.names)
    assert all(str(task.name).split("#")[0] in other.names for task in tests)


def test_a_pool_study_scores_as_its_bank_does() -> None:
    pool = groups()
    bank = PrototypeBank(torch.from_numpy(pool.x), pool.x)
    study = PoolStudy(GROUPS, Distinct(pool), bank, bank, guess(6), {"data": "made up"})
    draw = study.draw(np.random.default_rng(3))
    tasks, tests = Distinct(pool).deal(GROUPS, np.random.default_rng(3))
    np.testing.assert_array_equal(draw.scores, bank.scores(list(tasks)))
    np.testing.assert_array_equal(draw.tasks, np.arange(5).repeat(34))
    assert study.describe() == {"data": "made up"}
    whole = bank.predict_proba(tests[0])
    first = draw.tests[0]
    assert isinstance(first, Judged)
    np.testing.assert_array_equal(first.scores, whole[5:])
    np.testing.assert_array_equal(first.own, whole[np.arange(5), tests[0].query_y[:5]])


def test_own_examples_are_of_each_class() -> None:
    e = replace(GROUPS, ways=2, own_examples=2, judged_examples=3)
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    pool = ClassPool(x, np.repeat([0, 1], 20))
    (task,) = pool.tasks(1, ways=2, shots=3, queries=5, rng=0)
    bank = PrototypeBank(torch.from_numpy(x), x)
    (found,) = judged(e, bank, [task], guess(6))
    true = bank.predict_proba(task)[np.arange(10), task.query_y]
    np.testing.assert_array_equal(found.own, true[[0, 1, 5, 6]])
    np.testing.assert_array_equal(found.true, true[[2, 3, 4, 7, 8, 9]])


def test_a_bank_study_takes_no_task_twice() -> None:
    scores = np.arange(40, dtype=np.float64).reshape(8, 5)
    tests = [Judged(np.ones(2), np.full(3, i), np.full((3, 2), i), 0.5) for i in range(1, 7)]
    study = BankStudy(GROUPS, scores, np.arange(8.0), tests)
    draw = study.draw(np.random.default_rng(0))
    rows = draw.scores.reshape(5, 5)
    assert draw.quantiles is not None
    chosen = draw.quantiles.astype(int)
    assert len(set(chosen)) == 5
    np.testing.assert_array_equal(rows, scores[chosen])  # each task with its own quantile
    assert len({int(test.true[0]) for test in draw.tests if isinstance(test, Judged)}) == 3


def test_area_under_the_curve() -> None:
    scores, labels = np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1])
    assert learning._area(scores, labels) == pytest.approx((1 + 1 + 1 + 0.5) / 4)
    assert learning._area(-scores, labels) == pytest.approx(0.5 / 4)
    assert np.isnan(learning._area(scores, np.zeros(4, int)))


def test_groups_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = Pools(
        train=groups(rng=1),
        validation=groups(4, rng=2),
        calibration=groups(rng=3),
        test=groups(4, rng=4),
    )
    monkeypatch.setattr(run, "load", lambda e, home: Data(pools, "sha256:none"))
    monkeypatch.setattr(learning, "QUANTILE_TASKS", 8)
    rows = run.reproduce(GROUPS, tmp_path, device="cpu")
    assert {s.method for s in summarise(rows, GROUPS.guarantee)} >= {"Meta-CP", "Meta-PS tight"}
    told = json.loads((tmp_path / "learner.json").read_text())
    assert 0.5 <= told["auroc_both_labels"] <= 1
    assert 0 < told["tasks_with_both_labels"] <= 1


class Brighter:
    name = "brighter"

    def __call__(self, images: Any, rng: np.random.Generator) -> Any:
        return images + 1


def test_changed_pools_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pool(seed: int) -> ClassPool:
        x = np.random.default_rng(seed).normal(size=(60, 4)).astype(np.float32)
        y = np.arange(3).repeat(20)
        return ClassPool(x + y[:, None], y, change=lambda rng: Brighter())

    e = replace(
        GROUPS,
        ways=3,
        shots=3,
        calibration_examples=8,
        judged_examples=4,
        own_examples=2,
        tasks_from="bank",
        bank=(7, 4),
    )
    pools = Pools(train=pool(0), validation=pool(1), calibration=pool(2), test=pool(3))
    monkeypatch.setattr(run, "load", lambda e, home: Data(pools, "sha256:none"))
    monkeypatch.setattr(learning, "QUANTILE_TASKS", 8)
    rows = run.reproduce(e, tmp_path, device="cpu")
    assert len(rows) == 2 * 3 * len(rows.methods())


def test_every_experiment_has_a_loader() -> None:
    for each in EXPERIMENTS.values():
        if each.data != "glyphs":
            with pytest.raises(FileNotFoundError, match=f"metapac data prepare {each.data}"):
                load(each, home="/nowhere")
