"""Where a guarantee stands: what the check of one table and the monitor say together."""

from __future__ import annotations

from typing import NamedTuple

from metapac.explanation.words import Words
from metapac.report.course import Course
from metapac.verdict.wording import HOLDS, UNDECIDED, VIOLATED

NOTHING = "nothing to check"  # the guarantee holds trivially

GOOD, QUIET, CAUTION, BAD = "", "is-quiet", "is-caution", "is-violated"


class Standing(NamedTuple):
    """Whether a guarantee can still be relied on, and how its results are coloured.

    Attributes
    ----------
    is_broken : bool
        Whether the check or the monitor says that the guarantee is violated.
    verdict, monitor : str
        Class of the style sheet for what the check says, and for what the monitor says. If they
        disagree, neither of them is shown as good.
    is_split : bool
        Whether they disagree.
    comparison : str or None
        How they differ; None unless both are there.
    """

    is_broken: bool
    verdict: str
    monitor: str
    is_split: bool
    comparison: str | None


def find_standing(status: str | None, course: Course | None, words: Words) -> Standing:
    """Return where a guarantee stands.

    Parameters
    ----------
    status : {"holds", "cannot tell yet", "violated", "nothing to check"} or None
        The verdict on labelled new tasks, if there are any.
    course : Course or None
        The course of a monitor, if there is one.
    words : Words
        What tasks are called.

    Returns
    -------
    Standing
        What both say together.

    Examples
    --------
    >>> from metapac import Context
    >>> from metapac.explanation.words import Words
    >>> from metapac.report.standing import find_standing
    >>> find_standing("violated", None, Words.from_context(Context())).is_broken
    True
    """
    says = None if course is None else course.status
    is_split = None not in (status, says) and VIOLATED in (status, says) and status != says
    colours = {None: GOOD, HOLDS: GOOD, UNDECIDED: CAUTION, NOTHING: CAUTION, VIOLATED: BAD}
    verdict = colours[status]
    monitor = QUIET if says == UNDECIDED else colours[says]
    if is_split:
        verdict, monitor = (each if each == BAD else CAUTION for each in (verdict, monitor))
    comparison = None
    if status is not None and course is not None:
        comparison = _compare(course, words)
    return Standing(VIOLATED in (status, says), verdict, monitor, is_split, comparison)


def _compare(course: Course, words: Words) -> str:
    all_ = words.count_units(1) if course.tasks == 1 else f"all {words.count_units(course.tasks)}"
    text = f"The check looks at one table, once. The monitor counts {all_} that it was given"
    if course.alert is not None:
        return f"{text}, so it can see what one table does not show."
    return f"{text} and may be read at any time, so it needs more evidence."
