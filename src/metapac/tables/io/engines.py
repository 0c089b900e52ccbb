"""Engines, and the differences between them that matter for exact results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DUCKDB, SPARK = "duckdb", "pyspark"  # the names that Ibis gives them


@dataclass(frozen=True)
class Traits:
    """What an engine can and cannot do.

    Attributes
    ----------
    in_process : bool
        It runs in this process, so that rows need not be sent.
    ignores_case : bool
        It treats column names that differ only in case as equal.
    has_lists : bool
        It has columns of lists.
    has_nan : bool
        It stores NaN, instead of null.
    nan_is_largest : bool
        NaN compares as larger than every number, so that a maximum reveals it.
    overflows_to_infinity : bool
        Sums and products that are too large become infinite instead of failing.
    has_collations : bool
        A column may compare text without regard to case.
    mixes_types : bool
        A column of numbers may hold text.
    parses_java_numbers : bool
        It parses text such as 1d and 0x1p3 as a number.
    has_positions : bool
        A function of the entries of a list may use their positions to look into another list.
    has_median : bool
        It computes medians.
    has_timezone_function : bool
        Its function ``timezone`` gives the local time of a moment.
    """

    in_process: bool = False
    ignores_case: bool = False
    has_lists: bool = True
    has_nan: bool = True
    nan_is_largest: bool = False
    overflows_to_infinity: bool = False
    has_collations: bool = False
    mixes_types: bool = False
    parses_java_numbers: bool = False
    has_positions: bool = False
    has_median: bool = False
    has_timezone_function: bool = False


_TRAITS = {
    DUCKDB: Traits(
        in_process=True,
        ignores_case=True,
        nan_is_largest=True,
        overflows_to_infinity=True,
        has_positions=True,
        has_median=True,
        has_timezone_function=True,
    ),
    SPARK: Traits(
        ignores_case=True,
        nan_is_largest=True,
        overflows_to_infinity=True,
        parses_java_numbers=True,
        has_positions=True,
        has_median=True,
    ),
    "postgres": Traits(nan_is_largest=True, has_median=True, has_timezone_function=True),
    "sqlite": Traits(
        in_process=True,
        ignores_case=True,
        has_lists=False,
        has_nan=False,
        has_collations=True,
        mixes_types=True,
    ),
}


def traits_of(connection: Any) -> Traits:
    """Return the traits of an engine; for one that is not listed, the most cautious ones.

    Parameters
    ----------
    connection : Ibis connection
        A connection to the engine.

    Returns
    -------
    Traits
        Its traits.
    """
    return _TRAITS.get(connection.name, Traits())
