"""A score function that allows for how hard a task is, judged by its unlabelled examples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from metapac import artefact
from metapac._common import Doubles, Floats, PathLike
from metapac.errors import InvalidInput
from metapac.score_functions import ScoreFunction

_FLOOR = -30.0  # of log-probabilities, where only statistics are computed from them
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_PENALTY = 0.1  # of standardised weights, for each task
SIZE = 2 * len(_QUANTILES) + 3  # of the weights
MIN_TASKS = 30  # to fit them on
EPSILON = 0.1


class _Document(TypedDict):
    epsilon: Annotated[float, lambda epsilon: 0 < epsilon < 1]
    temperature: Annotated[float, lambda temperature: temperature > 0]
    unlabelled: Annotated[int, lambda unlabelled: unlabelled > 0]
    weights: Annotated[list[float], lambda weights: len(weights) == SIZE]
    learner: dict[str, Any]
    classes: list[str]
    tasks: list[str]


FORMAT = artefact.Format(
    "metapac offset",
    written_by="TaskOffset.save",
    remedy="Fit it again with fit_offset.",
    shape=_Document,
)


@dataclass(frozen=True)
class TaskOffset(ScoreFunction):
    """Log-probability of the label, minus what a task's unlabelled examples make expect of it.

    On a hard task all log-probabilities of true labels are low. The offset predicts how low, from
    the outputs for unlabelled examples, so that one threshold suits easy and hard tasks. A promise
    stays valid, because the offset does not depend on the examples that are scored.
    `metapac.fewshot.fit_offset` fits one.

    Attributes
    ----------
    name, temperature, fitted_on
        As in `ScoreFunction`; the name is "log_probability".
    epsilon : float
        Miss rate: the offset of a task is its predicted quantile of this level.
    unlabelled : int
        Number of unlabelled examples of a task.
    weights : tuple of float
        Intercept and weights of the regression.
    learner : mapping
        Description of the learner that it was fitted for.
    classes : frozenset of str
        Classes of the tasks that it was fitted on, or these tasks if they are groups.
    shift : float or None
        Offset of the task that is scored.
    """

    name: str = "log_probability"
    epsilon: float = EPSILON
    unlabelled: int = 0
    weights: tuple[float, ...] = ()
    learner: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    classes: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    shift: float | None = None

    @property
    def base(self) -> ScoreFunction:
        """Score function that the offset is subtracted from."""
        return ScoreFunction(self.name, self.temperature)

    def __str__(self) -> str:
        values = (self.epsilon, self.temperature, self.unlabelled, list(self.weights))
        digits = artefact.checksum({"offset": values}).removeprefix("sha256:")[:12]
        size = f"epsilon={self.epsilon}, {self.unlabelled} unlabelled"
        return f"{self.base} minus offset {digits} ({size})"

    def __call__(self, outputs: ArrayLike, kind: str = "probabilities") -> Floats:
        """Return the score of each label for each example of the task that ``shift`` is of."""
        if self.shift is None:
            text = "a TaskOffset needs the unlabelled examples of the task: score by score_tasks"
            raise InvalidInput(f"{text} or score_examples(..., unlabelled=).", parameter="score")
        return np.asarray(self.base(outputs, kind) - self.shift)

    def for_task(self, logs: Floats | None) -> Self:
        """Return the score function of one task.

        Parameters
        ----------
        logs : ndarray, shape (unlabelled, classes), or None
            Log-probabilities of its unlabelled examples.

        Returns
        -------
        TaskOffset
        """
        found = 0 if logs is None else len(logs)
        if logs is None or found != self.unlabelled:
            text = f"a task must have {self.unlabelled} unlabelled examples, like those that the"
            raise InvalidInput(f"{text} offset was fitted on, got {found}.", parameter="unlabelled")
        terms = np.multiply(self.weights, [1.0, *describe_outputs(logs, self.epsilon)])
        return replace(self, shift=math.fsum(terms))

    def save(self, path: PathLike) -> None:
        """Write the offset, with what it was fitted on, to a JSON file with a checksum.

        Parameters
        ----------
        path : str or path-like
            File to write; it is replaced atomically.
        """
        body = {name: getattr(self, name) for name in ("epsilon", "temperature", "unlabelled")}
        body |= {"weights": list(self.weights), "learner": dict(self.learner)}
        body |= {"classes": sorted(self.classes), "tasks": sorted(self.fitted_on)}
        artefact.write(path, artefact.as_json("offset", body), FORMAT)


def load_offset(path: PathLike) -> TaskOffset:
    """Return what `TaskOffset.save` wrote.

    Parameters
    ----------
    path : str or path-like
        A file.

    Returns
    -------
    TaskOffset

    Raises
    ------
    BadArtefact
        If the file is damaged, was edited, or is none of an offset.

    Examples
    --------
    >>> from metapac.fewshot import load_offset
    >>> from metapac.fewshot.offset import TaskOffset
    >>> TaskOffset(unlabelled=100, weights=(-2.3, *[0.1] * 12)).save("offset.json")
    >>> load_offset("offset.json").unlabelled
    100
    """
    found = artefact.read(path, FORMAT)
    names = ("epsilon", "temperature", "unlabelled", "learner")
    fields: dict[str, Any] = {name: found[name] for name in names}
    fields |= {"classes": frozenset(found["classes"]), "fitted_on": frozenset(found["tasks"])}
    return TaskOffset(**fields, weights=tuple(found["weights"]))


def describe_outputs(logs: Floats, epsilon: float) -> Doubles:
    """Return statistics of log-probabilities (m, classes) that tell hard tasks from easy ones."""
    # They are quantiles of the largest log-probability and of its distance from the second, the
    # mean entropy, and the quantile of the true label's log-probability if the probabilities were
    # right.
    logs = np.maximum(logs.astype(np.float64), _FLOOR)
    ascending, p = np.sort(logs, axis=1), np.exp(logs)
    best = ascending[:, -1]
    gap = best - ascending[:, -min(2, logs.shape[1])]
    order = np.argsort(logs, axis=None)
    mass = p.ravel()[order].cumsum()
    expected = np.interp(epsilon * mass[-1], mass, logs.ravel()[order])
    quantiles = np.quantile([best, gap], _QUANTILES, axis=1)  # (quantiles, 2)
    return np.concatenate([*quantiles.T, [-(p * logs).sum(1).mean(), expected]])


def fit_weights(rows: Sequence[Doubles], targets: Sequence[float]) -> tuple[float, ...]:
    x, y = np.array(rows), np.maximum(targets, _FLOOR)
    centre, scale = x.mean(0), np.where(x.std(0) > 0, x.std(0), 1.0)
    z = (x - centre) / scale
    penalty = _PENALTY * len(z) * np.eye(z.shape[1])
    weights = np.linalg.solve(z.T @ z + penalty, z.T @ (y - y.mean())) / scale
    found = y.mean() - weights @ centre, *weights.tolist()
    # Other machines solve with other last digits, and would give the offset another name.
    return tuple(float(f"{weight:.8g}") for weight in found)
