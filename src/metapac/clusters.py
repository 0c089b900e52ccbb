"""Clusters of dependent tasks, such as alphabets or hospital groups: one task of each counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _ids
from metapac._checks import as_whole_number, brief, on_host
from metapac._types import Array
from metapac.exceptions import InvalidInput

# Examples are converted to Python objects this many at a time, to save memory.
_CHUNK = 1 << 14

ClusterIds = ArrayLike | Iterable[object] | Mapping[Any, Any]


class Clusters(NamedTuple):
    """The clusters of the calibration tasks; one task was drawn from each.

    Attributes
    ----------
    names : ndarray, shape (clusters,)
        Cluster of each task that was drawn.
    tasks : int
        Number of tasks in all clusters together.
    rng : int
        Seed of the draw.
    """

    names: NDArray[Any]
    tasks: int
    rng: int

    def to_json(self) -> dict[str, Any]:
        """Return the clusters as JSON can hold them.

        Returns
        -------
        dict
            What `from_json` reads.
        """
        return {"names": self.names.tolist(), "tasks": self.tasks, "rng": self.rng}

    @classmethod
    def from_json(cls, body: Mapping[str, Any], tasks: int) -> Clusters:
        """Return the clusters that `to_json` prepared.

        Parameters
        ----------
        body : mapping
            What `to_json` returned.
        tasks : int
            Number of tasks that were drawn.

        Returns
        -------
        Clusters
            The clusters.

        Raises
        ------
        InvalidInput
            If there is not one cluster for each task, or there were fewer tasks than clusters.
        """
        names = body["names"]
        if len(names) != tasks or len({*map(str, names)}) != tasks or body["tasks"] < tasks:
            raise InvalidInput(
                f"evidence.clusters must name a cluster of its own for each of {tasks} tasks, "
                f"drawn from at least as many, got {brief(names)} of {body['tasks']} tasks."
            )
        return cls(_ids.as_task_names(names), int(body["tasks"]), int(body["rng"]))

    def join(self, new: Clusters) -> Clusters:
        """Return old and new clusters together.

        Parameters
        ----------
        new : Clusters
            Other clusters.

        Returns
        -------
        Clusters
            All of them, with the seed of the old ones.

        Raises
        ------
        InvalidInput
            If a cluster is among both.
        """
        known = {*map(str, self.names.tolist())}
        for name in new.names.tolist():
            if str(name) in known:
                raise InvalidInput(
                    f"clusters holds {name!r}, which was calibrated already, and a cluster counts "
                    "once. Add only tasks of new clusters."
                )
        names = _ids.as_task_names(self.names.tolist() + new.names.tolist())
        return Clusters(names, self.tasks + new.tasks, self.rng)


def match_clusters(names: Sequence[Any], ids: Array, clusters: ClusterIds) -> list[Any]:
    """Return the cluster of each task.

    Parameters
    ----------
    names : sequence
        The tasks.
    ids : ndarray, shape (n,)
        Task of each example.
    clusters : array_like, shape (n,), or mapping from task
        Cluster of each example, or of each task.

    Returns
    -------
    list
        Strings or integers, in the order of ``names``.

    Raises
    ------
    InvalidInput
        If one is missing, or a task is in two clusters.
    """
    if isinstance(clusters, Mapping):
        absent = [name for name in names if name not in clusters]
        if absent:
            raise InvalidInput(
                f"clusters must give the cluster of every task, and lacks {absent[0]!r}. Pass one "
                "for each task, or for each example."
            )
        return [as_cluster(clusters[name]) for name in names]
    values = _as_array(clusters, len(ids))
    found: dict[Any, Any] = {}
    for start in range(0, len(ids), _CHUNK):
        part = slice(start, start + _CHUNK)
        for task, value in dict.fromkeys(
            zip(ids[part].tolist(), values[part].tolist(), strict=True)
        ):
            cluster = as_cluster(value)
            check_one_cluster(task, found.setdefault(task, cluster), cluster)
    return [found[name] for name in names]


def as_cluster(value: Any) -> str | int:
    """Return the name of a cluster.

    Parameters
    ----------
    value : object
        The value that was passed.

    Returns
    -------
    str or int
        The name; values other than integers become strings.

    Raises
    ------
    InvalidInput
        If it is missing.
    """
    plain = _ids.as_plain_label(value)
    if plain is None or plain != plain or type(plain).__name__ in ("NAType", "NaTType"):
        raise InvalidInput(
            "clusters holds missing values (None or NaN); every task must be in a cluster. Drop "
            "those examples, or give a task without a cluster one of its own."
        )
    if isinstance(plain, float) and plain.is_integer():  # as in a pandas column with missing values
        return int(plain)
    return plain if type(plain) in (str, int) else str(plain)


def check_one_cluster(task: Any, first: Any, second: Any) -> None:
    """Raise InvalidInput if a task is in two clusters.

    Parameters
    ----------
    task : object
        The task.
    first : str or int
        One of its clusters.
    second : str or int
        Another one, or the same.
    """
    if first != second:
        one, other = sorted((str(first), str(second)))
        raise InvalidInput(
            f"task {task!r} is in the clusters {one!r} and {other!r}, and must be in one. If these "
            "are two tasks, give them different names, such as f'{cluster}-{task}'."
        )


def draw_tasks(names: Sequence[Any], clusters: Sequence[Any], rng: int) -> list[int]:
    """Return the positions of one random task of each cluster, in ascending order.

    Which task is drawn depends on the seed, the name of the cluster and the names of its tasks. It
    does not depend on scores, on other clusters, or on the order of the tasks.

    Parameters
    ----------
    names : sequence
        The tasks.
    clusters : sequence
        Cluster of each task.
    rng : int
        Seed.

    Returns
    -------
    list of int
        The positions.

    Examples
    --------
    >>> from metapac.clusters import draw_tasks
    >>> draw_tasks(["a", "b", "c", "d"], ["Greek", "Latin", "Greek", "Thai"], rng=0)
    [0, 1, 3]
    """
    seed = as_whole_number("rng", rng, minimum=0)
    members: dict[str, list[int]] = {}
    for position, cluster in enumerate(clusters):
        members.setdefault(str(cluster), []).append(position)
    drawn = []
    for cluster, inside in members.items():
        digest = hashlib.sha256(cluster.encode("utf-8", "backslashreplace")).digest()
        own = np.random.default_rng([seed, int.from_bytes(digest, "big")])
        ordered = sorted(inside, key=lambda position: str(names[position]))
        drawn.append(ordered[int(own.integers(len(ordered)))])
    return sorted(drawn)


def _as_array(clusters: Any, length: int) -> Array:
    """Return the cluster of each example as an array."""
    if not hasattr(clusters, "__array__"):
        if isinstance(clusters, str) or not isinstance(clusters, Iterable):
            raise InvalidInput(
                "clusters must hold one cluster for each example, in the same order, or map each "
                f"task to one, got {brief(clusters)}."
            )
        clusters = np.fromiter(clusters, dtype=object)
    array = np.asarray(on_host(clusters))
    if array.shape != (length,):
        raise InvalidInput(
            f"clusters must hold one cluster for each of {length} examples, got shape "
            f"{array.shape}. To pass one for each task, pass a mapping from task to cluster."
        )
    return _ids.as_task_ids(array) if array.dtype.kind == "M" else array
