"""Prediction sets with a guarantee for every new task, not on average over tasks."""

from metapac._estimator import load
from metapac._version import __version__
from metapac.binomial import allowed_errors, clopper_pearson_upper, threshold
from metapac.calibration import PS, MetaPS
from metapac.guarantee import Guarantee, InfeasibleGuarantee, NotCalibrated
from metapac.meta_cp import MetaCP
from metapac.persistence import BadArtefact
from metapac.planning import plan
from metapac.sets import empty_sets, interval, label_lists, residual_scores, set_sizes

__all__ = [
    "PS",
    "BadArtefact",
    "Guarantee",
    "InfeasibleGuarantee",
    "MetaCP",
    "MetaPS",
    "NotCalibrated",
    "__version__",
    "allowed_errors",
    "clopper_pearson_upper",
    "empty_sets",
    "interval",
    "label_lists",
    "load",
    "plan",
    "residual_scores",
    "set_sizes",
    "threshold",
]
