"""How often tasks use the same classes, which limits what a guarantee says about new classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from metapac.exceptions import InvalidInput
from metapac.tasks.task import Task


@dataclass(frozen=True)
class ClassReuse:
    """How often tasks use the same classes.

    Tasks drawn from a pool are independent given its classes. A guarantee calibrated on them is for
    new tasks of *these* classes. For tasks of new classes, the sample size is at most the number of
    classes, and a few classes do not support a small ``delta``, however many tasks are drawn.

    Parameters
    ----------
    tasks : int
        Number of tasks.
    classes : int
        Number of distinct classes in them.
    per_class : float
        Number of tasks that a class is in, on average.
    shared : float
        Number of classes that two of the tasks share, on average.

    Examples
    --------
    >>> from metapac.tasks import ClassReuse
    >>> ClassReuse(tasks=2, classes=10, per_class=1.0, shared=0.0).describe()
    '2 tasks from 10 classes: no class is in two tasks.'
    """

    tasks: int
    classes: int
    per_class: float
    shared: float

    def describe(self) -> str:
        """Return the counts in words, and what follows from them.

        Returns
        -------
        str
            Three sentences; one if no class is in two tasks.
        """
        counts = f"{self.tasks} tasks from {self.classes} classes"
        if self.per_class == 1:
            return f"{counts}: no class is in two tasks."
        sample = f"the sample is {self.classes} classes, not {self.tasks} tasks"
        if self.classes >= self.tasks:
            sample = f"the sample is smaller than {self.tasks} tasks, since some share classes"
        return (
            f"{counts}: a class is in {self.per_class:.3g} tasks on average, and two tasks share "
            f"{self.shared:.2g} classes. A guarantee calibrated on them is for new tasks of these "
            f"{self.classes} classes. For tasks of new classes, {sample}."
        )


def class_reuse(tasks: Iterable[Task]) -> ClassReuse:
    """Count how often tasks use the same classes.

    Parameters
    ----------
    tasks : iterable of Task
        Tasks of a `ClassPool` or a `DomainPool`, or any with ``class_names``.

    Returns
    -------
    ClassReuse
        The counts.

    Raises
    ------
    InvalidInput
        If there is no task, or one does not name its classes.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.tasks import ClassPool, class_reuse
    >>> pool = ClassPool(np.arange(160.0), np.arange(160) % 16)
    >>> reuse = class_reuse(pool.tasks(500, ways=5, shots=1, queries=4, rng=0))
    >>> reuse.per_class, round(reuse.shared, 1)
    (156.25, 1.6)
    >>> reuse.describe()[:80]
    '500 tasks from 16 classes: a class is in 156 tasks on average, and two tasks sha'
    """
    uses: Counter[object] = Counter()
    count = 0
    for task in tasks:
        if task.class_names is None:
            raise InvalidInput(
                f"task {task.name!r} does not name its classes, so that their reuse cannot be "
                "counted. Pass class_names to Task, or draw the tasks from a ClassPool."
            )
        uses.update((task.domain, name) for name in task.class_names)
        count += 1
    if not count:
        raise InvalidInput("tasks is empty; pass at least one task.")
    pairs = sum(n * (n - 1) for n in uses.values())
    shared = pairs / (count * (count - 1)) if count > 1 else 0.0
    return ClassReuse(count, len(uses), uses.total() / len(uses), shared)
