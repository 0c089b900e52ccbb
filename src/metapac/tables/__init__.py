"""Tables of any size: open one, then calibrate, predict and evaluate. Needs ``tables``."""

from metapac import _common

try:
    from metapac.tables.drift import compare_tables
    from metapac.tables.engines import Reading, connect
    from metapac.tables.table import Table, open_table
except ModuleNotFoundError as error:
    raise _common.missing(error, extra="tables", purpose="reading tables") from error

__all__ = ["Reading", "Table", "compare_tables", "connect", "open_table"]
