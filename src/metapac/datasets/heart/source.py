"""Files of respondents in any format: blocks of rows, and the coding of the label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from metapac._types import Floats

LABEL = "CVDINFR4"  # "ever told you had a heart attack"
STATE = "_STATE"

# Dates of the interview and the file, and the sequence number with its copy, the sampling unit.
UNINFORMATIVE = {
    *("IDATE", "IMONTH", "IDAY", "IYEAR", "FMONTH", "SEQNO", "_PSU"),
    *("DATE", "YEAR", "MONTH", "DAY", "SEQUENCE"),
}
LEAK = "_MICHD"  # computed by the CDC from the label
PAPER = range(2011, 2021)  # the years of the paper


@dataclass(frozen=True)
class Coding:
    """The column of the label and the meaning of its numbers; NaN is always an unknown answer.

    Parameters
    ----------
    column : str
        Name of the column.
    yes, no : int
        Codes of the two answers.
    unknown : tuple of int
        Codes of answers such as "do not know".
    remedy : str
        Advice for a file with other codes.
    """

    column: str
    yes: int
    no: int
    unknown: tuple[int, ...]
    remedy: str


@dataclass(frozen=True)
class Block:
    """Some respondents as they are coded, NaN where a value is missing.

    Parameters
    ----------
    x : ndarray, shape (n, features)
        Features.
    label, year, state : ndarray, shape (n,)
        Label, year and state (FIPS code) of each respondent.
    """

    x: Floats
    label: Floats
    year: Floats
    state: Floats


@dataclass(frozen=True)
class Source:
    """A file of respondents.

    Parameters
    ----------
    path : Path
        The file.
    rows : int or None
        Number of respondents, if it is known in advance.
    coding : Coding
        Meaning of the labels.
    numeric, text : sequence of str
        Numeric and other columns, without label, year and state.
    blocks : callable
        Takes names of numeric columns and yields all respondents, a `Block` at a time.
    """

    path: Path
    rows: int | None
    coding: Coding
    numeric: Sequence[str]
    text: Sequence[str]
    blocks: Callable[[Sequence[str]], Iterator[Block]]
