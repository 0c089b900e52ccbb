"""Files of every kind that metapac 0.2.0 wrote load, and decide what they decided.

They were made by ``tests/golden/make_0_2_0.py`` of that version (commit d948ff1). A file is never
made again by a later version: a test that fails here means that users of 0.2.0 lose that file.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import (
    PS,
    MetaPS,
    Monitor,
    combine_sites,
    fewshot,
    load,
    read_pilot,
    read_provenance,
    read_site,
)
from metapac.fewshot.scoring import read_stored
from metapac.fewshot.study.run import read_guarantee, read_rows, read_settings
from tests.helpers.commands import metapac

SOURCE = Path(__file__).parent / "0.2.0"
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, so that nothing that resumes a run or a study changes the files."""
    return Path(shutil.copytree(SOURCE, tmp_path_factory.mktemp("old") / "0.2.0"))


def test_every_file_is_of_that_version(old: Path) -> None:
    written = list(old.rglob("*.json"))
    assert len(written) == 19
    assert {json.loads(path.read_text())["metapac"] for path in written} == {"0.2.0"}


def test_promises_make_the_same_sets(old: Path) -> None:
    for name, threshold, tasks, sizes in (
        ("joint", 0.351, 40, [1, 0]),
        ("tight", 0.276, 40, [1, 2]),
        ("expectation", 0.29000000000000004, 40, [1, 2]),
        ("clusters", 0.306, 20, [1, 0]),
    ):
        promise = load(old / f"{name}.json")
        assert isinstance(promise, MetaPS)
        assert promise.threshold_ == threshold
        assert promise.task_sizes_.tolist() == [30] * tasks
        sets = promise.predict_set(np.array([[0.7, 0.275], [0.3, 0.304]]))
        assert sets.sum(axis=1).tolist() == sizes
        assert (promise.columns_ or {})["classes"] == ["no", "yes"]
        delta = None if name == "expectation" else 0.1
        levels = {"epsilon": 0.2, "alpha": 0.3, "delta": delta}
        assert promise.get_params().items() >= levels.items()
    assert promise.clusters_[-1] == "region_19"
    assert promise.tasks_[:3].tolist() == ["site 00", "site 03", "site 05"]
    about = load(old / "joint.json").context_
    assert (about.model, about.unit) == ("forest 3", "hospital")
    assert about.trained_on == ("site 90", "site 91")


def test_promises_of_other_kinds(old: Path) -> None:
    by_class, single = load(old / "per_class.json"), load(old / "float32.json")
    assert by_class.thresholds_.tolist() == [0.21899999999999997, 0.212]
    assert by_class.predict_set(np.array([[0.218, 0.215]])).tolist() == [[False, True]]
    assert by_class.classes_ == ("no", "yes")
    assert single.thresholds_.tolist() == [0.05400000140070915, 0.11800000071525574]
    assert (single.precision_, single.epsilon) == (np.float32, {"a": 0.2, "b": 0.3})
    intervals = load(old / "intervals.json")
    found = intervals.predict_interval([5.0], scale=[2.0])
    ends = [[-10.240000000000022, 20.240000000000023]]
    assert (intervals.threshold_, found.tolist()) == (-7.62, ends)
    columns = {"task": "site", "prediction": "predicted", "y": "length", "scale": "scale"}
    assert intervals.columns_ == columns
    examples, conformal = load(old / "ps.json"), load(old / "meta_cp.json")
    assert isinstance(examples, PS)
    assert examples.threshold_ == 0.168
    assert isinstance(conformal, fewshot.MetaCP)
    assert (conformal.lambda_, conformal.threshold(0.0)) == (-0.231, 0.23099999999999998)


def test_site_files_combine_to_the_same_threshold(old: Path) -> None:
    paths = [old / f"region_{i}.json" for i in range(5)]
    sites = [read_site(path) for path in paths]
    assert [site.thresholds[0][0] for site in sites] == [0.334, 0.404, 0.332, 0.339, 0.368]
    assert {site.examples for site in sites} == {(60,)}
    combined = combine_sites(paths)
    assert combined.threshold_ == 0.332
    assert (combined.columns_ or {})["classes"] == ["no", "yes"]


def test_a_pilot_file_keeps_its_tasks_and_estimates(old: Path) -> None:
    pilot = read_pilot(old / "pilot.json")
    assert (len(pilot.tasks), pilot.tasks[0], pilot.examples) == (20, "site 80", 600)
    cell = pilot.find(0.2, 0.3)
    assert (cell.thresholds, cell.size.value) == ((0.248,), 1.4883333333333333)
    assert cell.missed["yes"].value == 0.06896551724137931


