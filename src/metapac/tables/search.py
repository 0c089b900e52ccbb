"""Exact order statistics per task inside an engine.

A sample of the table suggests two values between which the ranks of a task lie. One query counts
the scores below them and fetches the few in between, which are sorted here: a right guess gives the
answer, and a wrong one still narrows the search. The ranks that remain are narrowed down by
counting until few enough scores are left to fetch.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from ibis import _
from numpy.typing import NDArray

from metapac._common import Array, Counts, Progress, Table, listed
from metapac.data_checks import Repeats
from metapac.errors import InvalidInput
from metapac.inputs import as_task_names
from metapac.tables.engines import (
    Traits,
    exact,
    float_to_ordinal,
    next_float,
    ordinal_to_float,
    pluralize,
    previous_float,
    upload,
)
from metapac.tables.scores import Rows, is_usable
from metapac.tables.sources import Source

Bounds = tuple[float, float]


class Census(NamedTuple):
    """Summary of each task, or of each class in it, in ascending order of names."""

    names: Array
    sizes: Counts
    low: Array
    high: Array
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]


def take_census(rows: Rows, bounds: Bounds | None = None) -> Census:
    """Return the tasks with their sizes and ranges; raise for missing tasks, nulls and NaN.

    Averages only guide the search.
    """
    result = rows.source.run(_query(rows, bounds)).sort_by("task")
    rows.source.check_not_empty(len(result))
    sizes = result["size"].to_numpy()
    low, high = _column(result, "low"), _column(result, "high")
    is_filled = np.array_equal(result["filled"].to_numpy(), sizes)
    names = name_tasks(rows, result, is_complete=is_filled and not np.isnan(high).any())
    low, high = low.astype(rows.precision), high.astype(rows.precision)
    return Census(names, sizes, low, high, *_moments(result, bounds))


def name_tasks(rows: Rows, result: Any, *, is_complete: bool) -> Array:
    """Return the tasks of a result; raise for missing tasks, nulls and NaN."""
    sizes = result["size"].to_numpy()
    missing = result["task"].is_null().to_numpy()
    if missing.any() or not is_complete:
        rows.check_faults()
        rows.source.check_no_missing(rows.columns.task, "tasks", int(sizes[missing].sum()))
        raise _missing_scores(rows, int(sizes.sum()))
    return as_task_names(result["task"].to_pylist())


def _query(rows: Rows, bounds: Bounds | None) -> Table:
    table = rows.table
    if rows.source.traits.nan_is_largest:  # NaN then shows in the maximum
        filled = table.score.count()
    else:
        filled = table.count(where=is_usable(rows.source, table.score))
    columns = {"size": table.count(), "filled": filled}
    columns |= {"low": table.score.min(), "high": table.score.max()}
    if bounds is not None:
        value, is_within = table.score.cast("float64"), None
        if np.isfinite(bounds).all():
            # From 1 to 2, because some engines fail on squares that overflow or underflow.
            low, width = exact(bounds[0]), exact(bounds[1] - bounds[0])
            value = (value - low + width) / width
            is_within = table.score.between(*map(exact, bounds))
        square = value * value
        columns |= {"mean": value.mean(where=is_within), "square": square.mean(where=is_within)}
    return table.group_by("task").agg(**columns)


def _moments(result: Any, bounds: Bounds | None) -> tuple[Array, Array]:
    """Return mean and standard deviation of each task's scores, on their original scale."""
    if bounds is None:
        return np.full(len(result), np.nan), np.full(len(result), np.nan)
    mean, square = (_column(result, name).astype(np.float64) for name in ("mean", "square"))
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.sqrt(np.maximum(square - mean * mean, 0))
    if not np.isfinite(bounds).all():
        return mean, spread
    width = bounds[1] - bounds[0]
    return bounds[0] + (mean - 1) * width, spread * width


def _column(result: Any, name: str) -> Array:
    """Return a column of numbers; null becomes NaN."""
    return np.asarray(result[name].to_numpy(zero_copy_only=False))


