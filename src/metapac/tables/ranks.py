"""Exact order statistics of each task inside an engine, without sorting all scores.

The pool of a table suggests between which values a rank lies. One query counts the scores below
them and sorts the sliver in between, so that a right guess is an answer and a wrong one still
narrows the search. What guesses leave open is narrowed by counts until it is quick to sort.
"""

from __future__ import annotations

from collections.abc import Callable

import ibis
import numpy as np
from ibis import _
from numpy.typing import NDArray

from metapac.tables import _checks
from metapac.tables.brackets import Array, Brackets, Counts, Spans, cuts_between, narrow
from metapac.tables.census import Census, take_census
from metapac.tables.pool import guess, shape_of
from metapac.tables.scores import Rows
from metapac.tables.upload import upload

# Sorting a score costs about as much as counting twelve; below a million neither takes long.
_WORTH_SORTING = 12
_SMALL = 1_000_000
_GUESSES = 2

Progress = Callable[[str], None]


def order_statistics(rows: Rows, census: Census, ranks: Counts, progress: Progress) -> Array:
    """Return for each task the scores of its ranks, in the shape of ``ranks``, (tasks, levels).

    Ranks count from 0; a rank of -1 gives ``-inf``.
    """
    found = np.full(ranks.shape, -np.inf)
    wanted = ranks >= 0
    if wanted.any():
        task, rank, target = _targets(ranks, wanted)
        brackets = Brackets.whole(task, rank, census.low, census.high, census.sizes)
        brackets = _narrowed(rows, census, brackets, progress)
        if brackets.left:
            progress(f"sorting {brackets.left} scores")
            brackets = _look(rows, census, brackets, brackets.low, brackets.high)
        found[wanted] = brackets.low[target]
    return found


def _targets(ranks: Counts, wanted: NDArray[np.bool_]) -> tuple[Counts, Counts, Counts]:
    """Return the different ranks of each task in ascending order, and the number of each wanted."""
    most = int(ranks.max()) + 1
    codes, target = np.unique(np.nonzero(wanted)[0] * most + ranks[wanted], return_inverse=True)
    task, rank = np.divmod(codes, most)
    return task, rank, target


def _narrowed(rows: Rows, census: Census, brackets: Brackets, progress: Progress) -> Brackets:
    """Guess, then count, until what is left to sort is little."""
    little = max(_SMALL, int(census.sizes.sum()) // _WORTH_SORTING)
    shape = shape_of(rows, census) if brackets.left > little else None
    for _attempt in range(_GUESSES):
        if shape is not None and brackets.left > little:
            progress(f"looking for {np.count_nonzero(~brackets.solved)} ranks where they should be")
            floor, ceiling = guess(brackets, census.mean, census.spread, shape)
            brackets = _look(rows, census, brackets, floor, ceiling)
    if brackets.left > little:
        brackets = brackets.within(*_ranges(rows, census, progress))
    while brackets.left > little:
        progress(f"counting, to narrow {brackets.left} scores down")
        brackets = _count(rows, census, brackets)
    return brackets


def _ranges(rows: Rows, census: Census, progress: Progress) -> tuple[Array, Array]:
    """Return the least and the greatest score of each task, which the census may have left out."""
    if np.isfinite(census.low).any():
        return census.low, census.high
    progress("finding the least and the greatest score of each task")
    again = take_census(rows)
    if not all(map(np.array_equal, again[:2], census[:2])):  # names and sizes
        raise _checks.changed(rows.source.name)
    return again.low, again.high


def _look(rows: Rows, census: Census, brackets: Brackets, floor: Array, ceiling: Array) -> Brackets:
    """Sort the scores from floor to ceiling and count those below: solve or narrow brackets.

    Where floor or ceiling is NaN, nothing is done.
    """
    which = np.flatnonzero(~brackets.solved & (floor <= ceiling))
    if not len(which):
        return brackets
    some = brackets.take(which)
    spans = Spans.of_brackets(some, floor[which], ceiling[which])
    found = rows.source.run(_looked_up(rows, census, some, spans)).sort_by("target")
    if found["target"].to_numpy().tolist() != list(range(len(which))):
        raise _checks.changed(rows.source.name)
    less, seen = found["less"].to_numpy(), found["seen"].to_numpy()
    score = found["score"].to_numpy(zero_copy_only=False)  # null becomes NaN
    found = some.seen(spans, less, seen, score.astype(some.low.dtype))
    if found is None:
        raise _checks.changed(rows.source.name)
    return brackets.put(which, found)


def _looked_up(rows: Rows, census: Census, some: Brackets, spans: Spans) -> _checks.Table:
    """Return for each target its score if it was among the sorted, and the counts of its span."""
    near = _near(rows, census, spans, floor=spans.floor)
    counts = near.group_by("span").agg(less=_.count(where=_.score < _.floor), seen=_.count())
    sliver = near.filter(_.score >= _.floor).select("span", "score")
    placed = sliver.mutate(place=ibis.row_number().over(group_by="span", order_by="score"))
    targets = upload(
        target=np.arange(len(some.rank), dtype=np.int32),
        span=spans.of.astype(np.int32),
        rank=some.rank - some.below,
    )
    counted = targets.left_join(counts, "span").select(
        "target", "span", "rank", less=_.less.fill_null(0), seen=_.seen.fill_null(0)
    )
    counted = counted.mutate(place=_["rank"] - _.less)
    return counted.left_join(placed, ["span", "place"]).select("target", "less", "seen", "score")


def _count(rows: Rows, census: Census, brackets: Brackets) -> Brackets:
    """Narrow brackets by counting how many scores are less than cuts between their ends."""
    which = np.flatnonzero(~brackets.solved)
    some = brackets.take(which)
    spans = Spans.of_brackets(some, some.low, some.high)
    cuts = cuts_between(spans.low, spans.ceiling)
    names = [f"cut{j}" for j in range(cuts.shape[1])]
    columns = dict(zip(names, cuts.T, strict=True))
    near = _near(rows, census, spans, **columns)
    less = {name: _.count(where=_.score < _[name]) for name in names}
    counts = near.group_by("span").agg(seen=_.count(), **less)
    found = rows.source.run(counts).sort_by("span")
    table = np.column_stack([found[name].to_numpy() for name in names])
    if len(found) != len(spans.low) or (found["seen"].to_numpy()[spans.of] != some.inside).any():
        raise _checks.changed(rows.source.name)
    return brackets.put(which, narrow(some, cuts[spans.of], some.below[:, None] + table[spans.of]))


def _near(rows: Rows, census: Census, spans: Spans, **columns: Array) -> _checks.Table:
    """Return the scores of each span from low to ceiling, with further columns of the span."""
    number = np.arange(len(spans.low), dtype=np.int32)
    table = upload(
        rows.table.schema()["task"],
        task=census.names[spans.task],
        span=number,
        low=spans.low,
        ceiling=spans.ceiling,
        **columns,
    )
    scores = rows.table
    here = [scores.task == table.task, scores.score <= table.ceiling]
    if (spans.low > census.low[spans.task]).any():
        here.append(scores.score >= table.low)
    return scores.join(table, here).select("span", "score", *columns)
