"""Calibrate, predict and evaluate on tables of any size. Needs the extra ``tables``."""

from metapac import _common

try:
    from metapac.tables.calibration import calibrate_table, site_table
    from metapac.tables.engines import connect
    from metapac.tables.evaluation import evaluate_table
    from metapac.tables.exploration import explore_table
    from metapac.tables.monitoring import compare_tables, monitor_table
    from metapac.tables.prediction import predict_table, summarise_sets
    from metapac.tables.sources import open_table
except ModuleNotFoundError as error:
    raise _common.missing(error, extra="tables", purpose="reading tables") from error

__all__ = [
    "calibrate_table",
    "compare_tables",
    "connect",
    "evaluate_table",
    "explore_table",
    "monitor_table",
    "open_table",
    "predict_table",
    "site_table",
    "summarise_sets",
]
