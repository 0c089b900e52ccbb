"""Results of ``metapac plan``, computed for every split and printed as tables or JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.table import Table

from metapac import shortage
from metapac._types import Counts
from metapac.bisection import round_up
from metapac.cli.console import format_count, make_table, print_json, stdout
from metapac.demands import Affordable, Demand
from metapac.exceptions import Parameter
from metapac.guarantee import SPLITS, Guarantee
from metapac.planning import Offer, Option, Plan, compare_splits, find_offers
from metapac.planning import plan as make_plan
from metapac.robustness import count_liars
from metapac.sample_size import min_tasks_over_levels

_SHOWN = 3  # classes, the rarest ones


@dataclass(frozen=True)
class PlanResult:
    """What a guarantee needs with each split, and how the tasks at hand compare.

    Attributes
    ----------
    plans : dict of str to Plan
        The plan of each split.
    affordable : dict of str to Affordable
        The smallest levels of each split, if all tasks have the same size.
    sizes : dict from class to array, or None
        Number of examples of each task; the key is None if all classes are counted together.
    options : dict of str to Option
        What each split makes of the tasks; with several classes, of the class with the fewest
        examples.
    recommended : Option or None
        The first split that is feasible.
    remedies : str or None
        What would help if no split is feasible.
    """

    plans: dict[str, Plan]
    affordable: dict[str, Affordable]
    sizes: dict[Any, Counts] | None
    options: dict[str, Option]
    recommended: Option | None
    remedies: str | None

    @classmethod
    def compute(
        cls,
        levels: dict[str, Any],
        classes: int,
        sizes: dict[Any, Counts] | None,
        equal_tasks: tuple[int, int] | None,
        *,
        show: Callable[[Parameter], str],
    ) -> PlanResult:
        """Return the results for all splits.

        Parameters
        ----------
        levels : dict
            Epsilon, alpha, delta and the checks to skip, as ``plan`` takes them.
        classes : int
            Number of classes.
        sizes : dict from class to array, or None
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
        named = {split: _scarcest(guarantee, sizes, split) for split in SPLITS}
        recommended = next((option for option in named.values() if option.feasible), None)
        remedies = None
        if recommended is None:
            # Without a table, all classes are taken to have as many examples.
            labels = [*sizes] if classes in (1, len(sizes)) else [*range(1, classes + 1)]
            demands = [
                Demand.from_sizes(
                    guarantee, sizes.get(label, next(iter(sizes.values()))), label=label
                )
                for label in labels
            ]
            remedies = shortage.explain_too_few_tasks(demands, trivial=False).render(show)
        return cls(plans, affordable, sizes, named, recommended, remedies)

    @property
    def tasks(self) -> int:
        """Number of tasks; 0 if none are given."""
        return 0 if self.sizes is None else len(next(iter(self.sizes.values())))

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
        every = () if self.sizes is None else self.sizes.values()
        counts = [np.count_nonzero(sizes < option.examples_per_task) for sizes in every]
        return int(max(counts, default=0))


def _scarcest(guarantee: Guarantee, sizes: dict[Any, Counts], split: str) -> Option:
    """Return what a split makes of the tasks, for the class that supports the least."""
    options = []
    for counts in sizes.values():
        compared = compare_splits(replace(guarantee, split=split), counts)
        options.append(next(x for x in compared if (x.split, x.delta) == (split, guarantee.delta)))
    return min(options, key=lambda option: max(option.nth_lowest, default=0))


def find_class_offers(sizes: dict[Any, Counts], classes: int) -> list[Offer]:
    """Return the smallest epsilon that tasks support for every class, by alpha and delta.

    Parameters
    ----------
    sizes : dict from class to array
        Number of examples of each task.
    classes : int
        Number of classes with a guarantee each.

    Returns
    -------
    list of Offer
        One offer for each alpha and delta.
    """
    offers = []
    for same in zip(*(find_offers(x, classes=classes) for x in sizes.values()), strict=True):
        rates = [offer.epsilon for offer in same if offer.epsilon is not None]
        offers.append(same[0]._replace(epsilon=max(rates) if len(rates) == len(same) else None))
    return offers


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
    return summary | {"dishonest": _count_dishonest(result.plans["joint"])}


