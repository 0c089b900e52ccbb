"""A task: support examples that a learner adapts to, and query examples that it is scored on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac._types import Counts
from metapac.tasks import _checks


@dataclass(frozen=True, eq=False)
class Task:
    """Support and query examples of one task, as positions in the data of its pool.

    The data are shared by all tasks of a pool and are never copied. No example is in both the
    support set and the query set.

    Parameters
    ----------
    name : str or int
        Name of the task.
    x : array_like, shape (n, ...)
        Data of the whole pool: a NumPy array, a memory-mapped array or a torch tensor.
    support : ndarray of int
        Positions in ``x`` of the support examples.
    support_y : ndarray of int
        Labels of the support examples, from 0 to ``classes - 1``. Some labels may be absent.
    query : ndarray of int
        Positions in ``x`` of the query examples.
    query_y : ndarray of int
        Labels of the query examples.
    classes : int
        Number of labels.
    columns : sequence, optional
        Names of the columns of ``x``. Support and query examples are then pandas frames.
    class_names : sequence, optional
        Class of each label, such as ("cat", "owl"): what label 0 means in this task, what 1 means.
    domain : str or int, optional
        Domain that the classes come from, such as an alphabet. Tasks of one domain depend on each
        other: calibrate with ``clusters``.

    Raises
    ------
    InvalidInput
        If positions repeat, overlap or lie outside ``x``, or if a label is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.tasks import Task
    >>> x = np.array([[0.0], [1.0], [0.1], [0.9]])
    >>> task = Task("ohio", x, support=[0, 1], support_y=[0, 1], query=[2, 3], query_y=[0, 1],
    ...             classes=2)
    >>> task.query_x.ravel().tolist()
    [0.1, 0.9]
    """

    name: str | int
    x: Any = field(repr=False)
    support: Counts = field(repr=False)
    support_y: Counts = field(repr=False)
    query: Counts = field(repr=False)
    query_y: Counts = field(repr=False)
    classes: int
    columns: Sequence[Any] | None = field(default=None, repr=False)
    class_names: Sequence[Any] | None = field(default=None, repr=False)
    domain: str | int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for part in ("support", "query"):
            positions = _checks.as_positions(part, getattr(self, part), self.x)
            labels = _checks.as_labels(f"{part}_y", getattr(self, f"{part}_y"))
            _checks.check_same_rows(f"{part}_y", labels, part, positions)
            _checks.as_class_count(f"{part}_y", labels, self.classes)
            object.__setattr__(self, part, positions)
            object.__setattr__(self, f"{part}_y", labels)
        _checks.check_disjoint(self.support, self.query)
        _checks.check_class_names(self.class_names, self.classes)

    @classmethod
    def unchecked(cls, **fields: Any) -> Task:
        """Return a task whose fields are valid by construction; none is checked.

        Parameters
        ----------
        **fields : object
            Every field of `Task`.

        Returns
        -------
        Task
            The task.
        """
        task = object.__new__(cls)
        task.__dict__.update(fields)
        return task

    @property
    def support_x(self) -> Any:
        """Support examples, a copy of their rows of ``x``."""
        return self.take(self.support)

    @property
    def query_x(self) -> Any:
        """Query examples, a copy of their rows of ``x``."""
        return self.take(self.query)

    def take(self, positions: Counts) -> Any:
        """Return some examples, as a pandas frame if ``columns`` names their columns.

        Parameters
        ----------
        positions : ndarray of int
            Positions in ``x``.

        Returns
        -------
        array_like or pandas.DataFrame
            A copy of their rows of ``x``.
        """
        if self.columns is None:
            return self.x[positions]
        import pandas as pd  # a caller who passes a frame has it installed

        return pd.DataFrame(self.x[positions], columns=self.columns).infer_objects()

    @classmethod
    def from_arrays(
        cls,
        support_x: Any,
        support_y: ArrayLike,
        query_x: Any,
        query_y: ArrayLike,
        *,
        name: str | int,
        classes: int | None = None,
    ) -> Task:
        """Return a task made of four arrays.

        Parameters
        ----------
        support_x : array_like, shape (s, ...)
            Support examples.
        support_y : array_like of int, shape (s,)
            Labels of the support examples, from 0.
        query_x : array_like, shape (q, ...)
            Query examples.
        query_y : array_like of int, shape (q,)
            Labels of the query examples.
        name : str or int
            Name of the task. Tasks that are scored together need distinct names.
        classes : int, optional
            Number of labels; by default one more than the largest label, if every label occurs.

        Returns
        -------
        Task
            The task, with a copy of the examples.

        Raises
        ------
        InvalidInput
            If lengths differ, or if a label is out of range or, without ``classes``, skipped.

        Examples
        --------
        >>> from metapac.tasks import Task
        >>> Task.from_arrays([[0.0], [1.0]], [0, 1], [[0.2]], [0], name="ohio")
        Task(name='ohio', classes=2)
        """
        support_x = _checks.as_examples("support_x", support_x)
        query_x = _checks.as_examples("query_x", query_x)
        ys = _checks.as_labels("support_y", support_y), _checks.as_labels("query_y", query_y)
        _checks.check_same_rows("support_y", ys[0], "support_x", support_x)
        _checks.check_same_rows("query_y", ys[1], "query_x", query_x)
        labels = np.concatenate(ys)
        if classes is None:
            _checks.check_no_gap("support_y and query_y", labels)
        border, end = len(ys[0]), len(labels)
        return cls(
            name,
            x=_concatenate(support_x, query_x),
            support=np.arange(border),
            support_y=ys[0],
            query=np.arange(border, end),
            query_y=ys[1],
            classes=_checks.as_class_count("support_y or query_y", labels, classes),
        )


def _concatenate(first: Any, second: Any) -> Any:
    if hasattr(first, "detach") or hasattr(second, "detach"):
        import torch  # a caller who passes a tensor has it installed

        return torch.cat([torch.as_tensor(first), torch.as_tensor(second)])
    return np.concatenate([first, second])
