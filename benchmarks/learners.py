"""Training and scoring on a GPU: episodes and images per second, accuracy, a calibration draw.

    python benchmarks/learners.py OUTPUT.json [TRAIN.npz VALIDATION.npz]

The files hold 84 x 84 images ``x`` (uint8) and labels ``y``, such as those of mini-ImageNet.
Without them, the time to accuracy is not measured. Results are in README.md beside this file.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metapac.fewshot import ClassPool, Conv4, ProtoNet, ResNet50, Task, score_tasks, train
from metapac.fewshot.learners.networks import IMAGENET_MEAN, IMAGENET_STD
from metapac.fewshot.learners.protonet import PrototypeBank
from metapac.fewshot.training.episodes import EpisodeSampler

WAYS, SHOTS, QUERIES = 5, 5, 5
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def new_learner(rng: int = 0) -> ProtoNet:
    return ProtoNet(Conv4(mean=IMAGENET_MEAN, std=IMAGENET_STD, rng=rng))


def best_of(call: Callable[[], Any], rounds: int = 7) -> float:
    """Return the shortest time of a call, including the work of the device."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def random_pool(classes: int, rng: int) -> ClassPool:
    x = np.random.default_rng(rng).integers(0, 256, (classes * 600, 84, 84, 3), dtype=np.uint8)
    return ClassPool(x, np.repeat(np.arange(classes), 600))


def throughput(pool: ClassPool, episodes_per_step: int) -> float:
    """Return training episodes per second, without the first epoch, which compiles."""
    episodes = 4000 if DEVICE == "cuda" else 2 * episodes_per_step
    history = train(
        new_learner(),
        pool,
        pool,
        ways=WAYS,
        shots=SHOTS,
        queries=QUERIES,
        epochs=4,
        episodes_per_epoch=episodes,
        episodes_per_step=episodes_per_step,
        validation_tasks=episodes_per_step,
        device=DEVICE,
    )
    return episodes / min(epoch.seconds for epoch in history.epochs[1:])


def plain_throughput(pool: ClassPool, episodes: int) -> float:
    """Return episodes per second of a plain loop: one float32 episode per step, data in memory."""
    learner = new_learner()
    learner.module.to(DEVICE).train()
    optimiser = torch.optim.Adam(learner.module.parameters(), 1e-3)
    sampler = EpisodeSampler(pool, torch.device(DEVICE), ways=WAYS, shots=SHOTS, queries=QUERIES)
    drawn = sampler.draw(episodes, 0)

    def run() -> None:
        for i in range(episodes):
            support_x, support_y, query_x, query_y, _ = sampler.gather(drawn.part(i, i + 1))
            logits = learner.logits(support_x, support_y, query_x, classes=WAYS)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), query_y.flatten())
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    return episodes / best_of(run, rounds=3)


def load(path: str) -> ClassPool:
    with np.load(path) as file:
        return ClassPool(file["x"], file["y"], name=Path(path).stem)


def time_to_accuracy(pools: tuple[ClassPool, ClassPool], goal: float) -> dict[str, Any]:
    """Train until the validation accuracy reaches ``goal``; return the curve over time."""

    class Reached(Exception):
        pass

    curve: list[dict[str, float]] = []
    start = time.perf_counter()

    def record(stage: str, done: int, total: int | None) -> None:
        loss, accuracy = (float(number) for number in re.findall(r"[\d.]+", stage))
        seconds = time.perf_counter() - start
        curve.append({"seconds": seconds, "accuracy": accuracy / 100, "loss": loss})
        if accuracy >= 100 * goal:
            raise Reached

    learner = new_learner()
    with contextlib.suppress(Reached):
        train(
            learner,
            *pools,
            ways=WAYS,
            shots=SHOTS,
            queries=QUERIES,
            epochs=200,
            episodes_per_epoch=1600,
            episodes_per_step=8,
            device=DEVICE,
            progress=record,
        )
    return {"goal": goal, "curve": curve}


def calibration_draw(pool: ClassPool) -> dict[str, float]:
    """Time one draw of 500 tasks of 2525 examples from stored embeddings, and the alternatives."""
    learner = new_learner()
    learner.module.to(DEVICE)
    embedded = learner.embed(pool.x)
    start = time.perf_counter()
    bank = PrototypeBank(embedded)
    float(bank.embeddings[0, 0])
    gram = time.perf_counter() - start

    def draw() -> Sequence[Task]:
        return pool.tasks(500, ways=5, shots=5, queries=500, rng=1).draw()

    tasks = draw()

    class WithoutBank:
        def adapt(self, x: Any, y: Any, *, classes: int | None = None) -> Any:
            return learner.adapt(x, y, classes=classes)

    few = 10 if DEVICE == "cuda" else 1
    slow, _ = score_tasks(WithoutBank(), tasks[:few])
    fast = bank.scores(tasks)
    assert float(np.abs(slow - fast[: len(slow)]).max()) < 1e-5
    return {
        "embed the pool once": best_of(lambda: learner.embed(pool.x), 2),
        "gram matrix, once": gram,
        "draw the tasks": best_of(draw, 3),
        "score 500 tasks": best_of(lambda: bank.scores(tasks)),
        "score 500 tasks without bank": best_of(lambda: score_tasks(WithoutBank(), tasks[:few]), 2)
        * (500 / few),
    }


def embedding_speed(images: int) -> dict[str, float]:
    """Return images per second of ResNet-50 on 32 x 32 images, as CIFAR10-C has them."""
    x = torch.randint(256, (images, 3, 32, 32), dtype=torch.uint8, device=DEVICE)
    learner = ProtoNet(ResNet50(rng=0).to(DEVICE))
    speeds = {}
    for layout in ("channels first", "channels last"):
        if layout == "channels last":
            learner.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for fast in (False, True):
            learner.embed(x[:1024], fast=fast)
            seconds = best_of(partial(learner.embed, x, fast=fast), 3)
            speeds[f"{layout}{', fast' * fast}"] = images / seconds
    return speeds


def main(output: str, data: list[str]) -> None:
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    results: dict[str, Any] = {"device": device, "torch": torch.__version__}
    pool = random_pool(64, 0)
    steps = (8, 16, 32) if DEVICE == "cuda" else (4,)
    results["plain episodes per second"] = plain_throughput(pool, 300 if DEVICE == "cuda" else 3)
    results["episodes per second"] = {str(step): throughput(pool, step) for step in steps}
    print(json.dumps(results), flush=True)
    results["calibration draw"] = calibration_draw(random_pool(16, 1))
    print(json.dumps(results["calibration draw"]), flush=True)
    results["images per second"] = embedding_speed(8192 if DEVICE == "cuda" else 64)
    print(json.dumps(results["images per second"]), flush=True)
    if data:
        results["time to accuracy"] = time_to_accuracy((load(data[0]), load(data[1])), 0.64)
        print(json.dumps(results["time to accuracy"]), flush=True)
    Path(output).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
