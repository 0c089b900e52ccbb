"""Both recipes against plain loops; resuming, kills, several processes, and what is refused."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from metapac import InvalidInput, fewshot
from metapac.fewshot import MAML, MLP, ClassPool, Conv4, GroupPool, ProtoNet, Sphere, train
from metapac.fewshot.training import checkpoints, loop
from metapac.fewshot.training.episodes import EpisodeSampler
from metapac.fewshot.training.loop import History, Recipe, Run, learning_rate, tuning_rate
from tests.helpers.training import (
    DIRECTIONS,
    RECIPE,
    SMALL,
    TRAIN,
    VALIDATION,
    class_pool,
    fit,
    fit_strong,
    group_pool,
    identical,
    small_learner,
    sphere_learner,
    start_python,
    state_of,
    without_seconds,
)

pytestmark = pytest.mark.usefixtures("one_thread")
RECIPES: dict[str, tuple[Callable[..., History], Callable[..., Any]]] = {
    "paper": (fit, small_learner),
    "strong": (fit_strong, sphere_learner),
}
both_recipes = pytest.mark.parametrize(("fit", "learner"), RECIPES.values(), ids=RECIPES)


def seed_of(*key: int, rng: int = 0) -> int:
    return int(np.random.SeedSequence(rng, spawn_key=key).generate_state(1, np.uint64)[0])


def accuracy_of(learner: ProtoNet, sampler: EpisodeSampler, tasks: int, seed: int) -> float:
    """One task after another, through ``adapt``."""
    right, drawn = [], sampler.gather(sampler.draw(tasks, seed))
    for support_x, support_y, query_x, query_y in zip(*drawn[:-1], strict=True):
        proba = learner.adapt(support_x, support_y).predict_proba(query_x)
        right.extend(proba.argmax(1) == query_y.numpy())
    return float(np.mean(right))


def plain_train(learner: ProtoNet, epochs: int, step: int) -> tuple[Any, list[float]]:
    """Adam on one episode after another."""
    shape = {"ways": 3, "shots": 2, "queries": 4}
    training, validation = (EpisodeSampler(pool, "cpu", **shape) for pool in (TRAIN, VALIDATION))
    optimiser, accuracies, best = torch.optim.Adam(learner.module.parameters()), [-1.0], {}
    for epoch in range(1, epochs + 1):
        optimiser.param_groups[0]["lr"] = 0.02 / 2 ** ((epoch - 1) // 2)
        episodes = training.gather(training.draw(12, seed_of(epoch, 0, rng=3)))
        learner.module.train()
        for first in range(0, 12, step):
            optimiser.zero_grad()
            for i in range(first, first + step):
                z = learner.module(episodes[0][i])
                prototypes = torch.stack([z[2 * way : 2 * way + 2].mean(0) for way in range(3)])
                logits = -(torch.cdist(learner.module(episodes[2][i]), prototypes) ** 2)
                loss = cross_entropy(logits, episodes[3][i]) / step
                loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        accuracies.append(accuracy_of(learner, validation, 10, seed_of(0, rng=3)))
        if accuracies[-1] > max(accuracies[:-1]):
            best = state_of(learner)
    return best, accuracies[1:]


def test_train_gives_the_result_of_a_plain_loop() -> None:
    learner, other = small_learner(dropout=0), small_learner(dropout=0)
    options: dict[str, Any] = {"ways": 3, "shots": 2, "queries": 4, "lr": 0.02, "halve_every": 2}
    history = fit(learner, epochs=5, episodes_per_epoch=10, rng=3, **options)  # 3 steps of 4
    best, accuracies = plain_train(other, epochs=5, step=4)
    assert [epoch.lr for epoch in history.epochs] == [0.02, 0.02, 0.01, 0.01, 0.005]
    assert [epoch.accuracy for epoch in history.epochs] == pytest.approx(accuracies, abs=1e-12)
    for name, tensor in learner.module.state_dict().items():
        torch.testing.assert_close(tensor, best[name], rtol=1e-4, atol=1e-5)


def plain_strong(learner: ProtoNet, recipe: Recipe) -> tuple[list[float], list[float]]:
    """SGD on all classes, then on episodes; each with the mean of some of its weights."""
    pool, sphere, losses, accuracies = DIRECTIONS[0], learner.module, list[float](), list[float]()
    training, validation = (
        EpisodeSampler(each, "cpu", ways=3, shots=5, queries=5) for each in DIRECTIONS
    )
    assert isinstance(sphere, Sphere)
    x, y = torch.tensor(pool.x, dtype=torch.float32), torch.tensor(pool.y)
    with torch.random.fork_rng():
        torch.manual_seed(seed_of(0) >> 1)
        head = nn.Linear(sphere.backbone.features, 6)  # type: ignore[arg-type]
    weights = [*sphere.backbone.parameters(), *head.parameters()]
    decay = recipe.weight_decay
    optimiser = torch.optim.SGD(weights, 1.0, momentum=0.9, nesterov=True, weight_decay=decay)
    kept: list[dict[str, Tensor]] = []

    def step(loss: Tensor, lr: float) -> float:
        optimiser.param_groups[0]["lr"] = lr
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        return float(loss.detach())

    def end_epoch(total: list[float], *, last: bool) -> None:
        losses.append(float(np.mean(total)))
        if last:
            sphere.load_state_dict({k: torch.stack([s[k] for s in kept]).mean(0) for k in kept[0]})
        accuracies.append(accuracy_of(learner, validation, 20, seed_of(0, 0) >> 1))

    for epoch in range(1, recipe.epochs + 1):
        generator = torch.Generator().manual_seed(seed_of(epoch, 0) >> 1)
        order = torch.randperm(len(y), generator=generator)
        batches = torch.split(order, recipe.batch)[: len(y) // recipe.batch]
        first, count = (epoch - 1) * len(batches), recipe.epochs * len(batches)
        total = [
            step(cross_entropy(head(sphere.backbone(x[b])), y[b]), learning_rate(recipe, i, count))
            for i, b in enumerate(batches, first)
        ]
        if epoch > recipe.epochs * (1 - recipe.averaged):
            kept.append(state_of(learner))
        end_epoch(total, last=False)
    sphere.load_state_dict({k: torch.stack([s[k] for s in kept]).mean(0) for k in kept[0]})
    kept.clear()
    groups: Any = [{"params": [*sphere.backbone.parameters()], "weight_decay": decay}]
    groups.append({"params": [sphere.log_temperature], "lr": 0.01})
    optimiser = torch.optim.SGD(groups, 1.0, momentum=0.9)
    for epoch, steps in ((recipe.epochs + 1, range(100)), (recipe.epochs + 2, range(100, 120))):
        drawn, total = training.draw(4 * len(steps), seed_of(epoch, 0) >> 1), []
        for i in steps:
            part = drawn.part(4 * (i - steps[0]), 4 * (i - steps[0]) + 4)
            support_x, support_y, query_x, query_y, _ = training.gather(part)
            logits = learner.logits(support_x, support_y, query_x, classes=3)
            loss = cross_entropy(logits.flatten(0, 1), query_y.flatten())
            total.append(step(loss, tuning_rate(recipe, i)))
            if (i >= 60 and i % 10 == 0) or i == 119:
                kept.append(state_of(learner))
        end_epoch(total, last=epoch == recipe.epochs + 2)
    return losses, accuracies


def test_train_strong_gives_the_result_of_plain_loops() -> None:
    learner, other = sphere_learner(dropout=0), sphere_learner(dropout=0)
    history = fit_strong(learner)
    losses, accuracies = plain_strong(other, RECIPE)
    assert [epoch.loss for epoch in history.epochs] == pytest.approx(losses, rel=1e-4)
    assert [epoch.accuracy for epoch in history.epochs] == pytest.approx(accuracies, abs=1e-12)
    rates = [learning_rate(RECIPE, i, 21) for i in (6, 13, 20)]
    rates += [tuning_rate(RECIPE, 99), tuning_rate(RECIPE, 119)]
    assert [epoch.lr for epoch in history.epochs] == rates
    for name, tensor in learner.module.state_dict().items():
        torch.testing.assert_close(tensor, other.module.state_dict()[name], rtol=1e-3, atol=1e-4)


def test_the_best_weights_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cases = [([0.5, 0.9, 0.7], None, 2), ([0.5, 0.9, 0.9], None, 2), ([0.1, 0.2, 0.3], 1, 3)]
    cases += [([0.5, 0.4, 0.6, 0.6, 0.1, 0.9], 2, 3)]
    for number, (accuracies, patience, best) in enumerate(cases):
        results, seen, learner = iter(accuracies), list[Any](), small_learner()
        monkeypatch.setattr(Run, "_accuracy", lambda self, results=results: next(results))
        options: Any = {"epochs": len(accuracies), "patience": patience}
        options["checkpoint"] = tmp_path / str(number)
        history = fit(
            learner, **options, progress=lambda *_, of=learner, to=seen: to.append(state_of(of))
        )
        assert history.best.epoch == best
        assert len(history.epochs) == (5 if patience == 2 else len(accuracies))
        same = [identical(state_of(learner), state) for state in seen]
        assert same == [epoch.epoch == best for epoch in history.epochs]
        assert fit(learner, **options) == history  # a stopped run stays stopped


class DropsBeforeNorm(nn.Sequential):
    """A backbone whose batch norm sees examples after dropout."""

    features = 8

    def __init__(self) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            super().__init__(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 8))


def test_training_depends_on_rng_and_no_global_state() -> None:
    kinds: list[Any] = [
        *RECIPES.values(),
        (fit_strong, lambda: ProtoNet(Sphere(DropsBeforeNorm()))),
    ]
    for fit_one, make in kinds:
        results = []
        for rng, state in ((1, 0), (np.int64(1), 1), (2, 0)):
            learner = make()
            with torch.random.fork_rng():
                torch.manual_seed(state)
                before = torch.get_rng_state()
                learner.module.train(state > 0)
                history = fit_one(learner, rng=rng)
                assert torch.equal(torch.get_rng_state(), before)
            assert learner.module.training == (state > 0)
            assert all(weight.grad is None for weight in learner.module.parameters())
            results.append((state_of(learner), without_seconds(history)))
        assert identical(results[0][0], results[1][0])
        assert results[0][1] == results[1][1]
        assert not identical(results[0][0], results[2][0])


def test_batch_norms_get_the_statistics_of_the_averaged_weights() -> None:
    x = np.random.default_rng(0).integers(0, 256, (30, 16, 16, 1), dtype=np.uint8)
    pool, learner = ClassPool(x, np.arange(30) % 3), ProtoNet(Sphere(Conv4(1, 16, 4, rng=0)))
    recipe = Recipe(epochs=1, batch=10, warmup=1, tuning_steps=3)
    fit_strong(learner, pools=(pool, pool), recipe=recipe, shots=2, queries=2)
    network: Any = learner.module.backbone
    convolution, norm = network.blocks[0][0], network.blocks[0][1]
    expected = convolution(network.pixels(torch.from_numpy(x))).detach().mean((0, 2, 3))
    torch.testing.assert_close(norm.running_mean, expected, rtol=1e-4, atol=1e-5)


def test_without_tuning_the_scale_stays() -> None:
    learner = sphere_learner()
    assert len(fit_strong(learner, recipe=replace(RECIPE, tuning_steps=0)).epochs) == 3
    assert float(learner.module.log_temperature.detach()) == pytest.approx(math.log(10.0))  # type: ignore[operator]


class AlwaysZero:
    """Predicts label 0, whatever its weight."""

    def __init__(self) -> None:
        self.module: nn.Module = nn.Linear(1, 1, bias=False)

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        nothing: Tensor = 0 * self.module(query_x)
        return torch.tensor([1.0, 0.0]).expand(*query_x.shape[:2], 2) + nothing


def test_labels_count_with_their_weight() -> None:
    y = np.array([0] * 30 + [1] * 10)
    pool = GroupPool(np.zeros((40, 1), np.float32), y, ["site"] * 40)
    options: dict[str, Any] = {**SMALL, "epochs": 1, "shots": 5, "queries": 35}
    drawn = EpisodeSampler(pool, "cpu", ways=5, shots=5, queries=35).draw(10, seed_of(0))
    zeros, ones = (int((drawn.query_y == label).sum()) for label in (0, 1))
    for class_weights, weight in ((None, 1), ([1.0, 10.0], 10)):
        history = train(AlwaysZero(), pool, pool, class_weights=class_weights, **options)
        assert history.epochs[0].accuracy == pytest.approx(zeros / (zeros + weight * ones))
    trained = []
    for weights in (None, [1.0, 1.0], np.array([1.0, 10.0])):
        learner = ProtoNet(MLP(4, width=6, rng=0))
        # 3 examples with a rare label: most support sets hold none of it.
        options = {**SMALL, "shots": 3, "queries": 6, "class_weights": weights}
        train(learner, group_pool(12, 0), group_pool(5, 1), **options)
        trained.append(state_of(learner))
    assert all(tensor.isfinite().all() for tensor in trained[2].values())
    assert identical(trained[0], trained[1])
    assert not identical(trained[0], trained[2])


@st.composite
def labelled_logits(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    e, s, q, classes = (draw(st.integers(1, most)) for most in (3, 4, 5, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    support_y, query_y = rng.integers(classes, size=(e, s)), rng.integers(classes, size=(e, q))
    logits = 3 * rng.normal(size=(e, q, classes))
    for i in range(e):
        logits[i][:, ~np.isin(np.arange(classes), support_y[i])] = -np.inf
    return torch.tensor(logits), torch.tensor(support_y), torch.tensor(query_y)


@given(labelled_logits(), st.lists(st.floats(0.1, 10), min_size=5, max_size=5))
@settings(deadline=None, max_examples=80)
def test_the_loss_equals_that_of_one_query_at_a_time(
    episodes: tuple[Tensor, Tensor, Tensor], class_weights: list[float]
) -> None:
    def expected(weights: list[float]) -> float:
        losses = []
        for rows, support, query in zip(*(part.tolist() for part in episodes), strict=True):
            known = [(row, y) for row, y in zip(rows, query, strict=True) if y in support]
            total = sum(weights[y] for _, y in known) or 1.0
            sums = [math.fsum(math.exp(row[label]) for label in {*support}) for row, _ in known]
            terms = zip(known, sums, strict=True)
            losses.append(math.fsum(weights[y] * (math.log(s) - row[y]) for (row, y), s in terms))
            losses[-1] /= total
        return math.fsum(losses) / len(losses)

    plain = float(loop.episode_loss(*episodes))
    assert plain == pytest.approx(expected([1.0] * 5), abs=1e-12)
    logits = episodes[0].requires_grad_()
    actual = loop.episode_loss(*episodes, torch.tensor(class_weights, dtype=torch.float64))
    (slope,) = torch.autograd.grad(actual, logits)
    assert slope.isfinite().all()
    assert float(actual.detach()) == pytest.approx(expected(class_weights), abs=1e-12)


def test_each_loss_compiles_to_one_graph() -> None:
    # A loss that compiles to one graph never waits for the device.
    network, y = Conv4(channels=1, size=16, width=4, rng=0), torch.tensor([[0, 0, 1, 1, 2, 2]] * 2)
    x = torch.arange(2 * 6 * 16 * 16).view(2, 6, 16, 16).to(torch.uint8)
    episodes = loop.EpisodeLoss(ProtoNet(network), 3, torch.ones(3)), (x, y, x + 1, y)
    classes = loop.ClassLoss(network, 3, torch.device("cpu")), (x.flatten(0, 1), y.flatten())
    for loss, batch in (episodes, classes):
        whole = copy.deepcopy(loss)
        whole.compile(backend="aot_eager", fullgraph=True, dynamic=False)
        for function in (loss, whole):
            function(*batch).backward()
        plain = {name: weight.grad for name, weight in loss.named_parameters()}
        for name, weight in whole.named_parameters():
            torch.testing.assert_close(weight.grad, plain[name])


# Resuming.


class Interrupted(Exception):
    pass


@both_recipes
def test_an_interrupted_run_ends_with_the_same_weights(
    fit: Any, learner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recipe, "save_seconds", 0.0)  # after each epoch
    whole, straight = learner(), list[Any]()
    history = fit(whole, progress=lambda *now: straight.append(now))
    parts = {"pre-training": 3, "tuning": 2} if fit is fit_strong else {"training": 4}
    counts = [(name, i, n) for name, n in parts.items() for i in range(1, n + 1)]
    texts = [f"loss {e.loss:.3f}, validation accuracy {e.accuracy:.1%}" for e in history.epochs]
    assert straight == [(f"{s}, {t}", i, n) for (s, i, n), t in zip(counts, texts, strict=True)]
    for after in range(1, len(straight) + 1):
        folder, seen = tmp_path / str(after), list[Any]()

        def stop(*now: Any, last: Any = straight[after - 1]) -> None:
            if now == last:
                raise Interrupted

        with pytest.raises(Interrupted):
            fit(learner(), checkpoint=folder, progress=stop)
        # The new process starts with other weights, which the checkpoint replaces.
        for expected in (straight[after:], []):
            fresh, seen = learner(rng=99), []
            resumed = fit(fresh, checkpoint=folder, progress=lambda *now, to=seen: to.append(now))
            assert seen == expected
            assert identical(state_of(fresh), state_of(whole))
            assert without_seconds(resumed) == without_seconds(history)


def test_the_strong_recipe_saves_at_first_once_a_minute_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths, write = [], checkpoints.write_checkpoint

    def record(folder: Path, checkpoint: checkpoints.Checkpoint) -> None:
        lengths.append(len(checkpoint.history))
        write(folder, checkpoint)

    monkeypatch.setattr(checkpoints, "write_checkpoint", record)
    fit_strong(sphere_learner(), checkpoint=tmp_path)
    assert lengths == [0, 5]


@both_recipes
def test_a_run_without_a_seed_resumes_with_its_seed(fit: Any, learner: Any, tmp_path: Path) -> None:
    first, again, straight = learner(), learner(rng=3), learner()
    fit(first, checkpoint=tmp_path, rng=None)
    fit(again, checkpoint=tmp_path, rng=None)
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    fit(straight, rng=stored.config["rng"])
    assert identical(state_of(first), state_of(again))
    assert identical(state_of(first), state_of(straight))


def test_a_run_is_resumed_only_with_the_same_arguments_learner_and_data(tmp_path: Path) -> None:
    paper, strong = tmp_path / "paper", tmp_path / "strong"
    numbers = {"shots": np.int64(5), "lr": np.float32(0.5), "rng": np.int64(0)}
    fit(small_learner(), checkpoint=paper, **numbers)
    fit(small_learner(), checkpoint=paper, lr=0.5)  # stored as plain numbers
    short = Recipe(epochs=1, batch=20, tuning_steps=1)
    fit_strong(sphere_learner(), checkpoint=strong, recipe=short)
    before = [(folder / checkpoints.FILE).read_bytes() for folder in (paper, strong)]
    maml, longer = MAML(MLP(8, width=6), 5), replace(short, epochs=2)
    refused: list[tuple[Any, Any, dict[str, Any], str]] = [
        (fit, small_learner(), {"lr": 0.1}, r"made with lr=0\.5, and this call has lr=0\.1"),
        (fit, small_learner(), {"lr": 0.5, "rng": 7, "shots": 2}, "shots=5, rng=0, and .* rng=7"),
        (fit, small_learner(), {"lr": 0.5, "epochs": 1}, "holds epochs=4, got epochs=1"),
        (fit, maml, {"lr": 0.5}, r"made with ProtoNet\(.*width=6.* learner is MAML\(.*steps"),
        (fit_strong, sphere_learner(), {"recipe": longer}, "epochs=1, and this call has epochs=2"),
        (fit_strong, sphere_learner(), {"recipe": short, "queries": 6}, "has queries=6"),
    ]
    for fit_one, learner, options, message in refused:
        with pytest.raises(InvalidInput, match=message):
            fit_one(learner, checkpoint=paper if fit_one is fit else strong, **options)
    with pytest.raises(InvalidInput, match=r"train_pool=.*20 classes.* has train_pool=.*21"):
        train(
            small_learner(), class_pool(21, 0), VALIDATION, **{**SMALL, "lr": 0.5}, checkpoint=paper
        )
    assert before == [(folder / checkpoints.FILE).read_bytes() for folder in (paper, strong)]


def test_a_finished_run_of_0_2_ends_with_the_average(tmp_path: Path) -> None:
    straight, again = sphere_learner(), sphere_learner(rng=5)
    fit_strong(straight, checkpoint=tmp_path)
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    last = {name: tensor + 1 for name, tensor in stored.weights.items()}
    checkpoints.write_checkpoint(tmp_path, replace(stored, weights=last))
    fit_strong(again, checkpoint=tmp_path)
    assert identical(state_of(again), state_of(straight))


# Several processes.


def small_maml() -> MAML:
    return MAML(MLP(8, width=6, dropout=0, rng=0), classes=5, steps=2, step_size=0.1)


def shared_runs(folder: Path | None = None) -> dict[str, dict[str, Tensor]]:
    """Train with absent labels, and MAML, the last with a checkpoint."""
    rare = ProtoNet(MLP(4, width=6, dropout=0, rng=0))
    options: dict[str, Any] = {**SMALL, "shots": 3, "queries": 6, "class_weights": [1, 10]}
    train(rare, group_pool(12, 0), group_pool(5, 1), **options)
    maml = small_maml()
    fit(maml, checkpoint=folder)
    return {"rare": state_of(rare), "maml": state_of(maml)}


SHARED = """
import sys
import torch.distributed as dist
from tests.learners.training.test_loop import *
store = f"file://{sys.argv[1]}/store"
dist.init_process_group("gloo", init_method=store, rank=int(sys.argv[2]), world_size=2)
for name, state in shared_runs(Path(sys.argv[1]) / "0").items():
    torch.save(state, f"{sys.argv[1]}/{name}-{dist.get_rank()}.pt")
