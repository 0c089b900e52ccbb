"""Scores of tasks, ready to calibrate on, and the files that store them."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metapac import _checks, _document, _ids
from metapac._types import Array, PathLike, Progress, ignore_progress
from metapac.exceptions import InvalidInput
from metapac.learners import _checks as learner_checks
from metapac.learners.protocols import Learner, lower_scores
from metapac.tasks.task import Task

FORMAT = _document.Format(
    "metapac scores",
    written_by="metapac.scoring.store",
    remedy="Score the tasks again.",
    schema=2,
    oldest=2,
    shape="scores",
)

# Assumed for a learner that returns probabilities alone: rounding moves its logits relative to each
# other by up to 2**8 epsilons of its precision (3.1e-5 in float32, 5.7e-14 in float64), and a
# probability by 8 further floats. Outputs of float32 networks were measured to move by 8.0e-7 of
# their length, so this suits logits up to about 40.
LOGIT_ERROR = 2.0**8
STEPS = 8

_ARRAYS = ("embeddings", "labels", "scores", "tasks")


def score_tasks(
    learner: Learner, tasks: Iterable[Task], *, progress: Progress | None = None
) -> tuple[Array, Array]:
    """Return the score of each query's true label and the task of each, ready to calibrate on.

    Parameters
    ----------
    learner : Learner
        A learner with a method ``bank(x)``, such as ProtoNet, embeds each example of a pool once,
        however many tasks use it. Any other learner, and any learner on a task that does not share
        its data, is adapted to one task after the other.
    tasks : iterable of Task
        Tasks with distinct names. Only those scored from a pool stay in memory.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` with the number of tasks scored.

    Returns
    -------
    scores : ndarray, shape (n,)
        Probability of the true label of each query, lowered by a bound on the rounding error.
    ids : ndarray, shape (n,)
        Name of the task of each query.

    Notes
    -----
    No score returned here is above the probability that ``learner.adapt(...).predict_proba`` gives
    to the same example, for any batch size. So calibration counts every example as missed
    that deployment may miss. The proof, and what the bound assumes, are in
    `metapac.learners.protocols.lower_scores` and in docs/learners.md.

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
    return _score(learner, tasks, progress or ignore_progress)[:2]


@dataclass(frozen=True, eq=False)
class Stored:
    """Embeddings of a pool, or scores with their tasks, or both, and where they come from.

    Parameters
    ----------
    embeddings : ndarray, shape (n, d), optional
        Embeddings of the examples of a pool.
    labels : ndarray, shape (n,), optional
        Their labels.
    scores : ndarray, shape (m,), optional
        Scores of the true labels.
    tasks : ndarray, shape (m,), optional
        Task of each score.
    provenance : dict, optional
        What the arrays were computed from, as JSON can hold it.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.scoring import Stored
    >>> stored = Stored(scores=np.array([0.9, 0.1]), tasks=np.array(["ohio", "utah"]))
    >>> stored.scores.tolist(), stored.embeddings
    ([0.9, 0.1], None)
    """

    embeddings: Array | None = None
    labels: Array | None = None
    scores: Array | None = None
    tasks: Array | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, other in (("labels", "embeddings"), ("tasks", "scores")):
            array, reference = getattr(self, name), getattr(self, other)
            if array is not None and reference is not None:
                _checks.check_same_length(name, array, other, reference)

    def save(self, path: PathLike) -> None:
        """Write all arrays and their provenance to one file with a checksum.

        Parameters
        ----------
        path : str or path
            File to write, in the safetensors format. It is replaced atomically.
        """
        tensors: dict[str, Array] = {}
        names: dict[str, list[Any]] = {}
        for key in _ARRAYS:
            array = getattr(self, key)
            if array is not None and array.dtype.kind in "OUS":  # stored as indices of names
                distinct, array = np.unique(array, return_inverse=True)
                names[key] = _ids.as_json_names(distinct)
            if array is not None:
                tensors[key] = np.ascontiguousarray(array)
        provenance = _document.as_json("provenance", self.provenance)
        body = {"provenance": provenance, "names": names}
        _document.write_tensors(path, tensors, body, FORMAT)


def store(
    path: PathLike,
    learner: Learner,
    tasks: Iterable[Task],
    *,
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
    scores, ids, pools = _score(learner, tasks, progress or ignore_progress)
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
        provenance={"learner": describe()} | counts | provenance,
    )
    stored.save(path)
    return stored


def read_stored(path: PathLike) -> Stored:
    """Return what `store` or `Stored.save` wrote.

    Parameters
    ----------
    path : str or path
        File to read.

    Returns
    -------
    Stored
        The arrays and their provenance.

    Raises
    ------
    BadArtefact
        If the file was not written by `store`, was edited or damaged, or has another schema.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from metapac.scoring import Stored, read_stored
    >>> stored = Stored(scores=np.array([0.9, 0.1]), tasks=np.array(["ohio", "utah"]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored.save(f"{folder}/scores.safetensors")
    ...     read_stored(f"{folder}/scores.safetensors").tasks.tolist()
    ['ohio', 'utah']
    """
    document, tensors = _document.read_tensors(path, FORMAT)
    try:
        for key, names in document["names"].items():
            tensors[key] = np.array(names)[tensors[key]]
        return Stored(**tensors, provenance=document["provenance"])
    except (LookupError, TypeError, ValueError) as error:
        reason = f"its arrays do not fit together ({type(error).__name__}: {error})"
        raise _document.inconsistent(path, FORMAT, reason) from error


def _score(
    learner: Learner, tasks: Iterable[Task], progress: Progress
) -> tuple[Array, Array, list[Any]]:
    """Return the scores, the task of each, and the data of the pools scored at once."""
    total = len(tasks) if isinstance(tasks, Sized) else None
    parts: dict[str | int, Array] = {}  # by task, in the order of the tasks
    pools: dict[int, list[Task]] = {}
    done = 0
    for task in tasks:
        if task.name in parts:
            raise InvalidInput(
                f"tasks holds {task.name!r} more than once, and a task counts only once. "
                "Give every task a distinct name."
            )
        parts[task.name] = np.empty(0)
        if hasattr(learner, "bank") and not _is_self_contained(task):
            pools.setdefault(id(task.x), []).append(task)
        else:
            parts[task.name] = _adapt_and_score(learner, task)
            done += 1
            progress("scoring tasks", done, total)
    if not parts:
        raise InvalidInput("tasks is empty; pass at least one task.")
    ids = _ids.as_task_names(list(parts))
    for members in pools.values():
        scores = learner.bank(members[0].x).scores(members)  # type: ignore[attr-defined]
        ends = np.cumsum([len(task.query) for task in members])
        for task, part in zip(members, np.split(scores, ends[:-1]), strict=True):
            parts[task.name] = part
        done += len(members)
        progress("scoring tasks", done, len(parts))
    lengths = [len(part) for part in parts.values()]
    data = [members[0].x for members in pools.values()]
    return np.concatenate(list(parts.values())), np.repeat(ids, lengths), data


def _is_self_contained(task: Task) -> bool:
    """Return whether ``task.x`` holds no examples but those of the task."""
    return len(task.support) + len(task.query) == int(task.x.shape[0])


def _adapt_and_score(learner: Learner, task: Task) -> Array:
    """Return the lowered scores of a task, by the scorer's bound or by its precision."""
    scorer = learner.adapt(task.support_x, task.support_y, classes=task.classes)
    if hasattr(scorer, "lowered_scores"):
        return np.asarray(scorer.lowered_scores(task.query_x, task.query_y))
    n, classes = len(task.query), task.classes
    probabilities = learner_checks.as_probabilities(
        f"predict_proba on task {task.name!r}",
        scorer.predict_proba(task.query_x),
        rows=n,
        min_columns=classes,
        max_columns=classes,
    )
    slack = LOGIT_ERROR * float(np.finfo(probabilities.dtype).eps)
    return lower_scores(probabilities[np.arange(n), task.query_y], slack, steps=STEPS)
