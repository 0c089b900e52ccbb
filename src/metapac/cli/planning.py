"""``metapac plan`` and ``metapac explore``: what a guarantee needs, and what levels would give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import click
import numpy as np

import metapac
from metapac import exploration
from metapac._common import as_whole_number, warn
from metapac.artefact import check_replaceable
from metapac.cli import console
from metapac.cli.options import Field, ReadingOptions, parse_delta, parse_number
from metapac.cli.tables import check_outputs, open_table
from metapac.columns import Columns
from metapac.errors import InvalidInput
from metapac.federated import count_liars
from metapac.planning import Plan, find_supported, min_tasks_over_levels, plan_half


def _parse_sizes(texts: Sequence[str]) -> list[int]:
    words = [word.strip() for text in texts for word in text.split(",")]
    if not all(map(str.isdecimal, words)):
        rule = "whole numbers separated by commas, such as 743,38756"
        raise InvalidInput(f"sizes must be {rule}, got {', '.join(texts)!r}.", parameter="sizes")
    return [int(word) for word in words]


def plan(
    scores: list[str] | None = None,
    *,
    epsilon: Annotated[float | None, Field("NUMBER")] = None,
    alpha: float | None = None,
    delta: Annotated[str | None, Field("NUMBER|none")] = None,
    per_class: bool = False,
    number_of_classes: int = 1,
    min_examples: int = 0,
    allow: Sequence[str] = (),
    columns: Annotated[Columns, "task label within"],
    sizes: Annotated[Sequence[int], Field("NUMBERS", _parse_sizes, multiple=True)] = (),
    tasks: int | None = None,
    examples: int | None = None,
    reading: ReadingOptions,
    plot: Path | None = None,
    json: bool = False,
) -> None:
    """Show how many tasks and examples you need.

    Examples:

        metapac plan --epsilon 0.1 --alpha 0.1 --delta 0.05
        metapac plan --tasks 60
        metapac plan scores.parquet --task site
        metapac plan scores.parquet --task site --label y --per-class

    With --epsilon, --alpha and --delta: the data that this guarantee needs and, if you describe
    your tasks, whether they support it. With your tasks alone: the guarantees that they support.

    Parameters
    ----------
    scores
        Table with a row for each labelled example, whose tasks are counted. Needs --task.
    epsilon
        Miss rate allowed on a task, such as 0.1.
    alpha
        Fraction of new tasks that may exceed the miss rate, such as 0.1.
    delta
        Failure probability of the guarantee, over calibration draws, such as 0.05; 'none' for a
        guarantee in expectation.
    per_class
        Plan for a guarantee per class. With a table, its classes are counted, and --label is
        needed; without one, pass --number-of-classes.
    number_of_classes : NUMBER
        Number of classes, for a guarantee per class; numbers of examples are then those of one.
    min_examples
        Leave out tasks with fewer examples (per class, of the class), as 'metapac calibrate' does.
    sizes
        Number of labelled examples of each task, separated by commas; added to those of the table.
    tasks : NUMBER
        Number of tasks, if all have the same size. Alone: how many examples each needs.
    examples : NUMBER
        Number of labelled examples in each of --tasks. Alone: how many tasks are needed.
    plot
        Figure to write, a .png, .svg or .pdf file: the data needed against alpha.
    """
    check_outputs(None, plot)
    classes = as_whole_number("number_of_classes", number_of_classes)
    is_equal, has_table = tasks is not None or examples is not None, scores is not None
    by_label, alone = columns.label is not None, per_class and not has_table
    for is_wrong, rule in (
        (has_table != (columns.task is not None), "a table and --task go together."),
        (has_table and classes > 1, "--number-of-classes is for planning without a table."),
        (by_label != (per_class and has_table), "a table, --per-class and --label go together."),
        (alone and classes == 1, "--per-class needs --number-of-classes, or a table with --label."),
        (per_class and has_table and sizes, "--sizes do not say of which class examples are."),
        (is_equal and (has_table or sizes), "--tasks and --examples replace a table and --sizes."),
    ):
        if is_wrong:
            raise InvalidInput(rule)
    known = _count_examples(scores, columns, reading, sizes)
    if tasks is not None and examples is not None:
        size = as_whole_number("examples", examples)
        known = {None: np.full(as_whole_number("tasks", tasks), size)}
    given = {"epsilon": epsilon, "alpha": alpha, "delta": delta}
    levels: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    more: dict[str, Any] = {"classes": classes, "min_examples": min_examples}
    if (known or is_equal) and not levels and plot is None:
        rows, text = find_supported(known, **more) if known else plan_half(tasks, examples, **more)
        console.show(rows, as_json=json, text=text)
        return
    if missing := [f"--{name}" for name in given if name not in levels]:
        raise InvalidInput(
            f"{' and '.join(missing)} must be given, to see what a guarantee needs. To see which "
            "guarantees your tasks support, pass only these: a table with --task, or --sizes, "
            "--tasks or --examples."
        )
    levels["delta"] = parse_delta(levels["delta"])
    found = metapac.plan(**levels, **more, sizes=known or None, allow=allow)
    if plot is not None:
        found.plot(plot)
    _show_plan(found, tasks, examples, as_json=json, plot=plot)


def _count_examples(
    scores: list[str] | None, columns: Columns, reading: ReadingOptions, sizes: Sequence[int]
) -> dict[Any, Any]:
    """Return the number of examples of each task, by class if there is a label column."""
    added = np.array(sizes, dtype=np.int64)
    if scores is None:
        return {None: added} if len(added) else {}
    with open_table(scores, reading) as (table, progress):
        progress("counting the examples of each task", 0, None)
        table = table.with_columns(**vars(columns))
        counts = table.sizes(by_class=columns.label is not None)
    return {label: np.append(own, added) for label, own in counts.items()}


def _show_plan(
    found: Plan, tasks: int | None, examples: int | None, *, as_json: bool, plot: Path | None
) -> None:
    """Print a plan, what would help, and what is known of tasks that all have the same size."""
    text, facts, g = str(found), found.to_dict(), found.guarantee
    translate = console.make_translator(click.get_current_context())
    if found.sizes and as_json:
        facts["ways_out"] = translate(found.explain()) or None
    elif remedies := found.remedies():
        text += "\n\n" + "\n- ".join(["Any of these would help:", *remedies])
    safer = min_tasks_over_levels(g, [1] * len(g.levels))[0]
    facts["dishonest"] = {
        name: {"tasks": count, **count_liars(g, count)._asdict()}
        for name, count in (("fewest", found.tasks), ("safer", safer))
    }
    if tasks is not None and examples is not None:
        best = {split: own.affordable(tasks, examples) for split, own in found.by_split().items()}
        for split, levels in best.items():
            facts[str(split)] |= {f"best_{name}": x for name, x in levels._asdict().items()}
        text += f"\n\nSmallest with your tasks, one at a time: {best['joint']}."
    elif tasks is not None or examples is not None:
        facts["your_tasks"] = found.complete(tasks, examples)
        text = f"{_describe_half(facts['your_tasks'], found.classes)} {text}"
    console.show(facts, as_json=as_json, text=translate(text), wrote=[plot])


def _describe_half(known: dict[str, int | None], classes: int) -> str:
    if None in known.values():
        return "No such tasks suffice."
    number, size = known.values()
    of = " of each class" * (classes > 1)
    return f"{number} tasks with at least {size} labelled examples{of} each suffice."


def explore(
    scores: list[str],
    *,
    columns: Annotated[Columns, "task label columns classes within id"],
    epsilon: Annotated[str, Field("NUMBERS")] = ".01,.02,.05,.1,.2",
    alpha: Annotated[str, Field("NUMBERS")] = ".05,.1,.2",
    delta: float | None = 0.05,
    tasks: int | None = None,
    min_examples: int = 0,
    per_class: bool = False,
    allow: Sequence[str] = (),
    reading: ReadingOptions,
    output: Path | None = None,
    plot: Path | None = None,
    json: bool = False,
) -> None:
    """Try levels on pilot tasks, before calibration.

    Example:

        metapac explore pilot.parquet --task site --label y -o pilot.json

    For each epsilon and alpha: the set size, the share of empty and of full sets, and how many
    examples of each class are missed. First with one threshold for all classes, then with one per
    class, as 'metapac calibrate --per-class' gives.

    Pilot tasks must not be calibrated on afterwards; 'metapac calibrate --pilot' checks that.

    Parameters
    ----------
    epsilon
        Miss rates to try, separated by commas.
    alpha
        Fractions of new tasks that may exceed the miss rate, separated by commas.
    delta
        Failure probability of the guarantee; 'none' for a guarantee in expectation.
    tasks : NUMBER
        Number of calibration tasks that you will have. By default as many as pilot tasks or, if
        those are too few, the smallest number that works.
    min_examples
        Leave out tasks with fewer examples (with a threshold per class, of the class), as 'metapac
        calibrate' does.
    per_class
        Changes nothing: both are always shown.
    output
        Pilot file to write, for 'metapac calibrate --pilot'.
    plot
        Figure to write, a .png, .svg or .pdf file: set size and misses against epsilon.
    """
    if per_class:
        warn("--per-class changes nothing here: explore always shows both.")
    check_outputs(None, plot)
    if output is not None:
        check_replaceable(output, exploration.FORMAT)
    if columns.label is None:
        raise InvalidInput("label must name the column with the true label.", parameter="label")
    n_tasks = None if tasks is None else as_whole_number("tasks", tasks)
    with open_table(scores, reading, output) as (table, progress):
        from metapac.tables.output import check_path

        if plot is not None:
            check_path(table.source, plot, [] if output is None else [output])
        result = metapac.explore(
            table.with_columns(**vars(columns)),
            epsilon=_parse_levels("epsilon", epsilon),
            alpha=_parse_levels("alpha", alpha),
            delta=delta,
            n_tasks=n_tasks,
            min_examples=min_examples,
            allow=allow,
            progress=progress,
        )
    if output is not None:
        result.save(output)
    if plot is not None:
        result.plot(plot)
    console.show(result, as_json=json, wrote=[output, plot])


def _parse_levels(name: str, text: str) -> list[float]:
    return [parse_number(name, word) for word in text.split(",")]
