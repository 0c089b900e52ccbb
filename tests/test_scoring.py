"""From learner and tasks to scores that calibrate, and to the file that keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from metapac import BadArtefact, MetaPS
from metapac.learners import FixedModel, ProtoNet, SklearnLearner
from metapac.scoring import Stored, read_stored, score_tasks, store
from metapac.tasks import ClassPool, GroupPool, Task

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(12, 6)) * 2
Y = np.repeat(np.arange(12), 40)
X = (CENTRES[Y] + RNG.normal(size=(480, 6))).astype(np.float32)


def episodes(count: int = 10) -> Any:
    return ClassPool(X, Y).tasks(count, ways=3, shots=4, queries=20, rng=1)


def protonet() -> ProtoNet:
    torch.manual_seed(0)
    return ProtoNet(torch.nn.Linear(6, 5))


def test_both_paths_give_the_same_scores() -> None:
    class Plain:
        """A ProtoNet that hides its bank."""

        def adapt(self, x: Any, y: Any, *, classes: int | None = None) -> Any:
            return protonet().adapt(x, y, classes=classes)

    fast, tasks = score_tasks(protonet(), episodes())
    slow, same = score_tasks(Plain(), episodes())
    np.testing.assert_allclose(fast, slow, atol=1e-5)
    assert tasks.tolist() == same.tolist()
    assert len(set(tasks.tolist())) == 10
    assert [int((tasks == name).sum()) for name in dict.fromkeys(tasks.tolist())] == [60] * 10


def test_each_example_is_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    learner = protonet()
    embed = learner.embed
    monkeypatch.setattr(learner, "embed", lambda x: seen.append(len(x)) or embed(x))  # type: ignore[func-returns-value]
    score_tasks(learner, episodes(30))
    assert seen == [480]


def test_scores_are_those_of_the_true_label() -> None:
    table = np.arange(480 * 3, dtype=float).reshape(480, 3)
    fixed = FixedModel(lambda x: x)
    task = Task.of(table[:2], [0, 1], table[2:6], [2, 0, 1, 1], name="a", classes=3)
    scores, tasks = score_tasks(fixed, [task])
    assert scores.tolist() == [table[2, 2], table[3, 0], table[4, 1], table[5, 1]]
    assert tasks.tolist() == ["a"] * 4


def test_the_whole_line_without_torch() -> None:
    groups = np.array([f"site {i % 20}" for i in range(480)])
    tasks = GroupPool(X, Y % 2, groups).tasks(shots=8, rng=0)
    scores, names = score_tasks(SklearnLearner(LogisticRegression()), tasks)
    promise = MetaPS(epsilon=0.4, alpha=0.4, delta=0.1).calibrate(scores, names)
    assert sorted(promise.tasks_.tolist()) == sorted(set(groups.tolist()))
    assert set(promise.task_sizes_) == {16}


def test_a_group_drawn_twice_is_two_tasks() -> None:
    groups = np.array(["north", "south"])[np.arange(480) % 2]
    tasks = GroupPool(X, Y % 2, groups).tasks(5, shots=8, queries=10, rng=0)
    names = score_tasks(protonet(), tasks)[1]
    assert len(set(names.tolist())) == 5
    assert all(name.split("#")[0] in ("north", "south") for name in names)


def test_pools_may_alternate() -> None:
    first, second = ClassPool(X, Y, name="a"), ClassPool(X[::-1].copy(), Y[::-1], name="b")
    options: dict[str, Any] = {"ways": 3, "shots": 4, "queries": 20, "rng": 1}
    pairs = zip(first.tasks(3, **options), second.tasks(3, **options), strict=True)
    mixed = [task for pair in pairs for task in pair]
    scores, names = score_tasks(protonet(), mixed)
    for task in mixed:
        alone, _ = score_tasks(protonet(), [task])
        np.testing.assert_allclose(scores[names == task.name], alone, atol=1e-6)


def test_store_keeps_scores_and_where_they_come_from(tmp_path: Path) -> None:
    stored = store(tmp_path / "scores.safetensors", protonet(), episodes(), rng=1)
    found = read_stored(tmp_path / "scores.safetensors")
    assert found.scores is not None
    assert found.embeddings is not None
    np.testing.assert_array_equal(found.scores, stored.scores)
    assert found.embeddings.shape == (480, 5)
    assert found.provenance["rng"] == 1
    assert found.provenance["learner"]["class"] == "ProtoNet"
    with pytest.raises(ValueError, match="tasks and scores must have the same length"):
        Stored(scores=np.zeros(3), tasks=np.zeros(2))


def test_what_was_stored_comes_back(tmp_path: Path) -> None:
    scores, tasks = score_tasks(protonet(), episodes())
    stored = Stored(
        embeddings=protonet().embed(X).numpy(),
        labels=Y,
        scores=scores,
        tasks=tasks,
        provenance={"learner": "ProtoNet", "rng": 1},
    )
    stored.save(tmp_path / "scores.safetensors")
    found = read_stored(tmp_path / "scores.safetensors")
    for name in ("embeddings", "labels", "scores", "tasks"):
        np.testing.assert_array_equal(getattr(found, name), getattr(stored, name))
    assert found.provenance == {"learner": "ProtoNet", "rng": 1}
    Stored(scores=scores).save(tmp_path / "scores.safetensors")
    assert read_stored(tmp_path / "scores.safetensors").embeddings is None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[: len(raw) // 2], "is not a file of metapac scores, or not complete"),
        (lambda raw: raw[:-4] + b"\x00\x00\x00\x01", "was edited or damaged: its checksums do"),
        (lambda raw: raw.replace(b'\\"a\\"', b'\\"z\\"'), "was edited or damaged"),
        (lambda raw: raw.replace(b'\\"rng\\": 0', b'\\"rng\\": 7'), "was edited or damaged"),
        (lambda raw: raw.replace(b"metapac scores", b"another format"), "has format 'another for"),
        (lambda raw: raw.replace(b'schema\\": 1', b'schema\\": 9'), "schema 9; metapac .* Upgrade"),
        (lambda raw: b"", "is not a file of metapac scores"),
        (lambda raw: json.dumps({}).encode(), "is not a file of metapac scores"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: Any, message: str) -> None:
    path = tmp_path / "scores.safetensors"
    tasks = np.repeat(["a", "b"], 25)
    Stored(scores=np.linspace(0, 1, 50), tasks=tasks, provenance={"rng": 0}).save(path)
    before = path.read_bytes()
    path.write_bytes(damage(before))
    assert path.read_bytes() != before
    with pytest.raises(BadArtefact, match=message):
        read_stored(path)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="tasks is empty; pass at least one task"):
        score_tasks(protonet(), [])
    twice = [Task.of(X[:3], [0, 1, 2], X[3:5], [0, 1], name="ohio")] * 2
    mixed = [Task.of(X[:3], [0, 1, 2], X[3:5], [0, 1], name=name) for name in (1, "1")]
    with pytest.raises(ValueError, match="tasks must hold ids of one type"):
        score_tasks(protonet(), mixed)
    with pytest.raises(ValueError, match="tasks holds 'ohio' more than once, and a task counts o"):
        score_tasks(protonet(), twice)

    class Narrow:
        def adapt(self, x: Any, y: Any, *, classes: int | None = None) -> Any:
            return self

        def predict_proba(self, x: Any) -> Any:
            return np.ones((len(x), 2))

    with pytest.raises(
        ValueError, match=r"predict_proba must return shape \(60, 3\) on task 'pool"
    ):
        score_tasks(Narrow(), episodes(1))
