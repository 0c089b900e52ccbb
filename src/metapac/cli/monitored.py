"""The standing of a monitor, as ``metapac monitor`` and ``metapac show`` print it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from metapac._checks import listed
from metapac.cli.console import make_cell, make_table, print_line, print_text, stdout
from metapac.explanation.words import Words
from metapac.sentences import percent

if TYPE_CHECKING:
    from metapac.monitoring import Added, Monitor, Step

_SHOWN = 10  # classes or batches in a table, tasks in a line


def summarise_monitor(watched: Monitor, added: Added | None = None) -> dict[str, Any]:
    """Return the standing of a monitor as JSON can hold it.

    Parameters
    ----------
    watched : Monitor
        The monitor.
    added : Added, optional
        The tasks that were passed to it now.

    Returns
    -------
    dict
        The fields, which docs/monitor.md explains.
    """
    steps = [] if added is None else added.steps
    known, overlap, left_out = ([], (), 0) if added is None else added[1:]
    terms, (lower, upper) = watched.terms, watched.interval
    by_class = watched.by_class and [
        {"class": label} | _figures(steps) for label, steps in watched.by_class.items()
    ]
    power = watched.power()
    return {
        "status": watched.status,
        "sentence": watched.sentence(),
        "alarm": None if watched.alarm is None else watched.alarm._asdict(),
        "wealth": watched.wealth,
        "limit": terms.limit,
        "lower": lower,
        "upper": upper,
        "tasks": len(watched.course),
        "violated": sum(step.violated for step in watched.course),
        "epsilon": terms.epsilon,
        "alpha": terms.alpha,
        "delta": terms.delta,
        "false_alarm": terms.false_alarm,
        "min_examples": terms.min_examples,
        "added": [step._asdict() for step in steps],
        "known": known,
        "overlap": [str(name) for name in overlap],
        "left_out": left_out,
        "batches": [
            {"batch": batch} | _figures([s for s in watched.course if s.batch == batch])
            for batch in watched.batches
        ],
        "by_class": by_class,
        "power": None if power is None else power._asdict() | {"can_tell": power.can_tell},
    }


def _figures(steps: list[Step]) -> dict[str, Any]:
    """Return the number of tasks, how many are violated, and what is known after the last."""
    last = {
        name: getattr(steps[-1], name) if steps else None for name in ("wealth", "lower", "upper")
    }
    return {"tasks": len(steps), "violated": sum(step.violated for step in steps)} | last


def print_monitor(watched: Monitor, added: Added | None = None) -> None:
    """Print the standing of a monitor.

    Parameters
    ----------
    watched : Monitor
        The monitor.
    added : Added, optional
        The tasks that were passed to it now.
    """
    words = Words.from_context(watched.terms.context)
    print_text(watched.sentence())
    print_line("")
    if added is not None:
        _print_added(added, words)
    if watched.terms.min_examples > 1:
        least = words.count_examples(watched.terms.min_examples)
        of_class = "" if watched.by_class is None else " of a class"
        print_line(f"Watched: {words.units} with at least {least}{of_class}.")
    _print_violated(watched, words)
    if watched.by_class is not None:
        _print_table("class", watched.by_class, words)
    if len(watched.batches) > 1:
        groups = {b: [s for s in watched.course if s.batch == b] for b in watched.batches}
        _print_table("batch", groups, words)


def _print_violated(watched: Monitor, words: Words) -> None:
    """Name the tasks above epsilon, the worst first: of the latest batch, or all after an alarm."""
    from metapac.monitoring.wording import SHOWN

    steps = watched.course
    if watched.alarm is None:
        steps = [step for step in steps if step.batch == steps[-1].batch]
    violated = [step for step in steps if step.violated]
    if violated:
        violated.sort(key=lambda step: -step.missed / step.examples)
        names = [f"{s.task} ({s.missed} of {s.examples} missed)" for s in violated]
        limit = "the limit of a class" if watched.terms.classes else percent(watched.terms.rates[0])
        print_line(f"Above {limit} {SHOWN.format(words.unit)}: {listed(names, shown=_SHOWN)}.")


def _print_added(added: Added, words: Words) -> None:
    counted = words.count_units(len(added.steps))
    before = f"; {words.count_units(len(added.known))} counted before" if added.known else ""
    small = f"; {words.count_units(added.left_out)} left out, too few {words.examples}"
    print_line(f"{counted} counted{before}{small if added.left_out else ''}.")
    if added.overlap:
        names = listed([*map(str, added.overlap)])
        count = words.count_units(len(added.overlap))
        print_line(
            f"{count} not new (calibrated or trained on, a pilot, or of a known cluster): {names}."
        )


def _print_table(what: str, groups: Any, words: Words) -> None:
    from metapac.monitoring.wording import format_wealth

    right = [words.units, "above epsilon", "wealth", "share above epsilon, if constant"]
    table = make_table([what], right)
    for name, steps in [*groups.items()][-_SHOWN:]:
        figures = _figures(steps)
        if steps:
            known = [format_wealth(figures["wealth"]), _format_share(**figures)]
        else:
            known = ["-", "-"]
        shown = "-" if name is None else name
        table.add_row(make_cell(shown), str(figures["tasks"]), str(figures["violated"]), *known)
    stdout.print(Text(), table, sep="\n")


def _format_share(*, lower: float, upper: float, **_more: object) -> str:
    """Return the bounds of a share; they cross only if it was not constant."""
    return "has changed" if lower > upper else f"{percent(lower)} to {percent(upper)}"
