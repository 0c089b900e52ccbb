"""What the new tasks showed: key figures, tables of tasks, examples, the course of a monitor."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from metapac._common import listed
from metapac.betting import Step
from metapac.evaluation import ClassMisses, Evaluation, describe_neglected
from metapac.grouping import Row
from metapac.guarantee import format_share, percent
from metapac.monitoring import Monitor
from metapac.predictors import PS, MetaPS
from metapac.report.charts import (
    SINGLE,
    Chart,
    draw_classes,
    draw_course,
    draw_errors,
    draw_shares,
    draw_values,
)
from metapac.report.data import count_within, format_size, format_width, is_missed, kind_of_set
from metapac.verdict import HOLDS, UNDECIDED, VIOLATED
from metapac.words import Words, round_down

_KINDS = ("missed", "empty", "single", "several", "full", "hit")


def rank_tasks(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the rows of all tasks, the worst first."""
    rows = evaluation.worst(len(evaluation.tasks) * max(1, len(evaluation.by_class or ())))
    if has_above(evaluation):
        return rows
    return sorted(rows, key=lambda row: -row["error"])


def has_above(evaluation: Evaluation) -> bool:
    """Return whether the share missed is above epsilon at any task, and in any class of it."""
    parts: Mapping[Any, Evaluation] = evaluation.by_class or {None: evaluation}
    return any(bool((part.errors > part.epsilon).any()) for part in parts.values())


def choose_tasks(evaluation: Evaluation, number: int = 3) -> list[Any]:
    """Return tasks from the worst to the best, evenly spaced."""
    tasks = [*dict.fromkeys(row["task"] for row in rank_tasks(evaluation))]
    count = min(number, len(tasks))
    if count < 2:
        return tasks[:count]
    return [tasks[round(i * (len(tasks) - 1) / (count - 1))] for i in range(count)]


def pick_examples(examples: Sequence[Row], tasks: Sequence[Any], number: int) -> list[Row]:
    """Return a few examples of each task, with sets of as many kinds and classes as fit."""
    chosen: list[Row] = []
    seen: Counter[Any] = Counter()  # how often a kind, and a kind and class, was chosen
    for index, task in enumerate(tasks):
        share = (number - len(chosen)) // (len(tasks) - index)
        own = [example for example in examples if str(example.task) == str(task)]
        chosen += sorted(_pick(own, share, seen), key=lambda row: _KINDS.index(kind_of_set(row)))
    return chosen


def _pick(examples: Sequence[Row], number: int, seen: Counter[Any]) -> list[Row]:
    """Return a few examples, always of the kind, and then of the class, shown least so far."""
    queues: dict[tuple[str, str], list[Row]] = {}
    for row in reversed(examples):
        name = "" if row.interval is not None else str(row.truth)
        queues.setdefault((kind_of_set(row), name), []).append(row)
    picked: list[Row] = []
    here: Counter[str] = Counter()
    while queues and len(picked) < number:
        key = min(
            queues,
            key=lambda k: (here[k[0]], seen[k[0]], seen[k], _KINDS.index(k[0]), k[1]),
        )
        picked.append(queues[key].pop())
        here[key[0]] += 1
        seen.update([key[0], key])
        if not queues[key]:
            del queues[key]
    return picked


_SHOWN_CLASSES = 50


class TaskTable(NamedTuple):
    """Rows of tasks, or of tasks and classes, as text."""

    head: list[str]
    names: int
    rows: list[list[str]]


def list_classes(classes: Sequence[ClassMisses], words: Words) -> TaskTable:
    """Return the misses of each class, of the worst ones if there are many."""
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
    """Return the misses of some tasks, and their set sizes or widths if these are known."""
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


def list_examples(examples: Sequence[Row], words: Words) -> TaskTable:
    """Return some examples with their sets or intervals."""
    if examples[0].interval is not None:
        head = [words.unit, "true number", "interval", ""]
    else:
        head = [words.unit, "right label", "list", ""]
    rows = [
        [str(example.task), _truth(example), _show(example), _outcome(example)]
        for example in examples
    ]
    return TaskTable(head, 3, rows)


def _truth(example: Row) -> str:
    return f"{example.truth:.4g}" if isinstance(example.truth, float) else str(example.truth)


def _show(example: Row) -> str:
    if example.interval is not None:
        return f"{example.interval[0]:.4g} to {example.interval[1]:.4g}"
    return listed(list(example.labels or ()), shown=8) if example.labels else "no label"


def _outcome(example: Row) -> str:
    if not is_missed(example):
        return "contains it"
    return "empty, so it misses" if example.labels == () else "misses it"


_BATCHES = 24  # the latest ones are listed


class Course(NamedTuple):
    """What a monitor saw."""

    status: str
    alert: str | None
    tasks: int
    sentence: str
    chart: Chart
    rows: list[list[str]]
    left_out: int


def read_course(monitor: Monitor, words: Words) -> Course | None:
    """Return the course of a monitor."""
    steps, terms = monitor.course, monitor.terms
    if not steps:
        return None
    wealth, low, high = (
        np.array([getattr(step, name) for step in steps], dtype=np.float64)
        for name in ("wealth", "lower", "upper")
    )
    sentence = monitor.sentence()
    chart = draw_course(
        wealth, low, high, alarm=terms.limit, alpha=terms.alpha, unit=words.units, label=sentence
    )
    batches = _group(steps)
    rows = [_row(name, part) for name, part in batches[-_BATCHES:]]
    left_out = max(0, len(batches) - _BATCHES)
    alert = _describe_alarm(monitor, words)
    return Course(monitor.status, alert, len(steps), sentence, chart, rows, left_out)


