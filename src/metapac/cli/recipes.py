"""Recipes to train a learner: the paper's, or the strong one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from metapac._checks import check_one_of
from metapac.cli.train_options import TrainingOptions
from metapac.exceptions import InvalidInput, Parameter

if TYPE_CHECKING:
    from metapac.learners import History


@dataclass(frozen=True)
class Fit:
    """A recipe with its settings.

    Attributes
    ----------
    run : callable
        Trains a learner: takes it, its pools and the tasks.
    stages : dict from str to int
        The stages, with the number of epochs of each.
    options : dict
        The settings, as run.json records them.
    """

    run: Callable[..., History]
    stages: dict[str, int]
    options: dict[str, Any]

    def locate(self, epoch: int) -> tuple[str, int, int]:
        """Return where an epoch is.

        Parameters
        ----------
        epoch : int
            Its number, from 1.

        Returns
        -------
        stage : str
            The stage.
        number, epochs : int
            Its number in the stage, and the number of epochs of the stage.
        """
        (stage, epochs), *later = self.stages.items()
        for following in later:
            if epoch > epochs:
                epoch -= epochs
                stage, epochs = following
        return stage, epoch, epochs


def choose_recipe(library: ModuleType, training: TrainingOptions, model: Any) -> Fit:
    """Return the recipe that the options ask for.

    Parameters
    ----------
    library : module
        ``metapac.learners.training.train``.
    training : TrainingOptions
        The options.
    model : Trainable
        The learner to train.

    Returns
    -------
    Fit
        The recipe.
    """
    check_one_of("recipe", training.recipe, ("paper", "strong"))
    if training.recipe == "paper":
        settings = training.for_paper()
        options = {
            "lr": settings["lr"],
            "halve_every": settings["halve_every"],
            "epochs": settings["epochs"],
            "episodes": settings["episodes_per_epoch"],
            "batch": settings["episodes_per_step"],
        }
        stages = {"training": settings["epochs"]}
        return Fit(partial(library.train, **settings), stages, options)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InvalidInput(
            "{} runs in one process. Start it without torchrun.", Parameter("recipe", "strong")
        )
    from metapac.learners import recipe_for, train_strong

    recipe = recipe_for(model.module.backbone, **training.for_strong())
    run = partial(train_strong, recipe=recipe, validation_tasks=training.validation_tasks)
    stages = {"pre-training": recipe.epochs, "tuning": recipe.tuning_epochs}
    return Fit(run, stages, {"recipe": "strong", **asdict(recipe)})
