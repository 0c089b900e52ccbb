"""Prediction sets with a guarantee for every new task, not on average over tasks.

Names are imported when they are first used, so that the command line starts fast.
"""

from __future__ import annotations

from importlib import import_module

from metapac._version import __version__

TYPE_CHECKING = False  # importing typing would take longer than everything else here
if TYPE_CHECKING:  # the same names as below, for type checkers
    from typing import Any

    from metapac.binomial import allowed_errors as allowed_errors
    from metapac.binomial import clopper_pearson_upper as clopper_pearson_upper
    from metapac.binomial import threshold as threshold
    from metapac.columns import Columns as Columns
    from metapac.context import Context as Context
    from metapac.data_checks import CheckWarning as CheckWarning
    from metapac.drift import compare_scores as compare_scores
    from metapac.errors import BadArtefact as BadArtefact
    from metapac.errors import EngineError as EngineError
    from metapac.errors import InfeasibleGuarantee as InfeasibleGuarantee
    from metapac.errors import InvalidInput as InvalidInput
    from metapac.errors import MetapacError as MetapacError
    from metapac.errors import MissingExtra as MissingExtra
    from metapac.errors import NotCalibrated as NotCalibrated
    from metapac.evaluation import Evaluation as Evaluation
    from metapac.evaluation import evaluate as evaluate
    from metapac.exploration import Exploration as Exploration
    from metapac.exploration import explore as explore
    from metapac.exploration import read_pilot as read_pilot
    from metapac.federated import Site as Site
    from metapac.federated import bound_threshold as bound_threshold
    from metapac.federated import combine_sites as combine_sites
    from metapac.federated import count_liars as count_liars
    from metapac.federated import failure_probability as failure_probability
    from metapac.federated import make_site as make_site
    from metapac.federated import read_site as read_site
    from metapac.grouping import Scored as Scored
    from metapac.guarantee import Guarantee as Guarantee
    from metapac.heart_sites import load_heart_sites as load_heart_sites
    from metapac.monitoring import Monitor as Monitor
    from metapac.monitoring import open_monitor as open_monitor
    from metapac.planning import Plan as Plan
    from metapac.planning import plan as plan
    from metapac.predictors import PS as PS
    from metapac.predictors import MetaPS as MetaPS
    from metapac.predictors import load as load
    from metapac.provenance import read_provenance as read_provenance
    from metapac.provenance import write_scores as write_scores
    from metapac.score_functions import ScoreFunction as ScoreFunction
    from metapac.sets import answers as answers
    from metapac.sets import empty_sets as empty_sets
    from metapac.sets import interval as interval
    from metapac.sets import label_lists as label_lists
    from metapac.sets import residual_scores as residual_scores
    from metapac.sets import set_sizes as set_sizes
    from metapac.sets import summarise_sets as summarise_sets
    from metapac.tables.engines import Reading as Reading
    from metapac.tables.table import open_table as open_table
    from metapac.verdict import Verdict as Verdict
    from metapac.verdict import judge as judge

_NAMES = {
    "binomial": "allowed_errors clopper_pearson_upper threshold",
    "columns": "Columns",
    "context": "Context",
    "data_checks": "CheckWarning",
    "drift": "compare_scores",
    "errors": (
        "BadArtefact EngineError InfeasibleGuarantee InvalidInput MetapacError MissingExtra "
        "NotCalibrated"
    ),
    "evaluation": "Evaluation evaluate",
    "exploration": "Exploration explore read_pilot",
    "federated": (
        "Site bound_threshold combine_sites count_liars failure_probability make_site read_site"
    ),
    "grouping": "Scored",
    "guarantee": "Guarantee",
    "heart_sites": "load_heart_sites",
    "monitoring": "Monitor open_monitor",
    "planning": "Plan plan",
    "predictors": "PS MetaPS load",
    "provenance": "read_provenance write_scores",
    "score_functions": "ScoreFunction",
    "sets": "answers empty_sets interval label_lists residual_scores set_sizes summarise_sets",
    "tables.engines": "Reading",
    "tables.table": "open_table",
    "verdict": "Verdict judge",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_SUBMODULES = {"fewshot", "plots", "ranks", "report", "sklearn", "tables", *_NAMES}
__all__ = ["__version__", *sorted(_MODULES)]


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
