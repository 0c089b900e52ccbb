"""The scores near a rank, fetched from an engine and sorted, task by task."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from ibis import _

from metapac._types import Array, Counts, Table
from metapac.meaning.duplicates import Repeats
from metapac.tables.io.sources import Source

MOST = 1 << 25  # rows or scores to fetch at most, so that they fit in memory
_BATCH = 1 << 16  # rows to look at in turn, few enough for the cache of a processor


class Slivers(NamedTuple):
    """What a scan of spans found: how many scores are below the floor, and those above it.

    Attributes
    ----------
    seen : ndarray of int, shape (spans,)
        Number of scores of each span.
    sizes : ndarray of int, shape (spans,)
        Number of its scores at or above the floor.
    starts : ndarray of int, shape (spans,)
        Position of the first of these in ``scores``.
    scores : ndarray of float, shape (n,)
        The scores at or above the floor, in ascending order within a span.
    """

    seen: Counts
    sizes: Counts
    starts: Counts
    scores: Array

    @property
    def less(self) -> Counts:
        """Number of scores of each span below the floor."""
        return self.seen - self.sizes

    def pick(self, span: Counts, place: Counts) -> Array:
        """Return scores by their place among all scores of a span.

        Parameters
        ----------
        span : ndarray of int, shape (n,)
            The spans.
        place : ndarray of int, shape (n,)
            Places, counted from 0 in ascending order.

        Returns
        -------
        ndarray of float, shape (n,)
            The scores; NaN below the floor and beyond the last score.
        """
        picked = np.full(len(span), np.nan, dtype=self.scores.dtype)
        place = place - self.less[span]
        is_here = (place >= 0) & (place < self.sizes[span])
        picked[is_here] = self.scores[(self.starts[span] + place)[is_here]]
        return picked

    def count_repeats(self, examples: Counts, most: int) -> Repeats:
        """Return how many distinct scores occur k times in a task with n scores, for each n and k.

        Parameters
        ----------
        examples : ndarray of int, shape (spans,)
            Number of scores of the task of each span.
        most : int
            Look at whole spans, with at most this many scores in total.

        Returns
        -------
        dict from (int, int) to int
            The numbers, by n and k.
        """
        ends = np.cumsum(self.sizes)
        ends = ends[ends <= most]
        blocks = np.searchsorted(ends, np.arange(0, ends.max(initial=0), _BATCH), side="right")
        repeats: Counter[tuple[int, int]] = Counter()
        for first, last in pairwise([*dict.fromkeys([0, *blocks.tolist()]), len(ends)]):
            repeats.update(self._count_repeats(examples, slice(first, last)))
        return repeats

    def _count_repeats(self, examples: Counts, spans: slice) -> Repeats:
        """Count the repeats of neighbouring spans, few enough for the cache of a processor."""
        sizes, starts = self.sizes[spans], self.starts[spans]
        if not sizes.any():
            return {}
        begin = int(starts[0])
        scores = self.scores[begin : begin + int(sizes.sum())]
        is_first = np.append(True, scores[1:] != scores[:-1])
        is_first[starts[sizes > 0] - begin] = True
        first = np.flatnonzero(is_first)
        times = np.diff(first, append=len(scores))
        size = np.repeat(examples[spans], sizes)[first]
        base = int(times.max()) + 1
        codes, counts = pa.array(size * base + times).value_counts().flatten()
        pairs = (divmod(code, base) for code in codes.tolist())
        return dict(zip(pairs, counts.tolist(), strict=True))


def fetch_slivers(source: Source, near: Table, floor: Array, expected: float) -> Slivers:
    """Return the scores at or above the floors of spans, and the number of all.

    An engine in this process hands over rows faster than it collects them into lists.

    Parameters
    ----------
    source : Source
        The open table.
    near : ibis.Table
        The scores of the spans, with the columns ``span``, ``score`` and ``floor``.
    floor : ndarray of float, shape (spans,)
        The floors.
    expected : float
        Number of rows of ``near``, roughly.

    Returns
    -------
    Slivers
        The scores.
    """
    traits = source.traits
    by_row = (traits.in_process and expected <= MOST) or not traits.has_lists
    seen, span, scores = (_fetch_rows if by_row else _fetch_lists)(source, near, floor)
    sizes = np.bincount(span, minlength=len(floor))
    # NumPy sorts 16-bit integers by radix, in linear time.
    order = np.argsort(span.astype(np.min_scalar_type(len(floor))), kind="stable")
    scores = scores[order].astype(floor.dtype, copy=False)
    ends = np.cumsum(sizes)
    for start, end in pairwise([0, *ends.tolist()]):
        scores[start:end].sort()
    return Slivers(seen, sizes, ends - sizes, scores)


def _fetch_rows(source: Source, near: Table, floor: Array) -> tuple[Counts, Array, Array]:
    """Return the number of rows of each span, and span and score of those above the floor."""
    seen = np.zeros(len(floor), dtype=np.int64)
    spans, scores = [np.empty(0, np.int32)], [np.empty(0, floor.dtype)]
    for batch in source.run(near.select("span", "score")).to_batches(max_chunksize=_BATCH):
        span, score = batch["span"].to_numpy(), batch["score"].to_numpy()
        seen += np.bincount(span, minlength=len(floor))
        is_kept = np.flatnonzero(score >= floor[span])
        spans.append(span[is_kept])
        scores.append(score[is_kept])
    return seen, np.concatenate(spans), np.concatenate(scores)


def _fetch_lists(source: Source, near: Table, floor: Array) -> tuple[Counts, Array, Array]:
    """Return the same from an engine that only sends what is needed."""
    lists = _.score.collect(where=_.score >= _.floor)
    result = source.run(near.group_by("span").agg(seen=_.count(), scores=lists))
    span, lists = result["span"].to_numpy(), result["scores"].combine_chunks()
    seen = np.zeros(len(floor), dtype=np.int64)
    seen[span] = result["seen"].to_numpy()
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return seen, np.repeat(span, lengths), lists.flatten().to_numpy(zero_copy_only=False)
