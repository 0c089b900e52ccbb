"""One training loop for all learners: episodes by the batch, the best weights kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np
import torch

from metapac import _checks
from metapac.learners._inference import evaluating
from metapac.learners.contract import Trainable
from metapac.learners.course import Epoch, History, Settings
from metapac.learners.distributed import choose_device, process_group
from metapac.learners.episodes import EpisodeSampler, Pool, fingerprint
from metapac.learners.loss import count_correct
from metapac.learners.run import Run, lent
from metapac.tasks.pools import ClassPool, GroupPool

__all__ = ["Epoch", "History", "accuracy", "train"]

Seed = int | np.random.Generator | None


def train(
    learner: Trainable,
    train_pool: Pool,
    validation_pool: Pool,
    *,
    ways: int = 5,
    shots: int = 5,
    queries: int = 5,
    epochs: int = 200,
    episodes_per_epoch: int = 800,
    episodes_per_step: int = 8,
    lr: float = 1e-3,
    halve_every: int = 40,
    class_weights: Sequence[float] | None = None,
    validation_tasks: int = 400,
    patience: int | None = None,
    device: str | torch.device | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    rng: Seed = 0,
    progress: Callable[[Epoch], None] | None = None,
    compile: bool | None = None,
) -> History:
    """Meta-train ``learner`` on episodes of ``train_pool``; it ends with its best weights.

    Adam, its rate halved every ``halve_every`` epochs; a step averages the loss of
    ``episodes_per_step`` episodes, and an epoch is rounded up to whole steps. Best is the highest
    accuracy on ``validation_tasks`` fixed tasks of ``validation_pool``, the earlier of equals, with
    labels weighted by ``class_weights`` as in the loss; ``patience`` epochs without a better one
    end the run. With group pools a task has ``shots`` and ``queries`` examples in all, ``ways`` is
    not used, and queries whose label is absent from the support set are left out of the loss.

    With ``checkpoint``, a folder, a run that was killed goes on after its last whole epoch: on a
    CPU, with as many threads, to the very same weights, since all chance in an epoch comes from
    ``rng`` and its number. More ``epochs`` prolong a run.

    Under torchrun, or in a process group of yours, the episodes of a step are shared out between
    the processes. ``progress`` is called after each epoch, in the first process only. ``device``
    is by default a GPU where there is one, and ``compile`` true on one GPU alone.
    """
    _checks.whole_number("epochs", epochs)
    _refuse_untrainable(learner)
    _refuse_other_pools(train_pool, validation_pool)
    settings = Settings(
        ways=ways,
        shots=shots,
        queries=queries,
        episodes_per_epoch=episodes_per_epoch,
        episodes_per_step=episodes_per_step,
        lr=lr,
        halve_every=halve_every,
        class_weights=None if class_weights is None else list(class_weights),
        validation_tasks=validation_tasks,
        patience=patience,
        rng=_whole(rng),
        train_pool=fingerprint(train_pool),
        validation_pool=fingerprint(validation_pool),
    )
    where = choose_device(device)
    with process_group(where) as ranks, lent(learner.module, where, ranks):
        run = Run(learner, train_pool, validation_pool, settings, where, ranks, compile)
        history = run.begin(checkpoint, epochs, any_rng=rng is None)
        try:
            while len(history.epochs) < epochs and not history.stalled(patience):
                history = run.advance(history)
                run.save(checkpoint, history)
                if progress is not None and ranks.first:
                    progress(history.epochs[-1])
        finally:  # however it ends, the learner is as good as it was
            learner.module.load_state_dict(run.best)
    return history


def accuracy(
    learner: Trainable,
    pool: Pool,
    *,
    ways: int = 5,
    shots: int = 5,
    queries: int = 5,
    tasks: int = 400,
    rng: Seed = 0,
) -> float:
    """Return the share of queries answered rightly on ``tasks`` fresh tasks of ``pool``.

    The learner is scored in eval mode, many tasks at a time, on the device where it is.
    """
    _refuse_untrainable(learner)
    tasks = _checks.whole_number("tasks", tasks)
    device = next(learner.module.parameters()).device
    sampler = EpisodeSampler(pool, device, ways=ways, shots=shots, queries=queries)
    drawn = sampler.draw(tasks, _whole(rng))
    with evaluating(learner.module):
        correct, total = count_correct(learner, sampler, drawn, at_once=8).tolist()
    return float(correct / total)


def _refuse_untrainable(learner: object) -> None:
    if not (hasattr(learner, "module") and hasattr(learner, "logits")):
        raise ValueError(
            f"learner must have a module and logits(), as ProtoNet and MAML have, got "
            f"{type(learner).__name__}. What learns from the support set alone needs no training."
        )


def _refuse_other_pools(train_pool: object, validation_pool: object) -> None:
    for name, pool in (("train_pool", train_pool), ("validation_pool", validation_pool)):
        if not isinstance(pool, ClassPool | GroupPool):
            raise ValueError(
                f"{name} must be a ClassPool or a GroupPool, got {type(pool).__name__}. "
                "Pass pools.train and pools.validation."
            )
        if getattr(pool.x.dtype, "kind", "f") not in "biuf":
            raise ValueError(f"{name} must hold numbers as x, got {pool.x.dtype}.")
    if type(train_pool) is not type(validation_pool):
        raise ValueError("train_pool and validation_pool must both have classes, or both groups.")


def _whole(rng: Seed) -> int:
    """Return a whole number in place of ``rng``: itself, or one that is drawn from it."""
    if isinstance(rng, int | np.integer):
        return _checks.whole_number("rng", rng, least=0)
    return int(np.random.default_rng(rng).integers(2**53))
