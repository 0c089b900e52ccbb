"""One random task of each cluster of dependent tasks, in a table."""

from __future__ import annotations

from typing import Any

from metapac.base import ThresholdSets
from metapac.clusters import as_cluster, check_one_cluster
from metapac.evidence import Evidence
from metapac.exceptions import InvalidInput, Parameter
from metapac.tables import _checks
from metapac.tables.columns import Columns
from metapac.tables.ids import get_id_column
from metapac.tables.io.sources import Source
from metapac.tables.scores import as_written


def check_cluster(promise: ThresholdSets, columns: Columns) -> None:
    """Raise InvalidInput if the guarantee is for new clusters and no column names them.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    columns : Columns
        Columns of a table of labelled tasks.
    """
    if columns.cluster is None and getattr(promise, "clusters_", None) is not None:
        raise InvalidInput(
            "{} must name the column with the cluster of each task, since the guarantee is for new "
            "tasks of new clusters. If no two tasks share a cluster, pass the task column.",
            Parameter("cluster"),
        )


def draw_evidence(source: Source, columns: Columns, evidence: Evidence, rng: int) -> Evidence:
    """Return the evidence of one random task of each cluster.

    Parameters
    ----------
    source : Source
        The open table.
    columns : Columns
        Its columns, with ``task`` and ``cluster``.
    evidence : Evidence
        That of all tasks.
    rng : int
        Seed of the draw.

    Returns
    -------
    Evidence
        That of the tasks drawn, the same as on arrays.
    """
    found = find_clusters(source, columns)
    return evidence.draw_from([found[name] for name in evidence.names.tolist()], rng)


def find_clusters(source: Source, columns: Columns) -> dict[Any, str | int]:
    """Return the cluster of each task.

    Parameters
    ----------
    source : Source
        The open table.
    columns : Columns
        Its columns, with ``task`` and ``cluster``.

    Returns
    -------
    dict
        The cluster by task.

    Raises
    ------
    InvalidInput
        If one is missing, or a task is in two clusters.
    """
    assert columns.task is not None
    assert columns.cluster is not None
    names = {"task": columns.task, "cluster": columns.cluster}
    pairs = source.table.select(
        **{
            name: as_written(source, get_id_column(source, column, f"{name}s"))
            for name, column in names.items()
        }
    )
    with source.reading(task=columns.task):
        _check_present(source, pairs, columns.cluster)
        rows = source.run(pairs.distinct()).to_pydict()
    found: dict[Any, str | int] = {}
    for task, value in zip(rows["task"], rows["cluster"], strict=True):
        cluster = as_cluster(value)
        check_one_cluster(task, found.setdefault(task, cluster), cluster)
    return found


def _check_present(source: Source, pairs: Any, column: str) -> None:
    missing = source.run(pairs.agg(rows=pairs.count(where=pairs.cluster.isnull())))["rows"][0]
    if missing.as_py():
        raise InvalidInput(
            f"{source.name}: column {column!r} must name the cluster of every task, and is empty "
            f"in {_checks.pluralize(missing.as_py(), 'row')}. Drop those rows, or give a task "
            "without a cluster one of its own."
        )
