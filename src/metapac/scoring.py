"""Learner and tasks in, scores of the true labels out; and the file that keeps them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import _checks
from metapac._version import __version__
from metapac.learners import _checks as learner_checks
from metapac.learners.contract import Learner, lower_scores
from metapac.persistence import BadArtefact, replacing
from metapac.tasks.task import Task

FORMAT = "metapac scores"
SCHEMA = 1

# What is assumed of a learner that gives probabilities alone: rounding moves its logits against
# each other by up to 2**8 epsilons of its precision (3.1e-5 in float32, 5.7e-14 in float64), and a
# probability by 8 floats more. Outputs of float32 networks were measured to move by 8.0e-7 of
# their length, so that this suits logits up to about 40.
LOGIT_ERROR = 2.0**8
STEPS = 8

Array = NDArray[Any]
Track = Callable[[Iterable[Any]], Iterable[Any]]


def score_tasks(
    learner: Learner, tasks: Iterable[Task], *, track: Track = iter
) -> tuple[Array, Array]:
    """Return the score of each query's true label, and the task of each, ready to calibrate on.

    Parameters
    ----------
    learner : Learner
        One that offers ``bank(x)``, as ProtoNet does, embeds each example of a pool once, however
        many tasks use it. Any other, and any on tasks whose data are theirs alone, is adapted to
        one task after the other, and none of them is kept.
    tasks : iterable of Task
        Tasks with distinct names.
    track : callable, optional
        Wraps the tasks, and the pools, for example in a progress bar.

    Returns
    -------
    scores : ndarray, shape (n,)
        Probability of the true label of each query, lowered by a bound on the rounding error.
    ids : ndarray, shape (n,)
        Name of the task of each.

    Notes
    -----
    What is calibrated is what is deployed: no score returned here is above the probability that
    ``learner.adapt(...).predict_proba`` gives to the same example, whatever the batch size. So
    calibration counts every example as missed that deployment may miss. The proof, and what the
    bound assumes, are in ``metapac.learners.contract.lower_scores`` and in docs/learners.md.
    """
    names: dict[str | int, None] = {}
    scores: list[Array] = []
    pools: dict[int, list[tuple[int, Task]]] = {}
    for i, task in enumerate(track(tasks)):
        _checks.distinct([*([task.name] if task.name in names else ()), task.name])
        names[task.name] = None
        shared = hasattr(learner, "bank") and not _alone(task)
        scores.append(np.empty(0) if shared else _adapt_and_score(learner, task))
        if shared:
            pools.setdefault(id(task.x), []).append((i, task))
    if not names:
        raise ValueError("tasks is empty; pass at least one task.")
    for members in track(pools.values()) if pools else ():
        pool = [task for _, task in members]
        found = learner.bank(pool[0].x).scores(pool)  # type: ignore[attr-defined]
        ends = np.cumsum([len(task.query) for task in pool])
        for (i, _), part in zip(members, np.split(found, ends[:-1]), strict=True):
            scores[i] = part
    ids = np.repeat(_checks.task_names(list(names)), [len(part) for part in scores])
    return np.concatenate(scores), ids


def _alone(task: Task) -> bool:
    """Whether the data of a task are its own examples and no others."""
    return len(task.support) + len(task.query) == int(task.x.shape[0])


def _adapt_and_score(learner: Learner, task: Task) -> Array:
    """Return the lowered scores of a task, by the scorer's own bound or by its precision."""
    scorer = learner.adapt(task.support_x, task.support_y, classes=task.classes)
    own = getattr(scorer, "lowered_scores", None)
    if own is not None:
        return np.asarray(own(task.query_x, task.query_y))
    source, n, classes = f"predict_proba on task {task.name!r}", len(task.query), task.classes
    found = scorer.predict_proba(task.query_x)  # (n, classes)
    found = learner_checks.probabilities(source, found, rows=n, least=classes, most=classes)
    slack = LOGIT_ERROR * float(np.finfo(found.dtype).eps)
    return lower_scores(found[np.arange(n), task.query_y], slack, steps=STEPS)


