"""The state of a monitor in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metapac._visible import visible
from metapac.explanation.words import Words
from metapac.monitoring.betting import HORIZON
from metapac.sentences import percent
from metapac.verdict.wording import HOLDS, VIOLATED

if TYPE_CHECKING:
    from metapac.monitoring.monitor import Monitor

# How a task is displayed as above epsilon: a test of this task alone.
SHOWN = "(95% confidence, each {} alone)"


def describe(monitor: Monitor) -> str:
    """Return the state of a monitor in words.

    Parameters
    ----------
    monitor : Monitor
        The monitor.

    Returns
    -------
    str
        Some sentences.
    """
    words = Words.from_context(monitor.terms.context)
    claims = {VIOLATED: _describe_alarm, HOLDS: _describe_holds}
    claim = claims.get(monitor.status, _describe_quiet)
    return f"{claim(monitor, words)} {_describe_share(monitor, words)}".rstrip()


def _describe_alarm(monitor: Monitor, words: Words) -> str:
    terms, alarm = monitor.terms, monitor.alarm
    assert alarm is not None
    count = words.count_units(monitor.course.index(alarm) + 1)
    batch = "" if alarm.batch is None else f", batch {visible(alarm.batch)}"
    start = (
        f"Alarm after {count} (at {visible(str(alarm.task))}{batch}): {_breach(monitor, words)}. "
        f"Stop relying on these sets, look at the {words.units} above {_limit(monitor)}, and "
        f"recalibrate on new {words.units}; then start a new state file. The wealth of the bets "
        f"against the guarantee has grown from 1 to {format_wealth(alarm.wealth)}. If it were "
        f"true, this would ever reach {format_wealth(terms.limit)} with probability at most "
        f"{percent(terms.false_alarm)}, however often one looks."
    )
    if terms.delta is None:
        return f"{start} {_in_expectation(monitor)}"
    return (
        f"{start} An unlucky calibration (probability at most {percent(terms.delta)}) explains it "
        f"too; otherwise these {words.units} or the scores are not like those of calibration."
    )


def _breach(monitor: Monitor, words: Words) -> str:
    share = f"more than {percent(monitor.terms.alpha)} of new {words.units}"
    if monitor.terms.classes is None:
        return f"{share} have a miss rate above {percent(monitor.terms.rates[0])}"
    worst = visible(str(_worst_class(monitor)))
    return f"for some class, {share} have a miss rate above its limit, most likely class {worst}"


def _worst_class(monitor: Monitor) -> object:
    wealths = [steps[-1].wealth if steps else 0.0 for steps in (monitor.by_class or {}).values()]
    return (monitor.terms.classes or ())[int(np.argmax(wealths))]


def _in_expectation(monitor: Monitor) -> str:
    terms, lower = monitor.terms, monitor.interval[0]
    chance = "some" if lower <= terms.alpha else f"at most {math.ceil(100 * terms.alpha / lower)}%"
    return (
        "A guarantee in expectation (delta=None) is an average over calibrations: under its "
        f"assumptions, {chance} of all calibrations come out this badly."
    )


def _describe_holds(monitor: Monitor, words: Words) -> str:
    terms = monitor.terms
    each = " for each class," if terms.classes else ""
    rate = "its limit" if terms.classes else percent(terms.rates[0])
    return (
        f"Holds, by {words.count_units(len(monitor.course))}:{each} less than "
        f"{percent(terms.alpha)} of new {words.units} have a miss rate above {rate}. If this were "
        f"false, it would ever be said with probability at most {percent(terms.false_alarm)}. "
        f"{_describe_latest(monitor, words)}"
    )


def _describe_quiet(monitor: Monitor, words: Words) -> str:
    latest = f" {_describe_latest(monitor, words)}" if monitor.course else ""
    count = words.count_units(len(monitor.course))
    return (
        f"No alarm yet{_describe_power(monitor, words)}{latest} After {count}, the wealth of the "
        f"bets against the guarantee is {format_wealth(monitor.wealth)}; it began at 1, falls "
        f"unless {words.units} are shown to be above {_limit(monitor)}, and raises an alarm at "
        f"{format_wealth(monitor.terms.limit)}."
    )


def _describe_power(monitor: Monitor, words: Words) -> str:
    """Return what no alarm says, given how large the tasks are."""
    power, of_class = monitor.power(), " of a class" if monitor.terms.classes else ""
    if power is None:
        return "."
    if power.can_tell and power.reach is not None:
        return (
            f". That does not show that the guarantee holds: even if every {words.unit} missed "
            f"nearly {percent(power.reach)}{of_class}, an alarm within {HORIZON:,} {words.units} "
            "would be unlikely."
        )
    least = "more than a million" if power.examples is None else f"about {power.examples:,}"
    return (
        f", but {words.units} this small cannot tell: even if every one missed "
        f"{percent(power.miss_rate)}{of_class}, there would be no alarm within {HORIZON:,}. That "
        f"takes {least} {words.examples}{of_class} in each."
    )


def _describe_latest(monitor: Monitor, words: Words) -> str:
    """Return how many tasks of the latest batch are above epsilon, and how many may be."""
    batch, terms = monitor.course[-1].batch, monitor.terms
    steps = [step for step in monitor.course if step.batch == batch]
    count = sum(step.violated for step in steps)
    total = words.count_units(len(steps))
    start = f"So far {count}" if batch is None else f"In {visible(batch)} {count}"
    share = terms.alpha * len(steps)
    allowed = "less than 1" if share < 0.5 else f"about {math.floor(share + 0.5)}"
    each = "" if terms.classes is None else " for each class"
    return (
        f"{start} of {total} {'is' if count == 1 else 'are'} above {_limit(monitor)} "
        f"{SHOWN.format(words.unit)}; the guarantee allows {allowed}{each}."
    )


def _limit(monitor: Monitor) -> str:
    """Return the miss rate that a task may have, in words."""
    return "the limit of a class" if monitor.terms.classes else percent(monitor.terms.rates[0])


def _describe_share(monitor: Monitor, words: Words) -> str:
    lower, upper = monitor.interval
    terms = monitor.terms
    rate = "its limit, for the worst class," if terms.classes else percent(terms.rates[0])
    if lower > upper:
        return (
            f"The share of new {words.units} above {rate} has changed: it was below "
            f"{percent(upper)} at one time, and above {percent(lower)} at another."
        )
    confidence = f"confidence {percent(terms.false_alarm, complement=True)}, at all times at once"
    if monitor.alarm is None:
        return (
            f"If it has been the same throughout, the share of new {words.units} above {rate} is "
            f"between {percent(lower)} and {percent(upper)} (each end with {confidence})."
        )
    if lower <= terms.alpha:  # the alarm has said it
        return ""
    return (
        f"At some time, the share of new {words.units} above {rate} was more than "
        f"{percent(lower)} ({confidence})."
    )


def format_wealth(wealth: float) -> str:
    """Return a wealth in few digits, without an exponent.

    Parameters
    ----------
    wealth : float
        The wealth.

    Returns
    -------
    str
        The digits, or a bound if it is very small or very large.

    Examples
    --------
    >>> from metapac.monitoring.wording import format_wealth
    >>> [format_wealth(wealth) for wealth in (1e-5, 0.2345, 298.6, 12345.6, 1e40)]
    ['less than 0.001', '0.234', '298', '12,345', 'more than a million']
    """
    if wealth < 0.001:
        return "less than 0.001"
    if wealth < 100:
        return f"{wealth:.3g}"
    return f"{math.floor(wealth):,}" if wealth <= 1e6 else "more than a million"
