"""Damaged and forged files: the same result as before, or an error of one line that names the file.

A forgery has the right checksum. No key can be asked for, so a forgery that does not contradict
itself is another promise; these tests forge what does.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from metapac import (
    PS,
    BadArtefact,
    Guarantee,
    InvalidInput,
    MetaPS,
    Site,
    artefact,
    combine_sites,
    load,
    read_pilot,
    read_site,
)
from metapac.cli.app import app
from metapac.fewshot import (
    MAML,
    MLP,
    ClassPool,
    MetaCP,
    ProtoNet,
    SyntheticStudy,
    load_learner,
    run_study,
    save_weights,
    tensors,
    train,
)
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets.pools import RUN
from metapac.fewshot.reproduce.seed import LEARNER
from metapac.fewshot.scoring import Stored, read_stored
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import SETTINGS, TABLE, read_guarantee, read_rows
from metapac.fewshot.tensors import read_tensors, write_tensors
from metapac.fewshot.training import checkpoints
from metapac.fewshot.training.checkpoints import FILE as CHECKPOINT
from tests.helpers.forging import damage, mutate, read_or_refuse, sign
from tests.helpers.tables import explore_table

RNG = np.random.default_rng(0)
SCORES, TASKS = RNG.random(1200), np.repeat([f"task {i}" for i in range(40)], 30)
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.2}
GRID = np.linspace(-0.5, 1.5, 201)
FUZZ = settings(max_examples=150, deadline=None, derandomize=True)


def predictors() -> dict[str, Any]:
    labels = np.tile(["cat", "dog"], 600)
    return {
        "MetaPS": MetaPS(**LEVELS, on_infeasible="trivial").calibrate(SCORES, TASKS),
        "per class": MetaPS(**LEVELS, split="tight", per_class=True, on_infeasible="trivial")
        .calibrate(SCORES, TASKS, labels),
        "PS": PS(epsilon=0.2, delta=0.1).calibrate(SCORES),
        "MetaCP": MetaCP(epsilon=0.4, delta=0.2).calibrate(SCORES, TASKS, np.zeros(40)),
    }  # fmt: skip


def decide(predictor: Any) -> list[Any]:
    """Return everything that a promise decides: levels, sets, columns, context, score range."""
    kept = (
        predictor.predict_set(GRID, 0.0)
        if isinstance(predictor, MetaCP)
        else [[bool(x >= cut) for x in GRID] for cut in np.atleast_1d(predictor._result()[1])]
    )
    return [
        predictor.get_params(),
        predictor.precision_,
        np.asarray(kept).tolist(),
        getattr(predictor, "columns_", None),
        predictor.context_,
        getattr(predictor, "_score_range", None),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, predictor in predictors().items():
        predictor.save(folder / f"{name}.json")
    a_site().save(folder / "site.json")
    Stored(scores=SCORES[:6], tasks=TASKS[:6], provenance={"rng": 0}).save(folder / "scores.st")
    frame = pd.DataFrame({"site": TASKS, "y": np.tile(["cat", "dog"], 600), "p_cat": SCORES})
    pilot = explore_table(frame.assign(p_dog=1 - SCORES), task="site", label="y")
    pilot.save(folder / "explored.json")
    save_weights(ProtoNet(MLP(3, width=4, rng=0)), folder / "protonet.st")
    save_weights(MAML(MLP(3, width=4, rng=0), 2, steps=1), folder / "maml.st")
    return folder


def a_site(name: str = "ohio") -> Site:
    agreed = Guarantee(**LEVELS)
    return Site(name, agreed, (100,), ((0.25,) * 13,), np.dtype("float64"))


KINDS = ["MetaPS", "per class", "PS", "MetaCP"]


@pytest.mark.parametrize("kind", KINDS)
@given(draw=st.data())
@settings(FUZZ, max_examples=60)
def test_a_damaged_promise_decides_the_same_or_nothing(
    folder: Path, kind: str, draw: st.DataObject
) -> None:
    original, path = folder / f"{kind}.json", folder / "damaged.json"
    path.write_bytes(damage(original.read_bytes(), draw))
    result = read_or_refuse(load, path)
    assert result is None or decide(result) == decide(load(original))


@pytest.mark.parametrize("kind", KINDS)
@given(draw=st.data())
@settings(FUZZ, max_examples=120)
def test_a_forged_promise_is_refused_in_one_line_or_can_be_used(
    folder: Path, kind: str, draw: st.DataObject
) -> None:
    document = json.loads((folder / f"{kind}.json").read_text())
    path = folder / "forged.json"
    path.write_text(sign(mutate(document, draw)))
    predictor = read_or_refuse(load, path)
    if predictor is not None:
        name, stated = predictor._encoded_result()
        assert json.loads(path.read_text())[name] == stated  # never another threshold
        decide(predictor)
        str(predictor)
        predictor.save(folder / "again.json")
        assert decide(load(folder / "again.json")) == decide(predictor)


@given(draw=st.data())
@FUZZ
def test_a_damaged_or_forged_site_is_the_same_or_refused(folder: Path, draw: st.DataObject) -> None:
    original, path = folder / "site.json", folder / "other.json"
    if draw.draw(st.booleans()):
        path.write_bytes(damage(original.read_bytes(), draw))
        assert read_or_refuse(read_site, path) in (None, read_site(original))
        return
    path.write_text(sign(mutate(json.loads(original.read_text()), draw)))
    site = read_or_refuse(read_site, path)
    if site is not None:
        assert site.precision.name in ("float16", "float32", "float64")
        combine_sites([site], on_infeasible="trivial")


def rewrite_notes(path: Path, change: Callable[[Any], Any]) -> bytes:
    """Return a tensor file with another document, whose checksum is right."""
    header, data = tensors._split(path.read_bytes())
    document = json.loads(header.pop("__metadata__")["metapac"])
    packed = json.dumps({"__metadata__": {"metapac": sign(change(document))}, **header}).encode()
    return len(packed).to_bytes(8, "little") + packed + bytes(data)


@pytest.mark.parametrize("name", ["protonet", "maml"])
@given(draw=st.data())
@settings(FUZZ, max_examples=120)
def test_damaged_or_forged_weights_are_the_same_or_refused(
    folder: Path, name: str, draw: st.DataObject
) -> None:
    original, path = folder / f"{name}.st", folder / "other.st"
    if draw.draw(st.booleans()):
        path.write_bytes(damage(original.read_bytes(), draw))
    else:
        path.write_bytes(rewrite_notes(original, lambda document: mutate(document, draw)))
    learner = read_or_refuse(load_learner, path)
    if learner is not None:
        state, again = (each.module.state_dict() for each in (load_learner(original), learner))
        assert all(torch.equal(state[key], again[key]) for key in {*state, *again})


@given(draw=st.data())
@FUZZ
def test_damaged_or_forged_scores_are_the_same_or_refused(
    folder: Path, draw: st.DataObject
) -> None:
    original, path = folder / "scores.st", folder / "others.st"
    forged = draw.draw(st.booleans())
    if forged:
        path.write_bytes(rewrite_notes(original, lambda document: mutate(document, draw)))
    else:
        path.write_bytes(damage(original.read_bytes(), draw))
    stored = read_or_refuse(read_stored, path)
    if stored is not None:
        assert stored.scores is not None
        assert stored.scores.tolist() == SCORES[:6].tolist()
        assert forged or stored.tasks.tolist() == TASKS[:6].tolist()


def train_once(checkpoint: Path, **changes: Any) -> list[Any]:
    """Train two epochs, resuming if possible; return losses and weights."""
    learner = ProtoNet(MLP(2, width=4, rng=0))
    rng = np.random.default_rng(0)
    pool = ClassPool(rng.random((40, 2)).astype(np.float32), np.repeat(np.arange(4), 10))
    history = train(
        learner, pool, pool, checkpoint=checkpoint, device="cpu", compile=False,
        **{"ways": 2, "shots": 2, "queries": 2, "epochs": 2, "episodes_per_epoch": 2,
           "episodes_per_step": 2, "validation_tasks": 2, **changes},
    )  # fmt: skip
    weights = [tensor.tolist() for tensor in learner.module.state_dict().values()]
    return [[epoch.loss for epoch in history.epochs], weights]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[Any]]:
    """The checkpoint after one epoch, and the result after two."""
    folder = tmp_path_factory.mktemp("run")
    train_once(folder, epochs=1)
    return (folder / CHECKPOINT).read_bytes(), train_once(folder)


@given(draw=st.data())
@settings(FUZZ, max_examples=80, phases=[Phase.generate])
def test_a_damaged_or_forged_checkpoint_resumes_the_same_run_or_none(
    folder: Path, run: tuple[bytes, list[Any]], draw: st.DataObject
) -> None:
    original, (losses, weights) = run
    (folder / "resumed").mkdir(exist_ok=True)
    path = folder / "resumed" / CHECKPOINT
    path.write_bytes(original)
    forged = draw.draw(st.booleans())
    if forged:
        path.write_bytes(rewrite_notes(path, lambda document: mutate(document, draw)))
    else:
        path.write_bytes(damage(original, draw))
    result = read_or_refuse(train_once, path.parent)
    if result is not None:
        assert result[1] == weights or forged  # which epoch is best, a history may say
        assert result[0][1] == losses[1]


def forge_tensors(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the tensors of a file, and compute its checksums again."""
    document, tensors = read_tensors(path, checkpoints.CHECKPOINT, framework="torch")
    body = {k: v for k, v in document.items() if k not in ("format", "schema", "metapac")}
    write_tensors(path, change(tensors), body, checkpoints.CHECKPOINT, framework="torch")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"optimiser/0/exp_avg": torch.zeros(3)},
            r"tensor 'optimiser/0/exp_avg' has shape \[3\], and its",
        ),
        (
            {"optimiser/0/step": torch.zeros(2)},
            r"'optimiser/0/step' has shape \[2\], .* needs \[\]",
        ),
        ({"optimiser/0/max": torch.zeros(2)}, r"'optimiser/0/max' has shape \[2\], .* needs None"),
        ({"optimiser/99/step": torch.zeros(())}, "'optimiser/99/step' has shape"),
        ({"optimiser/x/step": torch.zeros(())}, "'optimiser/x/step' has shape"),
        (
            {"optimiser/0/exp_avg": None},
            "'optimiser/0/exp_avg' has shape None, and its architecture needs",
        ),
        ({"best/extra": torch.zeros(2)}, "'best/extra' has shape"),
        ({"other/a": torch.zeros(2)}, "tensor 'other/a' belongs to no part"),
    ],
)
def test_forged_tensors_of_a_run_are_refused_by_name(
    tmp_path: Path, run: tuple[bytes, list[Any]], change: dict[str, Any], message: str
) -> None:
    path = tmp_path / CHECKPOINT
    path.write_bytes(run[0])
    forge_tensors(
        path, lambda tensors: {k: v for k, v in (tensors | change).items() if v is not None}
    )
    with pytest.raises(BadArtefact, match=message) as caught:
        train_once(tmp_path)
    assert str(caught.value).startswith(str(path))
    path.write_bytes(run[0])
    forge_tensors(path, lambda tensors: tensors)
    assert train_once(tmp_path) == run[1]