def _count_dishonest(plan: Plan) -> dict[str, Any]:
    """Return how many dishonest sites decide the sets: with the fewest tasks, and safer ones."""
    g = plan.guarantee
    safer = min_tasks_over_levels(g, [1] * len(g.levels))[0]
    return {
        name: {"tasks": tasks, **count_liars(g, tasks)._asdict()}
        for name, tasks in (("fewest", plan.tasks), ("safer", safer))
    }


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
    """Print what is needed in a sentence, then tables, and the recommended split.

    Parameters
    ----------
    result : PlanResult
        The results.
    classes : int
        Number of classes.
    """
    stdout.print(_headline(result), markup=False)
    caption = (
        "split: how alpha is shared between the two steps of the method. Every split gives the "
        "same guarantee; joint is the default, and right for most data."
    )
    if classes > 1:
        caption += (
            f" For each of {classes} classes: examples are those of one class, and delta is "
            "divided among the classes."
        )
    _print_table("Minimum data for the guarantee, by split", _needs_table(result), caption)
    if result.sizes is None:
        stdout.print(_warn_of_liars(result.plans["joint"]), markup=False)
        return
    if result.affordable:
        _print_table(
            "How small each parameter can be with your tasks, if the other two stay as they are",
            _affordable_table(result),
        )
    caption = (
        "rank: the threshold is the task threshold of this rank, counted from the lowest; a higher "
        "rank gives smaller sets. joint takes the highest of several thresholds. A task that is "
        "too small counts as the lowest."
    )
    _print_table("How each split would use your tasks", _ranks_table(result), caption)
    advice = result.remedies
    if result.recommended is not None:
        split = result.recommended.split
        advice = f"Recommended: --split {split}{', the default' if split == 'joint' else ''}."
    stdout.print(advice, markup=False)


def _headline(result: PlanResult) -> str:
    """Return what the default split needs, and whether the tasks at hand suffice."""
    plan = result.plans["joint"]
    ends = dict.fromkeys(need.describe(plan.classes) for need in (plan.needs[0], plan.needs[-1]))
    between = ", or something in between" if len(plan.needs) > 2 else ""
    needed = f"You need {', or '.join(ends)}{between}."
    if result.sizes is None:
        return needed
    verdict = "do not suffice" if result.recommended is None else "suffice"
    return f"{needed} Your {_describe(result.sizes)} {verdict}."


def _warn_of_liars(plan: Plan) -> str:
    """Return what one dishonest site can do with the fewest tasks, and when it takes two."""
    fewest, safer = _count_dishonest(plan).values()
    takes = fewest["to_keep_all"]
    sites = "1 dishonest site" if takes == 1 else f"{takes} dishonest sites"
    return (
        f"If tasks are sites that compute their own numbers: with {fewest['tasks']} tasks, {sites} "
        f"can force every label into every set; with {safer['tasks']}, it takes "
        f"{safer['to_keep_all']}."
    )


def print_offers(offers: Sequence[Offer], sizes: dict[Any, Counts], *, as_json: bool) -> None:
    """Print the smallest epsilon that the tasks support, by alpha and delta.

    Parameters
    ----------
    offers : sequence of Offer
        The guarantees that the tasks support.
    sizes : dict from class to array
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
        "small its epsilon can be larger. 'no value' if the tasks are too few for any epsilon."
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
    headers = ["rank", "examples needed in a task", "tasks with fewer"]
    table = make_table(["split"], headers)
    for split, option in result.options.items():
        rank = _rank_text(result, option)
        table.add_row(split, rank, str(option.examples_per_task), str(result.too_small(option)))
    return table


def _rank_text(result: PlanResult, option: Option) -> str:
    if not option.feasible:
        return "infeasible"
    low, high = min(option.nth_lowest), max(option.nth_lowest)
    return f"{low if low == high else f'{low} to {high}'} of {result.tasks}"


def _describe(sizes: dict[Any, Counts]) -> str:
    """Return the number of tasks and their sizes, in words."""
    if len(sizes) == 1:
        ((label, counts),) = sizes.items()
        of_class = "" if label is None else f" of class {label!r}"
        return f"{format_count(len(counts), 'task')} of {_span(counts)} examples{of_class}"
    rarest = sorted(sizes, key=lambda label: int(sizes[label].sum()))[:_SHOWN]
    parts = [f"{_span(sizes[label])} of class {label!r}" for label in sizes if label in rarest]
    more = f", the {_SHOWN} rarest of {len(sizes)} classes" if len(sizes) > _SHOWN else ""
    tasks = format_count(len(next(iter(sizes.values()))), "task")
    return f"{tasks} ({', '.join(parts)}{more})"


def _span(counts: Counts) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _number(value: float | None) -> str:
    return "no value" if value is None else f"{round_up(value):g}"
