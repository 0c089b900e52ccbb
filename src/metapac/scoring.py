"""Learner and tasks in, scores of the true labels out; and the file that keeps them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import _checks
from metapac._version import __version__
from metapac.learners.contract import Learner
from metapac.persistence import BadArtefact, replacing
from metapac.tasks.task import Task

FORMAT = "metapac scores"
SCHEMA = 1

Array = NDArray[Any]
Track = Callable[[Iterable[Any]], Iterable[Any]]


def score_tasks(
    learner: Learner, tasks: Sequence[Task], *, track: Track = iter
) -> tuple[Array, Array]:
    """Return the score of each query's true label, and the task of each, ready to calibrate on.

    A learner that offers ``bank(x)``, as ProtoNet does, embeds each example of a pool once,
    however many tasks use it; any other is adapted to each task in turn. ``track`` may wrap the
    tasks in a progress bar.
    """
    if not len(tasks):
        raise ValueError("tasks is empty; pass at least one task.")
    tasks = list(tasks)
    names = [task.name for task in tasks]
    _checks.distinct(names)
    if hasattr(learner, "bank"):
        # Neighbours with the very same data are tasks of one pool.
        pools = [list(same) for _, same in groupby(tasks, key=lambda task: id(task.x))]
        parts = [learner.bank(pool[0].x).scores(pool) for pool in track(pools)]
    else:
        parts = [_adapt_and_score(learner, task) for task in track(tasks)]
    sizes = [len(task.query) for task in tasks]
    return np.concatenate(parts), np.repeat(np.array(names), sizes)


def _adapt_and_score(learner: Learner, task: Task) -> Array:
    scorer = learner.adapt(task.support_x, task.support_y, classes=task.classes)
    probabilities = scorer.predict_proba(task.query_x)  # (n, classes)
    expected = (len(task.query), task.classes)
    if np.shape(probabilities) != expected:
        raise ValueError(
            f"predict_proba must return shape {expected} on task {task.name!r}, one column for "
            f"each label, got {np.shape(probabilities)}."
        )
    return np.asarray(probabilities)[np.arange(len(task.query)), task.query_y]


@dataclass(frozen=True, eq=False)
class Stored:
    """Embeddings of a pool, or scores with their tasks, or both; and where they come from."""

    embeddings: Array | None = None  # (n, d)
    labels: Array | None = None  # (n,)
    scores: Array | None = None  # (m,)
    tasks: Array | None = None  # (m,)
    provenance: dict[str, Any] = field(default_factory=dict)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file that can be opened without being read into memory."""
        from safetensors.numpy import save

        arrays = {name: getattr(self, name) for name in ("embeddings", "labels", "scores")}
        tensors = {name: np.ascontiguousarray(a) for name, a in arrays.items() if a is not None}
        header = {"format": FORMAT, "schema": SCHEMA, "metapac": __version__}
        header["provenance"] = self.provenance
        if self.tasks is not None:
            names, codes = np.unique(self.tasks, return_inverse=True)
            tensors["tasks"] = codes.astype(np.int64)
            header["tasks"] = _checks.json_names(names)
        header["checksums"] = {name: _checksum(a) for name, a in tensors.items()}
        with replacing(path, binary=True) as file:
            file.write(save(tensors, metadata={"metapac": json.dumps(header)}))


def _checksum(array: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def read_stored(path: str | os.PathLike[str]) -> Stored:
    """Return what ``Stored.save`` wrote, or say why the file cannot be trusted."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(Path(path), framework="np") as file:
            header = json.loads((file.metadata() or {})["metapac"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise BadArtefact(
            f"{path} is not a file of metapac scores, or not complete ({error}). "
            "Score the tasks again."
        ) from error
    if header.get("format") != FORMAT or header.get("schema", 0) > SCHEMA:
        raise BadArtefact(
            f"{path} has format {header.get('format')!r}, schema {header.get('schema')!r}; metapac "
            f"{__version__} reads {FORMAT!r} up to schema {SCHEMA}. Upgrade metapac."
        )
    damaged = [n for n, a in tensors.items() if header["checksums"].get(n) != _checksum(a)]
    if damaged:
        raise BadArtefact(f"{path} was damaged: the checksum of {damaged[0]} does not match.")
    if "tasks" in tensors:
        tensors["tasks"] = np.array(header["tasks"])[tensors["tasks"]]
    return Stored(**tensors, provenance=header["provenance"])
