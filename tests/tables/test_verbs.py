"""Verbs on tables: the model behind scores, clusters, drift, sites, levels tried."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import Context, InvalidInput, MetaPS, Monitor, Site, combine_sites, open_table
from metapac.data_checks import CheckWarning
from metapac.provenance import Provenance, write_scores
from metapac.tables.sources import read_origin
from tests.helpers import tables

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
    return tables.calibrate_table(
        path, task="task", score="score", context=Context(**context), **LEVELS
    )


def each_route(promise: MetaPS, path: Path, model: str | None = None) -> list[Any]:
    """Return every way to read a table of new tasks."""
    named: dict[str, Any] = {"task": "task", "label": "label", "model": model}
    return [
        lambda: tables.predict_table(promise, path, model=model),
        lambda: tables.predict_table(promise, path, model=model, output=path.with_name("sets.csv")),
        lambda: tables.evaluate_table(promise, path, **named),
        lambda: tables.monitor_table(Monitor(promise), path, **named),
        lambda: tables.report_table(promise, path, **named),
        lambda: tables.compare(promise, path, path.with_name("calibration.parquet"), model=model),
    ]


@pytest.fixture
def promise(tmp_path: Path) -> MetaPS:
    return promise_for(write(tmp_path / "calibration.parquet", SCORED))


def test_a_calibrated_table_says_what_the_promise_is_about(tmp_path: Path) -> None:
    drawn = {"training": "64 other classes, as the run records", "drawn_from": "16 classes"}
    facts: dict[str, Any] = {"trained_on": ["ohio", "utah"], **drawn}
    scored = Provenance(model="ProtoNet 1", score="margin", details=facts)
    path = write(tmp_path / "a.parquet", scored)
    context = promise_for(path, trained_on=["iowa"], unit="site").context_
    assert (context.model, context.score, context.unit) == ("ProtoNet 1", "margin", "site")
    assert context.trained_on == ("iowa", "ohio", "utah")
    assert {name: getattr(context, name) for name in drawn} == drawn
    assert promise_for(path, drawn_from="9 birds").context_.drawn_from == "9 birds"
    assert promise_for(write(tmp_path / "b.parquet", None)).context_ == Context()
    assert promise_for(path, model="ProtoNet 1").context_.model == "ProtoNet 1"
    for wrong, words in (({"model": "mine"}, "ProtoNet 1.*a.parquet"), ({"score": "raw"}, "'raw'")):
        with pytest.raises(InvalidInput, match=words):
            promise_for(path, **wrong)
    with pytest.raises(InvalidInput, match="context"):
        tables.calibrate_table(path, task="task", score="score", context="mine", **LEVELS)


def test_tasks_of_training_are_not_calibrated_on(tmp_path: Path) -> None:
    for pool in ("train", "validation", "calibration", "test", "all"):
        path = write(tmp_path / f"{pool}.parquet", Provenance(model="a", details={"pool": pool}))
        with open_table(path) as table:
            if pool not in ("train", "validation"):
                assert table.add_origin(Context()).model == "a"
                continue
            with pytest.raises(InvalidInput, match=f"pool '{pool}'"):
                table.add_origin(Context())


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (SCORED, []),
        (Provenance(model="ridge"), ["'ridge'", "'ProtoNet 1'"]),
        (Provenance(model="ProtoNet 1", score="margin"), ["score", "'probability'"]),
    ],
)
def test_every_route_takes_the_same_model_and_score_alone(
    promise: Any, other: Provenance, words: Any, tmp_path: Path
) -> None:
    path = write(tmp_path / "new.parquet", other, seed=1)
    for model in (None, "ProtoNet 1"):
        for route in each_route(promise, path, model):
            with pytest.raises(InvalidInput) if words else nullcontext() as caught:
                route()
            assert all(word in str(caught and caught.value) for word in words)
    assert (tmp_path / "sets.csv").exists() == (not words)
    new = write(tmp_path / "new.parquet", None, seed=1)  # the reference is checked, too
    reference = write(tmp_path / "other.parquet", other)
    with pytest.raises(InvalidInput, match=words[0]) if words else nullcontext():
        assert len(tables.compare(promise, new, reference).shifts) == 30


def test_without_a_model_the_word_of_the_user_counts(promise: Any, tmp_path: Path) -> None:
    with open_table(write(tmp_path / "new.parquet", None)) as table:
        assert read_origin(table.source) is None
        table.check_origin(promise.context_, None)
        table.check_origin(promise.context_, "ProtoNet 1")
        with pytest.raises(InvalidInput, match="got 'mine'"):
            table.check_origin(promise.context_, "mine")
    with open_table(write(tmp_path / "new.parquet", SCORED)) as table:
        with pytest.warns(UserWarning, match="names no model"):
            table.check_origin(Context(), None)
        with (
            pytest.warns(UserWarning, match="names no model"),
            pytest.raises(InvalidInput, match="score must be 'margin'"),
        ):
            table.check_origin(Context(score="margin"), None)


def as_site(path: Path, name: str) -> Site:
    return tables.site_table(path, name=name, score="score", **LEVELS)


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
    promise = MetaPS(**levels).calibrate(frame.score, frame.task, clusters=number)
    table = frame.assign(p_home=number.astype(float))  # the same names
    by_table = tables.calibrate_table(table, **by_score, cluster="p_home", **levels)
    assert {*by_table.tasks_} == {*promise.tasks_}
    with pytest.raises(InvalidInput, match="cluster") as caught:
        tables.evaluate_table(promise, new, **by_score)
    assert caught.value.parameters == ("cluster",)
    assert len(tables.evaluate_table(by_table, new, cluster="task").tasks) == 200
    by_label = tables.calibrate_table(frame, task="task", label="y", cluster="p_home", **levels)
    assert by_label.columns_ is not None
    assert by_label.columns_["classes"] == ["yes", "no"]  # the cluster is no class


def test_drift_of_any_scores(promise: MetaPS, tmp_path: Path) -> None:
    known = pd.read_parquet(tmp_path / "calibration.parquet")
    scores = ["p_no", "p_yes"]
    # The highest score of calibration shares the bin of all that are as high or higher.
    for value, higher in ((-5, 0), (-np.inf, 0), (5, 1 - 0.5 / 1500), (np.inf, 1 - 0.5 / 1500)):
        new = known[:100].assign(**dict.fromkeys(scores, float(value)))
        drift = tables.compare(promise, new, known)
        assert [shift.higher for shift in drift.shifts] == pytest.approx([higher] * 2, abs=1e-12)
    equal = known.assign(p_no=0.5, p_yes=0.5)
    drift = tables.compare(promise, equal[:150], equal)
    assert [(s.higher, s.is_unusual) for s in drift.shifts] == [(0.5, False)] * 3
    lists = known.assign(probs=known[scores].to_numpy().tolist())
    assert (
        len(tables.compare(promise, lists, lists, columns="probs", classes=["no", "yes"]).shifts)
        == 30
    )
    numbers = MetaPS(**LEVELS).calibrate(-known.score, known.task)
    for far, is_suspicious in ((0, False), (1e10, True)):
        new = known.assign(score=known.score + far)
        found = tables.compare(numbers, new, known, task="task", prediction="score")
        assert found.is_suspicious == is_suspicious
