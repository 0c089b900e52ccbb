"""One task: what a learner is adapted to, and what it is scored on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac.tasks import _checks


@dataclass(frozen=True, eq=False)
class Task:
    """Adaptation examples (support) and labelled examples to score (query), none in both.

    Both are positions in ``x``, the data of a whole pool: NumPy, memory-mapped or torch, shared
    by its tasks and never copied. Labels are 0 to ``classes - 1`` in the task's own numbering;
    some of them may be absent from the support set.
    """

    name: str | int
    x: Any = field(repr=False)
    support: NDArray[np.int64] = field(repr=False)
    support_y: NDArray[np.int64] = field(repr=False)
    query: NDArray[np.int64] = field(repr=False)
    query_y: NDArray[np.int64] = field(repr=False)
    classes: int

    def __post_init__(self) -> None:
        for part in ("support", "query"):
            positions = _checks.positions(part, getattr(self, part), self.x)
            labels = _checks.labels(f"{part}_y", getattr(self, f"{part}_y"))
            _checks.same_rows(f"{part}_y", labels, part, positions)
            _checks.label_count(f"{part}_y", labels, self.classes)
            object.__setattr__(self, part, positions)
            object.__setattr__(self, f"{part}_y", labels)
        _checks.disjoint(self.support, self.query)

    @classmethod
    def _drawn(cls, **fields: Any) -> Task:
        """Return a task whose positions and labels are right by construction: none is checked."""
        task = object.__new__(cls)
        task.__dict__.update(fields)
        return task

    @property
    def support_x(self) -> Any:
        return self.x[self.support]

    @property
    def query_x(self) -> Any:
        return self.x[self.query]

    @classmethod
    def of(
        cls,
        support_x: Any,
        support_y: ArrayLike,
        query_x: Any,
        query_y: ArrayLike,
        *,
        name: str | int = "task",
        classes: int | None = None,
    ) -> Task:
        """Return a task of four arrays; ``classes=None`` counts up to the largest label."""
        support_x = _checks.examples("support_x", support_x)
        query_x = _checks.examples("query_x", query_x)
        ys = _checks.labels("support_y", support_y), _checks.labels("query_y", query_y)
        _checks.same_rows("support_y", ys[0], "support_x", support_x)
        _checks.same_rows("query_y", ys[1], "query_x", query_x)
        border, end = len(ys[0]), len(ys[0]) + len(ys[1])
        return cls(
            name,
            x=_joined(support_x, query_x),
            support=np.arange(border),
            support_y=ys[0],
            query=np.arange(border, end),
            query_y=ys[1],
            classes=_checks.label_count("support_y or query_y", np.concatenate(ys), classes),
        )


def _joined(first: Any, second: Any) -> Any:
    if hasattr(first, "detach") or hasattr(second, "detach"):
        import torch  # whoever passes a tensor has it

        return torch.cat([torch.as_tensor(first), torch.as_tensor(second)])
    return np.concatenate([first, second])
