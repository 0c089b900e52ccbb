"""Results of ``metapac plan``, computed for every split and printed as tables or JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from metapac import shortage
from metapac._types import Counts
from metapac.cli.console import format_count, make_table, print_json, stdout
from metapac.demands import Affordable, Demand, round_up
from metapac.exceptions import Parameter
from metapac.guarantee import SPLITS
from metapac.planning import Offer, Option, Plan, compare_splits
from metapac.planning import plan as make_plan


@dataclass(frozen=True)
class PlanResult:
    """What a guarantee needs with each split, and how the tasks at hand compare.

    Attributes
    ----------
    plans : dict of str to Plan
        The plan of each split.
    affordable : dict of str to Affordable
        The smallest levels of each split, if all tasks have the same size.
    sizes : array or None
        Number of examples of each task.
    options : dict of str to Option
        What each split makes of the tasks.
    recommended : Option or None
        The first split that is feasible.
    remedies : str or None
        What would help if no split is feasible.
    """

    plans: dict[str, Plan]
    affordable: dict[str, Affordable]
    sizes: Counts | None
    options: dict[str, Option]
    recommended: Option | None
    remedies: str | None

    @classmethod
    def compute(
        cls,
        levels: dict[str, Any],
        classes: int,
        sizes: Counts | None,
        equal_tasks: tuple[int, int] | None,
        *,
        show: Callable[[Parameter], str],
    ) -> PlanResult:
        """Return the results for all splits.

        Parameters
        ----------
        levels : dict
            Epsilon, alpha and delta.
        classes : int
            Number of classes.
        sizes : array or None
            Number of examples of each task.
        equal_tasks : tuple of int, or None
            Number of tasks and examples in each, if all have the same size.
        show : callable
            How to write a parameter in a remedy.

        Returns
        -------
        PlanResult
            The results.
        """
        plans = {split: make_plan(**levels, split=split, classes=classes) for split in SPLITS}
        affordable = {}
        if equal_tasks is not None:
            affordable = {split: plan.affordable(*equal_tasks) for split, plan in plans.items()}
        if sizes is None:
            return cls(plans, affordable, None, {}, None, None)
        guarantee = plans["joint"].guarantee
        results = compare_splits(guarantee, sizes)
        by_split = {option.split: option for option in results if option.delta == guarantee.delta}
        named = {split: by_split[split] for split in SPLITS}
        recommended = next((option for option in named.values() if option.feasible), None)
        remedies = None
        if recommended is None:
            labels = [None] if classes == 1 else range(1, classes + 1)
            demands = [Demand.from_sizes(guarantee, sizes, label=label) for label in labels]
            remedies = shortage.explain_too_few_tasks(demands, trivial=False).render(show)
        return cls(plans, affordable, sizes, named, recommended, remedies)

    def too_small(self, option: Option) -> int:
        """Return how many tasks have fewer examples than a split needs.

        Parameters
        ----------
        option : Option
            What the split makes of the tasks.

        Returns
        -------
        int
            Number of tasks.
        """
        sizes = np.empty(0) if self.sizes is None else self.sizes
        return int(np.count_nonzero(sizes < option.examples_per_task))


def summarise(result: PlanResult) -> dict[str, Any]:
    """Return the results as JSON can hold them.

    Parameters
    ----------
    result : PlanResult
        The results.

    Returns
    -------
    dict
        An entry for each split, and the recommendation.
    """
    summary: dict[str, Any] = {split: _split_summary(result, split) for split in SPLITS}
    if result.sizes is not None:
        summary["recommended"] = None if result.recommended is None else result.recommended.split
        summary["ways_out"] = result.remedies
    return summary


def _split_summary(result: PlanResult, split: str) -> dict[str, Any]:
    plan = result.plans[split]
    row: dict[str, Any] = {
        "tasks": plan.tasks,
        "examples_per_task": plan.examples_per_task,
        "labels": plan.labels,
        "needs": [need[:2] for need in plan.needs],
    }
    if split in result.affordable:
        levels = result.affordable[split]._asdict()
        row |= {f"best_{name}": value for name, value in levels.items()}
    if split in result.options:
        option = result.options[split]
        row |= {"ranks": option.nth_lowest, "too_small": result.too_small(option)}
    return row


def print_result(result: PlanResult, classes: int) -> None:
    """Print the results as tables, and the recommended split.

    Parameters
    ----------
    result : PlanResult
        The results.
    classes : int
        Number of classes.
    """
    caption = ""
    if classes > 1:
        caption = (
            f"For each of {classes} classes: examples are those of one class, and delta is divided "
            "among the classes."
        )
    _print_table("Minimum data for the guarantee", _needs_table(result), caption)
    if result.sizes is None:
        return
    tasks = _describe(result.sizes)
    if result.affordable:
        _print_table(
            f"Smallest value of each parameter with {tasks}, holding the other two fixed; '-' if "
            "impossible",
            _affordable_table(result),
        )
    caption = (
        "rank: which of the sorted task thresholds becomes the threshold; the higher, the smaller "
        "the sets. joint has a rank at each of its levels and uses the highest of their "
        "thresholds. '-' if infeasible."
    )
    _print_table(f"Rank of each split on {tasks}", _ranks_table(result), caption)
    advice = result.remedies
    if result.recommended is not None:
        split = result.recommended.split
        advice = f"Recommended: --split {split}{', the default' if split == 'joint' else ''}."
    stdout.print(advice, markup=False)


def print_offers(offers: Sequence[Offer], sizes: Counts, *, as_json: bool) -> None:
    """Print the smallest epsilon that the tasks support, by alpha and delta.

    Parameters
    ----------
    offers : sequence of Offer
        The guarantees that the tasks support.
    sizes : array
        Number of examples of each task.
    as_json : bool
        Whether to print JSON.
    """
    if as_json:
        print_json([offer._asdict() for offer in offers])
        return
    deltas = list(dict.fromkeys(offer.delta for offer in offers))
    names = [f"delta {'none' if delta is None else f'{delta:g}'}" for delta in deltas]
    table = make_table(["alpha"], names)
    for alpha in dict.fromkeys(offer.alpha for offer in offers):
        row = {offer.delta: offer.epsilon for offer in offers if offer.alpha == alpha}
        table.add_row(f"{alpha:g}", *(_number(row[delta]) for delta in deltas))
    caption = (
        "delta none: a weaker guarantee, in expectation. It needs fewer tasks, but if tasks are "
        "small its epsilon can be larger. '-' if no epsilon is possible."
    )
    _print_table(f"Smallest epsilon with {_describe(sizes)}", table, caption)


def _print_table(title: str, table: Table, caption: str = "") -> None:
    """Print a table with its title and caption, which may be wider than it."""
    stdout.print(title, style="italic")
    stdout.print(table)
    if caption:
        stdout.print(caption, style="dim")


def _needs_table(result: PlanResult) -> Table:
    table = make_table(["split"], ["tasks", "examples per task", "labels in total"])
    for split, plan in result.plans.items():
        first, last = plan.needs[0], plan.needs[-1]
        needs = {split: first}
        if first != last:
            needs = {f"{split}, fewest tasks": first, f"{split}, smallest tasks": last}
        for name, need in needs.items():
            table.add_row(
                name, str(need.tasks), str(need.examples_per_task), str(need.labels * plan.classes)
            )
    return table


def _affordable_table(result: PlanResult) -> Table:
    table = make_table(["split"], ["epsilon", "alpha", "delta"])
    for split, levels in result.affordable.items():
        table.add_row(split, *(_number(value) for value in levels))
    return table


def _ranks_table(result: PlanResult) -> Table:
    table = make_table(["split"], ["rank", "examples needed in a task", "tasks with fewer"])
    for split, option in result.options.items():
        rank = _rank_text(result, option)
        table.add_row(split, rank, str(option.examples_per_task), str(result.too_small(option)))
    return table


def _rank_text(result: PlanResult, option: Option) -> str:
    if not option.feasible or result.sizes is None:
        return "-"
    low, high = min(option.nth_lowest), max(option.nth_lowest)
    return f"{low if low == high else f'{low} to {high}'} of {len(result.sizes)}"


def _describe(sizes: Counts) -> str:
    """Return the number of tasks and their sizes, in words."""
    low, high = int(sizes.min()), int(sizes.max())
    size = f"{low}" if low == high else f"{low} to {high}"
    return f"{format_count(len(sizes), 'task')} of {size} examples"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{round_up(value):g}"
