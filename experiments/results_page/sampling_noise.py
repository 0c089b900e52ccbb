"""How much of the spread of errors is due to the few examples that an error is counted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from experiments.results_page.markdown import (
    all_or,
    enumerate_names,
    error_name,
    join,
    link,
    percent,
    span,
    table,
    with_interval,
)
from experiments.results_page.splits import SPLITS
from experiments.results_page.stored import Result
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import (
    CONFIDENCE,
    LEVEL,
    Interval,
    error_quantile,
    explained_by_noise,
    flag_tasks,
    quantile_interval,
    share_interval,
)

BASELINES = ("PS", "Meta-CP")


def remove_noise(rows: Rows) -> NDArray[np.float64]:
    """Return the errors, shrunk towards their mean to the variance of the miss rates.

    An error counted on n examples varies around its miss rate r with the variance r (1 - r) / n,
    of which e (1 - e) / (n - 1) is an unbiased estimate.
    """
    e, n = rows.error, rows.examples
    total = float(np.var(e))
    noise = float(np.mean(e * (1 - e) / (n - 1)))
    kept = max(0.0, total - noise) / total if total else 0.0
    return np.asarray(np.mean(e) + np.sqrt(kept) * (e - np.mean(e)))


def quantile_without_noise(result: Result, method: str) -> tuple[float, Interval]:
    """Return the (1 - alpha) quantile of the errors without their sampling noise, and its interval.

    The noise is taken out of each seed by itself, so that the interval over seeds covers that too.
    """
    alpha = result.guarantee.alpha
    by_seed = [replace(rows, error=remove_noise(rows)) for rows in result.rows(method)]
    value = error_quantile(Rows.concatenate(by_seed).error, alpha)
    return value, quantile_interval(by_seed, alpha)


def find(results: Sequence[Result]) -> str:
    """Return where the baselines are above epsilon without the noise."""
    counts = [f"for {method} in {_count_above(results, method)}" for method in BASELINES]
    return (
        "If the [chance in counting errors](#sampling-noise) is estimated and taken out, the "
        f"{error_name(results[0].guarantee)} is above epsilon, at {percent(CONFIDENCE)} "
        f"confidence, {' and '.join(counts)}."
    )


def _count_above(results: Sequence[Result], method: str) -> str:
    """Return in how many experiments the quantile is above epsilon, and which are open."""
    found = {result.title: (result, *quantile_without_noise(result, method)) for result in results}
    others = [
        f"*{title}*, {with_interval(value, interval, '.3f')}"
        for title, (result, value, interval) in found.items()
        if interval[0] <= result.guarantee.miss_rate
    ]
    words = all_or(len(found) - len(others), len(found))
    return words + (f" (not in {enumerate_names(others)})" if others else "")


def section(results: Sequence[Result]) -> str:
    """Return the quantiles with and without the noise."""
    columns = (error_name(results[0].guarantee), "without noise", "clearly above")
    header = ["experiment", "examples", *(f"{m}: {c}" for m in BASELINES for c in columns)]
    rows = [
        [
            link(result.title),
            f"{result.test_examples}",
            *(c for m in BASELINES for c in _cells(result, m)),
        ]
        for result in results
    ]
    return join(
        [
            "### Sampling noise",
            "The error of a task is counted on its evaluation examples, and differs from its miss "
            "rate by chance. *Violated* allows for the worst case, in which all tasks within "
            "epsilon lie exactly at epsilon: it counts only the tasks that are *clearly above* "
            f"epsilon, each at {percent(1 - LEVEL)} confidence, and puts a share of up to "
            f"{state_allowed(results)} down to chance. The interval of *clearly above* is over "
            "draws, and its lower end decides (see [how to read this "
            "page](#how-to-read-this-page)). So *cannot tell yet* may stand beside an error well "
            "above epsilon. In the column *without noise*, the noise is estimated instead and "
            "taken out: the errors of each seed are shrunk towards their mean, so that their "
            "variance equals the estimated variance of the true miss rates.",
            table(header, rows),
            _state_noise_of_splits(results),
        ]
    )


def _state_noise_of_splits(results: Sequence[Result]) -> str:
    """Return whether the noise could have made Meta-PS look better than it is."""
    pairs = [(result, method) for result in results for method in SPLITS]
    lower = sum(
        quantile_without_noise(result, method)[0] <= result.line(method).error_quantile
        for result, method in pairs
    )
    return (
        "*Observed within* is about the errors as they were counted. Without the noise, "
        f"the {error_name(results[0].guarantee)} of Meta-PS is as high or lower in "
        f"{all_or(lower, len(pairs))} combinations of split and experiment."
    )


def state_allowed(results: Sequence[Result]) -> str:
    """Return the share of tasks clearly above epsilon that the guarantee allows, in per cent."""
    shares = {
        explained_by_noise(rows, result.guarantee.alpha)
        for result in results
        for rows in result.rows(BASELINES[0])
    }
    return span(sorted(shares), ".1%")


def _cells(result: Result, method: str) -> list[str]:
    line, by_seed = result.line(method), result.rows(method)
    flagged = [flag_tasks(rows, result.guarantee.miss_rate) for rows in by_seed]
    decisive = share_interval(by_seed, flagged, across_seeds=False)
    return [
        f"{line.error_quantile:.3f}",
        with_interval(*quantile_without_noise(result, method), ".3f"),
        with_interval(line.tasks_above, decisive, ".1%"),
    ]
