"""What a guarantee is about: model, tasks, labels and data, in the user's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac._common import brief, listed, warn
from metapac._text import name_score
from metapac.data_checks import judge_near_names, report
from metapac.errors import InvalidInput
from metapac.inputs import as_plain_label, match_names

if TYPE_CHECKING:
    from metapac.score_functions import ScoreFunction

# Parameters that list tasks, and why the guarantee does not hold if one of them is calibrated on.
_APART = {
    "trained_on": "the model knows their labels",
    "pilot": "the levels were chosen on them",
}


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a guarantee is about. It is stored in the promise file and changes no threshold.

    Parameters
    ----------
    model : str, optional
        Name and version of the model that gave the scores. Prediction and evaluation compare it.
    score : str or ScoreFunction, optional
        Score function that was calibrated, such as "margin". Prediction and evaluation compare
        it.
    trained_on : iterable, optional
        Tasks that the model was trained on. None of them may be a calibration task.
    training : str, optional
        What the model was trained on if that cannot be listed as tasks, such as "64 other classes".
    pilot : iterable, optional
        Tasks on which epsilon or alpha were chosen. None of them may be a calibration task.
    drawn_from : str, optional
        What the calibration tasks were drawn from, such as "16 classes", if they share it. The
        explanation then says that the guarantee is for new tasks of these classes.
    unit : str, default "task"
        What a task is called in explanations, such as "hospital". For an irregular plural, give
        both: "person/people".
    example : str, default "example"
        What an example is called in explanations, such as "patient".
    cluster : str, optional
        What a cluster of tasks is called if calibrated with ``clusters``, such as "alphabet"; by
        default the name of its column, or "cluster".

    Raises
    ------
    InvalidInput
        If a name is not a non-empty string, or tasks are not strings or integers.

    Examples
    --------
    >>> from metapac import Context
    >>> context = Context(model="triage 3.1", unit="hospital", example="patient")
    >>> context.model
    'triage 3.1'
    """

    model: str | None = None
    score: str | ScoreFunction | None = None
    trained_on: Iterable[Any] | None = None
    training: str | None = None
    pilot: Iterable[Any] | None = None
    drawn_from: str | None = None
    unit: str = "task"
    example: str = "example"
    cluster: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", _as_score_name(self.score))
        for name in ("unit", "example"):
            _check_name(name, getattr(self, name))
        for name in ("model", "score", "training", "drawn_from", "cluster"):
            _check_name(name, getattr(self, name), optional=True)
        for name in _APART:
            object.__setattr__(self, name, _as_tasks(name, getattr(self, name)))

    def check_calibration_tasks(self, tasks: Iterable[Any], allow: Iterable[str] = ()) -> None:
        """Raise InvalidInput if a calibration task was trained on, or is a pilot task.

        Parameters
        ----------
        tasks : iterable
            Names of the calibration tasks. 7 and "7" are the same name.
        allow : iterable of str, default ()
            Checks to skip: "task-names" takes names that are alike for different tasks.
        """
        calibrated = [*tasks]
        for name, reason in _APART.items():
            same, near = match_names(getattr(self, name) or (), calibrated)
            if same:
                one = len(same) == 1
                raise InvalidInput(
                    f"{name} and the calibration tasks share "
                    f"{'1 task' if one else f'{len(same)} tasks'}: {listed([*map(repr, same)])}. "
                    "The guarantee does not hold if "
                    f"{reason.replace('their', 'its').replace('them', 'it') if one else reason}. "
                    f"Leave {'it' if one else 'them'} out of the calibration data.",
                    parameter=name,
                )
            kind = "training" if name == "trained_on" else name
            report([judge_near_names(near, "calibration tasks", what=f"{kind} task")], allow)

    def check_model(self, model: str | None) -> None:
        """Raise InvalidInput if scores are of another model; warn if that cannot be told.

        Parameters
        ----------
        model : str or None
            Name of the model that gave the scores; None if it is not known.
        """
        if model is None:
            return
        _check_name("model", model)
        if self.model is None:
            warn(
                f"The guarantee names no model, so it cannot be compared with {model!r}. Name it "
                "when you calibrate."
            )
        elif model != self.model:
            raise InvalidInput(
                f"model must be {self.model!r}, the model that was calibrated, got {model!r}. A "
                "guarantee holds for one model: calibrate the other one.",
                parameter="model",
            )

    def check_score(self, score: str | ScoreFunction | None) -> None:
        """Raise InvalidInput if scores are of another score function; warn if none is on record.

        Parameters
        ----------
        score : str, ScoreFunction or None
            Score function that gave the scores; None if it is not known.
        """
        if score is None:
            return
        name = name_score(score)
        _check_name("score", name)
        if self.score is None:
            warn(
                f"The guarantee names no score function, so it cannot be compared with "
                f"{name!r}. Name it when you calibrate: Context(score={name!r})."
            )
        elif name != name_score(self.score):
            raise InvalidInput(
                f"the score must be {name_score(self.score)!r}, the score function that was "
                f"calibrated, got {name!r}. Score the examples with the calibrated one."
            )

    def to_json(self) -> dict[str, Any]:
        """Return the context as JSON can hold it.

        Returns
        -------
        dict
            What was given, without defaults.
        """
        default = Context()
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
            if value != getattr(default, name)
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any] | None) -> Context:
        """Return the context in a promise file.

        Parameters
        ----------
        body : mapping or None
            What ``to_json`` returned; None in a file of an older version.

        Returns
        -------
        Context
            The context.
        """
        names = cls.__dataclass_fields__
        given = {} if body is None else {k: v for k, v in body.items() if k in names}
        return cls(**{name: value for name, value in given.items() if value is not None})


def as_context(
    context: Context | None, tasks: Iterable[Any] = (), allow: Iterable[str] = ()
) -> Context:
    """Return a context that fits the calibration tasks."""
    if context is None:
        return Context()
    if not isinstance(context, Context):
        raise InvalidInput(
            f"context must be a metapac.Context, got {brief(context)}. Pass Context(model=...)."
        )
    context.check_calibration_tasks(tasks, allow)
    return context


def _as_score_name(score: Any) -> Any:
    """Return the name of a score function; anything else as it is."""
    if score is None or isinstance(score, str):
        return score
    from metapac.score_functions import ScoreFunction

    return str(score) if isinstance(score, ScoreFunction) else score


def _check_name(name: str, value: Any, *, optional: bool = False) -> None:
    if optional and value is None:
        return
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} must be a non-empty string, got {value!r}.", parameter=name)


def _as_tasks(name: str, tasks: Any) -> tuple[str | int, ...] | None:
    """Return distinct names of tasks in the order given."""
    if tasks is None:
        return None
    is_table = getattr(tasks, "ndim", 1) != 1 or hasattr(tasks, "columns")
    if isinstance(tasks, str | bytes | Mapping) or not isinstance(tasks, Iterable) or is_table:
        raise InvalidInput(
            f"{name} must be a list of task names, or the column that holds them, got "
            f"{brief(tasks)}.",
            parameter=name,
        )
    values = tasks.tolist() if isinstance(tasks, np.ndarray) else list(tasks)
    plain = [as_plain_label(task) for task in values]
    for task in plain:
        if type(task) not in (str, int):
            raise InvalidInput(
                f"{name} must hold strings or integers, got {task!r}.", parameter=name
            )
    return tuple(dict.fromkeys(plain))