for learner, options in [
    (small_learner(), {"episodes_per_step": 3}),
    (ProtoNet(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))), {}),
    (small_maml(), {"checkpoint": Path(sys.argv[1]) / sys.argv[2]}),  # only one has a run
]:
    try:
        fit(learner, **options)
    except ValueError as error:
        print(error)
dist.barrier()  # no process leaves while the other still talks to it
dist.destroy_process_group()
"""


def test_two_processes_reach_the_weights_of_one(tmp_path: Path) -> None:
    # The processes meet through a file. A port that is free when a test asks for one may be taken
    # by another process before the first of these two, which loads torch first, can listen on it.
    both = [start_python("-c", SHARED, str(tmp_path), str(rank)) for rank in range(2)]
    for process in both:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        steps, norms, folders = output.splitlines()
        assert "episodes_per_step must be a multiple of the 2 processes" in steps
        assert "batch norm trains in 2 processes on GPUs only" in norms
        assert "checkpoint must be one folder" in folders
    for name, alone in shared_runs().items():
        first, second = (torch.load(tmp_path / f"{name}-{rank}.pt") for rank in range(2))
        assert identical(first, second)
        for key, tensor in alone.items():
            torch.testing.assert_close(first[key], tensor, rtol=0, atol=1e-5, msg=f"{name}: {key}")
    # One process can resume what two have begun.
    longer = small_maml(), small_maml()
    fit(longer[0], epochs=5, checkpoint=tmp_path / "0")
    fit(longer[1], epochs=5)
    for key, tensor in state_of(longer[0]).items():
        torch.testing.assert_close(tensor, longer[1].module.state_dict()[key], rtol=0, atol=1e-5)


def test_batch_norms_are_synchronised_on_gpus_and_put_back() -> None:
    network = Conv4(channels=1, size=16, width=4, rng=0)
    norms = [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]
    with loop.synced_batch_norm(network, loop.Place(torch.device("cuda"), 0, 2)):
        synced = [part for part in network.modules() if isinstance(part, nn.SyncBatchNorm)]
        assert [norm.weight for norm in norms] == [norm.weight for norm in synced]
        assert not any(isinstance(part, nn.BatchNorm2d) for part in network.modules())
    assert [part for part in network.modules() if part in norms] == norms


# What is refused.


def test_bad_input_of_train_is_refused() -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        *(({name: 0}, name) for name in ("epochs", "episodes_per_epoch", "episodes_per_step")),
        *(({name: 0}, name) for name in ("halve_every", "patience", "ways", "shots", "queries")),
        ({"validation_tasks": 1.5}, "validation_tasks"),
        ({"lr": -1.0}, "lr"),
        ({"class_weights": [1.0, 0.0, 1, 1, 1]}, "class_weights"),
        ({"class_weights": [1.0]}, "class_weights"),
        ({"shots": 18}, "shots"),
        ({"rng": -1}, "rng"),
        ({"device": "abacus"}, "device"),
    ]
    for options, name in bad:
        with pytest.raises(InvalidInput, match=name):
            fit(small_learner(), **options)
    groups, text = group_pool(5, 0), ClassPool(np.array(["a", "b"]), [0, 1])
    pools: list[tuple[Any, Any, str]] = [
        (TRAIN, groups, "must be of one kind"),
        (TRAIN, None, "validation_pool must be a ClassPool or a GroupPool"),
        (text, TRAIN, "train_pool must be .* hold numbers"),
    ]
    for train_pool, validation_pool, message in pools:
        with pytest.raises(InvalidInput, match=message):
            train(small_learner(), train_pool, validation_pool)
    with pytest.raises(InvalidInput, match=r"learner must be a ProtoNet or MAML"):
        fit(fewshot.PrototypeLearner())


def test_bad_input_of_train_strong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = GroupPool(np.zeros((8, 4)), [0, 1] * 4, [0] * 4 + [1] * 4)
    bad: list[tuple[Any, dict[str, Any], str]] = [
        (MAML(MLP(4, rng=0), 3), {}, "learner must be a ProtoNet on a Sphere"),
        (ProtoNet(MLP(4, rng=0)), {}, "learner must be a ProtoNet on a Sphere"),
        (ProtoNet(Sphere(nn.Identity())), {}, "learner must have the length of its vectors"),
        (sphere_learner(), {"pools": (groups, groups)}, "train_pool must be a ClassPool without"),
        (sphere_learner(), {"validation_tasks": 0}, "validation_tasks"),
        (sphere_learner(), {"rng": -1}, "rng"),
    ]
    for learner, options, message in bad:
        with pytest.raises(InvalidInput, match=message):
            fit_strong(learner, **options)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidInput, match="runs in one process"):
        fit_strong(sphere_learner())


def test_a_diverging_loss_names_its_learning_rate_and_spares_the_checkpoint(tmp_path: Path) -> None:
    pool = ClassPool(np.full_like(TRAIN.x, np.nan), TRAIN.y)
    with pytest.raises(InvalidInput, match=r"became nan in epoch 1 at .*0\.01: .* smaller lr, and"):
        train(small_learner(), pool, VALIDATION, **SMALL, checkpoint=tmp_path)
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    assert not stored.history
    first = Recipe(epochs=2, batch=20, warmup=0, lr=1e30)
    with pytest.raises(InvalidInput, match=r"in epoch 1 at .* smaller lr, and"):
        fit_strong(sphere_learner(), recipe=first)
    second = Recipe(epochs=1, batch=20, warmup=0, tuning_steps=20, tuning_lr=1e30)
    with pytest.raises(InvalidInput, match=r"in epoch 2 at .* smaller tuning_lr"):
        fit_strong(sphere_learner(), recipe=second)


class Failing(nn.Linear):
    """A backbone that takes bytes, and fails on batches of at least this size."""

    def __init__(self, at_least: int) -> None:
        super().__init__(8, 4)
        self.at_least = at_least

    def forward(self, x: Tensor) -> Tensor:
        if len(x) >= self.at_least:
            raise torch.OutOfMemoryError("too much")
        return super().forward(x.float())


def test_a_backbone_that_takes_floats_says_so_of_bytes_and_other_faults_stay() -> None:
    pool = ClassPool((8 * np.abs(TRAIN.x)).astype(np.uint8), TRAIN.y)
    backbone = nn.Linear(8, 4)
    backbone.features = 4  # type: ignore[assignment]
    for learner in (ProtoNet(backbone), MAML(backbone, 5)):
        with pytest.raises(InvalidInput, match=r"takes floats, and the examples are uint8"):
            train(learner, pool, pool, **SMALL)
    with pytest.raises(InvalidInput, match=r"takes floats, and the examples are uint8"):
        fit_strong(ProtoNet(Sphere(backbone)), pools=(pool, pool))
    episode = 5 * (5 + 15)  # examples; a step has four times as many
    for size in (0, episode + 1):
        with pytest.raises(torch.OutOfMemoryError, match="too much"):
            train(ProtoNet(Failing(size)), pool, pool, **SMALL)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        fit(ProtoNet(nn.Linear(7, 4)))


# The settings of the strong recipe.


def test_the_learning_rates_of_the_strong_recipe() -> None:
    recipe = Recipe(lr=0.1, warmup=10)
    rates = [learning_rate(recipe, step, 1000) for step in range(1001)]
    chosen = [rates[step] for step in (0, 4, 9, 500, 1000)]
    assert chosen == pytest.approx([0.01, 0.05, 0.1, 0.051, 0.002], rel=1e-3)
    assert max(rates) == rates[9]
    assert all(a > b for a, b in itertools.pairwise(rates[9:]))
    short = Recipe(lr=0.1, warmup=500)  # warms up over a tenth of its steps
    assert learning_rate(short, 9, 360) == pytest.approx(0.1 * 10 / 36, rel=1e-2)
    assert learning_rate(short, 0, 5) > 0.09
    tuned = Recipe(tuning_steps=100, tuning_lr=1.0)
    assert [tuning_rate(tuned, step) for step in (0, 50, 100)] == pytest.approx([1.0, 0.525, 0.05])


def test_the_recipe_suits_the_backbone_and_its_values_are_checked() -> None:
    assert (
        fewshot.recipe_for(fewshot.ResNet12(rng=0)) == fewshot.recipe_for(MLP(2, rng=0)) == Recipe()
    )
    small = fewshot.recipe_for(Conv4(rng=0), epochs=7, flip=False, lr=None)
    assert (small.epochs, small.batch, small.flip, small.lr) == (7, 256, False, 0.1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'flips'"):
        fewshot.recipe_for(MLP(2, rng=0), flips=False)
    bad: list[dict[str, Any]] = [{"epochs": 0}, {"batch": 1}, {"warmup": -1}, {"tuning_steps": -1}]
    bad += [{"crop": 1.5}, {"averaged": -0.1}, {"lr": math.inf}, {"tuning_lr": math.nan}]
    for options in bad:
        with pytest.raises(InvalidInput, match=next(iter(options))):
            Recipe(**options)


@pytest.mark.needs_gpu
@pytest.mark.parametrize("compile", [False, True])
def test_training_on_a_gpu_is_far_better_than_chance(compile: bool) -> None:
    learner, unseen = ProtoNet(MLP(8, width=32, dropout=0, rng=0)), class_pool(40, 7)
    options: dict[str, Any] = {"epochs": 12, "episodes_per_epoch": 80, "validation_tasks": 50}
    options |= {"device": "cuda", "compile": compile}
    train(learner, class_pool(60, 8), class_pool(20, 9), lr=5e-3, **options)
    assert next(learner.module.parameters()).is_cuda
    assert fewshot.accuracy(learner, unseen, tasks=200).value > 0.7


@pytest.mark.needs_gpu
def test_no_step_on_a_gpu_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Run._step

    def forbid_waiting(*args: Any) -> Any:
        torch.cuda.set_sync_debug_mode("error")
        try:
            return step(*args)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(Run, "_step", forbid_waiting)
    images = np.random.default_rng(0).integers(256, size=(80, 16, 16), dtype=np.uint8)
    pool = ClassPool(images, np.repeat(np.arange(8), 10))
    learner = ProtoNet(Conv4(channels=1, size=16, width=4, rng=0))
    history = train(learner, pool, pool, **{**SMALL, "device": "cuda"}, compile=False)
    assert history.epochs  # a step that waited would have raised
