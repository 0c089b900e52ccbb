"""A temperature fitted on validation tasks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

import numpy as np

from metapac._checks import on_host
from metapac._types import Doubles
from metapac.exceptions import InvalidInput
from metapac.learners.protocols import Learner, adapt_learner
from metapac.scoring.functions import ScoreFunction, as_score_function
from metapac.scoring.outputs import adapted_outputs
from metapac.tasks.task import Task

# Temperatures from 1/1000 to 1000; one at either end means that there is no best one.
_LARGEST = math.log(1000)


def fit_temperature(
    learner: Learner, tasks: Iterable[Task], *, score: str = "probability"
) -> ScoreFunction:
    """Return a score function with the temperature that fits validation tasks best.

    The temperature minimises the cross-entropy of the queries. It is fitted to labels, so the
    tasks, and others with the same examples, must not be used for calibration.
    `metapac.scoring.score_tasks` refuses these very tasks; it does not notice the same examples in
    another order or in other tasks, nor a temperature that is passed on as a number.

    Parameters
    ----------
    learner : Learner
        The learner.
    tasks : iterable of Task
        Validation tasks. Queries whose label is absent from the support set are left out.
    score : str, default "probability"
        Name of the score function.

    Returns
    -------
    ScoreFunction
        The score function, for `metapac.scoring.score_tasks` and `metapac.scoring.score_matrix`.

    Raises
    ------
    InvalidInput
        If there is no query to fit on, or the optimum is at an end of the range.

    Examples
    --------
    >>> from metapac.learners import CallableLearner
    >>> from metapac.scoring import fit_temperature
    >>> from metapac.tasks import Task
    >>> sure = CallableLearner(lambda support_x, support_y, x: [[8.0, 0.0]] * len(x),
    ...                        outputs="logits")  # right in three cases of four
    >>> task = Task.from_arrays([[0], [1]], [0, 1], [[0]] * 4, [0, 0, 0, 1], name="ohio")
    >>> round(fit_temperature(sure, [task]).temperature, 3)
    7.282
    """
    from scipy.optimize import minimize_scalar

    as_score_function(score)
    gaps: list[Doubles] = []  # per query: log-odds of each label against the true one
    fitted_on = set()
    for task in tasks:
        fitted_on.add(fingerprint(task))
        gaps.extend(_log_odds(learner, task))
    if not gaps:
        raise InvalidInput(
            "tasks must hold queries whose label is in the support set, got none. Pass validation "
            "tasks."
        )
    classes = max(len(odds) for odds in gaps)
    odds = np.full((len(gaps), classes), -np.inf)
    for row, values in zip(odds, gaps, strict=True):
        row[: len(values)] = values

    def cross_entropy(log_temperature: float) -> float:
        return float(np.logaddexp.reduce(odds / math.exp(log_temperature), axis=1).mean())

    bounds = (-_LARGEST, _LARGEST)
    best = minimize_scalar(cross_entropy, bounds=bounds, method="bounded", options={"xatol": 1e-8})
    if abs(best.x) > _LARGEST - 1e-3:
        raise InvalidInput(
            "tasks must be neither all right nor no better than chance for a temperature to fit, "
            f"but the best one is beyond {math.exp(best.x):.3g}. Pass more validation tasks, or "
            "choose a temperature: ScoreFunction(temperature=...)."
        )
    return ScoreFunction(score, float(math.exp(best.x)), frozenset(fitted_on))


def fingerprint(task: Task) -> str:
    """Return a text that two tasks share only if they have the same queries.

    Parameters
    ----------
    task : Task
        The task.

    Returns
    -------
    str
        The text.
    """
    first = np.asarray(on_host(task.take(task.query[:1])))
    content = repr(first.tolist()).encode() if first.dtype == object else first.tobytes()
    digest = hashlib.blake2b(content, digest_size=16)
    for part in (task.query, task.query_y):
        digest.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
    return digest.hexdigest()


def _log_odds(learner: Learner, task: Task) -> list[Doubles]:
    """Return the log-odds of all labels against the true one, for queries that can be fitted."""
    scorer = adapt_learner(learner, task.support_x, task.support_y, classes=task.classes)
    outputs = adapted_outputs(learner, scorer, task.query_x, classes=task.classes, name=task.name)
    logs = outputs.scores(ScoreFunction("log_probability")).astype(np.float64)
    true = np.take_along_axis(logs, task.query_y[:, None], 1)
    return list((logs - np.where(np.isfinite(true), true, 0.0))[np.isfinite(true)[:, 0]])
