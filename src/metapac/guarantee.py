"""Guarantees: levels, splits between the two steps, and the sentence that states them."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

from metapac import ranks
from metapac._common import as_probability, as_whole_number, brief, check_bool, check_one_of, listed
from metapac.binomial import min_integer
from metapac.columns import hold_losses, hold_numbers
from metapac.errors import InvalidInput, keyword
from metapac.inputs import as_plain_label
from metapac.ranks import ONE_NEW_TASK, Level, NewTasks, cap_ranks, joint_ranks

SAMPLED = "that calibration and new examples are sampled in the same way"
BALANCED = " (all balanced by class, or none)"

Thresholds = float | Mapping[Any, float] | None


def _describe_misses(g: Guarantee, threshold: Thresholds, columns: Mapping[str, Any]) -> str:
    """Return what the sets, or intervals, miss and how often."""
    if hold_losses(columns):
        at = "" if threshold is None else f" at the threshold {threshold!r}"
        return f"the expected loss{at} is at most {percent(g.miss_rate)}"
    if g.per_class:
        return _describe_class_misses(g.epsilon, threshold, together=g.is_together)
    what, truth = _describe_sets(threshold), "label"
    if hold_numbers(columns):
        what, truth = "the intervals", "number"
        if isinstance(threshold, float) and threshold > -math.inf:
            what += f" {_describe_ends(threshold, columns)}"
    return f"{what} miss the true {truth} at most {percent(g.miss_rate)} of the time"


def describe_share(g: Guarantee, unit: str, units: str, clusters: str | None = None) -> str:
    """Return on which new tasks a guarantee holds, such as "at least 90% of new hospitals"."""
    if (of_list := g.list_of_new_tasks) is None:
        of_new = "" if clusters is None else f" of new {clusters}"
        return f"at least {percent(g.alpha, complement=True)} of new {units}{of_new}"
    if clusters is None:
        return of_list.describe(units)
    return f"one random {unit} of {of_list.describe(clusters)}"


def describe_list_draw(of_list: NewTasks, units: str, tasks: int | None) -> str:
    """Return what a guarantee for a finite list assumes of the draw, and what it does not."""
    whole = f"all {of_list.number + tasks:,} {units}" if tasks else f"{units} that holds the others"
    drawn = f"the calibration {units} were drawn at random from a list of {whole}"
    return f"{drawn} (no distribution of {units} is assumed)"


def averages_classes(g: Guarantee, columns: Mapping[str, Any]) -> bool:
    """Return whether misses are averaged over the classes of a task, and so depend on their mix."""
    return not (g.per_class or hold_numbers(columns) or hold_losses(columns))


def _describe_ends(threshold: float, columns: Mapping[str, Any]) -> str:
    """Return where intervals begin and end."""
    if "lower" not in columns:
        times = " times scale" if "scale" in columns else ""
        return f"prediction plus and minus {0.0 - threshold!r}{times}"
    if threshold == 0:
        return "from lower to upper"
    signs = ("plus", "minus") if threshold > 0 else ("minus", "plus")
    return "from lower {0} {2!r} to upper {1} {2!r}".format(*signs, abs(threshold))


def _describe_class_misses(epsilon: Epsilon, thresholds: Thresholds, *, together: bool) -> str:
    cuts, share, shares = "", "the following share", ""
    if isinstance(thresholds, Mapping):
        more = ", see thresholds_" if len(thresholds) > 3 else ""
        cuts = f" ({_list_by_class(thresholds, shown=3)}{more})"
    if isinstance(epsilon, Mapping):
        rates = {label: percent(rate) for label, rate in epsilon.items()}
        shares = f" ({_list_by_class(rates, shown=20)})"
    else:
        share = percent(epsilon)
    sets = f"the sets {{label: score >= its threshold}}{cuts}"
    if together:
        return f"{sets} miss at most {share} of the examples of every class at once"
    return f"for each class, {sets} miss at most {share} of the examples of that class{shares}"


def _list_by_class(values: Mapping[Any, Any], *, shown: int) -> str:
    return listed([f"{label}: {value}" for label, value in values.items()], shown=shown)


def _describe_sets(threshold: Thresholds) -> str:
    return "the sets" if threshold is None else f"the sets {{label: score >= {threshold!r}}}"


def describe_example_guarantee(epsilon: float, delta: float, examples: int, cut: float) -> str:
    """Return the guarantee of ``PS``, which covers new examples but no single task."""
    return (
        f"With confidence {percent(delta, complement=True)} over the draw of the {examples} "
        f"calibration examples, {_describe_sets(cut)} miss the true label at most "
        f"{percent(epsilon)} of the time on new examples, provided that these are drawn i.i.d. "
        "from the same distribution, that no calibration example was seen in training, and that "
        "the score function is fixed; this says nothing about any one task within that "
        "distribution."
    )


def describe_trivial(label: object = None, *, is_interval: bool = False) -> str:
    """Return the remark on a threshold of ``-inf``."""
    if label is not None:
        return f"Class {label!r} is always kept, so its guarantee holds trivially."
    every = "interval is infinite" if is_interval else "label is kept"
    return f"Every {every}, so the guarantee holds trivially."


TRIVIAL = describe_trivial()


def describe_uninformative(
    threshold: float, at_bottom: int, tasks: int, label: object = None, *, is_interval: bool = False
) -> str:
    """Return the remark on a threshold that equals the lowest calibration score."""
    what = "every label" if label is None else f"class {label!r}"
    start = f"The threshold {threshold!r} is the lowest calibration score, so"
    effect, excess = f"{what} may be kept whatever its score", "true labels score that low"
    if is_interval:
        effect = "intervals are wide enough for every true number in the calibration tasks"
        excess = "true numbers lie that far from their prediction"
    elif threshold == 0:
        start = "The threshold is 0.0, so, if scores are probabilities,"
        effect = f"{what} is kept whatever its score"
    text = f"{start} {effect}, and the guarantee says little: in {at_bottom} of {tasks} tasks"
    return f"{text} ({at_bottom / tasks:.0%}) more {excess} than may be missed."


def percent(fraction: float, *, complement: bool = False) -> str:
    """Return a fraction in percent, to the last digit."""
    with localcontext(prec=400):  # enough for every digit of the smallest float
        exact = Decimal(repr(fraction)) * 100
        return f"{(100 - exact if complement else exact).normalize():f}%"


def format_share(fraction: float) -> str:
    """Return a measured fraction in percent; only an exact 0 or 1 is shown as 0% or 100%."""
    if fraction in (0, 1):
        return f"{fraction:.0%}"
    shown = (f"{fraction:.{digits}%}" for digits in range(1, 6))
    extreme = "<0.001%" if fraction < 0.5 else ">99.999%"
    return next((text for text in shown if 0 < float(text[:-1]) < 100), extreme)


# Levels within tasks of the joint split, fixed before any data are seen. In small tasks only a few
# errors can be allowed; each such number should have a level just above its probability.
JOINT_LEVELS = (0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.27, 0.35, 0.42, 0.5)
# Further levels of the joint split, for tasks that are too small for the others: rank 0 is allowed
# in a task of i examples at the level (1 - epsilon)^i.
_MORE_LEVELS = (0.58, 0.66, 0.74, 0.81, 0.87, 0.91, 0.94, 0.96, 0.975, 0.985)
_SMALLEST_TASKS = range(1, 7)
SPLITS = ("joint", "tight", "even")
SAMPLINGS = ("any", "iid", "capped")

Split = str | float
Epsilon = float | Mapping[Any, float]
TOGETHER = "together"
PerClass = bool | str


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
        Fraction of new tasks on which the miss rate may exceed ``epsilon``.
    delta : float or None
        Failure probability of the guarantee. None for a guarantee in expectation, where ``alpha``
        also covers the risk of an unlucky calibration.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps; it changes the threshold, never the
        guarantee. A number, at most 1/2, is the level within tasks.
    per_class : bool or "together", default False
        Whether the miss rate is bounded for the examples of each class: separately, on tasks that
        may differ from class to class, or with "together" on the same tasks for all classes.
    min_examples : int, default 0
        Tasks with fewer examples (with ``per_class``, of the class) are left out, and the
        guarantee covers only tasks with at least this many.
    new_tasks : int, optional
        Number of new tasks in a finite list, such as 20 other hospitals. At most a fraction
        ``alpha`` of these, rounded down, may exceed ``epsilon``. No distribution of tasks is
        assumed, only that the calibration tasks were drawn at random from the whole list.
    shift : float, default 0.0
        By how much the share of new tasks that exceed ``epsilon`` may be larger than under the
        distribution of the calibration tasks, because some come from elsewhere.
    dishonest : int, default 0
        Number of calibration tasks whose thresholds may be anything, whoever they are.
    sampling : {"any", "iid", "capped"}, default "any"
        How the examples of a task are sampled. "any": independently, whatever its make-up (i.i.d.,
        balanced by class, or without replacement). "iid": i.i.d., with smaller sets if tasks are
        small. "capped" is the rule of version 0.2.0, with larger sets if tasks are small.
    randomise : int, optional
        Seed of randomised ranks within tasks, fixed beforehand: smaller sets if tasks are small.
    offsets : mapping from class to float, optional
        With ``per_class="together"``, what is subtracted from the scores of each class: the set is
        {label: score - offset >= threshold}. Fixed beforehand, such as `Exploration.offsets`.

    Examples
    --------
    >>> import textwrap
    >>> from metapac import Guarantee
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05)
    >>> print(textwrap.fill(guarantee.sentence(tasks=300), 88))
    With confidence 95% over the draw of the 300 calibration tasks, the sets miss the true
    label at most 10% of the time on at least 80% of new tasks, provided that calibration
    tasks and new tasks are drawn i.i.d. from one distribution, that calibration and new
    examples are sampled in the same way (all balanced by class, or none), that no
    calibration task was seen in training, and that the score function and the number of
    tasks were fixed before looking at results.
    >>> Guarantee(epsilon=0.1, alpha=0.2, delta=0.05, split="tight").levels
    (Level(alpha_within=0.1, alpha_across=0.18),)
    """

    epsilon: Epsilon
    alpha: float
    delta: float | None
    split: Split = "joint"
    per_class: PerClass = False
    min_examples: int = 0
    new_tasks: int | None = None
    shift: float = 0.0
    dishonest: int = 0
    sampling: str = "any"
    randomise: int | None = None
    offsets: Mapping[Any, float] | None = None

    def __post_init__(self) -> None:
        if self.per_class != TOGETHER:
            if isinstance(self.per_class, str):
                rule = f"per_class must be True, False or {TOGETHER!r}"
                raise InvalidInput(f"{rule}, got {self.per_class!r}.", parameter="per_class")
            check_bool("per_class", self.per_class)
            object.__setattr__(self, "per_class", bool(self.per_class))
        checked = {
            "epsilon": _checked_epsilon(self.epsilon, per_class=self.per_class),
            "offsets": _checked_offsets(self.offsets, per_class=self.per_class),
            "alpha": as_probability("alpha", self.alpha),
            "delta": None if self.delta is None else as_probability("delta", self.delta),
            "split": _checked_split(self.split),
            "min_examples": as_whole_number("min_examples", self.min_examples, minimum=0),
            "new_tasks": _checked_count("new_tasks", self.new_tasks, minimum=1),
            "shift": _checked_shift(self.shift, self.alpha),
            "dishonest": as_whole_number("dishonest", self.dishonest, minimum=0),
            "randomise": _checked_count("randomise", self.randomise, minimum=0),
        }
        check_one_of("sampling", self.sampling, SAMPLINGS)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self._check_pairs()
        if self.delta is not None and len(self.levels) > 1:
            _divide_delta(self.delta, len(self.levels), "levels")
        if any(min(level) == 0 for level in self.levels):
            text = f"{keyword('alpha', self.alpha)} is too small: a share of it underflows to 0."
            raise InvalidInput(text, parameter="alpha")

    def _check_pairs(self) -> None:
        """Raise InvalidInput for two parameters that no theorem serves together."""
        for (one, other), reason in REFUSED.items():
            if _is_asked(self, one) and _is_asked(self, other):
                names = one.partition("=")[0], other.partition("=")[0]
                text = " and ".join(keyword(name, getattr(self, name)) for name in names)
                raise InvalidInput(f"{text} cannot be combined: {reason}.", parameter=names)

    @property
    def is_together(self) -> bool:
        """Whether all classes are bounded on the same tasks."""
        return self.per_class == TOGETHER

    @property
    def miss_rate(self) -> float:
        """``epsilon`` as one number; raises ``InvalidInput`` if each class has its own."""
        if isinstance(self.epsilon, float):
            return self.epsilon
        raise InvalidInput(f"epsilon is a mapping, {dict(self.epsilon)!r}: use for_class.")

    @property
    def failure_probability(self) -> float:
        """``delta`` as a number; raises ``InvalidInput`` if the guarantee is in expectation."""
        if self.delta is not None:
            return self.delta
        text = "delta is None: a guarantee in expectation has no failure probability."
        raise InvalidInput(text, parameter="delta")

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Levels in use, ascending; the calibrated threshold is the largest over all levels."""
        epsilon = self.epsilon if isinstance(self.epsilon, float) else max(self.epsilon.values())
        single = self.split != "joint" or (self.sampling == "capped" and self.delta is None)
        more = not (single or self.sampling == "capped")
        return _levels(self.split, self.alpha_honest, single, epsilon if more else None)

    @cached_property
    def alpha_honest(self) -> float:
        """``alpha - shift``: what is left for tasks like those of calibration."""
        if not self.shift:
            return self.alpha
        return _rounded_down(Fraction(repr(self.alpha)) - Fraction(repr(self.shift)))

    @property
    def is_capped(self) -> bool:
        """Whether ranks within tasks are those of version 0.2.0: also valid, and often the same."""
        single = self.sampling == "any" and self.split != "joint" and self.randomise is None
        return single or self.sampling == "capped"

    @property
    def numbers_per_task(self) -> int:
        """How many thresholds a task has: one at each level, or two if ranks are randomised."""
        return len(self.levels) * (1 if self.randomise is None else 2)

    @property
    def list_of_new_tasks(self) -> NewTasks | None:
        """The finite list of new tasks; None for new tasks from a distribution."""
        return None if self.new_tasks is None else NewTasks.at_most(self.alpha, self.new_tasks)

    def allowed_low_thresholds(self, tasks: int) -> tuple[int, ...]:
        """Return for each level how many task thresholds may lie below the level's threshold.

        Parameters
        ----------
        tasks : int
            Number of calibration tasks.

        Returns
        -------
        tuple of int
            For each level the largest k allowed, and -1 if the level is unusable with so few tasks.
            The threshold of the level is the (k + 1)-th lowest of the task thresholds.
        """
        if self.delta is not None:
            of_list = self.list_of_new_tasks
            allowed = joint_ranks(tasks, self.levels, self.delta, of_list, self.dishonest)
            return allowed if self.randomise is None else cap_ranks(tasks, self.levels, allowed)
        if len(self.levels) > 1:
            return joint_ranks(tasks, self.levels, self.alpha_honest, ONE_NEW_TASK, self.dishonest)
        # Floats are read as the decimals they print as, so that 0.3 x 0.85 x 200 is exactly 51.
        alpha, within = Fraction(repr(self.alpha_honest)), Fraction(repr(self.alpha_within))
        share = alpha / 2 if self.split == "even" else alpha * (1 - within)
        rank = ranks.expectation_rank(tasks, share)
        return (rank - self.dishonest if rank >= self.dishonest else -1,)

    def free_shift(self, tasks: int) -> float:
        """Return the ``shift`` that the guarantee would survive without being made for it.

        The ranks across tasks are whole numbers, so they often satisfy a slightly smaller
        ``alpha``: up to the difference of new tasks may come from elsewhere.

        Parameters
        ----------
        tasks : int
            Number of calibration tasks.

        Returns
        -------
        float
            The largest shift, rounded down to four digits after the point; includes ``shift``.
        """
        allowed = self.allowed_low_thresholds(tasks)
        if self.new_tasks is not None or max(allowed) < 0:
            return 0.0
        step, high = 1e-4, 1

        def fails(steps: int) -> bool:
            shifted = Fraction(repr(self.alpha)) - steps * Fraction(repr(step))
            return shifted <= 0 or not self._satisfies(tasks, allowed, _rounded_down(shifted))

        while not fails(high):  # it is slow, and usually one of the first does
            high *= 2
        return round((min_integer(fails, high // 2, high) - 1) * step, 4)

    def _satisfies(self, tasks: int, allowed: Sequence[int], alpha: float) -> bool:
        """Return whether ranks that are allowed at ``alpha_honest`` are allowed at ``alpha``."""
        within = (level.alpha_within for level in self.levels)
        levels = tuple(Level(t, _across(self.split, alpha, t)) for t in within)
        is_random, few = self.randomise is not None, tuple(allowed)
        if is_random and cap_ranks(tasks, levels, few) != few:
            return False
        used = [rank + self.dishonest if rank >= 0 else rank for rank in allowed]
        limit = alpha if self.delta is None else self.delta
        of_list = ONE_NEW_TASK if self.delta is None else None
        return ranks.failure_of_ranks(tasks, levels, used, of_list) <= limit

    @property
    def alpha_within(self) -> float:
        """Level within tasks; raises ``InvalidInput`` if there are several."""
        return self._only_level().alpha_within

    @property
    def alpha_across(self) -> float:
        """Share across tasks; raises ``InvalidInput`` if there are several levels."""
        return self._only_level().alpha_across

    def _only_level(self) -> Level:
        if len(self.levels) > 1:
            raise InvalidInput(f"split={self.split!r} has {len(self.levels)} levels: see .levels.")
        return self.levels[0]

    def for_class(self, label: Any, classes: Sequence[Any]) -> Guarantee:
        """Return the guarantee for one class.

        The guarantees of all classes hold together with confidence ``1 - delta``, because each
        fails with probability at most ``delta`` divided by the number of classes. With
        ``delta=None`` each class has its own guarantee in expectation. With
        ``per_class="together"`` there is one guarantee for all, so nothing is divided.

        Parameters
        ----------
        label : str, int or bool
            The class.
        classes : sequence
            All classes.

        Returns
        -------
        Guarantee
            The guarantee for the examples of that class.
        """
        epsilon = self.epsilon
        if isinstance(epsilon, Mapping):
            if label not in epsilon:
                text = f"epsilon has no value for class {label!r}, only for"
                named = listed([*map(repr, epsilon)])
                raise InvalidInput(f"{text} {named}.", parameter="epsilon")
            epsilon = epsilon[label]
        if self.is_together:
            return replace(self, per_class=False, offsets=None)
        share = None if self.delta is None else _divide_delta(self.delta, len(classes), "classes")
        return replace(self, epsilon=epsilon, delta=share, per_class=False)

    def check_classes(self, classes: Sequence[Any]) -> None:
        """Raise if a mapping names an unknown class, or if a class has no offset.

        Parameters
        ----------
        classes : sequence
            All classes.
        """
        for name in ("epsilon", "offsets"):
            named = getattr(self, name)
            named = named if isinstance(named, Mapping) else ()
            if unknown := [label for label in named if label not in classes]:
                text = f"{name} names class {unknown[0]!r}, but the classes are"
                raise InvalidInput(f"{text} {listed([*map(repr, classes)])}.", parameter=name)
        for label in classes if self.is_together else ():
            if label not in (self.offsets or {}):
                text = f"offsets has no value for class {label!r}, only for"
                text = f"{text} {listed([*map(repr, self.offsets or ())]) or 'none'}."
                raise InvalidInput(text, parameter="offsets")

    def __hash__(self) -> int:
        return hash(repr(self))  # epsilon may be a mapping, which cannot be hashed

    def describe(self) -> dict[str, Any]:
        """Return the parameters, without the rarely used ones that have their default value.

        Returns
        -------
        dict of str to object
            Parameters by name, from which the guarantee can be constructed again.
        """
        return drop_defaults(asdict(self), always=4)  # epsilon, alpha, delta and split

    def __str__(self) -> str:
        return self.sentence()

    def sentence(
        self,
        *,
        tasks: int | None = None,
        threshold: Thresholds = None,
        columns: Mapping[str, Any] | None = None,
        cluster: tuple[str, str] | None = None,
    ) -> str:
        """Return the guarantee in one sentence, with its numbers and its assumptions.

        Parameters
        ----------
        tasks : int, optional
            Number of calibration tasks.
        threshold : float or mapping from class to float, optional
            Calibrated threshold; with ``per_class``, the threshold of each class.
        columns : mapping, optional
            Columns of the table calibrated on, which tell intervals from sets of labels.
        cluster : tuple of str, optional
            What clusters are called, in singular and plural, if one task of each was calibrated on.

        Returns
        -------
        str
            The sentence.
        """
        columns = columns or {}
        of_class = f" of {'each' if self.is_together else 'that'} class" if self.per_class else ""
        size = f" with at least {self.min_examples} examples{of_class}" if self.min_examples else ""
        (unit, units), of_list = cluster or ("task", "tasks"), self.list_of_new_tasks
        drawn = units if cluster is None else f"{units} and of one task in each"
        count = "" if tasks is None else f"{tasks} "
        draw = f"over the draw of the {count}calibration {drawn}{size}"
        draw += " and of the seed" * (self.randomise is not None)
        draw += f", whatever up to {self.dishonest} of them report" * bool(self.dishonest)
        misses = _describe_misses(self, threshold, columns)
        share = describe_share(self, "task", "tasks", cluster and units)
        claim = f"{misses} on {share}{size}"
        alike = f"calibration {units} and new {units} are drawn i.i.d. from one distribution"
        if of_list is not None:
            alike = describe_list_draw(of_list, units, None if self.min_examples else tasks)
        if self.delta is not None:
            start = f"With confidence {percent(self.delta, complement=True)} {draw}, {claim},"
        else:
            alike = f"calibration {units} and new {units} are exchangeable"
            start = f"On average {draw}, {claim}; this is an average over calibrations (delta=None)"
            start += " and gives no confidence for this one; it holds"
        if self.shift:
            alike += f" (but for up to {percent(self.shift)} of new {units}, from elsewhere)"
        fixed, mix = "the score function", BALANCED * averages_classes(self, columns)
        if self.sampling == "iid":
            mix = f", i.i.d. within each {'class of a ' * bool(self.per_class)}task"
        if hold_losses(columns):
            fixed = "the scores, the losses, their thresholds, the seed"
        if self.randomise is not None:
            fixed += f", the names of tasks, the seed {self.randomise} of randomised ranks"
        fixed += ", the offsets of the classes" * self.is_together
        return (
            f"{start} provided that {alike}, "
            f"{SAMPLED}{mix}, that no calibration {unit} was seen in training, "
            f"and that {fixed} and the number of {units} were fixed before looking at results."
        )


def _checked_epsilon(epsilon: Any, *, per_class: PerClass) -> Epsilon:
    if not isinstance(epsilon, Mapping):
        return as_probability("epsilon", epsilon)
    if not (epsilon and per_class is True):
        rule = "one number or, if per_class=True, a mapping that is not empty"
        if per_class == TOGETHER:
            rule = "one number for all classes if per_class='together'"
        raise InvalidInput(f"epsilon must be {rule}, got {dict(epsilon)!r}.")
    return {
        as_plain_label(label): as_probability("epsilon", rate, scope=f" of class {label!r}")
        for label, rate in epsilon.items()
    }


_MOST_OFFSET = 1e300


def _checked_offsets(offsets: Any, *, per_class: PerClass) -> dict[Any, float] | None:
    if offsets is None:
        return None
    if per_class != TOGETHER:
        text = f"offsets are for per_class={TOGETHER!r}, got {keyword('per_class', per_class)}."
        raise InvalidInput(text, parameter="offsets")
    if not (isinstance(offsets, Mapping) and offsets):
        raise InvalidInput(f"offsets must be a mapping from class to number, got {brief(offsets)}.")
    for label, offset in offsets.items():
        is_number = isinstance(offset, numbers.Real)
        if not (is_number and -_MOST_OFFSET < cast("float", offset) < _MOST_OFFSET):
            text = f"offsets must be finite numbers, got {offset!r} for class {label!r}."
            raise InvalidInput(text)
    return {as_plain_label(label): float(offset) for label, offset in offsets.items()}


def _checked_split(split: Any) -> Split:
    if isinstance(split, numbers.Real) and not isinstance(split, bool) and 0 < float(split) <= 0.5:
        return float(split)
    if isinstance(split, str) and split in SPLITS:
        return split
    rule = "'joint', 'tight', 'even' or a number above 0 and at most 0.5"
    raise InvalidInput(f"split must be {rule}, got {split!r}.")


def drop_defaults(parameters: Mapping[str, Any], always: int = 6) -> dict[str, Any]:
    """Return the parameters to store, without those since version 0.3 that have their default."""
    rare = {field.name: field.default for field in fields(Guarantee)[always:]}
    return {k: v for k, v in parameters.items() if k not in rare or v != rare[k]}


def keep_rule(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of schema 1 with the rule for ranks of its version among the parameters."""
    parameters = document.get("parameters")
    if document.get("schema") != 1 or not isinstance(parameters, dict):
        return document
    if parameters.get("split", "joint") != "joint":
        return document  # the rule is the same
    return document | {"parameters": {"sampling": "capped", **parameters}}


