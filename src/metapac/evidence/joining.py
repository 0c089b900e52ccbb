"""Evidence with more tasks or more classes than it was collected on."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac import _ids, _scores
from metapac.clusters import Clusters
from metapac.evidence.evidence import Evidence
from metapac.exceptions import InvalidInput


def join_evidence(old: Evidence, new: Evidence) -> Evidence:
    """Return the evidence of old and new tasks together.

    Parameters
    ----------
    old : Evidence
        Evidence of the tasks so far.
    new : Evidence
        Evidence of other tasks. The coarser of both precisions is used.

    Returns
    -------
    Evidence
        With all tasks, and with the classes of both.
    """
    old, new = _align_classes(old, new)
    return old._replace(
        names=_ids.append_new_names(old.names, new.names),
        sizes=np.concatenate([old.sizes, new.sizes]),
        thresholds=np.concatenate([old.thresholds, new.thresholds]),
        lowest=np.minimum(old.lowest, new.lowest),
        highest=np.maximum(old.highest_or_inf, new.highest_or_inf),
        precision=_scores.coarsest_precision([old.precision, new.precision]),
        clusters=_join_clusters(old.clusters, new.clusters),
        ranges=np.concatenate([old.contents.ranges, new.contents.ranges]),
    )


def _join_clusters(old: Clusters | None, new: Clusters | None) -> Clusters | None:
    """Return the clusters of old and new tasks; either both have them, or neither."""
    if (old is None) != (new is None):
        raise InvalidInput(
            "clusters must be passed with new tasks if the old ones were drawn from clusters, and "
            f"only then; here only the {'new' if old is None else 'old'} tasks have them."
        )
    return None if old is None or new is None else old.join(new)


def _align_classes(old: Evidence, new: Evidence) -> tuple[Evidence, Evidence]:
    """Return both with the union of their classes; a missing class counts as no examples."""
    if old.classes is None or new.classes is None:
        return old, new
    if type(old.classes[0]) is not type(new.classes[0]):
        raise InvalidInput(
            f"labels must be of one type, got {new.classes[0]!r}, but the classes so far include "
            f"{old.classes[0]!r}. Convert them."
        )
    unseen = [label for label in new.classes if label not in old.classes]
    if unseen and old.columns is not None:
        raise InvalidInput(
            f"labels holds the class {unseen[0]!r}, which the table calibrated on does not have."
        )
    classes = tuple(sorted({*old.classes, *new.classes})) if unseen else old.classes
    return with_classes(old, classes), with_classes(new, classes)


def with_classes(evidence: Evidence, classes: tuple[Any, ...]) -> Evidence:
    """Return the evidence with its classes in another order, possibly with more of them.

    Parameters
    ----------
    evidence : Evidence
        Evidence with classes.
    classes : tuple
        All classes. One that the evidence lacks counts as no examples.

    Returns
    -------
    Evidence
        The evidence.
    """
    assert evidence.classes is not None
    place = [classes.index(label) for label in evidence.classes]
    tasks, _, levels = evidence.thresholds.shape
    sizes = np.zeros((tasks, len(classes)), dtype=np.int64)
    thresholds = np.full((tasks, len(classes), levels), -np.inf)
    lowest, highest = np.full(len(classes), np.inf), np.full(len(classes), -np.inf)
    sizes[:, place], thresholds[:, place] = evidence.sizes, evidence.thresholds
    lowest[place], highest[place] = evidence.lowest, evidence.highest_or_inf
    new: dict[str, Any] = {"sizes": sizes, "thresholds": thresholds, "classes": classes}
    return evidence._replace(**new, lowest=lowest, highest=highest)
