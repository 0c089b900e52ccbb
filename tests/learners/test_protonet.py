"""ProtoNet and its bank against prototypes and distances computed by Python loops."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from metapac import InvalidInput
from metapac.fewshot import MAML, MLP, ClassPool, Conv4, Learner, ProtoNet, Task
from metapac.fewshot.learners import protonet
from metapac.fewshot.learners.protonet import PrototypeBank, gram_logits, prototype_logits


def slow_logits(support_z: Any, support_y: Any, query_z: Any, classes: int) -> NDArray[np.float64]:
    """One episode, one query, one label, one number at a time, in float64."""
    logits = np.full((len(query_z), classes), -np.inf)
    for label in {*support_y.tolist()}:
        shots = support_z[support_y == label].tolist()
        prototype = [math.fsum(column) / len(shots) for column in zip(*shots, strict=True)]
        for i, query in enumerate(query_z.tolist()):
            pairs = zip(query, prototype, strict=True)
            logits[i, label] = -math.fsum((q - p) ** 2 for q, p in pairs)
    return logits


@st.composite
def episodes(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, int]:
    e, s, q, d, classes = (draw(st.integers(1, largest)) for largest in (3, 9, 4, 6, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = rng.integers(classes, size=(e, s))  # unequal shots, absent labels, one example
    support, query = rng.normal(size=(e, s, d)), rng.normal(size=(e, q, d))
    return torch.tensor(support), torch.tensor(labels), torch.tensor(query), classes


@given(episodes())
@settings(max_examples=60, deadline=None)
def test_logits_equal_those_of_the_loop(episode: tuple[Tensor, Tensor, Tensor, int]) -> None:
    support, labels, query, classes = episode
    for precision, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        actual = prototype_logits(support.to(precision), labels, query.to(precision), classes)
        assert actual.dtype == precision
        for i in range(len(labels)):
            slow = slow_logits(support[i], labels[i], query[i], classes)
            np.testing.assert_allclose(actual[i].numpy(), slow, rtol=tolerance, atol=tolerance)


def test_embeddings_far_from_the_origin_lose_no_digits() -> None:
    rng = np.random.default_rng(0)
    far = torch.tensor(1e4 + rng.normal(size=(1, 45, 32)), dtype=torch.float32)
    labels = torch.arange(15).remainder(5)[None]
    actual = prototype_logits(far[:, :15], labels, far[:, 15:], 5)[0]
    slow = slow_logits(far[0, :15], labels[0], far[0, 15:], 5)
    np.testing.assert_allclose(actual.numpy(), slow, rtol=1e-6)
    # The negative control: the textbook expansion of the square is off by whole units.
    prototypes = torch.stack([far[0, :15][labels[0] == label].mean(0) for label in range(5)])
    query = far[0, 15:]
    expanded = -(query.square().sum(1)[:, None] - 2 * query @ prototypes.T)
    expanded = expanded - prototypes.square().sum(1)
    assert np.abs(expanded.numpy() - slow).max() > 1


def test_half_precision_embeddings_are_compared_in_float32() -> None:
    z = torch.tensor(np.random.default_rng(1).normal(size=(2, 12, 64))).bfloat16()
    labels = torch.arange(6).remainder(3).expand(2, 6)
    plain = prototype_logits(z[:, :6].float(), labels, z[:, 6:].float(), 3)
    assert torch.equal(prototype_logits(z[:, :6], labels, z[:, 6:], 3), plain)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = prototype_logits(z[:, :6].float(), labels, z[:, 6:].float(), 3)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, plain)


def test_gradients_are_correct_even_with_absent_labels() -> None:
    rng = np.random.default_rng(2)
    support = torch.tensor(rng.normal(size=(2, 4, 3)), requires_grad=True)
    query = torch.tensor(rng.normal(size=(2, 3, 3)), requires_grad=True)
    labels = torch.tensor([[0, 0, 0, 2], [3, 1, 3, 3]])

    def probabilities(support: Tensor, query: Tensor) -> Tensor:
        return prototype_logits(support, labels, query, 4).softmax(-1)

    assert torch.autograd.gradcheck(probabilities, (support, query))


def test_a_batch_of_episodes_agrees_with_adapting_to_each() -> None:
    learner, rng = ProtoNet(Conv4(3, 16, 8, rng=0)), np.random.default_rng(4)
    learner.module.eval()
    x, labels = rng.integers(0, 256, (3, 10, 16, 16, 3), np.uint8), rng.integers(4, size=(3, 6))
    pixels = torch.tensor(x)
    logits = learner.logits(pixels[:, :6], torch.tensor(labels), pixels[:, 6:], classes=4)
    for i in range(3):
        scorer = learner.adapt(x[i, :6], labels[i], classes=4)
        alone = scorer.predict_proba(x[i, 6:])
        np.testing.assert_allclose(logits[i].softmax(-1).detach(), alone, atol=1e-6)
        assert scorer.predict_proba(x[i, :0]).shape == (0, 4)


def test_logits_compile_to_one_graph_for_any_labels() -> None:
    graphs = 0

    def counted(graph: torch.fx.GraphModule, _: list[Tensor]) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    learner = ProtoNet(Conv4(1, 16, 8, rng=0))
    compiled = torch.compile(learner.logits, backend=counted, fullgraph=True)
    x = torch.rand(2, 6, 16, 16, generator=torch.Generator().manual_seed(0))
    for labels in ([0, 1, 2], [2, 2, 2], [1, 0, 0]):
        y = torch.tensor(labels).expand(2, 3)
        actual = compiled(x[:, :3], y, x[:, 3:], classes=3)
        torch.testing.assert_close(actual, learner.logits(x[:, :3], y, x[:, 3:], classes=3))
    assert graphs == 1


@pytest.mark.parametrize(("scale", "offset"), [(0.1, 0.0), (3.0, 1e3)])
def test_probabilities_are_rounded_once(scale: float, offset: float) -> None:
    # To the nearest float32, from float64. A softmax in float32 is less exact, especially near 1.
    rng = np.random.default_rng(12)
    x = (scale * rng.normal(size=(400, 20)) + offset).astype(np.float32)
    labels = np.arange(40) % 8
    actual = ProtoNet(nn.Identity()).adapt(x[:40], labels).predict_proba(x[40:])
    logits = slow_logits(x[:40], labels, x[40:], 8)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    exact = weights / weights.sum(1, keepdims=True)
    half = np.spacing(actual).astype(np.float64) / 2
    assert (np.abs(actual - exact) <= half * (1 + 1e-4)).all()


def test_a_batch_norm_without_running_statistics_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"must not normalise each batch separately, .* got Batch"):
        ProtoNet(nn.BatchNorm1d(4, track_running_stats=False))


def test_modes_and_statistics_do_not_change() -> None:
    learner = ProtoNet(Conv4(1, 16, 8, rng=0))
    learner.module.train()
    learner.module.get_submodule("blocks.0").eval()
    modes = [part.training for part in learner.module.modules()]
    before = copy.deepcopy(learner.module.state_dict())
    x = np.random.default_rng(9).random((4, 16, 16))
    learner.adapt(x, [0, 1, 0, 1]).predict_proba(x)
    with pytest.raises(ValueError, match="16 x 16"):
        learner.embed(np.zeros((2, 15, 15)))
    assert [part.training for part in learner.module.modules()] == modes
    for name, value in learner.module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_learner_embeds_fast_only_if_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []

    def watched(device: torch.device, precision: str, **flags: bool) -> Any:
        chosen.append((precision, flags["allow_tf32"]))
        return nullcontext()

    monkeypatch.setattr(protonet, "cuda_math", watched)
    learner = ProtoNet(MLP(2, rng=0))
    for fast in (False, True):
        learner.embed(np.eye(2), fast=fast)
    learner.adapt(np.eye(2), [0, 1])
    assert chosen == [("highest", False), ("high", True), ("highest", False)]


@pytest.mark.parametrize("adapt", [ProtoNet, lambda backbone: MAML(backbone, 2)])
def test_whole_numbers_for_a_backbone_of_floats(adapt: Callable[[nn.Module], Learner]) -> None:
    backbone: Any = nn.Linear(4, 2)
    backbone.features = 2
    for dtype, remedy in (("u1", r"x\.float\(\) / 255\."), ("i8", r"x\.float\(\)\.")):
        learner, x = adapt(backbone), np.eye(4, dtype=dtype)
        with pytest.raises(InvalidInput, match=rf"takes floats, .* {x.dtype}\. .* {remedy}"):
            learner.adapt(x, [0, 1, 0, 1])
        assert learner.adapt(x / 255, [0, 1, 0, 1]).predict_proba(x / 255).shape == (4, 2)


def random_task(rng: np.random.Generator, x: Any, support: int, query: int, classes: int) -> Task:
    order = rng.permutation(len(x))[: support + query]
    labels, name = rng.integers(classes, size=support + query), int(rng.integers(10**9))
    parts = order[:support], labels[:support], order[support:], labels[support:]
    return Task(name, x, *parts, classes)


def slow_scores(z: torch.Tensor, task: Task) -> Any:
    """One query and one label at a time, in double precision."""
    wide = z.double().numpy()
    logits = slow_logits(wide[task.support], task.support_y, wide[task.query], task.classes)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights[np.arange(len(weights)), task.query_y] / weights.sum(1)


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
    scorer = ProtoNet(nn.Identity()).adapt(worse[:5], labels)
    assert calibrated[0] <= scorer.predict_proba(worse[5:])[0, 0]


def slow_leave_one_out(z: torch.Tensor, task: Task) -> Any:
    """A task of one query for each support example, adapted to all the others."""
    scores = []
    for i, label in enumerate(task.support_y):
        others = np.arange(len(task.support)) != i
        if label not in task.support_y[others]:
            scores.append(0.0)
            continue
        support = task.support[others], task.support_y[others]
        query = task.support[[i]], task.support_y[[i]]
        left = Task(i, z, *support, *query, task.classes)
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


@settings(max_examples=40)
@given(rng=st.integers(0, 10**6), shots=st.integers(1, 4), memory=st.sampled_from([2**32, 0]))
def test_tasks_in_arrays_are_scored_as_one_by_one(rng: int, shots: int, memory: int) -> None:
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


def test_few_columns_are_looked_up_and_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    gram = protonet.gram_matrix(torch.from_numpy(rng.normal(size=(400, 9))).float())
    support, query = (torch.from_numpy(rng.integers(400, size=(6, n))) for n in (7, 20))
    labels = torch.from_numpy(rng.integers(4, size=(6, 7)))  # some are absent
    arguments = gram, support, labels, query, 4
    logits = []
    for few in (0, 4, 10**9):
        monkeypatch.setattr(protonet, "_FEW", few)
        logits.append(gram_logits(*arguments))
    assert logits[0].isinf().any()
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


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


def test_tasks_of_another_pool_and_bad_embeddings_are_rejected() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(50, 6)).astype(np.float32)
    learner = ProtoNet(torch.nn.Linear(6, 4))
    bank = learner.bank(x)
    with pytest.raises(ValueError, match="is of another pool than these embeddings. Embed its"):
        bank.scores([random_task(rng, x.copy(), 4, 4, 2)])
    with pytest.raises(ValueError, match="has no support examples"):
        bank.predict_proba(random_task(rng, x, 0, 4, 2))
    x[3, 0] = np.nan
    with pytest.raises(ValueError, match=r"1 of 50 examples .* not finite \(first at position 3\)"):
        learner.bank(x)
