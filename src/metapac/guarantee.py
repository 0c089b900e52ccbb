"""The promise as a value and as a sentence. Proofs are in docs/guarantee.md."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from metapac import _checks

# Fixed before any data are seen, which is what makes the adaptive split valid. Four values within
# a factor of 25 lose little to a finer list, whose length would be paid for in delta.
ADAPTIVE_CANDIDATES = (0.02, 0.1, 0.25, 0.5)

Split = str | float


class Level(NamedTuple):
    """What the two steps are run at: within each task, then across tasks."""

    alpha_within: float
    alpha_across: float
    delta: float


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A meta-PAC promise: sets miss at most ``epsilon``, on ``1 - alpha`` of tasks, surely.

    With probability at least ``1 - delta`` over the calibration tasks, at least a fraction
    ``1 - alpha`` of new tasks have sets that miss the true label at most a fraction ``epsilon``
    of the time. ``split`` says how ``alpha`` is shared between the two steps; it changes the
    threshold, never the promise.
    """

    epsilon: float
    alpha: float
    delta: float
    split: Split = "tight"

    def __post_init__(self) -> None:
        for name in ("epsilon", "alpha", "delta"):
            object.__setattr__(self, name, _checks.probability(name, getattr(self, name)))
        if isinstance(self.split, numbers.Real):
            object.__setattr__(self, "split", _checks.probability("split", self.split))
        elif self.split not in ("tight", "even", "adaptive"):
            raise ValueError(
                "split must be 'tight', 'even', 'adaptive' or a number strictly between 0 and 1, "
                f"got {self.split!r}. The default 'tight' is right for most data."
            )

    @property
    def levels(self) -> tuple[Level, ...]:
        """Return the levels to run; all promises hold together and the largest threshold wins."""
        if self.split == "even":
            return (Level(self.alpha / 2, self.alpha / 2, self.delta),)
        if self.split == "adaptive":
            share = self.delta / len(ADAPTIVE_CANDIDATES)
            return tuple(self._level(within, share) for within in ADAPTIVE_CANDIDATES)
        within = self.alpha / 2 if self.split == "tight" else float(self.split)
        return (self._level(within, self.delta),)

    def _level(self, within: float, delta: float) -> Level:
        # A task that breaks the promise shows a threshold that is too low with probability at
        # least 1 - within, so certifying alpha * (1 - within) of low thresholds certifies alpha.
        return Level(within, self.alpha * (1 - within), delta)

    @property
    def alpha_within(self) -> float:
        return self._only_level().alpha_within

    @property
    def alpha_across(self) -> float:
        return self._only_level().alpha_across

    def _only_level(self) -> Level:
        if len(self.levels) > 1:
            raise ValueError(
                f"split='adaptive' runs {len(self.levels)} levels, so there is no single one. "
                "See .levels, or .level_ of the calibrated object."
            )
        return self.levels[0]

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, *, tasks: int | None = None, threshold: float | None = None) -> str:
        """Return the promise in one plain sentence, with its numbers and its assumptions."""
        over = "the calibration tasks" if tasks is None else f"the {tasks} calibration tasks"
        return (
            f"With probability at least 1 - {self.delta} over {over}, {_sets(threshold)} miss the "
            f"true label at most {percent(self.epsilon)} of the time on at least "
            f"{percent(self.alpha, but=True)} of new tasks (each with its own adaptation examples, "
            "if any), provided that tasks are drawn independently and alike, that no calibration "
            "task was seen in training, and that one fixed score function serves them all."
        )


def pooled_sentence(
    epsilon: float, delta: float, *, examples: int | None = None, threshold: float | None = None
) -> str:
    """Return the promise of ``PS``, which speaks of examples and of no task in particular."""
    over = "the" if examples is None else f"the {examples}"
    return (
        f"With probability at least 1 - {delta} over {over} calibration examples, "
        f"{_sets(threshold)} miss the true label at most {percent(epsilon)} of the time on new "
        "examples, provided that "
        "these are drawn independently from the same distribution, that no calibration example "
        "was seen in training, and that the score function is fixed; nothing is said of any one "
        "task inside that distribution."
    )


def average_sentence(over: str, epsilon: float, delta: float, *, tasks: int, offset: float) -> str:
    """Return the promise of ``MetaCP``, which speaks of an average over tasks and of none of them.

    ``offset`` is its lambda.
    """
    sets = f"the sets {{label: score >= -(quantile + {offset!r})}}"
    rate = f"miss the true label at most {percent(epsilon)} of the time on average over"
    if over == "tasks":
        who = f"the {tasks} calibration tasks and their examples, {sets} {rate} new tasks"
    else:
        who = (
            f"the examples of the {tasks} calibration tasks, {sets} are at least as large as sets "
            f"that {rate} the draw of the calibration tasks and of a new one"
        )
    return (
        f"With probability at least 1 - {delta} over {who}, not on each of them, provided that "
        "tasks are drawn independently and alike, that no calibration task was seen in training, "
        "and that one fixed score function and one fixed quantile predictor serve them all."
    )


def _sets(threshold: float | None) -> str:
    return "the sets" if threshold is None else f"the sets {{label: score >= {threshold!r}}}"


def percent(fraction: float, *, but: bool = False) -> str:
    """Return ``fraction``, or all but it, in percent and to its last digit: no claim is rounded."""
    exact = Decimal(repr(fraction)) * 100
    shown = f"{100 - exact if but else exact:f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}%"


class InfeasibleGuarantee(ValueError):
    """The data are too few for the promise; the message says what is missing and what is not."""


class NotCalibrated(ValueError, AttributeError):
    """A result was asked for before ``calibrate``."""
