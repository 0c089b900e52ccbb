"""Calibrate, predict and evaluate on tables of any size. Needs the extra ``tables``."""

from metapac import _optional

try:
    from metapac.tables.calibrate import calibrate_table
    from metapac.tables.evaluate import Evaluation, evaluate_table
    from metapac.tables.explore import explore_table
    from metapac.tables.io.connections import connect
    from metapac.tables.monitor import compare_tables, monitor_table
    from metapac.tables.predict import predict_table, summarise_sets
    from metapac.tables.reading import open_table
    from metapac.tables.site import site_table
except ModuleNotFoundError as error:
    raise _optional.missing(error, extra="tables", purpose="reading tables") from error

__all__ = [
    "Evaluation",
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
