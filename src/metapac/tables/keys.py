"""Keys of task and class, by which an engine groups in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import ibis
import numpy as np

from metapac import _ids
from metapac._types import Array, Counts


class Groups(NamedTuple):
    """Groups of examples, each of one task and one class.

    Attributes
    ----------
    names : ndarray, shape (tasks,)
        The tasks, in ascending order.
    task : ndarray of int, shape (groups,)
        Index of the task of each group.
    label : ndarray of int, shape (groups,)
        Index of the class of each group.
    """

    names: Array
    task: Counts
    label: Counts


class Keys(NamedTuple):
    """Keys such as "1:ohio": the index of the class, and the task.

    Parameters
    ----------
    classes : tuple
        The classes.
    integer_tasks : bool
        Whether tasks are integers.
    """

    classes: tuple[Any, ...]
    integer_tasks: bool

    def build(self, tasks: Any, labels: Any) -> Any:
        """Return the key of each row; null if the label is not a class.

        Parameters
        ----------
        tasks : Ibis expression
            Task of each row.
        labels : Ibis expression
            True label of each row, as text.

        Returns
        -------
        Ibis expression
            The keys.
        """
        prefixes = ((labels == str(name), f"{i}:") for i, name in enumerate(self.classes))
        return ibis.cases(*prefixes) + tasks.cast("string")

    def describe(self, key: str) -> str:
        """Return the name of a group for messages.

        Parameters
        ----------
        key : str
            Key of the group.

        Returns
        -------
        str
            Its task and class.
        """
        index, _, task = key.partition(":")
        return f"{self._parse_task(task)!r}, class {self.classes[int(index)]!r}"

    def groups(self, keys: Array) -> Groups:
        """Return the tasks and classes of some keys.

        Parameters
        ----------
        keys : ndarray of str, shape (groups,)
            The keys.

        Returns
        -------
        Groups
            The groups, in the order of the keys.
        """
        parts = [key.partition(":") for key in keys.tolist()]
        tasks = _ids.as_task_names([self._parse_task(task) for _index, _, task in parts])
        names, task = np.unique(tasks, return_inverse=True)
        label = np.array([int(index) for index, _, _task in parts], dtype=np.int64)
        return Groups(names, task.astype(np.int64), label)

    def _parse_task(self, text: str) -> int | str:
        return int(text) if self.integer_tasks else text