def _describe_alarm(monitor: Monitor, words: Words) -> str | None:
    alarm = monitor.alarm
    if alarm is None:
        return None
    count = words.count_units(monitor.course.index(alarm) + 1)
    batch = "" if alarm.batch is None else f" ({alarm.batch})"
    return f"Monitor: alarm after {count}{batch}. This guarantee can no longer be relied on."


def _group(steps: Sequence[Step]) -> list[tuple[str, list[Step]]]:
    """Return the steps of each batch, in the order of the monitor."""
    groups: dict[str, list[Step]] = {}
    for step in steps:
        groups.setdefault(step.batch or "-", []).append(step)
    return [*groups.items()]


def _row(name: str, steps: Sequence[Step]) -> list[str]:
    missed, examples = (sum(getattr(s, key) for s in steps) for key in ("missed", "examples"))
    return [
        name,
        f"{len(steps):,}",
        f"{missed:,} of {examples:,}",
        format_share(missed / examples) if examples else "-",
        f"{sum(bool(step.violated) for step in steps):,}",
        f"{steps[-1].wealth:.3g}",
    ]


NOTHING = "nothing to check"  # the guarantee holds trivially

GOOD, QUIET, CAUTION, BAD = "", "is-quiet", "is-caution", "is-violated"


class Standing(NamedTuple):
    """Whether a guarantee can still be relied on, and how its results are coloured."""

    is_broken: bool
    verdict: str
    monitor: str
    is_split: bool
    comparison: str | None


def find_standing(status: str | None, course: Course | None, words: Words) -> Standing:
    """Return where a guarantee stands."""
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


_ALL_LABELS = ("all labels", "are in every list")


class Figure(NamedTuple):
    """A number to see first, and what it is."""

    value: str
    caption: str


def find_figures(
    promise: Any, words: Words, evaluation: Evaluation | None, course: Course | None
) -> list[Figure]:
    """Return the numbers to see first."""
    figures = [_basis(promise, words)]
    if isinstance(promise, MetaPS | PS) and promise.classes_ is None:
        figures.append(_cut(promise.threshold_, promise.columns_ or {}))
    elif isinstance(promise, MetaPS):
        figures.append(Figure(f"{len(promise.classes_ or ()):,}", "classes, each with a threshold"))
    if evaluation is not None:
        figures += _measured(evaluation, words)
    if course is not None and course.alert is None:
        count = words.count_units(course.tasks)
        figures.append(Figure("no alarm", f"from the monitor, after {count}"))
    return figures


def _cut(threshold: float, columns: Mapping[str, Any]) -> Figure:
    """Return the score that a label needs, or how far an interval reaches."""
    is_interval = "prediction" in columns
    if threshold == -math.inf:
        return Figure(*(("all numbers", "are in every interval") if is_interval else _ALL_LABELS))
    if not is_interval:
        return Figure(round_down(threshold), "score that a label needs (rounded down)")
    times = "times its scale, " if "scale" in columns else ""
    radius = round_down(threshold).removeprefix("-")
    return Figure(f"± {radius}", f"{times}around the predicted number (rounded up)")


def _basis(promise: Any, words: Words) -> Figure:
    """Return what was calibrated on."""
    if isinstance(promise, PS):
        return Figure(f"{promise.n_examples_:,}", f"{words.examples} calibrated on")
    number = len(promise.tasks_)
    return Figure(f"{number:,}", f"{words.unit if number == 1 else words.units} calibrated on")


def _measured(evaluation: Evaluation, words: Words) -> list[Figure]:
    """Return how the guarantee fares on new tasks."""
    figures = [_find_share_within(evaluation, words)]
    if evaluation.sizes is not None:
        size = format_size(float(np.mean(evaluation.sizes)))
        figures.append(Figure(size, f"labels in a list, mean over {words.units}"))
    if evaluation.set_shares is not None:
        empty, full = (format_share(evaluation.set_shares[kind]) for kind in ("empty", "full"))
        figures.append(Figure(empty, "lists without a label"))
        figures.append(Figure(full, "lists with every label: a person decides"))
    if evaluation.widths is not None:
        width = format_width(float(np.mean(evaluation.widths)))
        figures.append(Figure(width, f"mean width of the intervals over {words.units}"))
    return figures


def _find_share_within(evaluation: Evaluation, words: Words) -> Figure:
    """Return on how many new tasks the miss rate is at most what is allowed."""
    if evaluation.by_class is None:
        return Figure(
            f"{count_within(evaluation):,} of {len(evaluation.tasks):,}",
            f"new {words.units} with at most {percent(evaluation.epsilon)} missed",
        )
    return Figure(
        format_share(evaluation.within),
        f"of the new {words.units} within the limit, in the worst class",
    )


WORST = 10
LISTED = 500  # tasks in the table that can be opened
_PANELS = 4  # classes with a chart of their own
_NAMED = 5  # classes in a sentence
_MOST_FULL = 0.5  # share of lists with every label, above which there is a warning


class Panel(NamedTuple):
    """A chart with the class that it is about."""

    label: Any
    chart: Chart
    caption: str


class Findings(NamedTuple):
    """What labelled new tasks show."""

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


def find_findings(evaluation: Evaluation, words: Words, examples: Sequence[Row]) -> Findings:
    """Return what labelled new tasks show."""
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
            draw_errors(
                part.missed, part.examples, part.low, part.high, float(part.epsilon), words
            ),
            _explain_errors(len(part.tasks), words),
        )
        for label, part in some.items()
        if label in chosen
    ]


def _explain_errors(tasks: int, words: Words) -> str:
    limit = "The dashed line is what is allowed."
    if tasks > SINGLE:
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
    return draw_values(values, title, words, label)


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
    return draw_shares(named, f"Lists of {words.examples} by what they hold: {listed_shares}.")


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
    return draw_classes(classes, limits, label)
