"""Related methods on the same draws: what each promises, and what it did."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.results_page.markdown import (
    enumerate_names,
    error_name,
    join,
    link,
    method_rows,
    table,
)
from experiments.results_page.splits import JOINT
from experiments.results_page.stored import Result
from metapac.fewshot.study.methods import PROMISES
from metapac.fewshot.study.summary import WITHIN
from metapac.verdict import UNDECIDED, VIOLATED

NOBODY = "none of them"


def find(results: Sequence[Result]) -> str:
    """Return how often each of the related methods meets Meta-PS's criterion."""
    return (
        f"Related methods promise less. Of the {len(results)} experiments, the criterion of "
        f"Meta-PS is violated by {_counts(results, VIOLATED)}; it is met by "
        f"{_counts(results, WITHIN)}{_state_undecided(results)}."
    )


def _state_undecided(results: Sequence[Result]) -> str:
    counts = _counts(results, UNDECIDED)
    return "" if counts == NOBODY else f", and we cannot tell yet for {counts}"


def _counts(results: Sequence[Result], verdict: str) -> str:
    """Return the methods with a verdict, and in how many experiments they have it."""
    parts = []
    for name in PROMISES:
        count = sum(result.line(name).verdict == verdict for result in results)
        parts += [f"{name} in {count}"] if count else []
    return enumerate_names(parts) if parts else NOBODY


def section(results: Sequence[Result]) -> str:
    """Return the promises of the related methods, and their results."""
    promises = [[name, _sentence(promise)] for name, promise in PROMISES.items()]
    promises.insert(
        0,
        [
            "Meta-PS",
            "With probability 1 - delta over the calibration data, at least 1 - alpha of new "
            "tasks have a miss rate of at most epsilon (Park et al. 2022).",
        ],
    )
    names = (*PROMISES, JOINT)
    rows = [row for each in results for row in method_rows(each, names, [link(each.title)])]
    quantile = error_name(results[0].guarantee)
    return join(
        [
            "## Related methods",
            "These methods are for data from several sources. They ran on the same scores, with "
            "each task as a source. None of them has delta, and only the last has alpha. Here they "
            "are held to the criterion of Meta-PS, which they do not promise.",
            table(["method", "what it promises"], promises, aligned="ll"),
            table(
                ["experiment", "method", "mean size", quantile, "tasks within"], rows, aligned="ll"
            ),
        ]
    )


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."
