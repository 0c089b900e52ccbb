"""``metapac plan`` and ``metapac explore``: what a guarantee needs, and what your table buys."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings

import click
import numpy as np

import metapac
from metapac import data_checks, exploration, lists, planning
from metapac._common import Progress, as_whole_number, warn
from metapac.artefact import check_replaceable
from metapac.cli import console
from metapac.cli.options import Field, ReadingOptions, parse_delta, parse_number, read_list
from metapac.cli.tables import check_outputs, open_table
from metapac.columns import Columns
from metapac.columns import open_table as open_any
from metapac.context import Context
from metapac.errors import InvalidInput
from metapac.exploration import ALPHAS, EPSILONS, Exploration, Outlook, read_pilot
from metapac.federated import count_liars
from metapac.guarantee import drop_defaults
from metapac.planning import Plan, complete_plan, find_supported, plan_half

if TYPE_CHECKING:
    from metapac.tables.table import Table

# A table with fewer tasks spares none as pilot tasks unless asked, and none spares more than these.
_LEAST_TASKS, _MOST_PILOT = 40, 50
_DECLARED = "shift dishonest sampling randomise"
_COLUMNS = "task label columns classes within id prediction y scale lower upper"


def _parse_sizes(texts: Sequence[str]) -> list[int]:
    words = [word.strip() for text in texts for word in text.split(",")]
    if not all(map(str.isdecimal, words)):
        rule = "whole numbers separated by commas, such as 743,38756"
        raise InvalidInput(f"sizes must be {rule}, got {', '.join(texts)!r}.")
    return [int(word) for word in words]


def plan(
    scores: list[str] | None = None,
    *,
    epsilon: Annotated[str | None, Field("NUMBERS")] = None,
    alpha: Annotated[str | None, Field("NUMBERS")] = None,
    delta: Annotated[str | None, Field("NUMBER|none")] = None,
    per_class: bool = False,
    together: bool = False,
    number_of_classes: int = 1,
    min_examples: int = 0,
    new_tasks: int | None = None,
    list_: Annotated[int | None, Field("NUMBER")] = None,
    shift: float = 0.0,
    dishonest: int = 0,
    sampling: str = "any",
    randomise: int | None = None,
    allow: Sequence[str] = (),
    columns: Annotated[Columns, _COLUMNS],
    pilot: Annotated[str | None, Field("NUMBER|all|TABLE")] = None,
    sizes: Annotated[Sequence[int], Field("NUMBERS", _parse_sizes, multiple=True)] = (),
    tasks: int | None = None,
    examples: int | None = None,
    reading: ReadingOptions,
    output: Path | None = None,
    plot: Path | None = None,
    json: bool = False,
) -> None:
    """Show what your table buys, or a guarantee needs.

    Examples:

        metapac plan --epsilon 0.1 --alpha 0.1 --delta 0.05
        metapac plan --tasks 60
        metapac plan --list 53 --epsilon 0.1 --alpha 0.1 --delta 0.05
        metapac plan scores.parquet --task site
        metapac plan scores.parquet --task site --label y -o pilot.json
        metapac plan scores.parquet --task site --label y --per-class

    With --epsilon, --alpha and --delta: the data that this guarantee needs and, if you describe
    your tasks, whether they support it. With your tasks alone: the guarantees that they support.

    With --label and the scores of all classes, or with --prediction and --y: the sets to expect at
    each pair of levels, and which to choose. For that a few tasks are drawn at random. Only their
    scores are looked at, and they must not be calibrated on: 'metapac calibrate --pilot' leaves
    them out.

    Parameters
    ----------
    scores
        Table with a row for each labelled example. Needs --task.
    epsilon
        Miss rate allowed on a task, such as 0.1. Where scores are looked at, several to compare,
        separated by commas.
    alpha
        Fraction of new tasks that may exceed the miss rate, such as 0.1; or several.
    delta
        Failure probability of the guarantee, over calibration draws, such as 0.05; 'none' for a
        guarantee in expectation.
    per_class
        Plan for a guarantee per class. With a table, its classes are counted, and --label is
        needed; without one, pass --number-of-classes. No score is looked at.
    together
        Plan for one guarantee for all classes of a table, with --label: the examples counted are
        those of the class that a task has fewest of. No score is looked at.
    number_of_classes : NUMBER
        Number of classes, for a guarantee per class; numbers of examples are then those of one.
    min_examples
        Leave out tasks with fewer examples (per class, of the class), as 'metapac calibrate' does.
    new_tasks
        Number of other tasks in a finite list, as for 'metapac calibrate'. Needs the levels.
    list_
        Number of tasks on a finite list: how many of them to draw and label, for a guarantee for
        the others. Needs the levels.
    shift, dishonest, sampling, randomise
        As in 'metapac calibrate'.
    pilot
        Tasks whose scores are looked at: how many to draw, or 'all' of the table, or another table.
        By default a fifth of the tasks, at most 50, if there are 40 or more; 0 for none.
    sizes
        Number of labelled examples of each task, separated by commas; added to those of the table.
    tasks : NUMBER
        Number of tasks, if all have the same size. Alone: how many examples each needs. With
        --pilot all: how many tasks you will calibrate on.
    examples : NUMBER
        Number of labelled examples in each of --tasks. Alone: how many tasks are needed.
    output
        Pilot file to write, for 'metapac calibrate --pilot'. Tasks in a file that it replaces stay
        pilot tasks.
    plot
        Figure to write, a .png, .svg or .pdf file: the data needed against alpha or, where scores
        are looked at, the sets to expect against epsilon.
    """
    check_outputs(None, plot)
    classes = as_whole_number("number_of_classes", number_of_classes)
    has_table, has_truth = scores is not None, columns.is_regression or columns.label is not None
    is_equal = tasks is not None or examples is not None
    by_class = per_class or together
    looks = has_truth and not by_class and pilot != "0"
    n_tasks = tasks if pilot == "all" else None
    is_listed, is_told = list_ is not None, has_table or sizes
    lacks_classes, lacks_count = per_class and columns.label is None, per_class and classes == 1
    explores = output is not None or pilot not in (None, "0")
    for rule, is_broken in {
        "a table and --task go together.": has_table != (columns.task is not None),
        "--label and --prediction name columns of a table.": has_truth and not has_table,
        "--list replaces a table, --sizes, --tasks, --examples, --new-tasks and --plot.": is_listed
        and (is_told or is_equal or new_tasks or plot),
        "--new-tasks needs --pilot 0: pilot tasks are not on the list.": new_tasks and looks,
        "--number-of-classes is for planning without a table.": has_table and classes > 1,
        "--per-class needs --label.": has_table and lacks_classes,
        "--together needs a table and --label.": together and columns.label is None,
        "--together and --per-class are two guarantees: pass one.": together and per_class,
        "--per-class needs --number-of-classes, or a table.": lacks_count and not has_table,
        "--sizes have no classes and no scores.": (by_class or looks) and has_table and sizes,
        "--tasks and --examples replace a table.": is_equal and n_tasks is None and is_told,
        "--pilot and -o need --label, or --prediction and --y.": explores and not looks,
    }.items():
        if is_broken:
            raise InvalidInput(rule)
    levels = {"epsilon": epsilon, "alpha": alpha, "delta": delta}
    given = {name: text for name, text in levels.items() if text is not None}
    more: dict[str, Any] = {"min_examples": min_examples}
    declared = {"shift": shift, "dishonest": dishonest, "sampling": sampling}
    more |= drop_defaults({**declared, "randomise": randomise})
    if scores is not None and looks:
        own = {**more, **_parse_grid(given), "allow": allow, "n_tasks": n_tasks}
        outlook = _look(scores, columns, reading, pilot, output, plot, **own)
        if outlook is not None:
            _show_outlook(outlook, pilot, output, plot, as_json=json)
            return
    known = _count_examples(scores, columns, reading, sizes, allow, by_class=by_class)
    if together:
        known = {None: np.min([*known.values()], axis=0)}
    if tasks is not None and examples is not None:
        size = as_whole_number("examples", examples)
        known = {None: np.full(as_whole_number("tasks", tasks), size)}
    more["classes"] = classes
    if (known or is_equal) and not given and plot is None and new_tasks is None:
        rows, text = find_supported(known, **more) if known else plan_half(tasks, examples, **more)
        hint = _hint_at_scores(looks) if has_table and not by_class else ""
        console.show(rows, as_json=json, text=text + hint)
        return
    _check_levels(given, may_look=scores is not None and looks)
    if list_ is not None:
        divided = metapac.plan_list(list_, **_parse_one(given), **more, allow=allow)
        text = console.make_translator(click.get_current_context())(str(divided))
        console.show(divided, as_json=json, text=text)
        return
    more["new_tasks"] = new_tasks
    found = metapac.plan(**_parse_one(given), **more, sizes=known or None, allow=allow)
    if plot is not None:
        found.plot(plot)
    _show_plan(found, tasks, examples, as_json=json, plot=plot)


def _check_levels(given: dict[str, str], *, may_look: bool) -> None:
    """Raise InvalidInput unless there are all levels, as a plan without scores needs them."""
    if not (
        missing := [f"--{name}" for name in ("epsilon", "alpha", "delta") if name not in given]
    ):
        return
    rule = f"{' and '.join(missing)} must be given, to see what a guarantee needs."
    if may_look:
        rule += " To look at scores of so few tasks, say with --pilot how many to spare."
    text = f"{rule} To see which guarantees your tasks support, pass only these: a table with"
    raise InvalidInput(f"{text} --task, or --sizes, --tasks or --examples.")


def _parse_grid(given: dict[str, str]) -> dict[str, Any]:
    """Return the levels to compare; usual ones where none are given."""
    delta = parse_delta(given["delta"]) if "delta" in given else 0.05
    usual = {"epsilon": EPSILONS, "alpha": ALPHAS}
    chosen = {name: _parse_levels(name, given[name]) for name in usual if name in given}
    return {**usual, **chosen, "delta": delta}


def _parse_one(given: dict[str, str]) -> dict[str, Any]:
    """Return the levels of one guarantee."""
    numbers = {name: parse_number(name, given[name]) for name in ("epsilon", "alpha")}
    return {**numbers, "delta": parse_delta(given["delta"])}


def _count_examples(
    scores: list[str] | None,
    columns: Columns,
    reading: ReadingOptions,
    sizes: Sequence[int],
    allow: Sequence[str],
    *,
    by_class: bool,
) -> dict[Any, Any]:
    """Return the number of examples of each task, by class or of all together."""
    added = np.array(sizes, dtype=np.int64)
    if scores is None:
        return {None: added} if len(added) else {}
    with open_table(scores, reading) as (table, progress):
        progress("counting the examples of each task", 0, None)
        table = table.with_columns(**vars(columns))
        counts = table.sizes(by_class=by_class)
    of_tasks = np.sum([*counts.values()], axis=0)
    tasks, rows = len(of_tasks), int(of_tasks.sum())
    data_checks.report([data_checks.judge_task_column(tasks, rows)], allow)
    return {label: np.append(own, added) for label, own in counts.items()}


def _hint_at_scores(looks: bool) -> str:
    """Return how to see the sets to expect."""
    hint = ". To see the sets to expect, pass --label, or --prediction and --y."
    if looks:
        hint = ": that takes pilot tasks, and these tasks are few. To draw some all the same, say "
        hint += "how many with --pilot."
    return f"\n\nNo score was looked at{hint}"


def _look(
    scores: list[str],
    columns: Columns,
    reading: ReadingOptions,
    pilot: str | None,
    output: Path | None,
    plot: Path | None,
    **options: Any,
) -> Outlook | None:
    """Explore the pilot tasks, and count the examples of the others; None if there are too few."""
    if output is not None:
        check_replaceable(output, exploration.FORMAT)
    with open_table(scores, reading, output) as (table, progress), ExitStack() as stack:
        from metapac.tables.output import check_path

        if plot is not None:
            check_path(table.source, plot, [] if output is None else [output])
        table = table.with_columns(**vars(columns))
        looked, rest = table, None
        if pilot is None or pilot.isdecimal():
            names = table.task_names()
            if pilot is None and len(names) < _LEAST_TASKS:
                return None
            chosen = _draw(names, pilot, output)
            looked, rest = table.take_tasks(chosen), table.take_tasks(chosen, others=True)
        elif pilot != "all":
            other = open_any(pilot, table.columns, table.source.options)
            looked, rest = stack.enter_context(other), table
            apart = Context(pilot=looked.task_names())
            apart.check_calibration_tasks(table.task_names(), options["allow"])
        if rest is not None:
            options["sizes"] = rest.sizes()
            if columns.label is not None:
                options["sizes"] |= rest.sizes(by_class=True)
        variants = _explore_variants(looked, options, progress)
        return Outlook(variants, None if rest is None else options["sizes"][None])


def _explore_variants(
    table: Table, options: dict[str, Any], progress: Progress
) -> dict[str, Exploration]:
    """Explore pilot tasks, and what else their columns and examples may allow."""
    variants = {"": metapac.explore(table, **options, progress=progress)}
    if table.columns.scale is not None:
        plain = table.with_columns(scale=None)
        variants["without scale"] = metapac.explore(plain, **options, progress=progress)
    if "sampling" not in options:
        with catch_warnings(action="ignore"), suppress(InvalidInput):  # labels may be balanced
            iid = metapac.explore(table, **options, sampling="iid", progress=progress)
            if not exploration.look_alike(iid, variants[""]):
                variants["if i.i.d."] = iid
    return variants


def _draw(names: list[Any], pilot: str | None, output: Path | None) -> list[Any]:
    """Return the pilot tasks: those of the file to be replaced, and others drawn at random."""
    number = min(len(names) // 5, _MOST_PILOT) if pilot is None else int(pilot)
    if not 2 <= number < len(names):
        rule = f"pilot must be a number from 2 to below {len(names)}, the number of tasks"
        raise InvalidInput(f"{rule}, got {number}.")
    known = read_pilot(output).tasks if output is not None and output.exists() else ()
    before = {*map(str, known)}
    old = [name for name in names if str(name) in before]
    new = [name for name in names if str(name) not in before]
    return old + lists.sort_by_hash(new, "pilot")[: max(number - len(old), 0)]


def _show_outlook(
    outlook: Outlook, pilot: str | None, output: Path | None, plot: Path | None, *, as_json: bool
) -> None:
    """Write the files of an outlook, and print it with the command to run next."""
    _write_outlook(outlook, output, plot)
    context = click.get_current_context()
    words = _next_command(outlook, context, pilot, output)
    text = console.make_translator(context)(str(outlook))
    if words:
        again = "" if output is not None else " run this again with -o pilot.json, and then"
        text += "\n\n".join(["", f"Next:{again}", " \\\n".join(_fill(words))])
    facts = outlook.to_dict() | {"command": " ".join(words) or None}
    console.show(facts, as_json=as_json, text=text, wrote=[output, plot])


def _write_outlook(outlook: Outlook, output: Path | None, plot: Path | None) -> None:
    if output is not None:
        outlook.main.save(output)
    if plot is not None:
        outlook.main.plot(plot)


def _next_command(
    outlook: Outlook, context: click.Context, pilot: str | None, output: Path | None
) -> list[str]:
    """Return the words of the command that calibrates at the levels recommended."""
    best, delta = outlook.recommended, outlook.main.delta
    if best is None:
        return []
    shared = {*_COLUMNS.split(), "min_examples", *_DECLARED.split()}
    shared |= {field.name for field in fields(ReadingOptions)}
    table = map(shlex.quote, context.params["scores"])
    words = ["metapac calibrate", "TABLE" if pilot == "all" else " ".join(table)]
    for param in context.command.params:
        value = context.params.get(str(param.name))
        if param.name in shared and value not in (None, ()) and str(value) != str(param.default):
            flag = max(param.opts, key=len)
            words.append(flag if value is True else f"{flag} {shlex.quote(str(value))}")
    allowed = context.params["allow"]
    words += [f"--allow {shlex.quote(','.join(allowed))}"] * bool(allowed)
    words += [f"--epsilon {best.epsilon}", f"--alpha {best.alpha}"]
    words += [f"--delta {'none' if delta is None else delta}"]
    words += ["--per-class"] * best.per_class
    return [*words, f"--pilot {shlex.quote(str(output or 'pilot.json'))}", "-o promise.json"]


def _fill(words: Sequence[str], width: int = 72) -> Iterator[str]:
    """Yield lines of a command, to be joined by backslashes."""
    line = f"  {words[0]}"
    for word in words[1:]:
        if len(line) + len(word) >= width:
            yield line
            line = "     "
        line += f" {word}"
    yield line


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
    safer = planning.min_tasks_over_levels(g, [1] * len(g.levels))[0]
    numbers = {"fewest": found.tasks, "safer": safer}
    liars = {name: count_liars(g, count)._asdict() for name, count in numbers.items()}
    facts["dishonest"] = {name: {"tasks": numbers[name], **liars[name]} for name in numbers}
    if tasks is not None and examples is not None:
        best = {split: own.affordable(tasks, examples) for split, own in found.by_split().items()}
        for split, levels in best.items():
            facts[str(split)] |= {f"best_{name}": x for name, x in levels._asdict().items()}
        text += f"\n\nSmallest with your tasks, one at a time: {best['joint']}."
    elif tasks is not None or examples is not None:
        facts["your_tasks"] = complete_plan(found, tasks, examples)
        text = f"{_describe_half(facts['your_tasks'], found.classes)} {text}"
    console.show(facts, as_json=as_json, text=translate(text), wrote=[plot])


def _describe_half(known: dict[str, int | None], classes: int) -> str:
    (number, size), of = known.values(), " of each class" * (classes > 1)
    if None in (number, size):
        return "No such tasks suffice."
    return f"{number} tasks with at least {size} labelled examples{of} each suffice."


def explore(
    scores: list[str],
    *,
    columns: Annotated[Columns, _COLUMNS],
    epsilon: Annotated[str, Field("NUMBERS")] = ".01,.02,.05,.1,.2",
    alpha: Annotated[str, Field("NUMBERS")] = ".05,.1,.2",
    delta: float | None = 0.05,
    tasks: int | None = None,
    min_examples: int = 0,
    shift: float = 0.0,
    dishonest: int = 0,
    sampling: str = "any",
    randomise: int | None = None,
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
    shift, dishonest, sampling, randomise
        As in 'metapac calibrate'.
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
    if columns.label is None and not columns.is_regression:
        rule = "label must name the column with the true label, or prediction and y those of"
        raise InvalidInput(f"{rule} numbers.", parameter=("label", "prediction"))
    grid = {"epsilon": _parse_levels("epsilon", epsilon), "alpha": _parse_levels("alpha", alpha)}
    more: dict[str, Any] = {"min_examples": min_examples, "allow": allow, "delta": delta}
    declared = {"shift": shift, "dishonest": dishonest, "sampling": sampling}
    more |= drop_defaults({**declared, "randomise": randomise})
    more["n_tasks"] = None if tasks is None else as_whole_number("tasks", tasks)
    outlook = _look(scores, columns, reading, "all", output, plot, **grid, **more)
    assert outlook is not None
    _write_outlook(outlook, output, plot)
    text = console.make_translator(click.get_current_context())(str(outlook))
    console.show(outlook.main, as_json=json, text=text, wrote=[output, plot])


def draw(
    names: Path,
    *,
    tasks: int,
    seed: int,
    task: str | None = None,
    output: Path = Path("draw.json"),
    allow: Sequence[str] = (),
    json: bool = False,
) -> None:
    """Draw the tasks of a list to calibrate on.

    Example:

        metapac draw hospitals.csv --tasks 33 --seed 20261201 -o draw.json

    The file says what was drawn, from which list and how, so that anyone can repeat it: the tasks
    with the lowest SHA-256 of SEED/NAME. 'metapac calibrate --draw' then checks that the
    calibration tasks are these; the guarantee is for the others. 'metapac plan --list' says how
    many to draw.

    Parameters
    ----------
    names : LIST
        Table with a row for each task, or text file with a name in each line.
    tasks : NUMBER
        Number of tasks to draw.
    seed : SEED
        Seed of the draw, fixed beforehand and in public. Another draw, after a look at the first,
        breaks the guarantee.
    task
        Column with the names, if the table has several.
    output
        Draw file to write. A file with another draw is not replaced.
    """
    check_replaceable(output, lists.FORMAT)
    as_whole_number("seed", seed, minimum=0)
    found = lists.draw_tasks(read_list(names, task), tasks, rng=seed, allow=allow)
    if output.exists() and output.stat().st_size and lists.read_draw(output) != found:
        text = f"output must not replace another draw, and {output} holds one. A list is drawn from"
        raise InvalidInput(f"{text} once; choose another name.")
    found.save(output)
    console.show(found, as_json=json, wrote=[output], output=str(output))


def _parse_levels(name: str, text: str) -> list[float]:
    return [parse_number(name, word) for word in text.split(",")]