def _checked_count(name: str, value: Any, *, minimum: int) -> int | None:
    return None if value is None else as_whole_number(name, value, minimum=minimum)


def _checked_shift(shift: Any, alpha: Any) -> float:
    if isinstance(shift, numbers.Real) and 0 <= float(shift) < float(alpha):
        return float(shift)
    text = f"shift must be a number from 0 to below {keyword('alpha', alpha)}, got {shift!r}"
    raise InvalidInput(f"{text}.")


# Pairs of parameters that no theorem serves, with the reason; NAME=VALUE is for this value only.
# docs/understand has the table of all pairs.
REFUSED = {
    ("new_tasks", "delta=None"): (
        "delta=None is the guarantee for a list of one new task; pass delta, or leave out new_tasks"
    ),
    ("new_tasks", "shift"): (
        "a finite list has no distribution to shift away from: every new task is on the list"
    ),
    ("new_tasks", "split=even"): "the split of the paper is for tasks from a distribution",
    ("new_tasks", "randomise"): (
        "which tasks are on the list, and their names, are not random; only the draw is"
    ),
    ("dishonest", "randomise"): (
        "a dishonest site could choose a name with a favourable place in the order of the seed"
    ),
    ("dishonest", "min_examples"): (
        "a dishonest site could choose, by the size it states, whether it counts"
    ),
    ("randomise", "sampling=capped"): "the rule of version 0.2.0 is not randomised",
}


