"""Where the scores of a table come from, compared with what a guarantee is about."""

from __future__ import annotations

from dataclasses import replace

from metapac.context import Context
from metapac.exceptions import InvalidInput, Parameter
from metapac.scoring.provenance import Provenance, differing_options, read_common_provenance
from metapac.tables.io.sources import Source


def read_origin(source: Source) -> Provenance | None:
    """Return where the scores of a table come from.

    Parameters
    ----------
    source : Source
        The open table.

    Returns
    -------
    Provenance or None
        What its Parquet files say; None if they say nothing.
    """
    return read_common_provenance(source.files)


def check_origin(source: Source, context: Context, model: str | None) -> None:
    """Raise InvalidInput if a table has scores of another model or score function.

    Parameters
    ----------
    source : Source
        The open table. What it says about its model counts more than ``model``.
    context : Context
        What the guarantee is about.
    model : str or None
        Name of the model that the user gave, if any.
    """
    origin = read_origin(source)
    if origin is None:
        context.check_model(model)
        return
    _check_name(source, origin, model)
    if context.model not in (None, origin.model):
        _check_options(source, origin.model, str(context.model))
        raise InvalidInput(
            "{} was scored by {!r}; the guarantee is for {!r}. A guarantee holds for one model: "
            "score with that one, or calibrate the other one.",
            source.name,
            origin.model,
            context.model,
        )
    context.check_model(origin.model)
    if context.score is not None:
        context.check_score(origin.score)


def _check_options(source: Source, model: str, calibrated: str) -> None:
    """Raise if options of ``metapac score`` are all that differs from what was calibrated."""
    options = differing_options(model, calibrated)
    if options:
        found = [f"--{name} {value}" for name, (value, _) in options.items() if value]
        wanted = " ".join(f"--{name} {value}" for name, (_, value) in options.items())
        raise InvalidInput(
            "{} was scored with {}, and the calibration tasks with {}. A guarantee holds for tasks "
            "and a learner of one kind: run 'metapac score' again with {}.",
            source.name,
            " ".join(found) or "other options",
            wanted,
            wanted,
        )


def add_origin(source: Source, context: Context) -> Context:
    """Return a context with the model that gave the scores, its score function and training tasks.

    Parameters
    ----------
    source : Source
        The open table.
    context : Context
        What the guarantee is about.

    Returns
    -------
    Context
        The context.

    Raises
    ------
    InvalidInput
        If it names another model, or the tasks are of a pool that the learner has seen.
    """
    origin = read_origin(source)
    if origin is None:
        return context
    _check_name(source, origin, context.model)
    _check_pool(origin)
    if context.score is not None:
        context.check_score(origin.score)
    trained_on = [*(context.trained_on or ()), *(origin.details.get("trained_on") or ())]
    return replace(
        context,
        model=origin.model,
        score=origin.score,
        trained_on=trained_on or context.trained_on,
        training=context.training or origin.details.get("training"),
        drawn_from=context.drawn_from or origin.details.get("drawn_from"),
    )


def _check_name(source: Source, origin: Provenance, model: str | None) -> None:
    """Raise if the user names another model than the table does."""
    if model not in (None, origin.model):
        raise InvalidInput(
            "{} must be {!r}, which {} names as the model that scored it, got {!r}. Leave it out.",
            Parameter("model"),
            origin.model,
            source.name,
            model,
        )


def _check_pool(origin: Provenance) -> None:
    """Raise if tasks are of classes or groups that the learner was trained on."""
    pool = origin.details.get("pool")
    if pool in ("train", "validation"):
        raise InvalidInput(
            f"the scores are of tasks of the pool {pool!r}, which the learner has seen in "
            "training: they are too good to calibrate on. Score tasks of the pool 'calibration'."
        )
