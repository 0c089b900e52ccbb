"""Prediction sets with a guarantee for every new task, not on average over tasks.

Names are imported when they are first used, so that the command line starts fast.
"""

from __future__ import annotations

from importlib import import_module

from metapac._version import __version__

TYPE_CHECKING = False  # importing typing would take longer than everything else here
if TYPE_CHECKING:
    from typing import Any

    from metapac.abstention import answers
    from metapac.assessment import evaluate
    from metapac.binomial import allowed_errors, clopper_pearson_upper, threshold
    from metapac.calibration import PS, MetaPS
    from metapac.context import Context
    from metapac.exceptions import (
        BadArtefact,
        InfeasibleGuarantee,
        InvalidInput,
        MetapacError,
        MissingExtra,
        NotCalibrated,
    )
    from metapac.guarantee import Guarantee
    from metapac.loading import load
    from metapac.meta_cp.estimator import MetaCP
    from metapac.monitoring import Monitor
    from metapac.planning import plan
    from metapac.set_summary import summarise_sets
    from metapac.sets import empty_sets, interval, label_lists, residual_scores, set_sizes
    from metapac.verdict import judge

__all__ = [
    "PS",
    "BadArtefact",
    "Context",
    "Guarantee",
    "InfeasibleGuarantee",
    "InvalidInput",
    "MetaCP",
    "MetaPS",
    "MetapacError",
    "MissingExtra",
    "Monitor",
    "NotCalibrated",
    "__version__",
    "allowed_errors",
    "answers",
    "clopper_pearson_upper",
    "empty_sets",
    "evaluate",
    "interval",
    "judge",
    "label_lists",
    "load",
    "plan",
    "residual_scores",
    "set_sizes",
    "summarise_sets",
    "threshold",
]

_NAMES = {
    "abstention": ["answers"],
    "assessment": ["evaluate"],
    "binomial": ["allowed_errors", "clopper_pearson_upper", "threshold"],
    "calibration": ["PS", "MetaPS"],
    "context": ["Context"],
    "exceptions": [
        "BadArtefact",
        "InfeasibleGuarantee",
        "InvalidInput",
        "MetapacError",
        "MissingExtra",
        "NotCalibrated",
    ],
    "guarantee": ["Guarantee"],
    "loading": ["load"],
    "meta_cp.estimator": ["MetaCP"],
    "monitoring": ["Monitor"],
    "planning": ["plan"],
    "set_summary": ["summarise_sets"],
    "sets": ["empty_sets", "interval", "label_lists", "residual_scores", "set_sizes"],
    "verdict": ["judge"],
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


_SUBMODULES = {
    "estimators",
    "evaluation",
    "learners",
    "lm_eval",
    "meta_cp",
    "ranks",
    "report",
    "scoring",
    "sites",
    "tasks",
    *_NAMES,
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
