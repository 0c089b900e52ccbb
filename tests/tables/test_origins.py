"""Scores of another model or score function are refused wherever a table is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import Context, InvalidInput, MetaPS, Monitor, Site, combine_sites, load, read_site
from metapac.data_checks import CheckWarning
from metapac.provenance import Provenance, write_scores
from metapac.tables.sources import add_origin, check_origin, open_source, read_origin
from tests.helpers.tables import (
    calibrate_table,
    evaluate_table,
    monitor_table,
    predict_table,
    report_table,
    site_table,
)
from tests.helpers.tables import compare as compare_tables

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
        lambda: compare_tables(promise, path, path.with_name("calibration.parquet"), model=model),
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
    with pytest.raises(InvalidInput, match=r"model must be 'ProtoNet 1', which .*a\.parquet names"):
        promise_for(path, model="mine")
    with pytest.raises(InvalidInput, match="score must be 'raw'"):
        promise_for(path, score="raw")
    with pytest.raises(InvalidInput, match="context must be a metapac.Context, got 'mine'"):
        calibrate_table(path, task="task", score="score", context="mine", **LEVELS)


@pytest.mark.parametrize("pool", ["train", "validation", "calibration", "test", "all"])
def test_tasks_of_training_are_not_calibrated_on(pool: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", Provenance(model="a", details={"pool": pool}))
    with open_source(path) as source:
        if pool not in ("train", "validation"):
            assert add_origin(source, Context()).model == "a"
            return
        with pytest.raises(InvalidInput, match=f"pool '{pool}', which the learner has seen in tra"):
            add_origin(source, Context())


def test_the_same_model_is_accepted_by_every_route(promise: MetaPS, tmp_path: Path) -> None:
    path = write(tmp_path / "new.parquet", SCORED, seed=1)
    for model in (None, "ProtoNet 1"):
        for route in each_route(promise, path, model):
            route()


@pytest.mark.parametrize("model", [None, "ProtoNet 1"])
def test_another_model_is_refused_by_every_route(
    promise: MetaPS, model: str | None, tmp_path: Path
) -> None:
    path = write(tmp_path / "new.parquet", Provenance(model="ridge"), seed=1)
    for route in each_route(promise, path, model):
        with pytest.raises(InvalidInput) as caught:
            route()
        assert "new.parquet" in str(caught.value)
        assert "'ridge'" in str(caught.value)
        assert "'ProtoNet 1'" in str(caught.value)
    assert not (tmp_path / "sets.csv").exists()


def test_another_score_function_is_refused_by_every_route(promise: MetaPS, tmp_path: Path) -> None:
    provenance = Provenance(model="ProtoNet 1", score="margin")
    path = write(tmp_path / "new.parquet", provenance, seed=1)
    for route in each_route(promise, path):
        with pytest.raises(InvalidInput, match="score must be 'probability', the score function"):
            route()


def test_a_table_without_provenance_takes_the_word_of_the_user(
    promise: MetaPS, tmp_path: Path
) -> None:
    with open_source(write(tmp_path / "new.parquet", None)) as source:
        assert read_origin(source) is None
        check_origin(source, promise.context_, None)
        check_origin(source, promise.context_, "ProtoNet 1")
        with pytest.raises(InvalidInput, match="the model that was calibrated, got 'mine'"):
            check_origin(source, promise.context_, "mine")


def test_a_promise_without_a_model_cannot_be_compared(tmp_path: Path) -> None:
    with open_source(write(tmp_path / "new.parquet", SCORED)) as source:
        with pytest.warns(UserWarning, match="names no model, so it cannot be compared with 'Prot"):
            check_origin(source, Context(), None)
        with (
            pytest.warns(UserWarning, match="names no model"),
            pytest.raises(InvalidInput, match="score must be 'margin'"),
        ):
            check_origin(source, Context(score="margin"), None)


def test_tasks_of_another_kind_are_refused(tmp_path: Path) -> None:
    calibrated = Provenance(model="ProtoNet 1, 3-8 ways, 1,5 shots")
    promise = promise_for(write(tmp_path / "calibration.parquet", calibrated))
    path = write(tmp_path / "new.parquet", Provenance(model="ProtoNet 1, 5 ways, 5 shots"), seed=1)
    message = "scored by 'ProtoNet 1, 5 ways, 5 shots'; the guarantee is for .* 3-8 ways, 1,5 shots"
    for route in each_route(promise, path):
        with pytest.raises(InvalidInput, match=message):
            route()


def test_the_promise_says_what_tasks_were_drawn_from(tmp_path: Path) -> None:
    facts = {"training": "64 other classes, as the run records", "drawn_from": "16 classes"}
    scored = Provenance(model="ProtoNet 1", details=facts)
    promise = promise_for(write(tmp_path / "calibration.parquet", scored))
    promise.save(tmp_path / "promise.json")
    found = load(tmp_path / "promise.json")
    assert {name: getattr(found.context_, name) for name in facts} == facts
    assert "The model was trained on 64 other classes, as the run records." in found.explain()
    typed = promise_for(tmp_path / "calibration.parquet", drawn_from="9 birds")
    assert typed.context_.drawn_from == "9 birds"


def test_the_reference_of_a_comparison_is_of_the_calibrated_model(
    promise: MetaPS, tmp_path: Path
) -> None:
    other = write(tmp_path / "other.parquet", Provenance(model="ProtoNet 2"))
    new = write(tmp_path / "new.parquet", None, seed=1)
    with pytest.raises(InvalidInput, match=r"other\.parquet was scored by 'ProtoNet 2'"):
        compare_tables(promise, new, other)
    assert len(compare_tables(promise, new, tmp_path / "calibration.parquet").shifts) == 30


def as_site(path: Path, name: str) -> Site:
    return site_table(path, name=name, score="score", **LEVELS)


def test_a_site_names_the_model_of_its_table(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", Provenance(model="ProtoNet 1", score="margin"))
    site = as_site(path, "ohio")
    assert (site.model, site.score) == ("ProtoNet 1", "margin")
    site.save(tmp_path / "ohio.json")
    assert read_site(tmp_path / "ohio.json") == site
    unknown = as_site(write(tmp_path / "b.parquet", None), "utah")
    assert (unknown.model, unknown.score) == (None, None)
    seen = Provenance(model="ProtoNet 1", details={"pool": "train"})
    with pytest.raises(InvalidInput, match="tasks of the pool 'train'"):
        as_site(write(tmp_path / "c.parquet", seen), "iowa")


def test_sites_of_one_model_make_a_promise_for_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", Provenance(model="ProtoNet 1", score="margin"))
    sites = [as_site(path, f"site {i}") for i in range(30)]
    context = combine_sites(sites, context=Context(unit="hospital")).context_
    assert (context.model, context.score, context.unit) == ("ProtoNet 1", "margin", "hospital")
    assert combine_sites(sites, context=Context(model="ProtoNet 1")).context_.score == "margin"
    with pytest.raises(InvalidInput, match="model must be 'ProtoNet 1', which site 'site 0' names"):
        combine_sites(sites, context=Context(model="mine"))
    fitted = write(tmp_path / "b.parquet", Provenance(model="ProtoNet 1", score=FITTED))
    same = [*sites[1:], as_site(fitted, "site 0")]
    assert same[-1].score == "margin"  # the site does not tell which tasks it fitted on
    assert combine_sites(same, context=Context(score=FITTED)).context_.score == FITTED
    with pytest.raises(InvalidInput, match="score must be 'margin', which site 'site 0' names"):
        combine_sites(sites, context=Context(score="raw"))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Provenance(model="ProtoNet 2", score="margin"), "of the model 'ProtoNet 2', but site '"),
        (Provenance(model="ProtoNet 1"), "of the score function 'probability', but site 'site 0'"),
    ],
)
def test_sites_of_different_models_are_refused(
    tmp_path: Path, other: Provenance, message: str
) -> None:
    first = write(tmp_path / "a.parquet", Provenance(model="ProtoNet 1", score="margin"))
    sites = [as_site(first, f"site {i}") for i in range(30)]
    sites.append(as_site(write(tmp_path / "b.parquet", other), "texas"))
    with pytest.raises(InvalidInput, match=f"site 'texas' has scores {message}"):
        combine_sites(sites)


def test_sites_that_name_no_model_are_pointed_out(tmp_path: Path) -> None:
    sites = [as_site(write(tmp_path / "a.parquet", SCORED), f"site {i}") for i in range(30)]
    sites.append(as_site(write(tmp_path / "b.parquet", None), "texas"))
    with pytest.warns(CheckWarning, match="site 'texas' did not name the model"):
        assert combine_sites(sites).context_.model == "ProtoNet 1"


@pytest.mark.parametrize("name", ["model", "score"])
def test_the_names_in_a_site_are_not_empty(tmp_path: Path, name: str) -> None:
    site = as_site(write(tmp_path / "a.parquet", SCORED), "ohio")
    changes: dict[str, Any] = {name: " "}
    with pytest.raises(InvalidInput, match=f"{name} must be a non-empty string"):
        replace(site, **changes)
