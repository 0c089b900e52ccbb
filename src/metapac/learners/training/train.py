"""Meta-training of any learner on episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from metapac._checks import as_whole_number
from metapac._types import PathLike, Seed
from metapac.learners.protocols import Trainable
from metapac.learners.training.arguments import as_integer_seed, check_pools, check_trainable
from metapac.learners.training.distributed import choose_device, process_group
from metapac.learners.training.episodes import Pool, fingerprint
from metapac.learners.training.history import Epoch, History, TrainingConfig
from metapac.learners.training.loop import (
    Trainer,
    explain_failures,
    lock_run,
    training_context,
)


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
    checkpoint: PathLike | None = None,
    rng: Seed = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
    compile: bool | None = None,
) -> History:
    """Meta-train a learner on episodes, and leave it with the weights of its best epoch.

    Parameters
    ----------
    learner : Trainable
        Learner to train, such as a `ProtoNet` or a `MAML`.
    train_pool : ClassPool or GroupPool
        Pool to train on.
    validation_pool : ClassPool or GroupPool
        Pool on which the best epoch is chosen.
    ways : int, default 5
        Number of classes in an episode; ignored for a `GroupPool`.
    shots : int, default 5
        Number of support examples, for each class or for the group.
    queries : int, default 5
        Number of query examples, for each class or for the group. Queries whose label is absent
        from the support set do not count in the loss.
    epochs : int, default 200
        Number of epochs; a larger value extends a finished run.
    episodes_per_epoch : int, default 800
        Number of episodes in an epoch, rounded up to whole steps.
    episodes_per_step : int, default 8
        Number of episodes whose mean loss makes an optimiser step.
    lr : float, default 0.001
        Initial learning rate of Adam.
    halve_every : int, default 40
        Number of epochs after which the learning rate is halved.
    class_weights : sequence of float, optional
        Weight of each label, in the loss and in the validation accuracy.
    validation_tasks : int, default 400
        Number of validation tasks, the same in all epochs. The best epoch has the highest
        accuracy on them; ties go to the earlier epoch.
    patience : int, optional
        Stop after this many epochs without improvement.
    device : str or torch.device, optional
        Device to train on; by default a GPU if there is one.
    checkpoint : str or path-like, optional
        Folder of the checkpoint. A run that was killed resumes after its last complete epoch.
    rng : int, numpy.random.Generator or None, default 0
        Seed.
    on_epoch : callable, optional
        Called with each finished `Epoch`, in the first process only.
    compile : bool, optional
        Whether to compile the loss; by default on a single GPU.

    Returns
    -------
    History
        All epochs, including those before the run was resumed.

    Raises
    ------
    InvalidInput
        If an argument is not valid, if the loss diverges, if the checkpoint is of a run with
        other arguments, or if another process is training in its folder.
    BadArtefact
        If the checkpoint is damaged.

    Notes
    -----
    All randomness of an epoch is derived from ``rng`` and the number of the epoch. On a CPU with
    the same number of threads, a resumed run therefore ends with identical weights.

    Under torchrun, or in an existing process group, the processes share the episodes of a step.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.learners import MLP, ProtoNet, train
    >>> from metapac.tasks import split_classes
    >>> y = np.repeat(np.arange(8), 10)
    >>> x = np.random.default_rng(0).normal(y[:, None], 0.1, (80, 2))
    >>> pools = split_classes(x, y, train=4, validation=4, calibration=0, test=0, rng=0)
    >>> history = train(ProtoNet(MLP(2, rng=0)), pools.train, pools.validation, ways=2,
    ...                 epochs=2, episodes_per_epoch=8, validation_tasks=10, device="cpu")
    >>> len(history.epochs)
    2
    """
    as_whole_number("epochs", epochs)
    check_trainable(learner)
    check_pools(train_pool, validation_pool)
    config = TrainingConfig(
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
        rng=as_integer_seed(rng),
        train_pool=fingerprint(train_pool),
        validation_pool=fingerprint(validation_pool),
    )
    where = choose_device(device)
    with process_group(where) as ranks, training_context(learner.module, where, ranks):
        trainer = Trainer(learner, train_pool, validation_pool, config, where, ranks, compile)
        with lock_run(checkpoint, ranks):
            history = trainer.start(checkpoint, epochs, any_rng=rng is None)
            try:
                while len(history.epochs) < epochs and not history.has_stalled(patience):
                    with explain_failures(learner, trainer.sampler):
                        history = trainer.train_epoch(history)
                    trainer.save(checkpoint, history)
                    if on_epoch is not None and ranks.is_first:
                        on_epoch(history.epochs[-1])
            finally:  # even after an error, the learner has its best weights so far
                learner.module.load_state_dict(trainer.best)
    return history
