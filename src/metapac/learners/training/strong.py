"""The strong recipe: pre-train as a classifier of all training classes, tune on episodes."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from metapac._types import PathLike, Seed
from metapac.exceptions import InvalidInput
from metapac.learners.networks.sphere import Sphere
from metapac.learners.protonet import ProtoNet
from metapac.learners.training.arguments import as_integer_seed, check_pools
from metapac.learners.training.distributed import Ranks, choose_device
from metapac.learners.training.episodes import fingerprint
from metapac.learners.training.history import Epoch, History
from metapac.learners.training.images import learner_backbone
from metapac.learners.training.loop import explain_failures, lock_run, training_context
from metapac.learners.training.recipes import Recipe, recipe_for
from metapac.learners.training.strong_loop import StrongConfig, StrongTrainer
from metapac.tasks.pools import ClassPool

_SAVE_SECONDS = 60.0


def train_strong(
    learner: ProtoNet,
    train_pool: ClassPool,
    validation_pool: ClassPool,
    *,
    recipe: Recipe | None = None,
    ways: int = 5,
    shots: int = 5,
    queries: int = 15,
    validation_tasks: int = 200,
    device: str | torch.device | None = None,
    checkpoint: PathLike | None = None,
    rng: Seed = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
    compile: bool | None = None,
) -> History:
    """Pre-train a ProtoNet to classify all training classes, then tune it on episodes.

    In pre-training, images are cropped, mirrored and recoloured at random, and rotated copies count
    as further classes. Tuning starts from averaged weights and trains the network together with the
    scale of its vectors; the weights of its last half are averaged. No epoch is selected, so the
    validation classes only measure progress.

    Parameters
    ----------
    learner : ProtoNet
        Learner to train, on a `Sphere`, whose scale is learned.
    train_pool : ClassPool
        Pool to train on.
    validation_pool : ClassPool
        Pool on which each epoch is measured.
    recipe : Recipe, optional
        How to train; by default ``recipe_for`` the backbone.
    ways : int, default 5
        Number of classes in an episode.
    shots : int, default 5
        Number of support examples of each class.
    queries : int, default 15
        Number of query examples of each class.
    validation_tasks : int, default 200
        Number of validation tasks, the same in all epochs.
    device : str or torch.device, optional
        Device to train on; by default a GPU if there is one.
    checkpoint : str or path-like, optional
        Folder of the checkpoint, which is written once a minute. A killed run resumes from it.
    rng : int, numpy.random.Generator or None, default 0
        Seed.
    on_epoch : callable, optional
        Called with each finished `Epoch`.
    compile : bool, optional
        Whether to compile pre-training; by default on a GPU.

    Returns
    -------
    History
        All epochs: those of pre-training, then those of tuning, of up to 100 steps each. The
        accuracy of the last one is that of the averaged weights, which the learner ends with.

    Raises
    ------
    InvalidInput
        If an argument is not valid, if the loss diverges, if the checkpoint is of a run with other
        arguments, or if another process is training in its folder.
    BadArtefact
        If the checkpoint is damaged.

    Notes
    -----
    All randomness of an epoch is derived from ``rng`` and the number of the epoch. On a CPU with
    the same number of threads, a resumed run therefore ends with identical weights.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.learners import MLP, ProtoNet, Recipe, Sphere, train_strong
    >>> from metapac.tasks import split_classes
    >>> y = np.repeat(np.arange(8), 20)
    >>> x = np.random.default_rng(0).normal(y[:, None], 0.1, (160, 2))
    >>> pools = split_classes(x, y, train=4, validation=4, calibration=0, test=0, rng=0)
    >>> history = train_strong(
    ...     ProtoNet(Sphere(MLP(2, rng=0))), pools.train, pools.validation, ways=2, device="cpu",
    ...     recipe=Recipe(epochs=2, batch=16, tuning_steps=10))
    >>> len(history.epochs)
    3
    """
    check_pools(train_pool, validation_pool)
    _check_learner(learner, train_pool)
    config = StrongConfig(
        recipe=recipe or recipe_for(learner_backbone(learner)),
        ways=ways,
        shots=shots,
        queries=queries,
        validation_tasks=validation_tasks,
        train_pool=fingerprint(train_pool),
        validation_pool=fingerprint(validation_pool),
        rng=as_integer_seed(rng),
    )
    where, ranks = choose_device(device), Ranks()
    with training_context(learner.module, where, ranks), lock_run(checkpoint, ranks):
        trainer = StrongTrainer(learner, train_pool, validation_pool, config, where, compile)
        history, saved = trainer.start(checkpoint), time.monotonic()
        while len(history.epochs) < config.epochs:
            with explain_failures(learner, trainer.sampler):
                history = trainer.train_epoch(history)
            if time.monotonic() - saved > _SAVE_SECONDS or len(history.epochs) == config.epochs:
                trainer.save(checkpoint, history)
                saved = time.monotonic()
            if on_epoch is not None:
                on_epoch(history.epochs[-1])
    return history


def _check_learner(learner: object, pool: object) -> None:
    if not isinstance(learner, ProtoNet) or not isinstance(learner.module, Sphere):
        raise InvalidInput(
            "learner must be a ProtoNet on a Sphere, whose scale the strong recipe learns, "
            f"got {type(learner).__name__}. Pass ProtoNet(Sphere(backbone)), or train it with "
            "train()."
        )
    if not isinstance(getattr(learner.module.backbone, "features", None), int):
        raise InvalidInput(
            "the backbone must say the length of its vectors as features, got "
            f"{type(learner.module.backbone).__name__} without it. Set backbone.features."
        )
    if not isinstance(pool, ClassPool) or pool.transform is not None:
        raise InvalidInput(
            "train_pool must be a ClassPool without a transform, since the strong recipe learns to "
            f"tell its classes apart, got {pool!r}. Train it with train()."
        )
