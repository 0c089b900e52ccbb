"""Ways, shots and queries of a task: a fixed number, or one drawn for each task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metapac._checks import as_whole_number, as_whole_numbers
from metapac.exceptions import InvalidInput, Parameter

Choice = int | Sequence[int]


class Settings(NamedTuple):
    """Possible ways, shots and queries; a task draws one of each, independently.

    Attributes
    ----------
    ways : tuple of int
        Numbers of classes.
    shots : tuple of int
        Numbers of support examples of each class.
    queries : tuple of int
        Numbers of query examples of each class.
    """

    ways: tuple[int, ...]
    shots: tuple[int, ...]
    queries: tuple[int, ...]

    @classmethod
    def read(cls, ways: Choice, shots: Choice, queries: Choice) -> Settings:
        """Return checked settings.

        Parameters
        ----------
        ways : int or sequence of int
            Number of classes of a task, or the choices, at least 1.
        shots : int or sequence of int
            Number of support examples of each class, or the choices, at least 1; or 0, for models
            that are not adapted.
        queries : int or sequence of int
            Number of query examples of each class, or the choices, at least 1.

        Returns
        -------
        Settings
            The choices.

        Examples
        --------
        >>> from metapac.tasks.settings import Settings
        >>> Settings.read(range(5, 8), 1, [10, 20])
        Settings(ways=(5, 6, 7), shots=(1,), queries=(10, 20))
        """
        chosen = cls(
            as_choices("ways", ways),
            as_choices("shots", shots, minimum=0),
            as_choices("queries", queries),
        )
        if 0 in chosen.shots and max(chosen.shots) > 0:
            raise InvalidInput(
                "{} must not mix 0 with other numbers, got {!r}: without support examples, no "
                "learner can adapt. Leave 0 out, or pass 0 alone for a FixedModel.",
                Parameter("shots"),
                shots,
            )
        return chosen

    @property
    def largest(self) -> int:
        """Number of examples of a class that the largest task needs."""
        return max(self.shots) + max(self.queries)

    def draw(self, rng: np.random.Generator) -> tuple[int, int, int]:
        """Return the ways, shots and queries of one task.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness. A setting with one choice takes nothing from it.

        Returns
        -------
        ways : int
            Number of classes.
        shots : int
            Number of support examples of each class.
        queries : int
            Number of query examples of each class.
        """
        ways, shots, queries = (draw_one(choices, rng) for choices in self)
        return ways, shots, queries


def as_choices(name: str, value: Choice, *, minimum: int = 1) -> tuple[int, ...]:
    """Return the choices of a setting.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : int or sequence of int
        One number, or those to choose from.
    minimum : int, default 1
        The least number allowed.

    Returns
    -------
    tuple of int
        The choices, at least one.

    Raises
    ------
    InvalidInput
        If one is not a whole number, or there is none.
    """
    if not hasattr(value, "__len__") or isinstance(value, str) or getattr(value, "ndim", 1) == 0:
        return (as_whole_number(name, value, minimum=minimum),)
    choices = as_whole_numbers(name, value, minimum=minimum)
    if choices.ndim != 1 or not choices.size:
        raise InvalidInput(
            "{} must be a whole number, or a sequence of those to choose from such as "
            "range(5, 21) or [5, 20], got {!r}.",
            Parameter(name),
            value,
        )
    return tuple(choices.tolist())


def draw_one(choices: Sequence[int], rng: np.random.Generator) -> int:
    """Return one of the choices, each equally likely.

    Parameters
    ----------
    choices : sequence of int
        The choices. A single one takes nothing from ``rng``.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    int
        The choice.
    """
    return choices[0] if len(choices) == 1 else choices[int(rng.integers(len(choices)))]
