"""What became of the respondents of a survey: kept in which state-years, or dropped and why."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac.datasets.heart_source import Block, Coding


class Tally:
    """Counts that grow block by block."""

    def __init__(self) -> None:
        self.read = self.positive = 0
        self.dropped = {"label unknown": 0, "year or state missing": 0, "feature missing": 0}
        self.groups: Counter[int] = Counter()  # year * 100 + state

    def kept(self, block: Block, coding: Coding) -> NDArray[np.bool_]:
        """Return which rows to keep; a row that is dropped counts for its first reason."""
        rows = np.ones(len(block.label), np.bool_)
        passed = (
            np.isin(block.label, [coding.yes, coding.no]),
            ~np.isnan(block.year) & ~np.isnan(block.state),
            ~np.isnan(block.x).any(1),
        )
        for reason, passing in zip(self.dropped, passed, strict=True):
            self.dropped[reason] += int((rows & ~passing).sum())
            rows &= passing
        self.read += len(rows)
        self.positive += int((block.label[rows] == coding.yes).sum())
        groups = block.year[rows].astype(np.int64) * 100 + block.state[rows].astype(np.int64)
        found, sizes = np.unique(groups, return_counts=True)
        self.groups.update(dict(zip(found.tolist(), sizes.tolist(), strict=True)))
        return rows

    def facts(self) -> dict[str, Any]:
        """Return all counts as JSON can hold them; there must be some."""
        rows, groups = self.groups.total(), dict(sorted(self.groups.items()))
        years = sorted({code // 100 for code in groups})
        sizes = {y: [size for code, size in groups.items() if code // 100 == y] for y in years}
        return {
            "classes": 2,
            "counts": {
                "rows read": self.read,
                "rows kept": rows,
                "positive": self.positive,
                "state-years": len(groups),
            },
            "splits": {
                str(year): {"state-years": len(own), "rows": sum(own)}
                for year, own in sizes.items()
            },
            "years": years,
            "share positive": self.positive / rows,
            "rows dropped": self.dropped,
            "state-years": {f"{c // 100}-{c % 100:02}": size for c, size in groups.items()},
        }
