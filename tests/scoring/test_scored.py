"""Tables of scores: of pools, runs, weights, stored vectors and new examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from metapac import InvalidInput, fewshot
from metapac.fewshot import (
    ClassPool,
    GroupPool,
    PrototypeLearner,
    RidgeLearner,
    load_learner,
    score_examples,
)
from metapac.fewshot.options import Drawing, Embeddings, NewExamples, Run, Training
from metapac.fewshot.scored_tables import (
    Model,
    ScoredTable,
    leave_out_small,
    most_queries,
    score_embeddings,
    score_pool,
    score_run,
)
from metapac.fewshot.scoring import tabulate
from metapac.fewshot.training.checkpoints import weights_checksum
from metapac.fewshot.training.runs import train_run
from tests.helpers.refusals import assert_refused

RNG = np.random.default_rng(0)
CODES = np.repeat(np.arange(24), 12)
X = (1.5 * RNG.normal(size=(24, 4))[CODES] + RNG.normal(size=(288, 4))).astype(np.float32)
Y = np.array([f"class {i:02d}" for i in range(24)])[CODES]
# A task of three classes with two shots, in no particular order, and seven new examples.
SUPPORT, NEW = np.array([30, 1, 61, 25, 0, 60]), np.array([2, 3, 26, 27, 62, 63, 64])
SHORT = Training(epochs=1, episodes=4, batch=4, tasks=4)
TASKS = Drawing(tasks=6, ways=3, shots=2, queries=4)
SHAPE: Any = {"ways": 3, "shots": 2, "queries": 4, "rng": 0}


def train(folder: Path, training: Training = SHORT, arrays: Any = None, **options: Any) -> Path:
    np.savez(folder / "rows.npz", **(arrays or {"x": X, "y": Y}))
    train_run(str(folder / "rows.npz"), folder / "run", training, device="cpu", **options)
    return folder / "run"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("trained"), ways=3, shots=2)


def run(source: Path, tasks: Drawing = TASKS, new: Any = NewExamples(), **options: Any) -> Any:
    return score_run(source, tasks, Run(device="cpu", **options), new)


def assert_same_scores(found: ScoredTable, expected: Any) -> None:
    for name in ("task", "example", "label", "score", "classes"):
        np.testing.assert_array_equal(found.table[name], expected[name])
    np.testing.assert_array_equal(np.array(found.table["scores"]), np.array(expected["scores"]))


def score(pool: Any = None, **options: Any) -> ScoredTable:
    details = {"kind": "embeddings", "pool": "calibration"}
    model = Model(PrototypeLearner(), "prototypes", details, Drawing(**options))
    return score_pool(model, pool or ClassPool(X, Y, name="calibration"))


def test_tasks_of_a_pool_are_named_counted_and_recorded() -> None:
    table, provenance, _ = score(queries=4)
    facts = {"ways": 5, "shots": 5, "queries": 4, "tasks": 500, "rng": 0}
    assert facts.items() <= provenance.details.items()
    assert len(set(table["task"])) == 500
    rows = zip(table["scores"], table["classes"], strict=True)
    best = [names[np.argmax(row)] for row, names in rows]
    assert provenance.details["accuracy"] == np.mean(best == table["label"]) < 1
    table, provenance, _ = score(tasks=40, ways=range(2, 5), shots=[1, 5], queries=3)
    assert provenance.model == "prototypes, 2-4 ways, 1,5 shots"
    assert provenance.details["ways"] == [2, 3, 4]
    assert [len(row) for row in table["classes"]] == [len(row) for row in table["scores"]]
    names = [{*score(tasks=3, queries=4, rng=seed).table["task"].tolist()} for seed in (0, 1)]
    assert not names[0] & names[1]


def test_classes_that_are_too_small_are_left_out_and_recorded() -> None:
    pool = ClassPool(X[9:], Y[9:], name="calibration")  # class 00 has three examples
    with pytest.warns(UserWarning, match="class 00"):
        table, provenance, _ = score(pool, tasks=60, queries=4)
    assert (provenance.details["left_out"], provenance.details["units"]) == (["class 00"], 23)
    np.testing.assert_array_equal(Y[9:][table["example"]], table["label"])


def test_tasks_of_a_run_are_those_of_the_library(trained: Path) -> None:
    learner, loaded = load_learner(trained), fewshot.load_pools(trained)
    checksum = weights_checksum(learner)
    for name, pool in vars(loaded.pools).items():
        scored = run(trained, replace(TASKS, pool=None if name == "calibration" else name))
        assert_same_scores(scored, tabulate(learner, pool.tasks(6, **SHAPE)))
        facts = {"weights_checksum": checksum, "data_checksum": loaded.checksum, "pool": name}
        facts |= {"drawn_from": f"{len(pool.names)} classes", "kind": "run", "data": "rows.npz"}
        seen = len(loaded.pools.train.names) + len(loaded.pools.validation.names)
        facts |= {"training": f"{seen} other classes, as the run records"}
        assert facts.items() <= scored.provenance.details.items()
        assert scored.provenance.model == f"ProtoNet {checksum[7:19]}, 3 ways, 2 shots"
    _, provenance, notes = run(trained, Drawing(tasks=4, queries=2))
    assert provenance.model.endswith(", 3 ways, 2 shots")  # those of training
    assert len(notes) == 1


def test_weights_are_scored_on_any_data(trained: Path, tmp_path: Path) -> None:
    learner = load_learner(trained)
    fewshot.save_weights(learner, tmp_path / "w.safetensors")
    data = str(trained.parent / "rows.npz")
    scored = run(tmp_path / "w.safetensors", data=data)
    assert_same_scores(scored, tabulate(learner, ClassPool(X, Y, name="all").tasks(6, **SHAPE)))
    assert scored.provenance.model == run(trained).provenance.model
    halves = []
    for name in ("calibration", "test"):
        half = run(tmp_path / "w.safetensors", replace(TASKS, tasks=60, pool=name), data=data)
        halves.append({*half.table["label"].tolist()})
    assert (len(halves[0]), len(halves[1]), halves[0] & halves[1]) == (12, 12, set())
    assert_refused("data", run, tmp_path / "w.safetensors")
    assert_refused("pool", run, tmp_path / "w.safetensors", Drawing(pool="train"), data=data)


def test_the_data_of_a_run_may_move_but_not_change(trained: Path, tmp_path: Path) -> None:
    data, moved = trained.parent / "rows.npz", tmp_path / "moved.npz"
    data.rename(moved)
    try:
        assert len(run(trained, data=str(moved)).table["task"]) == 6 * 3 * 4
    finally:
        moved.rename(data)
    file = trained / "model.safetensors"
    before, learner = file.read_bytes(), load_learner(trained)
    try:
        next(learner.module.parameters()).data.add_(1e-7)
        fewshot.save_weights(learner, file)
        assert_refused("run.json", run, trained)
    finally:
        file.write_bytes(before)


def test_groups_of_a_run_and_a_new_group_have_the_labels_of_training(tmp_path: Path) -> None:
    arrays = {"x": X, "y": CODES % 3, "groups": np.arange(288) % 12}
    maml = Training(epochs=1, episodes=4, batch=4, tasks=4, learner="maml")
    folder = train(tmp_path, maml, arrays, shots=6, pools=[6, 2, 0, 4])
    table, provenance, _ = run(folder, Drawing(pool="test"))
    pools = fewshot.load_pools(folder).pools
    assert sorted(set(table["task"].tolist())) == pools.test.names
    assert provenance.details["trained_on"] == [*pools.train.names, *pools.validation.names]
    assert provenance.model.startswith("MAML ")
    assert_refused("pool 'calibration' train, validation, test", run, folder, Drawing())
    new = NewExamples(new=tmp_path / "new.npy", support=tmp_path / "labelled.npz")
    np.save(tmp_path / "new.npy", X[NEW])
    np.savez(tmp_path / "labelled.npz", x=X[SUPPORT], y=[0, 1, 0, 1, 0, 1])  # label 2 is absent
    table, provenance, _ = run(folder, Drawing(), new)
    assert table["classes"][0] == [0, 1, 2]
    assert provenance.model.endswith(", 6 shots")
    np.savez(tmp_path / "labelled.npz", x=X[SUPPORT], y=[0, 1, 0, 1, 0, 3])
    assert_refused("0 2 [0, 1, 3]", run, folder, Drawing(), new)


def test_new_examples_are_scored_as_by_the_adapted_learner(trained: Path, tmp_path: Path) -> None:
    new = NewExamples(new=tmp_path / "ward 7.npy", support=tmp_path / "labelled.npz")
    np.savez(tmp_path / "labelled.npz", x=X[SUPPORT], y=Y[SUPPORT])
    np.save(tmp_path / "ward 7.npy", X[NEW])
    names, codes = np.unique(Y[SUPPORT], return_inverse=True)
    drawing = Drawing(score="margin", ways=range(2, 5), shots=[1, 2])
    by_run = score_run(trained, drawing, Run(device="cpu"), new)
    options = Embeddings(learner="ridge", penalty=2.0)
    vectors = score_embeddings(tmp_path / "labelled.npz", drawing, options, new.new, model="clip")
    for scored, learner in ((by_run, load_learner(trained)), (vectors, RidgeLearner(2.0))):
        expected = score_examples(learner, X[SUPPORT], codes, X[NEW], score="margin")
        np.testing.assert_array_equal(np.array(scored.table["scores"]), expected)
        assert scored.table["classes"] == [names.tolist()] * 7
        assert {*scored.table["task"].tolist()} == {"ward 7"}
        assert not {"label", "score"} & {*scored.provenance.columns}
        assert scored.provenance.score == "margin"
        assert scored.provenance.model.endswith(", 2-4 ways, 1,2 shots")
    for wrong in ({"pool": "test"}, {"queries": 4}, {"rng": 1}):
        assert_refused(next(iter(wrong)), run, trained, Drawing(**wrong), new)
    assert_refused("new support", run, trained, Drawing(), NewExamples(support=new.support))
    for folder in (replace(new, new=tmp_path), replace(new, support=tmp_path)):
        assert_refused("folder", run, trained, Drawing(), folder)
    wide = np.zeros((3, 5))
    for name, arrays, words in (
        ("x.npz", {"x": X}, "x.npz y"),
        ("wide.npz", {"x": wide, "y": np.zeros(3, int)}, "wide.npz"),
    ):
        np.savez(tmp_path / name, **arrays)
        assert_refused(words, run, trained, Drawing(), replace(new, support=tmp_path / name))
    np.save(tmp_path / "wide.npy", wide)
    shapes = "wide.npy (4,) (5,)"
    assert_refused(shapes, run, trained, Drawing(), replace(new, new=tmp_path / "wide.npy"))


def paint(path: Path, colour: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (20, 24), colour).save(path)


def test_folders_of_images_are_read_as_in_training(tmp_path: Path) -> None:
    for i in range(32):
        paint(tmp_path / "birds" / f"bird {i // 4}" / f"{i % 4}.png", 30 * (i // 4) + i % 4)
    size: Any = {"ways": 2, "shots": 2, "queries": 2, "image_size": 16, "device": "cpu"}
    train_run(str(tmp_path / "birds"), tmp_path / "run", SHORT, **size)
    drawn = {"labelled/owl": (10, 11), "labelled/jay": (200, 201), "new": (202, 12)}
    for name, colours in drawn.items():
        for i, colour in enumerate(colours):
            paint(tmp_path / name / f"{i}.png", colour)
    new = NewExamples(new=tmp_path / "new", support=tmp_path / "labelled")
    table, _, _ = run(tmp_path / "run", Drawing(), new)
    assert (table["example"].tolist(), table["classes"][0]) == (["0.png", "1.png"], ["jay", "owl"])
    grey = np.array([200, 201, 10, 11, 202, 12], np.uint8)  # labelled, then new
    x = np.broadcast_to(grey[:, None, None, None], (6, 16, 16, 3))
    expected = score_examples(load_learner(tmp_path / "run"), x[:4], [0, 0, 1, 1], x[4:])
    np.testing.assert_array_equal(np.array(table["scores"]), expected)
    no_images = replace(new, new=tmp_path / "labelled")
    assert_refused("images", run, tmp_path / "run", Drawing(), no_images)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    np.savez(tmp_path / "x.npz", x=X, y=Y)
    return tmp_path / "x.npz"


def test_options_of_vectors_reach_the_learner(file: Path, tmp_path: Path) -> None:
    cosine: Any = {"metric": "cosine", "temperature": 0.1}
    expected = tabulate(PrototypeLearner(**cosine), ClassPool(X, Y, name="all").tasks(6, **SHAPE))
    assert_same_scores(score_embeddings(file, TASKS, Embeddings(**cosine)), expected)
    assert_refused("groups", score_embeddings, file, TASKS, Embeddings(groups="g.npy"), file)
    np.savez(tmp_path / "one.npz", x=X, y=CODES * 0)
    assert_refused("pool='test'", score_embeddings, tmp_path / "one.npz", Drawing(pool="test"))


def test_halves_share_no_class_and_do_not_depend_on_the_seed(file: Path) -> None:
    for is_fitted, sizes in ((False, [12, 12, 24]), (True, [8, 12, 20])):
        found: dict[str, set[str]] = {}
        models = set()
        for pool in ("calibration", "test", "all"):
            for seed in (0, 7):
                drawing = replace(TASKS, tasks=80, pool=pool, rng=seed)
                options = Embeddings(fit_temperature=is_fitted)
                table, provenance, notes = score_embeddings(file, drawing, options)
                labels = table["label"].tolist()
                assert Y[table["example"]].tolist() == labels  # rows of the file
                assert found.setdefault(pool, {*labels}) == {*labels}
                models.add(provenance.model)
        assert [len(classes) for classes in found.values()] == sizes
        assert found["calibration"] | found["test"] == found["all"]
    assert any("fitted on 4 classes" in note for note in notes)
    rest = ~np.isin(Y, [*found["all"]])
    tasks = ClassPool(X[rest], Y[rest]).tasks(200, **SHAPE)
    temperature = float(f"{fewshot.fit_temperature(PrototypeLearner(), tasks).temperature:.3g}")
    (model,) = models
    assert f"temperature {temperature})" in model


# Classes that are too small for a task


def sized(sizes: list[int]) -> ClassPool:
    y = np.repeat([f"class {i}" for i in range(len(sizes))], sizes)
    return ClassPool(np.arange(len(y)), y, name="calibration")


def few(**more: Any) -> dict[str, Any]:
    return {"ways": 2, "shots": 3, "queries": 5, **more}


def test_small_classes_are_left_out_and_positions_kept() -> None:
    whole = sized([9, 7, 8, 1])
    assert leave_out_small(whole, few(shots=0, queries=1)) == (whole, [])
    with pytest.warns(UserWarning, match="2 classes .* than 8 .* 'class 1' with 7, 'class 3' with"):
        large, left_out = leave_out_small(whole, few())
    assert (left_out, large.names) == (["class 1", "class 3"], ["class 0", "class 2"])
    assert whole.names == [f"class {i}" for i in range(4)]
    for task in large.tasks(20, **few(), rng=0):
        for label, name in enumerate(task.class_names or ()):
            drawn = task.query[task.query_y == label]
            assert {*whole.y[drawn]} == {name}
            np.testing.assert_array_equal(task.x[drawn], drawn)
    with pytest.warns(UserWarning, match="fewer than 10 examples, .*: 'class 1' with 9"):
        leave_out_small(sized([10, 9, 10]), few(shots=[1, 4], queries=range(2, 7)))
    groups = np.repeat([*"abc"], [4, 3, 9])
    sites = GroupPool(np.zeros(16), np.zeros(16, int), groups, name="test")
    with pytest.warns(UserWarning, match="left out 1 group of test .* 4 examples, .*: 'b' with 3"):
        large, _ = leave_out_small(sites, {"shots": 3, "queries": None})
    assert [task.name for task in large.tasks(shots=3, rng=0)] == ["a", "c"]
    with pytest.raises(InvalidInput, match=r"1 group .* 10 examples, got 0 in test. Lower shots"):
        leave_out_small(sites, {"shots": 9, "queries": None})


def test_too_few_large_classes_are_refused_with_a_remedy() -> None:
    for sizes, ways, message in (
        ([9, 6, 4], 2, r"= 8 examples, got 1 in calibration\. Pass queries=3 or fewer\."),
        ([9, 3, 2], 2, r"got 1 in calibration\. Lower shots\."),
        ([9, 9, 1], 3, r"got 2 in calibration\. Pass ways=2 or fewer\."),
    ):
        with pytest.raises(InvalidInput, match=message):
            leave_out_small(sized(sizes), few(ways=ways))
    with pytest.raises(InvalidInput, match="Take fewer unlabelled ones"):
        leave_out_small(sized([9, 9]), few(ways=2, unlabelled=40))


@given(st.lists(st.integers(1, 12), min_size=2, max_size=8), st.integers(1, 5))
def test_the_remedy_is_the_largest_that_works(sizes: list[int], shots: int) -> None:
    most = most_queries(sized(sizes), 2, shots)
    for queries in range(1, 12):
        enough = sum(size >= shots + queries for size in sizes) >= 2
        assert enough == (queries <= most)
