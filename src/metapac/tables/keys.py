"""Tasks and classes as one text, so that an engine groups by both in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import ibis
import numpy as np

from metapac import _checks as core
from metapac.tables.brackets import Array, Counts


class Groups(NamedTuple):
    """The task and the class of each group, by number, and the tasks in ascending order."""

    names: Array  # (tasks,)
    task: Counts  # (groups,)
    label: Counts  # (groups,)


class Keys(NamedTuple):
    """Keys such as "1:ohio": the number of the class, and the task."""

    classes: tuple[Any, ...]
    whole: bool  # whether tasks are integers

    def of(self, tasks: Any, labels: Any) -> Any:
        """Return the key of each row as an expression; null where the label is no class."""
        numbers = ((labels == str(name), f"{i}:") for i, name in enumerate(self.classes))
        return ibis.cases(*numbers) + tasks.cast("string")

    def words(self, key: str) -> str:
        """Return what to call a group in a message."""
        number, _, task = key.partition(":")
        return f"{self._task(task)!r}, class {self.classes[int(number)]!r}"

    def groups(self, keys: Array) -> Groups:
        """Return the groups that keys stand for."""
        parts = [key.partition(":") for key in keys.tolist()]
        tasks = core.task_names([self._task(task) for _number, _, task in parts])
        names, task = np.unique(tasks, return_inverse=True)
        label = np.array([int(number) for number, _, _task in parts], dtype=np.int64)
        return Groups(names, task.astype(np.int64), label)

    def _task(self, text: str) -> int | str:
        return int(text) if self.whole else text