def _is_asked(guarantee: Guarantee, what: str) -> bool:
    """Return whether a parameter has a value of its own, or that of NAME=VALUE."""
    name, equals, value = what.partition("=")
    actual = getattr(guarantee, name)
    if equals:
        return str(actual) == value
    return bool(actual) if name != "randomise" else actual is not None


@functools.lru_cache(maxsize=1024)
def _levels(split: Split, alpha: float, single: bool, epsilon: float | None) -> tuple[Level, ...]:
    """Return the levels to use, ascending; with ``epsilon``, those for small tasks as well."""
    within: tuple[float, ...] = (alpha / 2 if isinstance(split, str) else split,)
    if not single:
        within = JOINT_LEVELS
    if epsilon is not None:
        kept = 1 - min(Fraction(epsilon), Fraction(repr(epsilon)))
        smallest = (min(-_rounded_down(-(kept**i)), _LARGEST_LEVEL) for i in _SMALLEST_TASKS)
        within = tuple(sorted((*within, *_MORE_LEVELS, *smallest)))
    return tuple(Level(level, _across(split, alpha, level)) for level in within)


_LARGEST_LEVEL = 1 - 1e-6


def _across(split: Split, alpha: float, within: float) -> float:
    if split == "even":
        return alpha / 2
    # On a task where the sets miss too often, the task threshold is too low with probability at
    # least 1 - within. So bounding the share of low thresholds by alpha (1 - within) bounds the
    # share of such tasks by alpha.
    return _rounded_down(Fraction(alpha) * (1 - Fraction(within)))


def _rounded_down(exact: Fraction) -> float:
    near = float(exact)
    return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)


def _divide_delta(delta: float, parts: int, name: str) -> float:
    if (share := ranks.equal_share(delta, parts)) > 0:
        return share
    text = f"{keyword('delta', delta)} cannot be divided among {parts} {name}: it underflows to 0."
    raise InvalidInput(text, parameter="delta")
