"""Experiments end to end, on small data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from metapac.cli.app import app
from metapac.datasets.pools import LoadedPools
from metapac.evaluation import read_rows, read_settings, summarise
from metapac.learners import ProtoNet
from metapac.reproduce import learner as learning
from metapac.reproduce import run
from metapac.reproduce.claims import check_claims
from metapac.reproduce.experiments import Experiment, Training, find_experiment
from metapac.tasks.pools import ClassPool, GroupPool, Pools
from tests.helpers.studies import same_rows

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
    chosen = find_experiment("glyphs")
    result = check_claims(read_rows(small), chosen.guarantee)
    assert [verdict.claim.partition(":")[0] for verdict in result] == [
        "Meta-PS even",
        "Meta-PS tight",
        "Meta-PS joint",
        "PS",
        "Meta-CP",
        "PS-Test",
    ]
    assert [verdict.status for verdict in result[:3]] == ["holds"] * 3
    assert result[-1].holds
    for baseline in result[3:5]:
        # Ten draws, and tasks of 150 examples: what is seen may be noise.
        assert baseline.numbers["error_quantile"] > chosen.guarantee.miss_rate
        assert baseline.status in ("holds", "cannot tell yet")


def test_the_run_is_printed_and_drawn(small: Path) -> None:
    text = json.loads((small / "said.json").read_text())
    assert [claim["status"] for claim in text["claims"]][:3] == ["holds"] * 3
    assert all(claim["source"].startswith("Figure 3") for claim in text["claims"])
    verdicts = {line["verdict"] for line in text["methods"]}
    assert verdicts <= {"holds", "cannot tell yet", "violated"}
    feasible = {line["method"]: line["feasible"] for line in text["methods"]}
    assert (feasible["PS-Test"], feasible["PS"]) == (False, True)
    for name in ("error", "size", "error_per_set", "error_per_delta"):
        assert (small / f"{name}.png").stat().st_size > 5000
        assert (small / f"{name}.svg").read_text().startswith("<?xml")
    learner = json.loads((small / "learner.json").read_text())
    assert learner["accuracy"] > 0.4  # chance is 0.2
    assert learner["episodes"] == 180
    assert learner["experiment"] == json.loads(json.dumps(find_experiment("glyphs").describe()))


def test_a_finished_run_is_not_repeated(small: Path) -> None:
    before = (small / "rows.csv.gz").read_bytes()
    result = CliRunner().invoke(app, ["reproduce", "glyphs", "--device", "cpu", "-o", str(small)])
    assert result.exit_code == 0, result.output
    assert "holds: Meta-PS tight" in result.output
    assert "PS-Test †" in result.output
    assert "† keeps every label on some task: too few data for its guarantee." in result.output
    assert (small / "rows.csv.gz").read_bytes() == before
    other = CliRunner().invoke(
        app, ["reproduce", "glyphs", "--epochs", "1", "--device", "cpu", "-o", str(small)]
    )
    assert other.exit_code == 2  # another training is another run


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    for words, message in [
        (["mnist"], "NAME must be 'glyphs' or 'miniimagenet'"),
        (["heart", "--home", str(tmp_path)], "Run 'metapac data fetch heart', then"),
    ]:
        result = CliRunner().invoke(app, ["reproduce", *words, "-o", str(tmp_path / "run")])
        assert result.exit_code == 2
        assert message in result.output


def groups(count: int = 8, size: int = 40, rng: int = 0) -> GroupPool:
    generator = np.random.default_rng(rng)
    y = (generator.random(count * size) < 0.4).astype(int)
    x = generator.normal(size=(count * size, 4)).astype(np.float32)
    x[:, 0] += 2 * y
    names = np.repeat([f"site {rng}-{i}" for i in range(count)], size)
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
    evaluation_examples=20,
    labelled_examples=5,
    calibration_tasks=5,
    test_tasks=3,
    tasks_from="distinct",
    draws=2,
)


def test_groups_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = Pools(
        train=groups(rng=1),
        validation=groups(4, rng=2),
        calibration=groups(rng=3),
        test=groups(4, rng=4),
    )
    monkeypatch.setattr(run, "load", lambda e, home: LoadedPools(pools, "sha256:none"))
    monkeypatch.setattr(learning, "QUANTILE_TASKS", 8)
    rows = run.reproduce(GROUPS, tmp_path, device="cpu")
    assert {s.method for s in summarise(rows, GROUPS.guarantee)} >= {"Meta-CP", "Meta-PS tight"}
    text = json.loads((tmp_path / "learner.json").read_text())
    assert 0.5 <= text["auroc_both_labels"] <= 1
    assert 0 < text["tasks_with_both_labels"] <= 1


def no_embedding(*args: Any) -> Any:
    raise AssertionError("an example is embedded again")


def test_a_restart_scores_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = Pools(
        train=groups(rng=1),
        validation=groups(4, rng=2),
        calibration=groups(rng=3),
        test=groups(4, rng=4),
    )
    monkeypatch.setattr(run, "load", lambda e, home: LoadedPools(pools, "sha256:none"))
    monkeypatch.setattr(learning, "QUANTILE_TASKS", 8)
    for tasks_from in ("distinct", "pools"):
        e = replace(GROUPS, tasks_from=tasks_from, calibration_examples=12)
        folder = tmp_path / tasks_from
        first = run.reproduce(e, folder, device="cpu")
        with monkeypatch.context() as patch:
            patch.setattr(ProtoNet, "embed", no_embedding)
            again = run.reproduce(replace(e, draws=3), folder, device="cpu")
        assert same_rows(again.take(again.draw < 2), first)
        (folder / "training-tasks.safetensors").unlink()
        (folder / "rows.csv.gz").unlink()
        assert same_rows(run.reproduce(e, folder, device="cpu"), first)


def test_another_seed_is_another_training_with_other_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = Pools(
        train=groups(rng=1),
        validation=groups(4, rng=2),
        calibration=groups(rng=3),
        test=groups(4, rng=4),
    )
    monkeypatch.setattr(run, "load", lambda e, home: LoadedPools(pools, "sha256:none"))
    monkeypatch.setattr(learning, "QUANTILE_TASKS", 8)
    rows = [run.reproduce(GROUPS, tmp_path / str(seed), device="cpu", rng=seed) for seed in (0, 1)]
    assert not same_rows(*rows)
    weights = {read_settings(tmp_path / str(seed))["study"]["weights"] for seed in (0, 1)}
    assert len(weights) == 2
    with pytest.raises(ValueError, match="rng=0"):
        run.reproduce(GROUPS, tmp_path / "0", device="cpu", rng=1)


class Brighter:
    name = "brighter"

    def __call__(self, images: Any, rng: np.random.Generator) -> Any:
        return images + 1


def test_changed_pools_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pool(seed: int) -> ClassPool:
        x = np.random.default_rng(seed).normal(size=(60, 4)).astype(np.float32)
        y = np.arange(3).repeat(20)
        return ClassPool(x + y[:, None], y, transform=lambda rng: Brighter())

    e = replace(
        GROUPS,
        ways=3,
        shots=3,
        calibration_examples=8,
        evaluation_examples=4,
        labelled_examples=2,
        tasks_from="bank",
        bank=(7, 4),
    )
    pools = Pools(train=pool(0), validation=pool(1), calibration=pool(2), test=pool(3))
    monkeypatch.setattr(run, "load", lambda e, home: LoadedPools(pools, "sha256:none"))
    monkeypatch.setattr(learning, "QUANTILE_TASKS", 8)
    rows = run.reproduce(e, tmp_path, device="cpu")
    assert len(rows) == 2 * 3 * len(rows.methods())
    with monkeypatch.context() as patch:
        patch.setattr(ProtoNet, "embed", no_embedding)
        again = run.reproduce(replace(e, draws=3), tmp_path, device="cpu")
    assert same_rows(again.take(again.draw < 2), rows)
