"""Calibrate, predict and evaluate on tables of any size. Needs the extra ``tables``."""

try:
    import ibis  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "ibis":
        raise
    raise ModuleNotFoundError(
        "tables need ibis. Install it with: pip install 'metapac[tables]'", name="ibis"
    ) from error

from metapac.tables.calibrate import calibrate_table
from metapac.tables.connections import connect
from metapac.tables.evaluate import Evaluation, evaluate_table
from metapac.tables.predict import predict_table
from metapac.tables.site import site_table

__all__ = [
    "Evaluation",
    "calibrate_table",
    "connect",
    "evaluate_table",
    "predict_table",
    "site_table",
]
