"""The two stages of the strong recipe: pre-training as a classifier, then tuning on episodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel

from metapac.learners.networks.sphere import Sphere
from metapac.learners.protonet import ProtoNet
from metapac.learners.training.episodes import EpisodeSampler
from metapac.learners.training.images import Images, learner_backbone
from metapac.learners.training.loop import seeded_torch
from metapac.learners.training.loss import EpisodeLoss, mixed_precision
from metapac.learners.training.recipes import STEPS_PER_EPOCH, Recipe

_AVERAGE_EVERY = 10  # steps of tuning
_SCALE_LR = 0.01


class Stage:
    """A stage of training, with its optimiser and its averaged weights.

    Parameters
    ----------
    learner : ProtoNet
        Learner to train.
    parameters : iterable
        What `torch.optim.SGD` takes: parameters, or groups of them.
    lr : float
        Learning rate.
    weight_decay : float
        Weight decay.
    nesterov : bool
        Whether the momentum of 0.9 is Nesterov's.

    Attributes
    ----------
    optimiser : torch.optim.SGD
        The optimiser.
    average : torch.optim.swa_utils.AveragedModel
        The averaged weights.
    """

    lr_name: str  # the field of `Recipe` that sets the learning rate

    def __init__(
        self,
        learner: ProtoNet,
        parameters: Iterable[Any],
        lr: float,
        weight_decay: float,
        *,
        nesterov: bool,
    ) -> None:
        self.learner = learner
        self.optimiser = torch.optim.SGD(
            parameters, lr, momentum=0.9, nesterov=nesterov, weight_decay=weight_decay
        )
        self.average = AveragedModel(learner.module)

    @property
    def lr(self) -> float:
        """Learning rate of the last step."""
        return float(self.optimiser.param_groups[0]["lr"])

    def train_epoch(self, epoch: int, seed: int) -> float:
        """Train one epoch.

        Parameters
        ----------
        epoch : int
            Number of the epoch in the run, from 1.
        seed : int
            Seed of the examples that are drawn.

        Returns
        -------
        float
            The mean loss.
        """
        raise NotImplementedError

    def _step(self, loss: Tensor, lr: float) -> Tensor:
        """Take one step of the optimiser, and return the loss without its graph."""
        self.optimiser.param_groups[0]["lr"] = lr  # that of the scale stays
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()


class Pretraining(Stage):
    """The backbone and a linear layer learn to tell all training classes apart.

    Parameters
    ----------
    learner : ProtoNet
        Learner to train.
    images : Images
        The training examples.
    seed : int
        Seed of the linear layer.
    compile : bool or None
        Whether to compile the network; None compiles it on a GPU.
    """

    lr_name = "lr"

    def __init__(
        self, learner: ProtoNet, images: Images, *, seed: int, compile: bool | None
    ) -> None:
        self.images, self.recipe, device = images, images.recipe, images.device
        with seeded_torch(seed, device):
            self.classifier = BackboneClassifier(learner_backbone(learner), images.outputs, device)
        if compile or (compile is None and device.type == "cuda"):
            self.classifier.compile(dynamic=False)
        super().__init__(
            learner,
            self.classifier.parameters(),
            self.recipe.lr,
            self.recipe.weight_decay,
            nesterov=True,
        )

    def train_epoch(self, epoch: int, seed: int) -> float:
        recipe, images, device = self.recipe, self.images, self.images.device
        generator = torch.Generator(device).manual_seed(seed)
        first = (epoch - 1) * images.batches
        total = torch.zeros((), device=device)
        self.learner.module.train()
        for i, (x, y) in enumerate(images.epoch(generator)):
            with mixed_precision(device):
                logits = self.classifier(x)
            lr = recipe.learning_rate(first + i, recipe.epochs * images.batches)
            total += self._step(cross_entropy(logits.float(), y), lr)
        if epoch == recipe.epochs or epoch > recipe.epochs * (1 - recipe.averaged):
            self.average.update_parameters(self.learner.module)
        return float(total) / images.batches


class Tuning(Stage):
    """The network and its scale are trained on episodes; an epoch has up to 100 steps.

    Parameters
    ----------
    learner : ProtoNet
        Learner to train, on a `Sphere`.
    sampler : EpisodeSampler
        Sampler of the training episodes.
    recipe : Recipe
        How to train.
    """

    lr_name = "tuning_lr"

    def __init__(self, learner: ProtoNet, sampler: EpisodeSampler, recipe: Recipe) -> None:
        sphere = cast(Sphere, learner.module)
        groups = [
            {"params": list(sphere.backbone.parameters())},
            {"params": [sphere.log_temperature], "lr": _SCALE_LR, "weight_decay": 0},
        ]
        super().__init__(learner, groups, recipe.tuning_lr, recipe.weight_decay, nesterov=False)
        self.sampler, self.recipe = sampler, recipe
        self.loss = EpisodeLoss(learner, sampler.classes, None)

    def train_epoch(self, epoch: int, seed: int) -> float:
        recipe, per_step = self.recipe, self.recipe.episodes_per_step
        first = (epoch - recipe.epochs - 1) * STEPS_PER_EPOCH
        steps = range(first, min(first + STEPS_PER_EPOCH, recipe.tuning_steps))
        drawn = self.sampler.draw(len(steps) * per_step, seed)
        total = torch.zeros((), device=self.sampler.device)
        self.learner.module.train()
        for i, step in enumerate(steps):
            episodes = self.sampler.gather(drawn.part(i * per_step, (i + 1) * per_step))
            total += self._step(self.loss(*episodes[:4]), recipe.tuning_rate(step))
            late = 2 * step >= recipe.tuning_steps
            if (late and step % _AVERAGE_EVERY == 0) or step + 1 == recipe.tuning_steps:
                self.average.update_parameters(self.learner.module)
        return float(total) / len(steps)


class BackboneClassifier(nn.Module):
    """A backbone with one output for each training class.

    Parameters
    ----------
    backbone : torch.nn.Module
        The backbone.
    outputs : int
        Number of outputs.
    device : torch.device
        Device of the linear layer.
    """

    def __init__(self, backbone: nn.Module, outputs: int, device: torch.device) -> None:
        super().__init__()
        self.backbone = backbone
        features = cast(int, backbone.features)
        self.head = nn.Linear(features, outputs, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of the classes.

        Parameters
        ----------
        x : Tensor, shape (n, ...)
            Examples.

        Returns
        -------
        Tensor, shape (n, outputs)
            The logits.
        """
        logits: Tensor = self.head(self.backbone(x))
        return logits
