"""Exact order statistics per task inside an engine.

A sample of the table suggests two values between which the ranks of a task lie. One query counts
the scores below them and fetches the few in between, which are sorted here: the counts prove a
right guess, and a wrong one tells on which side the rank lies. That side is fetched by another
query or, if it is too large, sorted by the engine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import ibis
import numpy as np
import pyarrow as pa
from ibis import _
from numpy.typing import NDArray

from metapac._common import Array, Counts, Progress, Table, listed
from metapac.data_checks import Repeats
from metapac.errors import InvalidInput
from metapac.inputs import as_task_names
from metapac.tables.engines import Traits, exact, next_float, previous_float, upload
from metapac.tables.scores import Rows
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
    """Return the tasks with sizes and ranges; raise for missing tasks, nulls and NaN."""
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
        filled = table.count(where=rows.source.is_usable(table.score))
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
    """Count nulls and NaN, and name the first tasks that hold them."""
    bad = rows.table.filter(~rows.source.is_usable(rows.table.score))
    found = rows.source.run(bad.group_by("task").agg(bad=_.count())).to_pylist()
    by_task = sorted(f"{rows.describe(row['task'])}: {row['bad']}" for row in found)
    total = sum(row["bad"] for row in found)
    text = f"{rows.source.name}: the scores hold {total} null or NaN out of {count} values (by task"
    text += f", {listed(by_task)}); a score that cannot be compared cannot be certified."
    return InvalidInput(f"{text} Drop those rows.")


class Spans(NamedTuple):
    """Parts of tasks: the scores from low to high, how many are below, and how many they are."""

    task: Counts
    low: Array
    high: Array
    below: Counts
    inside: Counts

    def take(self, which: Array) -> Spans:
        """Return some of the spans."""
        return Spans(*(column[which] for column in self))


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


def guess(
    rows: Rows, census: Census, sample: Sample, ranks: Counts
) -> tuple[Array, Array, NDArray[np.float64]]:
    """Return values between which the scores of all ranks of each task should lie; NaN if unknown.

    With them comes the share of the task's scores below each. Tasks with similar means are assumed
    to have the same distribution about their mean, in units of their standard deviation.
    """
    share = _shares(census.sizes, ranks)
    ends = np.full(share.shape, np.nan)
    is_averaged = np.isfinite(census.spread) & (census.spread > 0)
    wanted = min(_ROWS, int(_SHARE * np.median(census.sizes)))
    sample = take_sample(rows, wanted) if wanted > len(sample.scores) else sample
    place = {name: i for i, name in enumerate(census.names.tolist())}
    task = np.array([place.get(name, -1) for name in sample.names], np.int64)[sample.task]
    is_used = (task >= 0) & is_averaged[task]
    task = task[is_used]
    if len(task):
        edges = np.quantile(census.mean[is_averaged], np.arange(1, _STRATA) / _STRATA)
        stratum = np.searchsorted(edges, census.mean)
        value = (sample.scores[is_used] - census.mean[task]) / census.spread[task]
        curves = [np.sort(value[stratum[task] == i])[_EVERY // 2 :: _EVERY] for i in range(_STRATA)]
        # A table sorted by task shows few tasks: the others are assumed to have the same shape.
        common = np.sort(np.concatenate(curves))
        for i, curve in enumerate(curves):
            curve = curve if len(curve) >= _ENOUGH else common
            some = is_averaged & (stratum == i)
            if len(curve):
                steps = (np.arange(len(curve)) + 0.5) / len(curve)
                ends[:, some] = np.interp(share[:, some], steps, curve, left=-np.inf, right=np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        floor, ceiling = (census.mean + census.spread * ends).astype(census.low.dtype)
    ends = np.clip([floor, ceiling], census.low, census.high)
    return ends[0], ends[1], np.clip(share, 0, 1)


def _shares(sizes: Counts, ranks: Counts) -> NDArray[np.float64]:
    """Return the shares of each task's scores below its ranks, with a margin of error."""
    first = np.where(ranks < 0, sizes[:, None], ranks).min(axis=1)
    share = (np.stack([first, ranks.max(axis=1)]) + 0.5) / sizes
    with np.errstate(invalid="ignore"):
        margin = _DEVIATIONS * np.sqrt(share * (1 - share) / sizes) + _SLACK
    return share + np.array([[-1], [1]]) * margin


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

    def count_repeats(self, examples: Counts, most: int) -> Repeats:
        """Return how many distinct scores occur k times in tasks of n scores, for each n and k."""
        is_used = np.cumsum(self.sizes) <= most
        sizes, starts = self.sizes[is_used], self.starts[is_used]
        scores = self.scores[: sizes.sum()]
        if not len(scores):
            return Counter()
        is_new = np.append(True, scores[1:] != scores[:-1])
        is_new[starts[sizes > 0]] = True
        places = np.flatnonzero(is_new)
        times = np.diff(places, append=len(scores))
        base = int(times.max()) + 1
        codes = np.repeat(examples[is_used], sizes)[places] * base + times
        distinct, counts = pa.array(codes).value_counts().flatten()
        pairs = [divmod(code, base) for code in distinct.to_pylist()]
        return Counter(dict(zip(pairs, counts.to_pylist(), strict=True)))


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
MAX_GROUPED = 1 << 20  # rows, of whole tasks, in which copies are sought at most


