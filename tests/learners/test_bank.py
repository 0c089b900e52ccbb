"""Scores from stored embeddings against those of adapting to each task."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import InvalidInput
from metapac.fewshot import ClassPool
from metapac.fewshot.learners import protonet
from metapac.fewshot.learners.protonet import (
    ProtoNet,
    PrototypeBank,
    PrototypeScorer,
    gram_logits,
    gram_matrix,
    leave_one_out_probabilities,
    prototype_logits,
    worst_case_logits,
    worst_case_scores,
)
from metapac.fewshot.tasks import Task, batches


def random_task(rng: np.random.Generator, x: Any, support: int, query: int, classes: int) -> Task:
    order = rng.permutation(len(x))[: support + query]
    return Task(
        name=int(rng.integers(10**9)),
        x=x,
        support=order[:support],
        support_y=rng.integers(classes, size=support),
        query=order[support:],
        query_y=rng.integers(classes, size=query),
        classes=classes,
    )


def slow_scores(z: torch.Tensor, task: Task) -> Any:
    """One query and one label at a time, in double precision."""
    wide = z.double().numpy()
    scores = []
    for position, label in zip(task.query, task.query_y, strict=True):
        logits = []
        for c in range(task.classes):
            members = [s for s, y in zip(task.support, task.support_y, strict=True) if y == c]
            prototype = np.mean([wide[s] for s in members], axis=0) if members else None
            distance = np.inf if prototype is None else ((wide[position] - prototype) ** 2).sum()
            logits.append(-distance)
        weights = np.exp(np.array(logits) - max(logits))
        scores.append(weights[label] / weights.sum())
    return np.array(scores)


@settings(max_examples=60)
@given(
    rng=st.integers(0, 10**6),
    support=st.integers(1, 12),
    query=st.integers(1, 12),
    classes=st.integers(1, 5),
    offset=st.sampled_from([0.0, 50.0]),
    memory=st.sampled_from([2**32, 2**10]),
)
def test_scores_equal_the_slow_reference(
    rng: int, support: int, query: int, classes: int, offset: float, memory: int
) -> None:
    # Unequal shots, labels absent from the support, and far from the origin; a small memory
    # leaves no room for the Gram matrix and one task at a time.
    generator = np.random.default_rng(rng)
    z = torch.from_numpy(generator.normal(size=(40, 7)) + offset).float()
    tasks = [random_task(generator, z, support, query, classes) for _ in range(3)]
    bank = PrototypeBank(z, memory=memory)
    assert (bank.gram is None) == (memory == 2**10)
    expected = np.concatenate([slow_scores(z, task) for task in tasks])
    actual = np.concatenate([true_scores(bank, task) for task in tasks])
    np.testing.assert_allclose(actual, expected, rtol=1e-7, atol=1e-37)
    assert (bank.scores(tasks) <= expected).all()
    # Lengths up to 140 are rounded to 140 * 2**-19, and distances are a few units.
    np.testing.assert_allclose(bank.scores(tasks), expected, atol=1e-2 if offset else 1e-3)


def true_scores(bank: PrototypeBank, task: Task) -> Any:
    return bank.predict_proba(task)[np.arange(len(task.query)), task.query_y]


# Repeated here, so that the test fails if the library assumes less.
EMBEDDING_ERROR = 2.0**-19


def perturb(z: torch.Tensor, query: int, near: list[int], far: list[int]) -> torch.Tensor:
    """Return embeddings with the largest assumed error, in the worst directions for ``near``.

    The query moves from the prototype of ``near``, the mean of those rows, towards that of
    ``far``. The prototype of ``near`` moves away from the query, and that of ``far`` towards it.
    """
    wide = z.double()
    line = unit(wide[far].mean(0) - wide[near].mean(0))
    worse, lengths = wide.clone(), 0.98 * EMBEDDING_ERROR * wide.norm(dim=1, keepdim=True)
    worse[query] += lengths[query] * line
    worse[near] -= lengths[near] * unit(wide[query] - wide[near].mean(0))
    worse[far] += lengths[far] * unit(wide[query] - wide[far].mean(0))
    return worse.float()  # rounds by less than the remaining 2 %


def unit(vector: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vector, dim=0, eps=1e-300)


@settings(max_examples=200)
@given(
    rng=st.integers(0, 10**6),
    width=st.sampled_from([1, 2, 5, 64]),
    scale=st.sampled_from([1e-3, 1.0, 4.0, 1e3]),
    offset=st.sampled_from([0.0, 1.0, 1e4]),
    spread=st.sampled_from([0.0, 0.1, 1.0]),
    memory=st.sampled_from([2**32, 0]),
)
def test_no_rounding_of_embeddings_falls_below_the_scores(
    rng: int, width: int, scale: float, offset: float, spread: float, memory: int
) -> None:
    # Two labels, one query, and the worst rounding of embeddings that is assumed to be possible.
    generator = np.random.default_rng(rng)
    centres = generator.normal(size=(2, width)) / np.sqrt(width)
    rows = centres[[0, 0, 0, 1, 1, 0]] + spread * generator.normal(size=(6, width)) / np.sqrt(width)
    z = torch.from_numpy(scale * rows + offset).float()
    query, labels, truth = np.array([5]), np.array([0, 0, 0, 1, 1]), np.array([0])
    task = Task(0, z, np.arange(5), labels, query, truth, 2)
    calibrated = PrototypeBank(z, memory=memory).scores([task])
    worse = perturb(z, 5, [0, 1, 2], [3, 4])
    learner: Any = SimpleNamespace(embed=lambda x: x)
    scorer = PrototypeScorer(learner, worse[:5], torch.from_numpy(labels), 2)
    assert calibrated[0] <= scorer.predict_proba(worse[5:])[0, 0]


def slow_leave_one_out(z: torch.Tensor, task: Task) -> Any:
    """A task of one query for each support example, adapted to all the others."""
    scores = []
    for i, label in enumerate(task.support_y):
        others = np.arange(len(task.support)) != i
        if label not in task.support_y[others]:
            scores.append(0.0)
            continue
        left = Task(
            name=i,
            x=z,
            support=task.support[others],
            support_y=task.support_y[others],
            query=task.support[i : i + 1],
            query_y=task.support_y[i : i + 1],
            classes=task.classes,
        )
        scores.extend(slow_scores(z, left))
    return np.array(scores)


@settings(max_examples=60)
@given(
    rng=st.integers(0, 10**6),
    support=st.integers(1, 12),
    classes=st.integers(1, 6),
    offset=st.sampled_from([0.0, 50.0]),
    memory=st.sampled_from([2**32, 2**10]),
)
def test_leaving_one_out_equals_the_slow_reference(
    rng: int, support: int, classes: int, offset: float, memory: int
) -> None:
    # Labels absent from the support, single examples of a label, and a support of one example.
    generator = np.random.default_rng(rng)
    z = torch.from_numpy(generator.normal(size=(40, 7)) + offset).float()
    tasks = [random_task(generator, z, support, 2 + i, classes) for i in range(3)]
    actual = PrototypeBank(z, memory=memory).leave_one_out(tasks)
    assert actual.shape == (3, support)
    expected = np.stack([slow_leave_one_out(z, task) for task in tasks])
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    np.testing.assert_array_equal(actual[expected == 0.0], 0.0)


def test_leaving_one_out_of_far_apart_classes_loses_no_digits() -> None:
    rng = np.random.default_rng(7)
    far = np.repeat(rng.normal(size=(2, 64)), 200, axis=0) * 100
    z = torch.from_numpy(far + 0.2 * rng.normal(size=(400, 64))).float()
    tasks = [random_task(rng, z, 20, 1, 4) for _ in range(5)]
    expected = np.stack([slow_leave_one_out(z, task) for task in tasks])
    np.testing.assert_allclose(PrototypeBank(z).leave_one_out(tasks), expected, atol=1e-5)


def test_large_equal_distances_give_equal_probabilities() -> None:
    # When left out, an example is 4/3 as far from its prototype: here as far as from the other.
    logits = torch.tensor([-9.0, -16.0], dtype=torch.float64).view(1, 2, 1).expand(1, 2, 4) * 1e5
    actual = leave_one_out_probabilities(logits, torch.zeros(1, 4, dtype=torch.int64))
    np.testing.assert_allclose(actual.numpy(), 0.5, atol=1e-5)


def test_leaving_one_out_does_not_depend_on_the_other_tasks() -> None:
    rng = np.random.default_rng(8)
    z = torch.from_numpy(rng.normal(size=(60, 5))).float()
    tasks = [random_task(rng, z, 6, query, classes) for query, classes in ((9, 3), (9, 3), (0, 2))]
    together = PrototypeBank(z).leave_one_out(tasks)
    apart = np.concatenate([PrototypeBank(z).leave_one_out([task]) for task in tasks])
    # The number of queries does not matter: these tasks are scored together.
    more = random_task(rng, z, 6, 20, 3)
    (batch,) = PrototypeBank(z)._batches([*tasks[:2], more], "support")
    assert batch.names == [task.name for task in (*tasks[:2], more)]
    np.testing.assert_array_equal(together, apart)


def test_leaving_one_out_needs_supports_of_one_size() -> None:
    rng = np.random.default_rng(9)
    z = torch.from_numpy(rng.normal(size=(60, 5))).float()
    bank = PrototypeBank(z)
    with pytest.raises(ValueError, match="support sets of one size, got sizes 4 and 6"):
        bank.leave_one_out([random_task(rng, z, size, 2, 3) for size in (6, 4)])
    with pytest.raises(ValueError, match="got no task. Pass the tasks of each size in a separate"):
        bank.leave_one_out([])
    with pytest.raises(ValueError, match="belongs to another pool"):
        bank.leave_one_out([random_task(rng, z[:50], 6, 2, 3)])


def test_tasks_of_different_shapes_keep_their_order() -> None:
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.normal(size=(60, 5))).float()
    shapes = [(5, 9, 3), (5, 9, 3), (2, 4, 2), (7, 1, 4), (5, 9, 3)]
    tasks = [random_task(rng, z, *shape) for shape in shapes]
    together = PrototypeBank(z).scores(tasks)
    apart = np.concatenate([PrototypeBank(z).scores([task]) for task in tasks])
    np.testing.assert_array_equal(together, apart)
    first = PrototypeBank(z).predict_proba(tasks[0])
    np.testing.assert_allclose(first.sum(1), 1, atol=1e-6)
    assert (together[:9] <= true_scores(PrototypeBank(z), tasks[0])).all()


def test_the_gram_path_agrees_with_direct_distances_at_full_size() -> None:
    # As wide as Conv4's embedding of 84 x 84, with distances of a trained network's size.
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(20, 1600)) * 0.15
    z = torch.from_numpy(np.repeat(centres, 30, axis=0) + 0.15 * rng.normal(size=(600, 1600)))
    z = z.float()
    support = torch.from_numpy(rng.integers(600, size=(4, 25)))
    labels = torch.arange(5).repeat_interleave(5).repeat(4, 1)
    query = torch.from_numpy(rng.integers(600, size=(4, 100)))
    direct = prototype_logits(z[support].double(), labels, z[query].double(), 5)
    actual = gram_logits(gram_matrix(z), support, labels, query, 5).mT
    assert float((direct - actual).abs().max()) < 1e-11


@settings(max_examples=40)
@given(rng=st.integers(0, 10**6), shots=st.integers(1, 4), memory=st.sampled_from([2**32, 0]))
def test_tasks_in_arrays_are_scored_like_tasks_one_by_one(
    rng: int, shots: int, memory: int
) -> None:
    z = torch.from_numpy(np.random.default_rng(rng).normal(size=(60, 7))).float()
    pool = ClassPool(z, np.arange(60) % 5)
    bank, tasks = (
        PrototypeBank(z, z, memory=memory),
        pool.tasks(4, ways=3, shots=shots, queries=5, rng=rng),
    )
    batch = tasks.draw()
    close: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-37}
    alone = np.concatenate([bank.scores([task]) for task in tasks])
    np.testing.assert_allclose(bank.scores(batch), alone, **close)
    tables = bank.predict_tasks(batch)
    assert [table.shape for table in tables] == [(15, 3)] * 4
    for table, task in zip(tables, tasks, strict=True):
        np.testing.assert_allclose(table, bank.predict_proba(task), **close)
    left_out = np.concatenate([bank.leave_one_out([task]) for task in tasks])
    np.testing.assert_allclose(bank.leave_one_out(batch), left_out, **close)
    for (logits, error), task in zip(bank.bounded_logits(batch), tasks, strict=True):
        ((expected, bound),) = bank.bounded_logits([task])
        np.testing.assert_allclose(logits, expected, rtol=1e-9)
        np.testing.assert_allclose(error, bound, rtol=1e-9)


@pytest.mark.parametrize("memory", [2**32, 0])
def test_no_tasks_have_no_scores(memory: int) -> None:
    z = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 7))).float()
    bank = PrototypeBank(z, z, memory=memory)
    batch = ClassPool(z, np.arange(60) % 5).tasks(4, ways=3, shots=2, queries=5, rng=0).draw()
    for none in ([], batch[:0]):
        assert bank.scores(none).shape == (0,)
        assert bank.scores(none).dtype == bank.scores(batch).dtype
        assert bank.predict_tasks(none) == bank.bounded_logits(none) == []
        with pytest.raises(InvalidInput, match="one size, got no task"):
            bank.leave_one_out(none)


def test_few_columns_are_looked_up_and_give_the_same_bits() -> None:
    rng = np.random.default_rng(3)
    gram = gram_matrix(torch.from_numpy(rng.normal(size=(400, 9))).float())
    support, query = (torch.from_numpy(rng.integers(400, size=(6, n))) for n in (7, 20))
    labels = torch.from_numpy(rng.integers(4, size=(6, 7)))  # some are absent
    arguments = gram, support, labels, query, 4
    logits = []
    for few in (0, 4, 10**9):
        with mock.patch.object(protonet, "_FEW", few):
            logits.append(gram_logits(*arguments))
    assert logits[0].isinf().any()
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


def test_scores_are_rounded_down_as_those_of_an_adapted_learner() -> None:
    rng = np.random.default_rng(4)
    z = torch.from_numpy(5 * rng.normal(size=(60, 7))).float()
    task, bank = random_task(rng, z, 8, 40, 4), PrototypeBank(z)
    rows, true = bank._rows(*batches([task], print)), torch.from_numpy(task.query_y)[None]
    worst = worst_case_logits(bank._logits(rows, 4), true, bank._distance_error(rows))
    expected = worst_case_scores(worst, true)
    assert (expected == 0).any()
    np.testing.assert_array_equal(bank.scores([task]), expected)


@pytest.mark.needs_gpu
def test_the_gpu_gives_the_same_numbers() -> None:
    rng = np.random.default_rng(2)
    z = torch.from_numpy(rng.normal(size=(300, 64))).float()
    tasks = [random_task(rng, z, 25, 50, 5) for _ in range(20)]
    on_cpu = PrototypeBank(z).scores(tasks)
    deployed = np.concatenate([true_scores(PrototypeBank(z), task) for task in tasks])
    for memory in (2**32, 2**18):
        on_gpu = PrototypeBank(z.cuda(), memory=memory).scores(tasks)
        np.testing.assert_allclose(on_gpu, on_cpu, atol=1e-5)
        assert (on_gpu <= deployed).all()
        left_out = PrototypeBank(z.cuda(), memory=memory).leave_one_out(tasks)
        np.testing.assert_allclose(left_out, PrototypeBank(z).leave_one_out(tasks), atol=1e-5)
        tables = PrototypeBank(z.cuda(), memory=memory).predict_tasks(tasks)
        for table, expected in zip(tables, PrototypeBank(z).predict_tasks(tasks), strict=True):
            np.testing.assert_allclose(table, expected, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
def test_far_apart_classes_lose_no_digits(scale: float) -> None:
    rng = np.random.default_rng(5)
    far = np.repeat(rng.normal(size=(2, 64)), 200, axis=0) * scale
    z = torch.from_numpy(far + 0.2 * rng.normal(size=(400, 64))).float()
    task = random_task(rng, z, 20, 60, 4)
    plain = slow_scores(z, task)
    np.testing.assert_allclose(true_scores(PrototypeBank(z), task), plain, rtol=1e-7, atol=1e-37)


def test_tasks_of_another_pool_and_bad_embeddings_are_rejected() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(50, 6)).astype(np.float32)
    learner = ProtoNet(torch.nn.Linear(6, 4))
    bank = learner.bank(x)
    with pytest.raises(
        ValueError, match="belongs to another pool than these embeddings. Embed its"
    ):
        bank.scores([random_task(rng, x.copy(), 4, 4, 2)])
    with pytest.raises(ValueError, match="has no support examples"):
        bank.predict_proba(random_task(rng, x, 0, 4, 2))
    x[3, 0] = np.nan
    with pytest.raises(ValueError, match=r"1 of 50 examples .* not finite \(first at position 3\)"):
        learner.bank(x)


def test_the_bank_of_a_protonet_holds_its_embeddings() -> None:
    torch.manual_seed(0)
    learner = ProtoNet(torch.nn.Linear(6, 4))
    x = np.random.default_rng(3).normal(size=(50, 6)).astype(np.float32)
    task = random_task(np.random.default_rng(4), x, 8, 10, 3)
    plain = learner.adapt(task.support_x, task.support_y, classes=3).predict_proba(task.query_x)
    np.testing.assert_allclose(learner.bank(x).predict_proba(task), plain, atol=1e-6)
