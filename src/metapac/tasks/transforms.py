"""Transforms of the examples of a task, such as a kind of noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from metapac.tasks import _checks


class Transform(Protocol):
    """A change of the examples of one task, such as a kind of noise."""

    @property
    def name(self) -> str:
        """Name of the transform, which becomes part of the name of the task."""

    def __call__(self, x: Any, rng: np.random.Generator, /) -> Any:
        """Return the transformed examples, as many as ``x`` has and in the same order.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples of one task.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array_like, shape (n, ...)
            The transformed examples.
        """


# A plain function may stand in for a transform; its own name is then the name.
TransformSampler = (
    Callable[[np.random.Generator], Transform]
    | Callable[[np.random.Generator], Callable[[Any, np.random.Generator], Any]]
)


def transform_name(transform: Transform | Callable[..., Any]) -> str:
    """Return the name of a transform; that of the function if it is a plain one.

    Parameters
    ----------
    transform : Transform or callable
        Transform of a task.

    Returns
    -------
    str
        The name; "transform" for a function without one.

    Examples
    --------
    >>> from metapac.tasks.transforms import transform_name
    >>> def darken(x, rng):
    ...     return x * rng.uniform(0.5, 1)
    >>> transform_name(darken), transform_name(lambda x, rng: -x)
    ('darken', 'transform')
    """
    name = getattr(transform, "name", None) or getattr(transform, "__name__", "<none>")
    return "transform" if str(name).startswith("<") else str(name)


def apply_transform(
    transform: Transform | Callable[..., Any], x: Any, rng: np.random.Generator
) -> Any:
    """Return transformed examples, after checking that none was added or lost.

    Parameters
    ----------
    transform : Transform or callable
        Transform of a task.
    x : array_like, shape (n, ...)
        Examples of the task.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    array_like, shape (n, ...)
        The transformed examples.

    Raises
    ------
    InvalidInput
        If it is not a function, or returns another number of examples.
    """
    _checks.check_transform(transform)
    transformed = transform(x, rng)
    _checks.check_transformed(transform_name(transform), transformed, x)
    return transformed