def described_documents() -> dict[str, tuple[dict[str, Any], artefact.Format]]:
    """Return a document of each format that only describes a result."""
    epoch = {"epoch": 1, "loss": 0.5, "accuracy": 0.9, "lr": 0.001, "seconds": 1.0}
    architecture = {"class": "ProtoNet", "backbone": {"class": "MLP"}, "weights": 3}
    return {
        "run": (
            {
                "data": "glyphs", "data_checksum": "sha256:0", "options": {"ways": 2},
                "architecture": architecture, "accuracy": 0.5,
                "pools": {"train": ["a"], "test": [1]}, "history": [epoch],
            },
            RUN,
        ),
        "learner": (
            {
                "experiment": {"name": "glyphs"}, "training": {"data": "glyphs"}, "rng": 0,
                "data": "sha256:0", "pools": {"train": [3, 60]}, "epochs": 1, "episodes": 8,
                "best_epoch": 1, "validation_accuracy": 0.9, "seconds": 1.0, "accuracy": 0.9,
                "weights": "sha256:0", "recipe": {"epochs": 1}, "device": "cpu",
                "versions": {"python": "3.11"},
            },
            LEARNER,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["run", "learner"])
@given(draw=st.data())
@settings(FUZZ, max_examples=60)
def test_a_damaged_description_is_the_same_or_refused(
    folder: Path, name: str, draw: st.DataObject
) -> None:
    body, kind = described_documents()[name]
    path = folder / f"{name}.json"
    artefact.write(path, body, kind)
    good = artefact.read(path, kind)
    forged = draw.draw(st.booleans())
    if forged:
        path.write_text(sign(mutate(good, draw)))
    else:
        path.write_bytes(damage(path.read_bytes(), draw))
    document = read_or_refuse(lambda path: artefact.read(path, kind), path)
    assert document in (None, good) or forged
    assert document is None or good.keys() <= document.keys() | {"seconds", "device", "recipe"}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("evaluated")
    study = SyntheticStudy(tasks=60, examples=50, tests=3)
    run_study(study, guarantee=Guarantee(epsilon=0.1, alpha=0.1, delta=0.1), draws=2, folder=folder)
    return {name: (folder / name).read_bytes() for name in (SETTINGS, TABLE)}


def columns_of(rows: Rows) -> str:
    return repr({name: column.tolist() for name, column in vars(rows).items()})  # NaN is NaN


@given(draw=st.data())
@FUZZ
def test_a_damaged_or_forged_evaluation_is_the_same_or_refused(
    folder: Path, evaluated: dict[str, bytes], draw: st.DataObject
) -> None:
    target = folder / "evaluation"
    target.mkdir(exist_ok=True)
    for name, content in evaluated.items():
        (target / name).write_bytes(content)
    rows, guarantee = read_rows(target), read_guarantee(target)
    name = draw.draw(st.sampled_from([SETTINGS, SETTINGS, TABLE]))
    forged = name == SETTINGS and draw.draw(st.booleans())
    if forged:
        document = json.loads(evaluated[SETTINGS])
        (target / name).write_text(sign(mutate(document, draw)))
    else:
        (target / name).write_bytes(damage(evaluated[name], draw))
    result = read_or_refuse(lambda _: (read_guarantee(target), read_rows(target)), target / name)
    if result is not None:
        assert result[0] == guarantee or forged
        assert columns_of(result[1]) == columns_of(rows)


def fill(writer: cache.Writer) -> dict[str, Any]:
    writer.append("x", np.arange(6.0).reshape(3, 2))
    writer.append("y", np.arange(3))
    return {"classes": ["a", "b"]}


@given(draw=st.data())
@settings(FUZZ, max_examples=60)
def test_a_damaged_or_forged_cache_is_the_same_or_refused(
    folder: Path, draw: st.DataObject
) -> None:
    shutil.rmtree(folder / "home", ignore_errors=True)
    prepared = cache.prepare("example", [], fill, home=folder / "home")
    files = {path.name: path.read_bytes() for path in prepared.folder.iterdir()}
    name = draw.draw(st.sampled_from(["data.json", "data.json", "x.npy", "y.npy"]))
    path = prepared.folder / name
    forged = name == "data.json" and draw.draw(st.booleans())
    if forged:
        path.write_text(sign(mutate(json.loads(files[name]), draw)))
    else:
        path.write_bytes(damage(files[name], draw))

    def read(_path: Path) -> cache.Prepared:
        again = cache.open_prepared("example", folder / "home")
        again.verify()
        return again

    again = read_or_refuse(read, prepared.folder)
    if again is not None:
        assert again.facts == prepared.facts or forged
        assert again.get("x", np.arange(6).reshape(3, 2)).tolist() == [[0, 1], [2, 3], [4, 5]]


@given(draw=st.data())
@FUZZ
def test_a_damaged_or_forged_pilot_is_the_same_or_refused(
    folder: Path, draw: st.DataObject
) -> None:
    path = folder / "pilot.json"
    path.write_bytes((folder / "explored.json").read_bytes())
    good = read_pilot(path)
    forged = draw.draw(st.booleans())
    if forged:
        path.write_text(sign(mutate(json.loads(path.read_text()), draw)))
    else:
        path.write_bytes(damage(path.read_bytes(), draw))
    result = read_or_refuse(read_pilot, path)
    if result is not None:
        assert forged or repr(result.to_dict()) == repr(good.to_dict())  # NaN is NaN
        repr(result)
        result.save(path)
        assert repr(read_pilot(path).to_dict()) == repr(result.to_dict())


def test_the_harness_notices_another_threshold(folder: Path) -> None:
    # A checker that compared nothing would pass all of the above.
    one = MetaPS(**LEVELS, on_infeasible="trivial").calibrate(SCORES, TASKS)
    other = MetaPS(**LEVELS, on_infeasible="trivial").calibrate(SCORES + 0.1, TASKS)
    assert decide(one) != decide(other)
    assert decide(one) == decide(load(folder / "MetaPS.json"))


def evidence(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda document: document | {"evidence": document["evidence"] | changes}


def parameters(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda document: document | {"parameters": document["parameters"] | changes}


def top(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda document: document | changes


SETS = {"rows": 9, "sampled": False, "sizes": [9], "classes": [9, 0]}
NAMES = [f"task {i}" for i in range(40)]
FORGERIES: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "another precision": ("MetaPS", top(precision="int8"), "precision"),
    "no numbers of the precision": ("MetaPS", top(precision="float32"), "float32"),
    "PS of another precision": ("PS", top(precision="float32"), "float32"),
    "another threshold": ("MetaPS", top(threshold=0.9), "threshold"),
    "a lower threshold": ("per class", top(thresholds=[0.0, 0.0]), "thresholds"),
    "tasks of one example": ("MetaPS", evidence(sizes=[1] * 40), "too few"),
    "sizes as text": ("MetaPS", evidence(sizes=["60"] * 40), "evidence"),
    "sizes as floats": ("MetaPS", evidence(sizes=[30.5] * 40), "evidence"),
    "a size is true": ("MetaPS", evidence(sizes=[True, *[30] * 39]), "too few|evidence"),
    "a size below 0": ("per class", evidence(sizes=[[-1, -1]] * 40), "sizes"),
    "a size beyond 10**9": ("MetaPS", evidence(sizes=[10**9 + 1] * 40), "sizes"),
    "a task twice": ("MetaPS", evidence(tasks=["a"] * 40), "more than once"),
    "a task twice in MetaCP": ("MetaCP", evidence(tasks=["a"] * 40), "more than once"),
    "tasks of two kinds": ("MetaPS", evidence(tasks=[1, *NAMES[1:]]), "type"),
    "thresholds as text": ("MetaPS", evidence(thresholds=[["5"] * 13] * 40), "evidence"),
    "huge thresholds": ("MetaPS", evidence(thresholds=[[10**400] * 13] * 40), "thresholds"),
    "falling thresholds": ("MetaPS", evidence(thresholds=[[*[0.5] * 12, 0.4]] * 40), "falls"),
    "outside the scores": ("MetaPS", evidence(lowest=[0.9]), "range"),
    "more evidence": ("MetaPS", evidence(weight=1), "evidence"),
    "fewer parameters": ("MetaPS", lambda d: d | {"parameters": {"epsilon": 0.2}}, "alpha"),
    "a foreign parameter": ("MetaPS", parameters(coverage=0.9), "coverage"),
    "another promise per class": ("MetaPS", parameters(per_class=True), "classes"),
    "a stricter level": ("MetaPS", parameters(epsilon=0.001), "too few"),
    "epsilon twice": (
        "per class", parameters(epsilon={"by_class": [["cat", 0.1], ["cat", 0.2]]}), "two values"
    ),
    "another kind": ("MetaPS", top(kind="MetaCP"), "alpha"),
    "schema true": ("MetaPS", top(schema=True), "schema True"),
    "no version": ("MetaPS", top(metapac=None), "version"),
    "columns of lists": ("MetaPS", top(columns={"task": []}), "task"),
    "one column twice": ("MetaPS", top(columns={"task": "a", "score": "a"}), "each meaning"),
    "other classes": ("per class", top(columns={"classes": ["dog", "cat"]}), "classes"),
    "trained on": ("MetaPS", top(context={"trained_on": ["task 3"]}), "share 1 task"),
    "more counts of sets": ("MetaPS", top(sets=SETS | {"more": 1}), "sets"),
    "counts of sets as text": ("MetaPS", top(sets={"rows": "9"}), "sets"),
    "too few for a threshold": ("PS", evidence(examples=5), "too few"),
    "a threshold of nan": ("PS", top(threshold="nan"), "threshold"),
    "quantiles of inf": ("MetaCP", evidence(quantiles=["inf"] * 40), "quantiles"),
    "too few for lambda": ("MetaCP", parameters(epsilon=0.001), "too few"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_refused_in_one_line(folder: Path, name: str) -> None:
    kind, change, message = FORGERIES[name]
    path = folder / "forgery.json"
    path.write_text(sign(change(json.loads((folder / f"{kind}.json").read_text()))))
    with pytest.raises(BadArtefact, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value).splitlines()) == 1


FORGED_SITES: dict[str, dict[str, Any]] = {
    "examples as text": {"examples": ["100"]},
    "examples are true": {"examples": [True]},
    "thresholds as text": {"thresholds": [["0.25"] * 13]},
    "a threshold is true": {"thresholds": [[False] * 12 + [0.25]]},
    "no model": {"model": None},
    "no range": {"range": []},
    "no columns": {"columns": None},
    "levels as text": {"levels": "0.1"},
    "classes of none": {"classes": []},
}


@pytest.mark.parametrize("name", FORGED_SITES)
def test_a_forged_site_is_refused(folder: Path, name: str) -> None:
    path = folder / "forged site.json"
    path.write_text(sign(json.loads((folder / "site.json").read_text()) | FORGED_SITES[name]))
    with pytest.raises(BadArtefact, match="forged site.json"):
        read_site(path)


FORGED_PILOTS: dict[str, dict[str, Any]] = {
    "no tasks": {"tasks": []},
    "a task twice": {"tasks": ["a", "a"]},
    "delta 2": {"delta": 2.0},
    "split 0.9": {"split": 0.9},
    "examples as text": {"examples": "9"},
    "examples below 0": {"examples": -1},
    "a share of 2": {"prevalence": [["cat", 2.0], ["dog", 0.5]]},
    "a class of null": {"prevalence": [[None, 0.5], ["dog", 0.5]]},
    "a cell of nothing": {"cells": [{}]},
}


@pytest.mark.parametrize("name", FORGED_PILOTS)
def test_a_forged_pilot_is_refused(folder: Path, name: str) -> None:
    path = folder / "forged pilot.json"
    document = json.loads((folder / "explored.json").read_text())
    path.write_text(sign(document | FORGED_PILOTS[name]))
    with pytest.raises(BadArtefact, match="forged pilot.json"):
        read_pilot(path)


def test_the_forger_changes_nothing_else(folder: Path) -> None:
    path = folder / "forgery.json"
    path.write_text(sign(json.loads((folder / "MetaPS.json").read_text()) | {"note": [1]}))
    assert decide(load(path)) == decide(load(folder / "MetaPS.json"))


@pytest.mark.parametrize(
    "content",
    [
        '{"format": ' + "[" * 100_000,
        '{"format": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"format": "metapac promise", "schema": 1, "schema": 1}',
        '{"format": "metapac promise", "schema": 1, "threshold": NaN}',
        '{"format": "metapac promise", "schema": 1, "threshold": 1e400}',
        '{"format": "metapac promise", "schema": 1, "threshold": ' + "9" * 5000 + "}",
        '{"format": {"a": []}}',
        "\x00" * 100,
    ],
)
def test_hostile_text_is_one_line_on_the_command_line(tmp_path: Path, content: str) -> None:
    path, table = tmp_path / "hostile.json", tmp_path / "table.csv"
    path.write_text(content)
    table.write_text("p_a,p_b\n0.5,0.5\n")
    for words in (["predict", path, table], ["combine", path, "-o", tmp_path / "out.json"]):
        result = CliRunner().invoke(app, [*map(str, words)])
        assert result.exit_code == 2
        assert "hostile.json" in result.output
        assert "Traceback" not in result.output
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("precision", ["int8", "bool", "S1", "float128"])
def test_one_site_cannot_change_how_sets_are_decided(tmp_path: Path, precision: str) -> None:
    for i in range(60):
        a_site(f"site {i}").save(tmp_path / f"{i}.json")
    forged = tmp_path / "7.json"
    forged.write_text(sign(json.loads(forged.read_text()) | {"precision": precision}))
    words = ["combine", *map(str, tmp_path.glob("*.json")), "-o", str(tmp_path / "out.json")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "7.json is not a valid metapac site file" in result.output
    with pytest.raises(InvalidInput, match="site 'a': precision must be float16, float32 or float"):
        Site("a", Guarantee(**LEVELS), (100,), ((0.25,) * 13,), np.dtype("int8"))


@pytest.mark.parametrize(
    "name",
    [
        None,
        5,
        "",
        " s1 ",
        "s1\n",
        "s\n1",
        "s\x001",
        "s\x1b1",
        "s\u20281",
        "\ufeffs1",
        "s1\u3000",
        [],
        True,
    ],
)
def test_a_site_has_a_proper_name(folder: Path, name: Any) -> None:
    path = folder / "nameless.json"
    path.write_text(sign(json.loads((folder / "site.json").read_text()) | {"site": name}))
    with pytest.raises(BadArtefact, match="name must be one line"):
        read_site(path)
    with pytest.raises(InvalidInput, match="name must be one line"):
        Site(name, Guarantee(**LEVELS), (100,), ((0.25,) * 13,), np.dtype("float64"))


def test_names_that_differ_in_case_or_blanks_are_one_site() -> None:
    sites = [a_site("ohio a"), a_site("OHIO  a")]
    with pytest.raises(InvalidInput, match="names of sites .*: 'ohio a' and 'OHIO  a'"):
        combine_sites(sites)
    combined = combine_sites(sites, on_infeasible="trivial", allow=["task-names"])
    assert len(combined.tasks_) == 2


@pytest.mark.parametrize("other", ["s1\u200b", "s\ufeff1", "\uff531", "s\u00ad1", "S1\u2060"])
def test_names_that_look_the_same_are_one_site(other: str) -> None:
    with pytest.raises(InvalidInput, match="names of sites differ only in .*: 's1' and"):
        combine_sites([a_site("s1"), a_site(other)])
    combined = combine_sites(
        [a_site("s1"), a_site(other)], on_infeasible="trivial", allow=["task-names"]
    )
    assert len(combined.tasks_) == 2


def test_a_threshold_is_a_score_of_the_stated_precision(folder: Path) -> None:
    path, document = folder / "rounded.json", json.loads((folder / "site.json").read_text())
    for precision, value in (("float16", 0.1), ("float32", 0.1), ("float16", 1e6)):
        rows = [[value] * 13]
        path.write_text(sign(document | {"precision": precision, "thresholds": rows}))
        message = f"thresholds holds {value!r}, which no {precision} score can be"
        with pytest.raises(BadArtefact, match=message):
            read_site(path)
        single = [[float(np.dtype(precision).type(0.1))] * 13]
        path.write_text(sign(document | {"precision": precision, "thresholds": single}))
        assert read_site(path).precision == precision


def test_nan_from_a_site_names_the_site() -> None:
    rows = ((*[0.25] * 12, math.nan),)
    with pytest.raises(InvalidInput, match="site 'ohio': thresholds holds 1 NaN out of 13"):
        Site("ohio", Guarantee(**LEVELS), (100,), rows, np.dtype("float64"))
