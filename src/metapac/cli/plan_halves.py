"""``metapac plan`` where only the number of tasks, or only their size, is known."""

from __future__ import annotations

from typing import NamedTuple

from metapac._checks import as_whole_number
from metapac.cli.console import format_count, make_table, print_json, stdout
from metapac.planning import OFFERED_ALPHAS, OFFERED_DELTAS, Plan
from metapac.planning import plan as make_plan

_EPSILONS = (0.05, 0.1, 0.2)


class Half(NamedTuple):
    """The number of tasks without their size, or the size without the number.

    Attributes
    ----------
    tasks : int or None
        Number of tasks.
    examples : int or None
        Number of labelled examples in each.
    """

    tasks: int | None
    examples: int | None

    def complete(self, plan: Plan) -> dict[str, int | None]:
        """Return the half that is known, and what a guarantee needs of the other one.

        Parameters
        ----------
        plan : Plan
            The plan for the guarantee.

        Returns
        -------
        dict
            ``tasks`` and ``examples_per_task``; None for the one that no number suffices for.
        """
        if self.tasks is not None:
            return {"tasks": self.tasks, "examples_per_task": plan.examples_for(self.tasks)}
        size = as_whole_number("examples", self.examples)
        return {"tasks": plan.tasks_for(size), "examples_per_task": size}

    def describe(self, plan: Plan) -> str:
        """Return in a sentence what a guarantee needs of the other half.

        Parameters
        ----------
        plan : Plan
            The plan for the guarantee.

        Returns
        -------
        str
            The sentence.
        """
        tasks, size = self.complete(plan).values()
        of = "" if plan.classes == 1 else " of each class"
        number = format_count(tasks or 0, "task")
        if size is None:
            return f"With {number}, no number of examples suffices."
        if tasks is None:
            return f"With {size} labelled examples{of} in each task, no number of tasks suffices."
        if self.tasks is not None:
            return f"With {number}, each needs at least {size} labelled examples{of}."
        return f"With {size} labelled examples{of} in each task, you need at least {number}."


def print_half(half: Half, classes: int, *, as_json: bool) -> None:
    """Print what common guarantees need of the half that is not known.

    Parameters
    ----------
    half : Half
        What is known.
    classes : int
        Number of classes with a guarantee each.
    as_json : bool
        Whether to print JSON.
    """
    delta = OFFERED_DELTAS[0]
    plans = {
        (epsilon, alpha): make_plan(epsilon=epsilon, alpha=alpha, delta=delta, classes=classes)
        for alpha in OFFERED_ALPHAS
        for epsilon in _EPSILONS
    }
    if as_json:
        names = ("epsilon", "alpha", "delta")
        print_json(
            [
                dict(zip(names, (*levels, delta), strict=True)) | half.complete(plan)
                for levels, plan in plans.items()
            ]
        )
        return
    table = make_table(["alpha"], [f"epsilon {epsilon:g}" for epsilon in _EPSILONS])
    for alpha in OFFERED_ALPHAS:
        cells = (_format_cell(half, plans[epsilon, alpha]) for epsilon in _EPSILONS)
        table.add_row(f"{alpha:g}", *cells)
    stdout.print(_title(half, classes), style="italic")
    stdout.print(table)
    caption = (
        "These are minima: more examples give smaller sets. To plan for one of these guarantees, "
        "pass --epsilon, --alpha and --delta too."
    )
    stdout.print(caption, style="dim")


def _format_cell(half: Half, plan: Plan) -> str:
    """Return the number needed; if there is none, what is needed of the half that is known."""
    tasks, size = half.complete(plan).values()
    if size is None:
        return f"needs {plan.tasks} tasks"
    if tasks is None:
        return f"needs {plan.needs[-1].examples_per_task} examples"
    return str(tasks if half.tasks is None else size)


def _title(half: Half, classes: int) -> str:
    of = "" if classes == 1 else " of each class"
    delta = f"at delta {OFFERED_DELTAS[0]:g}"
    if half.tasks is not None:
        number = format_count(half.tasks, "task")
        return f"Labelled examples{of} that each task needs, with {number}, {delta}"
    return f"Tasks needed, with {half.examples} labelled examples{of} in each, {delta}"
