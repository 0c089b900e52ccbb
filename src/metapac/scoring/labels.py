"""Scores of all labels of the queries of tasks, as the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from metapac import _ids
from metapac._types import Array, Floats, Progress, ignore_progress
from metapac.exceptions import InvalidInput
from metapac.learners.protocols import Learner, adapt_learner
from metapac.scoring.functions import ScoreFunction
from metapac.scoring.tasks import score_matrix, score_tasks
from metapac.tasks.task import Task


def tabulate(
    learner: Learner,
    tasks: Sequence[Task],
    *,
    score: str | ScoreFunction | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return a table with a row for each query: its label, and the scores of all labels.

    Parameters
    ----------
    learner : Learner
        As in `metapac.scoring.score_tasks`.
    tasks : sequence of Task
        Tasks with distinct names. Tasks of a pool are drawn twice, once for each pass.
    score : str or ScoreFunction, optional
        Score function, as in `metapac.scoring.score_tasks`.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` with the number of tasks scored.

    Returns
    -------
    dict
        The columns ``task``; ``example``, the position of the query in the data of its task;
        ``label``, the name of its class if the task has names, otherwise a number; ``score``, that
        of the true label as `score_tasks` lowers it; ``scores``, a list with that of every label;
        and ``classes``, a list of their names, if the tasks have names.

    Raises
    ------
    InvalidInput
        If two tasks have one name, or if only some tasks name their classes.

    Examples
    --------
    >>> from metapac.scoring import tabulate
    >>> from metapac.learners import CallableLearner
    >>> from metapac.tasks import Task
    >>> learner = CallableLearner(lambda support_x, support_y, x: [[0.9, 0.1]] * len(x))
    >>> task = Task.from_arrays([[0.0], [1.0]], [0, 1], [[0.2], [0.8]], [0, 1], name="ohio")
    >>> table = tabulate(learner, [task])
    >>> table["label"].tolist(), [row.tolist() for row in table["scores"]]
    ([0, 1], [[0.9, 0.1], [0.9, 0.1]])
    """
    report = progress or ignore_progress
    keeping = _KeepingBanks(learner)
    true, ids = score_tasks(keeping, tasks, score=score, progress=report)
    parts: list[tuple[Array, Array, list[Floats], list[list[Any]]]] = []
    for done, task in enumerate(tasks, 1):
        rows = score_matrix(learner, task, score=score, bank=keeping.find_bank(task))
        names = task.class_names
        labels = task.query_y if names is None else np.array(list(names))[task.query_y]
        classes = [] if names is None else [list(names)] * len(rows)
        parts.append((task.query, labels, list(rows), classes))
        report("scoring all labels", done, len(tasks))
    examples, labels, scores, classes = zip(*parts, strict=True)
    table = {
        "task": ids,
        "example": np.concatenate(examples),
        "label": _ids.as_task_names(np.concatenate(labels).tolist()),
        "score": true,
        "scores": [row for rows in scores for row in rows],
    }
    named = [row for rows in classes for row in rows]
    if len(named) not in (0, len(true)):
        raise InvalidInput("tasks must all have class_names, or none of them.")
    return table | ({"classes": named} if named else {})


class _KeepingBanks:
    """A learner that keeps the banks of its pools, so that none is embedded twice."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._banks: dict[int, tuple[Any, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._learner, name)
        return partial(self._remember, found) if name == "bank" else found

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> Any:
        return adapt_learner(self._learner, support_x, support_y, classes=classes)

    def _remember(self, build: Callable[[Any], Any], x: Any) -> Any:
        bank = build(x)
        self._banks[id(x)] = x, bank  # with x, so that no other array gets its id
        return bank

    def find_bank(self, task: Task) -> Any:
        """Return the bank that a task was scored with; None if the learner adapted to it."""
        return self._banks.get(id(task.x), (None, None))[1]
