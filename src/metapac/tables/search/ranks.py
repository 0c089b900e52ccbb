"""Exact order statistics of each task inside an engine, without sorting all scores.

A sample of the table suggests two values between which a rank lies. One query counts the scores
below them and sorts the few in between: a right guess gives the answer, and a wrong one still
narrows the search. The ranks that remain are narrowed down by counting until few enough scores
are left to sort.
"""

from __future__ import annotations

import ibis
import numpy as np
from ibis import _
from numpy.typing import NDArray

from metapac._types import Array, Counts, Progress, Table
from metapac.exceptions import InvalidInput
from metapac.tables.scores import Rows
from metapac.tables.search.brackets import Brackets, Spans, cuts_between, narrow
from metapac.tables.search.census import Census, take_census
from metapac.tables.search.expressions import upload
from metapac.tables.search.sample import estimate_shape, guess

# Sorting a score costs about as much as counting twelve; below a million, both are fast.
_WORTH_SORTING = 12
_SMALL = 1_000_000
_GUESSES = 2


def order_statistics(rows: Rows, census: Census, ranks: Counts, progress: Progress) -> Array:
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

    Returns
    -------
    ndarray of float64, shape (tasks, levels)
        The scores; ``-inf`` for rank -1.

    Raises
    ------
    InvalidInput
        If the table changed between two passes.
    """
    scores = np.full(ranks.shape, -np.inf)
    wanted = ranks >= 0
    if wanted.any():
        task, rank, target = _targets(ranks, wanted)
        brackets = Brackets.whole(task, rank, census.low, census.high, census.sizes)
        brackets = _narrow_down(rows, census, brackets, progress)
        if brackets.remaining:
            progress(f"sorting {brackets.remaining} scores", 0, None)
            brackets = _scan_brackets(rows, census, brackets, brackets.low, brackets.high)
        scores[wanted] = brackets.low[target]
    return scores


def _targets(ranks: Counts, wanted: NDArray[np.bool_]) -> tuple[Counts, Counts, Counts]:
    """Return task and rank of each distinct target, and the target of each wanted rank."""
    base = int(ranks.max()) + 1
    codes, target = np.unique(np.nonzero(wanted)[0] * base + ranks[wanted], return_inverse=True)
    task, rank = np.divmod(codes, base)
    return task, rank, target


def _narrow_down(rows: Rows, census: Census, brackets: Brackets, progress: Progress) -> Brackets:
    """Guess, then count, until few scores are left to sort."""
    few = max(_SMALL, int(census.sizes.sum()) // _WORTH_SORTING)
    shape = estimate_shape(rows, census) if brackets.remaining > few else None
    for _attempt in range(_GUESSES):
        if shape is not None and brackets.remaining > few:
            ranks = np.count_nonzero(~brackets.solved)
            progress(f"searching {ranks} ranks where they are expected", 0, None)
            floor, ceiling = guess(brackets, census.mean, census.spread, shape)
            brackets = _scan_brackets(rows, census, brackets, floor, ceiling)
    if brackets.remaining > few:
        brackets = brackets.clip(*_find_ranges(rows, census, progress))
    while brackets.remaining > few:
        progress(f"counting, with {brackets.remaining} scores left", 0, None)
        brackets = _count_scores(rows, census, brackets)
    return brackets


def _find_ranges(rows: Rows, census: Census, progress: Progress) -> tuple[Array, Array]:
    """Return the lowest and the highest score of each task, computed now if the census has none."""
    if np.isfinite(census.low).any():
        return census.low, census.high
    progress("finding the lowest and the highest score of each task", 0, None)
    new = take_census(rows)
    if not (np.array_equal(new.names, census.names) and np.array_equal(new.sizes, census.sizes)):
        raise _changed(rows)
    return new.low, new.high


def _scan_brackets(
    rows: Rows, census: Census, brackets: Brackets, floor: Array, ceiling: Array
) -> Brackets:
    """Sort the scores from floor to ceiling and count those below: solve or narrow brackets.

    Targets whose floor or ceiling is NaN are left as they are.
    """
    which = np.flatnonzero(~brackets.solved & (floor <= ceiling))
    if not len(which):
        return brackets
    unsolved = brackets.take(which)
    spans = Spans.of_brackets(unsolved, floor[which], ceiling[which])
    result = rows.source.run(_scan_query(rows, census, unsolved, spans)).sort_by("target")
    if result["target"].to_numpy().tolist() != list(range(len(which))):
        raise _changed(rows)
    less, count = result["less"].to_numpy(), result["seen"].to_numpy()
    score = result["score"].to_numpy(zero_copy_only=False)  # null becomes NaN
    after = unsolved.after_scan(spans, less, count, score.astype(unsolved.low.dtype))
    if after is None:
        raise _changed(rows)
    return brackets.put(which, after)


def _scan_query(rows: Rows, census: Census, unsolved: Brackets, spans: Spans) -> Table:
    """Return the score of each target, if it was sorted, and the counts of its span."""
    near = _scores_in_spans(rows, census, spans, floor=spans.floor)
    counts = near.group_by("span").agg(less=_.count(where=_.score < _.floor), seen=_.count())
    sliver = near.filter(_.score >= _.floor).select("span", "score")
    placed = sliver.mutate(place=ibis.row_number().over(group_by="span", order_by="score"))
    targets = upload(
        target=np.arange(len(unsolved.rank), dtype=np.int32),
        span=spans.of.astype(np.int32),
        rank=unsolved.rank - unsolved.below,
    )
    counted = targets.left_join(counts, "span").select(
        "target", "span", "rank", less=_.less.fill_null(0), seen=_.seen.fill_null(0)
    )
    counted = counted.mutate(place=_["rank"] - _.less)
    return counted.left_join(placed, ["span", "place"]).select("target", "less", "seen", "score")


def _count_scores(rows: Rows, census: Census, brackets: Brackets) -> Brackets:
    """Narrow brackets by counting the scores that are less than cuts between their ends."""
    which = np.flatnonzero(~brackets.solved)
    unsolved = brackets.take(which)
    spans = Spans.of_brackets(unsolved, unsolved.low, unsolved.high)
    cuts = cuts_between(spans.low, spans.ceiling)
    names = [f"cut{j}" for j in range(cuts.shape[1])]
    columns = dict(zip(names, cuts.T, strict=True))
    near = _scores_in_spans(rows, census, spans, **columns)
    less = {name: _.count(where=_.score < _[name]) for name in names}
    result = rows.source.run(near.group_by("span").agg(seen=_.count(), **less)).sort_by("span")
    counts = np.column_stack([result[name].to_numpy() for name in names])
    if len(result) != len(spans.low):
        raise _changed(rows)
    if (result["seen"].to_numpy()[spans.of] != unsolved.inside).any():
        raise _changed(rows)
    less_than_cuts = unsolved.below[:, None] + counts[spans.of]
    return brackets.put(which, narrow(unsolved, cuts[spans.of], less_than_cuts))


def _scores_in_spans(rows: Rows, census: Census, spans: Spans, **columns: Array) -> Table:
    """Return the scores of each span from low to ceiling, with further columns of the span."""
    table = upload(
        rows.table.schema()["task"],
        task=census.names[spans.task],
        span=np.arange(len(spans.low), dtype=np.int32),
        low=spans.low,
        ceiling=spans.ceiling,
        **columns,
    )
    scores = rows.table
    conditions = [scores.task == table.task, scores.score <= table.ceiling]
    if (spans.low > census.low[spans.task]).any():
        conditions.append(scores.score >= table.low)
    return scores.join(table, conditions).select("span", "score", *columns)


def _changed(rows: Rows) -> InvalidInput:
    return InvalidInput(
        f"{rows.source.name} changed while it was being read: two passes over it do not agree. "
        "Calibrate again when nothing writes to it, or on a copy."
    )
