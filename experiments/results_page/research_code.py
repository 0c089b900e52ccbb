"""The published research code: its constructor as it is, and its rule on our draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from experiments.compare_original import Comparison, describe, read_outcome
from experiments.results_page.markdown import NONE, all_or, enumerate_names, join, link, table
from experiments.results_page.splits import EVEN
from experiments.results_page.stored import Result
from metapac.fewshot.reproduce.experiments import GRID_NAME, STEP
from metapac.fewshot.study.rows import Rows


class Agreement(NamedTuple):
    """How far the thresholds of the grid are from the exact ones."""

    draws: int  # in which one of the rules found a threshold above zero
    zero: int  # draws in which both found zero, which keeps every label
    none: int  # draws in which both found none for want of data, which keeps every label
    largest: float  # difference of thresholds
    other_sets: int  # tasks whose error or mean size differs
    tasks: int

    @property
    def is_within_step(self) -> bool:
        """Whether no threshold differs by more than a step of the grid."""
        return self.largest <= STEP * (1 + 1e-6)


def compare(result: Result) -> Agreement:
    """Return how far the grid's thresholds and sets are from those of the exact rule."""
    pairs = zip(result.rows(EVEN), result.rows(GRID_NAME), strict=True)
    return _add(_compare_rows(exact, grid) for exact, grid in pairs)


def _compare_rows(exact: Rows, grid: Rows) -> Agreement:
    """Return the agreement of the rules on the draws of one seed."""
    higher = np.maximum(exact.threshold, grid.threshold)
    is_none, is_zero = np.isneginf(higher), higher == 0
    is_found = ~(is_none | is_zero)
    gaps = np.abs(exact.threshold[~is_none] - grid.threshold[~is_none])
    is_other = (exact.error != grid.error) | (exact.size != grid.size)
    found, zero, none = (
        len(np.unique(exact.draw[which])) for which in (is_found, is_zero, is_none)
    )
    largest = float(gaps.max(initial=0.0))
    return Agreement(found, zero, none, largest, int(is_other.sum()), int(is_found.sum()))


def find(results: Sequence[Result]) -> str:
    """Return whether the research code and its rule agree with us."""
    found = _add(map(compare, results))
    words = "in all" if found.is_within_step else "**but not in all**"
    return (
        f"{_state_original(*read_outcome())} With its default step of {STEP:g}, such a "
        "search, written anew, was run on the scores of this page: it gives the thresholds of "
        f"our even split, up to that step, {words} {found.draws:,} draws with a threshold above "
        f"zero (largest difference {found.largest:.3g}). The sets differ on "
        f"{found.other_sets:,} of the {found.tasks:,} new tasks of these draws."
        f"{_state_trivial(found)}"
    )


def _state_original(step: float, found: Sequence[Comparison]) -> str:
    """Return how often the research code's own constructor found our threshold."""
    equal = all_or(sum(each.equal for each in found), len(found))
    return (
        "**The published research code was run**: on the same scores, its own constructor finds "
        "the threshold of our even split, rounded down to the grid that it searches, in "
        f"{equal} settings (step {step:g}; [table](#the-research-code))."
    )


def _state_trivial(found: Agreement) -> str:
    """Return in how many draws the rules agree because both keep every label."""
    parts = [f"{found.zero:,} draws with a threshold of zero"] if found.zero else []
    parts += [f"{found.none:,} with too few data for any"] if found.none else []
    if not parts:
        return ""
    return f" They also agree, by keeping every label, in {enumerate_names(parts)}."


def section(results: Sequence[Result]) -> str:
    """Return the thresholds of the research code, and the table of differences of its rule."""
    header = ["experiment", "draws compared", "threshold zero", "too few data"]
    header += ["largest difference of thresholds", "other sets"]
    step, original = read_outcome()
    rows = [describe(each) for each in original]
    return join(
        [
            "### The research code",
            "`python experiments/compare_original.py CHECKOUT` runs the constructor of the "
            "[published research code](https://github.com/sangdon/meta-pac-ps), imported from a "
            "clone, on the shipped heart survey and on drawn characters. Across tasks it searches "
            f"a grid, here with a step of {step:g}, so that its threshold should be that of "
            f"{EVEN}, rounded down to the grid.",
            table([*rows[0]], [[*row.values()] for row in rows], aligned="l"),
            f"By default its step is {STEP:g}. Below a search with that step, written anew, runs "
            f"on the scores that {EVEN} sees: it looks for the largest threshold whose "
            "Clopper-Pearson bound is at most epsilon, in each task (where the research code is "
            "exact) and then across tasks. Its threshold may be lower by up to a step, and sets "
            "differ where a score lies between the two thresholds. *Other sets* counts the new "
            "tasks whose error or mean set size differs. Draws in which both rules find a "
            "threshold of zero, or have too few data for any, are counted apart: there both keep "
            "every label.",
            table(header, [_row(result) for result in results]),
        ]
    )


def _row(result: Result) -> list[str]:
    found = compare(result)
    sets = f"{found.other_sets:,} of {found.tasks:,}"
    counts = [f"{count:,}" for count in (found.draws, found.zero, found.none)]
    largest = f"{found.largest:.3g}" if found.draws else NONE
    return [link(result.title), *counts, largest, sets if found.draws else NONE]


def _add(parts: Iterable[Agreement]) -> Agreement:
    draws, zero, none, largest, other_sets, tasks = zip(*parts, strict=True)
    return Agreement(sum(draws), sum(zero), sum(none), max(largest), sum(other_sets), sum(tasks))
