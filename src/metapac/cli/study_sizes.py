"""How many tasks, examples and labels a draw of ``metapac study`` has, in numbers and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from metapac.cli.console import format_count
from metapac.cli.study_sources import TaskOptions
from metapac.evaluation import PoolStudy

_SHOWN = 12  # names of columns


@dataclass(frozen=True)
class DrawSizes:
    """Numbers of a draw.

    Attributes
    ----------
    calibration_tasks, new_tasks : int
        Number of tasks.
    examples : tuple of int
        Fewest and most examples of a calibration task.
    labelled : int
        Labelled examples of a new task, for PS-Test.
    labels : int
        Labels of a task, which no set exceeds.
    """

    calibration_tasks: int
    new_tasks: int
    examples: tuple[int, int]
    labelled: int
    labels: int

    def describe(self) -> dict[str, Any]:
        """Return the numbers as JSON can hold them.

        Returns
        -------
        dict
            ``calibration_tasks``, ``new_tasks``, ``examples``, ``labelled`` and ``labels``.
        """
        return {**vars(self), "examples": list(self.examples)}

    def __str__(self) -> str:
        fewest, most = self.examples
        examples = f"{fewest} to " * (fewest < most) + format_count(most, "example")
        known = format_count(self.calibration_tasks, "calibration task")
        new = format_count(self.new_tasks, "new task")
        labelled = format_count(self.labelled, "labelled example")
        return (
            f"A draw has {known} of {examples}, and {new}, with {labelled} each for PS-Test. A set "
            f"can have up to {format_count(self.labels, 'label')}."
        )


def measure_draw(study: PoolStudy, options: TaskOptions) -> DrawSizes:
    """Return the numbers of a draw of a study.

    Parameters
    ----------
    study : PoolStudy
        The study.
    options : TaskOptions
        The tasks that it was made for.

    Returns
    -------
    DrawSizes
        The numbers.
    """
    pool, counts = study.calibration, {"calibration_tasks": study.tasks, "new_tasks": study.tests}
    if pool.unit == "group":
        spare = [len(members) - options.shots for members in pool.positions]
        sizes = [min(each, study.queries or each) for each in spare]
        examples = min(sizes), max(sizes)
        return DrawSizes(**counts, examples=examples, labelled=study.labelled, labels=pool.classes)
    ways, queries = options.ways, study.queries or 0
    examples = ways * queries, ways * queries
    return DrawSizes(**counts, examples=examples, labelled=ways * study.labelled, labels=ways)


def join_sizes(by_seed: Sequence[DrawSizes]) -> DrawSizes:
    """Return the numbers that hold for a draw of any seed.

    Parameters
    ----------
    by_seed : sequence of DrawSizes
        The numbers of each seed.

    Returns
    -------
    DrawSizes
        The smallest numbers; of examples the smallest and the largest.
    """
    return DrawSizes(
        calibration_tasks=min(each.calibration_tasks for each in by_seed),
        new_tasks=min(each.new_tasks for each in by_seed),
        examples=(
            min(each.examples[0] for each in by_seed),
            max(each.examples[1] for each in by_seed),
        ),
        labelled=min(each.labelled for each in by_seed),
        labels=max(each.labels for each in by_seed),
    )


def describe_features(count: int, columns: Sequence[str]) -> str:
    """Return which numbers of the data a learner sees.

    Parameters
    ----------
    count : int
        Number of features.
    columns : sequence of str
        Their columns in a table; empty if they are the columns of an array.

    Returns
    -------
    str
        A sentence.
    """
    if not columns:
        return f"The features are the {format_count(count, 'column')} of the array of vectors."
    shown = ", ".join(columns[:_SHOWN])
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    holds = format_count(len(columns), "column")
    return f"The features are in {holds}: {shown}{more}. Choose others with --columns."