def test_a_monitor_goes_on_from_the_tasks_it_counted(old: Path) -> None:
    monitor = Monitor.load(old / "monitor.json", load(old / "joint.json"))
    assert monitor.batches == ["January"]
    counted = {int(str(step.task)[5:]): step.missed for step in monitor.course}
    assert [*counted] == [55, 51, 54, 60, 61, 59, 52, 53, 57, 50, 56, 58]
    assert [*counted.values()] == [6, 1, 8, 0, 1, 10, 4, 3, 5, 2, 6, 1]
    assert monitor.wealth == pytest.approx(0.2084555802551297, rel=1e-12)
    scores = np.linspace(0, 1, 30)
    added = monitor.add(scores, ["site 70"] * 30, batch="February", allow=["direction"])
    assert [step.missed for step in added.steps] == [11]
    assert len(monitor.course) == 13


def test_weights_are_used_by_adapt_and_predict(old: Path) -> None:
    x = 3 * np.eye(4, dtype=np.float32)
    for name, expected in (
        ("protonet.safetensors", [0.2454922, 0.3396718, 0.4148360]),
        ("maml.safetensors", [0.3320395, 0.3333171, 0.3346434]),
        ("run", [0.2912760, 0.6179737, 0.0907503]),
    ):
        scorer = fewshot.load_learner(old / name).adapt(x[:3], np.arange(3))
        assert scorer.predict_proba(x)[3].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_checkpoint_resumes(old: Path) -> None:
    arrays = np.load(old / "classes.npz")
    sizes = {"train": 8, "validation": 4, "calibration": 4, "test": 4}
    pools = fewshot.split_classes(arrays["x"], arrays["y"], **sizes, rng=0)
    drawing: dict[str, Any] = {"ways": 3, "shots": 2, "queries": 2, "episodes_per_epoch": 8}
    options: dict[str, Any] = {"epochs": 3, "validation_tasks": 4, "device": "cpu"}
    learner = fewshot.ProtoNet(fewshot.MLP(4, width=3, rng=0))
    options |= {"checkpoint": old / "checkpoint"}
    history = fewshot.train(learner, pools.train, pools.validation, **drawing, **options)
    assert [epoch.loss for epoch in history.epochs[:2]] == [2.4576165676116943, 2.1194541454315186]
    assert history.epochs[2].loss == pytest.approx(1.381992220878601, rel=1e-3)


def test_a_run_gives_its_pools_back(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old)
    pools = fewshot.load_pools("run").pools
    assert pools.calibration.names == [5, 7, 17, 18]
    assert pools.test.names == [1, 9, 14, 15]
    small = ["--tasks", 4, "--queries", 2, "--device", "cpu"]
    scored = metapac("score", "run", *small, "-o", "s.parquet")
    assert scored.exit_code == 0, scored.output


def test_a_scored_table_calibrates_to_the_same_threshold(old: Path, tmp_path: Path) -> None:
    scores, promise = old / "scored.parquet", tmp_path / "promise.json"
    provenance = read_provenance(scores)
    assert provenance is not None
    assert provenance.model == "ProtoNet 831e66f18665, 3 ways, 2 shots"
    levels = ["--epsilon", "0.2", "--alpha", "0.3", "--delta", "0.1"]
    result = metapac("calibrate", scores, *levels, "-o", promise)
    assert result.exit_code == 0, result.output
    assert load(promise).threshold_ == 0.0636184886097908
    assert load(promise).context_.model == provenance.model


def test_stored_scores_are_read(old: Path) -> None:
    stored = read_stored(old / "stored.safetensors")
    assert stored.scores is not None
    assert stored.tasks is not None
    assert stored.scores.tolist() == [0.242, 0.568, 0.384, 0.027, 0.688, 0.24]
    assert stored.tasks.tolist() == ["ohio"] * 3 + ["utah"] * 3
    assert stored.provenance == {"model": "forest 3"}


def test_a_study_has_the_same_rows(old: Path) -> None:
    folder = old / "study" / "seed-0"
    rows, guarantee = read_rows(folder), read_guarantee(folder)
    assert (len(rows), read_settings(folder)["draws"]) == (42, 2)
    assert (guarantee.epsilon, guarantee.alpha, guarantee.delta) == (0.2, 0.3, 0.05)
    joint = rows.method == "Meta-PS joint"
    assert rows.threshold[joint].tolist() == [0.15684351951152573] * 3 + [0.04053486740102013] * 3
    assert rows.error[joint].tolist() == [0, 1 / 12, 0, 1 / 24, 0, 0]


def test_a_data_cache_opens(old: Path) -> None:
    sizes = {"train": 2, "validation": 0, "calibration": 2, "test": 0}
    pools = fewshot.heart_groups(**sizes, rng=0, home=old / "data")
    assert pools.train.names + pools.calibration.names == [
        "2021 Alabama", "2022 Alabama", "2021 Ohio", "2022 Ohio",
    ]  # fmt: skip
    assert pools.train.y.tolist() == [0, 1] * 6
    assert pools.train.x[0].tolist() == pytest.approx([-1.4638501, -1.118034])
    checked = metapac("data", "check", "heart", "--home", old / "data")
    assert checked.exit_code == 0, checked.output
