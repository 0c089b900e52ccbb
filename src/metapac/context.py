"""What a guarantee is about: model, tasks, labels and data, in the user's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from metapac._common import brief, check_text, listed, warn
from metapac._text import name_score
from metapac.data_checks import judge_near_names, report
from metapac.errors import InvalidInput
from metapac.inputs import as_plain_label, match_names
from metapac.lists import Draw, decode_draw
from metapac.score_functions import ScoreFunction

# Parameters that list tasks, and why the guarantee does not hold if one of them is calibrated on.
_APART = {"trained_on": "the model knows their labels", "pilot": "the levels were chosen on them"}


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a guarantee is about. It is stored in the promise file and changes no threshold.

    Parameters
    ----------
    model : str, optional
        Name and version of the model that gave the scores. Prediction and evaluation compare it.
    score : str, ScoreFunction or callable, optional
        Score function that was calibrated, such as "margin". Prediction and evaluation compare
        it; of a function, the name is stored.
    trained_on : iterable, optional
        Tasks that the model was trained on. None of them may be a calibration task.
    training : str, optional
        What the model was trained on if that cannot be listed as tasks, such as "64 other classes".
    pilot : iterable, optional
        Tasks on which epsilon or alpha were chosen. None of them may be a calibration task.
    draw : Draw, optional
        Draw of the calibration tasks from a finite list, from `draw_tasks`: calibration refuses
        other tasks, and evaluation tasks that are not on the list.
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

    Examples
    --------
    >>> from metapac import Context
    >>> Context(model="triage 3.1", unit="hospital", example="patient").model
    'triage 3.1'
    """

    model: str | None = None
    score: str | ScoreFunction | Callable[[Any], Any] | None = None
    trained_on: Iterable[Any] | None = None
    training: str | None = None
    pilot: Iterable[Any] | None = None
    draw: Draw | None = None
    drawn_from: str | None = None
    unit: str = "task"
    example: str = "example"
    cluster: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.score, ScoreFunction):
            object.__setattr__(self, "score", str(self.score))
        elif callable(self.score):
            object.__setattr__(self, "score", name_score(self.score))
        if not isinstance(self.draw, Draw | None):
            rule = "draw must be what draw_tasks or read_draw returned"
            raise InvalidInput(f"{rule}, got {brief(self.draw)}.")
        for name, value in vars(self).items():
            if name not in (*_APART, "draw") and (value is not None or name in ("unit", "example")):
                check_text(name, value)
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
                shared = f"share {len(same)} task{'s' * (len(same) > 1)}: "
                shared += listed([*map(repr, same)])
                text = f"{name} and the calibration tasks {shared}. Leave them out: {reason}."
                raise InvalidInput(text, parameter=name)
            kind = "training" if name == "trained_on" else name
            report([judge_near_names(near, "calibration tasks", what=f"{kind} task")], allow)

    def check_model(self, model: str | None) -> None:
        """Raise InvalidInput if scores are of another model; warn if that cannot be told.

        Parameters
        ----------
        model : str or None
            Name of the model that gave the scores; None if it is not known.
        """
        if model is not None:
            check_text("model", model)
            _check_same("model", "model", model, self.model, parameter="model")

    def check_score(self, score: str | ScoreFunction | Callable[[Any], Any] | None) -> None:
        """Raise InvalidInput if scores are of another score function; warn if none is on record.

        Parameters
        ----------
        score : str, ScoreFunction, callable or None
            Score function that gave the scores; None if it is not known.
        """
        if score is not None:
            check_text("score", name_score(score))
            known = None if self.score is None else name_score(self.score)
            _check_same("the score", "score function", name_score(score), known)


def encode_context(about: Context) -> dict[str, Any]:
    """Return what was given of a context, as JSON can hold it."""
    default, values = vars(Context()), vars(about)
    given = {name: value for name, value in values.items() if value != default[name]}
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}
    return plain if about.draw is None else plain | {"draw": about.draw.to_dict()}


def decode_context(body: Mapping[str, Any] | None) -> Context:
    """Return the context in a promise file; files of older versions may have none."""
    names = Context.__dataclass_fields__
    given = {k: v for k, v in (body or {}).items() if k in names and v is not None}
    if "draw" in given:
        given["draw"] = decode_draw(given["draw"])
    return Context(**given)


def as_context(
    context: Context | None, tasks: Iterable[Any] = (), allow: Iterable[str] = ()
) -> Context:
    """Return a context that fits the calibration tasks."""
    if context is None:
        return Context()
    if not isinstance(context, Context):
        raise InvalidInput(f"context must be a metapac.Context, got {brief(context)}.")
    context.check_calibration_tasks(tasks, allow)
    return context


def _check_same(name: str, what: str, given: str, known: str | None, **error: str) -> None:
    """Raise unless scores are of what was calibrated; warn if that is not on record."""
    if known is None:
        text = f"The guarantee names no {what}, so it cannot be compared with {given!r}"
        warn(f"{text}. Name it in the Context when you calibrate.")
    elif given != known:
        text = f"{name} must be {known!r}, the {what} that was calibrated, got {given!r}"
        raise InvalidInput(f"{text}. A guarantee holds for one {what}.", **error)


def _as_tasks(name: str, tasks: Any) -> tuple[str | int, ...] | None:
    """Return distinct names of tasks in the order given."""
    if tasks is None:
        return None
    is_table = getattr(tasks, "ndim", 1) != 1 or hasattr(tasks, "columns")
    is_list = isinstance(tasks, Iterable) and not isinstance(tasks, str | bytes | Mapping)
    plain = [as_plain_label(task) for task in tasks] if is_list and not is_table else [tasks]
    bad = [task for task in plain if type(task) not in (str, int) or not is_list]
    if bad:
        text = f"{name} must be a list of task names, strings or integers, got {brief(bad[0])}."
        raise InvalidInput(text)
    return tuple(dict.fromkeys(plain))
