"""An order statistic of a large sample, faster than by partitioning all of it."""

from __future__ import annotations

import math

import numpy as np

from metapac._types import Floats

_PROBES = 4096


def kth_smallest(values: Floats, rank: int) -> float:
    """Return ``np.partition(values, rank)[rank]``, from few of the values.

    A regular sample says between which two values the answer lies, in most cases: its ranks are
    off by four standard deviations of a random sample at most. Where that is wrong, or nearly all
    values are equal, all of them are partitioned. (Floyd and Rivest 1975.)
    """
    probes = np.sort(values[:: max(1, len(values) // _PROBES)])
    expected, margin = rank / len(values) * len(probes), 2 * math.sqrt(len(probes))
    low = probes[max(0, math.floor(expected - margin))]
    high = probes[min(len(probes) - 1, math.ceil(expected + margin))]
    between = values[(values >= low) & (values <= high)]
    below = int(np.count_nonzero(values < low))
    if not below <= rank < below + len(between):
        between, below = values, 0
    return float(np.partition(between, rank - below)[rank - below])
