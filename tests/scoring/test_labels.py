"""Tables of the scores of all labels agree with those of the true labels, and with slow loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from metapac import InvalidInput
from metapac.fewshot import (
    MLP,
    CallableLearner,
    ClassPool,
    GroupPool,
    ProtoNet,
    PrototypeLearner,
    SklearnLearner,
    Task,
    score_tasks,
)
from metapac.fewshot.scoring import tabulate

RNG = np.random.default_rng(0)
NAMES = np.array([f"class {i}" for i in range(12)])
Y = np.repeat(np.arange(12), 20)
X = (2 * RNG.normal(size=(12, 5))[Y] + RNG.normal(size=(240, 5))).astype(np.float32)
LEARNERS: dict[str, Any] = {
    "protonet": lambda: ProtoNet(MLP(5, width=8, rng=0)),
    "prototypes": PrototypeLearner,
    "scikit-learn": lambda: SklearnLearner(LogisticRegression()),
}


def classes(count: int = 4, ways: Any = 3) -> Any:
    return ClassPool(X, NAMES[Y]).tasks(count, ways=ways, shots=4, queries=6, rng=1)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("score", ["probability", "margin", "cumulative", "log_probability"])
def test_the_table_agrees_with_a_slow_loop(learner: str, score: str) -> None:
    torch.manual_seed(0)
    model, tasks = LEARNERS[learner](), classes(ways=[2, 3, 4])
    table = tabulate(model, tasks, score=score)
    true, ids = score_tasks(model, tasks, score=score)
    np.testing.assert_array_equal(table["score"], true)
    assert table["task"].tolist() == ids.tolist()
    row = 0
    for task in tasks:
        p = np.asarray(
            model.adapt(task.support_x, task.support_y, classes=task.classes).predict_proba(
                task.query_x
            ),
            dtype=np.float64,
        )
        for query, label in enumerate(task.query_y):
            position = task.query[query]
            assert table["example"][row] == position
            assert table["label"][row] == NAMES[Y[position]]
            assert table["classes"][row][label] == table["label"][row]
            others = [max(np.delete(p[query], c)) for c in range(task.classes)]
            expected = {
                "probability": p[query],
                "log_probability": np.log(p[query]),
                "margin": p[query] - others,
                "cumulative": [sum(q for q in p[query] if q <= own) for own in p[query]],
            }[score]
            np.testing.assert_allclose(table["scores"][row], expected, rtol=1e-3, atol=1e-4)
            assert table["score"][row] <= table["scores"][row][label]
            row += 1
    assert row == len(true)


def test_labels_of_groups_are_numbers_that_mean_the_same() -> None:
    groups = GroupPool(X, Y % 3, np.arange(240) % 4)
    table = tabulate(PrototypeLearner(), groups.tasks(shots=20, rng=0))
    assert "classes" not in table
    assert table["label"].tolist() == (Y % 3)[table["example"]].tolist()
    assert {len(row) for row in table["scores"]} == {3}


def test_a_pool_is_embedded_once() -> None:
    built = []

    class Counting(PrototypeLearner):
        def bank(self, x: Any) -> Any:
            built.append(x)
            return super().bank(x)

    tabulate(Counting(), classes())
    assert len(built) == 1
    assert built[0] is X


def test_progress_is_reported_for_both_passes() -> None:
    calls: list[tuple[str, int, int | None]] = []
    tabulate(PrototypeLearner(), classes(3), progress=lambda *call: calls.append(call))
    assert calls[0] == ("scoring tasks", 3, 3)
    assert calls[1:] == [("scoring all labels", done, 3) for done in (1, 2, 3)]


def test_tasks_all_name_their_classes_or_none_does() -> None:
    learner = CallableLearner(lambda support_x, support_y, x: [[0.9, 0.1]] * len(x))
    plain = Task.from_arrays([[0.0], [1.0]], [0, 1], [[0.2]], [0], name="plain")
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    named = Task(**fields | {"name": "named", "class_names": ("cat", "owl")})
    with pytest.raises(InvalidInput, match="tasks must all have class_names, or none of them"):
        tabulate(learner, [plain, named])
    assert tabulate(learner, [named])["label"].tolist() == ["cat"]
