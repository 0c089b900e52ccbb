"""The first look at a table: a small one is fetched whole, a large one counted and searched."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from ibis import _

from metapac._types import Array, Counts, Progress
from metapac.meaning.duplicates import Repeats
from metapac.tables import _checks
from metapac.tables.scores import Rows
from metapac.tables.search.census import Census, name_tasks, take_census
from metapac.tables.search.ranks import MAX_GROUPED, order_statistics
from metapac.tables.search.sample import Sample, averaging_bounds, take_sample
from metapac.tables.search.slivers import Slivers

# Up to so many rows, one query that collects all scores is faster than several that collect few.
_SMALL = 1 << 20


@dataclass(frozen=True)
class Survey:
    """What is known of the scores of a table before their ranks are.

    Attributes
    ----------
    rows : Rows
        Tasks and scores.
    census : Census
        Their summary.
    found : Slivers or Sample
        All scores of a small table; of a large one, some rows.
    """

    rows: Rows
    census: Census
    found: Slivers | Sample

    def order_statistics(self, ranks: Counts, progress: Progress) -> tuple[Array, Repeats | None]:
        """Return the scores of some ranks in each task.

        Parameters
        ----------
        ranks : ndarray of int, shape (tasks, levels)
            Ranks, counted from 0 in ascending order of the scores; -1 for none.
        progress : callable
            Called as ``progress(stage, done, total)``.

        Returns
        -------
        scores : ndarray of float64, shape (tasks, levels)
            The scores; ``-inf`` for rank -1.
        repeats : dict from (int, int) to int, or None
            For each n and k, how many distinct scores occur k times in a task with n scores, among
            some of the scores; None if none were fetched.

        Raises
        ------
        InvalidInput
            If the table changed between two passes.
        """
        if isinstance(self.found, Sample):
            return order_statistics(self.rows, self.census, ranks, progress, self.found)
        place = self.found.starts[:, None] + ranks
        scores = np.where(ranks >= 0, self.found.scores[place], -np.inf).astype(np.float64)
        return scores, self.found.count_repeats(self.census.sizes, MAX_GROUPED)


def take_survey(rows: Rows) -> Survey:
    """Return the tasks with their sizes; raise for missing tasks, nulls and NaN.

    Parameters
    ----------
    rows : Rows
        Tasks and scores.

    Returns
    -------
    Survey
        What a search for ranks needs.

    Raises
    ------
    InvalidInput
        If a task or a score is missing.
    """
    traits = rows.source.traits
    if traits.in_process and traits.has_lists and _is_small(rows):
        return _fetch(rows)
    sample = take_sample(rows)
    return Survey(rows, take_census(rows, averaging_bounds(sample, traits)), sample)


def _is_small(rows: Rows) -> bool:
    some = rows.source.table.limit(_SMALL + 1)
    count = rows.source.run(some.agg(rows=some.count()))["rows"][0].as_py()
    return bool(count <= _SMALL)


def _fetch(rows: Rows) -> Survey:
    """Fetch all scores, and sort them task by task."""
    query = rows.table.group_by("task").agg(size=_.count(), scores=_.score.collect())
    result = rows.source.run(query).sort_by("task")
    if not len(result):
        raise _checks.no_rows(rows.source.name)
    lists = result["scores"].combine_chunks()
    sizes = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    scores = np.array(lists.flatten(), dtype=rows.precision)
    is_complete = np.array_equal(sizes, result["size"].to_numpy()) and not np.isnan(scores).any()
    names = name_tasks(rows, result, is_complete=is_complete)
    ends = np.cumsum(sizes)
    for start, end in pairwise([0, *ends.tolist()]):
        scores[start:end].sort()
    starts = ends - sizes
    unknown = np.full(len(names), np.nan)
    census = Census(names, sizes, scores[starts], scores[ends - 1], unknown, unknown)
    return Survey(rows, census, Slivers(sizes, sizes, starts, scores))
