"""Engines for tables of any size; ``metapac.open_table`` opens one. Needs the extra ``tables``."""

from metapac import _common

try:
    from metapac.tables.engines import connect
    from metapac.tables.table import Table, compare_tables
except ModuleNotFoundError as error:
    raise _common.missing(error, extra="tables", purpose="reading tables") from error

__all__ = ["Table", "compare_tables", "connect"]
