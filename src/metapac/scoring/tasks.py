"""Scores of tasks, ready to calibrate on, and scores of all labels, to make sets from."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any

import numpy as np

from metapac import _ids
from metapac._types import Array, Floats, PathLike, Progress, ignore_progress
from metapac._visible import name_score
from metapac.exceptions import InvalidInput, Parameter
from metapac.learners.protocols import Learner, adapt_learner
from metapac.scoring.functions import ScoreFunction, as_score_function
from metapac.scoring.independence import check_independence
from metapac.scoring.outputs import Outputs, adapted_outputs, bank_outputs, output_kind
from metapac.scoring.stored import Stored
from metapac.scoring.temperature import fingerprint
from metapac.tasks.task import Task


def score_tasks(
    learner: Learner,
    tasks: Iterable[Task],
    *,
    score: str | ScoreFunction | None = None,
    progress: Progress | None = None,
) -> tuple[Array, Array]:
    """Return the score of each query's true label and the task of each, ready to calibrate on.

    Parameters
    ----------
    learner : Learner
        A learner with a method ``bank(x)``, such as ProtoNet, embeds each example of a pool once,
        however many tasks use it. Any other learner is adapted to each task in turn, and so is any
        learner on tasks with data of their own.
    tasks : iterable of Task
        Tasks with distinct names. Only those scored from a pool stay in memory.
    score : str or ScoreFunction, optional
        "probability", "log_probability", "margin", "cumulative" or "raw", or a function from
        `fit_temperature`; see `metapac.scoring.ScoreFunction`. By default "probability",
        and "raw" for a learner whose outputs are scores. For sets, pass the same function to
        `score_matrix` or `score_examples`.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` with the number of tasks scored.

    Returns
    -------
    scores : ndarray, shape (n,)
        Score of the true label of each query, lowered by a bound on the rounding error.
    ids : ndarray, shape (n,)
        Name of the task of each query.

    Raises
    ------
    InvalidInput
        If two tasks share a name, if the learner's scores of a query depend on other queries or
        on chance, or if the temperature of the score function was fitted on one of the tasks.

    Notes
    -----
    No score returned here is above the score that `score_examples` gives to the same example, for
    any batch size. For "probability", nor is it above what ``learner.adapt(...).predict_proba``
    gives. So calibration counts every example as missed that deployment may miss. The proofs and
    the assumptions of the bound are in `metapac.scoring.ScoreFunction.lower` and docs/learners.md.

    Examples
    --------
    >>> from metapac.learners import CallableLearner
    >>> from metapac.scoring import score_tasks
    >>> from metapac.tasks import Task
    >>> learner = CallableLearner(lambda support_x, support_y, x: [[0.9, 0.1]] * len(x))
    >>> task = Task.from_arrays([[0.0], [1.0]], [0, 1], [[0.2], [0.8]], [0, 1], name="ohio")
    >>> scores, ids = score_tasks(learner, [task])
    >>> scores.round(6).tolist(), ids.tolist()
    ([0.9, 0.1], ['ohio', 'ohio'])
    """
    function = as_score_function(score, output_kind(learner))
    return _score(learner, tasks, function, progress or ignore_progress)[:2]


def score_matrix(
    learner: Learner, task: Task, *, score: str | ScoreFunction | None = None, bank: Any = None
) -> Floats:
    """Return the score of every label for the queries of a task, to make sets from.

    Parameters
    ----------
    learner : Learner
        The learner.
    task : Task
        The task.
    score : str or ScoreFunction, optional
        As in `score_tasks`.
    bank : object, optional
        What ``learner.bank(task.x)`` returned, if its embeddings are to be used.

    Returns
    -------
    ndarray, shape (q, classes)
        The scores, not lowered: that of the true label is at least what `score_tasks` returns.

    Examples
    --------
    >>> from metapac.learners import PrototypeLearner
    >>> from metapac.scoring import score_matrix
    >>> from metapac.tasks import Task
    >>> task = Task.from_arrays([[0.0], [2.0]], [0, 1], [[0.5]], [0], name="ohio")
    >>> score_matrix(PrototypeLearner(), task, score="margin").round(3).tolist()
    [[0.762, -0.762]]
    """
    function = as_score_function(score, output_kind(learner))
    outputs = _adapt(learner, task) if bank is None else bank_outputs(learner, bank, task)
    return outputs.scores(function)


def score_examples(
    learner: Learner,
    support_x: Any,
    support_y: Any,
    x: Any,
    *,
    classes: int | None = None,
    score: str | ScoreFunction | None = None,
) -> Floats:
    """Return the score of every label for new examples of a task, to make sets from.

    Parameters
    ----------
    learner : Learner
        The learner.
    support_x : array_like, shape (s, ...)
        Labelled examples of the task; None for a model that is not adapted.
    support_y : array_like of int, shape (s,)
        Their labels, from 0 to ``classes - 1``.
    x : array_like, shape (n, ...)
        New examples.
    classes : int, optional
        Number of labels; by default one more than the largest label.
    score : str or ScoreFunction, optional
        As in `score_tasks`: the one that was calibrated.

    Returns
    -------
    ndarray, shape (n, classes)
        The scores.

    Examples
    --------
    >>> from metapac.learners import PrototypeLearner
    >>> from metapac.scoring import score_examples
    >>> scores = score_examples(PrototypeLearner(), [[0.0], [2.0]], [0, 1], [[0.5]], score="margin")
    >>> scores.round(3).tolist()
    [[0.762, -0.762]]
    """
    function = as_score_function(score, output_kind(learner))
    scorer = adapt_learner(learner, support_x, support_y, classes=classes)
    return adapted_outputs(learner, scorer, x, classes=classes, name="new").scores(function)


def store(
    path: PathLike,
    learner: Learner,
    tasks: Iterable[Task],
    *,
    score: str | ScoreFunction | None = None,
    progress: Progress | None = None,
    **provenance: Any,
) -> Stored:
    """Score tasks, and write scores, embeddings and their provenance to one file.

    Parameters
    ----------
    path : str or path
        File to write. It is replaced atomically.
    learner : Learner
        As in `score_tasks`. Its embeddings are stored if it has them and all tasks share one pool.
    tasks : iterable of Task
        Tasks with distinct names.
    score : str or ScoreFunction, optional
        As in `score_tasks`. It is recorded.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` with the number of tasks scored.
    **provenance : object
        What else to record, such as ``rng=1``. The learner, the numbers of tasks and examples and
        the version of metapac are always recorded.

    Returns
    -------
    Stored
        What was written.

    Examples
    --------
    >>> import tempfile
    >>> from metapac.learners import CallableLearner
    >>> from metapac.scoring import store
    >>> from metapac.tasks import Task
    >>> learner = CallableLearner(lambda support_x, support_y, x: [[0.9, 0.1]] * len(x))
    >>> task = Task.from_arrays([[0.0], [1.0]], [0, 1], [[0.2], [0.8]], [0, 1], name="ohio")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored = store(f"{folder}/scores.safetensors", learner, [task], survey=2020)
    >>> stored.provenance["examples"], stored.provenance["survey"]
    (2, 2020)
    """
    function = as_score_function(score, output_kind(learner))
    scores, ids, pools = _score(learner, tasks, function, progress or ignore_progress)
    counts = {"tasks": len(np.unique(ids)), "examples": len(scores)}
    describe = getattr(learner, "describe", lambda: repr(learner))
    embed = getattr(learner, "embed", None)
    embeddings = None
    if embed is not None and len(pools) == 1:
        embeddings = embed(pools[0]).cpu().numpy()
    stored = Stored(
        embeddings=embeddings,
        scores=scores,
        tasks=ids,
        provenance={"learner": describe(), "score": str(function)} | counts | provenance,
    )
    stored.save(path)
    return stored


def _score(
    learner: Learner, tasks: Iterable[Task], function: ScoreFunction, progress: Progress
) -> tuple[Array, Array, list[Any]]:
    """Return the scores, the task of each, and the data of the pools scored at once."""
    total = len(tasks) if isinstance(tasks, Sized) else None
    parts: dict[str | int, Array] = {}  # by task, in the order of the tasks
    pools: dict[int, list[Task]] = {}
    done, checked = 0, False
    for task in tasks:
        _check_task(task, parts, function)
        parts[task.name] = np.empty(0)
        if hasattr(learner, "bank") and not _is_self_contained(task):
            pools.setdefault(id(task.x), []).append(task)
        else:
            parts[task.name] = _adapt(learner, task).lowered_scores(function, task.query_y)
            if not checked and len(task.query) > 1:
                check_independence(learner, task)
                checked = True
            done += 1
            progress("scoring tasks", done, total)
    if not parts:
        raise InvalidInput("tasks is empty; pass at least one task.")
    ids = _ids.as_task_names(list(parts))
    for i, members in enumerate(pools.values()):
        bank = learner.bank(members[0].x)  # type: ignore[attr-defined]
        for task, part in zip(members, _bank_scores(learner, bank, members, function), strict=True):
            parts[task.name] = part
        if i == 0:
            check_independence(learner, members[0], bank)
        done += len(members)
        progress("scoring tasks", done, len(parts))
    lengths = [len(part) for part in parts.values()]
    data = [members[0].x for members in pools.values()]
    return np.concatenate(list(parts.values())), np.repeat(ids, lengths), data


def _check_task(task: Task, seen: Any, function: ScoreFunction) -> None:
    """Raise if a task comes twice, or if the temperature was fitted on it."""
    if task.name in seen:
        raise InvalidInput(
            f"tasks holds {task.name!r} more than once, and a task counts only once. "
            "Give every task a distinct name."
        )
    if function.fitted_on and fingerprint(task) in function.fitted_on:
        raise InvalidInput(
            "the temperature of {} was fitted on task {!r}, so its scores are too good to "
            "calibrate on. Fit it on validation tasks.",
            Parameter("score", name_score(function)),
            task.name,
        )


def _bank_scores(
    learner: Learner, bank: Any, tasks: list[Task], function: ScoreFunction
) -> list[Floats]:
    """Return the lowered scores of tasks of one pool."""
    if function == ScoreFunction():
        ends = np.cumsum([len(task.query) for task in tasks])
        return np.split(bank.scores(tasks), ends[:-1])
    outputs = (bank_outputs(learner, bank, task) for task in tasks)
    return [
        part.lowered_scores(function, task.query_y)
        for part, task in zip(outputs, tasks, strict=True)
    ]


def _is_self_contained(task: Task) -> bool:
    """Return whether ``task.x`` holds no examples but those of the task."""
    return len(task.support) + len(task.query) == int(task.x.shape[0])


def _adapt(learner: Learner, task: Task) -> Outputs:
    """Return the outputs of the learner adapted to a task, for its queries."""
    scorer = adapt_learner(learner, task.support_x, task.support_y, classes=task.classes)
    options: dict[str, Any] = {"classes": task.classes, "name": task.name}
    return adapted_outputs(learner, scorer, task.query_x, **options)
