"""Descriptions of learners and pools, to check that a resumed evaluation is the same one."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac import _document
from metapac.learners.protocols import Learner


def describe_learner(learner: Learner) -> dict[str, Any]:
    """Return a description of a learner, with a checksum of its weights if it has any.

    Parameters
    ----------
    learner : Learner
        The learner.

    Returns
    -------
    dict
        What its method ``describe`` returns, or its class and its parameters.
    """
    if hasattr(learner, "describe"):
        described = dict(learner.describe())
    else:
        values = {name: value for name, value in vars(learner).items() if name[0] != "_"}
        described = {"class": type(learner).__name__}
        described |= {name: getattr(v, "__qualname__", repr(v)) for name, v in values.items()}
    module = getattr(learner, "module", None)
    if module is None:
        return described
    state = module.state_dict()
    arrays = (state[name].cpu().numpy() for name in sorted(state))
    return described | {"weights": _document.data_checksum(*arrays)}


def describe_pool(pool: Any) -> dict[str, Any]:
    """Return a description of a pool, with a checksum of its data.

    Parameters
    ----------
    pool : ClassPool, GroupPool or DomainPool
        The pool.

    Returns
    -------
    dict
        The kind and the numbers of its classes, groups or domains and of its examples.
    """
    labels = [getattr(pool, name) for name in ("groups", "domains") if hasattr(pool, name)]
    return {
        "unit": pool.unit,
        "names": len(pool.names),
        "examples": len(pool.y),
        "checksum": _document.data_checksum(np.asarray(pool.x), pool.y, *labels),
    }
