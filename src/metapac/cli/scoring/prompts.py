"""Scores of questions in the sample logs of lm-evaluation-harness, for ``metapac score``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from metapac.cli.scoring.tasks import Scored, TaskOptions
from metapac.exceptions import InvalidInput, Parameter
from metapac.lm_eval.samples import Samples, name_model, read_samples
from metapac.scoring.provenance import Provenance

_prompts_option = partial(typer.Option, rich_help_panel="Logs of lm-evaluation-harness")
_UNNAMED = "The model is not named, so another one cannot be noticed. Pass --model."
_COLUMNS = {"task": "task", "label": "label", "score": "score", "columns": "scores", "id": "id"}


@dataclass(frozen=True)
class PromptOptions:
    """The options for scoring logged questions.

    Attributes
    ----------
    task : str or None
        Field that names the task.
    normalise : str or None
        Length to divide log-likelihoods by.
    target : str or None
        How the right choice is logged.
    filter : str or None
        Filter whose responses to read.
    """

    task: Annotated[
        str | None,
        _prompts_option(
            metavar="FIELD",
            help="Field that names the task of a question, such as doc.subject. By default the "
            "harness's own task, from the name of the log.",
        ),
    ] = None
    normalise: Annotated[
        str | None,
        _prompts_option(
            metavar="none|characters|bytes",
            help="Divide log-likelihoods by the length of the choice, as the harness does for "
            "acc_norm (characters) and acc_bytes (bytes). By default none.",
        ),
    ] = None
    target: Annotated[
        str | None,
        _prompts_option(
            metavar="auto|index|text",
            help="Whether the target is the position or the text of the right choice. By default "
            "both are tried and compared with the logged accuracy.",
        ),
    ] = None
    filter: Annotated[
        str | None,
        _prompts_option(metavar="NAME", help="Filter to read, if the log has several."),
    ] = None


def reject_drawing(source: Path, options: TaskOptions) -> None:
    """Raise InvalidInput for an option that is about drawing tasks.

    Parameters
    ----------
    source : Path
        The log.
    options : TaskOptions
        The options; all but the score function must have their defaults.
    """
    for name, value in vars(options).items():
        if name != "score" and value != getattr(TaskOptions, name):
            raise InvalidInput(
                "{} is for tasks that are drawn, and {} is a sample log, whose questions are all "
                "read. Leave it out.",
                Parameter(name),
                source,
            )


def score_prompts(
    logs: Sequence[Path], options: PromptOptions, *, score: str, model: str | None
) -> Scored:
    """Read logged questions and score their choices.

    Parameters
    ----------
    logs : sequence of Path
        Logs, or folders that hold them.
    options : PromptOptions
        How to read them.
    score : str
        Name of the score function.
    model : str or None
        Name of the model; None to read it from the results beside the logs.

    Returns
    -------
    Scored
        The table and its provenance.
    """
    normalise = options.normalise or "none"
    samples = read_samples(
        logs,
        task=options.task,
        score=score,
        normalise=normalise,
        target=options.target or "auto",
        filter=options.filter,
        model=model,
    )
    table = {
        "task": samples.tasks,
        "id": samples.ids,
        "label": samples.labels,
        "score": samples.true_scores,
        "scores": samples.scores,
        "choices": [list(choices) for choices in samples.choices],
    }
    settings = {"task_field": options.task, "normalise": normalise}
    provenance = Provenance(
        model=samples.model or name_model("unnamed model", normalise),
        score=samples.score,
        columns=_COLUMNS,
        details=_describe(samples) | settings,
    )
    return Scored(table, provenance, (_UNNAMED,) if samples.model is None else ())


def _describe(samples: Samples) -> dict[str, str | float]:
    best = np.array([np.argmax(scores) for scores in samples.scores])
    return {
        "kind": "prompts",
        "tasks": len(set(samples.tasks.tolist())),
        "examples": len(samples),
        "accuracy": float(np.mean(best == samples.labels)),
    }
