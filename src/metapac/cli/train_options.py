"""Options of ``metapac train``: the tasks, the recipe, how long and how fast."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import typer

from metapac.exceptions import InvalidInput, Parameter

PAPER: dict[str, Any] = {
    "epochs": 20,
    "episodes_per_epoch": 400,
    "episodes_per_step": 8,
    "lr": 1e-3,
    "halve_every": 40,
}
_STRONG_ONLY = ("tuning_steps", "flip")
_PAPER_ONLY = (
    "episodes_per_epoch",
    "episodes_per_step",
    "halve_every",
    "patience",
    "class_weights",
)
_episode_option = partial(typer.Option, rich_help_panel="Episodes")
_training_option = partial(typer.Option, rich_help_panel="Training")


@dataclass(frozen=True)
class EpisodeOptions:
    """The tasks that the learner is trained on.

    Attributes
    ----------
    ways : int or None
        Classes per task.
    shots : int
        Support examples.
    queries : int
        Query examples.
    """

    ways: Annotated[
        int | None,
        _episode_option(
            min=1,
            help="Classes per task; not used if the data have groups. By default 5, or 10 for "
            "cifar10c.",
        ),
    ] = None
    shots: Annotated[
        int,
        _episode_option(
            min=1, help="Support examples per class (or per group), to which the learner adapts."
        ),
    ] = 5
    queries: Annotated[
        int,
        _episode_option(
            min=1, help="Query examples per class (or per group), on which it is scored."
        ),
    ] = 5


@dataclass(frozen=True)
class TrainingOptions:
    """How long and how fast the learner is trained.

    Attributes
    ----------
    recipe : str
        ``"paper"`` or ``"strong"``.
    epochs : int or None
        Number of epochs; None for that of the recipe, as everywhere below.
    lr : float or None
        Initial learning rate.
    tuning_steps : int or None
        Steps on episodes after pre-training.
    flip : bool or None
        Whether images are mirrored.
    validation_tasks : int
        Number of validation and of test tasks.
    episodes_per_epoch : int or None
        Training tasks per epoch.
    episodes_per_step : int or None
        Training tasks per optimiser step.
    halve_every : int or None
        Epochs after which the learning rate is halved.
    patience : int or None
        Epochs without improvement after which training stops.
    class_weights : str or None
        Weight of each label, separated by commas.
    """

    recipe: Annotated[
        str,
        _training_option(
            metavar="paper|strong",
            help="paper: train on episodes and keep the best epoch. strong: pre-train on all "
            "training classes, then tune on episodes; for a protonet on images.",
        ),
    ] = "paper"
    epochs: Annotated[
        int | None,
        _training_option(
            min=1,
            help="Number of epochs, by default 20; a larger value extends a finished run. With "
            "strong: epochs of pre-training, by default 60 for conv4 and 44 otherwise.",
        ),
    ] = None
    lr: Annotated[
        float | None,
        _training_option(
            help="Initial learning rate, by default 0.001 (Adam), or 0.1 with strong (SGD)."
        ),
    ] = None
    tuning_steps: Annotated[
        int | None,
        _training_option(
            min=0,
            help="Optimiser steps of tuning (strong), by default 3000 for conv4 and 400 otherwise.",
        ),
    ] = None
    flip: Annotated[
        bool | None,
        _training_option(
            "--flip/--no-flip",
            help="Augment by mirrored images (strong). Pass --no-flip for letters and digits.",
        ),
    ] = None
    validation_tasks: Annotated[
        int, _training_option("--tasks", min=1, help="Number of validation and of test tasks.")
    ] = 400
    episodes_per_epoch: Annotated[
        int | None,
        _training_option(
            "--episodes", min=1, help="Training tasks per epoch (paper), by default 400."
        ),
    ] = None
    episodes_per_step: Annotated[
        int | None,
        _training_option(
            "--batch", min=1, help="Training tasks per optimiser step (paper), by default 8."
        ),
    ] = None
    halve_every: Annotated[
        int | None,
        _training_option(
            min=1,
            help="Halve the learning rate after this many epochs (paper), by default 40.",
        ),
    ] = None
    patience: Annotated[
        int | None,
        _training_option(min=1, help="Stop after this many epochs without improvement (paper)."),
    ] = None
    class_weights: Annotated[
        str | None,
        _training_option(
            metavar="NUMBERS",
            help="Weight of each label in the loss, separated by commas, such as 1,10 (paper).",
        ),
    ] = None

    def for_paper(self) -> dict[str, Any]:
        """Return the options as `train` takes them.

        Returns
        -------
        dict
            Arguments of `train`.
        """
        self._refuse(_STRONG_ONLY, "strong")
        given = {
            name: value
            for name, value in asdict(self).items()
            if name not in ("recipe", *_STRONG_ONLY) and value is not None
        }
        return PAPER | given | {"class_weights": _parse_numbers(self.class_weights)}

    def for_strong(self) -> dict[str, Any]:
        """Return the changes to the recipe that suits the backbone.

        Returns
        -------
        dict
            Fields of `Recipe`, None where the recipe decides.
        """
        self._refuse(_PAPER_ONLY, "paper")
        return {name: getattr(self, name) for name in ("epochs", "lr", *_STRONG_ONLY)}

    def _refuse(self, names: tuple[str, ...], recipe: str) -> None:
        """Raise if an option was given that only the other recipe uses."""
        for name in names:
            if getattr(self, name) is not None:
                raise InvalidInput(
                    "{} is used by {} only. Leave it out.",
                    Parameter(name),
                    Parameter("recipe", recipe),
                )


def _parse_numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InvalidInput(
            "{} must be numbers separated by commas, such as 1,10, got {!r}.",
            Parameter("class_weights"),
            text,
        ) from None