def _missing_scores(rows: Rows, count: int) -> InvalidInput:
    """Count nulls and NaN and name the first tasks that hold them."""
    bad = rows.table.filter(~is_usable(rows.source, rows.table.score))
    found = rows.source.run(bad.group_by("task").agg(nans=_.score.count(), all=_.count()))
    nans, both = (sum(found[name].to_pylist()) for name in ("nans", "all"))
    by_task = sorted((rows.describe(row["task"]), row["all"]) for row in found.to_pylist())
    name = rows.source.name
    null = "NaN or null" if name == "the pandas frame" else "null"  # the same to pandas
    problems = [pluralize(both - nans, null)] if both > nans else []
    problems += [f"{nans} NaN"] if nans else []
    return InvalidInput(
        f"{name}: the scores hold {' and '.join(problems)} out of {count} values (by task, "
        f"{listed([f'{task}: {bad}' for task, bad in by_task])}); a score that cannot be compared "
        "cannot be certified. Drop those rows."
    )


class Brackets(NamedTuple):
    """For each target, the values between which the score of its rank lies, both included.

    A target is a task and a rank, counted from 0 among the task's scores in ascending order.
    """

    task: Counts
    rank: Counts
    low: Array
    high: Array
    below: Counts
    inside: Counts

    @classmethod
    def whole(cls, task: Counts, rank: Counts, low: Array, high: Array, sizes: Counts) -> Brackets:
        """Return a bracket for each target around all scores of its task."""
        return cls(task, rank, low[task], high[task], np.zeros_like(rank), sizes[task])

    @property
    def solved(self) -> NDArray[np.bool_]:
        """Whether only one value is left, which is the answer."""
        return np.asarray(self.low == self.high)

    @property
    def remaining(self) -> int:
        """Number of scores in brackets that are not solved."""
        return int(Spans.of_brackets(self.take(np.flatnonzero(~self.solved))).inside.sum())

    def after_scan(
        self, spans: Spans, floor: Array, ceiling: Array, less: Counts, seen: Counts, score: Array
    ) -> Brackets | None:
        """Return the brackets after a scan of their spans; None if the counts contradict them."""
        all_scanned = ceiling >= spans.high
        if (seen > spans.inside).any() or (seen != spans.inside)[all_scanned].any():
            return None
        floor, ceiling, less, seen = (column[spans.of] for column in (floor, ceiling, less, seen))
        place = self.rank - self.below
        under, over = place < less, place >= seen
        solved = ~under & ~over
        if np.isnan(score[solved]).any():
            return None
        return self._replace(
            low=np.select([solved, over], [score, next_float(ceiling)], self.low),
            high=np.select([solved, under], [score, previous_float(floor)], self.high),
            below=np.where(over, self.below + seen, self.below),
            inside=np.select([under, over], [less, self.inside - seen], self.inside),
        )

    def take(self, which: Array) -> Brackets:
        """Return some of the brackets."""
        return Brackets(*(column[which] for column in self))

    def put(self, which: Array, others: Brackets) -> Brackets:
        """Return these brackets with some of them replaced."""
        columns = [column.copy() for column in self]
        for column, new in zip(columns, others, strict=True):
            column[which] = new
        return Brackets(*columns)


class Spans(NamedTuple):
    """The distinct brackets: one for all targets of a task between the same ends."""

    of: Counts
    task: Counts
    first: Counts
    last: Counts
    low: Array
    high: Array
    below: Counts
    inside: Counts

    @classmethod
    def of_brackets(cls, brackets: Brackets) -> Spans:
        """Return the spans of brackets; targets of one bracket are adjacent, by ascending rank."""
        is_first = np.zeros(len(brackets.task), dtype=bool)
        is_first[:1] = True
        for column in (brackets.task, brackets.below, brackets.inside):
            is_first[1:] |= column[1:] != column[:-1]
        task, rank, *others = (column[is_first] for column in brackets)
        last = brackets.rank[np.append(is_first[1:], True)] if len(task) else rank
        return cls(np.cumsum(is_first) - 1, task, rank, last, *others)


