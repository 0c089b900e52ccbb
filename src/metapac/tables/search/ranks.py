"""Exact order statistics of each task, without sorting all scores.

A sample of the table suggests two values between which the ranks of a task lie. One query counts
the scores below them and fetches the few in between, which are sorted here: a right guess gives the
answer, and a wrong one still narrows the search. The ranks that remain are narrowed down by
counting until few enough scores are left to fetch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ibis import _
from numpy.typing import NDArray

from metapac._types import Array, Counts, Progress, Table
from metapac.exceptions import InvalidInput
from metapac.meaning.duplicates import Repeats
from metapac.tables.scores import Rows
from metapac.tables.search.brackets import Brackets, Spans, cuts_between, narrow
from metapac.tables.search.census import Census
from metapac.tables.search.expressions import exact, upload
from metapac.tables.search.floats import next_float
from metapac.tables.search.sample import Sample, Shape, estimate_shape, guess
from metapac.tables.search.slivers import MOST, fetch_slivers

# Fetching and sorting a score costs about as much as counting twelve; few are always fetched.
_WORTH_SORTING = 12
_SMALL = 1 << 17
_GUESSES = 2
MAX_GROUPED = 1 << 20  # rows, of whole tasks, in which copies are sought at most


def order_statistics(
    rows: Rows,
    census: Census,
    ranks: Counts,
    progress: Progress,
    sample: Sample | None = None,
) -> tuple[Array, Repeats | None]:
    """Return the scores of some ranks in each task.

    Parameters
    ----------
    rows : Rows
        Tasks and scores.
    census : Census
        Their summary.
    ranks : ndarray of int, shape (tasks, levels)
        Ranks, counted from 0 in ascending order of the scores; -1 for none.
    progress : callable
        Called as ``progress(stage, done, total)``.
    sample : Sample, optional
        Some of the rows, which suggest where to search.

    Returns
    -------
    scores : ndarray of float64, shape (tasks, levels)
        The scores; ``-inf`` for rank -1.
    repeats : dict from (int, int) to int, or None
        For each n and k, how many distinct scores occur k times in a task with n scores, among
        scores near the ranks; None if none were fetched.

    Raises
    ------
    InvalidInput
        If the table changed between two passes.
    """
    scores = np.full(ranks.shape, -np.inf)
    wanted = ranks >= 0
    search = _Search(rows, census, progress, sample)
    if wanted.any():
        task, rank, target = _targets(ranks, wanted)
        # The lowest score of a task would mislead a guess at its low ranks.
        unknown = np.isfinite(census.spread)
        low, high = np.where(unknown, -np.inf, census.low), np.where(unknown, np.inf, census.high)
        ends = low.astype(census.low.dtype), high.astype(census.high.dtype)
        brackets = search.solve(Brackets.whole(task, rank, *ends, census.sizes))
        scores[wanted] = brackets.low[target]
    return scores, search.repeats


def _targets(ranks: Counts, wanted: NDArray[np.bool_]) -> tuple[Counts, Counts, Counts]:
    """Return task and rank of each distinct target, and the target of each wanted rank."""
    base = int(ranks.max()) + 1
    codes, target = np.unique(np.nonzero(wanted)[0] * base + ranks[wanted], return_inverse=True)
    task, rank = np.divmod(codes, base)
    return task, rank, target


@dataclass
class _Search:
    """A search for ranks, which keeps the repeats that its first scan shows."""

    rows: Rows
    census: Census
    progress: Progress
    sample: Sample | None
    repeats: Repeats | None = None

    def solve(self, brackets: Brackets) -> Brackets:
        """Guess, then count, until few scores are left; fetch these."""
        few = max(_SMALL, min(MOST, int(self.census.sizes.sum()) // _WORTH_SORTING))
        if self.sample is not None and brackets.remaining > few:
            brackets = self._try_guesses(brackets, self.sample, few)
        brackets = brackets.clip(self.census.low, self.census.high)
        while brackets.remaining > few:
            self.progress(f"counting, with {brackets.remaining} scores left", 0, None)
            brackets = self._count(brackets, np.flatnonzero(~brackets.solved))
        if brackets.remaining:
            self.progress(f"sorting {brackets.remaining} scores", 0, None)
            which = np.flatnonzero(~brackets.solved)
            spans = Spans.of_brackets(brackets.take(which))
            brackets = self._scan(brackets, which, spans.low, spans.high, brackets.remaining)
        return brackets

    def _try_guesses(self, brackets: Brackets, sample: Sample, few: int) -> Brackets:
        shape = estimate_shape(self.rows, self.census, sample)
        for _attempt in range(_GUESSES):
            if shape is not None and brackets.remaining > few:
                ranks = np.count_nonzero(~brackets.solved)
                self.progress(f"searching {ranks} ranks where they are expected", 0, None)
                brackets = self._guess(brackets, shape)
        return brackets

    def _guess(self, brackets: Brackets, shape: Shape) -> Brackets:
        """Search where the sample suggests; brackets it says nothing about are left as they are."""
        which = np.flatnonzero(~brackets.solved)
        spans = Spans.of_brackets(brackets.take(which))
        floor, ceiling, expected = guess(spans, self.census.mean, self.census.spread, shape)
        is_known = floor <= ceiling
        which, floor, ceiling = which[is_known[spans.of]], floor[is_known], ceiling[is_known]
        if not len(which):
            return brackets
        less, seen = expected[:, is_known].sum(axis=1)
        if seen - less > MOST:
            return self._count(brackets, which, np.stack([floor, next_float(ceiling)], axis=1))
        return self._scan(brackets, which, floor, ceiling, seen)

    def _scan(
        self, brackets: Brackets, which: Counts, floor: Array, ceiling: Array, expected: float
    ) -> Brackets:
        """Fetch the scores from floor to ceiling and count those below; narrow the brackets."""
        unsolved = brackets.take(which)
        spans = Spans.of_brackets(unsolved)
        near = self._scores_in_spans(spans, ceiling, floor=floor)
        slivers = fetch_slivers(self.rows.source, near, floor, expected)
        if self.repeats is None:
            self.repeats = slivers.count_repeats(self.census.sizes[spans.task], MAX_GROUPED)
        score = slivers.pick(spans.of, unsolved.rank - unsolved.below).astype(floor.dtype)
        after = unsolved.after_scan(spans, floor, ceiling, slivers.less, slivers.seen, score)
        if after is None:
            raise _changed(self.rows)
        return brackets.put(which, after)

    def _count(self, brackets: Brackets, which: Counts, cuts: Array | None = None) -> Brackets:
        """Narrow brackets by counting the scores that are less than cuts between their ends."""
        unsolved = brackets.take(which)
        spans = Spans.of_brackets(unsolved)
        cuts = cuts_between(spans.low, spans.high) if cuts is None else cuts
        names = [f"cut{j}" for j in range(cuts.shape[1])]
        columns = dict(zip(names, cuts.T, strict=True))
        near = self._scores_in_spans(spans, spans.high, **columns)
        less = {name: _.count(where=_.score < _[name]) for name in names}
        query = near.group_by("span").agg(seen=_.count(), **less)
        result = self.rows.source.run(query).sort_by("span")
        if len(result) != len(cuts) or (result["seen"].to_numpy() != spans.inside).any():
            raise _changed(self.rows)
        counts = np.column_stack([result[name].to_numpy() for name in names])
        less_than_cuts = (spans.below[:, None] + counts)[spans.of]
        return brackets.put(which, narrow(unsolved, cuts[spans.of], less_than_cuts))

    def _scores_in_spans(self, spans: Spans, ceiling: Array, **columns: Array) -> Table:
        """Return the scores of each span up to a ceiling, with further columns of the span."""
        scores, names = self.rows.table, self.census.names
        table = upload(
            scores.schema()["task"],
            task=names[spans.task],
            span=np.arange(len(ceiling), dtype=np.int32),
            low=spans.low,
            ceiling=ceiling,
            **columns,
        )
        if np.isfinite(ceiling.max()):  # so that an engine need not look up the other tasks
            scores = scores.filter(scores.score <= exact(ceiling.max()).cast(scores.score.type()))
        near = scores.join(table, "task")
        # DuckDB makes a comparison a condition of the join, which is slower, but not a difference.
        if np.isfinite(ceiling).all() and self.rows.source.traits.overflows_to_infinity:
            near = near.filter(near.score - near.ceiling <= 0)
        else:
            near = near.filter((near.score <= near.ceiling).fill_null(False))
        if (spans.low > self.census.low[spans.task]).any():
            near = near.filter(near.score >= near.low)
        return near.select("span", "score", *columns)


def _changed(rows: Rows) -> InvalidInput:
    return InvalidInput(
        f"{rows.source.name} changed while it was being read: two passes over it do not agree. "
        "Calibrate again when nothing writes to it, or on a copy."
    )
