"""The splits of Meta-PS against each other: paired differences, and small calibration tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.results_page.markdown import (
    SHORT,
    enumerate_names,
    first_draws,
    join,
    link,
    size,
    span,
    table,
    with_interval,
    within,
)
from experiments.results_page.stored import Evaluation, Result
from metapac import plan

EVEN, TIGHT, JOINT = SPLITS = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint")
NAMES = tuple(method.split()[-1] for method in SPLITS)
FIGURE = "small_tasks.svg"


def find(results: Sequence[Result]) -> str:
    """Return how much smaller the joint split makes the sets, on large tasks and on small ones."""
    known = [result for result in results if result.line(EVEN).feasible]
    savings = [_saving(result) for result in known if not state_zero(result, EVEN)]
    parts = [
        f"by {_range(savings)}",
        *(
            f"by {_range([_saving(result)])} in *{result.title}*, where the even split keeps every "
            f"label in {draws}"
            for result in known
            if (draws := state_zero(result, EVEN))
        ),
    ]
    by_size = [sizes_of_tasks(result) for result in has_small_tasks(results)]
    count = min(min(evaluations) for evaluations in by_size)
    small = [_saving(each[count]) for each in by_size if count in each]
    return (
        "With the same guarantee, the sets of our joint split are smaller than those of the "
        f"paper's even split {', '.join(parts)}, and by {_range(small)} where a calibration task "
        f"has only {count} examples."
    )


def state_zero(result: Result, method: str, delta: float | None = None) -> str:
    """Return in how many draws a threshold of zero keeps every label although data suffice."""
    zero = sum(
        len(np.unique(rows.draw[rows.feasible & (rows.threshold <= 0)]))
        for rows in result.rows(method, delta)
    )
    return f"{zero} of {result.seeds * result.draws} draws" if zero else ""


def _range(savings: Sequence[float]) -> str:
    return span(savings, ".0%")


def has_small_tasks(results: Sequence[Result]) -> list[Result]:
    """Return the experiments that were also run with small calibration tasks."""
    return [result for result in results if len(sizes_of_tasks(result)) > 1]


def _saving(evaluation: Evaluation) -> float:
    return 1 - evaluation.line(JOINT).size / evaluation.line(EVEN).size


def sizes_of_tasks(result: Result) -> dict[int, Evaluation]:
    """Return the evaluations with each number of calibration examples per task, in order."""
    found: dict[int, Evaluation] = {
        int(name.removeprefix("n-")): control
        for name, control in result.controls.items()
        if name.startswith("n-")
    }
    if result.examples_per_task is not None:
        found[result.examples_per_task] = result
    return dict(sorted(found.items()))


def section(results: Sequence[Result]) -> str:
    """Return the tables of paired differences and of small calibration tasks."""
    return join(
        [
            "## The splits against each other",
            "All [splits](docs/theory/guarantee.md#the-splits) have the same guarantee: *even* is "
            "the paper's, *tight* and *joint* are ours. They see the same draws, so their mean set "
            f"sizes are compared draw by draw. {_fewest_tasks(results)}",
            _paired_table(results),
            _small_tasks(results),
        ]
    )


def _paired_table(results: Sequence[Result]) -> str:
    header = ["experiment", "even", "tight", "joint", "tight - even", "joint - even"]
    return table([*header, "joint - tight"], [_paired(result) for result in results])


def _paired(result: Result) -> list[str]:
    pairs = ((TIGHT, EVEN), (JOINT, EVEN), (JOINT, TIGHT))
    return [
        link(result.title),
        *(_size(result, name) for name in SPLITS),
        *(_difference(result, *pair) for pair in pairs),
    ]


def _fewest_tasks(results: Sequence[Result]) -> str:
    """Return how many calibration tasks each split needs at the deltas of the page."""
    by_delta = {result.delta: result.guarantee for result in results}
    parts = []
    for delta, g in sorted(by_delta.items()):
        needed = [
            f"{name} {plan(epsilon=g.miss_rate, alpha=g.alpha, delta=delta, split=name).tasks}"
            for name in NAMES
        ]
        parts.append(f"at delta = {delta:g} {enumerate_names(needed)}")
    return (
        f"A split needs this many calibration tasks, or it keeps every label: {'; '.join(parts)}."
    )


def _size(result: Result, method: str) -> str:
    line = result.line(method)
    return f"{line.size:.3f}" + ("" if line.feasible else f" {SHORT}")


def _difference(result: Result, first: str, second: str) -> str:
    sizes = result.compare(first, second)
    return with_interval(sizes.difference, (sizes.low, sizes.high), "+.3f")


def _small_tasks(results: Sequence[Result]) -> str:
    shown = has_small_tasks(results)
    rows = [
        [link(result.title) if i == 0 else "", f"{n:,}", *_sizes(evaluation)]
        for result in shown
        for i, (n, evaluation) in enumerate(sizes_of_tasks(result).items())
    ]
    small = [
        each for result in shown for each in sizes_of_tasks(result).values() if each is not result
    ]
    header = ["experiment", "examples per task", "even", "tight", "joint", "tasks within, joint"]
    return join(
        [
            "### Small calibration tasks",
            "The same learners and test tasks, with fewer examples in each calibration task, in "
            f"{first_draws(small)}; the last row of each experiment has all draws. The mean "
            f"set sizes of tight and joint differ by at most {_largest_gap(results):.3f} in the "
            f"table above, and by up to {_largest_gap(small):.2f} on these small tasks.",
            table(header, rows),
            "![Mean set size over the number of calibration examples per task, one panel for each "
            "experiment, one line for each split of Meta-PS, and the oracle as a dotted line]"
            f"(docs/figures/{FIGURE})",
        ]
    )


def _largest_gap(evaluations: Sequence[Evaluation]) -> float:
    """Return the largest difference of the tight and the joint split in mean set size."""
    return max(abs(each.line(TIGHT).size - each.line(JOINT).size) for each in evaluations)


def _sizes(evaluation: Evaluation) -> list[str]:
    return [*(size(evaluation.line(name)) for name in SPLITS), within(evaluation.line(JOINT))]
