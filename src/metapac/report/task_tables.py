"""Tables of a report, as text: tasks, classes, and some examples with their sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from metapac._checks import listed
from metapac.assessment.counts import ClassMisses
from metapac.assessment.evaluation import Evaluation
from metapac.explanation.words import Words
from metapac.report.data import Example
from metapac.report.numbers import format_size, format_width
from metapac.sentences import format_share

_SHOWN_CLASSES = 50


class TaskTable(NamedTuple):
    """Rows of tasks, or of tasks and classes, as text.

    Attributes
    ----------
    head : list of str
        Names of the columns; as many as ``names`` and then the numbers.
    names : int
        Number of columns that hold names from the data.
    rows : list of list of str
        The cells.
    """

    head: list[str]
    names: int
    rows: list[list[str]]


def list_classes(classes: Sequence[ClassMisses], words: Words) -> TaskTable:
    """Return the misses of each class, of the worst ones if there are many.

    Parameters
    ----------
    classes : sequence of ClassMisses
        The classes, the worst first.
    words : Words
        What examples are called.

    Returns
    -------
    TaskTable
        A row for each class.
    """
    rows = [
        [
            str(part.label),
            f"{part.missed:,} of {part.examples:,}",
            format_share(part.error),
            f"{format_share(part.low)} to {format_share(part.high)}",
        ]
        for part in classes[:_SHOWN_CLASSES]
    ]
    return TaskTable(["class", f"missed {words.examples}", "share", "95% interval"], 1, rows)


def list_tasks(
    evaluation: Evaluation, words: Words, rows: Sequence[Mapping[str, Any]]
) -> TaskTable:
    """Return the misses of some tasks, and their set sizes or widths if these are known.

    Parameters
    ----------
    evaluation : Evaluation
        Labelled new tasks.
    words : Words
        What tasks are called.
    rows : sequence of mapping
        The tasks, as from ``Evaluation.worst``.

    Returns
    -------
    TaskTable
        A row for each task; with a guarantee per class, for each task and class.
    """
    names = ["task"] if evaluation.by_class is None else ["task", "class"]
    head = [*(words.unit, "class")[: len(names)], "missed", "share", "95% interval"]
    more = {"set_size": "labels in a list", "empty": "empty lists", "width": "width"}
    show = {"set_size": format_size, "empty": "{:,}".format, "width": format_width}
    present = [key for key in more if rows and key in rows[0]]
    cells = [
        [str(row[name]) for name in names]
        + [f"{row['missed']:,} of {row['examples']:,}", format_share(row["error"])]
        + [f"{format_share(row['low'])} to {format_share(row['high'])}"]
        + [show[key](row[key]) for key in present]
        for row in rows
    ]
    return TaskTable(head + [more[key] for key in present], len(names), cells)


def list_examples(examples: Sequence[Example], words: Words) -> TaskTable:
    """Return some examples with their sets or intervals.

    Parameters
    ----------
    examples : sequence of Example
        The examples, at least one.
    words : Words
        What tasks are called.

    Returns
    -------
    TaskTable
        A row for each example.
    """
    if examples[0].interval is not None:
        head = [words.unit, "true number", "interval", ""]
    else:
        head = [words.unit, "right label", "list", ""]
    rows = [
        [str(example.task), _truth(example), _show(example), _outcome(example)]
        for example in examples
    ]
    return TaskTable(head, 3, rows)


def _truth(example: Example) -> str:
    return f"{example.truth:.4g}" if isinstance(example.truth, float) else str(example.truth)


def _show(example: Example) -> str:
    if example.interval is not None:
        return f"{example.interval[0]:.4g} to {example.interval[1]:.4g}"
    return listed(list(example.labels or ()), shown=8) if example.labels else "no label"


def _outcome(example: Example) -> str:
    if not example.is_missed:
        return "contains it"
    return "empty, so it misses" if example.labels == () else "misses it"