def order_statistics(
    rows: Rows, census: Census, found: Slivers | Sample, ranks: Counts, progress: Progress
) -> tuple[Array, Repeats | None]:
    """Return the scores of some ranks in each task, and how often scores near them repeat."""
    if isinstance(found, Slivers):
        scores = np.where(ranks < 0, -np.inf, found.scores[found.starts[:, None] + ranks])
        return scores.astype(np.float64), found.count_repeats(census.sizes, MAX_GROUPED)
    search = _Search(rows, census, ranks, progress, np.where(ranks < 0, -np.inf, np.nan))
    task = np.flatnonzero((ranks >= 0).any(axis=1))
    size = census.sizes[task]
    spans = Spans(task, census.low[task], census.high[task], np.zeros_like(task), size)
    few = max(_FEW_SCORES, min(MOST, int(census.sizes.sum()) // _WORTH_SORTING))
    if size.sum() > few:
        spans = search.guess(spans, found)
    search.sort(spans)
    return search.scores, search.repeats


@dataclass
class _Search:
    """A search for ranks, which keeps the repeats that its first scan shows."""

    rows: Rows
    census: Census
    ranks: Counts  # (tasks, ranks)
    progress: Progress
    scores: NDArray[np.float64]  # of the ranks; NaN until they are found
    repeats: Repeats | None = None

    def guess(self, spans: Spans, sample: Sample) -> Spans:
        """Search whole tasks where the sample suggests; return where unsolved ranks must be."""
        self.progress(f"searching {len(spans.task)} tasks where ranks are expected", 0, None)
        ends = guess(self.rows, self.census, sample, self.ranks)
        floor, ceiling, (first, last) = (end[..., spans.task] for end in ends)
        is_known = np.asarray(floor <= ceiling)
        left = [spans.take(~is_known)]
        spans, floor, ceiling = spans.take(is_known), floor[is_known], ceiling[is_known]
        expected = spans.inside * (last - first)[is_known]
        for some in _batches(expected):
            part, low, high = spans.take(some), floor[some], ceiling[some]
            slivers = self._fetch(part, low, high, (part.inside * last[is_known][some]).sum())
            seen, rest = slivers.seen, part.inside - slivers.seen
            if (rest < 0).any() or rest[high >= part.high].any():
                raise self._changed()
            left.append(part._replace(high=previous_float(low), inside=slivers.less))
            left.append(part._replace(low=next_float(high), below=seen, inside=rest))
        return Spans(*map(np.concatenate, zip(*left, strict=True)))

    def sort(self, spans: Spans) -> None:
        """Find the ranks that are left: fetch the scores of their spans, or let the engine sort."""
        ranks = np.where(np.isnan(self.scores), self.ranks, -1)[spans.task]
        place = ranks - spans.below[:, None]
        is_left = np.any((place >= 0) & (place < spans.inside[:, None]), axis=1)
        spans = spans.take(np.asarray(is_left))
        self.progress(f"sorting {spans.inside.sum()} scores", 0, None)
        is_huge = spans.inside > MOST
        small = spans.take(~is_huge)
        for some in _batches(small.inside):
            part = small.take(some)
            slivers = self._fetch(part, part.low, part.high, part.inside.sum())
            if (slivers.sizes != part.inside).any():
                raise self._changed()
        if is_huge.any():
            self._sort_in_engine(spans.take(is_huge))
        if np.isnan(self.scores).any():
            raise self._changed()

    def _fetch(self, spans: Spans, floor: Array, ceiling: Array, expected: float) -> Slivers:
        """Fetch the scores of spans from floor to ceiling, count those below, and keep ranks."""
        near = self._scores_in_spans(spans, ceiling, floor=floor)
        slivers = fetch_slivers(self.rows.source, near, floor, expected)
        if self.repeats is None:
            self.repeats = slivers.count_repeats(self.census.sizes[spans.task], MAX_GROUPED)
        place = self.ranks[spans.task] - (spans.below + slivers.less)[:, None]
        span, level = np.nonzero((place >= 0) & (place < slivers.sizes[:, None]))
        found = slivers.scores[slivers.starts[span] + place[span, level]]
        self.scores[spans.task[span], level] = found
        return slivers

    def _sort_in_engine(self, spans: Spans) -> None:
        """Find the ranks of spans that have too many scores to fetch."""
        near = self._scores_in_spans(spans, spans.high)
        place = ibis.row_number().over(group_by="span", order_by="score")
        places = self.ranks[spans.task] - spans.below[:, None]
        span, level = np.nonzero((places >= 0) & (places < spans.inside[:, None]))
        wanted = {"span": span.astype(np.int32), "place": places[span, level]}
        keys = ibis.memtable(pa.table(wanted)).distinct()
        size = near.count().over(group_by="span")
        found = self.rows.source.run(near.mutate(place=place, seen=size).join(keys, [*wanted]))
        if (found["seen"].to_numpy() != spans.inside[found["span"].to_numpy()]).any():
            raise self._changed()
        by_place = {(row["span"], row["place"]): row["score"] for row in found.to_pylist()}
        pairs = zip(span.tolist(), wanted["place"].tolist(), strict=True)
        self.scores[spans.task[span], level] = [by_place.get(pair, np.nan) for pair in pairs]

    def _changed(self) -> InvalidInput:
        problem = "changed while it was being read: two passes over it do not agree"
        return InvalidInput(f"{self.rows.source.name} {problem}.")

    def _scores_in_spans(self, spans: Spans, ceiling: Array, **columns: Array) -> Table:
        """Return the scores of each span up to a ceiling, with further columns of the span."""
        scores, names = self.rows.table, self.census.names[spans.task].tolist()
        ends = {"span": np.arange(len(ceiling), dtype=np.int32), "low": spans.low}
        table = upload(scores.schema()["task"], names, **ends, ceiling=ceiling, **columns)
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


def _batches(expected: Array) -> Iterator[Counts]:
    """Yield the indices of neighbouring spans that together have few enough scores to fetch."""
    batch = np.cumsum(expected) // MOST
    for i in np.unique(batch):
        yield np.flatnonzero(batch == i)


# Up to so many rows, one query that collects all scores is faster than several that collect few.
_FETCH_ALL = 1 << 20


def take_survey(rows: Rows) -> tuple[Census, Slivers | Sample]:
    """Return the tasks with their sizes, and all scores of a small table or some of a large one."""
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
