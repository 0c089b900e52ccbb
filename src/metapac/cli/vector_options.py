"""Options for learners on stored vectors, shared by the commands that adapt them to tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from metapac._checks import check_one_of
from metapac.exceptions import InvalidInput, Message, Parameter

embeddings_option = partial(typer.Option, rich_help_panel="Embeddings")
# The class of each learner, and the options that it takes.
LEARNERS = {
    "prototypes": ("PrototypeLearner", ("metric", "temperature")),
    "ridge": ("RidgeLearner", ("penalty", "temperature")),
    "logistic": ("LogisticLearner", ("penalty",)),
}
_PARAMETERS = ("metric", "temperature", "penalty")


@dataclass(frozen=True)
class VectorOptions:
    """Where vectors, classes and groups are, and the parameters of the learner.

    Attributes
    ----------
    labels, groups : str or None
        A file, or a column of a table.
    columns : str or None
        Columns of a table that hold the vectors.
    metric : str or None
        Distance to prototypes.
    temperature, penalty : float or None
        Other parameters of the learner.
    """

    labels: Annotated[
        str | None,
        embeddings_option(
            metavar="FILE|COLUMN",
            help="Class of each vector: an .npy file, a text file with a class in each line, or a "
            "column of a Parquet file. By default y in an .npz file, 'label' in Parquet.",
        ),
    ] = None
    groups: Annotated[
        str | None,
        embeddings_option(
            metavar="FILE|COLUMN",
            help="Group of each vector, given like --labels, if each group is a task.",
        ),
    ] = None
    columns: Annotated[
        str | None,
        embeddings_option(
            metavar="PATTERN|NAME",
            help="Parquet: a column of lists, or a pattern of columns of numbers, such as 'f_*'. "
            "By default the column of lists, or all columns of numbers.",
        ),
    ] = None
    metric: Annotated[
        str | None,
        embeddings_option(
            metavar="euclidean|cosine", help="Distance to prototypes. By default euclidean."
        ),
    ] = None
    temperature: Annotated[
        float | None,
        embeddings_option(help="Number that logits are divided by. By default 1."),
    ] = None
    penalty: Annotated[
        float | None,
        embeddings_option(help="Ridge and logistic: strength of the penalty. By default 1."),
    ] = None


def build_vector_learner(name: str | None, options: VectorOptions) -> tuple[Any, str]:
    """Return the learner that the options ask for.

    Parameters
    ----------
    name : {"prototypes", "ridge", "logistic"} or None
        The few-shot method; None for prototypes.
    options : VectorOptions
        Its parameters.

    Returns
    -------
    learner : Learner
        The learner.
    description : str
        Its name, with its parameters.

    Raises
    ------
    InvalidInput
        If the method does not take an option that was given.
    """
    from metapac import learners

    name = name or "prototypes"
    check_one_of("learner", name, tuple(LEARNERS))
    class_name, takes = LEARNERS[name]
    given = {key: getattr(options, key) for key in _PARAMETERS if getattr(options, key) is not None}
    for key in given:
        if key not in takes:
            raise InvalidInput(
                "{} does not apply to {}, which takes {}.",
                Parameter(key),
                Parameter("learner", name),
                Message.join(", ", [Parameter(other) for other in takes]),
            )
    learner = getattr(learners, class_name)(**given)
    used = ", ".join(f"{key} {getattr(learner, key)}" for key in takes)
    return learner, f"{name} ({used})"
