"""The data behind a guarantee: how much it needs, how much there is, which rank was chosen."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from metapac._types import Floats
from metapac.bisection import round_up
from metapac.calibration import MetaPS
from metapac.demands import Affordable
from metapac.explanation.words import Words, round_down
from metapac.guarantee import Guarantee
from metapac.outcome import UNKNOWN, Outcome, Part
from metapac.planning import Plan, plan
from metapac.sentences import percent

_TINY = 1e-5  # limits below it are not spelled out
_SEARCHED = 4  # classes up to which the strictest possible values are searched
_MOST = 2_000  # tasks up to which the strictest possible values are searched


class PlanFacts(NamedTuple):
    """What a guarantee needs, and what was there.

    Attributes
    ----------
    label : object
        The class; None for all of them together.
    guarantee : Guarantee
        The guarantee; for one class, the part of that class.
    tasks, tasks_needed : int
        Number of tasks, and the smallest sufficient number.
    examples_needed : int
        Number of examples that each task needs with the fewest tasks.
    sizes : tuple of int, or None
        Smallest, median and largest number of examples of a task; None if not known.
    spare : int
        Number of further tasks that could have been too small.
    affordable : Affordable or None
        The strictest values that these data support, one at a time; None if not searched.
    threshold : float
        The threshold.
    rank : int or None
        Its place among the thresholds of the tasks, from 1; None if every label is kept.
    thresholds : ndarray
        Thresholds of the tasks.
    """

    label: Any
    guarantee: Guarantee
    tasks: int
    tasks_needed: int
    examples_needed: int
    sizes: tuple[int, int, int] | None
    spare: int
    affordable: Affordable | None
    threshold: float
    rank: int | None
    thresholds: Floats


def find_plan(promise: MetaPS) -> list[PlanFacts]:
    """Return what the guarantee rests on: data, slack, and the rank of the threshold.

    Parameters
    ----------
    promise : MetaPS
        The guarantee.

    Returns
    -------
    list of PlanFacts
        One for each class, or a single one.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaPS
    >>> from metapac.report.plan import find_plan
    >>> scores, hospitals = np.linspace(0, 1, 6000), np.tile(np.arange(120), 50)
    >>> method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(scores, hospitals)
    >>> facts = find_plan(method)[0]
    >>> facts.tasks, facts.tasks_needed, facts.rank
    (120, 29, 2)
    """
    parts = promise._evidence.parts(promise.guarantee_)
    plans: dict[Guarantee, Plan] = {}  # classes with the same limits need the same
    for part in parts:
        g = part.guarantee
        if g not in plans:
            levels: dict[str, Any] = {"epsilon": g.miss_rate, "alpha": g.alpha, "delta": g.delta}
            plans[g] = plan(**levels, split=g.split, allow=["levels"])
    return [
        _plan_facts(part, outcome, plans[part.guarantee], is_searched=len(parts) <= _SEARCHED)
        for part, outcome in zip(parts, promise._outcomes, strict=True)
    ]


def _plan_facts(part: Part, outcome: Outcome, need: Plan, *, is_searched: bool) -> PlanFacts:
    g, demand = part.guarantee, part.demand()
    own = part.sizes[part.used]
    known = len(own) > 0 and bool(np.all(own != UNKNOWN))
    allowed = g.allowed_low_thresholds(len(own))[outcome.level] if len(own) else -1
    return PlanFacts(
        part.label,
        g,
        len(own),
        need.tasks,
        need.examples_per_task,
        (int(own.min()), int(np.median(own)), int(own.max())) if known else None,
        max(demand.spare_tasks()),
        demand.affordable() if is_searched and known and len(own) <= _MOST else None,
        outcome.threshold,
        allowed + 1 if math.isfinite(outcome.threshold) and allowed >= 0 else None,
        part.thresholds[part.used][:, outcome.level],
    )


def describe_rank(facts: PlanFacts, words: Words) -> str:
    """Return how the threshold was chosen.

    Parameters
    ----------
    facts : PlanFacts
        What the guarantee rests on.
    words : Words
        What tasks are called.

    Returns
    -------
    str
        A few sentences.
    """
    if facts.rank is None:
        return (
            f"Nothing is ruled out: the {words.units} are too few, or too small, for a threshold."
        )
    low = facts.rank - 1
    below = (
        f"{words.count_units(low)} may lie below it" if low else f"no {words.unit} lies below it"
    )
    small = int(np.count_nonzero(facts.thresholds == -np.inf))
    text = (
        f"Each of the {facts.tasks:,} {words.units} gives a threshold of its own. The one in use "
        f"is the {_ordinal(facts.rank)} of them, {round_down(facts.threshold)} (rounded "
        f"down): {below}. That place follows from the guarantee and from how many {words.units} "
        "there are; nobody chose it by hand."
    )
    if small:
        has = "has" if small == 1 else "have"
        noun = words.unit if small == 1 else words.units
        text += (
            f" {small:,} {noun} {has} too few {words.examples} for a threshold and "
            f"{'counts' if small == 1 else 'count'} as the lowest; the chart leaves "
            f"{'it' if small == 1 else 'them'} out."
        )
    return text


def _ordinal(number: int) -> str:
    """Return a place from below, such as "lowest" or "3rd lowest"."""
    if number == 1:
        return "lowest"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if number % 100 in (11, 12, 13) else ending} lowest"


def describe_slack(facts: PlanFacts, words: Words) -> str:
    """Return how much data the guarantee needs, and what the data could support.

    Parameters
    ----------
    facts : PlanFacts
        What the guarantee rests on.
    words : Words
        What tasks and examples are called.

    Returns
    -------
    str
        A few sentences.
    """
    if facts.spare < 0:
        return "The data are too few for this guarantee, so nothing is ruled out."
    text = (
        f"This guarantee needs at least {words.count_units(facts.tasks_needed)} with "
        f"{words.count_examples(facts.examples_needed)} each; there are {facts.tasks:,}."
    )
    stricter = _list_stricter(facts, words)
    if not stricter:
        return text
    return (
        f"{text} Changing one number and keeping the others, these data could support: "
        f"{'; or '.join(stricter)}."
    )


def _list_stricter(facts: PlanFacts, words: Words) -> list[str]:
    """Return the strictest value of each number that these data support, beside its own."""
    g, best = facts.guarantee, facts.affordable
    if best is None:
        return []
    rate = percent(g.miss_rate)
    risk = "a risk of {}" if facts.label is None else "a risk of {} for this class"
    texts = {
        "epsilon": (g.miss_rate, "{} missed"),
        "alpha": (g.alpha, f"{{}} of {words.units} above {rate}"),
        "delta": (g.delta, risk),
    }
    found = []
    for name, (own, text) in texts.items():
        value = getattr(best, name)
        if value is not None and own is not None and value < own:
            shown = _round_up_percent(value)
            if shown != percent(own):
                found.append(f"{text.format(shown)} instead of {percent(own)}")
    return found


def _round_up_percent(value: float) -> str:
    """Return a limit in percent, never stricter than it is; of a tiny one, how tiny it is."""
    return percent(round_up(value, 2)) if value > _TINY else f"less than {percent(_TINY)}"
