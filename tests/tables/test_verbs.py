"""Verbs on tables: the model behind scores, clusters, drift, sites, levels tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import Context, InvalidInput, MetaPS, Monitor, Site, combine_sites, open_table
from metapac.data_checks import CheckWarning
from metapac.provenance import Provenance, write_scores
from metapac.tables.sources import Source, read_origin
from tests.helpers.tables import (
    calibrate_table,
    compare,
    evaluate_table,
    explore_table,
    monitor_table,
    predict_table,
    report_table,
    site_table,
)

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.1}
FITTED = "margin; fitted_on=0a+1b"
SCORED = Provenance(model="ProtoNet 1", columns={"task": "task", "score": "score"})


def write(path: Path, provenance: Provenance | None, seed: int = 0) -> Path:
    """Write scores of two classes in 30 tasks, with or without their provenance."""
    rng = np.random.default_rng(seed)
    p = rng.beta(4, 1, 1500)
    frame = pd.DataFrame({"p_no": p, "p_yes": 1 - p, "label": "no", "score": p})
    frame["task"] = [f"{seed} {i}" for i in np.repeat(np.arange(30), 50)]
    if provenance is None:
        frame.to_parquet(path)
    else:
        write_scores(path, frame.to_dict("list"), provenance)
    return path


def promise_for(path: Path, **context: Any) -> MetaPS:
    return calibrate_table(path, task="task", score="score", context=Context(**context), **LEVELS)


def each_route(promise: MetaPS, path: Path, model: str | None = None) -> list[Any]:
    """Return every way to read a table of new tasks."""
    named: dict[str, Any] = {"task": "task", "label": "label", "model": model}
    return [
        lambda: predict_table(promise, path, model=model),
        lambda: predict_table(promise, path, model=model, output=path.with_name("sets.csv")),
        lambda: evaluate_table(promise, path, **named),
        lambda: monitor_table(Monitor(promise), path, **named),
        lambda: report_table(promise, path, **named),
        lambda: compare(promise, path, path.with_name("calibration.parquet"), model=model),
    ]


@pytest.fixture
def promise(tmp_path: Path) -> MetaPS:
    return promise_for(write(tmp_path / "calibration.parquet", SCORED))


def test_a_calibrated_table_says_what_the_promise_is_about(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.parquet",
        Provenance(model="ProtoNet 1", score="margin", details={"trained_on": ["ohio", "utah"]}),
    )
    context = promise_for(path, trained_on=["iowa"], unit="site").context_
    assert (context.model, context.score, context.unit) == ("ProtoNet 1", "margin", "site")
    assert context.trained_on == ("iowa", "ohio", "utah")
    assert promise_for(write(tmp_path / "b.parquet", None)).context_ == Context()
    assert promise_for(path, model="ProtoNet 1").context_.model == "ProtoNet 1"
    with pytest.raises(InvalidInput, match="ProtoNet 1.*a.parquet"):
        promise_for(path, model="mine")
    with pytest.raises(InvalidInput, match="score must be 'raw'"):
        promise_for(path, score="raw")
    with pytest.raises(InvalidInput, match="context"):
        calibrate_table(path, task="task", score="score", context="mine", **LEVELS)


@pytest.mark.parametrize("pool", ["train", "validation", "calibration", "test", "all"])
def test_tasks_of_training_are_not_calibrated_on(pool: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", Provenance(model="a", details={"pool": pool}))
    with open_table(path) as table:
        if pool not in ("train", "validation"):
            assert table.add_origin(Context()).model == "a"
            return
        with pytest.raises(InvalidInput, match=f"pool '{pool}'"):
            table.add_origin(Context())


def test_the_same_model_is_accepted_by_every_route(promise: MetaPS, tmp_path: Path) -> None:
    path = write(tmp_path / "new.parquet", SCORED, seed=1)
    for model in (None, "ProtoNet 1"):
        for route in each_route(promise, path, model):
            route()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Provenance(model="ridge"), ["'ridge'", "'ProtoNet 1'"]),
        (Provenance(model="ProtoNet 1", score="margin"), ["score", "'probability'"]),
    ],
)
def test_another_model_or_score_is_refused_by_every_route(
    promise: MetaPS, other: Provenance, words: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path / "new.parquet", other, seed=1)
    for model in (None, "ProtoNet 1"):
        for route in each_route(promise, path, model):
            with pytest.raises(InvalidInput) as caught:
                route()
            assert all(word in str(caught.value) for word in words)
    assert not (tmp_path / "sets.csv").exists()


def test_a_table_without_provenance_takes_the_word_of_the_user(
    promise: MetaPS, tmp_path: Path
) -> None:
    with open_table(write(tmp_path / "new.parquet", None)) as table:
        assert read_origin(table.source) is None
        table.check_origin(promise.context_, None)
        table.check_origin(promise.context_, "ProtoNet 1")
        with pytest.raises(InvalidInput, match="got 'mine'"):
            table.check_origin(promise.context_, "mine")


def test_a_promise_without_a_model_cannot_be_compared(tmp_path: Path) -> None:
    with open_table(write(tmp_path / "new.parquet", SCORED)) as table:
        with pytest.warns(UserWarning, match="names no model"):
            table.check_origin(Context(), None)
        with (
            pytest.warns(UserWarning, match="names no model"),
            pytest.raises(InvalidInput, match="score must be 'margin'"),
        ):
            table.check_origin(Context(score="margin"), None)


def test_the_promise_says_what_tasks_were_drawn_from(tmp_path: Path) -> None:
    facts = {"training": "64 other classes, as the run records", "drawn_from": "16 classes"}
    scored = Provenance(model="ProtoNet 1", details=facts)
    found = promise_for(write(tmp_path / "calibration.parquet", scored))
    assert {name: getattr(found.context_, name) for name in facts} == facts
    typed = promise_for(tmp_path / "calibration.parquet", drawn_from="9 birds")
    assert typed.context_.drawn_from == "9 birds"


def test_the_reference_of_a_comparison_is_of_the_calibrated_model(
    promise: MetaPS, tmp_path: Path
) -> None:
    other = write(tmp_path / "other.parquet", Provenance(model="ProtoNet 2"))
    new = write(tmp_path / "new.parquet", None, seed=1)
    with pytest.raises(InvalidInput, match="'ProtoNet 2'"):
        compare(promise, new, other)
    assert len(compare(promise, new, tmp_path / "calibration.parquet").shifts) == 30


def as_site(path: Path, name: str) -> Site:
    return site_table(path, name=name, score="score", **LEVELS)


def test_sites_of_one_model_make_a_promise_for_it(tmp_path: Path) -> None:
    scored = Provenance(model="ProtoNet 1", score="margin")
    path = write(tmp_path / "a.parquet", scored)
    sites = [as_site(path, f"site {i}") for i in range(30)]
    assert (sites[0].model, sites[0].score) == ("ProtoNet 1", "margin")
    context = combine_sites(sites, context=Context(unit="hospital")).context_
    assert (context.model, context.score, context.unit) == ("ProtoNet 1", "margin", "hospital")
    fitted = write(tmp_path / "b.parquet", Provenance(model="ProtoNet 1", score=FITTED))
    same = [*sites[1:], as_site(fitted, "site 0")]
    assert same[-1].score == "margin"  # the site does not tell which tasks it fitted on
    assert combine_sites(same, context=Context(score=FITTED)).context_.score == FITTED
    for wrong in (Context(model="mine"), Context(score="raw")):
        with pytest.raises(InvalidInput, match="which site 'site 0' names"):
            combine_sites(sites, context=wrong)
    for other in (Provenance(model="ProtoNet 2", score="margin"), Provenance(model="ProtoNet 1")):
        odd = as_site(write(tmp_path / "c.parquet", other), "texas")
        with pytest.raises(InvalidInput, match="site 'texas' has scores"):
            combine_sites([*sites, odd])
    unknown = as_site(write(tmp_path / "d.parquet", None), "texas")
    with pytest.warns(CheckWarning, match="site 'texas' did not name the model"):
        assert combine_sites([*sites, unknown]).context_.model == "ProtoNet 1"


def test_classes_of_a_site_must_be_named_since_it_may_lack_some() -> None:
    scores = np.random.default_rng(0).random(480)
    frame = pd.DataFrame({"score": scores, "y": "a", "p_a": scores, "p_b": 0.5})
    options = LEVELS | {"name": "a", "label": "y", "per_class": True}
    with pytest.raises(InvalidInput, match="classes"):
        site_table(frame, **options, score="score")
    for more in ({"score": "score", "classes": ["a", "b"]}, {}):
        site = site_table(frame, **options, **more)
        assert (site.classes, site.examples) == (("a", "b"), (480, 0))
    plain = site_table(frame, name="x", label="y", **LEVELS)
    assert plain.thresholds == (tuple(MetaPS(**LEVELS).task_threshold(scores).tolist()),)


def made(word: str, seed: int = 0) -> pd.DataFrame:
    """Return examples of 200 tasks in 40 clusters whose scores have a level of their own."""
    rng = np.random.default_rng(seed)
    task, cluster = np.arange(200).repeat(20), np.arange(40).repeat(100)
    p = (rng.random(40)[cluster] + rng.random(4000)) / 2
    answers = np.where(rng.random(4000) < p, "yes", "no")
    names = {"task": [f"{word}{i}" for i in task], "p_home": [f"{word}{i}" for i in cluster]}
    return pd.DataFrame(names | {"score": p, "p_yes": p, "p_no": 1 - p, "y": answers})


def test_clusters() -> None:
    levels: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.2, "delta": 0.1}
    frame, new = made("t"), made("n", seed=1)
    by_score: dict[str, Any] = {"task": "task", "score": "score", "columns": "q_*"}
    number = frame.p_home.str[1:].astype(int)
    arrays = MetaPS(**levels).calibrate(frame.score, frame.task, clusters=number)
    for kind in (int, float):
        table = frame.assign(p_home=number.astype(kind))
        promise = calibrate_table(table, **by_score, cluster="p_home", **levels)
        assert promise.threshold_ == arrays.threshold_
        assert {*promise.tasks_} == {*arrays.tasks_}
    with pytest.raises(InvalidInput, match="cluster") as caught:
        evaluate_table(arrays, new, **by_score)
    assert caught.value.parameters == ("cluster",)
    assert len(evaluate_table(arrays, new, **by_score, cluster="p_home").tasks) == 40
    assert len(evaluate_table(arrays, new, **by_score, cluster="task").tasks) == 200
    with pytest.raises(InvalidInput, match="no column 'p_home'"):
        evaluate_table(promise, new.drop(columns="p_home"))
    plain = calibrate_table(frame, **by_score, **levels)
    assert len(evaluate_table(plain, new, cluster="p_home").tasks) == 40
    by_label = calibrate_table(frame, task="task", label="y", cluster="p_home", **levels)
    assert by_label.columns_ is not None
    assert by_label.columns_["classes"] == ["yes", "no"]  # the cluster is no class
    assert predict_table(by_label, frame).to_pandas()["set_size"].max() == 2


def test_a_monitor_counts_one_task_of_each_cluster() -> None:
    levels: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
    used: dict[str, Any] = {"task": "task", "score": "score", "columns": "q_*"}
    promise = calibrate_table(made("t"), **used, cluster="p_home", **levels)
    new = made("n", seed=2)[:600]
    by_table, by_array = Monitor(promise), Monitor(promise)
    monitor_table(by_table, new)
    by_array.add(new.score.to_numpy(), new.task.to_numpy(), clusters=new.p_home.to_numpy())
    assert len(by_table.course) == 6
    assert by_table._counted == by_array._counted
    late = made("late", seed=3)[:100].assign(p_home="n1")
    added = monitor_table(by_table, late)  # one of five is drawn, and its cluster is known
    assert (len(added.steps), len(added.overlap)) == (0, 1)


def test_drift_of_any_scores(promise: MetaPS, tmp_path: Path) -> None:
    known = pd.read_parquet(tmp_path / "calibration.parquet")
    rows = len(known)
    scores = ["p_no", "p_yes"]
    # The highest score of calibration shares the bin of all that are as high or higher.
    for value, higher in ((-5, 0), (-np.inf, 0), (5, 1 - 0.5 / rows), (np.inf, 1 - 0.5 / rows)):
        new = known[:100].assign(**dict.fromkeys(scores, float(value)))
        drift = compare(promise, new, known)
        assert [shift.higher for shift in drift.shifts] == pytest.approx([higher] * 2, abs=1e-12)
    equal = known.assign(p_no=0.5, p_yes=0.5)
    drift = compare(promise, equal[:150], equal)
    assert [(s.higher, s.is_unusual) for s in drift.shifts] == [(0.5, False)] * 3
    lists = known.assign(probs=known[scores].to_numpy().tolist())
    drift = compare(promise, lists, lists, columns="probs", classes=["no", "yes"])
    assert len(drift.shifts) == 30
    numbers = MetaPS(**LEVELS).calibrate(-known.score, known.task)
    assert not compare(numbers, known, known, task="task", prediction="score").is_suspicious
    far = known.assign(score=known.score + 1e10)
    assert compare(numbers, far, known, task="task", prediction="score").is_suspicious


def test_a_few_cells_at_a_time_give_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = made("t").assign(site=lambda table: table.p_home)
    levels: dict[str, Any] = {
        "columns": ["p_yes", "p_no"],
        "classes": ["yes", "no"],
        "epsilon": [0.1, 0.3],
        "alpha": [0.3],
        "delta": 0.2,
    }
    whole = explore_table(frame, task="site", label="y", **levels)
    monkeypatch.setattr("metapac.tables.sets._COMPARISONS", 1)
    asked: list[Any] = []

    def run(self: Source, table: Any, run: Any = Source.run) -> Any:
        asked.append(table)
        result = run(self, table)
        if "examples" not in table.columns:
            return result
        order = np.random.default_rng(len(asked)).permutation(len(result))
        return result.take(order)  # an engine returns groups in any order

    monkeypatch.setattr(Source, "run", run)
    assert explore_table(frame, task="site", label="y", **levels).to_dict() == whole.to_dict()
