"""Evidence in a promise file: how JSON holds it, and what is checked when it is read."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import _document, _ids
from metapac.clusters import Clusters
from metapac.evidence.evidence import Evidence
from metapac.exceptions import InvalidInput


def encode_evidence(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as JSON can hold it; without ``per_class``, with no axis of classes.

    Parameters
    ----------
    evidence : Evidence
        The evidence.

    Returns
    -------
    dict
        What `decode_evidence` reads.
    """
    sizes, thresholds = evidence.sizes, evidence.thresholds
    body: dict[str, Any] = {"tasks": _ids.as_json_names(evidence.names)}
    if evidence.classes is None:
        sizes, thresholds = sizes[:, 0], thresholds[:, 0]
    else:
        body["classes"] = list(evidence.classes)
    if evidence.highest is not None:
        body["highest"] = _document.encode_floats(evidence.highest.tolist())
    if evidence.clusters is not None:
        body["clusters"] = evidence.clusters.to_json()
    if evidence.ranges is not None:
        body["ranges"] = [
            None if low != low else _document.encode_floats([low, high])  # NaN: not known
            for low, high in evidence.ranges.tolist()
        ]
    return body | {
        "name_rule": _ids.NAME_RULE,
        "sizes": sizes.tolist(),
        "thresholds": _document.encode_floats(thresholds.tolist()),
        "lowest": _document.encode_floats(evidence.lowest.tolist()),
    }


def decode_evidence(body: dict[str, Any], levels: int, precision: np.dtype[Any]) -> Evidence:
    """Return the evidence that `encode_evidence` prepared.

    Parameters
    ----------
    body : dict
        What `encode_evidence` returned.
    levels : int
        Number of levels.
    precision : numpy.dtype
        Precision of the scores.

    Returns
    -------
    Evidence
        Without ``columns``.

    Raises
    ------
    InvalidInput
        If tasks are not distinct or of one kind, if shapes do not match, or if a threshold is
        outside the range of the scores.
    """
    names = _ids.as_task_names(body["tasks"])
    classes = _ids.as_classes(body["classes"]) if "classes" in body else None
    by_task = (len(names),) if classes is None else (len(names), len(classes))
    shape = (len(names), 1 if classes is None else len(classes))
    read = functools.partial(_as_shape, body)
    evidence = Evidence(
        names,
        read("sizes", by_task, np.int64).reshape(shape),
        read("thresholds", (*by_task, levels), np.float64).reshape(*shape, levels),
        read("lowest", shape[1:], np.float64)
        if "lowest" in body  # early versions did not store it
        else np.full(shape[1], -np.inf),
        precision,
        classes,
        highest=read("highest", shape[1:], np.float64) if "highest" in body else None,
        clusters=Clusters.from_json(body["clusters"], len(names)) if "clusters" in body else None,
        ranges=_read_ranges(body, len(names)) if "ranges" in body else None,
    )
    _check_range(evidence)
    evidence.check_ranges()
    return evidence


def _as_shape(body: dict[str, Any], name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return numbers, infinities among them as strings, that must have a shape."""
    try:
        array = np.array(body[name], dtype=dtype)
    except ValueError:  # rows of unequal length
        raise InvalidInput(f"evidence.{name} holds lists of unequal length.") from None
    if array.shape != shape:
        raise InvalidInput(
            f"evidence.{name} must have shape {shape}, by the number of tasks, classes and levels, "
            f"got {array.shape}."
        )
    return array


def _read_ranges(body: dict[str, Any], tasks: int) -> NDArray[Any]:
    """Return the lowest and the highest score of each task; null becomes NaN."""
    ends = [(np.nan, np.nan) if pair is None else pair for pair in body["ranges"]]
    return _as_shape({"ranges": ends}, "ranges", (tasks, 2), np.float64)


def _check_range(evidence: Evidence) -> None:
    """Raise InvalidInput if a threshold, which is a score, is outside the range of the scores."""
    highest = evidence.highest_or_inf
    for index in np.flatnonzero((evidence.sizes != 0).any(axis=0)):
        low, high = evidence.lowest[index], highest[index]
        where = "" if evidence.classes is None else f" of class {evidence.classes[index]!r}"
        if low > high:
            raise InvalidInput(
                f"evidence.lowest{where} is {low:g}, above evidence.highest, {high:g}."
            )
        if low == np.inf and evidence.highest is None:
            raise InvalidInput(f"evidence.lowest{where} is inf, but there are examples.")
        sent = evidence.thresholds[:, index]
        for outside in sent[(sent > -np.inf) & ((sent < low) | (sent > high))][:1]:
            raise InvalidInput(
                f"evidence.thresholds{where} holds {outside:g}, outside the range of the scores "
                f"from {low:g} to {high:g}."
            )