def narrow(brackets: Brackets, cuts: Array, less: Counts) -> Brackets:
    """Return the brackets between neighbouring cuts."""
    cuts = np.broadcast_to(cuts, less.shape)
    position = (less <= brackets.rank[:, None]).sum(axis=1)  # cuts at or below the answer
    less = np.column_stack([brackets.below, less, brackets.below + brackets.inside])
    values = np.column_stack([brackets.low, cuts, brackets.high])
    row = np.arange(len(position))
    is_last = position == cuts.shape[1]
    high = np.where(is_last, brackets.high, previous_float(values[row, position + 1]))
    return brackets._replace(
        low=values[row, position],
        high=high,
        below=less[row, position],
        inside=less[row, position + 1] - less[row, position],
    )


def cuts_between(low: Array, high: Array, *, linear: int = 4, binary: int = 3) -> Array:
    """Return ascending cuts above ``low`` and up to ``high``.

    Some are evenly spaced by value, which suits most scores. The others are evenly spaced by the
    number of floating-point numbers between them: for any scores, these alone leave a quarter
    of the numbers, so that brackets shrink to one value in a bounded number of rounds.
    """
    shares = np.arange(1, linear + 1) / (linear + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        by_value = low[:, None] * (1 - shares) + high[:, None] * shares
    by_value = np.where(np.isfinite(by_value), by_value, high[:, None]).astype(low.dtype)
    first, last = float_to_ordinal(low), float_to_ordinal(high)
    span = (last - first).astype(np.uint64)  # correct even if the signed difference overflows
    step = np.maximum(span // np.uint64(binary + 1), np.uint64(1))
    steps = np.minimum(step[:, None] * np.arange(1, binary + 1, dtype=np.uint64), span[:, None])
    by_ordinal = ordinal_to_float(first[:, None] + steps.astype(np.int64), low.dtype)
    cuts = np.sort(np.column_stack([by_value, by_ordinal]), axis=1)
    return np.asarray(np.clip(cuts, next_float(low)[:, None], high[:, None]))


# The larger the tasks are, the more precisely ranks can be predicted, and the more rows it takes.
_FEW_ROWS, _ROWS, _SHARE = 1 << 14, 1 << 17, 32
# Tasks with similar means have similar shapes: scores that cannot exceed 1 are skewed close to 1.
_STRATA = 8
# A curve consists of every 64th value, and of at least 32 values.
_EVERY, _ENOUGH = 64, 32
# Distance of a rank from its expected place: some standard deviations, and some slack since the
# shapes of tasks differ a little.
_DEVIATIONS, _SLACK = 3, 0.003
# Bounds include all but one score in a thousand. They are used if another score lies further
# outside than four times their distance.
_RARE, _FAR = 1000, 4
_HUGE = 1e30


class Sample(NamedTuple):
    """The first rows of a table that have a task and a score."""

    names: list[Any]
    task: Counts
    scores: Array


class Shape(NamedTuple):
    """Distribution of scores about their task's mean, in units of its standard deviation."""

    stratum: Counts
    values: list[Array]
    shares: list[Array]

    def share_below(self, task: Counts, values: Array) -> Array:
        """Return the share of a task's scores below each value."""
        return self._interpolate(task, values, self.values, self.shares, 0.0, 1.0)

    def quantile(self, task: Counts, shares: Array) -> Array:
        """Return the value below which each share of a task's scores lies."""
        return self._interpolate(task, shares, self.shares, self.values, -np.inf, np.inf)

    def _interpolate(
        self, task: Counts, at: Array, x: list[Array], y: list[Array], left: float, right: float
    ) -> Array:
        found = np.full(len(at), np.nan)
        for i in range(len(x)):
            members = self.stratum[task] == i
            found[members] = np.interp(at[members], x[i], y[i], left=left, right=right)
        return found


def take_sample(rows: Rows, count: int | None = None) -> Sample:
    """Return the first rows of a table."""
    result = rows.source.run(rows.table.limit(count or _FEW_ROWS))
    tasks = result["task"].combine_chunks().dictionary_encode()
    task = tasks.indices.fill_null(-1).to_numpy()
    scores = np.asarray(result["score"].to_numpy(), dtype=np.float64)  # null becomes NaN
    is_usable = (task >= 0) & ~np.isnan(scores)
    return Sample(tasks.dictionary.to_pylist(), task[is_usable], scores[is_usable])


def averaging_bounds(sample: Sample, traits: Traits) -> Bounds | None:
    """Return bounds of the scores to average."""
    scores = sample.scores
    moderate = np.sort(scores[np.abs(scores) < _HUGE])
    if len(moderate) < _FEW_ROWS // 2:
        return None
    few = len(moderate) // _RARE + 1
    lowest, low, high, highest = moderate[[0, few, -1 - few, -1]].tolist()
    if not low < high:
        return None
    room = _FAR * (high - low)
    has_outliers = low - lowest > room or highest - high > room
    is_moderate = len(moderate) == len(scores) and not has_outliers
    return (-math.inf, math.inf) if is_moderate and traits.overflows_to_infinity else (low, high)


def estimate_shape(rows: Rows, census: Census, sample: Sample) -> Shape | None:
    """Return the distribution of standardised scores, shared by tasks with similar means."""
    is_averaged = np.isfinite(census.spread) & (census.spread > 0)
    wanted = min(_ROWS, int(_SHARE * np.median(census.sizes)))
    sample = take_sample(rows, wanted) if wanted > len(sample.scores) else sample
    place = {name: i for i, name in enumerate(census.names.tolist())}
    task = np.array([place.get(name, -1) for name in sample.names], np.int64)[sample.task]
    is_used = (task >= 0) & is_averaged[task]
    if not is_used.any():
        return None
    task = task[is_used]
    edges = np.quantile(census.mean[is_averaged], np.arange(1, _STRATA) / _STRATA)
    stratum = np.searchsorted(edges, census.mean)
    value = (sample.scores[is_used] - census.mean[task]) / census.spread[task]
    curves = [np.sort(value[stratum[task] == i])[_EVERY // 2 :: _EVERY] for i in range(_STRATA)]
    # A table sorted by task shows only a few tasks: the others are assumed to have the same shape.
    common = np.sort(np.concatenate(curves))
    if not len(common):
        return None
    values = [curve if len(curve) >= _ENOUGH else common for curve in curves]
    return Shape(stratum, values, [(np.arange(len(v)) + 0.5) / len(v) for v in values])


def guess(
    spans: Spans, mean: Array, spread: Array, shape: Shape
) -> tuple[Array, Array, NDArray[np.float64]]:
    """Return values between which the scores of all targets of each span should lie.

    Between the ends of a bracket, ranks are assumed to rise as in the sample.
    """
    task, kind = spans.task, spans.low.dtype
    mean, spread = mean[task], spread[task]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low = shape.share_below(task, (spans.low - mean) / spread)
        high = shape.share_below(task, (spans.high - mean) / spread)
        first, last = _part(spans, spans.first, -1), _part(spans, spans.last, 1)
        floor = mean + spread * shape.quantile(task, low + (high - low) * first)
        ceiling = mean + spread * shape.quantile(task, low + (high - low) * last)
        floor[low >= high] = np.nan
        ends = np.stack([floor, ceiling]).astype(kind)
    floor, ceiling = np.clip(ends, spans.low, spans.high)
    return floor, ceiling, spans.inside * np.clip([first, last], 0, 1)


def _part(spans: Spans, rank: Counts, sign: int) -> Array:
    """Return the part of a span's scores below a rank, plus or minus a margin of error."""
    part = (rank - spans.below + 0.5) / spans.inside
    margin = _DEVIATIONS * np.sqrt(part * (1 - part) / spans.inside) + _SLACK
    return np.asarray(part + sign * margin)


MOST = 1 << 25  # rows or scores to fetch at most, so that they fit in memory
_BATCH = 1 << 16  # rows to look at in turn, few enough for the cache of a processor


class Slivers(NamedTuple):
    """What a scan of spans found: how many scores are below the floor, and those above it."""

    seen: Counts
    sizes: Counts
    starts: Counts
    scores: Array

    @property
    def less(self) -> Counts:
        """Number of scores of each span below the floor."""
        return self.seen - self.sizes

    def pick(self, span: Counts, place: Counts) -> Array:
        """Return scores by their place among all scores of a span."""
        picked = np.full(len(span), np.nan, dtype=self.scores.dtype)
        place = place - self.less[span]
        is_here = (place >= 0) & (place < self.sizes[span])
        picked[is_here] = self.scores[(self.starts[span] + place)[is_here]]
        return picked

    def count_repeats(self, examples: Counts, most: int) -> Repeats:
        """Return how many distinct scores occur k times in tasks of n scores, for each n and k.

        Neighbouring spans are counted together, few enough for the cache of a processor.
        """
        ends = np.cumsum(self.sizes)
        ends = ends[ends <= most]
        blocks = np.searchsorted(ends, np.arange(0, ends.max(initial=0), _BATCH), side="right")
        repeats: Counter[tuple[int, int]] = Counter()
        for first, last in pairwise([*dict.fromkeys([0, *blocks.tolist()]), len(ends)]):
            sizes, starts = self.sizes[first:last], self.starts[first:last]
            if not sizes.any():
                continue
            scores = self.scores[starts[0] : starts[0] + sizes.sum()]
            is_new = np.append(True, scores[1:] != scores[:-1])
            is_new[starts[sizes > 0] - starts[0]] = True
            places = np.flatnonzero(is_new)
            times = np.diff(places, append=len(scores))
            base = int(times.max()) + 1
            codes = np.repeat(examples[first:last], sizes)[places] * base + times
            distinct, counts = pa.array(codes).value_counts().flatten()
            pairs = [divmod(code, base) for code in distinct.to_pylist()]
            repeats.update(dict(zip(pairs, counts.to_pylist(), strict=True)))
        return repeats


def fetch_slivers(source: Source, near: Table, floor: Array, expected: float) -> Slivers:
    """Return the scores at or above the floors of spans, and the number of all.

    An engine in this process hands over rows faster than it collects them into lists.
    """
    traits = source.traits
    by_row = (traits.in_process and expected <= MOST) or not traits.has_lists
    seen, span, scores = (_fetch_rows if by_row else _fetch_lists)(source, near, floor)
    sizes = np.bincount(span, minlength=len(floor))
    # NumPy sorts 16-bit integers by radix, in linear time.
    order = np.argsort(span.astype(np.min_scalar_type(len(floor))), kind="stable")
    scores = scores[order].astype(floor.dtype, copy=False)
    return Slivers(seen, sizes, _sort_groups(scores, sizes), scores)


def _sort_groups(scores: Array, sizes: Counts) -> Counts:
    """Sort the scores of each group, in place, and return where the groups start."""
    ends = np.cumsum(sizes)
    for start, end in pairwise([0, *ends.tolist()]):
        scores[start:end].sort()
    return np.asarray(ends - sizes)


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


# Fetching and sorting a score costs about as much as counting twelve; few are always fetched.
_WORTH_SORTING = 12
_FEW_SCORES = 1 << 17
_GUESSES = 2
MAX_GROUPED = 1 << 20  # rows, of whole tasks, in which copies are sought at most


def order_statistics(
    rows: Rows, census: Census, found: Slivers | Sample | None, ranks: Counts, progress: Progress
) -> tuple[Array, Repeats | None]:
    """Return the scores of some ranks in each task, and how often scores near them repeat."""
    wanted = ranks >= 0
    if isinstance(found, Slivers):
        place = found.starts[:, None] + ranks
        scores = np.where(wanted, found.scores[place], -np.inf).astype(np.float64)
        return scores, found.count_repeats(census.sizes, MAX_GROUPED)
    scores = np.full(ranks.shape, -np.inf)
    search = _Search(rows, census, progress, found)
    if wanted.any():
        base = int(ranks.max()) + 1
        codes, target = np.unique(np.nonzero(wanted)[0] * base + ranks[wanted], return_inverse=True)
        # The lowest score of a task would mislead a guess at its low ranks.
        unknown = np.isfinite(census.spread)
        low, high = np.where(unknown, -np.inf, census.low), np.where(unknown, np.inf, census.high)
        ends = low.astype(census.low.dtype), high.astype(census.high.dtype)
        brackets = search.solve(Brackets.whole(*np.divmod(codes, base), *ends, census.sizes))
        scores[wanted] = brackets.low[target]
    return scores, search.repeats


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
        few = max(_FEW_SCORES, min(MOST, int(self.census.sizes.sum()) // _WORTH_SORTING))
        if self.sample is not None and brackets.remaining > few:
            shape = estimate_shape(self.rows, self.census, self.sample)
            for _attempt in range(_GUESSES):
                if shape is not None and brackets.remaining > few:
                    ranks = np.count_nonzero(~brackets.solved)
                    self.progress(f"searching {ranks} ranks where they are expected", 0, None)
                    brackets = self._guess(brackets, shape)
        low = np.maximum(brackets.low, self.census.low[brackets.task])
        high = np.minimum(brackets.high, self.census.high[brackets.task])
        brackets = brackets._replace(low=low, high=high)
        while brackets.remaining > few:
            self.progress(f"counting, with {brackets.remaining} scores left", 0, None)
            brackets = self._count(brackets, np.flatnonzero(~brackets.solved))
        if brackets.remaining:
            self.progress(f"sorting {brackets.remaining} scores", 0, None)
            which = np.flatnonzero(~brackets.solved)
            spans = Spans.of_brackets(brackets.take(which))
            brackets = self._scan(brackets, which, spans.low, spans.high, brackets.remaining)
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
            raise self._changed()
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
            raise self._changed()
        counts = np.column_stack([result[name].to_numpy() for name in names])
        less_than_cuts = (spans.below[:, None] + counts)[spans.of]
        return brackets.put(which, narrow(unsolved, cuts[spans.of], less_than_cuts))

    def _changed(self) -> InvalidInput:
        problem = "changed while it was being read: two passes over it do not agree"
        return InvalidInput(f"{self.rows.source.name} {problem}.")

    def _scores_in_spans(self, spans: Spans, ceiling: Array, **columns: Array) -> Table:
        """Return the scores of each span up to a ceiling, with further columns of the span."""
        scores, names = self.rows.table, self.census.names
        table = upload(
            scores.schema()["task"],
            names[spans.task].tolist(),
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


# Up to so many rows, one query that collects all scores is faster than several that collect few.
_FETCH_ALL = 1 << 20


def take_survey(rows: Rows) -> tuple[Census, Slivers | Sample]:
    """Return the tasks with their sizes, and all scores of a small table, or some of a large one.

    Raise for missing tasks, nulls and NaN.
    """
    traits = rows.source.traits
    if traits.in_process and traits.has_lists:
        some = rows.source.table.limit(_FETCH_ALL + 1)
        count = rows.source.run(some.agg(rows=some.count()))["rows"][0].as_py()
        if count <= _FETCH_ALL:
            return _fetch(rows)
    sample = take_sample(rows)
    return take_census(rows, averaging_bounds(sample, traits)), sample


def _fetch(rows: Rows) -> tuple[Census, Slivers]:
    """Fetch all scores, and sort them task by task."""
    query = rows.table.group_by("task").agg(size=_.count(), scores=_.score.collect())
    result = rows.source.run(query).sort_by("task")
    rows.source.check_not_empty(len(result))
    lists = result["scores"].combine_chunks()
    sizes = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    scores = np.array(lists.flatten(), dtype=rows.precision)
    is_complete = np.array_equal(sizes, result["size"].to_numpy()) and not np.isnan(scores).any()
    names = name_tasks(rows, result, is_complete=is_complete)
    starts = _sort_groups(scores, sizes)
    unknown = np.full(len(names), np.nan)
    census = Census(names, sizes, scores[starts], scores[starts + sizes - 1], unknown, unknown)
    return census, Slivers(sizes, sizes, starts, scores)