@dataclass(frozen=True, eq=False)
class Stored:
    """Embeddings of a pool, or scores with their tasks, or both; and where they come from."""

    embeddings: Array | None = None  # (n, d)
    labels: Array | None = None  # (n,)
    scores: Array | None = None  # (m,)
    tasks: Array | None = None  # (m,)
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one, other in (("labels", "embeddings"), ("tasks", "scores")):
            first, second = getattr(self, one), getattr(self, other)
            if first is not None and second is not None:
                _checks.same_length(one, first, other, second)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, with checksums, replacing ``path`` atomically."""
        save = _safetensors("safetensors.numpy").save
        tensors: dict[str, Array] = {}
        header = {"format": FORMAT, "schema": SCHEMA, "metapac": __version__}
        header["provenance"] = self.provenance
        for name in _ARRAYS:
            array = getattr(self, name)
            if array is not None and array.dtype.kind in "OUS":  # names: a number for each
                names, array = np.unique(array, return_inverse=True)
                header[name] = _checks.json_names(names)
            if array is not None:
                tensors[name] = np.ascontiguousarray(array)
        header["checksums"] = {name: _checksum(a.tobytes()) for name, a in tensors.items()}
        text = json.dumps(header, sort_keys=True)
        notes = {"metapac": text, "checksum": _checksum(text.encode())}
        with replacing(path, binary=True) as file:
            file.write(save(tensors, metadata=notes))


_ARRAYS = ("embeddings", "labels", "scores", "tasks")


def store(
    path: str | os.PathLike[str], learner: Learner, tasks: Iterable[Task], **provenance: Any
) -> Stored:
    """Score tasks and keep scores, embeddings and where they come from in one file.

    The learner, the tasks and the version are recorded; pass the rest, such as ``rng=1``.
    """
    pools: dict[int, Any] = {}

    def noting(tasks: Iterable[Task]) -> Iterator[Task]:
        for task in tasks:
            if not _alone(task):
                pools[id(task.x)] = task.x
            yield task

    scores, ids = score_tasks(learner, noting(tasks))
    known = {"learner": _described(learner), "tasks": len(np.unique(ids)), "examples": len(scores)}
    embed = getattr(learner, "embed", None)
    (x,) = pools.values() if len(pools) == 1 else (None,)
    stored = Stored(
        embeddings=None if embed is None or x is None else embed(x).cpu().numpy(),
        scores=scores,
        tasks=ids,
        provenance=known | provenance,
    )
    stored.save(path)
    return stored


def _described(learner: Learner) -> Any:
    own = getattr(learner, "describe", None)
    return own() if callable(own) else repr(learner)


def _safetensors(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "files of scores need safetensors. Install it with: pip install 'metapac[torch]'"
        ) from error


def _checksum(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def read_stored(path: str | os.PathLike[str]) -> Stored:
    """Return what ``Stored.save`` wrote, or say why the file cannot be trusted."""
    safetensors = _safetensors("safetensors")
    try:
        with safetensors.safe_open(Path(path), framework="np") as file:
            notes = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = notes["metapac"]
        header = json.loads(text)
        newer = header["format"] != FORMAT or int(header["schema"]) > SCHEMA
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BadArtefact(
            f"{path} is not a file of metapac scores, or not complete ({error}). "
            "Score the tasks again."
        ) from error
    if newer:
        raise BadArtefact(
            f"{path} has format {header['format']!r}, schema {header['schema']!r}; metapac "
            f"{__version__} reads {FORMAT!r} up to schema {SCHEMA}. Upgrade metapac."
        )
    found = {name: _checksum(array.tobytes()) for name, array in tensors.items()}
    if notes.get("checksum") != _checksum(text.encode()) or header["checksums"] != found:
        raise BadArtefact(
            f"{path} was edited or damaged: its checksums do not match. Score the tasks again."
        )
    for name in _ARRAYS:
        if name in header:
            tensors[name] = np.array(header[name])[tensors[name]]
    return Stored(**tensors, provenance=header["provenance"])
