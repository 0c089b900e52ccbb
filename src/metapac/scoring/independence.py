"""Check that a learner scores each query by itself, once when tasks are scored."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from metapac._types import Counts, Floats
from metapac._warnings import warn
from metapac.exceptions import InvalidInput
from metapac.learners.protocols import Learner, adapt_learner
from metapac.scoring.functions import ScoreFunction, as_score_function
from metapac.scoring.outputs import Outputs, adapted_outputs, bank_outputs
from metapac.tasks.task import Task

_LABELS = 16  # compared: enough for a learner that looks at other queries to show it
# Differences of log-odds below this are rounding, perhaps of a lower precision than was declared.
_ROUNDING = 1e-3
_LOW_PRECISION = 0.1  # below this they may be the rounding of bfloat16 or float16


def check_independence(learner: Learner, task: Task, bank: Any = None) -> None:
    """Raise if the scores of a query depend on other queries or on chance.

    Parameters
    ----------
    learner : Learner
        The learner.
    task : Task
        A task to try.
    bank : object, optional
        What ``learner.bank(task.x)`` returned, if tasks are scored from it.

    Raises
    ------
    InvalidInput
        If the scores of a query depend on other queries, or on chance.

    Notes
    -----
    All queries are scored together, as they are for a guarantee, and the least certain of them is
    then scored alone, twice.
    """
    scorer = adapt_learner(learner, task.support_x, task.support_y, classes=task.classes)

    def outputs_at(positions: Any) -> Outputs:
        options: dict[str, Any] = {"classes": task.classes, "name": task.name}
        return adapted_outputs(learner, scorer, task.take(positions), **options)

    together = _Rows(outputs_at(task.query))
    chosen = together.least_certain()
    position = task.query[[chosen]]
    where = f"query {chosen} of task {task.name!r}"
    try:
        alone, again = _Rows(outputs_at(position)), _Rows(outputs_at(position))
    except InvalidInput:
        raise
    except (ValueError, RuntimeError) as error:
        raise InvalidInput(
            "the learner must score each query by itself, but it cannot score {} alone ({}). Use "
            "no statistics of the queries: switch batch norm to evaluation by eval().",
            where,
            str(error).rstrip("."),
        ) from error
    if alone.differs(again, 0):
        raise InvalidInput(
            f"the learner must score an example the same each time, but {where} got "
            f"{_show(alone, 0)} and then {_show(again, 0)}. Switch dropout off, for example by "
            "eval(), or fix the seed."
        )
    _compare(alone, together, chosen, where)
    if bank is not None:
        _compare(alone, _Rows(bank_outputs(learner, bank, task)), chosen, where)


class _Rows:
    """Scores of all labels, and lower bounds on them for any rounding."""

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs
        self.function = as_score_function(None, outputs.kind)
        self.scores = outputs.scores(self.function)  # (n, classes)

    def least_certain(self) -> int:
        """Return the row whose two best labels are nearest to each other."""
        best = np.sort(self.scores, axis=1)[:, -2:]
        return int(np.argmin(best[:, -1] - best[:, 0]))

    @cached_property
    def labels(self) -> Counts:
        """The best labels of the first row, which are compared."""
        return np.argsort(-self.scores[0], kind="stable")[:_LABELS]

    @cached_property
    def bounds(self) -> Floats:
        """Lower bounds on the scores of these labels, for any rounding."""
        lower, function = self.outputs.lowered_scores, self.function
        return np.array([lower(function, np.array([label]))[0] for label in self.labels])

    def differs(self, other: _Rows, row: int) -> bool:
        """Return whether a row of another is not the first row of this one, but for rounding.

        Probabilities add up to 1: if one is higher, another is lower. Raw scores do not.
        """
        mine, others = self.scores[0, self.labels], other.scores[row, self.labels]
        with np.errstate(invalid="ignore"):  # labels that are impossible in both
            above = others - mine > mine - self.bounds
        is_raw = self.function.name == "raw"
        return bool((self.bounds > others).any() or (is_raw and above.any()))

    def distance(self, other: _Rows, row: int) -> float:
        """Return the largest difference of log-odds, or of raw scores as a fraction of them."""
        mine, others = self.scores[0, self.labels], other.scores[row, self.labels]
        scale = 1.0
        if self.function.name == "raw":
            scale = np.abs(mine[np.isfinite(mine)]).max(initial=0.0)
        else:
            logarithm = ScoreFunction("log_probability")
            mine, others = logarithm(mine[None]), logarithm(others[None])
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.fmax.reduce(np.abs(mine - others).ravel() / scale, initial=0.0))


def _compare(alone: _Rows, among: _Rows, row: int, where: str) -> None:
    """Raise if the scores of a query differ among other queries; warn if only a little."""
    if not alone.differs(among, row):
        return
    got = f"{where} got {_show(among, row)} among other queries and {_show(alone, 0)} alone"
    distance = alone.distance(among, row)
    if distance > _ROUNDING:
        remedy = "" if distance > _LOW_PRECISION else "; if this is rounding, return float16"
        raise InvalidInput(
            f"the learner must score each query by itself, from the support set alone, but {got}. "
            "Scores that depend on other queries are not independent, and no guarantee holds. Use "
            f"no statistics of the queries, such as batch norm in training mode{remedy}."
        )
    kind = among.scores.dtype.name
    warn(f"{got}, more than the rounding of {kind} explains. Return the precision of the model.")


def _show(rows: _Rows, row: int) -> str:
    """Return the scores of a row in a few digits."""
    shown: Floats = rows.scores[row][:5]
    more = ", ..." if rows.scores.shape[1] > 5 else ""
    return f"({', '.join(f'{score:.6g}' for score in shown)}{more})"
