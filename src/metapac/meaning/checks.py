"""Checks of examples in arrays, names of sites, levels and the scale of scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from metapac._types import Array, Counts, Floats
from metapac._warnings import warn
from metapac.meaning.direction import judge_labels
from metapac.meaning.duplicates import count_repeats, judge_duplicates
from metapac.meaning.findings import (
    MAX_ROWS,
    MIN_ROWS,
    CheckWarning,
    Finding,
    check_allowed,
    report,
)
from metapac.meaning.judges import (
    judge_levels,
    judge_missing,
    judge_percentages,
    judge_scale,
    judge_task_column,
    judge_task_names,
)
from metapac.meaning.sets import Sample, draw_rows

_FIRST_SCORES = 1_000  # about how many scores tell fractions from percentages in prediction

_FEW_ROWS = 5_000  # without two equal scores among so many, repeats are not counted

_BLOCK = 1 << 14  # scores are hashed this many at a time, so that they stay in the cache


def check_examples(
    names: Iterable[Any],
    tasks: Array,
    scores: Floats,
    labels: Counts | None = None,
    *,
    classes: Sequence[Any] | None = None,
    calibration: tuple[float, float] | None = None,
    allow: Iterable[str] = (),
) -> Sample | None:
    """Check labelled examples in arrays, for all that ``CHECKS`` can see in them.

    Parameters
    ----------
    names : iterable
        The distinct tasks.
    tasks : ndarray, shape (n,)
        Task of each example.
    scores : ndarray, shape (n,) or (n, classes)
        Scores of the true labels, or of all classes.
    labels : ndarray of int, shape (n,), optional
        Column of the true label of each example. Needed with scores of all classes.
    classes : sequence, optional
        Names of the columns; 0, 1, ... by default.
    calibration : tuple of float, optional
        Lowest and highest score of a true label in calibration, to compare the scale with.
    allow : iterable of str, default ()
        Checks to skip.

    Returns
    -------
    Sample or None
        Some of the rows; None if only true labels have scores.

    Raises
    ------
    InvalidInput
        If a finding is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning.checks import check_examples
    >>> rng = np.random.default_rng(0)
    >>> check_examples(range(20), np.repeat(np.arange(20), 50), rng.random(1000))
    """
    skipped = check_allowed(allow)
    distinct = [*names]
    findings = [
        judge_task_names(distinct),
        judge_task_column(len(distinct), len(scores)),
        _judge_scores(scores, calibration),
    ]
    sample = None
    if scores.ndim == 2 and labels is not None:
        true = scores[np.arange(len(scores)), labels]
        named = classes or range(scores.shape[1])
        some = draw_rows(len(scores), MAX_ROWS)
        of_tasks, is_part = number_tasks(tasks[some].tolist()), len(scores) > MAX_ROWS
        sample = Sample(of_tasks, labels[some], scores[some], named, is_part)
        findings += _judge_matrix(sample, scores, skipped)
    else:
        true = scores
    if "duplicates" not in skipped and _has_equal_values(true):
        chosen = _sample_by_value(true, MAX_ROWS)
        columns = [scores[chosen]] if labels is None else [labels[chosen], scores[chosen]]
        findings.append(
            judge_duplicates(count_repeats(number_tasks(tasks[chosen].tolist()), *columns))
        )
    report(findings, skipped)
    return sample


def check_sites(names: Iterable[Any], *, allow: Iterable[str] = ()) -> None:
    """Check that no site has two names that are alike; each of them may only count once.

    Parameters
    ----------
    names : iterable
        Distinct names of sites.
    allow : iterable of str, default ()
        Checks to skip.

    Raises
    ------
    InvalidInput
        If names are equal but for spaces, Unicode form or case.

    Examples
    --------
    >>> from metapac.meaning.checks import check_sites
    >>> check_sites(["ohio", "texas"])
    """
    finding = judge_task_names(names, what="site")
    report([finding and finding._replace(is_error=True)], allow)


def check_levels(
    epsilon: Any, alpha: float | None, delta: float | None, *, allow: Iterable[str] = ()
) -> None:
    """Check that levels are failure rates, not confidences.

    Parameters
    ----------
    epsilon : float or mapping from class to float
        Miss rate.
    alpha : float or None
        Fraction of new tasks.
    delta : float or None
        Failure probability.
    allow : iterable of str, default ()
        Checks to skip.

    Raises
    ------
    InvalidInput
        If epsilon or delta is above 1/2, or alpha above 3/4.

    Examples
    --------
    >>> from metapac.meaning.checks import check_levels
    >>> check_levels(0.05, 0.1, 0.05)
    """
    report([judge_levels(epsilon, alpha, delta)], allow)


def warn_of_scale(scores: Floats, calibration: tuple[float, float] | None) -> None:
    """Warn of percentages where the calibration used fractions, of logarithms, or the reverse.

    Only the first scores are looked at, so that the cost does not grow with their number.

    Parameters
    ----------
    scores : ndarray
        Scores to predict with.
    calibration : tuple of float, or None
        Lowest and highest score of a true label in calibration; None if it is not known.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from metapac.meaning.checks import warn_of_scale
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_scale(np.array([99.2, 0.8]), (0.01, 0.98))
    >>> str(caught[0].message)[:31]
    'the scores go up to 99.2, those'
    """
    if calibration is None or not scores.size:
        return
    first = scores[: -(-_FIRST_SCORES * len(scores) // scores.size)]  # whole rows, without a copy
    if calibration[1] > 0 and 0.5 * calibration[1] <= first.max() <= 2:
        return  # the usual case, at the cost of one maximum
    if first.size < MIN_ROWS and calibration[1] > 1:
        return  # a few scores may all be small
    finding = _judge_scores(first, calibration)
    if finding:
        warn(CheckWarning(finding.text))


def sums_to(sums: Any, total: float) -> Any:
    """Return which sums of scores are a total, but for rounding.

    Parameters
    ----------
    sums : ndarray or Ibis expression
        The sums.
    total : float
        The total.

    Returns
    -------
    ndarray or Ibis expression of bool
        Whether each sum is within 2% of it.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning.checks import sums_to
    >>> sums_to(np.array([0.99, 1.5, 100.0]), 100)
    array([False, False,  True])
    """
    return (sums >= 0.98 * total) & (sums <= 1.02 * total)


def number_tasks(tasks: Sequence[Any]) -> Counts:
    """Return an index for each task.

    Parameters
    ----------
    tasks : sequence
        Task of each row.

    Returns
    -------
    ndarray of int, shape (n,)
        The indices, in the order in which tasks first appear.

    Examples
    --------
    >>> from metapac.meaning.checks import number_tasks
    >>> number_tasks(["ohio", "texas", "ohio"])
    array([0, 1, 0])
    """
    seen: dict[Any, int] = {}
    return np.fromiter((seen.setdefault(task, len(seen)) for task in tasks), np.int64, len(tasks))


def _judge_scores(scores: Floats, calibration: tuple[float, float] | None) -> Finding | None:
    """Judge the scale of all finite scores."""
    if calibration is None:
        return None
    finite = scores[np.isfinite(scores)]
    if not finite.size:
        return None
    return judge_scale((float(finite.min()), float(finite.max())), calibration)


def _judge_matrix(sample: Sample, scores: Floats, skipped: frozenset[str]) -> list[Finding | None]:
    """Return what is wrong with the scores of all classes."""
    findings: list[Finding | None] = []
    if "missing" not in skipped:
        bad = np.isnan(scores)
        missing = dict(zip(sample.classes, bad.sum(axis=0).tolist(), strict=True))
        affected = int(bad.any(axis=1).sum())
        findings.append(judge_missing(len(scores), missing, affected=affected))
    if "percentages" not in skipped:
        with np.errstate(invalid="ignore"):  # inf - inf
            sums = scores.sum(axis=1, dtype=np.float64)
        near = [int(np.sum(sums_to(sums, total))) for total in (1, 100)]
        findings.append(judge_percentages(len(scores), *near))
    return findings if {"direction", "labels"} <= skipped else findings + judge_labels(sample)


def _has_equal_values(scores: Floats) -> bool:
    """Return whether scores occur twice in a small sample: cheap, and usually they do not."""
    some = scores[_sample_by_value(scores, _FEW_ROWS)]
    return len(np.unique(some)) < len(some)


def _sample_by_value(scores: Floats, rows: int) -> Any:
    """Return about ``rows`` positions, such that equal scores are all in or all out."""
    if len(scores) <= rows:
        return slice(None)
    limit, chosen = np.uint64(2**64 * rows // len(scores)), []
    for start in range(0, len(scores), _BLOCK):
        bits = np.ascontiguousarray(scores[start : start + _BLOCK], np.float64).view(np.uint64)
        # The high bits of the product depend on all bits of the score (Fibonacci hashing).
        chosen.append(np.flatnonzero(bits * np.uint64(0x9E3779B97F4A7C15) < limit) + start)
    return np.concatenate(chosen)
