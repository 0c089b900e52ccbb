"""The guarantee as a value and as a sentence. Proofs are in docs/guarantee.md."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from metapac import _checks, sentences
from metapac.ranks import Level, equal_share, expectation_rank, joint_ranks

# Levels within tasks of the joint split, fixed before any data are seen. In small tasks only a few
# errors can be allowed; each such number should have a level just above its probability.
JOINT_LEVELS = (0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.27, 0.35, 0.42, 0.5)
SPLITS = ("joint", "tight", "even")

Split = str | float
Epsilon = float | Mapping[Any, float]


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A guarantee for new tasks: sets miss at most ``epsilon`` on at least ``1 - alpha`` of them.

    With confidence ``1 - delta`` over the calibration tasks, at least a fraction ``1 - alpha`` of
    new tasks have sets that miss the true label at most a fraction ``epsilon`` of the time.

    Parameters
    ----------
    epsilon : float or mapping from class to float
        Miss rate allowed on a task. A mapping gives each class its own and needs ``per_class``.
    alpha : float
        Fraction of new tasks that may miss more often.
    delta : float or None
        Failure probability of the guarantee. None for a guarantee in expectation, where ``alpha``
        also covers the risk of an unlucky calibration.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps; it changes the threshold, never the
        guarantee. A number, at most 1/2, is the level within tasks.
    per_class : bool, default False
        Whether the miss rate is bounded for the examples of each class separately.
    min_examples : int, default 0
        Tasks with fewer examples (with ``per_class``, of the class) are left out, and the
        guarantee covers only tasks with at least this many.
    """

    epsilon: Epsilon
    alpha: float
    delta: float | None
    split: Split = "joint"
    per_class: bool = False
    min_examples: int = 0

    def __post_init__(self) -> None:
        self._set("epsilon", _checked_epsilon(self.epsilon, per_class=self.per_class))
        self._set("alpha", _checks.probability("alpha", self.alpha))
        if self.delta is not None:
            self._set("delta", _checks.probability("delta", self.delta))
        self._set("split", _checked_split(self.split))
        if self.delta is not None and self.split == "joint":
            _share(self.delta, len(JOINT_LEVELS), "levels")
        _checks.true_or_false("per_class", self.per_class)
        self._set("per_class", bool(self.per_class))
        least = _checks.whole_number("min_examples", self.min_examples, least=0)
        self._set("min_examples", least)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def miss_rate(self) -> float:
        """``epsilon`` as one number; raises ValueError if each class has its own."""
        if isinstance(self.epsilon, float):
            return self.epsilon
        raise ValueError(
            f"epsilon is a mapping, {dict(self.epsilon)!r}, so there is no single miss rate. "
            "Take the guarantee of one class with .of_class(label, classes)."
        )

    @property
    def failure_probability(self) -> float:
        """``delta`` as a number; raises ValueError if the guarantee is in expectation."""
        if self.delta is not None:
            return self.delta
        raise ValueError(
            "delta must be a number here, got None: a guarantee in expectation has no confidence "
            "of its own. Pass delta=0.05, for example."
        )

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels in use, ascending; the largest threshold over them is the result."""
        return _levels(self.split, self.alpha, self.delta is None)

    def ranks(self, tasks: int) -> tuple[int, ...]:
        """Return for each level how many of ``tasks`` thresholds may be too low; -1 if unusable."""
        if self.delta is not None:
            return joint_ranks(tasks, self.levels, self.delta)
        # Floats are read as the decimals they print as, so that 0.3 x 0.85 x 200 is exactly 51.
        alpha, within = Fraction(repr(self.alpha)), Fraction(repr(self.alpha_within))
        share = alpha / 2 if self.split == "even" else alpha * (1 - within)
        return (expectation_rank(tasks, share),)

    @property
    def alpha_within(self) -> float:
        """The level within tasks; raises ValueError if there are several."""
        return self._only_level().alpha_within

    @property
    def alpha_across(self) -> float:
        """The share across tasks; raises ValueError if there are several levels."""
        return self._only_level().alpha_across

    def _only_level(self) -> Level:
        if len(self.levels) > 1:
            raise ValueError(
                f"split='joint' runs {len(self.levels)} levels, so there is no single one. "
                "See .levels, or .level_ of the calibrated object."
            )
        return self.levels[0]

    def of_class(self, label: Any, classes: Sequence[Any]) -> Guarantee:
        """Return the guarantee for one of ``classes``.

        The guarantees of all classes hold together with confidence ``1 - delta``, because each
        fails with probability at most ``delta`` divided by the number of classes. In expectation,
        each class has a guarantee of its own.
        """
        epsilon = self.epsilon
        if isinstance(epsilon, Mapping):
            if label not in epsilon:
                raise ValueError(
                    f"epsilon has no value for class {label!r}; it has values for "
                    f"{', '.join(map(repr, epsilon))}. Give every class a value."
                )
            epsilon = epsilon[label]
        share = None if self.delta is None else _share(self.delta, len(classes), "classes")
        return replace(self, epsilon=epsilon, delta=share, per_class=False)

    def check_classes(self, classes: Sequence[Any]) -> None:
        """Refuse a mapping ``epsilon`` that names a class which there is not."""
        named = list(self.epsilon) if isinstance(self.epsilon, Mapping) else []
        unknown = [label for label in named if label not in classes]
        if unknown:
            raise ValueError(
                f"epsilon names class {unknown[0]!r}, and the classes are "
                f"{', '.join(map(repr, classes))}. Name these, and no others."
            )

    def __hash__(self) -> int:
        return hash(repr(self))  # a mapping has no hash of its own

    def describe(self) -> dict[str, Any]:
        """Return the parameters, without the rarely used ones that have their default value."""
        rare = {"per_class": False, "min_examples": 0}
        own = asdict(self).items()
        return {name: value for name, value in own if name not in rare or value != rare[name]}

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, *, tasks: int | None = None, threshold: sentences.Thresholds = None) -> str:
        """Return the guarantee in one sentence, with its numbers and its assumptions.

        Parameters
        ----------
        tasks : int, optional
            Number of calibration tasks.
        threshold : float or mapping from class to float, optional
            Calibrated threshold; with ``per_class``, the threshold of each class.

        Returns
        -------
        str
            The sentence.
        """
        return sentences.of_guarantee(self, tasks=tasks, threshold=threshold)


def _checked_epsilon(epsilon: Any, *, per_class: bool) -> float | dict[Any, float]:
    if not isinstance(epsilon, Mapping):
        return _checks.probability("epsilon", epsilon)
    if not per_class:
        raise ValueError(
            f"epsilon must be one number, got a mapping, {dict(epsilon)!r}. Pass per_class=True to "
            "give each class its own."
        )
    if not epsilon:
        raise ValueError("epsilon must map every class to a number, got an empty mapping.")
    plain = {_checks.plain_label(label): x for label, x in epsilon.items()}
    return {label: _checks.probability(f"epsilon[{label!r}]", x) for label, x in plain.items()}


def _checked_split(split: Any) -> Split:
    if isinstance(split, numbers.Real) and not isinstance(split, bool) and 0 < float(split) <= 0.5:
        return float(split)
    if isinstance(split, str) and split in SPLITS:
        return split
    raise ValueError(
        f"split must be 'joint', 'tight', 'even' or a number above 0 and at most 0.5, got "
        f"{split!r}. The default 'joint' is right for most data."
    )


@functools.lru_cache(maxsize=1024)
def _levels(split: Split, alpha: float, in_expectation: bool) -> tuple[Level, ...]:
    """Return the levels to use, ascending. In expectation there is only one."""
    if split == "joint" and not in_expectation:
        within: tuple[float, ...] = JOINT_LEVELS
    else:
        within = (alpha / 2 if isinstance(split, str) else split,)
    return tuple(Level(each, _across(split, alpha, each)) for each in within)


def _across(split: Split, alpha: float, within: float) -> float:
    if split == "even":
        return alpha / 2
    # A task on which the sets miss too often has a low threshold of its own with probability at
    # least 1 - within. So bounding the share of low thresholds by alpha (1 - within) bounds the
    # share of such tasks by alpha.
    return _rounded_down(Fraction(alpha) * (1 - Fraction(within)))


def _rounded_down(value: Fraction) -> float:
    """Return the largest float that is not above ``value``."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, 0.0)


def _share(delta: float, parts: int, name: str) -> float:
    share = equal_share(delta, parts)
    if share > 0:
        return share
    raise ValueError(
        f"delta={delta:g} cannot be divided among {parts} {name}: the share underflows to 0. "
        "Pass a larger delta."
    )


class InfeasibleGuarantee(ValueError):
    """The data are too few for the guarantee; the message says what is missing and what works."""


class NotCalibrated(ValueError, AttributeError):
    """A result was requested before ``calibrate``, or after the parameters changed."""
