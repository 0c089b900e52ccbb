"""What a file of respondents offers, whoever wrote it: blocks of rows, and how they are coded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

LABEL = "CVDINFR4"  # "ever told you had a heart attack"
STATE = "_STATE"

# Dates of the interview and the file, and the sequence number with its copy, the sampling unit.
UNINFORMATIVE = {"IDATE", "IMONTH", "IDAY", "IYEAR", "FMONTH", "SEQNO", "_PSU"} | {
    "DATE",
    "YEAR",
    "MONTH",
    "DAY",
    "SEQUENCE",
}
LEAK = "_MICHD"  # which the CDC computes from the label
PAPER = range(2011, 2021)  # the years of the paper

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Coding:
    """The column of the label and what its numbers mean; NaN is an unknown answer in any."""

    column: str
    yes: int
    no: int
    unknown: tuple[int, ...]
    remedy: str  # for a file with other numbers


@dataclass(frozen=True)
class Block:
    """Some respondents as they are coded, NaN where a value is missing."""

    x: Floats  # (n, features)
    label: Floats  # (n,)
    year: Floats  # (n,)
    state: Floats  # (n,), the number of the state (FIPS)


class Source(Protocol):
    """A file of respondents. Label, year and state are not among its columns."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def rows(self) -> int | None:
        """How many respondents there are, where that is known before they are read."""

    @property
    def coding(self) -> Coding:
        """What its labels mean."""

    @property
    def numeric(self) -> Sequence[str]:
        """The columns of numbers."""

    @property
    def text(self) -> Sequence[str]:
        """The columns of anything else."""

    def blocks(self, features: Sequence[str]) -> Iterator[Block]:
        """Yield all respondents with these columns of numbers."""
