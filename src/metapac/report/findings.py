"""Results on labelled new tasks: charts and tables of errors, sizes, classes and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from metapac._checks import listed
from metapac.assessment.counts import ClassMisses
from metapac.assessment.evaluation import Evaluation, describe_neglected
from metapac.explanation.words import Words
from metapac.report import charts
from metapac.report.data import Example
from metapac.report.drawing import Chart
from metapac.report.examples import has_above, rank_tasks
from metapac.report.numbers import count_within, format_size, format_width
from metapac.report.standing import NOTHING
from metapac.report.task_tables import TaskTable, list_classes, list_examples, list_tasks
from metapac.sentences import format_share, percent

WORST = 10
LISTED = 500  # tasks in the table that can be opened
_PANELS = 4  # classes with a chart of their own
_NAMED = 5  # classes in a sentence
_MOST_FULL = 0.5  # share of lists with every label, above which there is a warning


class Panel(NamedTuple):
    """A chart with the class that it is about.

    Attributes
    ----------
    label : object
        The class; None for all of them together.
    chart : Chart
        The chart.
    caption : str
        How to read it.
    """

    label: Any
    chart: Chart
    caption: str


class Findings(NamedTuple):
    """What labelled new tasks show.

    Attributes
    ----------
    status : str
        The verdict in a word or two.
    verdict : str
        The verdict in full.
    warnings : list of str
        Important warnings.
    summary : str
        How many tasks and examples were there, and what they show.
    errors : list of Panel
        Charts of the miss rates of tasks; with a guarantee per class, of some classes.
    sizes : Chart or None
        Chart of set sizes or widths of the tasks.
    shares : Chart or None
        Chart of empty, single and full sets.
    classes : Chart or None
        Chart of the miss rates of classes.
    class_table : TaskTable or None
        The same in numbers, of the worst classes.
    class_number : int
        Number of classes with examples.
    worst : TaskTable
        The worst tasks.
    order : str
        How they are ordered.
    tasks : TaskTable
        All tasks, or of very many the worst ones.
    number : int
        Number of rows that ``tasks`` would have with all of them.
    examples : TaskTable or None
        Some examples with their sets.
    """

    status: str
    verdict: str
    warnings: list[str]
    summary: str
    errors: list[Panel]
    sizes: Chart | None
    shares: Chart | None
    classes: Chart | None
    class_table: TaskTable | None
    class_number: int
    worst: TaskTable
    order: str
    tasks: TaskTable
    number: int
    examples: TaskTable | None


def find(evaluation: Evaluation, words: Words, examples: Sequence[Example]) -> Findings:
    """Return what labelled new tasks show.

    Parameters
    ----------
    evaluation : Evaluation
        The tasks, compared with the guarantee.
    words : Words
        What tasks and examples are called.
    examples : sequence of Example
        Some examples with their sets.

    Returns
    -------
    Findings
        Charts and tables.
    """
    assert evaluation.verdict is not None
    rows = rank_tasks(evaluation)
    classes = _sort_classes(evaluation)
    return Findings(
        NOTHING if evaluation.verdict.trivial else evaluation.verdict.status,
        evaluation.verdict.sentence(),
        _list_warnings(evaluation, words),
        _summarise(evaluation, words),
        _error_panels(evaluation, words),
        _draw_sizes(evaluation, words),
        _draw_kinds(evaluation, words),
        _draw_classes(evaluation, classes) if classes else None,
        list_classes(classes, words) if classes else None,
        len(classes),
        list_tasks(evaluation, words, rows[:WORST]),
        _explain_order(evaluation, words),
        list_tasks(evaluation, words, rows[:LISTED]),
        len(rows),
        list_examples(examples, words) if examples else None,
    )


def _list_warnings(evaluation: Evaluation, words: Words) -> list[str]:
    harm = describe_neglected(evaluation, words, "A guarantee for each class would.")
    found = [harm[0].upper() + harm[1:]] if harm else []
    shares = evaluation.set_shares
    if shares is not None and shares["full"] > _MOST_FULL:
        found.append(
            f"{format_share(shares['full'])} of the lists hold every label and rule nothing out: a "
            f"person decides on these {words.examples}."
        )
    if evaluation.overlap:
        names = [str(name) for name in evaluation.overlap]
        found.append(
            f"Not counted, because they are not new: {listed(names)}. They have the names of "
            f"{words.units} that were calibrated or trained on, or of pilot {words.units}."
        )
    return found


def _summarise(evaluation: Evaluation, words: Words) -> str:
    tasks, examples = len(evaluation.tasks), int(evaluation.examples.sum())
    text = (
        f"{tasks:,} new {words.unit if tasks == 1 else words.units} with {examples:,} "
        f"{words.examples}. "
    )
    if evaluation.by_class is None:
        mean = format_share(float(np.mean(evaluation.errors)))
        within = count_within(evaluation)
        share = "all" if within == tasks > 1 else f"{within:,}"
        text += (
            f"At {share} of them, at most {percent(evaluation.epsilon)} of the "
            f"{words.examples} were missed; on average over {words.units}, {mean} were."
        )
    else:
        text += f"Missed in each class, over all of them: {_summarise_classes(evaluation)}."
    if evaluation.left_out:
        noun = words.unit if evaluation.left_out == 1 else words.units
        text += (
            f" {evaluation.left_out:,} {noun} with fewer than {evaluation.min_examples} "
            f"{words.examples} left out."
        )
    return text


def _summarise_classes(evaluation: Evaluation) -> str:
    """Return the share missed in each class, the highest first."""
    present = [part for part in evaluation.classes or () if part.examples]
    parts = sorted(present, key=lambda part: (-part.error, str(part.label)))
    shares = [f"{format_share(part.error)} of {part.label}" for part in parts]
    return listed(shares, shown=_NAMED)


def _error_panels(evaluation: Evaluation, words: Words) -> list[Panel]:
    """Draw the errors of all tasks; with a guarantee per class, of the classes missed most."""
    parts: Mapping[Any, Evaluation] = evaluation.by_class or {None: evaluation}
    some = {label: part for label, part in parts.items() if len(part.tasks)}
    chosen = sorted(some, key=lambda label: (some[label].within, str(label)))[:_PANELS]
    return [
        Panel(
            label,
            charts.draw_errors(
                part.missed, part.examples, part.low, part.high, float(part.epsilon), words
            ),
            _explain_errors(len(part.tasks), words),
        )
        for label, part in some.items()
        if label in chosen
    ]


def _explain_errors(tasks: int, words: Words) -> str:
    limit = "The dashed line is what is allowed."
    if tasks > charts.SINGLE:
        return f"{limit} The bars show how many {words.units} have which share."
    return (
        f"{limit} The upright lines are exact 95% intervals (Clopper-Pearson): the fewer "
        f"{words.examples}, the longer. Circles: at most what is allowed. Diamonds: above it, "
        f"perhaps by chance. Triangles: above it with 95% confidence, each {words.unit} alone."
    )


def _explain_order(evaluation: Evaluation, words: Words) -> str:
    """Return how the worst tasks are ordered."""
    if not has_above(evaluation):
        return "By the share missed: none is above what is allowed."
    return (
        "By how unlikely so many misses would be at what is allowed: a high share counts less "
        f"where there are few {words.examples}."
    )


def _draw_sizes(evaluation: Evaluation, words: Words) -> Chart | None:
    values, title = evaluation.sizes, "labels in a list"
    if evaluation.widths is not None:
        values, title = evaluation.widths, "width of the intervals"
    if values is None or not np.all(np.isfinite(values)):
        return None
    show = format_size if evaluation.widths is None else format_width
    label = (
        f"{title.capitalize()}, on average at each of {len(values):,} new {words.units}: from "
        f"{show(values.min())} to {show(values.max())}, and {show(float(np.mean(values)))} over "
        "all of them."
    )
    return charts.draw_values(values, title, words, label)


def _draw_kinds(evaluation: Evaluation, words: Words) -> Chart | None:
    shares = evaluation.set_shares
    if shares is None:
        return None
    named = {
        "no label": shares["empty"],
        "one label": shares["single"],
        "several": max(0.0, 1 - sum(shares.values())),
        "every label": shares["full"],
    }
    if named["several"] < 1e-12:  # of two labels, both are every label
        del named["several"]
    listed_shares = "; ".join(f"{name} {format_share(share)}" for name, share in named.items())
    return charts.draw_shares(
        named, f"Lists of {words.examples} by what they hold: {listed_shares}."
    )


def _sort_classes(evaluation: Evaluation) -> list[ClassMisses]:
    """Return the classes that have examples, the worst first."""
    present = [part for part in evaluation.classes or () if part.examples]
    return sorted(present, key=lambda part: (-part.low, str(part.label)))


def _draw_classes(evaluation: Evaluation, classes: Sequence[ClassMisses]) -> Chart:
    epsilon = evaluation.epsilon
    limits = {
        part.label: float(epsilon[part.label] if isinstance(epsilon, Mapping) else epsilon)
        for part in classes
    }
    first = classes[0]
    label = (
        f"Share missed in each of {len(classes):,} classes, with 95% intervals. The worst is "
        f"{first.label}: {format_share(first.error)}."
    )
    return charts.draw_classes(classes, limits, label)
